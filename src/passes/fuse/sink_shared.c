/* sink_shared.c -- move a transpose down past several readers at once, where transposes go away by it.
 *
 *     a = Transpose(x) {perm=[0,2,3,1]}
 *     b = Sigmoid(a)                           b = Sigmoid(x)
 *     c = Concat(a, b) {axis=3}       becomes  y = Concat(x, b) {axis=1}
 *     y = Transpose(c) {perm=[0,3,1,2]}
 *
 * All nodes behind the transpose that can work on the other order (passes/sink_pointwise.h, passes/sink_axes.h), together
 * with all transposes by the same permutation that they read, are one region. It fires when more transposes go away
 * (those that only the region reads, those behind it that undo the permutation) than are put behind it for other
 * readers: so it ends.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/sink_axes.h"
#include "passes/sink_pointwise.h"

typedef struct {
    cm_transposed t;
    const cm_value *first;             /* what the Transpose made that it begins with */
    cm_node *node[CM_MOST_TRANSPOSED]; /* in order */
    int n_nodes;
    const cm_node *root[CM_MOST_TRANSPOSED]; /* Transposes that they read */
    int n_roots;
    int gain;
    int64_t open; /* uses of its values by nodes that were not considered yet */
} region;

/* How often nodes of the same network read v. */
static int64_t reads(const cm_value *v)
{
    int64_t k = 0;
    for (const cm_use *u = v->uses; u; u = u->next)
        k += u->node && u->node->network == v->network;
    return k;
}

static bool is_planned(const region *r, const cm_value *v)
{
    for (int i = 0; i < r->t.n_more; i++)
        if (r->t.more[i] == v)
            return true;
    return false;
}

/* Let n join if it can. */
static void consider(region *r, cm_node *n)
{
    bool keeps = true, leaves = false;
    for (int i = 0; i < n->n_in; i++)
        r->open -= n->in[i] && (n->in[i] == r->first || is_planned(r, n->in[i]));
    if (n->n_out < 1 || r->t.n_more + n->n_out > CM_MOST_TRANSPOSED ||
        r->n_roots + n->n_in > CM_MOST_TRANSPOSED)
        return;
    if (!cm_can_sink_axes(n, &r->t, &keeps, &leaves) && !cm_can_sink_pointwise(n, &r->t))
        return;
    r->node[r->n_nodes++] = n;
    r->gain -= !keeps && leaves;
    for (int o = 0; o < n->n_out && keeps; o++)
        if (n->out[o]) {
            r->t.more[r->t.n_more++] = n->out[o];
            r->open += reads(n->out[o]);
        }
    for (int i = 0; i < n->n_in; i++) {
        const cm_node *made = n->in[i] ? cm_made_by(n->in[i], CM_OP_TRANSPOSE) : NULL;
        bool known = !made;
        for (int k = 0; k < r->n_roots && !known; k++)
            known = r->root[k] == made;
        if (!known && cm_is_transposed(&r->t, n->in[i]))
            r->root[r->n_roots++] = made;
    }
}

static bool has(const region *r, const cm_node *n)
{
    for (int i = 0; i < r->n_nodes; i++)
        if (r->node[i] == n)
            return true;
    return false;
}

static bool only_region_reads(const region *r, const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (!has(r, u->node))
            return false;
    return true;
}

/* What the readers outside of v, a value of the region, gain or lose. */
static int gain_behind(const region *r, const cm_value *v)
{
    int64_t perm[CM_MAX_RANK], inverse[CM_MAX_RANK];
    int undone = 0;
    bool others = false;
    cm_perm_inverse(r->t.perm, r->t.rank, inverse);
    for (const cm_use *u = v->uses; u; u = u->next) {
        if (has(r, u->node))
            continue;
        if (!u->node || u->node->network != v->network || !cm_is(u->node, CM_OP_TRANSPOSE) ||
            !cm_perm(u->node, perm))
            others = true;
        else if (cm_perm_equal(perm, inverse, r->t.rank))
            undone++;
    }
    return undone - others;
}

static void plan(region *r, cm_node *t)
{
    *r = (region){.t.rank = cm_rank(t->out[0]), .first = t->out[0], .open = reads(t->out[0])};
    if (r->t.rank < 2 || !cm_perm(t, r->t.perm))
        return;
    for (cm_node *n = t->next; n && r->open > 0 && r->n_nodes < CM_MOST_TRANSPOSED; n = n->next)
        consider(r, n);
    for (int i = 0; i < r->n_roots; i++)
        r->gain += only_region_reads(r, r->root[i]->out[0]);
    for (int i = 0; i < r->t.n_more; i++)
        r->gain += gain_behind(r, r->t.more[i]);
}

CM_PASS(sink_shared)
{
    CM_FOR_NODES (n, g) {
        region r;
        bool keeps, leaves;
        if (!cm_is(n, CM_OP_TRANSPOSE) || n->out[0]->n_uses < 2)
            continue;
        plan(&r, n);
        if (r.gain <= 0)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        r.t.n_more = 0; /* they are made by Transposes as it goes on */
        for (int i = 0; i < r.n_nodes; i++)
            CM_TRY(cm_can_sink_axes(r.node[i], &r.t, &keeps, &leaves)
                       ? cm_sink_axes_past(rw, r.node[i])
                       : cm_sink_pointwise(rw, r.node[i], r.t.perm));
        return CM_OK; /* the nodes that follow may have gone; again */
    }
    return CM_OK;
}
