/* tensor.c -- shapes, strides, and the text of types.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

bool cm_tensor_shape(cm_tensor *t, cm_dtype dtype, int rank, const int64_t *dims)
{
    if (!cm_dtype_valid((int)dtype) || rank < 0 || rank > CM_MAX_RANK)
        return false;
    /* Empty axes count as 1, so that no product of some of the dims can overflow later. */
    int64_t strides[CM_MAX_RANK];
    int64_t run = 1;
    size_t bytes;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = run;
        if (dims[i] < 0 || !cm_mul_i64(run, cm_max_i64(dims[i], 1), &run))
            return false;
    }
    if (!cm_mul((size_t)run, cm_dtype_size(dtype), &bytes) || bytes > PTRDIFF_MAX)
        return false;
    t->dtype = dtype;
    t->rank = rank;
    if (rank) {
        memmove(t->dims, dims, (size_t)rank * sizeof *dims);
        memcpy(t->strides, strides, (size_t)rank * sizeof *strides);
    }
    return true;
}

int64_t cm_dims_product(const int64_t *dims, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) {
        if (dims[i] == 0)
            return 0;
        if (!cm_mul_i64(n, dims[i], &n))
            n = INT64_MAX; /* such a shape is refused by cm_tensor_shape */
    }
    return n;
}

int64_t cm_tensor_elems(const cm_tensor *t)
{
    return cm_dims_product(t->dims, 0, t->rank);
}

bool cm_tensor_bytes(const cm_tensor *t, size_t *out)
{
    int64_t n = cm_tensor_elems(t);
    if (t->packed)
        return cm_dtype_bytes(t->dtype, n, out);
    return cm_mul((size_t)n, cm_dtype_size(t->dtype), out);
}

bool cm_tensor_side_by_side(const cm_tensor *t, int first, int end)
{
    int64_t reach = 1, n = cm_dims_product(t->dims, first, end);
    for (int d = first; d < end && n > 0; d++) {
        if (t->dims[d] > 1 && t->strides[d] <= 0)
            return false;
        reach += (t->dims[d] - 1) * t->strides[d];
    }
    return n == 0 || reach == n;
}

bool cm_tensor_is_packed(const cm_tensor *t)
{
    return cm_tensor_side_by_side(t, 0, t->rank);
}

bool cm_tensor_same_strides(const cm_tensor *a, const cm_tensor *b)
{
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] > 1 && a->strides[d] != b->strides[d])
            return false;
    return true;
}

void cm_set_channels_last(cm_tensor *t)
{
    int64_t step = t->dims[1];
    t->strides[1] = 1;
    for (int a = t->rank - 1; a >= 2; a--) {
        t->strides[a] = step;
        step *= t->dims[a];
    }
    t->strides[0] = step;
}

bool cm_tensor_is_dense(const cm_tensor *t)
{
    int64_t run = 1;
    if (cm_tensor_elems(t) == 0)
        return true;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] != 1 && t->strides[i] != run)
            return false;
        if (!cm_mul_i64(run, t->dims[i], &run))
            return false;
    }
    return true;
}

bool cm_tensor_same_shape(const cm_tensor *a, const cm_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

const char *cm_shape_text(char *buf, size_t n, int rank, const int64_t *dims)
{
    size_t at = 0;
    if (n == 0)
        return "";
    buf[0] = 0;
    for (int i = 0; i < rank && at < n; i++) {
        int wrote = snprintf(buf + at, n - at, "%s%lld", i ? "," : "[", (long long)dims[i]);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    if (at < n)
        snprintf(buf + at, n - at, rank > 0 ? "]" : "[]");
    return buf;
}

/* Copy `n` elements of `size` bytes that lie `stride` bytes apart. */
static void copy_run(unsigned char *dst, const unsigned char *src, int64_t n, int64_t stride,
                     size_t size)
{
    if (stride == (int64_t)size) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    switch (size) {
#define CASE(bytes)                                                                                \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(dst + i * bytes, src + i * stride, bytes);                                      \
        break;
        CASE(1)
        CASE(2)
        CASE(4)
        CASE(8)
        CASE(16)
#undef CASE
    }
}

/* The axes to walk: those of size 1 dropped, neighbours that lie as one axis joined; at least one. */
static int joined_axes(const cm_tensor *t, int64_t *dims, int64_t *strides)
{
    int n = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] == 1)
            continue;
        if (n > 0 && strides[n - 1] == t->strides[i] * t->dims[i]) {
            dims[n - 1] *= t->dims[i];
            strides[n - 1] = t->strides[i];
        } else {
            dims[n] = t->dims[i];
            strides[n++] = t->strides[i];
        }
    }
    if (n == 0)
        dims[n] = strides[n] = 1;
    return n ? n : 1;
}

void cm_tensor_copy_dense(const cm_tensor *src, void *dst)
{
    int64_t dims[CM_MAX_RANK + 1], strides[CM_MAX_RANK + 1], index[CM_MAX_RANK + 1] = {0};
    size_t size = cm_dtype_size(src->dtype);
    if (cm_tensor_elems(src) == 0)
        return;
    int last = joined_axes(src, dims, strides) - 1;
    const unsigned char *from = src->data;
    unsigned char *to = dst;
    for (;;) {
        copy_run(to, from, dims[last], strides[last] * (int64_t)size, size);
        to += (size_t)dims[last] * size;
        int axis = last - 1;
        for (; axis >= 0; axis--) {
            from += strides[axis] * (int64_t)size;
            if (++index[axis] < dims[axis])
                break;
            from -= strides[axis] * dims[axis] * (int64_t)size;
            index[axis] = 0;
        }
        if (axis < 0)
            return;
    }
}

cm_type cm_type_tensor(cm_dtype dtype, int rank, const cm_dim *dims)
{
    cm_type t = {.kind = CM_TENSOR, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        t.dims[i] = dims[i];
    return t;
}

bool cm_type_equal(const cm_type *a, const cm_type *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->kind != b->kind)
        return false;
    switch (a->kind) {
    case CM_NOTHING:
        return true;
    case CM_TENSOR:
        if (a->dtype != b->dtype || a->rank != b->rank)
            return false;
        for (int i = 0; i < a->rank; i++) {
            if (a->dims[i] != b->dims[i])
                return false;
        }
        return true;
    case CM_SEQUENCE:
    case CM_OPTIONAL:
        return cm_type_equal(a->elem, b->elem);
    case CM_MAP:
        return a->dtype == b->dtype && a->key == b->key;
    }
    return false;
}

static void print_tensor(const cm_dim_table *t, const cm_type *type, cm_buf *out)
{
    cm_buf_str(out, cm_dtype_name(type->dtype));
    if (type->rank < 0) {
        cm_buf_str(out, "[*]");
        return;
    }
    cm_buf_str(out, "[");
    for (int i = 0; i < type->rank; i++) {
        if (i)
            cm_buf_str(out, ",");
        cm_dim_print(t, type->dims[i], out);
    }
    cm_buf_str(out, "]");
}

void cm_type_print(const cm_dim_table *t, const cm_type *type, cm_buf *out)
{
    switch (type ? type->kind : CM_NOTHING) {
    case CM_NOTHING:
        cm_buf_str(out, "?");
        break;
    case CM_TENSOR:
        print_tensor(t, type, out);
        break;
    case CM_SEQUENCE:
    case CM_OPTIONAL:
        cm_buf_str(out, type->kind == CM_SEQUENCE ? "seq(" : "opt(");
        cm_type_print(t, type->elem, out);
        cm_buf_str(out, ")");
        break;
    case CM_MAP:
        cm_buf_printf(out, "map(%s,%s)", cm_dtype_name(type->key), cm_dtype_name(type->dtype));
        break;
    }
}

cm_type cm_type_of_tensor(const cm_tensor *t)
{
    return cm_type_tensor(t->dtype, t->rank, t->dims);
}

cm_type cm_type_of_datum(const cm_datum *d)
{
    switch (d->kind) {
    case CM_TENSOR:
        return cm_type_of_tensor(&d->tensor);
    case CM_SEQUENCE:
    case CM_OPTIONAL:
        return (cm_type){.kind = d->kind, .elem = d->elem};
    case CM_MAP:
        if (d->n < 2)
            return (cm_type){.kind = CM_MAP};
        return (cm_type){
            .kind = CM_MAP, .key = d->items[0].tensor.dtype, .dtype = d->items[1].tensor.dtype};
    case CM_NOTHING:
        break;
    }
    return (cm_type){.kind = CM_NOTHING};
}
