/* packed.h -- the plan file's section of constants that are stored packed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_PACKED_H
#define CM_PLAN_PACKED_H

#include "base/buf.h"
#include "plan/plan.h"

/* `arena` is for tables; `names` has the string index of each entry's tactic. */
cm_status cm_packed_write(cm_ctx *cx, cm_arena *arena, const cm_plan *p, const uint32_t *names,
                          cm_buf *out) CM_MUST_USE;
/* Into p->packed and its like; `strings` are the plan's. What needs other sections is checked by
 * cm_packed_check. */
cm_status cm_packed_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                         const char *const *strings, uint32_t n_strings, cm_plan *p) CM_MUST_USE;
/* Every entry has its constants and its step. (Do stored bytes fit the packing? Reading values asks that.) */
cm_status cm_packed_check(cm_ctx *cx, const cm_plan *p) CM_MUST_USE;

#endif
