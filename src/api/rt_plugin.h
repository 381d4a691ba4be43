/* rt_plugin.h -- operators of plugins as rows of the registry.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row begins with the cm_op that everybody else sees; the functions of its family and of its tactics find the
 * plugin's own behind it. */
#ifndef CM_API_RT_PLUGIN_H
#define CM_API_RT_PLUGIN_H

#include "api/api.h"
#include "cameo_plugin.h"
#include "ops/eval.h"
#include "ops/problem.h"

typedef struct cm_plugin_row {
    cm_op op; /* first */
    const cameo_plugin_op *own;
    cm_attr_desc attrs;
    cm_attr_field *fields;
    cm_problem_row problem;
    cm_tactic tactics[CM_DEVICE_COUNT][CAMEO_MAX_TACTICS];
    const cameo_plugin_tactic
        *own_tactics[CM_DEVICE_COUNT][CAMEO_MAX_TACTICS]; /* what they stand for */
} cm_plugin_row;

static inline const cm_plugin_row *cm_plugin_row_of(const cm_op *op)
{
    return (const cm_plugin_row *)(const void *)op;
}

/* What a plugin's tactics are shown of a problem; its tensors are the problem's as the API has them. */
typedef struct cm_plugin_problem {
    const cm_plugin_row *row;
    cameo_problem seen;
} cm_plugin_problem;

/* Does the plugin's struct reach as far as this field? */
#define CM_PLUGIN_HAS(s, field)                                                                    \
    ((s)->size >= offsetof(__typeof__(*(s)), field) + sizeof((s)->field))

/* rt_plugin_attrs.c: an operator's attributes as the API has them, in `arena`. */
cm_status cm_plugin_attrs(cm_ctx *cx, cm_arena *arena, const cm_plugin_row *row, const void *attr,
                          const cameo_attr **out) CM_MUST_USE;
/* The descriptor of the row's attribute struct. */
cm_status cm_plugin_describe(cm_ctx *cx, cm_arena *arena, cm_plugin_row *row) CM_MUST_USE;

/* rt_plugin_calls.c: type rule and evaluator. */
extern const cm_family cm_plugin_family;

/* rt_plugin_tactics.c: fill in the row's tactics and problem. */
cm_status cm_plugin_tactics(cm_ctx *cx, cm_plugin_row *row) CM_MUST_USE;

/* rt_plugin_cuda.c: `ready` and `run` of a tactic whose kernel the plugin gives as text. */
cm_status cm_plugin_kernel_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                 const cameo_plugin_tactic *t, const void **state) CM_MUST_USE;
cm_status cm_plugin_kernel_run(const cm_run *r) CM_MUST_USE;

/* The status that a plugin's function returned, as ours; numbers that are none are CM_ERR_INTERNAL. */
cm_status cm_plugin_status(cm_ctx *cx, const cm_op *op, cameo_status st) CM_MUST_USE;

#endif
