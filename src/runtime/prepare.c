/* prepare.c -- from the inputs' shapes to a way of running each step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * draft_shapes.c carries shapes through the main list and the branches of Ifs. For each step that is known this way
 * draft_layouts.c finds the cheapest tactic, and the layouts of its activations; then problems are formed for good, weights
 * packed, and the step's workspace counted. Bodies of loops, and what only data sizes, are left to late.c; so are
 * branches in a device's context, where device_late.c has them. */
#include <string.h>

#include "base/size.h"
#include "runtime/bands.h"
#include "runtime/draft.h"

/* Inputs whose values lie in another layout than the step wants. */
static cm_status plan_conversions(cm_preparing *p, cm_draft *d)
{
    const cm_plan_step *step = d->s->plan;
    cm_solution *sol = d->sol;
    CM_NEW_N(p->cx, &p->c->bound_arena, sol->conversions, step->n_in, cm_conversion);
    for (int i = 0; i < step->n_in; i++) {
        size_t bytes;
        if (!sol->in[i] || d->constant[i] || cm_tensor_elems(&d->in[i]) == 0 ||
            cm_tensor_same_strides(&d->in[i], &p->c->slots[step->in[i].value].datum.tensor))
            continue;
        cm_conversion *k = &sol->conversions[sol->n_conversions++];
        *k = (cm_conversion){i, {.kind = CM_TENSOR, .tensor = d->in[i]}, sol->workspace};
        if (!cm_tensor_bytes(&d->in[i], &bytes) || !cm_align_up(bytes, CM_MEMORY_ALIGN, &bytes) ||
            !cm_add(sol->workspace, bytes, &sol->workspace))
            return cm_fail_memory(p->cx);
    }
    return CM_OK;
}

/* Form it for good; one that no tactic takes is kept too, so that reports can say why. */
static cm_status use_problem(cm_preparing *p, cm_draft *d)
{
    cm_context *c = p->c;
    cm_solution *sol = d->sol;
    int n = cm_threads_count(c->threads);
    const cm_target *target = sol->away ? &c->device->target : &c->target;
    if (!cm_form_problem(&c->bound_arena, d->s, sol->in, d->constant, d->outs, target, n,
                         &sol->p)) {
        sol->p.kind = CM_PROBLEM_EVALUATE;
        return CM_OK;
    }
    sol->p.lean = c->lean;
    sol->p.tf32 = c->engine->tf32;
    const cm_tactic *t = sol->choice.tactic;
    if (!t)
        return CM_OK;
    sol->way = CM_WAY_TACTIC;
    CM_NEW_N(p->cx, &c->bound_arena, sol->packed, d->s->plan->n_in, const void *);
    for (int i = 0; !sol->away && t->pack_bytes && i < sol->p.n_in; i++)
        if (sol->p.in[i] && d->constant[i])
            c->packed_bytes += t->pack_bytes(&sol->p, &sol->choice.knobs, i);
    sol->workspace = t->workspace ? t->workspace(&sol->p, &sol->choice.knobs) : 0;
    if (!cm_align_up(sol->workspace, CM_MEMORY_ALIGN, &sol->workspace))
        return cm_fail_memory(p->cx);
    return CM_OK;
}

/* In a device's context, steps whose outputs shape arithmetic told need not run. */
static bool is_known(const cm_preparing *p, const cm_draft *d)
{
    bool known = d->in_main && p->c->device;
    for (int o = 0; o < d->s->plan->n_out; o++)
        known = known && (!d->outs[o] || p->known[d->s->plan->out[o].value]);
    return known;
}

static void use_known(cm_preparing *p, cm_draft *d)
{
    d->sol->way = CM_WAY_KNOWN;
    for (int o = 0; o < d->s->plan->n_out; o++)
        if (d->outs[o])
            p->c->slots[d->s->plan->out[o].value].datum.tensor.data =
                (void *)p->known[d->s->plan->out[o].value];
}

static cm_status settle(cm_preparing *p, cm_draft *d, const unsigned char *labels, int mode)
{
    const cm_plan_step *step = d->s->plan;
    int label = 0;
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o] && cm_draft_variable(p, step->out[o].value, &d->out[o]) >= 0)
            label |= labels[step->out[o].value];
    cm_draft_set_layouts(d, mode, label);
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o])
            memcpy(p->c->slots[step->out[o].value].datum.tensor.strides, d->out[o].strides,
                   sizeof d->out[o].strides);
    d->sol->choice = d->choice[mode][label];
    d->sol->may_go = d->may_go;
    d->sol->small = p->c->device && d->in_main && !d->may_go;
    d->sol->away = d->away[mode][label];
    if (is_known(p, d)) {
        use_known(p, d);
        return CM_OK;
    }
    if (d->view[mode][label])
        d->sol->way = CM_WAY_VIEW;
    else if (d->s->problem)
        CM_TRY(use_problem(p, d));
    return plan_conversions(p, d);
}

/* A view's output keeps its input alive, and a chain what its steps read. */
static cm_status extend_lifetimes(cm_preparing *p)
{
    cm_context *c = p->c;
    for (int i = 0; i < c->engine->plan->n_values; i++)
        c->last[i] = c->engine->values[i].last;
    if (c->device) {
        CM_TRY(cm_place_values(p->cx, c));
        cm_join_steps(c);
    }
    cm_chains_find(c);
    for (int i = p->n - 1; i >= 0; i--) {
        const cm_plan_step *step = p->drafts[i].s->plan;
        if (p->drafts[i].sol->way != CM_WAY_VIEW || p->drafts[i].sol->n_conversions)
            continue;
        int from = step->in[0].value, to = step->out[0].value;
        if (c->last[from] < c->last[to])
            c->last[from] = c->last[to];
    }
    return CM_OK;
}

static cm_status prepare(cm_preparing *p)
{
    cm_context *c = p->c;
    unsigned char *labels, *modes;
    CM_NEW_N(p->cx, p->cx->scratch, p->drafts, c->engine->n_steps, cm_draft);
    CM_NEW_N(p->cx, p->cx->scratch, p->plain, c->engine->plan->n_values, bool);
    CM_NEW_N(p->cx, p->cx->scratch, p->known, c->engine->plan->n_values, const void *);
    CM_NEW_N(p->cx, p->cx->scratch, p->small, c->engine->plan->n_values, bool);
    CM_NEW_N(p->cx, p->cx->scratch, labels, c->engine->plan->n_values, unsigned char);
    CM_NEW_N(p->cx, p->cx->scratch, modes, c->engine->n_steps, unsigned char);
    CM_TRY(cm_draft_shapes(p));
    CM_TRY(cm_draft_layouts(p, labels, modes));
    for (int i = 0; i < p->n; i++) {
        cm_status st = settle(p, &p->drafts[i], labels, modes[i]);
        if (st != CM_OK)
            return cm_while(p->cx, st, "%s node '%s'", p->drafts[i].s->plan->op,
                            p->drafts[i].s->plan->name);
    }
    return extend_lifetimes(p);
}

static void forget(cm_context *c)
{
    for (int i = 0; i < c->engine->n_steps; i++) {
        cm_arena late = c->solutions[i].late;
        c->solutions[i] = (cm_solution){.late = late};
    }
    for (int i = 0; i < c->engine->plan->n_values; i++) {
        c->slots[i].shaped = false;
        c->slots[i].planned = 0;
        c->slots[i].interval = -1;
    }
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        c->elements[i] = NULL;
    if (c->device)
        cm_forget_places(c);
    cm_arena_reset(&c->bound_arena);
    c->bound_arena.failed = 0;
    c->packed_bytes = 0;
}

cm_status cm_prepare(cm_ctx *cx, cm_context *c)
{
    const cm_plan_list *main = &c->engine->variant->lists[0];
    forget(c);
    cm_refresh_constants(c);
    for (int i = 0; i < main->n_inputs; i++) {
        cm_slot *s = &c->slots[main->inputs[i]];
        s->datum = c->inputs[i];
        s->shaped = c->inputs[i].kind == CM_TENSOR && cm_form_takes(c, &c->inputs[i].tensor);
    }
    cm_arena *outer = cx->scratch; /* a run's scratch is not to be grown by tables of this size */
    cm_arena scratch, symbols;
    cm_arena_init(&scratch, c->allocator);
    cm_arena_init(&symbols, c->allocator);
    cx->scratch = &scratch;
    cm_preparing p = {.cx = cx, .c = c};
    cm_status st = cm_dim_table_create(cx, &symbols, &p.dims);
    if (st == CM_OK)
        st = prepare(&p);
    /* Rules and fills that ran out of memory only said that they do not know. */
    if (st == CM_OK && (scratch.failed || symbols.failed || c->bound_arena.failed))
        st = cm_fail_memory(cx);
    cx->scratch = outer;
    cm_arena_deinit(&symbols);
    cm_arena_deinit(&scratch);
    return st;
}

/* The first packed weights of some size that are read after step k of a list, and soon. */
static void look_ahead(cm_context *c, const cm_ready_list *l, int k)
{
    enum { SOON = 3, LEAST = 16 << 10 };
    cm_solution *sol = &c->solutions[l->steps[k].index];
    sol->ahead = NULL;
    sol->ahead_bytes = 0;
    for (int i = k + 1; i < l->plan->n_steps && i <= k + SOON && !sol->ahead; i++) {
        if (l->steps[i].control >= 0)
            return;
        const cm_solution *next = &c->solutions[l->steps[i].index];
        if (next->way != CM_WAY_TACTIC || next->away || next->p.n_in < 2 || !next->packed[1])
            continue;
        const cm_tactic *t = next->choice.tactic;
        size_t bytes = t->pack_bytes ? t->pack_bytes(&next->p, &next->choice.knobs, 1) : 0;
        if (bytes < LEAST)
            continue;
        sol->ahead = next->packed[1];
        sol->ahead_bytes = bytes;
    }
}

cm_status cm_pack_weights(cm_ctx *cx, cm_context *c)
{
    for (int k = 0; k < c->engine->n_steps; k++) {
        cm_solution *sol = &c->solutions[k];
        for (int i = 0; sol->way == CM_WAY_TACTIC && !sol->away && i < sol->p.n_in; i++)
            CM_TRY(cm_packed_input(cx, c->engine, c->engine->ready[k], &sol->p, &sol->choice, i,
                                   c->threads, &sol->packed[i]));
        CM_TRY(cm_plain_inputs(cx, c, c->engine->ready[k], sol));
    }
    const cm_ready_list *main = &c->engine->lists[0];
    for (int k = 0; k < main->plan->n_steps; k++)
        if (main->steps[k].control < 0)
            look_ahead(c, main, k);
    return CM_OK;
}
