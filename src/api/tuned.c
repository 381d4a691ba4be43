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

/* The target as a plan's section names it. */
typedef struct {
    cm_target target;
    char machine[96]; /* empty: the CPU, which timings know by themselves */
    cm_device *held;
} place;

static cm_status find_place(cm_ctx *cx, const cm_tuned_options *o, place *p)
{
    p->machine[0] = 0;
    return cm_target_resolve(cx, &o->tune.target, &p->target, p->machine, sizeof p->machine,
                             &p->held);
}

static void init_table(cm_timings *t, const cm_allocator *allocator, const place *p)
{
    cm_timings_init(t, allocator, &p->target);
    if (p->machine[0])
        memcpy(t->machine, p->machine, sizeof p->machine);
}

/* Measurements: those of the cache, of the plan, and new ones. */
static cm_status gather(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, const place *where,
                        const cm_tensor *shapes, cm_timings *table, cm_tune_report *report)
{
    cm_timings cache;
    init_table(&cache, cx->allocator, where);
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

/* Kernels that a context on the target would use, compiled: on a device of its class that is none, so that it has these
 * and no other. */
static cm_status compile_kernels(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o,
                                 const place *where, const cm_tensor *shapes,
                                 const cm_timings *table, cm_buf *out)
{
    const cm_context_options co = {
        .threads = o->tune.threads, .target = &where->target, .timings = table};
    cm_context *c;
    CM_TRY(cm_context_create(cx, e, &co, &c));
    cm_status st = CM_OK;
    for (int i = 0; st == CM_OK && i < cm_engine_n_inputs(e); i++)
        st = cm_context_set_shape(cx, c, i, shapes[i].rank, shapes[i].dims);
    if (st == CM_OK)
        st = cm_context_bind(cx, c);
    if (st == CM_OK) {
        cm_buf_u8(out, 0);
        cm_context_images(c, out);
    }
    cm_context_destroy(c);
    return st;
}

/* The section of a target: text of measurements; for a device, kernels behind it. */
static cm_status make_section(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o,
                              const place *where, cm_timings *table, cm_tune_report *report,
                              cm_buf *section)
{
    cm_tensor *shapes;
    CM_NEW_N(cx, cx->arena, shapes, cm_engine_n_inputs(e), cm_tensor);
    *report = (cm_tune_report){0};
    bool fixed = shapes_of(e, o, shapes), device = where->target.kind != CM_DEVICE_CPU;
    if (fixed && o->tune.level != CM_TUNE_OFF)
        CM_TRY(gather(cx, e, o, where, shapes, table, report));
    if (table->n || (device && fixed))
        cm_timings_print(table, section);
    if (device && fixed)
        CM_TRY(compile_kernels(cx, e, o, where, shapes, table, section));
    return section->failed ? cm_fail_memory(cx) : CM_OK;
}

/* The plan's targets with ours added or replaced. */
static cm_status add_target(cm_ctx *cx, cm_plan *p, const cm_target *target, const cm_buf *section)
{
    cm_plan_target *targets;
    int n = 0;
    CM_NEW_N(cx, cx->arena, targets, p->n_targets + 1, cm_plan_target);
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i].target.kind != target->kind ||
            p->targets[i].target.level != target->level)
            targets[n++] = p->targets[i];
    targets[n++] = (cm_plan_target){*target, 0, section->data, section->n};
    p->targets = targets;
    p->n_targets = n;
    return CM_OK;
}

static cm_status write_tuned(cm_ctx *cx, cm_plan *p, const cm_tensor *const *constants,
                             const cm_target *target, const cm_buf *section, const char *path)
{
    if (section->n)
        CM_TRY(add_target(cx, p, target, section));
    return cm_plan_write_file(cx, p, constants, path);
}

static cm_status tune_lowered(cm_ctx *cx, cm_plan *p, const cm_tensor *const *constants,
                              const cm_tuned_options *o, const place *where, cm_buf *section,
                              cm_tune_report *report)
{
    cm_engine *e;
    cm_timings table;
    CM_TRY(cm_engine_open_lowered(cx, p, constants, &e));
    init_table(&table, cx->allocator, where);
    cm_status st = make_section(cx, e, o, where, &table, report, section);
    cm_timings_deinit(&table);
    cm_engine_release(e);
    return st;
}

/* Whoever stopped the tuner wants what is known by then: the plan is written all the same. */
static cm_status write_at_last(cm_ctx *cx, cm_plan *p, const cm_tensor *const *constants,
                               const cm_target *target, const cm_buf *section, const char *path,
                               bool stopped)
{
    const atomic_bool *cancel = cx->cancel;
    cm_progress_fn progress = cx->progress;
    if (stopped) {
        cx->cancel = NULL;
        cx->progress = NULL;
    }
    cm_status st = cm_report(cx, "writing", 0, 1);
    if (st == CM_OK)
        st = write_tuned(cx, p, constants, target, section, path);
    if (st == CM_OK)
        st = cm_report(cx, "writing", 1, 1);
    cx->cancel = cancel;
    cx->progress = progress;
    return st;
}

cm_status cm_compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *co,
                           const cm_tuned_options *o, const char *path, cm_tune_report *report)
{
    cm_arena arena;
    cm_plan *plan;
    const cm_tensor *const *constants;
    place where;
    cm_buf section;
    *report = (cm_tune_report){0};
    CM_TRY(find_place(cx, o, &where));
    cm_arena_init(&arena, cx->allocator);
    cm_buf_init(&section, cx->allocator);
    cm_status st = cm_compile(cx, &arena, g, co, &plan, &constants);
    if (st == CM_OK && (o->tune.level != CM_TUNE_OFF || where.held))
        st = tune_lowered(cx, plan, constants, o, &where, &section, report);
    if (st == CM_OK) {
        plan->stripped = co && co->strip_weights;
        st = write_at_last(cx, plan, constants, &where.target, &section, path, report->stopped);
    }
    cm_target_release(&where.target, where.held);
    cm_buf_deinit(&section);
    cm_arena_deinit(&arena);
    return st;
}

/* What the plan knows of this machine stays. */
static void take_known(cm_ctx *cx, const cm_plan *p, const cm_target *target, cm_timings *table)
{
    for (int i = 0; i < p->n_targets; i++) {
        const cm_plan_target *t = &p->targets[i];
        if (t->target.kind == target->kind && t->target.level == target->level &&
            cm_timings_parse(cx, table, t->bytes, cm_plan_target_text(t)) != CM_OK)
            cx->message[0] = 0;
    }
}

cm_status cm_plan_tune(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, const char *path,
                       cm_tune_report *report)
{
    cm_timings table;
    place where;
    cm_buf section;
    const cm_tensor *const *constants;
    cm_plan p = *cm_engine_plan(e);
    CM_TRY(cm_engine_constants(cx, e, &constants));
    CM_TRY(find_place(cx, o, &where));
    cm_buf_init(&section, cx->allocator);
    init_table(&table, cx->allocator, &where);
    take_known(cx, &p, &where.target, &table);
    cm_status st = make_section(cx, e, o, &where, &table, report, &section);
    if (st == CM_OK)
        st = write_tuned(cx, &p, constants, &where.target, &section, path);
    cm_timings_deinit(&table);
    cm_target_release(&where.target, where.held);
    cm_buf_deinit(&section);
    return st;
}
