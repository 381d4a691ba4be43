/* graph.c -- a graph: inputs, initialisers, nodes in order, outputs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/import.h"

enum { MAX_NESTING = 256 };

cm_status cm_onnx_bind(cm_importer *im, cm_scope *s, const char *name, cm_value *v)
{
    cm_binding *b;
    if (cm_map_has(&s->values, name))
        return cm_fail(im->cx, CM_ERR_MODEL, "the name '%s' is given to two values", name);
    CM_NEW(im->cx, im->tmp, b, cm_binding);
    b->value = v;
    return cm_map_put(&s->values, name, b) ? CM_OK : cm_fail_memory(im->cx);
}

static cm_status make_constant(cm_importer *im, cm_scope *s, const char *name, cm_binding *b)
{
    cm_tensor *t;
    CM_NEW(im->cx, im->arena, t, cm_tensor);
    cm_status st = b->tensor ? pb_tensor_read(&im->data, b->tensor, t)
                             : pb_sparse_read(&im->data, b->sparse, t);
    if (st != CM_OK)
        return cm_while(im->cx, st, "initialiser '%s'", name);
    CM_TRY(cm_network_add_constant(im->cx, s->g, name, t, &b->value));
    b->value->weight = cm_arena_strdup(im->arena, name);
    return b->value->weight ? CM_OK : cm_fail_memory(im->cx);
}

cm_status cm_onnx_lookup(cm_importer *im, cm_scope *s, const char *name, cm_value **out)
{
    for (; s; s = s->outer) {
        cm_binding *b = cm_map_get(&s->values, name);
        if (!b)
            continue;
        if (!b->value && (b->tensor || b->sparse))
            CM_TRY(make_constant(im, s, name, b));
        *out = b->value;
        return CM_OK;
    }
    return cm_fail(im->cx, CM_ERR_MODEL, "'%s' is made by no node and is no input", name);
}

/* Initialisers are checked now and made when used, so that unused ones cost nothing. */
static cm_status add_initializers(cm_importer *im, cm_scope *s, const pb_graph *p)
{
    size_t n = p->initializer.n;
    for (size_t i = 0; i < n + p->sparse_initializer.n; i++) {
        const pb_tensor *t = i < n ? &p->initializer.v[i] : NULL;
        const pb_sparse *sp = t ? NULL : &p->sparse_initializer.v[i - n];
        cm_str raw = t ? t->name : sp->values ? sp->values->name : (cm_str){0};
        const char *name = cm_onnx_name(im, raw);
        if (!name)
            return cm_fail_memory(im->cx);
        cm_status st = t ? pb_tensor_check(&im->data, t) : pb_sparse_check(&im->data, sp);
        if (st != CM_OK)
            return cm_while(im->cx, st, "initialiser '%s'", name);
        if (!*name)
            return cm_fail(im->cx, CM_ERR_MODEL, "an initialiser has no name");
        CM_TRY(cm_onnx_bind(im, s, name, NULL));
        cm_binding *b = cm_map_get(&s->values, name);
        b->tensor = t;
        b->sparse = sp;
    }
    return CM_OK;
}

/* Names of the graph's initialisers. */
static cm_status initial_names(cm_importer *im, const pb_graph *p, cm_map *out)
{
    cm_map_init(out, im->tmp);
    for (size_t i = 0; i < p->initializer.n; i++) {
        const char *name = cm_onnx_name(im, p->initializer.v[i].name);
        if (!name || !cm_map_put(out, name, NULL))
            return cm_fail_memory(im->cx);
    }
    return CM_OK;
}

/* Apply a shape that the caller gave for this input. */
static void override_shape(const cm_importer *im, const char *name, cm_type *type)
{
    for (int i = 0; i < im->o->n_shapes; i++) {
        const cm_import_shape *s = &im->o->shapes[i];
        if (strcmp(s->input, name) != 0 || type->kind != CM_TENSOR || s->rank > CM_MAX_RANK)
            continue;
        if (type->rank < 0) {
            for (int d = 0; d < s->rank; d++)
                if (s->dims[d] < 0)
                    return;
            type->rank = s->rank;
        }
        for (int d = 0; d < type->rank; d++)
            if (s->dims[d] >= 0)
                type->dims[d] = s->dims[d];
    }
}

static cm_status add_input(cm_importer *im, cm_scope *s, const pb_value_info *p, const char *name,
                           const cm_type *given)
{
    cm_type type = {0};
    cm_value *v;
    if (given && given->kind != CM_NOTHING) {
        type = *given;
    } else {
        cm_status st = p->type ? cm_onnx_type(im, s->g->dims, p->type, name, &type)
                               : cm_fail(im->cx, CM_ERR_MODEL, "the type is missing");
        if (st != CM_OK)
            return cm_while(im->cx, st, "input '%s'", name);
        if (!s->outer)
            override_shape(im, name, &type);
    }
    CM_TRY(cm_network_add_input(im->cx, s->g, name, &type, &v));
    return cm_onnx_bind(im, s, name, v);
}

/* An input that has an initialiser is no input unless the caller wants it so. */
static cm_status add_root_inputs(cm_importer *im, cm_scope *s, const pb_graph *p)
{
    cm_map initial;
    CM_TRY(initial_names(im, p, &initial));
    for (size_t i = 0; i < p->input.n; i++) {
        const char *name = cm_onnx_name(im, p->input.v[i].name);
        if (!name)
            return cm_fail_memory(im->cx);
        if (!*name)
            return cm_fail(im->cx, CM_ERR_MODEL, "input %zu has no name", i);
        if (!cm_map_has(&initial, name))
            CM_TRY(add_input(im, s, &p->input.v[i], name, NULL));
    }
    return CM_OK;
}

/* Outputs' declared types only warn: inference knows better. */
static void compare_type(cm_importer *im, cm_scope *s, const pb_value_info *p, const char *name,
                         const cm_value *v)
{
    const pb_tensor_type *t = p->type ? p->type->tensor_type : NULL;
    if (!t || s->outer || v->type.kind != CM_TENSOR || !cm_dtype_valid(t->elem_type))
        return;
    if (t->elem_type != (int)v->type.dtype)
        cm_log(im->cx, CM_LOG_WARNING, "output '%s' is declared %s but is %s", name,
               cm_dtype_name((cm_dtype)t->elem_type), cm_dtype_name(v->type.dtype));
    if (!t->shape || v->type.rank < 0)
        return;
    bool same = t->shape->dim.n == (size_t)v->type.rank;
    for (size_t i = 0; same && i < t->shape->dim.n; i++) {
        const pb_dim *d = &t->shape->dim.v[i];
        same = !d->has_value || d->dim_value <= 0 ||
               !cm_dim_never_equal(s->g->dims, d->dim_value, v->type.dims[i]);
    }
    if (!same)
        cm_log(im->cx, CM_LOG_WARNING, "output '%s' has another shape than the model declares",
               name);
}

static cm_status add_outputs(cm_importer *im, cm_scope *s, const pb_graph *p)
{
    for (size_t i = 0; i < p->output.n; i++) {
        const char *name = cm_onnx_name(im, p->output.v[i].name);
        cm_value *v;
        if (!name)
            return cm_fail_memory(im->cx);
        if (!*name)
            return cm_fail(im->cx, CM_ERR_MODEL, "output %zu has no name", i);
        cm_status st = cm_onnx_lookup(im, s, name, &v);
        if (st == CM_OK && !v)
            st = cm_fail(im->cx, CM_ERR_MODEL, "it has no value");
        if (st != CM_OK)
            return cm_while(im->cx, st, "output %zu", i);
        compare_type(im, s, &p->output.v[i], name, v);
        CM_TRY(cm_network_add_output(im->cx, s->g, v, name));
    }
    return CM_OK;
}

cm_status cm_onnx_graph(cm_importer *im, cm_scope *s, const pb_graph *p)
{
    if (im->o->keep_overridable) {
        for (size_t i = 0; i < p->input.n; i++) {
            const char *name = cm_onnx_name(im, p->input.v[i].name);
            if (!name)
                return cm_fail_memory(im->cx);
            CM_TRY(add_input(im, s, &p->input.v[i], name, NULL));
        }
        pb_graph rest = *p; /* without the initialisers that are inputs now */
        rest.initializer.n = 0;
        CM_NEW_N(im->cx, im->tmp, rest.initializer.v, p->initializer.n, pb_tensor);
        for (size_t i = 0; i < p->initializer.n; i++) {
            const char *name = cm_onnx_name(im, p->initializer.v[i].name);
            if (!name)
                return cm_fail_memory(im->cx);
            if (!cm_map_has(&s->values, name))
                rest.initializer.v[rest.initializer.n++] = p->initializer.v[i];
        }
        CM_TRY(add_initializers(im, s, &rest));
    } else {
        CM_TRY(add_root_inputs(im, s, p));
        CM_TRY(add_initializers(im, s, p));
    }
    CM_TRY(cm_onnx_nodes(im, s, p->node.v, p->node.n));
    return add_outputs(im, s, p);
}

cm_status cm_onnx_inline(cm_importer *im, cm_network *g, cm_scope *outer, const char *prefix,
                         const pb_graph *p, cm_value *const *in, int n_in, cm_value **out,
                         int n_out)
{
    cm_scope *s;
    if (p->input.n != (size_t)n_in || p->output.n != (size_t)n_out)
        return cm_fail(im->cx, CM_ERR_MODEL, "it has %zu inputs and %zu outputs, wanted %d and %d",
                       p->input.n, p->output.n, n_in, n_out);
    CM_NEW(im->cx, im->tmp, s, cm_scope);
    *s = *outer;
    s->outer = outer;
    s->rename = NULL;
    s->g = g;
    s->prefix = prefix;
    cm_map_init(&s->values, im->tmp);
    if (++im->depth > MAX_NESTING)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "graphs and functions nested over %d levels",
                       (int)MAX_NESTING);
    for (int i = 0; i < n_in; i++) {
        const char *name = cm_onnx_name(im, p->input.v[i].name);
        if (!name)
            return cm_fail_memory(im->cx);
        CM_TRY(cm_onnx_bind(im, s, name, in[i]));
    }
    CM_TRY(add_initializers(im, s, p));
    CM_TRY(cm_onnx_nodes(im, s, p->node.v, p->node.n));
    for (int i = 0; i < n_out; i++) {
        const char *name = cm_onnx_name(im, p->output.v[i].name);
        if (!name)
            return cm_fail_memory(im->cx);
        CM_TRY(cm_onnx_lookup(im, s, name, &out[i]));
    }
    im->depth--;
    return CM_OK;
}

cm_status cm_onnx_subgraph(cm_importer *im, cm_network *g, cm_scope *outer, const pb_graph *p,
                           const cm_type *inputs, int n_inputs, cm_network **out)
{
    cm_scope *s;
    CM_NEW(im->cx, im->tmp, s, cm_scope);
    *s = *outer;
    s->outer = outer;
    s->rename = NULL;
    cm_map_init(&s->values, im->tmp);
    const char *name = cm_onnx_name(im, p->name);
    if (!name)
        return cm_fail_memory(im->cx);
    if (++im->depth > MAX_NESTING)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "graphs and functions nested over %d levels",
                       (int)MAX_NESTING);
    CM_TRY(cm_network_nested(im->cx, g, name, &s->g));
    cm_map initial;
    CM_TRY(initial_names(im, p, &initial));
    for (size_t i = 0; i < p->input.n; i++) {
        const char *input = cm_onnx_name(im, p->input.v[i].name);
        if (!input)
            return cm_fail_memory(im->cx);
        if (n_inputs == 0 && cm_map_has(&initial, input))
            continue;
        CM_TRY(add_input(im, s, &p->input.v[i], input, (int)i < n_inputs ? &inputs[i] : NULL));
    }
    CM_TRY(add_initializers(im, s, p));
    CM_TRY(cm_onnx_nodes(im, s, p->node.v, p->node.n));
    CM_TRY(add_outputs(im, s, p));
    im->depth--;
    *out = s->g;
    return CM_OK;
}
