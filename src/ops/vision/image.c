/* image.c -- ImageDecoder: an image file to a tensor of pixels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/vision/image.h"

#include <string.h>

#include "ops/eval.h"

typedef struct {
    uint64_t present;
    cm_str pixel_format;
} image_attr;
CM_ATTRS(image_decoder, image_attr, CM_ATTR_STR(image_attr, pixel_format, "RGB"))

typedef enum { RGB, BGR, GREY, BAD_FORMAT } pixel_format;

static pixel_format format_of(cm_str s)
{
    static const char *const names[] = {"RGB", "BGR", "Grayscale"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(s, cm_str_of(names[i])))
            return (pixel_format)i;
    return BAD_FORMAT;
}

/* What a file begins with. */
static const struct {
    const char *magic;
    size_t n, at;
    cm_image_fn decode;
} formats[] = {
    {"\xFF\xD8\xFF", 3, 0, cm_image_jpeg},
    {"\x89PNG\r\n\x1A\n", 8, 0, cm_image_png},
    {"BM", 2, 0, cm_image_bmp},
    {"P1", 2, 0, cm_image_pnm},
    {"P2", 2, 0, cm_image_pnm},
    {"P3", 2, 0, cm_image_pnm},
    {"P4", 2, 0, cm_image_pnm},
    {"P5", 2, 0, cm_image_pnm},
    {"P6", 2, 0, cm_image_pnm},
    {"WEBP", 4, 8, cm_image_webp},
    {"II*\0", 4, 0, cm_image_tiff},
    {"MM\0*", 4, 0, cm_image_tiff},
    {"II+\0", 4, 0, cm_image_tiff},
    {"MM\0+", 4, 0, cm_image_tiff},
    {"\0\0\0\x0CjP  ", 8, 0, cm_image_jp2},
    {"\xFF\x4F\xFF\x51", 4, 0, cm_image_jp2},
};

cm_status cm_image_alloc(cm_ctx *cx, cm_arena *arena, int64_t width, int64_t height, int channels,
                         cm_image *out)
{
    enum { MOST = 1 << 27 };
    if (width <= 0 || height <= 0 || width > MOST || height > MOST / width)
        return cm_fail(cx, CM_ERR_DATA, "an image of %lld x %lld pixels", (long long)width,
                       (long long)height);
    uint8_t *p = cm_arena_alloc_n(arena, (size_t)(width * height), (size_t)channels, 64, 1);
    if (!p)
        return cm_fail_memory(cx);
    *out = (cm_image){width, height, channels, p};
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const image_attr *a = f->attr;
    const pixel_format format = format_of(a->pixel_format);
    if (format == BAD_FORMAT)
        return cm_fail(f->cx, CM_ERR_MODEL, "pixel_format is none of RGB, BGR, Grayscale");
    if (cm_infer_ranked(f, 0) && cm_infer_rank(f, 0) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "encoded stream of rank %d, wanted 1",
                       cm_infer_rank(f, 0));
    if (!f->dims) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[3] = {cm_infer_fresh(f, "height"), cm_infer_fresh(f, "width"),
                      format == GREY ? 1 : 3};
    return cm_infer_tensor(f, 0, 3, dims);
}

static void put_pixels(const cm_image *image, pixel_format format, uint8_t *out)
{
    const int64_t n = image->width * image->height;
    const uint8_t *p = image->pixels;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t r = *p, g = image->channels == 3 ? p[1] : r,
                      b = image->channels == 3 ? p[2] : r;
        p += image->channels;
        if (format == GREY) { /* ITU-R 601 luma in 16-bit fixed point */
            *out++ = (uint8_t)((r * 19595u + g * 38470u + b * 7471u + 0x8000u) >> 16);
            continue;
        }
        *out++ = format == RGB ? r : b;
        *out++ = g;
        *out++ = format == RGB ? b : r;
    }
}

static cm_status decode(cm_eval *e, const uint8_t *p, size_t n, cm_image *out)
{
    for (int i = 0; i < CM_COUNT(formats); i++)
        if (n >= formats[i].at + formats[i].n &&
            memcmp(p + formats[i].at, formats[i].magic, formats[i].n) == 0)
            return formats[i].decode(e->cx, e->cx->scratch, p, n, out);
    return cm_fail(e->cx, CM_ERR_DATA, "no known image format");
}

static cm_status eval(cm_eval *e)
{
    const image_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const pixel_format format = format_of(a->pixel_format);
    cm_image image = {0};
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    cm_status st = decode(e, in->data, (size_t)cm_tensor_elems(in), &image);
    if (st == CM_ERR_DATA) {
        /* What cannot be decoded gives an empty matrix; somebody should know why. */
        cm_log(e->cx, CM_LOG_WARNING, "ImageDecoder: the image cannot be decoded: %s",
               e->cx->message);
        e->cx->message[0] = '\0';
        image = (cm_image){0};
    } else if (st != CM_OK) {
        return st;
    }
    const int64_t dims[3] = {image.height, image.width, format == GREY ? 1 : 3};
    CM_TRY(cm_eval_alloc(e, 0, CM_U8, 3, dims));
    put_pixels(&image, format, cm_eval_out(e, 0)->data);
    return CM_OK;
}

const cm_family cm_family_image = {.name = "image", .infer = infer, .eval = eval};
