/* batch_first.c -- an attention over [len, batch, columns] as one over [batch, len, columns].
 *
 *     t = Transpose(x) {perm=[1,0,2]}
 *     p = Add(MatMul(t, @w), @b)
 *     a = cameo.Attention(p, p, p) {q_layout="sbhd", ...}
 *     m = Add(MatMul(a, @v), @c)
 *     y = Transpose(m) {perm=[1,0,2]}
 *  becomes
 *     p = Add(MatMul(x, @w), @b)
 *     a = cameo.Attention(p, p, p)
 *     y = Add(MatMul(a, @v), @c)
 *
 * Operands and result are looked at apart; each changes when the transpose stands at the other end of products
 * with constants and rows added to them, and nobody else reads what lies between.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

enum { MOST_NODES = 6 };

static bool swaps(const cm_node *n)
{
    if (!cm_is(n, CM_OP_TRANSPOSE))
        return false;
    cm_ints p = cm_int_list(n, "perm");
    return p.n == 3 && p.v[0] == 1 && p.v[1] == 0 && p.v[2] == 2;
}

/* The input of n that rows pass through one by one, or -1. */
static int row_input(const cm_node *n)
{
    if (cm_is(n, CM_OP_MATMUL))
        return cm_is_const(n->in[1]) && cm_rank(n->in[1]) == 2 ? 0 : -1;
    if (!cm_is(n, CM_OP_ADD))
        return -1;
    for (int i = 0; i < 2; i++)
        if (cm_is_const(n->in[i]) && cm_rank(n->in[i]) == 1 &&
            cm_same_shape(n->in[1 - i], n->out[0]))
            return 1 - i;
    return -1;
}

static bool read_only_by(const cm_value *v, const cm_node *n)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n)
            return false;
    return true;
}

/* Operand v of n, from the transpose on, anew before n. *out NULL: it is not that. */
static cm_status straighten(cm_rewriter *rw, cm_node *n, cm_value *v, cm_value **out)
{
    cm_node *chain[MOST_NODES];
    int k = 0, i;
    const cm_node *reader = n;
    cm_value *at = v;
    *out = NULL;
    for (; at->producer && at->producer->network == n->network && !swaps(at->producer); k++) {
        if (k == MOST_NODES || !read_only_by(at, reader) || (i = row_input(at->producer)) < 0)
            return CM_OK;
        chain[k] = at->producer;
        reader = at->producer;
        at = reader->in[i];
    }
    if (!at->producer || at->producer->network != n->network || k == 0 || !cm_rewrite(rw, n))
        return CM_OK;
    at = at->producer->in[0];
    while (k-- > 0) {
        cm_value *in[2] = {chain[k]->in[0], chain[k]->in[1]};
        cm_node *m;
        in[row_input(chain[k])] = at;
        CM_TRY(cm_make(rw, n, chain[k]->op->id, chain[k], in, 2, 1, &m));
        at = m->out[0];
    }
    *out = at;
    return CM_OK;
}

static cm_status straighten_result(cm_rewriter *rw, cm_node *n)
{
    cm_node *chain[MOST_NODES];
    int k = 0;
    const cm_value *at = n->out[0];
    cm_node *r = cm_only_reader(at);
    for (; r && !swaps(r); k++) {
        int i = k < MOST_NODES ? row_input(r) : -1;
        if (i < 0 || r->in[i] != at)
            return CM_OK;
        chain[k] = r;
        at = r->out[0];
        r = cm_only_reader(at);
    }
    if (!r || !cm_rewrite(rw, n))
        return CM_OK;
    CM_TRY(cm_set_string(rw->cx, n, "y_layout", "bshd"));
    CM_TRY(cm_node_infer(rw->cx, n));
    for (int i = 0; i < k; i++)
        CM_TRY(cm_node_infer(rw->cx, chain[i]));
    return cm_replace(rw, r, k ? chain[k - 1]->out[0] : n->out[0], k ? chain[k - 1] : n);
}

CM_PASS(batch_first)
{
    static const char *const layouts[] = {"q_layout", "k_layout", "v_layout"};
    CM_FOR_NODES (n, g) {
        if (!cm_is(n, CM_OP_FUSED_ATTENTION))
            continue;
        for (int i = 0; i < 3; i++) {
            cm_value *old = n->in[i], *v;
            if (!cm_string_is(n, layouts[i], "sbhd"))
                continue;
            CM_TRY(straighten(rw, n, old, &v));
            for (int j = i; v && j < 3; j++)
                if (n->in[j] == old && cm_string_is(n, layouts[j], "sbhd")) {
                    CM_TRY(cm_set_string(rw->cx, n, layouts[j], "bshd"));
                    CM_TRY(cm_node_set_input(rw->cx, n, j, v));
                }
        }
        if (cm_string_is(n, "y_layout", "sbhd"))
            CM_TRY(straighten_result(rw, n));
    }
    return CM_OK;
}
