/* copy.c -- strided copies on the device: layouts brought into one another at the speed of its memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Axes are put in the order in which the destination lies in memory and merged where both sides allow; where both then
 * run along the same axis, words as wide as sizes and addresses permit are moved, else tiles are transposed. */
#include <stdio.h>
#include <string.h>

#include "cuda/device.h"

enum { MOST_AXES = 8, THREADS = 256 };

/* As in kernels/copy.cu. */
typedef struct {
    int rank, along_from, along_to;
    uint64_t total;
    int64_t dims[MOST_AXES], from[MOST_AXES], to[MOST_AXES];
} copy_shape;

typedef struct {
    int64_t n, from, to;
} axis;

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/* Axes of more than one element, the destination's largest stride first. */
static int sort_axes(int rank, const int64_t *dims, const int64_t *from, const int64_t *to, axis *a)
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1)
            continue;
        axis x = {dims[i], from[i], to[i]};
        int at = n++;
        for (; at > 0 && magnitude(a[at - 1].to) < magnitude(x.to); at--)
            a[at] = a[at - 1];
        a[at] = x;
    }
    return n;
}

static int merge_axes(axis *a, int n)
{
    int kept = 0;
    for (int i = 1; i < n; i++) {
        if (a[kept].from == a[i].from * a[i].n && a[kept].to == a[i].to * a[i].n)
            a[kept] = (axis){a[kept].n * a[i].n, a[i].from, a[i].to};
        else
            a[++kept] = a[i];
    }
    return n ? kept + 1 : 0;
}

/* Words of 2, 4 ... elements along the last axis, as wide as everything is a multiple of. */
static size_t widen(axis *a, int n, size_t bytes, const void *from, const void *to)
{
    axis *last = &a[n - 1];
    while (bytes < 16 && last->from == 1 && last->to == 1 && last->n % 2 == 0) {
        uintptr_t either = (uintptr_t)from | (uintptr_t)to;
        bool even = either % (2 * bytes) == 0;
        for (int i = 0; i + 1 < n; i++)
            even = even && a[i].from % 2 == 0 && a[i].to % 2 == 0;
        if (!even)
            break;
        for (int i = 0; i + 1 < n; i++) {
            a[i].from /= 2;
            a[i].to /= 2;
        }
        last->n /= 2;
        bytes *= 2;
    }
    return bytes;
}

/* Tiles pay where both sides have an axis of stride 1, not the same one, and neither is short. */
static bool find_tiles(const axis *a, int n, int64_t tile, copy_shape *s, uint64_t *blocks)
{
    s->along_from = -1;
    s->along_to = n - 1;
    for (int i = 0; i + 1 < n; i++)
        if (a[i].from == 1)
            s->along_from = i;
    if (s->along_from < 0 || a[n - 1].to != 1 || a[n - 1].from == 1 || a[n - 1].n < 8 ||
        a[s->along_from].n < 8)
        return false;
    *blocks = 1;
    for (int i = 0; i < n; i++) {
        bool tiled = i == s->along_from || i == s->along_to;
        *blocks *= (uint64_t)(tiled ? (a[i].n + tile - 1) / tile : a[i].n);
    }
    return *blocks <= INT32_MAX;
}

static int width_index(size_t bytes)
{
    int i = 0;
    while ((size_t)1 << i < bytes)
        i++;
    return i;
}

cm_status cm_cuda_copy_ready(cm_ctx *cx, cm_device *d, size_t elem_bytes)
{
    static const char *const kinds[2] = {"copy", "transpose"};
    for (int w = width_index(elem_bytes); w < CM_COPY_WIDTHS; w++) {
        for (int k = 0; k < 2; k++) {
            char entry[32];
            const cm_kernel *kernel;
            snprintf(entry, sizeof entry, "%s_%d", kinds[k], 1 << w);
            CM_TRY(cm_gpu_kernel(cx, d, &(cm_kernel_text){.file = "copy", .entry = entry}, 0,
                                 &kernel));
            atomic_store(&d->copies[k][w], kernel);
        }
    }
    return CM_OK;
}

cm_status cm_cuda_copy(cm_ctx *cx, cm_stream *s, size_t elem_bytes, int rank, const int64_t *dims,
                       const void *from, const int64_t *from_strides, void *to,
                       const int64_t *to_strides)
{
    axis a[CM_MAX_RANK + 1] = {{1, 1, 1}};
    copy_shape shape = {.total = 1};
    uint64_t blocks;
    int n = merge_axes(a, sort_axes(rank, dims, from_strides, to_strides, a));
    if (!n) {
        a[0] = (axis){1, 1, 1};
        n = 1;
    }
    if (n > MOST_AXES)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "a copy on the GPU along %d axes, %d are possible",
                       n, MOST_AXES);
    size_t bytes = widen(a, n, elem_bytes, from, to);
    bool tiles = find_tiles(a, n, bytes <= 2 ? 64 : 32, &shape, &blocks);
    shape.rank = n;
    for (int i = 0; i < n; i++) {
        shape.dims[i] = a[i].n;
        shape.from[i] = a[i].from;
        shape.to[i] = a[i].to;
        shape.total *= (uint64_t)a[i].n;
    }
    if (shape.total == 0)
        return CM_OK;
    if (!tiles) {
        const uint64_t most = 1 << 20;
        blocks = (shape.total + THREADS - 1) / THREADS;
        blocks = blocks < most ? blocks : most;
    }
    const cm_kernel *k = atomic_load(&s->d->copies[tiles][width_index(bytes)]);
    if (!k)
        return cm_fail(cx, CM_ERR_INTERNAL, "copies of %zu bytes were not made ready", elem_bytes);
    cm_grid g = {.blocks = {(unsigned)blocks}, .threads = {tiles ? 32 : THREADS, tiles ? 8 : 1}};
    void *args[] = {&shape, (void *)&from, &to};
    return cm_gpu_launch(&(cm_run){.cx = cx, .stream = s}, k, &g, args);
}

double cm_cuda_copy_ns(const cm_target *t, size_t bytes)
{
    cm_gpu_facts f;
    cm_gpu_facts_of(t, &f);
    return f.launch_ns + 2 * (double)bytes / (0.7 * f.read_gbs);
}
