/* model.c -- opens a model or a plan for a verb.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "plan/format.h"

static double seconds_since(uint64_t start)
{
    return (double)(cm_now_ns() - start) * 1e-9;
}

/* NAME=REST: *name gets a copy of the part before the last '='. */
static cm_status split(cm_ctx *cx, const char *option, const char *text, const char **name,
                       const char **rest)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--%s %s: wanted NAME=...", option, text);
    *name = cm_arena_strndup(cx->arena, text, (size_t)(equals - text));
    *rest = equals + 1;
    return *name ? CM_OK : cm_fail_memory(cx);
}

static cm_status parse_shape(cm_ctx *cx, const char *text, cm_import_shape *out)
{
    const char *p;
    int64_t dims[CM_MAX_RANK];
    CM_TRY(split(cx, "shape", text, &out->input, &p));
    out->rank = 0;
    while (*p) {
        char *end;
        if (out->rank == CM_MAX_RANK)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--shape %s: more than %d dims", text, CM_MAX_RANK);
        dims[out->rank++] = strtoll(p, &end, 10);
        if (end == p || (*end && *end != 'x') || dims[out->rank - 1] < 0)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--shape %s: wanted NAME=AxBxC", text);
        p = *end ? end + 1 : end;
    }
    out->dims = cm_arena_memdup(cx->arena, dims, (size_t)out->rank * sizeof *dims);
    return out->dims ? CM_OK : cm_fail_memory(cx);
}

static cm_status import_options(cm_ctx *cx, const cm_model_options *o, cm_import_options *out)
{
    *out = (cm_import_options){.n_outputs = o->outputs.n, .outputs = o->outputs.v};
    cm_import_dim *dims;
    cm_import_shape *shapes;
    CM_NEW_N(cx, cx->arena, dims, o->dims.n, cm_import_dim);
    CM_NEW_N(cx, cx->arena, shapes, o->shapes.n, cm_import_shape);
    for (int i = 0; i < o->dims.n; i++) {
        const char *rest;
        char *end;
        CM_TRY(split(cx, "dim", o->dims.v[i], &dims[i].name, &rest));
        dims[i].value = strtoll(rest, &end, 10);
        if (!*rest || *end || dims[i].value < 0)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--dim %s: wanted NAME=N", o->dims.v[i]);
    }
    for (int i = 0; i < o->shapes.n; i++)
        CM_TRY(parse_shape(cx, o->shapes.v[i], &shapes[i]));
    out->n_dims = o->dims.n;
    out->dims = dims;
    out->n_shapes = o->shapes.n;
    out->shapes = shapes;
    return CM_OK;
}

static cm_status parse_precision(cm_ctx *cx, const char *text, cm_precision *out)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (!strcmp(text, names[i])) {
            *out = (cm_precision)i;
            return CM_OK;
        }
    if (!strcmp(text, "auto"))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--precision auto measures, and is for build only");
    return cm_fail(cx, CM_ERR_ARGUMENT, "--precision %s: wanted fp32, tf32, fp16, bf16 or auto",
                   text);
}

/* Drop the outputs that were not asked for. */
static cm_status keep_outputs(cm_ctx *cx, cm_network *g, const cm_texts *names)
{
    for (int k = 0; k < names->n; k++) {
        bool found = false;
        for (int i = 0; i < g->n_outputs && !found; i++)
            found = !strcmp(g->output_names[i], names->v[k]);
        if (!found)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--only-outputs: the model has no output '%s'",
                           names->v[k]);
    }
    for (int i = g->n_outputs - 1; i >= 0 && names->n; i--) {
        bool wanted = false;
        for (int k = 0; k < names->n && !wanted; k++)
            wanted = !strcmp(g->output_names[i], names->v[k]);
        if (!wanted)
            cm_network_remove_output(g, i);
    }
    return CM_OK;
}

cm_status cm_model_compile_options(cm_ctx *cx, const cm_model_options *o, cm_compile_options *out)
{
    *out = (cm_compile_options)CM_COMPILE_DEFAULT;
    out->no_optimise = o->no_optimise;
    if (o->stop_after_rewrite > 0)
        out->optimise.stop_after_rewrite = o->stop_after_rewrite;
    out->optimise.stop_after = o->stop_after;
    out->optimise.n_keep_fp32 = o->keep_fp32.n;
    out->optimise.keep_fp32 = o->keep_fp32.v;
    if (o->precision)
        CM_TRY(parse_precision(cx, o->precision, &out->optimise.precision));
    if (!o->stop_after || cm_pass_find(o->stop_after))
        return CM_OK;
    const char *names[128];
    int n = cm_n_passes < CM_COUNT(names) ? cm_n_passes : CM_COUNT(names);
    for (int i = 0; i < n; i++)
        names[i] = cm_passes[i].name;
    const char *near = cm_suggest(o->stop_after, names, n);
    return cm_fail(cx, CM_ERR_ARGUMENT,
                   near ? "there is no pass '%s'; did you mean '%s'?" : "there is no pass '%s'",
                   o->stop_after, near);
}

cm_status cm_model_context_options(cm_ctx *cx, const cm_model_options *o, cm_target *target,
                                   cm_context_options *out)
{
    cm_isa isa = cm_cpu_info()->isa;
    if (o->isa && !cm_isa_parse(o->isa, &isa))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--isa %s: wanted generic, avx2, avx512 or amx",
                       o->isa);
    if (isa > cm_cpu_info()->isa)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--isa %s: this CPU has only %s", o->isa,
                       cm_isa_name(cm_cpu_info()->isa));
    *target = (cm_target){CM_DEVICE_CPU, (int)isa, 0};
    if (o->max_memory < 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--max-memory %lld: wanted megabytes",
                       (long long)o->max_memory);
    *out = (cm_context_options){
        .threads = (int)o->threads, .target = target, .max_memory = (size_t)o->max_memory << 20};
    return CM_OK;
}

bool cm_is_plan(const void *bytes, size_t n)
{
    return n >= sizeof CM_PLAN_MAGIC - 1 && !memcmp(bytes, CM_PLAN_MAGIC, sizeof CM_PLAN_MAGIC - 1);
}

cm_status cm_is_plan_file(cm_ctx *cx, const char *path, bool *out)
{
    cm_mapping m;
    CM_TRY(cm_file_map(cx, path, &m));
    *out = cm_is_plan(m.data, m.n);
    cm_file_unmap(&m);
    return CM_OK;
}

cm_status cm_model_import(cm_ctx *cx, const char *path, const cm_model_options *o, cm_model *out)
{
    cm_import_options io;
    uint64_t start = cm_now_ns();
    *out = (cm_model){0};
    cm_arena_init(&out->arena, cx->allocator);
    cm_buf_init(&out->plan, cx->allocator);
    CM_TRY(import_options(cx, o, &io));
    CM_TRY(cm_onnx_import_file(cx, &out->arena, path, &io, &out->source, &out->network));
    CM_TRY(keep_outputs(cx, out->network, &o->only_outputs));
    out->import_seconds = seconds_since(start);
    return CM_OK;
}

cm_status cm_model_open(cm_ctx *cx, const char *path, const cm_model_options *o, cm_model *out)
{
    bool is_plan;
    *out = (cm_model){0};
    CM_TRY(cm_is_plan_file(cx, path, &is_plan));
    if (is_plan) {
        uint64_t start = cm_now_ns();
        if (o->outputs.n)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--outputs needs a model: %s is a plan", path);
        CM_TRY(cm_engine_open_file(cx, path, NULL, &out->engine));
        out->open_seconds = seconds_since(start);
        return CM_OK;
    }
    CM_TRY(cm_model_import(cx, path, o, out));
    uint64_t start = cm_now_ns();
    cm_compile_options co;
    CM_TRY(cm_model_compile_options(cx, o, &co));
    cm_plan *plan;
    const cm_tensor *const *constants;
    cm_status st = cm_compile(cx, &out->arena, out->network, &co, &plan, &constants);
    if (st != CM_OK)
        return cm_while(cx, st, "%s", path);
    out->build_seconds = seconds_since(start);
    start = cm_now_ns();
    CM_TRY(cm_engine_open_lowered(cx, plan, constants, &out->engine));
    out->open_seconds = seconds_since(start);
    return CM_OK;
}

void cm_model_close(cm_model *m)
{
    cm_engine_release(m->engine);
    cm_buf_deinit(&m->plan);
    cm_onnx_source_close(m->source);
    cm_arena_deinit(&m->arena);
    *m = (cm_model){0};
}
