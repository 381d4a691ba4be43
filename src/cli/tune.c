/* tune.c -- `cameo tune`: more measurements for a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/tune.h"

#include <string.h>

typedef struct {
    cm_model_options model;
    cm_tune_flags tune;
    const char *output;
} tune_options;

static cm_status tune(cm_ctx *cx, const tune_options *o, const char *path)
{
    cm_tuned_options tuned;
    cm_tune_report report;
    cm_engine *e;
    CM_TRY(cm_tune_options_of(cx, &o->tune, &o->model, &tuned));
    CM_TRY(cm_engine_open_file(cx, path, NULL, &e));
    cm_status st = cm_plan_tune(cx, e, &tuned, o->output ? o->output : path, &report);
    cm_engine_release(e);
    cm_cli_progress_done(cx);
    if (st == CM_OK)
        cm_tune_print(&tuned, &report);
    return st;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    if (n_args != 1)
        return cm_cli_failed(cx,
                             cm_fail(cx, CM_ERR_ARGUMENT, "tune needs one plan, found %d", n_args));
    cm_cli_progress(cx);
    cm_status st = tune(cx, options, args[0]);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static const cm_cli_option table[] = {
    {"output", "FILE", "the plan to write (default: over the one that is read)", CM_OPT_TEXT,
     offsetof(tune_options, output)},
    CM_TUNE_OPTIONS(tune_options, tune),
    CM_PLUGINS_OPTION(tune_options, model.plugins),
    {"threads", "N", "threads that contexts will run with (0: one per core)", CM_OPT_INT,
     offsetof(tune_options, model.threads)},
    {"target", "TARGET", "what to tune for: cpu, cuda or cuda:1 (default cpu)", CM_OPT_TEXT,
     offsetof(tune_options, model.target)},
    {"isa", "LEVEL", "use no more than generic, avx2, avx512 or amx", CM_OPT_TEXT,
     offsetof(tune_options, model.isa)},
};

static void defaults(void *options)
{
    ((tune_options *)options)->tune.level = "full";
}

const cm_cli_verb cm_verb_tune = {
    .name = "tune",
    .summary = "measure more, or on another machine, and keep it in the plan",
    .usage = "[OPTION]... PLAN",
    .details =
        "Times the kernels that could solve each problem of a plan, on this machine and for its\n"
        "shapes, and writes the figures into the plan: whoever opens it on a machine like this "
        "one\n"
        "gets the best of them. What was measured before is not measured again, so it can be\n"
        "stopped (Ctrl-C keeps what is known by then) and go on later. A plan holds measurements "
        "of\n"
        "several machines.",
    .examples = "  cameo tune model.plan --tune-budget 60s\n"
                "  cameo tune model.plan --tune-shape input=8x3x224x224 --timing-cache times.txt\n",
    .options_bytes = sizeof(tune_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
