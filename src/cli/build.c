/* build.c -- `cameo build`: a model to a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "api/tuned.h"
#include "api/verify.h"
#include "cli/placement.h"
#include "cli/precision.h"
#include "cli/tune.h"

typedef struct {
    cm_model_options model;
    const char *output;
    bool quiet, verify, strip_weights;
    const char *inputs;
    int64_t random;
    double tolerance; /* --precision auto */
    cm_texts samples;
    cm_tune_flags tune;
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

/* The first run, and what roundings do to its answers. */
static cm_status begin_verifying(cm_ctx *cx, const build_options *o, const char *model,
                                 cm_network *g, const cm_datum *in, cm_verifier *v)
{
    cm_model spare = {0};
    CM_TRY(cm_verifier_init(cx, g, in, (int)o->model.threads, v));
    cm_status st = cm_model_import(cx, model, &o->model, &spare);
    if (st == CM_OK)
        st = cm_verifier_measure(cx, spare.network, v);
    cm_model_close(&spare);
    return st;
}

/* Build while running the network after every pass, on the same inputs. */
static cm_status compile_verified(cm_ctx *cx, const build_options *o, const char *model,
                                  cm_network *g, cm_compile_options *co,
                                  const cm_tuned_options *tuned, const char *path,
                                  cm_tune_report *report)
{
    cm_inputs in;
    cm_verifier v;
    CM_TRY(cm_inputs_of_network(cx, g, &o->model, o->inputs, (uint64_t)o->random, &in));
    cm_status st = begin_verifying(cx, o, model, g, in.datum, &v);
    co->optimise.after_pass = cm_verifier_after_pass;
    co->optimise.user = &v;
    if (st == CM_OK)
        st = cm_compile_tuned(cx, g, co, tuned, path, report);
    if (st == CM_OK && !o->quiet)
        printf("verified: answers are the same after each of %d passes (%lld rewrites)\n",
               v.n_checked, (long long)v.n_rewrites);
    cm_verifier_deinit(&v);
    return st;
}

static cm_status compile_options(cm_ctx *cx, const build_options *o, const char *path,
                                 cm_compile_options *co)
{
    cm_model_options model = o->model;
    cm_measure_options m = {&o->model, o->samples, o->tolerance, o->quiet};
    if (model.precision && !strcmp(model.precision, "auto")) {
        model.precision = NULL;
        CM_TRY(cm_model_compile_options(cx, &model, co));
        CM_TRY(cm_measure_precision(cx, path, &m, co));
        model.precision = co->optimise.precision == CM_PRECISION_BF16 ? "bf16" : "fp16";
        model.keep_fp32 =
            (cm_texts){co->optimise.n_keep_fp32, (const char **)co->optimise.keep_fp32};
    }
    CM_TRY(cm_model_compile_options(cx, &model, co));
    co->strip_weights = o->strip_weights;
    return CM_OK;
}

static void print_placement(void *user, const cm_context *c)
{
    (void)user;
    cm_cli_print_placement(c);
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
    cm_status st = compile_options(cx, o, args[0], &co);
    if (st == CM_OK)
        st = cm_model_import(cx, args[0], &o->model, &m);
    cm_tuned_options tuned = {0};
    cm_tune_report report = {0};
    if (st == CM_OK)
        st = cm_tune_options_of(cx, &o->tune, &o->model, &tuned);
    if (!o->quiet)
        tuned.bound = print_placement;
    uint64_t start = cm_now_ns();
    if (st == CM_OK)
        st = o->verify ? compile_verified(cx, o, args[0], m.network, &co, &tuned, path, &report)
                       : cm_compile_tuned(cx, m.network, &co, &tuned, path, &report);
    double seconds = (double)(cm_now_ns() - start) * 1e-9;
    cm_cli_progress_done(cx);
    if (st == CM_OK && !o->quiet)
        summarise(&m, path, seconds);
    if (st == CM_OK && !o->quiet)
        cm_tune_print(&tuned, &report);
    if (st == CM_OK && !o->quiet && co.optimise.precision == CM_PRECISION_TF32 &&
        tuned.tune.target.kind == CM_DEVICE_CPU)
        printf("tf32 changes nothing on a CPU: its products stay in f32\n");
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static const cm_cli_option table[] = {
    {"output", "FILE", "the plan to write (default: MODEL with .plan)", CM_OPT_TEXT,
     offsetof(build_options, output)},
    {"quiet", NULL, "print nothing when all went well", CM_OPT_FLAG,
     offsetof(build_options, quiet)},
    {"strip-weights", NULL, "leave the weights out of the plan; `cameo refit` puts them back",
     CM_OPT_FLAG, offsetof(build_options, strip_weights)},
    {"verify", NULL, "run the network after every pass; fail if one changes an answer", CM_OPT_FLAG,
     offsetof(build_options, verify)},
    {"inputs", "FILE", "inputs to verify with: .npz, .npy or .pb", CM_OPT_TEXT,
     offsetof(build_options, inputs)},
    {"random", "SEED", "random data to verify with, for inputs not given (default 1)", CM_OPT_INT,
     offsetof(build_options, random)},
    {"tolerance", "T", "--precision auto: how far outputs may move, of their scale (1e-2)",
     CM_OPT_REAL, offsetof(build_options, tolerance)},
    {"samples", "FILES", "--precision auto: inputs to measure on, .npz (default: random)",
     CM_OPT_TEXTS, offsetof(build_options, samples)},
    CM_TUNE_OPTIONS(build_options, tune),
    CM_MODEL_OPTIONS(build_options, model),
};

static void defaults(void *options)
{
    build_options *o = options;
    o->random = 1;
    o->tolerance = 1e-2;
    o->tune.level = "quick";
}

const cm_cli_verb cm_verb_build = {
    .name = "build",
    .summary = "model to plan",
    .usage = "[OPTION]... MODEL",
    .details =
        "Reads an ONNX model, checks it and writes a plan: one file that runs on any machine\n"
        "with Cameo's runtime. Symbolic dims stay symbolic unless --dim or --shape fixes them.\n\n"
        "--verify runs the network before and after every pass of the optimiser and names the "
        "first\n"
        "pass that moves an answer further than it may: the output, the element, found and "
        "wanted.\n\n"
        "--tune quick (the default) times the kernels that may win on this machine for some "
        "seconds\n"
        "and leaves the figures in the plan; off goes by the cost model alone and gives the same "
        "bytes\n"
        "on every machine; full times all. A plan runs on other machines too: there kernels are "
        "chosen\n"
        "when it is opened. --target takes several machine classes: the plan then holds what was "
        "measured\n"
        "or compiled for each of them.\n\n"
        "--precision auto keeps in float32 the nodes that must stay there for the outputs to move "
        "by no\n"
        "more than --tolerance on the samples, puts the rest into float16, or bfloat16 where more "
        "nodes\n"
        "can be in that, and says which and why. tf32 shortens the operands of products on GPUs "
        "that\n"
        "can; a CPU has nothing to gain from it and computes in float32.",
    .examples = "  cameo build model.onnx\n"
                "  cameo build model.onnx --output fixed.plan --dim batch=8\n"
                "  cameo build model.onnx --strip-weights --output small.plan\n"
                "  cameo build model.onnx --verify --inputs sample.npz\n"
                "  cameo build model.onnx --target cpu,sm_80,sm_90\n"
                "  cameo build model.onnx --precision auto --tolerance 1e-3 --samples data.npz\n",
    .options_bytes = sizeof(build_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
