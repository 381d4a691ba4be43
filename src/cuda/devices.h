/* devices.h -- the NVIDIA GPUs that a driver shows, found at run time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_DEVICES_H
#define CM_CUDA_DEVICES_H

#include <stdint.h>

enum { CM_GPU_MAX = 64 };

typedef struct cm_gpu {
    char name[128];
    int major, minor; /* compute capability */
    int sms;
    int64_t memory_bytes;
    int core_mhz, memory_mhz;
    int driver; /* CUDA version of the driver: 12040 for 12.4 */
} cm_gpu;

typedef struct cm_gpu_list {
    int n;
    cm_gpu gpu[CM_GPU_MAX];
    char why_none[256]; /* a sentence when n is 0 */
} cm_gpu_list;

/* Opens libcuda and asks. Never fails: no driver is an answer. */
void cm_gpu_list_probe(cm_gpu_list *out);

#endif
