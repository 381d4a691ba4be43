/* compile.c -- network to plan: verify, infer, lower, write.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/compile.h"

#include "lower/lower.h"

cm_status cm_compile(cm_ctx *cx, cm_arena *arena, cm_network *g, cm_plan **plan,
                     const cm_tensor *const **constants)
{
    CM_TRY(cm_report(cx, "checking", 0, 3));
    CM_TRY(cm_network_verify(cx, g));
    CM_TRY(cm_report(cx, "lowering", 1, 3));
    CM_TRY(cm_lower(cx, arena, g, plan, constants));
    return cm_report(cx, "writing", 2, 3);
}

typedef cm_status (*writer)(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                            void *to);

static cm_status compile_to(cm_ctx *cx, cm_network *g, writer write, void *to)
{
    cm_arena arena;
    cm_plan *plan;
    const cm_tensor *const *constants;
    cm_arena_init(&arena, cx->allocator);
    cm_status st = cm_compile(cx, &arena, g, &plan, &constants);
    if (st == CM_OK)
        st = write(cx, plan, constants, to);
    if (st == CM_OK)
        st = cm_report(cx, "writing", 3, 3);
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

cm_status cm_compile_memory(cm_ctx *cx, cm_network *g, cm_buf *out)
{
    return compile_to(cx, g, to_memory, out);
}

cm_status cm_compile_file(cm_ctx *cx, cm_network *g, const char *path)
{
    return compile_to(cx, g, to_file, (void *)path);
}
