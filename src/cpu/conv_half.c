/* conv_half.c -- convolutions of float16 and bfloat16, computed by the tactics of float32.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The input is widened into the workspace, the cheapest float32 tactic runs between two buffers there, and its
 * result goes through the epilogue to the output, where it is rounded once. Weights are packed as float32: the
 * packed form is followed by the widened weights that it was made from. */
#include "cpu/conv.h"
#include "cpu/rows.h"
#include "cpu/widen.h"

/* The same problem in float32, without its epilogue, and the tactic for it. */
typedef struct {
    cm_problem p;
    cm_tensor in[3], out;
    const cm_tensor *ins[3], *outs[1];
    const cm_tactic *tactic;
    cm_knobs knobs;
    double ns;
} wide;

/* Knobs name the tactic (0: not chosen yet) and hold its own: weights are packed for both, and a problem of
 * another size may be cheaper with others. */
enum { OWN_KNOBS = CM_COUNT(((cm_knobs *)NULL)->v) - 1 };

static int32_t number_of(const cm_tactic *t)
{
    uint32_t h = 2166136261u;
    for (const char *p = t->name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return (int32_t)(h >> 1) | 1;
}

static bool take_chosen(wide *w, const cm_knobs *k)
{
    for (int i = 0; i < cm_cpu_conv.n; i++) {
        if (number_of(&cm_cpu_conv.rows[i]) != k->v[0])
            continue;
        w->tactic = &cm_cpu_conv.rows[i];
        w->knobs = (cm_knobs){0};
        for (int j = 0; j < OWN_KNOBS; j++)
            w->knobs.v[j] = k->v[1 + j];
        w->ns = w->tactic->cost(&w->p, &w->knobs);
        return true;
    }
    return false;
}

/* The cheapest tactic; each is asked for its first setting. */
static void choose(wide *w, const cm_knobs *k)
{
    w->tactic = NULL;
    if (k && take_chosen(w, k))
        return;
    for (int i = 0; i < cm_cpu_conv.n; i++) {
        const cm_tactic *t = &cm_cpu_conv.rows[i];
        cm_knobs knobs[CM_MAX_KNOBS] = {0};
        if (t->level > w->p.target.level || t->reject(&w->p))
            continue;
        if (t->knobs)
            (void)t->knobs(&w->p, knobs);
        double ns = t->cost(&w->p, knobs);
        if (!w->tactic || ns < w->ns) {
            w->tactic = t;
            w->knobs = knobs[0];
            w->ns = ns;
        }
    }
}

static void widen(const cm_problem *p, const cm_knobs *k, wide *w)
{
    w->p = *p;
    for (int i = 0; i < p->n_in && i < 3; i++) {
        w->ins[i] = NULL;
        if (!p->in[i])
            continue;
        w->in[i] = *p->in[i];
        w->in[i].dtype = CM_F32;
        w->in[i].data = NULL;
        w->ins[i] = &w->in[i];
    }
    w->out = *p->out[0];
    w->out.dtype = CM_F32;
    w->outs[0] = &w->out;
    w->p.in = w->ins;
    w->p.out = w->outs;
    w->p.epilogue = NULL;
    w->p.n_operands = 0;
    choose(w, k);
}

static int columns(const cm_problem *p)
{
    return cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST ? cm_conv_channel_columns(p->out[0])
                                                                : cm_conv_plane_columns(p->out[0]);
}

const char *cm_cpu_conv_half_reject(const cm_problem *p)
{
    wide w;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_is_half(p->in[i]->dtype))
            return "neither float16 nor bfloat16";
    if (!cm_conv_layout_of(p->in[0]) || !cm_conv_layout_of(p->out[0]))
        return "strided";
    const char *why = cm_epilogue_reject(p, columns(p));
    if (why)
        return why;
    widen(p, NULL, &w);
    return w.tactic ? NULL : "no tactic takes it in float32";
}

int cm_cpu_conv_half_knobs(const cm_problem *p, cm_knobs *out)
{
    wide w;
    widen(p, NULL, &w);
    *out = (cm_knobs){{number_of(w.tactic)}};
    for (int i = 0; i < OWN_KNOBS; i++)
        out->v[1 + i] = w.knobs.v[i];
    return 1;
}

double cm_cpu_conv_half_cost(const cm_problem *p, const cm_knobs *k)
{
    wide w;
    widen(p, k, &w);
    double elems = (double)cm_tensor_elems(p->in[0]) + (double)cm_tensor_elems(p->out[0]);
    return w.ns + 6 * elems / cm_cpu_bytes_per_ns(&p->target);
}

/* The tactic's own packed form, then the widened weights. */
static size_t packed_bytes(const wide *w)
{
    const cm_tactic *t = w->tactic;
    return cm_round_up(t->pack_bytes ? t->pack_bytes(&w->p, &w->knobs, 1) : 0, 64);
}

size_t cm_cpu_conv_half_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    wide w;
    if (input != 1)
        return 0;
    widen(p, k, &w);
    return packed_bytes(&w) + cm_wide_bytes(p->in[1]);
}

void cm_cpu_conv_half_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                           void *to, cm_threads *threads)
{
    wide w;
    widen(p, k, &w);
    size_t bytes = packed_bytes(&w);
    float *widened = (float *)((char *)to + bytes);
    cm_cpu_rows_kernels(p->target.level)
        ->to_f32(p->in[1]->dtype, from, widened, cm_tensor_elems(p->in[1]));
    if (bytes)
        w.tactic->pack(&w.p, &w.knobs, input, widened, to, threads);
}

size_t cm_cpu_conv_half_workspace(const cm_problem *p, const cm_knobs *k)
{
    wide w;
    widen(p, k, &w);
    size_t bytes = cm_wide_bytes(p->in[0]) + cm_wide_bytes(p->out[0]);
    if (p->as.conv.bias)
        bytes += cm_wide_bytes(p->in[2]);
    if (cm_conv_packs_in_run(p))
        bytes += cm_wide_bytes(p->in[1]);
    return bytes + (w.tactic->workspace ? w.tactic->workspace(&w.p, &w.knobs) : 0);
}

cm_status cm_cpu_conv_half_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    wide w;
    widen(p, r->k, &w);
    char *space = r->workspace;
    float *y = r->workspace;
    const void *in[3] = {NULL};
    void *out[1] = {y};
    space += cm_wide_bytes(p->out[0]);
    for (int i = 0; i < p->n_in && i < 3; i++) {
        if (!p->in[i])
            continue;
        if (i == 1 && p->constant[1]) {
            size_t bytes = packed_bytes(&w);
            in[1] = bytes ? r->in[1] : (const char *)r->in[1] + bytes;
            continue;
        }
        in[i] = space;
        space = cm_widen_input(r, i, space);
    }
    cm_run inner = {.cx = r->cx,
                    .p = &w.p,
                    .k = &w.knobs,
                    .in = in,
                    .out = out,
                    .workspace = space,
                    .threads = r->threads};
    CM_TRY(w.tactic->run(&inner));
    cm_narrow_output(r, columns(p), y);
    return CM_OK;
}
