/* linear_attention.c -- LINEAR_ATTENTION: a block for a head of a batch and some columns of its state.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { THREADS = 128, MOST_KEYS = 256 };
enum { Q, K, V, PAST, DECAY, BETA };

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

static bool has(const cm_problem *p, int i)
{
    return i < p->n_in && p->in[i];
}

static int64_t out_heads(const cm_linear_attention *a)
{
    return cm_max_i64(a->q_heads, a->kv_heads);
}

static const char *reject(const cm_problem *p)
{
    const cm_linear_attention *a = &p->as.linear_attention;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_tensor_is_dense(p->out[o]))
            return "an output is strided";
    if (a->k_size > MOST_KEYS)
        return "more than 256 keys in a head";
    return out_heads(a) / a->kv_heads > 16 ? "more than 16 heads read a state" : NULL;
}

/* Tokens one after the other, however few heads there are. */
static double cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_linear_attention *a = &p->as.linear_attention;
    cm_gpu_facts f;
    (void)k;
    cm_gpu_facts_of(&p->target, &f);
    double readers = (double)(out_heads(a) / a->kv_heads), token_ns = 2 * (double)a->k_size;
    double blocks = (double)(a->batch * a->kv_heads * cm_ceil_div(a->v_size, THREADS));
    double rounds = 1 + blocks / (4.0 * f.multiprocessors);
    return f.launch_ns + 1000 + (double)a->len * token_ns * (2 + readers) / 3 * rounds;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_linear_attention *a = &p->as.linear_attention;
    char defines[200];
    state *st;
    (void)k;
    CM_NEW(cx, arena, st, state);
    *out = st;
    int64_t threads = a->v_size < THREADS ? (a->v_size + 31) / 32 * 32 : THREADS;
    st->grid = (cm_grid){
        .blocks = {(unsigned)(a->batch * a->kv_heads), (unsigned)cm_ceil_div(a->v_size, threads)},
        .threads = {(unsigned)threads}};
    const cm_tensor *kept = has(p, PAST) ? p->in[PAST] : p->n_out > 1 ? p->out[1] : NULL;
    snprintf(defines, sizeof defines,
             "#define X %s\n#define S %s\n#define KEYS %lld\n#define READERS %lld\n"
             "#define GATED %d\n#define DELTA %d\n",
             cm_gpu_element(p->in[Q]->dtype), cm_gpu_element(kept ? kept->dtype : p->in[Q]->dtype),
             (long long)a->k_size, (long long)(out_heads(a) / a->kv_heads), a->gated, a->delta);
    cm_kernel_text t = {
        .file = "linear_attention", .defines = defines, .entry = "linear_attention"};
    return cm_gpu_kernel(cx, d, &t, 0, &st->kernel);
}

static const void *input(const cm_run *r, int i)
{
    return has(r->p, i) ? r->in[i] : NULL;
}

static void *output(const cm_run *r, int o)
{
    return o < r->p->n_out && r->p->out[o] ? r->out[o] : NULL;
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_linear_attention *s = &r->p->as.linear_attention;
    int64_t window = cm_max_i64(s->window, 1);
    struct {
        const void *q, *k, *v, *past, *decay, *beta;
        void *y, *present;
        uint64_t batch, len, q_heads, kv_heads, out_heads, v_size, decay_cols, beta_cols, window;
        float scale;
    } a = {.q = r->in[Q],
           .k = r->in[K],
           .v = r->in[V],
           .past = input(r, PAST),
           .decay = input(r, DECAY),
           .beta = input(r, BETA),
           .y = output(r, 0),
           .present = output(r, 1),
           .batch = (uint64_t)s->batch,
           .len = (uint64_t)s->len,
           .q_heads = (uint64_t)s->q_heads,
           .kv_heads = (uint64_t)s->kv_heads,
           .out_heads = (uint64_t)out_heads(s),
           .v_size = (uint64_t)s->v_size,
           .decay_cols = (uint64_t)s->decay_cols,
           .beta_cols = (uint64_t)s->beta_cols,
           .window = (uint64_t)window,
           .scale = s->scale};
    size_t bytes;
    if (a.present && window > s->len && cm_tensor_bytes(r->p->out[1], &bytes))
        CM_TRY(cm_gpu_fill(r, a.present, 0, bytes));
    return cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a});
}

const cm_tactic cm_cuda_linear_attention_tactics[] = {
    {.name = "linear_attention",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
};
const int cm_cuda_linear_attention_count = CM_COUNT(cm_cuda_linear_attention_tactics);
