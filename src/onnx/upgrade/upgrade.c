/* upgrade.c -- what upgrades are written with: attributes, constants, nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/upgrade/upgrade.h"

#include <string.h>

void cm_up_drop(cm_pending *u, const char *name)
{
    int n = 0;
    for (int i = 0; i < u->n_attrs; i++)
        if (strcmp(u->attrs[i].name, name) != 0)
            u->attrs[n++] = u->attrs[i];
    u->n_attrs = n;
}

static cm_status take(cm_pending *u, const char *name, pb_attribute_type type,
                      const pb_attribute **out)
{
    const cm_attribute *a = cm_onnx_find_attr(u, name);
    *out = a ? a->p : NULL;
    if (!a)
        return CM_OK;
    pb_attribute_type found = cm_onnx_attr_type(a->p);
    if (found != type && found != PB_ATTR_UNDEFINED)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "attribute '%s' has the wrong type", name);
    cm_up_drop(u, name);
    return CM_OK;
}

cm_status cm_up_take_int(cm_pending *u, const char *name, int64_t *v, bool *found)
{
    const pb_attribute *p;
    CM_TRY(take(u, name, PB_ATTR_INT, &p));
    *found = p != NULL;
    if (p)
        *v = p->i;
    return CM_OK;
}

cm_status cm_up_take_float(cm_pending *u, const char *name, float *v, bool *found)
{
    const pb_attribute *p;
    CM_TRY(take(u, name, PB_ATTR_FLOAT, &p));
    *found = p != NULL;
    if (p)
        *v = p->f;
    return CM_OK;
}

cm_status cm_up_take_ints(cm_pending *u, const char *name, cm_ints *v, bool *found)
{
    const pb_attribute *p;
    CM_TRY(take(u, name, PB_ATTR_INTS, &p));
    *found = p != NULL;
    if (p)
        *v = (cm_ints){(int64_t)p->ints.n, p->ints.v};
    return CM_OK;
}

cm_status cm_up_take_floats(cm_pending *u, const char *name, cm_floats *v, bool *found)
{
    const pb_attribute *p;
    CM_TRY(take(u, name, PB_ATTR_FLOATS, &p));
    *found = p != NULL;
    if (p)
        *v = (cm_floats){(int64_t)p->floats.n, p->floats.v};
    return CM_OK;
}

cm_status cm_up_take_str(cm_pending *u, const char *name, const char **v, bool *found)
{
    const pb_attribute *p;
    CM_TRY(take(u, name, PB_ATTR_STRING, &p));
    *found = p != NULL;
    if (p)
        *v = cm_onnx_name(u->im, p->s);
    return !p || *v ? CM_OK : cm_fail_memory(u->im->cx);
}

static cm_status add(cm_pending *u, const char *name, pb_attribute **out)
{
    cm_up_drop(u, name);
    if (u->n_attrs == u->cap_attrs) {
        cm_attribute *bigger;
        int cap = 2 * u->cap_attrs + 4;
        CM_NEW_N(u->im->cx, u->im->tmp, bigger, cap, cm_attribute);
        if (u->n_attrs)
            memcpy(bigger, u->attrs, (size_t)u->n_attrs * sizeof *bigger);
        u->attrs = bigger;
        u->cap_attrs = cap;
    }
    pb_attribute *p;
    CM_NEW(u->im->cx, u->im->tmp, p, pb_attribute);
    u->attrs[u->n_attrs++] = (cm_attribute){name, p, u->scope};
    *out = p;
    return CM_OK;
}

cm_status cm_up_set_int(cm_pending *u, const char *name, int64_t v)
{
    pb_attribute *p;
    CM_TRY(add(u, name, &p));
    p->type = PB_ATTR_INT;
    p->i = v;
    return CM_OK;
}

cm_status cm_up_set_float(cm_pending *u, const char *name, float v)
{
    pb_attribute *p;
    CM_TRY(add(u, name, &p));
    p->type = PB_ATTR_FLOAT;
    p->f = v;
    return CM_OK;
}

cm_status cm_up_set_str(cm_pending *u, const char *name, const char *v)
{
    pb_attribute *p;
    CM_TRY(add(u, name, &p));
    p->type = PB_ATTR_STRING;
    p->s = cm_str_of(v);
    return CM_OK;
}

cm_status cm_up_set_ints(cm_pending *u, const char *name, const int64_t *v, int64_t n)
{
    pb_attribute *p;
    CM_TRY(add(u, name, &p));
    p->type = PB_ATTR_INTS;
    p->ints.n = (size_t)n;
    p->ints.v = (int64_t *)(uintptr_t)v;
    return CM_OK;
}

static cm_status add_constant(cm_pending *u, cm_dtype dtype, int rank, int64_t n, const void *data,
                              cm_value **out)
{
    cm_importer *im = u->im;
    cm_tensor *t;
    CM_NEW(im->cx, im->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, dtype, rank, &n))
        return cm_fail(im->cx, CM_ERR_MODEL, "a list of %lld entries", (long long)n);
    t->capacity_bytes = (size_t)n * cm_dtype_size(dtype);
    t->data = cm_arena_memdup(im->arena, data, t->capacity_bytes);
    const char *name = cm_arena_printf(im->tmp, "%s.const", u->name);
    if (!t->data || !name)
        return cm_fail_memory(im->cx);
    return cm_network_add_constant(im->cx, u->scope->g, name, t, out);
}

cm_status cm_up_ints(cm_pending *u, const int64_t *v, int64_t n, cm_value **out)
{
    return add_constant(u, CM_I64, 1, n, v, out);
}

cm_status cm_up_int(cm_pending *u, int64_t v, cm_value **out)
{
    return add_constant(u, CM_I64, 0, 1, &v, out);
}

cm_status cm_up_floats(cm_pending *u, const float *v, int64_t n, cm_value **out)
{
    return add_constant(u, CM_F32, 1, n, v, out);
}

cm_status cm_up_number(cm_pending *u, cm_dtype t, double v, cm_value **out)
{
    uint64_t element[2] = {0};
    if (t == CM_STR || cm_dtype_is_sub_byte(t) || cm_dtype_get(t)->kind == CM_KIND_COMPLEX)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "a number of type %s", cm_dtype_name(t));
    cm_set_f64(t, element, 0, v);
    return add_constant(u, t, 0, 1, element, out);
}

cm_status cm_up_set_input(cm_pending *u, int i, cm_value *v)
{
    if (i >= u->cap_in) {
        cm_value **bigger;
        CM_NEW_N(u->im->cx, u->im->tmp, bigger, i + 4, cm_value *);
        if (u->n_in)
            memcpy(bigger, u->in, (size_t)u->n_in * sizeof *bigger);
        u->in = bigger;
        u->cap_in = i + 4;
    }
    for (; u->n_in <= i; u->n_in++)
        u->in[u->n_in] = NULL;
    u->in[i] = v;
    return CM_OK;
}

cm_status cm_up_need_input(cm_pending *u, int i)
{
    if (i < u->n_in && u->in[i])
        return CM_OK;
    return cm_fail(u->im->cx, CM_ERR_MODEL, "input %d is absent", i);
}

int cm_up_rank(const cm_pending *u, int i)
{
    bool known = i < u->n_in && u->in[i] && u->in[i]->type.kind == CM_TENSOR;
    return known ? u->in[i]->type.rank : -1;
}

static cm_status set_attr(cm_pending *u, const cm_up_attr *a)
{
    switch (a->type) {
    case PB_ATTR_INT:
        return cm_up_set_int(u, a->name, a->i);
    case PB_ATTR_FLOAT:
        return cm_up_set_float(u, a->name, a->f);
    case PB_ATTR_STRING:
        return cm_up_set_str(u, a->name, a->s);
    default:
        return cm_up_set_ints(u, a->name, a->ints.v, a->ints.n);
    }
}

cm_status cm_up_node(cm_pending *u, const char *op, cm_value *const *in, int n_in,
                     const cm_up_attr *attrs, int n_attrs, cm_value **out)
{
    cm_importer *im = u->im;
    cm_pending v = {.im = im, .scope = u->scope, .domain = "", .version = CM_ONNX_NEWEST_OPSET};
    const cm_op *known = cm_onnx_find_op(im, "", op);
    cm_node *n;
    void *attr;
    for (int i = 0; i < n_attrs; i++)
        CM_TRY(set_attr(&v, &attrs[i]));
    if (!known)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator %s is not supported", op);
    CM_TRY(cm_onnx_attr_struct(&v, known, &attr));
    const char *name = cm_arena_printf(im->tmp, "%s.%s", u->name, op);
    if (!name)
        return cm_fail_memory(im->cx);
    CM_TRY(cm_network_add_node(im->cx, u->scope->g, NULL, known, u->name, attr, in, n_in, &name, 1,
                               &n));
    CM_TRY(cm_node_infer(im->cx, n));
    *out = n->out[0];
    return CM_OK;
}

cm_status cm_up_unary(cm_pending *u, const char *op, cm_value *x, cm_value **out)
{
    return cm_up_node(u, op, &x, 1, NULL, 0, out);
}

cm_status cm_up_binary(cm_pending *u, const char *op, cm_value *a, cm_value *b, cm_value **out)
{
    cm_value *in[] = {a, b};
    return cm_up_node(u, op, in, 2, NULL, 0, out);
}

cm_status cm_up_cast(cm_pending *u, cm_value *x, cm_dtype to, cm_value **out)
{
    cm_up_attr attrs[] = {CM_UP_INT("to", to)};
    return cm_up_node(u, "Cast", &x, 1, attrs, 1, out);
}

/* The value keeps the name that its node made up; an Identity gives it the name that the model
 * has. */
cm_status cm_up_result(cm_pending *u, int i, cm_value *v)
{
    u->done = true;
    if (i >= u->n_out || !*u->out[i])
        return CM_OK;
    cm_pending id = {.im = u->im,
                     .scope = u->scope,
                     .op = "Identity",
                     .domain = "",
                     .version = CM_ONNX_NEWEST_OPSET,
                     .name = u->name,
                     .n_in = 1,
                     .in = &v,
                     .n_out = 1,
                     .out = &u->out[i],
                     .attrs = NULL};
    return cm_onnx_emit(&id);
}
