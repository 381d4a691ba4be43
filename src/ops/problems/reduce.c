/* reduce.c -- reductions, with or without a program before them, and ArgMax and ArgMin as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/problem.h"
#include "ops/problems/loop.h"

bool cm_problem_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_arg_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_pointwise_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static bool kind_of(cm_op_id op, cm_reduce_kind *out)
{
    static const struct {
        cm_op_id op;
        cm_reduce_kind kind;
    } rows[] = {
        {CM_OP_REDUCE_SUM, CM_REDUCE_SUM},
        {CM_OP_REDUCE_MEAN, CM_REDUCE_MEAN},
        {CM_OP_REDUCE_MAX, CM_REDUCE_MAX},
        {CM_OP_REDUCE_MIN, CM_REDUCE_MIN},
        {CM_OP_REDUCE_PROD, CM_REDUCE_PROD},
        {CM_OP_REDUCE_SUM_SQUARE, CM_REDUCE_SUM_SQUARE},
        {CM_OP_REDUCE_L1, CM_REDUCE_L1},
        {CM_OP_REDUCE_L2, CM_REDUCE_L2},
        {CM_OP_REDUCE_LOG_SUM, CM_REDUCE_LOG_SUM},
        {CM_OP_REDUCE_LOG_SUM_EXP, CM_REDUCE_LOG_SUM_EXP},
        {CM_OP_ARG_MAX, CM_REDUCE_ARG_MAX},
        {CM_OP_ARG_MIN, CM_REDUCE_ARG_MIN},
    };
    for (int i = 0; i < CM_COUNT(rows); i++)
        if (rows[i].op == op) {
            *out = rows[i].kind;
            return true;
        }
    return false;
}

/* What the inputs [0, n) broadcast to. */
static void whole_shape(const cm_problem *p, int n, int *rank, int64_t *dims)
{
    *rank = 0;
    for (int i = 0; i < n; i++)
        if (p->in[i] && p->in[i]->rank > *rank)
            *rank = p->in[i]->rank;
    for (int a = 0; a < *rank; a++)
        dims[a] = 1;
    for (int i = 0; i < n; i++)
        for (int a = 0; p->in[i] && a < p->in[i]->rank; a++)
            if (p->in[i]->dims[a] != 1)
                dims[*rank - p->in[i]->rank + a] = p->in[i]->dims[a];
}

/* Strides along all axes from those along the axes that are kept, which may have lost the others. */
static void spread_kept(const cm_tensor *t, const int64_t *strides, int rank, const bool *gone,
                        int64_t *out)
{
    bool kept_all = t->rank == rank;
    for (int a = 0, k = 0; a < rank; a++) {
        out[a] = gone[a] ? 0 : strides[kept_all ? a : k];
        k += !gone[a];
    }
}

/* The whole nest: n_data inputs are read, of which the first with all the axes leads the order. */
static bool fill(cm_arena *arena, cm_problem *p, int n_data, const bool *gone)
{
    cm_reduce *r = &p->as.reduce;
    cm_loop l = {.gone = gone, .n_all = p->n_in + p->n_operands + 1};
    cm_loop_strides *merged, along;
    cm_tensor dense;
    whole_shape(p, n_data, &l.rank, l.dims);
    l.all = cm_arena_alloc_n(arena, (size_t)l.n_all, sizeof *l.all, _Alignof(int64_t), 1);
    if (!l.all || !cm_tensor_shape(&dense, CM_F32, l.rank, l.dims))
        return false;
    l.like = dense.strides;
    for (int i = n_data - 1; i >= 0; i--) {
        if (!p->in[i])
            return false;
        cm_loop_broadcast(p->in[i], l.rank, l.all[i]);
        if (p->in[i]->rank == l.rank &&
            memcmp(p->in[i]->dims, l.dims, (size_t)l.rank * sizeof *l.dims) == 0)
            l.like = p->in[i]->strides;
    }
    for (int i = 0; i < p->n_operands; i++) {
        cm_loop_broadcast(p->operands[i], p->out[0]->rank, along);
        spread_kept(p->out[0], along, l.rank, gone, l.all[p->n_in + i]);
    }
    spread_kept(p->out[0], p->out[0]->strides, l.rank, gone, l.all[l.n_all - 1]);
    if (!cm_loop_merge(arena, &l, &r->loop.rank, r->loop.dims, &merged, r->axes))
        return false;
    r->loop.in = (const cm_loop_strides *)merged;
    r->operands = (const cm_loop_strides *)(merged + p->n_in);
    r->loop.out = (const cm_loop_strides *)(merged + l.n_all - 1);
    return true;
}

static bool mark(int64_t axis, int rank, bool *gone)
{
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
        return false;
    return gone[axis] = true;
}

bool cm_problem_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    bool gone[CM_MAX_RANK] = {0};
    int rank = p->in[0]->rank;
    int64_t n = 0;
    if (!cm_problem_wants(p, 0) || !kind_of(op->id, &p->as.reduce.kind))
        return false;
    if (cm_problem_has(p, 1)) {
        n = cm_tensor_elems(p->in[1]);
        if (n > 0 && !p->in[1]->data)
            return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (!mark(cm_problem_int(p, 1, i), rank, gone))
            return false;
    for (int a = 0; n == 0 && a < rank; a++)
        gone[a] = !cm_attr_int(op, attr, "noop_with_empty_axes");
    return fill(arena, p, 1, gone);
}

bool cm_problem_arg_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    bool gone[CM_MAX_RANK] = {0};
    if (!cm_problem_wants(p, 0) || !kind_of(op->id, &p->as.reduce.kind) || p->epilogue)
        return false;
    p->as.reduce.select_last_index = cm_attr_int(op, attr, "select_last_index") != 0;
    if (!mark(cm_attr_int(op, attr, "axis"), p->in[0]->rank, gone) ||
        cm_tensor_elems(p->in[0]) == 0)
        return false;
    return fill(arena, p, 1, gone);
}

bool cm_problem_pointwise_reduce(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    bool gone[CM_MAX_RANK] = {0};
    cm_ctx cx = {0};
    cm_str text = cm_attr_str(op, attr, "program"), name = cm_attr_str(op, attr, "reduce");
    cm_ints axes = cm_attr_ints(op, attr, "axes");
    cm_program *program = cm_new(arena, cm_program);
    int64_t dims[CM_MAX_RANK];
    int rank;
    if (!cm_problem_wants(p, 0) || !program ||
        cm_program_parse(&cx, text.p, text.n, program) != CM_OK)
        return false;
    bool known = false;
    for (int i = 0; cm_op_at(i) && !known; i++)
        known = cm_str_equal(name, cm_str_of(cm_op_at(i)->name)) &&
                kind_of(cm_op_at(i)->id, &p->as.reduce.kind);
    whole_shape(p, p->n_in, &rank, dims);
    for (int64_t i = 0; i < axes.n; i++)
        if (!mark(axes.v[i], rank, gone))
            return false;
    for (int a = 0; axes.n == 0 && a < rank; a++)
        gone[a] = true;
    p->program = program;
    return known && fill(arena, p, p->n_in, gone);
}
