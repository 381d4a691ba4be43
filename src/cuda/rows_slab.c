/* rows_slab.c -- softmax of long rows that lie side by side, in slabs of neighbours that a block or a cluster of them keeps in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each element passes through memory once; rows that registers hold are those of rows_lanes.c. */
#include "base/size.h"
#include "cuda/rows.h"

enum {
    MOST_CLUSTER = 8,
    LEAST_COLS = 32,
    LEAST_LINE = 64, /* bytes of an element's neighbours, so that what memory sends is used */
    OWN_BYTES = 1024,
    MOST_STATIC = 49152,
};

/* Knob 0: threads of a block; 1: blocks to a slab; 2: neighbours in a slab; 3: blocks to a multiprocessor. */
enum { THREADS, CLUSTER, WIDTH, BLOCKS };

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

static int64_t ways_of(const cm_knobs *k, int side)
{
    return k->v[THREADS] / (k->v[WIDTH] / side);
}

static int64_t part_of(const cm_problem *p, const cm_knobs *k)
{
    return cm_ceil_div(p->as.rows.cols, k->v[CLUSTER]);
}

static int64_t kept_bytes(const cm_problem *p, const cm_knobs *k, int side)
{
    int64_t each = cm_ceil_div(part_of(p, k), ways_of(k, side));
    return each * k->v[THREADS] * side * (int64_t)cm_dtype_size(p->in[0]->dtype);
}

/* What ways and blocks meet in. */
static int64_t meeting_bytes(const cm_knobs *k, int side)
{
    return (ways_of(k, side) + k->v[CLUSTER] + 1) * k->v[WIDTH] * 8;
}

static int blocks_of(const cm_problem *p, const cm_knobs *k, int side)
{
    enum { MOST_THREADS = 2048, MOST_BLOCKS = 4 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t meeting = meeting_bytes(k, side), bytes = kept_bytes(p, k, side) + meeting + OWN_BYTES;
    if (meeting > MOST_STATIC)
        return 0;
    int64_t n = cm_min_i64(facts.shared_bytes / bytes, MOST_THREADS / k->v[THREADS]);
    return (int)cm_min_i64(n, MOST_BLOCKS);
}

/* All neighbours at once or a slab of them, whichever the fewest blocks keep; and twice as many blocks. */
int cm_cuda_slab_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_SETTINGS = 10 };
    static const int threads[] = {512, 256, 1024};
    static const int64_t widths[] = {512, 256, 128, 64, 32};
    cm_rows_args a;
    int n = 0, side = cm_cuda_lanes_side(p, &a);
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype), before = 0;
    for (int w = 0; w < CM_COUNT(widths); w++) {
        int64_t width = a.lanes <= widths[w] ? a.lanes : widths[w];
        if (width == before || width * size < LEAST_LINE)
            continue;
        before = width;
        for (int t = 0; t < CM_COUNT(threads); t++) {
            int tried = 0;
            for (int c = 1; c <= MOST_CLUSTER && tried < 2 && n < MOST_SETTINGS; c *= 2) {
                cm_knobs k = {{threads[t], c, (int)width}};
                if (width / side > threads[t])
                    continue;
                k.v[BLOCKS] = blocks_of(p, &k, side);
                if (k.v[BLOCKS] < 1 || (k.v[BLOCKS] == 1 && c < MOST_CLUSTER))
                    continue;
                out[n++] = k;
                tried++;
            }
        }
    }
    return n;
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
    if (p->as.rows.cols < LEAST_COLS)
        return "registers hold the rows";
    if (cm_cuda_lanes_side(p, &a) * (int64_t)cm_dtype_size(p->in[0]->dtype) < 4)
        return "neighbours are not to be copied in whole words";
    if (a.at_y.side != 1)
        return "results do not lie side by side";
    return cm_cuda_slab_knobs(p, knobs) == 0 ? "blocks cannot keep the rows" : NULL;
}

double cm_cuda_slab_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 5000 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    double fast = k->v[THREADS] > 256 ? 0.33 : k->v[BLOCKS] > 1 ? 0.45 : 0.4;
    return (facts.launch_ns + BEGIN_NS + cm_cuda_rows_bytes(p) / facts.read_gbs / fast);
}

cm_status cm_cuda_slab_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    int side = cm_cuda_lanes_side(p, &s->args);
    s->args.part = part_of(p, k);
    s->align = (size_t)side * cm_dtype_size(p->in[0]->dtype);
    int64_t units = s->args.rows * cm_ceil_div(s->args.lanes, k->v[WIDTH]);
    s->grid = (cm_grid){.blocks = {(unsigned)(units * k->v[CLUSTER])},
                        .threads = {(unsigned)k->v[THREADS]},
                        .cluster = (unsigned)k->v[CLUSTER],
                        .shared = (size_t)kept_bytes(p, k, side),
                        .overlaps = true};
    const cm_knobs narrow = narrow_knobs();
    CM_TRY(cm_cuda_lanes_ready(cx, d, arena, p, &narrow, &s->narrow));
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, &s->args);
    cm_buf_printf(&b,
                  "#define THREADS %d\n#define CLUSTER %d\n#define WIDTH %d\n#define BLOCKS %d\n"
                  "#define SIDE %d\n",
                  k->v[THREADS], k->v[CLUSTER], k->v[WIDTH], k->v[BLOCKS], side);
    return cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_slab", .entry = "rows_slab"},
                              s->grid.shared + (size_t)meeting_bytes(k, side), &s->kernel);
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
