/* facts.c -- gathers what `cameo inspect` prints, from a network or from an engine.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/inspect.h"
#include "cli/weights.h"

static cm_status type_text(cm_ctx *cx, const cm_dim_table *dims, const cm_type *t, const char **out)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_type_print(dims, t, &b);
    *out = cm_arena_strdup(cx->arena, cm_buf_text(&b));
    cm_buf_deinit(&b);
    return *out ? CM_OK : cm_fail_memory(cx);
}

static double constant_bytes(const cm_tensor *t)
{
    size_t bytes = 0;
    return cm_tensor_bytes(t, &bytes) ? (double)bytes : 0;
}

/* ---- From a network ------------------------------------------------------------------------- */

static int count_layers(const cm_network *g)
{
    int n = g->n_nodes;
    CM_FOR_NODES (m, g)
        for (int s = 0; s < m->n_subs; s++)
            n += count_layers(m->subs[s]);
    return n;
}

static const char *name_of(const cm_value *v)
{
    return v ? v->name : NULL;
}

static cm_status node_layer(cm_ctx *cx, const cm_node *n, int depth, cm_fact_layer *l)
{
    *l = (cm_fact_layer){.name = n->name,
                         .op = n->op->name,
                         .depth = depth,
                         .n_from = n->n_from,
                         .from = n->from,
                         .n_in = n->n_in,
                         .n_out = n->n_out};
    CM_NEW_N(cx, cx->arena, l->in, n->n_in, const char *);
    CM_NEW_N(cx, cx->arena, l->out, n->n_out, const char *);
    CM_NEW_N(cx, cx->arena, l->out_types, n->n_out, const char *);
    for (int i = 0; i < n->n_in; i++)
        l->in[i] = name_of(n->in[i]);
    for (int o = 0; o < n->n_out; o++) {
        l->out[o] = name_of(n->out[o]);
        if (n->out[o])
            CM_TRY(type_text(cx, n->network->dims, &n->out[o]->type, &l->out_types[o]));
    }
    return CM_OK;
}

/* Constants are listed where they are first read. */
static cm_status add_weight(cm_ctx *cx, cm_facts *f, cm_fact_value *list, const cm_value *v,
                            unsigned char *seen)
{
    if (!v || !v->constant || seen[v->id])
        return CM_OK;
    seen[v->id] = 1;
    cm_fact_value *w = &list[f->n_weights++];
    w->name = v->weight ? v->weight : v->name;
    w->bytes = constant_bytes(v->constant);
    w->constant = v->constant;
    w->summed_axis = cm_weight_summed_axis(v);
    f->weight_bytes += w->bytes;
    return type_text(cx, v->network->dims, &v->type, &w->type);
}

static cm_status walk(cm_ctx *cx, const cm_network *g, int depth, unsigned char *seen, cm_facts *f)
{
    CM_FOR_NODES (n, g) {
        CM_TRY(node_layer(cx, n, depth, &f->layers[f->n_layers++]));
        for (int i = 0; i < n->n_in; i++)
            CM_TRY(add_weight(cx, f, f->weights, n->in[i], seen));
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(walk(cx, n->subs[s], depth + 1, seen, f));
    }
    return CM_OK;
}

static int highest_id(const cm_network *g)
{
    int id = 0;
    CM_FOR_NODES (n, g) {
        for (int i = 0; i < n->n_in; i++)
            id = n->in[i] && n->in[i]->id > id ? n->in[i]->id : id;
        for (int s = 0; s < n->n_subs; s++) {
            int inner = highest_id(n->subs[s]);
            id = inner > id ? inner : id;
        }
    }
    return id;
}

static int count_inputs(const cm_network *g)
{
    int k = 0;
    CM_FOR_NODES (n, g) {
        k += n->n_in;
        for (int s = 0; s < n->n_subs; s++)
            k += count_inputs(n->subs[s]);
    }
    return k;
}

cm_status cm_facts_of_network(cm_ctx *cx, const cm_network *g, cm_facts *f)
{
    unsigned char *seen;
    f->name = g->name;
    f->n_inputs = g->n_inputs;
    f->n_outputs = g->n_outputs;
    CM_NEW_N(cx, cx->arena, f->inputs, g->n_inputs, cm_fact_value);
    CM_NEW_N(cx, cx->arena, f->outputs, g->n_outputs, cm_fact_value);
    CM_NEW_N(cx, cx->arena, f->layers, count_layers(g), cm_fact_layer);
    CM_NEW_N(cx, cx->arena, f->weights, count_inputs(g), cm_fact_value);
    CM_NEW_N(cx, cx->arena, seen, highest_id(g) + 1, unsigned char);
    for (int i = 0; i < g->n_inputs; i++) {
        f->inputs[i].name = g->inputs[i]->name;
        CM_TRY(type_text(cx, g->dims, &g->inputs[i]->type, &f->inputs[i].type));
    }
    for (int i = 0; i < g->n_outputs; i++) {
        f->outputs[i].name = g->output_names[i];
        f->outputs[i].maker = g->outputs[i]->name;
        CM_TRY(type_text(cx, g->dims, &g->outputs[i]->type, &f->outputs[i].type));
    }
    return walk(cx, g, 0, seen, f);
}

/* ---- From an engine -------------------------------------------------------------------------- */

static cm_status step_layer(cm_ctx *cx, const cm_plan *p, const cm_plan_step *s, cm_fact_layer *l)
{
    *l = (cm_fact_layer){.name = s->name,
                         .op = s->op ? s->op : "copy",
                         .n_from = s->n_from,
                         .from = s->from,
                         .n_in = s->n_in,
                         .n_out = s->n_out};
    CM_NEW_N(cx, cx->arena, l->in, s->n_in, const char *);
    CM_NEW_N(cx, cx->arena, l->out, s->n_out, const char *);
    CM_NEW_N(cx, cx->arena, l->out_types, s->n_out, const char *);
    for (int i = 0; i < s->n_in; i++)
        l->in[i] = s->in[i].value < 0 ? NULL : p->values[s->in[i].value].name;
    for (int o = 0; o < s->n_out; o++) {
        if (s->out[o].value < 0)
            continue;
        l->out[o] = p->values[s->out[o].value].name;
        CM_TRY(type_text(cx, p->dims, &p->values[s->out[o].value].type, &l->out_types[o]));
    }
    return CM_OK;
}

static cm_status plan_weights(cm_ctx *cx, cm_engine *e, cm_facts *f)
{
    const cm_plan *p = cm_engine_plan(e);
    const cm_tensor *const *constants = NULL;
    if (!p->stripped)
        CM_TRY(cm_engine_constants(cx, e, &constants));
    CM_NEW_N(cx, cx->arena, f->weights, p->n_values, cm_fact_value);
    for (int i = 0; i < p->n_values; i++) {
        const cm_plan_value *v = &p->values[i];
        if (v->storage != CM_STORE_CONSTANT)
            continue;
        cm_fact_value *w = &f->weights[f->n_weights++];
        w->name = v->weight >= 0 ? p->weights[v->weight].name : v->name;
        w->bytes = (double)v->bytes;
        w->constant = constants ? *constants++ : NULL;
        w->summed_axis = -1;
        f->weight_bytes += w->bytes;
        CM_TRY(type_text(cx, p->dims, &v->type, &w->type));
    }
    return CM_OK;
}

static cm_status plan_targets(cm_ctx *cx, const cm_plan *p, cm_facts *f)
{
    f->n_targets = p->n_targets;
    CM_NEW_N(cx, cx->arena, f->targets, f->n_targets, cm_fact_target);
    for (int i = 0; i < p->n_targets; i++) {
        cm_fact_target *t = &f->targets[i];
        cm_timings known;
        size_t images = 0;
        cm_target_text(t->name, sizeof t->name, &p->targets[i].target);
        cm_timings_init(&known, cx->allocator, &p->targets[i].target);
        if (cm_timings_parse(cx, &known, p->targets[i].bytes,
                             cm_plan_target_text(&p->targets[i])) != CM_OK)
            cx->message[0] = 0; /* of another version: it is not used either */
        t->measurements = known.n;
        cm_timings_deinit(&known);
        if (cm_plan_target_images(&p->targets[i], &images))
            t->kernel_bytes = (double)images;
    }
    return CM_OK;
}

cm_status cm_facts_of_engine(cm_ctx *cx, cm_engine *e, cm_facts *f)
{
    const cm_plan *p = cm_engine_plan(e);
    f->name = p->model_name;
    f->producer = p->producer;
    f->n_inputs = cm_engine_n_inputs(e);
    f->n_outputs = cm_engine_n_outputs(e);
    f->n_layers = cm_engine_n_steps(e);
    CM_NEW_N(cx, cx->arena, f->inputs, f->n_inputs, cm_fact_value);
    CM_NEW_N(cx, cx->arena, f->outputs, f->n_outputs, cm_fact_value);
    CM_NEW_N(cx, cx->arena, f->layers, f->n_layers, cm_fact_layer);
    for (int i = 0; i < f->n_inputs; i++) {
        f->inputs[i].name = cm_engine_input_name(e, i);
        CM_TRY(type_text(cx, p->dims, cm_engine_input_type(e, i), &f->inputs[i].type));
    }
    for (int i = 0; i < f->n_outputs; i++) {
        f->outputs[i].name = cm_engine_output_name(e, i);
        f->outputs[i].maker = p->values[cm_engine_variant(e)->lists[0].outputs[i]].name;
        CM_TRY(type_text(cx, p->dims, cm_engine_output_type(e, i), &f->outputs[i].type));
    }
    for (int i = 0; i < f->n_layers; i++)
        CM_TRY(step_layer(cx, p, cm_engine_step(e, i), &f->layers[i]));
    CM_TRY(plan_targets(cx, p, f));
    return plan_weights(cx, e, f);
}
