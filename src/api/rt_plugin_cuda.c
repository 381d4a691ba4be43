/* rt_plugin_cuda.c -- kernels that plugins give as CUDA C text: compiled when sizes are bound, launched in
 * order with everything else.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/rt_plugin.h"
#include "cuda/gpu.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int n_args;
    cameo_kernel_arg args[CAMEO_MAX_KERNEL_ARGS];
} state;

static cm_status check_arg(cm_ctx *cx, const cm_problem *p, const cameo_kernel_arg *a, int at)
{
    int n = a->kind == CAMEO_ARG_INPUT ? p->n_in : a->kind == CAMEO_ARG_OUTPUT ? p->n_out : 1;
    if ((unsigned)a->kind > CAMEO_ARG_FLOAT)
        return cm_fail(cx, CM_ERR_ARGUMENT, "argument %d of the kernel has the unknown kind %d", at,
                       (int)a->kind);
    if (a->kind <= CAMEO_ARG_OUTPUT && (a->i < 0 || a->i >= n))
        return cm_fail(cx, CM_ERR_ARGUMENT, "argument %d of the kernel is %s %lld, there are %d",
                       at, a->kind == CAMEO_ARG_INPUT ? "input" : "output", (long long)a->i, n);
    return CM_OK;
}

/* What the driver would refuse when it is too late for a sentence. */
static cm_status check_launch(cm_ctx *cx, const cm_problem *p, const cameo_kernel_launch *l)
{
    enum { MOST_THREADS = 1024 };
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= l->block[i] > MOST_THREADS ? MOST_THREADS + 1 : l->block[i] ? l->block[i] : 1;
    if (threads > MOST_THREADS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "a block of %ux%ux%u threads, at most %d are possible",
                       l->block[0], l->block[1], l->block[2], MOST_THREADS);
    if (l->n_args < 0 || l->n_args > CAMEO_MAX_KERNEL_ARGS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d arguments of the kernel, at most %d are possible",
                       l->n_args, CAMEO_MAX_KERNEL_ARGS);
    for (int i = 0; i < l->n_args; i++)
        CM_TRY(check_arg(cx, p, &l->args[i], i));
    return CM_OK;
}

static cm_status describe(cm_ctx *cx, const cm_problem *p, const cameo_plugin_tactic *t,
                          cameo_kernel_launch *l)
{
    const cm_plugin_problem *seen = p->as.custom.seen;
    *l = (cameo_kernel_launch){.size = sizeof *l};
    cx->message[0] = 0;
    CM_TRY(cm_plugin_status(cx, &seen->row->op, t->launch(&seen->seen, l)));
    return check_launch(cx, p, l);
}

cm_status cm_plugin_kernel_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                 const cameo_plugin_tactic *t, const void **out)
{
    cameo_kernel_launch l;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    cm_status st = describe(cx, p, t, &l);
    if (st == CM_OK) {
        *s = (state){.grid = {.shared = l.shared_bytes}, .n_args = l.n_args};
        memcpy(s->grid.blocks, l.grid, sizeof l.grid);
        memcpy(s->grid.threads, l.block, sizeof l.block);
        memcpy(s->args, l.args, sizeof l.args);
        const cm_kernel_text text = {.file = t->name, .text = t->source, .entry = t->kernel};
        st = cm_gpu_kernel(cx, d, &text, l.shared_bytes, &s->kernel);
    }
    *out = s;
    return st == CM_OK ? st : cm_while(cx, st, "tactic '%s'", t->name);
}

cm_status cm_plugin_kernel_run(const cm_run *r)
{
    const state *s = r->state;
    const void *pointers[CAMEO_MAX_KERNEL_ARGS];
    void *args[CAMEO_MAX_KERNEL_ARGS];
    for (int i = 0; i < s->n_args; i++) {
        const cameo_kernel_arg *a = &s->args[i];
        args[i] = &pointers[i];
        switch (a->kind) {
        case CAMEO_ARG_INPUT:
            pointers[i] = r->p->in[a->i] ? r->in[a->i] : NULL;
            break;
        case CAMEO_ARG_OUTPUT:
            pointers[i] = r->p->out[a->i] ? r->out[a->i] : NULL;
            break;
        case CAMEO_ARG_WORKSPACE:
            pointers[i] = r->workspace;
            break;
        case CAMEO_ARG_INT:
            args[i] = (void *)&a->i;
            break;
        case CAMEO_ARG_FLOAT:
            args[i] = (void *)&a->f;
            break;
        }
    }
    return cm_gpu_launch(r, s->kernel, &s->grid, args);
}
