/* quant.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and elementwise operators on bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/eval.h"
#include "ops/problem.h"

#define FILL(name)                                                                                 \
    bool cm_problem_##name(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
FILL(quantise)
FILL(quantise_dynamic)
FILL(quantised_binary)
FILL(quantised_table)
#undef FILL

/* Parameters along an axis of a tensor whose elements lie side by side in any order of axes: those
 * within one step of the axis are `inner`. */
bool cm_problem_quantise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || cm_attr_int(op, attr, "block_size") != 0)
        return false;
    int64_t precision = cm_attr_int(op, attr, "precision");
    if (precision != 0 && precision != CM_F32)
        return false;
    const cm_tensor *x = p->in[0];
    bool to = op->id == CM_OP_QUANTIZE_LINEAR || op->id == CM_OP_MS_QUANTIZE_LINEAR;
    int64_t n = cm_tensor_elems(x), params = cm_tensor_elems(p->in[1]);
    cm_quantise *q = &p->as.quantise;
    *q = (cm_quantise){.kind = to ? CM_QUANTISE_TO : CM_QUANTISE_FROM,
                       .outer = 1,
                       .extent = 1,
                       .inner = n,
                       .scale = 1,
                       .zero = cm_problem_has(p, 2) ? 2 : -1};
    if (params <= 1 || n == 0)
        return params == 1;
    int64_t axis = x->rank == 1 ? 0 : cm_attr_int(op, attr, "axis");
    axis += axis < 0 ? x->rank : 0;
    q->extent = x->dims[axis];
    q->inner = x->strides[axis];
    if (q->inner < 1 || n % (q->extent * q->inner) != 0)
        return false;
    q->outer = n / (q->extent * q->inner);
    return true;
}

bool cm_problem_quantise_dynamic(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena, (void)op, (void)attr;
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_DYNAMIC, .extent = 1};
    return true;
}

/* One more axis, outermost first; axes that follow each other in all three operands become one. */
static void add_axis(cm_quantise *q, int64_t n, int64_t a, int64_t b, int64_t y)
{
    int k = q->rank - 1;
    if (k >= 0 && q->a[k] == a * n && q->b[k] == b * n && q->y[k] == y * n)
        n *= q->dims[k];
    else
        k = q->rank++;
    q->dims[k] = n;
    q->a[k] = a;
    q->b[k] = b;
    q->y[k] = y;
}

static int64_t stride_of(const cm_tensor *t, int rank, int d)
{
    int own = d - (rank - t->rank);
    return own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
}

bool cm_problem_quantised_binary(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena, (void)attr;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *y = p->out[0];
    int order[CM_MAX_RANK], n = 0;
    cm_quantise *q = &p->as.quantise;
    *q = (cm_quantise){.kind = op->id == CM_OP_MS_QLINEAR_ADD ? CM_QUANTISE_ADD : CM_QUANTISE_MUL};
    for (int d = 0; d < y->rank; d++) { /* by the output's strides */
        if (y->dims[d] == 1)
            continue;
        int at = n++;
        for (; at > 0 && y->strides[order[at - 1]] < y->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = 0; i < n; i++) {
        int d = order[i];
        add_axis(q, y->dims[d], stride_of(p->in[0], y->rank, d), stride_of(p->in[3], y->rank, d),
                 y->strides[d]);
    }
    if (q->rank == 0)
        add_axis(q, 1, 1, 1, 1);
    return true;
}

/* The reference on every byte there is. */
static bool make_table(cm_ctx *cx, const cm_op *op, const void *attr, const cm_problem *p,
                       uint8_t *table)
{
    uint8_t bytes[256];
    int64_t n = 256;
    cm_datum data[5], out = {.kind = CM_TENSOR};
    const cm_datum *in[5] = {NULL};
    cm_datum *outs[1] = {&out};
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (int i = 0; i < p->n_in && i < 5; i++) {
        if (!p->in[i])
            continue;
        data[i] = (cm_datum){.kind = CM_TENSOR, .tensor = *p->in[i]};
        in[i] = &data[i];
    }
    if (!cm_tensor_shape(&data[0].tensor, p->in[0]->dtype, 1, &n))
        return false;
    data[0].tensor.data = bytes;
    out.tensor = (cm_tensor){.data = table, .capacity_bytes = 256};
    cm_eval e = {
        .cx = cx, .op = op, .attr = attr, .n_in = p->n_in, .in = in, .n_out = 1, .out = outs};
    return cm_op_eval(&e) == CM_OK && out.tensor.data == table;
}

/* Operators that make a byte from a byte. */
bool cm_problem_quantised_table(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    if (!cm_problem_wants(p, 0) || p->n_in > 5)
        return false;
    for (int i = 1; i < p->n_in; i++)
        if (p->in[i] && !p->in[i]->data)
            return false;
    uint8_t *table = cm_arena_alloc(arena, 256);
    if (!table)
        return false;
    cm_arena own, scratch;
    cm_arena_init(&own, arena->allocator);
    cm_arena_init(&scratch, arena->allocator);
    cm_ctx cx = {.allocator = arena->allocator, .arena = &own, .scratch = &scratch};
    bool made = make_table(&cx, op, attr, p, table);
    cm_arena_deinit(&own);
    cm_arena_deinit(&scratch);
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_TABLE, .extent = 1, .table = table};
    return made;
}
