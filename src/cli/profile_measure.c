/* profile_measure.c -- runs with every step timed, in turns with runs that nobody watches.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "cli/limits_device.h"
#include "cli/profile.h"

enum { MOST_RUNS = 300, LEAST_RUNS = 3, MOST_EVENTS = 100000, TRACED = 100, MOST_STINTS = 20000 };

typedef struct {
    cm_profile *p;
    int n_steps;
    _Atomic int run;                                    /* the current one; -1: warming up */
    float *ms;                                          /* [run][step] */
    int64_t *calls;                                     /* [step], of the latest run */
    double *whole, *plain, *covered, *host, *up, *down; /* [run] */
    cm_context *watched, *alone;
    uint64_t origin; /* of the traced runs */
} watcher;

static void on_step(void *user, int step, uint64_t start, uint64_t end)
{
    watcher *w = user;
    cm_profile *p = w->p;
    if (w->run < 0)
        return;
    if (step < 0) {
        (step == CM_STEP_UPLOAD ? w->up : w->down)[w->run] += (double)(end - start) * 1e-6;
        return;
    }
    w->ms[(size_t)w->run * (size_t)w->n_steps + (size_t)step] +=
        (float)((double)(end - start) * 1e-6);
    w->calls[step]++;
    if (w->run < TRACED && p->n_events < MOST_EVENTS)
        p->events[p->n_events++] =
            (cm_profile_event){step, w->run, start - w->origin, end - w->origin};
}

/* From the thread itself: each has a list of its own. */
static void on_stint(void *user, int thread, uint64_t start, uint64_t end)
{
    watcher *w = user;
    if (w->run < 0 || w->run >= TRACED || thread >= w->p->n_threads || start < w->origin)
        return;
    cm_profile_thread *t = &w->p->stints[thread];
    if (t->n < MOST_STINTS)
        t->v[t->n++] = (cm_profile_stint){start - w->origin, end - w->origin, -1};
}

/* Layers of one list run one after the other, and a loop ends with its layer: the innermost one that the middle of a
 * stint falls into. Events come in the order of their ends, so an inner one stands before what holds it. */
static void assign_stints(cm_profile *p)
{
    for (int t = 0; t < p->n_threads; t++) {
        int64_t at = 0;
        for (int i = 0; i < p->stints[t].n; i++) {
            cm_profile_stint *s = &p->stints[t].v[i];
            uint64_t middle = s->start + (s->end - s->start) / 2;
            while (at < p->n_events && p->events[at].end < middle)
                at++;
            for (int64_t k = at;
                 k < p->n_events && s->step < 0 && p->events[k].run == p->events[at].run; k++)
                if (p->events[k].start <= middle)
                    s->step = p->events[k].step;
        }
    }
}

/* ---- Statistics ------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void summarise(const watcher *w, double *column)
{
    cm_profile *p = w->p;
    for (int s = 0; s < w->n_steps; s++) {
        cm_profile_layer *l = &p->layers[s];
        for (int r = 0; r < p->n_runs; r++)
            column[r] = w->ms[(size_t)r * (size_t)w->n_steps + (size_t)s];
        l->ms = median(column, p->n_runs);
        l->min_ms = column[0];
        l->max_ms = column[p->n_runs - 1];
        l->calls = w->calls[s];
    }
    p->whole_ms = median(w->whole, p->n_runs);
    p->plain_ms = median(w->plain, p->n_runs);
    p->host_ms = median(w->host, p->n_runs);
    p->up_ms = median(w->up, p->n_runs);
    p->down_ms = median(w->down, p->n_runs);
    p->covered = median(w->covered, p->n_runs);
}

/* ---- Running ---------------------------------------------------------------------------------- */

static double ms_since(uint64_t start)
{
    return (double)(cm_now_ns() - start) * 1e-6;
}

static cm_status watched_run(cm_ctx *cx, watcher *w, int run)
{
    cm_profile *p = w->p;
    memset(w->calls, 0, (size_t)w->n_steps * sizeof *w->calls);
    w->run = run;
    uint64_t start = cm_now_ns();
    if (run == 0)
        w->origin = start;
    CM_TRY(cm_context_run(cx, w->watched));
    uint64_t end = cm_now_ns();
    double layers = 0;
    for (int s = 0; s < w->n_steps; s++)
        if (p->layers[s].is_main)
            layers += w->ms[(size_t)run * (size_t)w->n_steps + (size_t)s];
    w->whole[run] = p->device_clock ? layers : (double)(end - start) * 1e-6;
    if (!p->device_clock)
        layers += w->up[run] + w->down[run];
    w->covered[run] = w->whole[run] > 0 ? layers / w->whole[run] : 1;
    if (run < TRACED && p->n_events < MOST_EVENTS) {
        p->run_start[run] = start - w->origin;
        p->run_end[run] = end - w->origin;
        p->n_traced = run + 1;
    }
    return CM_OK;
}

/* Nothing but copies on the host: the device's clock tells all. */
static bool all_on_device(const watcher *w)
{
    cm_layer_facts f;
    bool all = w->p->target.kind != CM_DEVICE_CPU;
    for (int s = 0; s < w->n_steps && all; s++) {
        cm_context_layer(w->alone, s, &f);
        all = f.away || f.idle;
    }
    return all;
}

static cm_status unwatched_run(cm_ctx *cx, watcher *w, int run)
{
    uint64_t begun = cm_now_ns();
    CM_TRY(cm_context_run(cx, w->alone));
    w->host[run] = w->plain[run] = ms_since(begun);
    if (!w->p->device_clock)
        return CM_OK;
    CM_TRY(cm_context_device_ns(cx, w->alone, 1, &w->plain[run]));
    w->plain[run] *= 1e-6;
    return CM_OK;
}

static cm_status all_runs(cm_ctx *cx, watcher *w, const cm_profile_how *how)
{
    int most = how->runs > 0 && how->runs < MOST_RUNS ? (int)how->runs : MOST_RUNS;
    int least = most < LEAST_RUNS ? most : LEAST_RUNS;
    w->run = -1;
    CM_TRY(cm_context_run(cx, w->watched));
    CM_TRY(cm_context_run(cx, w->alone));
    w->p->device_clock = all_on_device(w);
    uint64_t start = cm_now_ns();
    int run = 0;
    while (run < most && (run < least || ms_since(start) * 1e-3 < how->duration)) {
        CM_TRY(watched_run(cx, w, run));
        CM_TRY(unwatched_run(cx, w, run++));
        CM_TRY(
            cm_report(cx, "profiling", (int64_t)ms_since(start), (int64_t)(how->duration * 1e3)));
    }
    w->p->n_runs = run;
    return CM_OK;
}

/* ---- What starting threads costs ---------------------------------------------------------------- */

typedef struct {
    atomic_int arrived;
    atomic_bool late;
    int wanted;
} meeting;

/* Wait for the others; not for long, since one may take two pieces, or be kept from its core by another program. */
static void meet(void *arg, int64_t begin, int64_t end)
{
    enum { LONG_ENOUGH_NS = 200000 };
    meeting *m = arg;
    uint64_t start = cm_now_ns();
    atomic_fetch_add(&m->arrived, (int)(end - begin));
    while (atomic_load(&m->arrived) < m->wanted && !atomic_load(&m->late)) {
        __builtin_ia32_pause();
        if (cm_now_ns() - start > LONG_ENOUGH_NS)
            atomic_store(&m->late, true);
    }
}

static cm_status measure_launch(cm_ctx *cx, cm_profile *p)
{
    enum { TRIALS = 101 };
    cm_threads *t;
    CM_TRY(cm_threads_create(cx, p->threads, &t));
    p->threads = cm_threads_count(t);
    for (int i = 0; i < TRIALS; i++) {
        meeting m = {.wanted = p->threads};
        uint64_t start = cm_now_ns();
        cm_parallel(t, p->threads, 1, meet, &m);
        double ns = (double)(cm_now_ns() - start);
        if (!atomic_load(&m.late) && (p->launch_ns == 0 || ns < p->launch_ns))
            p->launch_ns = ns;
    }
    cm_threads_destroy(t);
    return CM_OK;
}

/* ---- All of it ---------------------------------------------------------------------------------- */

static cm_status make_room(cm_ctx *cx, watcher *w)
{
    cm_profile *p = w->p;
    CM_NEW_N(cx, cx->arena, p->layers, w->n_steps, cm_profile_layer);
    CM_NEW_N(cx, cx->arena, w->ms, (int64_t)MOST_RUNS * w->n_steps, float);
    CM_NEW_N(cx, cx->arena, w->calls, w->n_steps, int64_t);
    CM_NEW_N(cx, cx->arena, w->whole, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, w->plain, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, w->covered, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, w->host, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, w->up, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, w->down, MOST_RUNS, double);
    CM_NEW_N(cx, cx->arena, p->run_start, TRACED, uint64_t);
    CM_NEW_N(cx, cx->arena, p->run_end, TRACED, uint64_t);
    CM_NEW_N(cx, cx->arena, p->events, MOST_EVENTS, cm_profile_event);
    p->n_threads = p->threads > 1 ? p->threads : 0;
    CM_NEW_N(cx, cx->arena, p->stints, p->n_threads, cm_profile_thread);
    for (int t = 0; t < p->n_threads; t++)
        CM_NEW_N(cx, cx->arena, p->stints[t].v, MOST_STINTS, cm_profile_stint);
    for (int s = 0; s < w->n_steps; s++)
        p->layers[s].is_main = cm_engine_step_is_main(p->engine, s);
    return CM_OK;
}

static cm_status open_contexts(cm_ctx *cx, watcher *w, const cm_inputs *in,
                               const cm_profile_how *how)
{
    cm_context_options co = {
        .threads = how->threads, .target = how->target, .max_memory = how->max_memory};
    CM_TRY(cm_context_create(cx, w->p->engine, &co, &w->alone));
    co.profile = on_step;
    co.stint = on_stint;
    co.profile_user = w;
    co.only_times = true;
    CM_TRY(cm_context_create(cx, w->p->engine, &co, &w->watched));
    CM_TRY(cm_inputs_set(cx, w->alone, in));
    return cm_inputs_set(cx, w->watched, in);
}

static cm_status measure_limits(cm_ctx *cx, cm_profile *p)
{
    const cm_cpu *cpu = cm_cpu_info();
    if (p->target.kind != CM_DEVICE_CPU)
        return cm_limits_of_device(cx, &p->target, &p->limits, &p->launch_ns);
    if (!cm_limits_measure(p->threads, p->target.level, (size_t)cpu->l2_bytes,
                           (size_t)cpu->l3_bytes, &p->limits))
        return cm_fail(cx, CM_ERR_MEMORY, "the machine's limits could not be measured");
    return CM_OK;
}

cm_status cm_profile_measure(cm_ctx *cx, cm_engine *e, const cm_inputs *in,
                             const cm_profile_how *how, cm_profile *out)
{
    watcher w = {.p = out, .n_steps = cm_engine_n_steps(e)};
    double *column;
    out->engine = e;
    out->target = *how->target;
    out->threads = how->threads;
    out->n_layers = w.n_steps;
    CM_TRY(measure_launch(cx, out));
    CM_TRY(make_room(cx, &w));
    cm_status st = open_contexts(cx, &w, in, how);
    if (st == CM_OK)
        st = all_runs(cx, &w, how);
    cm_cli_progress_done(cx);
    if (st == CM_OK)
        st = cm_profile_describe(cx, w.watched, out);
    cm_context_destroy(w.watched);
    cm_context_destroy(w.alone);
    CM_TRY(st);
    assign_stints(out);
    CM_NEW_N(cx, cx->arena, column, out->n_runs, double);
    summarise(&w, column);
    CM_TRY(measure_limits(cx, out));
    return cm_profile_judge(cx, out);
}
