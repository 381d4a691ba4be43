/* draft_shapes.c -- sizes from step to step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Type rules tell them, so that nothing a plan states has to be believed. A step whose sizes hang on elements has them
 * where shape arithmetic knows the elements, or on a device where they can be bound with the shapes. */
#include <math.h>

#include "runtime/by_value.h"
#include "runtime/draft.h"

/* Elements of a small integer tensor that the plan tracks, as data. */
static const void *known_elements(cm_preparing *p, int32_t value, const cm_tensor *t)
{
    const cm_plan_value *v = &p->c->engine->plan->values[value];
    if (!v->elems || v->n_elems != cm_tensor_elems(t) || (t->dtype != CM_I64 && t->dtype != CM_I32))
        return NULL;
    void *data = cm_arena_alloc_n(&p->c->bound_arena, (size_t)v->n_elems + 1, 8, 8, 1);
    for (int i = 0; data && i < v->n_elems; i++) {
        int64_t x;
        if (!cm_dim_eval(p->c->engine->plan->dims, v->elems[i], p->c->symbols, &x))
            return NULL;
        cm_set_i64(t->dtype, data, i, x);
    }
    return data;
}

static void need_plain(cm_preparing *p, const cm_operand *operands, int n)
{
    for (int i = 0; i < n; i++)
        if (operands[i].value >= 0)
            p->plain[operands[i].value] = true;
}

/* The tensors of a step's inputs; false: one is not known yet. */
static bool gather(cm_preparing *p, cm_draft *d)
{
    const cm_plan_step *step = d->s->plan;
    for (int i = 0; i < step->n_in; i++) {
        int32_t v = step->in[i].value;
        if (v < 0)
            continue;
        const cm_slot *slot = &p->c->slots[v];
        d->constant[i] = p->c->engine->plan->values[v].storage == CM_STORE_CONSTANT;
        if (!d->constant[i] && !slot->shaped)
            return false;
        d->in[i] = slot->datum.tensor;
        if (!d->constant[i])
            d->in[i].data = (void *)p->known[v];
        d->sol->in[i] = &d->in[i];
    }
    return true;
}

static void keep_outputs(cm_preparing *p, cm_draft *d)
{
    const cm_plan_step *step = d->s->plan;
    for (int o = 0; o < step->n_out; o++) {
        int32_t v = step->out[o].value;
        if (v < 0)
            continue;
        cm_slot *slot = &p->c->slots[v];
        slot->datum = (cm_datum){.kind = CM_TENSOR, .tensor = d->out[o]};
        slot->shaped = !d->sol->counted || d->sol->counted[o] < 0;
        slot->owned = false;
        p->known[v] = slot->shaped ? known_elements(p, v, &d->out[o]) : NULL;
    }
}

static cm_status new_draft(cm_preparing *p, const cm_ready_step *s, cm_draft *d)
{
    cm_arena *a = &p->c->bound_arena;
    int n_in = s->plan->n_in, n_out = s->plan->n_out;
    *d = (cm_draft){.s = s, .sol = &p->c->solutions[s->index]};
    CM_NEW_N(p->cx, a, d->in, n_in, cm_tensor);
    CM_NEW_N(p->cx, a, d->out, n_out, cm_tensor);
    CM_NEW_N(p->cx, a, d->outs, n_out, const cm_tensor *);
    CM_NEW_N(p->cx, a, d->constant, n_in, bool);
    CM_NEW_N(p->cx, a, d->sol->in, n_in, const cm_tensor *);
    CM_NEW_N(p->cx, a, d->sol->data, n_in, const void *);
    CM_NEW_N(p->cx, a, d->sol->out_data, n_out, void *);
    d->sol->n_in = n_in;
    return CM_OK;
}

/* Arithmetic on a few integers that the host has is not worth a way to the device and back. */
static bool stays_small(cm_preparing *p, const cm_draft *d)
{
    const cm_plan_step *step = d->s->plan;
    bool small = true;
    for (int i = 0; i < step->n_in; i++)
        small = small && (!d->sol->in[i] || d->constant[i] || p->small[step->in[i].value]);
    for (int o = 0; o < step->n_out; o++)
        small = small && (!d->outs[o] || cm_few_integers(&d->out[o]));
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o])
            p->small[step->out[o].value] = small || p->known[step->out[o].value];
    return small;
}

/* The sizes of a step's outputs; false: they are not to be known yet. */
static bool shapes_known(cm_preparing *p, cm_draft *d)
{
    const cm_ready_step *s = d->s;
    bool known = gather(p, d);
    for (int o = 0; o < s->plan->n_out; o++)
        if (s->plan->out[o].value >= 0)
            d->outs[o] = &d->out[o];
    known =
        known && cm_form_outputs(p->cx, p->dims, s, d->sol->in, (cm_tensor *const *)d->outs, NULL);
    for (int o = 0; known && o < s->plan->n_out; o++)
        known = !d->outs[o] || cm_form_takes(p->c, &d->out[o]);
    return known;
}

static bool is_problem(cm_preparing *p, const cm_draft *d)
{
    cm_problem problem;
    cm_arena_mark mark = cm_arena_save(p->cx->scratch);
    bool is = cm_form_problem(p->cx->scratch, d->s, d->sol->in, d->constant, d->outs,
                              &p->c->device->target, 1, &problem);
    cm_arena_restore(p->cx->scratch, mark);
    return is;
}

/* A step of a device's network may need the elements of inputs to be known, or to be a problem. True: it was so, and
 * now its sizes are known. */
static bool bind_elements(cm_preparing *p, cm_draft *d, bool known)
{
    const cm_plan_step *step = d->s->plan;
    int lent[CM_MAX_RANK], n = 0;
    if (known && (!d->s->problem || is_problem(p, d)))
        return false;
    for (int i = 0; i < step->n_in && n < CM_COUNT(lent); i++) {
        int32_t v = step->in[i].value;
        int input = v >= 0 && !p->known[v] ? cm_input_to_lend(p->c, v) : -1;
        if (input >= 0 && (p->known[v] = cm_bind_elements(p->c, input)) != NULL)
            lent[n++] = input;
    }
    if (n && shapes_known(p, d) && (!known || is_problem(p, d)))
        return true;
    for (int k = 0; k < n; k++) {
        cm_unbind_elements(p->c, lent[k]);
        p->known[p->c->engine->variant->lists[0].inputs[lent[k]]] = NULL;
    }
    if (n && known)
        (void)shapes_known(p, d); /* as it was */
    return false;
}

void cm_draft_choose(cm_preparing *p, cm_draft *d, const cm_target *target, cm_choice *choice)
{
    cm_problem problem;
    cm_arena_mark mark = cm_arena_save(p->cx->scratch);
    *choice = (cm_choice){.ns = INFINITY};
    if (cm_form_problem(p->cx->scratch, d->s, d->sol->in, d->constant, d->outs, target,
                        cm_threads_count(p->c->threads), &problem)) {
        problem.lean = p->c->lean;
        problem.tf32 = p->c->engine->tf32;
        cm_select(p->c, d->s, &problem, choice);
    }
    cm_arena_restore(p->cx->scratch, mark);
}

/* A step whose outputs only data size runs on the device where it has a tactic for it: with memory for the most that can
 * come out. What reads those outputs is late. */
static cm_status size_by_data(cm_preparing *p, cm_draft *d)
{
    const cm_plan_step *step = d->s->plan;
    cm_tensor *const *outs = (cm_tensor *const *)d->outs;
    cm_choice choice = {0};
    int *counted;
    if (!d->s->problem || !gather(p, d))
        return CM_OK;
    CM_NEW_N(p->cx, &p->c->bound_arena, counted, step->n_out, int);
    bool fits = cm_form_outputs(p->cx, p->dims, d->s, d->sol->in, outs, counted);
    for (int o = 0; fits && o < step->n_out; o++) {
        size_t bytes = 0;
        fits = !d->outs[o] || (cm_form_takes(p->c, &d->out[o]) &&
                               cm_tensor_bytes(&d->out[o], &bytes) && bytes <= CM_MOST_RESERVED);
    }
    if (fits)
        cm_draft_choose(p, d, &p->c->device->target, &choice);
    if (!choice.tactic)
        return CM_OK;
    d->sol->counted = counted;
    need_plain(p, step->in, step->n_in);
    need_plain(p, step->out, step->n_out);
    return CM_OK;
}

/* Shapes through one step; it stays late when they cannot be known. */
static cm_status shape_step(cm_preparing *p, const cm_ready_step *s, int list)
{
    cm_draft *d = &p->drafts[p->n];
    CM_TRY(new_draft(p, s, d));
    bool known = shapes_known(p, d);
    if (p->c->device && list == 0)
        known = bind_elements(p, d, known) || known;
    if (!known && p->c->device && list == 0)
        CM_TRY(size_by_data(p, d));
    bool counted = d->sol->counted;
    if (!known && !counted) {
        *d->sol = (cm_solution){.way = CM_WAY_LATE, .late = d->sol->late};
        need_plain(p, s->plan->in, s->plan->n_in);
        return CM_OK;
    }
    d->sol->way = CM_WAY_EVALUATOR;
    keep_outputs(p, d);
    d->in_main = list == 0;
    d->may_go = p->c->device && d->in_main && (counted || !stays_small(p, d));
    p->n++;
    return CM_OK;
}

static cm_status shape_list(cm_preparing *p, int list)
{
    const cm_ready_list *l = &p->c->engine->lists[list];
    for (int i = 0; i < l->plan->n_steps; i++) {
        const cm_ready_step *s = &l->steps[i];
        if (s->control < 0) {
            CM_TRY(shape_step(p, s, list));
            continue;
        }
        need_plain(p, s->plan->in, s->plan->n_in);
        for (int k = 0; k < s->plan->n_lists; k++) {
            const cm_plan_list *inner = p->c->engine->lists[s->plan->lists[k]].plan;
            if (s->plan->kind == CM_STEP_IF && !p->c->device)
                CM_TRY(shape_list(p, s->plan->lists[k]));
            else
                for (int j = 0; j < inner->n_captures; j++)
                    p->plain[inner->captures[j]] = true;
        }
    }
    for (int i = 0; i < l->plan->n_outputs; i++)
        p->plain[l->plan->outputs[i]] = true;
    return CM_OK;
}

static void find_small_inputs(cm_preparing *p)
{
    const cm_plan_list *main = &p->c->engine->variant->lists[0];
    for (int i = 0; i < main->n_inputs; i++) {
        const cm_slot *s = &p->c->slots[main->inputs[i]];
        p->small[main->inputs[i]] = s->shaped && cm_few_integers(&s->datum.tensor);
    }
}

cm_status cm_draft_shapes(cm_preparing *p)
{
    cm_context *c = p->c;
    find_small_inputs(p);
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        if (c->by_value[i])
            p->known[c->engine->variant->lists[0].inputs[i]] = cm_bind_elements(c, i);
    return shape_list(p, 0);
}
