/* precision.c -- which nodes may be in a small type, found by measuring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/precision.h"

#include <math.h>
#include <string.h>

enum { CHUNKS = 16, TRIALS = 200 };

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    const cm_precision_job *job;
    int n; /* candidates, in the order of the network */
    cm_precision_kept *node;
    bool *keep;
    int n_trials, most_trials;
    int n_outputs;
    cm_tensor *wanted; /* n_samples * n_outputs; rank -1: not compared */
} search;

/* ---- Running -------------------------------------------------------------------------------- */

typedef cm_status (*visit_fn)(search *s, cm_context *c, int sample, void *user);

static cm_status run_samples(search *s, cm_engine *e, visit_fn visit, void *user)
{
    cm_context_options o = {.threads = s->job->threads};
    cm_context *c;
    CM_TRY(cm_context_create(s->cx, e, &o, &c));
    cm_status st = CM_OK;
    for (int i = 0; i < s->job->n_samples && st == CM_OK; i++) {
        st = s->job->feed(s->job->user, s->cx, c, i);
        if (st == CM_OK)
            st = cm_context_run(s->cx, c);
        if (st == CM_OK)
            st = visit(s, c, i, user);
    }
    cm_context_destroy(c);
    return st;
}

/* Build as `o` says, run every sample and show each to `visit`. */
static cm_status build_and_run(search *s, const cm_compile_options *o, visit_fn visit, void *user)
{
    cm_network *g;
    cm_buf plan;
    cm_engine *e = NULL;
    CM_TRY(s->job->make(s->job->user, s->cx, &g));
    cm_buf_init(&plan, s->cx->allocator);
    cm_status st = cm_compile_memory(s->cx, g, o, &plan);
    if (st == CM_OK)
        st = cm_engine_open_memory(s->cx, plan.data, plan.n, false, NULL, &e);
    if (st == CM_OK)
        st = run_samples(s, e, visit, user);
    cm_engine_release(e);
    cm_buf_deinit(&plan);
    return st;
}

static bool comparable(const cm_datum *d)
{
    return d->kind == CM_TENSOR && !d->tensor.packed && d->tensor.dtype != CM_STR &&
           cm_dtype_get(d->tensor.dtype)->kind != CM_KIND_COMPLEX;
}

/* Outputs in float32, to compare with. */
static cm_status remember(search *s, cm_context *c, int sample, void *user)
{
    (void)user;
    if (!s->wanted) {
        s->n_outputs = cm_engine_n_outputs(cm_context_engine(c));
        CM_NEW_N(s->cx, s->arena, s->wanted, (size_t)s->n_outputs * (size_t)s->job->n_samples,
                 cm_tensor);
    }
    for (int o = 0; o < s->n_outputs; o++) {
        const cm_datum *d = cm_context_output(c, o);
        cm_tensor *t = &s->wanted[sample * s->n_outputs + o];
        size_t bytes;
        if (!comparable(d) || !cm_tensor_bytes(&d->tensor, &bytes)) {
            t->rank = -1;
            continue;
        }
        *t = d->tensor;
        t->data = cm_arena_memdup(s->arena, d->tensor.data, bytes);
        if (!t->data)
            return cm_fail_memory(s->cx);
    }
    return CM_OK;
}

/* The largest difference, relative to the largest magnitude of what was wanted. */
static double difference(const cm_tensor *want, const cm_datum *found)
{
    double scale = 0, worst = 0;
    if (!comparable(found) || !cm_tensor_same_shape(want, &found->tensor))
        return INFINITY;
    for (int64_t i = 0, n = cm_tensor_elems(want); i < n; i++) {
        double a = cm_get_f64(want->dtype, want->data, i);
        double b = cm_get_f64(found->tensor.dtype, found->tensor.data, i);
        if (isfinite(a) && fabs(a) > scale)
            scale = fabs(a);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        double d = fabs(a - b);
        if (!(d <= worst))
            worst = isfinite(d) ? d : INFINITY;
    }
    return worst == 0 ? 0 : scale == 0 ? INFINITY : worst / scale;
}

static cm_status compare(search *s, cm_context *c, int sample, void *user)
{
    double *worst = user;
    for (int o = 0; o < s->n_outputs; o++) {
        const cm_tensor *t = &s->wanted[sample * s->n_outputs + o];
        double d = t->rank < 0 ? 0 : difference(t, cm_context_output(c, o));
        if (d > *worst)
            *worst = d;
    }
    return CM_OK;
}

static cm_status list_kept(search *s, cm_arena *arena, const char ***names, int *n)
{
    int k = 0;
    for (int i = 0; i < s->n; i++)
        k += s->keep[i] ? s->node[i].n_names : 0;
    CM_NEW_N(s->cx, arena, *names, k, const char *);
    *n = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; s->keep[i] && j < s->node[i].n_names; j++)
            (*names)[(*n)++] = s->node[i].names[j];
    return CM_OK;
}

/* The error of the outputs with s->keep in float32 and all else small. */
static cm_status trial(search *s, double *error)
{
    cm_compile_options o = s->job->compile;
    cm_arena_mark mark = cm_arena_save(s->arena);
    const char **names;
    *error = 0;
    CM_TRY(cm_report(s->cx, "measuring precision", s->n_trials++, s->most_trials));
    CM_TRY(list_kept(s, s->arena, &names, &o.optimise.n_keep_fp32));
    o.optimise.keep_fp32 = names;
    cm_status st = build_and_run(s, &o, compare, error);
    cm_arena_restore(s->arena, mark);
    return st;
}

/* ---- Candidates ----------------------------------------------------------------------------- */

/* Does n compute in the small type? Its result may be cast within it, so its inputs count too. */
static bool is_small(const search *s, const cm_node *n)
{
    cm_dtype small = s->job->compile.optimise.precision == CM_PRECISION_BF16 ? CM_BF16 : CM_F16;
    bool any = false;
    if (n->op->id == CM_OP_CAST || !n->n_from)
        return false;
    for (int i = 0; i < n->n_in; i++)
        any |= n->in[i] && n->in[i]->type.kind == CM_TENSOR && n->in[i]->type.dtype == small;
    for (int o = 0; o < n->n_out; o++)
        any |= n->out[o] && n->out[o]->type.kind == CM_TENSOR && n->out[o]->type.dtype == small;
    return any;
}

static int count(const search *s, const cm_network *g)
{
    int k = 0;
    CM_FOR_NODES (n, g) {
        k += is_small(s, n);
        for (int i = 0; i < n->n_subs; i++)
            k += count(s, n->subs[i]);
    }
    return k;
}

static cm_status collect(search *s, const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        for (int i = 0; i < n->n_subs; i++)
            CM_TRY(collect(s, n->subs[i]));
        if (!is_small(s, n))
            continue;
        cm_precision_kept *k = &s->node[s->n++];
        CM_NEW_N(s->cx, s->arena, k->names, n->n_from, const char *);
        k->n_names = n->n_from;
        for (int i = 0; i < n->n_from; i++)
            if (!(k->names[i] = cm_arena_strdup(s->arena, n->from[i])))
                return cm_fail_memory(s->cx);
    }
    return CM_OK;
}

static cm_status find_candidates(search *s)
{
    cm_network *g;
    CM_TRY(s->job->make(s->job->user, s->cx, &g));
    CM_TRY(cm_optimise(s->cx, g, &s->job->compile.optimise, NULL, NULL));
    int n = count(s, g);
    CM_NEW_N(s->cx, s->arena, s->node, n, cm_precision_kept);
    CM_NEW_N(s->cx, s->arena, s->keep, n, bool);
    return collect(s, g);
}

/* ---- Searching ------------------------------------------------------------------------------ */

typedef struct {
    int from, to;
    double error; /* lowered alone */
} chunk;

static void keep_range(search *s, int from, int to, bool keep)
{
    for (int i = from; i < to; i++)
        s->keep[i] = keep;
}

/* How much each part moves the outputs by itself; worst first. */
static cm_status rank_chunks(search *s, chunk *c, int n_chunks)
{
    for (int k = 0; k < n_chunks; k++) {
        chunk now = {s->n * k / n_chunks, s->n * (k + 1) / n_chunks, 0};
        keep_range(s, 0, s->n, true);
        keep_range(s, now.from, now.to, false);
        CM_TRY(trial(s, &now.error));
        int at = k;
        for (; at > 0 && c[at - 1].error < now.error; at--)
            c[at] = c[at - 1];
        c[at] = now;
    }
    return CM_OK;
}

static cm_status keep_worst(search *s, const chunk *c, int n_chunks, int k, double *error)
{
    for (int i = 0; i < n_chunks; i++)
        keep_range(s, c[i].from, c[i].to, i < k);
    return trial(s, error);
}

/* The fewest of the worst parts that must stay. */
static cm_status keep_fewest(search *s, const chunk *c, int n_chunks, int *kept)
{
    int low = 1, high = n_chunks; /* all kept: nothing is small */
    while (low < high) {
        int mid = (low + high) / 2;
        double error;
        CM_TRY(keep_worst(s, c, n_chunks, mid, &error));
        if (error <= s->job->tolerance)
            high = mid;
        else
            low = mid + 1;
    }
    for (int i = 0; i < n_chunks; i++)
        keep_range(s, c[i].from, c[i].to, i < low);
    *kept = low;
    return CM_OK;
}

/* Lower [from, to) when the tolerance allows, else the half of it that it allows. */
static cm_status lower_range(search *s, int from, int to)
{
    double error = INFINITY;
    if (from >= to)
        return CM_OK;
    if (s->n_trials < s->most_trials) {
        keep_range(s, from, to, false);
        CM_TRY(trial(s, &error));
        if (error <= s->job->tolerance)
            return CM_OK;
        keep_range(s, from, to, true);
    }
    for (int i = from; i < to; i++)
        s->node[i].error = error;
    if (to - from == 1 || s->n_trials >= s->most_trials)
        return CM_OK;
    int mid = from + (to - from) / 2;
    CM_TRY(lower_range(s, from, mid));
    return lower_range(s, mid, to);
}

static cm_status refine(search *s)
{
    chunk c[CHUNKS];
    int n_chunks = s->n < CHUNKS ? s->n : CHUNKS, kept;
    CM_TRY(rank_chunks(s, c, n_chunks));
    CM_TRY(keep_fewest(s, c, n_chunks, &kept));
    for (int k = kept - 1; k >= 0; k--) { /* the least harmful first */
        int mid = c[k].from + (c[k].to - c[k].from) / 2;
        for (int i = c[k].from; i < c[k].to; i++)
            s->node[i].error = c[k].error;
        if (c[k].to - c[k].from == 1)
            continue;
        CM_TRY(lower_range(s, c[k].from, mid));
        CM_TRY(lower_range(s, mid, c[k].to));
    }
    return CM_OK;
}

static cm_status result(search *s, cm_precision_result *out)
{
    cm_precision_kept *kept;
    CM_NEW_N(s->cx, s->arena, kept, s->n, cm_precision_kept);
    *out = (cm_precision_result){.n_candidates = s->n, .kept = kept};
    CM_TRY(trial(s, &out->error));
    for (int i = 0; i < s->n; i++)
        if (s->keep[i])
            kept[out->n_kept++] = s->node[i];
    out->n_trials = s->n_trials;
    return list_kept(s, s->arena, &out->names, &out->n_names);
}

cm_status cm_precision_search(cm_ctx *cx, cm_arena *arena, const cm_precision_job *job,
                              cm_precision_result *out)
{
    search s = {.cx = cx, .arena = arena, .job = job};
    cm_compile_options full = job->compile;
    double error;
    s.most_trials = job->most_trials ? job->most_trials : TRIALS;
    full.optimise.precision = CM_PRECISION_FP32;
    CM_TRY(build_and_run(&s, &full, remember, NULL));
    CM_TRY(find_candidates(&s));
    CM_TRY(trial(&s, &error));
    if (error > job->tolerance && s.n)
        CM_TRY(refine(&s));
    return result(&s, out);
}
