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

static cm_status add_all(cm_ctx *cx, cm_plan_build *b, const char *name, const cm_texts *t)
{
    for (int i = 0; i < t->n; i++)
        CM_TRY(cm_recipe_add(cx, cx->arena, b, name, t->v[i]));
    return CM_OK;
}

static cm_status add_one(cm_ctx *cx, cm_plan_build *b, const char *name, const char *value)
{
    return value ? cm_recipe_add(cx, cx->arena, b, name, value) : CM_OK;
}

cm_status cm_model_recipe(cm_ctx *cx, const cm_model_options *o, cm_recipe *out)
{
    cm_plan_build *b;
    const char *rewrites = NULL;
    CM_NEW(cx, cx->arena, b, cm_plan_build);
    CM_TRY(add_all(cx, b, "dim", &o->dims));
    CM_TRY(add_all(cx, b, "shape", &o->shapes));
    CM_TRY(add_all(cx, b, "outputs", &o->outputs));
    CM_TRY(add_all(cx, b, "only-outputs", &o->only_outputs));
    CM_TRY(add_one(cx, b, "precision", o->precision));
    CM_TRY(add_all(cx, b, "keep-fp32", &o->keep_fp32));
    CM_TRY(add_one(cx, b, "no-optimise", o->no_optimise ? "" : NULL));
    CM_TRY(add_one(cx, b, "stop-after", o->stop_after));
    if (o->stop_after_rewrite > 0) {
        rewrites = cm_arena_printf(cx->arena, "%lld", (long long)o->stop_after_rewrite);
        if (!rewrites)
            return cm_fail_memory(cx);
    }
    CM_TRY(add_one(cx, b, "stop-after-rewrite", rewrites));
    return cm_recipe_parse(cx, cx->arena, b, out);
}

cm_status cm_model_compile_options(cm_ctx *cx, const cm_model_options *o, cm_compile_options *out)
{
    cm_recipe r;
    CM_TRY(cm_model_recipe(cx, o, &r));
    *out = r.compile;
    return CM_OK;
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
    if (o->target && o->isa)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--isa goes with the CPU, not with --target %s",
                       o->target);
    if (o->target)
        CM_TRY(cm_target_parse(cx, o->target, target));
    if (target->kind == CM_DEVICE_CPU && target->level > (int)cm_cpu_info()->isa)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--target %s: this CPU has only %s", o->target,
                       cm_isa_name(cm_cpu_info()->isa));
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
    cm_model_options how = *o;
    cm_recipe r;
    uint64_t start = cm_now_ns();
    *out = (cm_model){0};
    cm_arena_init(&out->arena, cx->allocator);
    cm_buf_init(&out->plan, cx->allocator);
    how.precision = NULL; /* "auto" is the caller's to resolve, and importing does not ask */
    CM_TRY(cm_model_recipe(cx, &how, &r));
    r.import.stripped = o->stripped;
    CM_TRY(cm_onnx_import_file(cx, &out->arena, path, &r.import, &out->source, &out->network));
    CM_TRY(cm_recipe_keep_outputs(cx, &r, out->network));
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
    CM_TRY(cm_compile_open(cx, plan, constants, out->source, &out->engine));
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
