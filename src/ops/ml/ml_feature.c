/* ml_feature.c -- ai.onnx.ml: operators that prepare features.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"

typedef struct {
    uint64_t present;
    float threshold;
} binarizer_attr;
CM_ATTRS(binarizer, binarizer_attr, CM_ATTR_FLOAT(binarizer_attr, threshold, 0))

typedef struct {
    uint64_t present;
    cm_ints inputdimensions;
} vectorizer_attr;
CM_ATTRS(feature_vectorizer, vectorizer_attr, CM_ATTR_INTS(vectorizer_attr, inputdimensions, 0))

typedef struct {
    uint64_t present;
    cm_floats imputed_value_floats;
    cm_ints imputed_value_int64s;
    float replaced_value_float;
    int64_t replaced_value_int64;
} imputer_attr;
CM_ATTRS(imputer, imputer_attr, CM_ATTR_FLOATS(imputer_attr, imputed_value_floats, 0),
         CM_ATTR_INTS(imputer_attr, imputed_value_int64s, 0),
         CM_ATTR_FLOAT(imputer_attr, replaced_value_float, 0),
         CM_ATTR_INT(imputer_attr, replaced_value_int64, 0))

typedef struct {
    uint64_t present;
    cm_str norm;
} normalizer_attr;
CM_ATTRS(normalizer, normalizer_attr, CM_ATTR_STR(normalizer_attr, norm, "MAX"))

typedef struct {
    uint64_t present;
    cm_ints cats_int64s;
    cm_strs cats_strings;
    int64_t zeros;
} one_hot_attr;
CM_ATTRS(one_hot_encoder, one_hot_attr, CM_ATTR_INTS(one_hot_attr, cats_int64s, 0),
         CM_ATTR_STRS(one_hot_attr, cats_strings, 0), CM_ATTR_INT(one_hot_attr, zeros, 1))

typedef struct {
    uint64_t present;
    cm_floats offset, scale;
} scaler_attr;
CM_ATTRS(scaler, scaler_attr, CM_ATTR_FLOATS(scaler_attr, offset, 0),
         CM_ATTR_FLOATS(scaler_attr, scale, 0))

/* ---- type rules ---- */

static cm_status infer_extractor(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const int rank = cm_infer_rank(f, 0);
    if (rank < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "a scalar has no features to take");
    cm_dim dims[CM_MAX_RANK + 1] = {1}, n = 1;
    for (int i = 0; i < cm_infer_rank(f, 1); i++)
        n = cm_infer_mul(f, n, cm_infer_dim(f, 1, i));
    for (int i = 0; i + 1 < rank; i++)
        dims[i] = cm_infer_dim(f, 0, i);
    const int out_rank = rank == 1 ? 2 : rank; /* [C] counts as [1,C] */
    dims[out_rank - 1] = n;
    return cm_infer_tensor(f, 0, out_rank, dims);
}

/* Columns of input i of a FeatureVectorizer. */
static cm_dim columns(cm_infer *f, int i)
{
    const int rank = cm_infer_rank(f, i);
    cm_dim n = 1;
    for (int k = rank == 1 ? 0 : 1; k < rank; k++)
        n = cm_infer_mul(f, n, cm_infer_dim(f, i, k));
    return n;
}

static cm_status infer_vectorizer(cm_infer *f)
{
    const vectorizer_attr *a = f->attr;
    if (a->inputdimensions.n && a->inputdimensions.n != f->n_in)
        return cm_fail(f->cx, CM_ERR_MODEL, "inputdimensions has %lld entries for %d inputs",
                       (long long)a->inputdimensions.n, f->n_in);
    cm_dim rows = 1, total = 0;
    for (int i = 0; i < f->n_in; i++) {
        if (!f->in[i].type)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is required but absent", i);
        if (!cm_infer_ranked(f, i)) {
            cm_infer_unknown(f, 0);
            return CM_OK;
        }
        const cm_dim n = cm_infer_rank(f, i) < 2 ? 1 : cm_infer_dim(f, i, 0);
        if (i > 0)
            CM_TRY(cm_infer_equal(f, "rows of an input", n, rows));
        else
            rows = n;
        cm_dim width = columns(f, i);
        if (a->inputdimensions.n) {
            width = a->inputdimensions.v[i];
            if (width < 0)
                return cm_fail(f->cx, CM_ERR_MODEL, "inputdimensions[%d] is %lld", i,
                               (long long)width);
        }
        total = cm_infer_add(f, total, width);
    }
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){rows, total});
}

/* A list that holds one value, or one for each feature, which is what the last axis counts. */
static cm_status check_list(cm_infer *f, const char *what, int64_t n)
{
    if (n == 1 || !cm_infer_ranked(f, 0))
        return CM_OK;
    const int rank = cm_infer_rank(f, 0);
    if (n == 0 || rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld values", what, (long long)n);
    /* [N,F,...]: some count the second axis. */
    if (rank > 2 && cm_infer_dim(f, 0, 1) == n)
        return CM_OK;
    return cm_infer_equal(f, what, n, cm_infer_dim(f, 0, rank - 1));
}

static cm_status infer_imputer(cm_infer *f)
{
    const imputer_attr *a = f->attr;
    const bool real = cm_dtype_is_float(f->in[0].type->dtype);
    const int64_t n = real ? a->imputed_value_floats.n : a->imputed_value_int64s.n;
    CM_TRY(check_list(f, real ? "imputed_value_floats" : "imputed_value_int64s", n));
    if (n == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "no imputed value for an input of %s",
                       cm_dtype_name(f->in[0].type->dtype));
    return cm_infer_like(f, 0, 0);
}

static cm_status infer_normalizer(cm_infer *f)
{
    const normalizer_attr *a = f->attr;
    if (!cm_str_equal(a->norm, cm_str_of("MAX")) && !cm_str_equal(a->norm, cm_str_of("L1")) &&
        !cm_str_equal(a->norm, cm_str_of("L2")))
        return cm_fail(f->cx, CM_ERR_MODEL, "norm is none of MAX, L1, L2");
    if (cm_infer_ranked(f, 0) && (cm_infer_rank(f, 0) < 1 || cm_infer_rank(f, 0) > 2))
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted [C] or [N,C]",
                       cm_infer_rank(f, 0));
    return cm_infer_like(f, 0, 0);
}

static cm_status infer_one_hot(cm_infer *f)
{
    const one_hot_attr *a = f->attr;
    const bool text = f->in[0].type->dtype == CM_STR;
    const int64_t n = text ? a->cats_strings.n : a->cats_int64s.n;
    if (n == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has no categories",
                       text ? "cats_strings" : "cats_int64s");
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[CM_MAX_RANK + 1];
    const int rank = cm_infer_rank(f, 0);
    memcpy(dims, f->in[0].type->dims, (size_t)rank * sizeof *dims);
    dims[rank] = n;
    return cm_infer_tensor(f, 0, rank + 1, dims);
}

static cm_status infer_scaler(cm_infer *f)
{
    const scaler_attr *a = f->attr;
    if (a->scale.n)
        CM_TRY(check_list(f, "scale", a->scale.n));
    if (a->offset.n)
        CM_TRY(check_list(f, "offset", a->offset.n));
    return cm_infer_like(f, 0, 0);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_ARRAY_FEATURE_EXTRACTOR:
        return infer_extractor(f);
    case CM_OP_FEATURE_VECTORIZER:
        return infer_vectorizer(f);
    case CM_OP_IMPUTER:
        return infer_imputer(f);
    case CM_OP_NORMALIZER:
        return infer_normalizer(f);
    case CM_OP_ONE_HOT_ENCODER:
        return infer_one_hot(f);
    case CM_OP_SCALER:
        return infer_scaler(f);
    default:
        return cm_infer_like(f, 0, 0);
    }
}

/* ---- evaluators ---- */

static cm_status eval_extractor(cm_eval *e)
{
    const cm_tensor *in = cm_eval_in(e, 0), *index = cm_eval_in(e, 1), *out = cm_eval_out(e, 0);
    const int64_t width = in->dims[in->rank - 1], n = cm_tensor_elems(index);
    const int64_t rows = cm_dims_product(in->dims, 0, in->rank - 1);
    const size_t size = cm_dtype_size(in->dtype);
    const int64_t *v = index->data;
    for (int64_t i = 0; i < n; i++)
        if (v[i] < 0 || v[i] >= width)
            return cm_fail(e->cx, CM_ERR_DATA, "index %lld is out of range for %lld features",
                           (long long)v[i], (long long)width);
    char *to = out->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++, to += size)
            memcpy(to, (const char *)in->data + (size_t)(r * width + v[i]) * size, size);
    return CM_OK;
}

static void eval_binarizer(cm_eval *e)
{
    const binarizer_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    cm_tensor *out = cm_eval_out(e, 0);
    for (int64_t i = 0, n = cm_tensor_elems(in); i < n; i++)
        cm_set_f64(out->dtype, out->data, i,
                   cm_get_f64(in->dtype, in->data, i) > (double)a->threshold);
}

static void eval_vectorizer(cm_eval *e)
{
    const vectorizer_attr *a = e->attr;
    const cm_tensor *out = cm_eval_out(e, 0);
    const int64_t rows = out->dims[0], width = out->dims[1];
    float *to = out->data;
    if (rows == 0 || width == 0)
        return;
    memset(to, 0, (size_t)(rows * width) * sizeof *to);
    for (int i = 0; i < e->n_in; i++) {
        const cm_tensor *in = cm_eval_in(e, i);
        const int64_t has = cm_tensor_elems(in) / rows;
        const int64_t wants = a->inputdimensions.n ? a->inputdimensions.v[i] : has;
        for (int64_t r = 0; r < rows; r++) /* short inputs leave zeros, long ones are cut */
            for (int64_t k = 0; k < has && k < wants; k++)
                to[r * width + k] = (float)cm_get_f64(in->dtype, in->data, r * has + k);
        to += wants;
    }
}

static void eval_imputer(cm_eval *e)
{
    const imputer_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    cm_tensor *out = cm_eval_out(e, 0);
    const int64_t n = cm_tensor_elems(in);
    if (cm_dtype_is_float(in->dtype)) {
        const cm_floats *with = &a->imputed_value_floats;
        const double old = (double)a->replaced_value_float;
        for (int64_t i = 0; i < n; i++) {
            const double x = cm_get_f64(in->dtype, in->data, i);
            const bool hit = isnan(old) ? isnan(x) : x == old;
            cm_set_f64(out->dtype, out->data, i, hit ? (double)with->v[i % with->n] : x);
        }
        return;
    }
    const cm_ints *with = &a->imputed_value_int64s;
    for (int64_t i = 0; i < n; i++) {
        const int64_t x = cm_get_i64(in->dtype, in->data, i);
        cm_set_i64(out->dtype, out->data, i,
                   x == a->replaced_value_int64 ? with->v[i % with->n] : x);
    }
}

static void normalize(const double *x, int64_t n, cm_str norm, double *y)
{
    const bool max = cm_str_equal(norm, cm_str_of("MAX")), l1 = cm_str_equal(norm, cm_str_of("L1"));
    double d = max && n ? x[0] : 0;
    for (int64_t i = 0; i < n; i++)
        d = max ? (x[i] > d ? x[i] : d) : d + (l1 ? fabs(x[i]) : x[i] * x[i]);
    if (!max && !l1)
        d = sqrt(d);
    for (int64_t i = 0; i < n; i++)
        y[i] = d != 0 ? x[i] / d : x[i];
}

static cm_status eval_normalizer(cm_eval *e)
{
    const normalizer_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const int64_t n = in->dims[in->rank - 1], rows = cm_dims_product(in->dims, 0, in->rank - 1);
    const double *x;
    void *y;
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    CM_TRY(cm_eval_scratch(e, (size_t)n + 1, sizeof(double), &y));
    for (int64_t r = 0; r < rows; r++) {
        normalize(x + r * n, n, a->norm, y);
        cm_store_f64(CM_F32, y, n, (float *)cm_eval_out(e, 0)->data + r * n);
    }
    return CM_OK;
}

static cm_status eval_one_hot(cm_eval *e)
{
    const one_hot_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const bool text = in->dtype == CM_STR;
    const int64_t n = cm_tensor_elems(in), n_cats = text ? a->cats_strings.n : a->cats_int64s.n;
    float *out = cm_eval_out(e, 0)->data;
    for (int64_t i = 0; i < n; i++, out += n_cats) {
        const int64_t key = text ? 0 : cm_get_i64(in->dtype, in->data, i);
        bool found = false;
        for (int64_t k = 0; k < n_cats; k++) {
            const bool hit = text
                                 ? cm_str_equal(((const cm_str *)in->data)[i], a->cats_strings.v[k])
                                 : key == a->cats_int64s.v[k];
            out[k] = hit && !found;
            found |= hit;
        }
        if (!found && !a->zeros)
            return cm_fail(e->cx, CM_ERR_DATA, "element %lld is in no category", (long long)i);
    }
    return CM_OK;
}

static void eval_scaler(cm_eval *e)
{
    const scaler_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    float *out = cm_eval_out(e, 0)->data;
    for (int64_t i = 0, n = cm_tensor_elems(in); i < n; i++) {
        double x = cm_get_f64(in->dtype, in->data, i);
        if (a->offset.n)
            x -= (double)a->offset.v[i % a->offset.n];
        if (a->scale.n)
            x *= (double)a->scale.v[i % a->scale.n];
        out[i] = (float)x;
    }
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    switch (e->op->id) {
    case CM_OP_ARRAY_FEATURE_EXTRACTOR:
        return eval_extractor(e);
    case CM_OP_FEATURE_VECTORIZER:
        eval_vectorizer(e);
        return CM_OK;
    case CM_OP_IMPUTER:
        eval_imputer(e);
        return CM_OK;
    case CM_OP_NORMALIZER:
        return eval_normalizer(e);
    case CM_OP_ONE_HOT_ENCODER:
        return eval_one_hot(e);
    case CM_OP_SCALER:
        eval_scaler(e);
        return CM_OK;
    default:
        eval_binarizer(e);
        return CM_OK;
    }
}

const cm_family cm_family_ml_feature = {.name = "ml_feature", .infer = infer, .eval = eval};
