/* rowwise.c -- nodes that treat every row alike, and nodes that pick rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/rowwise.h"

/* Axes from `axis` on, of input `data`. */
static int from_axis(const cm_node *n, int data)
{
    int rank = cm_rank(n->in[data]);
    int64_t axis = cm_int(n, "axis");
    if (rank < 0)
        return -1;
    return (int)(axis < 0 ? -axis : rank - axis);
}

int cm_operand_axes(const cm_value *v)
{
    int rank = cm_rank(v);
    for (int i = 0; i < rank; i++)
        if (v->type.dims[i] != 1)
            return rank - i;
    return rank < 0 ? -1 : 0;
}

static int pointwise_axes(const cm_node *n, int data)
{
    int most = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (i == data || !n->in[i])
            continue;
        int k = cm_operand_axes(n->in[i]);
        if (k < 0 || cm_rank(n->in[i]) > cm_rank(n->in[data]))
            return -1;
        most = k > most ? k : most;
    }
    return most;
}

int cm_row_axes(const cm_node *n, int data)
{
    if (!(n->op->traits & CM_PURE) || n->epilogue.program || !cm_one_output(n) ||
        cm_rank(n->in[data]) < 0 || cm_rank(n->out[0]) != cm_rank(n->in[data]))
        return -1;
    switch (n->op->id) {
    case CM_OP_MATMUL:
        return data == 0 && cm_rank(n->in[1]) == 2 && cm_rank(n->in[0]) >= 2 ? 1 : -1;
    case CM_OP_LAYER_NORMALIZATION:
    case CM_OP_RMS_NORMALIZATION:
        for (int i = 1; i < n->n_in; i++)
            if (n->in[i] && cm_operand_axes(n->in[i]) > from_axis(n, 0))
                return -1;
        return data == 0 ? from_axis(n, 0) : -1;
    case CM_OP_SOFTMAX:
    case CM_OP_LOG_SOFTMAX:
        return from_axis(n, 0);
    case CM_OP_CAST:
    case CM_OP_GELU:
        return 0;
    default:
        return n->op->traits & CM_ELTWISE ? pointwise_axes(n, data) : -1;
    }
}

bool cm_pick_axes(const cm_node *n, int *axes, int *n_axes)
{
    int rank = n->n_in ? cm_rank(n->in[0]) : -1, k;
    int64_t given[CM_MAX_RANK];
    if (rank < 1)
        return false;
    if (cm_is(n, CM_OP_GATHER)) {
        int64_t axis = cm_int(n, "axis");
        axes[0] = (int)(axis < 0 ? axis + rank : axis);
        *n_axes = 1;
        return true;
    }
    if (!cm_is(n, CM_OP_SLICE))
        return false;
    if (n->n_in > 3 && n->in[3]) {
        if (!cm_const_ints(n->in[3], given, CM_MAX_RANK, &k))
            return false;
    } else {
        if (cm_rank(n->in[1]) != 1 || n->in[1]->type.dims[0] < 0 || n->in[1]->type.dims[0] > rank)
            return false;
        k = (int)n->in[1]->type.dims[0];
        for (int i = 0; i < k; i++)
            given[i] = i;
    }
    for (int i = 0; i < k; i++)
        axes[i] = (int)(given[i] < 0 ? given[i] + rank : given[i]);
    *n_axes = k;
    return k > 0;
}

cm_status cm_make_pick(cm_rewriter *rw, cm_node *before, const cm_node *pick, cm_value *x,
                       cm_value **out)
{
    int axes[CM_MAX_RANK], k = 0;
    void *attr;
    cm_node *m;
    cm_value *in[5] = {x};
    cm_pick_axes(pick, axes, &k);
    CM_TRY(cm_new_attr(rw->cx, before->network, pick->op->id, &attr));
    for (int i = 1; i < pick->n_in && i < 5; i++)
        in[i] = pick->in[i];
    if (pick->op->id == CM_OP_GATHER) {
        if (axes[0])
            CM_TRY(cm_attr_put_int(rw->cx, CM_OP_GATHER, attr, "axis", axes[0]));
        CM_TRY(cm_make_with(rw, before, CM_OP_GATHER, attr, pick, in, 2, 1, &m));
    } else {
        int64_t list[CM_MAX_RANK], dims[1] = {k};
        for (int i = 0; i < k; i++)
            list[i] = axes[i];
        CM_TRY(cm_make_const_i64(rw->cx, before->network, "axes", 1, dims, list, &in[3]));
        CM_TRY(
            cm_make_with(rw, before, CM_OP_SLICE, attr, pick, in, pick->n_in > 4 ? 5 : 4, 1, &m));
    }
    *out = m->out[0];
    return CM_OK;
}

cm_status cm_make_rowwise(cm_rewriter *rw, cm_node *before, const cm_node *n, int data,
                          cm_value *const *in, cm_node **out)
{
    void *attr;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    bool has_axis = n->op->id == CM_OP_LAYER_NORMALIZATION ||
                    n->op->id == CM_OP_RMS_NORMALIZATION || n->op->id == CM_OP_SOFTMAX ||
                    n->op->id == CM_OP_LOG_SOFTMAX;
    if (has_axis && cm_int(n, "axis") >= 0) /* counted from the end it is good for any rank */
        CM_TRY(cm_attr_put_int(rw->cx, n->op->id, attr, "axis", -from_axis(n, data)));
    return cm_make_with(rw, before, n->op->id, attr, n, in, n->n_in, 1, out);
}
