/* tuned.c -- compile or reopen, measure, write.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/tuned.h"

#include <string.h>

/* The shapes to tune for; false: one is open. */
static bool shapes_of(const cm_engine *e, const cm_tuned_options *o, cm_tensor *out)
{
    for (int i = 0; i < cm_engine_n_inputs(e); i++) {
        const cm_type *t = cm_engine_input_type(e, i);
        int64_t dims[CM_MAX_RANK];
        if (t->kind != CM_TENSOR || t->rank < 0)
            return false;
        bool known = true;
        for (int a = 0; a < t->rank; a++) {
            known = known && cm_dim_is_size(t->dims[a]);
            dims[a] = t->dims[a];
        }
        if (!known && !(o->shape && o->shape(o->user, e, i, dims)))
            return false;
        if (!cm_tensor_shape(&out[i], t->dtype, t->rank, dims))
            return false;
    }
    return true;
}

/* Measurements: those of the cache, of the plan, and new ones. */
static cm_status gather(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, cm_timings *table,
                        cm_tune_report *report)
{
    cm_tensor *shapes;
    cm_timings cache;
    CM_NEW_N(cx, cx->arena, shapes, cm_engine_n_inputs(e), cm_tensor);
    *report = (cm_tune_report){0};
    if (!shapes_of(e, o, shapes))
        return CM_OK;
    cm_timings_init(&cache, cx->allocator, &o->tune.target);
    cm_status st = o->cache ? cm_timing_cache_read(cx, o->cache, &cache) : CM_OK;
    if (st == CM_OK)
        st = cm_tune(cx, e, &o->tune, shapes, &cache, report);
    if (st == CM_OK && o->cache && report->measured)
        st = cm_timing_cache_write(cx, o->cache, &cache);
    /* The plan gets its own problems' alone, not all that the cache knows. */
    for (int i = 0; st == CM_OK && i < cache.n; i++)
        if (cm_tune_met(report, cache.v[i].problem))
            st = cm_timings_add(cx, table, cache.v[i].problem, cache.v[i].tactic, &cache.v[i].knobs,
                                cache.v[i].ns);
    cm_timings_deinit(&cache);
    return st;
}

/* The plan's targets with ours added or replaced. */
static cm_status add_target(cm_ctx *cx, cm_plan *p, const cm_target *target, const cm_buf *text)
{
    cm_plan_target *targets;
    int n = 0;
    CM_NEW_N(cx, cx->arena, targets, p->n_targets + 1, cm_plan_target);
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i].target.kind != target->kind ||
            p->targets[i].target.level != target->level)
            targets[n++] = p->targets[i];
    targets[n++] = (cm_plan_target){*target, 0, text->data, text->n};
    p->targets = targets;
    p->n_targets = n;
    return CM_OK;
}

/* Whoever stopped the tuner wants what is known by then: the plan is written all the same. */
static cm_status write_tuned(cm_ctx *cx, cm_plan *p, const cm_tensor *const *constants,
                             const cm_timings *table, const cm_target *target, const char *path)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_timings_print(table, &text);
    cm_status st = text.failed ? cm_fail_memory(cx) : CM_OK;
    if (st == CM_OK && table->n)
        st = add_target(cx, p, target, &text);
    if (st == CM_OK)
        st = cm_plan_write_file(cx, p, constants, path);
    cm_buf_deinit(&text);
    return st;
}

static cm_status tune_lowered(cm_ctx *cx, cm_plan *p, const cm_tensor *const *constants,
                              const cm_tuned_options *o, cm_timings *table, cm_tune_report *report)
{
    cm_engine *e;
    CM_TRY(cm_engine_open_lowered(cx, p, constants, &e));
    cm_status st = gather(cx, e, o, table, report);
    cm_engine_release(e);
    return st;
}

cm_status cm_compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *co,
                           const cm_tuned_options *o, const char *path, cm_tune_report *report)
{
    cm_arena arena;
    cm_plan *plan;
    const cm_tensor *const *constants;
    cm_timings table;
    *report = (cm_tune_report){0};
    cm_arena_init(&arena, cx->allocator);
    cm_timings_init(&table, cx->allocator, &o->tune.target);
    cm_status st = cm_compile(cx, &arena, g, co, &plan, &constants);
    if (st == CM_OK && o->tune.level != CM_TUNE_OFF)
        st = tune_lowered(cx, plan, constants, o, &table, report);
    if (st == CM_OK)
        plan->stripped = co && co->strip_weights;
    const atomic_bool *cancel = cx->cancel;
    cm_progress_fn progress = cx->progress;
    if (report->stopped) {
        cx->cancel = NULL;
        cx->progress = NULL;
    }
    if (st == CM_OK)
        st = cm_report(cx, "writing", 0, 1);
    if (st == CM_OK)
        st = write_tuned(cx, plan, constants, &table, &o->tune.target, path);
    if (st == CM_OK)
        st = cm_report(cx, "writing", 1, 1);
    cx->cancel = cancel;
    cx->progress = progress;
    cm_timings_deinit(&table);
    cm_arena_deinit(&arena);
    return st;
}

cm_status cm_plan_tune(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, const char *path,
                       cm_tune_report *report)
{
    cm_timings table;
    const cm_tensor *const *constants;
    cm_plan p = *cm_engine_plan(e);
    CM_TRY(cm_engine_constants(cx, e, &constants));
    cm_timings_init(&table, cx->allocator, &o->tune.target);
    cm_status st = CM_OK;
    for (int i = 0; i < p.n_targets; i++) /* what is known of this machine stays */
        if (p.targets[i].target.kind == o->tune.target.kind &&
            p.targets[i].target.level == o->tune.target.level &&
            cm_timings_parse(cx, &table, p.targets[i].bytes, p.targets[i].n) != CM_OK)
            cx->message[0] = 0;
    st = gather(cx, e, o, &table, report);
    if (st == CM_OK)
        st = write_tuned(cx, &p, constants, &table, &o->tune.target, path);
    cm_timings_deinit(&table);
    return st;
}
