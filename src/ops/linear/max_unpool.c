/* max_unpool.c -- MaxUnpool: puts pooled maxima back where they came from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Indices count elements of the tensor whose size the attributes give. An explicit output_shape
 * then frames that tensor: its elements keep their coordinates, the rest is zero. */
#include "ops/eval.h"

#include <string.h>

#include "base/size.h"
#include "ops/linear/window_shape.h"

typedef struct {
    uint64_t present;
    cm_ints kernel_shape, pads, strides;
} max_unpool_attr;

CM_ATTRS(max_unpool, max_unpool_attr, CM_ATTR_INTS(max_unpool_attr, kernel_shape, CM_REQUIRED),
         CM_ATTR_INTS(max_unpool_attr, pads, 0), CM_ATTR_INTS(max_unpool_attr, strides, 0))

static cm_status infer(cm_infer *f)
{
    const max_unpool_attr *a = f->attr;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type;
    if (x->rank < 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 3", x->rank);
    cm_window_attr wa = {.kernel_shape = a->kernel_shape, .pads = a->pads, .strides = a->strides};
    cm_window w;
    CM_TRY(cm_window_read(f, &wa, x->rank - 2, NULL, &w));
    if (cm_infer_ranked(f, 1)) {
        if (cm_infer_rank(f, 1) != x->rank)
            return cm_fail(f->cx, CM_ERR_MODEL, "indices of rank %d, wanted %d",
                           cm_infer_rank(f, 1), x->rank);
        for (int d = 0; d < x->rank; d++)
            CM_TRY(cm_infer_equal(f, "shape of the indices", cm_infer_dim(f, 1, d), x->dims[d]));
    }
    if (cm_infer_has(f, 2)) {
        cm_dim dims[CM_MAX_ELEMS];
        int n;
        bool known = cm_infer_elems(f, 2, dims, &n);
        if (!known && f->dims)
            return cm_infer_data_dependent(f, 0, x->rank);
        if (!known || n != x->rank)
            return cm_fail(f->cx, CM_ERR_MODEL, "output_shape has not %d elements", x->rank);
        return cm_infer_tensor(f, 0, n, dims);
    }
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int d = 0; d < w.n; d++) {
        cm_dim steps = cm_infer_mul(f, cm_infer_sub(f, x->dims[d + 2], 1), w.stride[d]);
        dims[d + 2] =
            cm_infer_sub(f, cm_infer_add(f, steps, w.kernel[d]), w.pad_begin[d] + w.pad_end[d]);
    }
    return cm_infer_tensor(f, 0, x->rank, dims);
}

static cm_status eval(cm_eval *e)
{
    const max_unpool_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t plain[CM_MAX_RANK] = {x->dims[0], x->dims[1]};
    int64_t total = plain[0] * plain[1];
    int n = x->rank - 2;
    for (int d = 0; d < n; d++) {
        int64_t stride = a->strides.n ? a->strides.v[d] : 1;
        int64_t pads = a->pads.n ? a->pads.v[d] + a->pads.v[n + d] : 0;
        int64_t *p = &plain[d + 2];
        if (!cm_mul_i64(x->dims[d + 2] - 1, stride, p) ||
            !cm_add_i64(*p, a->kernel_shape.v[d] - pads, p) || *p < 0 ||
            !cm_mul_i64(total, *p, &total))
            return cm_fail(e->cx, CM_ERR_DATA, "the unpooled tensor is too large");
    }
    size_t size = cm_dtype_size(x->dtype);
    memset(y->data, 0, (size_t)cm_tensor_elems(y) * size);
    int64_t count = cm_tensor_elems(x);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = cm_eval_int(e, 1, i), at = 0, weight = 1;
        bool inside = true;
        if (index < 0 || index >= total)
            return cm_fail(e->cx, CM_ERR_DATA, "index %lld is not in [0, %lld)", (long long)index,
                           (long long)total);
        for (int d = x->rank - 1; d >= 0; d--) {
            int64_t c = index % plain[d];
            index /= plain[d];
            inside = inside && c < y->dims[d];
            at += c * weight;
            weight *= y->dims[d];
        }
        if (inside)
            memcpy((char *)y->data + (size_t)at * size, (const char *)x->data + (size_t)i * size,
                   size);
    }
    return CM_OK;
}

const cm_family cm_family_max_unpool = {.name = "max_unpool", .infer = infer, .eval = eval};
