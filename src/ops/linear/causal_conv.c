/* causal_conv.c -- CausalConvWithState: a depthwise convolution over the past, step by step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sequence is the carried state (k - 1 values a channel, zeros when absent), then the input.
 * Output i sees positions i .. i + k - 1 of it; the last k - 1 positions are the next state. */
#include "ops/eval.h"

#include "ops/reduce/lanes.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    cm_str activation;
} causal_attr;

CM_ATTRS(causal_conv_with_state, causal_attr, CM_ATTR_STR(causal_attr, activation, "none"))

static bool is(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static cm_status want_rank(cm_infer *f, int i, int rank)
{
    if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i) || cm_infer_rank(f, i) == rank)
        return CM_OK;
    return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted %d", i, cm_infer_rank(f, i),
                   rank);
}

static cm_status infer(cm_infer *f)
{
    const causal_attr *a = f->attr;
    if (!is(a->activation, "none") && !is(a->activation, "silu") && !is(a->activation, "swish"))
        return cm_fail(f->cx, CM_ERR_MODEL, "activation is '%.*s', wanted none, silu or swish",
                       (int)(a->activation.n < 40 ? a->activation.n : 40), a->activation.p);
    CM_TRY(want_rank(f, 0, 3));
    CM_TRY(want_rank(f, 1, 3));
    CM_TRY(want_rank(f, 2, 1));
    CM_TRY(want_rank(f, 3, 3));
    CM_TRY(cm_infer_like(f, 0, 0));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type, *w = f->in[1].type;
    CM_TRY(cm_infer_equal(f, "channels of the weights", w->dims[0], x->dims[1]));
    CM_TRY(cm_infer_equal(f, "axis 1 of the weights", w->dims[1], 1));
    if (w->dims[2] == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "the kernel is empty");
    cm_dim state[3] = {x->dims[0], x->dims[1], cm_infer_sub(f, w->dims[2], 1)};
    if (cm_infer_has(f, 2) && cm_infer_ranked(f, 2))
        CM_TRY(cm_infer_equal(f, "bias elements", cm_infer_dim(f, 2, 0), x->dims[1]));
    for (int d = 0; d < 3 && cm_infer_has(f, 3) && cm_infer_ranked(f, 3); d++)
        CM_TRY(cm_infer_equal(f, "shape of past_state", cm_infer_dim(f, 3, d), state[d]));
    return cm_infer_tensor(f, 1, 3, state);
}

typedef struct {
    const double *x, *w, *bias, *past; /* bias, past: NULL when absent */
    double *y, *present;               /* NULL when not wanted */
    int64_t channels, length, k;
    bool silu;
} job;

/* Element `at` of the state followed by the input. */
static double sequence(const job *j, int64_t lane, int64_t at)
{
    int64_t state = j->k - 1;
    if (at >= state)
        return j->x[lane * j->length + at - state];
    return j->past ? j->past[lane * state + at] : 0;
}

/* A lane is one channel of one batch. */
static void lanes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t lane = begin; lane < end; lane++) {
        int64_t c = lane % j->channels;
        for (int64_t i = 0; j->y && i < j->length; i++) {
            double sum = j->bias ? j->bias[c] : 0;
            for (int64_t p = 0; p < j->k; p++)
                sum += j->w[c * j->k + p] * sequence(j, lane, i + p);
            j->y[lane * j->length + i] = j->silu ? sum * cm_sigmoid(sum) : sum;
        }
        for (int64_t i = 0; j->present && i < j->k - 1; i++)
            j->present[lane * (j->k - 1) + i] = sequence(j, lane, j->length + i);
    }
}

static cm_status room_for(cm_eval *e, int o, double **out)
{
    void *p;
    if (!cm_eval_wants(e, o))
        return CM_OK;
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(cm_eval_out(e, o)), sizeof(double), &p));
    *out = p;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const causal_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.channels = x->dims[1], .length = x->dims[2], .k = cm_eval_in(e, 1)->dims[2]};
    j.silu = !is(a->activation, "none");
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    CM_TRY(cm_eval_as_f64(e, 1, &j.w));
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &j.bias));
    if (cm_eval_has(e, 3))
        CM_TRY(cm_eval_as_f64(e, 3, &j.past));
    CM_TRY(room_for(e, 0, &j.y));
    CM_TRY(room_for(e, 1, &j.present));
    cm_parallel(e->threads, x->dims[0] * x->dims[1], 1, lanes, &j);
    if (j.y)
        cm_eval_store_f64(e, 0, j.y);
    if (j.present)
        cm_eval_store_f64(e, 1, j.present);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    double k = cm_infer_ranked(f, 1) ? cm_infer_extent(f, cm_infer_dim(f, 1, 2)) : 1;
    c->ops = 2 * k * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_causal_conv = {
    .name = "causal_conv", .infer = infer, .eval = eval, .cost = cost};
