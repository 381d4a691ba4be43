/* network.c -- building and rewriting networks; the lists of uses are kept here and nowhere else.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/network.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"

struct cm_network_root {
    cm_map values;   /* name -> cm_value */
    cm_map suffixes; /* name -> last number tried for making it unique */
    int n_values, n_nodes;
};

static cm_status new_network(cm_ctx *cx, cm_arena *arena, const char *name, cm_network **out)
{
    cm_network *g;
    CM_NEW(cx, arena, g, cm_network);
    g->arena = arena;
    g->name = cm_arena_strdup(arena, name ? name : "");
    if (!g->name)
        return cm_fail_memory(cx);
    *out = g;
    return CM_OK;
}

cm_status cm_network_create(cm_ctx *cx, cm_arena *arena, const char *name, cm_network **out)
{
    cm_network *g;
    CM_TRY(new_network(cx, arena, name, &g));
    CM_TRY(cm_dim_table_create(cx, arena, &g->dims));
    CM_NEW(cx, arena, g->root, struct cm_network_root);
    cm_map_init(&g->root->values, arena);
    cm_map_init(&g->root->suffixes, arena);
    *out = g;
    return CM_OK;
}

cm_status cm_network_nested(cm_ctx *cx, cm_network *outer, const char *name, cm_network **out)
{
    cm_network *g;
    CM_TRY(new_network(cx, outer->arena, name, &g));
    g->dims = outer->dims;
    g->outer = outer;
    g->root = outer->root;
    *out = g;
    return CM_OK;
}

/* `base`, or base_1, base_2 ...: the first that no value has. */
static cm_status unique_name(cm_ctx *cx, cm_network *g, const char *base, const char **out)
{
    struct cm_network_root *r = g->root;
    if (!cm_map_get(&r->values, base)) {
        *out = base;
        return CM_OK;
    }
    intptr_t n = (intptr_t)cm_map_get(&r->suffixes, base);
    char *name;
    do {
        name = cm_arena_printf(g->arena, "%s_%lld", base, (long long)++n);
        if (!name)
            return cm_fail_memory(cx);
    } while (cm_map_get(&r->values, name));
    if (!cm_map_put(&r->suffixes, base, (void *)n))
        return cm_fail_memory(cx);
    *out = name;
    return CM_OK;
}

static cm_status new_value(cm_ctx *cx, cm_network *g, const char *name, cm_value **out)
{
    cm_value *v;
    CM_NEW(cx, g->arena, v, cm_value);
    CM_TRY(unique_name(cx, g, name && *name ? name : "v", &name));
    cm_map *values = &g->root->values;
    size_t n = values->n;
    if (!cm_map_put(values, name, v))
        return cm_fail_memory(cx);
    /* A name that was given up has its key further up. */
    v->name = values->n > n ? values->entries[n].key : cm_arena_strdup(g->arena, name);
    if (!v->name)
        return cm_fail_memory(cx);
    v->network = g;
    v->id = g->root->n_values++;
    *out = v;
    return CM_OK;
}

/* Append `item` to an array of n pointers that grows by doubling at powers of two. */
static cm_status append(cm_ctx *cx, cm_arena *arena, void *array, int n, const void *item)
{
    const void ***a = array;
    if ((n & (n - 1)) == 0) { /* 0, 1, 2, 4, 8 ...: full */
        const void **bigger;
        CM_NEW_N(cx, arena, bigger, n ? 2 * (size_t)n : 1, const void *);
        if (n)
            memcpy(bigger, *a, (size_t)n * sizeof *bigger);
        *a = bigger;
    }
    (*a)[n] = item;
    return CM_OK;
}

static cm_status add_use(cm_ctx *cx, cm_arena *arena, cm_value *v, cm_node *node,
                         cm_network *network, int index)
{
    if (!v)
        return CM_OK;
    cm_use *u;
    CM_NEW(cx, arena, u, cm_use);
    *u = (cm_use){node, network, index, v->uses};
    v->uses = u;
    v->n_uses++;
    return CM_OK;
}

static void remove_use(cm_value *v, const cm_node *node, const cm_network *network, int index)
{
    if (!v)
        return;
    for (cm_use **p = &v->uses; *p; p = &(*p)->next) {
        if ((*p)->node == node && (*p)->network == network && (*p)->index == index) {
            *p = (*p)->next;
            v->n_uses--;
            return;
        }
    }
}

cm_status cm_network_add_input(cm_ctx *cx, cm_network *g, const char *name, const cm_type *type,
                               cm_value **out)
{
    cm_value *v;
    CM_TRY(new_value(cx, g, name, &v));
    if (type)
        v->type = *type;
    v->index = g->n_inputs;
    CM_TRY(append(cx, g->arena, &g->inputs, g->n_inputs, v));
    g->n_inputs++;
    *out = v;
    return CM_OK;
}

cm_status cm_network_add_constant(cm_ctx *cx, cm_network *g, const char *name, const cm_tensor *t,
                                  cm_value **out)
{
    cm_value *v;
    CM_TRY(new_value(cx, g, name, &v));
    v->constant = t;
    v->type = cm_type_of_tensor(t);
    *out = v;
    return CM_OK;
}

cm_status cm_network_add_output(cm_ctx *cx, cm_network *g, cm_value *v, const char *name)
{
    const char *copy = cm_arena_strdup(g->arena, name ? name : v->name);
    if (!copy)
        return cm_fail_memory(cx);
    CM_TRY(append(cx, g->arena, &g->outputs, g->n_outputs, v));
    CM_TRY(append(cx, g->arena, &g->output_names, g->n_outputs, copy));
    CM_TRY(add_use(cx, g->arena, v, NULL, g, g->n_outputs));
    g->n_outputs++;
    return CM_OK;
}

cm_value *cm_network_find_value(const cm_network *g, const char *name)
{
    return cm_map_get(&g->root->values, name);
}

static void link_node(cm_network *g, cm_node *n, cm_node *before)
{
    n->next = before;
    n->prev = before ? before->prev : g->last;
    *(n->prev ? &n->prev->next : &g->first) = n;
    *(before ? &before->prev : &g->last) = n;
    g->n_nodes++;
}

static cm_status make_outputs(cm_ctx *cx, cm_network *g, cm_node *n, const char *const *names)
{
    CM_NEW_N(cx, g->arena, n->out, n->n_out, cm_value *);
    for (int i = 0; i < n->n_out; i++) {
        const char *name = names ? names[i] : NULL;
        if (name && !*name)
            continue; /* not wanted */
        CM_TRY(new_value(cx, g, name ? name : n->name, &n->out[i]));
        n->out[i]->producer = n;
        n->out[i]->index = i;
    }
    return CM_OK;
}

cm_status cm_network_add_node(cm_ctx *cx, cm_network *g, cm_node *before, const cm_op *op,
                              const char *name, void *attr, cm_value *const *in, int n_in,
                              const char *const *out_names, int n_out, cm_node **out)
{
    cm_node *n;
    CM_NEW(cx, g->arena, n, cm_node);
    n->op = op;
    n->network = g;
    n->id = g->root->n_nodes++;
    n->name = cm_arena_strdup(g->arena, name && *name ? name : op->name);
    CM_NEW_N(cx, g->arena, n->from, 1, const char *);
    if (!n->name)
        return cm_fail_memory(cx);
    n->from[0] = n->name;
    n->n_from = 1;
    n->attr = attr;
    if (!attr)
        CM_TRY(cm_attr_new(cx, g->arena, op->attrs, &n->attr));
    n->n_in = n_in;
    n->n_out = n_out;
    CM_NEW_N(cx, g->arena, n->in, n_in, cm_value *);
    CM_TRY(make_outputs(cx, g, n, out_names));
    link_node(g, n, before);
    for (int i = 0; i < n_in; i++) {
        n->in[i] = in[i];
        CM_TRY(add_use(cx, g->arena, in[i], n, NULL, i));
    }
    *out = n;
    return CM_OK;
}

cm_status cm_node_set_subs(cm_ctx *cx, cm_node *n, cm_network *const *subs, int n_subs)
{
    CM_NEW_N(cx, n->network->arena, n->subs, n_subs, cm_network *);
    n->n_subs = n_subs;
    for (int i = 0; i < n_subs; i++) {
        n->subs[i] = subs[i];
        subs[i]->owner = n;
    }
    return CM_OK;
}

/* Drop the operands of an epilogue that there is, then append the new one's. */
cm_status cm_node_set_epilogue(cm_ctx *cx, cm_node *n, const char *program,
                               cm_value *const *operands, int n_operands, cm_dtype to)
{
    cm_arena *arena = n->network->arena;
    int own = cm_node_own_inputs(n);
    const char *copy = cm_arena_strdup(arena, program);
    cm_value **in;
    CM_NEW_N(cx, arena, in, own + n_operands, cm_value *);
    if (!copy)
        return cm_fail_memory(cx);
    for (int i = 0; i < own; i++)
        in[i] = n->in[i];
    for (int i = 0; i < n_operands; i++) {
        in[own + i] = operands[i];
        CM_TRY(add_use(cx, arena, operands[i], n, NULL, own + i));
    }
    for (int i = own; i < n->n_in; i++)
        remove_use(n->in[i], n, NULL, i);
    n->in = in;
    n->n_in = own + n_operands;
    n->epilogue = (cm_epilogue){copy, n_operands, to};
    return CM_OK;
}

cm_status cm_node_set_input(cm_ctx *cx, cm_node *n, int i, cm_value *v)
{
    if (n->in[i] == v)
        return CM_OK;
    CM_TRY(add_use(cx, n->network->arena, v, n, NULL, i));
    remove_use(n->in[i], n, NULL, i);
    n->in[i] = v;
    return CM_OK;
}

cm_status cm_network_set_output(cm_ctx *cx, cm_network *g, int i, cm_value *v)
{
    if (g->outputs[i] == v)
        return CM_OK;
    CM_TRY(add_use(cx, g->arena, v, NULL, g, i));
    remove_use(g->outputs[i], NULL, g, i);
    g->outputs[i] = v;
    return CM_OK;
}

void cm_network_remove_input(cm_network *g, int i)
{
    g->n_inputs--;
    for (; i < g->n_inputs; i++) {
        g->inputs[i] = g->inputs[i + 1];
        g->inputs[i]->index = i;
    }
}

void cm_network_remove_output(cm_network *g, int i)
{
    remove_use(g->outputs[i], NULL, g, i);
    g->n_outputs--;
    for (; i < g->n_outputs; i++) {
        g->outputs[i] = g->outputs[i + 1];
        g->output_names[i] = g->output_names[i + 1];
        for (cm_use *u = g->outputs[i]->uses; u; u = u->next)
            if (!u->node && u->network == g && u->index == i + 1) {
                u->index = i;
                break;
            }
    }
}

cm_status cm_replace_uses(cm_ctx *cx, cm_value *from, cm_value *to)
{
    if (from == to)
        return CM_OK;
    while (from->uses) {
        cm_use *u = from->uses;
        if (u->node)
            CM_TRY(cm_node_set_input(cx, u->node, u->index, to));
        else
            CM_TRY(cm_network_set_output(cx, u->network, u->index, to));
    }
    return CM_OK;
}

/* Values used inside the nested networks of a removed node lose those uses too. */
static void drop_uses(cm_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        remove_use(n->in[i], n, NULL, i);
    for (int s = 0; s < n->n_subs; s++) {
        CM_FOR_NODES (m, n->subs[s])
            drop_uses(m);
        for (int i = 0; i < n->subs[s]->n_outputs; i++)
            remove_use(n->subs[s]->outputs[i], NULL, n->subs[s], i);
    }
}

void cm_node_give_up(cm_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) /* replaces: needs no memory */
            (void)!cm_map_put(&n->network->root->values, n->out[i]->name, NULL);
    cm_node_remove(n);
}

void cm_node_remove(cm_node *n)
{
    cm_network *g = n->network;
    drop_uses(n);
    *(n->prev ? &n->prev->next : &g->first) = n->next;
    *(n->next ? &n->next->prev : &g->last) = n->prev;
    n->prev = n->next = NULL;
    n->network = NULL; /* gone */
    g->n_nodes--;
}

cm_status cm_node_add_from(cm_ctx *cx, cm_node *n, const cm_node *other)
{
    if (n->n_from >= CM_MOST_FROM)
        return CM_OK;
    int room = n->n_from + other->n_from, k = 0;
    const char **all;
    CM_NEW_N(cx, n->network->arena, all, room < CM_MOST_FROM ? room : CM_MOST_FROM, const char *);
    for (int i = 0; i < n->n_from; i++)
        all[k++] = n->from[i];
    for (int i = 0; i < other->n_from && k < CM_MOST_FROM; i++) {
        bool known = false;
        for (int j = 0; j < n->n_from && !known; j++)
            known = strcmp(all[j], other->from[i]) == 0;
        if (!known)
            all[k++] = other->from[i];
    }
    n->from = all;
    n->n_from = k;
    return CM_OK;
}

bool cm_value_is_captured_by(const cm_value *v, const cm_network *g)
{
    for (const cm_network *h = g->outer; h; h = h->outer)
        if (v->network == h)
            return true;
    return false;
}
