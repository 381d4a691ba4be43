/* matmul.c -- MatMul, Gemm and their kin as problems: one pair of matrices, batch axes by strides.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/problem.h"

bool cm_problem_matmul(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_gemm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

/* An operand's axes in the order batch..., row, column. */
typedef struct {
    int rank;
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
} operand;

/* trans swaps the last two axes; batch moves the first to the place of the second last before that. */
static operand read_operand(const cm_tensor *t, bool trans, bool batch)
{
    int order[CM_MAX_RANK];
    operand o = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++)
        order[i] = i;
    if (t->rank >= 2 && batch) {
        memmove(order, order + 1, (size_t)(t->rank - 2) * sizeof *order);
        order[t->rank - 2] = 0;
    }
    if (t->rank >= 2 && trans) {
        int last = order[t->rank - 1];
        order[t->rank - 1] = order[t->rank - 2];
        order[t->rank - 2] = last;
    }
    for (int i = 0; i < t->rank; i++) {
        o.dims[i] = t->dims[order[i]];
        o.strides[i] = t->strides[order[i]];
    }
    return o;
}

/* The stride along batch axis `a` of `n`, counted from the outermost; 0: the same for all. */
static int64_t batch_stride(const operand *o, int n, int a)
{
    int own = a - n + (o->rank > 2 ? o->rank - 2 : 0);
    return own < 0 || o->dims[own] == 1 ? 0 : o->strides[own];
}

static void drop_axis(cm_matmul *s, int at)
{
    s->n_batch--;
    for (int i = at; i < s->n_batch; i++) {
        s->batch[i] = s->batch[i + 1];
        s->a.batch[i] = s->a.batch[i + 1];
        s->b.batch[i] = s->b.batch[i + 1];
        s->c.batch[i] = s->c.batch[i + 1];
    }
}

/* Add a batch axis inside those that are there, as part of the last where it goes on from it. */
static bool push_axis(cm_matmul *s, int64_t dim, int64_t a, int64_t b, int64_t c)
{
    int last = s->n_batch - 1;
    if (dim == 1)
        return true;
    if (last >= 0 && s->a.batch[last] == dim * a && s->b.batch[last] == dim * b &&
        s->c.batch[last] == dim * c) {
        s->batch[last] *= dim;
    } else {
        if (s->n_batch == CM_BATCH_AXES)
            return false;
        last = s->n_batch++;
        s->batch[last] = dim;
    }
    s->a.batch[last] = a;
    s->b.batch[last] = b;
    s->c.batch[last] = c;
    return true;
}

/* A batch axis along which B is the same is more rows, where A's and C's rows go on along it. */
static void merge_rows(cm_matmul *s)
{
    for (int i = s->n_batch - 1; i >= 0; i--) {
        bool on =
            s->m == 1 || (s->a.batch[i] == s->m * s->a.row && s->c.batch[i] == s->m * s->c.row);
        if (s->b.batch[i] != 0 || s->a.batch[i] == 0 || !on)
            continue;
        if (s->m == 1) {
            s->a.row = s->a.batch[i];
            s->c.row = s->c.batch[i];
        }
        s->m *= s->batch[i];
        drop_axis(s, i);
        i = s->n_batch; /* another may go on from here */
    }
}

/* Sizes and strides of a x b; false: too many axes, or nothing to compute. */
static bool fill(const operand *a, const operand *b, cm_problem *p)
{
    const cm_tensor *y = p->out[0];
    cm_matmul *s = &p->as.matmul;
    bool rows = a->rank > 1, cols = b->rank > 1;
    int at = y->rank;
    *s = (cm_matmul){.m = 1, .n = 1, .k = a->dims[a->rank - 1], .alpha = 1, .beta = 1, .bias = -1};
    s->a.col = a->strides[a->rank - 1];
    s->b.row = b->strides[cols ? b->rank - 2 : 0];
    if (cols) {
        s->n = y->dims[--at];
        s->b.col = b->strides[b->rank - 1];
        s->c.col = y->strides[at];
    }
    if (rows) {
        s->m = y->dims[--at];
        s->a.row = a->strides[a->rank - 2];
        s->c.row = y->strides[at];
    }
    for (int i = 0; i < at; i++) {
        if (y->dims[i] == 0 || !push_axis(s, y->dims[i], batch_stride(a, at, i),
                                          batch_stride(b, at, i), y->strides[i]))
            return false;
    }
    /* A constant keeps its own shape, whatever the other operand is: it is packed once for all sizes. */
    if (!p->constant[0])
        merge_rows(s);
    return s->m > 0 && s->n > 0 && s->k > 0;
}

bool cm_problem_matmul(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    bool plain = op->id == CM_OP_MATMUL;
    bool batches = op->id == CM_OP_MS_FUSED_MATMUL;
    operand a = read_operand(p->in[0], !plain && cm_attr_int(op, attr, "transA"),
                             batches && cm_attr_int(op, attr, "transBatchA"));
    operand b = read_operand(p->in[1], !plain && cm_attr_int(op, attr, "transB"),
                             batches && cm_attr_int(op, attr, "transBatchB"));
    if (!fill(&a, &b, p))
        return false;
    if (!plain)
        p->as.matmul.alpha = cm_attr_float(op, attr, "alpha");
    return true;
}

bool cm_problem_gemm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    operand a = read_operand(p->in[0], cm_attr_int(op, attr, "transA"), false);
    operand b = read_operand(p->in[1], cm_attr_int(op, attr, "transB"), false);
    if (!fill(&a, &b, p))
        return false;
    cm_matmul *s = &p->as.matmul;
    s->alpha = cm_attr_float(op, attr, "alpha");
    s->beta = cm_attr_float(op, attr, "beta");
    s->bias = cm_problem_has(p, 2) && s->beta != 0 ? 2 : -1;
    return true;
}
