/* build.c -- `cameo build`: a model to a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "cli/model.h"

typedef struct {
    cm_model_options model;
    const char *output;
    bool quiet;
} build_options;

/* model.onnx -> model.plan; anything else gets .plan appended. */
static const char *default_output(cm_ctx *cx, const char *model)
{
    size_t n = strlen(model);
    if (n > 5 && !strcmp(model + n - 5, ".onnx"))
        n -= 5;
    return cm_arena_printf(cx->arena, "%.*s.plan", (int)n, model);
}

static int count_nodes(const cm_network *g)
{
    int n = g->n_nodes;
    CM_FOR_NODES (m, g)
        for (int s = 0; s < m->n_subs; s++)
            n += count_nodes(m->subs[s]);
    return n;
}

static void summarise(const cm_model *m, const char *path, double seconds)
{
    struct stat s;
    char size[32];
    double bytes = stat(path, &s) == 0 ? (double)s.st_size : 0;
    printf("%s: %s, %d layers, built in %.2f s (import %.2f s)\n", path,
           cm_cli_bytes(size, sizeof size, bytes), count_nodes(m->network),
           m->import_seconds + seconds, m->import_seconds);
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const build_options *o = options;
    if (n_args != 1)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT, "build needs one model, found %d", n_args));
    const char *path = o->output ? o->output : default_output(cx, args[0]);
    if (!path)
        return cm_cli_failed(cx, cm_fail_memory(cx));
    cm_cli_progress(cx);
    cm_model m = {0};
    cm_compile_options co;
    cm_status st = cm_model_compile_options(cx, &o->model, &co);
    if (st == CM_OK)
        st = cm_model_import(cx, args[0], &o->model, &m);
    uint64_t start = cm_now_ns();
    if (st == CM_OK)
        st = cm_compile_file(cx, m.network, &co, path);
    double seconds = (double)(cm_now_ns() - start) * 1e-9;
    cm_cli_progress_done(cx);
    if (st == CM_OK && !o->quiet)
        summarise(&m, path, seconds);
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static const cm_cli_option table[] = {
    {"output", "FILE", "the plan to write (default: MODEL with .plan)", CM_OPT_TEXT,
     offsetof(build_options, output)},
    {"quiet", NULL, "print nothing when all went well", CM_OPT_FLAG,
     offsetof(build_options, quiet)},
    CM_MODEL_OPTIONS(build_options, model),
};

const cm_cli_verb cm_verb_build = {
    .name = "build",
    .summary = "model to plan",
    .usage = "[OPTION]... MODEL",
    .details =
        "Reads an ONNX model, checks it and writes a plan: one file that runs on any machine\n"
        "with Cameo's runtime. Symbolic dims stay symbolic unless --dim or --shape fixes them.",
    .examples = "  cameo build model.onnx\n"
                "  cameo build model.onnx --output fixed.plan --dim batch=8\n",
    .options_bytes = sizeof(build_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .run = run,
};
