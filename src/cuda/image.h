/* image.h -- compiled kernels by what they were made of: one table per process, shared by its devices.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_IMAGE_H
#define CM_CUDA_IMAGE_H

#include "base/buf.h"
#include "cuda/gpu.h"

/* A hash of a kernel's text, headers and compiler options. */
typedef struct cm_image_key {
    uint64_t v[2];
} cm_image_key;

/* Made by a compiler or taken from a plan; never changes and stays until the process ends. */
typedef struct cm_image {
    cm_image_key key;
    size_t n;
    const unsigned char *data;
} cm_image;

/* NULL: there is none yet. */
const cm_image *cm_image_find(const cm_image_key *key);
/* Copies the bytes; an image of that key that is there already is kept. NULL: out of memory. */
const cm_image *cm_image_add(const cm_image_key *key, const void *data, size_t n);

/* A 64-bit ELF file for a GPU? Anything else the driver need not see. */
bool cm_is_image(const void *data, size_t n);

/* image_files.c: in the folder that CAMEO_KERNEL_CACHE names, where it does. NULL: not there. */
const cm_image *cm_image_read(const cm_image_key *key);
void cm_image_write(const cm_image *image);

/* As a plan keeps them: a count, then key, size and bytes of each, sizes checked when they are taken. */
void cm_images_begin(cm_buf *out, uint32_t n);
void cm_images_put(cm_buf *out, const cm_image *image);
/* How many were taken; rubbish after them is ignored. */
int cm_images_take(const void *bytes, size_t n);

/* nvrtc.c: the key of a text for a target, and its image, compiled. */
cm_status cm_kernel_key(cm_ctx *cx, const cm_kernel_text *t, int level,
                        cm_image_key *out) CM_MUST_USE;
cm_status cm_kernel_compile(cm_ctx *cx, const cm_kernel_text *t, int level, const cm_image_key *key,
                            const cm_image **out) CM_MUST_USE;

#endif
