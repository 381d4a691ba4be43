/* ms_misc.c -- com.microsoft operators that stand alone: Inverse, ComplexMul, ComplexMulConj,
 * CDist, NGramRepeatBlock, UnfoldTensor, IsAllFinite.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    cm_str metric;
    int64_t ngram_size, dim, size, step, isinf_only, isnan_only;
} misc_attr;

CM_ATTRS(ms_cdist, misc_attr, CM_ATTR_STR(misc_attr, metric, "sqeuclidean"))
CM_ATTRS(ms_ngram_repeat_block, misc_attr, CM_ATTR_INT_REQUIRED(misc_attr, ngram_size))
CM_ATTRS(ms_unfold_tensor, misc_attr, CM_ATTR_INT(misc_attr, dim, -1),
         CM_ATTR_INT_REQUIRED(misc_attr, size), CM_ATTR_INT(misc_attr, step, 1))
CM_ATTRS(ms_is_all_finite, misc_attr, CM_ATTR_INT(misc_attr, isinf_only, 0),
         CM_ATTR_INT(misc_attr, isnan_only, 0))

static cm_status infer_inverse(cm_infer *f)
{
    int rank = cm_infer_rank(f, 0);
    CM_TRY(cm_expect_rank(f, 0, "X", 2, CM_MAX_RANK));
    if (rank >= 2)
        CM_TRY(cm_infer_equal(f, "rows and columns", cm_infer_dim(f, 0, rank - 2),
                              cm_infer_dim(f, 0, rank - 1)));
    return cm_infer_like(f, 0, 0);
}

/* Gauss-Jordan with row pivots; `m` holds n rows of 2n. */
static bool invert(double *m, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * 2 * n + c]) > fabs(m[pivot * 2 * n + c]))
                pivot = r;
        if (m[pivot * 2 * n + c] == 0)
            return false;
        for (int64_t j = 0; pivot != c && j < 2 * n; j++) {
            double t = m[c * 2 * n + j];
            m[c * 2 * n + j] = m[pivot * 2 * n + j];
            m[pivot * 2 * n + j] = t;
        }
        double scale = 1 / m[c * 2 * n + c];
        for (int64_t j = 0; j < 2 * n; j++)
            m[c * 2 * n + j] *= scale;
        for (int64_t r = 0; r < n; r++) {
            double factor = m[r * 2 * n + c];
            for (int64_t j = 0; r != c && factor != 0 && j < 2 * n; j++)
                m[r * 2 * n + j] -= factor * m[c * 2 * n + j];
        }
    }
    return true;
}

static cm_status eval_inverse(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0), t;
    int64_t n = x->dims[x->rank - 1], total = cm_tensor_elems(x), dims[] = {n, 2, n};
    size_t size = cm_dtype_size(x->dtype);
    CM_TRY(cm_eval_temp(e, CM_F64, 3, dims, &t));
    double *m = t.data;
    for (int64_t at = 0; at < total; at += n * n) {
        CM_TRY(cm_check_cancel(e->cx));
        memset(m, 0, (size_t)(2 * n * n) * sizeof(double));
        for (int64_t r = 0; r < n; r++) {
            cm_load_f64(x->dtype, (const char *)x->data + (size_t)(at + r * n) * size, n,
                        m + r * 2 * n);
            m[r * 2 * n + n + r] = 1;
        }
        if (!invert(m, n))
            return cm_fail(e->cx, CM_ERR_DATA, "matrix %lld has no inverse",
                           (long long)(at / (n * n)));
        for (int64_t r = 0; r < n; r++)
            cm_store_f64(y->dtype, m + r * 2 * n + n, n,
                         (char *)y->data + (size_t)(at + r * n) * size);
    }
    return CM_OK;
}

/* Complex numbers lie in pairs along the last axis; the rest broadcasts. */
static cm_status infer_complex(cm_infer *f)
{
    for (int i = 0; i < 2; i++) {
        CM_TRY(cm_expect_rank(f, i, i ? "B" : "A", 1, CM_MAX_RANK));
        if (cm_expect_known(f, i))
            CM_TRY(cm_infer_equal(f, "last axis", cm_infer_dim(f, i, cm_infer_rank(f, i) - 1), 2));
    }
    return cm_infer_broadcast(f, 0, 0, 2);
}

static cm_status eval_complex(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    double sign = e->op->id == CM_OP_MS_COMPLEX_MUL_CONJ ? -1 : 1;
    int64_t sa[CM_MAX_RANK], sb[CM_MAX_RANK], n = cm_tensor_elems(y);
    cm_broadcast_strides(a, y->rank, y->dims, sa);
    cm_broadcast_strides(b, y->rank, y->dims, sb);
    for (int64_t i = 0; i < n; i += 2) {
        int64_t rest = i, ia = 0, ib = 0;
        for (int d = y->rank - 1; d >= 0; rest /= y->dims[d--]) {
            ia += rest % y->dims[d] * sa[d];
            ib += rest % y->dims[d] * sb[d];
        }
        double ar = cm_get_f64(a->dtype, a->data, ia), ai = cm_get_f64(a->dtype, a->data, ia + 1);
        double br = cm_get_f64(b->dtype, b->data, ib),
               bi = sign * cm_get_f64(b->dtype, b->data, ib + 1);
        cm_set_f64(y->dtype, y->data, i, ar * br - ai * bi);
        cm_set_f64(y->dtype, y->data, i + 1, ar * bi + ai * br);
    }
    return CM_OK;
}

static cm_status infer_cdist(cm_infer *f)
{
    const misc_attr *a = f->attr;
    if (!cm_str_equal(a->metric, cm_str_of("sqeuclidean")) &&
        !cm_str_equal(a->metric, cm_str_of("euclidean")))
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "metric '%.*s'",
                       (int)(a->metric.n < 40 ? a->metric.n : 40), a->metric.p);
    CM_TRY(cm_expect_rank(f, 0, "A", 2, 2));
    CM_TRY(cm_expect_rank(f, 1, "B", 2, 2));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_infer_equal(f, "columns", cm_infer_dim(f, 0, 1), cm_infer_dim(f, 1, 1)));
    cm_dim dims[] = {cm_infer_dim(f, 0, 0), cm_infer_dim(f, 1, 0)};
    return cm_infer_tensor(f, 0, 2, dims);
}

static cm_status eval_cdist(cm_eval *e)
{
    const misc_attr *attr = e->attr;
    const double *a, *b;
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t n = cm_eval_in(e, 0)->dims[1];
    bool root = cm_str_equal(attr->metric, cm_str_of("euclidean"));
    CM_TRY(cm_eval_as_f64(e, 0, &a));
    CM_TRY(cm_eval_as_f64(e, 1, &b));
    for (int64_t i = 0; i < y->dims[0]; i++) {
        CM_TRY(cm_check_cancel(e->cx));
        for (int64_t j = 0; j < y->dims[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) {
                double d = a[i * n + k] - b[j * n + k];
                sum += d * d;
            }
            cm_set_f64(y->dtype, y->data, i * y->dims[1] + j, root ? sqrt(sum) : sum);
        }
    }
    return CM_OK;
}

static cm_status infer_ngram(cm_infer *f)
{
    const misc_attr *a = f->attr;
    if (a->ngram_size < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "ngram_size is %lld", (long long)a->ngram_size);
    CM_TRY(cm_expect_rank(f, 0, "input_ids", 2, 2));
    CM_TRY(cm_expect_rank(f, 1, "scores", 2, 2));
    if (cm_expect_known(f, 0) && cm_expect_known(f, 1))
        CM_TRY(cm_infer_equal(f, "batch", cm_infer_dim(f, 0, 0), cm_infer_dim(f, 1, 0)));
    return cm_infer_like(f, 0, 1);
}

static cm_status eval_ngram(cm_eval *e)
{
    const misc_attr *a = e->attr;
    const cm_tensor *ids = cm_eval_in(e, 0), *scores = cm_eval_in(e, 1);
    const int64_t *v = ids->data;
    float *y = cm_eval_out(e, 0)->data;
    int64_t len = ids->dims[1], vocabulary = scores->dims[1], n = a->ngram_size - 1;
    size_t bytes = (size_t)cm_tensor_elems(scores) * sizeof(float);
    if (bytes)
        memcpy(y, scores->data, bytes);
    for (int64_t b = 0; b < ids->dims[0]; b++)
        for (int64_t i = 0; n < len && i + n < len; i++) {
            const int64_t *row = v + b * len;
            if (n > 0 && memcmp(row + i, row + len - n, (size_t)n * sizeof *row) != 0)
                continue;
            int64_t token = row[i + n];
            if (token < 0 || token >= vocabulary)
                return cm_fail(e->cx, CM_ERR_DATA, "token %lld of a vocabulary of %lld",
                               (long long)token, (long long)vocabulary);
            y[b * vocabulary + token] = -INFINITY;
        }
    return CM_OK;
}

static cm_status infer_unfold(cm_infer *f)
{
    const misc_attr *a = f->attr;
    if (a->size < 1 || a->step < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "size is %lld and step %lld", (long long)a->size,
                       (long long)a->step);
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int axis, rank = cm_infer_rank(f, 0);
    cm_dim dims[CM_MAX_RANK];
    int64_t n;
    CM_TRY(cm_axis(f->cx, a->dim, rank, &axis));
    CM_TRY(cm_expect_rank(f, 0, "input", 1, CM_MAX_RANK - 1));
    for (int d = 0; d < rank; d++)
        dims[d] = cm_infer_dim(f, 0, d);
    if (cm_infer_const(f, dims[axis], &n) && n < a->size)
        return cm_fail(f->cx, CM_ERR_MODEL, "slices of %lld from an axis of %lld",
                       (long long)a->size, (long long)n);
    dims[axis] = cm_infer_add(
        f, cm_infer_floor_div(f, cm_infer_sub(f, dims[axis], cm_infer_number(f, a->size)), a->step),
        1);
    dims[rank] = a->size;
    return cm_infer_tensor(f, 0, rank + 1, dims);
}

static cm_status eval_unfold(cm_eval *e)
{
    const misc_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->dim, x->rank, &axis));
    size_t size = cm_dtype_size(x->dtype);
    int64_t inner = cm_dims_product(x->dims, axis + 1, x->rank), n = cm_tensor_elems(y);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i % a->size, in = i / a->size % inner, at = i / a->size / inner % y->dims[axis];
        int64_t outer = i / a->size / inner / y->dims[axis];
        int64_t from = (outer * x->dims[axis] + at * a->step + k) * inner + in;
        memcpy((char *)y->data + (size_t)i * size, (const char *)x->data + (size_t)from * size,
               size);
    }
    return CM_OK;
}

static cm_status eval_finite(cm_eval *e)
{
    const misc_attr *a = e->attr;
    bool good = true;
    for (int i = 0; i < e->n_in; i++) {
        const cm_tensor *x = cm_eval_in(e, i);
        int64_t n = cm_tensor_elems(x);
        for (int64_t j = 0; good && j < n; j++) {
            double v = cm_get_f64(x->dtype, x->data, j);
            good = !((isinf(v) && !a->isnan_only) || (isnan(v) && !a->isinf_only));
        }
    }
    *(uint8_t *)cm_eval_out(e, 0)->data = good;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_MS_INVERSE:
        return infer_inverse(f);
    case CM_OP_MS_CDIST:
        return infer_cdist(f);
    case CM_OP_MS_NGRAM_REPEAT_BLOCK:
        return infer_ngram(f);
    case CM_OP_MS_UNFOLD_TENSOR:
        return infer_unfold(f);
    case CM_OP_MS_IS_ALL_FINITE:
        return cm_infer_tensor(f, 0, 0, NULL);
    default:
        return infer_complex(f);
    }
}

static cm_status eval(cm_eval *e)
{
    switch (e->op->id) {
    case CM_OP_MS_INVERSE:
        return eval_inverse(e);
    case CM_OP_MS_CDIST:
        return eval_cdist(e);
    case CM_OP_MS_NGRAM_REPEAT_BLOCK:
        return eval_ngram(e);
    case CM_OP_MS_UNFOLD_TENSOR:
        return eval_unfold(e);
    case CM_OP_MS_IS_ALL_FINITE:
        return eval_finite(e);
    default:
        return eval_complex(e);
    }
}

const cm_family cm_family_ms_misc = {.name = "ms_misc", .infer = infer, .eval = eval};
