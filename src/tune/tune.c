/* tune.c -- which candidates are worth timing, and for how long.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/tune.h"

#include <math.h>
#include <string.h>

#include "tune/compile_ahead.h"
#include "tune/in_place.h"
#include "tune/measure.h"
#include "tune/measure_device.h"

typedef struct {
    cm_ctx *cx;
    const cm_tune_options *o;
    cm_timings *table;
    cm_tune_report *report;
    uint64_t start_ns, end_ns; /* of the budget */
    uint64_t deadline_ns;      /* of timing candidates alone */
    cm_problem_set measured;   /* now, not before */
    cm_device_bench device;    /* api NULL: the CPU; stream NULL: there is none to measure on */
    bool cancelled;
    cm_status failed;
} tuning;

bool cm_tune_parse(const char *text, cm_tune_level *out)
{
    static const char *const names[] = {"off", "quick", "full"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (!strcmp(text, names[i])) {
            *out = (cm_tune_level)i;
            return true;
        }
    return false;
}

static void note_failure(tuning *t, cm_status st)
{
    t->failed = t->failed == CM_OK ? st : t->failed;
}

static void note_measured(tuning *t, uint64_t signature, const cm_candidate *c)
{
    t->report->measured++;
    note_failure(
        t, cm_timings_add(t->cx, t->table, signature, c->tactic->name, &c->knobs, c->measured_ns));
    note_failure(t, cm_problem_add(t->cx, &t->measured, signature));
}

/* The caller wants no more. */
static bool is_cancelled(tuning *t)
{
    double done = (double)(cm_now_ns() - t->start_ns) * 1e-6;
    double total = (double)(t->end_ns - t->start_ns) * 1e-6;
    t->cancelled =
        t->cancelled || cm_is_cancelled(t->cx) ||
        cm_report(t->cx, "tuning", (int64_t)(done < total ? done : total), (int64_t)total) != CM_OK;
    t->cx->message[0] = 0;
    return t->cancelled;
}

static bool out_of_time(tuning *t)
{
    t->report->stopped = t->report->stopped || cm_now_ns() > t->deadline_ns || is_cancelled(t);
    return t->report->stopped;
}

static double best_predicted(const cm_candidate *list, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        best = list[i].predicted_ns < best ? list[i].predicted_ns : best;
    return best;
}

/* The next candidate to time: the most promising that was not. -1: none is left that may win. */
static int next_candidate(const tuning *t, const cm_candidate *list, const bool *done, int n)
{
    double limit = t->o->level == CM_TUNE_FULL ? INFINITY : 2.5 * best_predicted(list, n);
    int next = -1;
    for (int i = 0; i < n; i++)
        if (!done[i] && list[i].predicted_ns <= limit &&
            (next < 0 || list[i].predicted_ns < list[next].predicted_ns))
            next = i;
    return next;
}

static void time_candidates(tuning *t, uint64_t signature, const cm_problem *p, cm_candidate *list,
                            int n, cm_threads *threads)
{
    enum { MOST = 96, QUICK_MOST = 6 };
    bool done[MOST] = {false};
    int most = t->o->level == CM_TUNE_FULL ? MOST : QUICK_MOST;
    int repeats = t->o->level == CM_TUNE_FULL ? 20 : 4;
    cm_bench_data d;
    if (n > MOST || !cm_bench_data_init(&d, t->cx->allocator, p))
        return;
    double best = INFINITY;
    for (int k = 0; k < most && !out_of_time(t); k++) {
        int i = next_candidate(t, list, done, n);
        if (i < 0)
            break;
        done[i] = true;
        double ns = cm_measure(&d, p, &list[i], threads, 1.5 * best, repeats);
        if (isnan(ns))
            continue;
        list[i].measured_ns = ns;
        best = ns < best ? ns : best;
        note_measured(t, signature, &list[i]);
    }
    cm_bench_data_deinit(&d);
}

enum { DEVICE_MOST = 96 };

/* As many as are worth timing, the most promising first. */
static int choose_for_device(void *user, const cm_candidate *list, int n, int *chosen)
{
    enum { QUICK_MOST = 8 };
    const tuning *t = user;
    bool done[DEVICE_MOST] = {false};
    int most = t->o->level == CM_TUNE_FULL ? DEVICE_MOST : QUICK_MOST, n_chosen = 0, next;
    if (n > DEVICE_MOST)
        return 0;
    while (n_chosen < most && (next = next_candidate(t, list, done, n)) >= 0) {
        done[next] = true;
        chosen[n_chosen++] = next;
    }
    return n_chosen;
}

/* Compiled together, then timed one by one. */
static void time_on_device(tuning *t, uint64_t signature, const cm_problem *p, cm_candidate *list,
                           int n, cm_threads *threads)
{
    int chosen[DEVICE_MOST], n_chosen = choose_for_device(t, list, n, chosen);
    int repeats = t->o->level == CM_TUNE_FULL ? 20 : 4;
    cm_device_bench_warm(&t->device, p, list, chosen, n_chosen, threads);
    for (int k = 0; k < n_chosen && !out_of_time(t); k++) {
        cm_candidate *c = &list[chosen[k]];
        double ns = cm_measure_device(&t->device, p, c, threads, repeats);
        if (isnan(ns))
            continue;
        c->measured_ns = ns;
        note_measured(t, signature, c);
    }
}

/* A problem with one candidate needs no clock, unless its time decides a layout: then the cost model must do. */
static void meet(void *user, uint64_t signature, const cm_problem *p, cm_candidate *list, int n,
                 cm_threads *threads)
{
    tuning *t = user;
    bool again = cm_problem_in(&t->report->met, signature);
    note_failure(t, cm_problem_add(t->cx, &t->report->met, signature));
    for (int i = 0; i < n; i++) {
        if (!isnan(list[i].measured_ns)) {
            t->report->known += !again;
            return;
        }
    }
    if (out_of_time(t))
        return;
    if (p->target.kind == CM_DEVICE_CPU)
        time_candidates(t, signature, p, list, n, threads);
    else if (t->device.stream)
        time_on_device(t, signature, p, list, n, threads);
}

static cm_status bind_shapes(cm_ctx *cx, cm_engine *e, const cm_context_options *co,
                             const cm_tensor *shapes, cm_context **out)
{
    CM_TRY(cm_context_create(cx, e, co, out));
    for (int i = 0; i < cm_engine_n_inputs(e); i++)
        CM_TRY(cm_context_set_shape(cx, *out, i, shapes[i].rank, shapes[i].dims));
    return cm_context_bind(cx, *out);
}

/* Compiling takes longer than timing, and goes on in as many threads as there are: as the cost model would have it
 * first, then what tuning will try besides, for no more than half of the budget. */
static cm_status compile_for_device(cm_ctx *cx, tuning *t, cm_engine *e, const cm_tensor *shapes)
{
    const cm_context_options co = {
        .threads = t->o->threads, .target = &t->o->target, .timings = t->table};
    uint64_t until = t->start_ns + (t->deadline_ns - t->start_ns) / 2;
    cm_context *c = NULL;
    cm_status st = bind_shapes(cx, e, &co, shapes, &c);
    if (st == CM_OK)
        st = cm_compile_ahead(t->cx, c, t->device.device, t->o->threads, until, choose_for_device,
                              t);
    cm_context_destroy(c);
    return st;
}

static bool was_measured(void *user, uint64_t problem)
{
    const tuning *t = user;
    return cm_problem_in(&t->measured, problem);
}

static bool stop_trials(void *user)
{
    tuning *t = user;
    return cm_now_ns() > t->end_ns || is_cancelled(t);
}

/* What a table knew already stays as it is: the same table gives the same plan. */
static cm_status tune_in_place(cm_ctx *cx, tuning *t, cm_engine *e, const cm_tensor *shapes)
{
    const cm_context_options co = {
        .threads = t->o->threads, .target = &t->o->target, .timings = t->table};
    cm_in_place trials = {.options = &co,
                          .shapes = shapes,
                          .table = t->table,
                          .is_new = was_measured,
                          .stop = stop_trials,
                          .user = t};
    if (!t->measured.n)
        return CM_OK;
    CM_TRY(cm_tune_in_place(cx, e, &trials));
    t->report->trials = trials.tried;
    t->report->changed = trials.changed;
    return CM_OK;
}

cm_status cm_tune(cm_ctx *cx, cm_engine *e, const cm_tune_options *o, const cm_tensor *shapes,
                  cm_timings *table, cm_tune_report *report)
{
    static const double budgets[2][3] = {{[CM_TUNE_QUICK] = 3, [CM_TUNE_FULL] = 600},
                                         {[CM_TUNE_QUICK] = 40, [CM_TUNE_FULL] = 900}};
    bool on_device = o->target.kind != CM_DEVICE_CPU;
    *report = (cm_tune_report){0};
    if (o->level == CM_TUNE_OFF)
        return CM_OK;
    double budget = o->budget_seconds > 0 ? o->budget_seconds : budgets[on_device][o->level];
    uint64_t start = cm_now_ns(), end = start + (uint64_t)(budget * 1e9);
    cm_ctx inner = *cx; /* stopping the tuner does not stop the binding that it is part of */
    inner.cancel = NULL;
    inner.deadline_ns = 0;
    inner.progress = NULL;
    tuning t = {.cx = cx,
                .o = o,
                .table = table,
                .report = report,
                .start_ns = start,
                .end_ns = end,
                .deadline_ns = on_device ? start + (end - start) / 4 * 3 : end};
    cm_context_options co = {.threads = o->threads,
                             .target = &o->target,
                             .timings = table,
                             .tune = meet,
                             .tune_user = &t};
    cm_context *c = NULL;
    cm_status st = on_device ? cm_device_bench_open(&inner, &o->target, &t.device) : CM_OK;
    if (st == CM_OK && t.device.stream && o->level == CM_TUNE_QUICK)
        st = compile_for_device(&inner, &t, e, shapes);
    if (st == CM_OK)
        st = bind_shapes(&inner, e, &co, shapes, &c);
    cm_context_destroy(c);
    bool runs = t.device.stream;
    cm_device_bench_close(&t.device);
    if (st == CM_OK && runs)
        st = tune_in_place(&inner, &t, e, shapes);
    report->problems = report->met.n;
    if (st != CM_OK)
        memcpy(cx->message, inner.message, sizeof cx->message);
    report->seconds = (double)(cm_now_ns() - start) * 1e-9;
    return st == CM_OK ? t.failed : st;
}
