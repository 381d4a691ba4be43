/* rt_context.c -- contexts in the public API.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/api.h"
#include "api/rt_engine.h"

struct cameo_context {
    cm_job job;
    cameo_engine *engine;
    cm_context *context;
    atomic_bool cancel;
    cameo_output_fn output_fn;
    void *output_user;
};

/* The context's own hooks; the engine's where it has none. */
static cameo_hooks either(const cameo_hooks *own, const cameo_hooks *engine)
{
    cameo_hooks h = *own;
    h.size = sizeof h;
    if (!h.alloc || !h.release) {
        h.alloc = engine->alloc;
        h.release = engine->release;
        h.alloc_user = engine->alloc_user;
    }
    if (!h.log) {
        h.log = engine->log;
        h.log_user = engine->log_user;
    }
    if (!h.progress) {
        h.progress = engine->progress;
        h.progress_user = engine->progress_user;
    }
    return h;
}

cameo_status cameo_context_create(cameo_engine *engine, const cameo_context_options *options,
                                  cameo_context **out, cameo_error *error)
{
    if (!engine || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "engine and out must not be NULL");
    cm_job probe;
    cm_job_init(&probe, CM_HOOKS_OF(options));
    const cameo_hooks hooks = either(&probe.hooks, &engine->job.hooks);
    cm_job_init(&probe, &hooks);
    cameo_context *c = cm_alloc(probe.cx.allocator, sizeof *c, 16);
    if (!c)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    memset(c, 0, sizeof *c);
    cm_job_init(&c->job, &hooks);
    c->engine = cameo_engine_retain(engine);
    c->job.cx.cancel = &c->cancel;
    cm_context_options co = {
        .threads = CM_OPTION_HAS(options, threads) ? options->threads : 0,
        .seed = CM_OPTION_HAS(options, seed) ? options->seed : 0,
    };
    if (CM_OPTION_HAS(options, max_memory))
        co.max_memory = options->max_memory;
    cm_target target;
    cm_status st = CM_OK;
    if (CM_OPTION_HAS(options, target) && options->target) {
        st = cm_target_parse(&c->job.cx, options->target, &target);
        co.target = &target;
    }
    if (st == CM_OK)
        st = cm_context_create(&c->job.cx, engine->engine, &co, &c->context);
    cameo_status result = cm_job_end(&c->job, st, error);
    if (st == CM_OK)
        *out = c;
    else
        cameo_context_destroy(c);
    return result;
}

void cameo_context_destroy(cameo_context *context)
{
    if (!context)
        return;
    cm_context_destroy(context->context);
    cameo_engine_release(context->engine);
    cm_job_deinit(&context->job);
    cm_allocator a = context->job.allocator;
    cm_release(context->job.cx.allocator ? &a : NULL, context, sizeof *context);
}

static cm_status check_index(cm_ctx *cx, const char *what, int index, int n)
{
    if (index >= 0 && index < n)
        return CM_OK;
    return cm_fail(cx, CM_ERR_ARGUMENT, "%s %d: there are %d", what, index, n);
}

static cm_status set_input(cameo_context *c, int index, const cameo_tensor *tensor)
{
    cm_ctx *cx = &c->job.cx;
    cm_datum d = {.kind = CM_TENSOR};
    CM_TRY(check_index(cx, "input", index, cm_engine_n_inputs(c->engine->engine)));
    CM_TRY(cm_tensor_from_api(cx, tensor, &d.tensor));
    if (!tensor->data)
        return cm_context_set_shape(cx, c->context, index, d.tensor.rank, d.tensor.dims);
    return cm_context_set_input(cx, c->context, index, &d);
}

cameo_status cameo_context_set_input(cameo_context *context, int index, const cameo_tensor *tensor,
                                     cameo_error *error)
{
    CM_API_NEEDS(error, context);
    CM_API_NEEDS(error, tensor);
    return cm_job_end(&context->job, set_input(context, index, tensor), error);
}

cameo_status cameo_context_set_input_value(cameo_context *context, int index,
                                           const cameo_value *value, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    CM_API_NEEDS(error, value);
    cm_ctx *cx = &context->job.cx;
    cm_status st = check_index(cx, "input", index, cm_engine_n_inputs(context->engine->engine));
    if (st == CM_OK)
        st = cm_context_set_input(cx, context->context, index, (const cm_datum *)value);
    return cm_job_end(&context->job, st, error);
}

cameo_status cameo_context_set_output(cameo_context *context, int index, void *data, size_t bytes,
                                      cameo_error *error)
{
    CM_API_NEEDS(error, context);
    cm_ctx *cx = &context->job.cx;
    cm_status st = check_index(cx, "output", index, cm_engine_n_outputs(context->engine->engine));
    if (st == CM_OK)
        st = cm_context_set_output(cx, context->context, index, data, bytes);
    return cm_job_end(&context->job, st, error);
}

static void *ask_for_output(void *user, int output, const cm_tensor *t, size_t bytes)
{
    cameo_context *c = user;
    cameo_tensor shape;
    cm_tensor_to_api(t, &shape);
    shape.data = NULL;
    shape.bytes = bytes;
    return c->output_fn(c->output_user, output, &shape);
}

cameo_status cameo_context_set_output_allocator(cameo_context *context, cameo_output_fn fn,
                                                void *user, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    cm_status st = CM_OK;
    context->output_fn = fn;
    context->output_user = user;
    for (int i = 0; st == CM_OK && i < cm_engine_n_outputs(context->engine->engine); i++)
        st = cm_context_set_output_fn(&context->job.cx, context->context, i,
                                      fn ? ask_for_output : NULL, context);
    return cm_job_end(&context->job, st, error);
}

cameo_status cameo_context_bind(cameo_context *context, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    return cm_job_end(&context->job, cm_context_bind(&context->job.cx, context->context), error);
}

cameo_status cameo_context_output_shape(cameo_context *context, int index, cameo_tensor *out,
                                        cameo_error *error)
{
    CM_API_NEEDS(error, context);
    CM_API_NEEDS(error, out);
    cm_ctx *cx = &context->job.cx;
    cm_status st = check_index(cx, "output", index, cm_engine_n_outputs(context->engine->engine));
    if (st != CM_OK)
        return cm_job_end(&context->job, st, error);
    const cm_type *t = cm_engine_output_type(context->engine->engine, index);
    memset(out, 0, sizeof *out);
    out->dtype = (cameo_dtype)t->dtype;
    if (!cm_context_output_shape(context->context, index, &out->rank, out->dims))
        out->rank = -1;
    return CAMEO_OK;
}

size_t cameo_context_memory(const cameo_context *context)
{
    return context ? cm_context_arena_bytes(context->context) : 0;
}

cameo_status cameo_context_run(cameo_context *context, double timeout_seconds, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    cm_ctx *cx = &context->job.cx;
    bool limited = timeout_seconds > 0 && timeout_seconds < 1e9; /* 30 years are no limit */
    cx->deadline_ns = limited ? cm_now_ns() + (uint64_t)(timeout_seconds * 1e9) : 0;
    cm_status st = cm_context_run(cx, context->context);
    atomic_store(&context->cancel, false);
    return cm_job_end(&context->job, st, error);
}

cameo_status cameo_context_enqueue(cameo_context *context, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    context->job.cx.deadline_ns = 0;
    cm_status st = cm_context_enqueue(&context->job.cx, context->context);
    atomic_store(&context->cancel, false);
    return cm_job_end(&context->job, st, error);
}

cameo_status cameo_context_wait(cameo_context *context, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    return cm_job_end(&context->job, cm_context_wait(&context->job.cx, context->context), error);
}

static cm_status set_device_input(cameo_context *c, int index, const cameo_tensor *tensor)
{
    cm_tensor t;
    CM_TRY(check_index(&c->job.cx, "input", index, cm_engine_n_inputs(c->engine->engine)));
    CM_TRY(cm_tensor_from_api(&c->job.cx, tensor, &t));
    return cm_context_set_device_input(&c->job.cx, c->context, index, &t);
}

cameo_status cameo_context_set_device_input(cameo_context *context, int index,
                                            const cameo_tensor *tensor, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    CM_API_NEEDS(error, tensor);
    return cm_job_end(&context->job, set_device_input(context, index, tensor), error);
}

cameo_status cameo_context_set_device_output(cameo_context *context, int index, void *data,
                                             size_t bytes, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    return cm_job_end(
        &context->job,
        cm_context_set_device_output(&context->job.cx, context->context, index, data, bytes),
        error);
}

cameo_status cameo_context_set_stream(cameo_context *context, void *stream, cameo_error *error)
{
    CM_API_NEEDS(error, context);
    return cm_job_end(&context->job,
                      cm_context_set_stream(&context->job.cx, context->context, stream), error);
}

void cameo_context_cancel(cameo_context *context)
{
    if (context)
        atomic_store(&context->cancel, true);
}

const cameo_value *cameo_context_output_value(cameo_context *context, int index)
{
    if (!context || index < 0 || index >= cm_engine_n_outputs(context->engine->engine))
        return NULL;
    return (const cameo_value *)cm_context_output(context->context, index);
}

cameo_status cameo_context_output(cameo_context *context, int index, cameo_tensor *out,
                                  cameo_error *error)
{
    CM_API_NEEDS(error, context);
    CM_API_NEEDS(error, out);
    const cm_datum *d = (const cm_datum *)cameo_context_output_value(context, index);
    if (!d)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT,
                           "output %d: there is none, or no run succeeded yet", index);
    if (d->kind != CM_TENSOR)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT,
                           "output %d is not a tensor: use cameo_context_output_value", index);
    cm_tensor_to_api(&d->tensor, out);
    return CAMEO_OK;
}
