/* image_raw.c -- BMP and the portable any-map formats (PBM, PGM, PPM).
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "ops/vision/image.h"

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

/* ---- BMP ---- */

enum { BI_RGB, BI_RLE8, BI_RLE4, BI_BITFIELDS, BI_ALPHABITFIELDS = 6 };

typedef struct {
    const uint8_t *bytes;
    size_t n;
    size_t at;       /* of the pixels */
    uint32_t header; /* bytes of the info header */
    uint32_t bits, compression;
    bool top_down;
    uint32_t mask[3];
    const uint8_t *palette;
    uint32_t n_palette, palette_step;
} bmp;

/* The field under `mask` of a pixel, scaled to 8 bits. */
static uint8_t field(uint32_t pixel, uint32_t mask)
{
    if (!mask)
        return 0;
    const uint32_t most = mask >> __builtin_ctz(mask), v = (pixel & mask) >> __builtin_ctz(mask);
    return (uint8_t)(((uint64_t)v * 255 + most / 2) / most);
}

static void put_palette(const bmp *b, uint32_t index, uint8_t *out)
{
    if (index >= b->n_palette) {
        memset(out, 0, 3);
        return;
    }
    const uint8_t *c = b->palette + (size_t)index * b->palette_step;
    out[0] = c[2];
    out[1] = c[1];
    out[2] = c[0];
}

static uint8_t *bmp_row(const bmp *b, const cm_image *im, int64_t y)
{
    return im->pixels + (b->top_down ? y : im->height - 1 - y) * im->width * 3;
}

static cm_status bmp_rows(cm_ctx *cx, const bmp *b, cm_image *im)
{
    const size_t stride = ((size_t)im->width * b->bits + 31) / 32 * 4;
    if (stride > (b->n - b->at) / (size_t)im->height)
        return cm_fail(cx, CM_ERR_DATA, "BMP: the pixels are cut short");
    for (int64_t y = 0; y < im->height; y++) {
        const uint8_t *src = b->bytes + b->at + (size_t)y * stride;
        uint8_t *out = bmp_row(b, im, y);
        for (int64_t x = 0; x < im->width; x++, out += 3) {
            if (b->bits <= 8) {
                const uint32_t per = 8 / b->bits, shift = 8 - b->bits * ((uint32_t)(x % per) + 1);
                put_palette(b, src[x / per] >> shift & ((1u << b->bits) - 1), out);
            } else if (b->bits == 24) {
                out[0] = src[x * 3 + 2];
                out[1] = src[x * 3 + 1];
                out[2] = src[x * 3];
            } else {
                const uint32_t v = b->bits == 16 ? get16(src + x * 2) : get32(src + x * 4);
                for (int c = 0; c < 3; c++)
                    out[c] = field(v, b->mask[c]);
            }
        }
    }
    return CM_OK;
}

static void put_run(const bmp *b, cm_image *im, int64_t *x, int64_t y, uint32_t index)
{
    if (*x < im->width && y < im->height)
        put_palette(b, index, bmp_row(b, im, y) + *x * 3);
    ++*x;
}

/* Runs of 8- or 4-bit indices; what they do not cover stays colour 0. */
static cm_status bmp_runs(cm_ctx *cx, const bmp *b, cm_image *im)
{
    const bool four = b->compression == BI_RLE4;
    const uint8_t *p = b->bytes + b->at, *end = b->bytes + b->n;
    int64_t x = 0, y = 0;
    for (int64_t i = 0; i < im->width * im->height; i++)
        put_palette(b, 0, im->pixels + i * 3);
    while (end - p >= 2 && y < im->height) {
        const uint8_t count = p[0], value = p[1];
        p += 2;
        if (count) {
            for (int i = 0; i < count; i++)
                put_run(b, im, &x, y, !four ? value : i & 1 ? value & 15 : value >> 4);
        } else if (value == 0) {
            x = 0;
            y++;
        } else if (value == 1) {
            return CM_OK;
        } else if (value == 2) {
            if (end - p < 2)
                break;
            x += p[0];
            y += p[1];
            p += 2;
        } else {
            const ptrdiff_t bytes = four ? (value + 1) / 2 : value;
            if (end - p < bytes)
                break;
            for (int i = 0; i < value; i++)
                put_run(b, im, &x, y, !four ? p[i] : i & 1 ? p[i / 2] & 15 : p[i / 2] >> 4);
            p += bytes + (bytes & 1);
            if (p > end)
                break;
        }
    }
    return y >= im->height ? CM_OK : cm_fail(cx, CM_ERR_DATA, "BMP: the runs are cut short");
}

static cm_status bmp_masks(cm_ctx *cx, bmp *b)
{
    const bool five = b->bits == 16;
    b->mask[0] = five ? 0x7C00 : 0xFF0000;
    b->mask[1] = five ? 0x03E0 : 0x00FF00;
    b->mask[2] = five ? 0x001F : 0x0000FF;
    if (b->compression != BI_BITFIELDS && b->compression != BI_ALPHABITFIELDS)
        return CM_OK;
    if (b->n < 14 + 40 + 12)
        return cm_fail(cx, CM_ERR_DATA, "BMP: no colour masks");
    for (int i = 0; i < 3; i++)
        b->mask[i] = get32(b->bytes + 14 + 40 + 4 * i);
    return CM_OK;
}

static cm_status bmp_palette(cm_ctx *cx, bmp *b, uint32_t stated)
{
    size_t at = 14 + (size_t)b->header;
    if (b->header == 40 && b->compression == BI_BITFIELDS)
        at += 12;
    b->palette_step = b->header == 12 ? 3 : 4;
    b->n_palette = stated ? stated : 1u << b->bits;
    if (b->n_palette > 256)
        b->n_palette = 256;
    if (at > b->n || (b->n - at) / b->palette_step < b->n_palette)
        return cm_fail(cx, CM_ERR_DATA, "BMP: the palette is cut short");
    b->palette = b->bytes + at;
    return CM_OK;
}

cm_status cm_image_bmp(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    if (n < 26)
        return cm_fail(cx, CM_ERR_DATA, "BMP: the header is cut short");
    bmp b = {.bytes = p, .n = n, .at = get32(p + 10), .header = get32(p + 14)};
    int64_t width, height;
    uint32_t colours = 0;
    if (b.header == 12) {
        width = get16(p + 18);
        height = get16(p + 20);
        b.bits = get16(p + 24);
    } else {
        if (b.header < 40 || n < 54)
            return cm_fail(cx, CM_ERR_DATA, "BMP: a header of %u bytes", (unsigned)b.header);
        width = (int32_t)get32(p + 18);
        height = (int32_t)get32(p + 22);
        b.bits = get16(p + 28);
        b.compression = get32(p + 30);
        colours = get32(p + 46);
    }
    b.top_down = height < 0;
    if (height < 0)
        height = -height;
    const bool runs =
        (b.compression == BI_RLE8 && b.bits == 8) || (b.compression == BI_RLE4 && b.bits == 4);
    const bool masks = (b.compression == BI_BITFIELDS || b.compression == BI_ALPHABITFIELDS) &&
                       (b.bits == 16 || b.bits == 32);
    if (b.compression != BI_RGB && !runs && !masks)
        return cm_fail(cx, CM_ERR_DATA, "BMP: compression %u with %u bits", (unsigned)b.compression,
                       (unsigned)b.bits);
    if (b.bits != 1 && b.bits != 2 && b.bits != 4 && b.bits != 8 && b.bits != 16 && b.bits != 24 &&
        b.bits != 32)
        return cm_fail(cx, CM_ERR_DATA, "BMP: %u bits a pixel", (unsigned)b.bits);
    if (b.at > n)
        return cm_fail(cx, CM_ERR_DATA, "BMP: the pixels are not in the file");
    if (!runs && (n - b.at) / 4 < (size_t)(height ? height - 1 : 0)) /* 4 bytes a row at least */
        return cm_fail(cx, CM_ERR_DATA, "BMP: the pixels are cut short");
    CM_TRY(bmp_masks(cx, &b));
    if (b.bits <= 8)
        CM_TRY(bmp_palette(cx, &b, colours));
    CM_TRY(cm_image_alloc(cx, arena, width, height, 3, out));
    return runs ? bmp_runs(cx, &b, out) : bmp_rows(cx, &b, out);
}

/* ---- PBM, PGM, PPM ---- */

typedef struct {
    const uint8_t *p, *end;
} text;

/* The next number: white space and comments skipped. */
static bool number(text *t, uint32_t *out)
{
    for (;;) {
        while (t->p < t->end && (*t->p == ' ' || (*t->p >= 9 && *t->p <= 13)))
            t->p++;
        if (t->p == t->end || *t->p != '#')
            break;
        while (t->p < t->end && *t->p != '\n' && *t->p != '\r')
            t->p++;
    }
    if (t->p == t->end || *t->p < '0' || *t->p > '9')
        return false;
    uint32_t v = 0;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
        if (v > 100000000)
            return false;
        v = v * 10 + (*t->p - '0');
    }
    *out = v;
    return true;
}

/* The next sample in text form: PBM's need no space between. */
static bool text_sample(text *t, bool bits, uint32_t *out)
{
    if (!bits)
        return number(t, out);
    while (t->p < t->end && *t->p != '0' && *t->p != '1')
        t->p++;
    if (t->p == t->end)
        return false;
    *out = *t->p++ - '0';
    return true;
}

static cm_status cut_short(cm_ctx *cx)
{
    return cm_fail(cx, CM_ERR_DATA, "PNM: the pixels are cut short");
}

static uint8_t scale(uint32_t v, uint32_t most)
{
    return v >= most ? 255 : (uint8_t)((v * 255 + most / 2) / most);
}

cm_status cm_image_pnm(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    const int kind = p[1] - '0'; /* 1..6: bits, grey, RGB in text; then the same in binary */
    const bool bits = kind == 1 || kind == 4, binary = kind >= 4;
    const int channels = kind == 3 || kind == 6 ? 3 : 1;
    text t = {p + 2, p + n};
    uint32_t width, height, most = 1;
    if (!number(&t, &width) || !number(&t, &height) || (!bits && !number(&t, &most)) || most < 1 ||
        most > 65535)
        return cm_fail(cx, CM_ERR_DATA, "PNM: the header is not one");
    if (binary && t.p < t.end)
        t.p++; /* one white space ends the header */
    const uint64_t samples = (uint64_t)width * height * (uint64_t)channels;
    const uint64_t row = ((uint64_t)width + 7) / 8, wide = most > 255 ? 2 : 1;
    const uint64_t left = (uint64_t)(t.end - t.p);
    if (binary ? (bits ? row * height : samples * wide) > left : samples / 2 > left)
        return cut_short(cx);
    CM_TRY(cm_image_alloc(cx, arena, width, height, channels, out));
    if (kind == 4) {
        for (uint64_t i = 0; i < samples; i++) {
            const uint64_t x = i % width, y = i / width;
            out->pixels[i] = t.p[y * row + x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
        }
        return CM_OK;
    }
    for (uint64_t i = 0; i < samples; i++) {
        uint32_t v;
        if (binary)
            v = wide == 2 ? (uint32_t)t.p[2 * i] << 8 | t.p[2 * i + 1] : t.p[i];
        else if (!text_sample(&t, bits, &v))
            return cut_short(cx);
        out->pixels[i] = bits ? (v ? 0 : 255) : scale(v, most);
    }
    return CM_OK;
}
