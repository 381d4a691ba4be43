/* stream.c -- memory, streams, copies, recordings and marks of a GPU: what the runtime calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cuda/device.h"

struct cm_recording {
    cm_cu_exec exec;
};

/* Marks are the driver's events under our name. */
static cm_cu_event event_of(cm_mark *m)
{
    return (cm_cu_event)m;
}

/* One call of the driver in the device's context. */
#define CALL(cx, d, doing, call)                                                                   \
    do {                                                                                           \
        CM_TRY(cm_device_enter((cx), (d)));                                                        \
        int code_ = (d)->cu->call;                                                                 \
        cm_device_leave(d);                                                                        \
        if (code_ != 0)                                                                            \
            return cm_driver_fail((cx), (d)->cu, code_, (doing));                                  \
        return CM_OK;                                                                              \
    } while (0)

static cm_target target(const cm_device *d)
{
    return d->target;
}

static bool runs(const cm_device *d)
{
    return d->cu != NULL;
}

static const char *machine(const cm_device *d, char *buf, size_t n)
{
    if (d->cu)
        snprintf(buf, n, "%s driver %d.%d", d->name, d->cu->version / 1000,
                 d->cu->version % 1000 / 10);
    else
        snprintf(buf, n, "sm_%d", d->target.level / 10);
    return buf;
}

static cm_status alloc(cm_ctx *cx, cm_device *d, size_t bytes, void **out)
{
    cm_cu_address p = 0;
    *out = NULL;
    CM_TRY(cm_device_enter(cx, d));
    int code = d->cu->alloc(&p, bytes ? bytes : 1);
    cm_device_leave(d);
    if (code == CM_CU_OUT_OF_MEMORY)
        return cm_fail(cx, CM_ERR_MEMORY, "the GPU is out of memory: %zu bytes wanted", bytes);
    if (code != 0)
        return cm_driver_fail(cx, d->cu, code, "getting memory of the GPU");
    *out = (void *)(uintptr_t)p;
    return CM_OK;
}

static void release(cm_device *d, void *p)
{
    if (!p || d->cu->push(d->context) != 0)
        return;
    d->cu->release((cm_cu_address)(uintptr_t)p);
    cm_device_leave(d);
}

static cm_status alloc_host(cm_ctx *cx, cm_device *d, size_t bytes, void **out)
{
    CALL(cx, d, "getting pinned memory", host_alloc(out, bytes ? bytes : 1, 0));
}

static void release_host(cm_device *d, void *p)
{
    if (!p || d->cu->push(d->context) != 0)
        return;
    d->cu->host_release(p);
    cm_device_leave(d);
}

static cm_status stream_open(cm_ctx *cx, cm_device *d, void *native, cm_stream **out)
{
    cm_stream *s = cm_alloc(NULL, sizeof *s, 16);
    if (!s)
        return cm_fail_memory(cx);
    *s = (cm_stream){.d = d, .cu = native, .ours = !native};
    cm_status st = cm_device_enter(cx, d);
    if (st == CM_OK && s->ours) {
        int code = d->cu->stream_create(&s->cu, CM_CU_STREAM_NON_BLOCKING);
        if (code != 0)
            st = cm_driver_fail(cx, d->cu, code, "making a stream");
    }
    if (d->cu)
        cm_device_leave(d);
    if (st == CM_OK)
        *out = s;
    else
        cm_release(NULL, s, sizeof *s);
    return st;
}

static void stream_close(cm_stream *s)
{
    if (!s)
        return;
    if (s->ours && s->d->cu->push(s->d->context) == 0) {
        s->d->cu->stream_wait(s->cu);
        s->d->cu->stream_destroy(s->cu);
        cm_device_leave(s->d);
    }
    cm_release(NULL, s, sizeof *s);
}

static cm_status wait(cm_ctx *cx, cm_stream *s)
{
    CALL(cx, s->d, "waiting for the GPU", stream_wait(s->cu));
}

static cm_status upload(cm_ctx *cx, cm_stream *s, void *to, const void *from, size_t bytes)
{
    CALL(cx, s->d, "copying to the GPU", upload((cm_cu_address)(uintptr_t)to, from, bytes, s->cu));
}

static cm_status download(cm_ctx *cx, cm_stream *s, void *to, const void *from, size_t bytes)
{
    CALL(cx, s->d, "copying from the GPU",
         download(to, (cm_cu_address)(uintptr_t)from, bytes, s->cu));
}

static cm_status move(cm_ctx *cx, cm_stream *s, void *to, const void *from, size_t bytes)
{
    CALL(cx, s->d, "copying on the GPU",
         move((cm_cu_address)(uintptr_t)to, (cm_cu_address)(uintptr_t)from, bytes, s->cu));
}

static cm_status fill(cm_ctx *cx, cm_stream *s, void *to, unsigned char value, size_t bytes)
{
    CALL(cx, s->d, "filling memory of the GPU",
         fill((cm_cu_address)(uintptr_t)to, value, bytes, s->cu));
}

cm_status cm_gpu_fill(const cm_run *r, void *to, unsigned char value, size_t bytes)
{
    return bytes ? fill(r->cx, r->stream, to, value, bytes) : CM_OK;
}

static cm_status record_begin(cm_ctx *cx, cm_stream *s)
{
    CALL(cx, s->d, "recording", capture_begin(s->cu, CM_CU_CAPTURE_THREAD));
}

static cm_status keep_graph(cm_ctx *cx, cm_device *d, cm_cu_graph g, cm_recording **r)
{
    char info[64]; /* what kept it from being updated: nobody asks */
    if (!*r) {
        *r = cm_alloc(NULL, sizeof **r, 16);
        if (!*r)
            return cm_fail_memory(cx);
        **r = (cm_recording){0};
    }
    if ((*r)->exec) {
        if (d->cu->graph_update((*r)->exec, g, info) == 0)
            return CM_OK;
        d->cu->exec_destroy((*r)->exec);
        (*r)->exec = NULL;
    }
    int code = d->cu->graph_make(&(*r)->exec, g, 0);
    return code == 0 ? CM_OK : cm_driver_fail(cx, d->cu, code, "making a graph of the kernels");
}

static cm_status record_end(cm_ctx *cx, cm_stream *s, cm_recording **r)
{
    cm_device *d = s->d;
    cm_cu_graph g = NULL;
    CM_TRY(cm_device_enter(cx, d));
    int code = d->cu->capture_end(s->cu, &g);
    cm_status st =
        code == 0 && g ? keep_graph(cx, d, g, r) : cm_driver_fail(cx, d->cu, code, "recording");
    if (g)
        d->cu->graph_destroy(g);
    cm_device_leave(d);
    return st;
}

static cm_status launch(cm_ctx *cx, cm_stream *s, cm_recording *r)
{
    CALL(cx, s->d, "launching a graph", graph_launch(r->exec, s->cu));
}

static void recording_close(cm_device *d, cm_recording *r)
{
    if (!r)
        return;
    if (r->exec && d->cu->push(d->context) == 0) {
        d->cu->exec_destroy(r->exec);
        cm_device_leave(d);
    }
    cm_release(NULL, r, sizeof *r);
}

static cm_status mark_open(cm_ctx *cx, cm_device *d, cm_mark **out)
{
    CALL(cx, d, "making an event", event_create((cm_cu_event *)out, 0));
}

static void mark_close(cm_device *d, cm_mark *m)
{
    if (!m || d->cu->push(d->context) != 0)
        return;
    d->cu->event_destroy(event_of(m));
    cm_device_leave(d);
}

static cm_status mark(cm_ctx *cx, cm_stream *s, cm_mark *m)
{
    CALL(cx, s->d, "marking time", event_record(event_of(m), s->cu));
}

static cm_status mark_inside(cm_ctx *cx, cm_stream *s, cm_mark *m)
{
    enum { AS_NODE = 1 }; /* CU_EVENT_RECORD_EXTERNAL */
    CALL(cx, s->d, "marking time", event_record_with(event_of(m), s->cu, AS_NODE));
}

static cm_status between(cm_ctx *cx, cm_device *d, cm_mark *from, cm_mark *to, double *ns)
{
    float ms = 0;
    CM_TRY(cm_device_enter(cx, d));
    int code = d->cu->event_wait(event_of(to));
    if (code == 0)
        code = d->cu->event_elapsed(&ms, event_of(from), event_of(to));
    cm_device_leave(d);
    *ns = ms * 1e6;
    return code == 0 ? CM_OK : cm_driver_fail(cx, d->cu, code, "reading the time");
}

static void take_images(cm_device *d, const void *bytes, size_t n)
{
    (void)d;
    cm_images_take(bytes, n);
}

const cm_device_api cm_cuda_api = {
    .open = cm_device_open,
    .close = cm_device_close,
    .target = target,
    .runs = runs,
    .machine = machine,
    .alloc = alloc,
    .release = release,
    .alloc_host = alloc_host,
    .release_host = release_host,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .wait = wait,
    .upload = upload,
    .download = download,
    .move = move,
    .fill = fill,
    .copy_ready = cm_cuda_copy_ready,
    .copy = cm_cuda_copy,
    .copy_ns = cm_cuda_copy_ns,
    .record_begin = record_begin,
    .record_end = record_end,
    .launch = launch,
    .recording_close = recording_close,
    .mark_open = mark_open,
    .mark_close = mark_close,
    .mark = mark,
    .mark_inside = mark_inside,
    .between = between,
    .images = cm_kernels_images,
    .take_images = take_images,
};
