/* device.c -- a context's device: opened, given memory, closed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

static cm_status open_device(cm_ctx *cx, cm_context *c, const cm_target *t)
{
    cm_device_state *d = c->device;
    CM_TRY(d->api->open(cx, t, &d->device));
    d->target = d->api->target(d->device);
    for (int i = 0; i < c->engine->plan->n_targets; i++) {
        const cm_plan_target *x = &c->engine->plan->targets[i];
        if (x->target.kind == t->kind && x->target.level == d->target.level)
            d->api->take_images(d->device, x->bytes, x->n);
    }
    return d->api->runs(d->device) ? d->api->stream_open(cx, d->device, NULL, &d->stream) : CM_OK;
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
    return open_device(cx, c, t);
}

void cm_device_state_destroy(cm_context *c)
{
    cm_device_state *d = c->device;
    if (!d || !d->device)
        return;
    cm_forget_places(c);
    for (int i = 0; i < CM_COUNT(d->marks); i++)
        if (d->marks[i])
            d->api->mark_close(d->device, d->marks[i]);
    d->api->stream_close(d->stream);
    if (d->memory)
        d->api->release(d->device, d->memory);
    if (d->pinned)
        d->api->release_host(d->device, d->pinned);
    d->api->close(d->device);
}
