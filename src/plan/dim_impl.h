/* dim_impl.h -- inside dim tables: atoms, monomials, polynomials. For dim*.c only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything is interned and named by a number: an atom (a symbol or a function of two dims), a
 * monomial (a sorted product of atoms), an expression (a polynomial: terms with different
 * monomials, none with coefficient 0, in descending order). Handle -1 is expression 0, -2 is 1...
 *
 * Monomials are ordered lexicographically by their atoms, atoms by name; the empty monomial is
 * last. That is a monomial order: multiplying two polynomials by the same term keeps both sorted,
 * and leading terms multiply, which the exact division relies on. */
#ifndef CM_PLAN_DIM_IMPL_H
#define CM_PLAN_DIM_IMPL_H

#include "plan/dim.h"

/* What keeps hostile models from growing expressions without end. The weight of an expression is
 * the number of atoms and terms that its text would have; long names count more. */
enum { DIM_MAX_WEIGHT = 4096, DIM_MAX_DEGREE = 64, DIM_MAX_DEPTH = 100, DIM_MAX_COUNT = 1 << 24 };
enum { DIM_NAME_UNIT = 64 }; /* bytes of a name that weigh 1 */

typedef enum {
    ATOM_SYMBOL,
    ATOM_FLOOR, /* floor(a/b) */
    ATOM_CEIL,  /* ceil(a/b), b not a number: ceil(a/2) is floor((a + 1)/2) */
    ATOM_MIN,
    ATOM_MAX,
    ATOM_BROADCAST,
    ATOM_KIND_COUNT
} atom_kind;

/* Bounds of a value. INT64_MIN and INT64_MAX stand for no bound. */
typedef struct range {
    int64_t lo, hi;
} range;

/* What interned things have in common. */
typedef struct dim_head {
    uint64_t hash;
    range range;
    int weight, depth; /* depth counts nested functions */
} dim_head;

typedef struct dim_atom {
    dim_head head;
    atom_kind kind;
    cm_dim_sign sign; /* SYMBOL */
    const char *name; /* SYMBOL */
    cm_dim a, b;      /* functions */
    int ordinal;      /* SYMBOL: its symbol index; functions: its place among functions */
    int born;         /* functions: expressions there were when it was made, for the serial form */
} dim_atom;

typedef struct dim_mono {
    dim_head head;
    int n;
    const int32_t *atoms;
} dim_mono;

typedef struct dim_term {
    int64_t coeff;
    int32_t mono;
} dim_term;

typedef struct dim_expr {
    dim_head head;
    int n;
    const dim_term *terms;
} dim_expr;

/* Terms in the order of an expression; numbers are one term of the empty monomial, 0 has none. */
typedef struct poly {
    int n;
    const dim_term *terms;
} poly;

/* Numbers of interned things, by hash. */
typedef struct dim_index {
    uint32_t *slots; /* 0: free; else number + 1 */
    size_t n_slots;
} dim_index;

struct cm_dim_table {
    cm_arena *arena;
    cm_allocator from_arena; /* hands out `arena` */
    cm_arena work;           /* polynomials while one call lasts */
    dim_atom *atoms;
    dim_mono *monos; /* 0: the empty one */
    dim_expr *exprs;
    int n_atoms, cap_atoms, n_monos, cap_monos, n_exprs, cap_exprs;
    int32_t *symbols, *functions; /* atoms by ordinal */
    int n_symbols, cap_symbols, n_functions, cap_functions;
    dim_index atom_index, mono_index, expr_index;
    int n_fresh;
};

enum { EMPTY_MONO = 0 };

/* dim_table.c: interning. -1 or CM_DIM_ERROR: out of memory, or over a bound. */
int32_t dim_intern_symbol(cm_dim_table *t, const char *name, cm_dim_sign sign);
int32_t dim_intern_function(cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b);
int32_t dim_intern_mono(cm_dim_table *t, const int32_t *atoms, int n); /* atoms sorted */
cm_dim dim_intern_poly(cm_dim_table *t, poly p);
cm_dim dim_bare(cm_dim_table *t, int32_t atom); /* the atom as a dim */
int32_t dim_find_symbol_atom(const cm_dim_table *t, const char *name);
int dim_compare_atoms(const cm_dim_table *t, int32_t a, int32_t b);
int dim_compare_monos(const cm_dim_table *t, int32_t a, int32_t b); /* < 0: a stands first */
int dim_compare(const cm_dim_table *t, cm_dim a, cm_dim b);         /* any fixed order */

static inline const dim_expr *dim_expr_of(const cm_dim_table *t, cm_dim d)
{
    return &t->exprs[-(d + 1)];
}
/* The polynomial of a dim; `one` is storage for that of a number. */
poly dim_poly(const cm_dim_table *t, cm_dim d, dim_term *one);
bool dim_poly_is_const(poly p, int64_t *out);

/* dim_poly.c: arithmetic in t->work. False: out of memory, overflow, or over a bound. */
bool dim_poly_add(cm_dim_table *t, poly a, poly b, int64_t k, poly *out); /* a + k*b */
bool dim_poly_mul(cm_dim_table *t, poly a, poly b, poly *out);
bool dim_poly_div_exact(cm_dim_table *t, poly a, poly b, poly *out); /* false too: not exact */
/* The monomial a/b, or -1 when b does not divide it. */
int32_t dim_mono_div(cm_dim_table *t, int32_t a, int32_t b);
int32_t dim_mono_gcd(cm_dim_table *t, int32_t a, int32_t b);
/* dim_range.c */
range dim_poly_range(const cm_dim_table *t, poly p);
range dim_range(const cm_dim_table *t, cm_dim d);
range dim_function_range(const cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b);
range dim_mono_range(const cm_dim_table *t, const int32_t *atoms, int n);

#endif
