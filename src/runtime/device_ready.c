/* device_ready.c -- what a device needs to run a step, by the tactic that was chosen or by the next best that can be had there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A choice may rest on what another machine measured: here a library of another version may refuse the problem, and a kernel that
 * the plan has no image of wants NVRTC. The problem stays as it is, layouts and all; who solves it is chosen again. */
#include <stdio.h>
#include <string.h>

#include "runtime/device.h"

static cm_status make_ready(cm_ctx *cx, const cm_context *c, cm_solution *sol, cm_arena *arena)
{
    const cm_tactic *t = sol->choice.tactic;
    sol->state = NULL;
    return t->ready
               ? t->ready(cx, c->device->device, arena, &sol->p, &sol->choice.knobs, &sol->state)
               : CM_OK;
}

/* Each tactic that is left, from the cheapest on. What refused two steps at once is asked again for one of them. */
static cm_status choose_again(cm_ctx *cx, const cm_context *c, const cm_ready_step *s,
                              cm_solution *sol, cm_arena *arena)
{
    const cm_tactic *refused[CM_MOST_CANDIDATES + 1];
    int n = 0;
    if (!sol->then)
        refused[n++] = sol->choice.tactic;
    sol->then = NULL;
    sol->p.then = NULL;
    sol->p.kept = false;
    for (;;) {
        cm_select_without(c, s, &sol->p, refused, n, &sol->choice);
        if (!sol->choice.tactic)
            return CM_ERR_DEVICE;
        cm_status st = make_ready(cx, c, sol, arena);
        if (st != CM_ERR_DEVICE)
            return st;
        refused[n++] = sol->choice.tactic;
    }
}

cm_status cm_device_ready(cm_ctx *cx, const cm_context *c, const cm_ready_step *s, cm_solution *sol,
                          cm_arena *arena)
{
    const cm_tactic *first = sol->choice.tactic;
    char why[sizeof cx->message];
    sol->refused = NULL;
    cm_status st = make_ready(cx, c, sol, arena);
    if (st != CM_ERR_DEVICE || !c->device->stream)
        return st;
    memcpy(why, cx->message, sizeof why);
    st = choose_again(cx, c, s, sol, arena);
    if (st == CM_ERR_DEVICE)
        memcpy(cx->message, why, sizeof why);
    if (st != CM_OK)
        return st;
    cx->message[0] = 0;
    sol->refused = cm_arena_printf(arena, "%s (%s)", first->name, why);
    return sol->refused ? CM_OK : cm_fail_memory(cx);
}

void cm_tell_refused(cm_ctx *cx, cm_context *c, const cm_ready_step *s, const cm_solution *sol,
                     int more)
{
    char others[48] = "";
    if (!cx->log || atomic_exchange(&c->engine->told_refused, true))
        return;
    if (more)
        snprintf(others, sizeof others, "; so it is with %d more node%s", more,
                 more > 1 ? "s" : "");
    cm_log(cx, CM_LOG_WARNING, "%s node '%s': %s is taken instead of %s%s", s->plan->op,
           s->plan->name, sol->choice.tactic->name, sol->refused, others);
}
