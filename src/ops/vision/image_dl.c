/* image_dl.c -- WebP, TIFF and JPEG 2000 through libraries that are looked for at run time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The few types and functions that are used are declared here, as the libraries' binary interfaces
 * fix them, so that building needs none of their headers. */
#include <dlfcn.h>
#include <string.h>
#include <sys/types.h>

#include "base/size.h"
#include "ops/vision/image.h"

/* The first of `names` that opens; a sentence when none does. */
static cm_status open_library(cm_ctx *cx, const char *format, const char *const *names, void **out)
{
    for (int i = 0; names[i]; i++) {
        *out = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (*out)
            return CM_OK;
    }
    return cm_fail(cx, CM_ERR_UNSUPPORTED, "%s images need %s, which is not installed", format,
                   names[0]);
}

static bool find(void *library, const char *name, void *pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static cm_status wrong_library(cm_ctx *cx, const char *name)
{
    return cm_fail(cx, CM_ERR_UNSUPPORTED, "%s lacks a function that is needed", name);
}

/* ---- WebP ---- */

cm_status cm_image_webp(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    static const char *const names[] = {"libwebp.so.7", "libwebp.so.6", "libwebp.so", NULL};
    int (*get_info)(const uint8_t *, size_t, int *, int *);
    uint8_t *(*decode_into)(const uint8_t *, size_t, uint8_t *, size_t, int);
    void *lib = NULL;
    int width = 0, height = 0;
    CM_TRY(open_library(cx, "WebP", names, &lib));
    cm_status st = CM_OK;
    if (!find(lib, "WebPGetInfo", &get_info) || !find(lib, "WebPDecodeRGBInto", &decode_into))
        st = wrong_library(cx, names[0]);
    else if (!get_info(p, n, &width, &height))
        st = cm_fail(cx, CM_ERR_DATA, "WebP: the header is not one");
    if (st == CM_OK)
        st = cm_image_alloc(cx, arena, width, height, 3, out);
    if (st == CM_OK &&
        !decode_into(p, n, out->pixels, (size_t)width * (size_t)height * 3, width * 3))
        st = cm_fail(cx, CM_ERR_DATA, "WebP: the file is damaged");
    dlclose(lib);
    return st;
}

/* ---- TIFF ---- */

typedef struct {
    const uint8_t *p;
    uint64_t n, at;
} memory_file;

static ssize_t tiff_read(void *handle, void *buf, ssize_t n)
{
    memory_file *f = handle;
    if (n < 0 || f->at >= f->n)
        return 0;
    const uint64_t left = f->n - f->at, take = (uint64_t)n < left ? (uint64_t)n : left;
    memcpy(buf, f->p + f->at, take);
    f->at += take;
    return (ssize_t)take;
}

static ssize_t tiff_write(void *handle, void *buf, ssize_t n)
{
    (void)handle, (void)buf, (void)n;
    return -1;
}

static uint64_t tiff_seek(void *handle, uint64_t offset, int whence)
{
    memory_file *f = handle;
    f->at = whence == 1 ? f->at + offset : whence == 2 ? f->n + offset : offset;
    return f->at;
}

static int tiff_close(void *handle)
{
    (void)handle;
    return 0;
}

static uint64_t tiff_size(void *handle)
{
    return ((memory_file *)handle)->n;
}

static int tiff_silent(void *tif, void *user, const char *module, const char *fmt, va_list args)
{
    (void)tif, (void)user, (void)module, (void)fmt, (void)args;
    return 1; /* handled: libtiff prints nothing */
}

typedef ssize_t (*tiff_rw)(void *, void *, ssize_t);
typedef uint64_t (*tiff_seek_fn)(void *, uint64_t, int);
typedef int (*tiff_close_fn)(void *);
typedef uint64_t (*tiff_size_fn)(void *);
typedef int (*tiff_handler)(void *, void *, const char *, const char *, va_list);

typedef struct {
    void *(*options_alloc)(void);
    void (*options_free)(void *);
    void (*set_error)(void *, tiff_handler, void *);
    void (*set_warning)(void *, tiff_handler, void *);
    void *(*open_ext)(const char *, const char *, void *, tiff_rw, tiff_rw, tiff_seek_fn,
                      tiff_close_fn, tiff_size_fn, void *map, void *unmap, void *options);
    void (*close)(void *);
    int (*get_field)(void *, uint32_t, ...);
    int (*read_rgba)(void *, uint32_t, uint32_t, uint32_t *, int orientation, int stop);
} tiff_library;

static bool tiff_symbols(void *lib, tiff_library *t)
{
    return find(lib, "TIFFOpenOptionsAlloc", &t->options_alloc) &&
           find(lib, "TIFFOpenOptionsFree", &t->options_free) &&
           find(lib, "TIFFOpenOptionsSetErrorHandlerExtR", &t->set_error) &&
           find(lib, "TIFFOpenOptionsSetWarningHandlerExtR", &t->set_warning) &&
           find(lib, "TIFFClientOpenExt", &t->open_ext) && find(lib, "TIFFClose", &t->close) &&
           find(lib, "TIFFGetField", &t->get_field) &&
           find(lib, "TIFFReadRGBAImageOriented", &t->read_rgba);
}

static cm_status tiff_pixels(cm_ctx *cx, cm_arena *arena, const tiff_library *t, void *tif,
                             cm_image *out)
{
    enum { WIDTH = 256, LENGTH = 257, TOP_LEFT = 1 };
    uint32_t width = 0, height = 0;
    if (!t->get_field(tif, WIDTH, &width) || !t->get_field(tif, LENGTH, &height))
        return cm_fail(cx, CM_ERR_DATA, "TIFF: the size is missing");
    CM_TRY(cm_image_alloc(cx, arena, width, height, 3, out));
    const size_t n = (size_t)width * height;
    uint32_t *raster = cm_arena_alloc_n(arena, n, sizeof *raster, 64, 1);
    if (!raster)
        return cm_fail_memory(cx);
    if (!t->read_rgba(tif, width, height, raster, TOP_LEFT, 1))
        return cm_fail(cx, CM_ERR_DATA, "TIFF: the file is damaged");
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            out->pixels[i * 3 + (size_t)c] = (uint8_t)(raster[i] >> (8 * c));
    return CM_OK;
}

cm_status cm_image_tiff(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    /* Options that keep messages from the terminal without changing them for others: 4.5 and on. */
    static const char *const names[] = {"libtiff.so.6", "libtiff.so", NULL};
    void *lib = NULL;
    tiff_library t;
    memory_file file = {p, n, 0};
    CM_TRY(open_library(cx, "TIFF", names, &lib));
    cm_status st = CM_OK;
    if (!tiff_symbols(lib, &t)) {
        st = wrong_library(cx, names[0]);
    } else {
        void *options = t.options_alloc();
        if (options) {
            t.set_error(options, tiff_silent, NULL);
            t.set_warning(options, tiff_silent, NULL);
        }
        void *tif = options ? t.open_ext("image", "rm", &file, tiff_read, tiff_write, tiff_seek,
                                         tiff_close, tiff_size, NULL, NULL, options)
                            : NULL;
        st = tif ? tiff_pixels(cx, arena, &t, tif, out)
                 : cm_fail(cx, CM_ERR_DATA, "TIFF: the header is not one");
        if (tif)
            t.close(tif);
        if (options)
            t.options_free(options);
    }
    dlclose(lib);
    return st;
}

/* ---- JPEG 2000 ---- */

typedef struct {
    uint32_t dx, dy, w, h, x0, y0, prec, bpp, sgnd, resno_decoded, factor;
    int32_t *data;
    uint16_t alpha;
} opj_component;

typedef struct {
    uint32_t x0, y0, x1, y1, n_comps;
    int32_t color_space; /* 1 sRGB, 2 grey, 3 YCC */
    opj_component *comps;
    uint8_t *icc;
    uint32_t n_icc;
} opj_picture;

typedef size_t (*opj_read_fn)(void *, size_t, void *);
typedef int64_t (*opj_skip_fn)(int64_t, void *);
typedef int (*opj_seek_fn)(int64_t, void *);
typedef void (*opj_message_fn)(const char *, void *);

typedef struct {
    void *(*stream_create)(size_t, int);
    void (*stream_destroy)(void *);
    void (*set_read)(void *, opj_read_fn);
    void (*set_skip)(void *, opj_skip_fn);
    void (*set_seek)(void *, opj_seek_fn);
    void (*set_user)(void *, void *, void (*)(void *));
    void (*set_length)(void *, uint64_t);
    void *(*create)(int);
    void (*destroy)(void *);
    void (*defaults)(void *);
    int (*setup)(void *, void *);
    int (*set_error)(void *, opj_message_fn, void *);
    int (*set_warning)(void *, opj_message_fn, void *);
    int (*set_info)(void *, opj_message_fn, void *);
    int (*read_header)(void *, void *, opj_picture **);
    int (*decode)(void *, void *, opj_picture *);
    void (*image_destroy)(opj_picture *);
} opj_library;

static bool opj_symbols(void *lib, opj_library *o)
{
    return find(lib, "opj_stream_create", &o->stream_create) &&
           find(lib, "opj_stream_destroy", &o->stream_destroy) &&
           find(lib, "opj_stream_set_read_function", &o->set_read) &&
           find(lib, "opj_stream_set_skip_function", &o->set_skip) &&
           find(lib, "opj_stream_set_seek_function", &o->set_seek) &&
           find(lib, "opj_stream_set_user_data", &o->set_user) &&
           find(lib, "opj_stream_set_user_data_length", &o->set_length) &&
           find(lib, "opj_create_decompress", &o->create) &&
           find(lib, "opj_destroy_codec", &o->destroy) &&
           find(lib, "opj_set_default_decoder_parameters", &o->defaults) &&
           find(lib, "opj_setup_decoder", &o->setup) &&
           find(lib, "opj_set_error_handler", &o->set_error) &&
           find(lib, "opj_set_warning_handler", &o->set_warning) &&
           find(lib, "opj_set_info_handler", &o->set_info) &&
           find(lib, "opj_read_header", &o->read_header) && find(lib, "opj_decode", &o->decode) &&
           find(lib, "opj_image_destroy", &o->image_destroy);
}

static size_t opj_read(void *buf, size_t n, void *user)
{
    memory_file *f = user;
    if (f->at >= f->n)
        return (size_t)-1;
    return (size_t)tiff_read(f, buf, n > (size_t)1 << 30 ? 1 << 30 : (ssize_t)n);
}

static int64_t opj_skip(int64_t n, void *user)
{
    memory_file *f = user;
    if (n < 0 || (uint64_t)n > f->n - f->at)
        return -1;
    f->at += (uint64_t)n;
    return n;
}

static int opj_seek(int64_t at, void *user)
{
    memory_file *f = user;
    if (at < 0 || (uint64_t)at > f->n)
        return 0;
    f->at = (uint64_t)at;
    return 1;
}

static void opj_silent(const char *text, void *user)
{
    (void)text, (void)user;
}

/* The 8-bit sample of component c at a pixel. */
static int sample(const opj_component *c, int64_t x, int64_t y)
{
    const int64_t sx = cm_min_i64(x / (c->dx ? c->dx : 1), (int64_t)c->w - 1);
    const int64_t sy = cm_min_i64(y / (c->dy ? c->dy : 1), (int64_t)c->h - 1);
    int64_t v = c->data[sy * c->w + sx];
    if (c->sgnd)
        v += (int64_t)1 << (c->prec - 1);
    if (c->prec > 8)
        v >>= c->prec - 8;
    else if (c->prec < 8)
        v = v * 255 / ((1 << c->prec) - 1);
    return (int)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t clamp(double v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5);
}

static cm_status opj_pixels(cm_ctx *cx, cm_arena *arena, const opj_picture *im, cm_image *out)
{
    const int channels = im->n_comps >= 3 ? 3 : 1;
    for (int c = 0; c < channels; c++)
        if (!im->comps[c].data || im->comps[c].prec < 1 || im->comps[c].prec > 31 ||
            im->comps[c].w < 1 || im->comps[c].h < 1)
            return cm_fail(cx, CM_ERR_DATA, "JPEG 2000: a component is missing");
    CM_TRY(cm_image_alloc(cx, arena, (int64_t)im->x1 - im->x0, (int64_t)im->y1 - im->y0, channels,
                          out));
    uint8_t *p = out->pixels;
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++, p += channels) {
            int v[3];
            for (int c = 0; c < channels; c++)
                v[c] = sample(&im->comps[c], x, y);
            for (int c = 0; c < channels; c++)
                p[c] = (uint8_t)v[c];
            if (channels == 3 && im->color_space == 3) {
                const double cb = v[1] - 128, cr = v[2] - 128;
                p[0] = clamp(v[0] + 1.402 * cr);
                p[1] = clamp(v[0] - 0.344136 * cb - 0.714136 * cr);
                p[2] = clamp(v[0] + 1.772 * cb);
            }
        }
    return CM_OK;
}

static cm_status opj_run(cm_ctx *cx, cm_arena *arena, const opj_library *o, void *codec,
                         void *stream, cm_image *out)
{
    opj_picture *im = NULL;
    void *parameters = cm_arena_alloc(arena, 32768); /* more than the library's struct takes */
    if (!parameters)
        return cm_fail_memory(cx);
    o->defaults(parameters);
    o->set_error(codec, opj_silent, NULL);
    o->set_warning(codec, opj_silent, NULL);
    o->set_info(codec, opj_silent, NULL);
    cm_status st = CM_OK;
    if (!o->setup(codec, parameters) || !o->read_header(stream, codec, &im) || !im)
        st = cm_fail(cx, CM_ERR_DATA, "JPEG 2000: the header is not one");
    else if (im->x1 <= im->x0 || im->y1 <= im->y0 || im->n_comps < 1 ||
             (uint64_t)(im->x1 - im->x0) * (im->y1 - im->y0) > 1 << 27)
        st = cm_fail(cx, CM_ERR_DATA, "JPEG 2000: the size is out of range");
    else if (!o->decode(codec, stream, im))
        st = cm_fail(cx, CM_ERR_DATA, "JPEG 2000: the file is damaged");
    else
        st = opj_pixels(cx, arena, im, out);
    if (im)
        o->image_destroy(im);
    return st;
}

cm_status cm_image_jp2(cm_ctx *cx, cm_arena *arena, const uint8_t *p, size_t n, cm_image *out)
{
    static const char *const names[] = {"libopenjp2.so.7", "libopenjp2.so", NULL};
    enum { CODESTREAM = 0, BOXES = 2 };
    void *lib = NULL;
    opj_library o = {0};
    memory_file file = {p, n, 0};
    CM_TRY(open_library(cx, "JPEG 2000", names, &lib));
    cm_status st;
    if (!opj_symbols(lib, &o)) {
        st = wrong_library(cx, names[0]);
    } else {
        void *stream = o.stream_create(1 << 16, 1);
        void *codec = o.create(p[0] == 0xFF ? CODESTREAM : BOXES);
        if (!stream || !codec) {
            st = cm_fail_memory(cx);
        } else {
            o.set_read(stream, opj_read);
            o.set_skip(stream, opj_skip);
            o.set_seek(stream, opj_seek);
            o.set_user(stream, &file, NULL);
            o.set_length(stream, n);
            st = opj_run(cx, arena, &o, codec, stream, out);
        }
        if (codec)
            o.destroy(codec);
        if (stream)
            o.stream_destroy(stream);
    }
    dlclose(lib);
    return st;
}
