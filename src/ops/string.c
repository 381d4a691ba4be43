/* string.c -- operators on tensors of strings: concat, split, normalise, match.
 * SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"
#include "ops/text.h"

typedef struct {
    uint64_t present;
    cm_str pattern;
} regex_attr;
CM_ATTRS(regex_full_match, regex_attr, CM_ATTR_STR(regex_attr, pattern, ""))

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

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_STRING_CONCAT:
        return cm_infer_broadcast(f, 0, 0, 2);
    case CM_OP_STRING_NORMALIZER:
        return infer_normalizer(f);
    case CM_OP_STRING_SPLIT:
        return infer_split(f);
    default:
        return cm_infer_like(f, 0, 0);
    }
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

/* ---- RegexFullMatch ---- */

enum { WORKSPACE_MAX = 1 << 22 }; /* ints */

typedef struct {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    int *workspace;
    size_t n_workspace;
} matcher;

/* What may stand behind "(?" in RE2: a flag group, or a named one. */
static bool is_re2_group(cm_str s)
{
    size_t i = s.n > 1 && s.p[0] == 'P' && s.p[1] == '<' ? 1 : 0;
    if (s.n > i + 1 && s.p[i] == '<')
        return s.p[i + 1] != '=' && s.p[i + 1] != '!';
    for (i = 0; i < s.n && memchr("imsU-", s.p[i], 5); i++)
        ;
    return i < s.n && (s.p[i] == ':' || (i > 0 && s.p[i] == ')'));
}

/* Where the class that begins at i ends. */
static size_t class_end(cm_str s, size_t i)
{
    i += i + 1 < s.n && s.p[i + 1] == '^' ? 2 : 1;
    i += i < s.n && s.p[i] == ']'; /* a first bracket stands for itself */
    for (; i < s.n && s.p[i] != ']'; i++) {
        const char *end = NULL;
        if (s.p[i] == '\\')
            i++;
        else if (s.p[i] == '[' && i + 1 < s.n && s.p[i + 1] == ':')
            end = memmem(s.p + i + 2, s.n - i - 2, ":]", 2);
        if (end)
            i = (size_t)(end - s.p) + 1;
    }
    return i;
}

/* Refuse what PCRE2 has and RE2 has not: looking around, referring back, recursion, verbs,
 * comments, possessive repetition. With them gone the time to match is bounded. */
static cm_status check_re2(cm_eval *e, cm_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        const size_t at = i;
        const char c = s.p[i], next = i + 1 < s.n ? s.p[i + 1] : '\0';
        bool refused = false;
        if (c == '\\' && next == 'Q') { /* literal to \E */
            const char *end = memmem(s.p + i, s.n - i, "\\E", 2);
            i = end ? (size_t)(end - s.p) + 1 : s.n;
        } else if (c == '\\') {
            refused = next && strchr("123456789gkKGRXNZ", next);
            i++;
        } else if (c == '[') {
            i = class_end(s, i);
        } else if (c == '(') {
            refused =
                next == '*' || (next == '?' && !is_re2_group((cm_str){s.p + i + 2, s.n - i - 2}));
        } else if (next == '+') {
            refused = c == '+' || c == '*' || c == '?';
        }
        if (refused)
            return cm_fail(e->cx, CM_ERR_MODEL, "pattern is not in RE2's syntax: '%.*s' at %zu",
                           (int)cm_min_i64((int64_t)(s.n - at), 8), s.p + at, at);
    }
    return CM_OK;
}

static cm_status compile(cm_eval *e, cm_str pattern, matcher *m)
{
    CM_TRY(check_re2(e, pattern));
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    if (!cc)
        return cm_fail_memory(e->cx);
    pcre2_set_parens_nest_limit(cc, 200);
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(cc, 1 << 20);
    int error = 0;
    PCRE2_SIZE at = 0;
    m->code = pcre2_compile((PCRE2_SPTR)(pattern.n ? pattern.p : ""), pattern.n,
                            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_POSSESS |
                                PCRE2_NEVER_BACKSLASH_C,
                            &error, &at, cc);
    pcre2_compile_context_free(cc);
    if (!m->code) {
        char text[128] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
        return cm_fail(e->cx, CM_ERR_MODEL, "pattern is not a regular expression: %s at %zu", text,
                       (size_t)at);
    }
    m->data = pcre2_match_data_create(4, NULL);
    m->limits = pcre2_match_context_create(NULL);
    m->n_workspace = 4096;
    m->workspace = cm_alloc(e->cx->allocator, m->n_workspace * sizeof(int), 16);
    if (!m->data || !m->limits || !m->workspace)
        return cm_fail_memory(e->cx);
    pcre2_set_match_limit(m->limits, 1000000);
    pcre2_set_depth_limit(m->limits, 1000);
    pcre2_set_heap_limit(m->limits, 65536); /* KiB */
    return CM_OK;
}

static void drop(cm_eval *e, matcher *m)
{
    pcre2_match_context_free(m->limits);
    pcre2_match_data_free(m->data);
    pcre2_code_free(m->code);
    if (m->workspace)
        cm_release(e->cx->allocator, m->workspace, m->n_workspace * sizeof(int));
}

/* Does all of s match? All alternatives are followed side by side, so the time grows with the
 * length of the string times the size of the pattern, as RE2's does: no pattern backtracks for
 * ever. */
static cm_status match_all(cm_eval *e, matcher *m, cm_str s, uint8_t *out)
{
    size_t size = 0;
    pcre2_pattern_info(m->code, PCRE2_INFO_SIZE, &size);
    if (s.n > ((size_t)1 << 34) / (size + 1))
        return cm_fail(e->cx, CM_ERR_DATA, "a string of %zu bytes is too long for the pattern",
                       s.n);
    for (;;) {
        int rc = pcre2_dfa_match(m->code, (PCRE2_SPTR)(s.n ? s.p : ""), s.n, 0, PCRE2_ANCHORED,
                                 m->data, m->limits, m->workspace, m->n_workspace);
        if (rc >= 0) { /* the longest match comes first */
            *out = pcre2_get_ovector_pointer(m->data)[1] == s.n;
            return CM_OK;
        }
        const bool not_utf8 = rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
        if (rc == PCRE2_ERROR_NOMATCH || not_utf8) {
            *out = 0;
            return CM_OK;
        }
        if (rc != PCRE2_ERROR_DFA_WSSIZE || m->n_workspace >= WORKSPACE_MAX) {
            char text[128] = "";
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)text, sizeof text);
            return cm_fail(e->cx, CM_ERR_DATA, "the pattern cannot be matched: %s", text);
        }
        cm_release(e->cx->allocator, m->workspace, m->n_workspace * sizeof(int));
        m->n_workspace *= 4;
        m->workspace = cm_alloc(e->cx->allocator, m->n_workspace * sizeof(int), 16);
        if (!m->workspace)
            return cm_fail_memory(e->cx);
    }
}

static cm_status eval_regex(cm_eval *e)
{
    const regex_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const cm_str *s = in->data;
    uint8_t *out = cm_eval_out(e, 0)->data;
    matcher m = {0};
    cm_status st = compile(e, a->pattern, &m);
    for (int64_t i = 0, n = cm_tensor_elems(in); st == CM_OK && i < n; i++) {
        st = match_all(e, &m, s[i], &out[i]);
        if (st == CM_OK)
            st = cm_check_cancel(e->cx);
    }
    drop(e, &m);
    return st;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_STRING_SPLIT)
        return eval_split(e);
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    switch (e->op->id) {
    case CM_OP_STRING_CONCAT:
        return eval_concat(e);
    case CM_OP_STRING_NORMALIZER:
        return eval_normalizer(e);
    default:
        return eval_regex(e);
    }
}

const cm_family cm_family_string = {.name = "string", .infer = infer, .eval = eval};
