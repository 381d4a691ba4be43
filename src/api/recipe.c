/* recipe.c -- options as text: collected, parsed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/recipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

cm_status cm_recipe_add(cm_ctx *cx, cm_arena *arena, cm_plan_build *b, const char *name,
                        const char *value)
{
    cm_plan_option *v;
    int n = b->n_options;
    CM_NEW_N(cx, arena, v, n + 1, cm_plan_option);
    if (n)
        memcpy(v, b->options, (size_t)n * sizeof *v);
    v[n] = (cm_plan_option){cm_arena_strdup(arena, name), cm_arena_strdup(arena, value)};
    if (!v[n].name || !v[n].value)
        return cm_fail_memory(cx);
    b->options = v;
    b->n_options = n + 1;
    return CM_OK;
}

/* Where the parts go: lists with room for every option. */
typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    cm_recipe *out;
    cm_import_dim *dims;
    cm_import_shape *shapes;
    const char **outputs, **only_outputs, **keep_fp32;
} parser;

/* NAME=REST: *name gets a copy of the part before the last '='. */
static cm_status split(parser *p, const cm_plan_option *o, const char **name, const char **rest)
{
    const char *equals = strrchr(o->value, '=');
    if (!equals || equals == o->value)
        return cm_fail(p->cx, CM_ERR_ARGUMENT, "--%s %s: wanted NAME=...", o->name, o->value);
    *name = cm_arena_strndup(p->arena, o->value, (size_t)(equals - o->value));
    *rest = equals + 1;
    return *name ? CM_OK : cm_fail_memory(p->cx);
}

static bool parse_size(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && !errno && *out >= 0;
}

static cm_status parse_dim(parser *p, const cm_plan_option *o)
{
    cm_import_dim *d = &p->dims[p->out->import.n_dims++];
    const char *rest;
    CM_TRY(split(p, o, &d->name, &rest));
    return parse_size(rest, &d->value)
               ? CM_OK
               : cm_fail(p->cx, CM_ERR_ARGUMENT, "--dim %s: wanted NAME=N", o->value);
}

static cm_status parse_shape(parser *p, const cm_plan_option *o)
{
    cm_import_shape *s = &p->shapes[p->out->import.n_shapes++];
    const char *at;
    int64_t dims[CM_MAX_RANK];
    CM_TRY(split(p, o, &s->input, &at));
    s->rank = 0;
    while (*at) {
        char *end;
        if (s->rank == CM_MAX_RANK)
            return cm_fail(p->cx, CM_ERR_ARGUMENT, "--shape %s: more than %d dims", o->value,
                           CM_MAX_RANK);
        dims[s->rank++] = strtoll(at, &end, 10);
        if (end == at || (*end && *end != 'x') || dims[s->rank - 1] < 0)
            return cm_fail(p->cx, CM_ERR_ARGUMENT, "--shape %s: wanted NAME=AxBxC", o->value);
        at = *end ? end + 1 : end;
    }
    s->dims = cm_arena_memdup(p->arena, dims, (size_t)s->rank * sizeof *dims);
    return s->dims ? CM_OK : cm_fail_memory(p->cx);
}

static cm_status parse_output(parser *p, const cm_plan_option *o)
{
    p->outputs[p->out->import.n_outputs++] = o->value;
    return CM_OK;
}

static cm_status parse_only_output(parser *p, const cm_plan_option *o)
{
    p->only_outputs[p->out->n_only_outputs++] = o->value;
    return CM_OK;
}

static cm_status parse_precision(parser *p, const cm_plan_option *o)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (!strcmp(o->value, names[i])) {
            p->out->compile.optimise.precision = (cm_precision)i;
            return CM_OK;
        }
    if (!strcmp(o->value, "auto"))
        return cm_fail(p->cx, CM_ERR_ARGUMENT, "--precision auto measures, and is for build only");
    return cm_fail(p->cx, CM_ERR_ARGUMENT, "--precision %s: wanted fp32, tf32, fp16, bf16 or auto",
                   o->value);
}

static cm_status parse_keep_fp32(parser *p, const cm_plan_option *o)
{
    p->keep_fp32[p->out->compile.optimise.n_keep_fp32++] = o->value;
    return CM_OK;
}

static cm_status parse_no_optimise(parser *p, const cm_plan_option *o)
{
    (void)o;
    p->out->compile.no_optimise = true;
    return CM_OK;
}

static cm_status parse_stop_after(parser *p, const cm_plan_option *o)
{
    p->out->compile.optimise.stop_after = o->value;
    if (cm_pass_find(o->value))
        return CM_OK;
    const char *names[128];
    int n = cm_n_passes < CM_COUNT(names) ? cm_n_passes : CM_COUNT(names);
    for (int i = 0; i < n; i++)
        names[i] = cm_passes[i].name;
    const char *near = cm_suggest(o->value, names, n);
    return cm_fail(p->cx, CM_ERR_ARGUMENT,
                   near ? "there is no pass '%s'; did you mean '%s'?" : "there is no pass '%s'",
                   o->value, near);
}

static cm_status parse_stop_after_rewrite(parser *p, const cm_plan_option *o)
{
    return parse_size(o->value, &p->out->compile.optimise.stop_after_rewrite)
               ? CM_OK
               : cm_fail(p->cx, CM_ERR_ARGUMENT, "--stop-after-rewrite %s: wanted a number",
                         o->value);
}

static const struct {
    const char *name;
    cm_status (*parse)(parser *p, const cm_plan_option *o);
} known[] = {
    {"dim", parse_dim},
    {"shape", parse_shape},
    {"outputs", parse_output},
    {"only-outputs", parse_only_output},
    {"precision", parse_precision},
    {"keep-fp32", parse_keep_fp32},
    {"no-optimise", parse_no_optimise},
    {"stop-after", parse_stop_after},
    {"stop-after-rewrite", parse_stop_after_rewrite},
};

static cm_status parse_option(parser *p, const cm_plan_option *o)
{
    for (int i = 0; i < CM_COUNT(known); i++)
        if (!strcmp(o->name, known[i].name))
            return known[i].parse(p, o);
    return cm_fail(p->cx, CM_ERR_ARGUMENT, "build option '%s' is not known to this version",
                   o->name);
}

cm_status cm_recipe_parse(cm_ctx *cx, cm_arena *arena, const cm_plan_build *b, cm_recipe *out)
{
    parser p = {.cx = cx, .arena = arena, .out = out};
    int n = b->n_options;
    *out = (cm_recipe){.compile = CM_COMPILE_DEFAULT};
    CM_NEW_N(cx, arena, p.dims, n, cm_import_dim);
    CM_NEW_N(cx, arena, p.shapes, n, cm_import_shape);
    CM_NEW_N(cx, arena, p.outputs, n, const char *);
    CM_NEW_N(cx, arena, p.only_outputs, n, const char *);
    CM_NEW_N(cx, arena, p.keep_fp32, n, const char *);
    for (int i = 0; i < n; i++)
        CM_TRY(parse_option(&p, &b->options[i]));
    out->import.dims = p.dims;
    out->import.shapes = p.shapes;
    out->import.outputs = p.outputs;
    out->only_outputs = p.only_outputs;
    out->compile.optimise.keep_fp32 = p.keep_fp32;
    out->compile.build = b;
    return CM_OK;
}

static bool keeps(const cm_recipe *r, const char *output)
{
    for (int k = 0; k < r->n_only_outputs; k++)
        if (!strcmp(output, r->only_outputs[k]))
            return true;
    return false;
}

cm_status cm_recipe_keep_outputs(cm_ctx *cx, const cm_recipe *r, cm_network *g)
{
    for (int k = 0; k < r->n_only_outputs; k++) {
        bool found = false;
        for (int i = 0; i < g->n_outputs && !found; i++)
            found = !strcmp(g->output_names[i], r->only_outputs[k]);
        if (!found)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--only-outputs: the model has no output '%s'",
                           r->only_outputs[k]);
    }
    for (int i = g->n_outputs - 1; i >= 0 && r->n_only_outputs; i--)
        if (!keeps(r, g->output_names[i]))
            cm_network_remove_output(g, i);
    return CM_OK;
}
