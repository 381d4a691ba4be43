/* eval.c -- runs one operator on data, and helpers that evaluators are written with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <string.h>

#include "base/size.h"
#include "ops/program_eval.h"

cm_status cm_eval_scratch(cm_eval *e, size_t n, size_t size, void **out)
{
    *out = cm_arena_alloc_n(e->cx->scratch, n, size, 64, 1);
    return *out ? CM_OK : cm_fail_memory(e->cx);
}

cm_status cm_eval_temp(cm_eval *e, cm_dtype dtype, int rank, const int64_t *dims, cm_tensor *out)
{
    *out = (cm_tensor){0};
    size_t bytes;
    if (!cm_tensor_shape(out, dtype, rank, dims) ||
        !cm_mul((size_t)cm_tensor_elems(out), cm_dtype_size(dtype), &bytes))
        return cm_fail(e->cx, CM_ERR_DATA, "an intermediate tensor is too large");
    CM_TRY(cm_eval_scratch(e, bytes, 1, &out->data));
    out->capacity_bytes = bytes;
    return CM_OK;
}

/* Memory for output o: what it brought along when that is large enough, else the host's. Sub-byte
 * outputs are computed unpacked, in scratch, and packed afterwards. */
static cm_status give_memory(cm_eval *e, int o)
{
    cm_tensor *t = &e->out[o]->tensor;
    e->out[o]->kind = CM_TENSOR;
    t->packed = false;
    if (cm_dtype_is_sub_byte(t->dtype)) {
        t->data = NULL;
        return cm_eval_scratch(e, (size_t)cm_tensor_elems(t), 1, &t->data);
    }
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(e->cx, CM_ERR_DATA, "output %d is too large", o);
    if (t->data && t->capacity_bytes >= bytes)
        return CM_OK;
    CM_TRY(e->host->alloc(e->host->user, e->cx, o, t));
    if (t->dtype == CM_STR && bytes) /* an evaluator that stops early leaves valid strings */
        memset(t->data, 0, bytes);
    return CM_OK;
}

cm_status cm_eval_alloc(cm_eval *e, int o, cm_dtype dtype, int rank, const int64_t *dims)
{
    if (!cm_eval_wants(e, o))
        return CM_OK;
    cm_tensor *t = &e->out[o]->tensor;
    if (!cm_tensor_shape(t, dtype, rank, dims)) {
        char text[256];
        return cm_fail(e->cx, CM_ERR_DATA, "output %d would have the shape %s: too large", o,
                       cm_shape_text(text, sizeof text, rank, dims));
    }
    return give_memory(e, o);
}

cm_status cm_eval_sequence(cm_eval *e, int o, int64_t n, const cm_type *elem)
{
    if (!cm_eval_wants(e, o))
        return CM_OK;
    cm_datum *d = e->out[o];
    void *items;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(cm_datum), &items));
    d->kind = CM_SEQUENCE;
    d->n = n;
    d->items = items;
    d->elem = elem;
    return CM_OK;
}

int64_t cm_eval_int(const cm_eval *e, int i, int64_t index)
{
    const cm_tensor *t = cm_eval_in(e, i);
    return cm_get_i64(t->dtype, t->data, index);
}

double cm_eval_f64(const cm_eval *e, int i, int64_t index)
{
    const cm_tensor *t = cm_eval_in(e, i);
    return cm_get_f64(t->dtype, t->data, index);
}

cm_status cm_eval_as_f64(cm_eval *e, int i, const double **out)
{
    const cm_tensor *t = cm_eval_in(e, i);
    if (t->dtype == CM_F64) {
        *out = t->data;
        return CM_OK;
    }
    int64_t n = cm_tensor_elems(t);
    void *v;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &v));
    cm_load_f64(t->dtype, t->data, n, v);
    *out = v;
    return CM_OK;
}

cm_status cm_eval_as_i64(cm_eval *e, int i, const int64_t **out)
{
    const cm_tensor *t = cm_eval_in(e, i);
    if (t->dtype == CM_I64) {
        *out = t->data;
        return CM_OK;
    }
    int64_t n = cm_tensor_elems(t);
    void *v;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &v));
    cm_load_i64(t->dtype, t->data, n, v);
    *out = v;
    return CM_OK;
}

void cm_broadcast_strides(const cm_tensor *in, int out_rank, const int64_t *out_dims,
                          int64_t *strides)
{
    int64_t run = 1;
    for (int k = 1; k <= out_rank; k++) { /* from the right; inputs are dense */
        int i = in->rank - k, o = out_rank - k;
        strides[o] = i >= 0 && (in->dims[i] != 1 || out_dims[o] == 1) ? run : 0;
        if (i >= 0)
            run *= in->dims[i];
    }
}

/* A dense, unpacked stand-in for an input that is not; the input itself when it is. */
static cm_status normal_input(cm_eval *e, const cm_datum *d, const cm_datum **out)
{
    *out = d;
    if (!d || d->kind != CM_TENSOR)
        return CM_OK;
    const cm_tensor *t = &d->tensor;
    bool unpack = t->packed && cm_dtype_is_sub_byte(t->dtype);
    if (!unpack && cm_tensor_is_dense(t))
        return CM_OK;
    cm_datum *c;
    CM_NEW(e->cx, e->cx->scratch, c, cm_datum);
    c->kind = CM_TENSOR;
    CM_TRY(cm_eval_temp(e, t->dtype, t->rank, t->dims, &c->tensor));
    if (unpack)
        cm_unpack_sub_byte(t->dtype, t->data, cm_tensor_elems(t), c->tensor.data);
    else
        cm_tensor_copy_dense(t, c->tensor.data);
    *out = c;
    return CM_OK;
}

static cm_status normal_inputs(cm_eval *e, const cm_datum *const **out)
{
    const cm_datum **in;
    CM_NEW_N(e->cx, e->cx->scratch, in, e->n_in, const cm_datum *);
    for (int i = 0; i < e->n_in; i++)
        CM_TRY(normal_input(e, e->in[i], &in[i]));
    *out = in;
    return CM_OK;
}

/* The type rule on actual sizes. */
static cm_status infer_actual(cm_eval *e, cm_infer_out *out)
{
    cm_infer_in *in;
    cm_type *types;
    CM_NEW_N(e->cx, e->cx->scratch, in, e->n_in, cm_infer_in);
    CM_NEW_N(e->cx, e->cx->scratch, types, e->n_in, cm_type);
    for (int i = 0; i < e->n_in; i++) {
        if (!e->in[i])
            continue;
        types[i] = cm_type_of_datum(e->in[i]);
        in[i].type = &types[i];
        if (e->in[i]->kind == CM_TENSOR)
            in[i].constant = &e->in[i]->tensor;
    }
    for (int o = 0; o < e->n_out; o++)
        out[o].wanted = e->out[o] != NULL;
    cm_infer f = {
        .cx = e->cx,
        .op = e->op,
        .attr = e->attr,
        .n_in = e->n_in,
        .in = in,
        .n_out = e->n_out,
        .out = out,
        .epilogue = e->epilogue,
    };
    return cm_op_infer(&f);
}

/* Shape output o as the rule said and find memory; leave it to the evaluator when the rule could
 * not say. */
static cm_status prepare_output(cm_eval *e, int o, const cm_type *t)
{
    cm_datum *d = e->out[o];
    if (!d)
        return CM_OK;
    d->kind = t->kind;
    if (t->kind != CM_TENSOR || t->rank < 0) {
        d->tensor.dtype = t->dtype;
        d->elem = t->elem;
        return CM_OK;
    }
    void *data = d->tensor.data;
    size_t capacity = d->tensor.capacity_bytes;
    if (!cm_tensor_shape(&d->tensor, t->dtype, t->rank, t->dims)) {
        char text[256];
        return cm_fail(e->cx, CM_ERR_DATA, "output %d would have the shape %s: too large", o,
                       cm_shape_text(text, sizeof text, t->rank, t->dims));
    }
    d->tensor.data = data;
    d->tensor.capacity_bytes = capacity;
    return give_memory(e, o);
}

/* Sub-byte results move from scratch to the host's memory, packed. */
static cm_status pack_output(cm_eval *e, int o)
{
    cm_datum *d = e->out[o];
    if (!d || d->kind != CM_TENSOR || !cm_dtype_is_sub_byte(d->tensor.dtype) || !d->tensor.data)
        return CM_OK;
    const void *unpacked = d->tensor.data;
    d->tensor.packed = true;
    d->tensor.data = NULL;
    d->tensor.capacity_bytes = 0;
    CM_TRY(e->host->alloc(e->host->user, e->cx, o, &d->tensor));
    cm_pack_sub_byte(d->tensor.dtype, unpacked, cm_tensor_elems(&d->tensor), d->tensor.data);
    return CM_OK;
}

/* Is every output that is wanted an empty tensor? Then there is nothing to compute, however large the
 * other dims are. */
static bool all_empty(const cm_eval *e)
{
    for (int o = 0; o < e->n_out; o++) {
        const cm_datum *d = e->out[o];
        if (d && (d->kind != CM_TENSOR || !d->tensor.data || cm_tensor_elems(&d->tensor) != 0))
            return false;
    }
    return true;
}

static cm_status evaluate(cm_eval *e, cm_dtype own_dtype)
{
    const cm_family *family = e->op->family;
    if (family->prepare && !e->prepared)
        CM_TRY(family->prepare(e->cx, e->cx->scratch, e->op, e->attr, &e->prepared));
    return e->epilogue && e->epilogue->program ? cm_epilogue_eval(e, own_dtype) : family->eval(e);
}

cm_status cm_op_eval(cm_eval *e)
{
    const void *const prepared = e->prepared;
    const cm_datum *const *given = e->in;
    CM_TRY(normal_inputs(e, &e->in));
    cm_infer_out *out;
    CM_NEW_N(e->cx, e->cx->scratch, out, e->n_out, cm_infer_out);
    cm_status st = infer_actual(e, out);
    for (int o = 0; st == CM_OK && o < e->n_out; o++)
        st = prepare_output(e, o, &out[o].type);
    if (st == CM_OK && !all_empty(e))
        st = evaluate(e, out[0].own_dtype);
    e->prepared = prepared;
    for (int o = 0; st == CM_OK && o < e->n_out; o++) {
        st = pack_output(e, o);
        if (st == CM_OK && e->out[o] && e->out[o]->kind == CM_TENSOR && !e->out[o]->tensor.data)
            st = cm_fail(e->cx, CM_ERR_INTERNAL, "%s left output %d without a shape", e->op->name,
                         o);
    }
    e->in = given;
    return st;
}
