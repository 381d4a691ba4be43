/* quant.h -- quantised numbers: rounding to a type's range, and parameters along an axis.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_QUANT_H
#define CM_OPS_QUANT_H

#include "ops/eval.h"

/* The values that an integer type (2 to 16 bits) holds. False for other types. */
bool cm_quant_range(cm_dtype t, int32_t *lo, int32_t *hi);

/* rint(x) + zero brought into the range of integer type `t`; NaN gives the lowest. */
int32_t cm_quant_round(cm_dtype t, double x, int32_t zero);

/* x rounded to float type `t`, as a double. */
double cm_quant_to(cm_dtype t, double x);

/* n elements of u8 or i8 (or a float8 type) from reals: x/scale rounded, plus zero. In float32. */
void cm_quant_store(cm_dtype t, const double *x, int64_t n, float scale, double zero, void *dst);

/* Scale and zero point for u8 that cover n numbers and 0, as DynamicQuantizeLinear chooses them. */
void cm_quant_dynamic(const double *x, int64_t n, float *scale, int32_t *zero);
/* x through u8 and back with those. */
void cm_quant_dynamic_round(const double *x, int64_t n, double *out);

/* Scales, and zero points, as they lie along a tensor: parameter of element (outer, a, inner) is
 * [outer*by_outer + a/block*by_axis + inner*by_inner]. */
typedef struct cm_quant_axis {
    int64_t extent, inner; /* sizes of the axis and of what lies after it */
    int64_t block;         /* elements of the axis that share a parameter */
    int64_t by_outer, by_axis, by_inner;
} cm_quant_axis;

static inline int64_t cm_quant_index(const cm_quant_axis *q, int64_t element)
{
    int64_t inner = element % q->inner, a = element / q->inner % q->extent;
    int64_t outer = element / q->inner / q->extent;
    return outer * q->by_outer + a / q->block * q->by_axis + inner * q->by_inner;
}

/* Check that parameters `p` of input x may be: one for all; one for each slice of `axis`; or
 * blocks of block_size along it. */
cm_status cm_quant_check(cm_infer *f, int x, int p, const char *name, int64_t axis,
                         int64_t block_size) CM_MUST_USE;
/* The layout for parameters of this shape, as checked. */
cm_quant_axis cm_quant_layout(const cm_tensor *x, const cm_tensor *p, int64_t axis,
                              int64_t block_size);

/* The parameter for each of `n` rows, columns or channels: params of one element stand for all. */
static inline double cm_quant_pick(const double *p, int64_t n_params, int64_t i)
{
    return p[n_params == 1 ? 0 : i];
}

#endif
