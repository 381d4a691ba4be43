/* device.h -- a GPU in use, or a class of GPUs that is compiled for; for this room only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_DEVICE_H
#define CM_CUDA_DEVICE_H

#include <pthread.h>

#include "cuda/driver.h"
#include "cuda/gpu.h"
#include "cuda/image.h"

typedef struct cm_table cm_table;

enum { CM_COPY_WIDTHS = 5 }; /* words of 1, 2, 4, 8, 16 bytes */

struct cm_device {
    const cm_driver *cu; /* NULL: a class without a device */
    cm_target target;
    int device, refs;
    cm_cu_context context; /* the process's primary one */
    cm_gpu_facts facts;
    char name[128];
    pthread_mutex_t lock; /* guards the lists of kernels and tables and what is in them */
    pthread_cond_t made;  /* a kernel of the list was */
    cm_kernel *kernels;
    cm_table *tables;
    _Atomic(const cm_kernel *) copies[2][CM_COPY_WIDTHS]; /* plain, through tiles */
};

struct cm_stream {
    cm_device *d;
    cm_cu_stream cu;
    bool ours;
};

struct cm_kernel {
    cm_kernel *next;
    cm_image_key key;
    char entry[64];
    bool making;
    size_t shared; /* dynamic bytes that launches may ask for */
    cm_cu_module module;
    cm_cu_function function;
};

/* Between the two the device's context is this thread's; what was before comes back. */
cm_status cm_device_enter(cm_ctx *cx, const cm_device *d) CM_MUST_USE;
void cm_device_leave(const cm_device *d);

cm_status cm_device_open(cm_ctx *cx, const cm_target *t, cm_device **out) CM_MUST_USE;
void cm_device_close(cm_device *d);
void cm_kernels_release(cm_device *d); /* kernel_cache.c */
void cm_tables_release(cm_device *d);  /* table.c */
void cm_kernels_images(cm_device *d, cm_buf *out);

/* Figures of the class; a device's own go over them. */
void cm_gpu_class_facts(int level, cm_gpu_facts *out);
/* device.c: of a device that is open, else false. */
bool cm_device_facts(const cm_target *t, cm_gpu_facts *out);

/* copy.c */
cm_status cm_cuda_copy_ready(cm_ctx *cx, cm_device *d, size_t elem_bytes) CM_MUST_USE;
cm_status cm_cuda_copy(cm_ctx *cx, cm_stream *s, size_t elem_bytes, int rank, const int64_t *dims,
                       const void *from, const int64_t *from_strides, void *to,
                       const int64_t *to_strides) CM_MUST_USE;
double cm_cuda_copy_ns(const cm_target *t, size_t bytes);

/* stream.c, but for those of device.c and copy.c */
extern const cm_device_api cm_cuda_api;

#endif
