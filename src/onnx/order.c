/* order.c -- nodes of a graph, or of a function, in an order that respects data flow.
 * SPDX-License-Identifier: Apache-2.0
 *
 * ONNX asks for sorted nodes; files exist that are not. A depth-first walk in file order keeps the
 * order of a sorted file and takes linear time. */
#include <string.h>

#include "onnx/import.h"

typedef struct ints {
    int n, cap;
    int *v;
} ints;

typedef struct frame {
    int node, next; /* `next`: which dependency to look at */
    ints deps;
} frame;

typedef struct locals { /* names made inside graphs that we are in, innermost first */
    cm_map names;
    struct locals *outer;
} locals;

typedef struct sorter {
    cm_importer *im;
    const pb_node *nodes;
    int n;
    cm_map producer; /* name to node index + 1 */
    char *state;     /* 0: untouched, 1: on the stack, 2: placed */
} sorter;

static cm_status push(cm_importer *im, ints *a, int v)
{
    if (a->n == a->cap) {
        int *bigger;
        int cap = a->cap ? 2 * a->cap : 4;
        CM_NEW_N(im->cx, im->tmp, bigger, cap, int);
        if (a->n)
            memcpy(bigger, a->v, (size_t)a->n * sizeof *a->v);
        a->v = bigger;
        a->cap = cap;
    }
    a->v[a->n++] = v;
    return CM_OK;
}

static cm_status depend(sorter *s, cm_str raw, const locals *l, ints *deps)
{
    const char *name = cm_onnx_name(s->im, raw);
    if (!name)
        return cm_fail_memory(s->im->cx);
    for (; l; l = l->outer)
        if (cm_map_has(&l->names, name))
            return CM_OK;
    intptr_t made = (intptr_t)cm_map_get(&s->producer, name);
    return made ? push(s->im, deps, (int)made - 1) : CM_OK;
}

static cm_status note(sorter *s, locals *l, cm_str raw)
{
    const char *name = cm_onnx_name(s->im, raw);
    return name && cm_map_put(&l->names, name, NULL) ? CM_OK : cm_fail_memory(s->im->cx);
}

static cm_status node_deps(sorter *s, const pb_node *p, locals *l, ints *deps);

/* What a nested graph reads from outside. */
static cm_status graph_deps(sorter *s, const pb_graph *g, locals *outer, ints *deps)
{
    locals *l;
    CM_NEW(s->im->cx, s->im->tmp, l, locals);
    l->outer = outer;
    cm_map_init(&l->names, s->im->tmp);
    for (size_t i = 0; i < g->input.n; i++)
        CM_TRY(note(s, l, g->input.v[i].name));
    for (size_t i = 0; i < g->initializer.n; i++)
        CM_TRY(note(s, l, g->initializer.v[i].name));
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.v[i].values)
            CM_TRY(note(s, l, g->sparse_initializer.v[i].values->name));
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t o = 0; o < g->node.v[i].output.n; o++)
            CM_TRY(note(s, l, g->node.v[i].output.v[o]));
    for (size_t i = 0; i < g->node.n; i++)
        CM_TRY(node_deps(s, &g->node.v[i], l, deps));
    for (size_t i = 0; i < g->output.n; i++)
        CM_TRY(depend(s, g->output.v[i].name, l, deps));
    return CM_OK;
}

static cm_status node_deps(sorter *s, const pb_node *p, locals *l, ints *deps)
{
    for (size_t i = 0; i < p->input.n; i++)
        if (p->input.v[i].n)
            CM_TRY(depend(s, p->input.v[i], l, deps));
    for (size_t i = 0; i < p->attribute.n; i++) {
        const pb_attribute *a = &p->attribute.v[i];
        if (a->g)
            CM_TRY(graph_deps(s, a->g, l, deps));
        for (size_t k = 0; k < a->graphs.n; k++)
            CM_TRY(graph_deps(s, &a->graphs.v[k], l, deps));
    }
    return CM_OK;
}

static bool is_constant(const pb_node *p)
{
    return p->domain.n == 0 && cm_str_equal(p->op_type, cm_str_of("Constant"));
}

/* A name made twice is an error, but tools append Constant nodes to replace earlier ones: among
 * those the last counts. */
static cm_status twice(sorter *s, const char *name, int node)
{
    int earlier = (int)(intptr_t)cm_map_get(&s->producer, name) - 1;
    if (!is_constant(&s->nodes[earlier]) || !is_constant(&s->nodes[node]))
        return cm_fail(s->im->cx, CM_ERR_MODEL, "two nodes make a value named '%s'", name);
    cm_log(s->im->cx, CM_LOG_WARNING, "two Constant nodes make '%s': the last counts", name);
    s->state[earlier] = 2;
    return CM_OK;
}

static cm_status find_producers(sorter *s)
{
    for (int i = 0; i < s->n; i++) {
        for (size_t o = 0; o < s->nodes[i].output.n; o++) {
            const char *name = cm_onnx_name(s->im, s->nodes[i].output.v[o]);
            if (!name)
                return cm_fail_memory(s->im->cx);
            if (!*name)
                continue;
            if (cm_map_has(&s->producer, name))
                CM_TRY(twice(s, name, i));
            if (!cm_map_put(&s->producer, name, (void *)(intptr_t)(i + 1)))
                return cm_fail_memory(s->im->cx);
        }
    }
    return CM_OK;
}

static cm_status cycle(sorter *s, int node)
{
    const pb_node *p = &s->nodes[node];
    const char *name = cm_onnx_name(s->im, p->output.n ? p->output.v[0] : p->name);
    return cm_fail(s->im->cx, CM_ERR_MODEL, "the graph has a cycle through '%s'",
                   name ? name : "?");
}

static cm_status enter(sorter *s, frame *f, int node)
{
    *f = (frame){.node = node};
    s->state[node] = 1;
    return node_deps(s, &s->nodes[node], NULL, &f->deps);
}

/* Place `root` after everything that it depends on. */
static cm_status place(sorter *s, frame *stack, int root, int *order, int *n_order)
{
    int depth = 0;
    if (s->state[root] == 2)
        return CM_OK;
    CM_TRY(enter(s, &stack[0], root));
    while (depth >= 0) {
        frame *f = &stack[depth];
        if (f->next == f->deps.n) {
            s->state[f->node] = 2;
            order[(*n_order)++] = f->node;
            depth--;
            continue;
        }
        int dep = f->deps.v[f->next++];
        if (s->state[dep] == 1)
            return cycle(s, dep);
        if (s->state[dep] == 0)
            CM_TRY(enter(s, &stack[++depth], dep));
    }
    return CM_OK;
}

cm_status cm_onnx_nodes(cm_importer *im, cm_scope *scope, const pb_node *nodes, size_t n)
{
    sorter s = {.im = im, .nodes = nodes, .n = (int)n};
    frame *stack;
    int *order, n_order = 0;
    if (n > INT32_MAX / 2)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "%zu nodes in one graph", n);
    cm_map_init(&s.producer, im->tmp);
    CM_NEW_N(im->cx, im->tmp, s.state, n, char);
    CM_NEW_N(im->cx, im->tmp, stack, n, frame);
    CM_NEW_N(im->cx, im->tmp, order, n, int);
    CM_TRY(find_producers(&s));
    for (int i = 0; i < s.n; i++)
        CM_TRY(place(&s, stack, i, order, &n_order));
    for (int i = 0; i < n_order; i++) {
        if ((i & 255) == 0)
            CM_TRY(cm_check_cancel(im->cx));
        CM_TRY(cm_onnx_node(im, scope, &nodes[order[i]]));
    }
    return CM_OK;
}
