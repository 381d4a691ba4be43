/* edit.c -- `cameo edit`: models changed and written as ONNX again.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "cli/edit.h"
#include "ir/clone.h"
#include "onnx/export.h"

/* ---- Edits ---------------------------------------------------------------------------------- */

static cm_status apply_pass(cm_ctx *cx, cm_network *g, const char *name)
{
    const cm_pass *p = cm_pass_find(name);
    return p ? cm_pass_apply(cx, g, p, NULL)
             : cm_fail(cx, CM_ERR_INTERNAL, "there is no pass '%s'", name);
}

/* The optimiser without its fusions: they make operators that fewer readers know. */
static cm_status simplify(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    cm_compile_options co;
    CM_TRY(cm_model_compile_options(cx, &o->model, &co));
    if (o->model.stop_after)
        return cm_optimise(cx, g, &co.optimise, NULL, NULL);
    for (int i = 0; i < cm_n_passes && cm_passes[i].phase == CM_PHASE_CLEAN; i++)
        if (strncmp(cm_passes[i].name, "fuse_", strlen("fuse_")) != 0)
            CM_TRY(cm_pass_apply(cx, g, &cm_passes[i], NULL));
    return CM_OK;
}

cm_status cm_edit_find_value(cm_ctx *cx, const cm_network *g, const char *name, cm_value **out)
{
    for (int i = 0; i < g->n_outputs; i++) {
        if (!strcmp(g->output_names[i], name)) {
            *out = g->outputs[i];
            return CM_OK;
        }
    }
    *out = cm_network_find_value(g, name);
    if (!*out)
        return cm_fail(cx, CM_ERR_ARGUMENT, "the model has no value '%s'", name);
    if ((*out)->network != g)
        return cm_fail(cx, CM_ERR_ARGUMENT, "'%s' is inside a nested graph", name);
    return CM_OK;
}

/* The value is given from outside now. */
static cm_status make_input(cm_ctx *cx, cm_network *g, const char *name)
{
    cm_value *v, *in;
    CM_TRY(cm_edit_find_value(cx, g, name, &v));
    if (!v->producer && !v->constant)
        return CM_OK;
    CM_TRY(cm_network_add_input(cx, g, NULL, &v->type, &in));
    CM_TRY(cm_replace_uses(cx, v, in));
    v->name = in->name;
    in->name = cm_arena_strdup(g->arena, name);
    return in->name ? CM_OK : cm_fail_memory(cx);
}

static bool is_listed(const cm_texts *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->v[i], name))
            return true;
    return false;
}

static cm_status extract(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    if (!o->inputs.n && !o->outputs.n)
        return cm_fail(cx, CM_ERR_ARGUMENT, "extract needs --inputs, --outputs or both");
    int n_before = g->n_outputs;
    for (int i = 0; i < o->outputs.n; i++) {
        cm_value *v;
        CM_TRY(cm_edit_find_value(cx, g, o->outputs.v[i], &v));
        CM_TRY(cm_network_add_output(cx, g, v, o->outputs.v[i]));
    }
    for (int i = 0; o->outputs.n && i < n_before; i++)
        cm_network_remove_output(g, 0);
    for (int i = 0; i < o->inputs.n; i++)
        CM_TRY(make_input(cx, g, o->inputs.v[i]));
    CM_TRY(apply_pass(cx, g, "dce"));
    for (int i = g->n_inputs; i-- > 0;) {
        const cm_value *v = g->inputs[i];
        if (is_listed(&o->inputs, v->name) || (!o->inputs.n && v->n_uses))
            continue;
        if (v->n_uses)
            return cm_fail(cx, CM_ERR_ARGUMENT, "the outputs also need input '%s': list it",
                           v->name);
        cm_network_remove_input(g, i);
    }
    return CM_OK;
}

static cm_status rename_values(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    if (!o->names.n)
        return cm_fail(cx, CM_ERR_ARGUMENT, "rename needs --names OLD=NEW");
    for (int i = 0; i < o->names.n; i++) {
        const char *equals = strrchr(o->names.v[i], '=');
        if (!equals || equals == o->names.v[i] || !equals[1])
            return cm_fail(cx, CM_ERR_ARGUMENT, "--names %s: wanted OLD=NEW", o->names.v[i]);
        const char *to = cm_arena_strdup(g->arena, equals + 1);
        const char *from =
            cm_arena_strndup(cx->arena, o->names.v[i], (size_t)(equals - o->names.v[i]));
        cm_value *v;
        if (!to || !from)
            return cm_fail_memory(cx);
        bool is_output = false;
        for (int k = 0; k < g->n_outputs; k++) {
            if (strcmp(g->output_names[k], to) == 0)
                return cm_fail(cx, CM_ERR_ARGUMENT, "there is an output '%s' already", to);
            if (strcmp(g->output_names[k], from) == 0) {
                g->output_names[k] = to;
                is_output = true;
            }
        }
        if (is_output)
            continue;
        CM_TRY(cm_edit_find_value(cx, g, from, &v));
        if (cm_network_find_value(g, to))
            return cm_fail(cx, CM_ERR_ARGUMENT, "there is a value '%s' already", to);
        v->name = to;
    }
    return CM_OK;
}

static cm_status delete_outputs(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    if (!o->outputs.n)
        return cm_fail(cx, CM_ERR_ARGUMENT, "delete-outputs needs --outputs NAMES");
    for (int i = 0; i < o->outputs.n; i++) {
        int k = 0;
        while (k < g->n_outputs && strcmp(g->output_names[k], o->outputs.v[i]) != 0)
            k++;
        if (k == g->n_outputs)
            return cm_fail(cx, CM_ERR_ARGUMENT, "the model has no output '%s'", o->outputs.v[i]);
        cm_network_remove_output(g, k);
    }
    if (g->n_outputs == 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "no output would be left");
    return apply_pass(cx, g, "dce");
}

static cm_status set_shape(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    (void)g; /* import did it */
    return o->model.shapes.n || o->model.dims.n
               ? CM_OK
               : cm_fail(cx, CM_ERR_ARGUMENT, "set-shape needs --shape or --dim");
}

/* The precision pass alone, with the casts that meet dropped: the network stays what it is otherwise. */
static cm_status cast(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    static const char *const passes[] = {"precision", "precision_casts", "precision_identity",
                                         "precision_dce"};
    cm_compile_options co;
    CM_TRY(cm_model_compile_options(cx, &o->model, &co));
    if (co.optimise.precision != CM_PRECISION_FP16 && co.optimise.precision != CM_PRECISION_BF16)
        return cm_fail(cx, CM_ERR_ARGUMENT, "cast needs --precision fp16 or bf16");
    for (int i = 0; i < CM_COUNT(passes); i++)
        CM_TRY(cm_pass_apply_with(cx, g, cm_pass_find(passes[i]), &co.optimise, NULL));
    return CM_OK;
}

/* What these two do is done while the model is read and written. */
static cm_status as_it_is(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    (void)cx;
    (void)o;
    (void)g;
    return CM_OK;
}

static const struct {
    const char *name;
    cm_status (*run)(cm_ctx *cx, const cm_edit_options *o, cm_network *g);
} edits[] = {
    {"simplify", simplify},
    {"extract", extract},
    {"set-shape", set_shape},
    {"rename", rename_values},
    {"delete-outputs", delete_outputs},
    {"insert", cm_edit_insert},
    {"replace", cm_edit_replace},
    {"cast", cast},
    {"prune", cm_edit_prune},
    {"strip-weights", as_it_is},
    {"restore-weights", as_it_is},
};

/* ---- The verb ------------------------------------------------------------------------------- */

static cm_status find_edit(cm_ctx *cx, const char *name, int *out)
{
    const char *names[CM_COUNT(edits)];
    for (int i = 0; i < CM_COUNT(edits); i++) {
        names[i] = edits[i].name;
        if (!strcmp(name, names[i])) {
            *out = i;
            return CM_OK;
        }
    }
    const char *near = cm_suggest(name, names, CM_COUNT(edits));
    return cm_fail(cx, CM_ERR_ARGUMENT,
                   near ? "edit knows no '%s'; did you mean '%s'?"
                        : "edit knows no '%s'; see 'cameo edit --help'",
                   name, near);
}

static cm_status write_model(cm_ctx *cx, const cm_edit_options *o, const char *what, cm_network *g,
                             const char *path)
{
    cm_export_options eo = {.external = o->external, .strip = !strcmp(what, "strip-weights")};
    cm_status st = cm_onnx_export_file(cx, g, path, &eo);
    return st == CM_OK ? st : cm_while(cx, st, "%s", path);
}

static cm_status edit(cm_ctx *cx, cm_edit_options *o, const char **args, cm_model *m,
                      cm_donor *donor)
{
    int which;
    CM_TRY(find_edit(cx, args[0], &which));
    bool restore = !strcmp(args[0], "restore-weights");
    if (restore) {
        CM_TRY(cm_donor_init(cx, o, donor));
        o->model.stripped = &donor->source;
    }
    CM_TRY(cm_model_import(cx, args[1], &o->model, m));
    if (restore && !donor->n_found)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%s lacks no weights", args[1]);
    int before = cm_count_nodes(m->network);
    CM_TRY(edits[which].run(cx, o, m->network));
    CM_TRY(write_model(cx, o, args[0], m->network, args[2]));
    if (!o->quiet)
        printf("%s: %d nodes, %d before%s\n", args[2], cm_count_nodes(m->network), before,
               !restore                          ? ""
               : donor->n_same == donor->n_found ? ", the weights are those that were left out"
                                                 : ", weights are not those that were left out");
    return CM_OK;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    cm_model m = {0};
    cm_donor donor = {0};
    if (n_args != 3)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT, "edit needs what to do, a model and a file to write"));
    cm_status st = edit(cx, options, args, &m, &donor);
    cm_model_close(&m);
    cm_donor_deinit(&donor);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    ((cm_edit_options *)options)->random = -1;
}

static const cm_cli_option table[] = {
    {"inputs", "NAMES", "extract: values that become the inputs", CM_OPT_TEXTS,
     offsetof(cm_edit_options, inputs)},
    {"outputs", "NAMES", "extract: values that become the outputs; delete-outputs: those to drop",
     CM_OPT_TEXTS, offsetof(cm_edit_options, outputs)},
    {"names", "OLD=NEW", "rename: inputs, outputs and values", CM_OPT_TEXTS,
     offsetof(cm_edit_options, names)},
    {"value", "NAME", "insert: the value that the new nodes follow", CM_OPT_TEXT,
     offsetof(cm_edit_options, value)},
    {"node", "NAME", "replace: the node that goes", CM_OPT_TEXT, offsetof(cm_edit_options, node)},
    {"with", "TEXT", "insert, replace: the new nodes, from x (x0, x1, ...) to y (y0, y1, ...)",
     CM_OPT_TEXT, offsetof(cm_edit_options, with)},
    {"precision", "P", "cast: fp16 or bf16", CM_OPT_TEXT,
     offsetof(cm_edit_options, model.precision)},
    {"keep-fp32", "NODES", "cast: nodes that stay in float32", CM_OPT_TEXTS,
     offsetof(cm_edit_options, model.keep_fp32)},
    {"from", "MODEL", "restore-weights: the model that has them", CM_OPT_TEXT,
     offsetof(cm_edit_options, from)},
    {"random", "SEED", "restore-weights: made-up weights instead", CM_OPT_INT,
     offsetof(cm_edit_options, random)},
    {"dim", "NAME=N", "fix a symbolic dim", CM_OPT_TEXTS, offsetof(cm_edit_options, model.dims)},
    {"shape", "INPUT=AxBxC", "give an input a shape", CM_OPT_TEXTS,
     offsetof(cm_edit_options, model.shapes)},
    {"stop-after", "PASS", "simplify: run the optimiser, fusions too, up to this pass", CM_OPT_TEXT,
     offsetof(cm_edit_options, model.stop_after)},
    CM_PLUGINS_OPTION(cm_edit_options, model.plugins),
    {"external", NULL, "keep weights in a file beside the model", CM_OPT_FLAG,
     offsetof(cm_edit_options, external)},
    {"quiet", NULL, "print nothing when all went well", CM_OPT_FLAG,
     offsetof(cm_edit_options, quiet)},
};

const cm_cli_verb cm_verb_edit = {
    .name = "edit",
    .summary = "simplify, cut, patch, cast, prune and strip ONNX models",
    .usage = "WHAT [OPTION]... IN OUT",
    .details =
        "Reads an ONNX model and writes a changed one, at the lowest opset that has its operators\n"
        "in their newest form. WHAT is one of:\n\n"
        "simplify: fold constants and shape arithmetic, drop what does nothing or is not read, "
        "and\n"
        "compute everything once.\n"
        "extract: keep what leads from --inputs to --outputs.\n"
        "set-shape: fix the sizes of inputs with --shape or --dim.\n"
        "rename: give inputs, outputs and values other names with --names.\n"
        "delete-outputs: drop --outputs and what only they needed.\n"
        "insert: put nodes behind --value; who read the value reads their outcome.\n"
        "replace: put nodes in the place of --node. The nodes of --with are written as `cameo "
        "inspect\n"
        "--text` prints them, statements separated by semicolons; inputs are x (several: x0, x1, "
        "...),\n"
        "outputs are y (y0, y1, ...).\n"
        "cast: weights and computing in float16 or bfloat16 (--precision), with casts where "
        "float32\n"
        "goes in and out, and around nodes that would overflow.\n"
        "prune: of every four weights that a product or convolution sums over, keep the two "
        "largest\n"
        "(the 2:4 pattern of sparse tensor cores).\n"
        "strip-weights: leave weights of 1 KB and more out, keeping their shapes and checksums.\n"
        "restore-weights: put them back --from a model that has them, or make some up from a "
        "--random\n"
        "seed: enough for building and timing.",
    .examples =
        "  cameo edit simplify model.onnx simple.onnx\n"
        "  cameo edit extract model.onnx part.onnx --inputs hidden --outputs logits\n"
        "  cameo edit set-shape model.onnx fixed.onnx --shape image=1x3x224x224\n"
        "  cameo edit rename model.onnx out.onnx --names input.1=image,495=scores\n"
        "  cameo edit delete-outputs model.onnx out.onnx --outputs debug\n"
        "  cameo edit insert model.onnx out.onnx --value logits --with 'y = Softmax(x) {axis=1}'\n"
        "  cameo edit replace model.onnx out.onnx --node act --with 't = Sigmoid(x); y = Mul(x, "
        "t)'\n"
        "  cameo edit cast model.onnx half.onnx --precision fp16 --keep-fp32 head\n"
        "  cameo edit prune model.onnx sparse.onnx\n"
        "  cameo edit strip-weights model.onnx light.onnx\n"
        "  cameo edit restore-weights light.onnx model2.onnx --from model.onnx\n",
    .options_bytes = sizeof(cm_edit_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
