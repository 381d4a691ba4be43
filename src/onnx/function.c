/* function.c -- calls of the model's own functions, replaced by their nodes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Recursion was refused by support.c. What expansion may cost is bounded here: a few functions that
 * call each other twice can ask for any number of nodes. */
#include <string.h>

#include "onnx/import.h"

enum { MAX_INLINED = 1000000, MAX_NESTING = 256 };

static const char *key_of(cm_importer *im, const char *domain, const char *op, cm_str overload)
{
    const char *o = cm_onnx_name(im, overload);
    return o ? cm_arena_printf(im->tmp, "%s:%s:%s", domain, op, o) : NULL;
}

cm_status cm_onnx_function_table(cm_importer *im)
{
    for (size_t i = 0; i < im->model->functions.n; i++) {
        const pb_function *f = &im->model->functions.v[i];
        const char *domain, *name = cm_onnx_name(im, f->name);
        CM_TRY(cm_onnx_domain(im, f->domain, &domain));
        const char *key = name ? key_of(im, domain, name, f->overload) : NULL;
        if (!key)
            return cm_fail_memory(im->cx);
        if (cm_map_has(&im->functions, key))
            return cm_fail(im->cx, CM_ERR_MODEL, "function '%s' of domain '%s' is defined twice",
                           name, domain);
        if (!cm_map_put(&im->functions, key, (void *)(uintptr_t)f))
            return cm_fail_memory(im->cx);
    }
    return CM_OK;
}

/* ONNX's own operators are not overridden; those of other domains are. */
const pb_function *cm_onnx_find_function(cm_importer *im, const char *domain, const char *op,
                                         cm_str overload)
{
    if (im->functions.n == 0)
        return NULL;
    bool standard = !*domain || strncmp(domain, "ai.onnx", 7) == 0;
    if (standard && cm_onnx_find_op(im, domain, op) && overload.n == 0)
        return NULL;
    const char *key = key_of(im, domain, op, overload);
    return key ? cm_map_get(&im->functions, key) : NULL;
}

/* What the call gives, then the function's defaults for what it does not. */
static cm_status bind_arguments(cm_pending *u, const pb_function *f, cm_scope *s)
{
    cm_importer *im = u->im;
    cm_attribute *args;
    int n = u->n_attrs;
    CM_NEW_N(im->cx, im->tmp, args, (size_t)n + f->attribute_proto.n, cm_attribute);
    memcpy(args, u->attrs, (size_t)n * sizeof *args);
    for (size_t i = 0; i < f->attribute_proto.n; i++) {
        const pb_attribute *p = &f->attribute_proto.v[i];
        const char *name = cm_onnx_name(im, p->name);
        if (!name)
            return cm_fail_memory(im->cx);
        if (!cm_onnx_find_attr(u, name))
            args[n++] = (cm_attribute){name, p, s};
    }
    s->args = args;
    s->n_args = n;
    return CM_OK;
}

static cm_status bind_inputs(cm_pending *u, const pb_function *f, cm_scope *s)
{
    if ((size_t)u->n_in > f->input.n)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "it has %d inputs, the function takes %zu", u->n_in,
                       f->input.n);
    for (size_t i = 0; i < f->input.n; i++) {
        const char *name = cm_onnx_name(u->im, f->input.v[i]);
        if (!name)
            return cm_fail_memory(u->im->cx);
        CM_TRY(cm_onnx_bind(u->im, s, name, (int)i < u->n_in ? u->in[i] : NULL));
    }
    return CM_OK;
}

/* Results carry the caller's names. */
static cm_status name_results(cm_pending *u, const pb_function *f, cm_map *rename)
{
    if ((size_t)u->n_out > f->output.n)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "it has %d outputs, the function gives %zu",
                       u->n_out, f->output.n);
    cm_map_init(rename, u->im->tmp);
    const cm_scope *s = u->scope;
    for (int i = 0; i < u->n_out; i++) {
        const char *name = cm_onnx_name(u->im, f->output.v[i]);
        const char *given = s->rename ? cm_map_get(s->rename, u->out[i]) : NULL;
        if (!given)
            given = cm_arena_printf(u->im->tmp, "%s%s", s->prefix, u->out[i]);
        if (!name || !given || (*u->out[i] && !cm_map_put(rename, name, (void *)(uintptr_t)given)))
            return cm_fail_memory(u->im->cx);
    }
    return CM_OK;
}

cm_status cm_onnx_call(cm_pending *u, const pb_function *f)
{
    cm_importer *im = u->im;
    cm_scope *s;
    cm_map *rename;
    CM_NEW(im->cx, im->tmp, s, cm_scope);
    CM_NEW(im->cx, im->tmp, rename, cm_map);
    *s = (cm_scope){.g = u->scope->g,
                    .rename = rename,
                    .n_opsets = f->opset_import.n,
                    .opsets = f->opset_import.v};
    if (!s->n_opsets) {
        s->opsets = im->model->opset_import.v;
        s->n_opsets = im->model->opset_import.n;
    }
    s->prefix = cm_arena_printf(im->tmp, "%s/", u->name);
    cm_map_init(&s->values, im->tmp);
    if (!s->prefix)
        return cm_fail_memory(im->cx);
    im->n_inlined += (int64_t)f->node.n;
    if (im->n_inlined > MAX_INLINED || ++im->depth > MAX_NESTING)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED,
                       "the model's functions expand to over %d nodes or %d levels",
                       (int)MAX_INLINED, (int)MAX_NESTING);
    CM_TRY(bind_arguments(u, f, s));
    CM_TRY(bind_inputs(u, f, s));
    CM_TRY(name_results(u, f, rename));
    u->named = true; /* names inside begin with the call's */
    CM_TRY(cm_onnx_nodes(im, s, f->node.v, f->node.n));
    u->named = false;
    im->depth--;
    for (int i = 0; i < u->n_out; i++) {
        const char *name = cm_onnx_name(im, f->output.v[i]);
        cm_value *v;
        if (!name)
            return cm_fail_memory(im->cx);
        if (!*u->out[i])
            continue;
        CM_TRY(cm_onnx_lookup(im, s, name, &v));
        CM_TRY(cm_onnx_bind(im, u->scope, u->out[i], v));
    }
    return CM_OK;
}
