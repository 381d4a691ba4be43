/* device_weights.c -- constants in the memory of devices: copied once per engine and device.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/device.h"

/* `tactic` NULL: as the plan has it. The device stays open as long as one of these is on it. */
struct cm_device_constant {
    struct cm_device_constant *next;
    const cm_device_api *api;
    cm_device *device;
    int32_t value;
    int input;
    const cm_tactic *tactic;
    cm_knobs knobs;
    const cm_ready_step *step;
    size_t bytes;
    void *data;
};

static bool same_operator(const cm_ready_step *a, const cm_ready_step *b)
{
    return a == b || (a->op == b->op && a->plan->attr_n == b->plan->attr_n &&
                      (a->plan->attr_n == 0 ||
                       memcmp(a->plan->attr_bytes, b->plan->attr_bytes, a->plan->attr_n) == 0));
}

static cm_device_constant *find(const cm_engine *e, const cm_device_constant *want)
{
    for (cm_device_constant *k = e->on_devices; k; k = k->next)
        if (k->device == want->device && k->value == want->value && k->tactic == want->tactic &&
            k->bytes == want->bytes &&
            (!k->tactic || (k->input == want->input && same_operator(k->step, want->step) &&
                            memcmp(&k->knobs, &want->knobs, sizeof k->knobs) == 0)))
            return k;
    return NULL;
}

/* Through memory of the host, packed there where that is wanted. */
static cm_status upload(cm_ctx *cx, cm_context *c, const cm_solution *sol, const void *from,
                        cm_device_constant *k)
{
    cm_device_state *d = c->device;
    void *packed = NULL;
    if (k->tactic) {
        packed = cm_alloc(c->allocator, k->bytes, CM_MEMORY_ALIGN);
        if (!packed)
            return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for packed weights",
                           k->bytes);
        k->tactic->pack(&sol->p, &k->knobs, k->input, from, packed, c->threads);
        from = packed;
    }
    cm_status st = d->api->alloc(cx, d->device, k->bytes, &k->data);
    if (st == CM_OK && k->bytes)
        st = d->api->upload(cx, d->stream, k->data, from, k->bytes);
    if (st == CM_OK)
        st = d->api->wait(cx, d->stream); /* the memory it came from goes now */
    cm_release(c->allocator, packed, k->bytes);
    return st;
}

static cm_status add(cm_ctx *cx, cm_context *c, const cm_solution *sol, const void *from,
                     const cm_device_constant *want, cm_device_constant **out)
{
    cm_engine *e = c->engine;
    const cm_target here = {want->device ? CM_DEVICE_CUDA : CM_DEVICE_CPU, 0,
                            c->device->target.index};
    cm_device_constant *k = cm_alloc(e->allocator, sizeof *k, 16);
    if (!k)
        return cm_fail_memory(cx);
    *k = *want;
    cm_status st = upload(cx, c, sol, from, k);
    if (st == CM_OK) /* one more count of it, ours */
        st = k->api->open(cx, &here, &k->device);
    if (st != CM_OK) {
        k->api->release(want->device, k->data);
        cm_release(e->allocator, k, sizeof *k);
        return st;
    }
    k->next = e->on_devices;
    e->on_devices = *out = k;
    return CM_OK;
}

cm_status cm_device_weight(cm_ctx *cx, cm_context *c, const cm_ready_step *s,
                           const cm_solution *sol, int input, const void **out)
{
    const cm_tactic *t = sol->choice.tactic;
    size_t packed = t && t->pack_bytes && input < sol->p.n_in
                        ? t->pack_bytes(&sol->p, &sol->choice.knobs, input)
                        : 0;
    int32_t v = s->plan->in[input].value;
    cm_device_constant want = {.api = c->device->api,
                               .device = c->device->device,
                               .value = v,
                               .input = input,
                               .tactic = packed ? t : NULL,
                               .knobs = sol->choice.knobs,
                               .step = s,
                               .bytes = packed};
    if (!packed && !cm_tensor_bytes(sol->in[input], &want.bytes))
        return cm_fail_memory(cx);
    const void *from;
    CM_TRY(cm_plain_constant(cx, c->engine, v, &from)); /* the plan may have it as a CPU wants it */
    pthread_mutex_lock(&c->engine->packing);
    cm_device_constant *k = find(c->engine, &want);
    cm_status st = k ? CM_OK : add(cx, c, sol, from, &want, &k);
    if (st == CM_OK)
        *out = k->data;
    pthread_mutex_unlock(&c->engine->packing);
    return st;
}

void cm_device_weights_release(cm_engine *e)
{
    while (e->on_devices) {
        cm_device_constant *k = e->on_devices;
        e->on_devices = k->next;
        k->api->release(k->device, k->data);
        k->api->close(k->device);
        cm_release(e->allocator, k, sizeof *k);
    }
}
