/* conv_transposed_turned.c -- transposed convolutions of row-major activations: turned around, done, turned back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For where an activation is pinned to its order, as a network's inputs and outputs are. The work is done by conv_transposed_apart.c,
 * conv_transposed_depthwise.c or conv_transposed.c on copies in the workspace with the channels innermost; the epilogue is done where the results belong. */
#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/copy.h"

/* Knob 0 says by which: how weights are packed hangs on it. */
enum { BY_WINDOWS_APART, BY_CHANNELS, BY_PIXELS };

#define WAY(stem) CM_ROW(stem, GENERIC, CM_HAS_WORKSPACE(stem), CM_HAS_PACK(stem))
static const cm_tactic ways[] = {
    [BY_WINDOWS_APART] = WAY(conv_transposed_apart_f32),
    [BY_CHANNELS] = WAY(conv_transposed_depthwise_f32),
    [BY_PIXELS] = WAY(conv_transposed_f32),
};

/* The problem with the channels innermost and no epilogue. */
typedef struct {
    cm_problem p;
    cm_tensor x, y;
    const cm_tensor *in[3], *out[1];
} turned;

static void turn(const cm_problem *p, turned *t)
{
    t->p = *p;
    t->x = *p->in[0];
    t->y = *p->out[0];
    cm_set_channels_last(&t->x);
    cm_set_channels_last(&t->y);
    t->in[0] = &t->x;
    t->in[1] = p->in[1];
    t->in[2] = p->as.conv.bias ? p->in[2] : NULL;
    t->out[0] = &t->y;
    t->p.in = t->in;
    t->p.n_in = p->as.conv.bias ? 3 : 2;
    t->p.out = t->out;
    t->p.epilogue = NULL;
    t->p.operands = NULL;
    t->p.n_operands = 0;
}

static int columns_of(const cm_tensor *y)
{
    return cm_conv_layout_of(y) & CM_CONV_ROW_MAJOR ? cm_conv_plane_columns(y)
                                                    : cm_conv_channel_columns(y);
}

const char *cm_cpu_conv_transposed_turned_f32_reject(const cm_problem *p)
{
    turned t;
    if (!p->as.conv.transposed)
        return "not transposed";
    int x = cm_conv_layout_of(p->in[0]), y = cm_conv_layout_of(p->out[0]);
    if (!x || !y)
        return "an activation is neither row-major nor channels-last";
    if (x & y & CM_CONV_CHANNELS_LAST)
        return "channels are innermost";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    const char *why = cm_conv_reject_common(p, columns_of(p->out[0]));
    turn(p, &t);
    return why ? why : ways[BY_PIXELS].reject(&t.p);
}

int cm_cpu_conv_transposed_turned_f32_knobs(const cm_problem *p, cm_knobs *out)
{
    turned t;
    turn(p, &t);
    int way = 0;
    while (way < BY_PIXELS && ways[way].reject(&t.p))
        way++;
    out[0] = (cm_knobs){{way}};
    return 1;
}

double cm_cpu_conv_transposed_turned_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    turned t;
    turn(p, &t);
    double moved = (double)cm_tensor_elems(&t.x) + 2 * (double)cm_tensor_elems(&t.y);
    return ways[k->v[0]].cost(&t.p, k) + 300 + moved * 0.4 / cm_cpu_speedup(p, moved / 20000);
}

static size_t bytes_of(const cm_tensor *t)
{
    return cm_round_up((size_t)cm_tensor_elems(t) * sizeof(float), 64);
}

size_t cm_cpu_conv_transposed_turned_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    turned t;
    turn(p, &t);
    return bytes_of(&t.x) + bytes_of(&t.y) + ways[k->v[0]].workspace(&t.p, k);
}

size_t cm_cpu_conv_transposed_turned_f32_pack_bytes(const cm_problem *p, const cm_knobs *k,
                                                    int input)
{
    return ways[k->v[0]].pack_bytes(p, k, input);
}

void cm_cpu_conv_transposed_turned_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                            const void *from, void *to, cm_threads *threads)
{
    ways[k->v[0]].pack(p, k, input, from, to, threads);
}

typedef struct {
    cm_epilogue_plan plan;
    float *y;
} finish_job;

static void finish_rows(void *arg, int64_t begin, int64_t end)
{
    const finish_job *j = arg;
    int64_t cols = j->plan.cols;
    cm_epilogue_tile(&j->plan, begin, 0, end - begin, cols, j->y + begin * cols, cols);
}

static void finish(const cm_run *r)
{
    finish_job j = {.y = r->out[0]};
    if (!r->p->epilogue)
        return;
    cm_epilogue_init(&j.plan, r, columns_of(r->p->out[0]));
    double ns = (double)(j.plan.rows * j.plan.cols);
    cm_conv_parallel(r, ns, j.plan.rows, finish_rows, &j);
}

static void copy(const cm_run *r, const cm_tensor *from, const void *x, const cm_tensor *to,
                 void *y)
{
    cm_copy_strided(r->p->target.level, r->threads, sizeof(float), from->rank, from->dims, x,
                    from->strides, y, to->strides);
}

cm_status cm_cpu_conv_transposed_turned_f32_run(const cm_run *r)
{
    turned t;
    turn(r->p, &t);
    char *x = r->workspace, *y = x + bytes_of(&t.x);
    const void *in[3] = {x, r->in[1], r->p->as.conv.bias ? r->in[2] : NULL};
    void *out[1] = {y};
    cm_run inner = *r;
    inner.p = &t.p;
    inner.in = in;
    inner.out = out;
    inner.operands = NULL;
    inner.workspace = y + bytes_of(&t.y);
    copy(r, r->p->in[0], r->in[0], &t.x, x);
    CM_TRY(ways[r->k->v[0]].run(&inner));
    copy(r, &t.y, y, r->p->out[0], r->out[0]);
    finish(r);
    return CM_OK;
}
