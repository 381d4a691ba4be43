/* memory_plan.h -- offsets in one arena for values that live at different times.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_RUNTIME_MEMORY_PLAN_H
#define CM_RUNTIME_MEMORY_PLAN_H

#include "base/status.h"

typedef struct cm_interval {
    int first, last; /* positions, both counted in */
    size_t bytes;
    size_t offset; /* the answer, a multiple of 64 */
} cm_interval;

enum { CM_MEMORY_ALIGN = 64 };

/* Place intervals, given in order of `first`, so that no two that overlap in time overlap in memory.
 * Empty ones share offset 0. *total is the size of the arena.
 * `scratch` holds tables until the call returns. CM_ERR_MEMORY also when the total overflows. */
cm_status cm_memory_plan(cm_ctx *cx, cm_arena *scratch, cm_interval *v, int n,
                         size_t *total) CM_MUST_USE;

#endif
