/* refit.c -- `cameo refit`: new weights into a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/refit.h"
#include "cli/model.h"

typedef struct {
    const char *from, *output;
    bool quiet;
    cm_texts plugins;
} refit_options;

static void print(const cm_refit_report *r, const char *path, double seconds)
{
    char size[32];
    printf("%s: %d constants, %s, refitted in %.2f s", path, r->n_constants,
           cm_cli_bytes(size, sizeof size, (double)r->bytes), seconds);
    if (r->n_targets)
        printf("; measurements of %d machine%s kept", r->n_targets, r->n_targets == 1 ? "" : "s");
    printf("%s\n", r->same_weights ? "; the weights are those it was built with" : "");
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const refit_options *o = options;
    if (n_args != 1 || !o->from)
        return cm_cli_failed(cx,
                             cm_fail(cx, CM_ERR_ARGUMENT, "refit needs one plan and --from MODEL"));
    cm_refit_report report;
    const char *path = o->output ? o->output : args[0];
    uint64_t start = cm_now_ns();
    cm_cli_progress(cx);
    cm_status st = cm_refit(cx, args[0], o->from, path, &report);
    cm_cli_progress_done(cx);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    if (!o->quiet)
        print(&report, path, (double)(cm_now_ns() - start) * 1e-9);
    return CM_EXIT_OK;
}

static const cm_cli_option table[] = {
    {"from", "MODEL", "the ONNX model that brings the weights", CM_OPT_TEXT,
     offsetof(refit_options, from)},
    {"output", "FILE", "the plan to write (default: over the one that is read)", CM_OPT_TEXT,
     offsetof(refit_options, output)},
    CM_PLUGINS_OPTION(refit_options, plugins),
    {"quiet", NULL, "print nothing when all went well", CM_OPT_FLAG,
     offsetof(refit_options, quiet)},
};

const cm_cli_verb cm_verb_refit = {
    .name = "refit",
    .summary = "new weights into an existing plan",
    .usage = "[OPTION]... PLAN --from MODEL",
    .details =
        "Puts the weights of a model into a plan of the same network: one that was trained "
        "further,\n"
        "or the one whose weights `cameo build --strip-weights` left out. Nothing is measured "
        "again;\n"
        "what the plan knows of machines stays. The model is built by the options that the plan\n"
        "keeps, and the outcome compared with the plan, layer by layer: where it is another "
        "network,\n"
        "a sentence says what differs and nothing is written. The answers are those of a plan "
        "built\n"
        "anew from the model, to the last bit.",
    .examples = "  cameo build model.onnx --strip-weights --output model.plan\n"
                "  cameo refit model.plan --from model.onnx\n"
                "  cameo refit model.plan --from finetuned.onnx --output finetuned.plan\n",
    .options_bytes = sizeof(refit_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .run = run,
};
