/* image_jpeg.c -- JPEG through libjpeg: the accurate integer IDCT and smooth chroma upsampling.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "ops/vision/image.h"

enum { SCANS_MAX = 500 }; /* a progressive file of endless scans is an attack */

typedef struct {
    struct jpeg_error_mgr base;
    jmp_buf escape;
    bool truncated;
    char text[JMSG_LENGTH_MAX];
} error_manager;

static void on_error(j_common_ptr c)
{
    error_manager *m = (error_manager *)c->err;
    c->err->format_message(c, m->text);
    longjmp(m->escape, 1);
}

static void on_message(j_common_ptr c, int level)
{
    error_manager *m = (error_manager *)c->err;
    if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF)
        m->truncated = true;
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

static void on_progress(j_common_ptr c)
{
    j_decompress_ptr d = (j_decompress_ptr)c;
    if (d->input_scan_number > SCANS_MAX) {
        error_manager *m = (error_manager *)c->err;
        snprintf(m->text, sizeof m->text, "more than %d scans", SCANS_MAX);
        longjmp(m->escape, 1);
    }
}

/* CMYK as Adobe writes it, inverted; and as others do. */
static void put_cmyk(const uint8_t *row, int64_t width, bool inverted, uint8_t *out)
{
    for (int64_t x = 0; x < width; x++, row += 4, out += 3)
        for (int c = 0; c < 3; c++) {
            const unsigned ink = inverted ? row[c] : 255u - row[c];
            const unsigned key = inverted ? row[3] : 255u - row[3];
            out[c] = (uint8_t)((ink * key + 127) / 255);
        }
}

static cm_status read_rows(cm_ctx *cx, cm_arena *arena, j_decompress_ptr d, cm_image *out)
{
    const bool cmyk = d->out_color_space == JCS_CMYK;
    uint8_t *line = cmyk ? cm_arena_alloc_n(arena, d->output_width, 4, 16, 1) : NULL;
    if (cmyk && !line)
        return cm_fail_memory(cx);
    while (d->output_scanline < d->output_height) {
        uint8_t *to =
            out->pixels + (size_t)d->output_scanline * d->output_width * (size_t)out->channels;
        JSAMPROW rows[1] = {cmyk ? line : to};
        if (jpeg_read_scanlines(d, rows, 1) != 1)
            return cm_fail(cx, CM_ERR_DATA, "JPEG: the pixels are cut short");
        if (cmyk)
            put_cmyk(line, d->output_width, d->saw_Adobe_marker, to);
    }
    return CM_OK;
}

static cm_status decode(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, j_decompress_ptr d,
                        cm_image *out)
{
    struct jpeg_progress_mgr progress = {.progress_monitor = on_progress};
    jpeg_mem_src(d, (unsigned char *)(uintptr_t)p, (unsigned long)n);
    jpeg_read_header(d, TRUE);
    d->progress = &progress;
    d->dct_method = JDCT_ISLOW;
    d->do_fancy_upsampling = TRUE;
    const bool four = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
    const bool grey = d->jpeg_color_space == JCS_GRAYSCALE;
    d->out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    CM_TRY(cm_image_alloc(cx, arena, d->image_width, d->image_height, grey ? 1 : 3, out));
    jpeg_start_decompress(d);
    if (d->output_width != d->image_width || d->output_height != d->image_height)
        return cm_fail(cx, CM_ERR_DATA, "JPEG: the size changed");
    CM_TRY(read_rows(cx, arena, d, out));
    jpeg_finish_decompress(d);
    return CM_OK;
}

cm_status cm_image_jpeg(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    struct jpeg_decompress_struct d;
    error_manager m;
    memset(&d, 0, sizeof d);
    memset(&m, 0, sizeof m);
    d.err = jpeg_std_error(&m.base);
    m.base.error_exit = on_error;
    m.base.emit_message = on_message;
    m.base.output_message = on_output;
    cm_status st;
    if (setjmp(m.escape)) {
        st = cm_fail(cx, CM_ERR_DATA, "JPEG: %s", m.text);
    } else {
        jpeg_create_decompress(&d);
        st = decode(cx, arena, p, n, &d, out);
        if (st == CM_OK && m.truncated)
            st = cm_fail(cx, CM_ERR_DATA, "JPEG: the file is cut short");
    }
    jpeg_destroy_decompress(&d);
    return st;
}
