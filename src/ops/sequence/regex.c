/* regex.c -- RegexFullMatch: does all of a string match a pattern in RE2's syntax?
 * SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"

typedef struct {
    uint64_t present;
    cm_str pattern;
} regex_attr;
CM_ATTRS(regex_full_match, regex_attr, CM_ATTR_STR(regex_attr, pattern, ""))

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
static cm_status check_re2(cm_ctx *cx, cm_str s)
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
            return cm_fail(cx, CM_ERR_MODEL, "pattern is not in RE2's syntax: '%.*s' at %zu",
                           (int)cm_min_i64((int64_t)(s.n - at), 8), s.p + at, at);
    }
    return CM_OK;
}

static cm_status compile(cm_ctx *cx, cm_str pattern, pcre2_code **out)
{
    CM_TRY(check_re2(cx, pattern));
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    if (!cc)
        return cm_fail_memory(cx);
    pcre2_set_parens_nest_limit(cc, 200);
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(cc, 1 << 20);
    int error = 0;
    PCRE2_SIZE at = 0;
    *out = pcre2_compile((PCRE2_SPTR)(pattern.n ? pattern.p : ""), pattern.n,
                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_POSSESS |
                             PCRE2_NEVER_BACKSLASH_C,
                         &error, &at, cc);
    pcre2_compile_context_free(cc);
    if (*out)
        return CM_OK;
    char text[128] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
    return cm_fail(cx, CM_ERR_MODEL, "pattern is not a regular expression: %s at %zu", text,
                   (size_t)at);
}

static cm_status make_matcher(cm_eval *e, cm_str pattern, matcher *m)
{
    CM_TRY(compile(e->cx, pattern, &m->code));
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

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    const regex_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const cm_str *s = in->data;
    uint8_t *out = cm_eval_out(e, 0)->data;
    matcher m = {0};
    cm_status st = make_matcher(e, a->pattern, &m);
    for (int64_t i = 0, n = cm_tensor_elems(in); st == CM_OK && i < n; i++) {
        st = match_all(e, &m, s[i], &out[i]);
        if (st == CM_OK)
            st = cm_check_cancel(e->cx);
    }
    drop(e, &m);
    return st;
}

/* A pattern that is wrong is refused when the network is built. */
static cm_status infer(cm_infer *f)
{
    const regex_attr *a = f->attr;
    pcre2_code *code = NULL;
    if (f->dims) {
        CM_TRY(compile(f->cx, a->pattern, &code));
        pcre2_code_free(code);
    }
    return cm_infer_like(f, 0, 0);
}

const cm_family cm_family_regex = {.name = "regex", .infer = infer, .eval = eval};
