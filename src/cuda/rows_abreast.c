/* rows_abreast.c -- groups of channels that are innermost, kept in shared memory by a block or a cluster of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each element passes through memory once, and while one slab of groups is written the next is read: kernels/rows_abreast.cu. */
#include "base/size.h"
#include "cuda/ranking.h"
#include "cuda/rows.h"

enum {
    BATCHES = 4,  /* of copies: kernels/rows_batches.cuh */
    MOST_PER = 8, /* vectors of a thread in one */
    MOST_CLUSTER = 8,
    CLUSTERS_OF = 8,  /* multiprocessors are together in so many, clusters lie within */
    OWN_BYTES = 1024, /* what the driver takes */
    TOLD_BYTES = 32,  /* of a group; of a part of it: */
    PART_BYTES = 16,
};

/* Knob 0: threads of a block; 1: blocks to a slab; 2: vectors of a position in a slab; 3: blocks to a multiprocessor; 4: slabs, one after the
 * other, 0: as many as there are turns. */
enum { THREADS, CLUSTER, SPAN, BLOCKS, SLABS };

typedef struct {
    const cm_kernel *kernel;
    const void *narrow; /* state of a tactic for pointers that vectors do not fit */
    cm_grid grid;
    cm_rows_args args;
} state;

/* How groups lie: all that settings do not change. */
typedef struct {
    cm_rows_args args;
    int64_t width; /* elements of a vector */
    int64_t span;  /* vectors of a position, all slabs together */
    int64_t unit;  /* the fewest vectors of a slab */
    int64_t each;  /* channels of a group */
    int64_t grain; /* of a vector that are surely of one group */
} layout;

static int64_t gcd(int64_t a, int64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

static const char *lay(const cm_problem *p, layout *l)
{
    bool last;
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (p->as.rows.kind != CM_ROWS_GROUP_NORM)
        return "rows are not groups of channels";
    why = cm_cuda_groups_by_vectors(p, &l->args, &last);
    if (why)
        return why;
    if (!last)
        return "channels are not innermost";
    l->width = cm_cuda_rows_vector(p);
    l->each = l->args.channels / l->args.groups;
    l->grain = gcd(l->each, l->width);
    l->unit = l->each / l->grain;
    l->span = l->args.channels / l->width;
    l->args.part = l->args.space;
    return NULL;
}

static int64_t rows_of(const layout *l, const cm_knobs *k)
{
    return k->v[SPAN] * l->width / l->each;
}

static int64_t ways_of(const cm_knobs *k)
{
    return k->v[THREADS] / k->v[SPAN];
}

static int64_t held_of(const layout *l, const cm_knobs *k)
{
    return cm_ceil_div(l->args.part, ways_of(k) * k->v[CLUSTER]);
}

static int64_t shared_bytes(const layout *l, const cm_knobs *k)
{
    int64_t columns = k->v[SPAN] * l->width / l->grain;
    return held_of(l, k) * k->v[THREADS] * 16 + ways_of(k) * columns * PART_BYTES +
           rows_of(l, k) * (2 * k->v[CLUSTER] * PART_BYTES + TOLD_BYTES);
}

static int64_t units_of(const layout *l, const cm_knobs *k)
{
    return l->args.dims[0] * (l->span / k->v[SPAN]);
}

/* Slabs that are at work at once. */
static int64_t teams_of(const cm_problem *p, const layout *l, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t processors = facts.multiprocessors;
    if (k->v[CLUSTER] > 2) /* some are in no whole number of them */
        processors = cm_max_i64(CLUSTERS_OF, (processors / CLUSTERS_OF - 1) * CLUSTERS_OF);
    return cm_min_i64(cm_max_i64(1, processors * k->v[BLOCKS] / k->v[CLUSTER]), units_of(l, k));
}

static int blocks_of(const cm_problem *p, const layout *l, const cm_knobs *k)
{
    enum { MOST_THREADS = 512, MOST_BLOCKS = 4 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    if (k->v[SPAN] > k->v[THREADS] || held_of(l, k) > BATCHES * MOST_PER)
        return 0;
    int64_t n = cm_min_i64(MOST_BLOCKS, MOST_THREADS / k->v[THREADS]);
    return (int)cm_min_i64(n, facts.shared_bytes / (shared_bytes(l, k) + OWN_BYTES));
}

static int joiners_of(const layout *l, const cm_knobs *k)
{
    int joiners = 1;
    while (joiners < 32 && joiners * 2 * rows_of(l, k) <= k->v[THREADS])
        joiners *= 2;
    return joiners;
}

/* What passes through memory in a turn: by sectors of 32 bytes, and by several of them more quickly. */
static double memory_ns(const cm_problem *p, const layout *l, const cm_knobs *k,
                        const cm_gpu_facts *facts)
{
    int64_t teams = teams_of(p, l, k);
    double bytes = cm_cuda_rows_bytes(p) / (double)units_of(l, k) * (double)teams;
    double enough = facts->multiprocessors * (2 / 3.0), busy = (double)(teams * k->v[CLUSTER]);
    double waste = k->v[SPAN] == 2 || k->v[SPAN] % 2 ? 1.4 : 1;
    return bytes / facts->read_gbs / 0.95 * waste * (busy < enough ? enough / busy : 1);
}

/* What the blocks of a multiprocessor do to elements in a turn, and no less than a thread does. */
static double work_ns(const cm_problem *p, const layout *l, const cm_knobs *k,
                      const cm_gpu_facts *facts)
{
    int64_t blocks = cm_ceil_div(teams_of(p, l, k) * k->v[CLUSTER], facts->multiprocessors);
    int64_t elems = l->args.part * k->v[SPAN] * l->width / k->v[CLUSTER];
    double all = (double)(elems * cm_min_i64(blocks, k->v[BLOCKS])) * 0.05;
    double one = (double)(held_of(l, k) * l->width) * 10;
    return all > one ? all : one;
}

/* Until the threads of a slab know its statistics: they join cells one after the other. */
static double meet_ns(const layout *l, const cm_knobs *k)
{
    enum { ALONE_NS = 1100, CLUSTER_NS = 1200, JOIN_NS = 170 };
    int64_t joiners = joiners_of(l, k),
            rounds = cm_ceil_div(rows_of(l, k) * joiners, k->v[THREADS]);
    double cells = (double)(ways_of(k) * (l->each / l->grain)) / (double)joiners;
    return ALONE_NS + (k->v[CLUSTER] > 2 ? CLUSTER_NS : 0) +
           (double)rounds * (cells > 1 ? cells : 1) * JOIN_NS;
}

/* Where a multiprocessor has several blocks, some read while others calculate, but not all the time. As measured (H200). */
static double cost_of(const cm_problem *p, const layout *l, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t turns = cm_ceil_div(units_of(l, k), teams_of(p, l, k));
    double memory = memory_ns(p, l, k, &facts);
    double own = work_ns(p, l, k, &facts) + meet_ns(l, k);
    double hidden = k->v[BLOCKS] == 1 || turns == 1 ? 0 : memory < own ? memory : own;
    return facts.launch_ns + (double)turns * (memory + own - hidden * 0.55);
}

double cm_cuda_abreast_cost(const cm_problem *p, const cm_knobs *k)
{
    layout l;
    return lay(p, &l) ? 1e30 : cost_of(p, &l, k);
}

/* Slabs of one vector waste half of what passes, and larger blocks of larger clusters wait too long for each other. */
int cm_cuda_abreast_knobs(const cm_problem *p, cm_knobs *out)
{
    enum {
        MOST_SETTINGS = 6,
        MOST_TURNS = 4,
        MOST_ROWS = 512,
        LEAST_SPAN = 2,
        MOST_OF_CLUSTERS = 256
    };
    static const int threads[] = {128, 256, 512};
    layout l;
    cm_ranking r = {.most = MOST_SETTINGS, .out = out};
    int most = p->target.level >= 900 ? MOST_CLUSTER : 1;
    if (lay(p, &l))
        return 0;
    for (int64_t span = l.unit; span <= l.span && span <= threads[2]; span += l.unit)
        for (int t = 0; l.span % span == 0 && t < CM_COUNT(threads); t++)
            for (int cluster = 1; cluster <= most; cluster *= 2) {
                cm_knobs k = {{threads[t], cluster, (int)span}};
                if (span < LEAST_SPAN || (cluster > 2 && threads[t] > MOST_OF_CLUSTERS) ||
                    rows_of(&l, &k) > MOST_ROWS || (k.v[BLOCKS] = blocks_of(p, &l, &k)) == 0)
                    continue;
                if (cluster > 2 && cm_ceil_div(units_of(&l, &k), teams_of(p, &l, &k)) > MOST_TURNS)
                    k.v[SLABS] = MOST_TURNS; /* not all clusters may be there at once */
                cm_rank(&r, &k, cost_of(p, &l, &k));
            }
    return r.n;
}

const char *cm_cuda_abreast_reject(const cm_problem *p)
{
    layout l;
    cm_knobs knobs[CM_MAX_KNOBS];
    const char *why = lay(p, &l);
    if (why)
        return why;
    if (l.args.part > INT32_MAX / 2 || l.args.dims[0] * l.span > INT32_MAX)
        return "there are too many groups";
    return cm_cuda_abreast_knobs(p, knobs) == 0 ? "blocks cannot keep the groups" : NULL;
}

size_t cm_cuda_abreast_workspace(const cm_problem *p, const cm_knobs *k)
{
    return cm_cuda_groups_workspace(p, k);
}

cm_status cm_cuda_abreast_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                const cm_knobs *k, const void **out)
{
    layout l;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)lay(p, &l);
    s->args = l.args;
    s->args.parts = l.span / k->v[SPAN];
    s->args.units = units_of(&l, k);
    int64_t teams = k->v[SLABS] ? cm_ceil_div(s->args.units, k->v[SLABS]) : teams_of(p, &l, k);
    s->grid = (cm_grid){.blocks = {(unsigned)(teams * k->v[CLUSTER])},
                        .threads = {(unsigned)k->v[THREADS]},
                        .cluster = (unsigned)k->v[CLUSTER],
                        .shared = (size_t)shared_bytes(&l, k),
                        .overlaps = true};
    CM_TRY(cm_cuda_groups_ready_narrow(cx, d, arena, p, &s->narrow));
    int64_t held = held_of(&l, k);
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, &s->args);
    cm_buf_printf(&b,
                  "#define THREADS %d\n#define CLUSTER %d\n#define BLOCKS %d\n#define SPAN %d\n"
                  "#define WIDTH %d\n#define GRAIN %d\n#define SLAB_ROWS %d\n"
                  "#define HELD %d\n#define PER %d\n#define JOINERS %d\n#define CHANNELS_LAST 1\n",
                  k->v[THREADS], k->v[CLUSTER], k->v[BLOCKS], k->v[SPAN], (int)l.width,
                  (int)l.grain, (int)rows_of(&l, k), (int)held, (int)cm_ceil_div(held, BATCHES),
                  joiners_of(&l, k));
    return cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_abreast", .entry = "rows_abreast"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_abreast_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    if (((uintptr_t)a.x | (uintptr_t)a.y) % 16 == 0)
        return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
    return cm_cuda_groups_run_narrow(r, s->narrow);
}
