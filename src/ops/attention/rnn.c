/* rnn.c -- RNN, GRU, LSTM.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     RNN   h' = f(Wx + Rh + b)
 *     GRU   z, r = f(Wx + Rh + b);  n = g(Wx + R(r h) + b);  h' = (1 - z) n + z h
 *     LSTM  i, o, f = f(Wx + Rh + Pc + b);  c' = f c + i g(Wx + Rh + b);  h' = o h(c')
 *
 * Each sequence of the batch runs alone, in each direction alone. Steps past a sequence's length
 * give zeros in Y; a sequence of length 0 ends in zeros, whatever its initial state. */
#include "ops/attention/rnn.h"

#include <string.h>

#include "base/size.h"
#include "ops/pointwise/activation.h"
#include "ops/linear/dot.h"
#include "ops/expect.h"
#include "ops/quant/quant.h"

/* One struct for all; descriptors agree on the first seven fields, so that bits of `present` do. */
typedef cm_rnn_attr rnn_attr;
enum { HAS_CLIP = 1 << 3, HAS_HIDDEN_SIZE = 1 << 5 };

#define COMMON_FIELDS                                                                              \
    CM_ATTR_FLOATS(rnn_attr, activation_alpha, 0), CM_ATTR_FLOATS(rnn_attr, activation_beta, 0),   \
        CM_ATTR_STRS(rnn_attr, activations, 0), CM_ATTR_FLOAT(rnn_attr, clip, 0),                  \
        CM_ATTR_STR(rnn_attr, direction, "forward"), CM_ATTR_INT(rnn_attr, hidden_size, 0),        \
        CM_ATTR_INT(rnn_attr, layout, 0)

CM_ATTRS(rnn, rnn_attr, COMMON_FIELDS)
CM_ATTRS(gru, rnn_attr, COMMON_FIELDS, CM_ATTR_INT(rnn_attr, linear_before_reset, 0))
CM_ATTRS(lstm, rnn_attr, COMMON_FIELDS, CM_ATTR_INT(rnn_attr, input_forget, 0))

enum { X, W, R, B, LENS, H0, C0, P };

static int gate_count(cm_op_id id)
{
    return id == CM_OP_RNN ? 1 : id == CM_OP_GRU ? 3 : 4;
}

static int activation_count(cm_op_id id)
{
    return id == CM_OP_RNN ? 1 : id == CM_OP_GRU ? 2 : 3;
}

static cm_status direction_count(cm_ctx *cx, const rnn_attr *a, int *out)
{
    static const char *const names[] = {"forward", "reverse", "bidirectional"};
    for (int i = 0; i < 3; i++)
        if (cm_str_equal(a->direction, cm_str_of(names[i]))) {
            *out = i == 2 ? 2 : 1;
            return CM_OK;
        }
    return cm_fail(cx, CM_ERR_MODEL,
                   "direction is '%.*s', wanted forward, reverse or bidirectional",
                   (int)(a->direction.n < 64 ? a->direction.n : 64), a->direction.p);
}

static cm_status find_activations(cm_ctx *cx, cm_op_id id, const rnn_attr *a, int dirs,
                                  cm_activation *out)
{
    static const char *const rnn[] = {"Tanh", "Tanh"};
    static const char *const gru[] = {"Sigmoid", "Tanh", "Sigmoid", "Tanh"};
    static const char *const lstm[] = {"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"};
    const char *const *names = id == CM_OP_RNN ? rnn : id == CM_OP_GRU ? gru : lstm;
    return cm_activation_list(cx, a->activations, names, dirs * activation_count(id),
                              a->activation_alpha, a->activation_beta, out);
}

cm_status cm_rnn_infer(cm_infer *f, cm_op_id id, const rnn_attr *a, const cm_rnn_places *at)
{
    int dirs;
    cm_activation functions[6];
    CM_TRY(direction_count(f->cx, a, &dirs));
    CM_TRY(find_activations(f->cx, id, a, dirs, functions));
    if (a->layout != 0 && a->layout != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "layout is %lld, wanted 0 or 1", (long long)a->layout);
    CM_TRY(cm_expect_rank(f, X, "X", 3, 3));
    CM_TRY(cm_expect_rank(f, W, "W", 3, 3));
    CM_TRY(cm_expect_rank(f, R, "R", 3, 3));
    if (!cm_infer_ranked(f, X) || !cm_infer_ranked(f, R)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    bool first = a->layout == 1; /* batch first */
    cm_dim seq = cm_infer_dim(f, X, first), batch = cm_infer_dim(f, X, !first);
    cm_dim in = cm_infer_dim(f, X, 2), hidden = cm_infer_dim(f, R, at->transposed ? 1 : 2);
    cm_dim gates = cm_infer_mul(f, hidden, gate_count(id));
    if (a->present & HAS_HIDDEN_SIZE)
        CM_TRY(cm_infer_equal(f, "hidden_size", cm_infer_number(f, a->hidden_size), hidden));
    cm_dim w[] = {dirs, at->transposed ? in : gates, at->transposed ? gates : in};
    cm_dim r[] = {dirs, at->transposed ? hidden : gates, at->transposed ? gates : hidden};
    cm_dim bias[] = {dirs, cm_infer_mul(f, gates, 2)};
    cm_dim state[] = {first ? batch : dirs, first ? dirs : batch, hidden};
    cm_dim peep[] = {dirs, cm_infer_mul(f, hidden, 3)};
    CM_TRY(cm_expect_shape(f, W, "W", 3, w));
    CM_TRY(cm_expect_shape(f, R, "R", 3, r));
    CM_TRY(cm_expect_shape(f, B, "B", 2, bias));
    CM_TRY(cm_expect_shape(f, LENS, "sequence_lens", 1, &batch));
    CM_TRY(cm_expect_shape(f, H0, "initial_h", 3, state));
    if (id == CM_OP_LSTM) {
        CM_TRY(cm_expect_shape(f, C0, "initial_c", 3, state));
        CM_TRY(cm_expect_shape(f, P, "P", 2, peep));
    }
    cm_dim forward_y[] = {seq, dirs, batch, hidden}, batch_y[] = {batch, seq, dirs, hidden};
    if (f->n_out > 0)
        CM_TRY(cm_infer_tensor(f, 0, 4, first ? batch_y : forward_y));
    for (int o = 1; o < f->n_out; o++)
        CM_TRY(cm_infer_tensor(f, o, 3, state));
    for (int o = 0; o < f->n_out; o++)
        f->out[o].type.dtype = f->in[X].type->dtype;
    return CM_OK;
}

static const cm_rnn_places plain = {0};

static cm_status infer(cm_infer *f)
{
    return cm_rnn_infer(f, f->op->id, f->attr, &plain);
}

typedef struct {
    const cm_ctx *cx;
    cm_op_id id;
    int n_gates, n_acts, dirs;
    bool batch_first, backward, linear_before_reset, input_forget, dynamic;
    int64_t seq, batch, in, hidden;
    const double *x, *w, *r, *b, *h0, *c0, *p;
    const int64_t *lens;
    cm_activation act[6];
    double clip; /* 0: none */
    cm_tensor *y, *y_h, *y_c;
    double *scratch;
    int64_t scratch_elems; /* of one sequence */
} run;

/* One sequence in one direction: its weights and its state. */
typedef struct {
    const run *r;
    const double *w, *rw, *wb, *rb, *p; /* biases and peepholes NULL: zero */
    const cm_activation *act;
    double *gates, *h, *c, *tmp;
} sequence;

static double activate(const sequence *s, int which, double x)
{
    double clip = s->r->clip;
    if (clip > 0)
        x = x > clip ? clip : x < -clip ? -clip : x;
    return cm_activation_apply(&s->act[which], x);
}

static double input_part(const sequence *s, int64_t row, const double *x)
{
    return cm_dot_f64(s->w + row * s->r->in, x, s->r->in) + (s->wb ? s->wb[row] : 0);
}

static double state_part(const sequence *s, int64_t row, const double *h)
{
    return cm_dot_f64(s->rw + row * s->r->hidden, h, s->r->hidden) + (s->rb ? s->rb[row] : 0);
}

static void step_rnn(sequence *s, const double *x)
{
    int64_t n = s->r->hidden;
    for (int64_t i = 0; i < n; i++)
        s->gates[i] = activate(s, 0, input_part(s, i, x) + state_part(s, i, s->h));
    memcpy(s->h, s->gates, (size_t)n * sizeof(double));
}

static void step_gru(sequence *s, const double *x)
{
    int64_t n = s->r->hidden;
    double *z = s->gates, *r = z + n, *g = r + n;
    for (int64_t i = 0; i < 2 * n; i++)
        s->gates[i] = activate(s, 0, input_part(s, i, x) + state_part(s, i, s->h));
    for (int64_t i = 0; i < n; i++)
        s->tmp[i] = r[i] * s->h[i];
    for (int64_t i = 0; i < n; i++) {
        double recurrent = s->r->linear_before_reset ? r[i] * state_part(s, 2 * n + i, s->h)
                                                     : state_part(s, 2 * n + i, s->tmp);
        g[i] = activate(s, 1, input_part(s, 2 * n + i, x) + recurrent);
    }
    for (int64_t i = 0; i < n; i++)
        s->h[i] = (1 - z[i]) * g[i] + z[i] * s->h[i];
}

static void step_lstm(sequence *s, const double *x)
{
    int64_t n = s->r->hidden;
    double *in = s->gates, *out = in + n, *forget = out + n, *cell = forget + n;
    const double *p_in = s->p, *p_out = s->p ? s->p + n : NULL,
                 *p_forget = s->p ? s->p + 2 * n : NULL;
    const double *h = s->h;
    if (s->r->dynamic) {
        cm_quant_dynamic_round(s->h, n, s->tmp);
        h = s->tmp;
    }
    for (int64_t i = 0; i < 4 * n; i++)
        s->gates[i] = input_part(s, i, x) + state_part(s, i, h);
    for (int64_t i = 0; i < n; i++) {
        double c = s->c[i];
        double gi = activate(s, 0, in[i] + (p_in ? p_in[i] * c : 0));
        double gf = s->r->input_forget
                        ? 1 - gi
                        : activate(s, 0, forget[i] + (p_forget ? p_forget[i] * c : 0));
        c = gf * c + gi * activate(s, 1, cell[i]);
        double go = activate(s, 0, out[i] + (p_out ? p_out[i] * c : 0));
        s->c[i] = c;
        s->h[i] = go * cm_activation_apply(&s->act[2], c);
    }
}

static void put(cm_tensor *t, int64_t row, const double *v, int64_t n)
{
    if (t)
        cm_store_f64(t->dtype, v, n, (char *)t->data + (size_t)(row * n) * cm_dtype_size(t->dtype));
}

static void run_sequence(const run *r, int64_t d, int64_t b, double *scratch)
{
    int64_t n = r->hidden, rows = r->n_gates * n;
    sequence s = {.r = r, .w = r->w + d * rows * r->in, .rw = r->r + d * rows * n};
    s.wb = r->b ? r->b + d * 2 * rows : NULL;
    s.rb = r->b ? s.wb + rows : NULL;
    s.p = r->p ? r->p + d * 3 * n : NULL;
    s.act = r->act + d * r->n_acts;
    s.gates = scratch;
    s.h = s.gates + rows;
    s.c = s.h + n;
    s.tmp = s.c + n;
    int64_t state_row = r->batch_first ? b * r->dirs + d : d * r->batch + b;
    for (int64_t i = 0; i < n; i++) {
        s.h[i] = r->h0 ? r->h0[state_row * n + i] : 0;
        s.c[i] = r->c0 ? r->c0[state_row * n + i] : 0;
    }
    bool backward = d == 1 || r->backward;
    int64_t len = r->lens ? r->lens[b] : r->seq;
    for (int64_t k = 0; k < r->seq && !cm_is_cancelled(r->cx); k++) {
        int64_t t = k < len && backward ? len - 1 - k : k;
        const double *x = r->x + (r->batch_first ? b * r->seq + t : t * r->batch + b) * r->in;
        if (k >= len)
            memset(s.tmp, 0, (size_t)n * sizeof(double));
        else if (r->id == CM_OP_RNN)
            step_rnn(&s, x);
        else if (r->id == CM_OP_GRU)
            step_gru(&s, x);
        else
            step_lstm(&s, x);
        int64_t y_row =
            r->batch_first ? (b * r->seq + t) * r->dirs + d : (t * r->dirs + d) * r->batch + b;
        put(r->y, y_row, k < len ? s.h : s.tmp, n);
    }
    if (len == 0 && r->seq > 0) {
        memset(s.h, 0, (size_t)n * sizeof(double));
        memset(s.c, 0, (size_t)n * sizeof(double));
    }
    put(r->y_h, state_row, s.h, n);
    put(r->y_c, state_row, s.c, n);
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    for (int64_t i = begin; i < end; i++)
        run_sequence(r, i / r->batch, i % r->batch, r->scratch + i * r->scratch_elems);
}

static cm_status check_lens(cm_eval *e, const run *r)
{
    for (int64_t b = 0; r->lens && b < r->batch; b++)
        if (r->lens[b] < 0 || r->lens[b] > r->seq)
            return cm_fail(e->cx, CM_ERR_DATA, "sequence_lens[%lld] is %lld, wanted 0 to %lld",
                           (long long)b, (long long)r->lens[b], (long long)r->seq);
    return CM_OK;
}

cm_status cm_rnn_eval(cm_eval *e, cm_op_id id, const rnn_attr *a, const cm_rnn_places *at,
                      const double *w, const double *rw)
{
    const cm_tensor *x = cm_eval_in(e, X);
    run r = {.cx = e->cx,
             .id = id,
             .n_gates = gate_count(id),
             .n_acts = activation_count(id),
             .w = w,
             .r = rw};
    CM_TRY(direction_count(e->cx, a, &r.dirs));
    CM_TRY(find_activations(e->cx, id, a, r.dirs, r.act));
    r.batch_first = a->layout == 1;
    r.backward = cm_str_equal(a->direction, cm_str_of("reverse"));
    r.linear_before_reset = a->linear_before_reset != 0;
    r.input_forget = a->input_forget != 0;
    r.clip = a->present & HAS_CLIP ? a->clip : 0;
    r.seq = x->dims[r.batch_first];
    r.batch = x->dims[!r.batch_first];
    r.in = x->dims[2];
    r.hidden = cm_eval_in(e, R)->dims[at->transposed ? 1 : 2];
    CM_TRY(cm_eval_as_f64(e, X, &r.x));
    r.dynamic = at->dynamic;
    if (r.dynamic) {
        void *rounded;
        CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(x), sizeof(double), &rounded));
        cm_quant_dynamic_round(r.x, cm_tensor_elems(x), rounded);
        r.x = rounded;
    }
    if (cm_eval_has(e, B))
        CM_TRY(cm_eval_as_f64(e, B, &r.b));
    if (cm_eval_has(e, LENS))
        CM_TRY(cm_eval_as_i64(e, LENS, &r.lens));
    if (cm_eval_has(e, H0))
        CM_TRY(cm_eval_as_f64(e, H0, &r.h0));
    if (id == CM_OP_LSTM && cm_eval_has(e, C0))
        CM_TRY(cm_eval_as_f64(e, C0, &r.c0));
    if (id == CM_OP_LSTM && cm_eval_has(e, P))
        CM_TRY(cm_eval_as_f64(e, P, &r.p));
    CM_TRY(check_lens(e, &r));
    r.y = cm_eval_wants(e, 0) ? cm_eval_out(e, 0) : NULL;
    r.y_h = cm_eval_wants(e, 1) ? cm_eval_out(e, 1) : NULL;
    r.y_c = cm_eval_wants(e, 2) ? cm_eval_out(e, 2) : NULL;
    r.scratch_elems = (r.n_gates + 3) * r.hidden;
    size_t total;
    void *scratch;
    if (!cm_mul((size_t)r.scratch_elems, (size_t)(r.dirs * r.batch), &total))
        return cm_fail_memory(e->cx);
    CM_TRY(cm_eval_scratch(e, total, sizeof(double), &scratch));
    r.scratch = scratch;
    cm_parallel(e->threads, r.dirs * r.batch, 1, run_range, &r);
    return cm_check_cancel(e->cx);
}

static cm_status eval(cm_eval *e)
{
    const double *w, *r;
    CM_TRY(cm_eval_as_f64(e, W, &w));
    CM_TRY(cm_eval_as_f64(e, R, &r));
    return cm_rnn_eval(e, e->op->id, e->attr, &plain, w, r);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    if (!cm_expect_known(f, X))
        return;
    double steps =
        cm_infer_extent(f, cm_infer_dim(f, X, 0)) * cm_infer_extent(f, cm_infer_dim(f, X, 1));
    c->ops = 2 * steps * (cm_infer_volume(f, f->in[W].type) + cm_infer_volume(f, f->in[R].type));
}

const cm_family cm_family_rnn = {.name = "rnn", .infer = infer, .eval = eval, .cost = cost};
