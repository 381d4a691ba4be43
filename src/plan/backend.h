/* backend.h -- what runs problems: a device kind and its tactic tables. The only way to backends.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_BACKEND_H
#define CM_PLAN_BACKEND_H

#include "base/buf.h"
#include "plan/tactic.h"

/* Work recorded on a stream, to be launched again and again. */
typedef struct cm_recording cm_recording;
/* A point in a stream's order of work. */
typedef struct cm_mark cm_mark;

/* How the runtime uses devices that are not the CPU: their memory, and work that is enqueued on streams. All
 * calls may come from any thread; a stream is used by one at a time. Memory of the device is only to be read and
 * written by it. */
typedef struct cm_device_api {
    /* Level 0: device t->index, opened once per process and counted; its level is told by `target`. Else a
     * machine class without a device: kernels can be compiled for it, nothing runs. */
    cm_status (*open)(cm_ctx *cx, const cm_target *t, cm_device **out) CM_MUST_USE;
    void (*close)(cm_device *d);
    cm_target (*target)(const cm_device *d);
    bool (*runs)(const cm_device *d);
    /* Its name and driver, for tables of measurements. */
    const char *(*machine)(const cm_device *d, char *buf, size_t n);

    cm_status (*alloc)(cm_ctx *cx, cm_device *d, size_t bytes, void **out) CM_MUST_USE;
    void (*release)(cm_device *d, void *p); /* NULL is fine */
    /* Memory of the host that copies to and from the device are fastest with; kernels may use it, slowly, at the
     * same address. */
    cm_status (*alloc_host)(cm_ctx *cx, cm_device *d, size_t bytes, void **out) CM_MUST_USE;
    void (*release_host)(cm_device *d, void *p);

    /* `native` NULL: a new one; else the caller's (a CUstream), which outlives ours. */
    cm_status (*stream_open)(cm_ctx *cx, cm_device *d, void *native, cm_stream **out) CM_MUST_USE;
    void (*stream_close)(cm_stream *s);
    cm_status (*wait)(cm_ctx *cx,
                      cm_stream *s) CM_MUST_USE; /* until all that was enqueued is done */
    /* Enqueued. Host memory from alloc_host is left alone until a wait; other memory may be read at once. */
    cm_status (*upload)(cm_ctx *cx, cm_stream *s, void *to, const void *from,
                        size_t bytes) CM_MUST_USE;
    cm_status (*download)(cm_ctx *cx, cm_stream *s, void *to, const void *from,
                          size_t bytes) CM_MUST_USE;
    cm_status (*move)(cm_ctx *cx, cm_stream *s, void *to, const void *from,
                      size_t bytes) CM_MUST_USE; /* inside the device */
    cm_status (*fill)(cm_ctx *cx, cm_stream *s, void *to, unsigned char value,
                      size_t bytes) CM_MUST_USE;
    /* As cm_backend.copy, enqueued; first made ready, which may take long and compiles nothing twice. */
    cm_status (*copy_ready)(cm_ctx *cx, cm_device *d, size_t elem_bytes) CM_MUST_USE;
    cm_status (*copy)(cm_ctx *cx, cm_stream *s, size_t elem_bytes, int rank, const int64_t *dims,
                      const void *from, const int64_t *from_strides, void *to,
                      const int64_t *to_strides) CM_MUST_USE;
    double (*copy_ns)(const cm_target *t, size_t bytes); /* what such a copy takes */

    /* What is enqueued between the two does not run; it is in *r then. A recording that is already there
     * is changed where it can be, else made anew. record_end ends recording whatever it returns. */
    cm_status (*record_begin)(cm_ctx *cx, cm_stream *s) CM_MUST_USE;
    cm_status (*record_end)(cm_ctx *cx, cm_stream *s, cm_recording **r) CM_MUST_USE;
    cm_status (*launch)(cm_ctx *cx, cm_stream *s, cm_recording *r) CM_MUST_USE;
    void (*recording_close)(cm_device *d, cm_recording *r);

    cm_status (*mark_open)(cm_ctx *cx, cm_device *d, cm_mark **out) CM_MUST_USE;
    void (*mark_close)(cm_device *d, cm_mark *m);
    cm_status (*mark)(cm_ctx *cx, cm_stream *s, cm_mark *m) CM_MUST_USE;
    /* The same inside a recording: passed whenever that is launched. */
    cm_status (*mark_inside)(cm_ctx *cx, cm_stream *s, cm_mark *m) CM_MUST_USE;
    /* Between two marks that were passed; the later one is waited for. */
    cm_status (*between)(cm_ctx *cx, cm_device *d, cm_mark *from, cm_mark *to,
                         double *ns) CM_MUST_USE;

    /* What was compiled, as a plan keeps it; and taken from there. Bytes are not to be trusted: what cannot be
     * read is ignored. `images` adds those that this device made or used. */
    void (*images)(cm_device *d, cm_buf *out);
    void (*take_images)(cm_device *d, const void *bytes, size_t n);
} cm_device_api;

typedef struct cm_backend {
    const char *name; /* in reports: "cpu", "cuda" */
    cm_device_kind device;
    /* Its tactics for a kind, best guess first; *n 0 when it has none. */
    const cm_tactic *(*tactics)(cm_problem_kind kind, int *n);
    /* A strided copy between two tensors of `dims`, for conversions of layout: elements of 1, 2, 4, 8 or
     * 16 bytes, strides in elements, those of `from` may be 0 or negative. */
    void (*copy)(int level, cm_threads *t, size_t elem_bytes, int rank, const int64_t *dims,
                 const void *from, const int64_t *from_strides, void *to,
                 const int64_t *to_strides);
    const cm_device_api *api; /* NULL: the CPU, which has no need of it; else `copy` is NULL */
} cm_backend;

/* runtime/backends.c: all of them, 0, 1, ... until NULL. The first that takes a problem wins a tie;
 * what none takes runs on the operator's reference. */
const cm_backend *cm_backend_at(int index);
/* The one for a kind of device. */
const cm_backend *cm_backend_for(cm_device_kind kind);

#endif
