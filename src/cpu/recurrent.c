/* recurrent.c -- tactics for RNN, GRU and LSTM with constant weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The inputs' product is taken for many steps at once, the state's step by step onto it, with weights packed in
 * panels; then the gates. Every other step goes through the weights from their end, so that it finds in the near
 * cache what the last one left there. A single sequence waits for its weights to come from the caches: meanwhile it
 * multiplies the inputs of the next 8 steps. Directions, and parts of the batch, are units that run side by side;
 * where there are more threads than that they share the steps (recurrent_team.c), or a single one its products, or the
 * others multiply the inputs of the next 8 steps. */
#include "cpu/recurrent_unit.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/gemm.h"

typedef cm_recurrent_job job;
typedef cm_recurrent_unit unit;

enum { X, W, R, B, LENS, H0, C0 };
enum {
    CHUNK_ELEMS = 1 << 17, /* gates that are computed ahead */
    TEAM_CHUNK = 1 << 19,  /* the same, of teams */
    HELPED_ELEMS =
        16 * 1024, /* weights of a step's inputs, times rows, from which a thread is worth it */
    LONG_SUM = 48  /* elements of the state from which pieces beside a panel pay */
};

static int gate_count(const cm_recurrent *r)
{
    return r->kind == CM_RECURRENT_RNN ? 1 : r->kind == CM_RECURRENT_GRU ? 3 : 4;
}

static bool has(const cm_problem *p, int i)
{
    return i < p->n_in && p->in[i];
}

static bool wants(const cm_problem *p, int o)
{
    return o < p->n_out && p->out[o];
}

static const char *reject(const cm_problem *p)
{
    if (!p->as.recurrent.plain_activations)
        return "activations that are not the operator's own";
    if (p->as.recurrent.peepholes)
        return "peepholes";
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            continue;
        if (i != LENS && p->in[i]->dtype != CM_F32)
            return "an input is not of float32";
        if (i != X && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    }
    if (!p->constant[W] || !p->constant[R])
        return "weights are not constant";
    if (p->in[X]->dims[2] > 1 && p->in[X]->strides[2] != 1)
        return "input 0 is strided";
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        if (p->out[o]->dtype != CM_F32)
            return "an output is not of float32";
        if (p->out[o]->dims[p->out[o]->rank - 1] > 1 &&
            p->out[o]->strides[p->out[o]->rank - 1] != 1)
            return "an output is strided";
    }
    return NULL;
}

/* ---- Weights -------------------------------------------------------------------------------- */

/* Columns of the state's product that are done first; a GRU's new value comes after its gates. */
static int64_t first_cols(const cm_recurrent *r)
{
    return r->kind == CM_RECURRENT_GRU ? 2 * r->hidden : gate_count(r) * r->hidden;
}

static int64_t packed_w(const cm_gemm_f32_kernel *g, const cm_recurrent *r)
{
    return cm_gemm_f32_packed_b(g, r->input, gate_count(r) * r->hidden);
}

static int64_t packed_first(const cm_gemm_f32_kernel *g, const cm_recurrent *r)
{
    return cm_gemm_f32_packed_b(g, r->hidden, first_cols(r));
}

static int64_t packed_r(const cm_gemm_f32_kernel *g, const cm_recurrent *r)
{
    int64_t rest = gate_count(r) * r->hidden - first_cols(r);
    return packed_first(g, r) + cm_gemm_f32_packed_b(g, r->hidden, rest);
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    int64_t each = input == W ? packed_w(g, r) : input == R ? packed_r(g, r) : 0;
    return (size_t)(each * r->directions) * sizeof(float);
}

static void pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads)
{
    (void)k;
    (void)threads;
    const cm_recurrent *r = &p->as.recurrent;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    int64_t depth = input == W ? r->input : r->hidden, cols = gate_count(r) * r->hidden;
    int64_t first = input == W ? cols : first_cols(r), panel = depth * g->nr;
    const float *f = from;
    float *t = to;
    for (int d = 0; d < r->directions; d++, f += cols * depth) {
        g->pack_b(depth, first, f, 1, depth, t, panel);
        t += cm_gemm_f32_packed_b(g, depth, first);
        if (cols > first)
            g->pack_b(depth, cols - first, f + first * depth, 1, depth, t, panel);
        t += cm_gemm_f32_packed_b(g, depth, cols - first);
    }
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static int64_t round16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* Do a direction's weights of the state stay in the second-level cache from step to step if those of the inputs do not
 * go through it, and only then? */
static bool fit_alone(const cm_recurrent *r, int64_t cols)
{
    int64_t bytes = cols * (int64_t)sizeof(float), room = cm_cpu_info()->l2_bytes / 8 * 7;
    return r->hidden * bytes < room && (r->hidden + r->input) * bytes >= room;
}

static void plan(const cm_problem *p, job *j)
{
    const cm_recurrent *r = &p->as.recurrent;
    j->r = r;
    j->g = cm_gemm_f32_kernel_of(p->target.level);
    j->cols = gate_count(r) * r->hidden;
    j->panel = p->target.level >= CM_ISA_AVX512 ? 32 : p->target.level >= CM_ISA_AVX2 ? 16 : 8;
    j->parts = cm_max_i64(1, cm_min_i64(p->threads / r->directions, r->batch));
    if (r->steps * r->batch * j->cols * r->hidden < 1 << 18)
        j->parts = 1;
    j->teams = cm_recurrent_has_teams(p, j);
    if (j->teams)
        j->parts = 1;
    j->rows = cm_ceil_div(r->batch, j->parts);
    j->shares =
        j->teams || (p->threads > 1 && r->directions * j->parts == 1 &&
                     (r->hidden * first_cols(r) >= CM_SHARED_ELEMS || r->input > 2 * r->hidden));
    j->chunk = cm_min_i64(
        r->steps, cm_max_i64(8, (j->teams ? TEAM_CHUNK : CHUNK_ELEMS) / (j->rows * j->cols)));
    if (has(p, LENS)) /* sequences are at different steps */
        j->chunk = r->steps;
    j->ld = j->cols;
    j->rate = 0;
    j->helpers = 0;
    if (p->threads > 1 && r->directions * j->parts == 1 && !j->shares && !has(p, LENS) &&
        r->steps > CM_AHEAD_ROWS && r->batch * j->cols * r->input >= HELPED_ELEMS) {
        j->helpers = cm_min_i64(p->threads - 1, cm_ceil_div(j->cols, 2 * j->g->nr));
        j->chunk = 2 * CM_AHEAD_ROWS;
    }
    if (p->target.level >= CM_ISA_AVX512 && j->rows == 1 && !fit_alone(r, j->cols) && !j->shares &&
        !j->helpers && !has(p, LENS) && r->steps > CM_AHEAD_ROWS && r->input > 0 &&
        r->hidden >= LONG_SUM && j->g->nr == j->panel) {
        j->rate = r->input <= r->hidden ? 8 : 4;
        j->ld = cm_ceil_div(j->cols, j->panel) * j->panel;
        j->chunk = 2 * CM_AHEAD_ROWS;
    }
    j->scratch_elems =
        round16((int64_t)cm_gemm_f32_scratch(j->g, j->chunk * j->rows, r->input) / 4 + 16);
    int64_t state = round16(r->hidden);
    j->unit_elems = round16(j->chunk * j->rows * j->ld) + j->rows * state * 4 + round16(j->cols) +
                    state + j->scratch_elems;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    job j = {0};
    plan(p, &j);
    return (size_t)(j.unit_elems * j.parts * p->as.recurrent.directions) * sizeof(float);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    job j = {0};
    plan(p, &j);
    double flops = cm_cpu_flops_per_ns(&p->target), steps = (double)(r->steps * r->directions);
    double wide = p->target.level == CM_ISA_GENERIC ? 4 : p->target.level == CM_ISA_AVX2 ? 8 : 12;
    double batch = (double)r->batch, cols = (double)j.cols;
    double inputs = 2 * batch * cols * (double)r->input / flops;
    double states = cm_max_i64(2, r->batch) * 2 * cols * (double)r->hidden / flops;
    double gates = batch * cols * 8 / wide;
    return 300 + steps * (inputs + states + gates + 60) /
                     cm_cpu_speedup(p, j.teams ? p->threads : (double)(r->directions * j.parts));
}

/* ---- Running -------------------------------------------------------------------------------- */

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
    multiply_state(u, s, u->h, u->r_first, first_cols(r), s->gates);
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

static int64_t length_of(const unit *u, int64_t b)
{
    const cm_run *run = u->j->run;
    return has(run->p, LENS) ? ((const int32_t *)run->in[LENS])[u->row + b] : u->j->r->steps;
}

/* Step k of every row, up to mr rows at a time; gates of time t begin at step `from` of the chunk. */
static void all_rows(const unit *u, int64_t k, int64_t from)
{
    const job *j = u->j;
    bool wanted = wants(j->run->p, 0);
    step s;
    s.m = 0;
    s.turned = k * cm_ceil_div(u->n, j->g->mr) % 2;
    for (int64_t b = 0; b < u->n; b++) {
        int64_t len = length_of(u, b), t = k < len && u->backward ? len - 1 - k : k;
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
        if (has(run->p, input))
            memcpy(to, (const float *)run->in[input] + state_at(u, run->p->in[input], b), bytes);
        else
            memset(to, 0, bytes);
    }
}

static void store_state(const unit *u, int output, const float *from)
{
    const cm_run *run = u->j->run;
    size_t bytes = (size_t)u->j->r->hidden * sizeof *from;
    if (!wants(run->p, output))
        return;
    for (int64_t b = 0; b < u->n; b++, from += u->state) {
        float *to = (float *)run->out[output] + state_at(u, run->p->out[output], b);
        if (length_of(u, b) == 0)
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
    if (!has(j->run->p, B)) {
        u->bias = NULL;
        return;
    }
    const float *w = (const float *)j->run->in[B] + u->d * 2 * j->cols, *s = w + j->cols;
    bool inside = r->kind == CM_RECURRENT_GRU && r->linear_before_reset;
    for (int64_t i = 0; i < j->cols; i++)
        u->bias[i] = w[i] + (inside && i >= 2 * r->hidden ? 0 : s[i]);
    u->r_bias = inside ? s + 2 * r->hidden : NULL;
}

static unit unit_of(const job *j, int64_t index)
{
    const cm_recurrent *r = j->r;
    int64_t part = index % j->parts, begin = part * r->batch / j->parts;
    unit u = {.j = j, .d = (int)(index / j->parts), .row = begin, .state = round16(r->hidden)};
    u.n = (part + 1) * r->batch / j->parts - begin;
    u.backward = u.d == 1 || r->reverse;
    u.w = (const float *)j->run->in[W] + u.d * packed_w(j->g, r);
    u.r_first = (const float *)j->run->in[R] + u.d * packed_r(j->g, r);
    u.r_rest = u.r_first + packed_first(j->g, r);
    u.scratch = j->workspace + index * j->unit_elems; /* aligned to 64 */
    u.gates = (float *)u.scratch + j->scratch_elems;
    u.h = u.gates + round16(j->chunk * j->rows * j->ld);
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
            all_rows(u, k + s, from);
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
    load_state(&u, H0, u.h);
    if (j->r->kind == CM_RECURRENT_LSTM)
        load_state(&u, C0, u.c);
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
            all_rows(&v, x->k + s, first_time(&v, x->k, x->n));
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
            int64_t from = u.backward && !has(j->run->p, LENS) ? steps - k - n : k;
            cm_recurrent_multiply_inputs(&u, from, n, 0, 1);
            for (int64_t s = 0; s < n && !cm_is_cancelled(j->run->cx); s++)
                all_rows(&u, k + s, from);
        }
        end_unit(&u);
    }
}

static cm_status run(const cm_run *run)
{
    const cm_problem *p = run->p;
    const cm_recurrent *r = &p->as.recurrent;
    int level = p->target.level;
    for (int64_t b = 0; has(p, LENS) && b < r->batch; b++) {
        int32_t n = ((const int32_t *)run->in[LENS])[b];
        if (n < 0 || n > r->steps)
            return cm_fail(run->cx, CM_ERR_DATA, "sequence_lens[%lld] is %d, wanted 0 to %lld",
                           (long long)b, n, (long long)r->steps);
    }
    job j = {.run = run,
             .kernels = level >= CM_ISA_AVX512 ? &cm_cpu_recurrent_kernels__avx512
                        : level >= CM_ISA_AVX2 ? &cm_cpu_recurrent_kernels__avx2
                                               : &cm_cpu_recurrent_kernels__generic,
             .gates = {r->hidden, r->hidden, r->clip > 0 ? r->clip : INFINITY, r->input_forget},
             .workspace = run->workspace};
    plan(p, &j);
    int64_t units = j.parts * r->directions;
    int64_t grain = r->steps * r->batch * j.cols * (r->input + r->hidden) < 1 << 16 ? units : 1;
    if (j.teams)
        run_teams(&j);
    else
        cm_parallel(run->threads, units, grain, run_units, &j);
    return cm_check_cancel(run->cx);
}

static const cm_tactic rows[] = {
    {"recurrent", CM_ISA_GENERIC, reject, NULL, cost, workspace, pack_bytes, pack, run},
};
const cm_cpu_table cm_cpu_recurrent = {rows, 1};
