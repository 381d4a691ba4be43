/* hoist_slice.c -- pick first, then compute: rows that nobody reads are not computed.
 *
 *     n = LayerNormalization(x, @w)           s = Gather(x, @zero) {axis=1}
 *     y = Gather(n, @zero) {axis=1}   becomes y = LayerNormalization(s, @w)
 *
 * A Slice or a Gather by one index moves up through the only node whose result it reads, when that node treats
 * the rows it picks alike: pointwise work (each operand that has the rows is picked from), a product with a
 * matrix, a normalisation or a softmax over later axes. Repeated, it climbs through whole blocks. Of several operands it
 * picks only where one of them lets it climb on to such a product or normalisation: small work is not worth a node more.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/rowwise.h"

/* The last axis that `pick` picks on, or -1 when it may make more of what it reads. */
static int last_axis(const cm_node *pick)
{
    int axes[CM_MAX_RANK], k, last = 0;
    if (!cm_pick_axes(pick, axes, &k))
        return -1;
    if (pick->op->id == CM_OP_GATHER && cm_rank(pick->in[1]) != 0)
        return -1;
    for (int i = 0; i < k; i++)
        last = axes[i] > last ? axes[i] : last;
    return last;
}

/* Which inputs of pointwise node n are picked from, when the rest does not reach the axes that are picked on. */
static bool pointwise_inputs(const cm_node *n, int last, bool *from)
{
    int rank = cm_rank(n->out[0]);
    if (!(n->op->traits & CM_ELTWISE) || !(n->op->traits & CM_PURE) || n->epilogue.program ||
        !cm_one_output(n) || rank < 0)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        from[i] = false;
        if (!n->in[i])
            continue;
        if (!n->in[i]->constant && cm_same_shape(n->in[i], n->out[0]))
            from[i] = true;
        else if (cm_rank(n->in[i]) < 0 || cm_rank(n->in[i]) > rank - 1 - last)
            return false;
    }
    return true;
}

static bool inputs_of(const cm_node *n, int last, bool *from)
{
    if (pointwise_inputs(n, last, from))
        return true;
    int k = n->n_in ? cm_row_axes(n, 0) : -1;
    if (k < 0 || (n->op->traits & CM_ELTWISE) || last >= cm_rank(n->in[0]) - k)
        return false;
    for (int i = 0; i < n->n_in; i++)
        from[i] = i == 0;
    return true;
}

enum { MOST_INPUTS = 16, MOST_STEPS = 8 };

/* Would picking from v rather than behind it spare more than pointwise work? */
static bool climbs_on(const cm_value *v, int last, int steps)
{
    const cm_node *p = v->producer;
    bool from[MOST_INPUTS];
    if (!steps || !p || p->network != v->network || !cm_sole_use(v) || p->n_in > MOST_INPUTS ||
        !inputs_of(p, last, from))
        return false;
    if (!(p->op->traits & CM_ELTWISE))
        return true;
    for (int i = 0; i < p->n_in; i++)
        if (from[i] && climbs_on(p->in[i], last, steps - 1))
            return true;
    return false;
}

/* Does it pay to pick from these inputs of p? */
static bool pays(const cm_node *p, const bool *from, int last)
{
    int picked = 0;
    for (int i = 0; i < p->n_in; i++) {
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= p->in[j] == p->in[i];
        picked += from[i] && !again;
        if (from[i] && climbs_on(p->in[i], last, MOST_STEPS))
            return true;
    }
    return picked == 1;
}

CM_PASS(hoist_slice)
{
    CM_FOR_NODES (n, g) {
        int last = n->n_in ? last_axis(n) : -1;
        cm_node *p = last >= 0 ? n->in[0]->producer : NULL, *m;
        cm_value *in[MOST_INPUTS];
        bool from[MOST_INPUTS];
        if (!p || p->network != g || !cm_sole_use(n->in[0]) || p->n_in > MOST_INPUTS ||
            !n->out[0]->n_uses || !inputs_of(p, last, from) || !pays(p, from, last))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        for (int i = 0; i < p->n_in; i++) {
            in[i] = p->in[i];
            if (from[i])
                CM_TRY(cm_make_pick(rw, n, n, p->in[i], &in[i]));
        }
        CM_TRY(cm_make_rowwise(rw, n, p, 0, in, &m));
        CM_TRY(cm_replace(rw, n, m->out[0], m));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
