/* ms_tokens.c -- com.microsoft operators on sequences of tokens: Unique, BifurcationDetector,
 * DynamicTimeWarping.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    int64_t max_ngram_size, min_ngram_size;
} tokens_attr;

CM_ATTRS(ms_bifurcation_detector, tokens_attr, CM_ATTR_INT(tokens_attr, max_ngram_size, 3),
         CM_ATTR_INT(tokens_attr, min_ngram_size, 1))

static cm_status infer(cm_infer *f)
{
    cm_dim one = 1;
    switch (f->op->id) {
    case CM_OP_MS_UNIQUE:
        CM_TRY(cm_expect_rank(f, 0, "x", 1, 1));
        CM_TRY(cm_infer_data_dependent(f, 0, 1));
        CM_TRY(cm_infer_like(f, 1, 0));
        CM_TRY(cm_infer_data_dependent(f, 2, 1));
        f->out[1].type.dtype = f->out[2].type.dtype = CM_I64;
        return CM_OK;
    case CM_OP_MS_DYNAMIC_TIME_WARPING:
        CM_TRY(cm_expect_rank(f, 0, "input", 2, 3));
        if (cm_infer_rank(f, 0) == 3)
            CM_TRY(cm_infer_equal(f, "input", cm_infer_dim(f, 0, 0), 1));
        return cm_infer_data_dependent(f, 0, 2);
    default:
        for (int i = 0; i < 4; i++)
            CM_TRY(cm_expect_rank(f, i, "a list of tokens", i == 2 ? 0 : 1, 1));
        CM_TRY(cm_expect_one(f, 2, "prev_suffix_match_idx"));
        CM_TRY(cm_infer_data_dependent(f, 0, 1));
        return cm_infer_tensor(f, 1, 1, &one);
    }
}

/* Bytes that are equal exactly when the elements are. */
static bool same(const cm_tensor *x, int64_t a, int64_t b)
{
    if (x->dtype == CM_STR)
        return cm_str_equal(((const cm_str *)x->data)[a], ((const cm_str *)x->data)[b]);
    if (cm_dtype_is_float(x->dtype))
        return cm_get_f64(x->dtype, x->data, a) == cm_get_f64(x->dtype, x->data, b);
    size_t size = cm_dtype_size(x->dtype);
    return memcmp((const char *)x->data + (size_t)a * size,
                  (const char *)x->data + (size_t)b * size, size) == 0;
}

static uint64_t hash_of(const cm_tensor *x, int64_t i)
{
    if (x->dtype == CM_STR)
        return cm_hash_bytes(((const cm_str *)x->data)[i].p, ((const cm_str *)x->data)[i].n, 0);
    if (cm_dtype_is_float(x->dtype)) {
        double v = cm_get_f64(x->dtype, x->data, i) + 0.0; /* -0 is 0 */
        return cm_hash_bytes(&v, sizeof v, 0);
    }
    size_t size = cm_dtype_size(x->dtype);
    return cm_hash_bytes((const char *)x->data + (size_t)i * size, size, 0);
}

/* Values in the order in which they first appear. */
static cm_status eval_unique(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t n = x->dims[0], n_slots = 16, found = 0, *slots, *first, *counts, *index;
    size_t size = cm_dtype_size(x->dtype);
    while (n_slots < 2 * n)
        n_slots *= 2;
    CM_NEW_N(e->cx, e->cx->scratch, slots, n_slots, int64_t); /* number of the value + 1 */
    CM_NEW_N(e->cx, e->cx->scratch, first, n + 1, int64_t);
    CM_NEW_N(e->cx, e->cx->scratch, counts, n + 1, int64_t);
    CM_NEW_N(e->cx, e->cx->scratch, index, n + 1, int64_t);
    for (int64_t i = 0; i < n; i++) {
        int64_t s = (int64_t)(hash_of(x, i) & (uint64_t)(n_slots - 1));
        while (slots[s] && !same(x, first[slots[s] - 1], i))
            s = (s + 1) & (n_slots - 1);
        if (!slots[s]) {
            first[found] = i;
            slots[s] = ++found;
        }
        index[i] = slots[s] - 1;
        counts[index[i]]++;
    }
    CM_TRY(cm_eval_alloc(e, 0, x->dtype, 1, &found));
    CM_TRY(cm_eval_alloc(e, 2, CM_I64, 1, &found));
    for (int64_t i = 0; cm_eval_wants(e, 0) && i < found; i++)
        memcpy((char *)cm_eval_out(e, 0)->data + (size_t)i * size,
               (const char *)x->data + (size_t)first[i] * size, size);
    if (cm_eval_wants(e, 1) && n)
        memcpy(cm_eval_out(e, 1)->data, index, (size_t)n * sizeof *index);
    if (cm_eval_wants(e, 2) && found)
        memcpy(cm_eval_out(e, 2)->data, counts, (size_t)found * sizeof *counts);
    return CM_OK;
}

/* Where `n` tokens lie in the source from `from` on; -1: nowhere. */
static int64_t find(const int64_t *source, int64_t len, int64_t from, const int64_t *what,
                    int64_t n)
{
    for (int64_t i = from; i + n <= len; i++)
        if (memcmp(source + i, what, (size_t)n * sizeof *what) == 0)
            return i;
    return -1;
}

/* The current tokens, then the predicted ones as far as they agree with the source and one more. */
static cm_status eval_bifurcation(cm_eval *e)
{
    const tokens_attr *a = e->attr;
    const int64_t *source = cm_eval_in(e, 0)->data, *current = cm_eval_in(e, 1)->data;
    const int64_t *predicted = cm_eval_has(e, 3) ? cm_eval_in(e, 3)->data : NULL;
    int64_t n_source = cm_eval_in(e, 0)->dims[0], n = cm_eval_in(e, 1)->dims[0], *tokens;
    int64_t n_predicted = predicted ? cm_eval_in(e, 3)->dims[0] : 0, start = cm_eval_int(e, 2, 0),
            take = 0;
    if (predicted && (start < 0 || start > n_source || n_predicted != n_source + 1 - start))
        return cm_fail(e->cx, CM_ERR_DATA, "%lld predicted tokens, wanted %lld from %lld on",
                       (long long)n_predicted, (long long)(n_source + 1 - start), (long long)start);
    while (take + 1 < n_predicted && predicted[take] == source[start + take])
        take++;
    CM_NEW_N(e->cx, e->cx->scratch, tokens, n + take + 2, int64_t);
    if (n)
        memcpy(tokens, current, (size_t)n * sizeof *tokens);
    for (int64_t i = 0; predicted && i <= take; i++)
        tokens[n++] = predicted[i];
    int64_t match = -1;
    for (int64_t size = cm_max_i64(a->min_ngram_size, 1); size <= a->max_ngram_size && size <= n;
         size++) {
        int64_t at = find(source, n_source, 0, tokens + n - size, size);
        if (at < 0)
            break;
        match = at + size;
        if (match >= n_source || find(source, n_source, at + 1, tokens + n - size, size) < 0)
            break;
        match = -1;
    }
    CM_TRY(cm_eval_alloc(e, 0, CM_I64, 1, &n));
    if (cm_eval_wants(e, 0) && n)
        memcpy(cm_eval_out(e, 0)->data, tokens, (size_t)n * sizeof *tokens);
    if (cm_eval_wants(e, 1))
        *(int64_t *)cm_eval_out(e, 1)->data = match;
    return CM_OK;
}

/* The cheapest path from the first to the last corner, by dynamic programming. */
static cm_status eval_warping(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t m = x->dims[x->rank - 2], n = x->dims[x->rank - 1], size;
    const float *cost = x->data;
    float *best;
    int8_t *step;
    if (m < 1 || n < 1 || !cm_mul_i64(m + 1, n + 1, &size))
        return cm_fail(e->cx, CM_ERR_DATA, "no path through %lld by %lld", (long long)m,
                       (long long)n);
    CM_NEW_N(e->cx, e->cx->scratch, best, size, float);
    CM_NEW_N(e->cx, e->cx->scratch, step, size, int8_t);
    for (int64_t i = 0; i < size; i++)
        best[i] = INFINITY;
    best[0] = 0;
    for (int64_t c = 1; c <= n; c++)
        for (int64_t r = 1; r <= m; r++) {
            float both = best[(r - 1) * (n + 1) + c - 1], up = best[(r - 1) * (n + 1) + c];
            float left = best[r * (n + 1) + c - 1];
            int8_t way = both < up && both < left ? 0 : up < both && up < left ? 1 : 2;
            step[r * (n + 1) + c] = way;
            best[r * (n + 1) + c] = cost[(r - 1) * n + c - 1] + (way == 0   ? both
                                                                 : way == 1 ? up
                                                                            : left);
        }
    for (int64_t c = 0; c <= n; c++)
        step[c] = 2;
    for (int64_t r = 0; r <= m; r++)
        step[r * (n + 1)] = 1;
    int64_t len = 0, dims[2] = {2, 0};
    for (int64_t r = m, c = n; r > 0 || c > 0; len++) {
        int8_t way = step[r * (n + 1) + c];
        r -= way != 2;
        c -= way != 1;
    }
    dims[1] = len;
    CM_TRY(cm_eval_alloc(e, 0, CM_I32, 2, dims));
    int32_t *y = cm_eval_wants(e, 0) ? cm_eval_out(e, 0)->data : NULL;
    for (int64_t r = m, c = n, i = len - 1; y && i >= 0; i--) {
        y[i] = (int32_t)(r - 1);
        y[len + i] = (int32_t)(c - 1);
        int8_t way = step[r * (n + 1) + c];
        r -= way != 2;
        c -= way != 1;
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_MS_UNIQUE                 ? eval_unique(e)
           : e->op->id == CM_OP_MS_DYNAMIC_TIME_WARPING ? eval_warping(e)
                                                        : eval_bifurcation(e);
}

const cm_family cm_family_ms_tokens = {.name = "ms_tokens", .infer = infer, .eval = eval};
