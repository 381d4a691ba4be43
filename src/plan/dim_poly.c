/* dim_poly.c -- sums, products and exact quotients of polynomials.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/size.h"
#include "plan/dim_impl.h"

static dim_term *new_terms(cm_dim_table *t, size_t n)
{
    return cm_arena_alloc_n(&t->work, n, sizeof(dim_term), 16, 0);
}

bool dim_poly_add(cm_dim_table *t, poly a, poly b, int64_t k, poly *out)
{
    dim_term *sum = new_terms(t, (size_t)a.n + (size_t)b.n);
    int n = 0, i = 0, j = 0;
    if (!sum)
        return false;
    while (i < a.n || j < b.n) {
        int c = i == a.n   ? 1
                : j == b.n ? -1
                           : dim_compare_monos(t, a.terms[i].mono, b.terms[j].mono);
        dim_term term;
        if (c < 0) {
            term = a.terms[i++];
        } else {
            term.mono = b.terms[j].mono;
            if (!cm_mul_i64(b.terms[j].coeff, k, &term.coeff))
                return false;
            j++;
            if (c == 0 && !cm_add_i64(a.terms[i++].coeff, term.coeff, &term.coeff))
                return false;
        }
        if (term.coeff)
            sum[n++] = term;
    }
    *out = (poly){n, sum};
    return true;
}

static int32_t mono_mul(cm_dim_table *t, int32_t a, int32_t b)
{
    if (a == EMPTY_MONO || b == EMPTY_MONO)
        return a == EMPTY_MONO ? b : a;
    const dim_mono *x = &t->monos[a], *y = &t->monos[b];
    int32_t atoms[2 * DIM_MAX_DEGREE];
    int n = 0, i = 0, j = 0;
    while (i < x->n || j < y->n) {
        bool first = j == y->n || (i < x->n && dim_compare_atoms(t, x->atoms[i], y->atoms[j]) <= 0);
        atoms[n++] = first ? x->atoms[i++] : y->atoms[j++];
    }
    return dim_intern_mono(t, atoms, n);
}

int32_t dim_mono_div(cm_dim_table *t, int32_t a, int32_t b)
{
    if (b == EMPTY_MONO)
        return a;
    const dim_mono *x = &t->monos[a], *y = &t->monos[b];
    int32_t atoms[DIM_MAX_DEGREE];
    int n = 0, j = 0;
    for (int i = 0; i < x->n; i++) {
        if (j < y->n && x->atoms[i] == y->atoms[j])
            j++;
        else
            atoms[n++] = x->atoms[i];
    }
    return j == y->n ? dim_intern_mono(t, atoms, n) : -1;
}

int32_t dim_mono_gcd(cm_dim_table *t, int32_t a, int32_t b)
{
    const dim_mono *x = &t->monos[a], *y = &t->monos[b];
    int32_t atoms[DIM_MAX_DEGREE];
    int n = 0, i = 0, j = 0;
    while (i < x->n && j < y->n) {
        int c = dim_compare_atoms(t, x->atoms[i], y->atoms[j]);
        if (c == 0)
            atoms[n++] = x->atoms[i];
        i += c <= 0;
        j += c >= 0;
    }
    return dim_intern_mono(t, atoms, n);
}

/* p times one term: sorted as p is. */
static bool mul_term(cm_dim_table *t, poly p, dim_term by, poly *out)
{
    dim_term *r = new_terms(t, (size_t)p.n);
    if (!r)
        return false;
    for (int i = 0; i < p.n; i++) {
        r[i].mono = mono_mul(t, p.terms[i].mono, by.mono);
        if (r[i].mono < 0 || !cm_mul_i64(p.terms[i].coeff, by.coeff, &r[i].coeff))
            return false;
    }
    *out = (poly){p.n, r};
    return true;
}

static int64_t weight(const cm_dim_table *t, poly p)
{
    int64_t w = 0;
    for (int i = 0; i < p.n; i++)
        w += 1 + t->monos[p.terms[i].mono].head.weight;
    return w;
}

bool dim_poly_mul(cm_dim_table *t, poly a, poly b, poly *out)
{
    if (a.n > b.n) {
        poly swap = a;
        a = b;
        b = swap;
    }
    if (a.n == 0) {
        *out = a;
        return true;
    }
    if (a.n > 1 && weight(t, a) * b.n + weight(t, b) * a.n > 4 * DIM_MAX_WEIGHT)
        return false;
    poly sum = {0, NULL}, row;
    for (int i = 0; i < a.n; i++) {
        if (!mul_term(t, b, a.terms[i], &row) || !dim_poly_add(t, sum, row, 1, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* term a / term b, if it divides. */
static bool div_term(cm_dim_table *t, dim_term a, dim_term b, dim_term *out)
{
    if (a.coeff % b.coeff != 0 || (b.coeff == -1 && a.coeff == INT64_MIN))
        return false;
    out->coeff = a.coeff / b.coeff;
    out->mono = dim_mono_div(t, a.mono, b.mono);
    return out->mono >= 0;
}

bool dim_poly_div_exact(cm_dim_table *t, poly a, poly b, poly *out)
{
    dim_term last;
    if (b.n == 0 || (a.n == 1 && b.n > 1))
        return false;
    if (a.n && !div_term(t, a.terms[a.n - 1], b.terms[b.n - 1], &last))
        return false;
    /* Long division by leading terms; the quotient comes out in order. An exact quotient is seldom
     * longer than the dividend, and the bound keeps a vain attempt cheap. */
    int max = 4 * a.n + 4;
    dim_term *q = new_terms(t, (size_t)max);
    int n = 0;
    if (!q)
        return false;
    while (a.n) {
        poly part;
        if (n == max || !div_term(t, a.terms[0], b.terms[0], &q[n]))
            return false;
        if (!mul_term(t, b, q[n], &part) || !dim_poly_add(t, a, part, -1, &a))
            return false;
        n++;
    }
    *out = (poly){n, q};
    return true;
}
