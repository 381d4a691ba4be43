/* lowered.h -- the text of a network as an engine, without a plan's file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_LOWERED_H
#define CM_TESTS_LOWERED_H

#include "lower/lower.h"
#include "runtime/runtime.h"

static void open_lowered(cm_ctx *cx, cm_arena *arena, const char *text, cm_engine **e)
{
    cm_network *g;
    cm_plan *plan;
    const cm_tensor *const *constants;
    if (cm_network_parse(cx, arena, text, strlen(text), &g) != CM_OK ||
        cm_network_infer(cx, g) != CM_OK || cm_lower(cx, arena, g, &plan, &constants) != CM_OK ||
        cm_engine_open_lowered(cx, plan, constants, e) != CM_OK)
        fail_msg("%s", cx->message);
}

#endif
