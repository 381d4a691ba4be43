/* top.c -- the first few of long rows: a bound that a few are above of, then those in order.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Few and long rows go in parts: one launch brings a bound, the next one what is above it. */
#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/sort.h"

enum {
    MOST = 256,         /* of a row that a block has, */
    MOST_PARTED = 1024, /* and of one in parts */
    LEAST = 256,        /* elements of a row */
    SHORT_ROW = 2048,
    WARP_ROW = 1024, /* that a warp holds, of floats, */
    WARP_MOST = 16,  /* where no more of them are wanted */
    WARP = 32,
    AHEAD = 1 << 26, /* elements beyond a row's end that kernels count up to */
    /* As in kernels/top.cu, of rows in parts. */
    SHARES = 8,
    PARTED_ROOM = 4096,
    PARTED_THREADS = 1024,
    BATCH_BYTES = PARTED_THREADS * 16 * 8, /* that a block holds */
};

/* Knob 0: threads; 1: parts of a row, 0: a block has it without holding it. */
enum { THREADS, PARTS };

typedef struct {
    int threads, groups;
    int held; /* vectors of a thread where a warp has a row */
    int64_t parts;
} form;

/* Keys of groups of a row, several times k so that the bound is near. */
static int64_t keys_of(const form *f)
{
    return f->parts * f->groups;
}

static void form_of(const cm_problem *p, const cm_knobs *k, form *f)
{
    const cm_sort *s = &p->as.sort;
    int64_t vector = 16 / (int64_t)cm_dtype_size(p->in[0]->dtype);
    bool warps = s->n <= WARP_ROW && s->k <= WARP_MOST && cm_gpu_is_float(p->in[0]->dtype);
    *f = (form){.threads = k->v[THREADS], .parts = k->v[PARTS]};
    if (f->parts) {
        f->groups = f->parts == 1 ? PARTED_THREADS : SHARES;
        while (f->groups < PARTED_THREADS && keys_of(f) < cm_max_i64(1024, 2 * s->k))
            f->groups *= 2;
        return;
    }
    f->held = warps ? (int)cm_ceil_div(s->n, vector * WARP) : 0;
    f->groups = 64;
    while (f->groups < 2 * s->k)
        f->groups *= 2;
}

/* Parts of rows that are few; 0: they are many, or short. `least` of them have groups enough for k. */
static int64_t parts_of(const cm_problem *p, int64_t *least)
{
    const cm_sort *s = &p->as.sort;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t vectors = s->n / (16 / (int64_t)cm_dtype_size(p->in[0]->dtype));
    int64_t most = facts.multiprocessors / cm_max_i64(s->outer, 1);
    int64_t parts = cm_min_i64(most, vectors / PARTED_THREADS);
    *least = cm_ceil_div(2 * s->k, PARTED_THREADS);
    return parts < *least ? 0 : parts;
}

const char *cm_cuda_top_reject(const cm_problem *p)
{
    const cm_sort *s = &p->as.sort;
    const char *why = cm_gpu_top_k_reject(p);
    if (why)
        return why;
    if (cm_dtype_size(p->in[0]->dtype) > 4)
        return "the element type";
    if (s->inner != 1)
        return "elements of a row are apart";
    if (s->n < LEAST || s->n >= INT32_MAX - AHEAD || s->k < 1)
        return "rows are short";
    int64_t least;
    return s->k > MOST_PARTED || (s->k > MOST && parts_of(p, &least) == 0) ? "too many are wanted"
                                                                           : NULL;
}

/* Settings of rows in parts: as many as there are multiprocessors, and one where a block holds it all. */
static int parted_knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_sort *s = &p->as.sort;
    int64_t least, most = parts_of(p, &least),
                   bytes = s->n * (int64_t)cm_dtype_size(p->in[0]->dtype);
    int n = 0;
    if (most > 1)
        out[n++] = (cm_knobs){{PARTED_THREADS, (int)most}};
    if (most && least == 1 && bytes <= BATCH_BYTES)
        out[n++] = (cm_knobs){{PARTED_THREADS, 1}};
    return n;
}

/* A block brings what it reads at BLOCK_GBS, all of them at no more than a part of what memory gives; before and after that,
 * bounds are found and keys are ranked. */
double cm_cuda_top_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BLOCK_GBS = 33, PERCENT = 60, WARPS_PERCENT = 90 };
    enum { WARPS_NS = 500, HELD_NS = 3500, ROW_NS = 4500, PARTS_NS = 8500 };
    const cm_sort *s = &p->as.sort;
    cm_gpu_facts facts;
    form f;
    form_of(p, k, &f);
    cm_gpu_facts_of(&p->target, &facts);
    double row = (double)s->n * (double)cm_dtype_size(p->in[0]->dtype), rows = (double)s->outer;
    if (f.held)
        return facts.launch_ns + WARPS_NS + rows * row / (facts.read_gbs * WARPS_PERCENT / 100);
    double all = rows * row / (facts.read_gbs * PERCENT / 100);
    double one = row / (f.parts ? (double)f.parts : 1) / BLOCK_GBS;
    double launches = f.parts > 1 ? 2 : 1;
    double wait = f.parts > 1 ? PARTS_NS : f.parts ? HELD_NS : ROW_NS;
    return launches * facts.launch_ns + wait + (one > all ? one : all);
}

int cm_cuda_top_knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_sort *s = &p->as.sort;
    cm_gpu_facts facts;
    form f;
    cm_gpu_facts_of(&p->target, &facts);
    int n = parted_knobs(p, out);
    if (s->k > MOST)
        return n;
    form_of(p, &(cm_knobs){{0}}, &f);
    bool many = s->n <= SHORT_ROW || s->outer >= 4 * (int64_t)facts.multiprocessors;
    int best = (int)cm_max_i64(many ? 128 : 512, f.groups);
    out[n++] = (cm_knobs){{best}};
    for (int t = 128; !f.held && t <= 512; t *= 2)
        if (t != best && t >= f.groups)
            out[n++] = (cm_knobs){{t}};
    return n;
}

size_t cm_cuda_top_workspace(const cm_problem *p, const cm_knobs *k)
{
    enum { WORDS = 8 };
    form f;
    form_of(p, k, &f);
    int64_t row = (keys_of(&f) + PARTED_ROOM) * (int64_t)sizeof(uint64_t) + WORDS;
    return f.parts > 1 ? (size_t)(p->as.sort.outer * row) : 0;
}

typedef struct {
    const cm_kernel *kernel, *before; /* before: of rows in parts */
    cm_grid grid;
    form f;
} state;

static cm_status find_kernel(cm_ctx *cx, cm_device *d, const cm_problem *p, const form *f,
                             const char *entry, const cm_kernel **out)
{
    char defines[256];
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    int room = f->parts ? PARTED_ROOM : s->n <= SHORT_ROW ? 1024 : 2048;
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define LARGEST %d\n#define FLOATS %d\n#define UNSIGNED %d\n"
             "#define THREADS %d\n#define GROUPS %d\n#define ROOM %d\n#define HELD %d\n"
             "#define PARTS %d\n#define ALONE %d\n#define KEYS %d\n",
             cm_gpu_element(t), s->largest, cm_gpu_is_float(t), !cm_dtype_is_signed(t), f->threads,
             f->groups, room, f->held, f->parts > 0, f->parts == 1,
             (int)cm_ceil_div(keys_of(f), SHARES * WARP));
    cm_kernel_text text = {.file = "top", .defines = defines, .entry = entry};
    return cm_gpu_kernel(cx, d, &text, 0, out);
}

cm_status cm_cuda_top_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **out)
{
    const cm_sort *s = &p->as.sort;
    state *st = cm_new(arena, state);
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    form_of(p, k, &st->f);
    if (s->outer == 0)
        return CM_OK; /* no kernel, nothing to launch */
    const form *f = &st->f;
    int64_t most = cm_gpu_blocks(&p->target, INT64_MAX / 2);
    int64_t blocks = f->held ? cm_ceil_div(s->outer * WARP, f->threads) : s->outer;
    blocks = f->parts ? s->outer * f->parts : cm_min_i64(blocks, most);
    st->grid = (cm_grid){.blocks = {(unsigned)blocks}, .threads = {(unsigned)f->threads}};
    if (f->parts > 1)
        CM_TRY(find_kernel(cx, d, p, f, "top_champions", &st->before));
    const char *entry = f->held ? "top_of_warps" : f->parts ? "top_parts" : "top";
    return find_kernel(cx, d, p, f, entry, &st->kernel);
}

cm_status cm_cuda_top_run(const cm_run *r)
{
    const state *st = r->state;
    const cm_problem *p = r->p;
    const cm_sort *s = &p->as.sort;
    uint64_t *keys = r->workspace;
    struct {
        const void *x;
        void *y, *indices, *keys, *words;
        int64_t rows, n, k, parts;
    } a = {r->in[0],
           p->out[0] ? r->out[0] : NULL,
           p->n_out > 1 && p->out[1] ? r->out[1] : NULL,
           keys,
           keys ? keys + s->outer * (keys_of(&st->f) + PARTED_ROOM) : NULL,
           s->outer,
           s->n,
           s->k,
           st->f.parts};
    cm_grid grid = st->grid;
    if (!st->kernel)
        return CM_OK;
    if (st->before) {
        CM_TRY(cm_gpu_launch(r, st->before, &grid, (void *[]){&a}));
        grid.overlaps = true;
    }
    return cm_gpu_launch(r, st->kernel, &grid, (void *[]){&a});
}
