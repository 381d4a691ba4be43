/* quant.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and operators on bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/eval.h"
#include "ops/problem.h"
#include "ops/problems/channels.h"

#define FILL(name)                                                                                 \
    bool cm_problem_##name(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
FILL(quantise)
FILL(quantise_dynamic)
FILL(quantised_binary)
FILL(quantised_table)
FILL(lookup)
FILL(quantised_pool)
FILL(quantised_concat)
FILL(quantised_softmax)
FILL(pool)
FILL(pool_global)
#undef FILL

/* Parameters along an axis of a tensor whose elements lie side by side in any order of axes: those
 * within one step of the axis are `inner`. */
bool cm_problem_quantise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    int64_t precision = cm_attr_int(op, attr, "precision");
    if (precision != 0 && precision != p->in[1]->dtype)
        return false;
    const cm_tensor *x = p->in[0];
    bool to = op->id == CM_OP_QUANTIZE_LINEAR || op->id == CM_OP_MS_QUANTIZE_LINEAR;
    if (op->id == CM_OP_QUANTIZE_LINEAR && !cm_attr_int(op, attr, "saturate"))
        return false;
    int64_t n = cm_tensor_elems(x), params = cm_tensor_elems(p->in[1]);
    cm_quantise *q = &p->as.quantise;
    *q = (cm_quantise){.kind = to ? CM_QUANTISE_TO : CM_QUANTISE_FROM,
                       .outer = 1,
                       .extent = 1,
                       .inner = n,
                       .scale = 1,
                       .zero = cm_problem_has(p, 2) ? 2 : -1};
    q->block = cm_attr_int(op, attr, "block_size");
    if ((params <= 1 && !q->block) || n == 0)
        return params == 1 && !q->block;
    if (q->block && (q->block < 0 || !cm_tensor_is_dense(x) || p->in[1]->rank != x->rank))
        return false;
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

/* The reference on every byte there is, along an axis of a tensor of that rank: inputs in[0..n), bytes in
 * the place of in[x]. */
static bool make_table(cm_arena *arena, const cm_op *op, const void *attr,
                       const cm_tensor *const *tensors, int n, int x, int rank, int64_t axis,
                       uint8_t *table)
{
    enum { MOST = 8 };
    uint8_t bytes[256];
    int64_t dims[CM_MAX_RANK];
    cm_datum data[MOST], out = {.kind = CM_TENSOR};
    const cm_datum *in[MOST] = {NULL};
    cm_datum *outs[1] = {&out};
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? 256 : 1;
    for (int i = 0; i < n && i < MOST; i++) {
        if (!tensors[i])
            continue;
        data[i] = (cm_datum){.kind = CM_TENSOR, .tensor = *tensors[i]};
        in[i] = &data[i];
        if (i != x && !tensors[i]->data)
            return false; /* a parameter that is not known yet */
    }
    if (n > MOST || !cm_tensor_shape(&data[x].tensor, tensors[x]->dtype, rank, dims))
        return false;
    data[x].tensor.data = bytes;
    out.tensor = (cm_tensor){.data = table, .capacity_bytes = 256};
    cm_arena own, scratch;
    cm_arena_init(&own, arena->allocator);
    cm_arena_init(&scratch, arena->allocator);
    cm_ctx cx = {.allocator = arena->allocator, .arena = &own, .scratch = &scratch};
    cm_eval e = {.cx = &cx, .op = op, .attr = attr, .n_in = n, .in = in, .n_out = 1, .out = outs};
    bool made = cm_op_eval(&e) == CM_OK && out.tensor.data == table;
    cm_arena_deinit(&own);
    cm_arena_deinit(&scratch);
    return made;
}

/* Operators that make a byte from a byte. */
bool cm_problem_quantised_table(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    uint8_t *table = cm_arena_alloc(arena, 256);
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_TABLE, .extent = 1, .table = table};
    return table && cm_problem_wants(p, 0) &&
           make_table(arena, op, attr, p->in, p->n_in, 0, 1, 0, table);
}

bool cm_problem_lookup(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena, (void)op, (void)attr;
    const cm_tensor *table = p->in[1];
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_TABLE, .extent = 1, .table = table->data};
    return cm_problem_wants(p, 0) && table->data && cm_tensor_is_dense(table);
}

/* Parameters of one element each, scales of float32. */
static bool plain_params(const cm_problem *p, const int *scales, const int *zeros, int n)
{
    for (int i = 0; i < n; i++) {
        const cm_tensor *s = p->in[scales[i]];
        if (s->dtype != CM_F32 || cm_tensor_elems(s) != 1)
            return false;
        if (cm_problem_has(p, zeros[i]) && cm_tensor_elems(p->in[zeros[i]]) != 1)
            return false;
    }
    return true;
}

bool cm_problem_quantised_pool(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    static const int scales[] = {1, 3}, zeros[] = {2, 4};
    bool global = op->id == CM_OP_MS_QLINEAR_GLOBAL_AVERAGE_POOL;
    if (!cm_problem_wants(p, 0) || !plain_params(p, scales, zeros, 2))
        return false;
    bool last = cm_attr_int(op, attr, "channels_last") != 0;
    cm_tensor x = last ? cm_channels_second(p->in[0]) : *p->in[0];
    cm_tensor y = last ? cm_channels_second(p->out[0]) : *p->out[0];
    const cm_tensor *in[1] = {&x}, *out[1] = {&y};
    cm_problem real = {.n_in = 1, .in = in, .n_out = 1, .out = out};
    if (!(global ? cm_problem_pool_global : cm_problem_pool)(arena, op, attr, &real))
        return false;
    p->as.quantise =
        (cm_quantise){.kind = global ? CM_QUANTISE_GLOBAL_AVERAGE : CM_QUANTISE_AVERAGE,
                      .extent = 1,
                      .scale = 1,
                      .zero = cm_problem_has(p, 2) ? 2 : -1,
                      .y_scale = 3,
                      .y_zero = cm_problem_has(p, 4) ? 4 : -1,
                      .pool = real.as.pool,
                      .channels_last = cm_channels_last(&x) && cm_channels_last(&y)};
    return true;
}

/* Each operand goes through a table of its own; the pieces are those of Concat. */
bool cm_problem_quantised_concat(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    int n = (p->n_in - 2) / 3;
    uint8_t *tables = cm_arena_alloc(arena, 256 * (size_t)n);
    cm_move_piece *pieces = cm_new_n(arena, n, cm_move_piece);
    if (!cm_problem_wants(p, 0) || !tables || !pieces)
        return false;
    const cm_tensor *y = p->out[0];
    int64_t axis = cm_attr_int(op, attr, "axis"), at = 0;
    axis += axis < 0 ? y->rank : 0;
    for (int i = 0; i < n; i++) {
        const cm_tensor *x = p->in[2 + 3 * i];
        const cm_tensor *in[5] = {p->in[0], p->in[1], x, p->in[3 + 3 * i], p->in[4 + 3 * i]};
        cm_move_piece *m = &pieces[i];
        *m = (cm_move_piece){
            .input = 2 + 3 * i, .rank = y->rank, .to_offset = at * y->strides[axis]};
        for (int d = 0; d < y->rank; d++) {
            m->dims[d] = x->dims[d];
            m->from[d] = x->strides[d];
            m->to[d] = y->strides[d];
        }
        at += x->dims[axis];
        if (!make_table(arena, op, attr, in, 5, 2, y->rank, axis, tables + 256 * i))
            return false;
    }
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_CONCAT,
                                   .extent = 1,
                                   .table = tables,
                                   .move = {.n_pieces = n, .pieces = pieces}};
    return true;
}

/* Rows run along one axis, before opset 13 along all from there on. A row that lies side by side within a tensor
 * that does begins at a multiple of its length. */
bool cm_problem_quantised_softmax(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    static const int scales[] = {1, 3}, zeros[] = {2, 4};
    (void)arena;
    if (!cm_problem_wants(p, 0) || !plain_params(p, scales, zeros, 2))
        return false;
    const cm_tensor *x = p->in[0];
    int64_t axis = cm_attr_int(op, attr, "axis"), n = cm_tensor_elems(x);
    int first = (int)(axis < 0 ? axis + x->rank : axis);
    int end = cm_attr_int(op, attr, "opset") < 13 ? x->rank : first + 1;
    if (x->rank == 0)
        first = end = 0;
    int64_t cols = cm_dims_product(x->dims, first, end);
    p->as.quantise = (cm_quantise){.kind = CM_QUANTISE_SOFTMAX,
                                   .outer = n > 0 ? n / cols : 0,
                                   .extent = cols,
                                   .inner = 1,
                                   .scale = 1,
                                   .zero = cm_problem_has(p, 2) ? 2 : -1,
                                   .y_scale = 3,
                                   .y_zero = cm_problem_has(p, 4) ? 4 : -1};
    p->as.quantise.adjacent =
        n == 0 || (cm_tensor_side_by_side(x, first, end) && cm_tensor_is_packed(x) &&
                   cm_tensor_same_strides(x, p->out[0]));
    return true;
}
