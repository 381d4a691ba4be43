/* rows_kept.c -- long rows, and groups of channels, kept in shared memory by the threads of a block or of a cluster of blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each row passes through memory once, and while one is written the next is read; several blocks share a multiprocessor. */
#include "base/size.h"
#include "cuda/rows.h"

enum {
    BATCHES = 4,        /* of copies: kernels/rows_batches.cuh */
    MOST_PER = 8,       /* vectors of a thread in one */
    LEAST_BYTES = 8192, /* of a row: registers hold shorter ones */
    OWN_BYTES = 3072,   /* of a block beside the row, what the driver takes included */
    MOST_CLUSTER = 8,
    CLUSTERS_OF = 8, /* multiprocessors are together in so many, clusters lie within */
};

/* Knob 0: threads of a block; 1: blocks to a row; 2: blocks to a multiprocessor; 3: rows, one after the other, 0: as many as there are
 * turns; 4: rows that have places of their own, scales and biases being held by threads if there are several, 0: one. */
enum { THREADS, CLUSTER, BLOCKS, ROWS, RING };

typedef struct {
    const cm_kernel *kept, *scalars; /* scalars: for pointers that vectors do not fit */
    cm_grid grid, plain;
    bool ragged;
    cm_rows_args args;
} state;

static bool is_soft(const cm_problem *p)
{
    cm_rows_kind kind = p->as.rows.kind;
    return kind == CM_ROWS_SOFTMAX || kind == CM_ROWS_LOG_SOFTMAX;
}

/* Do rows begin and end anywhere, but with those of the result at the same places of vectors? */
static bool is_ragged(const cm_problem *p, const cm_rows_args *a)
{
    int64_t vector = cm_cuda_rows_vector(p);
    bool fits = a->cols % vector != 0 && a->at_x.col == 1 && a->at_y.col == 1 &&
                p->in[0]->dtype == p->out[0]->dtype;
    for (int i = 0; i < a->n_outer; i++)
        fits = fits && (a->at_x.outer[i] - a->at_y.outer[i]) % vector == 0;
    return fits && is_soft(p);
}

/* Whole vectors of each thread. */
static int64_t vectors_of(const cm_problem *p, const cm_knobs *k)
{
    int64_t vectors = p->as.rows.cols / cm_cuda_rows_vector(p);
    return cm_ceil_div(vectors, (int64_t)k->v[THREADS] * k->v[CLUSTER]);
}

static int ring_of(const cm_knobs *k)
{
    return k->v[RING] > 1 ? k->v[RING] : 1;
}

static int64_t shared_bytes(const cm_problem *p, const cm_knobs *k)
{
    return vectors_of(p, k) * k->v[THREADS] * 16 * ring_of(k);
}

/* Blocks of that many threads that a multiprocessor has room for. */
static int blocks_of(const cm_problem *p, const cm_knobs *k)
{
    enum { MOST_THREADS = 1536, MOST_OF_GROUPS = 1024, MOST_OF_NORMS = 768, MOST_BLOCKS = 8 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t bytes = shared_bytes(p, k);
    if (bytes + OWN_BYTES > facts.shared_bytes || vectors_of(p, k) > BATCHES * MOST_PER)
        return 0;
    int64_t threads = is_soft(p)                              ? MOST_THREADS
                      : p->as.rows.kind == CM_ROWS_GROUP_NORM ? MOST_OF_GROUPS
                                                              : MOST_OF_NORMS;
    int64_t n = cm_min_i64(MOST_BLOCKS, threads / k->v[THREADS]);
    return (int)cm_min_i64(n, facts.shared_bytes / (bytes + OWN_BYTES));
}

/* Rows that are at work at once. */
static int64_t teams_of(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t processors = facts.multiprocessors, cluster = k->v[CLUSTER];
    if (cluster > 2)
        processors = processors / CLUSTERS_OF * CLUSTERS_OF;
    int64_t teams = cm_max_i64(1, processors * k->v[BLOCKS] / cluster);
    return cm_min_i64(teams, p->as.rows.rows);
}

static int64_t turns_of(const cm_problem *p, const cm_knobs *k)
{
    return cm_ceil_div(p->as.rows.rows, teams_of(p, k));
}

static int64_t clusters_of(const cm_problem *p, const cm_knobs *k)
{
    int64_t teams = k->v[ROWS] ? cm_ceil_div(p->as.rows.rows, k->v[ROWS]) : teams_of(p, k);
    return cm_min_i64(teams, INT32_MAX / k->v[CLUSTER]);
}

/* Registers of a thread for scales and biases. */
static int64_t factor_registers(const cm_problem *p, const cm_knobs *k)
{
    const int factors[] = {p->as.rows.scale, p->as.rows.bias};
    int64_t n = 0;
    for (int i = 0; i < CM_COUNT(factors); i++)
        if (factors[i] >= 0 && cm_tensor_elems(p->in[factors[i]]) > 1)
            n += (int64_t)cm_dtype_size(p->in[factors[i]]->dtype) * cm_cuda_rows_vector(p) / 4;
    return n * vectors_of(p, k);
}

/* A ring of rows, by the fewest threads that hold scales and biases, which are not read for each row then: as much as the row itself. */
static int ring_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_THREADS = 512, MOST_REGISTERS = 64, MOST_RING = 6, LEAST_ROW = 16384 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    if (is_soft(p) || p->as.rows.kind == CM_ROWS_GROUP_NORM)
        return 0;
    for (int threads = 256; threads <= MOST_THREADS; threads *= 2) {
        cm_knobs k = {{threads, 1, MOST_THREADS / threads}};
        int64_t registers = factor_registers(p, &k), row = shared_bytes(p, &k);
        int64_t ring = (facts.shared_bytes / k.v[BLOCKS] - OWN_BYTES) / row;
        k.v[RING] = (int)cm_min_i64(ring, MOST_RING);
        if (row < LEAST_ROW || registers == 0 || registers > MOST_REGISTERS || ring < 2)
            continue;
        *out = k;
        return 1;
    }
    return 0;
}

/* A ring, which is best if there are rows for several turns; the fewest blocks to a row that leave room for a second on a multiprocessor, and twice as
 * many. */
int cm_cuda_kept_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_TURNS = 4 };
    static const int of_soft[] = {384, 256}, of_others[] = {512, 384, 256, 128};
    const int *threads = is_soft(p) ? of_soft : of_others;
    int n = ring_knobs(p, out), most = p->target.level >= 900 ? MOST_CLUSTER : 1, tried = 0;
    if (n > 0 && turns_of(p, out) > 1)
        return n;
    int n_threads = is_soft(p) ? CM_COUNT(of_soft) : CM_COUNT(of_others);
    for (int cluster = 1; cluster <= most && tried < 2; cluster *= 2) {
        int before = n;
        for (int i = 0; i < n_threads; i++) {
            cm_knobs k = {{threads[i], cluster}};
            k.v[BLOCKS] = blocks_of(p, &k);
            if (cluster > 2 && k.v[BLOCKS] > 0 && turns_of(p, &k) > MOST_TURNS)
                k.v[ROWS] = MOST_TURNS; /* not all clusters may be there at once */
            if (k.v[BLOCKS] > 1 || (k.v[BLOCKS] == 1 && cluster == most && n == before))
                out[n++] = k;
        }
        tried += n > before;
    }
    return n;
}

const char *cm_cuda_kept_reject(const cm_problem *p)
{
    cm_rows_args a;
    cm_knobs knobs[CM_MAX_KNOBS];
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (p->as.rows.embed || p->as.rows.skip >= 0)
        return "rows are sums";
    why = cm_cuda_rows_place_any(p, &a);
    if (why)
        return why;
    if (!cm_cuda_rows_take_vectors(p, &a) && !is_ragged(p, &a))
        return "rows are not of whole vectors";
    if (p->as.rows.cols * (int64_t)cm_dtype_size(p->in[0]->dtype) < LEAST_BYTES)
        return "rows are short";
    return cm_cuda_kept_knobs(p, knobs) == 0 ? "rows are too long for a cluster" : NULL;
}

/* Of each turn: what passes through memory, and no less than a row takes that is alone. As measured (H200). */
double cm_cuda_kept_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { ALONE_NS = 3000, CLUSTER_NS = 2500, BEGIN_NS = 1500, GOOD_THREADS = 1024 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    bool soft = is_soft(p);
    int64_t teams = teams_of(p, k);
    double elems = (double)p->as.rows.cols / k->v[CLUSTER];
    double alone = ALONE_NS + elems * (soft ? 0.05 : 0.2) + (k->v[CLUSTER] > 2 ? CLUSTER_NS : 0);
    double fast = k->v[THREADS] * k->v[BLOCKS] < GOOD_THREADS ? 0.84 : 0.88;
    if (k->v[RING] > 1)
        fast = k->v[BLOCKS] > 1 ? 0.9 : 0.82;
    if (k->v[CLUSTER] > 1)
        fast *= soft ? 0.95 : k->v[CLUSTER] == 2 ? 0.98 : 0.85;
    if (k->v[RING] > 1)
        alone = elems * 0.25;
    else if (k->v[BLOCKS] == 1)
        alone *= 1.5;
    double bytes = cm_cuda_rows_bytes(p) / (double)p->as.rows.rows * (double)teams;
    double memory = bytes / facts.read_gbs / fast;
    return facts.launch_ns + BEGIN_NS + (double)turns_of(p, k) * (memory > alone ? memory : alone);
}

cm_status cm_cuda_kept_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **out)
{
    enum { PLAIN_THREADS = 512 };
    cm_buf b;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)cm_cuda_rows_place_any(p, &s->args);
    s->ragged = is_ragged(p, &s->args);
    s->grid = (cm_grid){.blocks = {(unsigned)(clusters_of(p, k) * k->v[CLUSTER])},
                        .threads = {(unsigned)k->v[THREADS]},
                        .cluster = (unsigned)k->v[CLUSTER],
                        .shared = (size_t)shared_bytes(p, k),
                        .overlaps = true};
    s->plain = (cm_grid){.blocks = {(unsigned)cm_min_i64(INT32_MAX, p->as.rows.rows)},
                         .threads = {PLAIN_THREADS},
                         .overlaps = true};
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, &s->args);
    cm_buf_printf(
        &b,
        "#define THREADS %d\n#define CLUSTER %d\n#define BLOCKS %d\n#define PER %d\n"
        "#define WHOLE_CHANNELS %d\n#define RAGGED %d\n#define RING %d\n#define OWN %d\n",
        k->v[THREADS], k->v[CLUSTER], k->v[BLOCKS], (int)cm_ceil_div(vectors_of(p, k), BATCHES),
        s->args.space % cm_cuda_rows_vector(p) == 0, s->ragged, ring_of(k), (int)vectors_of(p, k));
    CM_TRY(cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_kept", .entry = "rows_kept"},
                              s->grid.shared + OWN_BYTES, &s->kept));
    return cm_cuda_rows_compile(cx, d, p, &s->args, &(cm_knobs){{PLAIN_THREADS}}, false, "rows",
                                &s->scalars);
}

cm_status cm_cuda_kept_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    bool aligned =
        s->ragged ? ((uintptr_t)a.x - (uintptr_t)a.y) % 16 == 0 : cm_cuda_rows_are_aligned(&a);
    return cm_gpu_launch(r, aligned ? s->kept : s->scalars, aligned ? &s->grid : &s->plain,
                         (void *[]){&a});
}
