/* late.c -- steps whose sizes only the run tells: formed when their inputs have come, and again when those
 * have other sizes than last time, or other elements where sizes follow from them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/internal.h"

static bool same_type(const cm_tensor *a, const cm_tensor *b)
{
    return a->dtype == b->dtype && cm_tensor_same_shape(a, b);
}

/* Elements that a form was made for, if it was, are those of `now`; a constant that the engine let go is what it was. */
static bool same_elements(const cm_tensor *then, const cm_tensor *now)
{
    size_t bytes;
    return !then->data || !now->data || then->data == now->data ||
           (cm_tensor_bytes(now, &bytes) && memcmp(then->data, now->data, bytes) == 0);
}

/* Is the form that is there for these very sizes? */
static bool still_fits(const cm_context *c, const cm_solution *sol)
{
    for (int i = 0; i < sol->n_in; i++)
        if (sol->in[i] && (!c->in[i] || !same_type(sol->in[i], &c->in[i]->tensor) ||
                           !same_elements(sol->in[i], &c->in[i]->tensor)))
            return false;
    return sol->formed;
}

bool cm_late_takes(const cm_context *c, const cm_plan_step *step)
{
    for (int i = 0; i < step->n_in; i++) {
        const cm_datum *d = c->in[i];
        if (d && (!cm_datum_is_plain(d) || !cm_form_takes(c, &d->tensor) ||
                  !cm_tensor_is_dense(&d->tensor)))
            return false;
    }
    return true;
}

cm_status cm_late_gather(cm_ctx *cx, const cm_context *c, const cm_plan_step *step,
                         cm_solution *sol, cm_late_operands *x)
{
    CM_NEW_N(cx, &sol->late, x->in, step->n_in, cm_tensor);
    CM_NEW_N(cx, &sol->late, x->out, step->n_out, cm_tensor);
    CM_NEW_N(cx, &sol->late, x->outs, step->n_out, cm_tensor *);
    CM_NEW_N(cx, &sol->late, x->constant, step->n_in, bool);
    CM_NEW_N(cx, &sol->late, sol->in, step->n_in, const cm_tensor *);
    CM_NEW_N(cx, &sol->late, sol->data, step->n_in, const void *);
    CM_NEW_N(cx, &sol->late, sol->packed, step->n_in, const void *);
    CM_NEW_N(cx, &sol->late, sol->out_data, step->n_out, void *);
    sol->n_in = step->n_in;
    for (int i = 0; i < step->n_in; i++) {
        if (!c->in[i])
            continue;
        x->constant[i] = c->engine->plan->values[step->in[i].value].storage == CM_STORE_CONSTANT;
        x->in[i] = c->in[i]->tensor;
        if (!x->constant[i])
            x->in[i].data = NULL; /* it will be another one next time */
        sol->in[i] = &x->in[i];
    }
    for (int o = 0; o < step->n_out; o++)
        x->outs[o] = step->out[o].value >= 0 ? &x->out[o] : NULL;
    return CM_OK;
}

bool cm_late_outputs(cm_ctx *cx, const cm_context *c, const cm_ready_step *s, cm_solution *sol,
                     const cm_late_operands *x, int *counted)
{
    cm_arena symbols;
    cm_dim_table *dims;
    cm_arena_init(&symbols, c->allocator);
    bool known = cm_dim_table_create(cx, &symbols, &dims) == CM_OK &&
                 cm_form_outputs(cx, dims, s, sol->in, x->outs, counted);
    sol->late.failed |= symbols.failed | cx->scratch->failed;
    cm_arena_deinit(&symbols);
    for (int o = 0; known && o < s->plan->n_out; o++)
        known = !x->outs[o] || cm_form_takes(c, &x->out[o]);
    return known;
}

/* Is there so much to do that forming the step anew, whenever a number changes, is the lesser part? */
static bool is_large(const cm_solution *sol)
{
    enum { MANY = 4096 };
    for (int i = 0; i < sol->n_in; i++)
        if (sol->in[i] && cm_tensor_elems(sol->in[i]) >= MANY)
            return true;
    return false;
}

/* Few integers may tell sizes: the form is then for these elements. */
static cm_status take_elements(cm_ctx *cx, const cm_context *c, cm_solution *sol,
                               cm_late_operands *x)
{
    enum { FEW = 64 };
    for (int i = 0; i < sol->n_in; i++) {
        const cm_tensor *t = c->in[i] ? &c->in[i]->tensor : NULL;
        size_t bytes;
        if (!t || x->constant[i] || !cm_dtype_is_integer(t->dtype) || !t->data ||
            cm_tensor_elems(t) > FEW || !cm_tensor_bytes(t, &bytes))
            continue;
        void *to = cm_arena_alloc_n(&sol->late, bytes + 1, 1, 16, 0);
        if (!to)
            return cm_fail_memory(cx);
        memcpy(to, t->data, bytes);
        x->in[i].data = to;
    }
    return CM_OK;
}

static cm_status find_outputs(cm_ctx *cx, const cm_context *c, const cm_ready_step *s,
                              cm_solution *sol, cm_late_operands *x, bool *known)
{
    *known = cm_late_outputs(cx, c, s, sol, x, NULL);
    if (*known || sol->late.failed || !is_large(sol))
        return CM_OK;
    CM_TRY(take_elements(cx, c, sol, x));
    *known = cm_late_outputs(cx, c, s, sol, x, NULL);
    for (int i = 0; !*known && i < sol->n_in; i++)
        if (!x->constant[i])
            x->in[i].data = NULL; /* they tell nothing */
    return CM_OK;
}

static cm_status form(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    cm_late_operands x;
    bool known;
    CM_TRY(cm_late_gather(cx, c, s->plan, sol, &x));
    CM_TRY(find_outputs(cx, c, s, sol, &x, &known));
    if (!known ||
        !cm_form_problem(&sol->late, s, sol->in, x.constant, (const cm_tensor *const *)x.outs,
                         &c->target, cm_threads_count(c->threads), &sol->p))
        return sol->late.failed ? cm_fail_memory(cx) : CM_OK;
    sol->p.lean = c->lean;
    cm_select(c, s, &sol->p, &sol->choice);
    const cm_tactic *t = sol->choice.tactic;
    for (int i = 0; t && i < sol->p.n_in; i++)
        CM_TRY(cm_packed_input(cx, c->engine, s, &sol->p, &sol->choice, i, c->threads,
                               &sol->packed[i]));
    sol->workspace = t && t->workspace ? t->workspace(&sol->p, &sol->choice.knobs) : 0;
    return cm_room_reserve(cx, &c->late_workspace, sol->workspace, 0);
}

void cm_late_forget(cm_ctx *cx, const cm_context *c, cm_solution *sol)
{
    sol->formed = false;
    sol->choice = (cm_choice){0};
    if (!sol->late.allocator && !sol->late.first)
        cm_arena_init(&sol->late, c->allocator);
    cm_arena_reset(&sol->late);
    sol->late.failed = cx->scratch->failed = 0;
}

cm_status cm_prepare_late(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    if (!s->problem || !cm_late_takes(c, s->plan)) {
        sol->choice.tactic = NULL;
        sol->formed = false;
        return CM_OK;
    }
    if (still_fits(c, sol))
        return CM_OK;
    cm_late_forget(cx, c, sol);
    CM_TRY(form(cx, c, s, sol));
    sol->formed = true;
    return CM_OK;
}
