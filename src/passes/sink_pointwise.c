/* sink_pointwise.c -- transposes moved past pointwise nodes, and past nodes with one axis.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/sink_pointwise.h"

bool cm_sinks_with_axis(const cm_node *n)
{
    return n->op->id == CM_OP_CONCAT || n->op->id == CM_OP_SOFTMAX ||
           n->op->id == CM_OP_LOG_SOFTMAX || n->op->id == CM_OP_LP_NORMALIZATION;
}

bool cm_lets_transposes_by(const cm_node *n)
{
    if (n->epilogue.program || n->n_out != 1 || !n->out[0] || !n->out[0]->n_uses)
        return false;
    return cm_sinks_with_axis(n) || (n->op->traits & CM_ELTWISE && n->op->id != CM_OP_POINTWISE);
}

/* Does v lie in memory as it did before, when axes are put back: does no axis but those of size 1 move
 * over another? Those axes and where they belong then, their number to *k. */
static bool is_view_before(const cm_value *v, const int64_t *perm, int rank, int64_t *from,
                           int64_t *to, int *k)
{
    int64_t last = -1;
    *k = 0;
    if (cm_rank(v) != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        if (v->type.dims[i] == 1) {
            from[*k] = i;
            to[(*k)++] = perm[i];
            continue;
        }
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return *k > 0;
}

/* Axes of size 1 taken out here and put in there. */
static cm_status move_ones(cm_rewriter *rw, cm_node *n, cm_value *v, const int64_t *from,
                           const int64_t *to, int k, cm_value **out)
{
    int64_t dims[] = {k};
    cm_value *axes[2];
    cm_node *y;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, dims, from, &axes[0]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, dims, to, &axes[1]));
    CM_TRY(cm_make(rw, n, CM_OP_SQUEEZE, n, (cm_value *[]){v, axes[0]}, 2, 1, &y));
    CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){y->out[0], axes[1]}, 2, 1, &y));
    *out = y->out[0];
    return CM_OK;
}

bool cm_can_sink_pointwise(const cm_node *n, const cm_transposed *t)
{
    int64_t from[CM_MAX_RANK], to[CM_MAX_RANK];
    int rank = cm_rank(n->out[0]), k;
    bool any = false;
    if (!cm_lets_transposes_by(n) || rank != t->rank)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const cm_value *v = n->in[i];
        bool is = v && cm_is_transposed(t, v);
        any |= is;
        if (!v || (is && cm_rank(v) == rank))
            continue;
        if (is || cm_made_by(v, CM_OP_TRANSPOSE) || cm_sinks_with_axis(n))
            return false;
        if (cm_volume(v) != 1 && !(v->constant && !v->constant->packed) &&
            !is_view_before(v, t->perm, rank, from, to, &k))
            return false;
    }
    return any;
}

/* The input as it was before the transpose. */
static cm_status input_before(cm_rewriter *rw, cm_node *n, int i, const int64_t *perm,
                              cm_value **out)
{
    cm_value *v = n->in[i];
    cm_node *t = v ? cm_made_by(v, CM_OP_TRANSPOSE) : NULL;
    *out = t ? t->in[0] : v;
    int rank = cm_rank(n->out[0]);
    if (!v || t || cm_volume(v) == 1)
        return CM_OK;
    if (v->constant)
        return cm_constant_before(rw, n->network, v, perm, rank, out);
    int64_t from[CM_MAX_RANK], to[CM_MAX_RANK];
    int k;
    return is_view_before(v, perm, rank, from, to, &k) ? move_ones(rw, n, v, from, to, k, out)
                                                       : CM_OK;
}

cm_status cm_sink_pointwise(cm_rewriter *rw, cm_node *n, const int64_t *perm)
{
    int rank = cm_rank(n->out[0]);
    cm_value **in;
    void *attr;
    CM_NEW_N(rw->cx, rw->cx->scratch, in, n->n_in, cm_value *);
    for (int i = 0; i < n->n_in; i++)
        CM_TRY(input_before(rw, n, i, perm, &in[i]));
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    if (cm_sinks_with_axis(n)) {
        int64_t axis = cm_int(n, "axis");
        CM_TRY(
            cm_attr_put_int(rw->cx, n->op->id, attr, "axis", perm[axis < 0 ? axis + rank : axis]));
    }
    cm_node *moved, *t;
    CM_TRY(cm_make_with(rw, n, n->op->id, attr, n, in, n->n_in, 1, &moved));
    CM_TRY(cm_make_transpose(rw, n, moved->out[0], perm, rank, n, &t));
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && cm_made_by(n->in[i], CM_OP_TRANSPOSE))
            CM_TRY(cm_node_add_from(rw->cx, t, n->in[i]->producer));
    CM_TRY(cm_replace(rw, n, t->out[0], NULL));
    cm_drop_if_dead(n);
    return CM_OK;
}
