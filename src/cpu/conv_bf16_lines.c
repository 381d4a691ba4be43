/* conv_bf16_lines.c -- convolutions of bfloat16 whose kernel lines are short, as those of an image's few channels are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel line of at most 32 elements is one square of a panel, with zeros behind. Lines of the input under some lines of
 * the output are copied with their padding, no more: the window of the next output pixel begins `stride` pixels behind
 * that of the one before, so that the rows of a tile overlap in memory. What they read beyond their window meets zeros,
 * which is as good as nothing if it is finite; where a line has an element that is not, windows are gathered. */
#include <emmintrin.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv_bf16.h"
#include "cpu/gather_bf16.h"

enum {
    SQUARE = CM_BF16_K,
    BAND_BYTES = 24 << 10, /* lines of a band: they stay in the first-level cache beside panels */
    LARGEST = 1 << 20,     /* bytes of those under one line of the output */
    MOST_LINES = 64,       /* of a kernel */
};

typedef struct {
    const cm_conv *c;
    const cm_gemm_bf16_kernel *g;
    int64_t taps, k, panels; /* taps: lines of the kernel; k: a square for each */
    int64_t reach;           /* input lines that a kernel spans */
    int64_t lines, bands;    /* of the output, in a band; of an image */
    int64_t high, wide;      /* lines of a band; elements of one, padded */
    int64_t units;
    int workers;
    size_t line_bytes, row_bytes, c_bytes; /* of one thread: lines; gathered rows; sums */
} layout;

static void lay_out(const cm_problem *p, const cm_gemm_bf16_kernel *g, layout *l)
{
    const cm_conv *c = &p->as.conv;
    *l = (layout){.c = c, .g = g, .taps = c->kernel[1]};
    l->k = l->taps * SQUARE;
    l->panels = cm_ceil_div(c->c_out, CM_BF16_NR);
    l->reach = (c->kernel[1] - 1) * c->dilation[1] + 1;
    l->wide = (c->out[2] - 1) * c->stride[2] * c->c_in + SQUARE;
    int64_t most = BAND_BYTES / (l->wide * 2) - l->reach;
    most = cm_max_i64(1, cm_min_i64(most / c->stride[1] + 1, c->out[1]));
    /* Every thread has a few bands. */
    int64_t each = cm_ceil_div(c->n * c->out[1], 4 * (int64_t)p->threads);
    most = cm_max_i64(1, cm_min_i64(most, each));
    l->bands = cm_ceil_div(c->out[1], most);
    l->lines = cm_ceil_div(c->out[1], l->bands);
    l->bands = cm_ceil_div(c->out[1], l->lines);
    l->high = (l->lines - 1) * c->stride[1] + l->reach;
    l->units = c->n * l->bands;
    l->workers = (int)cm_max_i64(1, cm_min_i64(p->threads, l->units));
    l->line_bytes = cm_round_up((size_t)(l->high * l->wide) * sizeof(uint16_t), 64);
    l->row_bytes = (size_t)(g->mr * l->k) * sizeof(uint16_t);
    l->c_bytes = (size_t)(g->mr * CM_BF16_NR) * sizeof(float);
}

const char *cm_cpu_conv_amx_lines_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const char *why = cm_conv_bf16_reject(p);
    if (why)
        return why;
    if (c->groups != 1)
        return "there are groups";
    if (c->in[0] != 1 || c->out[0] != 1 || c->kernel[0] != 1)
        return "there are three axes";
    if (c->c_in * c->kernel[2] > SQUARE)
        return "a kernel line has more than 32 elements";
    if (c->kernel[1] > MOST_LINES)
        return "the kernel has many lines";
    if (c->dilation[2] != 1)
        return "kernel lines are dilated";
    if (c->stride[2] * c->c_in > SQUARE)
        return "windows of a line lie apart";
    double reach = (double)(c->kernel[1] - 1) * (double)c->dilation[1] + 1;
    if (reach * (double)(c->out[2] * SQUARE) * 2 > LARGEST)
        return "the lines under one of the output are too large for the cache";
    return NULL;
}

/* `gain`: over float32. */
static double cost(const cm_problem *p, const cm_gemm_bf16_kernel *g, double gain)
{
    layout l;
    lay_out(p, g, &l);
    double flops = (double)(cm_conv_pixels(l.c) * l.panels * CM_BF16_NR * 2 * l.k);
    double copied = 0.08 * (double)(l.units * l.high * l.wide);
    return cm_conv_bf16_ns(p, flops, gain, copied, l.units);
}

static size_t pack_bytes(const cm_problem *p, int input)
{
    const cm_conv *c = &p->as.conv;
    if (input != 1)
        return 0;
    return (size_t)(cm_ceil_div(c->c_out, CM_BF16_NR) * CM_BF16_NR * c->kernel[1] * SQUARE) *
           sizeof(uint16_t);
}

/* Panels hold [kernel line][position in it, channel]. They are few and small. */
static void pack(const cm_problem *p, int input, const void *from, void *to, cm_threads *threads)
{
    const cm_conv *c = &p->as.conv;
    const int64_t *stride = p->in[1]->strides, line = c->c_in * c->kernel[2];
    (void)threads;
    memset(to, 0, pack_bytes(p, input));
    for (int64_t o = 0; o < c->c_out; o++) {
        const uint16_t *filter = (const uint16_t *)from + o * stride[0];
        uint16_t *panel = (uint16_t *)to + o / CM_BF16_NR * CM_BF16_NR * c->kernel[1] * SQUARE;
        for (int64_t i = 0; i < c->kernel[1] * line; i++) {
            int64_t t = i / line, e = i % line;
            int64_t tap = cm_conv_tap_offset(p, t * c->kernel[2] + e / c->c_in);
            panel[cm_bf16_panel_at(t * SQUARE + e, o % CM_BF16_NR)] =
                filter[tap + e % c->c_in * stride[1]];
        }
    }
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_conv_bf16_sink sink;
    int32_t in_lines[MOST_LINES], in_rows[MOST_LINES]; /* where a window's lines are, in either */
} job;

/* Copies; false: an element is not finite. */
static bool copy_finite(uint16_t *to, const uint16_t *from, int64_t n)
{
    const __m128i ones = _mm_set1_epi16(0x7f80); /* the exponent's bits */
    __m128i found = _mm_setzero_si128();
    bool finite = true;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i x = _mm_loadu_si128((const __m128i *)(from + i));
        found = _mm_or_si128(found, _mm_cmpeq_epi16(_mm_and_si128(x, ones), ones));
        _mm_storeu_si128((__m128i *)(to + i), x);
    }
    for (; i < n; i++) {
        finite &= (from[i] & 0x7f80) != 0x7f80;
        to[i] = from[i];
    }
    return finite && !_mm_movemask_epi8(found);
}

/* A line with its padding; NULL: there is none. False: an element is not finite. */
static bool copy_line(const layout *l, const uint16_t *from, uint16_t *to)
{
    const cm_conv *c = l->c;
    int64_t before = cm_min_i64(l->wide, c->pad[2] * c->c_in);
    int64_t n = from ? cm_min_i64(l->wide - before, c->in[2] * c->c_in) : 0;
    memset(to, 0, (size_t)before * sizeof *to);
    memset(to + before + n, 0, (size_t)(l->wide - before - n) * sizeof *to);
    return copy_finite(to + before, from, n);
}

static const uint16_t *input_line(const job *j, int64_t image, int64_t line)
{
    const cm_conv *c = j->l.c;
    if (line < 0 || line >= c->in[1])
        return NULL;
    return (const uint16_t *)j->r->in[0] + (image * c->in[1] + line) * c->in[2] * c->c_in;
}

static bool copy_band(const job *j, int64_t image, int64_t first, uint16_t *to)
{
    const layout *l = &j->l;
    bool finite = true;
    for (int64_t i = 0; i < l->high; i++)
        finite &= copy_line(l, input_line(j, image, first + i), to + i * l->wide);
    return finite;
}

/* The windows of m pixels of an output line, the first at `x` of line `y`. */
static void gather(const job *j, int64_t image, int64_t y, int64_t x, int64_t m, uint16_t *to)
{
    const layout *l = &j->l;
    const cm_conv *c = l->c;
    cm_bf16_line line = {NULL, c->in[2], c->c_in, c->kernel[2], c->stride[2]};
    for (int64_t t = 0; t < l->taps; t++) {
        line.x = input_line(j, image, y * c->stride[1] - c->pad[1] + t * c->dilation[1]);
        cm_bf16_gather_line__avx512(&line, x * c->stride[2] - c->pad[2], m, SQUARE, to + t * SQUARE,
                                    l->k);
    }
}

/* A tile of pixels by all panels. Where the line below will be written, others have read: it is asked for meanwhile. */
static void some_pixels(const job *j, cm_bf16_tile *t, int64_t pixel)
{
    const layout *l = &j->l;
    const cm_bf16_finish *f = &j->sink.finish;
    int64_t below = pixel + l->c->out[2];
    bool ask = j->sink.fast && below + t->m <= cm_conv_pixels(l->c);
    t->out_ahead = (cm_bf16_ahead){0};
    for (int64_t q = 0; q < l->panels; q++) {
        int64_t col = q * CM_BF16_NR;
        if (ask)
            t->out_ahead = (cm_bf16_ahead){(const char *)(f->out + below * f->ld + col), f->ld * 2,
                                           (int)cm_ceil_div(t->m, l->taps)};
        t->b = (const uint16_t *)j->r->in[1] + q * CM_BF16_NR * l->k;
        l->g->tile(t);
        cm_conv_bf16_sink_tile(&j->sink, pixel, col, t->m,
                               cm_min_i64(CM_BF16_NR, l->c->c_out - col), t->c, t->ldc);
    }
}

static void one_unit(const job *j, int64_t unit, char *scratch)
{
    const layout *l = &j->l;
    const cm_conv *c = l->c;
    int64_t image = unit / l->bands, first = unit % l->bands * l->lines;
    int64_t end = cm_min_i64(first + l->lines, c->out[1]);
    uint16_t *lines = (uint16_t *)(scratch + l->c_bytes);
    uint16_t *rows = (uint16_t *)(scratch + l->c_bytes + l->line_bytes);
    bool finite = copy_band(j, image, first * c->stride[1] - c->pad[1], lines);
    cm_bf16_tile t = {.k = l->k,
                      .lda = finite ? c->stride[2] * c->c_in : l->k,
                      .at = finite ? j->in_lines : j->in_rows,
                      .c = (float *)scratch,
                      .ldc = CM_BF16_NR};
    for (int64_t y = first; y < end; y++)
        for (int64_t x = 0; x < c->out[2]; x += t.m) {
            t.m = cm_min_i64(l->g->mr, c->out[2] - x);
            t.a = rows;
            if (finite)
                t.a = lines + (y - first) * c->stride[1] * l->wide + x * t.lda;
            else
                gather(j, image, y, x, t.m, rows);
            some_pixels(j, &t, (image * c->out[1] + y) * c->out[2] + x);
        }
}

static void work(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    char *scratch =
        (char *)j->r->workspace + (size_t)thread * (l->c_bytes + l->line_bytes + l->row_bytes);
    if (l->g->begin)
        l->g->begin();
    for (int64_t u = begin; u < end; u++)
        one_unit(j, u, scratch);
    if (l->g->end)
        l->g->end();
}

static size_t workspace(const cm_problem *p, const cm_gemm_bf16_kernel *g)
{
    layout l;
    lay_out(p, g, &l);
    return (l.c_bytes + l.line_bytes + l.row_bytes) * (size_t)l.workers;
}

static cm_status run(const cm_run *r, const cm_gemm_bf16_kernel *g)
{
    job j = {.r = r};
    lay_out(r->p, g, &j.l);
    for (int64_t t = 0; t < j.l.taps; t++) {
        j.in_lines[t] = (int32_t)(t * j.l.c->dilation[1] * j.l.wide);
        j.in_rows[t] = (int32_t)(t * SQUARE);
    }
    cm_conv_bf16_sink_init(&j.sink, r);
    cm_parallel_numbered(r->threads, j.l.workers, j.l.units, work, &j);
    return CM_OK;
}

CM_BF16_TACTIC(conv_amx_lines, cm_gemm_bf16__amx, 8)
