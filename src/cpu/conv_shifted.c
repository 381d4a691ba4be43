/* conv_shifted.c -- convolutions of row-major activations, without gathering windows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The input is copied once, padding written out, rows split into `stride` phases (columns 0, s, 2s, ..., then 1,
 * s + 1, ...). Then what a kernel position reads for adjacent outputs of a row is adjacent too, at a shift that is
 * the same for every row: a tile multiplies weights by rows of the copy where they lie. Weights are packed as
 * conv_planes.c does. Good where planes are wide and weights few: the first layers of a network, small networks. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/conv_copied.h"
#include "cpu/gemm.h"

enum {
    ROWS_AT_ONCE = 4,           /* output rows that share a look at the weights */
    MOST_FLOATS = 1 << 29,      /* of the copy: shifts are 32 bits */
    WEIGHTS_IN_CACHE = 1 << 17, /* floats that stay near while a row is computed */
};

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *bias;
    float *y, *copy;
    int32_t *shift;
    cm_conv_copied s;
    const cm_epilogue_plan *plan;
    bool simple;
    cm_simple_epilogue e;
    int64_t k, c_out, tiles; /* of one group */
    int64_t blocks;          /* of rows, in an image */
} job;

static size_t copy_bytes(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    size_t floats = (size_t)(c->n * c->c_in * cm_conv_copied_of(c).plane) + CM_GEMM_MAX_NR;
    return cm_round_up(floats * sizeof(float), 64);
}

static size_t shift_bytes(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return cm_round_up((size_t)(c->c_in / c->groups * cm_conv_taps(c)) * sizeof(int32_t), 64);
}

const char *cm_cpu_conv_shifted_f32_reject(const cm_problem *p)
{
    const char *why = cm_cpu_conv_planes_f32_reject(p);
    if (why)
        return why;
    const cm_conv *c = &p->as.conv;
    double floats = (double)c->n * (double)c->c_in;
    for (int d = 0; d < 3; d++)
        floats *= (double)cm_conv_extent(c, d) + (double)c->stride[d];
    return floats > MOST_FLOATS ? "the padded input is too large" : NULL;
}

double cm_cpu_conv_shifted_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    double rows = (double)(c->c_out / c->groups), few = rows < 4 ? 4 / rows : 1;
    double weights = rows * (double)(c->c_in / c->groups * cm_conv_taps(c));
    double rate = (weights > WEIGHTS_IN_CACHE ? 0.5 : 0.85) * cm_cpu_flops_per_ns(&p->target);
    double compute = cm_conv_flops(c) * cm_conv_columns(g->nr, c->out[2]) * few / rate;
    double copy = (double)copy_bytes(p) * (c->stride[2] == 1 ? 0.04 : 0.25);
    double memory = cm_conv_bytes(p) / (4 * cm_cpu_bytes_per_ns(&p->target));
    double lines = (double)(c->n * c->groups * c->out[0] * c->out[1]);
    double tiles = lines * (double)(cm_gemm_tiles(c->c_out / c->groups, g->mr) *
                                    cm_ceil_div(c->out[2], g->nr));
    return 200 + cm_conv_shared(p, compute + copy + memory + 8 * tiles, cm_conv_ns(p),
                                lines / ROWS_AT_ONCE);
}

size_t cm_cpu_conv_shifted_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return copy_bytes(p) + shift_bytes(p) + cm_cpu_conv_planes_f32_workspace(p, k);
}

static void copy_planes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    for (int64_t i = begin; i < end; i++)
        cm_conv_copy_plane(c, &j->s, j->x + i * c->in[0] * c->in[1] * c->in[2],
                           j->copy + i * j->s.plane);
}

/* Columns [column, column + n) of output row `line`, rows of weights of one tile. */
static void one_tile(const job *j, int64_t image, int64_t group, int64_t tile, int64_t line,
                     int64_t column, int n)
{
    const cm_conv *c = j->c;
    int64_t i = cm_gemm_tile_begin(j->c_out, j->tiles, tile);
    int64_t m = cm_gemm_tile_begin(j->c_out, j->tiles, tile + 1) - i;
    int64_t channel = group * j->c_out + i, row = image * c->c_out + channel;
    int64_t plane = c->out[0] * c->out[1] * c->out[2], pixel = line * c->out[2] + column;
    int64_t from = line / c->out[1] * c->stride[0] * j->s.rows + line % c->out[1] * c->stride[1];
    int64_t first = image * c->c_in + group * (c->c_in / c->groups);
    cm_gemm_tile t = {.runs = 1,
                      .k = j->k,
                      .a = j->w + channel * j->k,
                      .b = j->copy + first * j->s.plane + from * j->s.line + column,
                      .shift = j->shift,
                      .c = j->y + row * plane + pixel,
                      .ldc = plane,
                      .n = n,
                      .alpha = 1,
                      .start = j->bias ? j->bias + channel : NULL,
                      .e = &j->e,
                      .row = row,
                      .col = pixel};
    j->g->shifted[m](&t);
    if (!j->simple)
        cm_epilogue_tile(j->plan, row, pixel, m, n, t.c, t.ldc);
}

static void some_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t lines = j->c->out[0] * j->c->out[1], width = j->c->out[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % j->blocks * ROWS_AT_ONCE, planes = i / j->blocks;
        int64_t last = cm_min_i64(lines, first + ROWS_AT_ONCE);
        for (int64_t tile = 0; tile < j->tiles; tile++)
            for (int64_t line = first; line < last; line++)
                for (int64_t column = 0; column < width; column += j->g->nr)
                    one_tile(j, planes / j->c->groups, planes % j->c->groups, tile, line, column,
                             (int)cm_min_i64(j->g->nr, width - column));
    }
}

cm_status cm_cpu_conv_shifted_f32_run(const cm_run *r)
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
             .copy = r->workspace,
             .shift = (int32_t *)((char *)r->workspace + copy_bytes(p)),
             .s = cm_conv_copied_of(c),
             .k = c->c_in / c->groups * cm_conv_taps(c),
             .c_out = c->c_out / c->groups,
             .blocks = cm_ceil_div(c->out[0] * c->out[1], ROWS_AT_ONCE)};
    int n_col_axes = cm_conv_plane_columns(p->out[0]);
    j.simple = cm_epilogue_init_or_simple(&plan, r, n_col_axes, &j.e);
    if (cm_conv_packs_in_run(p)) {
        float *packed = (float *)((char *)j.shift + shift_bytes(p));
        cm_cpu_conv_planes_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    j.tiles = cm_gemm_tiles(j.c_out, j.g->mr);
    cm_conv_set_shifts(c, &j.s, c->c_in / c->groups, j.shift);
    memset(j.copy + c->n * c->c_in * j.s.plane, 0, CM_GEMM_MAX_NR * sizeof(float));
    cm_parallel(r->threads, c->n * c->c_in, 1 + 16384 / (j.s.plane + 1), copy_planes, &j);
    cm_conv_parallel(r, cm_conv_ns(p), c->n * c->groups * j.blocks, some_blocks, &j);
    return CM_OK;
}
