/* scatter.c -- SCATTER: updates at places that indices tell, as if one after the other.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The result does not hang on the order in which threads run: of equal places the last update stays, or all are combined
 * in their order. */
#include "cuda/scatter.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

enum { LARGEST = 16, HEADER_WORDS = 14, MERGED = 4 /* words of a slot */ };

typedef struct {
    const cm_kernel *find, *apply,
        *merge; /* merge: NULL, or instead of apply where the data is elsewhere */
    cm_grid find_grid, apply_grid, merge_grid;
    int64_t inner; /* elements of the kernel */
    size_t words;
    uint64_t *arguments;
} state;

/* Bytes of the workspace: heads and counts of slots come first, they begin with 0. */
typedef struct {
    size_t zeroed, count, slot, next, bytes;
} room;

static room room_of(const cm_scatter *s)
{
    bool lists = s->how != CM_SCATTER_SET;
    room r = {.count = (size_t)s->slots * sizeof(uint32_t)};
    r.zeroed = lists ? 2 * r.count : r.count;
    r.slot = r.zeroed;
    r.next = r.slot + (size_t)s->n * sizeof(uint32_t);
    r.bytes = lists ? r.next + (size_t)s->n * sizeof(uint32_t) : r.next;
    return r;
}

const char *cm_cuda_scatter_reject(const cm_problem *p)
{
    const cm_scatter *s = &p->as.scatter;
    const cm_tensor *x = p->in[0], *index = p->in[1];
    if (x->dtype == CM_STR || cm_dtype_is_sub_byte(x->dtype))
        return "elements are not plain memory";
    if (s->how != CM_SCATTER_SET && (!cm_gpu_element(x->dtype) || x->dtype == CM_BOOL))
        return "the element type cannot be combined";
    if (index->dtype != CM_I32 && index->dtype != CM_I64)
        return "indices are neither i32 nor i64";
    if (cm_gpu_is_wide(s->slots) || cm_gpu_is_wide(s->n) || cm_gpu_is_wide(s->inner))
        return "too many places";
    if (s->tuples && s->depth < 1)
        return "tuples of nothing";
    for (int i = 0; i < 3; i++)
        if (!cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    return cm_tensor_is_dense(p->out[0]) ? NULL : "the output is strided";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_scatter *s = &p->as.scatter;
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    double data = 2 * size * (double)cm_tensor_elems(p->in[0]);
    bool merges = s->how == CM_SCATTER_SET && s->inner * (int64_t)size >= MERGED * LARGEST;
    double updates = (merges ? 0 : 3) * size * (double)(s->n * s->inner) + 32 * (double)s->n;
    (void)k;
    return cm_gpu_stream_ns(&p->target, data + updates + 4 * (double)s->slots) +
           2 * cm_gpu_stream_ns(&p->target, 0);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return room_of(&p->as.scatter).bytes;
}

/* What is moved at once: an element where updates are combined, else as much as rows are made of. */
static int64_t word_of(const cm_problem *p)
{
    const cm_scatter *s = &p->as.scatter;
    int64_t word = (int64_t)cm_dtype_size(p->in[0]->dtype), row = s->inner * word;
    while (s->how == CM_SCATTER_SET && word < LARGEST && row % (2 * word) == 0)
        word *= 2;
    return word;
}

static int rank_of(const cm_problem *p)
{
    return p->as.scatter.tuples ? 1 : p->in[1]->rank;
}

/* As struct arguments of the kernel has them, pointers missing. */
static void put_arguments(uint64_t *to, const cm_problem *p, int64_t inner)
{
    const cm_scatter *s = &p->as.scatter;
    const cm_tensor *x = p->in[0], *index = p->in[1];
    int rank = rank_of(p);
    cm_gpu_axis axis = cm_gpu_axis_of(inner);
    to[10] = (uint64_t)cm_tensor_elems(x) * cm_dtype_size(x->dtype);
    to[11] = (uint64_t)s->n;
    memcpy(to + 12, &axis, sizeof axis);
    to += HEADER_WORDS;
    uint64_t *size = to, *step = to + s->depth + 1;
    for (int k = 0; k < s->depth; k++) {
        int a = s->tuples ? k : s->axis;
        size[k] = (uint64_t)x->dims[a];
        step[k] = (uint64_t)(x->strides[a] / cm_max_i64(1, s->inner));
    }
    to += 2 * (s->depth + 1);
    for (int d = 0; d < rank; d++, to += 2) {
        axis = cm_gpu_axis_of(s->tuples ? s->n : index->dims[d]);
        memcpy(to, &axis, sizeof axis);
    }
    for (int d = 0; d < rank; d++)
        *to++ = s->tuples || d == s->axis ? 0 : (uint64_t)x->strides[d];
}

static void put_defines(const cm_problem *p, int64_t word, int64_t inner, char *to, size_t n)
{
    const cm_scatter *s = &p->as.scatter;
    cm_dtype t = p->in[0]->dtype;
    const char *number = cm_gpu_is_float(t) ? "double" : t == CM_U64 ? "u64" : "i64";
    snprintf(to, n,
             "#define RANK %d\n#define DEPTH %d\n#define INDEX %s\n#define WIDE %d\n"
             "#define ELEMENT %s\n#define COMBINE %d\n#define NUMBER %s\n",
             rank_of(p), s->depth, p->in[1]->dtype == CM_I32 ? "i32" : "i64",
             cm_gpu_is_wide(cm_max_i64(s->n, s->slots) * inner),
             s->how == CM_SCATTER_SET ? cm_gpu_word((size_t)word) : cm_gpu_element(t), (int)s->how,
             number);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_scatter *s = &p->as.scatter;
    char defines[256];
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    int64_t bytes = cm_tensor_elems(p->in[0]) * (int64_t)cm_dtype_size(p->in[0]->dtype);
    if (bytes == 0)
        return CM_OK; /* no kernel, nothing to launch */
    int64_t word = word_of(p), inner = s->inner * (int64_t)cm_dtype_size(p->in[0]->dtype) / word;
    st->words = HEADER_WORDS + 2 * (size_t)(s->depth + 1) + 3 * (size_t)rank_of(p);
    CM_NEW_N(cx, arena, st->arguments, st->words, uint64_t);
    put_arguments(st->arguments, p, inner);
    put_defines(p, word, inner, defines, sizeof defines);
    cm_kernel_text t = {.file = "scatter", .defines = defines, .entry = "scatter_find"};
    int64_t items = cm_max_i64(s->n, cm_ceil_div(bytes, LARGEST));
    st->find_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, items)}, .threads = {CM_GPU_THREADS}};
    st->apply_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->n * inner)}, .threads = {CM_GPU_THREADS}};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->find));
    t.entry = "scatter_apply";
    CM_TRY(s->n ? cm_gpu_kernel(cx, d, &t, 0, &st->apply) : CM_OK);
    if (!s->n || s->how != CM_SCATTER_SET || inner < MERGED)
        return CM_OK;
    st->merge_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, bytes / word)}, .threads = {CM_GPU_THREADS}};
    t.entry = "scatter_merge";
    return cm_gpu_kernel(cx, d, &t, 0, &st->merge);
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    room w = room_of(&r->p->as.scatter);
    char *work = r->workspace;
    uint64_t a[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    if (!st->find)
        return CM_OK;
    memcpy(a, st->arguments, st->words * sizeof *a);
    const void *pointers[] = {r->in[0] == r->out[0] ? NULL : r->in[0], r->in[1], r->in[2],
                              r->out[0], r->fault};
    for (int i = 0; i < CM_COUNT(pointers); i++)
        a[i] = (uintptr_t)pointers[i];
    a[5] = r->fault_code;
    a[6] = (uintptr_t)work;
    a[7] = (uintptr_t)(work + w.count);
    a[8] = (uintptr_t)(work + w.slot);
    a[9] = (uintptr_t)(work + w.next);
    if (st->apply)
        CM_TRY(cm_gpu_fill(r, work, 0, w.zeroed));
    bool merges = st->merge && a[0];
    uint64_t data = a[0];
    a[0] = merges ? 0 : data;
    CM_TRY(cm_gpu_launch(r, st->find, &st->find_grid, (void *[]){a}));
    a[0] = data;
    if (merges)
        return cm_gpu_launch(r, st->merge, &st->merge_grid, (void *[]){a});
    return st->apply ? cm_gpu_launch(r, st->apply, &st->apply_grid, (void *[]){a}) : CM_OK;
}

const cm_tactic cm_cuda_scatter_tactics[] = {
    {.name = "cuda_scatter",
     .level = 750,
     .reject = cm_cuda_scatter_reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run,
     .in_place = 1},
    {.name = "cuda_scatter_rows",
     .level = 750,
     .reject = cm_cuda_scatter_rows_reject,
     .knobs = cm_cuda_scatter_rows_knobs,
     .cost = cm_cuda_scatter_rows_cost,
     .ready = cm_cuda_scatter_rows_ready,
     .run = cm_cuda_scatter_rows_run,
     .in_place = 1},
};
const int cm_cuda_scatter_count = CM_COUNT(cm_cuda_scatter_tactics);
