/* conv_winograd.c -- 3x3 convolutions of stride 1 by Winograd's F(m x m, 3 x 3).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of all images are numbered in order and cut into blocks. A block's transformed inputs (V) and the
 * products of a group of output channels (M) stay in L2 while all positions are multiplied; the output's
 * transform and the epilogue take M to its place. Where tiles are few and channels many, the weights'
 * traffic is what counts: then V is made once for all (`shared`) and threads divide output channels. */
#include <stdatomic.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/conv_winograd.h"
#include "cpu/epilogue.h"
#include "cpu/gemm.h"

/* How one problem is cut up. */
typedef struct geometry {
    const cm_winograd_kernels *kernels;
    const cm_gemm_f32_kernel *product;
    int m, t, form;
    int64_t images, h, w, out_h, out_w, c_in, c_out, pad_y, pad_x;
    int64_t tiles_y, tiles_x, tiles;
    int64_t block, blocks;         /* tiles in a block */
    int64_t panels, group, groups; /* panels of output channels in a group */
    int64_t v_tile, v_position;    /* strides */
    int64_t m_tile, m_position;
    bool shared;
    int threads;
} geometry;

static const cm_winograd_kernels *kernels_of(const cm_problem *p)
{
    return p->target.level >= CM_ISA_AVX512 ? &cm_cpu_winograd__avx512
           : p->target.level >= CM_ISA_AVX2 ? &cm_cpu_winograd__avx2
                                            : &cm_cpu_winograd__generic;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static const char *reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != 1)
        return "Winograd is for plain convolutions in one group";
    for (int d = 0; d < 3; d++)
        if (c->stride[d] != 1 || c->dilation[d] != 1 || c->kernel[d] != (d == 0 ? 1 : 3))
            return "Winograd is for 3x3 kernels with stride 1 and dilation 1";
    if (c->in[0] != c->out[0] || c->pad[0] != 0)
        return "Winograd does not pad the depth of a volume";
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32 || p->out[0]->dtype != CM_F32)
        return "Winograd computes in float32 from and to float32";
    if (p->lean)
        return "Winograd's weights are 1.8 to 7.1 times as large, and memory is short";
    if (!p->constant[1])
        return "Winograd transforms weights ahead of time, so they must be constant";
    if (!(cm_conv_layout_of(p->in[0]) & CM_CONV_CHANNELS_LAST) ||
        !(cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST) || p->out[0]->strides[1] != 1)
        return "Winograd wants input and output channels-last";
    if (c->bias && (p->in[2]->dtype != CM_F32 || p->in[2]->strides[0] != 1))
        return "the bias is not plain float32";
    return cm_epilogue_reject(p, cm_conv_channel_columns(p->out[0]));
}

static void set_sizes(geometry *g, const cm_problem *p, int m)
{
    const cm_conv *c = &p->as.conv;
    *g = (geometry){.kernels = kernels_of(p),
                    .product = cm_gemm_f32_kernel_of(p->target.level),
                    .m = m,
                    .t = m + 2,
                    .form = m / 2 - 1,
                    .images = c->n * c->in[0],
                    .h = c->in[1],
                    .w = c->in[2],
                    .out_h = c->out[1],
                    .out_w = c->out[2],
                    .c_in = c->c_in,
                    .c_out = c->c_out,
                    .pad_y = c->pad[1],
                    .pad_x = c->pad[2],
                    .threads = p->threads > 1 ? p->threads : 1};
    g->tiles_y = (g->out_h + m - 1) / m;
    g->tiles_x = (g->out_w + m - 1) / m;
    g->tiles = g->images * g->tiles_y * g->tiles_x;
    g->panels = (g->c_out + g->product->nr - 1) / g->product->nr;
}

/* An odd number of cache lines, so that positions do not fall into the same sets. */
static int64_t position_stride(int64_t floats)
{
    return round_up(floats, 16) + (floats % 32 == 0 || floats % 32 > 16 ? 16 : 0);
}

/* knobs: tiles in a block, panels in a group, shared. */
static geometry geometry_of(const cm_problem *p, const cm_knobs *k, int m)
{
    geometry g;
    set_sizes(&g, p, m);
    g.shared = k->v[2] != 0;
    g.block = cm_min_i64(k->v[0], g.tiles);
    g.blocks = (g.tiles + g.block - 1) / g.block;
    g.block = (g.tiles + g.blocks - 1) / g.blocks;
    g.group = cm_min_i64(k->v[1], g.panels);
    g.groups = (g.panels + g.group - 1) / g.group;
    g.v_tile = round_up(g.c_in, 16) + (g.c_in >= 512 ? 16 : 0);
    g.v_position = position_stride((g.shared ? g.tiles : g.block) * g.v_tile);
    g.m_tile = g.group * g.product->nr;
    g.m_position = position_stride(g.block * g.m_tile);
    return g;
}

static int64_t positions_of(const geometry *g)
{
    return g->t * g->t;
}

static size_t v_floats(const geometry *g)
{
    return (size_t)(positions_of(g) * g->v_position);
}

static size_t m_floats(const geometry *g)
{
    return (size_t)(positions_of(g) * g->m_position);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k, int m)
{
    geometry g = geometry_of(p, k, m);
    size_t v = v_floats(&g) * (g.shared ? 1 : (size_t)g.threads);
    return (v + m_floats(&g) * (size_t)g.threads) * sizeof(float);
}

/* U lies panel by panel: [panel][position][c_in][output channels of the panel]. */
static size_t pack_bytes(const cm_problem *p, int input, int m)
{
    geometry g;
    if (input != 1)
        return 0;
    set_sizes(&g, p, m);
    return (size_t)(g.panels * positions_of(&g) * g.c_in * g.product->nr) * sizeof(float);
}

enum { PACK_CHANNELS = 64 }; /* input channels in a piece of packing */

typedef struct packing {
    geometry g;
    const float *from;
    float *to;
} packing;

static void pack_pieces(void *arg, int64_t begin, int64_t end)
{
    const packing *a = arg;
    const geometry *g = &a->g;
    const int64_t chunks = (g->c_in + PACK_CHANNELS - 1) / PACK_CHANNELS, nr = g->product->nr;
    const int width = g->kernels->width;
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i % chunks * PACK_CHANNELS, panel = i / chunks;
        float *u = a->to + (panel * positions_of(g) * g->c_in + c) * nr;
        for (int64_t o = 0; o < nr; o += width) {
            int64_t out = panel * nr + o;
            cm_winograd_weights w = {.w = a->from +
                                          (cm_min_i64(out, g->c_out - 1) * g->c_in + c) * 9,
                                     .stride = g->c_in * 9,
                                     .c = cm_min_i64(PACK_CHANNELS, g->c_in - c),
                                     .n = (int)cm_max_i64(0, cm_min_i64(width, g->c_out - out)),
                                     .u = u + o,
                                     .row = nr,
                                     .position = g->c_in * nr};
            g->kernels->weights[g->form](&w);
        }
    }
}

static void pack(const cm_problem *p, const void *from, void *to, cm_threads *threads, int m)
{
    packing a = {.from = from, .to = to};
    set_sizes(&a.g, p, m);
    int64_t chunks = (a.g.c_in + PACK_CHANNELS - 1) / PACK_CHANNELS;
    cm_parallel(threads, a.g.panels * chunks, 1, pack_pieces, &a);
}

typedef struct job {
    geometry g;
    const cm_run *run;
    cm_epilogue_plan epilogue;
    cm_simple_epilogue simple;
    bool is_simple;
    _Atomic int64_t next; /* item of work */
    int64_t items;
} job;

/* Tiles side by side in a row of an image, at most a strip. */
typedef struct strip {
    int64_t image, row, col; /* in tiles */
    int n;
} strip;

static strip strip_at(const geometry *g, int64_t tile, int64_t end)
{
    strip s = {.col = tile % g->tiles_x};
    s.row = tile / g->tiles_x % g->tiles_y;
    s.image = tile / g->tiles_x / g->tiles_y;
    s.n = (int)cm_min_i64(cm_min_i64(g->tiles_x - s.col, end - tile), cm_winograd_strip(g->m));
    return s;
}

/* V of tiles [begin, end); v is that of tile `begin`. */
static void transform_input(const job *j, int64_t begin, int64_t end, float *v)
{
    const geometry *g = &j->g;
    const float *x = j->run->in[0];
    for (int64_t tile = begin; tile < end;) {
        strip s = strip_at(g, tile, end);
        cm_winograd_input a = {.x = x + s.image * g->h * g->w * g->c_in,
                               .h = g->h,
                               .w = g->w,
                               .c = g->c_in,
                               .row = s.row * g->m - g->pad_y,
                               .col = s.col * g->m - g->pad_x,
                               .n = s.n,
                               .v = v + (tile - begin) * g->v_tile,
                               .tile = g->v_tile,
                               .position = g->v_position};
        g->kernels->input[g->form](&a);
        tile += s.n;
    }
}

/* One position: `tiles` rows of V times n panels, `step` floats apart. */
static void multiply_position(const geometry *g, int64_t tiles, const float *v, const float *u,
                              int64_t n, int64_t step, float *m)
{
    const cm_gemm_f32_kernel *f = g->product;
    const int64_t cuts = cm_gemm_tiles(tiles, f->mr);
    for (int64_t i = 0; i < n; i++)
        for (int64_t cut = 0; cut < cuts; cut++) {
            const float *rows[CM_GEMM_MAX_MR];
            int64_t from = cm_gemm_tile_begin(tiles, cuts, cut);
            int64_t count = cm_gemm_tile_begin(tiles, cuts, cut + 1) - from;
            for (int64_t row = 0; row < count; row++)
                rows[row] = v + (from + row) * g->v_tile;
            cm_gemm_tile t = {.runs = 1,
                              .k = g->c_in,
                              .rows = rows,
                              .b = u + i * step,
                              .ldb = f->nr,
                              .c = m + from * g->m_tile + i * f->nr,
                              .ldc = g->m_tile,
                              .n = f->nr,
                              .alpha = 1};
            f->rows[count](&t);
        }
}

/* M of `tiles` tiles and one group of output channels. */
static void multiply(const job *j, int64_t group, int64_t tiles, const float *v, float *m)
{
    const geometry *g = &j->g;
    const int64_t first = group * g->group, size = g->c_in * g->product->nr;
    const int64_t n = cm_min_i64(g->group, g->panels - first), positions = positions_of(g);
    const float *u = (const float *)j->run->in[1] + first * positions * size;
    for (int64_t e = 0; e < positions; e++)
        multiply_position(g, tiles, v + e * g->v_position, u + e * size, n, positions * size,
                          m + e * g->m_position);
}

/* The epilogue of a strip that was written as it came from the transform. */
static void finish_strip(const job *j, const strip *s, int64_t channel, int64_t channels)
{
    const geometry *g = &j->g;
    int64_t y = s->row * g->m, x = s->col * g->m;
    int64_t rows = cm_min_i64(g->m, g->out_h - y), cols = cm_min_i64(s->n * g->m, g->out_w - x);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (s->image * g->out_h + y + i) * g->out_w + x;
        cm_epilogue_tile(&j->epilogue, at, channel, cols, channels,
                         (const float *)j->run->out[0] + at * g->c_out + channel, g->c_out);
    }
}

static const float *plus(const float *p, int64_t n)
{
    return p ? p + n : NULL;
}

/* M of tiles [begin, end) to the output. */
static void transform_output(const job *j, int64_t group, int64_t begin, int64_t end,
                             const float *m)
{
    const geometry *g = &j->g;
    const int64_t channel = group * g->group * g->product->nr;
    const int64_t channels = cm_min_i64(g->m_tile, g->c_out - channel);
    const float *own = j->run->p->as.conv.bias ? j->run->in[2] : NULL;
    const cm_simple_epilogue *e = &j->simple;
    for (int64_t tile = begin; tile < end;) {
        strip s = strip_at(g, tile, end);
        int64_t image = s.image * g->out_h * g->out_w;
        cm_winograd_output a = {.m = m + (tile - begin) * g->m_tile,
                                .tile = g->m_tile,
                                .position = g->m_position,
                                .n = s.n,
                                .y = (float *)j->run->out[0] + image * g->c_out + channel,
                                .h = g->out_h,
                                .w = g->out_w,
                                .pixel = g->c_out,
                                .channels = channels,
                                .row = s.row * g->m,
                                .col = s.col * g->m,
                                .bias = {plus(own, channel), plus(e->bias, channel)},
                                .residual = plus(e->residual, image * e->residual_ld + channel),
                                .residual_pixel = e->residual_ld,
                                .lo = e->lo,
                                .hi = e->hi};
        g->kernels->output[g->form](&a);
        if (!j->is_simple)
            finish_strip(j, &s, channel, channels);
        tile += s.n;
    }
}

/* Takes items of work until there is none, with the buffers of this piece. */
static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const geometry *g = &j->g;
    for (int64_t piece = begin; piece < end; piece++) {
        float *v = (float *)j->run->workspace + piece * (int64_t)v_floats(g);
        float *m = (float *)j->run->workspace + g->threads * (int64_t)v_floats(g) +
                   piece * (int64_t)m_floats(g);
        for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->items;) {
            int64_t from = i * g->block, to = cm_min_i64(from + g->block, g->tiles);
            transform_input(j, from, to, v);
            for (int64_t group = 0; group < g->groups; group++) {
                multiply(j, group, to - from, v, m);
                transform_output(j, group, from, to, m);
            }
        }
    }
}

/* Shared: one strip of V an item. */
static void run_inputs(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const geometry *g = &j->g;
    const int64_t size = cm_winograd_strip(g->m);
    const int64_t strips = (g->tiles_x + size - 1) / size; /* in a row of tiles */
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / strips * g->tiles_x;
        int64_t from = row + i % strips * size, to = cm_min_i64(from + size, row + g->tiles_x);
        transform_input(j, from, to, (float *)j->run->workspace + from * g->v_tile);
    }
}

static void run_groups(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const geometry *g = &j->g;
    const float *v = j->run->workspace;
    for (int64_t piece = begin; piece < end; piece++) {
        float *m = (float *)j->run->workspace + v_floats(g) + piece * (int64_t)m_floats(g);
        for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->items;) {
            int64_t group = i / g->blocks, from = i % g->blocks * g->block;
            int64_t to = cm_min_i64(from + g->block, g->tiles);
            multiply(j, group, to - from, v + from * g->v_tile, m);
            transform_output(j, group, from, to, m);
        }
    }
}

static cm_status run(const cm_run *r, int m)
{
    job j = {.g = geometry_of(r->p, r->k, m), .run = r};
    const geometry *g = &j.g;
    cm_epilogue_init(&j.epilogue, r, cm_conv_channel_columns(r->p->out[0]));
    j.is_simple = cm_epilogue_simple(&j.epilogue, &j.simple);
    if (!j.is_simple)
        j.simple = (cm_simple_epilogue){.lo = -__builtin_inff(), .hi = __builtin_inff()};
    j.items = g->shared ? g->blocks * g->groups : g->blocks;
    int64_t pieces = cm_min_i64(g->threads, j.items);
    if (g->shared) {
        int64_t size = cm_winograd_strip(m);
        int64_t strips = g->images * g->tiles_y * ((g->tiles_x + size - 1) / size);
        cm_parallel(r->threads, strips, 1, run_inputs, &j);
    }
    cm_parallel(r->threads, pieces, 1, g->shared ? run_groups : run_blocks, &j);
    return CM_OK;
}

/* Nanoseconds to transform one channel of one tile, with vectors of VW 16; narrower ones take longer,
 * but less than in proportion, since memory is half of it. Measured where V and M fit L2. */
static const double input_ns[CM_WINOGRAD_FORMS] = {3.5, 8.0, 14.0};
static const double output_ns[CM_WINOGRAD_FORMS] = {2.5, 6.0, 12.0};

enum { L2_BYTES = 768 * 1024, L3_BYTES = 16 * 1024 * 1024 }; /* of them, what a core may count on */

static double transform_factor(const geometry *g)
{
    double bytes = 4.0 * (double)(v_floats(g) + m_floats(g));
    double narrow = g->kernels->width == 16 ? 1 : g->kernels->width == 8 ? 1.2 : 2.5;
    return bytes > L2_BYTES ? narrow * 1.25 : narrow;
}

/* Multiplying a block by one group. The weights come from memory in the first block, and afterwards from
 * where they fit; that goes on beside the arithmetic, but not for nothing. */
static double multiply_ns(const geometry *g, const cm_problem *p)
{
    const double rows = (double)g->block / (double)cm_gemm_tiles(g->block, g->product->mr);
    const double columns = (double)(g->group * g->product->nr), c_in = (double)g->c_in;
    const double positions = (double)positions_of(g);
    double flops = 2 * positions * (double)g->block * c_in * columns * (1 + 0.7 / rows);
    double work = flops / cm_cpu_flops_per_ns(&p->target);
    double all = 4 * positions * c_in * (double)(g->panels * g->product->nr);
    double own = 4 * positions * c_in * columns, passes = (double)g->blocks;
    double memory = cm_cpu_bytes_per_ns(&p->target);
    double again = all < L2_BYTES / 2 ? 64 : all < L3_BYTES ? 24 : memory;
    double traffic = own * (1 / memory + (passes - 1) / again) / passes;
    return work > traffic ? work + 0.25 * traffic : traffic + 0.25 * work;
}

/* A byte of packed weights has a price beyond its traffic, so that a form of seven times the weights
 * must be worth it: five microseconds for each megabyte. */
static const double byte_price_ns = 0.005;

static double cost(const cm_problem *p, const cm_knobs *k, int m)
{
    const geometry g = geometry_of(p, k, m);
    const double factor = transform_factor(&g), block = (double)g.block;
    const double in = block * (double)g.c_in * input_ns[g.form] * factor;
    const double columns = (double)(g.group * g.product->nr);
    const double out = block * columns * output_ns[g.form] * factor;
    const double group = multiply_ns(&g, p) + out;
    const double price = (double)pack_bytes(p, 1, m) * byte_price_ns, threads = g.threads;
    if (!g.shared) {
        double rounds = (double)((g.blocks + g.threads - 1) / g.threads);
        return rounds * (in + (double)g.groups * group) + price + 1000;
    }
    double rounds = (double)((g.blocks * g.groups + g.threads - 1) / g.threads);
    return (double)g.blocks * in / threads + rounds * group + price + 1000 + 4000 * (threads > 1);
}

/* Tiles in a block: as many as V and M may have of L2, some more, fewer; and such as give every
 * thread the same number of blocks. */
static int block_sizes(const geometry *g, int64_t *sizes)
{
    static const int multiples[] = {1, 2, 3, 4, 5, 8};
    int n = 0;
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) {
        int64_t size = multiples[i] * g->product->mr;
        int64_t blocks = (g->tiles + size - 1) / size;
        sizes[n++] = cm_min_i64(size, g->tiles);
        if (g->threads > 1)
            sizes[n++] = (g->tiles - 1) / round_up(blocks, g->threads) + 1;
    }
    sizes[n++] = cm_min_i64(g->tiles, 16 * g->product->mr);
    return n;
}

/* The cheapest setting of one way to divide. */
static cm_knobs best_knobs(const cm_problem *p, int m, bool shared)
{
    geometry g;
    int64_t sizes[16];
    set_sizes(&g, p, m);
    int n = block_sizes(&g, sizes);
    cm_knobs best = {{0}};
    double least = 0;
    for (int i = 0; i < n; i++)
        for (int64_t columns = 16; columns <= 128; columns *= 2) {
            if (columns % g.product->nr)
                continue;
            cm_knobs k = {{(int32_t)sizes[i], (int32_t)(columns / g.product->nr), shared}};
            double ns = cost(p, &k, m);
            if (best.v[0] == 0 || ns < least) {
                least = ns;
                best = k;
            }
        }
    return best;
}

static int knobs(const cm_problem *p, cm_knobs *out, int m)
{
    cm_knobs own = best_knobs(p, m, false), shared = best_knobs(p, m, true);
    bool first = cost(p, &own, m) <= cost(p, &shared, m);
    out[0] = first ? own : shared;
    out[1] = first ? shared : own;
    return 2;
}

/* The functions of cpu/conv.h for one m. */
#define FORM(m)                                                                                    \
    const char *cm_cpu_conv_winograd_f##m##_reject(const cm_problem *p)                            \
    {                                                                                              \
        return reject(p);                                                                          \
    }                                                                                              \
    int cm_cpu_conv_winograd_f##m##_knobs(const cm_problem *p, cm_knobs *out)                      \
    {                                                                                              \
        return knobs(p, out, m);                                                                   \
    }                                                                                              \
    double cm_cpu_conv_winograd_f##m##_cost(const cm_problem *p, const cm_knobs *k)                \
    {                                                                                              \
        return cost(p, k, m);                                                                      \
    }                                                                                              \
    size_t cm_cpu_conv_winograd_f##m##_workspace(const cm_problem *p, const cm_knobs *k)           \
    {                                                                                              \
        return workspace(p, k, m);                                                                 \
    }                                                                                              \
    size_t cm_cpu_conv_winograd_f##m##_pack_bytes(const cm_problem *p, const cm_knobs *k,          \
                                                  int input)                                       \
    {                                                                                              \
        (void)k;                                                                                   \
        return pack_bytes(p, input, m);                                                            \
    }                                                                                              \
    void cm_cpu_conv_winograd_f##m##_pack(const cm_problem *p, const cm_knobs *k, int input,       \
                                          const void *from, void *to, cm_threads *threads)         \
    {                                                                                              \
        (void)k, (void)input;                                                                      \
        pack(p, from, to, threads, m);                                                             \
    }                                                                                              \
    cm_status cm_cpu_conv_winograd_f##m##_run(const cm_run *r)                                     \
    {                                                                                              \
        return run(r, m);                                                                          \
    }

FORM(2)
FORM(4)
FORM(6)
