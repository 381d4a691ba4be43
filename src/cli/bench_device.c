/* bench_device.c -- inputs and outputs of a measured context that stay in a device's memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_device.h"

#include "plan/backend.h"

struct cm_bench_device {
    const cm_device_api *api;
    cm_device *device;
    cm_stream *stream;
    int n;
    void **memory;
};

static cm_status take(cm_ctx *cx, cm_bench_device *d, size_t bytes, void **out)
{
    CM_TRY(d->api->alloc(cx, d->device, bytes, out));
    d->memory[d->n++] = *out;
    return CM_OK;
}

static cm_status give_input(cm_ctx *cx, cm_bench_device *d, cm_context *c, int i,
                            const cm_datum *from)
{
    size_t bytes;
    cm_tensor t = from->tensor;
    if (from->kind != CM_TENSOR || t.dtype == CM_STR || !cm_tensor_bytes(&t, &bytes) || !bytes)
        return CM_OK; /* not for a device */
    CM_TRY(take(cx, d, bytes, &t.data));
    CM_TRY(d->api->upload(cx, d->stream, t.data, from->tensor.data, bytes));
    CM_TRY(d->api->wait(cx, d->stream));
    return cm_context_set_device_input(cx, c, i, &t);
}

static cm_status give_output(cm_ctx *cx, cm_bench_device *d, cm_context *c, int i)
{
    cm_tensor t = {.dtype = cm_engine_output_type(cm_context_engine(c), i)->dtype};
    int64_t dims[CM_MAX_RANK];
    size_t bytes;
    void *data;
    if (!cm_context_output_shape(c, i, &t.rank, dims) || t.dtype == CM_STR ||
        !cm_tensor_shape(&t, t.dtype, t.rank, dims) || !cm_tensor_bytes(&t, &bytes))
        return CM_OK;
    CM_TRY(take(cx, d, bytes, &data));
    return cm_context_set_device_output(cx, c, i, data, bytes);
}

cm_status cm_bench_device_open(cm_ctx *cx, cm_context *c, const cm_inputs *in, const cm_target *t,
                               cm_bench_device **out)
{
    int n_out = cm_engine_n_outputs(cm_context_engine(c));
    cm_bench_device *d;
    CM_NEW(cx, cx->arena, d, cm_bench_device);
    CM_NEW_N(cx, cx->arena, d->memory, in->n + n_out, void *);
    d->api = cm_backend_for(t->kind)->api;
    CM_TRY(d->api->open(cx, t, &d->device));
    *out = d;
    CM_TRY(d->api->stream_open(cx, d->device, NULL, &d->stream));
    for (int i = 0; i < in->n; i++)
        CM_TRY(give_input(cx, d, c, i, &in->datum[i]));
    CM_TRY(cm_context_bind(cx, c));
    for (int i = 0; i < n_out; i++)
        CM_TRY(give_output(cx, d, c, i));
    return CM_OK;
}

void cm_bench_device_close(cm_bench_device *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++)
        d->api->release(d->device, d->memory[i]);
    d->api->stream_close(d->stream);
    d->api->close(d->device);
}
