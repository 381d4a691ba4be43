/* match.c -- questions about nodes and values, and new nodes, for passes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/match.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/size.h"

cm_node *cm_made_by(const cm_value *v, cm_op_id op)
{
    return v && cm_is(v->producer, op) && v->producer->network == v->network ? v->producer : NULL;
}

cm_node *cm_only_reader(const cm_value *v)
{
    if (v->n_uses != 1 || !v->uses->node || v->uses->node->network != v->network)
        return NULL;
    return v->uses->node;
}

bool cm_one_output(const cm_node *n)
{
    for (int o = 1; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return false;
    return n->n_out > 0 && n->out[0];
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static const cm_attr_field *field(const cm_op *op, const char *name)
{
    const cm_attr_field *f = cm_attr_find(op->attrs, name);
    assert(f);
    return f;
}

int64_t cm_int(const cm_node *n, const char *name)
{
    return *(const int64_t *)cm_attr_get(n->attr, field(n->op, name));
}

double cm_float(const cm_node *n, const char *name)
{
    return (double)*(const float *)cm_attr_get(n->attr, field(n->op, name));
}

cm_str cm_string(const cm_node *n, const char *name)
{
    return *(const cm_str *)cm_attr_get(n->attr, field(n->op, name));
}

cm_ints cm_int_list(const cm_node *n, const char *name)
{
    return *(const cm_ints *)cm_attr_get(n->attr, field(n->op, name));
}

bool cm_given(const cm_node *n, const char *name)
{
    return cm_attr_has(n->op->attrs, n->attr, name);
}

bool cm_string_is(const cm_node *n, const char *name, const char *text)
{
    return cm_str_equal(cm_string(n, name), cm_str_of(text));
}

cm_status cm_new_attr(cm_ctx *cx, cm_network *g, cm_op_id op, void **out)
{
    return cm_attr_new(cx, g->arena, cm_op_builtin(op)->attrs, out);
}

cm_status cm_attr_put_int(cm_ctx *cx, cm_op_id op, void *attr, const char *name, int64_t v)
{
    (void)cx;
    const cm_op *o = cm_op_builtin(op);
    cm_attr_set(o->attrs, attr, field(o, name), &v);
    return CM_OK;
}

cm_status cm_attr_put_float(cm_ctx *cx, cm_op_id op, void *attr, const char *name, double v)
{
    (void)cx;
    const cm_op *o = cm_op_builtin(op);
    float f = (float)v;
    cm_attr_set(o->attrs, attr, field(o, name), &f);
    return CM_OK;
}

cm_status cm_attr_put_string(cm_ctx *cx, cm_network *g, cm_op_id op, void *attr, const char *name,
                             const char *v)
{
    const cm_op *o = cm_op_builtin(op);
    const char *copy = cm_arena_strdup(g->arena, v);
    if (!copy)
        return cm_fail_memory(cx);
    cm_str s = cm_str_of(copy);
    cm_attr_set(o->attrs, attr, field(o, name), &s);
    return CM_OK;
}

cm_status cm_attr_put_ints(cm_ctx *cx, cm_network *g, cm_op_id op, void *attr, const char *name,
                           const int64_t *v, int k)
{
    const cm_op *o = cm_op_builtin(op);
    cm_ints list = {k, cm_arena_memdup(g->arena, v, (size_t)k * sizeof *v)};
    if (!list.v)
        return cm_fail_memory(cx);
    cm_attr_set(o->attrs, attr, field(o, name), &list);
    return CM_OK;
}

cm_status cm_set_int(cm_ctx *cx, cm_node *n, const char *name, int64_t v)
{
    return cm_attr_put_int(cx, n->op->id, n->attr, name, v);
}

cm_status cm_set_float(cm_ctx *cx, cm_node *n, const char *name, double v)
{
    return cm_attr_put_float(cx, n->op->id, n->attr, name, v);
}

cm_status cm_set_string(cm_ctx *cx, cm_node *n, const char *name, const char *v)
{
    return cm_attr_put_string(cx, n->network, n->op->id, n->attr, name, v);
}

cm_status cm_set_ints(cm_ctx *cx, cm_node *n, const char *name, const int64_t *v, int k)
{
    return cm_attr_put_ints(cx, n->network, n->op->id, n->attr, name, v, k);
}

/* ---- Constants ------------------------------------------------------------------------------ */

static bool is_plain_number(const cm_tensor *t)
{
    cm_dtype_kind kind = cm_dtype_get(t->dtype)->kind;
    return kind != CM_KIND_STRING && kind != CM_KIND_COMPLEX && !t->packed;
}

bool cm_splat(const cm_value *v, double *x)
{
    if (!cm_is_const(v) || !is_plain_number(v->constant))
        return false;
    const cm_tensor *t = v->constant;
    int64_t n = cm_tensor_elems(t);
    size_t size = cm_dtype_size(t->dtype);
    if (n < 1)
        return false;
    for (int64_t i = 1; i < n; i++)
        if (memcmp((const char *)t->data + (size_t)i * size, t->data, size) != 0)
            return false;
    *x = cm_get_f64(t->dtype, t->data, 0);
    return true;
}

bool cm_is_number(const cm_value *v, double x, double rtol)
{
    double y;
    return cm_splat(v, &y) && fabs(y - x) <= rtol * fabs(x);
}

bool cm_const_ints(const cm_value *v, int64_t *out, int max, int *n)
{
    if (!v)
        return false;
    if (v->constant && is_plain_number(v->constant) && cm_dtype_is_integer(v->constant->dtype)) {
        int64_t k = cm_tensor_elems(v->constant);
        if (k > max)
            return false;
        cm_load_i64(v->constant->dtype, v->constant->data, k, out);
        *n = (int)k;
        return true;
    }
    if (!v->elems || v->n_elems > max)
        return false;
    for (int i = 0; i < v->n_elems; i++)
        if (!cm_dim_is_const(v->network->dims, v->elems[i], &out[i]))
            return false;
    *n = v->n_elems;
    return true;
}

cm_status cm_const_f64(cm_ctx *cx, const cm_value *v, const double **out, int64_t *n)
{
    const cm_tensor *t = v->constant;
    const void *data = t->data;
    double *d;
    *n = cm_tensor_elems(t);
    CM_NEW_N(cx, cx->scratch, d, *n, double);
    if (t->packed) {
        unsigned char *bytes;
        CM_NEW_N(cx, cx->scratch, bytes, *n, unsigned char);
        cm_unpack_sub_byte(t->dtype, t->data, *n, bytes);
        data = bytes;
    }
    cm_load_f64(t->dtype, data, *n, d);
    *out = d;
    return CM_OK;
}

static cm_status new_tensor(cm_ctx *cx, cm_network *g, cm_dtype dtype, int rank,
                            const int64_t *dims, cm_tensor **out)
{
    cm_tensor *t;
    size_t bytes;
    CM_NEW(cx, g->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, dtype, rank, dims) || !cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_INTERNAL, "a constant would be too large");
    t->data = cm_arena_alloc_n(g->arena, bytes, 1, 64, 0);
    t->capacity_bytes = bytes;
    *out = t;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

cm_status cm_make_const_f64(cm_ctx *cx, cm_network *g, const char *name, cm_dtype dtype, int rank,
                            const int64_t *dims, const double *v, cm_value **out)
{
    cm_tensor *t;
    CM_TRY(new_tensor(cx, g, dtype, rank, dims, &t));
    cm_store_f64(dtype, v, cm_tensor_elems(t), t->data);
    return cm_network_add_constant(cx, g, name, t, out);
}

cm_status cm_make_const_i64(cm_ctx *cx, cm_network *g, const char *name, int rank,
                            const int64_t *dims, const int64_t *v, cm_value **out)
{
    cm_tensor *t;
    CM_TRY(new_tensor(cx, g, CM_I64, rank, dims, &t));
    memcpy(t->data, v, (size_t)cm_tensor_elems(t) * sizeof *v);
    return cm_network_add_constant(cx, g, name, t, out);
}

cm_status cm_make_scalar(cm_ctx *cx, cm_network *g, const char *name, cm_dtype dtype, double v,
                         cm_value **out)
{
    return cm_make_const_f64(cx, g, name, dtype, 0, NULL, &v, out);
}

/* ---- Types ---------------------------------------------------------------------------------- */

bool cm_same_shape(const cm_value *a, const cm_value *b)
{
    if (cm_rank(a) < 0 || cm_rank(a) != cm_rank(b))
        return false;
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i] != b->type.dims[i])
            return false;
    return true;
}

bool cm_static_shape(const cm_value *v, int64_t *dims)
{
    if (cm_rank(v) < 0)
        return false;
    for (int i = 0; i < v->type.rank; i++) {
        if (!cm_dim_is_size(v->type.dims[i]))
            return false;
        dims[i] = v->type.dims[i];
    }
    return true;
}

bool cm_is_float(const cm_value *v)
{
    return v && v->type.kind == CM_TENSOR && cm_dtype_is_float(v->type.dtype);
}

int64_t cm_volume(const cm_value *v)
{
    int64_t dims[CM_MAX_RANK], n = 1;
    if (!cm_static_shape(v, dims))
        return -1;
    for (int i = 0; i < v->type.rank; i++)
        if (!cm_mul_i64(n, dims[i], &n))
            return -1;
    return n;
}

/* ---- New nodes ------------------------------------------------------------------------------ */

cm_status cm_make_with(cm_rewriter *rw, cm_node *before, cm_op_id op, void *attr,
                       const cm_node *like, cm_value *const *in, int n_in, int n_out, cm_node **out)
{
    cm_node *n;
    CM_TRY(cm_network_add_node(rw->cx, before->network, before, cm_op_builtin(op), like->name, attr,
                               in, n_in, NULL, n_out, &n));
    n->from = like->from;
    n->n_from = like->n_from;
    CM_TRY(cm_node_infer(rw->cx, n));
    *out = n;
    return CM_OK;
}

cm_status cm_make_cast(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *v,
                       cm_dtype to, cm_node **out)
{
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_CAST, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CAST, attr, "to", to));
    return cm_make_with(rw, before, CM_OP_CAST, attr, like, &v, 1, 1, out);
}

cm_status cm_make(cm_rewriter *rw, cm_node *before, cm_op_id op, const cm_node *like,
                  cm_value *const *in, int n_in, int n_out, cm_node **out)
{
    return cm_make_with(rw, before, op, NULL, like, in, n_in, n_out, out);
}

cm_status cm_replace(cm_rewriter *rw, const cm_node *old, cm_value *to, cm_node *n)
{
    if (n && n != old)
        CM_TRY(cm_node_add_from(rw->cx, n, old));
    return cm_replace_uses(rw->cx, old->out[0], to);
}

void cm_drop_if_dead(cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return;
    cm_network *g = n->network;
    cm_node_remove(n);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->n_uses && n->in[i]->producer &&
            n->in[i]->producer->network == g) /* NULL: dropped for an earlier input */
            cm_drop_if_dead(n->in[i]->producer);
}

void cm_number_nodes(cm_network *g)
{
    uint32_t at = 0;
    CM_FOR_NODES (n, g)
        n->mark = ++at;
}
