/* nested.c -- types and data that hold others: sequences, optionals, maps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/nested.h"

#include <string.h>

const cm_type *cm_elem_tensor(cm_dtype dtype)
{
    static const cm_type types[CM_DTYPE_COUNT] = {
#define X(id, number, name, onnx, bits, kind) [number] = {CM_TENSOR, CM_##id, CM_NO_DTYPE, -1},
        CM_DTYPES(X)
#undef X
    };
    return dtype == CM_NO_DTYPE ? NULL : &types[dtype];
}

cm_status cm_infer_elem(cm_infer *f, const cm_type *t, const cm_type **out)
{
    if (!t || t->kind == CM_NOTHING) {
        *out = NULL;
        return CM_OK;
    }
    if (t->kind == CM_TENSOR && (!f->dims || t->rank < 0)) {
        *out = cm_elem_tensor(t->dtype);
        return CM_OK;
    }
    cm_type *copy;
    CM_NEW(f->cx, f->dims ? f->cx->arena : f->cx->scratch, copy, cm_type);
    *copy = *t;
    if (t->kind == CM_SEQUENCE || t->kind == CM_OPTIONAL)
        CM_TRY(cm_infer_elem(f, t->elem, &copy->elem));
    *out = copy;
    return CM_OK;
}

static cm_status join_tensors(cm_infer *f, const cm_type *a, const cm_type *b, cm_type *out)
{
    if (a->rank < 0 || a->rank != b->rank || !f->dims) {
        out->rank = -1;
        return CM_OK;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] == b->dims[i])
            continue;
        out->dims[i] = cm_infer_fresh(f, "item");
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(f->cx);
    }
    return CM_OK;
}

cm_status cm_infer_join(cm_infer *f, const char *what, const cm_type *a, const cm_type *b,
                        cm_type *out)
{
    if (!a || a->kind == CM_NOTHING || !b || b->kind == CM_NOTHING) {
        *out = a && a->kind != CM_NOTHING ? *a : b ? *b : (cm_type){0};
        return CM_OK;
    }
    if (a->kind != b->kind)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s: values of different kinds", what);
    *out = *a;
    if ((a->kind == CM_TENSOR || a->kind == CM_MAP) && (a->dtype != b->dtype || a->key != b->key))
        return cm_fail(f->cx, CM_ERR_MODEL, "%s: found element type %s, wanted %s", what,
                       cm_dtype_name(b->dtype), cm_dtype_name(a->dtype));
    if (a->kind == CM_TENSOR)
        return join_tensors(f, a, b, out);
    if (a->kind == CM_SEQUENCE || a->kind == CM_OPTIONAL) {
        cm_type elem;
        CM_TRY(cm_infer_join(f, what, a->elem, b->elem, &elem));
        return cm_infer_elem(f, &elem, &out->elem);
    }
    return CM_OK;
}

cm_status cm_infer_item(cm_infer *f, int o, const cm_type *t)
{
    if (o >= f->n_out)
        return CM_OK;
    cm_type *out = &f->out[o].type;
    if (!t || t->kind == CM_NOTHING) {
        *out = (cm_type){.kind = CM_NOTHING};
        return CM_OK;
    }
    *out = *t;
    if (t->kind != CM_TENSOR)
        return t->elem ? cm_infer_elem(f, t->elem, &out->elem) : CM_OK;
    if (!f->dims)
        out->rank = -1;
    for (int i = 0; i < out->rank; i++) {
        int64_t v;
        if (cm_infer_const(f, t->dims[i], &v))
            continue;
        out->dims[i] = cm_infer_fresh(f, "item");
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(f->cx);
    }
    return CM_OK;
}

void cm_infer_holder(cm_infer *f, int o, cm_kind kind, const cm_type *elem)
{
    if (o < f->n_out)
        f->out[o].type = (cm_type){.kind = kind, .elem = elem};
}

cm_status cm_eval_plain(cm_eval *e, const cm_datum *d, cm_datum *out)
{
    *out = *d;
    if (d->kind != CM_TENSOR)
        return CM_OK;
    const cm_tensor *t = &d->tensor;
    const bool unpack = t->packed && cm_dtype_is_sub_byte(t->dtype);
    if (!unpack && cm_tensor_is_dense(t))
        return CM_OK;
    CM_TRY(cm_eval_temp(e, t->dtype, t->rank, t->dims, &out->tensor));
    if (unpack)
        cm_unpack_sub_byte(t->dtype, t->data, cm_tensor_elems(t), out->tensor.data);
    else
        cm_tensor_copy_dense(t, out->tensor.data);
    return CM_OK;
}

cm_status cm_eval_give(cm_eval *e, int o, const cm_datum *d)
{
    if (!cm_eval_wants(e, o))
        return CM_OK;
    cm_datum plain;
    CM_TRY(cm_eval_plain(e, d, &plain));
    if (d->kind != CM_TENSOR) {
        *e->out[o] = plain;
        return CM_OK;
    }
    const cm_tensor *t = &plain.tensor;
    CM_TRY(cm_eval_alloc(e, o, t->dtype, t->rank, t->dims));
    const size_t bytes = (size_t)cm_tensor_elems(t) * cm_dtype_size(t->dtype);
    if (bytes)
        memcpy(cm_eval_out(e, o)->data, t->data, bytes);
    return CM_OK;
}
