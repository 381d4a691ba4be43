/* pool.c -- POOL: the largest, the mean or the norm of each window.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last: each output pixel reduces the pixels of its window, channels beside each other in
 * vectors. Row-major: the rows of a window are reduced into one line, and the line along itself; a window
 * as wide as that is worth nothing to (global pools) reduces lines one by one. */
#include "cpu/pool.h"

#include <math.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"
#include "cpu/quant_pool.h"

enum {
    LINE = 2048, /* floats of a line of windows */
    TILE = 1024, /* floats of a tile before its epilogue */
    PIECE_NS =
        2000, /* a piece of work for a thread; less than it gains, but rows stay with whom they are of */
};

typedef struct job {
    cm_pool c;
    const cm_pool_kernels *kernels;
    const void *x;
    bool half; /* x is bfloat16 */
    float *y;  /* NULL: through the epilogue */
    cm_epilogue_plan epilogue;
    cm_reducing reducing;
    int64_t block, blocks; /* channels-last: channels in an item of work */
} job;

/* Positions of a window that lie inside the input along one axis. */
typedef struct span {
    int64_t from, n; /* from: of the first, in the input */
} span;

static span span_of(const cm_pool *c, int d, int64_t out)
{
    const int64_t at = out * c->stride[d] - c->pad[d], step = c->dilation[d];
    int64_t first = at < 0 ? cm_ceil_div(-at, step) : 0;
    int64_t end = at < c->in[d] ? cm_min_i64(c->kernel[d], cm_ceil_div(c->in[d] - at, step)) : 0;
    return (span){at + first * step, cm_max_i64(end - first, 0)};
}

/* What a mean divides by along one axis. */
static float count_of(const cm_pool *c, int d, int64_t out)
{
    if (!c->count_pads)
        return (float)span_of(c, d, out).n;
    if (c->count_overhang)
        return (float)c->kernel[d];
    int64_t room = c->in[d] + c->pad[d] + c->pad_end[d] - out * c->stride[d];
    return (float)cm_min_i64(c->kernel[d], cm_max_i64(cm_ceil_div(room, c->dilation[d]), 1));
}

static cm_reducing reducing_of(const cm_pool *c)
{
    return c->kind == CM_POOL_MAX       ? CM_REDUCING_MAX
           : c->kind == CM_POOL_AVERAGE ? CM_REDUCING_SUM
           : c->p == 1                  ? CM_REDUCING_MAGNITUDES
                                        : CM_REDUCING_SQUARES;
}

static const char *reject(const cm_problem *p)
{
    if (p->as.pool.indices >= 0)
        return "the places of the largest are not kept";
    if (p->as.pool.kind == CM_POOL_LP && p->as.pool.p > 2)
        return "a norm other than the first and the second";
    return NULL;
}

static const char *reject_channels_last(const cm_problem *p)
{
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "input and output are not channels-last";
    if (p->in[0]->dtype != CM_F32 && p->in[0]->dtype != CM_BF16)
        return "neither float32 nor bfloat16";
    const char *why = reject(p);
    return why ? why : cm_epilogue_reject(p, cm_conv_channel_columns(p->out[0]));
}

static const char *reject_planes(const cm_problem *p)
{
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_ROW_MAJOR))
        return "input and output are not row-major";
    if (p->in[0]->dtype != CM_F32)
        return "not float32";
    const char *why = reject(p);
    return why ? why : cm_epilogue_reject(p, cm_conv_plane_columns(p->out[0]));
}

static double elems(const int64_t *n)
{
    return (double)n[0] * (double)n[1] * (double)n[2];
}

/* Elements that windows read, as far as they lie inside. */
static double taps(const cm_pool *c)
{
    double n = (double)c->n * (double)c->c;
    for (int d = 0; d < 3; d++)
        n *= (double)c->out[d] * (double)cm_min_i64(c->kernel[d], c->in[d]);
    return n;
}

/* Memory, or the windows' elements at `per_ns`, whichever is more. */
static double cost_at(const cm_problem *p, double per_ns)
{
    const cm_pool *c = &p->as.pool;
    double bytes = 4.0 * (double)c->n * (double)c->c * (elems(c->in) + elems(c->out));
    double memory = bytes / cm_cpu_bytes_per_ns(&p->target), work = taps(c) / per_ns;
    double ns = 200 + (memory > work ? memory : work);
    return ns / cm_cpu_speedup(p, ns / PIECE_NS);
}

static double cost_channels_last(const cm_problem *p, const cm_knobs *k)
{
    static const double per_ns[] = {4, 12, 20, 20};
    (void)k;
    double full = (double)cm_min_i64(p->as.pool.c, 16) / 16; /* of a vector */
    return cost_at(p, per_ns[p->target.level] * full);
}

static double cost_planes(const cm_problem *p, const cm_knobs *k)
{
    static const double per_ns[] = {2, 5, 8, 8};
    (void)k;
    return cost_at(p, per_ns[p->target.level]);
}

/* Axes that the window covers whole are one: 7x7 is a line of 49. */
static void merge_covered(cm_pool *c)
{
    bool whole[3];
    for (int d = 0; d < 3; d++)
        whole[d] = c->out[d] == 1 && c->kernel[d] == c->in[d] && c->pad[d] == 0 &&
                   c->pad_end[d] == 0 && (c->dilation[d] == 1 || c->in[d] == 1);
    for (int d = 1; d >= 0; d--)
        if (whole[d] && whole[2] && (d == 1 || c->in[1] == 1)) {
            c->in[2] *= c->in[d];
            c->kernel[2] = c->in[2];
            c->dilation[2] = 1;
            c->in[d] = c->kernel[d] = c->dilation[d] = 1;
        }
}

static void start(job *j, const cm_run *r, int n_col_axes)
{
    const cm_problem *p = r->p;
    j->c = p->as.pool;
    j->x = r->in[0];
    j->half = p->in[0]->dtype == CM_BF16;
    j->y = NULL;
    j->kernels = p->target.level >= CM_ISA_AVX512 ? &cm_cpu_pool__avx512
                 : p->target.level >= CM_ISA_AVX2 ? &cm_cpu_pool__avx2
                                                  : &cm_cpu_pool__generic;
    j->reducing = reducing_of(&j->c);
    if (p->epilogue || p->out[0]->dtype != CM_F32)
        cm_epilogue_init(&j->epilogue, r, n_col_axes);
    else
        j->y = r->out[0];
}

/* Items that make a piece of work, given the elements that all windows read. */
static int64_t grain_of(const job *j, int64_t items)
{
    double ns = taps(&j->c) / 4 / (double)items;
    return (int64_t)(PIECE_NS / (ns + 1)) + 1;
}

/* Windows of output pixels [x, x + n) of a row, as far as they are cut like that of x; returns how many. `base` is the first's
 * line. */
static int64_t pixels(const job *j, const char *base, cm_pool_window w, float count, int64_t x,
                      int64_t n, int64_t channels, float *to)
{
    const cm_pool *c = &j->c;
    const span sx = span_of(c, 2, x);
    bool empty = w.n[0] == 0 || w.n[1] == 0 || sx.n == 0;
    int64_t beyond =
        c->in[2] + c->pad[2] - (c->kernel[2] - 1) * c->dilation[2]; /* no window begins there */
    if (x * c->stride[2] >= c->pad[2] && x * c->stride[2] < beyond)
        w.pixels = cm_min_i64(n, (beyond - 1) / c->stride[2] + 1 - x);
    w.x = base + sx.from * c->c * (j->half ? 2 : 4);
    w.n[2] = sx.n;
    if (empty)
        w.n[0] = 0;
    j->kernels->window[j->half][j->reducing](&w, channels, empty ? 1 : count * count_of(c, 2, x),
                                             to);
    return w.pixels;
}

/* One row of output pixels, some channels; as many at a time as a tile holds where an epilogue follows. */
static void pixel_row(const job *j, int64_t image, int64_t z, int64_t y, int64_t channel)
{
    const cm_pool *c = &j->c;
    const int64_t channels = cm_min_i64(j->block, c->c - channel);
    const span sz = span_of(c, 0, z), sy = span_of(c, 1, y);
    const float count = count_of(c, 0, z) * count_of(c, 1, y);
    const int64_t row = c->in[2] * c->c, plane = c->in[1] * row;
    const int64_t from = (image * c->in[0] + sz.from) * plane + sy.from * row + channel;
    const char *base = (const char *)j->x + from * (j->half ? 2 : 4);
    const cm_pool_window w = {
        .n = {sz.n, sy.n, 0},
        .step = {plane * c->dilation[0], row * c->dilation[1], c->c * c->dilation[2]},
        .pixels = 1,
        .apart = c->c * c->stride[2],
        .to_apart = j->y ? c->c : channels};
    const int64_t at = ((image * c->out[0] + z) * c->out[1] + y) * c->out[2];
    const int64_t most = j->y ? c->out[2] : cm_max_i64(1, TILE / channels);
    for (int64_t x = 0, n; x < c->out[2]; x += n) {
        float tile[TILE], *to = j->y ? j->y + (at + x) * c->c + channel : tile;
        n = cm_min_i64(most, c->out[2] - x);
        for (int64_t i = 0; i < n;)
            i += pixels(j, base, w, count, x + i, n - i, channels, to + i * w.to_apart);
        if (!j->y)
            cm_epilogue_tile(&j->epilogue, at + x, channel, n, channels, tile, channels);
    }
}

static void pixel_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / j->blocks;
        pixel_row(j, row / j->c.out[1] / j->c.out[0], row / j->c.out[1] % j->c.out[0],
                  row % j->c.out[1], i % j->blocks * j->block);
    }
}

static cm_status run_channels_last(const cm_run *r)
{
    job j;
    start(&j, r, cm_conv_channel_columns(r->p->out[0]));
    int64_t rows = j.c.n * j.c.out[0] * j.c.out[1];
    bool few = rows < 4 * cm_threads_count(r->threads); /* then channels are divided too */
    j.block = cm_min_i64(j.c.c, few ? 64 : j.y ? j.c.c : TILE);
    j.blocks = cm_ceil_div(j.c.c, j.block);
    cm_parallel(r->threads, rows * j.blocks, grain_of(&j, rows * j.blocks), pixel_rows, &j);
    return CM_OK;
}

/* Outputs [x, x + n) of a row; a line of theirs fits t. Padding at the sides is written into it. */
static void row_of_lines(const job *j, const float *plane, span sz, span sy, int64_t x, int64_t n,
                         float *y)
{
    const cm_pool *c = &j->c;
    float t[LINE + CM_POOL_SLACK];
    const float none = j->reducing == CM_REDUCING_MAX ? -INFINITY : 0;
    const int64_t from = x * c->stride[2] - c->pad[2];
    const int64_t width = (n - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1;
    const int64_t left = cm_min_i64(cm_max_i64(-from, 0), width);
    const int64_t inside = cm_max_i64(cm_min_i64(width, c->in[2] - from) - left, 0);
    for (int64_t i = 0; i < left; i++)
        t[i] = none;
    for (int64_t i = left + inside; i < width; i++)
        t[i] = none;
    for (int64_t k = 0; k < sz.n * sy.n; k++) {
        int64_t iz = sz.from + k / sy.n * c->dilation[0], iy = sy.from + k % sy.n * c->dilation[1];
        const float *row = plane + (iz * c->in[1] + iy) * c->in[2] + from + left;
        j->kernels->down[j->reducing](t + left, row, inside, k > 0);
    }
    if (sz.n * sy.n == 0)
        for (int64_t i = 0; i < inside; i++)
            t[left + i] = none;
    j->kernels->along[j->reducing](t, n, c->kernel[2], c->stride[2], c->dilation[2], y);
}

/* One output from its lines, however long; or from its elements where they are apart. */
static float wide_window(const job *j, const float *plane, span sz, span sy, span sx)
{
    const cm_pool *c = &j->c;
    const bool is_max = j->reducing == CM_REDUCING_MAX;
    float all = is_max ? -INFINITY : 0;
    for (int64_t k = 0; k < sz.n * sy.n; k++) {
        int64_t iz = sz.from + k / sy.n * c->dilation[0], iy = sy.from + k % sy.n * c->dilation[1];
        const float *row = plane + (iz * c->in[1] + iy) * c->in[2] + sx.from;
        int64_t step = c->dilation[2], lines = step == 1 ? sx.n > 0 : sx.n;
        for (int64_t i = 0; i < lines; i++) {
            float v = j->kernels->line[j->reducing](row + i * step, step == 1 ? sx.n : 1);
            all = !is_max ? all + v : v > all || v != v ? v : all;
        }
    }
    return all;
}

/* Does position `out` of the last axis see a whole window, and none of the padding? */
static bool is_inside(const cm_pool *c, int64_t out)
{
    int64_t from = out * c->stride[2] - c->pad[2];
    return from >= 0 && from + (c->kernel[2] - 1) * c->dilation[2] < c->in[2];
}

/* Means of outputs [from, to) of a row whose first is x; count: of the other axes. */
static void divide(const cm_pool *c, float count, int64_t x, int64_t from, int64_t to, float *v)
{
    for (int64_t i = from; i < to; i++) {
        float divisor = count * count_of(c, 2, x + i);
        v[i] = divisor > 0 ? v[i] / divisor : 0;
    }
}

/* Sums to results. */
static void finish_row(const job *j, int64_t z, int64_t y, int64_t x, int64_t n, float *v)
{
    if (j->reducing == CM_REDUCING_SQUARES)
        for (int64_t i = 0; i < n; i++)
            v[i] = sqrtf(v[i]);
    if (j->reducing != CM_REDUCING_SUM)
        return;
    const float count = count_of(&j->c, 0, z) * count_of(&j->c, 1, y);
    const float whole = count * (float)j->c.kernel[2];
    int64_t from = 0, to = n;
    while (from < n && !is_inside(&j->c, x + from))
        from++;
    while (to > from && !is_inside(&j->c, x + to - 1))
        to--;
    divide(&j->c, count, x, 0, from, v);
    divide(&j->c, count, x, to, n, v);
    for (int64_t i = from; i < to; i++)
        v[i] = whole > 0 ? v[i] / whole : 0;
}

/* One row of outputs of a plane, in pieces that fit the line. */
static void plane_row(const job *j, int64_t plane, int64_t z, int64_t y)
{
    const cm_pool *c = &j->c;
    const span sz = span_of(c, 0, z), sy = span_of(c, 1, y);
    const float *x = (const float *)j->x + plane * c->in[0] * c->in[1] * c->in[2];
    const int64_t reach = (c->kernel[2] - 1) * c->dilation[2] + 1;
    const bool wide = reach > LINE / 2 || (c->out[2] == 1 && reach > 8);
    const int64_t most = wide ? 1 : cm_min_i64((LINE - reach) / c->stride[2] + 1, TILE);
    const int64_t row = (z * c->out[1] + y) * c->out[2], volume = c->out[0] * c->out[1] * c->out[2];
    for (int64_t at = 0; at < c->out[2]; at += most) {
        float tile[TILE], *to = j->y ? j->y + plane * volume + row + at : tile;
        int64_t n = cm_min_i64(most, c->out[2] - at);
        if (wide)
            *to = wide_window(j, x, sz, sy, span_of(c, 2, at));
        else
            row_of_lines(j, x, sz, sy, at, n, to);
        finish_row(j, z, y, at, n, to);
        if (!j->y)
            cm_epilogue_tile(&j->epilogue, plane, row + at, 1, n, to, n);
    }
}

/* Are the windows 2 x 2, side by side and whole? */
static bool in_quarters(const cm_pool *c)
{
    bool so = c->kernel[0] == 1 && c->stride[0] == 1 && c->pad[0] == 0 && c->out[0] == c->in[0];
    for (int d = 1; d < 3; d++)
        so = so && c->kernel[d] == 2 && c->stride[d] == 2 && c->dilation[d] == 1 &&
             c->pad[d] == 0 && 2 * c->out[d] <= c->in[d];
    return so;
}

/* Rows [begin, end) of all planes, as many at a time as are in one. */
static void quarter_rows(const job *j, int64_t begin, int64_t end)
{
    const cm_pool *c = &j->c;
    for (int64_t i = begin, n; i < end; i += n) {
        int64_t slice = i / c->out[1], y = i % c->out[1];
        n = cm_min_i64(end - i, c->out[1] - y);
        j->kernels->quarters[j->reducing]((const float *)j->x +
                                              (slice * c->in[1] + 2 * y) * c->in[2],
                                          c->in[2], n, c->out[2], j->y + i * c->out[2]);
    }
}

static void plane_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    if (j->y && in_quarters(&j->c)) {
        quarter_rows(j, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        plane_row(j, i / j->c.out[1] / j->c.out[0], i / j->c.out[1] % j->c.out[0], i % j->c.out[1]);
}

static cm_status run_planes(const cm_run *r)
{
    job j;
    start(&j, r, cm_conv_plane_columns(r->p->out[0]));
    merge_covered(&j.c);
    int64_t rows = j.c.n * j.c.c * j.c.out[0] * j.c.out[1];
    cm_parallel(r->threads, rows, grain_of(&j, rows), plane_rows, &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "pool_channels_last",
     .level = CM_ISA_GENERIC,
     .reject = reject_channels_last,
     .cost = cost_channels_last,
     .run = run_channels_last},
    {.name = "pool_planes_f32",
     .level = CM_ISA_GENERIC,
     .reject = reject_planes,
     .cost = cost_planes,
     .run = run_planes},
    {.name = "pool_bytes",
     .level = CM_ISA_GENERIC,
     .reject = cm_cpu_pool_bytes_reject,
     .cost = cm_cpu_pool_bytes_cost,
     .run = cm_cpu_pool_bytes_run},
    CM_ROW(pool_half, GENERIC, CM_HAS_WORKSPACE(pool_half)),
};

const cm_cpu_table cm_cpu_pool = {rows, CM_COUNT(rows)};
