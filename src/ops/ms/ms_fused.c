/* ms_fused.c -- com.microsoft matrix products with a factor and an activation: FusedMatMul,
 * TransposeMatMul, FusedMatMulActivation, GemmFastGelu, FusedGemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/delegate.h"

#include "ops/pointwise/activation.h"
#include "ops/linear/batch_matmul.h"
#include "ops/expect.h"
#include "ops/linear/gemm.h"

typedef struct {
    uint64_t present;
    float alpha, beta, activation_alpha, activation_beta, activation_gamma;
    int64_t transA, transB, transBatchA, transBatchB, activation_axis;
    cm_str activation;
} fused_attr;

enum { HAS_ALPHA = 1, HAS_BETA = 2 }; /* of the activation: fields 0 and 1 of each descriptor */

#define ACTIVATION                                                                                 \
    CM_ATTR_FLOAT(fused_attr, activation_alpha, 0), CM_ATTR_FLOAT(fused_attr, activation_beta, 0), \
        CM_ATTR_FLOAT(fused_attr, activation_gamma, 0)
#define PRODUCT                                                                                    \
    CM_ATTR_FLOAT(fused_attr, alpha, 1), CM_ATTR_INT(fused_attr, transA, 0),                       \
        CM_ATTR_INT(fused_attr, transB, 0)
#define BATCHES CM_ATTR_INT(fused_attr, transBatchA, 0), CM_ATTR_INT(fused_attr, transBatchB, 0)

CM_ATTRS(ms_transpose_matmul, fused_attr, PRODUCT)
CM_ATTRS(ms_fused_matmul, fused_attr, PRODUCT, BATCHES)
CM_ATTRS(ms_fused_matmul_activation, fused_attr, ACTIVATION, PRODUCT, BATCHES,
         CM_ATTR_STR_REQUIRED(fused_attr, activation), CM_ATTR_INT(fused_attr, activation_axis, 0))
CM_ATTRS(ms_fused_gemm, fused_attr, ACTIVATION, PRODUCT, CM_ATTR_FLOAT(fused_attr, beta, 1),
         CM_ATTR_STR(fused_attr, activation, ""))

static cm_status find_activation(cm_ctx *cx, cm_op_id id, const fused_attr *a, cm_activation *out)
{
    cm_str none = {0};
    if (id == CM_OP_MS_GEMM_FAST_GELU)
        return cm_activation_find(cx, cm_str_of("FastGelu"), out);
    if (id != CM_OP_MS_FUSED_MATMUL_ACTIVATION && id != CM_OP_MS_FUSED_GEMM)
        return cm_activation_find(cx, none, out);
    CM_TRY(cm_activation_find(cx, a->activation, out));
    if (a->present & HAS_ALPHA)
        out->alpha = a->activation_alpha;
    if (a->present & HAS_BETA)
        out->beta = a->activation_beta;
    return CM_OK;
}

static cm_batch_matmul_form form_of(cm_op_id id, const fused_attr *a)
{
    if (id == CM_OP_MS_GEMM_FAST_GELU)
        return (cm_batch_matmul_form){0};
    return (cm_batch_matmul_form){a->transA != 0, a->transB != 0, a->transBatchA != 0,
                                  a->transBatchB != 0};
}

static cm_status gemm_attr(cm_ctx *cx, const fused_attr *a, void **out)
{
    CM_TRY(cm_delegate_attr(cx, CM_OP_GEMM, out));
    cm_delegate_set(CM_OP_GEMM, *out, "alpha", &a->alpha);
    cm_delegate_set(CM_OP_GEMM, *out, "beta", &a->beta);
    cm_delegate_set(CM_OP_GEMM, *out, "transA", &a->transA);
    cm_delegate_set(CM_OP_GEMM, *out, "transB", &a->transB);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const fused_attr *a = f->attr;
    cm_activation function;
    CM_TRY(find_activation(f->cx, f->op->id, a, &function));
    if (f->op->id == CM_OP_MS_FUSED_GEMM) {
        void *attr;
        CM_TRY(gemm_attr(f->cx, a, &attr));
        return cm_delegate_infer(f, CM_OP_GEMM, attr, f->n_in, f->in, 1, f->out);
    }
    cm_batch_matmul_form form = form_of(f->op->id, a);
    CM_TRY(cm_batch_matmul_infer(f, 0, 0, 1, &form));
    if (f->op->id == CM_OP_MS_GEMM_FAST_GELU && cm_expect_known(f, 1) && cm_infer_rank(f, 1) > 0) {
        cm_dim n = cm_infer_dim(f, 1, cm_infer_rank(f, 1) - 1);
        return cm_expect_shape(f, 2, "bias", 1, &n);
    }
    return CM_OK;
}

typedef struct {
    cm_matrix y;
    double alpha;
    const double *bias; /* per column, or NULL */
    cm_activation function;
} result;

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    result *r = arg;
    double v[64];
    for (int64_t i = 0; i < n; i += 64) {
        int64_t m = n - i < 64 ? n - i : 64;
        for (int64_t j = 0; j < m; j++)
            v[j] = cm_activation_apply(&r->function, r->alpha * src[i + j] +
                                                         (r->bias ? r->bias[col + i + j] : 0));
        cm_matrix_store_f64(&r->y, batch, row, col + i, m, v);
    }
}

static cm_status eval_gemm(cm_eval *e)
{
    const cm_tensor *in[3] = {NULL};
    cm_tensor *y = cm_eval_out(e, 0);
    cm_activation function;
    void *attr;
    for (int i = 0; i < 3; i++)
        if (cm_eval_has(e, i))
            in[i] = cm_eval_in(e, i);
    CM_TRY(gemm_attr(e->cx, e->attr, &attr));
    CM_TRY(cm_delegate_eval(e, CM_OP_GEMM, attr, 3, in, y));
    CM_TRY(find_activation(e->cx, e->op->id, e->attr, &function));
    int64_t n = cm_tensor_elems(y);
    if (((const fused_attr *)e->attr)->activation.n == 0)
        return CM_OK;
    for (int64_t i = 0; i < n; i++)
        cm_set_f64(y->dtype, y->data, i,
                   cm_activation_apply(&function, cm_get_f64(y->dtype, y->data, i)));
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const fused_attr *a = e->attr;
    if (e->op->id == CM_OP_MS_FUSED_GEMM)
        return eval_gemm(e);
    const cm_tensor *ta = cm_eval_in(e, 0), *tb = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_batch_matmul_form form = form_of(e->op->id, a);
    cm_batch_matmul s;
    CM_TRY(cm_batch_matmul_read(e, ta, tb, &form, &s));
    result r = {.y = {y->dtype, y->data, s.m * s.n, s.n, 1, NULL},
                .alpha = e->op->id == CM_OP_MS_GEMM_FAST_GELU ? 1 : a->alpha};
    CM_TRY(find_activation(e->cx, e->op->id, a, &r.function));
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &r.bias));
    cm_matrix ma = {ta->dtype, ta->data, 0, s.a.row, s.a.col, s.a.offsets};
    cm_matrix mb = {tb->dtype, tb->data, 0, s.b.row, s.b.col, s.b.offsets};
    cm_gemm_f64 g = {.batch = s.batch,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .load_a = cm_matrix_load_f64,
                     .load_b = cm_matrix_load_f64,
                     .store = store,
                     .a = &ma,
                     .b = &mb,
                     .c = &r};
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    if (cm_expect_known(f, 0) && cm_infer_rank(f, 0) > 0)
        c->ops = 2 * cm_infer_volume(f, &f->out[0].type) *
                 cm_infer_extent(f, cm_infer_dim(f, 0, cm_infer_rank(f, 0) - 1));
}

const cm_family cm_family_ms_fused = {
    .name = "ms_fused", .infer = infer, .eval = eval, .cost = cost};
