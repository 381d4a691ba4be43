/* conv_pairs.c -- convolutions of points as matrix products by pairs: a quarter fewer multiplications (cpu/pairs.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last, one group. Rows of the product are pixels. A strip is some tiles of pixels that are made ready and then
 * meet all panels of weights, or those of a thread's part: one tile or a few while the panels fit the second-level cache,
 * else as many as do themselves. Columns that fill no panel are multiplied as usual. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"
#include "cpu/pairs.h"

enum {
    LEAST_SUMS = 32,
    MOST_TILES = 32,     /* of a strip */
    STRIP_IN = 8 << 10,  /* floats of the points of a strip while panels stay */
    STRIP_OUT = 32 << 10 /* and of their results, where an epilogue reads them again */
};

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

const char *cm_cpu_conv_pairs_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != 1 || !cm_conv_is_points(c))
        return "not one group of points";
    if (!p->constant[1])
        return "the weights are not constant";
    if (c->c_in < LEAST_SUMS || c->c_out < CM_PAIRS_NR)
        return "too short sums, or too few columns, for pairs to pay";
    return cm_conv_reject_channels_last(p);
}

/* Whole panels, and columns that are left. */
static int64_t panels_of(const cm_conv *c)
{
    return c->c_out / CM_PAIRS_NR;
}
static int64_t rest_of(const cm_conv *c)
{
    return c->c_out % CM_PAIRS_NR;
}

static bool panels_stay(const cm_conv *c)
{
    return cm_pairs_panel(c->c_in) * panels_of(c) <= cm_cpu_l2_floats() / 2;
}

/* Tiles of a strip. */
static int64_t strip_of(const cm_conv *c, bool simple)
{
    int64_t most = cm_cpu_l2_floats() / 4 / c->c_in;
    if (panels_stay(c))
        most = cm_min_i64(STRIP_IN / c->c_in,
                          (simple ? cm_cpu_l2_floats() / 4 : STRIP_OUT) / c->c_out);
    return cm_max_i64(1, cm_min_i64(most / CM_PAIRS_MR, MOST_TILES));
}

double cm_cpu_conv_pairs_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    double pixels = (double)cm_conv_pixels(c), sums = (double)c->c_in, n = (double)c->c_out;
    double paired = n - (double)rest_of(c), rest = cm_conv_columns(32, cm_max_i64(1, rest_of(c)));
    double fewer = cm_cpu_info()->adds_beside ? 0.75 : 1.25;
    double columns = paired * fewer * (1 + 2.5 / sums) + (n - paired) * rest * (1 + 4 / sums);
    double compute = 2 * pixels * sums * columns / (0.95 * cm_cpu_flops_per_ns(&p->target));
    double look = pixels * sums * 0.035;
    double weights = panels_stay(c) ? 0 : sums * n / 20;
    double memory = cm_conv_bytes(p) / (8 * cm_cpu_bytes_per_ns(&p->target)) + weights;
    double pieces = pixels / CM_PAIRS_MR * n / CM_PAIRS_NR;
    return 250 + cm_conv_shared(p, compute + memory + look, cm_conv_ns(p), pieces);
}

size_t cm_cpu_conv_pairs_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    int64_t floats = panels_of(c) * cm_pairs_panel(c->c_in) +
                     cm_gemm_f32_packed_b(kernel(p), c->c_in, rest_of(c));
    return input == 1 ? (size_t)floats * sizeof(float) : 0;
}

void cm_cpu_conv_pairs_f32_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                                void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = kernel(p);
    const int64_t *stride = p->in[1]->strides;
    int64_t panel = cm_pairs_panel(c->c_in);
    g->pack_b(c->c_in, c->c_out, from, stride[1], stride[0], to, panel);
    for (int64_t i = 0; i < panels_of(c); i++)
        cm_pairs_pack(c->c_in, CM_PAIRS_SIZE, (float *)to + i * panel);
}

/* The workspace: the sum of two biases, then a copy of a strip's points for each thread. */
static int64_t bias_floats(const cm_conv *c)
{
    return cm_ceil_div(c->c_out, 16) * 16;
}
static int64_t strip_floats(const cm_conv *c)
{
    return strip_of(c, true) * CM_PAIRS_MR * cm_pairs_copied(c->c_in);
}

size_t cm_cpu_conv_pairs_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    int64_t threads = cm_max_i64(1, p->threads);
    return (size_t)(bias_floats(c) + threads * strip_floats(c)) * sizeof(float);
}

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w;
    float *y, *room;
    cm_conv_sink sink;
    int64_t first, pixels; /* of the output, to be done */
    int64_t panels;        /* the last may be of columns that are multiplied as usual */
    int64_t tiles, strips, splits;
    bool copy;                    /* points, or they would meet in one set of the cache */
    bool stay;                    /* all panels do, in the second-level cache */
    const char *next;             /* weights of a later step, to be asked for */
    int64_t next_rows, next_step; /* of 128 bytes; of a tile */
    int64_t share;                /* a thread's units, about */
} job;

static int64_t tile_begin(const job *j, int64_t tile)
{
    return j->first + cm_gemm_tile_begin(j->pixels, j->tiles, tile);
}

enum { NEXT_PANEL = 4 }; /* tiles of a strip that ask for the next panel where it comes from far */

/* Where what tile `tile` of a strip asks for begins: a part of the next panel, which comes from far; else of a later
 * step's weights, of which a thread has asked for *asked rows. *rows: how many, 0: as many as there is time for. */
static const char *ahead_of(const job *j, int64_t tile, int64_t panel, int64_t *asked, int *rows)
{
    int64_t k = j->c->c_in;
    bool far = !j->stay && panel + 1 < panels_of(j->c) && tile < NEXT_PANEL;
    const float *next = j->w + (panel + 1) * cm_pairs_panel(k);
    *rows = 0;
    if (far)
        return (const char *)(next + tile * (k / NEXT_PANEL) * CM_PAIRS_NR);
    if (*asked >= j->next_rows)
        return NULL;
    *asked += j->next_step;
    *rows = (int)j->next_step;
    return j->next + (*asked - j->next_step) * CM_PAIRS_NR * 4;
}

/* Pixels [pixel, pixel + m), those of a strip's tile, by one panel. */
static void one_tile(const job *j, const cm_pairs_rows *rows, int64_t tile, int64_t pixel,
                     int64_t m, int64_t panel, int64_t *asked)
{
    int64_t k = j->c->c_in, ld = j->c->c_out, col = panel * CM_PAIRS_NR;
    const float *b = j->w + panel * cm_pairs_panel(k);
    float *y = j->y + pixel * ld + col;
    if (panel < panels_of(j->c)) {
        cm_pairs_tile t = {.rows = rows,
                           .k = k,
                           .b = b,
                           .start = cm_pairs_packed_start(k, b),
                           .factor = cm_pairs_packed_factor(k, b),
                           .c = y,
                           .ldc = ld,
                           .e = &j->sink.e,
                           .row = pixel,
                           .col = col};
        t.ahead = ahead_of(j, tile, panel, asked, &t.ahead_rows);
        cm_pairs_f32__avx512.tile[m](&t);
        return;
    }
    const float *x = j->x + pixel * k;
    cm_gemm_tile t = {.runs = 1,
                      .k = k,
                      .rows = &x,
                      .rows_apart = k,
                      .b = b,
                      .ldb = CM_PAIRS_NR,
                      .c = y,
                      .ldc = ld,
                      .n = (int)rest_of(j->c),
                      .alpha = 1,
                      .e = &j->sink.e,
                      .row = pixel,
                      .col = col};
    j->g->lined[m](&t);
}

/* Tiles [first, last) by panels [begin, end). */
static void one_strip(const job *j, float *room, int64_t first, int64_t last, int64_t begin,
                      int64_t end, int64_t *asked)
{
    int64_t k = j->c->c_in, ld = j->c->c_out, pixel[MOST_TILES + 1];
    cm_pairs_rows rows[MOST_TILES];
    for (int64_t i = first; i <= last; i++)
        pixel[i - first] = tile_begin(j, i);
    for (int64_t i = 0; i < last - first; i++)
        cm_pairs_rows_of(&rows[i], (int)(pixel[i + 1] - pixel[i]), k, j->x + pixel[i] * k, k,
                         CM_PAIRS_SIZE, j->copy, room + i * CM_PAIRS_MR * cm_pairs_copied(k));
    for (int64_t panel = begin; panel < end; panel++) {
        for (int64_t i = 0; i < last - first; i++)
            one_tile(j, &rows[i], i, pixel[i], pixel[i + 1] - pixel[i], panel, asked);
    }
    if (j->sink.simple)
        return;
    int64_t col = begin * CM_PAIRS_NR, n = cm_min_i64(end * CM_PAIRS_NR, ld) - col;
    cm_epilogue_tile(&j->sink.plan, pixel[0], col, pixel[last - first] - pixel[0], n,
                     j->y + pixel[0] * ld + col, ld);
}

static void some_units(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    float *room = j->room + thread * strip_floats(j->c);
    int64_t asked = begin % j->share * j->next_rows / j->share;
    for (int64_t i = begin; i < end; i++) {
        int64_t split = i % j->splits, strip = i / j->splits;
        one_strip(j, room, strip * j->tiles / j->strips, (strip + 1) * j->tiles / j->strips,
                  split * j->panels / j->splits, (split + 1) * j->panels / j->splits, &asked);
    }
}

/* Threads share pixels, in as many tiles as split evenly, so that each reads what it wrote in the layer before; panels only
 * where there are too few pixels, or weights come from far and split evenly too. */
static void divide(job *j, int threads)
{
    enum { LEAST_ROWS = 7 }; /* of a tile that is still fast */
    j->tiles = cm_gemm_tiles(j->pixels, CM_PAIRS_MR);
    j->strips = cm_ceil_div(j->tiles, strip_of(j->c, j->sink.simple));
    j->splits = 1;
    int64_t even = cm_ceil_div(j->tiles, threads) * threads;
    if (threads > 1 && j->pixels >= LEAST_ROWS * even && (j->stay || j->panels % threads != 0)) {
        int64_t pieces = j->c->c_out > j->pixels ? threads : 4 * threads;
        j->tiles = even;
        j->strips = cm_max_i64(j->strips, cm_min_i64(pieces, j->tiles));
        j->strips = cm_ceil_div(j->strips, threads) * threads;
    } else if (threads > 1) {
        j->splits = cm_min_i64(j->panels, threads);
    }
}

/* How many times a tile asks for nothing of its own step. */
static int64_t free_tiles(const job *j)
{
    int64_t strip = j->tiles / j->strips, panels = panels_of(j->c);
    if (j->stay)
        return j->tiles * panels;
    return j->strips * (cm_max_i64(0, strip - NEXT_PANEL) * (panels - 1) + strip);
}

/* Shares what a thread asks for of a later step's weights out among its tiles: a quarter of the cache at most, and no more than
 * tiles have time for. */
static void look_ahead(job *j, const cm_run *r, int threads)
{
    int64_t rows = cm_min_i64((int64_t)r->ahead_bytes, cm_cpu_l2_floats()) / (CM_PAIRS_NR * 4);
    int64_t time = j->c->c_in / 4 - CM_PAIRS_MR * (j->sink.e.residual ? 2 : 1);
    int64_t tiles = cm_max_i64(1, free_tiles(j) / threads);
    j->share = cm_ceil_div(j->strips * j->splits, threads);
    j->next = r->ahead;
    j->next_step = cm_min_i64(cm_ceil_div(rows, tiles), time);
    j->next_rows = j->next_step > 0 ? rows : 0;
}

cm_status cm_cpu_conv_pairs_f32_run(const cm_run *r)
{
    cm_cpu_conv_pairs_f32_band(r, 0, cm_conv_rows(&r->p->as.conv));
    return CM_OK;
}

void cm_cpu_conv_pairs_f32_band(const cm_run *r, int64_t begin, int64_t end)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    float *sum = r->workspace;
    job j; /* not cleared: it is large */
    j.c = c;
    j.g = kernel(p);
    j.x = r->in[0];
    j.w = r->in[1];
    j.y = r->out[0];
    j.room = sum + bias_floats(c);
    j.first = begin * c->out[2];
    j.pixels = (end - begin) * c->out[2];
    j.panels = panels_of(c) + (rest_of(c) > 0);
    j.copy = c->c_in % 512 == 0;
    j.stay = panels_stay(c);
    cm_conv_sink_init(&j.sink, r, sum);
    double ns = cm_conv_ns(p) * (double)j.pixels / (double)cm_conv_pixels(c);
    int threads = (int)cm_conv_slots(ns, cm_min_i64(p->threads, cm_threads_count(r->threads)));
    divide(&j, threads);
    look_ahead(&j, r, threads);
    if (threads > 1)
        cm_parallel_numbered(r->threads, threads, j.strips * j.splits, some_units, &j);
    else
        some_units(&j, 0, 0, j.strips * j.splits);
}
