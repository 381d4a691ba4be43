/* lower.h -- a network to the steps of a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_LOWER_LOWER_H
#define CM_LOWER_LOWER_H

#include "ir/network.h"
#include "plan/plan.h"

/* Lower `g`, whose types were inferred, to a plan with one variant in `arena`. The plan shares g's
 * names, dim table and constants, so g's arena must outlive it. *constants gets one tensor per
 * CONSTANT value in order of value index, as the plan writer wants them. */
cm_status cm_lower(cm_ctx *cx, cm_arena *arena, cm_network *g, cm_plan **plan,
                   const cm_tensor *const **constants) CM_MUST_USE;

#endif
