/* qmatmul.c -- products of quantised matrices as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

bool cm_problem_qmatmul(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

/* Where inputs are, and what is made of the sums. */
static cm_qmatmul form_of(cm_op_id id)
{
    cm_qmatmul g = {.mode = CM_QREAL, .alpha = 1, .a = 0};
    switch (id) {
    case CM_OP_MATMUL_INTEGER:
        g.mode = CM_QSUMS;
        g.b = 1, g.a_zero = 2, g.b_zero = 3;
        g.a_scale = g.b_scale = g.y_scale = g.y_zero = g.bias = g.sums = -1;
        break;
    case CM_OP_QLINEAR_MATMUL:
        g.mode = CM_QBYTES;
        g.a_scale = 1, g.a_zero = 2, g.b = 3, g.b_scale = 4, g.b_zero = 5, g.y_scale = 6;
        g.y_zero = 7;
        g.bias = g.sums = -1;
        break;
    case CM_OP_MS_MATMUL_INTEGER_TO_FLOAT:
        g.b = 1, g.a_scale = 2, g.b_scale = 3, g.a_zero = 4, g.b_zero = 5, g.bias = 6;
        g.y_scale = g.y_zero = g.sums = -1;
        break;
    case CM_OP_MS_DYNAMIC_QUANTIZE_MATMUL:
        g.dynamic = true;
        g.b = 1, g.b_scale = 2, g.b_zero = 3, g.bias = 4;
        g.a_scale = g.a_zero = g.y_scale = g.y_zero = g.sums = -1;
        break;
    default: /* QGemm */
        g.a_scale = 1, g.a_zero = 2, g.b = 3, g.b_scale = 4, g.b_zero = 5, g.sums = 6;
        g.y_scale = 7, g.y_zero = 8, g.bias = -1;
        break;
    }
    return g;
}

/* Inputs that are not there become -1; false where one has a type or a size that tactics do not take. */
static bool check(const cm_problem *p, int *input, cm_dtype dtype, int64_t columns)
{
    if (*input >= 0 && !cm_problem_has(p, *input))
        *input = -1;
    if (*input < 0)
        return true;
    const cm_tensor *t = p->in[*input];
    int64_t n = cm_tensor_elems(t);
    return (dtype == CM_NO_DTYPE || t->dtype == dtype) && (n == 1 || n == columns) &&
           cm_tensor_is_dense(t);
}

/* The parameters of B: of all its columns; a batch has those of one matrix. */
static bool check_params(cm_qmatmul *g, const cm_problem *p)
{
    int *one[] = {&g->a_zero, &g->y_zero}, *reals[] = {&g->a_scale, &g->y_scale};
    for (int i = 0; i < 2; i++)
        if (!check(p, one[i], CM_NO_DTYPE, 1) || !check(p, reals[i], CM_F32, 1))
            return false;
    if (!check(p, &g->b_scale, CM_F32, g->n) || !check(p, &g->b_zero, CM_NO_DTYPE, g->n) ||
        !check(p, &g->bias, CM_F32, g->n) || !check(p, &g->sums, CM_I32, g->n))
        return false;
    return g->bias < 0 || cm_tensor_elems(p->in[g->bias]) == g->n;
}

/* Sums with what is added to them must stay within 32 bits. */
static bool sums_fit(const cm_qmatmul *g, const cm_problem *p)
{
    if (g->sums < 0)
        return true;
    const cm_tensor *t = p->in[g->sums];
    if (!t->data || (t->rank == 2 && t->dims[0] != 1))
        return false;
    int64_t room = INT32_MAX - g->k * 255 * 255;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++) {
        int64_t v = ((const int32_t *)t->data)[i];
        if (v > room || v < -room)
            return false;
    }
    return true;
}

static int64_t batch_of(const cm_tensor *t)
{
    return cm_dims_product(t->dims, 0, t->rank - 2);
}

/* A batch of B is a batch of A with the same axes; a single B takes all rows of A at once. */
static bool read_sizes(cm_qmatmul *g, const cm_tensor *a, const cm_tensor *b, const cm_tensor *y)
{
    if (a->rank < 2 || b->rank < 2 || y->rank < 2)
        return false;
    g->m = a->dims[a->rank - 2];
    g->k = a->dims[a->rank - 1];
    g->n = b->dims[b->rank - (g->trans_b ? 2 : 1)];
    g->batch = 1;
    if (y->dims[y->rank - 1] != g->n)
        return false;
    int64_t n_a = batch_of(a), n_b = batch_of(b), n_y = batch_of(y);
    if (n_b == 1 && n_a == n_y) {
        g->m *= n_a;
        return true;
    }
    bool same = a->rank == b->rank && n_a == n_b && n_a == n_y;
    for (int d = 0; same && d < a->rank - 2; d++)
        same = a->dims[d] == b->dims[d];
    if (!same && !(n_a == 1 && n_b == n_y))
        return false;
    g->batch = n_y;
    g->a_batch = n_a == 1 ? 0 : g->m * g->k;
    g->b_batch = g->n * g->k;
    return true;
}

bool cm_problem_qmatmul(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_qmatmul g = form_of(op->id);
    if (!cm_problem_wants(p, 0) || p->out[0]->dtype == CM_F16 || p->out[0]->dtype == CM_BF16)
        return false;
    const cm_tensor *y = p->out[0];
    if (op->id == CM_OP_MS_QGEMM) {
        if (cm_attr_int(op, attr, "transA"))
            return false;
        g.trans_b = cm_attr_int(op, attr, "transB") != 0;
        g.alpha = cm_attr_float(op, attr, "alpha");
        g.mode = y->dtype == CM_F32 ? CM_QREAL : CM_QBYTES;
    }
    if (g.mode == CM_QBYTES && y->dtype != CM_U8 && y->dtype != CM_I8)
        return false;
    if (!read_sizes(&g, p->in[g.a], p->in[g.b], y) || g.k > INT32_MAX / 255 / 255 ||
        !check_params(&g, p) || !sums_fit(&g, p))
        return false;
    if (g.mode == CM_QREAL)
        g.y_scale = g.y_zero = -1;
    p->as.qmatmul = g;
    return true;
}
