/* fused_rotary.c -- cameo.Rotary: pairs of columns rotated by angles that are given as cosines and sines.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y[j] = x[j] * cos[j] - x[j + half] * sin[j]      j in the first half of the last axis
 *     y[j] = x[j] * cos[j] + x[j - half] * sin[j]      j in the second
 *
 * or, interleaved, with the neighbour j + 1 for even and j - 1 for odd j. cos and sin broadcast to x. */
#include "ops/elementwise.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    int64_t interleaved;
} rotary_attr;

CM_ATTRS(fused_rotary, rotary_attr, CM_ATTR_INT(rotary_attr, interleaved, 0))

enum { X, COS, SIN };

static cm_status check_angles(cm_infer *f, int i, const char *name)
{
    if (!cm_infer_ranked(f, i))
        return CM_OK;
    int rank = cm_infer_rank(f, X), have = cm_infer_rank(f, i);
    CM_TRY(cm_expect_rank(f, i, name, 0, rank));
    for (int d = 0; d < have; d++)
        if (cm_infer_dim(f, i, d) != 1)
            CM_TRY(cm_infer_equal(f, name, cm_infer_dim(f, i, d),
                                  cm_infer_dim(f, X, rank - have + d)));
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    if (!cm_infer_ranked(f, X)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_expect_rank(f, X, "the input", 1, CM_MAX_RANK));
    int64_t columns;
    if (cm_infer_const(f, cm_infer_dim(f, X, cm_infer_rank(f, X) - 1), &columns) && columns % 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld columns are to be rotated in pairs",
                       (long long)columns);
    CM_TRY(check_angles(f, COS, "cos"));
    CM_TRY(check_angles(f, SIN, "sin"));
    return cm_infer_like(f, 0, X);
}

typedef struct {
    const double *x, *cos, *sin;
    cm_tensor *out;
    int64_t cos_strides[CM_MAX_RANK], sin_strides[CM_MAX_RANK];
    int64_t columns;
    bool interleaved;
} job;

/* Where row r of the output begins in an operand with these strides. */
static int64_t row_start(const job *j, const int64_t *strides, int64_t r)
{
    int64_t at = 0;
    for (int d = j->out->rank - 2; d >= 0; d--) {
        at += r % j->out->dims[d] * strides[d];
        r /= j->out->dims[d];
    }
    return at;
}

static void rotate(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t n = j->columns, half = n / 2;
    int last = j->out->rank - 1;
    for (int64_t r = begin; r < end; r++) {
        const double *x = j->x + r * n;
        const double *c = j->cos + row_start(j, j->cos_strides, r);
        const double *s = j->sin + row_start(j, j->sin_strides, r);
        for (int64_t i = 0; i < n; i++) {
            bool first = j->interleaved ? i % 2 == 0 : i < half;
            int64_t far = j->interleaved ? 1 : half, other = first ? i + far : i - far;
            double y = x[i] * c[i * j->cos_strides[last]];
            double z = x[other] * s[i * j->sin_strides[last]];
            cm_set_f64(j->out->dtype, j->out->data, r * n + i, first ? y - z : y + z);
        }
    }
}

static cm_status eval(cm_eval *e)
{
    const rotary_attr *a = e->attr;
    job j = {.out = cm_eval_out(e, 0), .interleaved = a->interleaved != 0};
    enum { GRAIN = 16 };
    j.columns = j.out->dims[j.out->rank - 1];
    if (!j.columns)
        return CM_OK;
    CM_TRY(cm_eval_as_f64(e, X, &j.x));
    CM_TRY(cm_eval_as_f64(e, COS, &j.cos));
    CM_TRY(cm_eval_as_f64(e, SIN, &j.sin));
    cm_broadcast_strides(cm_eval_in(e, COS), j.out->rank, j.out->dims, j.cos_strides);
    cm_broadcast_strides(cm_eval_in(e, SIN), j.out->rank, j.out->dims, j.sin_strides);
    cm_parallel(e->threads, cm_tensor_elems(j.out) / j.columns, GRAIN, rotate, &j);
    return cm_check_cancel(e->cx);
}

const cm_family cm_family_fused_rotary = {.name = "fused_rotary", .infer = infer, .eval = eval};
