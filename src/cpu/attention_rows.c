/* attention_rows.c -- rows of attention's operands: where they lie, what masks make of scores, and results.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/attention_job.h"

static float get(cm_dtype t, const void *x, int64_t i)
{
    return t == CM_F32    ? ((const float *)x)[i]
           : t == CM_BF16 ? cm_bf16_to_f32(((const uint16_t *)x)[i])
                          : cm_f16_to_f32(((const uint16_t *)x)[i]);
}

static void to_f32(const job *j, cm_dtype t, const void *x, int64_t from, int64_t step, int64_t n,
                   float *to)
{
    const char *at = (const char *)x + from * (int64_t)cm_dtype_size(t);
    cm_tile_kernels_at(j->run->p->target.level)->load[t](to, at, step, n);
}

/* Elements of one type, `step` apart, to adjacent ones. */
static void copy(cm_dtype t, const void *x, int64_t from, int64_t step, int64_t n, void *to)
{
    size_t size = cm_dtype_size(t);
    if (step == 1) {
        memcpy(to, (const char *)x + (size_t)from * size, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to + (size_t)i * size, (const char *)x + (size_t)(from + i * step) * size,
               size);
}

static int64_t query_of(const job *j, int64_t r)
{
    return r % j->a->q_len;
}

static int64_t head_of(const job *j, int64_t unit, int64_t r)
{
    return unit % j->a->kv_heads * j->rep + r / j->a->q_len;
}

/* Row s of past or fresh keys or values of a unit, `from` counting elements. */
static void row_of(const job *j, int which, int64_t unit, int64_t s, int *input, int64_t *from,
                   int64_t *step)
{
    const cm_attention *a = j->a;
    int64_t b = unit / a->kv_heads, h = unit % a->kv_heads;
    if (s < a->past_len) {
        const cm_tensor *t = j->run->p->in[PAST_K + which];
        *input = PAST_K + which;
        *from = b * t->strides[0] + h * t->strides[1] + s * t->strides[2];
        *step = t->strides[3];
        return;
    }
    const cm_heads *x = which ? &a->v : &a->k;
    *input = K + which;
    *from = x->offset + b * x->batch + h * x->head + (s - a->past_len) * x->seq;
    *step = x->dim;
}

/* Rows from s on that lie one behind the other and can be copied at once. */
static int64_t run_of(const job *j, int which, int64_t s, int64_t to, int64_t size, int64_t step)
{
    const cm_attention *a = j->a;
    bool past = s < a->past_len;
    int64_t seq = past ? j->run->p->in[PAST_K + which]->strides[2] : which ? a->v.seq : a->k.seq;
    if (step != 1 || seq != size)
        return 1;
    return (past ? cm_min_i64(to, a->past_len) : to) - s;
}

source cm_attention_source(const job *j, int which, int64_t unit, int64_t from, int64_t to,
                           float *room)
{
    const cm_attention *a = j->a;
    const cm_run *run = j->run;
    int64_t size = which ? a->v_head_size : a->head_size, at, step;
    int input;
    if (!j->joins[which]) {
        const cm_heads *x = which ? &a->v : &a->k;
        row_of(j, which, unit, 0, &input, &at, &step);
        return (source){(const float *)run->in[input] + at, CM_F32, x->seq, x->dim};
    }
    cm_dtype type = run->p->in[K + which]->dtype;
    bool present = cm_attention_has_present(run->p, which);
    char *out = present ? (char *)run->out[1 + which] +
                              (size_t)(unit * j->present_rows * size) * cm_dtype_size(type)
                        : NULL;
    for (int64_t s = from, n; s < to; s += n) {
        row_of(j, which, unit, s, &input, &at, &step);
        n = run_of(j, which, s, to, size, step);
        if (out)
            copy(type, run->in[input], at, step, n * size,
                 out + (size_t)(s * size) * cm_dtype_size(type));
        if (!out || type != CM_F32)
            to_f32(j, type, run->in[input], at, step, n * size, room + s * size);
    }
    return (source){out && type == CM_F32 ? (const float *)out : room, CM_F32, size, 1};
}

const float *cm_attention_query(const job *j, int64_t unit, int64_t r, float *to)
{
    const cm_attention *a = j->a;
    int64_t from = a->q.offset + unit / a->kv_heads * a->q.batch + head_of(j, unit, r) * a->q.head +
                   query_of(j, r) * a->q.seq;
    if (j->q_in_place)
        return (const float *)j->run->in[Q] + from;
    to_f32(j, j->run->p->in[Q]->dtype, j->run->in[Q], from, a->q.dim, a->head_size, to);
    return to;
}

int64_t cm_attention_sees(const job *j, int64_t r)
{
    if (!j->a->causal)
        return j->total;
    int64_t n = query_of(j, r) + j->total - j->a->q_len + 1;
    return n < 0 ? 0 : n;
}

int64_t cm_attention_first(const job *j, int64_t r)
{
    return j->window ? cm_max_i64(0, query_of(j, r) + j->a->past_len - j->window + 1) : 0;
}

/* Where the bias or mask of row r begins. */
static int64_t mask_at(const job *j, int64_t unit, int64_t r, const int64_t *strides,
                       int64_t batches)
{
    return unit / j->a->kv_heads % batches * strides[0] + head_of(j, unit, r) * strides[1] +
           query_of(j, r) * strides[2];
}

void cm_attention_score(const job *j, int64_t unit, int64_t r, int64_t from, int64_t n,
                        int64_t slot, const space *w, cm_score *out)
{
    const cm_attention *a = j->a;
    float *room = w->bias + slot * j->mask_ld;
    uint8_t *bytes = w->mask + slot * j->mask_ld;
    const cm_problem *p = j->run->p;
    *out = (cm_score){.n = n,
                      .softcap = a->softcap,
                      .fill = a->has_mask_value,
                      .biased = a->bias_last,
                      .mask_value = a->mask_value,
                      .first = cm_attention_first(j, r) - from,
                      .causal = cm_max_i64(0, cm_attention_sees(j, r) - from)};
    if (cm_problem_has(p, BIAS)) {
        int64_t step = a->bias[3], at = mask_at(j, unit, r, a->bias, a->bias_batch) + from * step;
        out->bias_step = step != 0;
        out->bias = (const float *)j->run->in[BIAS] + at;
        if (p->in[BIAS]->dtype != CM_F32 || step > 1) {
            to_f32(j, p->in[BIAS]->dtype, j->run->in[BIAS], at, step, step ? n : 1, room);
            out->bias = room;
        }
    }
    if (cm_problem_has(p, MASK)) {
        int64_t step = a->mask[3], at = mask_at(j, unit, r, a->mask, a->mask_batch) + from * step;
        const uint8_t *m = (const uint8_t *)j->run->in[MASK] + at;
        out->mask_step = step != 0;
        out->mask = m;
        if (step > 1) {
            for (int64_t i = 0; i < n; i++)
                bytes[i] = m[i * step];
            out->mask = bytes;
        }
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

static float sink_of(const job *j, int64_t unit, int64_t r)
{
    return j->sink[head_of(j, unit, r) * j->sink_step];
}

/* False: not all of o is finite. */
static bool store(const job *j, int64_t unit, int64_t r, float *o, float factor)
{
    const cm_attention *a = j->a;
    int64_t at = a->y.offset + unit / a->kv_heads * a->y.batch + head_of(j, unit, r) * a->y.head +
                 query_of(j, r) * a->y.seq;
    float *y = j->direct ? (float *)j->run->out[0] + at : NULL;
    if (y && a->y.dim == 1)
        return j->kernels->scale(o, y, a->v_head_size, factor);
    bool finite = j->kernels->scale(o, o, a->v_head_size, factor);
    if (y) {
        for (int64_t i = 0; i < a->v_head_size; i++)
            y[i * a->y.dim] = o[i];
        return finite;
    }
    const cm_tensor *out = j->run->p->out[0];
    int64_t cols = out->dims[out->rank - 1];
    cm_epilogue_tile(&j->epilogue, at / cols, at % cols, 1, a->v_head_size, o, j->o_ld);
    return finite;
}

void cm_attention_finish(const job *j, int64_t unit, int64_t r, const source *k, const source *v,
                         const float *stats, float *o)
{
    const cm_attention *a = j->a;
    float sum = stats[1] + (j->sink ? expf(sink_of(j, unit, r) - stats[0]) : 0);
    float factor = sum == 0 ? 0 : 1 / sum;
    /* Skipped keys weigh nothing only beside a score that is far above theirs. */
    bool shadowed = j->skips && a->has_mask_value && cm_attention_sees(j, r) < j->total &&
                    !(stats[0] > a->mask_value + 104);
    if (!shadowed && sum < 1e30f && store(j, unit, r, o, factor))
        return;
    cm_attention_slow(j, unit, r, k, v, o);
    store(j, unit, r, o, 1);
}

/* The score of key s, -infinity: it takes no part. */
static double slow_score(const job *j, int64_t unit, int64_t r, const source *k, int64_t s)
{
    const cm_attention *a = j->a;
    const cm_problem *p = j->run->p;
    bool allowed = s < cm_attention_sees(j, r) && s >= cm_attention_first(j, r);
    double bias = 0, dot = 0;
    if (cm_problem_has(p, MASK))
        allowed =
            allowed &&
            ((const uint8_t *)
                 j->run->in[MASK])[mask_at(j, unit, r, a->mask, a->mask_batch) + s * a->mask[3]];
    if (cm_problem_has(p, BIAS))
        bias = get(p->in[BIAS]->dtype, j->run->in[BIAS],
                   mask_at(j, unit, r, a->bias, a->bias_batch) + s * a->bias[3]);
    if (!allowed)
        return !a->has_mask_value ? -INFINITY : a->mask_value + (a->bias_last ? bias : 0);
    if (bias == -INFINITY)
        return bias;
    int64_t from = a->q.offset + unit / a->kv_heads * a->q.batch + head_of(j, unit, r) * a->q.head +
                   query_of(j, r) * a->q.seq;
    for (int64_t i = 0; i < a->head_size; i++)
        dot += (double)get(p->in[Q]->dtype, j->run->in[Q], from + i * a->q.dim) *
               get(k->type, k->at, s * k->seq + i * k->dim);
    dot *= a->scale;
    return (a->softcap > 0 ? a->softcap * tanh(dot / a->softcap) : dot) + bias;
}

void cm_attention_slow(const job *j, int64_t unit, int64_t r, const source *k, const source *v,
                       float *y)
{
    double most = j->sink ? sink_of(j, unit, r) : -INFINITY, sum = 0;
    int64_t size = j->a->v_head_size;
    for (int64_t s = 0; s < j->total; s++) {
        double x = slow_score(j, unit, r, k, s);
        if (x > most || isnan(x))
            most = x;
    }
    memset(y, 0, (size_t)size * sizeof *y);
    if (most == -INFINITY)
        return;
    if (j->sink)
        sum = exp(sink_of(j, unit, r) - most);
    for (int64_t s = 0; s < j->total; s++)
        sum += exp(slow_score(j, unit, r, k, s) - most);
    for (int64_t s = 0; s < j->total; s++) {
        double weight = exp(slow_score(j, unit, r, k, s) - most) / sum;
        for (int64_t i = 0; weight != 0 && i < size; i++)
            y[i] += (float)(weight * get(v->type, v->at, s * v->seq + i * v->dim));
    }
}
