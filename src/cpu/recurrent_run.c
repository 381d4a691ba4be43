/* recurrent_run.c -- units of a recurrent network from their first state to their last, and how threads share them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Directions, and parts of the batch, are units that run side by side; where there are more threads than that they share
 * the steps (recurrent_team.c), or a single one its products, or the others multiply the inputs of the next 8 steps. */
#include <string.h>

#include "base/size.h"
#include "cpu/recurrent_unit.h"

typedef cm_recurrent_job job;
typedef cm_recurrent_unit unit;

/* Row b of an initial or final state. */
static int64_t state_at(const unit *u, const cm_tensor *t, int64_t b)
{
    bool first = u->j->r->batch_first;
    return (u->row + b) * t->strides[!first] + u->d * t->strides[first];
}

static void load_state(const unit *u, int input, float *to)
{
    const cm_run *run = u->j->run;
    size_t bytes = (size_t)u->j->r->hidden * sizeof *to;
    for (int64_t b = 0; b < u->n; b++, to += u->state) {
        if (cm_problem_has(run->p, input))
            memcpy(to, (const float *)run->in[input] + state_at(u, run->p->in[input], b), bytes);
        else
            memset(to, 0, bytes);
    }
}

static void store_state(const unit *u, int output, const float *from)
{
    const cm_run *run = u->j->run;
    size_t bytes = (size_t)u->j->r->hidden * sizeof *from;
    if (!cm_problem_wants(run->p, output))
        return;
    for (int64_t b = 0; b < u->n; b++, from += u->state) {
        float *to = (float *)run->out[output] + state_at(u, run->p->out[output], b);
        if (cm_recurrent_length(u, b) == 0)
            memset(to, 0, bytes);
        else
            memcpy(to, from, bytes);
    }
}

/* Both biases as one; but a GRU's for the state stands inside its reset gate where that is asked for. */
static void join_biases(unit *u)
{
    const job *j = u->j;
    const cm_recurrent *r = j->r;
    if (!cm_problem_has(j->run->p, CM_RECURRENT_B)) {
        u->bias = NULL;
        return;
    }
    const float *w = (const float *)j->run->in[CM_RECURRENT_B] + u->d * 2 * j->cols,
                *s = w + j->cols;
    bool inside = r->kind == CM_RECURRENT_GRU && r->linear_before_reset;
    for (int64_t i = 0; i < j->cols; i++)
        u->bias[i] = w[i] + (inside && i >= 2 * r->hidden ? 0 : s[i]);
    u->r_bias = inside ? s + 2 * r->hidden : NULL;
}

static unit unit_of(const job *j, int64_t index)
{
    const cm_recurrent *r = j->r;
    cm_recurrent_packed packed = cm_recurrent_packed_of(j->g, r);
    int64_t part = index % j->parts, begin = part * r->batch / j->parts;
    unit u = {
        .j = j, .d = (int)(index / j->parts), .row = begin, .state = cm_recurrent_round(r->hidden)};
    u.n = (part + 1) * r->batch / j->parts - begin;
    u.backward = u.d == 1 || r->reverse;
    u.w = (const float *)j->run->in[CM_RECURRENT_W] + u.d * packed.w;
    u.r_first = (const float *)j->run->in[CM_RECURRENT_R] + u.d * packed.r;
    u.r_rest = u.r_first + packed.first;
    u.scratch = j->workspace + index * j->unit_elems; /* aligned to 64 */
    u.gates = (float *)u.scratch + j->scratch_elems;
    u.h = u.gates + cm_recurrent_round(j->chunk * j->rows * j->ld);
    u.c = u.h + j->rows * u.state;
    u.more = u.c + j->rows * u.state;
    u.next = u.more + j->rows * u.state;
    u.bias = u.next + j->rows * u.state;
    return u;
}

/* All steps, 8 by 8, and beside them the inputs' product of the 8 after those. */
static void run_ahead(unit *u)
{
    const job *j = u->j;
    const cm_run *run = j->run;
    int64_t steps = j->r->steps, n = CM_AHEAD_ROWS;
    float *now = u->gates, *next = now + n * j->ld;
    cm_recurrent_ahead a;
    u->ahead = &a;
    cm_recurrent_begin_ahead(u, u->backward ? steps - n : 0, n, now);
    cm_recurrent_finish_ahead(u);
    for (int64_t k = 0; k < steps; k += n) {
        n = cm_min_i64(n, steps - k);
        int64_t from = u->backward ? steps - k - n : k, left = steps - k - n;
        int64_t m = cm_min_i64(n, left);
        if (m)
            cm_recurrent_begin_ahead(u, u->backward ? left - m : k + n, m, next);
        u->gates = now;
        for (int64_t s = 0; s < n && !cm_is_cancelled(run->cx); s++)
            cm_recurrent_step(u, k + s, from);
        cm_recurrent_finish_ahead(u);
        float *other = now;
        now = next;
        next = other;
    }
}

static unit begin_unit(const job *j, int64_t index)
{
    unit u = unit_of(j, index);
    join_biases(&u);
    load_state(&u, CM_RECURRENT_H0, u.h);
    if (j->r->kind == CM_RECURRENT_LSTM)
        load_state(&u, CM_RECURRENT_C0, u.c);
    return u;
}

static void end_unit(const unit *u)
{
    store_state(u, 1, u->h);
    if (u->j->r->kind == CM_RECURRENT_LSTM)
        store_state(u, 2, u->c);
}

/* Directions go on step by step together. */
static void run_teams(const job *j)
{
    int64_t steps = j->r->steps, from[2];
    unit u[2];
    for (int d = 0; d < j->r->directions; d++)
        u[d] = begin_unit(j, d);
    for (int64_t k = 0, n; k < steps && !cm_is_cancelled(j->run->cx); k += n) {
        n = cm_min_i64(j->chunk, steps - k);
        for (int d = 0; d < j->r->directions; d++) {
            from[d] = u[d].backward ? steps - k - n : k;
            cm_recurrent_multiply_inputs(&u[d], from[d], n, 0, 1);
        }
        cm_recurrent_run_teams(j, u, k, n, from);
    }
    for (int d = 0; d < j->r->directions; d++)
        end_unit(&u[d]);
}

/* Steps [k, k + n), and the inputs of those that come next. */
typedef struct beside {
    const unit *u;
    float *next; /* gates */
    int64_t k, n, next_k, next_n;
} beside;

static int64_t first_time(const unit *u, int64_t k, int64_t n)
{
    return u->backward ? u->j->r->steps - k - n : k;
}

/* Item 0 are the steps, the others parts of the inputs. */
static void some_beside(void *arg, int64_t begin, int64_t end)
{
    const beside *x = arg;
    const job *j = x->u->j;
    for (int64_t i = begin; i < end; i++) {
        unit v = *x->u;
        if (i > 0) {
            v.gates = x->next;
            cm_recurrent_multiply_inputs(&v, first_time(&v, x->next_k, x->next_n), x->next_n, i - 1,
                                         j->helpers);
            continue;
        }
        for (int64_t s = 0; s < x->n && !cm_is_cancelled(j->run->cx); s++)
            cm_recurrent_step(&v, x->k + s, first_time(&v, x->k, x->n));
    }
}

/* All steps, 8 by 8, and on other threads the inputs' product of the 8 after those. */
static void run_helped(unit *u)
{
    const job *j = u->j;
    int64_t steps = j->r->steps, n = CM_AHEAD_ROWS;
    beside x = {.u = u, .next = u->gates + n * j->rows * j->ld, .next_n = n};
    float *now = u->gates;
    cm_recurrent_multiply_inputs(u, first_time(u, 0, n), n, 0, 1);
    for (int64_t k = 0; k < steps; k += x.n) {
        x.k = k;
        x.n = cm_min_i64(n, steps - k);
        x.next_k = k + x.n;
        x.next_n = cm_min_i64(n, steps - x.next_k);
        u->gates = now;
        cm_parallel(j->run->threads, x.next_n > 0 ? 1 + j->helpers : 1, 1, some_beside, &x);
        now = x.next;
        x.next = u->gates;
    }
}

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t steps = j->r->steps;
    for (int64_t i = begin; i < end; i++) {
        unit u = begin_unit(j, i);
        if (j->rate)
            run_ahead(&u);
        else if (j->helpers)
            run_helped(&u);
        for (int64_t k = 0; !j->rate && !j->helpers && k < steps; k += j->chunk) {
            int64_t n = cm_min_i64(j->chunk, steps - k);
            int64_t from =
                u.backward && !cm_problem_has(j->run->p, CM_RECURRENT_LENS) ? steps - k - n : k;
            cm_recurrent_multiply_inputs(&u, from, n, 0, 1);
            for (int64_t s = 0; s < n && !cm_is_cancelled(j->run->cx); s++)
                cm_recurrent_step(&u, k + s, from);
        }
        end_unit(&u);
    }
}

void cm_recurrent_run_job(const job *j)
{
    const cm_recurrent *r = j->r;
    int64_t units = j->parts * r->directions;
    int64_t grain = r->steps * r->batch * j->cols * (r->input + r->hidden) < 1 << 16 ? units : 1;
    if (j->teams)
        run_teams(j);
    else
        cm_parallel(j->run->threads, units, grain, run_units, (void *)j);
}
