/* explain.c -- `cameo explain`: what the optimiser almost did, and which nodes ended up where.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>

#include "cli/explain_tactics.h"

typedef struct {
    cm_model_options model;
    bool json, tactics;
} explain_options;

static int count_misses(const cm_near_miss *m, const char *pass)
{
    int n = 0;
    for (; m; m = m->next)
        n += !strcmp(m->pass, pass);
    return n;
}

static void print_misses(const cm_near_miss *misses)
{
    if (!misses)
        printf("no pattern almost matched\n");
    for (int i = 0; i < cm_n_passes; i++) {
        int n = count_misses(misses, cm_passes[i].name);
        if (n)
            printf("%s: %d almost matched\n", cm_passes[i].name, n);
        for (const cm_near_miss *m = misses; m && n; m = m->next)
            if (!strcmp(m->pass, cm_passes[i].name))
                printf("  '%s': %s\n", m->node, m->why);
    }
}

static void print_layers(const cm_network *g, int depth)
{
    CM_FOR_NODES (n, g) {
        printf("  %*s%s '%s'", depth * 2, "", n->op->name, n->name);
        if (n->epilogue.program)
            printf(" then \"%s\"", n->epilogue.program);
        printf(" covers");
        for (int i = 0; i < n->n_from; i++)
            printf("%s '%s'", i ? "," : "", n->from[i]);
        printf(n->n_from ? "\n" : " no node of the model\n");
        for (int s = 0; s < n->n_subs; s++)
            print_layers(n->subs[s], depth + 1);
    }
}

static void add_layers(const cm_network *g, json_t *to)
{
    CM_FOR_NODES (n, g) {
        json_t *from = json_array();
        for (int i = 0; i < n->n_from; i++)
            json_array_append_new(from, json_string(n->from[i]));
        json_array_append_new(to, json_pack("{s:s, s:s, s:s?, s:o}", "name", n->name, "operator",
                                            n->op->name, "epilogue", n->epilogue.program, "covers",
                                            from));
        for (int s = 0; s < n->n_subs; s++)
            add_layers(n->subs[s], to);
    }
}

static cm_status print_json(cm_ctx *cx, const cm_network *g, const cm_near_miss *misses)
{
    json_t *near = json_array(), *layers = json_array();
    for (const cm_near_miss *m = misses; m; m = m->next)
        json_array_append_new(
            near, json_pack("{s:s, s:s, s:s}", "pass", m->pass, "node", m->node, "reason", m->why));
    add_layers(g, layers);
    json_t *all = json_pack("{s:o, s:o}", "almostMatched", near, "layers", layers);
    if (!all)
        return cm_fail_memory(cx);
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
    return CM_OK;
}

static cm_status explain(cm_ctx *cx, const explain_options *o, const char *path, cm_model *m)
{
    cm_compile_options co;
    const cm_near_miss *misses;
    CM_TRY(cm_model_compile_options(cx, &o->model, &co));
    CM_TRY(cm_model_import(cx, path, &o->model, m));
    co.optimise.collect_misses = true;
    co.optimise.for_plan = true;
    CM_TRY(cm_optimise(cx, m->network, &co.optimise, NULL, &misses));
    if (o->json)
        return print_json(cx, m->network, misses);
    print_misses(misses);
    printf("\nlayers:\n");
    print_layers(m->network, 0);
    return CM_OK;
}

/* The kernels of a plan, or of the plan that a model would become. */
static cm_status explain_plan(cm_ctx *cx, const explain_options *o, const char *path, cm_model *m)
{
    CM_TRY(cm_model_open(cx, path, &o->model, m));
    json_t *layers = o->json ? json_array() : NULL;
    cm_status st = cm_explain_tactics(cx, m->engine, &o->model, layers);
    if (st == CM_OK && layers) {
        json_dumpf(layers, stdout, JSON_INDENT(2));
        printf("\n");
    }
    json_decref(layers);
    return st;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const explain_options *o = options;
    if (n_args != 1)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_ARGUMENT, "explain needs one model or plan"));
    cm_model m = {0};
    bool plan = false;
    cm_status st = cm_is_plan_file(cx, args[0], &plan);
    if (st == CM_OK)
        st = plan || o->tactics ? explain_plan(cx, o, args[0], &m) : explain(cx, o, args[0], &m);
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static const cm_cli_option table[] = {
    {"json", NULL, "print it as JSON", CM_OPT_FLAG, offsetof(explain_options, json)},
    {"tactics", NULL, "of a model: the kernels of its plan, as for a plan", CM_OPT_FLAG,
     offsetof(explain_options, tactics)},
    CM_MODEL_OPTIONS(explain_options, model),
};

const cm_cli_verb cm_verb_explain = {
    .name = "explain",
    .summary = "why each layer is as it is",
    .usage = "[OPTION]... MODEL|PLAN",
    .details =
        "Optimises a model and lists the patterns that almost matched, pass by pass, each with "
        "its\n"
        "node and the condition that failed. Then every layer of the optimised network with the\n"
        "nodes of the model that it covers.\n\n"
        "Of a plan it lists for each layer the kernel that runs it on this machine (*), the others "
        "with\n"
        "the time each was measured or is expected to take, and those that decline, with the "
        "reason.",
    .examples = "  cameo explain model.onnx\n"
                "  cameo explain model.plan --threads 1\n"
                "  cameo explain model.onnx --json | jq '.almostMatched[].reason'\n",
    .options_bytes = sizeof(explain_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .run = run,
};
