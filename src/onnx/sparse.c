/* sparse.c -- SparseTensorProto made dense.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "onnx/tensor.h"

/* A few bytes of file may ask for any amount of memory; past this they are refused. */
static const size_t max_dense_bytes = (size_t)1 << 30;

static cm_status check_shape(cm_ctx *cx, const pb_sparse *p, cm_tensor *out)
{
    if (!p->values || !p->indices)
        return cm_fail(cx, CM_ERR_MODEL, "a sparse tensor without %s",
                       p->values ? "indices" : "values");
    if (p->dims.n > CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_MODEL, "rank %zu is over %d", p->dims.n, CM_MAX_RANK);
    for (size_t i = 0; i < p->dims.n; i++)
        if (p->dims.v[i] < 0)
            return cm_fail(cx, CM_ERR_MODEL, "dim %zu is %lld", i, (long long)p->dims.v[i]);
    if (p->values->data_type <= 0 || p->values->data_type >= CM_DTYPE_COUNT)
        return cm_fail(cx, CM_ERR_MODEL, "element type %d is unknown", p->values->data_type);
    size_t bytes;
    if (!cm_tensor_shape(out, (cm_dtype)p->values->data_type, (int)p->dims.n, p->dims.v) ||
        !cm_tensor_bytes(out, &bytes))
        return cm_fail(cx, CM_ERR_MODEL, "the shape has more elements than memory can hold");
    if (bytes > max_dense_bytes)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "a sparse tensor of %zu bytes when dense", bytes);
    if (cm_dtype_is_sub_byte(out->dtype))
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "a sparse tensor of %s", cm_dtype_name(out->dtype));
    if (p->values->dims.n != 1)
        return cm_fail(cx, CM_ERR_MODEL, "values of a sparse tensor have rank %zu, wanted 1",
                       p->values->dims.n);
    if (p->indices->data_type != CM_I64)
        return cm_fail(cx, CM_ERR_MODEL, "indices of a sparse tensor are not int64");
    return CM_OK;
}

cm_status pb_sparse_check(const pb_context *c, const pb_sparse *p)
{
    cm_tensor dense;
    CM_TRY(check_shape(c->cx, p, &dense));
    CM_TRY(pb_tensor_check(c, p->values));
    return pb_tensor_check(c, p->indices);
}

/* Where element k goes: its row of `rank` indices, or one linear index. */
static cm_status linear_index(cm_ctx *cx, const cm_tensor *dense, const cm_tensor *indices,
                              int64_t k, int64_t *out)
{
    const int64_t *v = indices->data;
    int64_t at = 0;
    if (indices->rank == 1) {
        at = v[k];
        if (at < 0 || at >= cm_tensor_elems(dense))
            return cm_fail(cx, CM_ERR_MODEL, "index %lld of a sparse tensor is out of range",
                           (long long)at);
    }
    for (int d = 0; indices->rank == 2 && d < dense->rank; d++) {
        int64_t i = v[k * dense->rank + d];
        if (i < 0 || i >= dense->dims[d])
            return cm_fail(cx, CM_ERR_MODEL, "index %lld of a sparse tensor is out of range",
                           (long long)i);
        at += i * dense->strides[d];
    }
    *out = at;
    return CM_OK;
}

cm_status pb_sparse_read(const pb_context *c, const pb_sparse *p, cm_tensor *out)
{
    cm_tensor values, indices;
    CM_TRY(check_shape(c->cx, p, out));
    CM_TRY(pb_tensor_read(c, p->values, &values));
    CM_TRY(pb_tensor_read(c, p->indices, &indices));
    int64_t n = values.dims[0];
    bool linear = indices.rank == 1 && indices.dims[0] == n;
    bool rows = indices.rank == 2 && indices.dims[0] == n && indices.dims[1] == out->rank;
    if (!linear && !rows)
        return cm_fail(c->cx, CM_ERR_MODEL, "indices of a sparse tensor do not fit its %lld values",
                       (long long)n);
    size_t size = cm_dtype_size(out->dtype);
    int64_t elems = cm_tensor_elems(out);
    out->data = cm_arena_alloc_n(c->arena, (size_t)elems + 1, size, 64, 1);
    if (!out->data)
        return cm_fail_memory(c->cx);
    out->capacity_bytes = (size_t)elems * size;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        CM_TRY(linear_index(c->cx, out, &indices, k, &at));
        memcpy((char *)out->data + (size_t)at * size, (char *)values.data + (size_t)k * size, size);
    }
    return CM_OK;
}
