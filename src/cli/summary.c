/* summary.c -- counts nodes and layers, and prints what each pass did.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/infer.h"

static bool is_small_integer(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && cm_dtype_is_integer(v->type.dtype) && v->elems;
}

/* Does nothing but shape arithmetic: its outputs are small integer tensors whose elements are known as
 * dims when shapes are bound. */
static bool is_shape_arithmetic(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && !is_small_integer(n->out[o]))
            return false;
    return n->n_out > 0;
}

static bool is_layer(const cm_node *n)
{
    return !(n->op->traits & CM_VIEW) && !is_shape_arithmetic(n);
}

static void add(cm_tally *t, const char *op)
{
    int i = 0;
    while (i < t->n_ops && strcmp(t->op[i], op) < 0)
        i++;
    if (i == t->n_ops || strcmp(t->op[i], op) != 0) {
        for (int k = t->n_ops; k > i; k--) {
            t->op[k] = t->op[k - 1];
            t->count[k] = t->count[k - 1];
        }
        t->op[i] = op;
        t->count[i] = 0;
        t->n_ops++;
    }
    t->count[i]++;
}

static void walk(cm_tally *t, const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        add(t, n->op->name);
        t->nodes++;
        t->layers += is_layer(n);
        for (int s = 0; s < n->n_subs; s++)
            walk(t, n->subs[s]);
    }
}

cm_status cm_tally_network(cm_ctx *cx, const cm_network *g, cm_tally **out)
{
    cm_tally *t;
    CM_NEW(cx, cx->arena, t, cm_tally);
    CM_NEW_N(cx, cx->arena, t->op, CM_OP_COUNT + 1, const char *);
    CM_NEW_N(cx, cx->arena, t->count, CM_OP_COUNT + 1, int);
    walk(t, g);
    *out = t;
    return CM_OK;
}

static int count_of(const cm_tally *t, const char *op)
{
    for (int i = 0; i < t->n_ops; i++)
        if (!strcmp(t->op[i], op))
            return t->count[i];
    return 0;
}

static void print_row(const char *op, int before, int after)
{
    printf("  %-40s %8d %8d\n", op, before, after);
}

void cm_summary_print(const char *path, const cm_tally *before, const cm_tally *after,
                      const cm_pass_stats *stats)
{
    printf("%s: %d nodes before, %d after; %d layers\n\n", path, before->nodes, after->nodes,
           after->layers);
    printf("  %-40s %8s %8s\n", "operator", "before", "after");
    for (int i = 0; i < before->n_ops; i++)
        print_row(before->op[i], before->count[i], count_of(after, before->op[i]));
    for (int i = 0; i < after->n_ops; i++)
        if (!count_of(before, after->op[i]))
            print_row(after->op[i], 0, after->count[i]);
    printf("\n  %-40s %8s %8s %10s\n", "pass", "rewrites", "nodes", "ms");
    double total = 0;
    for (int i = 0; i < cm_n_passes; i++) {
        total += (double)stats[i].ns * 1e-6;
        if (stats[i].rewrites)
            printf("  %-40s %8lld %8d %10.2f\n", cm_passes[i].name, (long long)stats[i].rewrites,
                   stats[i].nodes_after, (double)stats[i].ns * 1e-6);
    }
    printf("  %-40s %8s %8s %10.2f\n", "all passes", "", "", total);
}
