/* sink_transposes.c -- move transposes down, towards each other, until they cancel or are absorbed.
 *
 *     a = Transpose(x) {perm=P}
 *     y = Relu(a)                        Add, Mul, Concat, Softmax, Clip, Cast ...
 *  becomes
 *     b = Relu(x)
 *     y = Transpose(b) {perm=P}
 *
 * Fires on elementwise nodes whose inputs of full rank are all transposed by the same permutation and
 * read by nobody else; other inputs have one element, are constants that can be transposed back now, or have the
 * same elements in the same order when transposed back (a mask of [b,1,t]): axes of size 1 move. The transpose may
 * also be read by the one node that reads the result: Mul(a, Sigmoid(a)). Concat, Softmax and LogSoftmax get their
 * axis translated, and nodes that work on axes (passes/sink_axes.h) theirs. Moving down only, it ends.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/sink_axes.h"
#include "passes/transposes.h"

static bool takes_axis(const cm_node *n)
{
    return n->op->id == CM_OP_CONCAT || n->op->id == CM_OP_SOFTMAX ||
           n->op->id == CM_OP_LOG_SOFTMAX;
}

static bool can_pass(const cm_node *n)
{
    if (n->epilogue.program || n->n_out != 1 || !n->out[0] || !n->out[0]->n_uses)
        return false;
    return takes_axis(n) || (n->op->traits & CM_ELTWISE && n->op->id != CM_OP_POINTWISE);
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

/* Does nobody read v but n, and the only reader of n, which reads nothing else of more than one element? */
static bool reads_alone(const cm_value *v, const cm_node *n)
{
    if (cm_only_reader(v) == n)
        return true;
    const cm_node *m = cm_only_reader(n->out[0]);
    if (!m || !can_pass(m) || takes_axis(m))
        return false;
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n && u->node != m)
            return false;
    for (int i = 0; i < m->n_in; i++)
        if (m->in[i] && m->in[i] != v && m->in[i] != n->out[0] && cm_volume(m->in[i]) != 1)
            return false;
    return cm_rank(m->out[0]) == cm_rank(v);
}

/* The permutation that all full-rank inputs of n share. */
static bool common_perm(const cm_node *n, int64_t *perm)
{
    int rank = cm_rank(n->out[0]), found = 0;
    int64_t from[CM_MAX_RANK], to[CM_MAX_RANK];
    int k;
    for (int i = 0; i < n->n_in; i++) {
        int64_t p[CM_MAX_RANK];
        cm_value *v = n->in[i];
        if (!v)
            continue;
        cm_node *t = cm_made_by(v, CM_OP_TRANSPOSE);
        if (t) {
            if (cm_rank(v) != rank || !reads_alone(v, n) || !cm_perm(t, p) ||
                (found && !cm_perm_equal(p, perm, rank)))
                return false;
            memcpy(perm, p, sizeof p);
            found++;
        } else if (takes_axis(n)) {
            return false;
        }
    }
    for (int i = 0; i < n->n_in && found; i++) {
        const cm_value *v = n->in[i];
        if (v && !cm_made_by(v, CM_OP_TRANSPOSE) && cm_volume(v) != 1 &&
            !(v->constant && !v->constant->packed && !takes_axis(n)) &&
            !is_view_before(v, perm, rank, from, to, &k))
            return false;
    }
    return found > 0;
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

static cm_status sink(cm_rewriter *rw, cm_node *n, const int64_t *perm)
{
    int rank = cm_rank(n->out[0]);
    cm_value **in;
    void *attr;
    CM_NEW_N(rw->cx, rw->cx->scratch, in, n->n_in, cm_value *);
    for (int i = 0; i < n->n_in; i++)
        CM_TRY(input_before(rw, n, i, perm, &in[i]));
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    if (takes_axis(n)) {
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

CM_PASS(sink_transposes)
{
    CM_FOR_NODES (n, g) {
        int64_t perm[CM_MAX_RANK];
        bool done;
        CM_TRY(cm_sink_axes(rw, n, &done));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (done || !can_pass(n) || cm_rank(n->out[0]) < 0 || !common_perm(n, perm))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(sink(rw, n, perm));
    }
    return CM_OK;
}
