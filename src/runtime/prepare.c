/* prepare.c -- from the inputs' shapes to a way of running each step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Shapes are carried through the main list and the branches of Ifs by the type rules, so that nothing a
 * plan states has to be believed. For each step that is known this way the cheapest tactic is found with its
 * activations row-major and channels-last; layout.c picks the layouts; then problems are formed for
 * good, weights packed, and the step's workspace counted. Bodies of loops, and what only data sizes, are
 * left to late.c; so are branches in a device's context, where device_late.c has them. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "runtime/bands.h"
#include "runtime/by_value.h"
#include "runtime/device.h"
#include "runtime/layout.h"

/* A step with the sizes of its operands, and its best choices in every layout. */
typedef struct {
    const cm_ready_step *s;
    cm_solution *sol;
    cm_tensor *in, *out;    /* by input and output; row-major until layouts are known */
    const cm_tensor **outs; /* NULL: not wanted */
    bool *constant;
    cm_choice choice[2][2]; /* [layout of inputs][of outputs], tactic NULL: the reference */
    bool view[2][2];
    bool in_main, may_go, away[2][2]; /* to the device; in that layout it does */
    int *reads, *makes;               /* layout variables; see cm_layout_step */
    double *convert;
    bool *follows_output;
    int n_makes;
} draft;

typedef struct {
    cm_ctx *cx;
    cm_context *c;
    cm_dim_table *dims; /* for symbols of sizes that are not known */
    int n;
    draft *drafts;      /* in the order of execution */
    bool *plain;        /* per value: somebody needs it row-major */
    const void **known; /* per value: its elements, where shape arithmetic knows them */
    bool *small;        /* per value: a few integers that the host has */
} preparing;

/* Elements of a small integer tensor that the plan tracks, as data. */
static const void *known_elements(preparing *p, int32_t value, const cm_tensor *t)
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

static void need_plain(preparing *p, const cm_operand *operands, int n)
{
    for (int i = 0; i < n; i++)
        if (operands[i].value >= 0)
            p->plain[operands[i].value] = true;
}

static bool usable(const cm_tensor *t)
{
    return t->dtype != CM_STR && !cm_dtype_is_sub_byte(t->dtype);
}

/* The tensors of a step's inputs; false: one is not known yet. */
static bool gather(preparing *p, draft *d)
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

static void keep_outputs(preparing *p, draft *d)
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

static cm_status new_draft(preparing *p, const cm_ready_step *s, draft *d)
{
    cm_arena *a = &p->c->bound_arena;
    int n_in = s->plan->n_in, n_out = s->plan->n_out;
    *d = (draft){.s = s, .sol = &p->c->solutions[s->index]};
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

static bool few_integers(const cm_tensor *t)
{
    enum { FEW = 16 };
    return !cm_dtype_is_float(t->dtype) && cm_tensor_elems(t) <= FEW;
}

/* Arithmetic on a few integers that the host has is not worth a way to the device and back. */
static bool stays_small(preparing *p, const draft *d)
{
    const cm_plan_step *step = d->s->plan;
    bool small = true;
    for (int i = 0; i < step->n_in; i++)
        small = small && (!d->sol->in[i] || d->constant[i] || p->small[step->in[i].value]);
    for (int o = 0; o < step->n_out; o++)
        small = small && (!d->outs[o] || few_integers(&d->out[o]));
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o])
            p->small[step->out[o].value] = small || p->known[step->out[o].value];
    return small;
}

/* The sizes of a step's outputs; false: they are not to be known yet. */
static bool shapes_known(preparing *p, draft *d)
{
    const cm_ready_step *s = d->s;
    bool known = gather(p, d);
    for (int o = 0; o < s->plan->n_out; o++)
        if (s->plan->out[o].value >= 0)
            d->outs[o] = &d->out[o];
    known =
        known && cm_form_outputs(p->cx, p->dims, s, d->sol->in, (cm_tensor *const *)d->outs, NULL);
    for (int o = 0; known && o < s->plan->n_out; o++)
        known = !d->outs[o] || usable(&d->out[o]);
    return known;
}

static bool is_problem(preparing *p, const draft *d)
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
static bool bind_elements(preparing *p, draft *d, bool known)
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

static void choose(preparing *p, draft *d, const cm_target *target, cm_choice *choice)
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
static cm_status size_by_data(preparing *p, draft *d)
{
    enum { MOST_RESERVED = 1 << 30 }; /* bytes for an output that may be much smaller */
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
        fits = !d->outs[o] || (usable(&d->out[o]) && cm_tensor_bytes(&d->out[o], &bytes) &&
                               bytes <= MOST_RESERVED);
    }
    if (fits)
        choose(p, d, &p->c->device->target, &choice);
    if (!choice.tactic)
        return CM_OK;
    d->sol->counted = counted;
    need_plain(p, step->in, step->n_in);
    need_plain(p, step->out, step->n_out);
    return CM_OK;
}

/* Shapes through one step; it stays late when they cannot be known. */
static cm_status shape_step(preparing *p, const cm_ready_step *s, int list)
{
    draft *d = &p->drafts[p->n];
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

static cm_status shape_list(preparing *p, int list)
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

/* Would channels-last be something else for it? */
static bool has_channels(const cm_tensor *t)
{
    if (t->rank < 3 || t->dims[1] < 2 || cm_tensor_elems(t) == 0)
        return false;
    return cm_dims_product(t->dims, 2, t->rank) > 1;
}

static bool may_be_last(const draft *d, int i)
{
    return d->sol->in[i] && !d->constant[i] && has_channels(&d->in[i]) && d->s->plan->n_out > 0 &&
           d->outs[0] && d->in[i].rank == d->out[0].rank;
}

static void set_layout(cm_tensor *t, bool last)
{
    if (last && has_channels(t))
        cm_set_channels_last(t);
    else
        (void)cm_tensor_shape(t, t->dtype, t->rank, t->dims);
}

static void set_layouts(draft *d, bool in_last, bool out_last)
{
    int n_own = d->s->plan->n_in - d->s->plan->epilogue.n_operands;
    for (int i = 0; i < d->s->plan->n_in; i++)
        if (d->sol->in[i] && !d->constant[i])
            set_layout(&d->in[i], may_be_last(d, i) && (i < n_own ? in_last : out_last));
    for (int o = 0; o < d->s->plan->n_out; o++)
        if (d->outs[o])
            set_layout(&d->out[o], out_last);
}

/* Is the step, in this layout, only another way of looking at input 0's memory? */
static bool is_view_of(const draft *d)
{
    const cm_ready_step *s = d->s;
    if (s->plan->n_in < 1 || s->plan->n_out < 1 || s->plan->epilogue.program)
        return false;
    if (!d->outs[0] || !d->sol->in[0] || d->in[0].dtype != d->out[0].dtype)
        return false;
    cm_tensor t = d->out[0];
    if (s->op->traits & CM_VIEW) {
        if (cm_tensor_elems(&t) != cm_tensor_elems(&d->in[0]) || !cm_view_strides(&d->in[0], &t))
            return false;
    } else if (s->op->id == CM_OP_TRANSPOSE) {
        cm_ints perm = cm_attr_ints(s->op, s->attr, "perm");
        for (int a = 0; a < t.rank; a++)
            t.strides[a] = d->in[0].strides[perm.n ? perm.v[a] : t.rank - 1 - a];
    } else {
        return false;
    }
    for (int a = 0; a < t.rank; a++)
        if (t.dims[a] != 1 && t.strides[a] != d->out[0].strides[a])
            return false;
    return true;
}

static double reference_cost(const draft *d)
{
    double n = 0;
    for (int o = 0; o < d->s->plan->n_out; o++)
        n += d->outs[o] ? (double)cm_tensor_elems(&d->out[o]) : 0;
    return 1000 + 20 * n; /* rough: it only has to lose against a kernel */
}

/* What it costs that a step of a device's network runs on the host: a wait and copies both ways. */
static double detour_cost(const draft *d)
{
    const double wait_ns = 30e3, bytes_per_ns = 20;
    double total = 0;
    size_t bytes;
    for (int i = 0; i < d->s->plan->n_in; i++)
        if (d->sol->in[i] && !d->constant[i] && cm_tensor_bytes(&d->in[i], &bytes))
            total += (double)bytes;
    for (int o = 0; o < d->s->plan->n_out; o++)
        if (d->outs[o] && cm_tensor_bytes(&d->out[o], &bytes))
            total += (double)bytes;
    return wait_ns + total / bytes_per_ns;
}

static double mode_cost(preparing *p, draft *d, int in_last, int out_last)
{
    cm_choice *choice = &d->choice[in_last][out_last];
    double detour = 0;
    set_layouts(d, in_last, out_last);
    d->view[in_last][out_last] = is_view_of(d);
    if (d->view[in_last][out_last])
        return 0;
    if (d->may_go) {
        choose(p, d, &p->c->device->target, choice);
        d->away[in_last][out_last] = choice->tactic != NULL;
        if (choice->tactic)
            return choice->ns;
        detour = detour_cost(d);
    }
    choose(p, d, &p->c->target, choice);
    if (choice->tactic)
        return choice->ns + detour;
    return in_last || out_last ? INFINITY : reference_cost(d) + detour;
}

static double conversion_cost(const preparing *p, const draft *d, size_t bytes)
{
    const cm_device_state *device = p->c->device;
    return d->may_go ? device->api->copy_ns(&device->target, bytes) : 300 + (double)bytes * 0.25;
}

/* Layout variables are the values themselves; those that must be row-major are none. */
static int variable(const preparing *p, int32_t v, const cm_tensor *t)
{
    return p->plain[v] || !has_channels(t) ||
                   p->c->engine->plan->values[v].storage != CM_STORE_ARENA
               ? -1
               : v;
}

/* Where a kernel takes the step in another layout, the reference is never worth the conversions that it
 * saves: products take it a hundred times as long, which its rough cost does not know. */
static void shun_reference(const draft *d, cm_layout_step *l)
{
    double best = INFINITY;
    if (d->choice[0][0].tactic || d->view[0][0])
        return;
    for (int m = 0; m < 4; m++)
        if (m && l->cost[m / 2][m % 2] < best)
            best = l->cost[m / 2][m % 2];
    if (best < INFINITY)
        l->cost[0][0] += 20 * best;
}

static cm_status describe(preparing *p, draft *d, cm_layout_step *l)
{
    const cm_plan_step *step = d->s->plan;
    cm_arena *a = p->cx->scratch;
    int n_own = step->n_in - step->epilogue.n_operands;
    CM_NEW_N(p->cx, a, d->reads, step->n_in, int);
    CM_NEW_N(p->cx, a, d->convert, step->n_in, double);
    CM_NEW_N(p->cx, a, d->follows_output, step->n_in, bool);
    CM_NEW_N(p->cx, a, d->makes, step->n_out, int);
    *l = (cm_layout_step){.in = d->reads,
                          .convert = d->convert,
                          .follows_output = d->follows_output,
                          .out = d->makes};
    bool may_in = false, may_out = true;
    for (int i = 0; i < step->n_in; i++) {
        if (!may_be_last(d, i))
            continue;
        size_t bytes = 0;
        (void)cm_tensor_bytes(&d->in[i], &bytes);
        may_in = may_in || i < n_own;
        d->follows_output[l->n_in] = i >= n_own;
        d->reads[l->n_in] = variable(p, step->in[i].value, &d->in[i]);
        d->convert[l->n_in++] = conversion_cost(p, d, bytes);
    }
    for (int o = 0; o < step->n_out; o++) {
        if (!d->outs[o] || !has_channels(&d->out[o]))
            continue;
        int v = variable(p, step->out[o].value, &d->out[o]);
        if (v >= 0)
            d->makes[l->n_out++] = v;
        else
            may_out = false;
    }
    may_out = may_out && l->n_out > 0;
    for (int m = 0; m < 2; m++)
        for (int o = 0; o < 2; o++)
            l->cost[m][o] = (m && !may_in) || (o && !may_out) ? INFINITY : mode_cost(p, d, m, o);
    shun_reference(d, l);
    return CM_OK;
}

static cm_status solve_layouts(preparing *p, unsigned char *labels, unsigned char *modes)
{
    cm_layout_step *steps, *some;
    int *where, n = 0;
    unsigned char *chosen;
    CM_NEW_N(p->cx, p->cx->scratch, steps, p->n, cm_layout_step);
    CM_NEW_N(p->cx, p->cx->scratch, some, p->n, cm_layout_step);
    CM_NEW_N(p->cx, p->cx->scratch, where, p->n, int);
    CM_NEW_N(p->cx, p->cx->scratch, chosen, p->n, unsigned char);
    bool any = false;
    for (int i = 0; i < p->n; i++) {
        CM_TRY(describe(p, &p->drafts[i], &steps[i]));
        const cm_layout_step *l = &steps[i];
        any = any || l->cost[0][1] < INFINITY || l->cost[1][1] < INFINITY;
        if (l->n_in + l->n_out) {
            where[n] = i;
            some[n++] = *l;
        }
    }
    if (!any) /* nothing here can make anything channels-last */
        return CM_OK;
    int n_values = p->c->engine->plan->n_values;
    CM_TRY(cm_layout_solve(p->cx, p->cx->scratch, some, n, n_values, labels, chosen, NULL));
    for (int i = 0; i < n; i++)
        modes[where[i]] = chosen[i];
    return CM_OK;
}

static bool same_strides(const cm_tensor *a, const cm_tensor *b)
{
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != 1 && a->strides[i] != b->strides[i])
            return false;
    return true;
}

/* Inputs whose values lie in another layout than the step wants. */
static cm_status plan_conversions(preparing *p, draft *d)
{
    const cm_plan_step *step = d->s->plan;
    cm_solution *sol = d->sol;
    CM_NEW_N(p->cx, &p->c->bound_arena, sol->conversions, step->n_in, cm_conversion);
    for (int i = 0; i < step->n_in; i++) {
        size_t bytes;
        if (!sol->in[i] || d->constant[i] || cm_tensor_elems(&d->in[i]) == 0 ||
            same_strides(&d->in[i], &p->c->slots[step->in[i].value].datum.tensor))
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
static cm_status use_problem(preparing *p, draft *d)
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
static bool is_known(const preparing *p, const draft *d)
{
    bool known = d->in_main && p->c->device;
    for (int o = 0; o < d->s->plan->n_out; o++)
        known = known && (!d->outs[o] || p->known[d->s->plan->out[o].value]);
    return known;
}

static void use_known(preparing *p, draft *d)
{
    d->sol->way = CM_WAY_KNOWN;
    for (int o = 0; o < d->s->plan->n_out; o++)
        if (d->outs[o])
            p->c->slots[d->s->plan->out[o].value].datum.tensor.data =
                (void *)p->known[d->s->plan->out[o].value];
}

static cm_status settle(preparing *p, draft *d, const unsigned char *labels, int mode)
{
    const cm_plan_step *step = d->s->plan;
    int label = 0;
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o] && variable(p, step->out[o].value, &d->out[o]) >= 0)
            label |= labels[step->out[o].value];
    set_layouts(d, mode, label);
    for (int o = 0; o < step->n_out; o++)
        if (d->outs[o])
            memcpy(p->c->slots[step->out[o].value].datum.tensor.strides, d->out[o].strides,
                   sizeof d->out[o].strides);
    d->sol->choice = d->choice[mode][label];
    d->sol->may_go = d->may_go;
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
static cm_status extend_lifetimes(preparing *p)
{
    cm_context *c = p->c;
    for (int i = 0; i < c->engine->plan->n_values; i++)
        c->last[i] = c->engine->values[i].last;
    if (c->device)
        CM_TRY(cm_place_values(p->cx, c));
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

static void find_small_inputs(preparing *p)
{
    const cm_plan_list *main = &p->c->engine->variant->lists[0];
    for (int i = 0; i < main->n_inputs; i++) {
        const cm_slot *s = &p->c->slots[main->inputs[i]];
        p->small[main->inputs[i]] = s->shaped && few_integers(&s->datum.tensor);
    }
}

static cm_status prepare(preparing *p)
{
    cm_context *c = p->c;
    unsigned char *labels, *modes;
    CM_NEW_N(p->cx, p->cx->scratch, p->drafts, c->engine->n_steps, draft);
    CM_NEW_N(p->cx, p->cx->scratch, p->plain, c->engine->plan->n_values, bool);
    CM_NEW_N(p->cx, p->cx->scratch, p->known, c->engine->plan->n_values, const void *);
    CM_NEW_N(p->cx, p->cx->scratch, p->small, c->engine->plan->n_values, bool);
    CM_NEW_N(p->cx, p->cx->scratch, labels, c->engine->plan->n_values, unsigned char);
    CM_NEW_N(p->cx, p->cx->scratch, modes, c->engine->n_steps, unsigned char);
    find_small_inputs(p);
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        if (c->by_value[i])
            p->known[c->engine->variant->lists[0].inputs[i]] = cm_bind_elements(c, i);
    CM_TRY(shape_list(p, 0));
    CM_TRY(solve_layouts(p, labels, modes));
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
        s->shaped = c->inputs[i].kind == CM_TENSOR && usable(&c->inputs[i].tensor);
    }
    cm_arena *outer = cx->scratch; /* a run's scratch is not to be grown by tables of this size */
    cm_arena scratch, symbols;
    cm_arena_init(&scratch, c->allocator);
    cm_arena_init(&symbols, c->allocator);
    cx->scratch = &scratch;
    preparing p = {.cx = cx, .c = c};
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

cm_status cm_pack_weights(cm_ctx *cx, cm_context *c)
{
    for (int k = 0; k < c->engine->n_steps; k++) {
        cm_solution *sol = &c->solutions[k];
        for (int i = 0; sol->way == CM_WAY_TACTIC && !sol->away && i < sol->p.n_in; i++)
            CM_TRY(cm_packed_input(cx, c->engine, c->engine->ready[k], &sol->p, &sol->choice, i,
                                   c->threads, &sol->packed[i]));
        CM_TRY(cm_plain_inputs(cx, c, c->engine->ready[k], sol));
    }
    return CM_OK;
}
