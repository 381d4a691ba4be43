/* attribute.c -- AttributeProtos to an operator's attribute struct, through its descriptor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/import.h"

enum { MAX_ATTRIBUTES = 1024 }; /* they are searched one by one */

static const char *const type_names[PB_ATTR_COUNT] = {
    "nothing", "a float",         "an int",         "a string", "a tensor",
    "a graph", "floats",          "ints",           "strings",  "tensors",
    "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types",
};

/* Attributes of old operators that said how memory was shared, or that training is off. */
static const char *const ignored[] = {"consumed_inputs", "is_test"};

pb_attribute_type cm_onnx_attr_type(const pb_attribute *p)
{
    if (p->type > 0 && p->type < PB_ATTR_COUNT)
        return (pb_attribute_type)p->type;
    return p->has_f           ? PB_ATTR_FLOAT
           : p->has_i         ? PB_ATTR_INT
           : p->has_s         ? PB_ATTR_STRING
           : p->t             ? PB_ATTR_TENSOR
           : p->g             ? PB_ATTR_GRAPH
           : p->floats.n      ? PB_ATTR_FLOATS
           : p->ints.n        ? PB_ATTR_INTS
           : p->strings.n     ? PB_ATTR_STRINGS
           : p->sparse_tensor ? PB_ATTR_SPARSE_TENSOR
           : p->tp            ? PB_ATTR_TYPE_PROTO
                              : PB_ATTR_UNDEFINED;
}

const cm_attribute *cm_onnx_find_attr(const cm_pending *u, const char *name)
{
    for (int i = 0; i < u->n_attrs; i++)
        if (strcmp(u->attrs[i].name, name) == 0)
            return &u->attrs[i];
    return NULL;
}

static const cm_attribute *argument(const cm_scope *s, const char *name)
{
    for (int i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, name) == 0)
            return &s->args[i];
    return NULL;
}

cm_status cm_onnx_attributes(cm_pending *u, const pb_node *p)
{
    cm_importer *im = u->im;
    if (p->attribute.n > MAX_ATTRIBUTES)
        return cm_fail(im->cx, CM_ERR_MODEL, "it has %zu attributes", p->attribute.n);
    u->cap_attrs = (int)p->attribute.n + 4;
    CM_NEW_N(im->cx, im->tmp, u->attrs, u->cap_attrs, cm_attribute);
    for (size_t i = 0; i < p->attribute.n; i++) {
        const pb_attribute *a = &p->attribute.v[i];
        cm_attribute out = {cm_onnx_name(im, a->name), a, u->scope};
        if (!out.name)
            return cm_fail_memory(im->cx);
        if (cm_onnx_find_attr(u, out.name))
            return cm_fail(im->cx, CM_ERR_MODEL, "attribute '%s' is given twice", out.name);
        if (a->ref_attr_name.n) {
            const char *ref = cm_onnx_name(im, a->ref_attr_name);
            const cm_attribute *arg = ref ? argument(u->scope, ref) : NULL;
            if (!ref)
                return cm_fail_memory(im->cx);
            if (!arg)
                continue; /* the call left it out: so does the node */
            out.p = arg->p;
            out.scope = arg->scope;
        }
        u->attrs[u->n_attrs++] = out;
    }
    return CM_OK;
}

static pb_attribute_type wanted_type(cm_attr_kind k)
{
    static const pb_attribute_type types[] = {
        [CM_A_INT] = PB_ATTR_INT,       [CM_A_FLOAT] = PB_ATTR_FLOAT,
        [CM_A_STR] = PB_ATTR_STRING,    [CM_A_INTS] = PB_ATTR_INTS,
        [CM_A_FLOATS] = PB_ATTR_FLOATS, [CM_A_STRS] = PB_ATTR_STRINGS,
        [CM_A_TENSOR] = PB_ATTR_TENSOR, [CM_A_TYPE] = PB_ATTR_TYPE_PROTO,
    };
    return types[k];
}

static bool is_list(cm_attr_kind k)
{
    return k == CM_A_INTS || k == CM_A_FLOATS || k == CM_A_STRS;
}

static cm_status copy(cm_importer *im, const void *p, size_t n, size_t size, const void **out)
{
    void *q = cm_arena_alloc_n(im->arena, n, size, 16, 0);
    if (!q)
        return cm_fail_memory(im->cx);
    if (n)
        memcpy(q, p, n * size);
    *out = q;
    return CM_OK;
}

static cm_status copy_string(cm_importer *im, cm_str s, cm_str *out)
{
    out->p = cm_arena_strndup(im->arena, s.p, s.n);
    out->n = s.n;
    return out->p ? CM_OK : cm_fail_memory(im->cx);
}

static cm_status set_strings(cm_importer *im, const cm_attr_desc *d, const cm_attr_field *f,
                             const pb_attribute *p, void *attr)
{
    cm_str *v;
    CM_NEW_N(im->cx, im->arena, v, p->strings.n, cm_str);
    for (size_t i = 0; i < p->strings.n; i++)
        CM_TRY(copy_string(im, p->strings.v[i], &v[i]));
    cm_attr_set(d, attr, f, &(cm_strs){(int64_t)p->strings.n, v});
    return CM_OK;
}

static cm_status set_tensor(cm_importer *im, const cm_attr_desc *d, const cm_attr_field *f,
                            const pb_attribute *p, void *attr)
{
    cm_tensor *t;
    if (!p->t)
        return cm_fail(im->cx, CM_ERR_MODEL, "the tensor is missing");
    CM_NEW(im->cx, im->arena, t, cm_tensor);
    CM_TRY(pb_tensor_read(&im->data, p->t, t));
    cm_attr_set(d, attr, f, &t);
    return CM_OK;
}

static cm_status set_type(cm_pending *u, const cm_attr_desc *d, const cm_attr_field *f,
                          const pb_attribute *p, void *attr)
{
    cm_importer *im = u->im;
    cm_type *t;
    if (!p->tp)
        return cm_fail(im->cx, CM_ERR_MODEL, "the type is missing");
    CM_NEW(im->cx, im->arena, t, cm_type);
    CM_TRY(cm_onnx_type(im, u->scope->g->dims, p->tp, u->name, t));
    cm_attr_set(d, attr, f, &t);
    return CM_OK;
}

static cm_status set_field(cm_pending *u, const cm_attr_desc *d, const cm_attr_field *f,
                           const pb_attribute *p, void *attr)
{
    cm_importer *im = u->im;
    pb_attribute_type found = cm_onnx_attr_type(p);
    if (found == PB_ATTR_UNDEFINED && is_list(f->kind))
        found = wanted_type(f->kind); /* an empty list without a type */
    if (found != wanted_type(f->kind))
        return cm_fail(im->cx, CM_ERR_MODEL, "it is %s, wanted %s", type_names[found],
                       type_names[wanted_type(f->kind)]);
    cm_ints ints = {(int64_t)p->ints.n, NULL};
    cm_floats floats = {(int64_t)p->floats.n, NULL};
    cm_str s;
    switch (f->kind) {
    case CM_A_INT:
        cm_attr_set(d, attr, f, &p->i);
        return CM_OK;
    case CM_A_FLOAT:
        cm_attr_set(d, attr, f, &p->f);
        return CM_OK;
    case CM_A_STR:
        CM_TRY(copy_string(im, p->s, &s));
        cm_attr_set(d, attr, f, &s);
        return CM_OK;
    case CM_A_INTS:
        CM_TRY(copy(im, p->ints.v, p->ints.n, sizeof(int64_t), (const void **)&ints.v));
        cm_attr_set(d, attr, f, &ints);
        return CM_OK;
    case CM_A_FLOATS:
        CM_TRY(copy(im, p->floats.v, p->floats.n, sizeof(float), (const void **)&floats.v));
        cm_attr_set(d, attr, f, &floats);
        return CM_OK;
    case CM_A_STRS:
        return set_strings(im, d, f, p, attr);
    case CM_A_TENSOR:
        return set_tensor(im, d, f, p, attr);
    case CM_A_TYPE:
        return set_type(u, d, f, p, attr);
    }
    return CM_OK;
}

static bool is_ignored(const char *name)
{
    for (int i = 0; i < CM_COUNT(ignored); i++)
        if (strcmp(name, ignored[i]) == 0)
            return true;
    return false;
}

static cm_status unknown(cm_pending *u, const cm_attr_desc *d, const char *name)
{
    const char *names[64];
    int n = d->n_fields < 64 ? d->n_fields : 64;
    for (int i = 0; i < n; i++)
        names[i] = d->fields[i].name;
    const char *near = cm_suggest(name, names, n);
    if (u->early) { /* another project's operator: its attributes were never checked */
        cm_log(u->im->cx, CM_LOG_WARNING, "%s node '%s': attribute '%s' is unknown and ignored",
               u->op, u->name, name);
        return CM_OK;
    }
    return cm_fail(u->im->cx, CM_ERR_MODEL, "there is no attribute '%s' in opset %lld%s%s%s", name,
                   (long long)u->version, near ? ": did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

cm_status cm_onnx_attr_struct(cm_pending *u, const cm_op *op, void **out)
{
    const cm_attr_desc *d = op->attrs;
    void *attr;
    CM_TRY(cm_attr_new(u->im->cx, u->im->arena, d, &attr));
    for (int i = 0; i < u->n_attrs; i++) {
        const cm_attribute *a = &u->attrs[i];
        const cm_attr_field *f = cm_attr_find(d, a->name);
        pb_attribute_type t = cm_onnx_attr_type(a->p);
        if (!f && ((op->traits & CM_CONTROL && t == PB_ATTR_GRAPH) || is_ignored(a->name)))
            continue;
        if (!f) {
            CM_TRY(unknown(u, d, a->name));
            continue;
        }
        cm_status st = set_field(u, d, f, a->p, attr);
        if (st != CM_OK)
            return cm_while(u->im->cx, st, "attribute '%s'", a->name);
    }
    CM_TRY(cm_attr_check(u->im->cx, d, attr));
    *out = attr;
    return CM_OK;
}
