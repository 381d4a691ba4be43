/* dim_div.c -- quotients of dims, brought to one form.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An exact quotient is a polynomial. Of any other, whole multiples of the divisor are taken out
 * and common factors cancelled; what is left becomes an atom. Over a number k > 0:
 *
 *     floor((5*h - 1)/4)           is   h + floor((h + 3)/4) - 1
 *     floor((2*h + 1)/4)           is   floor(h/2)
 *     floor((floor(h/2) + 1)/2)    is   floor((h + 2)/4)
 *     floor(-h/2)                  is   -floor((h + 1)/2)
 *     ceil(h/2)                    is   floor((h + 1)/2)
 *     h mod 2                      is   h - 2*floor(h/2)
 *
 * Over anything else ceil is an atom of its own, since there the last but one rule would need to
 * know the divisor's sign; floor(-h/w) is -ceil(h/w). */
#include <stdlib.h>

#include "base/size.h"
#include "plan/dim_impl.h"

enum { MAX_ROUNDS = 4 * DIM_MAX_DEPTH }; /* of rules applied to one quotient */

/* A quotient being worked out: whole + sign * floor-or-ceil(rest / divisor). */
typedef struct quotient {
    poly whole;
    int sign;
    bool up; /* ceil */
    poly rest, divisor;
} quotient;

static int64_t gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

static bool negate(cm_dim_table *t, poly *p)
{
    return dim_poly_add(t, (poly){0, NULL}, *p, -1, p);
}

static bool is_number(poly p)
{
    return p.n == 1 && p.terms[0].mono == EMPTY_MONO;
}

static bool same_terms(poly a, poly b)
{
    bool same = a.n == b.n;
    for (int i = 0; same && i < a.n; i++)
        same = a.terms[i].coeff == b.terms[i].coeff && a.terms[i].mono == b.terms[i].mono;
    return same;
}

static dim_term *copy_terms(cm_dim_table *t, poly p)
{
    dim_term *terms = cm_arena_alloc_n(&t->work, (size_t)p.n, sizeof *terms, 16, 0);
    for (int i = 0; terms && i < p.n; i++)
        terms[i] = p.terms[i];
    return terms;
}

/* Take whole multiples of a one-term divisor out of the rest. Coefficients left keep their sign, so
 * that floor((w - h)/2) stays as it is; the number left is in [0, k). */
static bool take_out(cm_dim_table *t, quotient *q)
{
    dim_term by = q->divisor.terms[0];
    dim_term *taken = copy_terms(t, q->rest), *left = copy_terms(t, q->rest);
    int n_taken = 0, n_left = 0;
    if (!taken || !left)
        return false;
    for (int i = 0; i < q->rest.n; i++) {
        dim_term term = q->rest.terms[i];
        int32_t mono = dim_mono_div(t, term.mono, by.mono);
        if (mono >= 0) {
            int64_t c =
                mono == EMPTY_MONO ? cm_floor_div(term.coeff, by.coeff) : term.coeff / by.coeff;
            if (c)
                taken[n_taken++] = (dim_term){c, mono};
            term.coeff -= c * by.coeff;
        }
        if (term.coeff)
            left[n_left++] = term;
    }
    q->rest = (poly){n_left, left};
    return dim_poly_add(t, q->whole, (poly){n_taken, taken}, q->sign, &q->whole);
}

/* The greatest common factor of *by and the terms of p, but for p's number when `skip_number`. */
static bool common_factor(cm_dim_table *t, poly p, bool skip_number, dim_term *by)
{
    for (int i = 0; i < p.n; i++) {
        if (skip_number && p.terms[i].mono == EMPTY_MONO)
            continue;
        by->coeff = gcd(by->coeff, p.terms[i].coeff);
        by->mono = dim_mono_gcd(t, by->mono, p.terms[i].mono);
        if (by->mono < 0)
            return false;
    }
    return true;
}

/* p over one term; numbers that it does not divide are rounded down. */
static bool div_terms(cm_dim_table *t, poly *p, dim_term by)
{
    dim_term *terms = copy_terms(t, *p);
    int n = 0;
    if (!terms)
        return false;
    for (int i = 0; i < p->n; i++) {
        dim_term term = {cm_floor_div(terms[i].coeff, by.coeff),
                         dim_mono_div(t, terms[i].mono, by.mono)};
        if (term.mono < 0)
            return false;
        if (term.coeff)
            terms[n++] = term;
    }
    *p = (poly){n, terms};
    return true;
}

/* Divide rest and divisor by their common factor. Over a number the rest's number does not count:
 * floor((2*x + 1)/4) is floor(x/2). */
static bool cancel(cm_dim_table *t, quotient *q)
{
    dim_term by = {0, q->divisor.terms[0].mono};
    if (!common_factor(t, q->divisor, false, &by) ||
        !common_factor(t, q->rest, is_number(q->divisor), &by))
        return false;
    if (by.coeff <= 1 && by.mono == EMPTY_MONO)
        return true;
    return div_terms(t, &q->rest, by) && div_terms(t, &q->divisor, by);
}

/* floor(N/k) is -floor((-N + k - 1)/k). */
static bool turn(cm_dim_table *t, quotient *q, int64_t k)
{
    dim_term last = {k - 1, EMPTY_MONO};
    q->sign = -q->sign;
    return negate(t, &q->rest) && dim_poly_add(t, q->rest, (poly){k > 1, &last}, 1, &q->rest);
}

/* floor((floor(x/a) + y)/k) is floor((x + a*y)/(a*k)), where there is one such inner quotient. False:
 * left as it was. */
static bool flatten(cm_dim_table *t, quotient *q, int64_t k)
{
    int at = -1;
    for (int i = 0; i < q->rest.n; i++) {
        const dim_mono *m = &t->monos[q->rest.terms[i].mono];
        const dim_atom *a = m->n == 1 ? &t->atoms[m->atoms[0]] : NULL;
        if (!a || a->kind != ATOM_FLOOR || a->b <= 0)
            continue;
        if (at >= 0 || q->rest.terms[i].coeff != 1)
            return false;
        at = i;
    }
    if (at < 0)
        return false;
    dim_term term = q->rest.terms[at], one;
    dim_atom inner = t->atoms[t->monos[term.mono].atoms[0]];
    poly rest;
    int64_t product;
    if (!cm_mul_i64(k, inner.b, &product) ||
        !dim_poly_add(t, q->rest, (poly){1, &term}, -1, &rest) ||
        !dim_poly_add(t, dim_poly(t, inner.a, &one), rest, inner.b, &rest))
        return false;
    dim_term *divisor = cm_arena_alloc_n(&t->work, 1, sizeof *divisor, 16, 0);
    if (!divisor)
        return false;
    *divisor = (dim_term){product, EMPTY_MONO};
    q->rest = rest;
    q->divisor = (poly){1, divisor};
    return true;
}

/* Over a number k > 0, rounding down. */
static bool reduce_by_number(cm_dim_table *t, quotient *q)
{
    for (int i = 0; i < MAX_ROUNDS; i++) {
        int64_t k = q->divisor.terms[0].coeff;
        if (!take_out(t, q))
            return false;
        if (q->rest.n == 0)
            return true;
        dim_term lead = q->rest.terms[0];
        if (lead.mono == EMPTY_MONO) { /* a number in [0, k) */
            q->rest.n = 0;
            return true;
        }
        if (lead.coeff < 0) {
            if (!turn(t, q, k))
                return false;
            continue;
        }
        if (!cancel(t, q))
            return false;
        if (q->divisor.terms[0].coeff == k && !flatten(t, q, k))
            return true;
    }
    return false;
}

/* ceil(N/k) is floor((N + k - 1)/k). */
static bool turn_down(cm_dim_table *t, quotient *q)
{
    dim_term last = {q->divisor.terms[0].coeff - 1, EMPTY_MONO};
    q->up = false;
    return dim_poly_add(t, q->rest, (poly){last.coeff > 0, &last}, 1, &q->rest);
}

static bool reduce_by_poly(cm_dim_table *t, quotient *q)
{
    poly exact;
    for (int i = 0; i < MAX_ROUNDS; i++) {
        if (is_number(q->divisor))
            return (!q->up || turn_down(t, q)) && reduce_by_number(t, q);
        if (dim_poly_div_exact(t, q->rest, q->divisor, &exact)) {
            q->rest.n = 0;
            return dim_poly_add(t, q->whole, exact, q->sign, &q->whole);
        }
        poly divisor = q->divisor, rest;
        if (!cancel(t, q))
            return false;
        rest = q->rest;
        if (q->divisor.n == 1 && !take_out(t, q))
            return false;
        if (q->rest.n && q->rest.terms[0].coeff < 0) { /* floor(-N/D) is -ceil(N/D) */
            q->sign = -q->sign;
            q->up = !q->up;
            if (!negate(t, &q->rest))
                return false;
            continue;
        }
        if (q->divisor.terms == divisor.terms && same_terms(q->rest, rest))
            return true;
    }
    return false;
}

/* The value of floor(rest/divisor) when bounds alone tell it. */
static bool known(cm_dim_table *t, const quotient *q, int64_t *value)
{
    range a = dim_poly_range(t, q->rest);
    int64_t k;
    if (dim_poly_is_const(q->divisor, &k)) {
        if (a.lo == INT64_MIN || a.hi == INT64_MAX)
            return false;
        *value = cm_floor_div(a.lo, k);
        return *value == cm_floor_div(a.hi, k);
    }
    poly over;
    *value = 0;
    return !q->up && a.lo >= 0 && dim_poly_add(t, q->divisor, q->rest, -1, &over) &&
           dim_poly_range(t, over).lo >= 1;
}

static cm_dim finish(cm_dim_table *t, const quotient *q)
{
    poly sum = q->whole;
    if (q->rest.n) {
        dim_term last = {0, EMPTY_MONO};
        if (!known(t, q, &last.coeff)) {
            cm_dim a = dim_intern_poly(t, q->rest), b = dim_intern_poly(t, q->divisor);
            if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
                return CM_DIM_ERROR;
            int32_t atom = dim_intern_function(t, q->up ? ATOM_CEIL : ATOM_FLOOR, a, b);
            if (atom < 0 || (last.mono = dim_intern_mono(t, &atom, 1)) < 0)
                return CM_DIM_ERROR;
            last.coeff = 1;
        }
        if (!dim_poly_add(t, sum, (poly){last.coeff != 0, &last}, q->sign, &sum))
            return CM_DIM_ERROR;
    }
    return dim_intern_poly(t, sum);
}

static cm_dim divide(cm_dim_table *t, cm_dim a, cm_dim b, bool up)
{
    dim_term one_a, one_b;
    quotient q = {.sign = 1, .up = up};
    q.rest = dim_poly(t, a, &one_a);
    q.divisor = dim_poly(t, b, &one_b);
    if (q.divisor.terms[0].coeff < 0 && (!negate(t, &q.rest) || !negate(t, &q.divisor)))
        return CM_DIM_ERROR;
    return reduce_by_poly(t, &q) ? finish(t, &q) : CM_DIM_ERROR;
}

static cm_dim checked_divide(cm_dim_table *t, cm_dim a, cm_dim b, bool up)
{
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR || b == 0)
        return CM_DIM_ERROR;
    if (b == 1)
        return a;
    if (a >= 0 && b >= 0)
        return up ? cm_ceil_div(a, b) : cm_floor_div(a, b);
    cm_arena_mark mark = cm_arena_save(&t->work);
    cm_dim d = divide(t, a, b, up);
    cm_arena_restore(&t->work, mark);
    return d;
}

cm_dim cm_dim_floor_div(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return checked_divide(t, a, b, false);
}

cm_dim cm_dim_ceil_div(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return checked_divide(t, a, b, true);
}

cm_dim cm_dim_mod(cm_dim_table *t, cm_dim a, cm_dim b)
{
    return cm_dim_sub(t, a, cm_dim_mul(t, b, cm_dim_floor_div(t, a, b)));
}
