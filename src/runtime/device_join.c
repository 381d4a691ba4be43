/* device_join.c -- steps of a device whose kernel does the step behind them as well.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies between the two is then not read again, and not written unless others want it. Both stand in the order of the
 * device's steps; the first one's kernel makes the second one's output, and the second does nothing. */
#include "runtime/device.h"

static bool runs_alone(const cm_ready_step *s, const cm_solution *sol)
{
    return s->control < 0 && sol->away && sol->way == CM_WAY_TACTIC && !sol->n_conversions &&
           !sol->counted;
}

/* Does `next` read what `s` makes, as its first input? */
static bool follows(const cm_ready_step *s, const cm_ready_step *next)
{
    int32_t v = s->plan->out[0].value;
    if (s->plan->n_out != 1 || v < 0 || next->plan->n_in < 1 || next->plan->in[0].value != v)
        return false;
    for (int i = 1; i < next->plan->n_in; i++)
        if (next->plan->in[i].value == v)
            return false;
    return true;
}

static double expected_ns(const cm_solution *sol)
{
    const cm_tactic *t = sol->choice.tactic;
    return t->cost(&sol->p, &sol->choice.knobs) + (t->apart_ns ? t->apart_ns(&sol->p) : 0);
}

/* Where one kernel is expected to be quicker than both. What was measured is of steps alone and does not tell. */
static void join(cm_context *c, const cm_ready_step *s, const cm_ready_step *next)
{
    cm_solution *first = &c->solutions[s->index], *second = &c->solutions[next->index];
    if (!runs_alone(s, first) || !runs_alone(next, second) || !follows(s, next))
        return;
    int32_t between = s->plan->out[0].value;
    cm_problem both = first->p;
    cm_choice choice;
    both.then = &second->p;
    both.kept = c->last[between] != next->end || cm_is_output(c, between);
    cm_select_expected(s, &both, &choice);
    if (!choice.tactic || choice.ns >= expected_ns(first) + expected_ns(second))
        return;
    first->p = both;
    first->choice = choice;
    first->workspace =
        choice.tactic->workspace ? choice.tactic->workspace(&both, &choice.knobs) : 0;
    first->then = next;
    second->joined = true;
}

void cm_join_steps(cm_context *c)
{
    const cm_ready_list *l = &c->engine->lists[0];
    if (c->profile && !c->only_times) /* all values are looked at */
        return;
    for (int i = 0; i + 1 < l->plan->n_steps; i++)
        join(c, &l->steps[i], &l->steps[i + 1]);
}
