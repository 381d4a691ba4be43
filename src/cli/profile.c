/* profile.c -- `cameo profile`: where the time of a model or a plan goes, and what keeps it there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cm_model_options model;
    const char *inputs, *trace, *html;
    int64_t random, layers, runs, trace_runs;
    double duration;
    bool json, csv;
} profile_options;

static cm_status check(cm_ctx *cx, const profile_options *o)
{
    if (o->json && o->csv)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--json and --csv: one of them");
    if (o->runs < 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--runs %lld: wanted 1 or more", (long long)o->runs);
    if (o->trace_runs < 1 || o->trace_runs > 100)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--trace-runs %lld: wanted 1 to 100",
                       (long long)o->trace_runs);
    if (o->model.threads < 0 || o->model.threads > CM_LIMITS_MOST_THREADS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--threads %lld: wanted 0 to %d",
                       (long long)o->model.threads, CM_LIMITS_MOST_THREADS);
    return CM_OK;
}

static cm_status write_json(cm_ctx *cx, json_t *j, const char *path)
{
    if (!j)
        return cm_fail_memory(cx);
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(j);
    if (!text)
        return cm_fail_memory(cx);
    cm_status st = cm_file_write(cx, path, text, strlen(text));
    free(text);
    return st;
}

static cm_status measure(cm_ctx *cx, const profile_options *o, cm_engine *e, cm_profile *p)
{
    cm_inputs in;
    cm_target target;
    cm_context_options co;
    CM_TRY(cm_model_context_options(cx, &o->model, &target, &co));
    CM_TRY(cm_inputs_create(cx, e, &in));
    if (o->inputs)
        CM_TRY(cm_inputs_add_file(cx, e, &in, NULL, o->inputs));
    CM_TRY(cm_inputs_random(cx, e, &o->model, (uint64_t)o->random, &in));
    cm_profile_how how = {.threads = co.threads,
                          .target = &target,
                          .max_memory = co.max_memory,
                          .duration = o->duration,
                          .runs = o->runs};
    return cm_profile_measure(cx, e, &in, &how, p);
}

static cm_status show(cm_ctx *cx, const profile_options *o, const cm_profile *p)
{
    int *ranked;
    if (o->trace)
        CM_TRY(write_json(cx, cm_profile_trace(p, (int)o->trace_runs), o->trace));
    if (o->html)
        CM_TRY(cm_profile_write_html(cx, p, o->html));
    if (o->json) {
        json_t *j = cm_profile_json(p);
        if (!j)
            return cm_fail_memory(cx);
        json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        printf("\n");
        json_decref(j);
        return CM_OK;
    }
    if (o->csv) {
        cm_profile_print_csv(p);
        return CM_OK;
    }
    CM_TRY(cm_profile_rank(cx, p, &ranked));
    cm_profile_print(p, ranked, o->layers);
    return CM_OK;
}

static cm_status profile(cm_ctx *cx, const profile_options *o, const char *path)
{
    cm_model m;
    cm_profile p = {.path = path};
    CM_TRY(check(cx, o));
    cm_cli_progress(cx);
    cm_status st = cm_model_open(cx, path, &o->model, &m);
    if (st == CM_OK)
        st = measure(cx, o, m.engine, &p);
    if (st == CM_OK)
        st = show(cx, o, &p);
    cm_model_close(&m);
    return st;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    if (n_args != 1)
        return cm_cli_failed(cx,
                             cm_fail(cx, CM_ERR_ARGUMENT, "profile needs one model or one plan"));
    cm_status st = profile(cx, options, args[0]);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    profile_options *o = options;
    o->random = 1;
    o->layers = 20;
    o->duration = 2;
    o->trace_runs = 3;
}

static const cm_cli_option table[] = {
    {"inputs", "FILE", "inputs to run on: .npz, .npy or .pb", CM_OPT_TEXT,
     offsetof(profile_options, inputs)},
    {"random", "SEED", "random data for inputs that were not given (default 1)", CM_OPT_INT,
     offsetof(profile_options, random)},
    {"duration", "SECONDS", "how long to measure (default 2s)", CM_OPT_SECONDS,
     offsetof(profile_options, duration)},
    {"runs", "N", "no more runs than this (default 300)", CM_OPT_INT,
     offsetof(profile_options, runs)},
    {"layers", "N", "how many layers to print, slowest first (default 20)", CM_OPT_INT,
     offsetof(profile_options, layers)},
    {"html", "FILE", "write a report to open in a browser", CM_OPT_TEXT,
     offsetof(profile_options, html)},
    {"trace", "FILE", "write a timeline for ui.perfetto.dev or chrome://tracing", CM_OPT_TEXT,
     offsetof(profile_options, trace)},
    {"trace-runs", "N", "runs in the timeline (default 3)", CM_OPT_INT,
     offsetof(profile_options, trace_runs)},
    {"json", NULL, "print everything as JSON", CM_OPT_FLAG, offsetof(profile_options, json)},
    {"csv", NULL, "print a line a layer as CSV", CM_OPT_FLAG, offsetof(profile_options, csv)},
    CM_MODEL_OPTIONS(profile_options, model),
};

const cm_cli_verb cm_verb_profile = {
    .name = "profile",
    .summary = "where the time goes, layer by layer, and what bounds each layer",
    .usage = "[OPTION]... MODEL|PLAN",
    .details =
        "Runs with every layer timed, in turns with runs that nobody watches. For each layer: the\n"
        "median time, operations and bytes, the rates reached, the share of the machine's limit\n"
        "(multiply-adds and bandwidth, measured in the same call) and what bounds it: compute,\n"
        "memory, overhead, copies, or a reference where no kernel takes it. Then totals by kind,\n"
        "conversions and copies with their cost, and who owns the memory at the peak.\n\n"
        "--html writes one file that needs no network: the plan as a graph, a roofline, the\n"
        "timeline, memory over time and a table.",
    .examples = "  cameo profile model.onnx\n"
                "  cameo profile model.plan --html report.html\n"
                "  cameo profile model.plan --trace trace.json --trace-runs 5\n"
                "  cameo profile model.onnx --threads 1 --dim batch=8 --csv >layers.csv\n",
    .options_bytes = sizeof(profile_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
