/* dim.c -- arithmetic on dims, what is known of them, and their values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/dim.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "plan/dim_impl.h"

bool cm_dim_valid(const cm_dim_table *t, cm_dim d)
{
    return d >= 0 || (t && d != CM_DIM_ERROR && -(d + 1) < t->n_exprs);
}

bool cm_dim_is_const(const cm_dim_table *t, cm_dim d, int64_t *out)
{
    if (d >= 0) {
        *out = d;
        return true;
    }
    if (d == CM_DIM_ERROR || !t)
        return false;
    const dim_expr *e = dim_expr_of(t, d);
    return dim_poly_is_const((poly){e->n, e->terms}, out);
}

cm_dim cm_dim_const(cm_dim_table *t, int64_t v)
{
    dim_term term = {v, EMPTY_MONO};
    return v >= 0 ? v : dim_intern_poly(t, (poly){1, &term});
}

cm_dim cm_dim_symbol(cm_dim_table *t, const char *name, cm_dim_sign sign)
{
    return dim_bare(t, dim_intern_symbol(t, name, sign));
}

cm_dim cm_dim_fresh(cm_dim_table *t, const char *hint, cm_dim_sign sign)
{
    char name[128];
    do
        snprintf(name, sizeof name, "%.100s_%d", hint, t->n_fresh++);
    while (dim_find_symbol_atom(t, name) >= 0);
    return cm_dim_symbol(t, name, sign);
}

int cm_dim_symbol_count(const cm_dim_table *t)
{
    return t->n_symbols;
}

const char *cm_dim_symbol_name(const cm_dim_table *t, int symbol)
{
    return t->atoms[t->symbols[symbol]].name;
}

cm_dim_sign cm_dim_symbol_sign(const cm_dim_table *t, int symbol)
{
    return t->atoms[t->symbols[symbol]].sign;
}

int cm_dim_symbol_index(const cm_dim_table *t, cm_dim d)
{
    if (d >= 0 || d == CM_DIM_ERROR)
        return -1;
    const dim_expr *e = dim_expr_of(t, d);
    const dim_mono *m = &t->monos[e->terms[0].mono];
    if (e->n != 1 || e->terms[0].coeff != 1 || m->n != 1)
        return -1;
    const dim_atom *a = &t->atoms[m->atoms[0]];
    return a->kind == ATOM_SYMBOL ? a->ordinal : -1;
}

int cm_dim_find_symbol(const cm_dim_table *t, const char *name)
{
    int32_t atom = dim_find_symbol_atom(t, name);
    return atom < 0 ? -1 : t->atoms[atom].ordinal;
}

/* a + k*b */
static cm_dim add_scaled(cm_dim_table *t, cm_dim a, cm_dim b, int64_t k)
{
    int64_t product, sum;
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    if (a >= 0 && b >= 0 && cm_mul_i64(b, k, &product) && cm_add_i64(a, product, &sum) && sum >= 0)
        return sum;
    if (!t)
        return CM_DIM_ERROR;
    dim_term one_a, one_b;
    poly p;
    cm_arena_mark mark = cm_arena_save(&t->work);
    bool ok = dim_poly_add(t, dim_poly(t, a, &one_a), dim_poly(t, b, &one_b), k, &p);
    cm_dim d = ok ? dim_intern_poly(t, p) : CM_DIM_ERROR;
    cm_arena_restore(&t->work, mark);
    return d;
}

cm_dim cm_dim_add(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return add_scaled(t, a, b, 1);
}

cm_dim cm_dim_sub(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return add_scaled(t, a, b, -1);
}

cm_dim cm_dim_mul(cm_dim_table *t, cm_dim a, cm_dim b)
{
    int64_t product;
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    if ((a >= 0 && b >= 0) || !t)
        return cm_mul_i64(a, b, &product) ? product : CM_DIM_ERROR;
    dim_term one_a, one_b;
    poly p;
    cm_arena_mark mark = cm_arena_save(&t->work);
    bool ok = dim_poly_mul(t, dim_poly(t, a, &one_a), dim_poly(t, b, &one_b), &p);
    cm_dim d = ok ? dim_intern_poly(t, p) : CM_DIM_ERROR;
    cm_arena_restore(&t->work, mark);
    return d;
}

/* Bounds of a - b, without making it. */
static range difference(cm_dim_table *t, cm_dim a, cm_dim b)
{
    dim_term one_a, one_b;
    poly p;
    range r = {INT64_MIN, INT64_MAX};
    cm_arena_mark mark = cm_arena_save(&t->work);
    if (dim_poly_add(t, dim_poly(t, a, &one_a), dim_poly(t, b, &one_b), -1, &p))
        r = dim_poly_range(t, p);
    cm_arena_restore(&t->work, mark);
    return r;
}

/* Is f(a, b) surely one of the two? Then that one, else CM_DIM_ERROR. */
static cm_dim pick(cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b)
{
    if (a == b)
        return a;
    if (kind == ATOM_BROADCAST) {
        if (a == 1 || b == 1)
            return a == 1 ? b : a;
        int64_t v; /* what cannot be 1 wins */
        if (cm_dim_is_const(t, a, &v) || dim_range(t, a).lo > 1)
            return a;
        return cm_dim_is_const(t, b, &v) || dim_range(t, b).lo > 1 ? b : CM_DIM_ERROR;
    }
    range d = difference(t, a, b), ra = dim_range(t, a), rb = dim_range(t, b);
    if (d.lo >= 0 || ra.lo >= rb.hi)
        return kind == ATOM_MIN ? b : a;
    if (d.hi <= 0 || ra.hi <= rb.lo)
        return kind == ATOM_MIN ? a : b;
    return CM_DIM_ERROR;
}

enum { MAX_OPERANDS = 32 };

/* The operands of nested atoms of one kind: f(f(a, b), c) has a, b, c. False: too many. */
static bool operands(const cm_dim_table *t, atom_kind kind, cm_dim d, cm_dim *list, int *n)
{
    if (d < 0) {
        const dim_expr *e = dim_expr_of(t, d);
        const dim_mono *m = &t->monos[e->terms[0].mono];
        const dim_atom *a = m->n == 1 ? &t->atoms[m->atoms[0]] : NULL;
        if (e->n == 1 && e->terms[0].coeff == 1 && a && a->kind == kind)
            return operands(t, kind, a->a, list, n) && operands(t, kind, a->b, list, n);
    }
    if (*n == MAX_OPERANDS)
        return false;
    list[(*n)++] = d;
    return true;
}

/* Add an operand; what another one surely covers is left out. */
static int add_operand(cm_dim_table *t, atom_kind kind, cm_dim *list, int n, cm_dim d)
{
    for (int i = 0; i < n; i++) {
        cm_dim one = pick(t, kind, list[i], d);
        if (one == CM_DIM_ERROR)
            continue;
        memmove(list + i, list + i + 1, (size_t)(n - i - 1) * sizeof *list);
        return add_operand(t, kind, list, n - 1, one);
    }
    int at = n;
    while (at > 0 && dim_compare(t, d, list[at - 1]) < 0)
        at--;
    memmove(list + at + 1, list + at, (size_t)(n - at) * sizeof *list);
    list[at] = d;
    return n + 1;
}

/* min, max, broadcast: associative, commutative, idempotent. Operands are sorted, then nested to the
 * left. */
static cm_dim combine(cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b)
{
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    cm_dim all[MAX_OPERANDS], list[MAX_OPERANDS] = {0};
    int n_all = 0, n = 0;
    if (!operands(t, kind, a, all, &n_all) || !operands(t, kind, b, all, &n_all))
        return CM_DIM_ERROR;
    for (int i = 0; i < n_all; i++)
        n = add_operand(t, kind, list, n, all[i]);
    cm_dim d = list[0];
    for (int i = 1; i < n && d != CM_DIM_ERROR; i++)
        d = dim_bare(t, dim_intern_function(t, kind, d, list[i]));
    return d;
}

cm_dim cm_dim_min(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return a >= 0 && b >= 0 ? cm_min_i64(a, b) : combine(t, ATOM_MIN, a, b);
}

cm_dim cm_dim_max(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return a >= 0 && b >= 0 ? cm_max_i64(a, b) : combine(t, ATOM_MAX, a, b);
}

cm_dim cm_dim_broadcast(cm_dim_table *t, cm_dim a, cm_dim b)
{
    if (a >= 0 && b >= 0)
        return a == 1 ? b : b == 1 || a == b ? a : CM_DIM_ERROR;
    return combine(t, ATOM_BROADCAST, a, b);
}

bool cm_dim_never_equal(cm_dim_table *t, cm_dim a, cm_dim b)
{
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return false;
    if (a >= 0 && b >= 0)
        return a != b;
    range d = difference(t, a, b);
    return d.lo > 0 || d.hi < 0;
}

bool cm_dim_is_nonneg(const cm_dim_table *t, cm_dim d)
{
    return d != CM_DIM_ERROR && dim_range(t, d).lo >= 0;
}

int64_t cm_dim_most(const cm_dim_table *t, cm_dim d)
{
    return d == CM_DIM_ERROR ? INT64_MAX : dim_range(t, d).hi;
}

bool cm_dim_is_min(const cm_dim_table *t, cm_dim d, cm_dim *a, cm_dim *b)
{
    if (d >= 0 || d == CM_DIM_ERROR)
        return false;
    const dim_expr *e = dim_expr_of(t, d);
    const dim_mono *m = &t->monos[e->terms[0].mono];
    if (e->n != 1 || e->terms[0].coeff != 1 || m->n != 1 || t->atoms[m->atoms[0]].kind != ATOM_MIN)
        return false;
    *a = t->atoms[m->atoms[0]].a;
    *b = t->atoms[m->atoms[0]].b;
    return true;
}

bool cm_dim_assume(cm_dim_table *t, cm_dim d, int64_t lo, int64_t hi)
{
    if (d >= 0 || d == CM_DIM_ERROR)
        return false;
    range *r = &t->exprs[-(d + 1)].head.range;
    range narrow = {cm_max_i64(r->lo, lo), cm_min_i64(r->hi, hi)};
    if (narrow.lo > narrow.hi || (narrow.lo == r->lo && narrow.hi == r->hi))
        return false;
    *r = narrow;
    return true;
}

bool cm_dim_is_positive(const cm_dim_table *t, cm_dim d)
{
    return d != CM_DIM_ERROR && dim_range(t, d).lo >= 1;
}

static bool eval_function(const dim_atom *f, int64_t a, int64_t b, int64_t *out)
{
    switch (f->kind) {
    case ATOM_FLOOR:
    case ATOM_CEIL:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *out = a / b;
        if (a % b != 0)
            *out += f->kind == ATOM_CEIL ? (a < 0) == (b < 0) : -((a < 0) != (b < 0));
        return true;
    case ATOM_MIN:
        *out = cm_min_i64(a, b);
        return true;
    case ATOM_MAX:
        *out = cm_max_i64(a, b);
        return true;
    case ATOM_BROADCAST:
        *out = a == 1 ? b : a;
        return a == b || a == 1 || b == 1;
    default:
        return false;
    }
}

static bool eval_atom(const cm_dim_table *t, const dim_atom *f, const int64_t *values, int64_t *out)
{
    if (f->kind == ATOM_SYMBOL) {
        *out = values[f->ordinal];
        return *out != CM_DIM_UNBOUND;
    }
    int64_t a, b;
    return cm_dim_eval(t, f->a, values, &a) && cm_dim_eval(t, f->b, values, &b) &&
           eval_function(f, a, b, out);
}

bool cm_dim_eval(const cm_dim_table *t, cm_dim d, const int64_t *values, int64_t *out)
{
    if (d >= 0) {
        *out = d;
        return true;
    }
    if (d == CM_DIM_ERROR)
        return false;
    const dim_expr *e = dim_expr_of(t, d);
    int64_t sum = 0;
    for (int i = 0; i < e->n; i++) {
        const dim_mono *m = &t->monos[e->terms[i].mono];
        int64_t product = e->terms[i].coeff, v = 0;
        for (int k = 0; k < m->n; k++) {
            if (!eval_atom(t, &t->atoms[m->atoms[k]], values, &v) ||
                !cm_mul_i64(product, v, &product))
                return false;
        }
        if (!cm_add_i64(sum, product, &sum))
            return false;
    }
    *out = sum;
    return true;
}

static cm_dim apply(cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b)
{
    switch (kind) {
    case ATOM_FLOOR:
        return cm_dim_floor_div(t, a, b);
    case ATOM_CEIL:
        return cm_dim_ceil_div(t, a, b);
    case ATOM_MIN:
        return cm_dim_min(t, a, b);
    case ATOM_MAX:
        return cm_dim_max(t, a, b);
    case ATOM_BROADCAST:
        return cm_dim_broadcast(t, a, b);
    default:
        return CM_DIM_ERROR;
    }
}

static cm_dim substitute_atom(cm_dim_table *t, int32_t atom, const cm_dim *to, int n_to)
{
    dim_atom f = t->atoms[atom]; /* a copy: the array may move */
    if (f.kind == ATOM_SYMBOL) {
        bool changed = f.ordinal < n_to && to[f.ordinal] != CM_DIM_UNBOUND;
        return changed ? to[f.ordinal] : dim_bare(t, atom);
    }
    cm_dim a = cm_dim_substitute(t, f.a, to, n_to), b = cm_dim_substitute(t, f.b, to, n_to);
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    return a == f.a && b == f.b ? dim_bare(t, atom) : apply(t, f.kind, a, b);
}

cm_dim cm_dim_substitute(cm_dim_table *t, cm_dim d, const cm_dim *to, int n_to)
{
    if (d >= 0 || d == CM_DIM_ERROR)
        return d;
    dim_expr e = *dim_expr_of(t, d);
    cm_dim sum = 0;
    for (int i = 0; i < e.n && sum != CM_DIM_ERROR; i++) {
        dim_mono m = t->monos[e.terms[i].mono];
        cm_dim product = cm_dim_const(t, e.terms[i].coeff);
        for (int k = 0; k < m.n; k++)
            product = cm_dim_mul(t, product, substitute_atom(t, m.atoms[k], to, n_to));
        sum = cm_dim_add(t, sum, product);
    }
    return sum;
}
