/* quant.c -- quantised numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant/quant.h"

#include <math.h>

#include "ops/expect.h"

bool cm_quant_range(cm_dtype t, int32_t *lo, int32_t *hi)
{
    const cm_dtype_info *info = cm_dtype_get(t);
    if (info->bits > 16 || (info->kind != CM_KIND_INT && info->kind != CM_KIND_UINT))
        return false;
    bool is_signed = info->kind == CM_KIND_INT;
    *lo = is_signed ? -(1 << (info->bits - 1)) : 0;
    *hi = (1 << (info->bits - is_signed)) - 1;
    return true;
}

int32_t cm_quant_round(cm_dtype t, double x, int32_t zero)
{
    int32_t lo = 0, hi = 255;
    cm_quant_range(t, &lo, &hi);
    double v = rint(x) + zero;
    if (!(v > lo))
        return lo;
    return v < hi ? (int32_t)v : hi;
}

double cm_quant_to(cm_dtype t, double x)
{
    switch (t) {
    case CM_F32:
        return (float)x;
    case CM_F16:
        return cm_f16_to_f32(cm_f64_to_f16(x));
    case CM_BF16:
        return cm_bf16_to_f32(cm_f64_to_bf16(x));
    default:
        return x;
    }
}

void cm_quant_store(cm_dtype t, const double *x, int64_t n, float scale, double zero, void *dst)
{
    uint8_t *to = dst;
    int32_t lo, hi;
    bool integer = cm_quant_range(t, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)x[i] / scale;
        to[i] = integer ? (uint8_t)cm_quant_round(t, v, (int32_t)zero)
                        : cm_f64_to_f8(t, v + zero, true);
    }
}

void cm_quant_dynamic(const double *x, int64_t n, float *scale, int32_t *zero)
{
    double lo = 0, hi = 0;
    for (int64_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    *scale = hi == lo ? 1.0f : ((float)hi - (float)lo) / 255.0f;
    *zero = cm_quant_round(CM_U8, 0 - (float)lo / *scale, 0);
}

void cm_quant_dynamic_round(const double *x, int64_t n, double *out)
{
    float scale;
    int32_t zero;
    cm_quant_dynamic(x, n, &scale, &zero);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(cm_quant_round(CM_U8, (float)x[i] / scale, zero) - zero) * scale;
}

static bool surely_one(const cm_infer *f, int p)
{
    for (int d = 0; d < cm_infer_rank(f, p); d++)
        if (cm_infer_dim(f, p, d) != 1)
            return false;
    return true;
}

cm_status cm_quant_check(cm_infer *f, int x, int p, const char *name, int64_t axis,
                         int64_t block_size)
{
    if (block_size < 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "block_size is %lld, wanted 0 or more",
                       (long long)block_size);
    if (!cm_expect_known(f, x) || !cm_expect_known(f, p) || surely_one(f, p))
        return CM_OK;
    int rank = cm_infer_rank(f, x), at = 0;
    if (rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has rank %d for a scalar, wanted one element", name,
                       cm_infer_rank(f, p));
    if (rank > 1)
        CM_TRY(cm_axis(f->cx, axis, rank, &at));
    if (block_size == 0) {
        CM_TRY(cm_expect_rank(f, p, name, 1, 1));
        return cm_infer_equal(f, name, cm_infer_dim(f, p, 0), cm_infer_dim(f, x, at));
    }
    cm_dim want[CM_MAX_RANK];
    for (int d = 0; d < rank; d++)
        want[d] = d == at ? cm_infer_ceil_div(f, cm_infer_dim(f, x, d), block_size)
                          : cm_infer_dim(f, x, d);
    return cm_expect_shape(f, p, name, rank, want);
}

cm_quant_axis cm_quant_layout(const cm_tensor *x, const cm_tensor *p, int64_t axis,
                              int64_t block_size)
{
    cm_quant_axis q = {.extent = 1, .inner = 1, .block = 1};
    if (cm_tensor_elems(p) == 1)
        return q;
    int at = x->rank == 1 ? 0 : (int)(axis < 0 ? axis + x->rank : axis);
    q.extent = x->dims[at];
    q.inner = cm_dims_product(x->dims, at + 1, x->rank);
    q.by_axis = 1;
    if (block_size > 0) {
        q.block = block_size;
        q.by_axis = q.inner;
        q.by_inner = 1;
        q.by_outer = p->dims[at] * q.inner;
    }
    return q;
}
