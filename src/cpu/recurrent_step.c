/* recurrent_step.c -- one step of a recurrent network: the state's product onto the gates, then the gates.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "cpu/recurrent_unit.h"

typedef cm_recurrent_job job;
typedef cm_recurrent_unit unit;

typedef struct product {
    const job *j;
    const unit *u;
    const float *rows[CM_GEMM_MAX_MR];
    int64_t m, k, n, ldc;
    bool turned; /* the last panel first */
    const float *b;
    float *c; /* added to */
} product;

static void panels(void *arg, int64_t begin, int64_t end)
{
    const product *x = arg;
    const cm_gemm_f32_kernel *g = x->j->g;
    bool single = x->m == 1 && g->nr == x->j->panel;
    cm_gemm_tile t = {.runs = 1,
                      .k = x->k,
                      .rows = x->rows,
                      .ldb = g->nr,
                      .ldc = x->ldc,
                      .alpha = 1,
                      .add = true};
    for (int64_t q = begin; q < end; q++) {
        int64_t i = x->turned ? begin + end - 1 - q : q;
        t.b = x->b + i * x->k * g->nr;
        t.c = x->c + i * g->nr;
        t.n = (int)cm_min_i64(g->nr, x->n - i * g->nr);
        cm_ahead_piece piece;
        if (single && x->u->ahead && cm_recurrent_take_piece(x->u, &piece))
            x->j->kernels->ahead[x->j->rate == 8](x->rows[0], x->k, t.b, t.n, t.c, &piece);
        else if (single)
            x->j->kernels->panel(x->rows[0], x->k, t.b, t.n, t.c);
        else
            g->rows[x->m](&t);
    }
}

/* Up to mr rows of state times n columns of packed weights. */
static void multiply(product *x)
{
    int64_t n = cm_ceil_div(x->n, x->j->g->nr);
    if (x->j->shares && x->k * x->n >= CM_SHARED_ELEMS)
        cm_parallel(x->j->run->threads, n, cm_max_i64(1, CM_SHARED_ELEMS / 4 / x->k / x->j->g->nr),
                    panels, x);
    else
        panels(x, 0, n);
}

/* The gates that belong to row b at each step of its own. */
typedef struct step {
    float *gates[CM_GEMM_MAX_MR]; /* of the rows that take part */
    int64_t row[CM_GEMM_MAX_MR];
    int64_t t[CM_GEMM_MAX_MR];
    int64_t m;
    bool turned; /* goes through the weights from their end */
} step;

/* The state's product for columns [0, n) of `b`, onto `c`. */
static void multiply_state(const unit *u, const step *s, const float *state, const float *b,
                           int64_t n, float *const *c)
{
    product x = {.j = u->j, .u = u, .k = u->j->r->hidden, .n = n, .turned = s->turned, .b = b};
    int64_t ld = s->m > 1 ? c[1] - c[0] : n;
    bool even = true;
    for (int64_t i = 2; i < s->m; i++)
        even = even && c[i] - c[i - 1] == ld;
    for (int64_t i = 0; i < s->m; i += x.m) {
        x.m = even ? s->m : 1;
        x.c = c[i];
        x.ldc = ld;
        for (int64_t k = 0; k < x.m; k++)
            x.rows[k] = state + s->row[i + k] * u->state;
        multiply(&x);
    }
}

/* The state's part of a GRU's new value, which its reset gate multiplies. */
static void multiply_inside(const unit *u, const step *s)
{
    size_t bytes = (size_t)u->j->r->hidden * sizeof(float);
    float *c[CM_GEMM_MAX_MR];
    for (int64_t i = 0; i < s->m; i++) {
        c[i] = u->more + s->row[i] * u->state;
        if (u->r_bias)
            memcpy(c[i], u->r_bias, bytes);
        else
            memset(c[i], 0, bytes);
    }
    multiply_state(u, s, u->h, u->r_rest, u->j->r->hidden, c);
}

static void do_step(const unit *u, const step *s)
{
    const job *j = u->j;
    const cm_recurrent *r = j->r;
    bool inside = r->kind == CM_RECURRENT_GRU && r->linear_before_reset;
    float *c[CM_GEMM_MAX_MR];
    if (inside && s->turned)
        multiply_inside(u, s);
    multiply_state(u, s, u->h, u->r_first, cm_recurrent_first_cols(r), s->gates);
    if (inside && !s->turned) {
        multiply_inside(u, s);
    } else if (r->kind == CM_RECURRENT_GRU && !inside) {
        for (int64_t i = 0; i < s->m; i++) {
            j->kernels->gru_reset(&j->gates, s->gates[i], u->h + s->row[i] * u->state,
                                  u->more + s->row[i] * u->state);
            c[i] = s->gates[i] + 2 * r->hidden;
        }
        multiply_state(u, s, u->more, u->r_rest, r->hidden, c);
    }
    for (int64_t i = 0; i < s->m; i++) {
        float *h = u->h + s->row[i] * u->state, *more = u->more + s->row[i] * u->state;
        if (r->kind == CM_RECURRENT_RNN)
            j->kernels->rnn(&j->gates, s->gates[i], h);
        else if (r->kind == CM_RECURRENT_LSTM)
            j->kernels->lstm(&j->gates, s->gates[i], h, u->c + s->row[i] * u->state);
        else
            j->kernels->gru(&j->gates, s->gates[i], r->linear_before_reset ? more : NULL, h);
    }
}

float *cm_recurrent_y_row(const unit *u, int64_t t, int64_t b)
{
    const cm_recurrent *r = u->j->r;
    const cm_tensor *y = u->j->run->p->out[0];
    const int64_t *s = y->strides;
    return (float *)u->j->run->out[0] + (r->batch_first
                                             ? (u->row + b) * s[0] + t * s[1] + u->d * s[2]
                                             : t * s[0] + u->d * s[1] + (u->row + b) * s[2]);
}

int64_t cm_recurrent_length(const unit *u, int64_t b)
{
    const cm_run *run = u->j->run;
    return cm_problem_has(run->p, CM_RECURRENT_LENS)
               ? ((const int32_t *)run->in[CM_RECURRENT_LENS])[u->row + b]
               : u->j->r->steps;
}

void cm_recurrent_step(const unit *u, int64_t k, int64_t from)
{
    const job *j = u->j;
    bool wanted = cm_problem_wants(j->run->p, 0);
    step s;
    s.m = 0;
    s.turned = k * cm_ceil_div(u->n, j->g->mr) % 2;
    for (int64_t b = 0; b < u->n; b++) {
        int64_t len = cm_recurrent_length(u, b), t = k < len && u->backward ? len - 1 - k : k;
        if (k < len) {
            s.gates[s.m] = u->gates + ((t - from) * u->n + b) * j->ld;
            s.t[s.m] = t;
            s.row[s.m++] = b;
        } else if (wanted) {
            memset(cm_recurrent_y_row(u, t, b), 0, (size_t)j->r->hidden * sizeof(float));
        }
        if (s.m == 0 || (s.m < j->g->mr && b + 1 < u->n))
            continue;
        do_step(u, &s);
        for (int64_t i = 0; wanted && i < s.m; i++)
            memcpy(cm_recurrent_y_row(u, s.t[i], s.row[i]), u->h + s.row[i] * u->state,
                   (size_t)j->r->hidden * sizeof(float));
        s.m = 0;
        s.turned = !s.turned;
    }
}
