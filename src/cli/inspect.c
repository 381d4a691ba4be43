/* inspect.c -- `cameo inspect`: networks and plans as text, JSON or a graph.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/inspect.h"
#include "cli/model.h"
#include "cli/picture.h"
#include "cli/summary.h"

typedef struct {
    cm_model_options model;
    bool json, dot, text, layers, weights, verify, optimised, summary;
    bool data, diff, memory, targets;
    const char *after, *svg;
} inspect_options;

/* Rewrite the network as a build would, as far as the options say. */
static cm_status optimise(cm_ctx *cx, const inspect_options *o, const char *path, cm_network *g)
{
    cm_model_options mo = o->model;
    cm_compile_options co;
    cm_pass_stats *stats;
    if (o->after)
        mo.stop_after = o->after;
    CM_TRY(cm_model_compile_options(cx, &mo, &co));
    CM_NEW_N(cx, cx->arena, stats, cm_n_passes, cm_pass_stats);
    co.optimise.stats = stats;
    cm_tally *before, *now;
    CM_TRY(cm_tally_network(cx, g, &before));
    CM_TRY(cm_optimise(cx, g, &co.optimise, NULL, NULL));
    CM_TRY(cm_tally_network(cx, g, &now));
    if (o->summary)
        cm_summary_print(path, before, now, stats);
    return CM_OK;
}

static cm_status read_network(cm_ctx *cx, const cm_model *m, cm_facts *f)
{
    f->network = m->network;
    return cm_facts_of_network(cx, m->network, f);
}

static cm_status read_plan(cm_ctx *cx, const char *path, bool verify, cm_model *m, cm_facts *f)
{
    cm_engine_options eo = {.verify_weights = verify, .to_look = true};
    CM_TRY(cm_engine_open_file(cx, path, &eo, &m->engine));
    return cm_facts_of_engine(cx, m->engine, f);
}

static cm_status draw(cm_ctx *cx, const cm_facts *f, const char *path)
{
    cm_picture p;
    CM_TRY(cm_picture_lay_out(cx, f, &p));
    CM_TRY(cm_picture_write(cx, f, &p, path));
    printf("%s: %.0f by %.0f pixels\n", path, p.width, p.height);
    return CM_OK;
}

/* What needs an engine: a model is built for it. */
static cm_status run_views(cm_ctx *cx, const inspect_options *o, const char *path, cm_model *m)
{
    cm_model built = {0};
    cm_engine *e = m->engine;
    cm_status st = CM_OK;
    if (!o->memory && !o->targets)
        return CM_OK;
    if (!e) {
        st = cm_model_open(cx, path, &o->model, &built);
        e = built.engine;
    }
    if (st == CM_OK && o->memory)
        st = cm_inspect_memory(cx, e, &o->model);
    if (st == CM_OK && o->targets)
        st = cm_inspect_targets(cx, e, &o->model, o->layers);
    cm_model_close(&built);
    return st;
}

/* One of two to compare: a model as it is, unless the options ask for more; a plan with how it runs. */
static cm_status open_side(cm_ctx *cx, const inspect_options *o, const char *path, cm_model *m,
                           cm_facts *f, cm_layer_facts **ways)
{
    cm_mapping file;
    *ways = NULL;
    f->path = path;
    CM_TRY(cm_file_map(cx, path, &file));
    bool plan = cm_is_plan(file.data, file.n);
    cm_file_unmap(&file);
    if (!plan) {
        CM_TRY(cm_model_import(cx, path, &o->model, m));
        if (o->optimised || o->after)
            CM_TRY(optimise(cx, o, path, m->network));
        return read_network(cx, m, f);
    }
    CM_TRY(read_plan(cx, path, false, m, f));
    return cm_engine_plan(m->engine)->stripped ? CM_OK
                                               : cm_inspect_ways(cx, m->engine, &o->model, ways);
}

static int diff(cm_ctx *cx, const inspect_options *o, const char **args)
{
    cm_model a = {0}, b = {0};
    cm_facts x = {0}, y = {0};
    cm_layer_facts *ways_x, *ways_y;
    bool same = false;
    cm_status st = open_side(cx, o, args[0], &a, &x, &ways_x);
    if (st == CM_OK)
        st = open_side(cx, o, args[1], &b, &y, &ways_y);
    if (st == CM_OK)
        st = cm_inspect_diff(cx, &x, ways_x, &y, ways_y, &same);
    cm_model_close(&a);
    cm_model_close(&b);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    return same ? CM_EXIT_OK : CM_EXIT_FAILED;
}

static cm_status inspect(cm_ctx *cx, const inspect_options *o, const char *path, cm_model *m)
{
    cm_facts f = {.path = path};
    cm_mapping file;
    CM_TRY(cm_file_map(cx, path, &file));
    bool plan = cm_is_plan(file.data, file.n);
    f.file_bytes = file.n;
    cm_file_unmap(&file);
    if (plan) {
        CM_TRY(read_plan(cx, path, o->verify, m, &f));
    } else {
        if (o->verify)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--verify is for plans: %s is a model", path);
        CM_TRY(cm_model_import(cx, path, &o->model, m));
        if (o->optimised || o->after || o->summary || o->model.stop_after ||
            o->model.stop_after_rewrite)
            CM_TRY(optimise(cx, o, path, m->network));
        if (o->summary)
            return CM_OK;
        CM_TRY(read_network(cx, m, &f));
    }
    if (o->json)
        return cm_facts_json(cx, &f);
    if (o->dot)
        return cm_facts_dot(cx, &f);
    if (o->svg)
        return draw(cx, &f, o->svg);
    if (o->text) {
        if (!f.network)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--text is for models: %s is a plan", path);
        cm_buf b;
        cm_buf_init(&b, cx->allocator);
        cm_network_print(f.network, 16, &b);
        fwrite(b.data, 1, b.n, stdout);
        cm_buf_deinit(&b);
        return CM_OK;
    }
    cm_facts_print(&f, o->layers, o->weights);
    CM_TRY(run_views(cx, o, path, m));
    if (o->verify)
        printf("weights verified: every byte is as it was written\n");
    return CM_OK;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const inspect_options *o = options;
    if (o->data && n_args) {
        cm_status st = cm_inspect_data(cx, args, n_args, o->json);
        return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
    }
    if (o->diff && n_args == 2)
        return diff(cx, o, args);
    if (n_args != 1 || o->diff || o->data)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_ARGUMENT, "inspect needs %s",
                                         o->diff   ? "two models or plans to compare"
                                         : o->data ? "files of tensors"
                                                   : "one model or plan"));
    cm_model m = {0};
    cm_status st = inspect(cx, o, args[0], &m);
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static const cm_cli_option table[] = {
    {"layers", NULL, "list every layer with the ONNX nodes it covers", CM_OPT_FLAG,
     offsetof(inspect_options, layers)},
    {"weights", NULL, "list every weight with its range, zeros and whether it is sparse 2:4",
     CM_OPT_FLAG, offsetof(inspect_options, weights)},
    {"memory", NULL, "memory by layer: what is live, outputs, workspace, weights", CM_OPT_FLAG,
     offsetof(inspect_options, memory)},
    {"targets", NULL, "which layers have kernels on each target, and why others have none",
     CM_OPT_FLAG, offsetof(inspect_options, targets)},
    {"data", NULL, "the arguments are tensors (.npy, .npz, .pb): statistics and histograms",
     CM_OPT_FLAG, offsetof(inspect_options, data)},
    {"diff", NULL, "compare two models or plans: layers, types, tactics, expected times",
     CM_OPT_FLAG, offsetof(inspect_options, diff)},
    {"svg", "FILE", "write a picture of the network", CM_OPT_TEXT, offsetof(inspect_options, svg)},
    {"json", NULL, "print everything as JSON", CM_OPT_FLAG, offsetof(inspect_options, json)},
    {"dot", NULL, "print a graph for Graphviz", CM_OPT_FLAG, offsetof(inspect_options, dot)},
    {"text", NULL, "print a model in the text form", CM_OPT_FLAG, offsetof(inspect_options, text)},
    {"optimised", NULL, "show a model as the optimiser leaves it", CM_OPT_FLAG,
     offsetof(inspect_options, optimised)},
    {"after", "PASS", "show a model as it is after this pass", CM_OPT_TEXT,
     offsetof(inspect_options, after)},
    {"summary", NULL, "nodes by operator before and after, rewrites and time by pass", CM_OPT_FLAG,
     offsetof(inspect_options, summary)},
    {"verify", NULL, "read a plan's weights and check every byte", CM_OPT_FLAG,
     offsetof(inspect_options, verify)},
    CM_MODEL_OPTIONS(inspect_options, model),
};

const cm_cli_verb cm_verb_inspect = {
    .name = "inspect",
    .summary = "what is in a model or a plan",
    .usage = "[OPTION]... MODEL|PLAN, or --diff A B, or --data FILE...",
    .details =
        "Prints inputs and outputs with their types (sizes as expressions of the inputs' named\n"
        "dims), operators, layers, weights and memory.\n\n"
        "--memory and --targets bind shapes: symbolic dims are 1 unless --dim or --shape says "
        "more;\n"
        "a model is built for them. --targets shows every instruction set that this CPU has, and "
        "GPUs of\n"
        "several classes, whether there is one here or not.\n\n"
        "--diff matches layers by the ONNX nodes that they cover; - stands before what only A has, "
        "+\n"
        "before what only B has, ~ before what differs. It ends with 1 where anything does.",
    .examples = "  cameo inspect model.onnx\n"
                "  cameo inspect model.plan --layers\n"
                "  cameo inspect model.onnx --dot | dot -Tsvg > model.svg\n"
                "  cameo inspect model.plan --verify\n"
                "  cameo inspect model.onnx --summary\n"
                "  cameo inspect model.plan --memory --dim batch=8\n"
                "  cameo inspect model.onnx --targets\n"
                "  cameo inspect model.onnx --svg model.svg\n"
                "  cameo inspect --diff before.plan after.plan\n"
                "  cameo inspect --data inputs.npz output.npy\n"
                "  cameo inspect model.onnx --after fold_constants --text\n",
    .options_bytes = sizeof(inspect_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .run = run,
};
