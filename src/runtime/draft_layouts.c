/* draft_layouts.c -- which values are kept channels-last, from what each step costs in each layout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest tactic of each step is found with its activations row-major and channels-last; layout.c minimises those costs
 * and the conversions between them over the whole network. Layout variables are the values themselves. */
#include <math.h>

#include "runtime/draft.h"
#include "runtime/layout.h"

/* Would channels-last be something else for it? */
static bool has_channels(const cm_tensor *t)
{
    if (t->rank < 3 || t->packed || t->dims[1] < 2 || cm_tensor_elems(t) == 0)
        return false;
    return cm_dims_product(t->dims, 2, t->rank) > 1;
}

static bool may_be_last(const cm_draft *d, int i)
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

void cm_draft_set_layouts(cm_draft *d, bool in_last, bool out_last)
{
    int n_own = d->s->plan->n_in - d->s->plan->epilogue.n_operands;
    for (int i = 0; i < d->s->plan->n_in; i++)
        if (d->sol->in[i] && !d->constant[i])
            set_layout(&d->in[i], may_be_last(d, i) && (i < n_own ? in_last : out_last));
    for (int o = 0; o < d->s->plan->n_out; o++)
        if (d->outs[o])
            set_layout(&d->out[o], out_last);
}

/* The same bits as elements of another type; a bool is 0 or 1 everywhere else. */
static bool is_bit_cast(const cm_draft *d)
{
    return d->s->op->id == CM_OP_BIT_CAST && d->out[0].dtype != CM_BOOL;
}

/* Is the step, in this layout, only another way of looking at input 0's memory? */
static bool is_view_of(const cm_draft *d)
{
    const cm_ready_step *s = d->s;
    if (s->plan->n_in < 1 || s->plan->n_out < 1 || s->plan->epilogue.program)
        return false;
    if (!d->outs[0] || !d->sol->in[0] || (d->in[0].dtype != d->out[0].dtype && !is_bit_cast(d)))
        return false;
    cm_tensor t = d->out[0];
    if (s->op->traits & CM_VIEW) {
        if (cm_tensor_elems(&t) != cm_tensor_elems(&d->in[0]) || !cm_view_strides(&d->in[0], &t))
            return false;
    } else if (is_bit_cast(d)) {
        if (!cm_view_strides(&d->in[0], &t))
            return false;
    } else if (s->op->id == CM_OP_TRANSPOSE && !t.packed) {
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

static double reference_cost(const cm_draft *d)
{
    double n = 0;
    for (int o = 0; o < d->s->plan->n_out; o++)
        n += d->outs[o] ? (double)cm_tensor_elems(&d->out[o]) : 0;
    return 1000 + 20 * n; /* rough: it only has to lose against a kernel */
}

/* What it costs that a step of a device's network runs on the host: a wait and copies both ways. */
static double detour_cost(const cm_draft *d)
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

static double mode_cost(cm_preparing *p, cm_draft *d, int in_last, int out_last)
{
    cm_choice *choice = &d->choice[in_last][out_last];
    double detour = 0;
    cm_draft_set_layouts(d, in_last, out_last);
    d->view[in_last][out_last] = is_view_of(d);
    if (d->view[in_last][out_last])
        return 0;
    if (d->may_go) {
        cm_draft_choose(p, d, &p->c->device->target, choice);
        d->away[in_last][out_last] = choice->tactic != NULL;
        if (choice->tactic)
            return choice->ns;
        detour = detour_cost(d);
    }
    cm_draft_choose(p, d, &p->c->target, choice);
    if (choice->tactic)
        return choice->ns + detour;
    return in_last || out_last ? INFINITY : reference_cost(d) + detour;
}

static double conversion_cost(const cm_preparing *p, const cm_draft *d, size_t bytes)
{
    const cm_device_state *device = p->c->device;
    return d->may_go ? device->api->copy_ns(&device->target, bytes) : 300 + (double)bytes * 0.25;
}

int cm_draft_variable(const cm_preparing *p, int32_t v, const cm_tensor *t)
{
    return p->plain[v] || !has_channels(t) ||
                   p->c->engine->plan->values[v].storage != CM_STORE_ARENA
               ? -1
               : v;
}

/* Where a kernel takes the step in another layout, the reference is never worth the conversions that it
 * saves: products take it a hundred times as long, which its rough cost does not know. */
static void shun_reference(const cm_draft *d, cm_layout_step *l)
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

/* Has the step no reason of its own to want anything channels-last? */
static bool only_follows(cm_preparing *p, cm_draft *d)
{
    cm_problem problem;
    if (d->s->op->traits & CM_VIEW)
        return true;
    cm_arena_mark mark = cm_arena_save(p->cx->scratch);
    cm_draft_set_layouts(d, false, false);
    bool formed = cm_form_problem(p->cx->scratch, d->s, d->sol->in, d->constant, d->outs,
                                  &p->c->target, cm_threads_count(p->c->threads), &problem);
    cm_arena_restore(p->cx->scratch, mark);
    switch (formed ? problem.kind : CM_PROBLEM_EVALUATE) {
    case CM_PROBLEM_EVALUATE:
        return d->s->op->id != CM_OP_TRANSPOSE;
    case CM_PROBLEM_ROWS:
        return problem.as.rows.kind != CM_ROWS_GROUP_NORM && problem.as.rows.inner == 1;
    case CM_PROBLEM_MATMUL:
    case CM_PROBLEM_ATTENTION:
    case CM_PROBLEM_POINTWISE:
    case CM_PROBLEM_GATHER:
    case CM_PROBLEM_ROTARY:
        return true;
    default:
        return false;
    }
}

/* Encoders of text are of such steps alone: three of four choices, and of what tuning measures, are saved there. */
static bool nobody_wants_channels_last(cm_preparing *p)
{
    for (int i = 0; i < p->n; i++)
        if (!only_follows(p, &p->drafts[i]))
            return false;
    return true;
}

static cm_status describe(cm_preparing *p, cm_draft *d, bool only_plain, cm_layout_step *l)
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
        d->reads[l->n_in] = cm_draft_variable(p, step->in[i].value, &d->in[i]);
        d->convert[l->n_in++] = conversion_cost(p, d, bytes);
    }
    for (int o = 0; o < step->n_out; o++) {
        if (!d->outs[o] || !has_channels(&d->out[o]))
            continue;
        int v = cm_draft_variable(p, step->out[o].value, &d->out[o]);
        if (v >= 0)
            d->makes[l->n_out++] = v;
        else
            may_out = false;
    }
    may_in = may_in && !only_plain;
    may_out = may_out && l->n_out > 0 && !only_plain;
    for (int m = 0; m < 2; m++)
        for (int o = 0; o < 2; o++)
            l->cost[m][o] = (m && !may_in) || (o && !may_out) ? INFINITY : mode_cost(p, d, m, o);
    shun_reference(d, l);
    return CM_OK;
}

cm_status cm_draft_layouts(cm_preparing *p, unsigned char *labels, unsigned char *modes)
{
    cm_layout_step *steps, *some;
    int *where, n = 0;
    unsigned char *chosen;
    CM_NEW_N(p->cx, p->cx->scratch, steps, p->n, cm_layout_step);
    CM_NEW_N(p->cx, p->cx->scratch, some, p->n, cm_layout_step);
    CM_NEW_N(p->cx, p->cx->scratch, where, p->n, int);
    CM_NEW_N(p->cx, p->cx->scratch, chosen, p->n, unsigned char);
    bool any = false, only_plain = nobody_wants_channels_last(p);
    for (int i = 0; i < p->n; i++) {
        CM_TRY(describe(p, &p->drafts[i], only_plain, &steps[i]));
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
