/* fuse_present.c -- an attention without a past hands out its keys and values by itself.
 *
 *     k = Transpose(Reshape(part of qkv))        [batch, heads, len, size], handed out as a cache
 *     y = cameo.Attention(qkv, qkv, qkv)
 *  becomes
 *     y, k, _ = cameo.Attention(qkv, qkv, qkv)
 *
 * Fires on transposes to [batch, heads, len, size] of exactly the heads that an attention reads as its keys or
 * values, when nothing that stands before the attention reads them. The prompt of a model with a cache is the
 * case: what reads the cache is the network's output.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/heads_view.h"

enum { MOST_STEPS = 16 };

/* Does attention n read the heads at `at` as its input i? */
static bool reads_heads(const cm_node *n, int i, const cm_heads_at *at)
{
    if (!cm_is(n, CM_OP_FUSED_ATTENTION))
        return false;
    cm_ints offsets = cm_int_list(n, "offsets"), steps = cm_int_list(n, "head_steps");
    int64_t size = cm_int(n, i == 1 ? "head_size" : "v_head_size"), heads;
    int64_t offset = offsets.n > i ? offsets.v[i] : 0, step = steps.n > i ? steps.v[i] : size;
    if ((n->n_in > 5 && n->in[5]) || n->in[i] != at->v)
        return false;
    if (!cm_dim_is_const(n->network->dims, at->heads, &heads))
        return false;
    return offset == at->offset && step == at->head_step && heads == cm_int(n, "kv_num_heads") &&
           at->cols == size && at->groups == 1 &&
           cm_string_is(n, i == 1 ? "k_layout" : "v_layout", at->layout);
}

/* Is v read by network outputs and nodes behind n only? */
static bool read_behind(const cm_value *v, const cm_node *n)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node ? u->node->network != n->network || u->node->mark <= n->mark
                    : u->network != n->network)
            return false;
    return v->n_uses > 0;
}

/* The attention that reads what t transposes, tracing back from t; *input is 1 or 2. */
static cm_node *find_attention(cm_node *t, int *input)
{
    cm_dim_table *dims = t->network->dims;
    cm_view w;
    if (cm_rank(t->out[0]) != 4 || !cm_view_start(&w, t->out[0], "bhsd"))
        return NULL;
    for (int k = 0; k < MOST_STEPS && cm_view_back(dims, &w, false); k++) {
        cm_heads_at at;
        if (!cm_view_accept(dims, &w, false, false, &at))
            continue;
        for (const cm_use *u = at.v->uses; u; u = u->next) {
            if (u->node && u->node->network == t->network && (u->index == 1 || u->index == 2) &&
                reads_heads(u->node, u->index, &at) && read_behind(t->out[0], u->node)) {
                *input = u->index;
                return u->node;
            }
        }
    }
    return NULL;
}

/* n with all three outputs. */
static cm_status widen(cm_rewriter *rw, cm_node *n, cm_node **out)
{
    cm_node *m;
    CM_TRY(cm_make_with(rw, n, n->op->id, n->attr, n, n->in, n->n_in, 3, &m));
    m->mark = n->mark;
    CM_TRY(cm_replace(rw, n, m->out[0], m));
    cm_node_remove(n);
    *out = m;
    return CM_OK;
}

CM_PASS(fuse_present)
{
    cm_number_nodes(g);
    for (cm_node *t = g->first, *next; t; t = next) {
        int i;
        next = t->next;
        if (!cm_is(t, CM_OP_TRANSPOSE) || !t->out[0]->n_uses)
            continue;
        cm_node *n = find_attention(t, &i);
        if (!n || (n->n_out > i && !n->out[i]))
            continue;
        if (!cm_rewrite(rw, t))
            return CM_OK;
        if (n->n_out == 1) {
            bool was_next = n == next;
            CM_TRY(widen(rw, n, &n));
            next = was_next ? n : next;
        }
        CM_TRY(cm_replace(rw, t, n->out[i], n));
    }
    return CM_OK;
}
