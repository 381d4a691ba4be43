/* tfidf.c -- TfIdfVectorizer: counts of n-grams from a pool, weighted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "ops/eval.h"

typedef struct {
    uint64_t present;
    int64_t max_gram_length, max_skip_count, min_gram_length;
    cm_str mode;
    cm_ints ngram_counts, ngram_indexes, pool_int64s;
    cm_strs pool_strings;
    cm_floats weights;
} tfidf_attr;
CM_ATTRS(tfidf_vectorizer, tfidf_attr, CM_ATTR_INT_REQUIRED(tfidf_attr, max_gram_length),
         CM_ATTR_INT_REQUIRED(tfidf_attr, max_skip_count),
         CM_ATTR_INT_REQUIRED(tfidf_attr, min_gram_length), CM_ATTR_STR_REQUIRED(tfidf_attr, mode),
         CM_ATTR_INTS(tfidf_attr, ngram_counts, CM_REQUIRED),
         CM_ATTR_INTS(tfidf_attr, ngram_indexes, CM_REQUIRED),
         CM_ATTR_INTS(tfidf_attr, pool_int64s, 0), CM_ATTR_STRS(tfidf_attr, pool_strings, 0),
         CM_ATTR_FLOATS(tfidf_attr, weights, 0))

typedef enum { TF, IDF, TFIDF, BAD_MODE } mode;

static mode mode_of(cm_str s)
{
    static const char *const names[] = {"TF", "IDF", "TFIDF"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(s, cm_str_of(names[i])))
            return (mode)i;
    return BAD_MODE;
}

static int64_t pool_size(const tfidf_attr *a)
{
    return a->pool_strings.n ? a->pool_strings.n : a->pool_int64s.n;
}

/* Elements of the pool that hold n-grams of `size`: [*from, *to). */
static void pool_range(const tfidf_attr *a, int64_t size, int64_t *from, int64_t *to)
{
    *from = a->ngram_counts.v[size - 1];
    *to = size < a->ngram_counts.n ? a->ngram_counts.v[size] : pool_size(a);
}

static cm_status check_attr(cm_infer *f, int64_t *width)
{
    const tfidf_attr *a = f->attr;
    cm_ctx *cx = f->cx;
    if (mode_of(a->mode) == BAD_MODE)
        return cm_fail(cx, CM_ERR_MODEL, "mode is none of TF, IDF, TFIDF");
    if (a->min_gram_length < 1 || a->max_gram_length < a->min_gram_length || a->max_skip_count < 0)
        return cm_fail(cx, CM_ERR_MODEL, "n-grams of %lld to %lld with %lld skips make no sense",
                       (long long)a->min_gram_length, (long long)a->max_gram_length,
                       (long long)a->max_skip_count);
    if (a->max_gram_length > a->ngram_counts.n)
        return cm_fail(cx, CM_ERR_MODEL, "ngram_counts has %lld entries, wanted %lld",
                       (long long)a->ngram_counts.n, (long long)a->max_gram_length);
    if ((a->pool_int64s.n > 0) == (a->pool_strings.n > 0))
        return cm_fail(cx, CM_ERR_MODEL, "one of pool_int64s and pool_strings must be given");
    int64_t n_grams = 0, last = -1;
    for (int64_t size = 1; size <= a->ngram_counts.n; size++) {
        int64_t from, to;
        pool_range(a, size, &from, &to);
        if (from < 0 || to < from || to > pool_size(a) || (to - from) % size != 0)
            return cm_fail(cx, CM_ERR_MODEL,
                           "ngram_counts: %lld-grams at [%lld, %lld) of a pool of "
                           "%lld",
                           (long long)size, (long long)from, (long long)to,
                           (long long)pool_size(a));
        n_grams += (to - from) / size;
    }
    if (a->ngram_indexes.n != n_grams)
        return cm_fail(cx, CM_ERR_MODEL, "ngram_indexes has %lld entries for %lld n-grams",
                       (long long)a->ngram_indexes.n, (long long)n_grams);
    if (a->weights.n && a->weights.n != n_grams)
        return cm_fail(cx, CM_ERR_MODEL, "weights has %lld entries for %lld n-grams",
                       (long long)a->weights.n, (long long)n_grams);
    for (int64_t i = 0; i < n_grams; i++) {
        if (a->ngram_indexes.v[i] < 0 || a->ngram_indexes.v[i] >= INT64_MAX)
            return cm_fail(cx, CM_ERR_MODEL, "ngram_indexes[%lld] is %lld", (long long)i,
                           (long long)a->ngram_indexes.v[i]);
        last = cm_max_i64(last, a->ngram_indexes.v[i]);
    }
    *width = last + 1;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const tfidf_attr *a = f->attr;
    int64_t width = 0;
    CM_TRY(check_attr(f, &width));
    if ((f->in[0].type->dtype == CM_STR) != (a->pool_strings.n > 0))
        return cm_fail(f->cx, CM_ERR_MODEL, "an input of %s with a pool of %s",
                       cm_dtype_name(f->in[0].type->dtype),
                       a->pool_strings.n ? "strings" : "int64");
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const int rank = cm_infer_rank(f, 0);
    if (rank != 1 && rank != 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted [C] or [N,C]", rank);
    cm_dim dims[2] = {cm_infer_dim(f, 0, 0), width};
    return rank == 1 ? cm_infer_tensor(f, 0, 1, dims + 1) : cm_infer_tensor(f, 0, 2, dims);
}

/* n-grams of the pool by hash. Elements are read through `at`, so that both kinds look alike. */
typedef struct {
    const int64_t *ints;
    const cm_str *strs; /* one of the two */
} run;

static uint64_t hash_gram(run r, int64_t from, int64_t step, int64_t size)
{
    uint64_t h = (uint64_t)size;
    for (int64_t k = 0; k < size; k++) {
        const int64_t i = from + k * step;
        h = r.strs ? cm_hash_bytes(r.strs[i].p, r.strs[i].n, h)
                   : cm_hash_bytes(&r.ints[i], sizeof *r.ints, h);
    }
    return h;
}

static bool same_gram(run a, int64_t from_a, int64_t step, run b, int64_t from_b, int64_t size)
{
    for (int64_t k = 0; k < size; k++) {
        const int64_t i = from_a + k * step, j = from_b + k;
        if (a.strs ? !cm_str_equal(a.strs[i], b.strs[j]) : a.ints[i] != b.ints[j])
            return false;
    }
    return true;
}

typedef struct {
    int64_t size, from; /* of the n-gram, and where it begins in the pool; size 0: free */
    int64_t id;
} slot;

typedef struct {
    run pool;
    slot *slots;
    uint64_t mask;
} table;

static slot *find(const table *t, run text, int64_t from, int64_t step, int64_t size)
{
    uint64_t i = hash_gram(text, from, step, size) & t->mask;
    while (t->slots[i].size && !(t->slots[i].size == size &&
                                 same_gram(text, from, step, t->pool, t->slots[i].from, size)))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

static cm_status build_table(cm_eval *e, const tfidf_attr *a, table *t)
{
    uint64_t n = 16;
    while (n < 2 * (uint64_t)a->ngram_indexes.n)
        n *= 2;
    void *slots;
    CM_TRY(cm_eval_scratch(e, n, sizeof(slot), &slots));
    *t = (table){{a->pool_int64s.v, a->pool_strings.n ? a->pool_strings.v : NULL}, slots, n - 1};
    int64_t id = 0;
    for (int64_t size = 1; size <= a->ngram_counts.n; size++) {
        int64_t from, to;
        pool_range(a, size, &from, &to);
        for (; from < to; from += size, id++) {
            slot *s = find(t, t->pool, from, 1, size);
            if (!s->size)
                *s = (slot){size, from, id};
        }
    }
    return CM_OK;
}

/* counts[id] += how often each n-gram of the pool is in text[from, to). */
static void count_row(const tfidf_attr *a, const table *t, run text, int64_t from, int64_t to,
                      int64_t *counts)
{
    for (int64_t size = a->min_gram_length; size <= a->max_gram_length; size++) {
        const int64_t skips = size == 1 ? 0 : cm_min_i64(a->max_skip_count, to - from);
        for (int64_t step = 1; step <= skips + 1; step++) {
            int64_t span;
            if (!cm_mul_i64(size - 1, step, &span) || span >= to - from)
                break;
            for (int64_t i = from; i + span < to; i++) {
                const slot *s = find(t, text, i, step, size);
                if (s->size)
                    counts[s->id]++;
            }
        }
    }
}

static cm_status eval(cm_eval *e)
{
    const tfidf_attr *a = e->attr;
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    const cm_tensor *in = cm_eval_in(e, 0), *out = cm_eval_out(e, 0);
    const int64_t n_rows = in->rank == 2 ? in->dims[0] : 1, n_cols = in->dims[in->rank - 1];
    const int64_t width = out->dims[out->rank - 1], n_grams = a->ngram_indexes.n;
    const mode m = mode_of(a->mode);
    table t;
    void *counts, *row;
    CM_TRY(build_table(e, a, &t));
    CM_TRY(cm_eval_scratch(e, (size_t)n_grams + 1, sizeof(int64_t), &counts));
    CM_TRY(cm_eval_scratch(e, (size_t)width + 1, sizeof(double), &row));
    run text = {0};
    if (in->dtype == CM_STR)
        text.strs = in->data;
    else
        CM_TRY(cm_eval_as_i64(e, 0, &text.ints));
    for (int64_t r = 0; r < n_rows; r++) {
        CM_TRY(cm_check_cancel(e->cx));
        memset(counts, 0, (size_t)n_grams * sizeof(int64_t));
        memset(row, 0, (size_t)width * sizeof(double));
        count_row(a, &t, text, r * n_cols, (r + 1) * n_cols, counts);
        for (int64_t i = 0; i < n_grams; i++) {
            const int64_t n = ((int64_t *)counts)[i];
            const double w = m == TF || !a->weights.n ? 1 : (double)a->weights.v[i];
            ((double *)row)[a->ngram_indexes.v[i]] += n ? (m == IDF ? 1 : (double)n) * w : 0;
        }
        cm_store_f64(CM_F32, row, width, (float *)out->data + r * width);
    }
    return CM_OK;
}

const cm_family cm_family_tfidf = {.name = "tfidf", .infer = infer, .eval = eval};
