/* table.c -- small tables of numbers that kernels read, in the memory of a device.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cuda/device.h"

struct cm_table {
    cm_table *next;
    size_t bytes;
    void *there; /* NULL: a class without a device */
    unsigned char here[];
};

static const cm_table *find(const cm_device *d, const void *data, size_t bytes)
{
    const cm_table *t = d->tables;
    while (t && (t->bytes != bytes || memcmp(t->here, data, bytes) != 0))
        t = t->next;
    return t;
}

static cm_status upload(cm_ctx *cx, cm_device *d, cm_table *t)
{
    cm_stream *s;
    CM_TRY(cm_cuda_api.alloc(cx, d, t->bytes, &t->there));
    cm_status st = cm_cuda_api.stream_open(cx, d, NULL, &s);
    if (st == CM_OK) {
        st = cm_cuda_api.upload(cx, s, t->there, t->here, t->bytes);
        st = st == CM_OK ? cm_cuda_api.wait(cx, s) : st;
        cm_cuda_api.stream_close(s);
    }
    if (st != CM_OK)
        cm_cuda_api.release(d, t->there);
    return st;
}

/* With the lock. */
static cm_status add(cm_ctx *cx, cm_device *d, const void *data, size_t bytes)
{
    cm_table *t = cm_alloc(NULL, sizeof *t + bytes, 16);
    if (!t)
        return cm_fail_memory(cx);
    *t = (cm_table){.next = d->tables, .bytes = bytes};
    memcpy(t->here, data, bytes);
    cm_status st = d->cu ? upload(cx, d, t) : CM_OK;
    if (st == CM_OK)
        d->tables = t;
    else
        cm_release(NULL, t, sizeof *t + bytes);
    return st;
}

cm_status cm_gpu_table(cm_ctx *cx, cm_device *d, const void *data, size_t bytes, const void **out)
{
    cm_status st = CM_OK;
    pthread_mutex_lock(&d->lock);
    const cm_table *t = find(d, data, bytes);
    if (!t)
        st = add(cx, d, data, bytes);
    *out = st != CM_OK ? NULL : t ? t->there : d->tables->there;
    pthread_mutex_unlock(&d->lock);
    return st;
}

void cm_tables_release(cm_device *d)
{
    while (d->tables) {
        cm_table *t = d->tables;
        d->tables = t->next;
        if (d->cu)
            cm_cuda_api.release(d, t->there);
        cm_release(NULL, t, sizeof *t + t->bytes);
    }
}
