/* kernel_sources.h -- the text of kernels/, put into the library by tools/embed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_KERNEL_SOURCES_H
#define CM_CUDA_KERNEL_SOURCES_H

typedef struct cm_kernel_source {
    const char *name; /* "copy.cu", "common.cuh" */
    const char *text;
} cm_kernel_source;

extern const cm_kernel_source cm_kernel_sources[]; /* sorted by name; the last has none */

#endif
