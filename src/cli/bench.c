/* bench.c -- `cameo bench`: how fast a model or a plan runs, and where the time goes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cli/model.h"

typedef struct {
    cm_model_options model;
    const char *inputs;
    int64_t random, iterations, layers;
    double warm_up, duration;
    bool json;
} bench_options;

/* Time spent in each step, summed over runs. */
typedef struct {
    int n;
    uint64_t *ns;
} layer_times;

static void on_step(void *user, int step, uint64_t start_ns, uint64_t end_ns)
{
    layer_times *l = user;
    if (step >= 0 && step < l->n)
        l->ns[step] += end_ns - start_ns;
}

typedef struct {
    int n;
    double *ms; /* sorted */
    double total_s;
} samples;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const samples *s, double p)
{
    int i = (int)ceil(p / 100 * s->n) - 1;
    return s->ms[i < 0 ? 0 : i >= s->n ? s->n - 1 : i];
}

static double mean(const samples *s)
{
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->ms[i];
    return sum / s->n;
}

static cm_status keep(cm_ctx *cx, samples *s, int *cap, double ms)
{
    if (s->n == *cap) {
        int bigger = *cap ? *cap * 2 : 1024;
        double *v;
        CM_NEW_N(cx, cx->arena, v, bigger, double);
        if (s->n)
            memcpy(v, s->ms, (size_t)s->n * sizeof *v);
        s->ms = v;
        *cap = bigger;
    }
    s->ms[s->n++] = ms;
    return CM_OK;
}

static cm_status measure(cm_ctx *cx, const bench_options *o, cm_context *c, layer_times *layers,
                         samples *s)
{
    int cap = 0;
    uint64_t start = cm_now_ns();
    do
        CM_TRY(cm_context_run(cx, c));
    while ((double)(cm_now_ns() - start) * 1e-9 < o->warm_up);
    memset(layers->ns, 0, (size_t)layers->n * sizeof *layers->ns);
    start = cm_now_ns();
    uint64_t last = start;
    for (int64_t i = 0; i < o->iterations || (double)(last - start) * 1e-9 < o->duration; i++) {
        CM_TRY(cm_context_run(cx, c));
        uint64_t now = cm_now_ns();
        CM_TRY(keep(cx, s, &cap, (double)(now - last) * 1e-6));
        last = now;
    }
    s->total_s = (double)(last - start) * 1e-9;
    qsort(s->ms, (size_t)s->n, sizeof *s->ms, ascending);
    return CM_OK;
}

static void print_summary(const samples *s)
{
    printf("=== Performance summary ===\n");
    printf("Throughput: %.4g qps\n", s->n / s->total_s);
    printf("Latency: min = %.4g ms, max = %.4g ms, mean = %.4g ms, median = %.4g ms, "
           "percentile(90%%) = %.4g ms, percentile(95%%) = %.4g ms, percentile(99%%) = %.4g ms\n",
           s->ms[0], s->ms[s->n - 1], mean(s), percentile(s, 50), percentile(s, 90),
           percentile(s, 95), percentile(s, 99));
    printf("Total Host Walltime: %.4g s over %d inferences\n", s->total_s, s->n);
    if (percentile(s, 90) > 1.5 * percentile(s, 10))
        printf("Warning: the slowest tenth took over 1.5 times as long as the fastest: close other "
               "programs, or measure for longer with --duration\n");
}

typedef struct {
    int step;
    uint64_t ns;
} ranked;

static int slowest_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return x->step - y->step;
}

static cm_status print_layers(cm_ctx *cx, const cm_engine *e, const layer_times *l, int64_t most,
                              int runs)
{
    ranked *r;
    uint64_t total = 0;
    CM_NEW_N(cx, cx->arena, r, l->n, ranked);
    for (int i = 0; i < l->n; i++) {
        r[i] = (ranked){i, l->ns[i]};
        const cm_plan_step *s = cm_engine_step(e, i);
        total += s->kind == CM_STEP_PROBLEM ? l->ns[i] : 0; /* control steps hold other steps */
    }
    qsort(r, (size_t)l->n, sizeof *r, slowest_first);
    printf("\n=== Where the time went ===\n%10s %7s  %-24s %s\n", "ms", "share", "operator",
           "layer");
    for (int i = 0; i < l->n && i < most; i++) {
        const cm_plan_step *s = cm_engine_step(e, r[i].step);
        printf("%10.4f %6.1f%%  %-24s %s\n", (double)r[i].ns * 1e-6 / runs,
               total ? 100.0 * (double)r[i].ns / (double)total : 0, s->op ? s->op : "", s->name);
    }
    return CM_OK;
}

static void print_json(const samples *s, const cm_engine *e, const layer_times *l,
                       const cm_model *m, size_t arena)
{
    json_t *layers = json_array();
    for (int i = 0; i < l->n; i++) {
        const cm_plan_step *st = cm_engine_step(e, i);
        json_array_append_new(layers, json_pack("{s:s, s:s, s:f}", "name", st->name, "operator",
                                                st->op ? st->op : "", "averageMs",
                                                (double)l->ns[i] * 1e-6 / s->n));
    }
    json_t *all = json_pack(
        "{s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f, s:f}, s:i, s:f, s:f, s:f, s:f, s:I, s:o}",
        "throughputQps", s->n / s->total_s, "latencyMs", "min", s->ms[0], "max", s->ms[s->n - 1],
        "mean", mean(s), "median", percentile(s, 50), "p90", percentile(s, 90), "p95",
        percentile(s, 95), "p99", percentile(s, 99), "inferences", s->n, "totalSeconds", s->total_s,
        "importSeconds", m->import_seconds, "buildSeconds", m->build_seconds, "openSeconds",
        m->open_seconds, "arenaBytes", (json_int_t)arena, "layers", layers);
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
}

static cm_status bench(cm_ctx *cx, const bench_options *o, const cm_model *m, const char *path,
                       cm_context **context)
{
    const cm_engine *e = m->engine;
    cm_inputs in;
    samples s = {0};
    layer_times l = {.n = cm_engine_n_steps(e)};
    CM_NEW_N(cx, cx->arena, l.ns, l.n, uint64_t);
    cm_context_options co = {
        .threads = (int)o->model.threads, .profile = on_step, .profile_user = &l};
    CM_TRY(cm_inputs_create(cx, e, &in));
    if (o->inputs)
        CM_TRY(cm_inputs_add_file(cx, e, &in, NULL, o->inputs));
    CM_TRY(cm_inputs_random(cx, e, &o->model, (uint64_t)o->random, &in));
    CM_TRY(cm_context_create(cx, m->engine, &co, context));
    CM_TRY(cm_inputs_set(cx, *context, &in));
    CM_TRY(measure(cx, o, *context, &l, &s));
    size_t arena = cm_context_arena_bytes(*context);
    if (o->json) {
        print_json(&s, e, &l, m, arena);
        return CM_OK;
    }
    char bytes[32];
    printf("%s on the CPU with %d threads; arena %s; import %.3f s, build %.3f s, open %.4f s\n",
           path, o->model.threads ? (int)o->model.threads : cm_cpu_cores(),
           cm_cli_bytes(bytes, sizeof bytes, (double)arena), m->import_seconds, m->build_seconds,
           m->open_seconds);
    print_summary(&s);
    return o->layers > 0 ? print_layers(cx, e, &l, o->layers, s.n) : CM_OK;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const bench_options *o = options;
    cm_model m;
    cm_context *c = NULL;
    if (n_args != 1)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_ARGUMENT, "bench needs one model or plan"));
    cm_status st = cm_model_open(cx, args[0], &o->model, &m);
    if (st == CM_OK)
        st = bench(cx, o, &m, args[0], &c);
    cm_context_destroy(c);
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    bench_options *o = options;
    o->iterations = 10;
    o->warm_up = 0.2;
    o->duration = 3;
    o->layers = 10;
}

static const cm_cli_option table[] = {
    {"inputs", "FILE", "an .npz file with inputs by name", CM_OPT_TEXT,
     offsetof(bench_options, inputs)},
    {"random", "SEED", "seed of random inputs (default 0)", CM_OPT_INT,
     offsetof(bench_options, random)},
    {"iterations", "N", "at least this many inferences (default 10)", CM_OPT_INT,
     offsetof(bench_options, iterations)},
    {"duration", "SECONDS", "at least this long (default 3s)", CM_OPT_SECONDS,
     offsetof(bench_options, duration)},
    {"warm-up", "SECONDS", "run this long before measuring (default 200ms)", CM_OPT_SECONDS,
     offsetof(bench_options, warm_up)},
    {"layers", "N", "list the N slowest layers (default 10; 0: none)", CM_OPT_INT,
     offsetof(bench_options, layers)},
    {"json", NULL, "print JSON", CM_OPT_FLAG, offsetof(bench_options, json)},
    CM_MODEL_OPTIONS(bench_options, model),
};

const cm_cli_verb cm_verb_bench = {
    .name = "bench",
    .summary = "how fast a model or a plan runs, and where the time goes",
    .usage = "[OPTION]... MODEL|PLAN",
    .details =
        "Runs the model on random or given inputs, first to warm up, then until both the number\n"
        "of iterations and the duration are reached, and prints throughput, latency percentiles\n"
        "and the slowest layers.",
    .examples = "  cameo bench model.onnx --threads 1\n"
                "  cameo bench model.plan --duration 10s --json\n",
    .options_bytes = sizeof(bench_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
