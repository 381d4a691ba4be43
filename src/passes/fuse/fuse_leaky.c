/* fuse_leaky.c -- LeakyRelu and PRelu from their pieces.
 *
 *     a = Mul(x, 0.1)          r = Relu(x)
 *     y = Max(x, a)            n = Neg(x)
 *                              q = Relu(n)
 *                              m = Mul(q, @c)
 *  becomes                     y = Add(r, m)
 *     y = LeakyRelu(x)      becomes
 *                              y = PRelu(x, @slope), slope = -c
 *
 * The maximum for slopes from 0 to 1; also Where(x > 0, x, slope x), with >=, < or <= as well. Relu(x) minus
 * a product counts with slope c. Not when the result has another shape than x.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the product is not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/forms.h"

static cm_status make_leaky(cm_rewriter *rw, cm_form *f, cm_node *n, cm_value *x, double slope)
{
    void *attr;
    bool done;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_LEAKY_RELU, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_LEAKY_RELU, attr, "alpha", slope));
    return cm_form_unary(rw, f, n, CM_OP_LEAKY_RELU, attr, x, &done);
}

static cm_status from_max(cm_rewriter *rw, cm_node *n)
{
    double slope;
    for (int i = 0; n->n_in == 2 && i < 2; i++) {
        cm_form f = {.n_nodes = 0};
        if (n->in[0] != n->in[1] && cm_multiple(&f, n->in[1 - i], n->in[i], &slope) && slope >= 0 &&
            slope < 1)
            return make_leaky(rw, &f, n, n->in[i], slope);
    }
    return CM_OK;
}

/* Does c say where x is positive (1), where it is negative (-1), or neither (0)? */
static int says_sign(cm_form *f, cm_value *c, cm_value *x)
{
    const cm_node *n = cm_maker(c);
    bool is_greater = cm_is(n, CM_OP_GREATER) || cm_is(n, CM_OP_GREATER_OR_EQUAL);
    if (!n || !(is_greater || cm_is(n, CM_OP_LESS) || cm_is(n, CM_OP_LESS_OR_EQUAL)))
        return 0;
    cm_note(f, n);
    if (cm_same_numbers(n->in[0], x) && cm_is_number(n->in[1], 0, 0))
        return is_greater ? 1 : -1;
    if (cm_same_numbers(n->in[1], x) && cm_is_number(n->in[0], 0, 0))
        return is_greater ? -1 : 1;
    return 0;
}

static cm_status from_where(cm_rewriter *rw, cm_node *n)
{
    double slope;
    for (int i = 0; i < 2; i++) { /* x stands in input 1 + i */
        cm_form f = {.n_nodes = 0};
        cm_value *x = n->in[1 + i];
        if (says_sign(&f, n->in[0], x) == (i == 0 ? 1 : -1) &&
            cm_multiple(&f, n->in[2 - i], x, &slope))
            return make_leaky(rw, &f, n, x, slope);
    }
    return CM_OK;
}

/* v = Mul(@c, Relu(-x))? */
static bool is_negative_part(cm_form *f, cm_value *v, cm_value *x, cm_value **c)
{
    double k;
    const cm_node *m = cm_made_by(v, CM_OP_MUL);
    for (int i = 0; m && i < 2; i++) {
        const cm_node *relu = cm_made_by(m->in[i], CM_OP_RELU);
        if (!relu || !cm_is_const(m->in[1 - i]) || !cm_multiple(f, relu->in[0], x, &k) || k != -1)
            continue;
        cm_note(f, m);
        cm_note(f, relu);
        *c = m->in[1 - i];
        return true;
    }
    return false;
}

static cm_status slope_constant(cm_rewriter *rw, cm_network *g, const cm_value *c, double sign,
                                cm_value **out)
{
    const double *v;
    double *s;
    int64_t n;
    CM_TRY(cm_const_f64(rw->cx, c, &v, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, s, n, double);
    for (int64_t i = 0; i < n; i++)
        s[i] = sign * v[i];
    return cm_make_const_f64(rw->cx, g, "slope", c->constant->dtype, c->constant->rank,
                             c->constant->dims, s, out);
}

static cm_status from_parts(cm_rewriter *rw, cm_node *n)
{
    bool is_sub = cm_is(n, CM_OP_SUB);
    for (int i = 0; i < (is_sub ? 1 : 2); i++) {
        cm_form f = {.n_nodes = 0};
        const cm_node *relu = cm_made_by(n->in[i], CM_OP_RELU);
        cm_value *c;
        if (!relu || !is_negative_part(&f, n->in[1 - i], relu->in[0], &c) ||
            !cm_same_shape(relu->in[0], n->out[0]))
            continue;
        cm_note(&f, relu);
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_value *in[2] = {relu->in[0]};
        CM_TRY(slope_constant(rw, n->network, c, is_sub ? 1 : -1, &in[1]));
        return cm_form_replace(rw, &f, n, CM_OP_PRELU, NULL, in, 2);
    }
    return CM_OK;
}

CM_PASS(fuse_leaky)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses || !cm_is_float(n->out[0]))
            continue;
        if (cm_is(n, CM_OP_MAX))
            CM_TRY(from_max(rw, n));
        else if (cm_is(n, CM_OP_WHERE))
            CM_TRY(from_where(rw, n));
        else if (cm_is(n, CM_OP_ADD) || cm_is(n, CM_OP_SUB))
            CM_TRY(from_parts(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
