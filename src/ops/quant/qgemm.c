/* qgemm.c -- products of quantised matrices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant/qgemm.h"

#include "ops/expect.h"
#include "ops/linear/gemm.h"
#include "ops/quant/quant.h"

static double param(const cm_qparam *p, int64_t matrix, int64_t line, double otherwise)
{
    return p->v ? p->v[matrix * p->by_matrix + line * p->by_line] : otherwise;
}

static int64_t matrix_of(const cm_batch_operand *o, int64_t batch)
{
    int64_t elems = o->rows * o->cols;
    return elems ? o->offsets[batch] / elems : 0;
}

static void load(const cm_qoperand *q, const cm_batch_operand *o, int64_t batch, int64_t row,
                 int64_t col, int64_t n, double *dst)
{
    cm_matrix m = {q->dtype, (void *)q->data, 0, o->row, o->col, o->offsets};
    cm_matrix_load_f64(&m, batch, row, col, n, dst);
}

static void load_a(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, double *dst)
{
    const cm_qgemm *g = arg;
    load(&g->a, &g->shape.a, batch, row, col, n, dst);
    double zero = param(&g->a.zero, matrix_of(&g->shape.a, batch), row, 0);
    for (int64_t i = 0; zero != 0 && i < n; i++)
        dst[i] -= zero;
}

static void load_b(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, double *dst)
{
    const cm_qgemm *g = arg;
    load(&g->b, &g->shape.b, batch, row, col, n, dst);
    int64_t matrix = matrix_of(&g->shape.b, batch);
    for (int64_t i = 0; g->b.zero.v && i < n; i++)
        dst[i] -= param(&g->b.zero, matrix, col + i, 0);
}

static double finish(const cm_qgemm *g, double sum, float scale, int64_t row, int64_t col)
{
    if (g->sums)
        sum += (double)g->sums[row * g->sums_row + col * g->sums_col];
    if (g->mode == CM_QGEMM_REAL) {
        float v = (float)sum * scale;
        return g->bias ? v + (float)g->bias[col] : v;
    }
    return (float)sum * (scale / (float)g->y_scale);
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const cm_qgemm *g = arg;
    int64_t at = (batch * g->shape.m + row) * g->shape.n + col;
    char *to = (char *)g->y + (size_t)at * cm_dtype_size(g->y_dtype);
    if (g->mode == CM_QGEMM_SUMS) {
        cm_store_f64(g->y_dtype, src, n, to);
        return;
    }
    int64_t matrix_b = matrix_of(&g->shape.b, batch);
    float sa = (float)param(&g->a.scale, matrix_of(&g->shape.a, batch), row, 1) * (float)g->alpha;
    for (int64_t i = 0; i < n; i++) {
        float scale = sa * (float)param(&g->b.scale, matrix_b, col + i, 1);
        double v = finish(g, src[i], scale, row, col + i);
        if (g->mode == CM_QGEMM_REAL)
            cm_set_f64(g->y_dtype, to, i, v);
        else
            cm_quant_store(g->y_dtype, &v, 1, 1, g->y_zero, to + (size_t)i);
    }
}

cm_status cm_qgemm_run(cm_eval *e, const cm_qgemm *q)
{
    const cm_batch_matmul *s = &q->shape;
    cm_gemm_f64 g = {.batch = s->batch,
                     .m = s->m,
                     .n = s->n,
                     .k = s->k,
                     .load_a = load_a,
                     .load_b = load_b,
                     .store = store,
                     .a = q,
                     .b = q,
                     .c = (void *)q};
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}

cm_status cm_qparam_check(cm_infer *f, int p, const char *name, int x, bool is_b)
{
    if (!cm_expect_known(f, p) || !cm_expect_known(f, x))
        return CM_OK;
    int rank = cm_infer_rank(f, p), x_rank = cm_infer_rank(f, x);
    bool one = true;
    for (int d = 0; d < rank; d++)
        one = one && cm_infer_dim(f, p, d) == 1;
    if (one)
        return CM_OK;
    int line = is_b ? x_rank - 1 : x_rank - 2; /* the axis that has a parameter each */
    if (x_rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s of a vector has more than one element", name);
    if (rank == 1)
        return cm_infer_equal(f, name, cm_infer_dim(f, p, 0), cm_infer_dim(f, x, line));
    cm_dim want[CM_MAX_RANK];
    for (int d = 0; d < x_rank; d++)
        want[d] = d < x_rank - 2 || d == line ? cm_infer_dim(f, x, d) : 1;
    return cm_expect_shape(f, p, name, x_rank, want);
}

cm_status cm_qparam_read(cm_eval *e, int p, const cm_tensor *x, bool is_b, cm_qparam *out)
{
    *out = (cm_qparam){0};
    if (!cm_eval_has(e, p))
        return CM_OK;
    const cm_tensor *t = cm_eval_in(e, p);
    CM_TRY(cm_eval_as_f64(e, p, &out->v));
    if (cm_tensor_elems(t) == 1)
        return CM_OK;
    out->by_line = 1;
    if (t->rank > 1)
        out->by_matrix = x->dims[is_b ? x->rank - 1 : x->rank - 2];
    return CM_OK;
}
