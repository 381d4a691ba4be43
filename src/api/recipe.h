/* recipe.h -- how a model becomes a plan, as text options: what commands are given and plans keep.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     dim NAME=N, shape INPUT=AxBxC, outputs NAME, only-outputs NAME, precision P, keep-fp32 NODE,
 *     no-optimise, stop-after PASS, stop-after-rewrite N
 *
 * One entry a name; those that take a list are given several times. */
#ifndef CM_API_RECIPE_H
#define CM_API_RECIPE_H

#include "api/compile.h"
#include "onnx/onnx.h"

typedef struct cm_recipe {
    cm_import_options import;
    cm_compile_options compile;
    int n_only_outputs; /* 0: all outputs stay */
    const char *const *only_outputs;
} cm_recipe;

/* One more option; the list lives in `arena` and is given with its own copy of the text. */
cm_status cm_recipe_add(cm_ctx *cx, cm_arena *arena, cm_plan_build *b, const char *name,
                        const char *value) CM_MUST_USE;
/* The options as those who import and compile want them; in `arena`, pointing into the texts. An option
 * that is not known or says nonsense is CM_ERR_ARGUMENT: "--dim x: wanted NAME=N". */
cm_status cm_recipe_parse(cm_ctx *cx, cm_arena *arena, const cm_plan_build *b,
                          cm_recipe *out) CM_MUST_USE;
/* Drop the outputs that the recipe does not keep. */
cm_status cm_recipe_keep_outputs(cm_ctx *cx, const cm_recipe *r, cm_network *g) CM_MUST_USE;

#endif
