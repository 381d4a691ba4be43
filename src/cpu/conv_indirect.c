/* conv_indirect.c -- convolutions as matrix products whose rows are found by pointers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last. A row of the product is an output pixel; for each kernel position it reads the channels of
 * one input pixel, or zeros, where they lie; those of a convolution of points are equally far apart and need no
 * pointers. Weights are packed per group into panels of [kernel position][input channel][columns of the tile].
 *
 * A unit of work is a block of pixels, whose pointers are found once, by a range of panels. While all panels fit
 * the second-level cache each tile of pixels, or a few tiles of points, goes over all of them; otherwise each
 * panel goes over all tiles of the block. Where the pixels of a tile would meet in one set of the first-level
 * cache, their channels are first copied side by side. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

enum {
    POINTERS = 1536, /* on the stack */
    STAGE = 240,     /* channels copied at a time; rows of a stage are 256 + 16 floats apart */
    STAGE_LD = 272,
    STRIP_IN = 8 << 10,  /* floats of the points that go together over the panels */
    STRIP_OUT = 32 << 10 /* and of their results, where an epilogue reads them again */
};

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *zero;
    float *y;
    const cm_conv_sink *sink;
    int64_t taps, c_in, c_out;            /* channels of one group */
    int64_t first, pixels;                /* of the output, to be done */
    int64_t panels, panel;                /* of one group; floats of one panel */
    int64_t tiles, block, blocks, splits; /* tiles of pixels, in blocks; parts of the panels */
    int64_t strip;                        /* tiles of points that go together over the panels */
    bool panels_stay, stage, points;
} job;

/* Pixels [begin, end), which are whole tiles, and panels [first, last) of a group. */
typedef struct {
    int64_t begin, end, first_tile, last_tile, group, first, last;
} unit;

static int64_t tile_begin(const job *j, int64_t tile)
{
    return j->first + cm_gemm_tile_begin(j->pixels, j->tiles, tile);
}

const char *cm_cpu_conv_indirect_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    return cm_conv_reject_channels_last(p);
}

static bool needs_stage(const cm_conv *c, const cm_gemm_f32_kernel *g)
{
    return cm_conv_pixels_meet(c) && c->c_out / c->groups >= 2 * g->nr;
}

/* Weights come from far: all of them for each tile where that is staged, else the part that does not stay. */
static double weights_ns(const cm_problem *p, const cm_gemm_f32_kernel *g)
{
    const cm_conv *c = &p->as.conv;
    double floats = (double)cm_tensor_elems(p->in[1]);
    if (needs_stage(c, g))
        return floats * (double)cm_gemm_tiles(cm_conv_pixels(c), g->mr) / 32;
    return floats / (double)c->groups > (double)cm_cpu_l2_floats() / 2 ? floats / 5 : 0;
}

/* Columns are computed in whole vectors; short sums spend their time on beginning and end, strips less. */
double cm_cpu_conv_indirect_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    double c_in = (double)(c->c_in / c->groups), sums = c_in * (double)cm_conv_taps(c);
    bool strips = cm_conv_is_points(c) && c->c_out / c->groups % g->strip_step == 0;
    double whole = strips ? 1 : cm_conv_columns(g->nr, c->c_out / c->groups);
    double ends = strips ? 1.5 / sums : 0.6 / c_in + 4 / sums;
    double compute =
        cm_conv_flops(c) * whole * (1 + ends) / (0.97 * cm_cpu_flops_per_ns(&p->target));
    double pointers = strips ? 0 : 0.3 * (double)(cm_conv_pixels(c) * cm_conv_taps(c) * c->groups);
    double memory = cm_conv_bytes(p) / (8 * cm_cpu_bytes_per_ns(&p->target)) + weights_ns(p, g);
    double pieces = (double)cm_conv_pixels(c) / g->mr * (double)c->c_out / g->nr;
    return 200 + cm_conv_shared(p, compute + memory + pointers, cm_conv_ns(p), pieces);
}

static int64_t panel_floats(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return cm_conv_taps(c) * (c->c_in / c->groups) * cm_gemm_f32_kernel_of(p->target.level)->nr;
}

size_t cm_cpu_conv_indirect_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    if (input != 1)
        return 0;
    int64_t panels = cm_ceil_div(c->c_out / c->groups, cm_gemm_f32_kernel_of(p->target.level)->nr);
    return (size_t)(panel_floats(p) * panels * c->groups) * sizeof(float);
}

static size_t zero_and_bias(const cm_conv *c)
{
    return cm_round_up((size_t)(c->c_in / c->groups + c->c_out) * sizeof(float), 64);
}

size_t cm_cpu_conv_indirect_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return zero_and_bias(&p->as.conv) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_indirect_f32_pack_bytes(p, k, 1) : 0);
}

void cm_cpu_conv_indirect_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                   const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    int64_t c_in = c->c_in / c->groups, c_out = c->c_out / c->groups, taps = cm_conv_taps(c);
    int64_t panel = panel_floats(p), panels = cm_ceil_div(c_out, g->nr);
    const int64_t *stride = p->in[1]->strides;
    for (int64_t group = 0; group < c->groups; group++)
        for (int64_t tap = 0; tap < taps; tap++)
            g->pack_b(c_in, c_out,
                      (const float *)from + group * c_out * stride[0] + cm_conv_tap_offset(p, tap),
                      stride[1], stride[0],
                      (float *)to + group * panels * panel + tap * c_in * g->nr, panel);
}

/* The tile of m pixels from `pixel` and panel `j`, with its sums' beginning and end still to be said. */
static cm_gemm_tile tile_of(const job *j, const unit *u, int64_t pixel, int64_t panel)
{
    int nr = j->g->nr;
    int64_t col = panel * nr, left = j->c_out - col, first = u->group * j->c_out + col;
    return (cm_gemm_tile){.b = j->w + (u->group * j->panels + panel) * j->panel,
                          .ldb = nr,
                          .c = j->y + pixel * j->c->c_out + first,
                          .ldc = j->c->c_out,
                          .n = (int)(left < nr ? left : nr),
                          .alpha = 1,
                          .row = pixel,
                          .col = first};
}

/* The epilogue of m pixels and panels [first, last), where it is not done on registers: many columns at once,
 * while they are in the cache. */
static void finish(const job *j, const unit *u, int64_t pixel, int64_t m, int64_t first,
                   int64_t last)
{
    if (j->sink->simple)
        return;
    int64_t col = u->group * j->c_out + first * j->g->nr;
    int64_t n = cm_min_i64(last * j->g->nr, j->c_out) - first * j->g->nr;
    cm_epilogue_tile(&j->sink->plan, pixel, col, m, n, j->y + pixel * j->c->c_out + col,
                     j->c->c_out);
}

/* Kernel positions [tap, tap + taps) of m pixels and one panel. */
static void one_tile(const job *j, const unit *u, int64_t tap, int64_t taps, int64_t pixel,
                     int64_t m, int64_t panel, const float *const *rows)
{
    cm_gemm_tile t = tile_of(j, u, pixel, panel);
    t.runs = taps;
    t.k = j->c_in;
    t.rows = rows + (pixel - u->begin);
    t.rows_step = u->end - u->begin;
    t.b += tap * j->c_in * j->g->nr;
    t.add = tap > 0;
    t.e = tap + taps == j->taps ? &j->sink->e : NULL;
    j->g->rows[m](&t);
}

/* m points by one panel: a strip, and what is no full tile. */
static void one_strip(const job *j, const unit *u, int64_t pixel, int64_t m, int64_t panel)
{
    const cm_gemm_f32_kernel *g = j->g;
    cm_gemm_tile t = tile_of(j, u, pixel, panel);
    const float *x = j->x + u->group * j->c_in + pixel * j->c->c_in;
    t.runs = 1;
    t.k = j->c_in;
    t.rows = &x;
    t.rows_apart = j->c->c_in;
    t.e = &j->sink->e;
    t.tiles = t.n % g->strip_step || t.k == 0 ? 0 : m / g->mr;
    if (t.tiles)
        g->strip(&t);
    for (int64_t i = t.tiles * g->mr, rows; i < m; i += rows) {
        cm_gemm_tile rest = t;
        const float *from = x + i * t.rows_apart;
        rows = cm_min_i64(m - i, g->mr);
        rest.rows = &from;
        rest.c += i * t.ldc;
        rest.row += i;
        g->lined[rows](&rest);
    }
}

static void in_strips(const job *j, const unit *u)
{
    for (int64_t pixel = u->begin, m; pixel < u->end; pixel += m) {
        m = cm_min_i64(j->strip * j->g->mr, u->end - pixel);
        for (int64_t panel = u->first; panel < u->last; panel++)
            one_strip(j, u, pixel, m, panel);
        finish(j, u, pixel, m, u->first, u->last);
    }
}

static void tile_by_tile(const job *j, const unit *u, int64_t tap, int64_t taps,
                         const float *const *rows)
{
    for (int64_t tile = u->first_tile; tile < u->last_tile; tile++) {
        int64_t pixel = tile_begin(j, tile);
        int64_t m = tile_begin(j, tile + 1) - pixel;
        for (int64_t panel = u->first; panel < u->last; panel++)
            one_tile(j, u, tap, taps, pixel, m, panel, rows);
        if (tap + taps == j->taps)
            finish(j, u, pixel, m, u->first, u->last);
    }
}

static void panel_by_panel(const job *j, const unit *u, int64_t tap, int64_t taps,
                           const float *const *rows)
{
    for (int64_t panel = u->first; panel < u->last; panel++) {
        for (int64_t tile = u->first_tile; tile < u->last_tile; tile++) {
            int64_t pixel = tile_begin(j, tile);
            int64_t m = tile_begin(j, tile + 1) - pixel;
            one_tile(j, u, tap, taps, pixel, m, panel, rows);
            if (tap + taps == j->taps)
                finish(j, u, pixel, m, panel, panel + 1);
        }
    }
}

static void in_place(const job *j, const unit *u)
{
    const float *rows[POINTERS];
    cm_conv_window w = {j->c, j->x + u->group * j->c_in, j->zero};
    int64_t pixels = u->end - u->begin, most = POINTERS / pixels;
    for (int64_t tap = 0, taps; tap < j->taps; tap += taps) {
        taps = cm_min_i64(most, j->taps - tap);
        cm_conv_pointers(&w, tap, taps, u->begin, pixels, rows);
        if (j->panels_stay)
            tile_by_tile(j, u, tap, taps, rows);
        else
            panel_by_panel(j, u, tap, taps, rows);
    }
}

/* One tile, its rows brought together a stage at a time. */
static void staged(const job *j, const unit *u)
{
    float stage[CM_GEMM_MAX_MR * STAGE_LD];
    const float *rows[CM_GEMM_MAX_MR], *from[CM_GEMM_MAX_MR];
    cm_conv_window w = {j->c, j->x + u->group * j->c_in, j->zero};
    int64_t m = u->end - u->begin;
    for (int64_t i = 0; i < m; i++)
        rows[i] = stage + i * STAGE_LD;
    for (int64_t tap = 0; tap < j->taps; tap++) {
        cm_conv_pointers(&w, tap, 1, u->begin, m, from);
        for (int64_t l = 0, k; l < j->c_in; l += k) {
            k = cm_min_i64(j->c_in - l, STAGE);
            bool last = tap + 1 == j->taps && l + k == j->c_in;
            for (int64_t i = 0; i < m; i++)
                memcpy(stage + i * STAGE_LD, from[i] + l, (size_t)k * sizeof *stage);
            for (int64_t panel = u->first; panel < u->last; panel++) {
                cm_gemm_tile t = tile_of(j, u, u->begin, panel);
                t.runs = 1;
                t.k = k;
                t.rows = rows;
                t.b += (tap * j->c_in + l) * j->g->nr;
                t.add = tap + l > 0;
                t.e = last ? &j->sink->e : NULL;
                j->g->rows[m](&t);
            }
        }
    }
    finish(j, u, u->begin, m, u->first, u->last);
}

static void some_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t split = i % j->splits, rest = i / j->splits;
        int64_t first = rest % j->blocks * j->block;
        int64_t last = cm_min_i64(first + j->block, j->tiles);
        unit u = {.begin = tile_begin(j, first),
                  .end = tile_begin(j, last),
                  .first_tile = first,
                  .last_tile = last,
                  .group = rest / j->blocks,
                  .first = split * j->panels / j->splits,
                  .last = (split + 1) * j->panels / j->splits};
        if (j->stage)
            staged(j, &u);
        else if (j->points)
            in_strips(j, &u);
        else
            in_place(j, &u);
    }
}

/* How the work is cut: as few blocks as the pointers and the second-level cache allow, but some per
 * thread. Threads share pixels where they can be shared evenly, so that each reads what it wrote in the layer before;
 * where the weights are the larger operand each has one block of them, for all its panels. */
static void divide(job *j, int threads)
{
    const cm_conv *c = j->c;
    int64_t whole = j->panel * j->panels;
    j->panels_stay = whole <= cm_cpu_l2_floats() / 2;
    j->stage = needs_stage(c, j->g);
    j->tiles = cm_gemm_tiles(j->pixels, j->g->mr);
    j->block =
        cm_min_i64(POINTERS / (j->g->mr * j->taps), cm_cpu_l2_floats() / 4 / (j->g->mr * j->c_in));
    j->block = j->stage || j->block < 1 ? 1 : j->block;
    int64_t results = j->sink->simple ? cm_cpu_l2_floats() / 4 : STRIP_OUT;
    j->strip = cm_min_i64(STRIP_IN / j->c_in, results / j->c_out) / j->g->mr;
    j->strip = j->panels_stay ? cm_max_i64(j->strip, 1) : j->block;
    int64_t pieces = threads > 1 ? 4 * threads : 1;
    if (pieces > 1 && whole > j->pixels * j->c_in) {
        if (cm_cpu_even(j->tiles, threads))
            j->block = cm_min_i64(j->block, cm_ceil_div(j->tiles, threads));
        else
            j->splits = cm_min_i64(j->panels, pieces);
    } else if (pieces > 1) {
        j->block = cm_min_i64(j->block, cm_ceil_div(j->tiles, pieces));
    }
    j->blocks = cm_ceil_div(j->tiles, j->block);
    if (pieces > 1 && j->blocks * j->splits * c->groups < pieces)
        j->splits = cm_min_i64(j->panels, cm_ceil_div(pieces, j->blocks * c->groups));
}

cm_status cm_cpu_conv_indirect_f32_run(const cm_run *r)
{
    cm_cpu_conv_indirect_f32_band(r, 0, cm_conv_rows(&r->p->as.conv));
    return CM_OK;
}

void cm_cpu_conv_indirect_f32_band(const cm_run *r, int64_t begin, int64_t end)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    cm_conv_sink sink;
    job j = {.c = c,
             .sink = &sink,
             .g = cm_gemm_f32_kernel_of(p->target.level),
             .x = r->in[0],
             .w = r->in[1],
             .zero = r->workspace,
             .y = r->out[0],
             .taps = cm_conv_taps(c),
             .first = begin * c->out[2],
             .pixels = (end - begin) * c->out[2],
             .c_in = c->c_in / c->groups,
             .c_out = c->c_out / c->groups,
             .panel = panel_floats(p),
             .points = cm_conv_is_points(c),
             .splits = 1};
    j.panels = cm_ceil_div(j.c_out, j.g->nr);
    float *zero = r->workspace;
    memset(zero, 0, (size_t)j.c_in * sizeof *zero);
    cm_conv_sink_init(&sink, r, zero + j.c_in);
    if (cm_conv_packs_in_run(p)) {
        float *packed = zero + zero_and_bias(c) / sizeof *zero;
        cm_cpu_conv_indirect_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    divide(&j, cm_threads_count(r->threads));
    double share = (double)j.pixels / (double)cm_conv_pixels(c);
    cm_conv_parallel(r, cm_conv_ns(p) * share, j.blocks * j.splits * c->groups, some_units, &j);
}
