/* select.c -- the cheapest tactic that takes a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/map.h"
#include "runtime/device.h"

static uint64_t hash_tensor(uint64_t h, const cm_tensor *t)
{
    if (!t)
        return cm_hash_bytes("-", 1, h);
    int32_t head[2] = {(int32_t)t->dtype, t->rank};
    int64_t strides[CM_MAX_RANK];
    for (int a = 0; a < t->rank; a++)
        strides[a] = t->dims[a] == 1 ? 0 : t->strides[a];
    h = cm_hash_bytes(head, sizeof head, h);
    h = cm_hash_bytes(t->dims, (size_t)t->rank * sizeof *t->dims, h);
    return cm_hash_bytes(strides, (size_t)t->rank * sizeof *strides, h);
}

uint64_t cm_signature(const cm_ready_step *s, const cm_problem *p)
{
    const cm_plan_step *step = s->plan;
    int32_t head[4] = {(int32_t)p->kind, p->target.level, p->threads, p->n_operands};
    uint64_t h = cm_hash_bytes(head, sizeof head, 0);
    h = cm_hash_bytes(p->op, strlen(p->op), h);
    if (step->attr_n)
        h = cm_hash_bytes(step->attr_bytes, step->attr_n, h);
    for (int i = 0; i < p->n_in; i++) {
        unsigned char constant = p->constant[i];
        h = cm_hash_bytes(&constant, 1, hash_tensor(h, p->in[i]));
    }
    for (int i = 0; i < p->n_operands; i++)
        h = hash_tensor(h, p->operands[i]);
    for (int o = 0; o < p->n_out; o++)
        h = hash_tensor(h, p->out[o]);
    const char *program = step->epilogue.program;
    if (p->tf32)
        h = cm_hash_bytes("tf32", 4, h);
    if (p->then) {
        unsigned char kept = p->kept;
        h = cm_hash_bytes(p->then->op, strlen(p->then->op), cm_hash_bytes(&kept, 1, h));
    }
    return program ? cm_hash_bytes(program, strlen(program), h) : h;
}

static void add_candidates(const cm_problem *p, const cm_tactic *t, cm_candidate *list, int *n)
{
    cm_knobs knobs[CM_MAX_KNOBS];
    if (t->level > p->target.level || cm_tactic_declines(t, p))
        return;
    memset(&knobs[0], 0, sizeof knobs[0]);
    int n_knobs = t->knobs ? t->knobs(p, knobs) : 1;
    for (int k = 0; k < n_knobs && *n < CM_MOST_CANDIDATES; k++)
        list[(*n)++] = (cm_candidate){t, knobs[k], t->cost(p, &knobs[k]), NAN};
}

/* A backend's rows for the problem; an operator of a plugin brings its own. */
static const cm_tactic *rows_for(const cm_backend *b, const cm_ready_step *s, const cm_problem *p,
                                 int *n)
{
    if (p->kind != CM_PROBLEM_CUSTOM)
        return b->tactics(p->kind, n);
    *n = s->op->n_tactics[b->device];
    return s->op->tactics[b->device];
}

static int candidates(const cm_ready_step *s, const cm_problem *p, cm_candidate *list)
{
    int n = 0, n_rows;
    for (int b = 0; cm_backend_at(b); b++) {
        const cm_backend *backend = cm_backend_at(b);
        if (backend->device != p->target.kind)
            continue;
        const cm_tactic *rows = rows_for(backend, s, p, &n_rows);
        for (int i = 0; i < n_rows; i++)
            add_candidates(p, &rows[i], list, &n);
    }
    return n;
}

static void look_up(const cm_context *c, uint64_t signature, cm_candidate *list, int n)
{
    const cm_timings *tables[] = {c->timings, c->device ? &c->device->timings : NULL,
                                  c->engine->timings};
    for (int k = 0; k < CM_COUNT(tables); k++)
        for (int i = 0; tables[k] && i < n; i++)
            if (isnan(list[i].measured_ns))
                list[i].measured_ns =
                    cm_timings_find(tables[k], signature, list[i].tactic->name, &list[i].knobs);
}

/* Where nothing was measured for the problem's threads: the candidate that was the fastest for one, or for all cores, counts for
 * less than it is expected to take. A plan has its weights ready, and the cost model is no surer than that. Whether it has them makes
 * no difference: a plan gives the same bits packed and not. */
static void favour_measured(const cm_context *c, const cm_ready_step *s, const cm_problem *p,
                            cm_candidate *list, int n)
{
    static const double FAVOUR = 0.8;
    const int others[] = {cm_cpu_cores(), 1};
    int best = -1;
    for (int k = 0; k < CM_COUNT(others) && best < 0; k++) {
        cm_candidate there[CM_MOST_CANDIDATES];
        cm_problem q = *p;
        if (others[k] == p->threads)
            continue;
        q.threads = others[k];
        memcpy(there, list, (size_t)n * sizeof *list);
        look_up(c, cm_signature(s, &q), there, n);
        for (int i = 0; i < n; i++)
            if (!isnan(there[i].measured_ns) &&
                (best < 0 || there[i].measured_ns < there[best].measured_ns))
                best = i;
    }
    if (best >= 0)
        list[best].predicted_ns *= FAVOUR;
}

static bool any_measured(const cm_candidate *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!isnan(list[i].measured_ns))
            return true;
    return false;
}

/* The cheapest by what was measured, by what is expected where nothing was; none of an empty list. */
static void pick(const cm_candidate *list, int n, cm_choice *out)
{
    bool measured = any_measured(list, n);
    *out = (cm_choice){.ns = INFINITY};
    for (int i = 0; i < n; i++) {
        double ns = measured ? list[i].measured_ns : list[i].predicted_ns;
        if (ns < out->ns)
            *out = (cm_choice){list[i].tactic, list[i].knobs, ns};
    }
}

void cm_select(const cm_context *c, const cm_ready_step *s, const cm_problem *p, cm_choice *out)
{
    cm_candidate list[CM_MOST_CANDIDATES];
    int n = candidates(s, p, list);
    if (n && (c->tune || c->timings || c->device || c->engine->timings)) {
        uint64_t signature = cm_signature(s, p);
        look_up(c, signature, list, n);
        if (c->tune)
            c->tune(c->tune_user, signature, p, list, n, c->threads);
    }
    if (n > 1 && !any_measured(list, n) && p->target.kind == CM_DEVICE_CPU &&
        (c->timings || c->engine->timings))
        favour_measured(c, s, p, list, n);
    pick(list, n, out);
}

static bool is_among(const cm_tactic *t, const cm_tactic *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] == t)
            return true;
    return false;
}

void cm_select_without(const cm_context *c, const cm_ready_step *s, const cm_problem *p,
                       const cm_tactic *const *refused, int n_refused, cm_choice *out)
{
    cm_candidate list[CM_MOST_CANDIDATES];
    int n = 0, all = candidates(s, p, list);
    for (int i = 0; i < all; i++)
        if (!is_among(list[i].tactic, refused, n_refused))
            list[n++] = list[i];
    look_up(c, cm_signature(s, p), list, n);
    pick(list, n, out);
}

void cm_select_expected(const cm_ready_step *s, const cm_problem *p, cm_choice *out)
{
    cm_candidate list[CM_MOST_CANDIDATES];
    int n = candidates(s, p, list);
    *out = (cm_choice){.ns = INFINITY};
    for (int i = 0; i < n; i++)
        if (list[i].predicted_ns < out->ns)
            *out = (cm_choice){list[i].tactic, list[i].knobs, list[i].predicted_ns};
}

static void explain_tactic(const cm_context *c, uint64_t signature, const cm_problem *p,
                           const cm_tactic *t, cm_tactic_fn fn, void *user)
{
    const char *why =
        t->level > p->target.level ? "needs a higher instruction set" : cm_tactic_declines(t, p);
    if (why) {
        fn(user, t, why, NULL);
        return;
    }
    cm_candidate list[CM_MOST_CANDIDATES];
    int n = 0;
    add_candidates(p, t, list, &n);
    look_up(c, signature, list, n);
    for (int i = 0; i < n; i++)
        fn(user, t, NULL, &list[i]);
}

const cm_problem *cm_context_problem(const cm_context *c, int step)
{
    const cm_solution *sol = &c->solutions[step];
    return sol->way == CM_WAY_TACTIC ? &sol->p : NULL;
}

void cm_context_tactics(const cm_context *c, int step, cm_tactic_fn fn, void *user)
{
    const cm_solution *sol = &c->solutions[step];
    const cm_ready_step *s = c->engine->ready[step];
    cm_problem p = sol->p;
    if (p.kind == CM_PROBLEM_EVALUATE)
        return;
    p.then = NULL;
    uint64_t signature = cm_signature(s, &p);
    for (int b = 0; cm_backend_at(b); b++) {
        int n;
        if (cm_backend_at(b)->device != p.target.kind)
            continue;
        const cm_tactic *rows = rows_for(cm_backend_at(b), s, &p, &n);
        for (int i = 0; i < n; i++)
            explain_tactic(c, signature, &p, &rows[i], fn, user);
    }
}

bool cm_context_chosen(const cm_context *c, int step, uint64_t *problem, cm_candidate *out)
{
    const cm_solution *sol = &c->solutions[step];
    if (sol->way != CM_WAY_TACTIC || sol->joined)
        return false;
    const cm_choice *choice = &sol->choice;
    *problem = cm_signature(c->engine->ready[step], &sol->p);
    *out = (cm_candidate){choice->tactic, choice->knobs,
                          choice->tactic->cost(&sol->p, &choice->knobs), NAN};
    look_up(c, *problem, out, 1);
    return true;
}

const char *cm_context_taken_on(const cm_context *c, int step, const cm_target *target,
                                const char **why)
{
    const cm_ready_step *s = c->engine->ready[step];
    const cm_solution *late = target || !c->device ? NULL : &c->device->late_forms[step];
    cm_problem p = late && late->formed ? late->p : c->solutions[step].p;
    target = target ? target : &c->device->target;
    *why = !s->problem                             ? "no kernel is for this operator"
           : c->solutions[step].way == CM_WAY_LATE ? "its sizes were not known before it ran"
                                                   : "no kernel takes this form of it";
    if (p.kind == CM_PROBLEM_EVALUATE)
        return NULL;
    p.target = *target;
    p.then = NULL;
    bool asked = false;
    for (int b = 0; cm_backend_at(b); b++) {
        int n;
        if (cm_backend_at(b)->device != target->kind)
            continue;
        const cm_tactic *rows = rows_for(cm_backend_at(b), s, &p, &n);
        for (int i = 0; i < n; i++) {
            bool newer = rows[i].level > target->level;
            const char *no = newer ? "needs a later target" : cm_tactic_declines(&rows[i], &p);
            if (!no)
                return rows[i].name;
            *why = asked ? *why : no;
            asked = asked || !newer;
        }
    }
    return NULL;
}
