/* compare_print.c -- a comparison as text and as JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/compare.h"

static const char *const bin_names[CM_ERROR_BINS] = {"equal", "<1e-7", "<1e-6", "<1e-5", "<1e-4",
                                                     "<1e-3", "<1e-2", "<0.1",  "<1",    ">=1"};

/* ---- Text --------------------------------------------------------------------------------------- */

static void print_histogram(const cm_error *e)
{
    enum { WIDTH = 40 };
    int64_t most = 1;
    for (int k = 0; k < CM_ERROR_BINS; k++)
        most = e->bins[k] > most ? e->bins[k] : most;
    printf("    errors by the scale %.4g:\n", e->scale);
    for (int k = 0; k < CM_ERROR_BINS; k++) {
        if (!e->bins[k])
            continue;
        printf("    %6s %10lld ", bin_names[k], (long long)e->bins[k]);
        int bar = (int)ceil((double)e->bins[k] / (double)most * WIDTH);
        for (int i = 0; i < bar; i++)
            putchar('#');
        putchar('\n');
    }
}

static void print_error(const cm_error *e)
{
    if (!e->comparable) {
        printf("    %s\n", e->why);
        return;
    }
    printf("    max abs %.4g, mean abs %.4g; max rel %.4g, mean rel %.4g; cosine %.9f, SNR ",
           e->max_abs, e->mean_abs, e->max_rel, e->mean_rel, e->cosine);
    if (isinf(e->snr_db))
        printf(e->snr_db > 0 ? "infinite\n" : "none\n");
    else
        printf("%.1f dB\n", e->snr_db);
    if (e->broken)
        printf("    %lld elements are finite in one and not in the other\n", (long long)e->broken);
    if (e->differ && e->worst >= 0 && e->max_abs > 0)
        printf(
            "    %lld of %lld elements differ; the worst is element %lld: %.9g in A, %.9g in B\n",
            (long long)e->differ, (long long)e->n, (long long)e->worst, e->worst_a, e->worst_b);
}

static void print_side(const cm_side *s)
{
    char target[64];
    printf("%c  %s", s->label, s->path);
    if (s->saved)
        printf(": saved results");
    else
        printf(" on %s%s%s%s", cm_target_text(target, sizeof target, &s->target),
               s->model.precision ? ", " : "", s->model.precision ? s->model.precision : "",
               s->model.no_optimise ? ", as it is written" : "");
    printf("\n");
}

static const cm_plan_step *step_of(const cm_compared *c, const cm_pair *p, int which)
{
    return cm_engine_step(c->side[which]->engine, p->step[which]);
}

static void print_pairs(const cm_compared *c)
{
    const cm_pairs *p = c->pairs;
    printf("\n%d values of B's %d layers have a partner among A's %d\n", p->n, p->n_layers[1],
           p->n_layers[0]);
    printf("%12s %12s %11s %8s  %-22s %s\n", "max/scale", "mean abs", "cosine", "SNR dB",
           "operator", "layer");
    for (int i = 0; i < p->n; i++) {
        const cm_pair *v = &p->v[i];
        const cm_plan_step *s = step_of(c, v, 1);
        if (!v->error.comparable) {
            printf("%46s  %-22s %s: %s\n", "", s->op, s->name,
                   v->error.why[0] ? v->error.why : "not a plain tensor");
            continue;
        }
        printf("%12.4g %12.4g %11.8f %8.1f  %-22s %s%s\n", v->error.distance, v->error.mean_abs,
               v->error.cosine, v->error.snr_db, s->op, s->name,
               v->heals                 ? "  (another form: what is made of it agrees)"
               : i == c->verdict->first ? "  <- parts here"
               : v->diverges            ? "  <-"
                                        : "");
    }
}

/* The nodes of A that make the layer's result of what was compared before it. */
static void print_nodes(const cm_compared *c)
{
    enum { MOST = 12 };
    int n = 0;
    printf("  nodes:");
    for (int i = 0; i < c->verdict->n_steps; i++) {
        const cm_plan_step *s = cm_engine_step(c->side[0]->engine, c->verdict->steps[i]);
        for (int k = 0; k < s->n_from; k++, n++)
            if (n < MOST)
                printf("%s '%s'", n ? "," : "", s->from[k]);
    }
    printf(n > MOST ? " and %d more\n" : "\n", n - MOST);
}

static void print_verdict(const cm_compared *c)
{
    const cm_verdict *v = c->verdict;
    if (v->first < 0) {
        printf("\nno layer diverges by more than %.3g of its scale\n", c->tolerance);
        return;
    }
    const cm_pair *p = &c->pairs->v[v->first];
    const cm_plan_step *s = step_of(c, p, 1);
    printf("\nfirst layer that diverges: %s '%s', by %.4g of its scale\n", s->op, s->name,
           p->error.distance);
    print_nodes(c);
    switch (v->cause) {
    case CM_CAUSE_ITSELF:
        printf("  it is the cause: A's nodes on B's own inputs give another result, %.4g apart\n",
               v->alone.distance);
        break;
    case CM_CAUSE_INPUTS:
        printf("  it only passes the error on: A's nodes on B's own inputs give the same, %.4g "
               "apart",
               v->alone.distance);
        if (v->worst_before >= 0)
            printf("; its input '%s' is %.4g off",
                   step_of(c, &c->pairs->v[v->worst_before], 1)->name,
                   c->pairs->v[v->worst_before].error.distance);
        printf("\n");
        break;
    default:
        printf("  whether it is the cause is not known: %s\n", v->why_unknown);
    }
}

void cm_compared_print(const cm_compared *c)
{
    print_side(c->side[0]);
    print_side(c->side[1]);
    printf("\n");
    for (int i = 0; i < c->n_outputs; i++) {
        const cm_error *e = &c->errors[i];
        printf("output '%s': %s, %.4g of its scale, allowed %.3g\n", c->names[i],
               e->distance <= c->tolerance ? "close" : "NOT close", e->distance, c->tolerance);
        print_error(e);
        if (c->histogram && e->comparable)
            print_histogram(e);
    }
    if (!c->pairs)
        return;
    print_pairs(c);
    print_verdict(c);
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static json_t *number(double v) /* JSON has no infinities */
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *error_json(const cm_error *e)
{
    if (!e->comparable)
        return json_pack("{s:b, s:s}", "comparable", 0, "why",
                         e->why[0] ? e->why : "not a plain tensor");
    json_t *bins = json_object();
    for (int k = 0; k < CM_ERROR_BINS; k++)
        json_object_set_new(bins, bin_names[k], json_integer(e->bins[k]));
    return json_pack("{s:b, s:I, s:I, s:I, s:f, s:o, s:f, s:f, s:o, s:o, s:f, s:o, s:I, s:o}",
                     "comparable", 1, "elements", (json_int_t)e->n, "differ", (json_int_t)e->differ,
                     "broken", (json_int_t)e->broken, "scale", e->scale, "distance",
                     number(e->distance), "maxAbs", e->max_abs, "meanAbs", e->mean_abs, "maxRel",
                     number(e->max_rel), "meanRel", number(e->mean_rel), "cosine", e->cosine,
                     "snrDb", number(e->snr_db), "worst", (json_int_t)e->worst, "histogram", bins);
}

static json_t *side_json(const cm_side *s)
{
    char target[64];
    return json_pack("{s:s, s:s?, s:s?}", "path", s->path, "target",
                     s->saved ? NULL : cm_target_text(target, sizeof target, &s->target),
                     "precision", s->model.precision);
}

static json_t *pairs_json(const cm_compared *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->pairs->n; i++) {
        const cm_pair *p = &c->pairs->v[i];
        const cm_plan_step *s = step_of(c, p, 1);
        json_t *nodes = json_array();
        for (int k = 0; k < s->n_from; k++)
            json_array_append_new(nodes, json_string(s->from[k]));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:b, s:b, s:o}", "layer", s->name, "operator",
                            s->op, "partner", step_of(c, p, 0)->name, "nodes", nodes, "diverges",
                            p->diverges, "heals", p->heals, "error", error_json(&p->error)));
    }
    return list;
}

static json_t *verdict_json(const cm_compared *c)
{
    static const char *const causes[] = {"unknown", "itself", "inputs"};
    const cm_verdict *v = c->verdict;
    if (v->first < 0)
        return json_null();
    const cm_plan_step *s = step_of(c, &c->pairs->v[v->first], 1);
    json_t *nodes = json_array();
    for (int i = 0; i < v->n_steps; i++) {
        const cm_plan_step *in_a = cm_engine_step(c->side[0]->engine, v->steps[i]);
        for (int k = 0; k < in_a->n_from; k++)
            json_array_append_new(nodes, json_string(in_a->from[k]));
    }
    return json_pack("{s:s, s:s, s:o, s:s, s:o}", "layer", s->name, "operator", s->op, "nodes",
                     nodes, "cause", causes[v->cause], "alone",
                     v->cause == CM_CAUSE_UNKNOWN ? json_null() : number(v->alone.distance));
}

json_t *cm_compared_json(const cm_compared *c)
{
    json_t *outputs = json_array();
    bool close = true;
    for (int i = 0; i < c->n_outputs; i++) {
        json_t *e = error_json(&c->errors[i]);
        json_object_set_new(e, "name", json_string(c->names[i]));
        json_object_set_new(e, "close", json_boolean(c->errors[i].distance <= c->tolerance));
        close = close && c->errors[i].distance <= c->tolerance;
        json_array_append_new(outputs, e);
    }
    json_t *all = json_pack("{s:o, s:o, s:f, s:b, s:o}", "a", side_json(c->side[0]), "b",
                            side_json(c->side[1]), "tolerance", c->tolerance, "close", close,
                            "outputs", outputs);
    if (all && c->pairs) {
        json_object_set_new(all, "layers", pairs_json(c));
        json_object_set_new(all, "firstDiverging", verdict_json(c));
    }
    return all;
}
