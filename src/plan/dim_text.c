/* dim_text.c -- dims as text.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     expression: term {(+ | -) term}
 *     term:       factor {(* | // | %) factor}
 *     factor:     - factor | number | name | 'any name' | ( expression )
 *               | floor( term / factor ) | ceil( term / factor )
 *               | (mod | min | max | broadcast)( expression {, expression} )
 *
 * `//` is floor-div and `%` is mod; they are read, not written. */
#include <string.h>

#include "base/size.h"
#include "plan/dim_impl.h"

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_char(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '.' || c == ':';
}

static void print_name(const char *name, cm_buf *out)
{
    bool plain = is_name_start(name[0]);
    for (const char *p = name; *p && plain; p++)
        plain = is_name_char(*p);
    if (plain) {
        cm_buf_str(out, name);
        return;
    }
    cm_buf_str(out, "'");
    for (const char *p = name; *p; p++) {
        if (*p == '\'' || *p == '\\')
            cm_buf_str(out, "\\");
        cm_buf_bytes(out, p, 1);
    }
    cm_buf_str(out, "'");
}

/* In parentheses unless it is one term, and as a divisor one factor, with no sign. */
static void print_operand(const cm_dim_table *t, cm_dim d, bool divisor, cm_buf *out)
{
    bool bare = d >= 0;
    if (!bare) {
        const dim_expr *e = dim_expr_of(t, d);
        bare = e->n == 1 && e->terms[0].coeff > 0 &&
               (!divisor || (e->terms[0].coeff == 1 && t->monos[e->terms[0].mono].n == 1));
    }
    cm_buf_str(out, bare ? "" : "(");
    cm_dim_print(t, d, out);
    cm_buf_str(out, bare ? "" : ")");
}

/* The operands of left-nested atoms of one kind, separated by commas. */
static void print_list(const cm_dim_table *t, const dim_atom *f, cm_buf *out)
{
    const dim_expr *e = f->a < 0 ? dim_expr_of(t, f->a) : NULL;
    const dim_mono *m =
        e && e->n == 1 && e->terms[0].coeff == 1 ? &t->monos[e->terms[0].mono] : NULL;
    const dim_atom *inner = m && m->n == 1 ? &t->atoms[m->atoms[0]] : NULL;
    if (inner && inner->kind == f->kind)
        print_list(t, inner, out);
    else
        cm_dim_print(t, f->a, out);
    cm_buf_str(out, ", ");
    cm_dim_print(t, f->b, out);
}

static const char *const function_names[ATOM_KIND_COUNT] = {
    [ATOM_FLOOR] = "floor", [ATOM_CEIL] = "ceil",           [ATOM_MIN] = "min",
    [ATOM_MAX] = "max",     [ATOM_BROADCAST] = "broadcast",
};

static void print_atom(const cm_dim_table *t, const dim_atom *f, cm_buf *out)
{
    if (f->kind == ATOM_SYMBOL) {
        print_name(f->name, out);
        return;
    }
    cm_buf_printf(out, "%s(", function_names[f->kind]);
    if (f->kind == ATOM_FLOOR || f->kind == ATOM_CEIL) {
        print_operand(t, f->a, false, out);
        cm_buf_str(out, "/");
        print_operand(t, f->b, true, out);
    } else {
        print_list(t, f, out);
    }
    cm_buf_str(out, ")");
}

static void print_term(const cm_dim_table *t, dim_term term, bool first, cm_buf *out)
{
    const dim_mono *m = &t->monos[term.mono];
    uint64_t c = term.coeff < 0 ? 0 - (uint64_t)term.coeff : (uint64_t)term.coeff;
    if (first)
        cm_buf_str(out, term.coeff < 0 ? "-" : "");
    else
        cm_buf_str(out, term.coeff < 0 ? " - " : " + ");
    if (c != 1 || m->n == 0)
        cm_buf_printf(out, "%llu%s", (unsigned long long)c, m->n ? "*" : "");
    for (int i = 0; i < m->n; i++) {
        cm_buf_str(out, i ? "*" : "");
        print_atom(t, &t->atoms[m->atoms[i]], out);
    }
}

void cm_dim_print(const cm_dim_table *t, cm_dim d, cm_buf *out)
{
    if (d >= 0) {
        cm_buf_printf(out, "%lld", (long long)d);
        return;
    }
    if (d == CM_DIM_ERROR || !t) {
        cm_buf_str(out, "?");
        return;
    }
    const dim_expr *e = dim_expr_of(t, d);
    int first = 0; /* a positive term leads where there is one: 2 - h */
    while (first < e->n && e->terms[first].coeff < 0)
        first++;
    if (first == e->n)
        first = 0;
    print_term(t, e->terms[first], true, out);
    for (int i = 0; i < e->n; i++) {
        if (i != first)
            print_term(t, e->terms[i], false, out);
    }
}

typedef struct parser {
    cm_ctx *cx;
    cm_dim_table *t;
    const char *text, *at, *end;
    int depth;
} parser;

static cm_status fail_parse(parser *p, const char *wanted)
{
    int n = (int)cm_min_i64(p->end - p->text, 200);
    return cm_fail(p->cx, CM_ERR_ARGUMENT, "dim '%.*s': wanted %s at character %lld", n, p->text,
                   wanted, (long long)(p->at - p->text) + 1);
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
}

/* Step over `s` if it comes next. */
static bool take(parser *p, const char *s)
{
    size_t n = strlen(s);
    skip_space(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, s, n) != 0)
        return false;
    p->at += n;
    return true;
}

static cm_status want(parser *p, const char *s)
{
    return take(p, s) ? CM_OK : fail_parse(p, s);
}

static cm_status check(parser *p, cm_dim d)
{
    if (d == CM_DIM_ERROR)
        return cm_fail(p->cx, CM_ERR_ARGUMENT,
                       "dim '%.*s' divides by zero, overflows or is too large",
                       (int)cm_min_i64(p->end - p->text, 200), p->text);
    return CM_OK;
}

static cm_status parse_expression(parser *p, cm_dim *out);
static cm_status parse_factor(parser *p, cm_dim *out);

static cm_status parse_number(parser *p, cm_dim *out)
{
    int64_t v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (!cm_mul_i64(v, 10, &v) || !cm_add_i64(v, *p->at - '0', &v))
            return fail_parse(p, "a number of 64 bits");
    }
    *out = v;
    return CM_OK;
}

static cm_status make_symbol(parser *p, const char *name, cm_dim *out)
{
    *out = cm_dim_symbol(p->t, name, CM_DIM_SIZE);
    return *out == CM_DIM_ERROR ? cm_fail_memory(p->cx) : CM_OK;
}

static cm_status parse_quoted(parser *p, cm_dim *out)
{
    cm_arena_mark mark = cm_arena_save(&p->t->work);
    char *name = cm_arena_alloc_n(&p->t->work, (size_t)(p->end - p->at) + 1, 1, 1, 0);
    size_t n = 0;
    if (!name)
        return cm_fail_memory(p->cx);
    for (p->at++; p->at < p->end && *p->at != '\''; p->at++) {
        if (*p->at == '\\' && p->at + 1 < p->end)
            p->at++;
        if (*p->at == 0)
            break;
        name[n++] = *p->at;
    }
    name[n] = 0;
    cm_status st =
        p->at < p->end && *p->at == '\'' ? make_symbol(p, name, out) : fail_parse(p, "a closing '");
    p->at++;
    cm_arena_restore(&p->t->work, mark);
    return st;
}

static cm_status parse_term(parser *p, cm_dim *out)
{
    cm_dim b;
    CM_TRY(parse_factor(p, out));
    for (;;) {
        if (take(p, "*")) {
            CM_TRY(parse_factor(p, &b));
            *out = cm_dim_mul(p->t, *out, b);
        } else if (take(p, "//")) {
            CM_TRY(parse_factor(p, &b));
            *out = cm_dim_floor_div(p->t, *out, b);
        } else if (take(p, "%")) {
            CM_TRY(parse_factor(p, &b));
            *out = cm_dim_mod(p->t, *out, b);
        } else {
            return CM_OK;
        }
        CM_TRY(check(p, *out));
    }
}

typedef cm_dim (*binary)(cm_dim_table *t, cm_dim a, cm_dim b);

/* After "name(". */
static cm_status parse_call(parser *p, binary fn, bool quotient, cm_dim *out)
{
    cm_dim b;
    if (quotient) {
        CM_TRY(parse_term(p, out));
        CM_TRY(want(p, "/"));
        CM_TRY(parse_factor(p, &b));
        *out = fn(p->t, *out, b);
    } else {
        CM_TRY(parse_expression(p, out));
        while (take(p, ",")) {
            CM_TRY(parse_expression(p, &b));
            *out = fn(p->t, *out, b);
            CM_TRY(check(p, *out));
        }
    }
    CM_TRY(check(p, *out));
    return want(p, ")");
}

static const struct {
    const char *name;
    binary fn;
    bool quotient;
} functions[] = {
    {"floor", cm_dim_floor_div, true}, {"ceil", cm_dim_ceil_div, true},
    {"mod", cm_dim_mod, false},        {"min", cm_dim_min, false},
    {"max", cm_dim_max, false},        {"broadcast", cm_dim_broadcast, false},
};

static cm_status parse_name(parser *p, cm_dim *out)
{
    const char *start = p->at;
    while (p->at < p->end && is_name_char(*p->at))
        p->at++;
    size_t n = (size_t)(p->at - start);
    for (int i = 0; i < CM_COUNT(functions); i++) {
        if (strlen(functions[i].name) == n && memcmp(functions[i].name, start, n) == 0 &&
            take(p, "("))
            return parse_call(p, functions[i].fn, functions[i].quotient, out);
    }
    cm_arena_mark mark = cm_arena_save(&p->t->work);
    char *name = cm_arena_strndup(&p->t->work, start, n);
    cm_status st = name ? make_symbol(p, name, out) : cm_fail_memory(p->cx);
    cm_arena_restore(&p->t->work, mark);
    return st;
}

static cm_status parse_nested_factor(parser *p, cm_dim *out)
{
    if (take(p, "(")) {
        CM_TRY(parse_expression(p, out));
        return want(p, ")");
    }
    if (take(p, "-")) {
        CM_TRY(parse_factor(p, out));
        *out = cm_dim_sub(p->t, 0, *out);
        return check(p, *out);
    }
    skip_space(p);
    if (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        return parse_number(p, out);
    if (p->at < p->end && *p->at == '\'')
        return parse_quoted(p, out);
    if (p->at < p->end && is_name_start(*p->at))
        return parse_name(p, out);
    return fail_parse(p, "a number or a name");
}

static cm_status parse_factor(parser *p, cm_dim *out)
{
    if (p->depth == 2 * DIM_MAX_DEPTH)
        return fail_parse(p, "less nesting");
    p->depth++;
    cm_status st = parse_nested_factor(p, out);
    p->depth--;
    return st;
}

static cm_status parse_expression(parser *p, cm_dim *out)
{
    cm_dim b;
    CM_TRY(parse_term(p, out));
    for (;;) {
        bool minus = take(p, "-");
        if (!minus && !take(p, "+"))
            return CM_OK;
        CM_TRY(parse_term(p, &b));
        *out = minus ? cm_dim_sub(p->t, *out, b) : cm_dim_add(p->t, *out, b);
        CM_TRY(check(p, *out));
    }
}

cm_status cm_dim_parse(cm_ctx *cx, cm_dim_table *t, const char *text, size_t n, cm_dim *out)
{
    parser p = {.cx = cx, .t = t, .text = text, .at = text, .end = text + n};
    cm_dim d;
    CM_TRY(parse_expression(&p, &d));
    skip_space(&p);
    if (p.at != p.end)
        return fail_parse(&p, "the end");
    *out = d;
    return CM_OK;
}
