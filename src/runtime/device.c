/* device.c -- a context's device: opened, given memory, closed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

/* What it cannot read it does without. */
static void take_section(cm_ctx *cx, cm_device_state *d, const cm_plan_target *x)
{
    size_t n;
    const void *images = cm_plan_target_images(x, &n);
    if (images)
        d->api->take_images(d->device, images, n);
    if (cm_timings_parse(cx, &d->timings, x->bytes, cm_plan_target_text(x)) != CM_OK)
        cx->message[0] = 0;
}

static cm_status open_device(cm_ctx *cx, cm_context *c, const cm_target *t)
{
    cm_device_state *d = c->device;
    CM_TRY(d->api->open(cx, t, &d->device));
    d->target = d->api->target(d->device);
    char *machine = d->timings.machine;
    d->api->machine(d->device, machine, sizeof d->timings.machine);
    for (int i = 0; i < c->engine->plan->n_targets; i++) {
        const cm_plan_target *x = &c->engine->plan->targets[i];
        if (x->target.kind == t->kind && x->target.level == d->target.level)
            take_section(cx, d, x);
    }
    if (!d->api->runs(d->device))
        return CM_OK;
    void *p;
    CM_TRY(d->api->stream_open(cx, d->device, NULL, &d->stream));
    CM_TRY(d->api->alloc_host(cx, d->device, sizeof *d->fault, &p));
    d->fault = p;
    *d->fault = 0;
    return CM_OK;
}

cm_status cm_device_state_create(cm_ctx *cx, cm_context *c, const cm_target *t)
{
    const cm_backend *b = cm_backend_for(t->kind);
    char text[64];
    if (!b || !b->api)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "target %s: this build has no backend for it",
                       cm_target_text(text, sizeof text, t));
    CM_NEW(cx, &c->arena, c->device, cm_device_state);
    c->device->api = b->api;
    c->device->resident = -1;
    CM_NEW_N(cx, &c->arena, c->device->in_at, cm_engine_n_inputs(c->engine), const void *);
    CM_NEW_N(cx, &c->arena, c->device->out_at, cm_engine_n_outputs(c->engine), void *);
    CM_NEW_N(cx, &c->arena, c->device->marks, c->engine->n_steps + 2, cm_mark *);
    CM_NEW_N(cx, &c->arena, c->device->out_bytes, cm_engine_n_outputs(c->engine), size_t);
    cm_timings_init(&c->device->timings, c->allocator, t);
    CM_TRY(open_device(cx, c, t));
    return cm_late_create(cx, c);
}

void cm_device_settle(cm_context *c)
{
    cm_ctx quiet = {0};
    if (c->device && c->device->in_flight)
        (void)!c->device->api->wait(&quiet, c->device->stream);
}

void cm_device_state_destroy(cm_context *c)
{
    cm_device_state *d = c->device;
    if (!d)
        return;
    cm_timings_deinit(&d->timings);
    if (!d->device)
        return;
    for (int i = 0; i < d->n_marks; i++)
        d->api->mark_close(d->device, d->marks[i]);
    d->api->stream_close(d->stream);
    cm_late_destroy(c);
    if (d->memory)
        d->api->release(d->device, d->memory);
    if (d->pinned)
        d->api->release_host(d->device, d->pinned);
    if (d->fault)
        d->api->release_host(d->device, d->fault);
    d->api->close(d->device);
}

cm_status cm_target_resolve(cm_ctx *cx, const cm_target *t, cm_target *out, char *machine, size_t n,
                            cm_device **held)
{
    const cm_device_api *api = cm_backend_for(t->kind)->api;
    *out = *t;
    *held = NULL;
    if (!api)
        return CM_OK;
    CM_TRY(api->open(cx, t, held));
    *out = api->target(*held);
    api->machine(*held, machine, n);
    return CM_OK;
}

void cm_target_release(const cm_target *t, cm_device *held)
{
    if (held)
        cm_backend_for(t->kind)->api->close(held);
}

void cm_context_images(const cm_context *c, cm_buf *out)
{
    if (c->device)
        c->device->api->images(c->device->device, out);
}

static cm_status needs_device(cm_ctx *cx, const cm_context *c, const char *what)
{
    if (c->device && c->device->stream)
        return CM_OK;
    return cm_fail(cx, CM_ERR_ARGUMENT, "%s: the context does not run on a device", what);
}

static cm_status check_pointer(cm_ctx *cx, const char *what, const char *name, const void *p)
{
    enum { ALIGN = 16 };
    if ((uintptr_t)p % ALIGN == 0)
        return CM_OK;
    return cm_fail(cx, CM_ERR_ARGUMENT, "%s '%s': memory on a device must be aligned to %d bytes",
                   what, name, ALIGN);
}

cm_status cm_context_set_device_input(cm_ctx *cx, cm_context *c, int i, const cm_tensor *t)
{
    CM_TRY(needs_device(cx, c, "an input on a device"));
    CM_TRY(cm_set_shape(cx, c, i, t->rank, t->dims));
    const char *name = cm_engine_input_name(c->engine, i);
    if (t->dtype != c->inputs[i].tensor.dtype)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': found element type %s, wanted %s", name,
                       cm_dtype_name(t->dtype), cm_dtype_name(c->inputs[i].tensor.dtype));
    CM_TRY(check_pointer(cx, "input", name, t->data));
    if (!t->data)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' has no memory", name);
    cm_device_state *d = c->device;
    if (!d->in_at[i]) /* it was on the host: other copies are to be planned */
        c->bound = false;
    d->in_at[i] = t->data;
    return CM_OK;
}

cm_status cm_context_set_device_output(cm_ctx *cx, cm_context *c, int i, void *data, size_t bytes)
{
    CM_TRY(needs_device(cx, c, "an output on a device"));
    CM_TRY(cm_context_set_output(cx, c, i, NULL, 0));
    CM_TRY(check_pointer(cx, "output", cm_engine_output_name(c->engine, i), data));
    cm_device_state *d = c->device;
    if (!d->out_at[i] != !data)
        c->bound = false;
    d->out_at[i] = data;
    d->out_bytes[i] = bytes;
    return CM_OK;
}

cm_status cm_context_set_stream(cm_ctx *cx, cm_context *c, void *native)
{
    CM_TRY(needs_device(cx, c, "a stream"));
    cm_device_state *d = c->device;
    cm_stream *s;
    if (d->in_flight)
        CM_TRY(cm_context_wait(cx, c));
    CM_TRY(d->api->stream_open(cx, d->device, native, &s));
    d->api->stream_close(d->stream);
    d->stream = s;
    return CM_OK;
}

/* Memory on the host again, or a shape alone. */
void cm_forget_device_input(cm_context *c, int i)
{
    if (!c->device || !c->device->in_at[i])
        return;
    c->device->in_at[i] = NULL;
    c->bound = false;
}
