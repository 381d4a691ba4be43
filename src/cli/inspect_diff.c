/* inspect_diff.c -- `cameo inspect --diff A B`: two networks or plans, layer by layer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Layers are matched by the ONNX nodes that they cover, the first of which is their name; of equal names
 * in order. What is left over was dropped or added. */
#include <string.h>

#include "base/map.h"
#include "cli/inspect.h"
#include "cli/model.h"

/* A side, with how its layers run where shapes are known. */
typedef struct {
    const cm_facts *facts;
    cm_layer_facts *ways; /* NULL: not bound */
    int *match;           /* layer of the other side, -1: none */
} side;

static cm_status match(cm_ctx *cx, side *a, side *b)
{
    cm_map first; /* name -> layer of b + 1; `next` chains those of the same name */
    int *next;
    cm_map_init(&first, cx->arena);
    CM_NEW_N(cx, cx->arena, a->match, a->facts->n_layers, int);
    CM_NEW_N(cx, cx->arena, b->match, b->facts->n_layers, int);
    CM_NEW_N(cx, cx->arena, next, b->facts->n_layers, int);
    for (int i = b->facts->n_layers; i-- > 0;) {
        const char *name = b->facts->layers[i].name ? b->facts->layers[i].name : "";
        next[i] = (int)(intptr_t)cm_map_get(&first, name);
        b->match[i] = -1;
        if (!cm_map_put(&first, name, (void *)(intptr_t)(i + 1)))
            return cm_fail_memory(cx);
    }
    for (int i = 0; i < a->facts->n_layers; i++) {
        const char *name = a->facts->layers[i].name ? a->facts->layers[i].name : "";
        int k = (int)(intptr_t)cm_map_get(&first, name);
        a->match[i] = k - 1;
        if (!k)
            continue;
        b->match[k - 1] = i;
        if (!cm_map_put(&first, name, (void *)(intptr_t)next[k - 1]))
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

static int diff_values(const char *what, const cm_fact_value *a, int n_a, const cm_fact_value *b,
                       int n_b)
{
    int n = 0;
    for (int i = 0; i < n_a || i < n_b; i++) {
        bool same =
            i < n_a && i < n_b && !strcmp(a[i].name, b[i].name) && !strcmp(a[i].type, b[i].type);
        if (same)
            continue;
        n++;
        if (i < n_a)
            printf("- %s %s: %s\n", what, a[i].name, a[i].type);
        if (i < n_b)
            printf("+ %s %s: %s\n", what, b[i].name, b[i].type);
    }
    return n;
}

static const char *type_of(const cm_fact_layer *l)
{
    return l->n_out && l->out_types[0] ? l->out_types[0] : "";
}

static bool same_layer(const cm_fact_layer *a, const cm_fact_layer *b, const cm_layer_facts *x,
                       const cm_layer_facts *y)
{
    return !strcmp(a->op, b->op) && !strcmp(type_of(a), type_of(b)) && a->n_from == b->n_from &&
           (!x || !y || !strcmp(x->tactic, y->tactic));
}

static void print_change(const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) != 0)
        printf("; %s %s -> %s", what, a, b);
}

static int diff_layers(const side *a, const side *b)
{
    int n = 0;
    for (int i = 0; i < a->facts->n_layers; i++) {
        const cm_fact_layer *l = &a->facts->layers[i];
        int k = a->match[i];
        const cm_layer_facts *x = a->ways ? &a->ways[i] : NULL;
        const cm_layer_facts *y = k >= 0 && b->ways ? &b->ways[k] : NULL;
        if (k >= 0 && same_layer(l, &b->facts->layers[k], x, y))
            continue;
        n++;
        if (k < 0) {
            printf("- %s '%s' %s\n", l->op, l->name, type_of(l));
            continue;
        }
        const cm_fact_layer *m = &b->facts->layers[k];
        printf("~ '%s'", l->name);
        print_change("operator", l->op, m->op);
        print_change("type", type_of(l), type_of(m));
        if (l->n_from != m->n_from)
            printf("; nodes covered %d -> %d", l->n_from, m->n_from);
        if (x && y) {
            print_change("tactic", x->tactic, y->tactic);
            printf("; expected %.1f us -> %.1f us", x->expected_ns * 1e-3, y->expected_ns * 1e-3);
        }
        printf("\n");
    }
    for (int k = 0; k < b->facts->n_layers; k++)
        if (b->match[k] < 0) {
            const cm_fact_layer *m = &b->facts->layers[k];
            printf("+ %s '%s' %s\n", m->op, m->name, type_of(m));
            n++;
        }
    return n;
}

static double expected(const side *s)
{
    double ns = 0;
    for (int i = 0; i < s->facts->n_layers; i++)
        ns += s->ways[i].expected_ns;
    return ns;
}

cm_status cm_inspect_diff(cm_ctx *cx, const cm_facts *a, cm_layer_facts *ways_a, const cm_facts *b,
                          cm_layer_facts *ways_b, bool *same)
{
    side x = {.facts = a, .ways = ways_a}, y = {.facts = b, .ways = ways_b};
    char one[32], two[32];
    CM_TRY(match(cx, &x, &y));
    int n = diff_values("input", a->inputs, a->n_inputs, b->inputs, b->n_inputs);
    n += diff_values("output", a->outputs, a->n_outputs, b->outputs, b->n_outputs);
    int layers = diff_layers(&x, &y);
    printf("layers      %d -> %d, %d differ\n", a->n_layers, b->n_layers, layers);
    printf("weights     %d, %s -> %d, %s\n", a->n_weights,
           cm_cli_bytes(one, sizeof one, a->weight_bytes), b->n_weights,
           cm_cli_bytes(two, sizeof two, b->weight_bytes));
    if (ways_a && ways_b)
        printf("expected    %.3f ms -> %.3f ms\n", expected(&x) * 1e-6, expected(&y) * 1e-6);
    *same = n + layers == 0 && a->weight_bytes == b->weight_bytes;
    return CM_OK;
}
