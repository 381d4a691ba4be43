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
 * also be read by the one node that reads the result: Mul(a, Sigmoid(a)). Concat, Softmax, LogSoftmax and LpNormalization
 * get their axis translated, and nodes that work on axes (passes/sink_axes.h) theirs. Moving down only, it ends.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/sink_axes.h"
#include "passes/sink_pointwise.h"

/* Does nobody read v but n, and the only reader of n, which reads nothing else of more than one element? */
static bool reads_alone(const cm_value *v, const cm_node *n)
{
    if (cm_only_reader(v) == n)
        return true;
    const cm_node *m = cm_only_reader(n->out[0]);
    if (!m || !cm_lets_transposes_by(m) || cm_sinks_with_axis(m))
        return false;
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n && u->node != m)
            return false;
    for (int i = 0; i < m->n_in; i++)
        if (m->in[i] && m->in[i] != v && m->in[i] != n->out[0] && cm_volume(m->in[i]) != 1)
            return false;
    return cm_rank(m->out[0]) == cm_rank(v);
}

/* The permutation of the first transposed input of n, when n can pass and reads all of those alone. */
static bool can_sink(const cm_node *n, cm_transposed *t)
{
    t->rank = -1;
    t->n_more = 0;
    for (int i = 0; i < n->n_in; i++) {
        const cm_node *made = n->in[i] ? cm_made_by(n->in[i], CM_OP_TRANSPOSE) : NULL;
        if (!made)
            continue;
        if (!reads_alone(n->in[i], n))
            return false;
        if (t->rank < 0 && !cm_perm(made, t->perm))
            return false;
        t->rank = cm_rank(n->in[i]);
    }
    return t->rank >= 0 && cm_can_sink_pointwise(n, t);
}

CM_PASS(sink_transposes)
{
    CM_FOR_NODES (n, g) {
        cm_transposed t;
        bool done;
        CM_TRY(cm_sink_axes(rw, n, &done));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (done || !cm_lets_transposes_by(n) || !can_sink(n, &t))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_sink_pointwise(rw, n, t.perm));
    }
    return CM_OK;
}
