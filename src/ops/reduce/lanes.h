/* lanes.h -- a dense tensor seen along one axis, as doubles that may be changed in place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_LANES_H
#define CM_OPS_LANES_H

#include "ops/eval.h"

/* Element k of lane i (of outer * inner) lies at i / inner * n * inner + i % inner + k * inner. */
typedef struct cm_lanes {
    int64_t outer, n, inner;
} cm_lanes;

static inline cm_lanes cm_lanes_of(const cm_tensor *t, int axis)
{
    return (cm_lanes){cm_dims_product(t->dims, 0, axis), t->dims[axis],
                      cm_dims_product(t->dims, axis + 1, t->rank)};
}

static inline int64_t cm_lane_start(const cm_lanes *l, int64_t lane)
{
    return lane / l->inner * l->n * l->inner + lane % l->inner;
}

/* A copy of input i in scratch, converted. */
static inline cm_status cm_eval_copy_f64(cm_eval *e, int i, double **out)
{
    const cm_tensor *t = cm_eval_in(e, i);
    void *v;
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(t), sizeof(double), &v));
    cm_load_f64(t->dtype, t->data, cm_tensor_elems(t), v);
    *out = v;
    return CM_OK;
}

/* The whole of output o, rounded once. */
static inline void cm_eval_store_f64(cm_eval *e, int o, const double *v)
{
    cm_tensor *t = cm_eval_out(e, o);
    cm_store_f64(t->dtype, v, cm_tensor_elems(t), t->data);
}

#endif
