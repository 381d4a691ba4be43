/* dim.h -- dims: numbers, or expressions over named symbols.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A cm_dim is a plain int64: >= 0 is the number itself, < 0 names an expression interned in a
 * cm_dim_table. So arithmetic on numbers touches no table, and two dims of one table are equal
 * exactly when their integers are: expressions are kept in a normal form, an integer polynomial
 * over atoms (symbols, floor-div, ceil-div, min, max, broadcast), terms sorted by name; a mod b is
 * written a - b*floor(a/b).
 *
 *     2*batch + 1        floor((h - 1)/2) + 1        batch*heads*seq
 *
 * Symbols stand for integers >= 0 (a symbol made with CM_DIM_ANY may be negative: element values of
 * shape tensors are dims too). Expressions may be negative on the way; CM_DIM_NEGATIVE_CONST holds
 * negative numbers, since a negative cm_dim is a handle. */
#ifndef CM_PLAN_DIM_H
#define CM_PLAN_DIM_H

#include "base/buf.h"
#include "base/status.h"

typedef int64_t cm_dim;
typedef struct cm_dim_table cm_dim_table;

/* Returned when memory ran out or an expression grew past the table's bound (a few thousand terms);
 * every function passes it through. Callers turn it into CM_ERR_MEMORY or a fresh symbol. */
#define CM_DIM_ERROR INT64_MIN

typedef enum {
    CM_DIM_SIZE,
    CM_DIM_ANY
} cm_dim_sign; /* what a symbol may be: >= 0, or any integer */

cm_status cm_dim_table_create(cm_ctx *cx, cm_arena *arena, cm_dim_table **out) CM_MUST_USE;

static inline bool cm_dim_is_size(cm_dim d) /* a number >= 0 */
{
    return d >= 0;
}
/* A number of either sign? Then *out is it. */
bool cm_dim_is_const(const cm_dim_table *t, cm_dim d, int64_t *out);
cm_dim cm_dim_const(cm_dim_table *t, int64_t v); /* any integer; itself when >= 0 */

/* The symbol of that name, made on first use. */
cm_dim cm_dim_symbol(cm_dim_table *t, const char *name, cm_dim_sign sign);
/* A new symbol whose name begins with `hint` and is taken by no other. Deterministic: numbered. */
cm_dim cm_dim_fresh(cm_dim_table *t, const char *hint, cm_dim_sign sign);

cm_dim cm_dim_add(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_sub(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_mul(cm_dim_table *t, cm_dim a, cm_dim b);
/* floor(a/b), ceil(a/b), a mod b (sign of b). Exact quotients are found: (6*b*s)/(3*s) is 2*b. A
 * division by the number 0 gives CM_DIM_ERROR. */
cm_dim cm_dim_floor_div(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_ceil_div(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_mod(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_min(cm_dim_table *t, cm_dim a, cm_dim b);
cm_dim cm_dim_max(cm_dim_table *t, cm_dim a, cm_dim b);
/* What a and b broadcast to, taking for granted that they do: equal, or one of them 1. A number
 * other than 1 wins over a symbol. Two different symbols give the atom broadcast(a, b). */
cm_dim cm_dim_broadcast(cm_dim_table *t, cm_dim a, cm_dim b);
/* Can the two never be equal? (Numbers that differ, or a difference that is a number not 0.) */
bool cm_dim_never_equal(cm_dim_table *t, cm_dim a, cm_dim b);
bool cm_dim_is_nonneg(const cm_dim_table *t, cm_dim d);   /* surely >= 0 */
bool cm_dim_is_positive(const cm_dim_table *t, cm_dim d); /* surely >= 1 */
int64_t cm_dim_most(const cm_dim_table *t,
                    cm_dim d); /* surely no more; INT64_MAX: no bound known */
/* Is d min(a, b)? */
bool cm_dim_is_min(const cm_dim_table *t, cm_dim d, cm_dim *a, cm_dim *b);
/* From now on d lies in [lo, hi], whoever asks: what cannot run otherwise may be taken for granted. Dims
 * that were made before keep their form. False: nothing new, or d is a number. */
bool cm_dim_assume(cm_dim_table *t, cm_dim d, int64_t lo, int64_t hi);

/* Values for symbols, by symbol index; what has no value yet is CM_DIM_UNBOUND. */
#define CM_DIM_UNBOUND INT64_MIN
int cm_dim_symbol_count(const cm_dim_table *t);
const char *cm_dim_symbol_name(const cm_dim_table *t, int symbol);
cm_dim_sign cm_dim_symbol_sign(const cm_dim_table *t, int symbol);
int cm_dim_symbol_index(const cm_dim_table *t, cm_dim d);        /* -1: not a bare symbol */
int cm_dim_find_symbol(const cm_dim_table *t, const char *name); /* -1: none */
/* False when a symbol in it is unbound, a broadcast does not fit, a divisor is 0, or on overflow. */
bool cm_dim_eval(const cm_dim_table *t, cm_dim d, const int64_t *values, int64_t *out);
/* Replace symbols by dims of the same table (`to[i]`, or CM_DIM_UNBOUND to leave symbol i). */
cm_dim cm_dim_substitute(cm_dim_table *t, cm_dim d, const cm_dim *to, int n_to);

/* Text: "2*batch + 1". Parse takes what print writes; unknown names become symbols. */
void cm_dim_print(const cm_dim_table *t, cm_dim d, cm_buf *out);
cm_status cm_dim_parse(cm_ctx *cx, cm_dim_table *t, const char *text, size_t n,
                       cm_dim *out) CM_MUST_USE;

/* Serial form for plans: the whole table; a cm_dim keeps its integer value. Reading checks all. */
void cm_dim_table_write(const cm_dim_table *t, cm_buf *out);
cm_status cm_dim_table_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                            cm_dim_table **out) CM_MUST_USE;
bool cm_dim_valid(const cm_dim_table *t, cm_dim d); /* a number or a handle of this table */

#endif
