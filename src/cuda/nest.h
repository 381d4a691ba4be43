/* nest.h -- what the tactics of loop nests share: axes as kernels divide by them, element types as CUDA C, grids.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_NEST_H
#define CM_CUDA_NEST_H

#include "cuda/gpu.h"

enum {
    CM_GPU_THREADS = 256,    /* of a block of a kernel that only streams */
    CM_GPU_ARG_BYTES = 4000, /* that a kernel can be given by value, with some to spare */
};

/* Kernels find places by dividing: a product and a shift while numbers are below 2^31 (kernels/nest.cuh). */
typedef struct cm_gpu_axis {
    uint64_t size;
    uint32_t magic, shift;
} cm_gpu_axis;
cm_gpu_axis cm_gpu_axis_of(int64_t size); /* 0 counts as 1 */

/* Beyond this, indices need 64 bits. */
static inline bool cm_gpu_is_wide(int64_t elems)
{
    return elems >= INT64_C(1) << 31;
}

bool cm_gpu_is_float(cm_dtype t);  /* f64, f32, f16, bf16, those of 8 bits */
bool cm_gpu_is_narrow(cm_dtype t); /* float32 holds every number of it */
/* The element type in kernels/elements.cuh, NULL: none. */
const char *cm_gpu_element(cm_dtype t);
/* That of a plain word of so many bytes: 1, 2, 4, 8, 16. */
const char *cm_gpu_word(size_t bytes);

/* Blocks of CM_GPU_THREADS for n items, one each, no more than keep the device busy: kernels stride. */
unsigned cm_gpu_blocks(const cm_target *t, int64_t n);

/* Nanoseconds to stream that many bytes, the launch included. */
double cm_gpu_stream_ns(const cm_target *t, double bytes);

#endif
