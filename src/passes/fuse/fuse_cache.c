/* fuse_cache.c -- an attention appends to its cache by itself.
 *
 *     kk = Concat(past_k, k)
 *     vv = Concat(past_v, v)
 *     y = cameo.Attention(q, kk, vv)          kk, vv handed out as the next past
 *  becomes
 *     y, kk, vv = cameo.Attention(q, k, v, _, _, past_k, past_v)
 *
 * Fires when both keys and values are a past joined with new ones along their length, in the same way. New
 * ones are traced to the tensor that holds them. What reads kk and vv elsewhere reads the outputs; such
 * readers move behind the attention, so none of them may be needed by it.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/heads_view.h"

enum { MOST_MOVED = 64, MOST_STEPS = 64 };

typedef struct {
    cm_value *joined, *past;
    bool turned; /* [batch, heads, size, len] */
    cm_heads_at fresh;
} cache;

/* The place farthest up where the new rows can be taken. */
static bool trace(cm_value *v, const char *labels, cm_heads_at *best)
{
    cm_dim_table *t = v->network->dims;
    cm_view w;
    cm_heads_at at;
    bool any = false;
    if (!cm_view_start(&w, v, labels))
        return false;
    for (int i = 0; i < MOST_STEPS; i++) {
        if (cm_view_accept(t, &w, false, false, &at) && at.groups == 1) {
            bool as_is =
                any && best->rank == cm_rank(best->v) && best->v->producer &&
                cm_is(best->v->producer, CM_OP_RESHAPE) && at.v == best->v->producer->in[0] &&
                !memcmp(best->dims, best->v->type.dims, (size_t)best->rank * sizeof(cm_dim));
            if (!as_is)
                *best = at;
            any = true;
        }
        if (!cm_view_back(t, &w, false))
            break;
    }
    return any;
}

static bool swaps_last(const cm_node *n)
{
    cm_ints p = cm_int_list(n, "perm");
    return p.n == 4 && p.v[0] == 0 && p.v[1] == 1 && p.v[2] == 3 && p.v[3] == 2;
}

/* Operand i of attention n as past and new rows. */
static bool read_cache(const cm_node *n, int i, const char *layout, cache *out)
{
    cm_node *c = cm_made_by(n->in[i], CM_OP_CONCAT);
    bool turned = cm_string_is(n, layout, "bhds");
    if (!c || c->n_in != 2 || c->network != n->network ||
        (!turned && !cm_string_is(n, layout, "bhsd")))
        return false;
    int64_t axis = cm_int(c, "axis");
    axis += axis < 0 ? 4 : 0;
    *out = (cache){.joined = c->out[0], .past = c->in[0], .turned = turned};
    if (axis != (turned ? 3 : 2))
        return false;
    if (turned) {
        cm_node *t = cm_made_by(c->in[0], CM_OP_TRANSPOSE);
        if (!t || !swaps_last(t))
            return false;
        out->past = t->in[0];
    }
    return trace(c->in[1], turned ? "bhds" : "bhsd", &out->fresh);
}

/* The nodes before n that need one of the caches; false when n itself needs such a node. */
static bool find_readers(const cm_node *n, const cache *caches, cm_node **moved, int *n_moved)
{
    *n_moved = 0;
    for (int at = -2; at < *n_moved; at++) {
        const cm_node *from = at < 0 ? NULL : moved[at];
        int n_out = from ? from->n_out : 1;
        if (from && (from->n_subs || from->epilogue.program))
            return false;
        for (int o = 0; o < n_out; o++) {
            const cm_value *v = from ? from->out[o] : caches[at + 2].joined;
            for (const cm_use *u = v ? v->uses : NULL; u; u = u->next) {
                if (!u->node ? u->network != n->network : u->node->network != n->network)
                    return false;
                if (u->node == n && from)
                    return false;
                if (!u->node || u->node->mark >= n->mark)
                    continue;
                bool known = false;
                for (int k = 0; k < *n_moved; k++)
                    known |= moved[k] == u->node;
                if (known)
                    continue;
                if (*n_moved == MOST_MOVED)
                    return false;
                moved[(*n_moved)++] = u->node;
            }
        }
    }
    for (int i = 1; i < *n_moved; i++) /* in their order */
        for (int j = i; j > 0 && moved[j - 1]->mark > moved[j]->mark; j--) {
            cm_node *t = moved[j];
            moved[j] = moved[j - 1];
            moved[j - 1] = t;
        }
    return true;
}

/* n again, before `before` (NULL: at the end). */
static cm_status move(cm_rewriter *rw, cm_node *n, cm_node *before)
{
    cm_node *m;
    CM_TRY(cm_network_add_node(rw->cx, n->network, before, n->op, n->name, n->attr, n->in, n->n_in,
                               NULL, n->n_out, &m));
    m->from = n->from;
    m->n_from = n->n_from;
    m->mark = UINT32_MAX;
    CM_TRY(cm_node_infer(rw->cx, m));
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o])
            CM_TRY(cm_replace_uses(rw->cx, n->out[o], m->out[o]));
    cm_node_remove(n);
    return CM_OK;
}

/* What else reads the cache reads `present`. */
static cm_status hand_out(cm_rewriter *rw, const cache *c, cm_node *before, cm_value *present)
{
    if (!c->joined->n_uses)
        return CM_OK;
    if (c->turned) {
        void *attr;
        cm_node *t;
        CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_TRANSPOSE, &attr));
        CM_TRY(cm_attr_put_ints(rw->cx, before->network, CM_OP_TRANSPOSE, attr, "perm",
                                (int64_t[]){0, 1, 3, 2}, 4));
        for (const cm_use *u = c->joined->uses, *next; u; u = next) { /* transposed back: itself */
            next = u->next;
            if (u->node && cm_is(u->node, CM_OP_TRANSPOSE) && swaps_last(u->node))
                CM_TRY(cm_replace_uses(rw->cx, u->node->out[0], present));
        }
        CM_TRY(cm_make_with(rw, before, CM_OP_TRANSPOSE, attr, before, &present, 1, 1, &t));
        present = t->out[0];
    }
    return cm_replace_uses(rw->cx, c->joined, present);
}

static bool same_past(const cache *c)
{
    const cm_type *k = &c[0].past->type, *v = &c[1].past->type;
    return k->rank == 4 && v->rank == 4 && k->dims[2] == v->dims[2] &&
           c[0].fresh.rows == c[1].fresh.rows;
}

static cm_status fuse(cm_rewriter *rw, cm_node *n, const cache *c, cm_node *const *moved,
                      int n_moved)
{
    cm_value *in[7] = {
        n->in[0],  NULL,     NULL, n->n_in > 3 ? n->in[3] : NULL, n->n_in > 4 ? n->in[4] : NULL,
        c[0].past, c[1].past};
    void *attr;
    cm_node *m;
    const cm_op_id op = CM_OP_FUSED_ATTENTION;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    cm_ints old_offsets = cm_int_list(n, "offsets"), old_steps = cm_int_list(n, "head_steps");
    int64_t offsets[3] = {old_offsets.n ? old_offsets.v[0] : 0, c[0].fresh.offset,
                          c[1].fresh.offset};
    int64_t steps[3] = {old_steps.n ? old_steps.v[0] : cm_int(n, "head_size"), c[0].fresh.head_step,
                        c[1].fresh.head_step};
    if (old_offsets.n || offsets[1] || offsets[2])
        CM_TRY(cm_attr_put_ints(rw->cx, n->network, op, attr, "offsets", offsets, 3));
    if (steps[0] != cm_int(n, "head_size") || steps[1] != c[0].fresh.cols ||
        steps[2] != c[1].fresh.cols)
        CM_TRY(cm_attr_put_ints(rw->cx, n->network, op, attr, "head_steps", steps, 3));
    CM_TRY(cm_attr_put_string(rw->cx, n->network, op, attr, "k_layout", c[0].fresh.layout));
    CM_TRY(cm_attr_put_string(rw->cx, n->network, op, attr, "v_layout", c[1].fresh.layout));
    for (int i = 0; i < 2; i++)
        CM_TRY(cm_view_as(rw, n, n, c[i].fresh.v, c[i].fresh.rank, c[i].fresh.dims, &in[1 + i]));
    CM_TRY(cm_make_with(rw, n, op, attr, n, in, 7, 3, &m));
    m->mark = n->mark;
    CM_TRY(cm_node_add_from(rw->cx, m, c[0].joined->producer));
    CM_TRY(cm_node_add_from(rw->cx, m, c[1].joined->producer));
    cm_node *behind = n->next;
    for (int i = 0; i < n_moved; i++)
        CM_TRY(move(rw, moved[i], behind));
    CM_TRY(cm_replace(rw, n, m->out[0], m));
    CM_TRY(cm_node_set_input(rw->cx, n, 1, in[1]));
    CM_TRY(cm_node_set_input(rw->cx, n, 2, in[2]));
    CM_TRY(hand_out(rw, &c[0], n, m->out[1]));
    CM_TRY(hand_out(rw, &c[1], n, m->out[2]));
    cm_node_remove(n);
    return CM_OK;
}

CM_PASS(fuse_cache)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        cache c[2];
        cm_node *moved[MOST_MOVED];
        int n_moved;
        if (!cm_is(n, CM_OP_FUSED_ATTENTION) || (n->n_in > 5 && n->in[5]) ||
            !read_cache(n, 1, "k_layout", &c[0]) || !read_cache(n, 2, "v_layout", &c[1]) ||
            !same_past(c))
            continue;
        if (!find_readers(n, c, moved, &n_moved)) {
            cm_near(rw, n, "cache not fused: the attention needs what is computed from it");
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(fuse(rw, n, c, moved, n_moved));
    }
    return CM_OK;
}
