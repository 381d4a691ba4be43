/* compile.c -- network to plan: verify, optimise, lower, write.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/compile.h"

#include "lower/lower.h"

/* The runtime knows by it that products may shorten their operands. */
static cm_status name_variant(cm_ctx *cx, cm_arena *arena, cm_plan *p, const char *name)
{
    cm_plan_variant *v;
    CM_NEW(cx, arena, v, cm_plan_variant);
    *v = p->variants[0];
    v->name = name;
    p->variants = v;
    return CM_OK;
}

static cm_status compile(cm_ctx *cx, cm_arena *arena, cm_network *g, const cm_compile_options *o,
                         cm_plan **plan, const cm_tensor *const **constants)
{
    if (o->strip_weights && !o->build)
        return cm_fail(
            cx, CM_ERR_ARGUMENT,
            "the network does not come from a model's file as it is: weights left out of "
            "its plan could not be put back");
    CM_TRY(cm_network_verify(cx, g));
    cm_optimise_options optimise = o->optimise;
    optimise.for_plan = true;
    if (!o->no_optimise)
        CM_TRY(cm_optimise(cx, g, &optimise, NULL, NULL));
    CM_TRY(cm_report(cx, "lowering", 0, 1));
    CM_TRY(cm_lower(cx, arena, g, plan, constants));
    (*plan)->build = o->build;
    return o->optimise.precision == CM_PRECISION_TF32 ? name_variant(cx, arena, *plan, "tf32")
                                                      : CM_OK;
}

cm_status cm_compile(cm_ctx *cx, cm_arena *arena, cm_network *g, const cm_compile_options *o,
                     cm_plan **plan, const cm_tensor *const **constants)
{
    static const cm_compile_options defaults = CM_COMPILE_DEFAULT;
    cm_arena scratch, *outer = cx->scratch; /* folding takes much of it, for no longer than this */
    cm_arena_init(&scratch, cx->allocator);
    cx->scratch = &scratch;
    cm_status st = compile(cx, arena, g, o ? o : &defaults, plan, constants);
    cx->scratch = outer;
    cm_arena_deinit(&scratch);
    return st;
}

cm_status cm_compile_open(cm_ctx *cx, cm_plan *plan, const cm_tensor *const *constants,
                          cm_onnx_source *source, cm_engine **out)
{
    const cm_constant_source again = {cm_onnx_source_let_go, cm_onnx_source_fetch, source};
    int n = 0;
    CM_TRY(cm_engine_open_lowered(cx, plan, constants, out));
    for (int i = 0; i < plan->n_values; i++)
        n += plan->values[i].storage == CM_STORE_CONSTANT;
    cm_status st = source ? cm_engine_set_source(cx, *out, &again) : CM_OK;
    if (st != CM_OK) {
        cm_engine_release(*out);
        *out = NULL;
        return st;
    }
    cm_onnx_source_forget(source, NULL, 0); /* what the passes read; packing reads again */
    cm_onnx_source_lend(source, constants, n);
    return CM_OK;
}

typedef cm_status (*writer)(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                            void *to);

static cm_status compile_to(cm_ctx *cx, cm_network *g, const cm_compile_options *o, writer write,
                            void *to)
{
    cm_arena arena;
    cm_plan *plan;
    const cm_tensor *const *constants;
    cm_arena_init(&arena, cx->allocator);
    cm_status st = cm_compile(cx, &arena, g, o, &plan, &constants);
    if (st == CM_OK)
        st = cm_report(cx, "writing", 0, 1);
    if (st == CM_OK)
        plan->stripped = o && o->strip_weights;
    if (st == CM_OK)
        st = write(cx, plan, constants, to);
    if (st == CM_OK)
        st = cm_report(cx, "writing", 1, 1);
    cm_arena_deinit(&arena);
    return st;
}

static cm_status to_memory(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                           void *to)
{
    return cm_plan_write_memory(cx, p, constants, to);
}

static cm_status to_file(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants, void *to)
{
    return cm_plan_write_file(cx, p, constants, to);
}

cm_status cm_compile_memory(cm_ctx *cx, cm_network *g, const cm_compile_options *o, cm_buf *out)
{
    return compile_to(cx, g, o, to_memory, out);
}

cm_status cm_compile_file(cm_ctx *cx, cm_network *g, const cm_compile_options *o, const char *path)
{
    return compile_to(cx, g, o, to_file, (void *)path);
}
