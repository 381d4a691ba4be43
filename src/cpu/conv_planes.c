/* conv_planes.c -- convolutions of row-major activations: weights on the left, pixels as columns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A panel is a few adjacent output pixels of an image; its matrix [input channel and kernel position][pixel] is
 * gathered a block at a time and multiplied by all rows of weights. A convolution of points needs no gathering:
 * its panels are the input itself. Packed weights: tiles of [input channel and kernel position][row]. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

enum { BLOCK_FLOATS = 4096 }; /* of a gathered block, on the stack */

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *bias;
    float *y;
    cm_tile_fn spread; /* a number over a line */
    const cm_epilogue_plan *plan;
    bool simple, points;
    cm_simple_epilogue e;
    int64_t k, c_out, tiles; /* of one group */
    int64_t in, out;         /* pixels of a plane */
    int64_t panels, splits;  /* of an image; parts of the tiles */
} job;

/* Pixels [pixel, pixel + n) of image `image`, group `group`, by tiles [first, last). */
typedef struct {
    int64_t image, group, pixel, first, last;
    int n;
} unit;

const char *cm_cpu_conv_planes_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_ROW_MAJOR))
        return "not row-major";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    return cm_conv_reject_common(p, cm_conv_plane_columns(p->out[0]));
}

static int64_t plane(const int64_t *sizes)
{
    return sizes[0] * sizes[1] * sizes[2];
}

double cm_cpu_conv_planes_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    double panels = (double)cm_ceil_div(plane(c->out), g->nr), pieces = panels * (double)c->n;
    double whole = panels * g->nr / (double)plane(c->out);
    double rows = (double)(c->c_out / c->groups), few = rows < 4 ? 4 / rows : 1;
    double compute = cm_conv_flops(c) * whole * few / (0.85 * cm_cpu_flops_per_ns(&p->target));
    /* Parts of rows, 10 ns each, and their elements. */
    double parts = pieces * (1 + g->nr / (double)c->out[2]) * (double)(cm_conv_taps(c) * c->c_in);
    double elem = c->stride[2] == 1 ? 0.08 : 0.3;
    double gathered =
        cm_conv_is_points(c) ? 0 : parts * (10 + elem * (double)cm_min_i64(g->nr, c->out[2]));
    double memory = cm_conv_bytes(p) / (4 * cm_cpu_bytes_per_ns(&p->target));
    return 200 + cm_conv_shared(p, compute + gathered + memory, cm_conv_ns(p),
                                pieces * (double)c->groups);
}

size_t cm_cpu_conv_planes_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)cm_tensor_elems(p->in[1]) * sizeof(float) : 0;
}

size_t cm_cpu_conv_planes_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return cm_conv_packs_in_run(p) ? cm_cpu_conv_planes_f32_pack_bytes(p, k, 1) : 0;
}

void cm_cpu_conv_planes_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    const int64_t *stride = p->in[1]->strides;
    int64_t c_in = c->c_in / c->groups, c_out = c->c_out / c->groups, taps = cm_conv_taps(c);
    int64_t tiles = cm_gemm_tiles(c_out, g->mr), sums = c_in * taps;
    bool dense = cm_tensor_is_dense(p->in[1]);
    for (int64_t t = 0; t < tiles * c->groups; t++) {
        int64_t first = cm_gemm_tile_begin(c_out, tiles, t % tiles);
        int64_t m = cm_gemm_tile_begin(c_out, tiles, t % tiles + 1) - first;
        first += t / tiles * c_out;
        const float *w = (const float *)from + first * stride[0];
        float *packed = (float *)to + first * sums;
        if (dense)
            g->pack_a(m, sums, w, stride[0], 1, packed);
        for (int64_t i = 0; i < sums && !dense; i++)
            g->pack_a(m, 1, w + i / taps * stride[1] + cm_conv_tap_offset(p, i % taps), stride[0],
                      1, packed + i * m);
    }
}

/* n elements of a row, `step` apart from column `at` on, zeros outside [0, width). */
static void gather_row(const float *row, int64_t width, int64_t at, int64_t step, int64_t n,
                       float *to)
{
    int64_t first = 0, last = n;
    if (at < 0)
        first = cm_min_i64(n, cm_ceil_div(-at, step));
    if (at + (n - 1) * step >= width)
        last = cm_max_i64(first, at < width ? cm_ceil_div(width - at, step) : 0);
    for (int64_t i = 0; i < first; i++)
        to[i] = 0;
    if (step == 1 && last - first == 32)
        memcpy(to + first, row + at + first, 32 * sizeof *to);
    else if (step == 1 && last - first == 16)
        memcpy(to + first, row + at + first, 16 * sizeof *to);
    else if (step == 1)
        memcpy(to + first, row + at + first, (size_t)(last - first) * sizeof *to);
    else
        for (int64_t i = first; i < last; i++)
            to[i] = row[at + i * step];
    for (int64_t i = last; i < n; i++)
        to[i] = 0;
}

/* Row `k` of the panel's matrix: one input channel, one kernel position. */
static void gather(const job *j, const unit *u, int64_t k, float *to)
{
    const cm_conv *c = j->c;
    int64_t taps = cm_conv_taps(c), tap = k % taps;
    int64_t channel = u->group * (c->c_in / c->groups) + k / taps;
    const float *x = j->x + (u->image * c->c_in + channel) * j->in;
    int64_t kx = tap % c->kernel[2], ky = tap / c->kernel[2] % c->kernel[1];
    int64_t kz = tap / c->kernel[2] / c->kernel[1];
    for (int64_t i = 0, n; i < u->n; i += n) {
        int64_t ox = (u->pixel + i) % c->out[2], row = (u->pixel + i) / c->out[2];
        int64_t iz = row / c->out[1] * c->stride[0] - c->pad[0] + kz * c->dilation[0];
        int64_t iy = row % c->out[1] * c->stride[1] - c->pad[1] + ky * c->dilation[1];
        n = cm_min_i64(c->out[2] - ox, u->n - i);
        if (iz < 0 || iz >= c->in[0] || iy < 0 || iy >= c->in[1])
            memset(to + i, 0, (size_t)n * sizeof *to);
        else
            gather_row(x + (iz * c->in[1] + iy) * c->in[2], c->in[2],
                       ox * c->stride[2] + kx * c->dilation[2] - c->pad[2], c->stride[2], n,
                       to + i);
    }
    for (int64_t i = u->n; i < j->g->nr; i++)
        to[i] = 0;
}

/* Sums [begin, end) of every tile of the unit, their panel being b. */
static void multiply(const job *j, const unit *u, const float *b, int64_t ldb, int64_t begin,
                     int64_t end)
{
    for (int64_t tile = u->first; tile < u->last; tile++) {
        int64_t i = cm_gemm_tile_begin(j->c_out, j->tiles, tile);
        int64_t m = cm_gemm_tile_begin(j->c_out, j->tiles, tile + 1) - i;
        int64_t channel = u->group * j->c_out + i, row = u->image * j->c->c_out + channel;
        cm_gemm_tile t = {.runs = 1,
                          .k = end - begin,
                          .a = j->w + channel * j->k + begin * m,
                          .b = b,
                          .ldb = ldb,
                          .c = j->y + row * j->out + u->pixel,
                          .ldc = j->out,
                          .n = u->n,
                          .alpha = 1,
                          .add = begin > 0 || j->bias,
                          .e = end == j->k ? &j->e : NULL,
                          .row = row,
                          .col = u->pixel};
        for (int64_t r = 0; begin == 0 && j->bias && r < m; r++)
            j->spread(t.c + r * t.ldc, j->bias + channel + r, NULL, NULL, t.n);
        j->g->packed[m](&t);
        if (end == j->k && !j->simple)
            cm_epilogue_tile(j->plan, row, u->pixel, m, u->n, t.c, t.ldc);
    }
}

static void one_unit(const job *j, const unit *u)
{
    float block[BLOCK_FLOATS];
    int64_t nr = j->g->nr, most = BLOCK_FLOATS / nr;
    if (j->points && u->n == nr) {
        int64_t channel = u->image * j->c->c_in + u->group * j->k;
        multiply(j, u, j->x + channel * j->in + u->pixel, j->in, 0, j->k);
        return;
    }
    for (int64_t k = 0, n; k < j->k; k += n) {
        n = cm_min_i64(most, j->k - k);
        for (int64_t i = 0; i < n; i++)
            gather(j, u, k + i, block + i * nr);
        multiply(j, u, block, nr, k, k + n);
    }
}

static void some_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t pixel = i % j->panels * j->g->nr, rest = i / j->panels;
        int64_t split = rest % j->splits, plane_group = rest / j->splits;
        unit u = {.image = plane_group / j->c->groups,
                  .group = plane_group % j->c->groups,
                  .pixel = pixel,
                  .n = (int)cm_min_i64(j->g->nr, j->out - pixel),
                  .first = split * j->tiles / j->splits,
                  .last = (split + 1) * j->tiles / j->splits};
        one_unit(j, &u);
    }
}

cm_status cm_cpu_conv_planes_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    cm_epilogue_plan plan;
    job j = {.c = c,
             .g = cm_gemm_f32_kernel_of(p->target.level),
             .x = r->in[0],
             .w = r->in[1],
             .bias = c->bias ? r->in[2] : NULL,
             .y = r->out[0],
             .plan = &plan,
             .spread = cm_tile_kernels_at(p->target.level)->op[CM_TILE_SPLAT].each,
             .points = cm_conv_is_points(c),
             .k = c->c_in / c->groups * cm_conv_taps(c),
             .c_out = c->c_out / c->groups,
             .in = plane(c->in),
             .out = plane(c->out),
             .splits = 1};
    int n_col_axes = cm_conv_plane_columns(p->out[0]);
    j.simple = cm_epilogue_init_or_simple(&plan, r, n_col_axes, &j.e);
    if (cm_conv_packs_in_run(p)) {
        cm_cpu_conv_planes_f32_pack(p, r->k, 1, r->in[1], r->workspace, r->threads);
        j.w = r->workspace;
    }
    j.tiles = cm_gemm_tiles(j.c_out, j.g->mr);
    j.panels = cm_ceil_div(j.out, j.g->nr);
    int64_t units = c->n * c->groups * j.panels, threads = cm_threads_count(r->threads);
    if (threads > 1 && units < 4 * threads)
        j.splits = cm_min_i64(j.tiles, cm_ceil_div(4 * threads, units));
    cm_conv_parallel(r, cm_conv_ns(p), units * j.splits, some_units, &j);
    return CM_OK;
}
