/* debug_bisect.c -- `cameo debug bisect`: the one rewrite that moves an answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/verify.h"
#include "base/map.h"
#include "base/str.h"
#include "cli/debug.h"

/* The one rewrite looked for, seen as it is made. */
typedef struct {
    int64_t number;
    const char *pass, *op, *node;
    cm_arena *arena;
} culprit;

static void see_rewrite(void *user, const char *pass, const cm_node *n, int64_t number)
{
    culprit *c = user;
    if (number != c->number)
        return;
    c->pass = pass;
    c->op = n ? n->op->name : "?";
    c->node = n ? cm_arena_strdup(c->arena, n->name) : "?";
}

typedef struct {
    const cm_debug_options *o;
    const char *path;
    cm_inputs in;
    cm_arena arena; /* of `wanted` */
    cm_answers wanted;
    double tolerance;
} search;

static cm_status import_and_optimise(cm_ctx *cx, const search *s, int64_t limit, culprit *seen,
                                     int64_t *rewrites, cm_model *m)
{
    cm_compile_options co;
    CM_TRY(cm_model_compile_options(cx, &s->o->model, &co));
    CM_TRY(cm_model_import(cx, s->path, &s->o->model, m));
    co.optimise.stop_after_rewrite = limit;
    co.optimise.for_plan = true;
    if (seen) {
        co.optimise.on_rewrite = see_rewrite;
        co.optimise.user = seen;
    }
    return limit ? cm_optimise(cx, m->network, &co.optimise, rewrites, NULL) : CM_OK;
}

/* With `limit` rewrites, how far are the answers? A network that fails is infinitely far. */
static cm_status distance_after(cm_ctx *cx, const search *s, int64_t limit, int64_t *rewrites,
                                cm_difference *d)
{
    cm_model m;
    cm_answers found;
    cm_arena arena;
    cm_arena_init(&arena, cx->allocator);
    *d = (cm_difference){.output = ""};
    cm_status st = import_and_optimise(cx, s, limit, NULL, rewrites, &m);
    if (st == CM_OK)
        st = cm_answer(cx, m.network, s->in.datum, (int)s->o->model.threads, &arena, &found);
    if (st == CM_OK) {
        cm_answers_compare(&found, &s->wanted, d);
    } else if (st != CM_ERR_CANCELLED && st != CM_ERR_MEMORY) {
        d->distance = __builtin_inf();
        snprintf(d->what, sizeof d->what, "%.150s", cx->message);
        st = CM_OK;
    }
    cm_model_close(&m);
    cm_arena_deinit(&arena);
    return st;
}

/* The network after `limit` rewrites as text, in the verb's arena. */
static cm_status text_after(cm_ctx *cx, const search *s, int64_t limit, culprit *seen,
                            const char **out)
{
    cm_model m;
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_status st = import_and_optimise(cx, s, limit, seen, NULL, &m);
    if (m.network) /* also when the rewrite left it wrong */
        cm_network_print(m.network, 16, &b);
    *out = cm_arena_strdup(cx->arena, cm_buf_text(&b));
    cm_buf_deinit(&b);
    cm_model_close(&m);
    return *out && (st == CM_OK || st == CM_ERR_INTERNAL) ? CM_OK : st;
}

static cm_status lines_of(cm_ctx *cx, const char *text, cm_map *out)
{
    cm_map_init(out, cx->arena);
    while (*text) {
        size_t n = strcspn(text, "\n");
        const char *line = cm_arena_strndup(cx->arena, text, n);
        if (!line || !cm_map_put(out, line, (void *)line))
            return cm_fail_memory(cx);
        text += n + (text[n] != 0);
    }
    return CM_OK;
}

/* Lines of one text that the other does not have. */
static void print_only_in(const cm_map *a, const cm_map *b, char mark)
{
    for (size_t i = 0; i < a->n; i++)
        if (!cm_map_has(b, a->entries[i].key))
            printf("  %c %s\n", mark, a->entries[i].key);
}

static cm_status report(cm_ctx *cx, const search *s, int64_t bad, const cm_difference *d)
{
    culprit c = {.number = bad, .pass = "?", .op = "?", .node = "?", .arena = cx->arena};
    const char *before, *after;
    cm_map a, b;
    CM_TRY(text_after(cx, s, bad - 1, NULL, &before));
    CM_TRY(text_after(cx, s, bad, &c, &after));
    CM_TRY(lines_of(cx, before, &a));
    CM_TRY(lines_of(cx, after, &b));
    printf("rewrite %lld, of pass %s, at %s '%s'\n", (long long)bad, c.pass, c.op,
           c.node ? c.node : "?");
    printf("output '%s': %s (%.3g of its scale, allowed %.3g)\n", d->output, d->what, d->distance,
           s->tolerance);
    print_only_in(&a, &b, '-');
    print_only_in(&b, &a, '+');
    return CM_OK;
}

static cm_status search_rewrite(cm_ctx *cx, search *s, int64_t *bad, cm_difference *d)
{
    int64_t good = 0, total = 0;
    *bad = 0;
    CM_TRY(distance_after(cx, s, INT64_MAX, &total, d));
    if (d->distance <= s->tolerance) {
        printf("nothing to blame: after %lld rewrites the worst difference is %.3g of an output's "
               "scale, allowed %.3g\n",
               (long long)total, d->distance, s->tolerance);
        return CM_OK;
    }
    for (*bad = total ? total : 1; total == 0; *bad *= 2) { /* failed midway: it must be counted */
        cm_difference probe;
        CM_TRY(distance_after(cx, s, *bad, NULL, &probe));
        if (probe.distance > s->tolerance)
            break;
    }
    while (*bad - good > 1) {
        cm_difference probe;
        int64_t middle = good + (*bad - good) / 2;
        CM_TRY(distance_after(cx, s, middle, NULL, &probe));
        if (probe.distance <= s->tolerance) {
            good = middle;
        } else {
            *bad = middle;
            *d = probe;
        }
    }
    return CM_OK;
}

cm_status cm_debug_bisect(cm_ctx *cx, const cm_debug_options *o, const char *path, bool *found)
{
    search s = {.o = o, .path = path};
    const char *file = o->inputs.n ? o->inputs.v[0] : NULL;
    cm_model m;
    cm_difference d;
    int64_t bad = 0;
    cm_arena_init(&s.arena, cx->allocator);
    cm_status st = cm_model_import(cx, path, &o->model, &m);
    if (st == CM_OK)
        st = cm_inputs_of_network(cx, m.network, &o->model, file, (uint64_t)o->random, &s.in);
    if (st == CM_OK) {
        s.tolerance = cm_tolerance_for(m.network, o->tolerance > 0 ? o->tolerance : 1e-4);
        st = cm_answer(cx, m.network, s.in.datum, (int)o->model.threads, &s.arena, &s.wanted);
    }
    cm_model_close(&m);
    if (st == CM_OK)
        st = search_rewrite(cx, &s, &bad, &d);
    if (st == CM_OK && bad)
        st = report(cx, &s, bad, &d);
    *found = bad != 0;
    cm_arena_deinit(&s.arena);
    return st;
}
