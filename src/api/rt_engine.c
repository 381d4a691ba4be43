/* rt_engine.c -- engines in the public API.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/api.h"
#include "api/rt_engine.h"

static cm_status texts(cm_ctx *cx, cameo_engine *e, bool inputs, const char ***out)
{
    int n = inputs ? cm_engine_n_inputs(e->engine) : cm_engine_n_outputs(e->engine);
    CM_NEW_N(cx, &e->job.arena, *out, n, const char *);
    for (int i = 0; i < n; i++) {
        cm_buf b;
        cm_buf_init(&b, cx->allocator);
        cm_type_print(
            cm_engine_plan(e->engine)->dims,
            inputs ? cm_engine_input_type(e->engine, i) : cm_engine_output_type(e->engine, i), &b);
        const char *text = cm_buf_text(&b);
        (*out)[i] = b.failed ? NULL : cm_arena_strdup(&e->job.arena, text);
        cm_buf_deinit(&b);
        if (!(*out)[i])
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

typedef struct {
    const char *path; /* NULL: from memory */
    const void *bytes;
    size_t n;
} source;

static cm_status open_source(cameo_engine *e, void *arg)
{
    const source *s = arg;
    cm_ctx *cx = &e->job.cx;
    return s->path ? cm_engine_open_file(cx, s->path, NULL, &e->engine)
                   : cm_engine_open_memory(cx, s->bytes, s->n, false, NULL, &e->engine);
}

cameo_status cm_api_open_engine(cm_open_fn open, void *arg, const cameo_hooks *hooks,
                                cameo_engine **out, cameo_error *error)
{
    cm_job probe;
    cm_job_init(&probe, hooks);
    cameo_engine *e = cm_alloc(probe.cx.allocator, sizeof *e, 16);
    if (!e)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    memset(e, 0, sizeof *e);
    cm_job_init(&e->job, hooks);
    atomic_init(&e->references, 1);
    cm_status st = open(e, arg);
    if (st == CM_OK)
        st = texts(&e->job.cx, e, true, &e->input_text);
    if (st == CM_OK)
        st = texts(&e->job.cx, e, false, &e->output_text);
    cameo_status result = cm_job_end(&e->job, st, error);
    if (st == CM_OK)
        *out = e;
    else
        cameo_engine_release(e);
    return result;
}

cameo_status cameo_engine_open_file(const char *path, const cameo_engine_options *options,
                                    cameo_engine **out, cameo_error *error)
{
    if (!path || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "path and out must not be NULL");
    source s = {.path = path};
    return cm_api_open_engine(open_source, &s, CM_HOOKS_OF(options), out, error);
}

cameo_status cameo_engine_open_memory(const void *bytes, size_t n,
                                      const cameo_engine_options *options, cameo_engine **out,
                                      cameo_error *error)
{
    if (!bytes || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "bytes and out must not be NULL");
    source s = {.bytes = bytes, .n = n};
    return cm_api_open_engine(open_source, &s, CM_HOOKS_OF(options), out, error);
}

cameo_engine *cameo_engine_retain(cameo_engine *engine)
{
    if (engine)
        atomic_fetch_add_explicit(&engine->references, 1, memory_order_relaxed);
    return engine;
}

void cameo_engine_release(cameo_engine *engine)
{
    if (!engine || atomic_fetch_sub_explicit(&engine->references, 1, memory_order_acq_rel) != 1)
        return;
    cm_engine_release(engine->engine);
    cm_job_deinit(&engine->job);
    cm_allocator a = engine->job.allocator;
    cm_release(engine->job.cx.allocator ? &a : NULL, engine, sizeof *engine);
}

int cameo_engine_input_count(const cameo_engine *engine)
{
    return engine ? cm_engine_n_inputs(engine->engine) : 0;
}

int cameo_engine_output_count(const cameo_engine *engine)
{
    return engine ? cm_engine_n_outputs(engine->engine) : 0;
}

cameo_status cameo_engine_input(const cameo_engine *engine, int index, cameo_info *out,
                                cameo_error *error)
{
    CM_API_NEEDS(error, engine);
    CM_API_NEEDS(error, out);
    if (index < 0 || index >= cm_engine_n_inputs(engine->engine))
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "input %d of %d", index,
                           cm_engine_n_inputs(engine->engine));
    cm_info_fill(cm_engine_input_name(engine->engine, index),
                 cm_engine_input_type(engine->engine, index), cm_engine_plan(engine->engine)->dims,
                 engine->input_text[index], out);
    return CAMEO_OK;
}

cameo_status cameo_engine_output(const cameo_engine *engine, int index, cameo_info *out,
                                 cameo_error *error)
{
    CM_API_NEEDS(error, engine);
    CM_API_NEEDS(error, out);
    if (index < 0 || index >= cm_engine_n_outputs(engine->engine))
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "output %d of %d", index,
                           cm_engine_n_outputs(engine->engine));
    cm_info_fill(cm_engine_output_name(engine->engine, index),
                 cm_engine_output_type(engine->engine, index), cm_engine_plan(engine->engine)->dims,
                 engine->output_text[index], out);
    return CAMEO_OK;
}

int cameo_engine_find_input(const cameo_engine *engine, const char *name)
{
    return engine && name ? cm_engine_find_input(engine->engine, name) : -1;
}

int cameo_engine_find_output(const cameo_engine *engine, const char *name)
{
    return engine && name ? cm_engine_find_output(engine->engine, name) : -1;
}
