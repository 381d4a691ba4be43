/* string.c -- operators on tensors of strings: concat, split, normalise.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"
#include "ops/sequence/text.h"

typedef struct {
    uint64_t present;
    cm_str case_change_action, locale;
    int64_t is_case_sensitive;
    cm_strs stopwords;
} normalizer_attr;
CM_ATTRS(string_normalizer, normalizer_attr,
         CM_ATTR_STR(normalizer_attr, case_change_action, "NONE"),
         CM_ATTR_INT(normalizer_attr, is_case_sensitive, 0),
         CM_ATTR_STR(normalizer_attr, locale, ""), CM_ATTR_STRS(normalizer_attr, stopwords, 0))

typedef struct {
    uint64_t present;
    cm_str delimiter;
    int64_t maxsplit;
} split_attr;
CM_ATTRS(string_split, split_attr, CM_ATTR_STR(split_attr, delimiter, ""),
         CM_ATTR_INT(split_attr, maxsplit, -1))

/* ---- type rules ---- */

static bool is_word(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static cm_status infer_normalizer(cm_infer *f)
{
    const normalizer_attr *a = f->attr;
    const cm_str act = a->case_change_action;
    if (!is_word(act, "NONE") && !is_word(act, "LOWER") && !is_word(act, "UPPER"))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "case_change_action is '%.*s', wanted NONE, LOWER or "
                       "UPPER",
                       (int)cm_min_i64((int64_t)act.n, 40), act.p);
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const int rank = cm_infer_rank(f, 0);
    if (rank != 1 && rank != 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted [C] or [1,C]", rank);
    if (rank == 2)
        CM_TRY(cm_infer_equal(f, "first dim of a [1,C] input", cm_infer_dim(f, 0, 0), 1));
    if (!f->dims) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[2] = {1, 1};
    dims[rank - 1] = cm_infer_fresh(f, "words");
    return cm_infer_tensor(f, 0, rank, dims);
}

static cm_status infer_split(cm_infer *f)
{
    CM_TRY(cm_infer_like(f, 1, 0));
    if (!cm_infer_ranked(f, 0) || !f->dims) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[CM_MAX_RANK + 1];
    const int rank = cm_infer_rank(f, 0);
    memcpy(dims, f->in[0].type->dims, (size_t)rank * sizeof *dims);
    dims[rank] = cm_infer_fresh(f, "parts");
    return cm_infer_tensor(f, 0, rank + 1, dims);
}

/* ---- StringConcat ---- */

static cm_status eval_concat(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    cm_tensor *out = cm_eval_out(e, 0);
    const cm_str *x = a->data, *y = b->data;
    cm_str *z = out->data;
    int64_t sa[CM_MAX_RANK], sb[CM_MAX_RANK], index[CM_MAX_RANK] = {0}, ia = 0, ib = 0;
    cm_broadcast_strides(a, out->rank, out->dims, sa);
    cm_broadcast_strides(b, out->rank, out->dims, sb);
    for (int64_t i = 0, n = cm_tensor_elems(out); i < n; i++) {
        size_t bytes;
        if (!cm_add(x[ia].n, y[ib].n, &bytes))
            return cm_fail_memory(e->cx);
        char *p = cm_arena_alloc_n(e->cx->scratch, bytes + 1, 1, 1, 0);
        if (!p)
            return cm_fail_memory(e->cx);
        if (x[ia].n)
            memcpy(p, x[ia].p, x[ia].n);
        if (y[ib].n)
            memcpy(p + x[ia].n, y[ib].p, y[ib].n);
        z[i] = (cm_str){p, bytes};
        for (int k = out->rank - 1; k >= 0; k--) {
            ia += sa[k];
            ib += sb[k];
            if (++index[k] < out->dims[k])
                break;
            ia -= sa[k] * out->dims[k];
            ib -= sb[k] * out->dims[k];
            index[k] = 0;
        }
    }
    return CM_OK;
}

/* ---- StringSplit ---- */

static size_t skip_space(cm_str s, size_t at)
{
    size_t len;
    while (at < s.n && cm_text_is_space(cm_text_get(s, at, &len)))
        at += len;
    return at;
}

static cm_str trim_end(cm_str s)
{
    size_t end = 0, len;
    for (size_t at = 0; at < s.n; at += len)
        if (!cm_text_is_space(cm_text_get(s, at, &len)))
            end = at + len;
    return (cm_str){s.p, end};
}

/* The next part of s from *at; white space separates. False at the end. `last`: the rest is one. */
static bool next_word(cm_str s, size_t *at, bool last, cm_str *part)
{
    size_t from = skip_space(s, *at), to = from, len;
    if (from >= s.n)
        return false;
    if (last) {
        *part = trim_end((cm_str){s.p + from, s.n - from});
        *at = s.n;
        return true;
    }
    while (to < s.n && !cm_text_is_space(cm_text_get(s, to, &len)))
        to += len;
    *part = (cm_str){s.p + from, to - from};
    *at = to;
    return true;
}

/* The same between delimiters: two in a row hold an empty part. Past the end *at is s.n + 1. */
static bool next_field(cm_str s, cm_str delimiter, size_t *at, bool last, cm_str *part)
{
    if (*at > s.n)
        return false;
    const char *from = s.n ? s.p + *at : "";
    const char *found =
        last || s.n - *at < delimiter.n ? NULL : memmem(from, s.n - *at, delimiter.p, delimiter.n);
    if (found) {
        *part = (cm_str){from, (size_t)(found - from)};
        *at += part->n + delimiter.n;
    } else {
        *part = (cm_str){from, s.n - *at};
        *at = s.n + 1;
    }
    return true;
}

/* Parts of s into out (NULL: only count). */
static int64_t split_one(const split_attr *a, cm_str s, cm_str *out)
{
    int64_t n = 0;
    size_t at = 0;
    cm_str part;
    for (;; n++) {
        const bool last = a->maxsplit >= 0 && n == a->maxsplit;
        if (a->delimiter.n ? !next_field(s, a->delimiter, &at, last, &part)
                           : !next_word(s, &at, last, &part))
            return n;
        if (out)
            out[n] = part;
    }
}

static cm_status eval_split(cm_eval *e)
{
    const split_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const cm_str *s = in->data;
    const int64_t n = cm_tensor_elems(in);
    int64_t most = 0, dims[CM_MAX_RANK + 1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t parts = split_one(a, s[i], NULL);
        most = cm_max_i64(most, parts);
        if (cm_eval_wants(e, 1))
            ((int64_t *)cm_eval_out(e, 1)->data)[i] = parts;
    }
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    if (in->rank == CM_MAX_RANK)
        return cm_fail(e->cx, CM_ERR_UNSUPPORTED, "rank %d, the most is %d", in->rank + 1,
                       CM_MAX_RANK);
    memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
    dims[in->rank] = most;
    CM_TRY(cm_eval_alloc(e, 0, CM_STR, in->rank + 1, dims));
    cm_str *out = cm_eval_out(e, 0)->data;
    if (n > 0 && most > 0)
        memset(out, 0, (size_t)(n * most) * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        split_one(a, s[i], out + i * most);
    return CM_OK;
}

/* ---- StringNormalizer ---- */

static bool is_stopword(const cm_strs *stop, cm_str s)
{
    for (int64_t i = 0; i < stop->n; i++)
        if (cm_str_equal(stop->v[i], s))
            return true;
    return false;
}

/* The stop words as they are compared: lower case unless case matters. */
static cm_status fold_stopwords(cm_eval *e, const normalizer_attr *a, cm_strs *out)
{
    *out = a->stopwords;
    if (a->is_case_sensitive || a->stopwords.n == 0)
        return CM_OK;
    cm_str *folded;
    CM_NEW_N(e->cx, e->cx->scratch, folded, a->stopwords.n, cm_str);
    for (int64_t i = 0; i < a->stopwords.n; i++)
        if (!cm_text_case(e->cx->scratch, a->stopwords.v[i], false, &folded[i]))
            return cm_fail_memory(e->cx);
    out->v = folded;
    return CM_OK;
}

static cm_status eval_normalizer(cm_eval *e)
{
    const normalizer_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const cm_str *s = in->data;
    const int64_t n = cm_tensor_elems(in);
    cm_strs stop;
    cm_str *kept;
    int64_t n_kept = 0;
    CM_TRY(fold_stopwords(e, a, &stop));
    CM_NEW_N(e->cx, e->cx->scratch, kept, n + 1, cm_str);
    for (int64_t i = 0; i < n; i++) {
        cm_str key = s[i];
        if (stop.n && !a->is_case_sensitive && !cm_text_case(e->cx->scratch, s[i], false, &key))
            return cm_fail_memory(e->cx);
        if (is_stopword(&stop, key))
            continue;
        kept[n_kept] = s[i];
        if (!is_word(a->case_change_action, "NONE") &&
            !cm_text_case(e->cx->scratch, s[i], is_word(a->case_change_action, "UPPER"),
                          &kept[n_kept]))
            return cm_fail_memory(e->cx);
        n_kept++;
    }
    int64_t dims[2] = {1, 1};
    dims[in->rank - 1] = n_kept ? n_kept : 1; /* nothing kept: one empty string */
    CM_TRY(cm_eval_alloc(e, 0, CM_STR, in->rank, dims));
    memcpy(cm_eval_out(e, 0)->data, kept, (size_t)dims[in->rank - 1] * sizeof *kept);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_STRING_CONCAT:
        return cm_infer_broadcast(f, 0, 0, 2);
    case CM_OP_STRING_NORMALIZER:
        return infer_normalizer(f);
    default:
        return infer_split(f);
    }
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_STRING_SPLIT)
        return eval_split(e);
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    return e->op->id == CM_OP_STRING_CONCAT ? eval_concat(e) : eval_normalizer(e);
}

const cm_family cm_family_string = {.name = "string", .infer = infer, .eval = eval};
