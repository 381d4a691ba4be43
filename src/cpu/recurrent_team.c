/* recurrent_team.c -- recurrent networks whose steps are shared by all threads, each with weights of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A slice is some elements of a direction's state, with all their gates: a step of it reads the whole state before
 * and writes its own part of the next, so that a step needs one meeting of the threads. Each thread has slices that
 * it takes at every step and whose weights stay in its cache. Who waits long takes what nobody else has taken: a
 * thread that the system does not run holds up nobody. */
#include <immintrin.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/size.h"
#include "cpu/recurrent_unit.h"

enum {
    MOST_SLICES = 32,        /* of a direction */
    MIN_WEIGHTS = 96 * 1024, /* elements of a direction's, from which meeting at each step pays */
    PATIENCE = 200,          /* looks before a thread takes slices of others */
    YIELD_AFTER = 4000       /* looks before it leaves its core to others */
};

typedef struct team {
    const cm_recurrent_job *j;
    cm_recurrent_unit *u; /* one per direction */
    int64_t k, n;         /* steps [k, k + n) */
    const int64_t *from;  /* step whose gates come first, of each direction */
    int64_t slices;       /* of a direction */
    int64_t members;
    _Alignas(64) _Atomic int64_t done;                   /* slices, of all steps together */
    _Alignas(64) _Atomic int64_t taken[2 * MOST_SLICES]; /* steps of each slice */
} team;

bool cm_recurrent_has_teams(const cm_problem *p, const cm_recurrent_job *j)
{
    const cm_recurrent *r = &p->as.recurrent;
    bool lengths = p->n_in > 4 && p->in[4];
    bool two_products = r->kind == CM_RECURRENT_GRU && !r->linear_before_reset;
    return p->threads > r->directions && r->batch <= j->g->mr && r->hidden % j->g->nr == 0 &&
           r->hidden * j->cols >= MIN_WEIGHTS && r->steps > 1 && !lengths && !two_products;
}

/* The state's product for `panels` panels of packed weights from b on, onto c: rows `ldc` apart. */
static void multiply(const cm_recurrent_unit *u, const float *b, int64_t panels, float *c,
                     int64_t ldc)
{
    const cm_recurrent_job *j = u->j;
    const cm_gemm_f32_kernel *g = j->g;
    int64_t k = j->r->hidden;
    const float *rows[CM_GEMM_MAX_MR];
    for (int64_t i = 0; i < u->n; i++)
        rows[i] = u->h + i * u->state;
    cm_gemm_tile t = {.runs = 1,
                      .k = k,
                      .rows = rows,
                      .ldb = g->nr,
                      .ldc = ldc,
                      .n = g->nr,
                      .alpha = 1,
                      .add = true};
    for (int64_t q = 0; q < panels; q++) {
        t.b = b + q * k * g->nr;
        t.c = c + q * g->nr;
        if (u->n == 1 && g->nr == j->panel)
            j->kernels->panel(rows[0], k, t.b, g->nr, t.c);
        else
            g->rows[u->n](&t);
    }
}

/* The state's part of a GRU's new value, which its reset gate multiplies. */
static void multiply_inside(const cm_recurrent_unit *u, int64_t panel, int64_t panels)
{
    int64_t nr = u->j->g->nr, first = panel * nr;
    size_t bytes = (size_t)(panels * nr) * sizeof(float);
    for (int64_t b = 0; b < u->n; b++) {
        float *c = u->more + b * u->state + first;
        if (u->r_bias)
            memcpy(c, u->r_bias + first, bytes);
        else
            memset(c, 0, bytes);
    }
    multiply(u, u->r_rest + first * u->j->r->hidden, panels, u->more + first, u->state);
}

/* Row b's gates, `g` the first of the slice, and what comes of them. */
static void finish_row(const cm_recurrent_unit *u, int64_t b, const float *g, int64_t first,
                       int64_t n)
{
    const cm_recurrent_job *j = u->j;
    const cm_recurrent *r = j->r;
    int64_t at = b * u->state + first;
    float *h = u->next + at;
    cm_gates gates = j->gates;
    gates.n = n;
    if (r->kind == CM_RECURRENT_RNN) {
        j->kernels->rnn(&gates, g, h);
    } else if (r->kind == CM_RECURRENT_LSTM) {
        j->kernels->lstm(&gates, g, h, u->c + at);
    } else {
        memcpy(h, u->h + at, (size_t)n * sizeof *h);
        j->kernels->gru(&gates, g, u->more + at, h);
    }
}

static void do_slice(const team *m, const cm_recurrent_unit *u, int64_t slice, int64_t k)
{
    const cm_recurrent_job *j = m->j;
    const cm_recurrent *r = j->r;
    int64_t all = r->hidden / j->g->nr, panel = slice * all / m->slices;
    int64_t panels = (slice + 1) * all / m->slices - panel, first = panel * j->g->nr;
    int64_t t = u->backward ? r->steps - 1 - (m->k + k) : m->k + k, n = panels * j->g->nr;
    float *gates = u->gates + (t - m->from[u->d]) * u->n * j->ld + first;
    int64_t products = r->kind == CM_RECURRENT_GRU ? 2 : j->cols / r->hidden;
    for (int64_t q = 0; q < products; q++)
        multiply(u, u->r_first + (q * r->hidden + first) * r->hidden, panels, gates + q * r->hidden,
                 j->ld);
    if (r->kind == CM_RECURRENT_GRU)
        multiply_inside(u, panel, panels);
    for (int64_t b = 0; b < u->n; b++) {
        finish_row(u, b, gates + b * j->ld, first, n);
        if (j->run->p->n_out > 0 && j->run->p->out[0])
            memcpy(cm_recurrent_y_row(u, t, b) + first, u->next + b * u->state + first,
                   (size_t)n * sizeof(float));
    }
}

/* The slice's step, by who comes first. */
static void take(team *m, int64_t i, int64_t k)
{
    int64_t seen = k;
    if (atomic_load_explicit(&m->taken[i], memory_order_relaxed) != k ||
        !atomic_compare_exchange_strong(&m->taken[i], &seen, k + 1))
        return;
    cm_recurrent_unit u = m->u[i / m->slices];
    if (k % 2) {
        u.next = u.h;
        u.h = m->u[i / m->slices].next;
    }
    do_slice(m, &u, i % m->slices, k);
    atomic_fetch_add_explicit(&m->done, 1, memory_order_acq_rel);
}

/* Until all slices of step k are done. */
static void meet(team *m, int64_t k)
{
    int64_t all = m->slices * m->j->r->directions, end = (k + 1) * all;
    for (int i = 1; atomic_load_explicit(&m->done, memory_order_acquire) < end; i++) {
        if (i % PATIENCE == 0) {
            for (int64_t s = 0; s < all; s++)
                take(m, s, k);
        }
        if (i > YIELD_AFTER)
            sched_yield();
        else
            _mm_pause();
    }
}

static void work(void *arg, int64_t begin, int64_t end)
{
    team *m = arg;
    int64_t all = m->slices * m->j->r->directions;
    for (int64_t member = begin; member < end; member++) {
        for (int64_t k = 0; k < m->n && !cm_is_cancelled(m->j->run->cx); k++) {
            for (int64_t s = member * all / m->members; s < (member + 1) * all / m->members; s++)
                take(m, s, k);
            meet(m, k);
        }
    }
}

void cm_recurrent_run_teams(const cm_recurrent_job *j, cm_recurrent_unit *u, int64_t k, int64_t n,
                            const int64_t *from)
{
    team m = {.j = j, .u = u, .k = k, .n = n, .from = from};
    m.slices = cm_min_i64(MOST_SLICES, j->r->hidden / j->g->nr);
    m.members = cm_min_i64(j->run->p->threads, m.slices * j->r->directions);
    cm_parallel(j->run->threads, m.members, 1, work, &m);
    for (int d = 0; n % 2 && d < j->r->directions; d++) {
        float *h = u[d].h;
        u[d].h = u[d].next;
        u[d].next = h;
    }
}
