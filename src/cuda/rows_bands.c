/* rows_bands.c -- group normalisation, channels innermost, of images that all blocks keep together in their shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One kernel, whose blocks are all there at once: bands of images, some whole groups each, are of units that blocks take in turns, and each
 * element passes through memory once. kernels/rows_bands.cu says how. */
#include "base/size.h"
#include "cuda/rows.h"

#include <math.h>

enum {
    MOST_SLOTS = 24,
    LEAST_BYTES = 12288, /* of an image: a block holds smaller ones */
    STATS_BYTES = 32,
    TOLD_BYTES = 16,  /* of a row, and of each block that has units of it */
    OWN_BYTES = 1024, /* what the driver takes */
    PUBLISHERS = 64,  /* threads, and those behind them */
    SERVICE = 64,
};

/* Knob 0: threads that keep vectors; 1: vectors of each in a unit; 2: units that a block has room for; 3: of them on their way; 4: vectors of
 * a band at each position. */
enum { MAIN, PER, SLOTS, AHEAD, LANES };

static const char *place(const cm_problem *p, cm_rows_args *a)
{
    bool last;
    const char *why = cm_cuda_groups_by_vectors(p, a, &last);
    return why ? why : !last ? "channels are not innermost" : NULL;
}

static int64_t bands_of(const cm_problem *p, const cm_knobs *k, const cm_rows_args *a)
{
    return a->channels / ((int64_t)k->v[LANES] * cm_cuda_groups_width(p));
}

/* How images, which are placed, are divided. */
static void divide(const cm_problem *p, const cm_knobs *k, cm_rows_args *a)
{
    a->part = (int64_t)(k->v[MAIN] / k->v[LANES]) * k->v[PER];
    a->parts = cm_ceil_div(a->space, a->part);
    a->units = a->parts * a->dims[0] * bands_of(p, k, a);
}

static int64_t blocks_of(const cm_problem *p, const cm_rows_args *a)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    return cm_min_i64(facts.multiprocessors, a->units);
}

/* Is each vector of one group? */
static bool has_whole_vectors(const cm_problem *p, const cm_rows_args *a)
{
    return a->channels / a->groups % cm_cuda_groups_width(p) == 0;
}

/* Of so many units, with what else a block keeps: kernels/rows_bands.cu, desk. */
static int64_t shared_bytes(const cm_problem *p, const cm_knobs *k, const cm_rows_args *a)
{
    enum { BARRIER = 8, MOMENTS = 16, ONCE = 64 };
    int64_t width = cm_cuda_groups_width(p), each = a->channels / a->groups, pieces = 1;
    if (each % width != 0)
        pieces = width % each == 0 ? width / each : (width + each - 2) / each + 1;
    int64_t groups = k->v[LANES] * width / each;
    int64_t slot = (int64_t)k->v[MAIN] * k->v[PER] * 16 + 2 * BARRIER + groups * TOLD_BYTES;
    return k->v[SLOTS] * slot + k->v[MAIN] * pieces * MOMENTS + ONCE;
}

/* The widest band of which a block has no more than `most` bytes, and one of whole groups in any case; 0: there is none. */
static int lanes_within(const cm_problem *p, const cm_rows_args *a, int64_t most)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t width = cm_cuda_groups_width(p), each = a->channels / a->groups, least = 0;
    for (int64_t bands = 1; bands <= a->groups; bands++) {
        int64_t channels = a->channels / bands;
        if (a->groups % bands != 0 || channels % width != 0 || channels % each != 0)
            continue;
        if (least > 0 && channels / width * 16 < 128) /* memory is slow at less */
            break;
        least = channels / width;
        if (a->space * least * 16 <= most * facts.multiprocessors)
            break;
    }
    return (int)least;
}

/* Room for as many units as there is shared memory for. False: a band does not fit, with what is on its way. */
static bool settle(const cm_problem *p, cm_knobs *k)
{
    enum { BYTES_AHEAD = 49152 };
    cm_rows_args a;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    (void)place(p, &a);
    if (k->v[LANES] == 0 || k->v[LANES] > k->v[MAIN])
        return false;
    divide(p, k, &a);
    k->v[SLOTS] = MOST_SLOTS;
    while (k->v[SLOTS] > 0 && shared_bytes(p, k, &a) + OWN_BYTES > facts.shared_bytes)
        k->v[SLOTS]--;
    int64_t unit = (int64_t)k->v[MAIN] * k->v[PER] * 16;
    k->v[AHEAD] = (int)cm_max_i64(2, cm_ceil_div(BYTES_AHEAD, unit));
    int64_t delay = k->v[SLOTS] - k->v[AHEAD];
    return delay >= 1 + cm_ceil_div(a.parts, blocks_of(p, &a)) && a.units < INT32_MAX;
}

int cm_cuda_bands_knobs(const cm_problem *p, cm_knobs *out)
{
    /* Threads have too few registers for groups that end within vectors if they are more; wider bands leave too little room for others. */
    enum { MANY = 512, FEWER = 384, VECTORS = 4, WIDE = 49152, NARROW = 24576 };
    cm_rows_args a;
    int n = 0;
    (void)place(p, &a);
    int wide = lanes_within(p, &a, WIDE), narrow = lanes_within(p, &a, NARROW);
    cm_knobs k = {{FEWER, VECTORS, 0, 0, wide}};
    if (settle(p, &k))
        out[n++] = k;
    bool whole = has_whole_vectors(p, &a);
    k = (cm_knobs){{whole ? MANY : FEWER, VECTORS, 0, 0, narrow}};
    if ((whole || narrow != wide) && settle(p, &k))
        out[n++] = k;
    return n;
}

const char *cm_cuda_bands_reject(const cm_problem *p)
{
    cm_rows_args a;
    cm_knobs knobs[CM_MAX_KNOBS];
    const char *why = place(p, &a);
    if (why)
        return why;
    if (a.space * a.channels * (int64_t)cm_dtype_size(p->in[0]->dtype) < LEAST_BYTES)
        return "images are small";
    return cm_cuda_bands_knobs(p, knobs) == 0 ? "blocks cannot keep whole groups" : NULL;
}

/* What is told of all rows and of all that blocks have of them. */
static int64_t told_bytes(const cm_problem *p, const cm_rows_args *a)
{
    int64_t members = cm_min_i64(a->parts, blocks_of(p, a));
    return a->rows * (1 + members) * TOLD_BYTES;
}

size_t cm_cuda_bands_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_rows_args a;
    if (place(p, &a))
        return 0;
    divide(p, k, &a);
    int64_t bytes = told_bytes(p, &a) + a.rows * STATS_BYTES;
    return (size_t)cm_max_i64(bytes, (int64_t)cm_cuda_groups_workspace(p, k));
}

/* Each unit and each band cost a block something beside what passes through memory. As measured (H200), within a fifth. */
double cm_cuda_bands_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 8000, UNIT_NS = 420, BAND_NS = 630, OF_WHOLE = 2 };
    cm_rows_args a;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    (void)place(p, &a);
    divide(p, k, &a);
    double steps = (double)cm_ceil_div(a.units, blocks_of(p, &a));
    double bands = fmin(steps, (double)(a.units / a.parts));
    double memory = cm_cuda_rows_bytes(p) / facts.read_gbs / 1.05;
    double beside = (steps * UNIT_NS + bands * BAND_NS) / (has_whole_vectors(p, &a) ? OF_WHOLE : 1);
    return facts.launch_ns + BEGIN_NS + beside + memory;
}

cm_status cm_cuda_bands_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    cm_rows_together *s = cm_new(arena, cm_rows_together);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    cm_rows_args *a = &s->args;
    (void)place(p, a);
    divide(p, k, a);
    s->told = (size_t)told_bytes(p, a);
    s->grid = (cm_grid){.blocks = {(unsigned)blocks_of(p, a)},
                        .threads = {(unsigned)k->v[MAIN] + PUBLISHERS + SERVICE},
                        .shared = (size_t)shared_bytes(p, k, a),
                        .together = true};
    CM_TRY(cm_cuda_groups_ready_narrow(cx, d, arena, p, &s->narrow));
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, a);
    cm_buf_printf(&b,
                  "#define MAIN %d\n#define PER %d\n#define SLOTS %d\n#define AHEAD %d\n"
                  "#define LANES %d\n#define WIDTH %d\n#define CHANNELS %lld\n#define EACH %lld\n"
                  "#define CHANNELS_LAST 1\n#define PUBLISHERS %d\n",
                  k->v[MAIN], k->v[PER], k->v[SLOTS], k->v[AHEAD], k->v[LANES],
                  cm_cuda_groups_width(p), (long long)a->channels,
                  (long long)(a->channels / a->groups), PUBLISHERS);
    return cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_bands", .entry = "rows_bands"},
                              s->grid.shared, &s->kernel);
}
