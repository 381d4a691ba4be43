/* fuse_gelu.c -- GELU from its pieces, and one way of saying it.
 *
 *     d = Div(x, 1.4142135)
 *     e = Erf(d)
 *     a = Add(e, 1)
 *     m = Mul(x, a)
 *     y = Mul(m, 0.5)
 *  becomes
 *     y = Gelu(x)
 *
 * The product of 0.5, x and (1 + erf(x / sqrt 2)) in any order and grouping, the sum scaled or not. With tanh of
 * sqrt(2/pi) (x + 0.044715 x^3) in the place of erf, cubes written in any way, or as x times the sigmoid of twice
 * that: Gelu {approximate="tanh"}. com.microsoft's Gelu, FastGelu and BiasGelu become Gelu, after an Add where
 * they have a bias; QuickGelu becomes Swish {alpha}. Numbers may be rounded to the element type; Casts between
 * the pieces are passed. Not when the result has another shape than x.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/forms.h"

#define ROOT_HALF      0.70710678118654752
#define ROOT_2_OVER_PI 0.79788456080286536
#define CUBE           0.044715

/* u = scale * (x + 0.044715 x^3)? */
static bool is_cubic(cm_form *f, cm_value *u, cm_value *x, double scale, double slack)
{
    double number, a, b;
    cm_value *factor[2];
    int n, k, m;
    if (!cm_factors_of(f, u, &number, factor, 2, &n) || n == 0)
        return false;
    for (int i = 0; i < n; i++) {
        const cm_node *sum = cm_made_by(cm_past_casts(f, factor[i]), CM_OP_ADD);
        if (!sum)
            continue;
        cm_note(f, sum);
        if (n == 2) { /* x * (1 + 0.044715 x^2) */
            cm_value *square = cm_other_than_number(sum, &a);
            if (!cm_same_numbers(factor[1 - i], x) || !square ||
                !cm_monomial(f, square, x, &b, &m) || m != 2)
                continue;
        } else {
            if (!cm_monomial(f, sum->in[0], x, &a, &k) || !cm_monomial(f, sum->in[1], x, &b, &m))
                continue;
            if (k == 3 && m == 1) {
                double t = a;
                a = b;
                b = t;
            } else if (k != 1 || m != 3) {
                continue;
            }
        }
        return cm_near_number(number * a, scale, slack) && cm_near_number(b / a, CUBE, 2 * slack);
    }
    return false;
}

typedef enum { NO_GELU, EXACT, TANH } gelu;

/* What number * x * g is. */
static gelu kind_of(cm_form *f, double number, cm_value *x, cm_value *g, double slack)
{
    double one, inner = 1, c;
    const cm_node *n = cm_maker(cm_past_casts(f, g));
    if (!n)
        return NO_GELU;
    cm_note(f, n);
    if (cm_is(n, CM_OP_SIGMOID))
        return cm_near_number(number, 1, slack) &&
                       is_cubic(f, n->in[0], x, 2 * ROOT_2_OVER_PI, slack)
                   ? TANH
                   : NO_GELU;
    cm_value *term = cm_is(n, CM_OP_ADD) ? cm_other_than_number(n, &one) : NULL;
    n = term ? cm_maker(cm_past_casts(f, term)) : NULL;
    if (cm_is(n, CM_OP_MUL)) { /* 0.5 + 0.5 erf */
        cm_note(f, n);
        term = cm_other_than_number(n, &inner);
        n = term ? cm_maker(cm_past_casts(f, term)) : NULL;
    }
    if (!n || !cm_near_number(one, inner, slack) || !cm_near_number(number * one, 0.5, slack))
        return NO_GELU;
    cm_note(f, n);
    if (cm_is(n, CM_OP_ERF))
        return cm_multiple(f, n->in[0], x, &c) && cm_near_number(c, ROOT_HALF, slack) ? EXACT
                                                                                      : NO_GELU;
    return cm_is(n, CM_OP_TANH) && is_cubic(f, n->in[0], x, ROOT_2_OVER_PI, slack) ? TANH : NO_GELU;
}

static cm_status gelu_attribute(cm_rewriter *rw, cm_network *g, gelu kind, void **attr)
{
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_GELU, attr));
    if (kind == TANH)
        CM_TRY(cm_attr_put_string(rw->cx, g, CM_OP_GELU, *attr, "approximate", "tanh"));
    return CM_OK;
}

static double slack_of(const cm_node *n, cm_value *x)
{
    return fmax(cm_slack(n->out[0]), cm_slack(cm_root(x)));
}

static cm_status from_pieces(cm_rewriter *rw, cm_node *n)
{
    cm_form whole = {.n_nodes = 0};
    cm_value *factor[2];
    double number;
    int k;
    if (!cm_factors(&whole, n, &number, factor, 2, &k) || k != 2)
        return CM_OK;
    for (int i = 0; i < 2; i++) {
        cm_form f = whole;
        cm_value *x = factor[i];
        gelu kind = kind_of(&f, number, x, factor[1 - i], slack_of(n, x));
        void *attr;
        bool done;
        if (kind == NO_GELU)
            continue;
        CM_TRY(gelu_attribute(rw, n->network, kind, &attr));
        CM_TRY(cm_form_unary(rw, &f, n, CM_OP_GELU, attr, x, &done));
        if (!done && !cm_same_shape(x, n->out[0]))
            cm_near(rw, n, "GELU not fused: its result and input differ in shape");
        return CM_OK;
    }
    return CM_OK;
}

/* com.microsoft's rows, with the bias as an Add before. */
static cm_status from_row(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    cm_value *x = n->in[0], *bias = n->n_in > 1 ? n->in[1] : NULL;
    int rank = cm_rank(x);
    if (!cm_same_shape(x, n->out[0]) || (bias && (cm_rank(bias) != 1 || rank < 1 ||
                                                  bias->type.dims[0] != x->type.dims[rank - 1]))) {
        cm_near(rw, n, "%s not taken apart: its bias is not as long as the last axis", n->op->name);
        return CM_OK;
    }
    void *attr;
    bool done;
    CM_TRY(gelu_attribute(rw, n->network, cm_is(n, CM_OP_MS_FAST_GELU) ? TANH : EXACT, &attr));
    if (!bias)
        return cm_form_unary(rw, &f, n, CM_OP_GELU, attr, x, &done);
    if (!cm_rewrite(rw, n))
        return CM_OK;
    cm_node *sum;
    cm_value *in[] = {x, bias};
    CM_TRY(cm_make(rw, n, CM_OP_ADD, n, in, 2, 1, &sum));
    sum->mark = n->mark;
    return cm_form_replace(rw, &f, n, CM_OP_GELU, attr, sum->out, 1);
}

static cm_status from_quick_row(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    void *attr;
    bool done;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SWISH, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_SWISH, attr, "alpha", cm_float(n, "alpha")));
    return cm_form_unary(rw, &f, n, CM_OP_SWISH, attr, n->in[0], &done);
}

CM_PASS(fuse_gelu)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        if ((cm_is(n, CM_OP_MUL) || cm_is(n, CM_OP_DIV)) && cm_is_float(n->out[0]))
            CM_TRY(from_pieces(rw, n));
        else if (cm_is(n, CM_OP_MS_GELU) || cm_is(n, CM_OP_MS_FAST_GELU) ||
                 cm_is(n, CM_OP_MS_BIAS_GELU))
            CM_TRY(from_row(rw, n));
        else if (cm_is(n, CM_OP_MS_QUICK_GELU))
            CM_TRY(from_quick_row(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
