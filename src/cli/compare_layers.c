/* compare_layers.c -- layers of two plans matched by the ONNX nodes they cover; the first that parts, and why.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Layers of A and B that share a node belong to one *unit*: a convolution, a normalisation and an activation of A
 * may be one fused layer of B. What a unit hands to other units is the same value on both sides, if there is one; a
 * side that has several hands over the last of them, and where both have several they are told apart by name. Such
 * pairs are compared. What a pair is made of follows from A's steps, backwards to other pairs. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/threads.h"
#include "cli/compare.h"

/* ---- Units -------------------------------------------------------------------------------------- */

/* One side's plan as matching sees it. Step numbers are the engine's. */
typedef struct {
    const cm_engine *e;
    const cm_plan *plan;
    int n_steps;
    int *unit;    /* per step: index in `parent`, -1: nested */
    int *maker;   /* per value: the main step that makes it, -1: none */
    bool *leaves; /* per value: read by another unit, or an output */
} face;

typedef struct {
    cm_ctx *cx;
    face f[2];
    int n_units;
    int *parent; /* of units, to be joined */
} matcher;

static int root(const matcher *m, int u)
{
    while (m->parent[u] != u)
        u = m->parent[u] = m->parent[m->parent[u]];
    return u;
}

static cm_status look(matcher *m, const cm_engine *e, face *f)
{
    f->e = e;
    f->plan = cm_engine_plan(e);
    f->n_steps = cm_engine_n_steps(e);
    CM_NEW_N(m->cx, m->cx->arena, f->unit, f->n_steps, int);
    CM_NEW_N(m->cx, m->cx->arena, f->maker, f->plan->n_values, int);
    CM_NEW_N(m->cx, m->cx->arena, f->leaves, f->plan->n_values, bool);
    for (int v = 0; v < f->plan->n_values; v++)
        f->maker[v] = -1;
    for (int s = 0; s < f->n_steps; s++) {
        const cm_plan_step *p = cm_engine_step(e, s);
        f->unit[s] = cm_engine_step_is_main(e, s) ? m->n_units++ : -1;
        for (int o = 0; o < p->n_out && f->unit[s] >= 0; o++)
            if (p->out[o].value >= 0)
                f->maker[p->out[o].value] = s;
    }
    return CM_OK;
}

/* Join the units of steps that cover the same node. */
static cm_status join(matcher *m)
{
    cm_map nodes;
    int *first; /* unit of a node, by its place in the map */
    int n = 0, k = 0;
    for (int i = 0; i < 2; i++)
        for (int s = 0; s < m->f[i].n_steps; s++)
            n += cm_engine_step(m->f[i].e, s)->n_from;
    cm_map_init(&nodes, m->cx->scratch);
    CM_NEW_N(m->cx, m->cx->scratch, first, n, int);
    for (int i = 0; i < 2; i++) {
        for (int s = 0; s < m->f[i].n_steps; s++) {
            const cm_plan_step *p = cm_engine_step(m->f[i].e, s);
            for (int j = 0; j < p->n_from && m->f[i].unit[s] >= 0; j++) {
                int *known = cm_map_get(&nodes, p->from[j]);
                if (known) {
                    m->parent[root(m, m->f[i].unit[s])] = root(m, *known);
                    continue;
                }
                first[k] = m->f[i].unit[s];
                if (!cm_map_put(&nodes, p->from[j], &first[k++]))
                    return cm_fail_memory(m->cx);
            }
        }
    }
    return CM_OK;
}

static void read_by(const matcher *m, face *f, int value, int unit)
{
    int s = value >= 0 ? f->maker[value] : -1;
    if (s >= 0 && (unit < 0 || root(m, f->unit[s]) != root(m, unit)))
        f->leaves[value] = true;
}

/* Which values leave their unit? What nested lists capture is read by their control step. */
static void find_leaving(const matcher *m, face *f)
{
    const cm_plan_variant *v = cm_engine_variant(f->e);
    for (int s = 0; s < f->n_steps; s++) {
        const cm_plan_step *p = cm_engine_step(f->e, s);
        if (f->unit[s] < 0)
            continue;
        for (int i = 0; i < p->n_in; i++)
            read_by(m, f, p->in[i].value, f->unit[s]);
        for (int l = 0; l < p->n_lists; l++)
            for (int k = 0; k < v->lists[p->lists[l]].n_captures; k++)
                read_by(m, f, v->lists[p->lists[l]].captures[k], f->unit[s]);
    }
    for (int o = 0; o < v->lists[0].n_outputs; o++)
        read_by(m, f, v->lists[0].outputs[o], -1);
}

/* ---- Pairs -------------------------------------------------------------------------------------- */

/* Values of one side that leave a unit. */
typedef struct {
    int n, last; /* `last` is made by the latest step */
} exits;

static void count_exits(const matcher *m, const face *f, exits *e)
{
    for (int v = 0; v < f->plan->n_values; v++) {
        if (!f->leaves[v])
            continue;
        exits *x = &e[root(m, f->unit[f->maker[v]])];
        if (!x->n++ || f->maker[v] >= f->maker[x->last])
            x->last = v;
    }
}

/* The value of A that is B's value v; -1: none is known to be. */
static int partner(const matcher *m, const exits *in_a, const exits *in_b, int v)
{
    const face *a = &m->f[0], *b = &m->f[1];
    int u = root(m, b->unit[b->maker[v]]);
    if (in_a[u].n && v == in_b[u].last && (in_a[u].n == 1 || in_b[u].n == 1))
        return in_a[u].last;
    for (int w = 0; w < a->plan->n_values; w++)
        if (a->leaves[w] && root(m, a->unit[a->maker[w]]) == u &&
            !strcmp(a->plan->values[w].name, b->plan->values[v].name))
            return w;
    return -1;
}

static cm_status list_pairs(matcher *m, cm_pairs *out)
{
    const face *b = &m->f[1];
    exits *in_a, *in_b;
    CM_NEW_N(m->cx, m->cx->scratch, in_a, m->n_units, exits);
    CM_NEW_N(m->cx, m->cx->scratch, in_b, m->n_units, exits);
    CM_NEW_N(m->cx, m->cx->arena, out->v, b->plan->n_values, cm_pair);
    count_exits(m, &m->f[0], in_a);
    count_exits(m, b, in_b);
    for (int s = 0; s < b->n_steps; s++) {
        const cm_plan_step *p = cm_engine_step(b->e, s);
        for (int o = 0; o < p->n_out && b->unit[s] >= 0; o++) {
            int v = p->out[o].value, w = v >= 0 && b->leaves[v] ? partner(m, in_a, in_b, v) : -1;
            if (w >= 0)
                out->v[out->n++] = (cm_pair){.value = {w, v}, .step = {m->f[0].maker[w], s}};
        }
    }
    return CM_OK;
}

/* ---- What a pair is made of ---------------------------------------------------------------------- */

/* A walk in A from a pair backwards to others: the steps to run, in reverse, and the pairs it ends at. */
typedef struct {
    const face *a;
    const int *pair_of; /* per value of A, -1: none */
    int *mark;          /* per value of A: the walk that was there last */
    int walk;
    int *steps, n_steps;
    int *before, n_before;
    bool *step_seen;
} walker;

static void walk_back(walker *w, int value, bool start)
{
    int s = w->a->maker[value];
    if (w->mark[value] == w->walk)
        return;
    w->mark[value] = w->walk;
    if (!start && w->pair_of[value] >= 0) {
        w->before[w->n_before++] = w->pair_of[value];
        return;
    }
    if (s < 0 || w->step_seen[s])
        return;
    w->step_seen[s] = true;
    const cm_plan_step *p = cm_engine_step(w->a->e, s);
    const cm_plan_variant *v = cm_engine_variant(w->a->e);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].value >= 0)
            walk_back(w, p->in[i].value, false);
    for (int l = 0; l < p->n_lists; l++)
        for (int k = 0; k < v->lists[p->lists[l]].n_captures; k++)
            walk_back(w, v->lists[p->lists[l]].captures[k], false);
    w->steps[w->n_steps++] = s; /* after what it reads */
}

static cm_status start_walks(cm_ctx *cx, const face *a, const cm_pairs *p, walker *w)
{
    int *pair_of, n = a->plan->n_values;
    *w = (walker){.a = a};
    CM_NEW_N(cx, cx->arena, pair_of, n, int);
    CM_NEW_N(cx, cx->arena, w->mark, n, int);
    CM_NEW_N(cx, cx->arena, w->before, n, int);
    CM_NEW_N(cx, cx->arena, w->steps, a->n_steps, int);
    CM_NEW_N(cx, cx->arena, w->step_seen, a->n_steps, bool);
    for (int v = 0; v < n; v++)
        pair_of[v] = -1;
    for (int i = 0; i < p->n; i++)
        if (p->v[i].error.comparable)
            pair_of[p->v[i].value[0]] = i;
    w->pair_of = pair_of;
    return CM_OK;
}

static void walk_from(walker *w, const cm_pair *pair)
{
    w->walk++;
    w->n_before = w->n_steps = 0;
    memset(w->step_seen, 0, (size_t)w->a->n_steps * sizeof *w->step_seen);
    walk_back(w, pair->value[0], true);
}

static cm_status find_before(cm_ctx *cx, const cm_engine *e, cm_pairs *p)
{
    matcher m = {.cx = cx};
    walker w;
    CM_TRY(look(&m, e, &m.f[0]));
    CM_TRY(start_walks(cx, &m.f[0], p, &w));
    for (int i = 0; i < p->n; i++) {
        walk_from(&w, &p->v[i]);
        p->v[i].n_before = w.n_before;
        p->v[i].before = cm_arena_memdup(cx->arena, w.before,
                                         (size_t)(w.n_before ? w.n_before : 1) * sizeof *w.before);
        if (!p->v[i].before)
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

static cm_status want(cm_ctx *cx, cm_side *s, int which, const cm_pairs *p)
{
    bool *wanted;
    CM_NEW_N(cx, cx->arena, wanted, cm_engine_plan(s->engine)->n_values, bool);
    for (int i = 0; i < p->n; i++)
        wanted[p->v[i].value[which]] = true;
    s->wanted = wanted;
    return CM_OK;
}

cm_status cm_pairs_match(cm_ctx *cx, cm_side *a, cm_side *b, cm_pairs *out)
{
    matcher m = {.cx = cx};
    *out = (cm_pairs){0};
    CM_TRY(look(&m, a->engine, &m.f[0]));
    CM_TRY(look(&m, b->engine, &m.f[1]));
    out->n_layers[0] = m.f[0].n_steps;
    out->n_layers[1] = m.f[1].n_steps;
    CM_NEW_N(cx, cx->arena, m.parent, m.n_units, int);
    for (int u = 0; u < m.n_units; u++)
        m.parent[u] = u;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    CM_TRY(join(&m));
    find_leaving(&m, &m.f[0]);
    find_leaving(&m, &m.f[1]);
    CM_TRY(list_pairs(&m, out));
    cm_arena_restore(cx->scratch, mark);
    CM_TRY(want(cx, a, 0, out));
    return want(cx, b, 1, out);
}

/* ---- Cause or effect ------------------------------------------------------------------------------ */

typedef struct {
    cm_ctx *cx;
    const cm_side *a, *b;
    const cm_pairs *pairs;
    const int *pair_of;
    cm_arena *arena;
    cm_threads *threads;
    cm_datum *made; /* per value of A; kind CM_NOTHING: not yet */
} rerun;

/* An input of A's step: B's own where there is a pair, else what was made here, a constant or an input. */
static cm_status rerun_input(rerun *r, int value, int target, const cm_datum **out)
{
    cm_datum *d = &r->made[value];
    int k = r->pair_of[value];
    if (d->kind == CM_NOTHING && k >= 0 && k != target) {
        const cm_tensor *t = &r->b->kept[r->pairs->v[k].value[1]];
        const cm_tensor *like = &r->a->kept[value];
        if (t->rank < 0 || like->rank < 0)
            return cm_fail(r->cx, CM_ERR_UNSUPPORTED, "an input of it is not a plain tensor");
        d->kind = CM_TENSOR;
        CM_TRY(cm_tensor_cast(r->cx, r->arena, t, like->dtype, &d->tensor));
        if (!cm_tensor_shape(&d->tensor, like->dtype, like->rank, like->dims))
            return cm_fail_memory(r->cx);
    }
    *out = d->kind == CM_NOTHING ? cm_context_value(r->a->context, value) : d;
    return *out ? CM_OK : cm_fail(r->cx, CM_ERR_UNSUPPORTED, "an input of it is gone");
}

static cm_status rerun_step(rerun *r, int step, int target)
{
    const cm_plan_step *p = cm_engine_step(r->a->engine, step);
    const cm_datum **in;
    cm_datum *out;
    CM_NEW_N(r->cx, r->arena, in, p->n_in, const cm_datum *);
    CM_NEW_N(r->cx, r->arena, out, p->n_out, cm_datum);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].value >= 0)
            CM_TRY(rerun_input(r, p->in[i].value, target, &in[i]));
    CM_TRY(cm_engine_eval_step(r->cx, r->arena, r->a->engine, step, in, r->threads, out));
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o].value >= 0)
            r->made[p->out[o].value] = out[o];
    return CM_OK;
}

/* A's steps behind the pair, on what B had in their place, beside what B made. */
static cm_status run_alone(rerun *r, walker *w, int target, cm_error *out)
{
    const cm_pair *pair = &r->pairs->v[target];
    for (int i = 0; i < w->n_steps; i++)
        CM_TRY(rerun_step(r, w->steps[i], target));
    const cm_datum *d = &r->made[pair->value[0]];
    if (d->kind != CM_TENSOR || !cm_tensor_is_dense(&d->tensor))
        return cm_fail(r->cx, CM_ERR_UNSUPPORTED, "its result is not a plain tensor");
    cm_error_measure(&d->tensor, &r->b->kept[pair->value[1]], out);
    return CM_OK;
}

static cm_status find_cause(cm_ctx *cx, const cm_side *a, const cm_side *b, double tolerance,
                            const cm_pairs *p, cm_verdict *v)
{
    cm_arena arena;
    matcher m = {.cx = cx};
    walker w;
    rerun r = {.cx = cx, .a = a, .b = b, .pairs = p, .arena = &arena};
    CM_TRY(look(&m, a->engine, &m.f[0]));
    CM_TRY(start_walks(cx, &m.f[0], p, &w));
    r.pair_of = w.pair_of;
    CM_NEW_N(cx, cx->arena, r.made, m.f[0].plan->n_values, cm_datum);
    CM_TRY(cm_threads_create(cx, a->how.threads, &r.threads));
    cm_arena_init(&arena, cx->allocator);
    walk_from(&w, &p->v[v->first]);
    v->n_steps = w.n_steps;
    v->steps = w.steps;
    cm_status st = run_alone(&r, &w, v->first, &v->alone);
    cm_threads_destroy(r.threads);
    cm_arena_deinit(&arena);
    if (st == CM_ERR_MEMORY || st == CM_ERR_CANCELLED)
        return st;
    if (st != CM_OK) {
        snprintf(v->why_unknown, sizeof v->why_unknown, "%.250s", cx->message);
        return CM_OK;
    }
    v->cause = v->alone.distance > tolerance ? CM_CAUSE_ITSELF : CM_CAUSE_INPUTS;
    return CM_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------------ */

static bool is_output(const cm_engine *e, int value)
{
    const cm_plan_list *main = &cm_engine_variant(e)->lists[0];
    for (int i = 0; i < main->n_outputs; i++)
        if (main->outputs[i] == value)
            return true;
    return false;
}

/* A pair that diverges while all that is made of it agrees holds the same in another form. */
static void find_healing(const cm_side *b, cm_pairs *p)
{
    for (int i = 0; i < p->n; i++)
        p->v[i].heals = p->v[i].diverges && !is_output(b->engine, p->v[i].value[1]);
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->v[i].n_before && p->v[i].diverges; k++)
            p->v[p->v[i].before[k]].heals = false;
}

cm_status cm_pairs_measure(cm_ctx *cx, const cm_side *a, const cm_side *b, double tolerance,
                           cm_pairs *p, cm_verdict *out)
{
    *out = (cm_verdict){.first = -1, .worst_before = -1};
    for (int i = 0; i < p->n; i++) {
        cm_pair *v = &p->v[i];
        const cm_tensor *x = &a->kept[v->value[0]], *y = &b->kept[v->value[1]];
        if (x->rank < 0 || y->rank < 0)
            continue;
        cm_error_measure(x, y, &v->error);
        v->diverges = v->error.comparable && v->error.distance > tolerance;
    }
    CM_TRY(find_before(cx, a->engine, p));
    find_healing(b, p);
    for (int i = 0; i < p->n && out->first < 0; i++)
        if (p->v[i].diverges && !p->v[i].heals)
            out->first = i;
    if (out->first < 0)
        return CM_OK;
    const cm_pair *first = &p->v[out->first];
    for (int k = 0; k < first->n_before; k++) {
        const cm_error *e = &p->v[first->before[k]].error;
        if (e->comparable &&
            (out->worst_before < 0 || e->distance > p->v[out->worst_before].error.distance))
            out->worst_before = first->before[k];
    }
    return find_cause(cx, a, b, tolerance, p, out);
}
