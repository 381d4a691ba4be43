/* image_png.c -- PNG through libpng: any depth and colour type to 8-bit grey or RGB, alpha dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "ops/vision/image.h"

typedef struct {
    const uint8_t *p;
    size_t left;
    char text[128];
} source;

static void on_error(png_structp png, png_const_charp text)
{
    source *s = png_get_error_ptr(png);
    snprintf(s->text, sizeof s->text, "%s", text);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep out, png_size_t n)
{
    source *s = png_get_io_ptr(png);
    if (n > s->left)
        png_error(png, "the file is cut short");
    memcpy(out, s->p, n);
    s->p += n;
    s->left -= n;
}

/* Rows into out; errors leave by longjmp. */
static cm_status read_rows(cm_ctx *cx, cm_arena *arena, png_structp png, png_infop info,
                           cm_image *out)
{
    png_set_user_limits(png, 1 << 20, 1 << 20);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const int channels = png_get_channels(png, info);
    if (channels != 1 && channels != 3)
        return cm_fail(cx, CM_ERR_DATA, "PNG: %d channels", channels);
    CM_TRY(cm_image_alloc(cx, arena, png_get_image_width(png, info),
                          png_get_image_height(png, info), channels, out));
    const size_t stride = (size_t)out->width * (size_t)channels;
    if (png_get_rowbytes(png, info) != stride)
        return cm_fail(cx, CM_ERR_DATA, "PNG: rows of %zu bytes, wanted %zu",
                       (size_t)png_get_rowbytes(png, info), stride);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < out->height; y++)
            png_read_row(png, out->pixels + (size_t)y * stride, NULL);
    png_read_end(png, NULL);
    return CM_OK;
}

cm_status cm_image_png(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    source s = {.p = p, .left = n};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
    png_infop volatile info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return cm_fail_memory(cx);
    }
    cm_status st;
    if (setjmp(png_jmpbuf(png))) {
        st = cm_fail(cx, CM_ERR_DATA, "PNG: %s", s.text);
    } else {
        png_set_read_fn(png, &s, on_read);
        st = read_rows(cx, arena, png, info, out);
    }
    png_infop gone = info;
    png_destroy_read_struct(&png, &gone, NULL);
    return st;
}
