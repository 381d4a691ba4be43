/* matmul.c -- MatMul (numpy's rules for every rank) and Gemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"
#include "ops/linear/gemm.h"

#include "base/size.h"

typedef struct {
    uint64_t present;
    float alpha, beta;
    int64_t transA, transB;
} gemm_attr;

CM_ATTRS(gemm, gemm_attr, CM_ATTR_FLOAT(gemm_attr, alpha, 1), CM_ATTR_FLOAT(gemm_attr, beta, 1),
         CM_ATTR_INT(gemm_attr, transA, 0), CM_ATTR_INT(gemm_attr, transB, 0))

/* MatMul's shapes as matrices: a 1-D left operand is a row, a 1-D right operand a column. */
static cm_status infer_matmul(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *a = f->in[0].type, *b = f->in[1].type;
    if (a->rank == 0 || b->rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "operands of rank %d and %d, wanted at least 1",
                       a->rank, b->rank);
    CM_TRY(cm_infer_equal(f, "rows of the right operand", b->dims[b->rank == 1 ? 0 : b->rank - 2],
                          a->dims[a->rank - 1]));
    cm_dim dims[CM_MAX_RANK];
    int rank = 0;
    if (a->rank > 2)
        CM_TRY(cm_broadcast_dims(f, &rank, dims, a->rank - 2, a->dims));
    if (b->rank > 2)
        CM_TRY(cm_broadcast_dims(f, &rank, dims, b->rank - 2, b->dims));
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    return cm_infer_tensor(f, 0, rank, dims);
}

static cm_status infer_gemm(cm_infer *f)
{
    const gemm_attr *g = f->attr;
    for (int i = 0; i < 2; i++)
        if (cm_infer_ranked(f, i) && cm_infer_rank(f, i) != 2)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted 2", i,
                           cm_infer_rank(f, i));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_infer_equal(f, "rows of B", cm_infer_dim(f, 1, g->transB != 0),
                          cm_infer_dim(f, 0, g->transA == 0)));
    cm_dim dims[2] = {cm_infer_dim(f, 0, g->transA != 0), cm_infer_dim(f, 1, g->transB == 0)};
    if (cm_infer_has(f, 2) && cm_infer_ranked(f, 2)) {
        const cm_type *c = f->in[2].type;
        if (c->rank > 2)
            return cm_fail(f->cx, CM_ERR_MODEL, "C has rank %d, wanted at most 2", c->rank);
        for (int k = 1; k <= c->rank; k++)
            if (c->dims[c->rank - k] != 1)
                CM_TRY(cm_infer_equal(f, "C broadcast to the output", c->dims[c->rank - k],
                                      dims[2 - k]));
    }
    return cm_infer_tensor(f, 0, 2, dims);
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_GEMM ? infer_gemm(f) : infer_matmul(f);
}

/* Where matrix b of each operand begins, for every index b of the broadcast batch dims. */
static cm_status batch_offsets(cm_eval *e, const cm_tensor *t, int rank, const int64_t *dims,
                               int64_t batch, const int64_t **out)
{
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)batch, sizeof(int64_t), &p));
    int64_t *offset = p, strides[CM_MAX_RANK], index[CM_MAX_RANK] = {0};
    cm_tensor outer = *t;
    outer.rank = t->rank > 2 ? t->rank - 2 : 0;
    cm_broadcast_strides(&outer, rank, dims, strides);
    int64_t matrix = t->rank > 1 ? t->dims[t->rank - 1] * t->dims[t->rank - 2] : t->dims[0];
    for (int64_t b = 0; b < batch; b++) {
        offset[b] = 0;
        for (int d = 0; d < rank; d++)
            offset[b] += index[d] * strides[d] * matrix;
        for (int d = rank - 1; d >= 0 && ++index[d] == dims[d]; d--)
            index[d] = 0;
    }
    *out = offset;
    return CM_OK;
}

static cm_status eval_matmul(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    cm_tensor *c = cm_eval_out(e, 0);
    int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    int64_t k = a->dims[a->rank - 1];
    int rank = c->rank - (a->rank > 1) - (b->rank > 1);
    int64_t batch = cm_dims_product(c->dims, 0, rank);
    cm_matrix ma = {a->dtype, a->data, 0, k, 1, NULL};
    cm_matrix mb = {b->dtype, b->data, 0, n, 1, NULL};
    cm_matrix mc = {c->dtype, c->data, m * n, n, 1, NULL};
    if (b->rank <= 2) { /* one right operand for all: one tall product */
        return cm_matrix_multiply(e->cx, e->threads, 1, batch * m, n, k, &ma, &mb, &mc);
    }
    CM_TRY(batch_offsets(e, a, rank, c->dims, batch, &ma.offsets));
    CM_TRY(batch_offsets(e, b, rank, c->dims, batch, &mb.offsets));
    return cm_matrix_multiply(e->cx, e->threads, batch, m, n, k, &ma, &mb, &mc);
}

/* Gemm's result on its way out: alpha * product + beta * C. */
typedef struct {
    cm_tensor *y;
    const cm_tensor *c; /* NULL: none */
    int64_t c_row, c_col;
    double alpha, beta;
} finish;

static double c_f64(const finish *p, int64_t row, int64_t col)
{
    return cm_get_f64(p->c->dtype, p->c->data, row * p->c_row + col * p->c_col);
}

static void store_f64(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                      const double *src)
{
    const finish *p = arg;
    int64_t at = row * p->y->dims[1] + col;
    (void)batch;
    for (int64_t j = 0; j < n; j++) {
        double v = p->alpha * src[j];
        if (p->c)
            v += p->beta * c_f64(p, row, col + j);
        cm_set_f64(p->y->dtype, p->y->data, at + j, v);
    }
}

static void store_i64(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                      const int64_t *src)
{
    const finish *p = arg;
    int64_t at = row * p->y->dims[1] + col;
    (void)batch;
    for (int64_t j = 0; j < n; j++) {
        int64_t c_at = row * p->c_row + (col + j) * p->c_col;
        if (p->alpha == 1 && (!p->c || p->beta == 1)) {
            uint64_t c = p->c ? (uint64_t)cm_get_i64(p->c->dtype, p->c->data, c_at) : 0;
            cm_set_i64(p->y->dtype, p->y->data, at + j, (int64_t)((uint64_t)src[j] + c));
        } else {
            double v = p->alpha * (double)src[j] + (p->c ? p->beta * c_f64(p, row, col + j) : 0);
            cm_set_f64(p->y->dtype, p->y->data, at + j, v);
        }
    }
}

static cm_status eval_gemm(cm_eval *e)
{
    const gemm_attr *g = e->attr;
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    finish p = {.y = y, .alpha = g->alpha, .beta = g->beta};
    if (cm_eval_has(e, 2) && g->beta != 0) {
        int64_t strides[2];
        p.c = cm_eval_in(e, 2);
        cm_broadcast_strides(p.c, 2, y->dims, strides);
        p.c_row = strides[0], p.c_col = strides[1];
    }
    int64_t k = a->dims[g->transA == 0];
    cm_matrix ma = {a->dtype, a->data, 0, a->dims[1], 1, NULL};
    cm_matrix mb = {b->dtype, b->data, 0, b->dims[1], 1, NULL};
    if (g->transA)
        ma.row = 1, ma.col = a->dims[1];
    if (g->transB)
        mb.row = 1, mb.col = b->dims[1];
    if (cm_dtype_is_float(y->dtype)) {
        cm_gemm_f64 job = {
            1,         y->dims[0], y->dims[1], k, cm_matrix_load_f64, cm_matrix_load_f64,
            store_f64, &ma,        &mb,        &p};
        return cm_gemm_run_f64(e->cx, e->threads, &job);
    }
    cm_gemm_i64 job = {1,         y->dims[0], y->dims[1], k, cm_matrix_load_i64, cm_matrix_load_i64,
                       store_i64, &ma,        &mb,        &p};
    return cm_gemm_run_i64(e->cx, e->threads, &job);
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_GEMM ? eval_gemm(e) : eval_matmul(e);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    int rank = cm_infer_rank(f, 0);
    double k = 1;
    if (f->op->id == CM_OP_GEMM && rank == 2)
        k = cm_infer_extent(f, cm_infer_dim(f, 0, ((const gemm_attr *)f->attr)->transA == 0));
    else if (rank > 0)
        k = cm_infer_extent(f, cm_infer_dim(f, 0, rank - 1));
    c->ops = 2 * k * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_matmul = {.name = "matmul", .infer = infer, .eval = eval, .cost = cost};
