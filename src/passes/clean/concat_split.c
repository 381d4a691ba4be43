/* concat_split.c -- putting together and taking apart again.
 *
 *     a, b = Split(x, @[4, 5]);  y = Concat(a, b)       becomes    x
 *     c = Concat(a, b);          y = Concat(c, d)       becomes    Concat(a, b, d)
 *     c = Concat(a, b);          u, v = Split(c)        becomes    a and b, when the borders are the same
 *
 * All on one axis. A Concat inside another goes when nobody else reads it.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

enum { MOST_PARTS = 256 };

static int64_t axis_of(const cm_node *n)
{
    int64_t axis = cm_int(n, "axis");
    int rank = cm_rank(n->in[0]);
    return rank < 0 ? -1 : axis < 0 ? axis + rank : axis;
}

/* Concat of all the parts of one Split, in order. */
static cm_value *put_back(const cm_node *n)
{
    cm_node *s = cm_made_by(n->in[0], CM_OP_SPLIT);
    if (!s || s->n_out != n->n_in || axis_of(s) != axis_of(n) || axis_of(n) < 0)
        return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != s->out[i] || n->in[i]->producer != s)
            return NULL;
    return cm_type_equal(&s->in[0]->type, &n->out[0]->type) ? s->in[0] : NULL;
}

static bool is_inner(const cm_node *n, int i)
{
    const cm_node *c = cm_made_by(n->in[i], CM_OP_CONCAT);
    return c && cm_sole_use(n->in[i]) && axis_of(c) == axis_of(n) && axis_of(n) >= 0;
}

static cm_status flatten(cm_rewriter *rw, cm_node *n)
{
    cm_value *in[MOST_PARTS];
    const cm_node *inner[MOST_PARTS];
    int k = 0, n_inner = 0;
    for (int i = 0; i < n->n_in; i++) {
        const cm_node *c = is_inner(n, i) ? n->in[i]->producer : NULL;
        if (k + (c ? c->n_in : 1) > MOST_PARTS)
            return CM_OK;
        if (c)
            inner[n_inner++] = c;
        for (int j = 0; c && j < c->n_in; j++)
            in[k++] = c->in[j];
        if (!c)
            in[k++] = n->in[i];
    }
    if (!n_inner || !cm_rewrite(rw, n))
        return CM_OK;
    void *attr;
    cm_node *y;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(cm_make_with(rw, n, CM_OP_CONCAT, attr, n, in, k, 1, &y));
    for (int i = 0; i < n_inner; i++)
        CM_TRY(cm_node_add_from(rw->cx, y, inner[i]));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

/* A Split at the borders of the Concat in front of it. */
static bool takes_apart(const cm_node *n)
{
    const cm_node *c = cm_made_by(n->in[0], CM_OP_CONCAT);
    if (!c || c->n_in != n->n_out || axis_of(c) != axis_of(n) || axis_of(n) < 0)
        return false;
    for (int i = 0; i < n->n_out; i++)
        if (!n->out[i] || !cm_type_equal(&n->out[i]->type, &c->in[i]->type) ||
            cm_rank(c->in[i]) < 0 || !cm_dim_is_size(c->in[i]->type.dims[axis_of(n)]))
            return false;
    return true;
}

static bool is_read(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return true;
    return false;
}

CM_PASS(concat_split)
{
    CM_FOR_NODES (n, g) {
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (cm_is(n, CM_OP_CONCAT) && n->n_in > 0 && n->out[0]->n_uses) {
            cm_value *x = put_back(n);
            if (!x) {
                CM_TRY(flatten(rw, n));
                continue;
            }
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(cm_replace(rw, n, x, NULL));
            cm_drop_if_dead(n);
        } else if (cm_is(n, CM_OP_SPLIT) && is_read(n) && takes_apart(n)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            const cm_node *c = n->in[0]->producer;
            for (int o = 0; o < n->n_out; o++)
                CM_TRY(cm_replace_uses(rw->cx, n->out[o], c->in[o]));
            cm_drop_if_dead(n);
        }
    }
    return CM_OK;
}
