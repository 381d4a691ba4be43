/* conv_bf16_patch.c -- convolutions of bfloat16 over patches of the input that are laid out for tiles.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A band, some lines of an output image, needs some lines of the input: they are copied with their padding into a patch,
 * [block of 32 channels][phase][line][pixel][32], a phase being what one remainder of a stride sees. Every row of a tile is
 * then 64 bytes behind the one before, at a constant distance for each kernel position (`at`): neighbouring pixels of a
 * line, with a few at the end of each line that nobody wants. All kernel positions of a block of channels come one after
 * the other, so that they find it in the near cache; sums of some tiles wait there meanwhile, which lets them share
 * a part of a panel. */
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/conv_bf16.h"

enum {
    BLOCK = CM_BF16_K,
    TILES = 2,         /* that share a part of a panel, */
    PART_SQUARES = 36, /* about so many of its squares */
    PATCH = 384 << 10, /* bytes that stay in the second-level cache beside a panel, */
    LARGEST = 1 << 20, /* and that may be if a line is long */
    LARGEST_STRIDE = 8,
};

/* One of two axes: lines, pixels. */
typedef struct {
    int64_t in, out, kernel, stride, dilation, pad;
    int64_t phases; /* that kernel positions see */
    int64_t shift;  /* of the last kernel position, in its phase */
} axis;

typedef struct {
    const cm_conv *c;
    const cm_gemm_bf16_kernel *g;
    axis y, x;
    int64_t blocks, taps, k, panels;
    int64_t lines, bands; /* of a band; of an image */
    int64_t high, wide;   /* of a patch: lines and pixels of a phase */
    int64_t plane;        /* elements of a block of channels in a patch */
    int64_t tiles;        /* of a band */
    int64_t splits, units;
    int64_t part; /* blocks of channels at a time */
    int workers;
    size_t at_bytes, patch_bytes, c_bytes;
} layout;

static axis axis_of(const cm_conv *c, int d)
{
    axis a = {c->in[d], c->out[d], c->kernel[d], c->stride[d], c->dilation[d], c->pad[d], 0, 0};
    int64_t reach = (a.kernel - 1) * a.dilation;
    a.phases = cm_min_i64(a.stride, reach + 1);
    a.shift = reach / a.stride;
    return a;
}

static void set_cut(layout *l, int64_t lines, int64_t splits)
{
    l->lines = lines;
    l->bands = cm_ceil_div(l->y.out, lines);
    l->high = lines + l->y.shift;
    l->wide = l->x.out + l->x.shift;
    l->plane = (l->y.phases * l->x.phases * l->high * l->wide | 1) * BLOCK; /* to all cache sets */
    l->tiles = cm_ceil_div((lines - 1) * l->wide + l->x.out, l->g->mr);
    l->splits = splits;
    l->units = l->c->n * l->bands * splits;
}

/* The last tile reads up to its height beyond. */
static int64_t patch_bytes(const layout *l)
{
    return (l->blocks * l->plane + l->g->mr * BLOCK) * (int64_t)sizeof(uint16_t);
}

/* As in conv_bf16.c: a thread's units one after the other, and its panels, which come from a far cache once. */
static double units_ns(const layout *l, int threads)
{
    const double byte_ns = 1 / 15.0, copy_ns = 0.05, tile_ns = 150, unit_ns = 300, held_up = 0.25;
    double rounds = (double)cm_ceil_div(l->units, threads);
    double panels = (double)cm_ceil_div(l->panels, l->splits), k = (double)l->k;
    double unit = (double)l->tiles * panels * (k / BLOCK * l->g->square_ns + tile_ns) +
                  (double)(l->blocks * l->plane) * copy_ns + unit_ns;
    double ranges = 1 + (double)l->splits / threads;
    return rounds * unit * (1 + held_up / rounds) + ranges * panels * k * CM_BF16_NR * 2 * byte_ns;
}

static void cut(layout *l, int threads)
{
    double best = 0;
    int64_t best_lines = 1, best_splits = 1;
    for (int64_t lines = 1; lines <= l->y.out; lines += lines < 8 ? 1 : lines / 2) {
        int64_t even = cm_ceil_div(l->y.out, cm_ceil_div(l->y.out, lines));
        for (int64_t splits = 1; splits <= (threads > 1 ? l->panels : 1); splits *= 2) {
            set_cut(l, even, splits);
            double ns = units_ns(l, threads);
            if (best > 0 && (ns >= best || patch_bytes(l) > PATCH))
                continue;
            best = ns;
            best_lines = even;
            best_splits = splits;
        }
    }
    set_cut(l, best_lines, best_splits);
}

static void lay_out(const cm_problem *p, const cm_gemm_bf16_kernel *g, layout *l)
{
    const cm_conv *c = &p->as.conv;
    *l = (layout){.c = c, .g = g, .y = axis_of(c, 1), .x = axis_of(c, 2)};
    l->blocks = c->c_in / BLOCK;
    l->taps = cm_conv_taps(c);
    l->k = c->c_in * l->taps;
    l->panels = cm_ceil_div(c->c_out, CM_BF16_NR);
    l->part = cm_max_i64(1, PART_SQUARES / l->taps);
    cut(l, p->threads);
    l->workers = (int)cm_max_i64(1, cm_min_i64(p->threads, l->units));
    l->at_bytes = cm_round_up((size_t)(l->blocks * l->taps) * sizeof(int32_t), 64);
    l->patch_bytes = cm_round_up((size_t)patch_bytes(l), 64);
    l->c_bytes = (size_t)(TILES * g->mr * CM_BF16_NR) * sizeof(float);
}

static const char *reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const char *why = cm_conv_bf16_reject(p);
    if (why)
        return why;
    if (c->groups != 1)
        return "there are groups";
    if (c->c_in % BLOCK)
        return "the channels are no multiple of 32";
    if (c->in[0] != 1 || c->out[0] != 1 || c->kernel[0] != 1)
        return "there are three axes";
    if (cm_conv_taps(c) == 1)
        return "windows share nothing";
    if (c->stride[1] > LARGEST_STRIDE || c->stride[2] > LARGEST_STRIDE)
        return "a stride is large";
    axis y = axis_of(c, 1), x = axis_of(c, 2);
    double line = (double)(x.out + x.shift) * (double)(x.phases * y.phases) * (double)c->c_in * 2;
    if (line * (double)(1 + y.shift) > LARGEST)
        return "a patch of one line is too large for the cache";
    return NULL;
}
const char *cm_cpu_conv_bf16_patch_reject(const cm_problem *p)
{
    return cm_cpu_info()->bf16 ? reject(p) : "the processor has no AVX512-BF16";
}
const char *cm_cpu_conv_amx_patch_reject(const cm_problem *p)
{
    return reject(p);
}

/* `gain`: over float32. */
static double cost(const cm_problem *p, const cm_gemm_bf16_kernel *g, double gain)
{
    layout l;
    lay_out(p, g, &l);
    double tiles = (double)(l.c->n * l.bands * l.tiles * l.panels);
    double flops = tiles * g->mr * CM_BF16_NR * 2 * (double)l.k;
    double copied = 0.08 * (double)(l.units * l.blocks * l.plane);
    return cm_conv_bf16_ns(p, flops, gain, copied, l.units);
}

static size_t pack_bytes(const cm_problem *p, int input)
{
    const cm_conv *c = &p->as.conv;
    if (input != 1)
        return 0;
    return (size_t)(cm_ceil_div(c->c_out, CM_BF16_NR) * CM_BF16_NR * c->c_in * cm_conv_taps(c)) *
           sizeof(uint16_t);
}

typedef struct {
    const cm_problem *p;
    const uint16_t *from;
    uint16_t *to;
} pack_job;

/* Panels hold [block of channels][kernel position][channel]. */
static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_conv *c = &j->p->as.conv;
    const int64_t *stride = j->p->in[1]->strides, taps = cm_conv_taps(c), k = c->c_in * taps;
    for (int64_t q = begin; q < end; q++) {
        int64_t first = q * CM_BF16_NR, n = cm_min_i64(CM_BF16_NR, c->c_out - first);
        const uint16_t *from = j->from + first * stride[0];
        uint16_t *to = j->to + q * CM_BF16_NR * k;
        memset(to, 0, (size_t)(CM_BF16_NR * k) * sizeof *to);
        for (int64_t i = 0; i < k; i++) {
            int64_t channel = i / (BLOCK * taps) * BLOCK + i % BLOCK;
            int64_t at = cm_conv_tap_offset(j->p, i / BLOCK % taps) + channel * stride[1];
            for (int64_t o = 0; o < n; o++)
                to[cm_bf16_panel_at(i, o)] = from[o * stride[0] + at];
        }
    }
}

static void pack(const cm_problem *p, int input, const void *from, void *to, cm_threads *threads)
{
    const cm_conv *c = &p->as.conv;
    (void)input;
    pack_job j = {p, from, to};
    cm_parallel(threads, cm_ceil_div(c->c_out, CM_BF16_NR),
                1 + 20000 / (CM_BF16_NR * c->c_in * cm_conv_taps(c)), pack_panels, &j);
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_conv_bf16_sink sink;
    const int32_t *at; /* of each square, in a patch */
} job;

static void find_squares(const layout *l, int32_t *at)
{
    for (int64_t b = 0; b < l->blocks; b++)
        for (int64_t t = 0; t < l->taps; t++) {
            int64_t ky = t / l->x.kernel * l->y.dilation, kx = t % l->x.kernel * l->x.dilation;
            int64_t phase = ky % l->y.stride * l->x.phases + kx % l->x.stride;
            int64_t line = phase * l->high + ky / l->y.stride;
            at[b * l->taps + t] =
                (int32_t)(b * l->plane + (line * l->wide + kx / l->x.stride) * BLOCK);
        }
}

/* Pixels [0, wide) of a line of one phase, to each block's plane. from NULL: there is no such line. */
static void copy_line(const layout *l, const uint16_t *from, int64_t phase, uint16_t *to)
{
    int64_t first = phase - l->x.pad, step = l->x.stride;
    int64_t hi = from && first < l->x.in ? cm_ceil_div(l->x.in - first, step) : 0;
    int64_t lo = first < 0 ? cm_ceil_div(-first, step) : 0;
    hi = cm_min_i64(hi, l->wide);
    lo = cm_min_i64(lo, hi);
    for (int64_t b = 0; b < l->blocks; b++) {
        memset(to + b * l->plane, 0, (size_t)(lo * BLOCK) * sizeof *to);
        memset(to + b * l->plane + hi * BLOCK, 0, (size_t)((l->wide - hi) * BLOCK) * sizeof *to);
    }
    for (int64_t x = lo; x < hi; x++) {
        const uint16_t *pixel = from + (x * step + first) * l->c->c_in;
        for (int64_t b = 0; b < l->blocks; b++)
            memcpy(to + b * l->plane + x * BLOCK, pixel + b * BLOCK, BLOCK * sizeof *to);
    }
}

static void copy_band(const layout *l, const uint16_t *x, int64_t band, uint16_t *to)
{
    int64_t image = band / l->bands, from = band % l->bands * l->lines;
    for (int64_t py = 0; py < l->y.phases; py++)
        for (int64_t px = 0; px < l->x.phases; px++)
            for (int64_t i = 0; i < l->high; i++) {
                int64_t line = (from + i) * l->y.stride + py - l->y.pad;
                int64_t at = ((py * l->x.phases + px) * l->high + i) * l->wide;
                bool inside = line >= 0 && line < l->y.in;
                int64_t pixel = (image * l->y.in + line) * l->x.in;
                copy_line(l, inside ? x + pixel * l->c->c_in : NULL, px, to + at * BLOCK);
            }
}

/* A tile's rows are parts of lines, with pixels between them that nobody wants. */
static void finish_tile(const job *j, int64_t band, int64_t tile, int64_t col, float *c)
{
    const layout *l = &j->l;
    int64_t image = band / l->bands, line = band % l->bands * l->lines, mr = l->g->mr;
    int64_t end = cm_min_i64(l->lines, l->y.out - line);
    int64_t n = cm_min_i64(CM_BF16_NR, l->c->c_out - col);
    for (int64_t i = 0, part; i < mr; i += part) {
        int64_t p = tile * mr + i, y = p / l->wide, x = p % l->wide;
        part = cm_min_i64(mr - i, l->wide - x);
        if (y >= end)
            return;
        int64_t pixel = (image * l->y.out + line + y) * l->x.out + x;
        int64_t m = cm_min_i64(part, l->x.out - x);
        if (m > 0)
            cm_conv_bf16_sink_tile(&j->sink, pixel, col, m, n, c + i * CM_BF16_NR, CM_BF16_NR);
    }
}

/* Tiles [tile, tile + n) of a band by one panel: a part of it after the other. */
static void some_tiles(const job *j, const uint16_t *patch, int64_t band, int64_t tile, int64_t n,
                       int64_t panel, float *c)
{
    const layout *l = &j->l;
    const int64_t mr = l->g->mr;
    const uint16_t *b = (const uint16_t *)j->r->in[1] + panel * CM_BF16_NR * l->k;
    cm_bf16_tile t = {.m = mr, .lda = BLOCK, .ldc = CM_BF16_NR};
    for (int64_t block = 0; block < l->blocks; block += l->part) {
        t.k = cm_min_i64(l->part, l->blocks - block) * l->taps * BLOCK;
        t.at = j->at + block * l->taps;
        t.b = b + block * l->taps * BLOCK * CM_BF16_NR;
        t.add = block > 0;
        for (int64_t i = 0; i < n; i++) {
            t.a = patch + (tile + i) * mr * BLOCK;
            t.c = c + i * mr * CM_BF16_NR;
            l->g->tile(&t);
        }
    }
    for (int64_t i = 0; i < n; i++)
        finish_tile(j, band, tile + i, panel * CM_BF16_NR, c + i * mr * CM_BF16_NR);
}

static void one_unit(const job *j, int64_t unit, char *scratch)
{
    const layout *l = &j->l;
    int64_t band = unit % (l->c->n * l->bands), split = unit / (l->c->n * l->bands);
    uint16_t *patch = (uint16_t *)(scratch + l->c_bytes);
    copy_band(l, j->r->in[0], band, patch);
    int64_t end = (split + 1) * l->panels / l->splits;
    for (int64_t q = split * l->panels / l->splits; q < end; q++)
        for (int64_t tile = 0; tile < l->tiles; tile += TILES)
            some_tiles(j, patch, band, tile, cm_min_i64(TILES, l->tiles - tile), q,
                       (float *)scratch);
}

/* Units follow each other with the same panels, as in conv_bf16.c. */
static void work(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    char *scratch =
        (char *)j->r->workspace + l->at_bytes + (size_t)thread * (l->patch_bytes + l->c_bytes);
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
    return l.at_bytes + (l.patch_bytes + l.c_bytes) * (size_t)l.workers;
}

static cm_status run(const cm_run *r, const cm_gemm_bf16_kernel *g)
{
    job j = {.r = r, .at = r->workspace};
    lay_out(r->p, g, &j.l);
    cm_conv_bf16_sink_init(&j.sink, r);
    find_squares(&j.l, r->workspace);
    cm_parallel_numbered(r->threads, j.l.workers, j.l.units, work, &j);
    return CM_OK;
}

CM_BF16_TACTIC(conv_bf16_patch, cm_gemm_bf16__avx512, 2)
CM_BF16_TACTIC(conv_amx_patch, cm_gemm_bf16__amx, 8)
