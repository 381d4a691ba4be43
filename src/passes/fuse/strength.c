/* strength.c -- cheaper operators for the same numbers.
 *
 *     Div(x, @c)                 Mul(x, @1/c)
 *     Pow(x, @2)                 Mul(x, x)
 *     Pow(x, @3)                 Mul(Mul(x, x), x)
 *     Pow(x, @0.5)               Sqrt(x)
 *     Pow(x, @-1)                Reciprocal(x)
 *     Mul(Mul(x, @a), @b)        Mul(x, @a*b)
 *     Add(Add(x, @a), @b)        Add(x, @a+b)
 *     Sub(x, @c)                 Add(x, @-c)
 *
 * Floats; constants of one number, exponents of any type. A chain is merged when nobody else reads what is between and neither number is
 * infinite. Runs after the passes that look for Div, Pow and Sub in patterns.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: multiplying by a rounded inverse, or once by a product, moves a result by an ulp or two, a cube of two
 * roundings by one; Pow(x, 0.5) of minus infinity is NaN now
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>

#include "passes/match.h"

static bool is_normal(cm_dtype dtype, double x)
{
    double least = dtype == CM_F16 ? 6.2e-5 : FLT_MIN, most = dtype == CM_F16 ? 65504 : FLT_MAX;
    return fabs(x) >= least && fabs(x) <= most;
}

/* Op(x, number), with the number on the right. */
static cm_status make_with_number(cm_rewriter *rw, cm_node *n, cm_op_id op, cm_value *x, double c,
                                  cm_node **out)
{
    cm_value *v;
    CM_TRY(cm_make_scalar(rw->cx, n->network, "c", x->type.dtype, c, &v));
    return cm_make(rw, n, op, n, (cm_value *[]){x, v}, 2, 1, out);
}

/* n is `op` of *x and the number *c. */
static bool with_number(const cm_node *n, cm_op_id op, cm_value **x, double *c)
{
    if (!cm_is(n, op))
        return false;
    for (int i = 0; i < 2; i++)
        if (cm_splat(n->in[1 - i], c) && !n->in[i]->constant &&
            cm_same_shape(n->in[i], n->out[0])) {
            *x = n->in[i];
            return true;
        }
    return false;
}

/* Op(Op(x, a), b) with one number. */
static bool merged(const cm_node *n, cm_op_id op, cm_value **x, double *c, cm_node **inner)
{
    double a, b;
    cm_value *between;
    if (!with_number(n, op, &between, &b) || !cm_sole_use(between) ||
        !(*inner = cm_made_by(between, op)) || !with_number(*inner, op, x, &a))
        return false;
    *c = op == CM_OP_MUL ? a * b : a + b;
    return isfinite(a) && isfinite(b) && (op == CM_OP_ADD || is_normal((*x)->type.dtype, *c));
}

/* Is there an operator for that power? Two roundings of a cube are too many for 16 bits. */
static bool has_power(const cm_value *x, double c)
{
    bool long_enough = x->type.dtype == CM_F32 || x->type.dtype == CM_F64;
    return c == 2 || c == 0.5 || c == -1 || (c == 3 && long_enough);
}

/* Pow by a number that has an operator of its own. */
static cm_status power(cm_rewriter *rw, cm_node *n, double c, cm_node **out)
{
    cm_value *x = n->in[0];
    if (c == 3) {
        cm_node *square;
        CM_TRY(cm_make(rw, n, CM_OP_MUL, n, (cm_value *[]){x, x}, 2, 1, &square));
        return cm_make(rw, n, CM_OP_MUL, n, (cm_value *[]){square->out[0], x}, 2, 1, out);
    }
    if (c == 2)
        return cm_make(rw, n, CM_OP_MUL, n, (cm_value *[]){x, x}, 2, 1, out);
    return cm_make(rw, n, c == 0.5 ? CM_OP_SQRT : CM_OP_RECIPROCAL, n, &x, 1, 1, out);
}

static cm_status simplify(cm_rewriter *rw, cm_node *n)
{
    double c;
    cm_value *x = n->in[0];
    cm_node *y = NULL, *inner = NULL;
    bool number = n->n_in == 2 && cm_splat(n->in[1], &c) && cm_same_shape(x, n->out[0]);
    bool right = number && x->type.dtype == n->in[1]->type.dtype;
    if (cm_is(n, CM_OP_DIV) && right && is_normal(x->type.dtype, c) &&
        is_normal(x->type.dtype, 1 / c)) {
        if (cm_rewrite(rw, n))
            CM_TRY(make_with_number(rw, n, CM_OP_MUL, x, 1 / c, &y));
    } else if (cm_is(n, CM_OP_SUB) && right && isfinite(c)) {
        if (cm_rewrite(rw, n))
            CM_TRY(make_with_number(rw, n, CM_OP_ADD, x, -c, &y));
    } else if (cm_is(n, CM_OP_POW) && number && has_power(x, c)) {
        if (cm_rewrite(rw, n))
            CM_TRY(power(rw, n, c, &y));
    } else if (merged(n, CM_OP_MUL, &x, &c, &inner) || merged(n, CM_OP_ADD, &x, &c, &inner)) {
        if (cm_rewrite(rw, n))
            CM_TRY(make_with_number(rw, n, n->op->id, x, c, &y));
    }
    if (!y)
        return CM_OK;
    if (inner)
        CM_TRY(cm_node_add_from(rw->cx, y, inner));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(strength)
{
    CM_FOR_NODES (n, g) {
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (n->n_in == 2 && n->n_out == 1 && n->in[0] && n->in[1] && n->out[0]->n_uses &&
            cm_is_float(n->out[0]))
            CM_TRY(simplify(rw, n));
    }
    return CM_OK;
}
