/* compile_ahead.c -- kernels that tuning will want, compiled by all threads at once before anything is timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/compile_ahead.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/threads.h"

enum { MOST = 96 };

/* One candidate of one step. Equal `kernel`s are taken to be the same kernel: where they are not, it is compiled later. */
typedef struct {
    const cm_problem *p;
    cm_candidate candidate;
    uint64_t kernel;
} wanted;

typedef struct {
    cm_device *device;
    uint64_t until_ns;
    int n, cap;
    wanted *v;
} wanted_list;

typedef struct {
    int n;
    cm_candidate v[MOST];
} candidates;

static void collect(void *user, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    candidates *l = user;
    (void)t, (void)reason;
    if (c && l->n < MOST)
        l->v[l->n++] = *c;
}

static uint64_t kernel_of(const cm_plan_step *s, const cm_problem *p, const cm_candidate *c)
{
    const char *program = s->epilogue.program ? s->epilogue.program : "";
    uint64_t h = cm_hash_bytes(c->tactic->name, strlen(c->tactic->name), 0);
    h = cm_hash_bytes(&c->knobs, sizeof c->knobs, h);
    if (p->n_in && p->in[0])
        h = cm_hash_bytes(&p->in[0]->dtype, sizeof p->in[0]->dtype, h);
    return cm_hash_bytes(program, strlen(program), h);
}

static cm_status want(cm_ctx *cx, wanted_list *l, const wanted *x)
{
    for (int i = 0; i < l->n; i++)
        if (l->v[i].kernel == x->kernel)
            return CM_OK;
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 256;
        wanted *v;
        CM_NEW_N(cx, cx->arena, v, cap, wanted);
        if (l->n)
            memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *x;
    return CM_OK;
}

static cm_status want_step(cm_ctx *cx, const cm_context *c, int step, cm_choose_fn choose,
                           void *user, wanted_list *l)
{
    const cm_problem *bound = cm_context_problem(c, step);
    candidates all = {0};
    int chosen[MOST];
    cm_problem *p;
    if (!bound || bound->target.kind == CM_DEVICE_CPU)
        return CM_OK;
    CM_NEW(cx, cx->arena, p, cm_problem);
    *p = *bound;
    p->then = NULL; /* steps are measured one by one */
    cm_context_tactics(c, step, collect, &all);
    int n = choose(user, all.v, all.n, chosen);
    for (int i = 0; i < n; i++) {
        wanted x = {p, all.v[chosen[i]], 0};
        x.kernel = kernel_of(cm_engine_step(cm_context_engine(c), step), p, &x.candidate);
        CM_TRY(want(cx, l, &x));
    }
    return CM_OK;
}

static void make_ready(void *arg, int64_t begin, int64_t end)
{
    const wanted_list *l = arg;
    for (int64_t i = begin; i < end; i++) {
        const wanted *x = &l->v[i];
        if (cm_now_ns() > l->until_ns)
            return;
        const void *state;
        cm_arena arena;
        cm_arena_init(&arena, NULL);
        cm_ctx cx = {.arena = &arena, .scratch = &arena};
        if (x->candidate.tactic->ready) /* one that fails will say so when it is used */
            (void)!x->candidate.tactic->ready(&cx, l->device, &arena, x->p, &x->candidate.knobs,
                                              &state);
        cm_arena_deinit(&arena);
    }
}

cm_status cm_compile_ahead(cm_ctx *cx, const cm_context *c, cm_device *device, int threads,
                           uint64_t until_ns, cm_choose_fn choose, void *user)
{
    wanted_list l = {.device = device, .until_ns = until_ns};
    cm_threads *pool;
    for (int i = 0; i < cm_engine_n_steps(cm_context_engine(c)); i++)
        CM_TRY(want_step(cx, c, i, choose, user, &l));
    CM_TRY(cm_threads_create(cx, threads, &pool));
    cm_parallel(pool, l.n, 1, make_ready, &l);
    cm_threads_destroy(pool);
    return CM_OK;
}
