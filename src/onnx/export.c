/* export.c -- writes a network as an ONNX model.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Constants become initialisers of the outermost graph, whatever network reads them; nested graphs see
 * them from there. Values keep their names, but for those whose name an output of the model claims. */
#include "onnx/export.h"

#include <string.h>

#include "base/file.h"
#include "onnx/export_values.h"
#include "onnx/onnx.h"

enum { OLDEST_OPSET = 21, MOST_INLINE_MB = 1900 };

static cm_status put_graph(cm_exporter *e, cm_network *g, cm_buf *out);

/* ---- Nodes ---------------------------------------------------------------------------------- */

static void put_floats(const cm_floats *v, cm_buf *a)
{
    for (int64_t i = 0; i < v->n; i++)
        pb_write_float(a, 7, v->v[i]);
}

static cm_status put_attribute(cm_exporter *e, const cm_network *g, const cm_attr_field *f,
                               const void *at, cm_buf *out)
{
    static const int types[] = {
        [CM_A_INT] = 2,    [CM_A_FLOAT] = 1, [CM_A_STR] = 3,    [CM_A_INTS] = 7,
        [CM_A_FLOATS] = 6, [CM_A_STRS] = 8,  [CM_A_TENSOR] = 4, [CM_A_TYPE] = 13};
    cm_buf a = cm_message(e), in = cm_message(e);
    cm_status st = CM_OK;
    pb_write_text(&a, 1, f->name);
    pb_write_int(&a, 20, types[f->kind]);
    switch (f->kind) {
    case CM_A_INT:
        pb_write_int(&a, 3, *(const int64_t *)at);
        break;
    case CM_A_FLOAT:
        pb_write_float(&a, 2, *(const float *)at);
        break;
    case CM_A_STR:
        pb_write_bytes(&a, 4, ((const cm_str *)at)->p, ((const cm_str *)at)->n);
        break;
    case CM_A_INTS:
        for (int64_t i = 0; i < ((const cm_ints *)at)->n; i++)
            pb_write_int(&a, 8, ((const cm_ints *)at)->v[i]);
        break;
    case CM_A_FLOATS:
        put_floats(at, &a);
        break;
    case CM_A_STRS:
        for (int64_t i = 0; i < ((const cm_strs *)at)->n; i++)
            pb_write_bytes(&a, 9, ((const cm_strs *)at)->v[i].p, ((const cm_strs *)at)->v[i].n);
        break;
    case CM_A_TENSOR:
        st = cm_onnx_write_tensor(e->cx, NULL, *(const cm_tensor *const *)at, &in);
        pb_write_bytes(&a, 5, in.data, in.n);
        break;
    case CM_A_TYPE:
        cm_put_type(e, g, *(const cm_type *const *)at, &in);
        pb_write_bytes(&a, 14, in.data, in.n);
        break;
    }
    cm_buf_deinit(&in);
    cm_put_message(out, NODE_ATTR, &a);
    return st;
}

static cm_status put_attributes(cm_exporter *e, const cm_node *n, cm_buf *out)
{
    const cm_attr_desc *d = n->op->attrs;
    for (int i = 0; n->attr && i < d->n_fields; i++) {
        const cm_attr_field *f = &d->fields[i];
        if (cm_attr_has(d, n->attr, f->name))
            CM_TRY(put_attribute(e, n->network, f, cm_attr_get(n->attr, f), out));
    }
    static const char *const branches[] = {"then_branch", "else_branch"};
    for (int s = 0; s < n->n_subs; s++) {
        cm_buf a = cm_message(e), graph = cm_message(e);
        pb_write_text(&a, 1, n->n_subs == 2 ? branches[s] : "body");
        pb_write_int(&a, 20, 5);
        cm_status st = put_graph(e, n->subs[s], &graph);
        cm_put_message(&a, 6, &graph);
        cm_put_message(out, NODE_ATTR, &a);
        CM_TRY(st);
    }
    return CM_OK;
}

static cm_status need_opset(cm_exporter *e, const char *domain, const char *op)
{
    int version = cm_onnx_export_version(domain, op);
    if (!*domain) {
        e->opset = version > e->opset ? version : e->opset;
        return CM_OK;
    }
    if (strcmp(domain, "cameo") == 0)
        return cm_fail(e->cx, CM_ERR_UNSUPPORTED, "ONNX has no word for cameo.%s", op);
    int64_t have = (int64_t)(intptr_t)cm_map_get(&e->domains, domain);
    int64_t need = version > 0 ? version : 1;
    if (need > have && !cm_map_put(&e->domains, domain, (void *)(intptr_t)need))
        return cm_fail_memory(e->cx);
    return CM_OK;
}

static cm_status put_operator(cm_exporter *e, const cm_node *n, cm_buf *out)
{
    const char *dot = strrchr(n->op->name, '.'), *op = dot ? dot + 1 : n->op->name;
    const char *domain =
        cm_arena_strndup(&e->tmp, n->op->name, dot ? (size_t)(dot - n->op->name) : 0);
    const char *name;
    if (!domain)
        return cm_fail_memory(e->cx);
    CM_TRY(need_opset(e, domain, op));
    CM_TRY(cm_unique_name(e, &e->taken_nodes, n->name, &name));
    pb_write_text(out, NODE_NAME, name);
    pb_write_text(out, NODE_OP, op);
    if (*domain)
        pb_write_text(out, NODE_DOMAIN, domain);
    return CM_OK;
}

/* Names of values, without the absent ones at the end. */
static cm_status put_names(cm_exporter *e, uint32_t number, cm_value *const *v, int n, cm_buf *out)
{
    while (n > 0 && !v[n - 1])
        n--;
    for (int i = 0; i < n; i++) {
        const char *name;
        if (v[i] && v[i]->constant)
            CM_TRY(cm_put_constant(e, v[i]));
        CM_TRY(cm_name_of(e, v[i], &name));
        pb_write_text(out, number, name);
    }
    return CM_OK;
}

static int opset_of_type(cm_dtype t)
{
    switch (t) {
    case CM_BF16:
        return 22;
    case CM_F4E2M1:
        return 23;
    case CM_F8E8M0:
        return 24;
    case CM_U2:
    case CM_I2:
        return 25;
    default:
        return 0;
    }
}

static cm_status put_node(cm_exporter *e, const cm_node *n, cm_buf *graph)
{
    cm_buf b = cm_message(e);
    cm_status st = put_names(e, NODE_INPUT, n->in, n->n_in, &b);
    if (st == CM_OK)
        st = put_names(e, NODE_OUTPUT, n->out, n->n_out, &b);
    if (st == CM_OK)
        st = put_operator(e, n, &b);
    if (st == CM_OK)
        st = put_attributes(e, n, &b);
    cm_put_message(graph, GRAPH_NODE, &b);
    for (int o = 0; o < n->n_out && st == CM_OK; o++) {
        if (!n->out[o] || n->out[o]->type.kind == CM_NOTHING)
            continue;
        int need = opset_of_type(n->out[o]->type.dtype);
        e->opset = need > e->opset ? need : e->opset;
        const char *name;
        CM_TRY(cm_name_of(e, n->out[o], &name));
        if (!cm_map_get(&e->written, name)) /* outputs say their type themselves */
            cm_put_value(e, n->network, GRAPH_VALUE, name, &n->out[o]->type, graph);
    }
    return st == CM_OK ? st : cm_while(e->cx, st, "%s node '%s'", n->op->name, n->name);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static cm_status put_identity(cm_exporter *e, cm_value *v, const char *name, cm_buf *graph)
{
    const char *from;
    if (v->constant)
        CM_TRY(cm_put_constant(e, v));
    CM_TRY(cm_name_of(e, v, &from));
    cm_buf b = cm_message(e);
    pb_write_text(&b, NODE_INPUT, from);
    pb_write_text(&b, NODE_OUTPUT, name);
    pb_write_text(&b, NODE_OP, "Identity");
    cm_put_message(graph, GRAPH_NODE, &b);
    return CM_OK;
}

/* An output is named after the user's wish: the value itself where nobody claimed it before, else a copy. */
static cm_status name_outputs(cm_exporter *e, cm_network *g, const char ***out)
{
    const char **names;
    CM_NEW_N(e->cx, &e->tmp, names, g->n_outputs, const char *);
    for (int i = 0; i < g->n_outputs; i++) {
        cm_value *v = g->outputs[i];
        const char *wish = g->outer ? v->name : g->output_names[i];
        bool own = v->producer && v->network == g && !e->names[v->id];
        cm_value probe = {.id = e->n_names}; /* the spare entry of the table */
        if (own) {
            CM_TRY(cm_claim_name(e, v, wish));
            names[i] = e->names[v->id];
        } else {
            CM_TRY(cm_claim_name(e, &probe, wish));
            names[i] = e->names[probe.id];
        }
        if (!cm_map_put(&e->written, names[i], e))
            return cm_fail_memory(e->cx);
    }
    *out = names;
    return CM_OK;
}

static cm_status put_graph(cm_exporter *e, cm_network *g, cm_buf *out)
{
    const char **outputs, *name;
    for (int i = 0; i < g->n_inputs; i++) {
        CM_TRY(cm_name_of(e, g->inputs[i], &name));
        cm_put_value(e, g, GRAPH_INPUT, name, &g->inputs[i]->type, out);
    }
    CM_TRY(name_outputs(e, g, &outputs));
    CM_FOR_NODES (n, g)
        CM_TRY(put_node(e, n, out));
    for (int i = 0; i < g->n_outputs; i++) {
        cm_value *v = g->outputs[i];
        if (v->network != g || !e->names[v->id] || strcmp(e->names[v->id], outputs[i]) != 0)
            CM_TRY(put_identity(e, v, outputs[i], out));
        cm_put_value(e, g, GRAPH_OUTPUT, outputs[i], &v->type, out);
    }
    pb_write_text(out, GRAPH_NAME, g->name && *g->name ? g->name : "network");
    return out->failed ? cm_fail_memory(e->cx) : CM_OK;
}

static void put_opset(const cm_exporter *e, const char *domain, int64_t version, cm_buf *out)
{
    cm_buf b = cm_message(e);
    pb_write_text(&b, 1, domain);
    pb_write_int(&b, 2, version);
    cm_put_message(out, MODEL_OPSET, &b);
}

static cm_status put_model(cm_exporter *e, cm_network *g, cm_buf *out)
{
    cm_buf graph = cm_message(e), weights = cm_message(e);
    e->weights = &weights;
    cm_status st = put_graph(e, g, &graph);
    cm_buf_bytes(&graph, weights.data, weights.n);
    graph.failed = graph.failed || weights.failed;
    cm_buf_deinit(&weights);
    int ir = e->opset <= 22 ? 10 : e->opset == 23 ? 11 : e->opset == 24 ? 12 : 13;
    pb_write_int(out, MODEL_IR_VERSION, ir);
    pb_write_text(out, MODEL_PRODUCER, "cameo");
    pb_write_text(out, MODEL_PRODUCER_VERSION, CM_VERSION);
    cm_put_message(out, MODEL_GRAPH, &graph);
    put_opset(e, "", e->opset, out);
    for (size_t i = 0; i < e->domains.n; i++)
        put_opset(e, e->domains.entries[i].key, (intptr_t)e->domains.entries[i].value, out);
    return st == CM_OK && out->failed ? cm_fail_memory(e->cx) : st;
}

static int highest_id(const cm_network *g)
{
    int n = 0;
    for (int i = 0; i < g->n_inputs; i++)
        n = g->inputs[i]->id > n ? g->inputs[i]->id : n;
    for (int i = 0; i < g->n_outputs; i++)
        n = g->outputs[i]->id > n ? g->outputs[i]->id : n;
    CM_FOR_NODES (m, g) {
        for (int i = 0; i < m->n_in; i++)
            n = m->in[i] && m->in[i]->id > n ? m->in[i]->id : n;
        for (int i = 0; i < m->n_out; i++)
            n = m->out[i] && m->out[i]->id > n ? m->out[i]->id : n;
        for (int s = 0; s < m->n_subs; s++) {
            int k = highest_id(m->subs[s]);
            n = k > n ? k : n;
        }
    }
    return n;
}

static double weight_bytes(const cm_network *g)
{
    double sum = 0;
    size_t bytes;
    CM_FOR_NODES (n, g) {
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->constant && cm_tensor_bytes(n->in[i]->constant, &bytes))
                sum += (double)bytes;
        for (int s = 0; s < n->n_subs; s++)
            sum += weight_bytes(n->subs[s]);
    }
    return sum;
}

static cm_status begin(cm_ctx *cx, cm_network *g, cm_exporter *e)
{
    *e = (cm_exporter){.cx = cx, .opset = OLDEST_OPSET};
    cm_arena_init(&e->tmp, cx->allocator);
    cm_map_init(&e->taken, &e->tmp);
    cm_map_init(&e->taken_nodes, &e->tmp);
    cm_map_init(&e->domains, &e->tmp);
    cm_map_init(&e->written, &e->tmp);
    CM_TRY(cm_onnx_expand_programs(cx, g));
    e->n_names = highest_id(g) + 1;
    CM_NEW_N(cx, &e->tmp, e->names, e->n_names + 1, const char *);
    return CM_OK;
}

cm_status cm_onnx_export(cm_ctx *cx, cm_network *g, cm_buf *out)
{
    cm_exporter e;
    cm_status st = begin(cx, g, &e);
    if (st == CM_OK)
        st = put_model(&e, g, out);
    cm_arena_deinit(&e.tmp);
    return st;
}

static cm_status open_beside(cm_exporter *e, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *data = cm_arena_printf(&e->tmp, "%s.data", path);
    e->beside_name = cm_arena_printf(&e->tmp, "%s.data", slash ? slash + 1 : path);
    if (!data || !e->beside_name)
        return cm_fail_memory(e->cx);
    return cm_file_writer_open(e->cx, data, &e->beside);
}

cm_status cm_onnx_export_file(cm_ctx *cx, cm_network *g, const char *path,
                              const cm_export_options *o)
{
    cm_exporter e;
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_status st = begin(cx, g, &e);
    e.strip = o && o->strip;
    if (st == CM_OK && !e.strip && ((o && o->external) || weight_bytes(g) > MOST_INLINE_MB * 1e6))
        st = open_beside(&e, path);
    if (st == CM_OK)
        st = put_model(&e, g, &b);
    if (e.beside && st == CM_OK)
        st = cm_file_writer_commit(cx, e.beside);
    else if (e.beside)
        cm_file_writer_abandon(e.beside);
    if (st == CM_OK)
        st = cm_file_write(cx, path, b.data, b.n);
    cm_buf_deinit(&b);
    cm_arena_deinit(&e.tmp);
    return st;
}
