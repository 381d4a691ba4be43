/* qmatmul.c -- MatMulInteger, QLinearMatMul.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant/qgemm.h"

#include "ops/expect.h"
#include "ops/quant/quant.h"

/* Where the inputs are. */
typedef struct {
    int a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero; /* -1: the operator has none */
} places;

static const places *places_of(cm_op_id id)
{
    static const places integer = {0, -1, 2, 1, -1, 3, -1, -1};
    static const places linear = {0, 1, 2, 3, 4, 5, 6, 7};
    return id == CM_OP_QLINEAR_MATMUL ? &linear : &integer;
}

static cm_status infer(cm_infer *f)
{
    const places *at = places_of(f->op->id);
    CM_TRY(cm_qparam_check(f, at->a_zero, "a_zero_point", at->a, false));
    CM_TRY(cm_qparam_check(f, at->b_zero, "b_zero_point", at->b, true));
    if (at->y_scale >= 0) {
        CM_TRY(cm_qparam_check(f, at->a_scale, "a_scale", at->a, false));
        CM_TRY(cm_qparam_check(f, at->b_scale, "b_scale", at->b, true));
        CM_TRY(cm_expect_one(f, at->y_scale, "y_scale"));
        CM_TRY(cm_expect_one(f, at->y_zero, "y_zero_point"));
    }
    return cm_batch_matmul_infer(f, 0, at->a, at->b, NULL);
}

static cm_status eval(cm_eval *e)
{
    const places *at = places_of(e->op->id);
    const cm_tensor *a = cm_eval_in(e, at->a), *b = cm_eval_in(e, at->b);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_qgemm g = {.a = {.dtype = a->dtype, .data = a->data},
                  .b = {.dtype = b->dtype, .data = b->data},
                  .mode = CM_QGEMM_SUMS,
                  .alpha = 1,
                  .y_dtype = y->dtype,
                  .y = y->data};
    CM_TRY(cm_batch_matmul_read(e, a, b, NULL, &g.shape));
    CM_TRY(cm_qparam_read(e, at->a_zero, a, false, &g.a.zero));
    CM_TRY(cm_qparam_read(e, at->b_zero, b, true, &g.b.zero));
    if (at->y_scale >= 0) {
        g.mode = CM_QGEMM_QUANTIZED;
        CM_TRY(cm_qparam_read(e, at->a_scale, a, false, &g.a.scale));
        CM_TRY(cm_qparam_read(e, at->b_scale, b, true, &g.b.scale));
        g.y_scale = cm_eval_f64(e, at->y_scale, 0);
        g.y_zero = cm_eval_f64(e, at->y_zero, 0);
    }
    return cm_qgemm_run(e, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const places *at = places_of(f->op->id);
    if (cm_expect_known(f, at->a) && cm_infer_rank(f, at->a) > 0)
        c->ops = 2 * cm_infer_volume(f, &f->out[0].type) *
                 cm_infer_extent(f, cm_infer_dim(f, at->a, cm_infer_rank(f, at->a) - 1));
}

const cm_family cm_family_qmatmul = {.name = "qmatmul", .infer = infer, .eval = eval, .cost = cost};
