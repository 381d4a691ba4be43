/* cse.c -- compute the same thing once.
 *
 *     a = Relu(x)
 *     b = Relu(x)
 *     y = Add(a, b)
 *  becomes
 *     a = Relu(x)
 *     y = Add(a, a)
 *
 * Two pure nodes of one network with the same operator, attributes, inputs and epilogue; constants with the
 * same element type, shape and bytes count as the same input. Nodes with nested networks are left alone, and so
 * are nodes that want different outputs.
 *
 * needs: uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/map.h"
#include "passes/match.h"

typedef struct entry {
    cm_node *node;
    uint64_t hash;
} entry;

typedef struct {
    entry *slots;
    size_t n; /* a power of two */
} table;

static bool same_constant(const cm_value *a, const cm_value *b)
{
    const cm_tensor *x = a->constant, *y = b->constant;
    size_t bytes;
    if (!x || !y || x->dtype != y->dtype || x->packed != y->packed || x->dtype == CM_STR ||
        !cm_tensor_same_shape(x, y) || !cm_tensor_bytes(x, &bytes))
        return false;
    return x->data == y->data || bytes == 0 || memcmp(x->data, y->data, bytes) == 0;
}

static bool same_value(const cm_value *a, const cm_value *b)
{
    return a == b || (a && b && same_constant(a, b));
}

/* Large constants are told apart by their first bytes: equality is checked afterwards anyway. */
static uint64_t hash_value(const cm_value *v, uint64_t h)
{
    enum { LOOK = 256 };
    size_t bytes;
    if (v && v->constant && v->constant->dtype != CM_STR && cm_tensor_bytes(v->constant, &bytes))
        return cm_hash_bytes(v->constant->data, bytes < LOOK ? bytes : LOOK,
                             h + (uint64_t)v->constant->dtype);
    return cm_hash_bytes(&v, sizeof v, h);
}

static uint64_t hash_node(const cm_node *n)
{
    uint64_t h = cm_hash_bytes(&n->op, sizeof n->op, (uint64_t)n->n_in);
    for (int i = 0; i < n->n_in; i++)
        h = hash_value(n->in[i], h);
    return h;
}

static bool same_epilogue(const cm_epilogue *a, const cm_epilogue *b)
{
    if (!a->program || !b->program)
        return a->program == b->program;
    return !strcmp(a->program, b->program) && a->n_operands == b->n_operands && a->to == b->to;
}

static bool same_node(const cm_node *a, const cm_node *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
        !same_epilogue(&a->epilogue, &b->epilogue))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_value(a->in[i], b->in[i]))
            return false;
    for (int o = 0; o < a->n_out; o++)
        if (!a->out[o] != !b->out[o])
            return false;
    return cm_attr_equal(a->op->attrs, a->attr, b->attr);
}

/* The node like n that was met before, or NULL and n is remembered. */
static cm_node *meet(table *t, cm_node *n)
{
    uint64_t h = hash_node(n);
    size_t i = (size_t)h & (t->n - 1);
    for (; t->slots[i].node; i = (i + 1) & (t->n - 1))
        if (t->slots[i].hash == h && same_node(t->slots[i].node, n))
            return t->slots[i].node;
    t->slots[i] = (entry){n, h};
    return NULL;
}

CM_PASS(cse)
{
    table t = {.n = 16};
    while (t.n < 2 * (size_t)g->n_nodes)
        t.n *= 2;
    CM_NEW_N(rw->cx, rw->cx->scratch, t.slots, t.n, entry);
    CM_FOR_NODES (n, g) {
        if (!(n->op->traits & CM_PURE) || n->n_subs)
            continue;
        cm_node *first = meet(&t, n);
        if (!first)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_node_add_from(rw->cx, first, n));
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o])
                CM_TRY(cm_replace_uses(rw->cx, n->out[o], first->out[o]));
    }
    return CM_OK;
}
