/* conv_product.c -- convolutions as matrix products whose rows are packed first.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last, one group. What the windows see is brought into tiles of pixels, [kernel position][input
 * channel][pixel], once; then each panel of weights, [kernel position][input channel][columns], meets all of
 * them while the next is asked for. For weights that are larger than the second-level cache and pixels that
 * are few, or so far apart that they would meet in one set of the first-level cache. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/matmul.h"

enum { MOST_PATCHES = 4 << 20 }; /* floats */

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

static int64_t depth_of(const cm_conv *c)
{
    return cm_conv_taps(c) * c->c_in;
}

const char *cm_cpu_conv_product_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    if (c->groups != 1)
        return "several groups";
    if (cm_conv_pixels(c) <= kernel(p)->mr)
        return "one tile has all pixels, so that packing them gains nothing";
    if (depth_of(c) > MOST_PATCHES / cm_conv_pixels(c))
        return "what the windows see would take more than 16 MB";
    return cm_conv_reject_channels_last(p);
}

static cm_matmul_grid grid_of(const cm_problem *p, int threads)
{
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = kernel(p);
    int64_t pixels = cm_conv_pixels(c);
    return cm_matmul_cut(1, cm_gemm_tiles(pixels, g->mr), cm_ceil_div(c->c_out, g->nr),
                         pixels > c->c_out, cm_conv_flops(c) / cm_cpu_flops_per_ns(&p->target),
                         threads);
}

/* Packing moves some six elements a nanosecond. */
double cm_cpu_conv_product_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    double sums = (double)depth_of(c);
    double whole = cm_conv_columns(kernel(p)->nr, c->c_out);
    double compute =
        cm_conv_flops(c) * whole * (1 + 4 / sums) / (0.97 * cm_cpu_flops_per_ns(&p->target));
    double memory = cm_conv_bytes(p) / (8 * cm_cpu_bytes_per_ns(&p->target));
    double pack = (double)cm_conv_pixels(c) * sums / 6;
    cm_matmul_grid grid = grid_of(p, p->threads);
    double pieces = (double)(grid.rows * grid.cols);
    return 600 + (compute + memory + pack) / (grid.workers > 1 ? cm_cpu_speedup(p, pieces) : 1);
}

size_t cm_cpu_conv_product_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    return input != 1
               ? 0
               : (size_t)cm_gemm_f32_packed_b(kernel(p), depth_of(c), c->c_out) * sizeof(float);
}

void cm_cpu_conv_product_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                  const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = kernel(p);
    const int64_t *stride = p->in[1]->strides;
    for (int64_t tap = 0; tap < cm_conv_taps(c); tap++)
        g->pack_b(c->c_in, c->c_out, (const float *)from + cm_conv_tap_offset(p, tap), stride[1],
                  stride[0], (float *)to + tap * c->c_in * g->nr, depth_of(c) * g->nr);
}

/* The workspace: zeros for what lies outside the input, the sum of two biases, patches, weights. */
typedef struct {
    size_t patches, weights, all; /* where they begin, in bytes */
} room;

static room room_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    room r = {.patches = cm_round_up((size_t)(c->c_in + c->c_out) * sizeof(float), 64)};
    r.weights =
        r.patches + cm_round_up((size_t)(cm_conv_pixels(c) * depth_of(c)) * sizeof(float), 64);
    r.all =
        r.weights + (cm_conv_packs_in_run(p) ? cm_cpu_conv_product_f32_pack_bytes(p, NULL, 1) : 0);
    return r;
}

size_t cm_cpu_conv_product_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return room_of(p).all;
}

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *zero;
    float *y, *patches;
    cm_conv_sink sink;
    cm_matmul_grid grid;
    int64_t pixels, depth, tiles, panels;
} job;

static void pack_tiles(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_conv_window w = {j->c, j->x, j->zero};
    int64_t taps = cm_conv_taps(j->c), c_in = j->c->c_in;
    for (int64_t t = begin; t < end; t++) {
        int64_t pixel = cm_gemm_tile_begin(j->pixels, j->tiles, t);
        int64_t m = cm_gemm_tile_begin(j->pixels, j->tiles, t + 1) - pixel;
        for (int64_t tap = 0; tap < taps; tap++) {
            const float *rows[CM_GEMM_MAX_MR];
            cm_conv_pointers(&w, tap, 1, pixel, m, rows);
            j->g->pack_rows(m, c_in, rows, j->patches + pixel * j->depth + tap * c_in * m);
        }
    }
}

/* Pixels and columns of one piece, for the epilogue that is not done on registers. */
typedef struct {
    const job *j;
    int64_t pixel, col;
} part;

static void part_done(void *arg, int64_t i, int64_t col, int64_t m, int64_t n)
{
    const part *q = arg;
    int64_t pixel = q->pixel + i, ld = q->j->c->c_out;
    col += q->col;
    cm_epilogue_tile(&q->j->sink.plan, pixel, col, m, n, q->j->y + pixel * ld + col, ld);
}

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t column)
{
    (void)worker;
    (void)batch;
    const job *j = arg;
    int64_t tile = row * j->tiles / j->grid.rows, nr = j->g->nr, ld = j->c->c_out;
    int64_t pixel = cm_gemm_tile_begin(j->pixels, j->tiles, tile);
    int64_t end = cm_gemm_tile_begin(j->pixels, j->tiles, (row + 1) * j->tiles / j->grid.rows);
    int64_t panel = column * j->panels / j->grid.cols, col = panel * nr;
    int64_t last = (column + 1) * j->panels / j->grid.cols;
    part q = {j, pixel, col};
    cm_gemm_f32_args x = {.m = end - pixel,
                          .n = cm_min_i64(ld, last * nr) - col,
                          .k = j->depth,
                          .a_packed = j->patches,
                          .a_packed_m = j->pixels,
                          .a_tile = tile,
                          .b = j->w + panel * nr * j->depth,
                          .b_panel = nr * j->depth,
                          .ldb = nr,
                          .c = j->y + pixel * ld + col,
                          .ldc = ld,
                          .alpha = 1,
                          .e = &j->sink.e,
                          .row = pixel,
                          .col = col,
                          .done = j->sink.simple ? NULL : part_done,
                          .done_arg = &q};
    cm_gemm_f32(j->g, &x);
}

cm_status cm_cpu_conv_product_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    room at = room_of(p);
    float *zero = r->workspace, *packed = (float *)((char *)r->workspace + at.weights);
    job j = {.c = c,
             .g = kernel(p),
             .x = r->in[0],
             .w = r->in[1],
             .zero = zero,
             .y = r->out[0],
             .patches = (float *)((char *)r->workspace + at.patches),
             .grid = grid_of(p, cm_threads_count(r->threads)),
             .pixels = cm_conv_pixels(c),
             .depth = depth_of(c)};
    j.tiles = cm_gemm_tiles(j.pixels, j.g->mr);
    j.panels = cm_ceil_div(c->c_out, j.g->nr);
    memset(zero, 0, (size_t)c->c_in * sizeof *zero);
    cm_conv_sink_init(&j.sink, r, zero + c->c_in);
    if (cm_conv_packs_in_run(p)) {
        cm_cpu_conv_product_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    cm_parallel(r->threads, j.tiles, 1 + 20000 / (j.g->mr * j.depth), pack_tiles, &j);
    cm_matmul_run_grid(r->threads, &j.grid, piece, &j);
    return CM_OK;
}
