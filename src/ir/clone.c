/* clone.c -- copies of nodes and networks inside one outermost network, and thinner control nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/clone.h"

#include <string.h>

void cm_renaming_init(cm_renaming *r, cm_arena *scratch, const cm_network *from)
{
    cm_map_init(&r->to, scratch);
    r->from = from;
}

cm_status cm_rename_value(cm_ctx *cx, cm_renaming *r, const cm_value *from, cm_value *to)
{
    return cm_map_put(&r->to, from->name, to) ? CM_OK : cm_fail_memory(cx);
}

/* Is v made in the network that is copied, or in one nested in it? */
static bool made_within(const cm_renaming *r, const cm_value *v)
{
    for (const cm_network *h = v->network; h; h = h->outer)
        if (h == r->from)
            return true;
    return false;
}

cm_status cm_renamed(cm_ctx *cx, cm_renaming *r, cm_network *g, cm_value *v, cm_value **out)
{
    *out = v;
    if (!v || !made_within(r, v))
        return CM_OK;
    cm_value *known = cm_map_get(&r->to, v->name);
    if (known) {
        *out = known;
        return CM_OK;
    }
    if (!v->constant)
        return cm_fail(cx, CM_ERR_INTERNAL, "'%s' is copied before what makes it", v->name);
    CM_TRY(cm_network_add_constant(cx, g, v->name, v->constant, out));
    (*out)->weight = v->weight;
    return cm_rename_value(cx, r, v, *out);
}

static cm_status clone_network(cm_ctx *cx, cm_renaming *r, const cm_network *from,
                               cm_network *outer, cm_network **out)
{
    cm_network *g;
    CM_TRY(cm_network_nested(cx, outer, from->name, &g));
    for (int i = 0; i < from->n_inputs; i++) {
        cm_value *v;
        CM_TRY(cm_network_add_input(cx, g, from->inputs[i]->name, &from->inputs[i]->type, &v));
        CM_TRY(cm_rename_value(cx, r, from->inputs[i], v));
    }
    CM_FOR_NODES (n, from) {
        cm_node *copy;
        CM_TRY(cm_node_clone(cx, r, n, g, NULL, &copy));
    }
    for (int i = 0; i < from->n_outputs; i++) {
        cm_value *v;
        CM_TRY(cm_renamed(cx, r, g, from->outputs[i], &v));
        CM_TRY(cm_network_add_output(cx, g, v, from->output_names[i]));
    }
    *out = g;
    return CM_OK;
}

static cm_status clone_parts(cm_ctx *cx, cm_renaming *r, const cm_node *n, cm_node *copy,
                             cm_value *const *in)
{
    int own = cm_node_own_inputs(n);
    if (n->epilogue.program)
        CM_TRY(cm_node_set_epilogue(cx, copy, n->epilogue.program, in + own, n->n_in - own,
                                    n->epilogue.to));
    if (!n->n_subs)
        return CM_OK;
    cm_network **subs;
    CM_NEW_N(cx, cx->scratch, subs, n->n_subs, cm_network *);
    for (int s = 0; s < n->n_subs; s++)
        CM_TRY(clone_network(cx, r, n->subs[s], copy->network, &subs[s]));
    return cm_node_set_subs(cx, copy, subs, n->n_subs);
}

cm_status cm_node_clone(cm_ctx *cx, cm_renaming *r, const cm_node *n, cm_network *g,
                        cm_node *before, cm_node **out)
{
    cm_value **in;
    const char **names;
    void *attr;
    cm_node *copy;
    CM_NEW_N(cx, cx->scratch, in, n->n_in, cm_value *);
    CM_NEW_N(cx, cx->scratch, names, n->n_out, const char *);
    for (int i = 0; i < n->n_in; i++)
        CM_TRY(cm_renamed(cx, r, g, n->in[i], &in[i]));
    for (int o = 0; o < n->n_out; o++)
        names[o] = n->out[o] ? n->out[o]->name : "";
    CM_TRY(cm_attr_copy(cx, g->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(cm_network_add_node(cx, g, before, n->op, n->name, attr, in, cm_node_own_inputs(n),
                               names, n->n_out, &copy));
    CM_TRY(clone_parts(cx, r, n, copy, in));
    copy->n_from = 0;
    CM_TRY(cm_node_add_from(cx, copy, n));
    for (int o = 0; o < n->n_out; o++) {
        if (!n->out[o])
            continue;
        CM_TRY(cm_rename_value(cx, r, n->out[o], copy->out[o]));
        copy->out[o]->type = n->out[o]->type; /* where inference cannot tell more */
    }
    *out = copy;
    return cm_node_infer(cx, copy);
}

cm_status cm_network_inline(cm_ctx *cx, cm_network *g, const cm_network *body,
                            cm_value *const *args, cm_node *before, cm_value **out)
{
    cm_renaming r;
    cm_renaming_init(&r, cx->scratch, body);
    for (int i = 0; i < body->n_inputs; i++)
        CM_TRY(cm_rename_value(cx, &r, body->inputs[i], args[i]));
    CM_FOR_NODES (n, body) {
        cm_node *copy;
        CM_TRY(cm_node_clone(cx, &r, n, g, before, &copy));
    }
    for (int i = 0; i < body->n_outputs; i++)
        CM_TRY(cm_renamed(cx, &r, g, body->outputs[i], &out[i]));
    return CM_OK;
}

int cm_count_nodes(const cm_network *g)
{
    int k = g->n_nodes;
    CM_FOR_NODES (n, g)
        for (int s = 0; s < n->n_subs; s++)
            k += cm_count_nodes(n->subs[s]);
    return k;
}

/* ---- Same? ---------------------------------------------------------------------------------- */

static bool same_constant(const cm_tensor *a, const cm_tensor *b)
{
    size_t bytes;
    if (a == b)
        return true;
    return a->dtype == b->dtype && a->dtype != CM_STR && a->packed == b->packed &&
           cm_tensor_same_shape(a, b) && cm_tensor_bytes(a, &bytes) &&
           !memcmp(a->data, b->data, bytes);
}

/* `pairs` has, for a value of the first network, its fellow in the second. */
static bool same_value(const cm_map *pairs, const cm_value *a, const cm_value *b)
{
    if (!a || !b || a == b)
        return a == b;
    if (a->constant && b->constant)
        return same_constant(a->constant, b->constant);
    return cm_map_get(pairs, a->name) == b;
}

static bool same_networks(cm_map *pairs, const cm_network *a, const cm_network *b);

static bool same_node(cm_map *pairs, const cm_node *a, const cm_node *b)
{
    const char *p = a->epilogue.program, *q = b->epilogue.program;
    if (a->op != b->op || !(a->op->traits & (CM_PURE | CM_CONTROL)) || a->n_in != b->n_in ||
        a->n_out != b->n_out || a->n_subs != b->n_subs || a->epilogue.to != b->epilogue.to ||
        a->epilogue.n_operands != b->epilogue.n_operands || strcmp(p ? p : "", q ? q : "") != 0 ||
        !cm_attr_equal(a->op->attrs, a->attr, b->attr))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_value(pairs, a->in[i], b->in[i]))
            return false;
    for (int s = 0; s < a->n_subs; s++)
        if (!same_networks(pairs, a->subs[s], b->subs[s]))
            return false;
    for (int o = 0; o < a->n_out; o++)
        if (a->out[o] && b->out[o] && !cm_map_put(pairs, a->out[o]->name, b->out[o]))
            return false;
    return true;
}

static bool same_networks(cm_map *pairs, const cm_network *a, const cm_network *b)
{
    if (a->n_nodes != b->n_nodes || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs)
        return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (!cm_map_put(pairs, a->inputs[i]->name, b->inputs[i]))
            return false;
    for (const cm_node *x = a->first, *y = b->first; x; x = x->next, y = y->next)
        if (!same_node(pairs, x, y))
            return false;
    for (int i = 0; i < a->n_outputs; i++)
        if (!same_value(pairs, a->outputs[i], b->outputs[i]))
            return false;
    return true;
}

bool cm_networks_same(cm_ctx *cx, const cm_network *a, const cm_network *b)
{
    cm_map pairs;
    cm_map_init(&pairs, cx->scratch);
    return same_networks(&pairs, a, b);
}

/* ---- Thinner control nodes ------------------------------------------------------------------ */

static void thin_networks(cm_node *n, const cm_control_parts *p)
{
    for (int s = 0; s < n->n_subs; s++) {
        cm_network *g = n->subs[s];
        for (int i = g->n_outputs - 1; i >= 0; i--)
            if (!p->keep_body_out[i])
                cm_network_remove_output(g, i);
        for (int i = g->n_inputs - 1; i >= 0; i--)
            if (!p->keep_in[i])
                cm_network_remove_input(g, i);
    }
}

cm_status cm_control_thin(cm_ctx *cx, cm_node *n, const cm_control_parts *p, cm_node **out)
{
    cm_value **in;
    const char **names;
    int n_in = 0, n_out = 0, k = 0;
    cm_node *m;
    CM_NEW_N(cx, cx->scratch, in, n->n_in, cm_value *);
    CM_NEW_N(cx, cx->scratch, names, n->n_out, const char *);
    for (int i = 0; i < n->n_in; i++)
        if (p->keep_in[i])
            in[n_in++] = n->in[i];
    for (int o = 0; o < n->n_out; o++)
        if (p->keep_out[o])
            names[n_out++] = n->out[o] ? n->out[o]->name : "";
    CM_TRY(cm_network_add_node(cx, n->network, n, n->op, n->name, p->attr, in, n_in, names, n_out,
                               &m));
    m->n_from = 0;
    CM_TRY(cm_node_add_from(cx, m, n));
    for (int o = 0; o < n->n_out; o++) {
        if (!p->keep_out[o])
            continue;
        cm_value *v = m->out[k++];
        if (v) {
            v->type = n->out[o]->type;
            CM_TRY(cm_replace_uses(cx, n->out[o], v));
        }
    }
    thin_networks(n, p);
    CM_TRY(cm_node_set_subs(cx, m, n->subs, n->n_subs));
    n->n_subs = 0;
    cm_node_remove(n);
    *out = m;
    return CM_OK;
}
