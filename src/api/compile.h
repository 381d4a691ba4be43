/* compile.h -- the way of a model, in one call: network in, plan out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_COMPILE_H
#define CM_API_COMPILE_H

#include "onnx/onnx.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

/* How a network becomes a plan. NULL where one is wanted: the defaults. */
typedef struct cm_compile_options {
    bool no_optimise; /* lower the network as it is */
    cm_optimise_options optimise;
    const cm_plan_build *build; /* for the plan to keep; NULL: nothing that would give it again */
    bool strip_weights;         /* write the plan without them */
} cm_compile_options;
#define CM_COMPILE_DEFAULT                                                                         \
    {                                                                                              \
        .optimise = CM_OPTIMISE_DEFAULT                                                            \
    }

/* Check, optimise and lower `g`, which is rewritten; the plan and its constants live in `arena` and
 * point into g's. */
cm_status cm_compile(cm_ctx *cx, cm_arena *arena, cm_network *g, const cm_compile_options *o,
                     cm_plan **plan, const cm_tensor *const **constants) CM_MUST_USE;
/* An engine of what cm_compile made of a model from `source` (NULL: from elsewhere); weights that it packs need not
 * stay in memory besides. */
cm_status cm_compile_open(cm_ctx *cx, cm_plan *plan, const cm_tensor *const *constants,
                          cm_onnx_source *source, cm_engine **out) CM_MUST_USE;
/* The same, written to memory or to a file. */
cm_status cm_compile_memory(cm_ctx *cx, cm_network *g, const cm_compile_options *o,
                            cm_buf *out) CM_MUST_USE;
cm_status cm_compile_file(cm_ctx *cx, cm_network *g, const cm_compile_options *o,
                          const char *path) CM_MUST_USE;

#endif
