/* kernel_sources.h -- the text of kernels/, put into the library by tools/embed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_KERNEL_SOURCES_H
#define CM_CUDA_KERNEL_SOURCES_H

#include <stddef.h>

typedef struct cm_kernel_source {
    const char *name; /* "copy.cu", "common.cuh" */
    const char *text;
} cm_kernel_source;

/* Sorted by name; the last has none. They are brought to light by the first who asks, and stay. NULL: out of memory, which
 * asking again does not mend. */
const cm_kernel_source *cm_kernel_sources(void);

/* What tools/embed makes: names, the last NULL, and their texts as one stream of gzip, a zero byte behind each. */
extern const char *const cm_kernel_names[];
extern const unsigned char cm_kernel_deflated[];
extern const size_t cm_kernel_deflated_bytes, cm_kernel_text_bytes;

#endif
