/* bench.c -- `cameo bench`: how fast a model or a plan runs, and where the time goes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_report.h"

typedef struct {
    cm_model_options model;
    const char *inputs;
    int64_t random, iterations, layers, streams;
    double warm_up, duration, qps;
    cm_texts batch, percentiles;
    bool no_transfers, cuda_graph, spin, json, csv;
} bench_options;

/* What the options say, checked. */
typedef struct {
    const bench_options *o;
    cm_bench_how how;
    cm_target target;
    cm_bench_percentiles percentiles;
    int n_batches;
    int64_t *batches; /* 0: as the model has it */
    json_t *reports;  /* --json: an array, else NULL */
    bool headed;      /* the head of a table is printed */
} job;

static cm_status read_batches(cm_ctx *cx, const cm_texts *texts, job *j)
{
    j->n_batches = texts->n ? texts->n : 1;
    CM_NEW_N(cx, cx->arena, j->batches, j->n_batches, int64_t);
    for (int i = 0; i < texts->n; i++) {
        char *end;
        j->batches[i] = strtoll(texts->v[i], &end, 10);
        if (!*texts->v[i] || *end || j->batches[i] < 1)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--batch %s: wanted sizes such as 1,2,4",
                           texts->v[i]);
    }
    return CM_OK;
}

static cm_status check(cm_ctx *cx, const bench_options *o, job *j)
{
    *j = (job){.o = o};
    j->how = (cm_bench_how){.iterations = o->iterations,
                            .warm_up = o->warm_up,
                            .duration = o->duration,
                            .streams = (int)o->streams,
                            .threads = (int)o->model.threads,
                            .no_transfers = o->no_transfers,
                            .spin = o->spin,
                            .qps = o->qps,
                            .seed = (uint64_t)o->random};
    if (o->iterations < 1)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--iterations %lld: wanted 1 or more",
                       (long long)o->iterations);
    if (o->streams < 1 || o->streams > 256)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--streams %lld: wanted 1 to 256",
                       (long long)o->streams);
    if (o->model.threads < 0 || o->model.threads > 1024)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--threads %lld: wanted 0 to 1024",
                       (long long)o->model.threads);
    if (!(o->qps >= 0 && o->qps <= 1e9))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--qps %g: wanted inferences a second", o->qps);
    if (o->json && o->csv)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--json and --csv: one of them");
    cm_context_options how;
    CM_TRY(cm_model_context_options(cx, &o->model, &j->target, &how));
    j->how.target = how.target;
    j->how.max_memory = how.max_memory;
    if (o->cuda_graph && j->target.kind == CM_DEVICE_CPU)
        cm_log(
            cx, CM_LOG_WARNING,
            "--cuda-graph means nothing on a CPU: a context walks a list of steps that was fixed "
            "when shapes were bound");
    CM_TRY(cm_bench_parse_percentiles(cx, "percentile", &o->percentiles, &j->percentiles));
    return read_batches(cx, &o->batch, j);
}

/* ---- Inputs ----------------------------------------------------------------------------------- */

/* --dim for every symbol that is the first dim of an input. */
static cm_status dims_of_batch(cm_ctx *cx, const cm_engine *e, int64_t batch, cm_model_options *o)
{
    const cm_dim_table *table = cm_engine_plan(e)->dims;
    const char **v;
    int n = 0;
    CM_NEW_N(cx, cx->arena, v, cm_engine_n_inputs(e) + o->dims.n, const char *);
    for (int i = 0; i < cm_engine_n_inputs(e); i++) {
        const cm_type *t = cm_engine_input_type(e, i);
        int s = t->kind == CM_TENSOR && t->rank > 0 ? cm_dim_symbol_index(table, t->dims[0]) : -1;
        if (s < 0)
            continue;
        v[n] =
            cm_arena_printf(cx->arena, "%s=%lld", cm_dim_symbol_name(table, s), (long long)batch);
        if (!v[n++])
            return cm_fail_memory(cx);
    }
    if (!n)
        return cm_fail(
            cx, CM_ERR_ARGUMENT,
            "--batch %lld: no input has a symbol as its first size; export the model with a "
            "dynamic batch, or give a shape with --shape",
            (long long)batch);
    if (o->dims.n)
        memcpy(v + n, o->dims.v, (size_t)o->dims.n * sizeof *v);
    o->dims = (cm_texts){n + o->dims.n, v};
    return CM_OK;
}

static cm_status make_inputs(cm_ctx *cx, const job *j, const cm_engine *e, int64_t batch,
                             cm_inputs *in)
{
    cm_model_options o = j->o->model;
    if (batch)
        CM_TRY(dims_of_batch(cx, e, batch, &o));
    CM_TRY(cm_inputs_create(cx, e, in));
    if (j->o->inputs)
        CM_TRY(cm_inputs_add_file(cx, e, in, NULL, j->o->inputs));
    return cm_inputs_random(cx, e, &o, (uint64_t)j->o->random, in);
}

/* ---- One model -------------------------------------------------------------------------------- */

static cm_status say(cm_ctx *cx, job *j, const cm_bench_report *r)
{
    if (!j->headed && j->o->csv)
        cm_bench_csv_head(&j->percentiles);
    else if (!j->headed && !j->reports && j->n_batches > 1)
        cm_bench_sweep_head();
    j->headed = true;
    if (j->o->csv)
        return cm_bench_csv_line(cx, r);
    if (j->reports) {
        json_t *o;
        CM_TRY(cm_bench_json(cx, r, &o));
        json_array_append_new(j->reports, o);
        return CM_OK;
    }
    return j->n_batches > 1 ? cm_bench_sweep_line(cx, r) : cm_bench_print(cx, r);
}

static cm_status one_batch(cm_ctx *cx, job *j, const char *path, const cm_model *m, int64_t batch)
{
    cm_inputs in;
    cm_bench_subject s;
    cm_bench_result result;
    cm_bench_profile profile;
    cm_bench_report r = {.path = path,
                         .model = m,
                         .batch = batch,
                         .how = &j->how,
                         .result = &result,
                         .percentiles = &j->percentiles,
                         .layers = j->o->layers};
    CM_TRY(make_inputs(cx, j, m->engine, batch, &in));
    cm_status st = cm_bench_open(cx, m->engine, &in, &j->how, &s);
    if (st == CM_OK)
        st = cm_bench_measure(cx, &s, &j->how, &result);
    cm_bench_close(&s);
    CM_TRY(st);
    if (!j->o->csv && j->o->layers > 0 && (j->n_batches == 1 || j->o->json)) {
        CM_TRY(cm_bench_profile_steps(cx, m->engine, &in, &j->how, 0.5, &profile));
        r.profile = &profile;
    }
    return say(cx, j, &r);
}

static cm_status all_batches(cm_ctx *cx, job *j, const char *path)
{
    cm_model m;
    cm_status st = cm_model_open(cx, path, &j->o->model, &m);
    for (int i = 0; i < j->n_batches && st == CM_OK; i++)
        st = one_batch(cx, j, path, &m, j->batches[i]);
    cm_model_close(&m);
    return st;
}

/* ---- Two models in turns ----------------------------------------------------------------------- */

enum { MOST_PAIRS = 400 };

typedef struct {
    const char *path;
    cm_model model;
    cm_inputs in;
    cm_bench_subject subject;
    cm_bench_result all; /* every block, one after the other */
    double block_ms[MOST_PAIRS], median_ms;
} side;

static cm_status open_side(cm_ctx *cx, const job *j, const char *path, side *s)
{
    s->path = path;
    CM_TRY(cm_model_open(cx, path, &j->o->model, &s->model));
    CM_TRY(make_inputs(cx, j, s->model.engine, j->batches[0], &s->in));
    return cm_bench_open(cx, s->model.engine, &s->in, &j->how, &s->subject);
}

static void close_side(side *s)
{
    cm_bench_close(&s->subject);
    cm_model_close(&s->model);
}

/* Add a block to all that was measured of a side, its times after theirs. */
static cm_status join(cm_ctx *cx, cm_bench_result *all, const cm_bench_result *block)
{
    cm_bench_trace *v;
    uint64_t after = (uint64_t)(all->wall_s * 1e9);
    CM_NEW_N(cx, cx->arena, v, all->n + block->n, cm_bench_trace);
    if (all->n)
        memcpy(v, all->trace, (size_t)all->n * sizeof *v);
    for (int64_t i = 0; i < block->n; i++) {
        cm_bench_trace *t = &v[all->n + i];
        *t = block->trace[i];
        t->due += after;
        t->begun += after;
        t->handed += after;
        t->enqueued += after;
        t->computed += after;
        t->done += after;
    }
    all->trace = v;
    all->n += block->n;
    all->wall_s += block->wall_s;
    all->warm_s += block->warm_s;
    all->cpu_s += block->cpu_s;
    all->switches += block->switches;
    all->steal = block->steal > all->steal ? block->steal : all->steal;
    all->overhead_us = block->overhead_us;
    all->arena_bytes = block->arena_bytes;
    return CM_OK;
}

static cm_status one_block(cm_ctx *cx, const cm_bench_how *how, side *s, int pair)
{
    cm_bench_result r;
    cm_bench_series l;
    CM_TRY(cm_bench_measure(cx, &s->subject, how, &r));
    CM_TRY(cm_bench_series_of(cx, &r, CM_BENCH_LATENCY, &l));
    s->block_ms[pair] = l.median;
    return join(cx, &s->all, &r);
}

/* Blocks of both in turn, who is first changing, until both have run long enough. */
static cm_status in_turns(cm_ctx *cx, const job *j, side sides[2], int *pairs)
{
    cm_bench_how how = j->how;
    cm_bench_result warm;
    for (int k = 0; k < 2; k++) {
        how.duration = 0;
        how.iterations = 1;
        CM_TRY(cm_bench_measure(cx, &sides[k].subject, &how, &warm));
    }
    how.warm_up = 0.003;
    how.duration = j->how.duration / 50 < 0.06 ? 0.06 : j->how.duration / 50;
    for (*pairs = 0; *pairs < MOST_PAIRS; ++*pairs) {
        if (*pairs >= 6 && sides[0].all.n >= j->how.iterations &&
            sides[0].all.wall_s + sides[1].all.wall_s >= 2 * j->how.duration)
            break;
        for (int k = 0; k < 2; k++)
            CM_TRY(one_block(cx, &how, &sides[(k + *pairs) & 1], *pairs));
    }
    return CM_OK;
}

static void print_ratio(const side sides[2], const cm_bench_interval *r, int pairs)
{
    bool faster = r->median >= 1;
    bool sure = r->low > 1 || r->high < 1;
    printf("%s: %g ms; %s: %g ms\n", sides[0].path, sides[0].median_ms, sides[1].path,
           sides[1].median_ms);
    printf("Ratio: %s is %.4f times as fast as %s, 95 %% interval [%.4f, %.4f], %d pairs of "
           "blocks\n",
           sides[0].path, r->median, sides[1].path, r->low, r->high, pairs);
    if (!sure)
        printf("No difference can be told: measure for longer with --duration, or on a quieter "
               "machine\n");
    else
        printf("%s is %.2f %% %s\n", sides[0].path, fabs(r->median - 1) * 100,
               faster ? "faster" : "slower");
}

static cm_status say_two(cm_ctx *cx, job *j, side sides[2], int pairs)
{
    double ratio[MOST_PAIRS];
    for (int i = 0; i < pairs; i++)
        ratio[i] = sides[1].block_ms[i] / sides[0].block_ms[i];
    cm_bench_interval r = cm_bench_median_interval(ratio, pairs);
    for (int k = 0; k < 2; k++) {
        cm_bench_report report = {.path = sides[k].path,
                                  .model = &sides[k].model,
                                  .batch = j->batches[0],
                                  .how = &j->how,
                                  .result = &sides[k].all,
                                  .percentiles = &j->percentiles};
        CM_TRY(say(cx, j, &report));
        if (!j->reports && !j->o->csv)
            printf("\n");
        sides[k].median_ms = cm_bench_median(sides[k].block_ms, pairs);
    }
    if (j->reports) /* {"ratio": ...} as the third of the list; run() gives it its place */
        json_array_append_new(j->reports, json_pack("{s:f, s:f, s:f, s:i}", "ratio", r.median,
                                                    "low", r.low, "high", r.high, "pairs", pairs));
    else if (!j->o->csv)
        print_ratio(sides, &r, pairs);
    return CM_OK;
}

static cm_status two(cm_ctx *cx, job *j, const char **paths)
{
    side *sides;
    int pairs = 0;
    if (j->n_batches > 1)
        return cm_fail(cx, CM_ERR_ARGUMENT, "two models are compared at one --batch, found %d",
                       j->n_batches);
    if (j->how.qps > 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "two models are compared without --qps");
    CM_NEW_N(cx, cx->arena, sides, 2, side);
    cm_status st = open_side(cx, j, paths[0], &sides[0]);
    if (st == CM_OK)
        st = open_side(cx, j, paths[1], &sides[1]);
    if (st == CM_OK)
        st = in_turns(cx, j, sides, &pairs);
    if (st == CM_OK)
        st = say_two(cx, j, sides, pairs);
    close_side(&sides[1]);
    close_side(&sides[0]);
    return st;
}

/* ---- The verb ---------------------------------------------------------------------------------- */

/* One report is the object itself; a sweep is {"batches": [...]}; two are {"a", "b", "ratio"...}. */
static void print_json(json_t *reports, bool compared)
{
    json_t *all = json_incref(json_array_get(reports, 0));
    if (compared) {
        json_decref(all);
        all = json_copy(json_array_get(reports, 2));
        json_object_set(all, "a", json_array_get(reports, 0));
        json_object_set(all, "b", json_array_get(reports, 1));
    } else if (json_array_size(reports) > 1) {
        json_decref(all);
        all = json_pack("{s:O}", "batches", reports);
    }
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const bench_options *o = options;
    job j;
    if (n_args < 1 || n_args > 2)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT, "bench needs one model or plan, or two to compare"));
    cm_status st = check(cx, o, &j);
    if (st == CM_OK && o->json)
        j.reports = json_array();
    if (st == CM_OK)
        st = n_args == 2 ? two(cx, &j, args) : all_batches(cx, &j, args[0]);
    if (st == CM_OK && j.reports)
        print_json(j.reports, n_args == 2);
    json_decref(j.reports);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    bench_options *o = options;
    o->iterations = 10;
    o->warm_up = 0.2;
    o->duration = 3;
    o->layers = 10;
    o->streams = 1;
}

static const cm_cli_option table[] = {
    {"inputs", "FILE", "an .npz file with inputs by name", CM_OPT_TEXT,
     offsetof(bench_options, inputs)},
    {"random", "SEED", "seed of random inputs and arrivals (default 0)", CM_OPT_INT,
     offsetof(bench_options, random)},
    {"iterations", "N", "at least this many inferences in each stream (default 10)", CM_OPT_INT,
     offsetof(bench_options, iterations)},
    {"duration", "SECONDS", "at least this long (default 3s)", CM_OPT_SECONDS,
     offsetof(bench_options, duration)},
    {"warm-up", "SECONDS", "run this long before measuring (default 200ms)", CM_OPT_SECONDS,
     offsetof(bench_options, warm_up)},
    {"streams", "N", "contexts that run at once (default 1)", CM_OPT_INT,
     offsetof(bench_options, streams)},
    {"batch", "SIZES", "batch sizes to measure one after the other: 1,2,4", CM_OPT_TEXTS,
     offsetof(bench_options, batch)},
    {"qps", "RATE", "Poisson arrivals of this rate; latency counts from arrival", CM_OPT_REAL,
     offsetof(bench_options, qps)},
    {"no-transfers", NULL, "hand inputs over once; on a GPU inputs and outputs stay there",
     CM_OPT_FLAG, offsetof(bench_options, no_transfers)},
    {"spin", NULL, "wait for arrivals by looking at the clock, never asleep", CM_OPT_FLAG,
     offsetof(bench_options, spin)},
    {"cuda-graph", NULL,
     "on a GPU the layers of a shape are one graph in any case; a CPU needs none", CM_OPT_FLAG,
     offsetof(bench_options, cuda_graph)},
    {"percentile", "LIST", "percentiles to print (default 90,95,99)", CM_OPT_TEXTS,
     offsetof(bench_options, percentiles)},
    {"layers", "N", "list the N slowest layers (default 10; 0: none)", CM_OPT_INT,
     offsetof(bench_options, layers)},
    {"json", NULL, "print JSON", CM_OPT_FLAG, offsetof(bench_options, json)},
    {"csv", NULL, "print a line of CSV for each measurement", CM_OPT_FLAG,
     offsetof(bench_options, csv)},
    CM_MODEL_OPTIONS(bench_options, model),
};

const cm_cli_verb cm_verb_bench = {
    .name = "bench",
    .summary = "how fast a model or a plan runs, and where the time goes",
    .usage = "[OPTION]... MODEL|PLAN [MODEL|PLAN]",
    .details =
        "Runs the model on random or given inputs, first to warm up, then until both the number\n"
        "of iterations and the duration are reached, and prints throughput, latency percentiles\n"
        "and the slowest layers (timed in runs of their own). Warnings say when a figure should\n"
        "not be trusted, and what to do.\n\n"
        "With two models, both run in turns, and the ratio of their times comes with a 95 %\n"
        "interval. With several --batch sizes, one line each. With --qps, inferences arrive at\n"
        "random times, and latency counts from when each was due.",
    .examples = "  cameo bench model.onnx --threads 1\n"
                "  cameo bench model.plan --duration 10s --json\n"
                "  cameo bench model.onnx --batch 1,2,4,8 --csv\n"
                "  cameo bench model.plan --streams 2 --threads 1 --qps 50\n"
                "  cameo bench old.plan new.plan\n",
    .options_bytes = sizeof(bench_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
