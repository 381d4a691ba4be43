/* ms_qmatmul.c -- com.microsoft products of quantised matrices: MatMulInteger16,
 * MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant/qgemm.h"

#include "ops/expect.h"
#include "ops/quant/quant.h"

typedef struct {
    uint64_t present;
    float alpha;
    int64_t transA, transB;
} qgemm_attr;

CM_ATTRS(ms_qgemm, qgemm_attr, CM_ATTR_FLOAT(qgemm_attr, alpha, 1),
         CM_ATTR_INT(qgemm_attr, transA, 0), CM_ATTR_INT(qgemm_attr, transB, 0))

/* Where the inputs are; -1: none. */
typedef struct {
    int a, b, a_scale, a_zero, b_scale, b_zero, bias, c, y_scale, y_zero;
} places;

static const places *places_of(cm_op_id id)
{
    static const places integer16 = {0, 1, -1, -1, -1, -1, -1, -1, -1, -1};
    static const places to_float = {0, 1, 2, 4, 3, 5, 6, -1, -1, -1};
    static const places dynamic = {0, 1, -1, -1, 2, 3, 4, -1, -1, -1};
    static const places gemm = {0, 3, 1, 2, 4, 5, -1, 6, 7, 8};
    return id == CM_OP_MS_MATMUL_INTEGER16          ? &integer16
           : id == CM_OP_MS_MATMUL_INTEGER_TO_FLOAT ? &to_float
           : id == CM_OP_MS_DYNAMIC_QUANTIZE_MATMUL ? &dynamic
                                                    : &gemm;
}

static cm_batch_matmul_form form_of(cm_op_id id, const void *attr)
{
    const qgemm_attr *a = attr;
    if (id != CM_OP_MS_QGEMM)
        return (cm_batch_matmul_form){0};
    return (cm_batch_matmul_form){.trans_a = a->transA != 0, .trans_b = a->transB != 0};
}

/* A scale of B may be longer than a product of one column: the column is repeated then, as in a product with
 * that scale by Mul. */
static cm_status widen_by_scale(cm_infer *f, int p)
{
    cm_type *y = &f->out[0].type;
    if (!cm_expect_known(f, p) || cm_infer_rank(f, p) < 1)
        return CM_OK;
    int rank = 1;
    cm_dim d = cm_infer_dim(f, p, cm_infer_rank(f, p) - 1);
    return cm_broadcast_dims(f, &rank, &y->dims[y->rank - 1], 1, &d);
}

/* One element, or one per column of the product. */
static cm_status check_column(cm_infer *f, int p, const char *name, cm_dim n)
{
    if (p < 0 || !cm_expect_known(f, p))
        return CM_OK;
    int rank = cm_infer_rank(f, p);
    if (rank == 0 || (rank == 1 && cm_infer_dim(f, p, 0) == 1))
        return CM_OK;
    for (int d = 0; d < rank - 1; d++)
        CM_TRY(cm_infer_equal(f, name, cm_infer_dim(f, p, d), 1));
    return n == CM_DIM_ERROR ? CM_OK : cm_infer_equal(f, name, cm_infer_dim(f, p, rank - 1), n);
}

static cm_status check_gemm(cm_infer *f, const places *at)
{
    CM_TRY(cm_expect_rank(f, at->a, "A", 2, 2));
    CM_TRY(cm_expect_rank(f, at->b, "B", 2, 2));
    CM_TRY(cm_expect_one(f, at->y_scale, "y_scale"));
    CM_TRY(cm_expect_one(f, at->y_zero, "y_zero_point"));
    CM_TRY(cm_expect_rank(f, at->c, "C", 0, 2));
    if (!cm_expect_known(f, at->c) || f->out[0].type.rank != 2)
        return CM_OK;
    int rank = cm_infer_rank(f, at->c);
    for (int d = 0; d < rank; d++)
        if (cm_infer_dim(f, at->c, d) != 1)
            CM_TRY(cm_infer_equal(f, "C", cm_infer_dim(f, at->c, d),
                                  f->out[0].type.dims[2 - rank + d]));
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const places *at = places_of(f->op->id);
    cm_batch_matmul_form form = form_of(f->op->id, f->attr);
    CM_TRY(cm_batch_matmul_infer(f, 0, at->a, at->b, &form));
    int rank = f->out[0].type.rank;
    cm_dim n =
        rank > 0 && cm_infer_rank(f, at->b) > 1 ? f->out[0].type.dims[rank - 1] : CM_DIM_ERROR;
    CM_TRY(check_column(f, at->b_zero, "b_zero_point", n));
    if (n != CM_DIM_ERROR && at->b_scale >= 0 && f->op->id != CM_OP_MS_QGEMM) {
        CM_TRY(widen_by_scale(f, at->b_scale));
        n = f->out[0].type.dims[rank - 1];
    }
    CM_TRY(check_column(f, at->b_scale, "b_scale", n));
    if (at->a_scale >= 0)
        CM_TRY(cm_expect_one(f, at->a_scale, "a_scale"));
    if (at->a_zero >= 0)
        CM_TRY(cm_expect_one(f, at->a_zero, "a_zero_point"));
    if (at->bias >= 0 && n != CM_DIM_ERROR)
        CM_TRY(cm_expect_shape(f, at->bias, "bias", 1, &n));
    if (f->op->id == CM_OP_MS_MATMUL_INTEGER16)
        f->out[0].type.dtype =
            f->in[0].type->dtype == CM_U16 && f->in[1].type->dtype == CM_U16 ? CM_U32 : CM_I32;
    if (f->op->id != CM_OP_MS_QGEMM)
        return CM_OK;
    f->out[0].type.dtype = cm_infer_has(f, at->y_zero) ? f->in[at->y_zero].type->dtype : CM_F32;
    return check_gemm(f, at);
}

static cm_status column_param(cm_eval *e, int p, cm_qparam *out)
{
    *out = (cm_qparam){0};
    if (p < 0 || !cm_eval_has(e, p))
        return CM_OK;
    CM_TRY(cm_eval_as_f64(e, p, &out->v));
    out->by_line = cm_tensor_elems(cm_eval_in(e, p)) == 1 ? 0 : 1;
    return CM_OK;
}

/* A quantised to u8 as DynamicQuantizeLinear does. */
static cm_status quantise(cm_eval *e, cm_qoperand *a, double *params)
{
    int64_t n = cm_tensor_elems(cm_eval_in(e, 0));
    const double *x;
    float scale;
    int32_t zero;
    void *q;
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    CM_TRY(cm_eval_scratch(e, (size_t)n, 1, &q));
    cm_quant_dynamic(x, n, &scale, &zero);
    cm_quant_store(CM_U8, x, n, scale, zero, q);
    params[0] = scale;
    params[1] = zero;
    *a = (cm_qoperand){
        .dtype = CM_U8, .data = q, .zero = {.v = &params[1]}, .scale = {.v = &params[0]}};
    return CM_OK;
}

static cm_status read_sums(cm_eval *e, const places *at, cm_qgemm *g)
{
    if (at->c < 0 || !cm_eval_has(e, at->c))
        return CM_OK;
    const cm_tensor *c = cm_eval_in(e, at->c);
    g->sums_col = c->rank > 0 && c->dims[c->rank - 1] != 1;
    g->sums_row = c->rank > 1 && c->dims[0] != 1 ? c->dims[1] : 0;
    return cm_eval_as_i64(e, at->c, &g->sums);
}

static cm_status eval(cm_eval *e)
{
    const places *at = places_of(e->op->id);
    const cm_tensor *a = cm_eval_in(e, at->a), *b = cm_eval_in(e, at->b);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_batch_matmul_form form = form_of(e->op->id, e->attr);
    double params[2];
    cm_qgemm g = {.a = {.dtype = a->dtype, .data = a->data},
                  .b = {.dtype = b->dtype, .data = b->data},
                  .mode = CM_QGEMM_REAL,
                  .alpha = 1,
                  .y_scale = 1,
                  .y_dtype = y->dtype,
                  .y = y->data};
    CM_TRY(cm_batch_matmul_read(e, a, b, &form, &g.shape));
    if (b->rank > 1 && y->dims[y->rank - 1] != g.shape.n) { /* one column, repeated */
        g.shape.n = y->dims[y->rank - 1];
        g.shape.b.col = 0;
    }
    if (e->op->id == CM_OP_MS_MATMUL_INTEGER16)
        g.mode = CM_QGEMM_SUMS;
    if (e->op->id == CM_OP_MS_DYNAMIC_QUANTIZE_MATMUL)
        CM_TRY(quantise(e, &g.a, params));
    else {
        CM_TRY(column_param(e, at->a_scale, &g.a.scale));
        CM_TRY(column_param(e, at->a_zero, &g.a.zero));
    }
    CM_TRY(column_param(e, at->b_scale, &g.b.scale));
    CM_TRY(column_param(e, at->b_zero, &g.b.zero));
    if (at->bias >= 0 && cm_eval_has(e, at->bias))
        CM_TRY(cm_eval_as_f64(e, at->bias, &g.bias));
    if (e->op->id == CM_OP_MS_QGEMM) {
        g.alpha = ((const qgemm_attr *)e->attr)->alpha;
        CM_TRY(read_sums(e, at, &g));
        if (y->dtype != CM_F32) {
            g.mode = CM_QGEMM_QUANTIZED;
            g.y_zero = cm_eval_f64(e, at->y_zero, 0);
        }
        if (cm_eval_has(e, at->y_scale))
            g.y_scale = cm_eval_f64(e, at->y_scale, 0);
    }
    return cm_qgemm_run(e, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    if (cm_expect_known(f, 0) && cm_infer_rank(f, 0) > 0)
        c->ops = 2 * cm_infer_volume(f, &f->out[0].type) *
                 cm_infer_extent(f, cm_infer_dim(f, 0, cm_infer_rank(f, 0) - 1));
}

const cm_family cm_family_ms_qmatmul = {
    .name = "ms_qmatmul", .infer = infer, .eval = eval, .cost = cost};
