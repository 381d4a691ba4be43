/* gqa.c -- GQA: new keys and values into the cache, then queries over it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { THREADS = 128, MOST_SIZE = 512, MOST_BLOCKS = 65536 };
enum {
    Q,
    K,
    V,
    PAST_K,
    PAST_V,
    LENGTHS,
    TOTAL,
    COS,
    SIN,
    POSITIONS,
    BIAS,
    SINK,
    Q_NORM = 14,
    K_NORM
};

typedef struct {
    const cm_kernel *place, *attend;
    cm_grid place_grid, attend_grid;
} state;

static bool has(const cm_problem *p, int i)
{
    return i < p->n_in && p->in[i];
}

static bool is_real(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

static const char *reject(const cm_problem *p)
{
    const cm_gqa *g = &p->as.gqa;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    for (int o = 0; o < 3; o++)
        if (!cm_tensor_is_dense(p->out[o]))
            return "an output is strided";
    if (p->n_out > 3 && p->out[3])
        return "scores are an output";
    if (has(p, BIAS))
        return "scores have a bias";
    if (!is_real(p->out[1]->dtype))
        return "the cache is quantised";
    return g->size > MOST_SIZE ? "heads of more than 512" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { KEYS_PER_NS = 40 }; /* of all blocks together */
    const cm_gqa *g = &p->as.gqa;
    double bytes = (double)cm_tensor_elems(p->out[1]) * 4 * (double)cm_dtype_size(p->out[1]->dtype);
    double keys = (double)(g->batch * g->len * g->heads) * (double)g->rows;
    (void)k;
    return 2 * cm_gpu_stream_ns(&p->target, bytes) + keys / KEYS_PER_NS * (double)g->size / 128;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_gqa *g = &p->as.gqa;
    (void)k;
    return (size_t)(g->batch * g->len * g->heads * g->size) * sizeof(float);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_gqa *g = &p->as.gqa;
    char defines[300];
    state *st;
    (void)k;
    CM_NEW(cx, arena, st, state);
    *out = st;
    int64_t queries = g->batch * g->len * g->heads, rows = g->batch * g->kv_heads * g->rows;
    st->place_grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, 32 * (queries + rows))},
                               .threads = {CM_GPU_THREADS}};
    st->attend_grid =
        (cm_grid){.blocks = {(unsigned)cm_max_i64(1, cm_min_i64(queries, MOST_BLOCKS))},
                  .threads = {THREADS}};
    snprintf(defines, sizeof defines,
             "#define X %s\n#define S %s\n#define SIZE %lld\n#define ROTATED %lld\n"
             "#define INTERLEAVED %d\n#define CAUSAL %d\n#define SMOOTH %d\n",
             cm_gpu_element(p->in[Q]->dtype), cm_gpu_element(p->out[1]->dtype), (long long)g->size,
             (long long)g->rotated, g->interleaved, g->causal, g->smooth);
    cm_kernel_text t = {.file = "gqa", .defines = defines, .entry = "gqa_place"};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->place));
    t.entry = "gqa_attend";
    return cm_gpu_kernel(cx, d, &t, 0, &st->attend);
}

static const void *input(const cm_run *r, int i)
{
    return has(r->p, i) ? r->in[i] : NULL;
}

/* As in kernels/gqa.cu. */
typedef struct {
    const void *q, *k, *v, *past_k, *past_v, *lengths, *total, *cos, *sin, *positions, *sink;
    const void *q_norm, *k_norm;
    void *y, *present_k, *present_v, *queries;
    uint64_t batch, len, heads, kv_heads, past, rows, angles, q_row, k_row;
    int64_t left;
    float scale, softcap, epsilon;
    uint32_t *fault;
    uint64_t fault_code;
} arguments;

/* Keys and values behind the queries of a token, or apart. */
static void put_heads(const cm_run *r, arguments *a)
{
    const cm_gqa *g = &r->p->as.gqa;
    size_t size = (size_t)g->size * cm_dtype_size(r->p->in[Q]->dtype);
    a->q = r->in[Q];
    a->k = input(r, K);
    a->v = input(r, V);
    a->q_row = (uint64_t)(g->heads * g->size);
    a->k_row = (uint64_t)(g->kv_heads * g->size);
    if (!g->packed)
        return;
    a->k = (const char *)a->q + (size_t)g->heads * size;
    a->v = (const char *)a->k + (size_t)g->kv_heads * size;
    a->q_row = a->k_row = (uint64_t)((g->heads + 2 * g->kv_heads) * g->size);
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_gqa *g = &r->p->as.gqa;
    arguments a = {.past_k = input(r, PAST_K),
                   .past_v = input(r, PAST_V),
                   .lengths = r->in[LENGTHS],
                   .total = r->in[TOTAL],
                   .cos = input(r, COS),
                   .sin = input(r, SIN),
                   .positions = g->rotary ? input(r, POSITIONS) : NULL,
                   .sink = input(r, SINK),
                   .q_norm = input(r, Q_NORM),
                   .k_norm = input(r, K_NORM),
                   .y = r->out[0],
                   .present_k = r->out[1],
                   .present_v = r->out[2],
                   .queries = r->workspace,
                   .batch = (uint64_t)g->batch,
                   .len = (uint64_t)g->len,
                   .heads = (uint64_t)g->heads,
                   .kv_heads = (uint64_t)g->kv_heads,
                   .past = (uint64_t)g->past,
                   .rows = (uint64_t)g->rows,
                   .angles = g->rotary ? (uint64_t)r->p->in[COS]->dims[0] : 0,
                   .left = g->left,
                   .scale = g->scale,
                   .softcap = g->softcap,
                   .epsilon = g->epsilon,
                   .fault = r->fault,
                   .fault_code = r->fault_code};
    put_heads(r, &a);
    CM_TRY(cm_gpu_launch(r, st->place, &st->place_grid, (void *[]){&a}));
    return cm_gpu_launch(r, st->attend, &st->attend_grid, (void *[]){&a});
}

const cm_tactic cm_cuda_gqa_tactics[] = {
    {.name = "gqa",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
};
const int cm_cuda_gqa_count = CM_COUNT(cm_cuda_gqa_tactics);
