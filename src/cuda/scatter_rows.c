/* scatter_rows.c -- SCATTER along rows that a block's shared memory holds: all that is read or written passes through memory once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/size.h"
#include "cuda/scatter.h"

enum {
    SIDE = 2,      /* updates that are read at once */
    MOST_PER = 16, /* runs of them that a thread has */
    OWN_BYTES = 1024,
    LARGEST = 16,
};

/* Knob 0: threads of a block; 1: blocks of a multiprocessor. */
enum { THREADS, BLOCKS };

typedef struct {
    const cm_kernel *wide, *narrow; /* narrow: for pointers that words do not fit */
    size_t align;
    cm_grid grid;
} state;

static int64_t row_of(const cm_problem *p)
{
    const cm_tensor *x = p->in[0];
    return x->dims[x->rank - 1];
}

static int64_t updates_of(const cm_problem *p)
{
    const cm_tensor *index = p->in[1];
    return index->dims[index->rank - 1];
}

static int64_t size_of(const cm_problem *p)
{
    return (int64_t)cm_dtype_size(p->in[0]->dtype);
}

/* Who came last, and the elements. */
static int64_t shared_bytes(const cm_problem *p)
{
    int64_t n = row_of(p);
    return cm_ceil_div(n, 4) * 16 + cm_ceil_div(n * size_of(p), LARGEST) * LARGEST;
}

static int64_t per_of(const cm_problem *p, const cm_knobs *k, int side)
{
    return cm_ceil_div(updates_of(p), (int64_t)k->v[THREADS] * side);
}

/* As many blocks as there is room for. */
int cm_cuda_scatter_rows_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_THREADS = 2048 };
    static const int threads[] = {1024, 512};
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t room = facts.shared_bytes / (shared_bytes(p) + OWN_BYTES);
    int n = 0;
    for (int i = 0; i < CM_COUNT(threads); i++) {
        cm_knobs k = {{threads[i], (int)cm_min_i64(room, MOST_THREADS / threads[i])}};
        if (per_of(p, &k, 1) <= MOST_PER && k.v[BLOCKS] > 0)
            out[n++] = k;
    }
    return n;
}

const char *cm_cuda_scatter_rows_reject(const cm_problem *p)
{
    const cm_scatter *s = &p->as.scatter;
    const cm_tensor *x = p->in[0], *index = p->in[1];
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    const char *why = cm_cuda_scatter_reject(p);
    if (why)
        return why;
    if (s->how != CM_SCATTER_SET)
        return "updates are combined";
    if (s->tuples || s->axis != x->rank - 1)
        return "updates are not along rows";
    for (int a = 0; a < s->axis; a++)
        if (x->dims[a] != index->dims[a])
            return "some rows have no updates";
    if (cm_tensor_elems(x) == 0 || cm_tensor_elems(index) == 0)
        return "there is nothing to set";
    if (shared_bytes(p) + OWN_BYTES > facts.shared_bytes)
        return "rows are long";
    cm_knobs knobs[CM_MAX_KNOBS];
    return cm_cuda_scatter_rows_knobs(p, knobs) ? NULL : "there are too many updates of a row";
}

double cm_cuda_scatter_rows_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { FULL = 2048 }; /* threads of a multiprocessor */
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    double rows = (double)cm_tensor_elems(p->in[0]) / (double)row_of(p);
    double bytes = 2 * (double)(cm_tensor_elems(p->in[0]) * size_of(p));
    bytes += (double)cm_tensor_elems(p->in[1]) *
             (double)(size_of(p) + (int64_t)cm_dtype_size(p->in[1]->dtype));
    double used = rows / (2.0 * facts.multiprocessors);
    double fast = k->v[THREADS] * k->v[BLOCKS] < FULL ? 0.6 : k->v[THREADS] < 1024 ? 0.7 : 0.85;
    return cm_gpu_stream_ns(&p->target, bytes / (used < 1 ? used : 1) / fast);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_knobs *k, int side,
                         int64_t word, const cm_kernel **out)
{
    char defines[256];
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define INDEX %s\n#define THREADS %d\n#define PER %d\n"
             "#define SIDE %d\n#define WORD %s\n#define BLOCKS %d\n",
             cm_gpu_word((size_t)size_of(p)), p->in[1]->dtype == CM_I32 ? "i32" : "i64",
             k->v[THREADS], (int)per_of(p, k, side), side, cm_gpu_word((size_t)word), k->v[BLOCKS]);
    cm_kernel_text t = {.file = "scatter_rows", .defines = defines, .entry = "scatter_rows"};
    return cm_gpu_kernel(cx, d, &t, (size_t)shared_bytes(p), out);
}

cm_status cm_cuda_scatter_rows_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                     const cm_knobs *k, const void **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    int64_t word = size_of(p), rows = cm_tensor_elems(p->in[0]) / row_of(p);
    while (word < LARGEST && row_of(p) * size_of(p) % (2 * word) == 0)
        word *= 2;
    s->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(rows, INT32_MAX)},
                        .threads = {(unsigned)k->v[THREADS]},
                        .shared = (size_t)shared_bytes(p)};
    int side = updates_of(p) % SIDE == 0 ? SIDE : 1;
    s->align = LARGEST;
    CM_TRY(compile(cx, d, p, k, 1, size_of(p), &s->narrow));
    return compile(cx, d, p, k, side, word, &s->wide);
}

cm_status cm_cuda_scatter_rows_run(const cm_run *r)
{
    const state *s = r->state;
    const cm_problem *p = r->p;
    struct {
        const void *data, *indices, *updates;
        void *to;
        uint32_t *fault;
        uint32_t fault_code, not_read;
        int64_t rows, n, m;
    } a = {r->in[0],  r->in[1],      r->in[2], r->out[0],
           r->fault,  r->fault_code, 0,        cm_tensor_elems(p->in[0]) / row_of(p),
           row_of(p), updates_of(p)};
    uintptr_t any =
        (uintptr_t)a.data | (uintptr_t)a.indices | (uintptr_t)a.updates | (uintptr_t)a.to;
    const cm_kernel *kernel = any % s->align == 0 ? s->wide : s->narrow;
    return cm_gpu_launch(r, kernel, &s->grid, (void *[]){&a});
}
