/* gpu.h -- one GPU in use, as the tactics of this room see it: what it can do, its kernels, launches.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_GPU_H
#define CM_CUDA_GPU_H

#include "base/buf.h"
#include "plan/backend.h"

/* For costs and for choosing tiles. From the device where there is one, else typical of the class. */
typedef struct cm_gpu_facts {
    int sm; /* 75, 80, 86, 90, 100 ... */
    int multiprocessors;
    int shared_bytes; /* that one block may ask for */
    int64_t l2_bytes;
    double read_gbs;                         /* device memory, bytes read and written per ns */
    double half_tflops, tf32_tflops, tflops; /* dense matrix rates; float32 FMA */
    double launch_ns;                        /* between two small kernels of a graph */
} cm_gpu_facts;
void cm_gpu_facts_of(const cm_target *t, cm_gpu_facts *out);
/* cm_tactic.apart_ns of those whose kernels are another library's: they do not begin before what stands before them has ended. */
double cm_gpu_apart_ns(const cm_problem *p);

/* CUDA C text with everything it is specialised by. Equal ones are compiled once per process and device;
 * the images are kept in plans by a hash of text, target and compiler options. */
typedef struct cm_kernel_text {
    const char *file;    /* in kernels/, without ".cu" */
    const char *defines; /* lines put before it: "#define TILE_M 128\n", generated functions too */
    const char *entry;   /* an extern "C" __global__ function */
    bool needs_a;        /* compiled for sm_90a (wgmma, setmaxnreg), not plain sm_90 */
    const char *text;    /* not NULL: this instead of a file, alone; `file` only names it then */
} cm_kernel_text;
typedef struct cm_kernel cm_kernel;
/* Compiled (or found in the plan) and loaded; lives as long as the device. Without NVRTC and without an image it
 * fails with a sentence. Safe to call from several threads. `shared`: dynamic bytes a launch will ask for. */
cm_status cm_gpu_kernel(cm_ctx *cx, cm_device *d, const cm_kernel_text *t, size_t shared,
                        const cm_kernel **out) CM_MUST_USE;
/* The same with the definitions that were put together, which are released. */
cm_status cm_gpu_kernel_with(cm_ctx *cx, cm_device *d, cm_buf *defines, cm_kernel_text t,
                             size_t shared, const cm_kernel **out) CM_MUST_USE;

/* A table of a problem's sizes in the device's memory, for `ready`: equal ones are there once, as long as the
 * device. A class without a device: NULL. */
cm_status cm_gpu_table(cm_ctx *cx, cm_device *d, const void *data, size_t bytes,
                       const void **out) CM_MUST_USE;

typedef struct cm_grid {
    unsigned blocks[3], threads[3]; /* 0 counts as 1 */
    unsigned cluster;               /* blocks of x in a cluster, 0 or 1: none */
    size_t shared;                  /* dynamic bytes */
    bool overlaps; /* calls cudaGridDependencySynchronize: may begin before its predecessor ends */
    bool
        together; /* all blocks are there at once, and may wait for each other: no more than the device has room for */
} cm_grid;
/* Enqueues on r->stream. args[i] points at argument i, as the driver wants them. */
cm_status cm_gpu_launch(const cm_run *r, const cm_kernel *k, const cm_grid *g,
                        void *const *args) CM_MUST_USE;
/* Zeroes (any byte value) device memory, in order with the launches. */
cm_status cm_gpu_fill(const cm_run *r, void *to, unsigned char value, size_t bytes) CM_MUST_USE;

/* A tensor map for the bulk copy engine (128 bytes, sm_90 on), to be passed by value as a
 * __grid_constant__ argument: `rank` 1..5, dims and box innermost first, strides in bytes of dims 1.. on. */
typedef struct cm_tensor_map {
    _Alignas(64) unsigned char bytes[128];
} cm_tensor_map;
cm_status cm_gpu_tensor_map(cm_ctx *cx, const cm_run *r, cm_dtype dtype, int rank, const void *base,
                            const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                            int swizzle_bytes, cm_tensor_map *out) CM_MUST_USE;

/* For copies that walk over images, from window to window: dims are channels, width, height, images; lines of 128
 * bytes, swizzled. */
typedef struct cm_image_map {
    uint64_t dims[4], strides[3]; /* strides in bytes */
    int low[2],
        high[2]; /* width, height: where the first window begins; the last, from the last pixel on */
    uint32_t channels, pixels; /* of a copy */
    uint32_t steps[4];         /* from window to window */
} cm_image_map;
cm_status cm_gpu_image_map(cm_ctx *cx, const cm_run *r, cm_dtype dtype, const void *base,
                           const cm_image_map *m, cm_tensor_map *out) CM_MUST_USE;

#endif
