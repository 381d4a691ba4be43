/* expect.h -- checks that type rules with many inputs share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Absent inputs and unknown ranks pass: what cannot be known yet is checked when it runs. */
#ifndef CM_OPS_EXPECT_H
#define CM_OPS_EXPECT_H

#include "ops/infer.h"

static inline bool cm_expect_known(const cm_infer *f, int i)
{
    return cm_infer_has(f, i) && cm_infer_rank(f, i) >= 0;
}

/* Required inputs that stand behind optional ones: the row's count cannot ask for them. */
static inline cm_status cm_expect_present(cm_infer *f, const int *inputs, int n)
{
    for (int i = 0; i < n; i++)
        if (!cm_infer_has(f, inputs[i]))
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is required but absent", inputs[i]);
    return CM_OK;
}

static inline cm_status cm_expect_rank(cm_infer *f, int i, const char *name, int lo, int hi)
{
    if (!cm_expect_known(f, i))
        return CM_OK;
    int rank = cm_infer_rank(f, i);
    if (rank >= lo && rank <= hi)
        return CM_OK;
    if (lo == hi)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has rank %d, wanted %d", name, rank, lo);
    return cm_fail(f->cx, CM_ERR_MODEL, "%s has rank %d, wanted %d to %d", name, rank, lo, hi);
}

/* Input i has this shape, where it is known. A wanted dim of CM_DIM_ERROR is not checked. */
static inline cm_status cm_expect_shape(cm_infer *f, int i, const char *name, int rank,
                                        const cm_dim *dims)
{
    if (!cm_expect_known(f, i))
        return CM_OK;
    CM_TRY(cm_expect_rank(f, i, name, rank, rank));
    for (int d = 0; d < rank; d++)
        if (dims[d] != CM_DIM_ERROR)
            CM_TRY(cm_infer_equal(f, name, cm_infer_dim(f, i, d), dims[d]));
    return CM_OK;
}

/* Input i holds one element: a scalar, or ones in every axis. */
static inline cm_status cm_expect_one(cm_infer *f, int i, const char *name)
{
    if (!cm_expect_known(f, i))
        return CM_OK;
    for (int d = 0; d < cm_infer_rank(f, i); d++)
        CM_TRY(cm_infer_equal(f, name, cm_infer_dim(f, i, d), 1));
    return CM_OK;
}

/* The dim, or CM_DIM_ERROR when the rank is not known. */
static inline cm_dim cm_expect_dim(const cm_infer *f, int i, int axis)
{
    if (!cm_expect_known(f, i) || axis >= cm_infer_rank(f, i))
        return CM_DIM_ERROR;
    return cm_infer_dim(f, i, axis);
}

/* d / parts, which must be whole. */
static inline cm_status cm_expect_split(cm_infer *f, const char *what, cm_dim d, int64_t parts,
                                        cm_dim *out)
{
    int64_t v;
    *out = CM_DIM_ERROR;
    if (parts < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s is split in %lld parts", what, (long long)parts);
    if (cm_infer_const(f, d, &v) && v % parts != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s of %lld is no multiple of %lld", what, (long long)v,
                       (long long)parts);
    *out = cm_infer_floor_div(f, d, parts);
    return CM_OK;
}

#endif
