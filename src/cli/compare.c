/* compare.c -- `cameo compare`: do two models, plans or files of results say the same?
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare.h"

#include <math.h>
#include <string.h>

#include "cli/close.h"

typedef struct {
    cm_model_options model;
    const char *inputs, *target_a, *target_b, *precision_a, *precision_b;
    int64_t random;
    double tolerance; /* 0: by precision */
    bool no_optimise_a, no_optimise_b, layers, histogram, json;
} compare_options;

/* What a type's roundings come to over a network, if all is well. */
static double usual_tolerance(const cm_side *s)
{
    static const struct {
        const char *name;
        double tolerance;
    } by[] = {{"tf32", 5e-3}, {"fp16", 1e-2}, {"bf16", 5e-2}};
    for (int i = 0; i < CM_COUNT(by); i++)
        if (s->model.precision && !strcmp(s->model.precision, by[i].name))
            return by[i].tolerance;
    return 1e-4;
}

static cm_status make_inputs(cm_ctx *cx, const compare_options *o, const cm_side *from,
                             cm_inputs *in)
{
    CM_TRY(cm_inputs_create(cx, from->engine, in));
    if (o->inputs)
        CM_TRY(cm_inputs_add_file(cx, from->engine, in, NULL, o->inputs));
    return cm_inputs_random(cx, from->engine, &o->model, (uint64_t)o->random, in);
}

/* ---- Outputs ------------------------------------------------------------------------------------- */

static void compare_data(const cm_datum *a, const cm_datum *b, cm_error *out)
{
    static const cm_tolerance exact = {0};
    bool numbers = a->kind == CM_TENSOR && b->kind == CM_TENSOR && a->tensor.dtype != CM_STR &&
                   b->tensor.dtype != CM_STR;
    if (numbers) {
        cm_error_measure(&a->tensor, &b->tensor, out);
        return;
    }
    *out = (cm_error){.cosine = 1, .snr_db = INFINITY, .worst = -1};
    out->comparable = cm_datum_close(b, a, &exact, out->why, sizeof out->why);
    out->distance = out->comparable ? 0 : INFINITY;
}

/* B's output that goes with A's i: by name, else by place when no name is known. */
static int partner_of(const cm_side *a, const cm_side *b, int i)
{
    bool any = false;
    for (int k = 0; k < b->n_outputs; k++) {
        if (!strcmp(a->output_names[i], b->output_names[k]))
            return k;
        for (int j = 0; j < a->n_outputs; j++)
            any = any || !strcmp(a->output_names[j], b->output_names[k]);
    }
    return !any && a->n_outputs == b->n_outputs ? i : -1;
}

static cm_status compare_outputs(cm_ctx *cx, const cm_side *a, const cm_side *b, cm_compared *c)
{
    CM_NEW_N(cx, cx->arena, c->names, a->n_outputs, const char *);
    CM_NEW_N(cx, cx->arena, c->errors, a->n_outputs, cm_error);
    for (int i = 0; i < a->n_outputs; i++) {
        int k = partner_of(a, b, i);
        if (k < 0)
            continue;
        c->names[c->n_outputs] = a->output_names[i];
        compare_data(&a->outputs[i], &b->outputs[k], &c->errors[c->n_outputs++]);
    }
    return c->n_outputs ? CM_OK
                        : cm_fail(cx, CM_ERR_ARGUMENT, "%s and %s have no output in common",
                                  a->path, b->path);
}

/* ---- Both ---------------------------------------------------------------------------------------- */

static cm_status open_both(cm_ctx *cx, const compare_options *o, int n_args, const char **args,
                           cm_side *a, cm_side *b)
{
    *a = (cm_side){.label = 'A', .model = o->model};
    *b = (cm_side){.label = 'B', .model = o->model};
    if (o->precision_a)
        a->model.precision = o->precision_a;
    if (o->precision_b)
        b->model.precision = o->precision_b;
    a->model.no_optimise |= o->no_optimise_a;
    b->model.no_optimise |= o->no_optimise_b;
    CM_TRY(cm_side_open(cx, args[0], o->target_a, a));
    CM_TRY(cm_side_open(cx, args[n_args - 1], o->target_b, b));
    if (o->layers && (a->saved || b->saved))
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "--layers needs two models or plans: %s has outputs only",
                       a->saved ? a->path : b->path);
    return CM_OK;
}

static cm_status run_both(cm_ctx *cx, const compare_options *o, cm_side *a, cm_side *b)
{
    const cm_side *from = a->saved ? b : a;
    cm_inputs in;
    if (from->saved)
        return CM_OK;
    CM_TRY(make_inputs(cx, o, from, &in));
    CM_TRY(cm_side_run(cx, a, from, &in));
    return cm_side_run(cx, b, from, &in);
}

static cm_status show(cm_ctx *cx, const compare_options *o, const cm_compared *c)
{
    if (!o->json) {
        cm_compared_print(c);
        return CM_OK;
    }
    json_t *j = cm_compared_json(c);
    if (!j)
        return cm_fail_memory(cx);
    json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(j);
    return CM_OK;
}

static cm_status compare(cm_ctx *cx, const compare_options *o, cm_side *a, cm_side *b, bool *close)
{
    cm_pairs pairs;
    cm_verdict verdict;
    cm_compared c = {.side = {a, b}, .histogram = o->histogram};
    double ta = usual_tolerance(a), tb = usual_tolerance(b);
    c.tolerance = o->tolerance > 0 ? o->tolerance : ta > tb ? ta : tb;
    if (o->layers)
        CM_TRY(cm_pairs_match(cx, a, b, &pairs));
    CM_TRY(run_both(cx, o, a, b));
    CM_TRY(compare_outputs(cx, a, b, &c));
    if (o->layers) {
        CM_TRY(cm_pairs_measure(cx, a, b, c.tolerance, &pairs, &verdict));
        c.pairs = &pairs;
        c.verdict = &verdict;
    }
    *close = true;
    for (int i = 0; i < c.n_outputs; i++)
        *close = *close && c.errors[i].distance <= c.tolerance;
    return show(cx, o, &c);
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const compare_options *o = options;
    cm_side a = {0}, b = {0};
    bool close = false;
    if (n_args < 1 || n_args > 2)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT,
                        "compare needs two of models, plans and .npz files, or one in two ways "
                        "(--precision-b, --target-b, --no-optimise-a)"));
    cm_status st = open_both(cx, o, n_args, args, &a, &b);
    if (st == CM_OK)
        st = compare(cx, o, &a, &b, &close);
    cm_side_close(&a);
    cm_side_close(&b);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    return close ? CM_EXIT_OK : CM_EXIT_FAILED;
}

static void defaults(void *options)
{
    ((compare_options *)options)->random = 1;
}

static const cm_cli_option table[] = {
    {"inputs", "FILE", "inputs for both: .npz, .npy or .pb", CM_OPT_TEXT,
     offsetof(compare_options, inputs)},
    {"random", "SEED", "random data for inputs that were not given (default 1)", CM_OPT_INT,
     offsetof(compare_options, random)},
    {"tolerance", "X",
     "largest error by an output's scale (default 1e-4; tf32 5e-3, fp16 1e-2, bf16 5e-2)",
     CM_OPT_REAL, offsetof(compare_options, tolerance)},
    {"layers", NULL, "compare layers too, and find the first that diverges", CM_OPT_FLAG,
     offsetof(compare_options, layers)},
    {"histogram", NULL, "print how many elements are how far off", CM_OPT_FLAG,
     offsetof(compare_options, histogram)},
    {"target-a", "T", "run A on cpu, cpu:avx2, cuda, ...", CM_OPT_TEXT,
     offsetof(compare_options, target_a)},
    {"target-b", "T", "run B there", CM_OPT_TEXT, offsetof(compare_options, target_b)},
    {"precision-a", "P", "build A in fp32, tf32, fp16 or bf16", CM_OPT_TEXT,
     offsetof(compare_options, precision_a)},
    {"precision-b", "P", "build B so", CM_OPT_TEXT, offsetof(compare_options, precision_b)},
    {"no-optimise-a", NULL, "build A as it is written", CM_OPT_FLAG,
     offsetof(compare_options, no_optimise_a)},
    {"no-optimise-b", NULL, "build B so", CM_OPT_FLAG, offsetof(compare_options, no_optimise_b)},
    {"json", NULL, "print everything as JSON", CM_OPT_FLAG, offsetof(compare_options, json)},
    CM_MODEL_OPTIONS(compare_options, model),
};

const cm_cli_verb cm_verb_compare = {
    .name = "compare",
    .summary = "two models, plans, precisions or targets on the same inputs, layer by layer",
    .usage = "[OPTION]... A [B]",
    .details =
        "A and B are models, plans, or .npz files with outputs that were saved (by `cameo run\n"
        "--output`, or by another program). With one argument, A and B are the same file built or\n"
        "run in two ways. A is taken for right: for each output, largest and mean error, absolute\n"
        "and relative, cosine, signal-to-noise ratio. The exit code is 1 when an output is "
        "further\n"
        "off than --tolerance.\n\n"
        "--layers matches the layers of both by the ONNX nodes that they cover, compares what "
        "they\n"
        "hand on, names the first that diverges, and runs A's nodes on B's inputs to tell whether\n"
        "it is the cause or only passes an error on.",
    .examples = "  cameo compare model.onnx model.plan\n"
                "  cameo compare model.onnx --precision-b fp16 --layers\n"
                "  cameo compare model.onnx changed.onnx --layers --inputs sample.npz\n"
                "  cameo compare saved.npz model.onnx --inputs sample.npz --tolerance 1e-3\n"
                "  cameo compare model.onnx --no-optimise-a --target-b cpu:avx2 --histogram\n",
    .options_bytes = sizeof(compare_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
