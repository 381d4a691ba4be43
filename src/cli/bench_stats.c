/* bench_stats.c -- what a trace says: percentiles, and whether to believe them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double part_ms(const cm_bench_trace *t, cm_bench_part part)
{
    switch (part) {
    case CM_BENCH_LATENCY:
        return (double)(t->done - t->due) * 1e-6;
    case CM_BENCH_ENQUEUE:
        return (double)(t->enqueued - t->begun) * 1e-6;
    case CM_BENCH_H2D:
        return (double)(t->handed - t->begun) * 1e-6;
    case CM_BENCH_COMPUTE:
        return (double)(t->computed - t->handed) * 1e-6;
    case CM_BENCH_D2H:
        return (double)(t->done - t->computed) * 1e-6;
    case CM_BENCH_WAIT:
        return (double)(t->begun - t->due) * 1e-6;
    case CM_BENCH_PARTS:
        break;
    }
    return 0;
}

static double sorted_median(const double *v, int64_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double cm_bench_median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return sorted_median(v, n);
}

cm_status cm_bench_series_of(cm_ctx *cx, const cm_bench_result *r, cm_bench_part part,
                             cm_bench_series *out)
{
    double sum = 0, squares = 0;
    *out = (cm_bench_series){.n = r->n};
    CM_NEW_N(cx, cx->arena, out->ms, r->n, double);
    for (int64_t i = 0; i < r->n; i++) {
        out->ms[i] = part_ms(&r->trace[i], part);
        sum += out->ms[i];
    }
    out->mean = sum / (double)r->n;
    for (int64_t i = 0; i < r->n; i++)
        squares += (out->ms[i] - out->mean) * (out->ms[i] - out->mean);
    out->median = cm_bench_median(out->ms, r->n);
    out->variation = out->mean > 0 ? sqrt(squares / (double)r->n) / out->mean : 0;
    return CM_OK;
}

double cm_bench_percentile(const cm_bench_series *s, double p)
{
    int64_t aside = (int64_t)((1 - p / 100) * (double)s->n);
    int64_t i = s->n - 1 - aside;
    return s->ms[i < 0 ? 0 : i >= s->n ? s->n - 1 : i];
}

/* The k-th smallest and the k-th largest of n enclose the median with probability 1 - 2 P(B < k), B
 * binomial (n, 1/2): the largest k that leaves at most 5 % outside. */
cm_bench_interval cm_bench_median_interval(double *v, int n)
{
    cm_bench_interval r = {cm_bench_median(v, n), NAN, NAN};
    double outside = 0, log_half_n = -n * log(2);
    int k = 0;
    while (k < n / 2) {
        double log_choose = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
        outside += 2 * exp(log_choose + log_half_n);
        if (outside > 0.05)
            break;
        k++;
    }
    if (k > 0) {
        r.low = v[k - 1];
        r.high = v[n - k];
    }
    return r;
}

/* ---- Doubts ----------------------------------------------------------------------------------- */

typedef struct {
    cm_ctx *cx;
    const cm_bench_words *words;
    const char **list;
    int n;
    bool failed;
} doubts;

static void doubt(doubts *d, const char *sentence)
{
    if (!sentence)
        d->failed = true;
    else if (d->n < CM_BENCH_MOST_WARNINGS)
        d->list[d->n++] = sentence;
}

#define DOUBT(d, ...) doubt(d, cm_arena_printf((d)->cx->arena, __VA_ARGS__))

static void doubt_count(doubts *d, const cm_bench_result *r)
{
    if (r->n < 20)
        DOUBT(d,
              "only %lld inferences were measured: percentiles say little; ask for more with "
              "%s or %s",
              (long long)r->n, d->words->iterations, d->words->duration);
    else if (r->n < 100)
        DOUBT(d, "%lld inferences are too few for the 99th percentile; ask for more with %s or %s",
              (long long)r->n, d->words->iterations, d->words->duration);
}

static void doubt_spread(doubts *d, const cm_bench_series *compute)
{
    double fast = cm_bench_percentile(compute, 10), slow = cm_bench_percentile(compute, 90);
    if (compute->n >= 10 && fast > 0 && slow > 1.2 * fast)
        DOUBT(d,
              "compute time is unstable: the 90th percentile is %.2f times the 10th (coefficient "
              "of variation %.1f %%); close other programs, keep to a core with taskset, or "
              "measure for longer with %s",
              slow / fast, compute->variation * 100, d->words->duration);
}

/* The last third against the first: clocks that fall while it gets warm. */
static cm_status doubt_drift(doubts *d, const cm_bench_result *r)
{
    int64_t third = r->n / 3;
    double *v;
    if (third < 5)
        return CM_OK;
    CM_NEW_N(d->cx, d->cx->arena, v, third, double);
    for (int64_t i = 0; i < third; i++)
        v[i] = part_ms(&r->trace[i], CM_BENCH_COMPUTE);
    double first = cm_bench_median(v, third);
    for (int64_t i = 0; i < third; i++)
        v[i] = part_ms(&r->trace[r->n - third + i], CM_BENCH_COMPUTE);
    double last = cm_bench_median(v, third);
    if (first > 0 && last > 1.05 * first)
        DOUBT(
            d,
            "inferences became %.0f %% slower while measuring: the processor lowers its clock, or "
            "another program began; let it cool, fix the clock, or warm up for longer with %s",
            (last / first - 1) * 100, d->words->warm_up);
    else if (last > 0 && first > 1.05 * last)
        DOUBT(d, "inferences became %.0f %% faster while measuring: warm up for longer with %s",
              (first / last - 1) * 100, d->words->warm_up);
    return CM_OK;
}

/* A device that waits for the host to hand work over. */
static void doubt_enqueue(doubts *d, const cm_bench_result *r, const cm_bench_series *enqueue,
                          const cm_bench_series *compute)
{
    if (r->n_away && enqueue->median > 0.8 * compute->median)
        DOUBT(d,
              "handing an inference over takes %.3g ms of %.3g: throughput may be bound by the "
              "host, and the "
              "GPU wait for it; a larger batch, or more of %s, gives it more to do",
              enqueue->median, compute->median, d->words->streams);
}

static void doubt_machine(doubts *d, const cm_bench_result *r, const cm_bench_how *how)
{
    int cores = cm_cpu_cores(), used = how->streams * cm_bench_threads(how);
    if (used > cores)
        DOUBT(d,
              "%d streams of %d threads share %d cores: they wait for each other; lower %s or %s",
              how->streams, cm_bench_threads(how), cores, d->words->streams, d->words->threads);
    double per_second = r->wall_s > 0 ? (double)r->switches / (r->wall_s + r->warm_s) : 0;
    if (used <= cores && r->switches > 10 && per_second > 20)
        DOUBT(d, "other programs took our cores %.0f times a second: close them, or lower %s",
              per_second, d->words->threads);
    if (r->steal > 0.01)
        DOUBT(d, "the hypervisor gave %.1f %% of this machine's time to others", r->steal * 100);
}

static void doubt_governor(doubts *d)
{
    char text[64] = "";
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "r");
    if (!f)
        return;
    if (fgets(text, sizeof text, f) && strncmp(text, "performance", 11) != 0) {
        text[strcspn(text, "\n")] = 0;
        DOUBT(d,
              "the clock governor is '%s': with `cpupower frequency-set -g performance` the clock "
              "moves less",
              text);
    }
    fclose(f);
}

static void doubt_rate(doubts *d, const cm_bench_result *r, const cm_bench_how *how)
{
    double done = (double)r->n / r->wall_s;
    if (how->qps > 0 && r->n >= 20 && done < 0.9 * how->qps)
        DOUBT(d,
              "%.4g inferences a second were asked for and %.4g were done: the queue grows for as "
              "long as one measures, and so do latencies; lower --qps, or raise %s",
              how->qps, done, d->words->streams);
}

static void doubt_length(doubts *d, const cm_bench_series *latency, const cm_bench_result *r)
{
    if (latency->median * 1e3 < 10 * r->overhead_us)
        DOUBT(d,
              "an inference takes %.2f us, of which measuring is about %.2f us: %s reads the clock "
              "less often",
              latency->median * 1e3, r->overhead_us, d->words->no_transfers);
}

cm_status cm_bench_warnings(cm_ctx *cx, const cm_bench_result *r, const cm_bench_how *how,
                            const char *warnings[CM_BENCH_MOST_WARNINGS], int *n)
{
    static const cm_bench_words ours = {"--iterations", "--duration", "--warm-up",
                                        "--streams",    "--threads",  "--no-transfers"};
    doubts d = {.cx = cx, .words = how->words ? how->words : &ours, .list = warnings};
    cm_bench_series compute, latency, enqueue;
    CM_TRY(cm_bench_series_of(cx, r, CM_BENCH_COMPUTE, &compute));
    CM_TRY(cm_bench_series_of(cx, r, CM_BENCH_LATENCY, &latency));
    CM_TRY(cm_bench_series_of(cx, r, CM_BENCH_ENQUEUE, &enqueue));
    doubt_count(&d, r);
    doubt_spread(&d, &compute);
    CM_TRY(doubt_drift(&d, r));
    doubt_enqueue(&d, r, &enqueue, &compute);
    doubt_machine(&d, r, how);
    if (d.n)
        doubt_governor(&d);
    doubt_rate(&d, r, how);
    doubt_length(&d, &latency, r);
    *n = d.n;
    return d.failed ? cm_fail_memory(cx) : CM_OK;
}
