/* plans.c -- networks to plans, and to engines without one, in the public API.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/network.h"
#include "api/recipe.h"
#include "api/rt_engine.h"
#include "api/tuned.h"

/* Builds report to the hooks of the build's options when those are given, else the network's. */
static const cameo_hooks *hooks_of(const cameo_network *network, const cameo_build_options *options)
{
    const cameo_hooks *hooks = CM_HOOKS_OF(options);
    return hooks ? hooks : &network->job.hooks;
}

static bool shape_of(void *user, const cm_engine *e, int i, int64_t *dims)
{
    const cameo_build_options *o = user;
    int rank = cm_engine_input_type(e, i)->rank;
    for (int k = 0; k < o->n_shapes; k++) {
        const cameo_shape *s = &o->shapes[k];
        if (strcmp(s->input, cm_engine_input_name(e, i)) != 0)
            continue;
        if (s->rank == rank && rank)
            memcpy(dims, s->dims, (size_t)rank * sizeof *dims);
        return s->rank == rank;
    }
    return false;
}

static cm_status check_shapes(cm_ctx *cx, const cameo_build_options *o)
{
    if (o->n_shapes < 0 || (o->n_shapes && !o->shapes))
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d shapes, and no list of them", o->n_shapes);
    for (int i = 0; i < o->n_shapes; i++)
        if (!o->shapes[i].input || (o->shapes[i].rank > 0 && !o->shapes[i].dims))
            return cm_fail(cx, CM_ERR_ARGUMENT, "shape %d has no input, or no dims", i);
    return CM_OK;
}

/* The precision, as plans keep it and as the optimiser wants it. */
static cm_status read_precision(cm_ctx *cx, const cameo_network *network, const char *precision,
                                cm_compile_options *co)
{
    cm_plan_build *b;
    cm_recipe r;
    CM_NEW(cx, cx->arena, b, cm_plan_build);
    if (network->build)
        *b = *network->build;
    CM_TRY(cm_recipe_add(cx, cx->arena, b, "precision", precision));
    CM_TRY(cm_recipe_parse(cx, cx->arena, b, &r));
    co->optimise.precision = r.compile.optimise.precision;
    if (network->build)
        co->build = b;
    return CM_OK;
}

static cm_status read_targets(cm_ctx *cx, const char *text, cm_tuned_options *to)
{
    cm_target targets[CM_MAX_TARGETS];
    int n;
    CM_TRY(cm_targets_parse(cx, text, targets, &n));
    to->tune.target = targets[0];
    to->n_more = n - 1;
    memcpy(to->more, targets + 1, (size_t)(n - 1) * sizeof *targets);
    return CM_OK;
}

/* What the caller's struct reaches, in ours. */
static cm_status read_options(cm_ctx *cx, const cameo_network *network,
                              const cameo_build_options *options, cameo_build_options *all,
                              cm_compile_options *co, cm_tuned_options *to)
{
    *all = (cameo_build_options)CAMEO_BUILD_OPTIONS_INIT;
    if (options)
        memcpy(all, options, options->size < sizeof *all ? options->size : sizeof *all);
    *co = (cm_compile_options)CM_COMPILE_DEFAULT;
    co->build = network->build;
    co->strip_weights = all->strip_weights;
    if ((unsigned)all->tune > CAMEO_TUNE_FULL || (unsigned)all->pack > CAMEO_PACK_ALL ||
        !(all->tune_seconds >= 0) || all->threads < 0)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "tune %d, pack %d, %g seconds, %d threads: one is out of range",
                       (int)all->tune, (int)all->pack, all->tune_seconds, all->threads);
    CM_TRY(check_shapes(cx, all));
    if (all->precision)
        CM_TRY(read_precision(cx, network, all->precision, co));
    *to = (cm_tuned_options){.tune = {.level = (cm_tune_level)all->tune,
                                      .budget_seconds = all->tune_seconds,
                                      .threads = all->threads,
                                      .target = {CM_DEVICE_CPU, (int)cm_cpu_info()->isa, 0}},
                             .cache = all->timing_cache,
                             .pack = (cm_pack_level)all->pack,
                             .shape = shape_of,
                             .user = all};
    return all->target ? read_targets(cx, all->target, to) : CM_OK;
}

/* Is there more to do than to compile? */
static bool asks_more(const cm_tuned_options *to)
{
    return to->tune.level != CM_TUNE_OFF || to->pack != CM_PACK_OFF ||
           to->tune.target.kind != CM_DEVICE_CPU || to->n_more > 0;
}

static cm_status build(cm_ctx *cx, cameo_network *network, const cameo_build_options *options,
                       const char *path, cm_buf *bytes)
{
    cameo_build_options all;
    cm_compile_options co;
    cm_tuned_options to;
    cm_tune_report report;
    cm_network *g = network->network;
    cm_onnx_source_recall(network->source);
    CM_TRY(read_options(cx, network, options, &all, &co, &to));
    if (asks_more(&to))
        return path ? cm_compile_tuned(cx, g, &co, &to, path, &report)
                    : cm_compile_tuned_memory(cx, g, &co, &to, bytes, &report);
    return path ? cm_compile_file(cx, g, &co, path) : cm_compile_memory(cx, g, &co, bytes);
}

cameo_status cameo_build_file(cameo_network *network, const cameo_build_options *options,
                              const char *path, cameo_error *error)
{
    cm_job job;
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, path);
    cm_job_init(&job, hooks_of(network, options));
    cameo_status st = cm_job_end(&job, build(&job.cx, network, options, path, NULL), error);
    cm_job_deinit(&job);
    return st;
}

cameo_status cameo_build_memory(cameo_network *network, const cameo_build_options *options,
                                void **bytes, size_t *n, cameo_error *error)
{
    cm_job job;
    cm_buf b;
    CM_API_NEEDS(error, network);
    if (!bytes || !n)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "bytes and n must not be NULL");
    cm_job_init(&job, hooks_of(network, options));
    cm_buf_init(&b, job.cx.allocator);
    cm_status st = build(&job.cx, network, options, NULL, &b);
    if (st == CM_OK) {
        *bytes = cm_api_give_away(b.data, b.n);
        *n = b.n;
        if (!*bytes)
            st = cm_fail_memory(&job.cx);
    }
    cameo_status result = cm_job_end(&job, st, error);
    cm_buf_deinit(&b);
    cm_job_deinit(&job);
    return result;
}

typedef struct {
    cameo_network *network;
    const cameo_build_options *options;
} from_network;

static cm_status open_network(cameo_engine *e, void *arg)
{
    const from_network *from = arg;
    cm_ctx *cx = &e->job.cx;
    cameo_build_options all;
    cm_compile_options co;
    cm_tuned_options to;
    cm_tune_report report;
    cm_plan *plan;
    const cm_tensor *const *constants;
    CM_TRY(read_options(cx, from->network, from->options, &all, &co, &to));
    co.strip_weights = false;
    cm_onnx_source_recall(from->network->source);
    CM_TRY(cm_compile_lowered(cx, &e->job.arena, from->network->network, &co, &to, &plan,
                              &constants, &report));
    return cm_compile_open(cx, plan, constants, from->network->source, &e->engine);
}

cameo_status cameo_engine_from_network(cameo_network *network, const cameo_build_options *options,
                                       cameo_engine **out, cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, out);
    from_network from = {network, options};
    return cm_api_open_engine(open_network, &from, hooks_of(network, options), out, error);
}
