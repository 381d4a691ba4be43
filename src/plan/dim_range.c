/* dim_range.c -- bounds on the values of dims: interval arithmetic, and one step better for what
 * floor-div leaves over (h - 2*floor(h/2) is 0 or 1) and for min and max (h - min(h, 5) >= 0).
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "plan/dim_impl.h"

static const range unknown = {INT64_MIN, INT64_MAX};

/* Sums of lower and of upper bounds; no bound and anything is no bound. */
static int64_t add_lo(int64_t a, int64_t b)
{
    int64_t r;
    if (a == INT64_MIN || b == INT64_MIN)
        return INT64_MIN;
    if (a == INT64_MAX || b == INT64_MAX)
        return INT64_MAX;
    return cm_add_i64(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t add_hi(int64_t a, int64_t b)
{
    int64_t r;
    if (a == INT64_MAX || b == INT64_MAX)
        return INT64_MAX;
    if (a == INT64_MIN || b == INT64_MIN)
        return INT64_MIN;
    return cm_add_i64(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t mul_bound(int64_t a, int64_t b)
{
    int64_t r;
    bool unbounded = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    if (a == 0 || b == 0)
        return 0;
    if (!unbounded && cm_mul_i64(a, b, &r))
        return r;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static range mul_range(range a, range b)
{
    int64_t v[4] = {mul_bound(a.lo, b.lo), mul_bound(a.lo, b.hi), mul_bound(a.hi, b.lo),
                    mul_bound(a.hi, b.hi)};
    range r = {v[0], v[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = cm_min_i64(r.lo, v[i]);
        r.hi = cm_max_i64(r.hi, v[i]);
    }
    return r;
}

range dim_mono_range(const cm_dim_table *t, const int32_t *atoms, int n)
{
    range r = {1, 1};
    for (int i = 0; i < n; i++)
        r = mul_range(r, t->atoms[atoms[i]].head.range);
    return r;
}

static range interval(const cm_dim_table *t, poly p)
{
    range sum = {0, 0};
    for (int i = 0; i < p.n; i++) {
        range c = {p.terms[i].coeff, p.terms[i].coeff};
        range r = mul_range(t->monos[p.terms[i].mono].head.range, c);
        sum = (range){add_lo(sum.lo, r.lo), add_hi(sum.hi, r.hi)};
    }
    return sum;
}

enum { RELAX_TERMS = 48 }; /* longer polynomials are not relaxed */

typedef struct {
    int n;
    dim_term terms[RELAX_TERMS];
} small_poly;

/* *p += k*term; the order of terms does not matter here. */
static bool add_term(small_poly *p, int64_t k, dim_term term)
{
    int64_t c;
    if (!cm_mul_i64(term.coeff, k, &c))
        return false;
    for (int i = 0; i < p->n; i++) {
        if (p->terms[i].mono == term.mono)
            return cm_add_i64(p->terms[i].coeff, c, &p->terms[i].coeff);
    }
    if (p->n == RELAX_TERMS)
        return false;
    p->terms[p->n++] = (dim_term){c, term.mono};
    return true;
}

/* Is the term a multiple of floor(a/k) for a number k? */
static const dim_atom *floor_by_number(const cm_dim_table *t, dim_term term)
{
    const dim_mono *m = &t->monos[term.mono];
    const dim_atom *a = m->n == 1 ? &t->atoms[m->atoms[0]] : NULL;
    return a && a->kind == ATOM_FLOOR && a->b > 0 ? a : NULL;
}

/* A bound for p, the lower one when `lower`: floor(a/k) lies in [(a - k + 1)/k, a/k], and with that
 * put in its place, much may cancel. The bound is that of `*relaxed` over `*scale`. */
static bool relax(const cm_dim_table *t, poly p, bool lower, small_poly *relaxed, int64_t *scale)
{
    bool any = false;
    *relaxed = (small_poly){0};
    *scale = 1;
    for (int i = 0; i < p.n; i++) {
        const dim_atom *f = floor_by_number(t, p.terms[i]);
        if (f) {
            any = true;
            if (!cm_mul_i64(*scale, f->b, scale))
                return false;
        }
    }
    if (!any)
        return false;
    for (int i = 0; i < p.n; i++) {
        const dim_atom *f = floor_by_number(t, p.terms[i]);
        int64_t c = p.terms[i].coeff, k;
        if (!f) {
            if (!add_term(relaxed, *scale, p.terms[i]))
                return false;
            continue;
        }
        if (!cm_mul_i64(c, *scale / f->b, &k))
            return false;
        dim_term one;
        poly a = dim_poly(t, f->a, &one);
        for (int j = 0; j < a.n; j++) {
            if (!add_term(relaxed, k, a.terms[j]))
                return false;
        }
        if ((c > 0) == lower && !add_term(relaxed, k, (dim_term){1 - f->b, EMPTY_MONO}))
            return false;
    }
    return true;
}

/* min(a, b) is at most a and at most b, max(a, b) at least: put one of them in the place of term
 * `at`. True when the result bounds p, from below when `lower`. */
static bool relax_choice(const cm_dim_table *t, poly p, int at, bool lower, bool second,
                         small_poly *relaxed)
{
    const dim_mono *m = &t->monos[p.terms[at].mono];
    const dim_atom *f = m->n == 1 ? &t->atoms[m->atoms[0]] : NULL;
    if (!f || (f->kind != ATOM_MIN && f->kind != ATOM_MAX))
        return false;
    if (((f->kind == ATOM_MAX) == (p.terms[at].coeff > 0)) != lower)
        return false;
    *relaxed = (small_poly){0};
    for (int i = 0; i < p.n; i++) {
        if (i != at && !add_term(relaxed, 1, p.terms[i]))
            return false;
    }
    dim_term one;
    poly a = dim_poly(t, second ? f->b : f->a, &one);
    for (int i = 0; i < a.n; i++) {
        if (!add_term(relaxed, p.terms[at].coeff, a.terms[i]))
            return false;
    }
    return true;
}

static range choice_range(const cm_dim_table *t, poly p, range r)
{
    small_poly q;
    for (int i = 0; i < p.n && i < RELAX_TERMS; i++) {
        for (int second = 0; second < 2; second++) {
            if (relax_choice(t, p, i, true, second, &q))
                r.lo = cm_max_i64(r.lo, interval(t, (poly){q.n, q.terms}).lo);
            if (relax_choice(t, p, i, false, second, &q))
                r.hi = cm_min_i64(r.hi, interval(t, (poly){q.n, q.terms}).hi);
        }
    }
    return r;
}

range dim_poly_range(const cm_dim_table *t, poly p)
{
    range r = interval(t, p);
    small_poly q;
    int64_t scale;
    if (p.n < 2)
        return r;
    r = choice_range(t, p, r);
    if (relax(t, p, true, &q, &scale)) {
        int64_t lo = interval(t, (poly){q.n, q.terms}).lo;
        if (lo != INT64_MIN)
            r.lo = cm_max_i64(r.lo, cm_ceil_div(lo, scale));
    }
    if (relax(t, p, false, &q, &scale)) {
        int64_t hi = interval(t, (poly){q.n, q.terms}).hi;
        if (hi != INT64_MAX)
            r.hi = cm_min_i64(r.hi, cm_floor_div(hi, scale));
    }
    return r;
}

range dim_range(const cm_dim_table *t, cm_dim d)
{
    return d >= 0 ? (range){d, d} : dim_expr_of(t, d)->head.range;
}

static range quotient_range(range a, range b)
{
    if (b.lo == b.hi && b.lo > 0) {
        return (range){a.lo == INT64_MIN ? a.lo : cm_floor_div(a.lo, b.lo),
                       a.hi == INT64_MAX ? a.hi : cm_floor_div(a.hi, b.lo)};
    }
    if (a.lo >= 0 && b.lo >= 0) /* a divisor of 0 has no value at all */
        return (range){0, a.hi};
    return unknown;
}

range dim_function_range(const cm_dim_table *t, atom_kind kind, cm_dim x, cm_dim y)
{
    range a = dim_range(t, x), b = dim_range(t, y);
    switch (kind) {
    case ATOM_FLOOR:
        return quotient_range(a, b);
    case ATOM_CEIL:
        return a.lo >= 0 && b.lo >= 0 ? (range){0, a.hi} : unknown;
    case ATOM_MIN:
        return (range){cm_min_i64(a.lo, b.lo), cm_min_i64(a.hi, b.hi)};
    case ATOM_MAX:
        return (range){cm_max_i64(a.lo, b.lo), cm_max_i64(a.hi, b.hi)};
    case ATOM_BROADCAST:
        return (range){cm_min_i64(a.lo, b.lo), cm_max_i64(a.hi, b.hi)};
    default:
        return unknown;
    }
}
