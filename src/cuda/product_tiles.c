/* product_tiles.c -- tilings, the model of their cost, and their text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/product_tiles.h"

#include "base/size.h"
#include "cuda/ranking.h"

/* Shapes of tiles for matrix units and for float32 arithmetic; largest first. Lanes of the latter hold 8 x 4. */
typedef struct {
    cm_tiling t;
    double
        efficiency; /* of the unit's rate that the inner loop can reach, by what it reads per product */
} shape;
static const shape tensor_shapes[] = {
    {{256, 128, 64, 4, 4, 2, 1}, 0.92},  {{128, 256, 64, 4, 2, 4, 1}, 0.92},
    {{128, 128, 128, 3, 2, 2, 1}, 0.90}, {{128, 128, 64, 4, 2, 2, 1}, 0.88},
    {{128, 64, 128, 3, 2, 2, 1}, 0.76},  {{64, 128, 128, 3, 2, 2, 1}, 0.76},
    {{64, 64, 128, 4, 2, 2, 1}, 0.64},   {{64, 32, 128, 4, 2, 2, 1}, 0.46},
    {{32, 64, 128, 4, 2, 2, 1}, 0.46},   {{32, 32, 128, 4, 2, 2, 1}, 0.34},
    {{16, 64, 128, 4, 1, 4, 1}, 0.34},
};
static const shape float_shapes[] = {
    {{128, 128, 64, 3, 2, 4, 1}, 0.80}, {{128, 64, 64, 3, 2, 2, 1}, 0.62},
    {{64, 64, 64, 4, 2, 2, 1}, 0.55},   {{32, 64, 64, 4, 1, 4, 1}, 0.55},
    {{32, 32, 64, 4, 1, 2, 1}, 0.45},
};

static bool is_function(cm_pointwise op)
{
    switch (op) {
    case CM_PW_EXP:
    case CM_PW_LOG:
    case CM_PW_SIN:
    case CM_PW_COS:
    case CM_PW_TANH:
    case CM_PW_SIGMOID:
    case CM_PW_ERF:
    case CM_PW_GELU:
    case CM_PW_GELU_TANH:
    case CM_PW_SILU:
    case CM_PW_MISH:
    case CM_PW_SOFTPLUS:
    case CM_PW_POW:
    case CM_PW_ELU:
        return true;
    default:
        return false;
    }
}

int cm_extent_functions(const cm_problem *p)
{
    int n = 0;
    for (int i = 0; p->epilogue && i < p->epilogue->n_steps; i++)
        n += is_function(p->epilogue->step[i].op);
    return n;
}

void cm_tiling_to_knobs(const cm_tiling *t, cm_knobs *k)
{
    *k = (cm_knobs){{t->m, t->n, t->k_bytes, t->stages, t->warps_m, t->warps_n, t->splits}};
}

cm_tiling cm_tiling_of_knobs(const cm_knobs *k)
{
    return (cm_tiling){k->v[0], k->v[1], k->v[2], k->v[3], k->v[4], k->v[5], k->v[6]};
}

enum { CLUSTER_MOST = 8 }; /* blocks, everywhere */

bool cm_tiling_clusters(const cm_gpu_facts *g, const cm_tiling *t)
{
    return g->sm >= 90 && t->splits > 1 && t->splits <= CLUSTER_MOST;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t cm_tiling_shared(const cm_gpu_facts *g, const cm_tiling *t)
{
    size_t stages = (size_t)t->stages * (size_t)(t->m + t->n) * (size_t)t->k_bytes;
    size_t slices = 8u * sizeof(float) * (size_t)(t->n + 8 * t->warps_n) * (size_t)t->warps_m;
    size_t whole = (size_t)t->m * (size_t)(t->n + 8) * sizeof(float);
    return larger(stages, cm_tiling_clusters(g, t) ? whole : slices);
}

size_t cm_tiling_partial_bytes(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e)
{
    if (t->splits == 1 || cm_tiling_clusters(g, t))
        return 0;
    return (size_t)t->splits * (size_t)e->matrices * (size_t)e->m * (size_t)e->n * sizeof(float);
}

int64_t cm_tiling_blocks(const cm_tiling *t, const cm_extent *e)
{
    return cm_ceil_div(e->m, t->m) * cm_ceil_div(e->n, t->n) * e->matrices * t->splits;
}

cm_grid cm_tiling_grid(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e)
{
    return (cm_grid){.blocks = {(unsigned)cm_tiling_blocks(t, e)},
                     .threads = {(unsigned)(t->warps_m * t->warps_n * 32)},
                     .cluster = cm_tiling_clusters(g, t) ? (unsigned)t->splits : 0,
                     .shared = cm_tiling_shared(g, t),
                     .overlaps = g->sm >= 90};
}

enum { SUM_THREADS = 128, SUM_BLOCKS = 4096 };

cm_grid cm_tiling_sum_grid(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e)
{
    if (cm_tiling_partial_bytes(g, t, e) == 0)
        return (cm_grid){0};
    int64_t blocks = cm_ceil_div(e->matrices * e->m * cm_ceil_div(e->n, 8), SUM_THREADS);
    return (cm_grid){.blocks = {(unsigned)cm_min_i64(blocks, SUM_BLOCKS)},
                     .threads = {SUM_THREADS},
                     .overlaps = g->sm >= 90};
}

static const shape *shapes_of(cm_arithmetic a, int *n)
{
    *n = a == CM_ARITHMETIC_FLOAT ? CM_COUNT(float_shapes) : CM_COUNT(tensor_shapes);
    return a == CM_ARITHMETIC_FLOAT ? float_shapes : tensor_shapes;
}

static double efficiency_of(const cm_tiling *t, cm_arithmetic a)
{
    int n;
    const shape *shapes = shapes_of(a, &n);
    for (int i = 0; i < n; i++)
        if (shapes[i].t.m == t->m && shapes[i].t.n == t->n && shapes[i].t.k_bytes == t->k_bytes)
            return shapes[i].efficiency;
    return 0.3;
}

/* Operations per ns of one multiprocessor. Before sm_90's own instructions only part of its rate is to be had. */
static double rate_of(const cm_gpu_facts *g, cm_arithmetic a)
{
    double older = g->sm >= 90 ? 0.66 : 1;
    double tflops = a == CM_ARITHMETIC_HALF   ? g->half_tflops * older
                    : a == CM_ARITHMETIC_TF32 ? g->tf32_tflops * older
                                              : g->tflops;
    return tflops * 1000 / g->multiprocessors;
}

enum { OTHER_REGISTERS = 96 }; /* beside sums, of a thread */

static int per_multiprocessor(const cm_gpu_facts *g, const cm_tiling *t)
{
    int by_shared = (int)((size_t)g->shared_bytes / cm_tiling_shared(g, t));
    int threads = t->warps_m * t->warps_n * 32;
    int by_registers = 65536 / threads / (t->m * t->n / threads + OTHER_REGISTERS);
    int n = by_shared < by_registers ? by_shared : by_registers;
    return n < 1 ? 1 : n;
}

/* A block begins, fills its stages and hands out its tile in this time; a tile of k takes that one beside its products. */
static const double BLOCK_NS = 2500, K_TILE_NS = 200;
static const double L2_FACTOR = 1.4; /* the L2 cache's rate over that of memory */
/* What blocks that do not overlap their beginning and end get of memory's rate. */
static const double MEMORY_SHARE = 0.5;
static const double MEETING_NS = 1200, MEETING_EACH_NS = 300; /* of splits in a cluster */

double cm_tiling_cost(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e)
{
    int64_t blocks = cm_tiling_blocks(t, e);
    double k_tiles = (double)cm_ceil_div(cm_ceil_div(e->k * e->element, t->k_bytes), t->splits);
    double tile_k = (double)t->k_bytes / e->element;
    double busiest = (double)cm_ceil_div(blocks, g->multiprocessors);
    double at_once = (double)per_multiprocessor(g, t);
    double full = busiest < at_once ? busiest : at_once;
    /* One block alone leaves the units idle while it waits. */
    double efficiency = efficiency_of(t, e->arithmetic) * (full >= 2 ? 1 : 0.8);
    double tile_ns = 2.0 * t->m * t->n * tile_k / (rate_of(g, e->arithmetic) * efficiency);
    double rounds = cm_ceil_div(cm_ceil_div(blocks, g->multiprocessors), (int64_t)at_once);
    double compute = busiest * k_tiles * tile_ns * e->slow;
    double one_tile = K_TILE_NS + 2.0 * t->m * t->n * tile_k / rate_of(g, e->arithmetic);
    double waiting = rounds * (k_tiles * one_tile * e->slow + BLOCK_NS);
    double loaded = (double)blocks * k_tiles * (t->m + t->n) * t->k_bytes;
    double memory = e->bytes / (g->read_gbs * MEMORY_SHARE),
           cache = loaded / (g->read_gbs * L2_FACTOR);
    double ns = compute > memory ? compute : memory;
    ns = ns > cache ? ns : cache;
    ns = ns + BLOCK_NS / 2 > waiting ? ns + BLOCK_NS / 2 : waiting;
    if (t->splits > 1) {
        double sums = (double)e->m * (double)e->n * (double)e->matrices * sizeof(float) * t->splits;
        ns += cm_tiling_clusters(g, t) ? MEETING_NS + MEETING_EACH_NS * t->splits
                                       : g->launch_ns + 2 * sums / (g->read_gbs * L2_FACTOR);
    }
    return g->launch_ns + ns;
}

/* Settings to try, and for products so small that they are all alike. */
enum { SETTINGS = 5, SMALL_SETTINGS = 1 };
static const double SMALL_FLOPS = 1e8;

int cm_tiling_choose(const cm_gpu_facts *g, const cm_extent *e, cm_knobs *out)
{
    static const int splits[] = {1, 2, 3, 4, 6, 8};
    double flops = 2.0 * (double)e->m * (double)e->n * (double)e->k * (double)e->matrices;
    cm_ranking r = {.most = flops < SMALL_FLOPS ? SMALL_SETTINGS : SETTINGS, .out = out};
    int n;
    const shape *shapes = shapes_of(e->arithmetic, &n);
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < CM_COUNT(splits); s++) {
            cm_tiling t = shapes[i].t;
            t.splits = splits[s];
            int64_t k_tiles = cm_ceil_div(e->k * e->element, t.k_bytes);
            if (t.splits > 1 && (k_tiles < 2 * t.splits ||
                                 cm_tiling_blocks(&t, e) > 3 * (int64_t)g->multiprocessors))
                break;
            while (t.stages > 2 && cm_tiling_shared(g, &t) > (size_t)g->shared_bytes)
                t.stages--;
            if (cm_tiling_shared(g, &t) > (size_t)g->shared_bytes)
                continue;
            cm_knobs k;
            cm_tiling_to_knobs(&t, &k);
            cm_rank(&r, &k, cm_tiling_cost(g, &t, e));
        }
    }
    return r.n;
}

void cm_tiling_text(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e,
                    const char *element, cm_reading a, cm_reading b, bool b_constant, cm_buf *out)
{
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define TENSOR %d\n#define TILE_M %d\n#define TILE_N %d\n"
                  "#define TILE_K %d\n#define STAGES %d\n#define WARPS_M %d\n#define WARPS_N %d\n"
                  "#define A_ACROSS %d\n#define B_ACROSS %d\n#define A_WHOLE %d\n"
                  "#define B_WHOLE %d\n#define B_EARLY %d\n#define CLUSTER %d\n",
                  element, e->arithmetic != CM_ARITHMETIC_FLOAT, t->m, t->n,
                  t->k_bytes / e->element, t->stages, t->warps_m, t->warps_n, a.across, b.across,
                  a.whole, b.whole, b_constant, cm_tiling_clusters(g, t));
}
