/* verify.c -- what must hold across a plan's sections before anyone walks it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Step lists form a tree: list 0 is the root, every other one is named by exactly one control step.
 * Each value is made once: a constant, an input of a list, or an output of a step. What a step reads
 * was made before it in its own list or an outer one; what a list reads of outer ones stands, sorted,
 * in its captures (constants do not: they are there for all). */
#include "plan/format.h"
#include "plan/plan.h"

#include <stdlib.h>

enum { UNMADE = -1, GONE = -2 }; /* else: the depth of the list that made the value */

typedef struct {
    cm_ctx *cx;
    const cm_plan *plan;
    const cm_plan_variant *variant;
    int8_t *made;     /* per value */
    uint8_t *visited; /* per list */
    int n_visited;
} verifier;

static cm_status wrong(verifier *v, const cm_plan_step *s, const char *what, int32_t value)
{
    return cm_fail(v->cx, CM_ERR_PLAN, "the plan is damaged: step '%s': %s (value %d)",
                   s ? s->name : "of a list", what, value);
}

static cm_status in_range(verifier *v, const cm_plan_step *s, int32_t value)
{
    if (value < 0 || value >= v->plan->n_values)
        return wrong(v, s, "an operand is out of range", value);
    return CM_OK;
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static cm_status check_read(verifier *v, const cm_plan_list *l, int depth, const cm_plan_step *s,
                            int32_t value)
{
    CM_TRY(in_range(v, s, value));
    if (v->plan->values[value].storage == CM_STORE_CONSTANT)
        return CM_OK;
    int made = v->made[value];
    if (made < 0)
        return wrong(v, s, "an operand is read before it is made", value);
    if (made < depth && !bsearch(&value, l->captures, (size_t)l->n_captures, sizeof value, compare))
        return wrong(v, s, "an outer value is read that is not among the captures", value);
    return CM_OK;
}

static cm_status make(verifier *v, const cm_plan_step *s, int32_t value, int depth, bool input)
{
    CM_TRY(in_range(v, s, value));
    cm_storage want = input && depth == 0 ? CM_STORE_INPUT : CM_STORE_ARENA;
    if (v->made[value] != UNMADE || v->plan->values[value].storage != want)
        return wrong(v, s, "an output is made twice, or has the wrong storage", value);
    v->made[value] = (int8_t)depth;
    return CM_OK;
}

static cm_status check_list(verifier *v, int32_t index, int depth);

static cm_status check_step(verifier *v, const cm_plan_list *l, int depth, const cm_plan_step *s)
{
    for (int i = 0; i < s->n_in; i++) {
        const cm_operand *o = &s->in[i];
        if (o->value != -1)
            CM_TRY(check_read(v, l, depth, s, o->value));
        if (o->quant.scale != -1)
            CM_TRY(check_read(v, l, depth, s, o->quant.scale));
        if (o->quant.zero_point != -1)
            CM_TRY(check_read(v, l, depth, s, o->quant.zero_point));
    }
    bool control = s->kind >= CM_STEP_IF && s->kind <= CM_STEP_MAP;
    if (s->n_lists != (control ? s->kind == CM_STEP_IF ? 2 : 1 : 0))
        return wrong(v, s, "it has the wrong number of step lists", s->n_lists);
    for (int i = 0; i < s->n_lists; i++)
        CM_TRY(check_list(v, s->lists[i], depth + 1));
    for (int i = 0; i < s->n_lists; i++) {
        const cm_plan_list *inner = &v->variant->lists[s->lists[i]];
        for (int j = 0; j < inner->n_captures; j++)
            CM_TRY(check_read(v, l, depth, s, inner->captures[j]));
    }
    for (int i = 0; i < s->n_out; i++) {
        if (s->out[i].quant.scale != -1 || s->out[i].quant.zero_point != -1)
            return wrong(v, s, "an output is quantised", s->out[i].value);
        if (s->out[i].value != -1)
            CM_TRY(make(v, s, s->out[i].value, depth, false));
    }
    return CM_OK;
}

/* What a nested list made is out of reach once it ends. */
static void forget(verifier *v, const cm_plan_list *l)
{
    for (int i = 0; i < l->n_inputs; i++)
        v->made[l->inputs[i]] = GONE;
    for (int i = 0; i < l->n_steps; i++)
        for (int j = 0; j < l->steps[i].n_out; j++)
            if (l->steps[i].out[j].value >= 0)
                v->made[l->steps[i].out[j].value] = GONE;
}

static cm_status check_list(verifier *v, int32_t index, int depth)
{
    if (index < 0 || index >= v->variant->n_lists || v->visited[index])
        return cm_fail(v->cx, CM_ERR_PLAN,
                       "the plan is damaged: step list %d of %d is missing or named twice", index,
                       v->variant->n_lists);
    if (depth > CM_PLAN_MAX_NESTING)
        return cm_fail(v->cx, CM_ERR_PLAN, "the plan nests control steps more than %d deep",
                       CM_PLAN_MAX_NESTING);
    v->visited[index] = 1;
    v->n_visited++;
    const cm_plan_list *l = &v->variant->lists[index];
    for (int i = 0; i < l->n_captures; i++) {
        CM_TRY(in_range(v, NULL, l->captures[i]));
        int made = v->made[l->captures[i]];
        if (made < 0 || made >= depth || (i && l->captures[i] <= l->captures[i - 1]))
            return wrong(v, NULL, "captures are not sorted outer values", l->captures[i]);
    }
    for (int i = 0; i < l->n_inputs; i++)
        CM_TRY(make(v, NULL, l->inputs[i], depth, true));
    for (int i = 0; i < l->n_steps; i++)
        CM_TRY(check_step(v, l, depth, &l->steps[i]));
    for (int i = 0; i < l->n_outputs; i++)
        CM_TRY(check_read(v, l, depth, NULL, l->outputs[i]));
    if (depth > 0)
        forget(v, l);
    return CM_OK;
}

static cm_status check_variant(verifier *v, cm_arena *arena)
{
    int n_lists = v->variant->n_lists;
    if (n_lists < 1)
        return cm_fail(v->cx, CM_ERR_PLAN, "the plan is damaged: a variant has no step list");
    CM_NEW_N(v->cx, arena, v->visited, n_lists, uint8_t);
    v->n_visited = 0;
    for (int i = 0; i < v->plan->n_values; i++)
        v->made[i] = UNMADE;
    const cm_plan_list *main = &v->variant->lists[0], *first = &v->plan->variants[0].lists[0];
    if (!main->output_names || main->n_captures || main->n_inputs != first->n_inputs ||
        main->n_outputs != first->n_outputs)
        return cm_fail(v->cx, CM_ERR_PLAN,
                       "the plan is damaged: a variant's main list has wrong inputs or outputs");
    CM_TRY(check_list(v, 0, 0));
    if (v->n_visited != n_lists)
        return cm_fail(v->cx, CM_ERR_PLAN, "the plan is damaged: %d step lists are named by nobody",
                       n_lists - v->n_visited);
    return CM_OK;
}

static cm_status verify(verifier *v, cm_arena *arena)
{
    const cm_plan *p = v->plan;
    for (int i = 0; i < p->n_values; i++)
        if (p->values[i].weight < -1 || p->values[i].weight >= p->n_weights)
            return cm_fail(v->cx, CM_ERR_PLAN,
                           "the plan is damaged: constant '%s' names weight %d of %d",
                           p->values[i].name, p->values[i].weight, p->n_weights);
    CM_NEW_N(v->cx, arena, v->made, p->n_values, int8_t);
    for (int i = 0; i < p->n_variants; i++) {
        v->variant = &p->variants[i];
        CM_TRY(check_variant(v, arena));
    }
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i].variant < 0 || p->targets[i].variant >= p->n_variants)
            return cm_fail(v->cx, CM_ERR_PLAN,
                           "the plan is damaged: a target names variant %d of %d",
                           p->targets[i].variant, p->n_variants);
    const cm_plan_list *main = &p->variants[0].lists[0];
    for (int i = 0; i < p->n_aliases; i++)
        if (p->aliases[i].input < 0 || p->aliases[i].input >= main->n_inputs ||
            p->aliases[i].output < 0 || p->aliases[i].output >= main->n_outputs)
            return cm_fail(v->cx, CM_ERR_PLAN,
                           "the plan is damaged: an alias pairs input %d with output %d",
                           p->aliases[i].input, p->aliases[i].output);
    return CM_OK;
}

cm_status cm_plan_verify(cm_ctx *cx, const cm_plan *p)
{
    verifier v = {.cx = cx, .plan = p};
    cm_arena arena;
    cm_arena_init(&arena, cx->allocator);
    cm_status st = verify(&v, &arena);
    cm_arena_deinit(&arena);
    return st;
}
