/* rows_slab.c -- softmax of long rows that lie side by side, in slabs of neighbours that a block or a cluster of them keeps.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each element passes through memory once, and while a slab is calculated and written the next is read; rows that few registers hold are those
 * of rows_lanes.c. A slab of all neighbours there are is read in whole vectors whatever their number. */
#include "base/size.h"
#include "cuda/ranking.h"
#include "cuda/rows.h"

enum {
    MOST_CLUSTER = 8,
    LEAST_COLS = 32,
    MOST_HELD_BYTES = 256, /* of a thread */
    MOST_TOLD = 64,
    OWN_BYTES = 1024,
    CLUSTERS_OF = 8, /* multiprocessors are together in so many, clusters lie within */
};

/* Knob 0: threads of a block; 1: blocks to a slab; 2: neighbours in a slab; 3: blocks to a multiprocessor. */
enum { THREADS, CLUSTER, WIDTH, BLOCKS };

/* How a slab is cut: what the macros of kernels/rows_slab.cu are. */
typedef struct {
    int side, span, held; /* held: 0 where it cannot be */
    int warp_ways, told, helpers;
    int64_t part;
    int64_t shared;
} cut;

typedef struct {
    const cm_kernel *kernel;
    const void *narrow; /* state of the tactic for pointers that vectors do not fit */
    cm_grid grid;
    size_t align;
    cm_rows_args args;
} state;

static cm_knobs narrow_knobs(void)
{
    return (cm_knobs){{8, 8, 1}};
}

/* Do vectors go on from one element's neighbours to the next one's, in input and output? */
static bool goes_on(const cm_rows_args *a, int64_t vector)
{
    const cm_rows_place *all[] = {&a->at_x, &a->at_y};
    bool fits = a->cols * a->lanes % vector == 0;
    for (int t = 0; t < CM_COUNT(all); t++) {
        fits = fits && all[t]->side == 1 && all[t]->col == a->lanes;
        for (int i = 0; i < a->n_outer; i++)
            fits = fits && all[t]->outer[i] % vector == 0;
    }
    return fits;
}

static int common_divisor(int a, int b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Threads that join what is told of a neighbour. */
static int helpers_of(int told, int threads, int width)
{
    enum { MOST_HELPERS = 4, FEW = 8 };
    int64_t wanted = cm_ceil_div(told, FEW), most = cm_min_i64(MOST_HELPERS, threads / width);
    return (int)cm_max_i64(1, cm_min_i64(wanted, most));
}

/* `side`: as many neighbours as vectors have that stay within an element's. */
static cut cut_of(const cm_problem *p, const cm_rows_args *a, int side, const cm_knobs *k)
{
    int threads = k->v[THREADS], width = k->v[WIDTH];
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype), vector = 16 / size;
    cut c = {.side = width == a->lanes && goes_on(a, vector) ? (int)vector : side};
    int common = common_divisor(width, c.side);
    c.span = width / common;
    if (c.span > threads)
        return c;
    int64_t ways = (int64_t)(threads / c.span * c.span) * c.side / width, step = c.side / common;
    c.part = cm_ceil_div(cm_ceil_div(a->cols, k->v[CLUSTER]), step) * step;
    c.warp_ways = 32 % c.span == 0 ? 32 / c.span : 1;
    c.told = (int)(ways / c.warp_ways);
    c.helpers = helpers_of(c.told, threads, width);
    int64_t held = cm_ceil_div(c.part, ways), parts = (int64_t)k->v[CLUSTER] * c.helpers;
    c.shared = held * threads * c.side * size + (c.told + 2 * parts + 1) * width * 8;
    if (held * c.side * size <= MOST_HELD_BYTES && c.told <= MOST_TOLD)
        c.held = (int)held;
    return c;
}

/* Blocks that registers and shared memory of a multiprocessor are enough for. */
static int blocks_of(const cm_problem *p, const cut *c, int threads)
{
    enum { REGISTERS = 65536, OWN_REGISTERS = 32, MOST_BLOCKS = 8 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t of_thread = (int64_t)c->held * c->side * (int64_t)cm_dtype_size(p->in[0]->dtype) / 4;
    of_thread = cm_ceil_div(of_thread + 2 * c->side + OWN_REGISTERS, 8) * 8;
    int64_t n = cm_min_i64(REGISTERS / (of_thread * threads), MOST_BLOCKS);
    return c->held == 0 ? 0 : (int)cm_min_i64(n, facts.shared_bytes / (c->shared + OWN_BYTES));
}

static int64_t units_of(const cm_rows_args *a, const cm_knobs *k)
{
    return a->rows * cm_ceil_div(a->lanes, k->v[WIDTH]);
}

/* Slabs that are at work at once, each team having as many as any other where that is possible. */
static int64_t teams_of(const cm_problem *p, const cm_rows_args *a, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t processors = facts.multiprocessors, units = units_of(a, k);
    if (k->v[CLUSTER] > 2)
        processors = processors / CLUSTERS_OF * CLUSTERS_OF;
    int64_t most = cm_max_i64(1, processors * k->v[BLOCKS] / k->v[CLUSTER]);
    return cm_ceil_div(units, cm_max_i64(1, cm_ceil_div(units, most)));
}

/* Of the memory's rate, what copies of slabs reach: those of short lines are slow, and blocks of a cluster wait for each other. As measured
 * (H200). */
static double speed_of(const cm_rows_args *a, const cut *c, const cm_knobs *k, int64_t size)
{
    enum { SECTOR = 32, GOOD = 256, FAIR = 128, LITTLE = 128 }; /* bytes; of a thread */
    int64_t line = k->v[WIDTH] * size;
    bool whole = k->v[WIDTH] == a->lanes;
    double fast = whole || line >= GOOD ? 0.88 : line >= FAIR ? 0.8 : 0.45;
    int cluster = k->v[CLUSTER];
    fast *= cluster == 1 ? 1 : cluster == 2 ? 0.92 : cluster == 4 ? 0.75 : 0.65;
    if (cluster > 1 && k->v[BLOCKS] == 1)
        fast *= 0.75;
    if (c->warp_ways == 1)
        fast *= 0.85;
    if (c->held * c->side * size < LITTLE) /* threads meet for little */
        fast *= 0.75;
    return !whole && a->lanes * size % SECTOR != 0 ? fast / 2 : fast;
}

/* Of each turn: what passes through memory, and no less than what is calculated takes. */
double cm_cuda_slab_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 3000, MEET_NS = 1500, CLUSTER_NS = 1500 };
    cm_gpu_facts facts;
    cm_rows_args a;
    cm_gpu_facts_of(&p->target, &facts);
    cut c = cut_of(p, &a, cm_cuda_lanes_side(p, &a), k);
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int64_t units = units_of(&a, k), teams = teams_of(p, &a, k), turns = cm_ceil_div(units, teams);
    double kept = (double)c.held * k->v[THREADS] * c.side * (double)size * k->v[BLOCKS];
    double bytes = cm_cuda_rows_bytes(p) / (double)units * (double)teams;
    double memory = bytes / facts.read_gbs / speed_of(&a, &c, k, size);
    double alone = kept / (double)size * 0.05 +
                   (MEET_NS + (k->v[CLUSTER] > 2 ? CLUSTER_NS : 0)) * (k->v[BLOCKS] > 1 ? 1 : 2);
    return facts.launch_ns + BEGIN_NS + (memory + alone) / 2 +
           (double)turns * (memory > alone ? memory : alone);
}

/* All neighbours at once or a slab of them, by the fewest blocks that keep it. */
int cm_cuda_slab_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_SETTINGS = 3, MOST_WIDTH = 1024 };
    static const int threads[] = {256, 512}, lines[] = {0, 256, 128, 64};
    cm_rows_args a;
    cm_ranking r = {.most = MOST_SETTINGS, .out = out};
    int side = cm_cuda_lanes_side(p, &a);
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    for (int w = 0; w < CM_COUNT(lines); w++) {
        int64_t width = lines[w] / size;
        if (w == 0)
            width = a.lanes;
        else if (width >= a.lanes || width % side != 0 || side * size < 4)
            continue;
        for (int t = 0; t < CM_COUNT(threads) && width <= MOST_WIDTH; t++) {
            cm_knobs k = {{threads[t], 1, (int)width}};
            for (; k.v[CLUSTER] <= MOST_CLUSTER; k.v[CLUSTER] *= 2) {
                cut how = cut_of(p, &a, side, &k);
                k.v[BLOCKS] = blocks_of(p, &how, threads[t]);
                if (k.v[BLOCKS] > 0)
                    break;
            }
            if (k.v[BLOCKS] > 0)
                cm_rank(&r, &k, cm_cuda_slab_cost(p, &k));
        }
    }
    return r.n;
}

const char *cm_cuda_slab_reject(const cm_problem *p)
{
    cm_rows_args a;
    cm_knobs knobs[CM_MAX_KNOBS];
    cm_rows_kind kind = p->as.rows.kind;
    if (kind != CM_ROWS_SOFTMAX && kind != CM_ROWS_LOG_SOFTMAX)
        return "rows are not those of softmax";
    const char *why = cm_cuda_lanes_reject(p);
    if (why)
        return why;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int side = cm_cuda_lanes_side(p, &a);
    if (p->as.rows.cols < LEAST_COLS)
        return "registers hold the rows";
    if (side * size < 4 && !goes_on(&a, 16 / size))
        return "neighbours are not to be copied in whole words";
    if (a.at_y.side != 1)
        return "results do not lie side by side";
    return cm_cuda_slab_knobs(p, knobs) == 0 ? "blocks cannot keep the rows" : NULL;
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_knobs *k,
                         const cut *c, state *s)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, &s->args);
    cm_buf_printf(&b,
                  "#define THREADS %d\n#define CLUSTER %d\n#define WIDTH %d\n#define BLOCKS %d\n"
                  "#define SIDE %d\n#define SPAN %d\n#define HELD %d\n#define WARP_WAYS %d\n"
                  "#define TOLD %d\n#define HELPERS %d\n#define COPY %d\n",
                  k->v[THREADS], k->v[CLUSTER], k->v[WIDTH], k->v[BLOCKS], c->side, c->span,
                  c->held, c->warp_ways, c->told, c->helpers, (int)s->align);
    return cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_slab", .entry = "rows_slab"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_slab_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    cut c = cut_of(p, &s->args, cm_cuda_lanes_side(p, &s->args), k);
    s->args.part = c.part;
    s->args.units = units_of(&s->args, k);
    s->align = (size_t)c.side * cm_dtype_size(p->in[0]->dtype);
    int64_t teams = cm_min_i64(teams_of(p, &s->args, k), INT32_MAX / k->v[CLUSTER]);
    s->grid = (cm_grid){.blocks = {(unsigned)(teams * k->v[CLUSTER])},
                        .threads = {(unsigned)k->v[THREADS]},
                        .cluster = (unsigned)k->v[CLUSTER],
                        .shared = (size_t)c.shared,
                        .overlaps = true};
    const cm_knobs narrow = narrow_knobs();
    CM_TRY(cm_cuda_lanes_ready(cx, d, arena, p, &narrow, &s->narrow));
    return compile(cx, d, p, k, &c, s);
}

cm_status cm_cuda_slab_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    if (((uintptr_t)a.x | (uintptr_t)a.y) % s->align == 0)
        return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
    const cm_knobs knobs = narrow_knobs();
    cm_run narrow = *r;
    narrow.state = s->narrow;
    narrow.k = &knobs;
    return cm_cuda_lanes_run(&narrow);
}
