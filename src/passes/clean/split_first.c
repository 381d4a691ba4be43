/* split_first.c -- axes are split before they are transposed, where what reads the parts picks from them.
 *
 *     t = Transpose(x) {perm=[1,0,2]}             x: [24, 2, p], t: [2, 24, p]
 *     r = Reshape(t)                              [2, 1, 24, h, w]
 *     a = Gather(r, @zero)  b = Gather(r, @one)
 *  becomes
 *     s = Reshape(x)                              [1, 24, 2, h, w]
 *     r = Transpose(s) {perm=[2,0,1,3,4]}
 *
 * so that the transpose can move past those readers, or meet another. Fires when nobody else reads t, the Reshape only
 * splits axes and puts in ones, and only Gather, Slice, Split and Transpose read its result.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/transposes.h"
#include "passes/views.h"

static bool only_picked(const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (!u->node || u->node->network != v->network || u->index != 0 ||
            !(cm_is(u->node, CM_OP_GATHER) || cm_is(u->node, CM_OP_SLICE) ||
              cm_is(u->node, CM_OP_SPLIT) || cm_is(u->node, CM_OP_TRANSPOSE)))
            return false;
    return v->n_uses > 0;
}

/* Which axis of `from` each axis of `to` is part of; ones belong to the axis behind them. False: axes are merged, or it
 * cannot be told. */
static bool split_of(const cm_type *from, const cm_type *to, int *part)
{
    int o = 0;
    for (int i = 0; i < from->rank; i++) {
        cm_dim rest = from->dims[i];
        bool any = false;
        while (o < to->rank && (!any || rest != 1)) {
            cm_dim d = to->dims[o];
            bool numbers = cm_dim_is_size(d) && cm_dim_is_size(rest) && d > 0;
            if (d == rest)
                rest = 1;
            else if (numbers && rest % d == 0)
                rest /= d;
            else
                return false;
            any |= d != 1;
            part[o++] = i;
            any |= rest == 1;
        }
        if (rest != 1)
            return false;
    }
    for (; o < to->rank; o++) { /* ones at the end */
        if (to->dims[o] != 1 || from->rank < 1)
            return false;
        part[o] = from->rank - 1;
    }
    return true;
}

/* t's input split as t's output is, and how that is transposed then. */
static bool plan(const cm_node *t, const cm_node *r, cm_type *split, int64_t *perm)
{
    const cm_type *from = &t->out[0]->type, *to = &r->out[0]->type;
    int part[CM_MAX_RANK], k = 0;
    int64_t outer[CM_MAX_RANK];
    if (from->rank < 1 || to->rank <= from->rank || !cm_perm(t, outer) || !split_of(from, to, part))
        return false;
    *split = *to;
    for (int x = 0; x < from->rank; x++) /* axes of t's input in turn */
        for (int o = 0; o < to->rank; o++)
            if (outer[part[o]] == x) {
                split->dims[k] = to->dims[o];
                perm[o] = k++;
            }
    return true;
}

CM_PASS(split_first)
{
    CM_FOR_NODES (r, g) {
        cm_node *t = cm_is_view(r) ? cm_made_by(r->in[0], CM_OP_TRANSPOSE) : NULL, *s, *y;
        cm_type split;
        int64_t shape[CM_MAX_RANK], perm[CM_MAX_RANK];
        if (!t || cm_only_reader(r->in[0]) != r || !only_picked(r->out[0]) ||
            !plan(t, r, &split, perm) || !cm_reshape_target(&t->in[0]->type, &split, shape))
            continue;
        if (!cm_rewrite(rw, r))
            return CM_OK;
        CM_TRY(cm_make_reshape(rw, r, t->in[0], shape, split.rank, r, &s));
        CM_TRY(cm_make_transpose(rw, r, s->out[0], perm, split.rank, t, &y));
        CM_TRY(cm_replace(rw, r, y->out[0], NULL));
        cm_drop_if_dead(r);
    }
    return CM_OK;
}
