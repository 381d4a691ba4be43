/* pool_half.c -- pools of float16 and bfloat16, computed by the tactics of float32.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv.h"
#include "cpu/pool.h"
#include "cpu/widen.h"

/* The same pool in float32, without its epilogue, and the tactic for it. */
typedef struct {
    cm_problem p;
    cm_tensor in, out;
    const cm_tensor *ins[1], *outs[1];
    const cm_tactic *tactic;
} wide;

static void widen(const cm_problem *p, wide *w)
{
    w->p = *p;
    w->in = *p->in[0];
    w->out = *p->out[0];
    w->in.dtype = w->out.dtype = CM_F32;
    w->ins[0] = &w->in;
    w->outs[0] = &w->out;
    w->p.in = w->ins;
    w->p.n_in = w->p.n_out = 1;
    w->p.out = w->outs;
    w->p.epilogue = NULL;
    w->p.n_operands = 0;
    w->tactic = NULL;
    for (int i = 0; i < cm_cpu_pool.n && !w->tactic; i++)
        if (!cm_cpu_pool.rows[i].reject(&w->p))
            w->tactic = &cm_cpu_pool.rows[i];
}

static int columns(const cm_problem *p)
{
    return cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST ? cm_conv_channel_columns(p->out[0])
                                                                : cm_conv_plane_columns(p->out[0]);
}

const char *cm_cpu_pool_half_reject(const cm_problem *p)
{
    wide w;
    if (!cm_is_half(p->in[0]->dtype))
        return "neither float16 nor bfloat16";
    if (p->as.pool.indices >= 0)
        return "the places of the largest are not kept";
    const char *why = cm_epilogue_reject(p, columns(p));
    if (why)
        return why;
    widen(p, &w);
    return w.tactic ? NULL : "no tactic takes it in float32";
}

double cm_cpu_pool_half_cost(const cm_problem *p, const cm_knobs *k)
{
    wide w;
    widen(p, &w);
    double elems = (double)cm_tensor_elems(p->in[0]) + (double)cm_tensor_elems(p->out[0]);
    return w.tactic->cost(&w.p, k) + 6 * elems / cm_cpu_bytes_per_ns(&p->target);
}

size_t cm_cpu_pool_half_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return cm_wide_bytes(p->in[0]) + cm_wide_bytes(p->out[0]);
}

cm_status cm_cpu_pool_half_run(const cm_run *r)
{
    wide w;
    widen(r->p, &w);
    float *y = r->workspace;
    char *x = (char *)r->workspace + cm_wide_bytes(r->p->out[0]);
    (void)cm_widen_input(r, 0, x);
    const void *in[1] = {x};
    void *out[1] = {y};
    cm_run inner = {.cx = r->cx, .p = &w.p, .k = r->k, .in = in, .out = out, .threads = r->threads};
    CM_TRY(w.tactic->run(&inner));
    cm_narrow_output(r, columns(r->p), y);
    return CM_OK;
}
