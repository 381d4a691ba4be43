/* rows.c -- ROWS: softmax and normalisations on the device; rows whose elements are adjacent, or anywhere.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row is held by as many threads as have registers for it, those of a cluster of blocks where it is long, and so passes
 * through memory once; only longer ones are read twice. Groups of channels too large or too few for that go in parts
 * (rows_group.c), rows side by side have a kernel of their own (rows_lanes.c). */
#include "cuda/rows.h"

#include "base/size.h"

enum {
    WARP = 32,
    BLOCK = 128,
    MOST_THREADS = 512, /* of a block */
    MOST_HELD_BYTES = 64,
    MOST_HELD_ELEMS = 32,
    MOST_CLUSTER = 8, /* blocks; and what their threads hold */
    MOST_CLUSTER_ELEMS = 64,
    LEAST_CLUSTER_COLS = 4096,
};

/* Knob 0: threads to a row; knob 1: of each of so many blocks, 0: of one. */
typedef struct {
    const cm_kernel *vectors, *scalars, *count; /* vectors, count: NULL where they are of no use */
    cm_grid grid;
    cm_rows_args args;
} state;

int cm_cuda_rows_vector(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    return 16 / (int)cm_dtype_size(p->in[r->embed ? r->word : 0]->dtype);
}

static int cluster_of(const cm_knobs *k)
{
    return k->v[1] > 1 ? k->v[1] : 1;
}

/* Vectors of a thread; 0: there are too many to hold. */
static int held_by(const cm_problem *p, const cm_knobs *k)
{
    int cluster = cluster_of(k), most = cluster > 1 ? MOST_CLUSTER_ELEMS : MOST_HELD_ELEMS;
    int64_t vector = cm_cuda_rows_vector(p);
    int64_t held = cm_ceil_div(p->as.rows.cols, vector * k->v[0] * cluster);
    return held * vector <= most ? (int)held : 0;
}

const char *cm_cuda_rows_place_any(const cm_problem *p, cm_rows_args *a)
{
    bool last;
    if (p->as.rows.kind != CM_ROWS_GROUP_NORM)
        return cm_cuda_rows_place(p, -1, a);
    const char *why = cm_cuda_rows_place_groups(p, a, &last);
    return why ? why : last ? "channels are innermost" : NULL;
}

static const char *reject(const cm_problem *p)
{
    cm_rows_args a;
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (p->as.rows.cols >= INT32_MAX)
        return "rows are too long";
    why = cm_cuda_rows_place_any(p, &a);
    if (why)
        return why;
    if (p->as.rows.kind == CM_ROWS_GROUP_NORM && !held_by(p, &(cm_knobs){{MOST_THREADS}}))
        return "a group is too large for one block";
    return a.at_x.col != 1 && !cm_cuda_lanes_reject(p) ? "rows lie side by side" : NULL;
}

/* Elements that a thread of one row best holds. */
static int64_t best_held(const cm_problem *p)
{
    return MOST_HELD_BYTES / 16 * cm_cuda_rows_vector(p);
}

/* As few threads as hold a row; more where there are few rows, but no more than a warp, which needs no barriers, if one holds them. */
static int knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_rows *r = &p->as.rows;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t vector = cm_cuda_rows_vector(p), threads = 4,
            wanted = (int64_t)facts.multiprocessors * 512;
    int64_t most = best_held(p), enough = r->cols <= WARP * MOST_HELD_ELEMS ? WARP : MOST_THREADS;
    while (threads < MOST_THREADS &&
           (r->cols > threads * most ||
            (r->cols > threads * vector && threads < enough && r->rows * threads < wanted)))
        threads *= 2;
    out[0] = (cm_knobs){{(int32_t)threads}};
    if (threads == MOST_THREADS || threads < 64 || r->cols <= threads * vector)
        return 1;
    out[1] = (cm_knobs){{(int32_t)threads * 2}};
    return 2;
}

static const char *reject_clusters(const cm_problem *p)
{
    cm_rows_args a;
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (p->as.rows.cols < LEAST_CLUSTER_COLS || p->as.rows.embed)
        return "rows are short";
    if (!held_by(p, &(cm_knobs){{MOST_THREADS, MOST_CLUSTER}}))
        return "rows are too long for a cluster";
    why = cm_cuda_rows_place_any(p, &a);
    return why ? why : a.at_x.col != 1 ? "elements of rows are apart" : NULL;
}

/* The fewest blocks that hold a row: of half as many threads, which wait less for each other, where these are enough. */
static int knobs_clusters(const cm_problem *p, cm_knobs *out)
{
    int n = 0;
    for (int threads = MOST_THREADS / 2; threads <= MOST_THREADS; threads *= 2) {
        cm_knobs k = {{threads, 2}};
        while (k.v[1] < MOST_CLUSTER && !held_by(p, &k))
            k.v[1] *= 2;
        if (held_by(p, &k))
            out[n++] = k;
    }
    return n;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_rows_args a;
    cm_gpu_facts_of(&p->target, &facts);
    double bytes = cm_cuda_rows_bytes(p), fast = 0.85;
    (void)cm_cuda_rows_place_any(p, &a);
    if (a.at_x.col != 1 || a.at_y.col != 1)
        fast = 0.15;
    else if (p->as.rows.cols % cm_cuda_rows_vector(p) != 0)
        fast = 0.6;
    else if (k->v[0] == MOST_THREADS && cm_cuda_rows_vector(p) > 4) /* few of them at once */
        fast = 0.72;
    if (cluster_of(k) > 1) /* blocks wait for one another */
        fast = cm_dtype_size(p->in[0]->dtype) > 2 ? 0.65 : 0.5;
    if (!held_by(p, k))
        bytes *= 1.4;
    double threads = (double)p->as.rows.rows * k->v[0] * cluster_of(k);
    double full = (double)facts.multiprocessors * 256;
    fast *= threads < full ? cm_max_i64(1, (int64_t)(threads / full * 100)) / 100.0 : 1;
    double row = (double)p->as.rows.cols / k->v[0] * 2;
    return facts.launch_ns + row + bytes / facts.read_gbs / fast;
}

bool cm_cuda_rows_take_vectors(const cm_problem *p, const cm_rows_args *a)
{
    const cm_rows_place *all[] = {&a->at_x, &a->at_y, &a->at_sum};
    int64_t vector = cm_cuda_rows_vector(p);
    if (a->cols % vector != 0)
        return false;
    for (int t = 0; t < 2 + (p->as.rows.sum >= 0); t++) {
        if (all[t]->col != 1)
            return false;
        for (int i = 0; i < a->n_outer; i++)
            if (all[t]->outer[i] % vector != 0)
                return false;
    }
    return true;
}

static int rows_of(int threads)
{
    return threads <= WARP ? BLOCK / threads : 1;
}

/* Are scale and bias there before any kernel runs? */
static bool has_constant_factors(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    return (r->scale < 0 || p->constant[r->scale]) && (r->bias < 0 || p->constant[r->bias]);
}

cm_status cm_cuda_rows_compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_rows_args *a,
                               const cm_knobs *k, bool vectors, const char *entry,
                               const cm_kernel **out)
{
    int held = held_by(p, k), threads = k->v[0], cluster = cluster_of(k);
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, a);
    cm_buf_printf(
        &b,
        "#define VECTORS %d\n#define THREADS %d\n#define ROWS %d\n#define HELD %d\n"
        "#define CLUSTER %d\n#define WHOLE_CHANNELS %d\n#define FULL %d\n#define CONSTANT %d\n",
        vectors, threads, rows_of(threads), held, cluster, a->space % cm_cuda_rows_vector(p) == 0,
        vectors && p->as.rows.cols == (int64_t)held * cm_cuda_rows_vector(p) * threads * cluster,
        has_constant_factors(p));
    return cm_gpu_kernel_with(cx, d, &b, (cm_kernel_text){.file = "rows", .entry = entry}, 0, out);
}

static void set_tables(const cm_problem *p, cm_rows_args *a)
{
    const cm_rows *r = &p->as.rows;
    const int tables[] = {r->word, r->place, r->segment},
              ids[] = {r->ids, r->place_ids, r->segment_ids};
    for (int i = 0; r->embed && i < 3; i++) {
        a->table_rows[i] = tables[i] >= 0 ? p->in[tables[i]]->dims[0] : 0;
        a->wide_ids[i] = ids[i] >= 0 && p->in[ids[i]]->dtype == CM_I64;
    }
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    int threads = k->v[0], rows = rows_of(threads), cluster = cluster_of(k);
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    (void)cm_cuda_rows_place_any(p, &s->args);
    set_tables(p, &s->args);
    int64_t teams = cm_min_i64(INT32_MAX / cluster, cm_ceil_div(p->as.rows.rows, rows));
    s->grid = (cm_grid){.blocks = {(unsigned)(teams * cluster)},
                        .threads = {(unsigned)(threads * rows)},
                        .cluster = (unsigned)cluster,
                        .overlaps = true};
    if (cm_cuda_rows_take_vectors(p, &s->args))
        CM_TRY(cm_cuda_rows_compile(cx, d, p, &s->args, k, true, "rows", &s->vectors));
    if (p->as.rows.mask_index >= 0)
        CM_TRY(cm_cuda_rows_compile(cx, d, p, &s->args, k, false, "count_mask", &s->count));
    *out = s;
    return cm_cuda_rows_compile(cx, d, p, &s->args, k, false, "rows", &s->scalars);
}

bool cm_cuda_rows_are_aligned(const cm_rows_args *a)
{
    uintptr_t any = (uintptr_t)a->x | (uintptr_t)a->skip | (uintptr_t)a->third |
                    (uintptr_t)a->scale | (uintptr_t)a->bias | (uintptr_t)a->y | (uintptr_t)a->sum;
    return any % 16 == 0;
}

static cm_status count_mask(const cm_run *run, const cm_kernel *kernel)
{
    const cm_rows *r = &run->p->as.rows;
    const void *mask = r->mask >= 0 ? run->in[r->mask] : NULL;
    void *to = run->out[r->mask_index];
    int wide = mask && run->p->in[r->mask]->dtype == CM_I64;
    int64_t len = r->rows / r->batch;
    cm_grid grid = {.blocks = {(unsigned)r->batch}, .threads = {32}};
    return cm_gpu_launch(run, kernel, &grid, (void *[]){&mask, &wide, &len, &to});
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    if (s->count)
        CM_TRY(count_mask(r, s->count));
    const cm_kernel *kernel = s->vectors && cm_cuda_rows_are_aligned(&a) ? s->vectors : s->scalars;
    return cm_gpu_launch(r, kernel, &s->grid, (void *[]){&a});
}

const cm_tactic cm_cuda_rows_tactics[] = {
    {.name = "cuda_rows",
     .level = 750,
     .reject = reject,
     .knobs = knobs,
     .cost = cost,
     .ready = ready,
     .run = run},
    {.name = "cuda_rows_in_clusters",
     .level = 900,
     .reject = reject_clusters,
     .knobs = knobs_clusters,
     .cost = cost,
     .ready = ready,
     .run = run},
    {.name = "cuda_rows_kept",
     .level = 800,
     .reject = cm_cuda_kept_reject,
     .knobs = cm_cuda_kept_knobs,
     .cost = cm_cuda_kept_cost,
     .ready = cm_cuda_kept_ready,
     .run = cm_cuda_kept_run},
    {.name = "cuda_rows_side_by_side",
     .level = 750,
     .reject = cm_cuda_lanes_reject,
     .knobs = cm_cuda_lanes_knobs,
     .cost = cm_cuda_lanes_cost,
     .ready = cm_cuda_lanes_ready,
     .run = cm_cuda_lanes_run},
    {.name = "cuda_rows_in_slabs",
     .level = 900,
     .reject = cm_cuda_slab_reject,
     .knobs = cm_cuda_slab_knobs,
     .cost = cm_cuda_slab_cost,
     .ready = cm_cuda_slab_ready,
     .run = cm_cuda_slab_run},
    {.name = "cuda_rows_abreast",
     .level = 800,
     .reject = cm_cuda_abreast_reject,
     .knobs = cm_cuda_abreast_knobs,
     .cost = cm_cuda_abreast_cost,
     .workspace = cm_cuda_abreast_workspace,
     .ready = cm_cuda_abreast_ready,
     .run = cm_cuda_abreast_run},
    {.name = "cuda_rows_in_parts",
     .level = 750,
     .reject = cm_cuda_groups_reject,
     .cost = cm_cuda_groups_cost,
     .workspace = cm_cuda_groups_workspace,
     .ready = cm_cuda_groups_ready,
     .run = cm_cuda_groups_run},
    {.name = "cuda_rows_in_units",
     .level = 750,
     .reject = cm_cuda_units_reject,
     .cost = cm_cuda_units_cost,
     .workspace = cm_cuda_units_workspace,
     .ready = cm_cuda_units_ready,
     .run = cm_cuda_units_run},
    {.name = "cuda_rows_in_teams",
     .level = 900,
     .reject = cm_cuda_team_reject,
     .knobs = cm_cuda_team_knobs,
     .cost = cm_cuda_team_cost,
     .workspace = cm_cuda_team_workspace,
     .ready = cm_cuda_team_ready,
     .run = cm_cuda_together_run},
    {.name = "cuda_rows_in_bands",
     .level = 900,
     .reject = cm_cuda_bands_reject,
     .knobs = cm_cuda_bands_knobs,
     .cost = cm_cuda_bands_cost,
     .workspace = cm_cuda_bands_workspace,
     .ready = cm_cuda_bands_ready,
     .run = cm_cuda_together_run},
};
const int cm_cuda_rows_count = CM_COUNT(cm_cuda_rows_tactics);
