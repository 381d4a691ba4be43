/* top.c -- the first few of long rows: a bound that a few are above of, then those in order.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Few and long rows go in parts, whose first ones a second launch joins. */
#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/sort.h"

enum {
    MOST = 256,     /* of a row */
    LEAST = 256,    /* elements of a row */
    JOINED = 16384, /* keys of a row's parts, at most */
    PART = 4096,
    SHORT_ROW = 2048,
    WARP_ROW = 1024, /* that a warp holds, of floats, */
    WARP_MOST = 16,  /* where no more of them are wanted */
    WARP = 32,
    AHEAD = 1 << 17, /* elements beyond a row's end that kernels count up to */
};

typedef struct {
    int threads, groups;
    int held; /* vectors of a thread where a warp has a row */
    int64_t parts, part;
} form;

static void form_of(const cm_problem *p, const cm_knobs *k, form *f)
{
    const cm_sort *s = &p->as.sort;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    bool warps = s->n <= WARP_ROW && s->k <= WARP_MOST && cm_gpu_is_float(p->in[0]->dtype);
    int64_t vector = 16 / (int64_t)cm_dtype_size(p->in[0]->dtype);
    f->held = warps ? (int)cm_ceil_div(s->n, vector * WARP) : 0;
    f->groups = 64;
    while (f->groups < 2 * s->k)
        f->groups *= 2;
    int64_t wanted = cm_ceil_div(4 * (int64_t)facts.multiprocessors, cm_max_i64(s->outer, 1));
    f->parts = cm_min_i64(cm_min_i64(wanted, s->n / PART), JOINED / cm_max_i64(s->k, 1));
    f->parts = s->outer <= (int64_t)facts.multiprocessors ? cm_max_i64(1, f->parts) : 1;
    f->part = cm_ceil_div(cm_ceil_div(s->n, f->parts), 16) * 16; /* whole vectors */
    f->parts = cm_ceil_div(s->n, f->part);
    bool many = s->n <= SHORT_ROW || s->outer >= 4 * (int64_t)facts.multiprocessors;
    f->threads = k && k->v[0] ? k->v[0] : many ? 128 : f->parts > 1 ? 256 : 512;
    f->threads = f->threads < f->groups ? f->groups : f->threads;
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
    return s->k > MOST ? "too many are wanted" : NULL;
}

double cm_cuda_top_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { PERCENT = 60, WAIT_NS = 3000 };
    cm_gpu_facts facts;
    form f;
    form_of(p, k, &f);
    cm_gpu_facts_of(&p->target, &facts);
    double bytes = (double)cm_tensor_elems(p->in[0]) * (double)cm_dtype_size(p->in[0]->dtype);
    double launches = f.parts > 1 ? 2 : 1;
    return launches * (facts.launch_ns + WAIT_NS) + bytes / (facts.read_gbs * PERCENT / 100);
}

int cm_cuda_top_knobs(const cm_problem *p, cm_knobs *out)
{
    form f;
    form_of(p, NULL, &f);
    out[0] = (cm_knobs){{f.threads}};
    int n = 1;
    for (int t = 128; !f.held && t <= 512; t *= 2)
        if (t != f.threads && t >= f.groups)
            out[n++] = (cm_knobs){{t}};
    return n;
}

size_t cm_cuda_top_workspace(const cm_problem *p, const cm_knobs *k)
{
    form f;
    form_of(p, k, &f);
    const cm_sort *s = &p->as.sort;
    return f.parts > 1 ? (size_t)(s->outer * f.parts * s->k) * sizeof(uint64_t) : 0;
}

typedef struct {
    const cm_kernel *kernel, *join;
    cm_grid grid, join_grid;
    form f;
} state;

static cm_status find_kernel(cm_ctx *cx, cm_device *d, const cm_problem *p, const form *f,
                             bool join, const cm_kernel **out)
{
    char defines[256];
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define LARGEST %d\n#define FLOATS %d\n#define UNSIGNED %d\n"
             "#define THREADS %d\n#define GROUPS %d\n#define ROOM %d\n#define HELD %d\n"
             "#define PARTS %d\n#define JOIN %d\n",
             cm_gpu_element(t), s->largest, cm_gpu_is_float(t), !cm_dtype_is_signed(t), f->threads,
             f->groups, s->n <= SHORT_ROW ? 1024 : 2048, f->held, f->parts > 1 && !join, join);
    cm_kernel_text text = {
        .file = "top", .defines = defines, .entry = f->held ? "top_of_warps" : "top"};
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
    int64_t most = cm_gpu_blocks(&p->target, INT64_MAX / 2);
    int64_t blocks = st->f.held ? cm_ceil_div(s->outer * WARP, st->f.threads) : s->outer;
    st->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(blocks * st->f.parts, most)},
                         .threads = {(unsigned)st->f.threads}};
    st->join_grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(s->outer, most)},
                              .threads = {(unsigned)st->f.threads}};
    CM_TRY(find_kernel(cx, d, p, &st->f, false, &st->kernel));
    return st->f.parts > 1 ? find_kernel(cx, d, p, &st->f, true, &st->join) : CM_OK;
}

cm_status cm_cuda_top_run(const cm_run *r)
{
    const state *st = r->state;
    const cm_problem *p = r->p;
    const cm_sort *s = &p->as.sort;
    struct {
        const void *x;
        void *y, *indices, *keys;
        int64_t rows, n, k, parts, part;
    } a = {r->in[0],
           p->out[0] ? r->out[0] : NULL,
           p->n_out > 1 && p->out[1] ? r->out[1] : NULL,
           r->workspace,
           s->outer,
           s->n,
           s->k,
           st->f.parts,
           st->f.part};
    if (!st->kernel)
        return CM_OK;
    CM_TRY(cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}));
    if (!st->join)
        return CM_OK;
    a.n = s->k * st->f.parts;
    a.parts = 1;
    a.part = s->n;
    return cm_gpu_launch(r, st->join, &st->join_grid, (void *[]){&a});
}
