/* bench_measure.c -- runs contexts again and again and keeps when each inference began and ended.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream is a context and a thread that drives it; one stream runs on the caller's thread. With a
 * rate, streams take arrivals from one list in order, as servers of one queue do, and a latency
 * counts from when the inference was due: a late start is part of it. */
#include "cli/bench_measure.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/cpu.h"

enum { CHUNK = 1024, MOST_STREAMS = 256 };

/* Traces in pieces, so that keeping one never moves the others. */
typedef struct chunk {
    struct chunk *next;
    int n;
    cm_bench_trace t[CHUNK];
} chunk;

typedef struct {
    int n;
    const double *due; /* seconds since the start, ascending */
    atomic_int next;
} arrivals;

/* Where streams wait after warming up, until the first of them says go. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ready, wanted;
    bool go;
    uint64_t start; /* of measuring */
} gate;

typedef struct {
    cm_ctx cx;
    cm_arena arena, scratch;
    cm_context *context;
    const cm_bench_subject *subject;
    const cm_bench_how *how;
    gate *gate;
    atomic_bool *failed;
    arrivals *arrivals;
    bool first;
    chunk *chunks, *last;
    int64_t n_warm;
    uint64_t end;
    cm_status status;
} stream;

int cm_bench_threads(const cm_bench_how *how)
{
    int share = cm_cpu_cores() / (how->streams > 0 ? how->streams : 1);
    return how->threads > 0 ? how->threads : share > 0 ? share : 1;
}

static bool on_device(const cm_bench_how *how)
{
    return how->target && how->target->kind != CM_DEVICE_CPU;
}

static cm_status open_context(cm_ctx *cx, cm_bench_subject *s, const cm_bench_how *how)
{
    const cm_context_options co = {
        .threads = cm_bench_threads(how), .target = how->target, .max_memory = how->max_memory};
    int i = s->n;
    CM_TRY(cm_context_create(cx, s->engine, &co, &s->contexts[i]));
    s->n++;
    CM_TRY(cm_inputs_set(cx, s->contexts[i], s->in));
    if (!on_device(how) || !how->no_transfers)
        return CM_OK;
    return cm_bench_device_open(cx, s->contexts[i], s->in, how->target, &s->devices[i]);
}

cm_status cm_bench_open(cm_ctx *cx, cm_engine *e, const cm_inputs *in, const cm_bench_how *how,
                        cm_bench_subject *s)
{
    *s = (cm_bench_subject){.engine = e, .in = in};
    if (how->streams < 1 || how->streams > MOST_STREAMS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d streams: wanted 1 to %d", how->streams,
                       MOST_STREAMS);
    CM_NEW_N(cx, cx->arena, s->contexts, how->streams, cm_context *);
    CM_NEW_N(cx, cx->arena, s->devices, how->streams, cm_bench_device *);
    while (s->n < how->streams)
        CM_TRY(open_context(cx, s, how));
    return CM_OK;
}

void cm_bench_close(cm_bench_subject *s)
{
    for (int i = 0; i < s->n; i++) {
        cm_context_destroy(s->contexts[i]);
        cm_bench_device_close(s->devices[i]);
    }
    s->n = 0;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static uint64_t since(uint64_t start)
{
    return cm_now_ns() - start;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

/* Until `due`: asleep at first, then by looking at the clock, since sleepers wake late. */
static void wait_until(uint64_t start, uint64_t due, bool spin)
{
    enum { WAKE_LATE_NS = 100000 };
    uint64_t now = since(start);
    if (!spin && due > now + WAKE_LATE_NS)
        sleep_ns(due - now - WAKE_LATE_NS);
    while (since(start) < due)
        __builtin_ia32_pause();
}

/* ---- One stream ------------------------------------------------------------------------------ */

static cm_status keep(stream *s, const cm_bench_trace *t)
{
    if (!s->last || s->last->n == CHUNK) {
        chunk *c = cm_arena_alloc_n(&s->arena, 1, sizeof *c, 16, 0);
        if (!c)
            return cm_fail_memory(&s->cx);
        c->next = NULL;
        c->n = 0;
        if (s->last)
            s->last->next = c;
        else
            s->chunks = c;
        s->last = c;
    }
    s->last->t[s->last->n++] = *t;
    return CM_OK;
}

/* Reading the outputs is all that a caller on the same machine has to do. */
static void take_outputs(const stream *s)
{
    for (int i = 0; i < cm_engine_n_outputs(s->subject->engine); i++) {
        const cm_datum *volatile d = cm_context_output(s->context, i);
        (void)d;
    }
}

static cm_status infer(stream *s, uint64_t start, cm_bench_trace *t)
{
    t->begun = since(start);
    t->handed = t->begun;
    if (!s->how->no_transfers) {
        CM_TRY(cm_inputs_set(&s->cx, s->context, s->subject->in));
        t->handed = since(start);
    }
    CM_TRY(cm_context_enqueue(&s->cx, s->context));
    t->enqueued = on_device(s->how) ? since(start) : t->handed;
    CM_TRY(cm_context_wait(&s->cx, s->context));
    t->computed = since(start);
    t->done = t->computed;
    if (!s->how->no_transfers) {
        take_outputs(s);
        t->done = since(start);
    }
    return CM_OK;
}

static cm_status warm_up(stream *s)
{
    uint64_t start = cm_now_ns();
    do {
        CM_TRY(cm_context_run(&s->cx, s->context));
        s->n_warm++;
    } while ((double)since(start) * 1e-9 < s->how->warm_up);
    return CM_OK;
}

static cm_status closed_loop(stream *s, uint64_t start)
{
    uint64_t duration = (uint64_t)(s->how->duration * 1e9);
    uint64_t idle = (uint64_t)(s->how->idle * 1e9);
    for (int64_t i = 0; i < s->how->iterations || s->end < duration; i++) {
        cm_bench_trace t;
        CM_TRY(infer(s, start, &t));
        t.due = t.begun;
        s->end = t.done;
        CM_TRY(keep(s, &t));
        if (idle)
            sleep_ns(idle);
        if (atomic_load_explicit(s->failed, memory_order_relaxed))
            break;
    }
    return CM_OK;
}

static cm_status open_loop(stream *s, uint64_t start)
{
    arrivals *a = s->arrivals;
    for (int i; (i = atomic_fetch_add(&a->next, 1)) < a->n && !atomic_load(s->failed);) {
        cm_bench_trace t = {.due = (uint64_t)(a->due[i] * 1e9)};
        wait_until(start, t.due, s->how->spin);
        CM_TRY(infer(s, start, &t));
        s->end = t.done;
        CM_TRY(keep(s, &t));
        CM_TRY(cm_check_cancel(&s->cx));
    }
    return CM_OK;
}

static void pass_gate(stream *s)
{
    gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    g->ready++;
    pthread_cond_broadcast(&g->changed);
    while (s->first ? g->ready < g->wanted : !g->go)
        pthread_cond_wait(&g->changed, &g->lock);
    if (s->first) {
        if (s->how->sleep > 0)
            sleep_ns((uint64_t)(s->how->sleep * 1e9));
        g->start = cm_now_ns();
        g->go = true;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
}

static void *drive(void *arg)
{
    stream *s = arg;
    s->status = warm_up(s);
    if (s->status != CM_OK)
        atomic_store(s->failed, true);
    pass_gate(s);
    if (atomic_load(s->failed))
        return NULL;
    s->status = s->arrivals ? open_loop(s, s->gate->start) : closed_loop(s, s->gate->start);
    if (s->status != CM_OK)
        atomic_store(s->failed, true);
    return NULL;
}

/* ---- All streams ----------------------------------------------------------------------------- */

static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Exponential gaps, until both the iterations and the duration are reached. */
static cm_status make_arrivals(cm_ctx *cx, const cm_bench_how *how, arrivals *a)
{
    enum { MOST = 50000000 };
    double expected = how->qps * how->duration;
    double most = expected + 6 * sqrt(expected) + 16 + (double)how->iterations;
    if (!(most < MOST))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--qps %g for %g s are more than %d arrivals", how->qps,
                       how->duration, MOST);
    double *due, t = 0;
    uint64_t state = how->seed;
    CM_NEW_N(cx, cx->arena, due, (int64_t)most, double);
    while (a->n < (int)most) {
        t += -log1p(-uniform(&state)) / how->qps;
        if (t > how->duration && a->n >= how->iterations)
            break;
        due[a->n++] = t;
    }
    a->due = due;
    return CM_OK;
}

static int by_done(const void *x, const void *y)
{
    const cm_bench_trace *a = x, *b = y;
    return (a->done > b->done) - (a->done < b->done);
}

static cm_status collect(cm_ctx *cx, const stream *s, int n, cm_bench_result *out)
{
    for (int i = 0; i < n; i++)
        for (const chunk *c = s[i].chunks; c; c = c->next)
            out->n += c->n;
    if (!out->n)
        return cm_fail(cx, CM_ERR_CANCELLED, "nothing was measured");
    CM_NEW_N(cx, cx->arena, out->trace, out->n, cm_bench_trace);
    int64_t k = 0;
    for (int i = 0; i < n; i++) {
        for (const chunk *c = s[i].chunks; c; c = c->next) {
            memcpy(out->trace + k, c->t, (size_t)c->n * sizeof *c->t);
            k += c->n;
        }
        out->n_warm += s[i].n_warm;
        double end = (double)s[i].end * 1e-9;
        out->wall_s = end > out->wall_s ? end : out->wall_s;
    }
    if (n > 1)
        qsort(out->trace, (size_t)out->n, sizeof *out->trace, by_done);
    return CM_OK;
}

/* Jiffies of all CPUs: stolen by a hypervisor, and in total. */
static void machine_time(double *steal, double *total)
{
    double v[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    *steal = *total = 0;
    if (!f)
        return;
    if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
               &v[6], &v[7]) == 8) {
        *steal = v[7];
        for (int i = 0; i < 8; i++)
            *total += v[i];
    }
    fclose(f);
}

static double cpu_seconds(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

/* What the clock and the trace cost, measured as they are used: the best of a few trials, since a
 * trial during which another program ran says nothing. */
static double overhead_us(cm_ctx *cx)
{
    enum { TRIALS = 8, N = 500 };
    stream s = {.cx = {.allocator = cx->allocator}};
    double best = 1e9;
    cm_arena_init(&s.arena, cx->allocator);
    for (int trial = 0; trial < TRIALS; trial++) {
        uint64_t start = cm_now_ns();
        for (int i = 0; i < N; i++) {
            cm_bench_trace t = {since(start), since(start), since(start), since(start)};
            t.computed = t.done = since(start);
            (void)!keep(&s, &t);
        }
        double us = (double)since(start) * 1e-3 / N;
        best = us < best ? us : best;
    }
    cm_arena_deinit(&s.arena);
    return best;
}

static void init_stream(stream *s, const cm_ctx *cx)
{
    cm_arena_init(&s->arena, cx->allocator);
    cm_arena_init(&s->scratch, cx->allocator);
    s->cx = (cm_ctx){.allocator = cx->allocator,
                     .arena = &s->arena,
                     .scratch = &s->scratch,
                     .cancel = cx->cancel,
                     .deadline_ns = cx->deadline_ns};
}

/* The caller drives the first stream. */
static cm_status drive_all(cm_ctx *cx, stream *s, int n, gate *g)
{
    pthread_t *id;
    int started = 1;
    CM_NEW_N(cx, cx->arena, id, n, pthread_t);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->wanted = n;
    while (started < n && pthread_create(&id[started], NULL, drive, &s[started]) == 0)
        started++;
    if (started < n) {
        pthread_mutex_lock(&g->lock);
        g->wanted = started;
        pthread_mutex_unlock(&g->lock);
        atomic_store(s->failed, true);
    }
    drive(&s[0]);
    for (int i = 1; i < started; i++)
        pthread_join(id[i], NULL);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    for (int i = 0; i < started; i++)
        if (s[i].status != CM_OK)
            return cm_fail(cx, s[i].status, "%s", s[i].cx.message);
    return started == n
               ? CM_OK
               : cm_fail(cx, CM_ERR_MEMORY, "only %d of %d streams could be started", started, n);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the device says, apart from everything around it. */
static cm_status ask_device(cm_ctx *cx, cm_context *c, cm_bench_result *out)
{
    enum { RUNS = 51 };
    double ns[RUNS];
    cm_layer_facts f;
    for (int i = 0; i < cm_engine_n_steps(cm_context_engine(c)); i++) {
        cm_context_layer(c, i, &f);
        out->n_away += f.away;
        out->n_fell += f.fell;
    }
    if (!out->n_away)
        return CM_OK;
    CM_TRY(cm_context_device_ns(cx, c, RUNS, ns));
    qsort(ns, RUNS, sizeof *ns, by_size);
    out->device_ms = ns[RUNS / 2] * 1e-6;
    return CM_OK;
}

cm_status cm_bench_measure(cm_ctx *cx, const cm_bench_subject *subject, const cm_bench_how *how,
                           cm_bench_result *out)
{
    stream *s;
    arrivals a = {0};
    atomic_bool failed = false;
    gate g = {0};
    uint64_t began = cm_now_ns();
    struct rusage before, after;
    double steal[2], total[2];
    *out = (cm_bench_result){.overhead_us = overhead_us(cx)};
    CM_NEW_N(cx, cx->arena, s, subject->n, stream);
    if (how->qps > 0)
        CM_TRY(make_arrivals(cx, how, &a));
    for (int i = 0; i < subject->n; i++) {
        init_stream(&s[i], cx);
        s[i].context = subject->contexts[i];
        s[i].subject = subject;
        s[i].how = how;
        s[i].failed = &failed;
        s[i].gate = &g;
        s[i].arrivals = how->qps > 0 ? &a : NULL;
        s[i].first = i == 0;
    }
    getrusage(RUSAGE_SELF, &before);
    machine_time(&steal[0], &total[0]);
    cm_status st = drive_all(cx, s, subject->n, &g);
    getrusage(RUSAGE_SELF, &after);
    machine_time(&steal[1], &total[1]);
    if (st == CM_OK)
        st = collect(cx, s, subject->n, out);
    out->warm_s = (double)(g.start - began) * 1e-9;
    out->cpu_s = cpu_seconds(&after) - cpu_seconds(&before);
    out->switches = after.ru_nivcsw - before.ru_nivcsw;
    out->steal = total[1] > total[0] ? (steal[1] - steal[0]) / (total[1] - total[0]) : 0;
    out->arena_bytes = cm_context_arena_bytes(subject->contexts[0]);
    if (st == CM_OK)
        st = ask_device(cx, subject->contexts[0], out);
    for (int i = 0; i < subject->n; i++) {
        cm_arena_deinit(&s[i].scratch);
        cm_arena_deinit(&s[i].arena);
    }
    return st;
}

/* ---- Steps ------------------------------------------------------------------------------------ */

static void on_step(void *user, int step, uint64_t start_ns, uint64_t end_ns)
{
    cm_bench_profile *p = user;
    if (step == CM_STEP_UPLOAD || step == CM_STEP_DOWNLOAD)
        (step == CM_STEP_UPLOAD ? p->up : p->down)[p->runs] += (double)(end_ns - start_ns) * 1e-6;
    if (step >= 0 && step < p->n_steps)
        p->ns[(size_t)p->runs * (size_t)p->n_steps + (size_t)step] += end_ns - start_ns;
}

static cm_status profile_runs(cm_ctx *cx, cm_context *c, double seconds, int most,
                              cm_bench_profile *p)
{
    CM_TRY(cm_context_run(cx, c)); /* warms up; forgotten below */
    memset(p->ns, 0, (size_t)p->n_steps * sizeof *p->ns);
    p->up[0] = p->down[0] = 0;
    uint64_t start = cm_now_ns();
    while (p->runs < most && (p->runs == 0 || (double)since(start) * 1e-9 < seconds)) {
        uint64_t begun = cm_now_ns();
        CM_TRY(cm_context_run(cx, c));
        p->total[p->runs++] = cm_now_ns() - begun;
    }
    return CM_OK;
}

cm_status cm_bench_profile_steps(cm_ctx *cx, cm_engine *e, const cm_inputs *in,
                                 const cm_bench_how *how, double seconds, cm_bench_profile *out)
{
    enum { MOST = 200 };
    cm_context *c = NULL;
    *out = (cm_bench_profile){.n_steps = cm_engine_n_steps(e)};
    CM_NEW_N(cx, cx->arena, out->ns, (int64_t)(MOST + 1) * out->n_steps, uint64_t);
    CM_NEW_N(cx, cx->arena, out->total, MOST, uint64_t);
    CM_NEW_N(cx, cx->arena, out->up, MOST + 1, double);
    CM_NEW_N(cx, cx->arena, out->down, MOST + 1, double);
    CM_NEW_N(cx, cx->arena, out->facts, out->n_steps, cm_layer_facts);
    cm_context_options co = {.threads = cm_bench_threads(how),
                             .target = how->target,
                             .max_memory = how->max_memory,
                             .profile = on_step,
                             .profile_user = out,
                             .only_times = true};
    CM_TRY(cm_context_create(cx, e, &co, &c));
    cm_status st = cm_inputs_set(cx, c, in);
    if (st == CM_OK)
        st = profile_runs(cx, c, seconds, MOST, out);
    for (int i = 0; i < out->n_steps && st == CM_OK; i++)
        cm_context_layer(c, i, &out->facts[i]);
    cm_context_destroy(c);
    return st;
}
