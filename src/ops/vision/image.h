/* image.h -- decoders of image files, for ImageDecoder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Files are untrusted. A decoder fails with CM_ERR_DATA when the file is damaged, and with
 * CM_ERR_UNSUPPORTED when it is sound but a library or a feature is missing. None prints. */
#ifndef CM_OPS_IMAGE_H
#define CM_OPS_IMAGE_H

#include "base/status.h"

/* 8 bits a sample, rows from the top, RGB or grey. */
typedef struct cm_image {
    int64_t width, height;
    int channels; /* 1 or 3 */
    uint8_t *pixels;
} cm_image;

typedef cm_status (*cm_image_fn)(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n,
                                 cm_image *out);
cm_status cm_image_bmp(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
cm_status cm_image_pnm(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
cm_status cm_image_jpeg(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
cm_status cm_image_png(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
/* Through libraries that are looked for at run time. */
cm_status cm_image_webp(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
cm_status cm_image_tiff(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);
cm_status cm_image_jp2(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out);

/* Memory for an image, when its size is sane: CM_ERR_DATA over 2^27 pixels or without any. */
cm_status cm_image_alloc(cm_ctx *cx, cm_arena *arena, int64_t width, int64_t height, int channels,
                         cm_image *out) CM_MUST_USE;

#endif
