/* debug.c -- `cameo debug`: find what is to blame for a wrong answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/debug.h"

#include <string.h>

#include "base/str.h"

static const struct {
    const char *name;
    cm_status (*run)(cm_ctx *cx, const cm_debug_options *o, const char *path, bool *found);
} ways[] = {
    {"bisect", cm_debug_bisect},
    {"reduce", cm_debug_reduce},
    {"precision", cm_debug_precision},
};

static cm_status find_way(cm_ctx *cx, const char *name, int *out)
{
    const char *names[CM_COUNT(ways)];
    for (int i = 0; i < CM_COUNT(ways); i++) {
        names[i] = ways[i].name;
        if (!strcmp(name, names[i])) {
            *out = i;
            return CM_OK;
        }
    }
    const char *near = cm_suggest(name, names, CM_COUNT(ways));
    return cm_fail(cx, CM_ERR_ARGUMENT,
                   near ? "debug knows no '%s'; did you mean '%s'?"
                        : "debug knows no '%s'; it knows bisect, reduce and precision",
                   name, near);
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    bool found = false;
    int way = 0;
    if (n_args < 1)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT, "debug needs bisect, reduce or precision"));
    cm_status st = find_way(cx, args[0], &way);
    if (st == CM_OK && n_args != 2)
        st = cm_fail(cx, CM_ERR_ARGUMENT, "debug %s needs one model", ways[way].name);
    if (st == CM_OK)
        st = ways[way].run(cx, options, args[1], &found);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    return found ? CM_EXIT_FAILED : CM_EXIT_OK;
}

static void defaults(void *options)
{
    cm_debug_options *o = options;
    o->random = 1;
    o->fails_with = -1;
}

static const cm_cli_option table[] = {
    {"inputs", "FILE", "inputs to run on: .npz, .npy or .pb (precision: several)", CM_OPT_TEXTS,
     offsetof(cm_debug_options, inputs)},
    {"random", "SEED", "random data for inputs that were not given (default 1)", CM_OPT_INT,
     offsetof(cm_debug_options, random)},
    {"tolerance", "X",
     "how far answers may move, relative to their scale (default 1e-4; precision: 1e-2)",
     CM_OPT_REAL, offsetof(cm_debug_options, tolerance)},
    {"check", "COMMAND",
     "reduce: run on each model, {} is its file; exit code 0: the model is fine", CM_OPT_TEXT,
     offsetof(cm_debug_options, check)},
    {"output", "FILE", "reduce: the smallest model that fails (default reduced.onnx)", CM_OPT_TEXT,
     offsetof(cm_debug_options, output)},
    {"fails-with", "CODE", "reduce: only this exit code of the check counts as failing", CM_OPT_INT,
     offsetof(cm_debug_options, fails_with)},
    {"show-checks", NULL, "reduce: let the check print", CM_OPT_FLAG,
     offsetof(cm_debug_options, show_checks)},
    CM_MODEL_OPTIONS(cm_debug_options, model),
};

const cm_cli_verb cm_verb_debug = {
    .name = "debug",
    .summary = "find what is to blame for a wrong answer",
    .usage = "bisect|reduce|precision [OPTION]... MODEL",
    .details =
        "bisect runs the model as it is written, then with more and fewer of the optimiser's\n"
        "rewrites, until the one rewrite is found that changes an answer. It prints the pass, the\n"
        "number of the rewrite (for --stop-after-rewrite), the node, and the lines of the network\n"
        "that the rewrite changed. The exit code is 1 when there is something to blame.\n\n"
        "reduce cuts a model to the fewest nodes that still fail --check, a command of yours; "
        "what\n"
        "a cut leaves open becomes an input. It writes the model to --output.\n\n"
        "precision finds the nodes that must stay in float32 when the rest is in --precision "
        "(fp16\n"
        "or bf16; default fp16) for outputs to stay within --tolerance, says why, and prints them\n"
        "for --keep-fp32. The exit code is 1 when there are any.",
    .examples = "  cameo debug bisect model.onnx\n"
                "  cameo debug bisect model.onnx --inputs sample.npz --tolerance 1e-3\n"
                "  cameo debug reduce model.onnx --check 'python check.py {}' --output small.onnx\n"
                "  cameo debug reduce model.onnx --check 'cameo compare {} --no-optimise-a'\n"
                "  cameo debug precision model.onnx --precision fp16 --tolerance 1e-2\n",
    .options_bytes = sizeof(cm_debug_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
