/* in_place.c -- contests of two tactics for a problem, decided by the time of the whole network.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/in_place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune/made_up.h"

enum { RIVALS = 3, ROUNDS = 8, MOST_RUNS = 40, SAMPLES = ROUNDS * MOST_RUNS };
#define NEAR        1.15 /* times the best alone: what is slower than that does not win in a network */
#define CLEARLY     0.998 /* times the incumbent's: less is noise */
#define ROUND_NS    6e6   /* a side's turn */
#define A_HAIR_LESS 0.9995

/* A problem of the network, what was chosen for it, and who came near. */
typedef struct {
    uint64_t problem;
    int steps; /* that are this problem */
    cm_candidate chosen, rivals[RIVALS];
    int n_rivals;
} contest;

typedef struct {
    int n;
    contest *v;
} contests;

static bool same(const cm_candidate *a, const cm_candidate *b)
{
    return a->tactic == b->tactic && !memcmp(&a->knobs, &b->knobs, sizeof a->knobs);
}

static void note_rival(void *user, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    contest *x = user;
    (void)t, (void)reason;
    if (!c || isnan(c->measured_ns) || c->measured_ns > NEAR * x->chosen.measured_ns ||
        same(c, &x->chosen))
        return;
    int at = x->n_rivals;
    for (; at > 0 && x->rivals[at - 1].measured_ns > c->measured_ns; at--)
        if (at < RIVALS)
            x->rivals[at] = x->rivals[at - 1];
    if (at < RIVALS)
        x->rivals[at] = *c;
    x->n_rivals += x->n_rivals < RIVALS;
}

static int by_time(const void *a, const void *b)
{
    const contest *x = a, *y = b;
    double d = y->steps * y->chosen.measured_ns - x->steps * x->chosen.measured_ns;
    return d > 0 ? 1 : d < 0 ? -1 : x->problem < y->problem ? -1 : x->problem > y->problem;
}

static cm_status find_contests(cm_ctx *cx, const cm_context *c, const cm_in_place *o, contests *l)
{
    const int n_steps = cm_engine_n_steps(cm_context_engine(c));
    CM_NEW_N(cx, cx->scratch, l->v, n_steps, contest);
    for (int s = 0; s < n_steps; s++) {
        contest x = {.steps = 1};
        if (!cm_context_chosen(c, s, &x.problem, &x.chosen) || isnan(x.chosen.measured_ns))
            continue;
        int i = 0;
        while (i < l->n && l->v[i].problem != x.problem)
            i++;
        if (i < l->n) {
            l->v[i].steps++;
            continue;
        }
        if (o->is_new(o->user, x.problem))
            cm_context_tactics(c, s, note_rival, &x);
        if (x.n_rivals)
            l->v[l->n++] = x;
    }
    if (l->n)
        qsort(l->v, (size_t)l->n, sizeof *l->v, by_time);
    return CM_OK;
}

/* Bound, and run once: what it launches is recorded. */
static cm_status open_context(cm_ctx *cx, cm_engine *e, const cm_in_place *o, cm_context **out)
{
    CM_TRY(cm_context_create(cx, e, o->options, out));
    cm_status st = CM_OK;
    for (int i = 0; st == CM_OK && i < cm_engine_n_inputs(e); i++) {
        cm_tensor t;
        st = cm_context_input_memory(cx, *out, i, o->shapes[i].rank, o->shapes[i].dims, &t);
        if (st == CM_OK)
            cm_make_up(t.dtype, t.data, cm_extent_bytes(&t));
    }
    if (st == CM_OK)
        st = cm_context_run(cx, *out);
    if (st != CM_OK) {
        cm_context_destroy(*out);
        *out = NULL;
    }
    return st;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

/* In turns, since the device's clock follows its heat. */
static cm_status race(cm_ctx *cx, cm_context *const c[2], double ns[2])
{
    double samples[2][SAMPLES], first;
    CM_TRY(cm_context_device_ns(cx, c[0], 1, &first));
    int runs = first > 0 && ROUND_NS / first < MOST_RUNS ? 2 + (int)(ROUND_NS / first) : MOST_RUNS;
    runs = runs < MOST_RUNS ? runs : MOST_RUNS;
    for (int r = 0; r < ROUNDS; r++)
        for (int k = 0; k < 2; k++) {
            int side = (r + k) % 2;
            CM_TRY(cm_context_device_ns(cx, c[side], runs, &samples[side][r * runs]));
        }
    for (int side = 0; side < 2; side++)
        ns[side] = median(samples[side], ROUNDS * runs);
    return CM_OK;
}

static cm_status set_time(cm_ctx *cx, const cm_in_place *o, uint64_t problem, const cm_candidate *c,
                          double ns)
{
    return cm_timings_add(cx, o->table, problem, c->tactic->name, &c->knobs, ns);
}

/* The rival's time as the network shows it, on the side of the incumbent's that the contest decided for. */
static double time_in_place(const contest *x, const double ns[2], bool won)
{
    double alone = x->chosen.measured_ns, shown = alone + (ns[1] - ns[0]) / x->steps;
    if (won)
        return fmin(fmax(shown, alone / 2), alone * A_HAIR_LESS);
    return fmax(shown, alone * 1.0005);
}

/* False: it could not be held. The winner's context is in *c. */
static cm_status hold(cm_ctx *cx, cm_engine *e, cm_in_place *o, contest *x,
                      const cm_candidate *rival, cm_context **c, bool *held)
{
    cm_context *both[2] = {*c, NULL};
    cm_ctx quiet = *cx;
    double ns[2];
    *held = false;
    CM_TRY(set_time(cx, o, x->problem, rival, x->chosen.measured_ns / 2));
    if (open_context(&quiet, e, o, &both[1]) != CM_OK || race(&quiet, both, ns) != CM_OK) {
        cm_context_destroy(both[1]);
        return set_time(cx, o, x->problem, rival, rival->measured_ns);
    }
    bool won = ns[1] < CLEARLY * ns[0];
    double shown = time_in_place(x, ns, won);
    CM_TRY(set_time(cx, o, x->problem, rival, shown));
    *held = true;
    o->tried++;
    o->changed += won;
    cm_context_destroy(both[!won]);
    *c = both[won];
    if (won) {
        x->chosen = *rival;
        x->chosen.measured_ns = shown;
    }
    return CM_OK;
}

/* A problem for which the cost model would have chosen otherwise. */
typedef struct {
    uint64_t problem;
    cm_candidate chosen, model;
} difference;

typedef struct {
    int n;
    difference *v;
} differences;

static cm_status find_differences(cm_ctx *cx, const cm_in_place *o, const cm_context *c,
                                  const cm_context *model, differences *l)
{
    const int n_steps = cm_engine_n_steps(cm_context_engine(c));
    CM_NEW_N(cx, cx->scratch, l->v, n_steps, difference);
    for (int s = 0; s < n_steps; s++) {
        difference d;
        uint64_t other;
        int i = 0;
        if (!cm_context_chosen(c, s, &d.problem, &d.chosen) ||
            !cm_context_chosen(model, s, &other, &d.model) || d.problem != other ||
            same(&d.chosen, &d.model) || isnan(d.chosen.measured_ns) ||
            !o->is_new(o->user, d.problem))
            continue;
        while (i < l->n && l->v[i].problem != d.problem)
            i++;
        if (i == l->n)
            l->v[l->n++] = d;
    }
    return CM_OK;
}

/* All choices of the cost model against all that came of measuring alone: measuring must not make a network slower. If the
 * model's win, the table has them for the best by a hair, and contests of single problems go on from there. A single
 * difference is such a contest. */
static cm_status hold_against_model(cm_ctx *cx, cm_engine *e, cm_in_place *o, cm_context **c)
{
    cm_context_options plain = *o->options;
    cm_in_place by_model = *o;
    cm_context *both[2] = {*c, NULL};
    cm_ctx quiet = *cx;
    differences l = {0};
    double ns[2];
    plain.timings = NULL;
    by_model.options = &plain;
    if (open_context(&quiet, e, &by_model, &both[1]) != CM_OK)
        return CM_OK;
    cm_status st = find_differences(cx, o, *c, both[1], &l);
    bool held = st == CM_OK && l.n > 1 && race(&quiet, both, ns) == CM_OK;
    cm_context_destroy(both[1]);
    CM_TRY(st);
    o->tried += held;
    if (!held || ns[1] >= CLEARLY * ns[0])
        return CM_OK;
    for (int i = 0; i < l.n; i++) {
        const difference *d = &l.v[i];
        CM_TRY(set_time(cx, o, d->problem, &d->model, d->chosen.measured_ns * A_HAIR_LESS));
    }
    o->changed += l.n;
    cm_context_destroy(*c);
    if (open_context(&quiet, e, o, c) != CM_OK)
        *c = NULL; /* what the table has stays right */
    return CM_OK;
}

static cm_status hold_all(cm_ctx *cx, cm_engine *e, cm_in_place *o, contests *l, cm_context **c)
{
    bool held = true;
    for (int i = 0; i < l->n; i++)
        for (int r = 0; r < l->v[i].n_rivals; r++) {
            if (!held || o->stop(o->user))
                return CM_OK;
            CM_TRY(hold(cx, e, o, &l->v[i], &l->v[i].rivals[r], c, &held));
        }
    return CM_OK;
}

cm_status cm_tune_in_place(cm_ctx *cx, cm_engine *e, cm_in_place *o)
{
    contests l = {0};
    cm_context *c = NULL;
    cm_ctx quiet = *cx;
    o->tried = o->changed = 0;
    for (int i = 0; i < cm_engine_n_inputs(e); i++)
        if (o->shapes[i].dtype == CM_STR)
            return CM_OK;
    if (o->stop(o->user) || open_context(&quiet, e, o, &c) != CM_OK)
        return CM_OK;
    cm_status st = hold_against_model(cx, e, o, &c);
    if (st == CM_OK && c)
        st = find_contests(cx, c, o, &l);
    if (st == CM_OK && c)
        st = hold_all(cx, e, o, &l, &c);
    cm_context_destroy(c);
    return st;
}
