/* pick.c -- PICK: places of what is not 0 (NonZero), slices that truths name (Compress).
 * SPDX-License-Identifier: Apache-2.0
 *
 * How many there are is counted on the way; the host is told. Few elements are one block's, and one launch; slices take
 * one more. */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { TILE = 2048, ONE_BLOCK = 2 * TILE, MOST_BLOCKS = 1024, LARGEST_WORD = 16 };

typedef struct {
    const cm_kernel *count, *write, *slices; /* NULL: not needed */
    cm_grid grid, slices_grid;
    uint32_t each;
    int64_t inner; /* words of a slice */
} state;

/* Bits of an element that tell it from 0; 0: none of this type is 0. */
static uint64_t telling_bits(cm_dtype t)
{
    switch (t) {
    case CM_F64:
    case CM_C128:
        return INT64_MAX;
    case CM_C64:
        return UINT64_C(0x7fffffff7fffffff);
    case CM_F32:
        return INT32_MAX;
    case CM_F16:
    case CM_BF16:
        return INT16_MAX;
    case CM_F8E4M3FN:
    case CM_F8E5M2:
        return INT8_MAX;
    case CM_F8E8M0:
        return 0;
    default: /* integers, truths, and floats whose -0 is a NaN */
        return UINT64_MAX;
    }
}

static const char *reject(const cm_problem *p)
{
    const cm_pick *k = &p->as.pick;
    for (int i = 0; i < p->n_in; i++)
        if (cm_dtype_is_sub_byte(p->in[i]->dtype) || p->in[i]->dtype == CM_STR)
            return "elements are not plain memory";
    for (int i = 0; i < p->n_in; i++)
        if (!cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    if (!k->slices && !telling_bits(p->in[0]->dtype))
        return "no element is 0";
    if (k->n > INT32_MAX || k->length > INT32_MAX)
        return "more than 2^31 - 1 elements";
    return cm_tensor_is_dense(p->out[0]) ? NULL : "the output is strided";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_pick *s = &p->as.pick;
    double asked = (double)s->n * (double)cm_dtype_size(p->in[s->slices]->dtype);
    double moved = (double)(cm_tensor_elems(p->out[0]) * (int64_t)cm_dtype_size(p->out[0]->dtype));
    (void)k;
    return cm_gpu_stream_ns(&p->target, 2 * asked + moved) + cm_gpu_stream_ns(&p->target, 0);
}

static int64_t blocks_of(const cm_pick *k)
{
    return k->n <= ONE_BLOCK ? 1 : cm_min_i64(MOST_BLOCKS, cm_ceil_div(k->n, TILE));
}

/* The total, counts of blocks, the list of slices. */
static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_pick *s = &p->as.pick;
    (void)k;
    return (size_t)(1 + blocks_of(s) + (s->slices ? s->n : 0)) * sizeof(uint32_t);
}

static cm_status ready_slices(cm_ctx *cx, cm_device *d, const cm_problem *p, state *st)
{
    const cm_pick *s = &p->as.pick;
    int64_t word = (int64_t)cm_dtype_size(p->in[0]->dtype), row = s->inner * word;
    char defines[256];
    while (word < LARGEST_WORD && row % (2 * word) == 0)
        word *= 2;
    st->inner = row / word;
    snprintf(defines, sizeof defines,
             "#define RANK 0\n#define WORD u8\n#define PICKS(v) ((v) != 0)\n#define SLICES\n"
             "#define ELEMENT %s\n#define WIDE %d\n",
             cm_gpu_word((size_t)word), cm_gpu_is_wide(s->outer * s->length * st->inner));
    cm_kernel_text t = {.file = "pick", .defines = defines, .entry = "pick_count"};
    int64_t most = s->outer * cm_min_i64(s->n, s->length) * st->inner;
    st->slices_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, most)}, .threads = {CM_GPU_THREADS}};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->count));
    t.entry = "pick_write";
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->write));
    t.entry = "pick_slices";
    return most ? cm_gpu_kernel(cx, d, &t, 0, &st->slices) : CM_OK;
}

static cm_status ready_places(cm_ctx *cx, cm_device *d, const cm_problem *p, state *st)
{
    static const char *const words[] = {"u8", "u16", "u32", "u64", "pair"};
    char defines[256];
    size_t size = cm_dtype_size(p->in[0]->dtype);
    int log = 0;
    while ((size_t)1 << log < size)
        log++;
    uint64_t mask = telling_bits(p->in[0]->dtype);
    snprintf(defines, sizeof defines,
             "#define RANK %d\n#define WORD %s\n#define PICKS(v) (%s & 0x%llxull)\n",
             p->in[0]->rank, words[log], size == 16 ? "((v).a | (v).b)" : "(v)",
             (unsigned long long)mask);
    cm_kernel_text t = {.file = "pick", .defines = defines, .entry = "pick_count"};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->count));
    t.entry = "pick_write";
    return cm_gpu_kernel(cx, d, &t, 0, &st->write);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_pick *s = &p->as.pick;
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    int64_t tiles = cm_ceil_div(cm_ceil_div(cm_max_i64(1, s->n), TILE), blocks_of(s));
    st->each = (uint32_t)(tiles * TILE);
    st->grid = (cm_grid){.blocks = {(unsigned)cm_max_i64(1, cm_ceil_div(s->n, st->each))},
                         .threads = {CM_GPU_THREADS}};
    return s->slices ? ready_slices(cx, d, p, st) : ready_places(cx, d, p, st);
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_pick *s = &r->p->as.pick;
    const cm_tensor *x = r->p->in[0];
    uint32_t *work = r->workspace;
    struct {
        const void *asked;
        void *places;
        const void *x;
        void *y;
        int64_t *count;
        uint32_t *fault, *total, *found, *list;
        int64_t outer, inner;
        uint32_t fault_code, n, length, each, dims[CM_MAX_RANK + 1];
    } a = {.asked = r->in[s->slices],
           .places = r->out[0],
           .x = r->in[0],
           .y = r->out[0],
           .count = r->count,
           .fault = r->fault,
           .total = work,
           .found = work + 1,
           .list = work + 1 + blocks_of(s),
           .outer = s->outer,
           .inner = st->inner,
           .fault_code = r->fault_code,
           .n = (uint32_t)s->n,
           .length = (uint32_t)(s->slices ? s->length : s->n),
           .each = st->each};
    for (int i = 0; !s->slices && i < x->rank; i++)
        a.dims[i] = (uint32_t)x->dims[i];
    if (st->grid.blocks[0] > 1)
        CM_TRY(cm_gpu_launch(r, st->count, &st->grid, (void *[]){&a}));
    CM_TRY(cm_gpu_launch(r, st->write, &st->grid, (void *[]){&a}));
    return st->slices ? cm_gpu_launch(r, st->slices, &st->slices_grid, (void *[]){&a}) : CM_OK;
}

const cm_tactic cm_cuda_pick_tactics[] = {
    {.name = "cuda_pick",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
};
const int cm_cuda_pick_count = CM_COUNT(cm_cuda_pick_tactics);
