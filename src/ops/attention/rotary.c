/* rotary.c -- RotaryEmbedding, of ONNX and of com.microsoft.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/attention/rotary.h"

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    int64_t interleaved, num_heads, rotary_embedding_dim, is_packed_batching;
    float scale; /* is read and has no effect, as in ONNX Runtime */
} rotary_attr;

CM_ATTRS(rotary_embedding, rotary_attr, CM_ATTR_INT(rotary_attr, interleaved, 0),
         CM_ATTR_INT(rotary_attr, num_heads, 0), CM_ATTR_INT(rotary_attr, rotary_embedding_dim, 0))
CM_ATTRS(ms_rotary_embedding, rotary_attr, CM_ATTR_INT(rotary_attr, interleaved, 0),
         CM_ATTR_INT(rotary_attr, num_heads, 0), CM_ATTR_INT(rotary_attr, rotary_embedding_dim, 0),
         CM_ATTR_INT(rotary_attr, is_packed_batching, 0), CM_ATTR_FLOAT(rotary_attr, scale, 1))

/* Where the inputs are. */
typedef struct {
    int cos, sin, positions;
} places;

static const places *places_of(cm_op_id id)
{
    static const places onnx = {1, 2, 3}, microsoft = {2, 3, 1};
    return id == CM_OP_ROTARY_EMBEDDING ? &onnx : &microsoft;
}

static void rotate_token(const cm_rotary *r, int64_t b, int64_t t)
{
    int64_t row = r->rows[b * r->len + t] * (r->dim / 2);
    size_t size = cm_dtype_size(r->y.dtype);
    for (int64_t h = 0; h < r->heads; h++) {
        const double *x = r->x.at + b * r->x.batch + h * r->x.head + t * r->x.row;
        char *to = (char *)r->y.at + (size_t)(b * r->y.batch + h * r->y.head + t * r->y.row) * size;
        int64_t half = r->dim / 2;
        for (int64_t j = 0; j < half; j++) {
            int64_t re = r->interleaved ? 2 * j : j, im = r->interleaved ? 2 * j + 1 : j + half;
            double c = r->cos[row + j], s = r->sin[row + j];
            double real = c * x[re] - s * x[im];
            double imag = s * x[re] + c * x[im];
            cm_store_f64(r->y.dtype, &real, 1, to + (size_t)re * size);
            cm_store_f64(r->y.dtype, &imag, 1, to + (size_t)im * size);
        }
        cm_store_f64(r->y.dtype, x + 2 * half, r->size - 2 * half, to + (size_t)(2 * half) * size);
    }
}

static void rotate_range(void *arg, int64_t begin, int64_t end)
{
    const cm_rotary *r = arg;
    for (int64_t i = begin; i < end; i++)
        rotate_token(r, i / r->len, i % r->len);
}

void cm_rotary_run(cm_threads *t, const cm_rotary *r)
{
    cm_parallel(t, r->batch * r->len, 4, rotate_range, (void *)r);
}

cm_status cm_rotary_check(cm_ctx *cx, const int64_t *rows, int64_t n, int64_t n_cache)
{
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= n_cache)
            return cm_fail(cx, CM_ERR_DATA,
                           "position %lld is outside the cos and sin caches of %lld",
                           (long long)rows[i], (long long)n_cache);
    return CM_OK;
}

/* Heads, their size and how much of it rotates; -1 where not known. */
static cm_status read_sizes(cm_infer *f, const rotary_attr *a, int64_t *heads, int64_t *size,
                            int64_t *dim)
{
    int rank = cm_infer_rank(f, 0);
    const places *at = places_of(f->op->id);
    cm_dim cache = cm_expect_dim(f, at->cos, cm_infer_rank(f, at->cos) - 1);
    int64_t hidden, half;
    *heads = *size = *dim = -1;
    if (a->rotary_embedding_dim < 0 || a->num_heads < 0 || a->rotary_embedding_dim % 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is %lld and rotary_embedding_dim %lld",
                       (long long)a->num_heads, (long long)a->rotary_embedding_dim);
    if (!cm_infer_const(f, cm_infer_dim(f, 0, rank - 1), &hidden))
        return CM_OK;
    if (rank == 4) {
        *size = hidden;
    } else if (a->num_heads) {
        if (hidden % a->num_heads)
            return cm_fail(f->cx, CM_ERR_MODEL, "hidden size %lld is no multiple of %lld heads",
                           (long long)hidden, (long long)a->num_heads);
        *size = hidden / a->num_heads;
    } else if (f->op->id == CM_OP_ROTARY_EMBEDDING) {
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is missing: an input of rank 3 needs it");
    } else if (cache != CM_DIM_ERROR && cm_infer_const(f, cache, &half)) {
        *size = half * 2;
        if (half < 1 || hidden % *size)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "hidden size %lld is no multiple of %lld, twice "
                           "the caches' columns",
                           (long long)hidden, (long long)*size);
    } else {
        return CM_OK;
    }
    *heads = rank == 4 ? -1 : *size ? hidden / *size : 0;
    *dim = a->rotary_embedding_dim ? a->rotary_embedding_dim : *size;
    if (*dim > *size || *dim % 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld of %lld elements are to be rotated in pairs",
                       (long long)*dim, (long long)*size);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const rotary_attr *a = f->attr;
    const places *at = places_of(f->op->id);
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_expect_rank(f, 0, "the input", 3, 4));
    int rank = cm_infer_rank(f, 0);
    cm_dim batch = cm_infer_dim(f, 0, 0), len = cm_infer_dim(f, 0, rank == 4 ? 2 : 1);
    bool by_position = cm_infer_has(f, at->positions);
    int cache_rank = by_position ? 2 : 3;
    CM_TRY(cm_expect_rank(f, at->cos, "cos_cache", cache_rank, cache_rank));
    CM_TRY(cm_expect_rank(f, at->sin, "sin_cache", cache_rank, cache_rank));
    int64_t heads, size, dim;
    CM_TRY(read_sizes(f, a, &heads, &size, &dim));
    cm_dim half = dim < 0 ? CM_DIM_ERROR : dim / 2;
    cm_dim table[] = {cm_expect_dim(f, at->cos, 0), half}, direct[] = {batch, len, half};
    const cm_dim *want = by_position ? table : direct;
    CM_TRY(cm_expect_shape(f, at->cos, "cos_cache", cache_rank, want));
    CM_TRY(cm_expect_shape(f, at->sin, "sin_cache", cache_rank, want));
    cm_dim tokens[] = {batch, len};
    if (cm_expect_known(f, at->positions) && f->op->id != CM_OP_ROTARY_EMBEDDING &&
        cm_infer_rank(f, at->positions) == 1)
        CM_TRY(cm_infer_equal(f, "position_ids", cm_infer_dim(f, at->positions, 0), 1));
    else
        CM_TRY(cm_expect_shape(f, at->positions, "position_ids", 2, tokens));
    return cm_infer_like(f, 0, 0);
}

/* The cache row of every token. One position alone is that of each sequence's first token. */
static cm_status read_rows(cm_eval *e, cm_rotary *r, int positions, int64_t n_cache)
{
    int64_t n = r->batch * r->len;
    bool given = cm_eval_has(e, positions);
    if (given && cm_tensor_elems(cm_eval_in(e, positions)) == n &&
        cm_eval_in(e, positions)->rank == 2)
        CM_TRY(cm_eval_as_i64(e, positions, &r->rows));
    else {
        void *rows;
        CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &rows));
        int64_t first = given ? cm_eval_int(e, positions, 0) : 0;
        if (given && (first < 0 || first > n_cache))
            return cm_rotary_check(e->cx, &first, 1, n_cache);
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)rows)[i] = given ? first + i % r->len : i;
        r->rows = rows;
        if (!given)
            return CM_OK;
    }
    return cm_rotary_check(e->cx, r->rows, n, n_cache);
}

static cm_status eval(cm_eval *e)
{
    const rotary_attr *a = e->attr;
    const places *at = places_of(e->op->id);
    const cm_tensor *x = cm_eval_in(e, 0), *cache = cm_eval_in(e, at->cos);
    bool packed = x->rank == 3;
    int64_t hidden = x->dims[x->rank - 1], half = cache->dims[cache->rank - 1];
    cm_rotary r = {.batch = x->dims[0],
                   .len = x->dims[packed ? 1 : 2],
                   .dim = half * 2,
                   .interleaved = a->interleaved != 0};
    r.size = !packed ? hidden : a->num_heads ? hidden / a->num_heads : half * 2;
    r.heads = !packed ? x->dims[1] : r.size ? hidden / r.size : 0;
    const double *data;
    CM_TRY(cm_eval_as_f64(e, 0, &data));
    CM_TRY(cm_eval_as_f64(e, at->cos, &r.cos));
    CM_TRY(cm_eval_as_f64(e, at->sin, &r.sin));
    if (cm_tensor_elems(x) == 0)
        return CM_OK;
    CM_TRY(read_rows(e, &r, at->positions, cache->dims[0]));
    r.x = (packed ? cm_heads_bsnh : cm_heads_bnsh)(data, r.heads, r.len, r.size);
    r.y =
        (packed ? cm_heads_out_bsnh : cm_heads_out_bnsh)(cm_eval_out(e, 0), r.heads, r.len, r.size);
    cm_rotary_run(e->threads, &r);
    return CM_OK;
}

const cm_family cm_family_rotary = {.name = "rotary", .infer = infer, .eval = eval};
