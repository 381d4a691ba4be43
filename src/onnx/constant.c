/* constant.c -- Constant nodes: their attribute, whichever it is, as a tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/import.h"

static cm_status make(cm_importer *im, cm_dtype dtype, int rank, int64_t n, const void *data,
                      cm_tensor *out)
{
    if (!cm_tensor_shape(out, dtype, rank, &n))
        return cm_fail(im->cx, CM_ERR_MODEL, "the list is too long");
    size_t bytes = (size_t)n * cm_dtype_size(dtype);
    out->data = cm_arena_alloc_n(im->arena, bytes, 1, 64, 0);
    if (!out->data)
        return cm_fail_memory(im->cx);
    if (bytes)
        memcpy(out->data, data, bytes);
    out->capacity_bytes = bytes;
    return CM_OK;
}

static cm_status make_strings(cm_importer *im, int rank, int64_t n, const cm_str *v, cm_tensor *out)
{
    cm_str *copy;
    CM_NEW_N(im->cx, im->arena, copy, n, cm_str);
    for (int64_t i = 0; i < n; i++) {
        copy[i] = (cm_str){cm_arena_strndup(im->arena, v[i].p, v[i].n), v[i].n};
        if (!copy[i].p)
            return cm_fail_memory(im->cx);
    }
    if (!cm_tensor_shape(out, CM_STR, rank, &n))
        return cm_fail(im->cx, CM_ERR_MODEL, "the list is too long");
    out->data = copy;
    out->capacity_bytes = (size_t)n * sizeof *copy;
    return CM_OK;
}

cm_status cm_onnx_constant(cm_pending *u, cm_tensor *out)
{
    cm_importer *im = u->im;
    const cm_attribute *a = NULL;
    *out = (cm_tensor){0};
    for (int i = 0; i < u->n_attrs; i++) {
        if (a)
            return cm_fail(im->cx, CM_ERR_MODEL, "it has both '%s' and '%s'", a->name,
                           u->attrs[i].name);
        a = &u->attrs[i];
    }
    if (!a)
        return cm_fail(im->cx, CM_ERR_MODEL, "it has no value");
    const pb_attribute *p = a->p;
    if (strcmp(a->name, "value") == 0 && p->t)
        return pb_tensor_read(&im->data, p->t, out);
    if (strcmp(a->name, "sparse_value") == 0 && p->sparse_tensor)
        return pb_sparse_read(&im->data, p->sparse_tensor, out);
    switch (cm_onnx_attr_type(p)) {
    case PB_ATTR_FLOAT:
        return make(im, CM_F32, 0, 1, &p->f, out);
    case PB_ATTR_INT:
        return make(im, CM_I64, 0, 1, &p->i, out);
    case PB_ATTR_STRING:
        return make_strings(im, 0, 1, &p->s, out);
    case PB_ATTR_FLOATS:
        return make(im, CM_F32, 1, (int64_t)p->floats.n, p->floats.v, out);
    case PB_ATTR_INTS:
        return make(im, CM_I64, 1, (int64_t)p->ints.n, p->ints.v, out);
    case PB_ATTR_STRINGS:
        return make_strings(im, 1, (int64_t)p->strings.n, p->strings.v, out);
    default:
        return cm_fail(im->cx, CM_ERR_MODEL, "attribute '%s' is no value that a constant may have",
                       a->name);
    }
}
