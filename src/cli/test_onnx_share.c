/* test_onnx_share.c -- how much of the tests' networks ran on a device, by family and operator.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/test_onnx.h"
#include "ops/problem.h"

cm_status cm_test_name_nodes(cm_ctx *cx, const cm_network *g, cm_map *ops)
{
    CM_FOR_NODES (n, g) {
        if (!cm_map_has(ops, n->name) && !cm_map_put(ops, n->name, (void *)n->op))
            return cm_fail_memory(cx);
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(cm_test_name_nodes(cx, n->subs[s], ops));
    }
    return CM_OK;
}

static int index_of(const cm_op *op)
{
    int i = 0;
    while (cm_op_at(i) && cm_op_at(i) != op)
        i++;
    return i;
}

/* What is known of a node while steps are looked at: the most of these that runs for it. */
typedef enum {
    ABSENT,
    KEPT, /* the host keeps it: control flow, sizes, arithmetic on a few integers, small work in loops */
    FELL,
    AWAY
} whereabouts;

static whereabouts where_runs(const cm_plan_step *step, const cm_layer_facts *f)
{
    const cm_op *op = step->kind == CM_STEP_PROBLEM ? cm_op_find(step->op) : NULL;
    bool kept = f->small || !op || (op->traits & CM_SHAPE_ONLY);
    return f->idle ? ABSENT : f->away ? AWAY : kept ? KEPT : FELL;
}

/* A node, and the step that it is known by. */
typedef struct {
    whereabouts is;
    int step;
} sighting;

static cm_status note(cm_ctx *cx, cm_map *seen, const char *name, whereabouts is, int step)
{
    const sighting *was = cm_map_get(seen, name);
    sighting *s;
    if (was && was->is >= is)
        return CM_OK;
    CM_NEW(cx, cx->arena, s, sighting);
    *s = (sighting){is, step};
    return cm_map_put(seen, name, s) ? CM_OK : cm_fail_memory(cx);
}

/* One more operator in the case's list of those that fell, with the device's reason. */
static void list_fallen(const cm_context *c, const cm_op *op, int step, cm_test_result *out)
{
    size_t n = strlen(out->fell);
    const char *why;
    char line[200];
    if (cm_context_taken_on(c, step, NULL, &why))
        why = "it would take this one";
    snprintf(line, sizeof line, "%s (%s)", op->name, why);
    if (!strstr(out->fell, line))
        snprintf(out->fell + n, sizeof out->fell - n, "%s%s", n ? ", " : "", line);
}

static void count(cm_test_count *c, whereabouts is)
{
    atomic_fetch_add(is == KEPT ? &c->kept : &c->nodes, 1);
    atomic_fetch_add(&c->away, is == AWAY);
}

cm_status cm_test_count_nodes(cm_ctx *cx, const cm_context *c, const cm_map *ops, cm_test_shared *s,
                              cm_test_result *out)
{
    const cm_engine *e = cm_context_engine(c);
    cm_layer_facts f;
    cm_map seen;
    cm_map_init(&seen, cx->arena);
    for (int i = 0; i < cm_engine_n_steps(e); i++) {
        const cm_plan_step *step = cm_engine_step(e, i);
        cm_context_layer(c, i, &f);
        for (int k = 0; k < step->n_from; k++)
            CM_TRY(note(cx, &seen, step->from[k], where_runs(step, &f), i));
    }
    for (size_t i = 0; i < seen.n; i++) {
        const cm_op *op = cm_map_get(ops, seen.entries[i].key);
        const sighting *seen_as = seen.entries[i].value;
        whereabouts is = seen_as->is;
        if (!op || is == ABSENT) /* a pass made it of nothing that the model has */
            continue;
        count(&s->ops[index_of(op)], is);
        count(&out->count, is);
        if (is == FELL)
            list_fallen(c, op, seen_as->step, out);
    }
    return CM_OK;
}

static double percent(int part, int whole)
{
    return whole ? 100.0 * part / whole : 0;
}

static void print_cases(const cm_test_shared *s, const char *target)
{
    int ran = 0, some = 0, all = 0, nodes = 0, away = 0, kept = 0, only_kept = 0;
    for (int i = 0; i < s->n_cases; i++) {
        const cm_test_count *c = &s->results[i].count;
        ran += c->nodes > 0;
        some += c->away > 0;
        all += c->away > 0 && c->away == c->nodes;
        nodes += c->nodes;
        away += c->away;
        kept += c->kept;
        only_kept += c->kept > 0 && !c->nodes;
    }
    printf("on %s: %d of %d cases (%.1f%%), %d of them with every node; %d of %d nodes (%.1f%%)\n",
           target, some, ran, percent(some, ran), all, away, nodes, percent(away, nodes));
    if (kept)
        printf("the host keeps %d more nodes, all of %d cases: control flow, sizes, arithmetic on "
               "a few "
               "integers, small work in loops\n",
               kept, only_kept);
}

/* The kind of problem that an operator is to backends; all that have none are one family. */
static cm_problem_kind kind_of(const cm_op *op)
{
    const cm_problem_row *row = cm_problem_find(op);
    return row ? row->kind : CM_PROBLEM_EVALUATE;
}

static void print_family(const cm_test_shared *s, cm_problem_kind kind)
{
    int nodes = 0, away = 0, n_never = 0;
    for (int i = 0; cm_op_at(i); i++) {
        if (kind_of(cm_op_at(i)) != kind)
            continue;
        nodes += s->ops[i].nodes;
        away += s->ops[i].away;
    }
    if (!nodes)
        return;
    printf("  %-12s %5d of %5d nodes (%.1f%%)", cm_problem_kind_name(kind), away, nodes,
           percent(away, nodes));
    for (int i = 0; cm_op_at(i); i++)
        if (kind_of(cm_op_at(i)) == kind && s->ops[i].nodes && !s->ops[i].away)
            printf("%s %s", n_never++ ? "," : "; never:", cm_op_at(i)->name);
    printf("\n");
}

void cm_test_print_shares(const cm_test_shared *s, const char *target)
{
    print_cases(s, target);
    for (int k = 0; k < CM_PROBLEM_KIND_COUNT; k++)
        print_family(s, (cm_problem_kind)k);
}
