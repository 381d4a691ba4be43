/* tuned.c -- compile or reopen, measure, write.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/tuned.h"

#include <string.h>

bool cm_pack_parse(const char *text, cm_pack_level *out)
{
    static const char *const names[] = {"off", "on", "all"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (!strcmp(text, names[i])) {
            *out = (cm_pack_level)i;
            return true;
        }
    return false;
}

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
        if (cm_problem_in(&report->met, cache.v[i].problem))
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
        if (o->bound)
            o->bound(o->user, c);
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

static void count_report(cm_tune_report *sum, const cm_tune_report *r)
{
    sum->problems += r->problems;
    sum->known += r->known;
    sum->measured += r->measured;
    sum->trials += r->trials;
    sum->changed += r->changed;
    sum->seconds += r->seconds;
    sum->stopped |= r->stopped;
}

/* The sections of the other targets. Their bytes stay in cx->arena. */
static cm_status add_more(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, cm_plan *p,
                          cm_tune_report *report)
{
    for (int i = 0; i < o->n_more && !report->stopped; i++) {
        cm_tuned_options own = *o;
        cm_tune_report r = {0};
        cm_timings table;
        cm_buf section;
        place where;
        own.tune.target = o->more[i];
        CM_TRY(find_place(cx, &own, &where));
        init_table(&table, cx->allocator, &where);
        cm_buf_init(&section, cx->allocator);
        take_known(cx, p, &where.target, &table);
        cm_status st = make_section(cx, e, &own, &where, &table, &r, &section);
        cm_buf kept = {.data = cm_arena_memdup(cx->arena, section.data, section.n), .n = section.n};
        if (st == CM_OK && section.n)
            st = kept.data ? add_target(cx, p, &where.target, &kept) : cm_fail_memory(cx);
        if (o->more[i].kind == CM_DEVICE_CPU ||
            !o->more[i].level) /* not a class without a device */
            count_report(report, &r);
        cm_buf_deinit(&section);
        cm_timings_deinit(&table);
        cm_target_release(&where.target, where.held);
        CM_TRY(st);
    }
    return CM_OK;
}

/* A plan while it is tuned and written. */
typedef struct {
    cm_engine *engine;
    cm_context *context; /* bound as the plan will run: what it packed is written */
    place where;
    cm_timings table;
    cm_buf section;
    bool strip;       /* write no weights at all */
    const char *path; /* NULL: to `bytes` */
    cm_buf *bytes;
} tuning;

static cm_status tuning_init(cm_ctx *cx, const cm_tuned_options *o, tuning *t)
{
    *t = (tuning){0};
    CM_TRY(find_place(cx, o, &t->where));
    init_table(&t->table, cx->allocator, &t->where);
    cm_buf_init(&t->section, cx->allocator);
    return CM_OK;
}

static void tuning_deinit(tuning *t)
{
    cm_context_destroy(t->context);
    cm_engine_release(t->engine);
    cm_buf_deinit(&t->section);
    cm_timings_deinit(&t->table);
    cm_target_release(&t->where.target, t->where.held);
}

/* `plan` and `constants` with packed weights, where the shapes to pack for are known. */
static cm_status pack(cm_ctx *cx, tuning *t, const cm_tuned_options *o, cm_plan *plan,
                      const cm_tensor *const **constants)
{
    cm_tensor *shapes;
    cm_plan_drop_besides(plan);
    plan->n_packed = 0;
    CM_NEW_N(cx, cx->arena, shapes, cm_engine_n_inputs(t->engine), cm_tensor);
    if (o->pack && t->where.target.kind != CM_DEVICE_CPU) /* as they were for the CPU */
        return cm_plan_pack_like(cx, cx->arena, cm_engine_plan(t->engine), plan, constants);
    if (!o->pack || !shapes_of(t->engine, o, shapes))
        return CM_OK;
    const cm_context_options co = {
        .threads = o->tune.threads, .target = &t->where.target, .timings = &t->table};
    CM_TRY(cm_context_create(cx, t->engine, &co, &t->context));
    for (int i = 0; i < cm_engine_n_inputs(t->engine); i++)
        CM_TRY(cm_context_set_shape(cx, t->context, i, shapes[i].rank, shapes[i].dims));
    CM_TRY(cm_context_bind(cx, t->context));
    return cm_context_packed(cx, t->context, plan, *constants, o->pack == CM_PACK_ALL, constants);
}

/* Measure, pack, write. Whoever stopped the tuner wants what is known by then: the plan is written all the
 * same. */
static cm_status tune_and_write(cm_ctx *cx, tuning *t, const cm_tensor *const *constants,
                                const cm_tuned_options *o, cm_tune_report *report)
{
    cm_plan plan = *cm_engine_plan(t->engine);
    cm_ctx inner = *cx;
    CM_TRY(make_section(cx, t->engine, o, &t->where, &t->table, report, &t->section));
    CM_TRY(add_more(cx, t->engine, o, &plan, report));
    if (report->stopped) {
        inner.cancel = NULL;
        inner.progress = NULL;
    }
    cm_status st = cm_report(&inner, "writing", 0, 1);
    if (st == CM_OK && t->section.n)
        st = add_target(&inner, &plan, &t->where.target, &t->section);
    if (st == CM_OK)
        st = pack(&inner, t, o, &plan, &constants);
    plan.stripped = t->strip;
    if (st == CM_OK)
        st = t->path ? cm_plan_write_file(&inner, &plan, constants, t->path)
                     : cm_plan_write_memory(&inner, &plan, constants, t->bytes);
    if (st == CM_OK)
        st = cm_report(&inner, "writing", 1, 1);
    if (st != CM_OK)
        memcpy(cx->message, inner.message, sizeof cx->message);
    return st;
}

static cm_status compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *co,
                               const cm_tuned_options *o, const char *path, cm_buf *bytes,
                               cm_tune_report *report)
{
    cm_arena arena;
    cm_plan *plan;
    const cm_tensor *const *constants;
    tuning t;
    *report = (cm_tune_report){0};
    CM_TRY(tuning_init(cx, o, &t));
    t.strip = co && co->strip_weights;
    t.path = path;
    t.bytes = bytes;
    cm_arena_init(&arena, cx->allocator);
    cm_status st = cm_compile(cx, &arena, g, co, &plan, &constants);
    if (st == CM_OK)
        st = cm_engine_open_lowered(cx, plan, constants, &t.engine);
    if (st == CM_OK)
        st = tune_and_write(cx, &t, constants, o, report);
    tuning_deinit(&t);
    cm_arena_deinit(&arena);
    return st;
}

cm_status cm_compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *co,
                           const cm_tuned_options *o, const char *path, cm_tune_report *report)
{
    return compile_tuned(cx, g, co, o, path, NULL, report);
}

cm_status cm_compile_tuned_memory(cm_ctx *cx, cm_network *g, const cm_compile_options *co,
                                  const cm_tuned_options *o, cm_buf *out, cm_tune_report *report)
{
    return compile_tuned(cx, g, co, o, NULL, out, report);
}

/* The plan's only target: ours, its bytes in `arena`. */
static cm_status keep_section(cm_ctx *cx, cm_arena *arena, const tuning *t, cm_plan *p)
{
    cm_plan_target *target;
    if (!t->section.n)
        return CM_OK;
    CM_NEW(cx, arena, target, cm_plan_target);
    *target = (cm_plan_target){t->where.target, 0,
                               cm_arena_memdup(arena, t->section.data, t->section.n), t->section.n};
    p->targets = target;
    p->n_targets = 1;
    return target->bytes ? CM_OK : cm_fail_memory(cx);
}

cm_status cm_compile_lowered(cm_ctx *cx, cm_arena *arena, cm_network *g,
                             const cm_compile_options *co, const cm_tuned_options *o,
                             cm_plan **plan, const cm_tensor *const **constants,
                             cm_tune_report *report)
{
    tuning t;
    *report = (cm_tune_report){0};
    CM_TRY(cm_compile(cx, arena, g, co, plan, constants));
    if (o->tune.level == CM_TUNE_OFF)
        return CM_OK;
    CM_TRY(tuning_init(cx, o, &t));
    cm_status st = cm_engine_open_lowered(cx, *plan, *constants, &t.engine);
    if (st == CM_OK)
        st = make_section(cx, t.engine, o, &t.where, &t.table, report, &t.section);
    if (st == CM_OK)
        st = keep_section(cx, arena, &t, *plan);
    tuning_deinit(&t);
    return st;
}

cm_status cm_plan_tune(cm_ctx *cx, cm_engine *e, const cm_tuned_options *o, const char *path,
                       cm_tune_report *report)
{
    const cm_tensor *const *constants;
    tuning t;
    *report = (cm_tune_report){0};
    CM_TRY(tuning_init(cx, o, &t));
    t.engine = cm_engine_retain(e);
    t.path = path;
    take_known(cx, cm_engine_plan(e), &t.where.target, &t.table);
    cm_status st = cm_engine_constants(cx, e, &constants);
    if (st == CM_OK)
        st = tune_and_write(cx, &t, constants, o, report);
    tuning_deinit(&t);
    return st;
}
