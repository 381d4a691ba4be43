/* ms_norm.c -- layer normalisation after a sum: SkipLayerNormalization, SkipSimplifiedLayer-
 * Normalization, SimplifiedLayerNormalization, EmbedLayerNormalization, QEmbedLayerNormalization.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The simplified form divides by the root mean square and does not subtract the mean. */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    float epsilon;
    int64_t mask_index_type, axis, stash_type;
} norm_attr;

CM_ATTRS(ms_skip_layer_norm, norm_attr, CM_ATTR_FLOAT(norm_attr, epsilon, 1e-12f))
CM_ATTRS(ms_embed_layer_norm, norm_attr, CM_ATTR_FLOAT(norm_attr, epsilon, 1e-12f),
         CM_ATTR_INT(norm_attr, mask_index_type, 0))
CM_ATTRS(simplified_layer_norm, norm_attr, CM_ATTR_FLOAT(norm_attr, epsilon, 1e-5f),
         CM_ATTR_INT(norm_attr, axis, -1), CM_ATTR_INT(norm_attr, stash_type, 1))

/* Rows of `size` elements that are summed from somewhere, then normalised. */
typedef struct run run;
struct run {
    int64_t rows, size;
    bool simplified;
    double epsilon;
    const double *gamma, *beta; /* beta NULL: none */
    int64_t n_gamma;            /* `size`, or 1 */
    void (*sum)(const run *r, int64_t row, double *out);
    const double *x, *skip, *bias;        /* Skip... */
    int64_t skip_rows;                    /* rows after which skip repeats */
    const double *word, *place, *segment; /* Embed...: tables */
    const int64_t *word_ids, *place_ids, *segment_ids;
    double *scratch;
    cm_tensor *y, *mean, *inverse, *total; /* NULL: not wanted */
};

static void put(cm_tensor *t, int64_t at, const double *v, int64_t n)
{
    if (t)
        cm_store_f64(t->dtype, v, n, (char *)t->data + (size_t)at * cm_dtype_size(t->dtype));
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    for (int64_t i = begin; i < end; i++) {
        double *v = r->scratch + i * r->size, mean = 0, square = 0;
        r->sum(r, i, v);
        put(r->total, i * r->size, v, r->size);
        for (int64_t j = 0; j < r->size; j++)
            mean += v[j];
        mean = r->simplified ? 0 : mean / (double)r->size;
        for (int64_t j = 0; j < r->size; j++)
            square += (v[j] - mean) * (v[j] - mean);
        double inverse = 1 / sqrt(square / (double)r->size + r->epsilon);
        for (int64_t j = 0; j < r->size; j++)
            v[j] = (v[j] - mean) * inverse * r->gamma[r->n_gamma == 1 ? 0 : j] +
                   (r->beta ? r->beta[j] : 0);
        put(r->y, i * r->size, v, r->size);
        put(r->mean, i, &mean, 1);
        put(r->inverse, i, &inverse, 1);
    }
}

static cm_status run_all(cm_eval *e, run *r)
{
    int64_t dims[] = {r->rows, r->size};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 2, dims, &t));
    r->scratch = t.data;
    cm_parallel(e->threads, r->rows, 8, run_range, r);
    return CM_OK;
}

static cm_status optional_f64(cm_eval *e, int i, const double **out)
{
    *out = NULL;
    return cm_eval_has(e, i) ? cm_eval_as_f64(e, i, out) : CM_OK;
}

static cm_tensor *wanted(const cm_eval *e, int o)
{
    return cm_eval_wants(e, o) ? cm_eval_out(e, o) : NULL;
}

/* Skip...: input, skip, gamma, [beta], [bias]; the simplified form has no beta. */

static cm_status infer_skip(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    CM_TRY(cm_expect_rank(f, 0, "input", 2, CM_MAX_RANK));
    int rank = cm_infer_rank(f, 0);
    cm_dim hidden = cm_infer_dim(f, 0, rank - 1), row[CM_MAX_RANK];
    CM_TRY(cm_expect_rank(f, 1, "skip", 2, rank));
    for (int i = 0; cm_expect_known(f, 1) && i < cm_infer_rank(f, 1); i++) {
        cm_dim d = cm_infer_dim(f, 1, i), want = cm_infer_dim(f, 0, rank - cm_infer_rank(f, 1) + i);
        if (!(i == 0 && cm_infer_rank(f, 1) == 3 && d == 1))
            CM_TRY(cm_infer_equal(f, "skip", d, want));
    }
    CM_TRY(cm_expect_shape(f, 2, "gamma", 1, &hidden));
    CM_TRY(cm_expect_shape(f, 3, "beta or bias", 1, &hidden));
    CM_TRY(cm_expect_shape(f, 4, "bias", 1, &hidden));
    for (int i = 0; i < rank; i++)
        row[i] = i == rank - 1 ? 1 : cm_infer_dim(f, 0, i);
    for (int o = 0; o < f->n_out; o++) {
        if (o == 0 || o == 3)
            CM_TRY(cm_infer_like(f, o, 0));
        else
            CM_TRY(cm_infer_typed(f, o, CM_F32, rank, row));
    }
    return CM_OK;
}

static void sum_skip(const run *r, int64_t row, double *out)
{
    const double *x = r->x + row * r->size,
                 *s = r->skip ? r->skip + row % r->skip_rows * r->size : NULL;
    for (int64_t j = 0; j < r->size; j++)
        out[j] = x[j] + (s ? s[j] : 0) + (r->bias ? r->bias[j] : 0);
}

static cm_status eval_skip(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    bool simplified = e->op->id == CM_OP_MS_SKIP_SIMPLIFIED_LAYER_NORMALIZATION;
    run r = {.size = x->dims[x->rank - 1],
             .rows = cm_dims_product(x->dims, 0, x->rank - 1),
             .simplified = simplified,
             .epsilon = ((const norm_attr *)e->attr)->epsilon,
             .sum = sum_skip,
             .y = wanted(e, 0),
             .mean = wanted(e, 1),
             .inverse = wanted(e, 2),
             .total = wanted(e, 3)};
    r.n_gamma = r.size;
    CM_TRY(cm_eval_as_f64(e, 0, &r.x));
    CM_TRY(cm_eval_as_f64(e, 1, &r.skip));
    CM_TRY(cm_eval_as_f64(e, 2, &r.gamma));
    if (!simplified)
        CM_TRY(optional_f64(e, 3, &r.beta));
    CM_TRY(optional_f64(e, simplified ? 3 : 4, &r.bias));
    if (r.rows == 0 || r.size == 0)
        return CM_OK;
    r.skip_rows = cm_tensor_elems(cm_eval_in(e, 1)) / r.size;
    return run_all(e, &r);
}

/* SimplifiedLayerNormalization: x, scale; axes from `axis` on. */

static cm_status infer_simplified(cm_infer *f)
{
    const norm_attr *a = f->attr;
    CM_TRY(cm_infer_like(f, 0, 0));
    f->out[0].type.dtype = f->in[1].type->dtype;
    if (!cm_infer_ranked(f, 0)) {
        if (f->n_out > 1)
            cm_infer_unknown(f, 1);
    } else {
        int axis, rank = cm_infer_rank(f, 0), n_scale = cm_infer_rank(f, 1);
        cm_dim dims[CM_MAX_RANK];
        CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
        CM_TRY(cm_expect_rank(f, 1, "scale", 0, rank - axis));
        for (int i = 0; i < n_scale; i++)
            if (cm_infer_dim(f, 1, i) != 1)
                CM_TRY(cm_infer_equal(f, "scale", cm_infer_dim(f, 1, i),
                                      cm_infer_dim(f, 0, rank - n_scale + i)));
        for (int i = 0; i < rank; i++)
            dims[i] = i < axis ? cm_infer_dim(f, 0, i) : 1;
        if (f->n_out > 1)
            CM_TRY(cm_infer_typed(f, 1, CM_F32, rank, dims));
    }
    if (f->n_out > 1)
        f->out[1].type.dtype = f->in[0].type->dtype == CM_F64 ? CM_F64 : CM_F32;
    return CM_OK;
}

/* The scale of every element of a row; fewer axes or ones are repeated. */
static cm_status spread_scale(cm_eval *e, const cm_tensor *x, int axis, run *r)
{
    const cm_tensor *s = cm_eval_in(e, 1);
    CM_TRY(cm_eval_as_f64(e, 1, &r->gamma));
    r->n_gamma = cm_tensor_elems(s);
    if (r->n_gamma == r->size || r->n_gamma == 1)
        return CM_OK;
    int64_t strides[CM_MAX_RANK];
    void *full;
    CM_TRY(cm_eval_scratch(e, (size_t)r->size, sizeof(double), &full));
    cm_broadcast_strides(s, x->rank - axis, x->dims + axis, strides);
    for (int64_t i = 0; i < r->size; i++) {
        int64_t rest = i, at = 0;
        for (int d = x->rank - 1; d >= axis; d--) {
            at += rest % x->dims[d] * strides[d - axis];
            rest /= x->dims[d];
        }
        ((double *)full)[i] = r->gamma[at];
    }
    r->gamma = full;
    r->n_gamma = r->size;
    return CM_OK;
}

static cm_status eval_simplified(cm_eval *e)
{
    const norm_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    run r = {.size = cm_dims_product(x->dims, axis, x->rank),
             .rows = cm_dims_product(x->dims, 0, axis),
             .simplified = true,
             .epsilon = a->epsilon,
             .sum = sum_skip,
             .skip_rows = 1,
             .y = wanted(e, 0),
             .inverse = wanted(e, 1)};
    CM_TRY(cm_eval_as_f64(e, 0, &r.x));
    if (r.rows == 0 || r.size == 0)
        return CM_OK;
    CM_TRY(spread_scale(e, x, axis, &r));
    return run_all(e, &r);
}

/* Embed...: word, position and segment rows summed. */

/* Where the inputs are; scales and zero points of the quantised tables follow their order. */
typedef struct {
    int word, place, segment, gamma, beta, mask, place_ids, scales, zeros; /* -1: none */
} places;

static const places *places_of(cm_op_id id)
{
    static const places plain = {2, 3, 4, 5, 6, 7, 8, -1, -1};
    static const places quantised = {2, 3, 4, 5, 6, 7, -1, 8, 13};
    return id == CM_OP_MS_QEMBED_LAYER_NORMALIZATION ? &quantised : &plain;
}

static cm_status infer_embed(cm_infer *f)
{
    static const int tables[] = {2, 3, 5, 6}, params[] = {8, 9, 11, 12, 13, 14, 16, 17};
    const places *at = places_of(f->op->id);
    CM_TRY(cm_expect_present(f, tables, CM_COUNT(tables)));
    CM_TRY(cm_expect_present(f, params, at->scales < 0 ? 0 : CM_COUNT(params)));
    cm_dim hidden = cm_expect_dim(f, at->gamma, 0), table[] = {CM_DIM_ERROR, hidden};
    CM_TRY(cm_expect_rank(f, 0, "input_ids", 2, 2));
    CM_TRY(cm_expect_shape(f, at->word, "word_embedding", 2, table));
    CM_TRY(cm_expect_shape(f, at->place, "position_embedding", 2, table));
    CM_TRY(cm_expect_shape(f, at->segment, "segment_embedding", 2, table));
    CM_TRY(cm_expect_shape(f, at->gamma, "gamma", 1, &hidden));
    CM_TRY(cm_expect_shape(f, at->beta, "beta", 1, &hidden));
    if (cm_infer_has(f, 1) != cm_infer_has(f, at->segment))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "segment_ids and segment_embedding must be given together");
    static const int segment[] = {10, 15};
    if (at->scales >= 0 && cm_infer_has(f, at->segment))
        CM_TRY(cm_expect_present(f, segment, CM_COUNT(segment)));
    for (int i = 0; at->scales >= 0 && i < 10; i++)
        CM_TRY(cm_expect_one(f, at->scales + i, "a scale or zero point"));
    if (!cm_infer_ranked(f, 0) || hidden == CM_DIM_ERROR) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
    } else {
        cm_dim out[] = {cm_infer_dim(f, 0, 0), cm_infer_dim(f, 0, 1), hidden};
        cm_dim ids[] = {cm_infer_dim(f, 0, 0), cm_infer_dim(f, 0, 1)};
        CM_TRY(cm_expect_shape(f, 1, "segment_ids", 2, ids));
        CM_TRY(cm_expect_shape(f, at->mask, "mask", 2, ids));
        if (at->place_ids >= 0 && cm_expect_known(f, at->place_ids) &&
            cm_infer_rank(f, at->place_ids) > 0 && cm_infer_dim(f, at->place_ids, 0) == 1)
            ids[0] = 1;
        if (at->place_ids >= 0)
            CM_TRY(cm_expect_shape(f, at->place_ids, "position_ids", 2, ids));
        for (int o = 0; o < f->n_out; o++)
            CM_TRY(cm_infer_tensor(f, o, o == 1 ? 1 : 3, out));
    }
    for (int o = 0; at->scales >= 0 && o < f->n_out; o += 2)
        f->out[o].type.dtype = CM_F32;
    if (f->n_out > 1)
        f->out[1].type.dtype = CM_I32;
    return CM_OK;
}

static void sum_embed(const run *r, int64_t row, double *out)
{
    const double *w = r->word + r->word_ids[row] * r->size;
    const double *p =
        r->place + (r->place_ids ? r->place_ids[row % r->skip_rows] : row % r->skip_rows) * r->size;
    const double *s = r->segment ? r->segment + r->segment_ids[row] * r->size : NULL;
    for (int64_t j = 0; j < r->size; j++)
        out[j] = w[j] + p[j] + (s ? s[j] : 0);
}

/* Table `which` (in the order of the inputs) as doubles, dequantised where it is quantised. */
static cm_status read_table(cm_eval *e, const places *at, int input, int which, const double **out)
{
    CM_TRY(optional_f64(e, input, out));
    if (!*out || at->scales < 0)
        return CM_OK;
    int64_t n = cm_tensor_elems(cm_eval_in(e, input));
    double scale = cm_eval_f64(e, at->scales + which, 0),
           zero = cm_eval_f64(e, at->zeros + which, 0);
    void *real;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &real));
    for (int64_t i = 0; i < n; i++)
        ((double *)real)[i] = ((*out)[i] - zero) * scale;
    *out = real;
    return CM_OK;
}

/* Rows of the table; numbers below 0 count from its end, as Gather's do. */
static cm_status read_ids(cm_eval *e, int ids, int table, const int64_t **out)
{
    *out = NULL;
    if (ids < 0 || !cm_eval_has(e, ids))
        return CM_OK;
    const int64_t *given;
    void *memory;
    CM_TRY(cm_eval_as_i64(e, ids, &given));
    int64_t n = cm_tensor_elems(cm_eval_in(e, ids)), rows = cm_eval_in(e, table)->dims[0];
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &memory));
    int64_t *row = memory;
    for (int64_t i = 0; i < n; i++) {
        if (given[i] < -rows || given[i] >= rows)
            return cm_fail(e->cx, CM_ERR_DATA, "index %lld into an embedding of %lld rows",
                           (long long)given[i], (long long)rows);
        row[i] = given[i] < 0 ? given[i] + rows : given[i];
    }
    *out = row;
    return CM_OK;
}

static void count_mask(cm_eval *e, int mask, int64_t batch, int64_t len)
{
    int32_t *out = cm_eval_out(e, 1)->data;
    for (int64_t b = 0; b < batch; b++) {
        int32_t n = 0;
        for (int64_t i = 0; cm_eval_has(e, mask) && i < len; i++)
            n += cm_eval_int(e, mask, b * len + i) == 1;
        out[b] = n;
    }
}

static cm_status eval_embed(cm_eval *e)
{
    const places *at = places_of(e->op->id);
    const cm_tensor *ids = cm_eval_in(e, 0);
    int64_t len = ids->dims[1];
    run r = {.size = cm_eval_in(e, at->gamma)->dims[0],
             .rows = cm_tensor_elems(ids),
             .sum = sum_embed,
             .epsilon = ((const norm_attr *)e->attr)->epsilon,
             .y = wanted(e, 0),
             .total = wanted(e, 2)};
    r.n_gamma = r.size;
    if (cm_eval_wants(e, 1))
        count_mask(e, at->mask, ids->dims[0], len);
    CM_TRY(read_table(e, at, at->word, 0, &r.word));
    CM_TRY(read_table(e, at, at->place, 1, &r.place));
    CM_TRY(read_table(e, at, at->segment, 2, &r.segment));
    CM_TRY(read_table(e, at, at->gamma, 3, &r.gamma));
    CM_TRY(read_table(e, at, at->beta, 4, &r.beta));
    CM_TRY(read_ids(e, 0, at->word, &r.word_ids));
    CM_TRY(read_ids(e, at->place_ids, at->place, &r.place_ids));
    if (r.segment)
        CM_TRY(read_ids(e, 1, at->segment, &r.segment_ids));
    if (r.rows == 0 || r.size == 0)
        return CM_OK;
    r.skip_rows = r.place_ids ? cm_tensor_elems(cm_eval_in(e, at->place_ids)) : len;
    if (!r.place_ids && len > cm_eval_in(e, at->place)->dims[0])
        return cm_fail(e->cx, CM_ERR_DATA, "%lld positions into an embedding of %lld rows",
                       (long long)len, (long long)cm_eval_in(e, at->place)->dims[0]);
    return run_all(e, &r);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_SIMPLIFIED_LAYER_NORMALIZATION:
        return infer_simplified(f);
    case CM_OP_MS_EMBED_LAYER_NORMALIZATION:
    case CM_OP_MS_QEMBED_LAYER_NORMALIZATION:
        return infer_embed(f);
    default:
        return infer_skip(f);
    }
}

static cm_status eval(cm_eval *e)
{
    switch (e->op->id) {
    case CM_OP_SIMPLIFIED_LAYER_NORMALIZATION:
        return eval_simplified(e);
    case CM_OP_MS_EMBED_LAYER_NORMALIZATION:
    case CM_OP_MS_QEMBED_LAYER_NORMALIZATION:
        return eval_embed(e);
    default:
        return eval_skip(e);
    }
}

/* About eight operations an element; of embedding tables only the rows that are looked up are read. */
static void cost(const cm_infer *f, cm_cost *c)
{
    const cm_type *out = &f->out[0].type;
    double n = out->kind == CM_TENSOR ? cm_infer_volume(f, out) : 0;
    c->ops = 8 * n;
    if (f->op->id == CM_OP_MS_EMBED_LAYER_NORMALIZATION)
        c->bytes = 4 * n * (double)cm_dtype_size(out->dtype);
    else if (f->op->id == CM_OP_MS_QEMBED_LAYER_NORMALIZATION)
        c->bytes = n * ((double)cm_dtype_size(out->dtype) + 3);
}

const cm_family cm_family_ms_norm = {.name = "ms_norm", .infer = infer, .eval = eval, .cost = cost};
