/* explain_tactics.c -- the second half of `cameo explain`: for each layer of a plan, the kernels that could
 * run it, with times and refusals.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain_tactics.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const char *duration(char *buf, size_t n, double ns)
{
    if (ns < 1e3)
        snprintf(buf, n, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(buf, n, "%.3g us", ns * 1e-3);
    else
        snprintf(buf, n, "%.3g ms", ns * 1e-6);
    return buf;
}

typedef struct {
    const cm_layer_facts *facts;
    json_t *json;     /* NULL: print */
    const char *last; /* one line a tactic, however many settings it has */
    double best;
    bool measured;
    int settings;
} listing;

static void flush(listing *l)
{
    char text[32];
    if (!l->last)
        return;
    printf("      %c %-36s %s %s",
           l->facts->tactic && !strcmp(l->last, l->facts->tactic) ? '*' : ' ', l->last,
           duration(text, sizeof text, l->best), l->measured ? "measured" : "expected");
    printf(l->settings > 1 ? ", best of %d settings\n" : "\n", l->settings);
    l->last = NULL;
}

static void add_json(listing *l, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    json_t *o = json_pack("{s:s}", "tactic", t->name);
    if (reason)
        json_object_set_new(o, "declines", json_string(reason));
    if (c) {
        json_t *knobs = json_array();
        for (int i = 0; i < CM_COUNT(c->knobs.v); i++)
            json_array_append_new(knobs, json_integer(c->knobs.v[i]));
        json_object_set_new(o, "knobs", knobs);
        json_object_set_new(o, "expectedNs", json_real(c->predicted_ns));
        if (!isnan(c->measured_ns))
            json_object_set_new(o, "measuredNs", json_real(c->measured_ns));
    }
    json_array_append_new(l->json, o);
}

static void list(void *user, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    listing *l = user;
    if (l->json) {
        add_json(l, t, reason, c);
        return;
    }
    if (!l->last || strcmp(l->last, t->name)) {
        flush(l);
        l->settings = 0;
        l->best = INFINITY;
        l->measured = false;
    }
    if (reason) {
        printf("        %-36s declines: %s\n", t->name, reason);
        return;
    }
    bool measured = !isnan(c->measured_ns);
    double ns = measured ? c->measured_ns : c->predicted_ns;
    if ((measured && !l->measured) || (measured == l->measured && ns < l->best)) {
        l->best = ns;
        l->measured = measured;
    }
    l->last = t->name;
    l->settings++;
}

static void print_layer(const cm_context *c, int i, const cm_plan_step *s, const cm_layer_facts *f)
{
    char text[32];
    printf("  %s '%s'", s->op, s->name);
    if (s->epilogue.program)
        printf(" then \"%s\"", s->epilogue.program);
    printf(": %s", f->tactic);
    if (f->refused)
        printf(" instead of %s", f->refused);
    if (f->expected_ns > 0)
        printf(", %s", duration(text, sizeof text, f->expected_ns));
    if (f->reference)
        printf("  <- no kernel takes it");
    if (f->channels_last)
        printf(", channels-last");
    if (f->n_conversions)
        printf(", %d input%s converted first", f->n_conversions, f->n_conversions > 1 ? "s" : "");
    printf("\n");
    listing l = {.facts = f};
    cm_context_tactics(c, i, list, &l);
    flush(&l);
}

static json_t *layer_json(const cm_context *c, int i, const cm_plan_step *s,
                          const cm_layer_facts *f)
{
    json_t *tactics = json_array();
    listing l = {.facts = f, .json = tactics};
    cm_context_tactics(c, i, list, &l);
    return json_pack("{s:s, s:s, s:s?, s:s, s:s?, s:b, s:f, s:b, s:i, s:o}", "name", s->name,
                     "operator", s->op, "epilogue", s->epilogue.program, "chosen", f->tactic,
                     "insteadOf", f->refused, "reference", f->reference, "expectedNs",
                     f->expected_ns, "channelsLast", f->channels_last, "conversions",
                     f->n_conversions, "tactics", tactics);
}

cm_status cm_explain_tactics(cm_ctx *cx, cm_engine *e, const cm_model_options *o, json_t *json)
{
    cm_inputs in;
    cm_context_options co;
    cm_target target;
    cm_context *c;
    CM_TRY(cm_model_context_options(cx, o, &target, &co));
    CM_TRY(cm_inputs_create(cx, e, &in));
    CM_TRY(cm_inputs_random(cx, e, o, 0, &in));
    CM_TRY(cm_context_create(cx, e, &co, &c));
    cm_status st = cm_inputs_set(cx, c, &in);
    if (st == CM_OK)
        st = cm_context_bind(cx, c);
    for (int i = 0; st == CM_OK && i < cm_engine_n_steps(e); i++) {
        cm_layer_facts f;
        cm_context_layer(c, i, &f);
        if (json)
            json_array_append_new(json, layer_json(c, i, cm_engine_step(e, i), &f));
        else
            print_layer(c, i, cm_engine_step(e, i), &f);
    }
    cm_context_destroy(c);
    return st;
}
