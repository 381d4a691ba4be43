/* matmul_skinny.c -- products of some rows by matrix units: the matrix is read once, as fast as memory gives it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"
#include "cuda/ranking.h"

/* As kernels/matmul_skinny.cu has it. */
typedef struct {
    const void *a, *b;
    int32_t m, n, k;
    int64_t a_row, b_col;
    cm_axes a_z, b_z;
} skinny_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    skinny_args args;
    cm_product_ends ends;
} skinny_state;

enum { MOST_ROWS = 64, MOST_SUMS = 64 }; /* sums: of a thread */

const char *cm_cuda_matmul_skinny_reject(const cm_problem *p)
{
    cm_gpu_product v;
    const char *why = cm_gpu_product_turned(p, &v);
    if (why)
        return why;
    if (v.arithmetic == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (v.s.m > MOST_ROWS)
        return "more than some rows";
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    cm_reading a = cm_gpu_product_reading(&v, &v.s.a, element);
    cm_reading b = cm_gpu_product_reading(&v, &v.s.b, element);
    if (!a.whole || !b.whole)
        return "lines do not begin at multiples of 16 bytes";
    if (a.across || b.across)
        return "k is not adjacent";
    return NULL;
}

/* As knobs, in this order. */
typedef struct {
    int tiles;            /* of 16 columns, of a warp */
    int warps_k, warps_n; /* of a block: that share k, side by side */
    int stages;           /* steps of k in shared memory */
    int splits;           /* blocks that share k */
    int run;              /* steps of k that a warp has side by side */
} setting;

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2], k->v[3], k->v[4], k->v[5]};
}

enum { LANE_BYTES = 16, STEP_BYTES = 4 * LANE_BYTES }; /* of a line: what a lane loads; of k */

static int threads_of(const setting *s)
{
    return s->warps_k * s->warps_n * 32;
}
static int columns_of(const setting *s)
{
    return s->tiles * 16 * s->warps_n;
}
static int rows_of(const cm_extent *e)
{
    return (int)cm_ceil_div(e->m, 8) * 8;
}
static size_t stage_bytes(const setting *s, int rows)
{
    return (size_t)((2 * s->tiles + rows / 8) * threads_of(s) * LANE_BYTES);
}
static size_t shared_of(const setting *s, int rows)
{
    size_t stages = (size_t)s->stages * stage_bytes(s, rows);
    size_t sums = (size_t)(s->warps_k * rows * (columns_of(s) + 4)) * sizeof(float);
    return stages > sums ? stages : sums;
}
static int64_t blocks_of(const setting *s, const cm_extent *e)
{
    return cm_ceil_div(e->n, columns_of(s)) * e->matrices * s->splits;
}

/* Blocks that a multiprocessor has at once. */
static int64_t resident_of(const cm_gpu_facts *g, const setting *s, const cm_extent *e)
{
    enum { RESERVED = 1024, THREADS = 1536 }; /* shared memory of each; that registers are for */
    int64_t by_shared =
        (g->shared_bytes + RESERVED) / (int64_t)(shared_of(s, rows_of(e)) + RESERVED);
    int64_t n = cm_min_i64(by_shared, THREADS / threads_of(s));
    return cm_min_i64(n, cm_ceil_div(blocks_of(s, e), g->multiprocessors));
}

/* A block's beginning and end; each further round of them; blocks that meet. */
static const double BLOCK_NS = 600, ROUND_NS = 700, MEETING_NS = 800;
static const double SHARE = 1.13;         /* of the rate that copies read at, at the best */
static const double HALF_BYTES = 8 << 10; /* on their way to a multiprocessor: half of that */
static const double L2_FACTOR = 1.6;      /* the L2 cache's rate over that of memory */

static double cost_of(const cm_gpu_facts *g, const setting *s, const cm_extent *e)
{
    int rows = rows_of(e);
    double blocks = (double)blocks_of(s, e), resident = (double)resident_of(g, s, e);
    double busy = blocks < g->multiprocessors ? blocks / g->multiprocessors : 1;
    double turns = (double)cm_ceil_div((int64_t)blocks, g->multiprocessors);
    double even = blocks / (turns * g->multiprocessors); /* where some have one block more */
    double coming = resident * (s->stages - 1) * 2 * s->tiles * threads_of(s) * LANE_BYTES;
    double rate =
        g->read_gbs * SHARE * coming / (coming + HALF_BYTES) * (turns > 1 ? (1 + even) / 2 : busy);
    double b = (double)e->n * (double)e->k * (double)e->matrices * e->element;
    double cached = b * (1 + rows / (16.0 * s->tiles)) / (g->read_gbs * L2_FACTOR * busy);
    double memory = e->bytes / rate;
    double rounds = (double)cm_ceil_div((int64_t)blocks, (int64_t)resident * g->multiprocessors);
    return g->launch_ns + BLOCK_NS + (rounds - 1) * ROUND_NS + (s->splits > 1 ? MEETING_NS : 0) +
           (cached > memory ? cached : memory);
}

/* As many stages as leave room for a second block, where there is one; false: the setting is of no use. */
static bool fit(const cm_gpu_facts *g, const cm_extent *e, setting *s)
{
    enum { LEAST_STAGES = 2, MOST_STAGES = 8 };
    int rows = rows_of(e);
    int64_t steps = cm_ceil_div(e->k * e->element, STEP_BYTES), workers = s->warps_k * s->splits;
    int64_t each = cm_ceil_div(steps, workers);
    if (s->tiles * rows / 8 * 4 > MOST_SUMS || (steps < workers && workers > 1))
        return false;
    int64_t beside = blocks_of(s, e) > g->multiprocessors ? 256 / threads_of(s) * 2 : 1;
    size_t room = (size_t)(g->shared_bytes + 1024) / (size_t)beside - 1024;
    s->stages = (int)cm_min_i64(MOST_STAGES, each + 1);
    s->stages = s->stages < LEAST_STAGES ? LEAST_STAGES : s->stages;
    while (s->stages > LEAST_STAGES && shared_of(s, rows) > room)
        s->stages--;
    s->run = each >= 8 ? 2 : 1;
    return shared_of(s, rows) <= room;
}

int cm_cuda_matmul_skinny_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { SETTINGS = 6 };
    static const int warps[][2] = {{8, 1}, {4, 2}, {4, 1}, {2, 2}, {1, 4}};
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_ranking r = {.most = SETTINGS, .out = out};
    for (int tiles = 4; tiles > 0; tiles /= 2)
        for (int w = 0; w < CM_COUNT(warps); w++)
            for (int splits = 1; splits <= (g.sm >= 90 ? 8 : 1); splits *= 2) {
                setting s = {.tiles = tiles,
                             .warps_k = warps[w][0],
                             .warps_n = warps[w][1],
                             .splits = splits};
                if (!fit(&g, &e, &s))
                    continue;
                cm_knobs k = {{s.tiles, s.warps_k, s.warps_n, s.stages, s.splits, s.run}};
                cm_rank(&r, &k, cost_of(&g, &s, &e));
            }
    return r.n;
}

double cm_cuda_matmul_skinny_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    setting s = setting_of(k);
    return cost_of(&g, &s, &e);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_product *v,
                         const setting *w, int rows, skinny_state *s)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->ends.finish, p, v->bias, &text);
    cm_buf_printf(&text,
                  "#define ELEMENT %s\n#define ROWS %d\n#define TILES %d\n#define WARPS_K %d\n"
                  "#define WARPS_N %d\n#define STAGES %d\n#define SPLITS %d\n#define RUN %d\n"
                  "#define B_EARLY %d\n",
                  cm_element_text(p->in[0]->dtype), rows, w->tiles, w->warps_k, w->warps_n,
                  w->stages, w->splits, w->run, p->constant[v->b]);
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "matmul_skinny", .entry = "matmul_skinny"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_matmul_skinny_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k, const void **state)
{
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    setting w = setting_of(k);
    int rows = rows_of(&e);
    skinny_state *s;
    CM_NEW(cx, arena, s, skinny_state);
    const cm_matmul *x = &v.s;
    s->args = (skinny_args){.m = (int32_t)x->m,
                            .n = (int32_t)x->n,
                            .k = (int32_t)x->k,
                            .a_row = x->a.row,
                            .b_col = x->b.col,
                            .a_z = v.a_z,
                            .b_z = v.b_z};
    cm_product_ends_init(&s->ends, p, &v);
    s->grid = (cm_grid){.blocks = {(unsigned)blocks_of(&w, &e)},
                        .threads = {(unsigned)threads_of(&w)},
                        .cluster = (unsigned)w.splits,
                        .shared = shared_of(&w, rows),
                        .overlaps = p->target.level >= 900};
    *state = s;
    return compile(cx, d, p, &v, &w, rows, s);
}

cm_status cm_cuda_matmul_skinny_run(const cm_run *r)
{
    const skinny_state *s = r->state;
    skinny_args x = s->args;
    cm_finish f = cm_product_ends_bind(&s->ends, r);
    x.a = r->in[s->ends.a];
    x.b = r->in[s->ends.b];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &f});
}
