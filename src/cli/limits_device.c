/* limits_device.c -- what a device can do at most.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/limits_device.h"

#include "cuda/devices.h"
#include "plan/backend.h"

enum { TRIALS = 7 };

typedef struct {
    cm_ctx *cx;
    const cm_device_api *api;
    cm_device *device;
    cm_stream *stream;
    cm_mark *marks[2];
    unsigned char *memory;
    size_t bytes; /* twice the largest move */
} probe;

static cm_status open_probe(probe *p, const cm_target *t, size_t bytes)
{
    CM_TRY(p->api->open(p->cx, t, &p->device));
    CM_TRY(p->api->stream_open(p->cx, p->device, NULL, &p->stream));
    for (int i = 0; i < 2; i++)
        CM_TRY(p->api->mark_open(p->cx, p->device, &p->marks[i]));
    p->bytes = bytes;
    return p->api->alloc(p->cx, p->device, bytes, (void **)&p->memory);
}

static void close_probe(probe *p)
{
    if (!p->device)
        return;
    for (int i = 0; i < 2; i++)
        if (p->marks[i])
            p->api->mark_close(p->device, p->marks[i]);
    if (p->stream)
        p->api->stream_close(p->stream);
    p->api->release(p->device, p->memory);
    p->api->close(p->device);
}

/* The shortest of several trials of `times` moves of so many bytes. */
static cm_status shortest(probe *p, size_t bytes, int times, double *ns)
{
    *ns = 0;
    for (int t = 0; t < TRIALS; t++) {
        double now;
        CM_TRY(p->api->mark(p->cx, p->stream, p->marks[0]));
        for (int i = 0; i < times; i++)
            CM_TRY(p->api->move(p->cx, p->stream, p->memory + p->bytes / 2, p->memory, bytes));
        CM_TRY(p->api->mark(p->cx, p->stream, p->marks[1]));
        CM_TRY(p->api->between(p->cx, p->device, p->marks[0], p->marks[1], &now));
        *ns = t == 0 || now < *ns ? now : *ns;
    }
    return CM_OK;
}

static cm_status measure(probe *p, cm_limits *out, double *launch_ns)
{
    double far, near, tiny;
    CM_TRY(shortest(p, p->bytes / 2, 1, &far));
    CM_TRY(shortest(p, CM_DEVICE_CACHE_BYTES / 2, 8, &near));
    CM_TRY(shortest(p, 64, 16, &tiny));
    *launch_ns = tiny / 16;
    out->dram_bytes = (double)p->bytes / (far * 1e-9);
    out->near_bytes = 8.0 * (double)CM_DEVICE_CACHE_BYTES / (near * 1e-9);
    return CM_OK;
}

/* Operations in a clock of one processor: plain float32, and tensor cores on halves. */
static void by_clock(const cm_gpu *g, cm_limits *out)
{
    int sm = g->major * 10 + g->minor;
    double plain = sm >= 86 ? 256 : 128;
    double halves = sm >= 100 ? 8192 : sm >= 90 ? 4096 : sm == 80 ? 2048 : 1024;
    double clocks = (double)g->sms * (double)g->core_mhz * 1e6;
    out->f32_ops = plain * clocks;
    out->bf16_ops = halves * clocks;
    out->int8_ops = 2 * halves * clocks;
}

cm_status cm_limits_of_device(cm_ctx *cx, const cm_target *t, cm_limits *out, double *launch_ns)
{
    const cm_backend *b = cm_backend_for(t->kind);
    cm_gpu_list *gpus;
    *out = (cm_limits){0};
    if (!b || !b->api)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "this build has no backend for the target");
    CM_NEW(cx, cx->arena, gpus, cm_gpu_list);
    cm_gpu_list_probe(gpus);
    probe p = {.cx = cx, .api = b->api};
    cm_status st = open_probe(&p, t, (size_t)512 << 20);
    if (st == CM_OK)
        st = measure(&p, out, launch_ns);
    close_probe(&p);
    if (st == CM_OK && t->index < gpus->n)
        by_clock(&gpus->gpu[t->index], out);
    return st;
}
