/* conv_winograd_plan.c -- how a convolution is cut up for Winograd, and what that costs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv_winograd_plan.h"

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/pairs.h"

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

static void set_sizes(cm_winograd_plan *g, const cm_problem *p, int m)
{
    const cm_conv *c = &p->as.conv;
    *g = (cm_winograd_plan){.kernels = kernels_of(p),
                            .product = cm_gemm_f32_kernel_of(p->target.level),
                            .m = m,
                            .t = m + 2,
                            .positions = (m + 2) * (m + 2),
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

/* Products by pairs: where sums are long enough, and not for F(6,3), whose errors would not bear it. */
static bool has_pairs(const cm_problem *p, int m)
{
    enum { LEAST_SUMS = 96 };
    return m < 6 && p->target.level >= CM_ISA_AVX512 && p->as.conv.c_in >= LEAST_SUMS;
}

/* Channels in a part of sums by pairs, for F(2,3) and F(4,3): as many as errors bear (docs/numerics.md). */
static const int64_t most_part[] = {512, 128};

cm_winograd_plan cm_winograd_plan_of(const cm_problem *p, const cm_knobs *k, int m)
{
    cm_winograd_plan g;
    set_sizes(&g, p, m);
    g.shared = k->v[CM_WINOGRAD_SHARED] != 0;
    g.raw = k->v[CM_WINOGRAD_RAW] != 0;
    g.pairs = k->v[CM_WINOGRAD_PAIRS] != 0 && !g.raw && has_pairs(p, m);
    g.block = cm_min_i64(k->v[CM_WINOGRAD_BLOCK], g.tiles);
    g.blocks = (g.tiles + g.block - 1) / g.block;
    g.block = (g.tiles + g.blocks - 1) / g.blocks;
    g.group = cm_min_i64(k->v[CM_WINOGRAD_GROUP], g.panels);
    g.groups = (g.panels + g.group - 1) / g.group;
    g.v_tile = round_up(g.c_in, 16) + (g.c_in >= 512 ? 16 : 0);
    g.v_rows = g.shared ? g.tiles : g.block;
    g.part = g.c_in;
    if (g.pairs)
        g.part = round_up(cm_ceil_div(g.c_in, cm_ceil_div(g.c_in, most_part[g.form])), 16);
    g.parts = cm_ceil_div(g.c_in, g.part);
    g.v_position = position_stride(g.v_rows * (g.v_tile + (g.pairs ? 2 * g.parts : 0)));
    g.m_tile = g.group * g.product->nr;
    g.m_position = position_stride(g.block * g.m_tile);
    g.u_part = g.pairs ? cm_pairs_panel(g.part) : g.part * g.product->nr;
    g.u_panel = g.c_in * g.product->nr;
    if (g.pairs)
        g.u_panel += g.parts * cm_pairs_panel(0);
    g.chunk = cm_min_i64(g.c_in, m == 6 ? 32 : 64);
    g.u_position = position_stride(g.chunk * g.product->nr);
    return g;
}

/* Nanoseconds to transform one channel of one tile, with vectors of VW 16; narrower ones take longer,
 * but less than in proportion, since memory is half of it. Measured where V and M fit L2. */
static const double input_ns[CM_WINOGRAD_FORMS] = {3.5, 8.0, 14.0};
static const double output_ns[CM_WINOGRAD_FORMS] = {2.5, 6.0, 12.0};
/* Of one weight of 3x3. */
static const double weights_ns[CM_WINOGRAD_FORMS] = {1.6, 6.0, 16.0};

enum { L2_BYTES = 768 * 1024, L3_BYTES = 16 * 1024 * 1024 }; /* of them, what a core may count on */

static double transform_factor(const cm_winograd_plan *g)
{
    double bytes = 4.0 * (double)(cm_winograd_v(g) + cm_winograd_m(g));
    double narrow = g->kernels->width == 16 ? 1 : g->kernels->width == 8 ? 1.2 : 2.5;
    return bytes > L2_BYTES ? narrow * (g->pairs ? 2 : 1.25) : narrow;
}

/* Rows of V that the tiles of a product have at most. */
static int tile_rows(const cm_winograd_plan *g)
{
    return g->pairs ? CM_PAIRS_MR : g->product->mr;
}

/* Multiplying a block by one group. The weights come from memory in the first block, and afterwards from
 * where they fit; V comes from where it fits, raw weights reading a few columns at a time. That
 * goes on beside the arithmetic, but not for nothing. */
static double multiply_ns(const cm_winograd_plan *g, const cm_problem *p)
{
    const double rows = (double)g->block / (double)cm_gemm_tiles(g->block, tile_rows(g));
    const double columns = (double)(g->group * g->product->nr), c_in = (double)g->c_in;
    const double positions = (double)g->positions;
    double flops = 2 * positions * (double)g->block * c_in * columns * (1 + 0.7 / rows);
    double work = flops / cm_cpu_flops_per_ns(&p->target);
    if (g->pairs)
        work *= (cm_cpu_info()->adds_beside ? 0.77 : 1.3) * (1 + 2.5 / (double)g->part);
    if (g->raw)
        work += c_in * columns * weights_ns[g->form] * (g->kernels->width == 4 ? 2.5 : 1);
    double all = 4 * (double)cm_winograd_packed(g), passes = (double)g->blocks;
    double own = all * (double)g->group / (double)g->panels;
    double memory = cm_cpu_bytes_per_ns(&p->target);
    double again = all < L2_BYTES / 2 ? 64 : all < L3_BYTES ? 24 : memory;
    double traffic = own * (1 / memory + (passes - 1) / again) / passes;
    double v = 4 * (double)cm_winograd_v(g), part = g->shared ? 1 / passes : 1;
    double near = v < L2_BYTES ? 64 : v < L3_BYTES / 2 ? 24 : memory / 2;
    traffic += v * part / (g->raw && near < 64 ? near / 3 : near);
    if (g->pairs) /* weights do not stream as well */
        traffic *= 2;
    return work > traffic ? work + 0.25 * traffic : traffic + 0.25 * work;
}

/* Memory has a price beyond its traffic, so that what takes several times of it must be worth it: five
 * microseconds a megabyte, and sixty where transformed weights are over ten megabytes larger. */
static double price_ns(const cm_winograd_plan *g)
{
    double packed = 4 * (double)cm_winograd_packed(g);
    double work = 4 * (double)(cm_winograd_v(g) + cm_winograd_m(g));
    double more = packed - packed * 9 / (double)(g->raw ? 9 : g->positions) - 10e6;
    return 0.005 * (packed + work) + (more > 0 ? 0.06 * more : 0);
}

double cm_winograd_cost(const cm_problem *p, const cm_knobs *k, int m)
{
    const cm_winograd_plan g = cm_winograd_plan_of(p, k, m);
    const double factor = transform_factor(&g), block = (double)g.block;
    const double look = g.pairs ? 0.08 * (double)g.positions : 0;
    const double in = block * (double)g.c_in * (input_ns[g.form] * factor + look);
    const double columns = (double)(g.group * g.product->nr);
    const double out = block * columns * output_ns[g.form] * factor;
    const double group = multiply_ns(&g, p) + out;
    const double price = price_ns(&g), threads = g.threads;
    if (!g.shared) {
        double rounds = (double)((g.blocks + g.threads - 1) / g.threads);
        return rounds * (in + (double)g.groups * group) + price + 1000;
    }
    double rounds = (double)((g.blocks * g.groups + g.threads - 1) / g.threads);
    return (double)g.blocks * in / threads + rounds * group + price + 1000 + 4000 * (threads > 1);
}

/* Tiles in a block: as many as V and M may have of L2, some more, fewer; and such as give every
 * thread the same number of blocks. */
static int block_sizes(const cm_winograd_plan *g, int64_t *sizes)
{
    static const int multiples[] = {1, 2, 3, 4, 5, 8};
    int n = 0;
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) {
        int64_t size = multiples[i] * tile_rows(g);
        int64_t blocks = (g->tiles + size - 1) / size;
        sizes[n++] = cm_min_i64(size, g->tiles);
        if (g->threads > 1)
            sizes[n++] = (g->tiles - 1) / round_up(blocks, g->threads) + 1;
    }
    sizes[n++] = cm_min_i64(g->tiles, 16 * tile_rows(g));
    return n;
}

/* The cheapest setting of one way to divide and to pack. */
static cm_knobs best_knobs(const cm_problem *p, int m, bool shared, bool raw, bool pairs)
{
    cm_winograd_plan g;
    int64_t sizes[16];
    set_sizes(&g, p, m);
    g.pairs = pairs;
    int n = block_sizes(&g, sizes);
    cm_knobs best = {{0}};
    double least = 0;
    for (int i = 0; i < n; i++)
        for (int64_t columns = 16; columns <= 128; columns *= 2) {
            if (columns % g.product->nr)
                continue;
            cm_knobs k = {
                {(int32_t)sizes[i], (int32_t)(columns / g.product->nr), shared, raw, pairs}};
            double ns = cm_winograd_cost(p, &k, m);
            if (best.v[CM_WINOGRAD_BLOCK] == 0 || ns < least) {
                least = ns;
                best = k;
            }
        }
    return best;
}

int cm_winograd_knobs(const cm_problem *p, cm_knobs *out, int m)
{
    enum { SHARED = 1, RAW = 2, PAIRS = 4, WAYS = 6 }; /* raw weights are not multiplied by pairs */
    int n = 0;
    for (int way = 0; way < WAYS; way++) {
        if ((p->lean && !(way & RAW)) || (way & PAIRS && !has_pairs(p, m)))
            continue;
        cm_knobs k = best_knobs(p, m, way & SHARED, way & RAW, way & PAIRS);
        double ns = cm_winograd_cost(p, &k, m);
        int at = n++;
        for (; at > 0 && cm_winograd_cost(p, &out[at - 1], m) > ns; at--)
            out[at] = out[at - 1];
        out[at] = k;
    }
    return n;
}
