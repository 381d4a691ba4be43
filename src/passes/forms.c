/* forms.c -- reading arithmetic in whatever way it was written down.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms.h"

#include <math.h>
#include <stdlib.h>

void cm_note(cm_form *f, const cm_node *n)
{
    if (f->n_nodes < CM_FORM_MAX)
        f->node[f->n_nodes++] = n;
}

cm_node *cm_maker(const cm_value *v)
{
    if (!v || !v->producer || v->producer->network != v->network || v->producer->epilogue.program)
        return NULL;
    return v->producer;
}

static bool computes(cm_dtype t) /* floats that are computed with, not only stored */
{
    return t == CM_F16 || t == CM_BF16 || t == CM_F32 || t == CM_F64;
}

static bool between_floats(const cm_node *n)
{
    return cm_is(n, CM_OP_CAST) && cm_is_float(n->in[0]) && cm_is_float(n->out[0]) &&
           computes(n->in[0]->type.dtype) && computes(n->out[0]->type.dtype);
}

cm_value *cm_root(cm_value *v)
{
    for (const cm_node *n; (n = cm_maker(v)) && between_floats(n); v = n->in[0]) {
        size_t from = cm_dtype_size(n->in[0]->type.dtype), to = cm_dtype_size(v->type.dtype);
        if (to <= from && n->in[0]->type.dtype != v->type.dtype)
            break;
    }
    return v;
}

cm_value *cm_past_casts(cm_form *f, cm_value *v)
{
    for (const cm_node *n; (n = cm_maker(v)) && between_floats(n); v = n->in[0])
        cm_note(f, n);
    return v;
}

bool cm_same_numbers(cm_value *a, cm_value *b)
{
    return cm_root(a) == cm_root(b);
}

double cm_slack(const cm_value *v)
{
    return v->type.dtype == CM_F16 ? 2e-3 : v->type.dtype == CM_BF16 ? 1e-2 : 5e-5;
}

bool cm_near_number(double x, double want, double slack)
{
    return fabs(x - want) <= slack * fabs(want);
}

cm_value *cm_other_than_number(const cm_node *n, double *number)
{
    if (n->n_in != 2)
        return NULL;
    if (cm_splat(n->in[1], number))
        return n->in[0];
    return cm_splat(n->in[0], number) ? n->in[1] : NULL;
}

cm_value *cm_first_with_number(const cm_node *n, double *number)
{
    return n->n_in == 2 && cm_splat(n->in[1], number) ? n->in[0] : NULL;
}

/* ---- Products ------------------------------------------------------------------------------- */

typedef struct {
    cm_form *form;
    double number;
    cm_value **factor;
    int n, max;
} product;

static bool take_apart(product *p, const cm_node *n, int depth);

static bool take_factor(product *p, cm_value *v, int depth)
{
    double c;
    const cm_node *n = cm_maker(v);
    if (cm_splat(v, &c)) {
        p->number *= c;
        return true;
    }
    if (n && depth > 0 && cm_sole_use(v)) {
        if (between_floats(n)) {
            cm_note(p->form, n);
            return take_factor(p, n->in[0], depth - 1);
        }
        if (cm_is(n, CM_OP_MUL) || (cm_is(n, CM_OP_DIV) && cm_first_with_number(n, &c)))
            return take_apart(p, n, depth - 1);
    }
    if (p->n == p->max)
        return false;
    p->factor[p->n++] = v;
    return true;
}

static bool take_apart(product *p, const cm_node *n, int depth)
{
    double c;
    if (cm_is(n, CM_OP_DIV)) {
        cm_value *first = cm_first_with_number(n, &c);
        if (!first || c == 0)
            return false;
        cm_note(p->form, n);
        p->number /= c;
        return take_factor(p, first, depth);
    }
    if (!cm_is(n, CM_OP_MUL))
        return false;
    cm_note(p->form, n);
    return take_factor(p, n->in[0], depth) && take_factor(p, n->in[1], depth);
}

enum { DEEPEST = 6 };

bool cm_factors(cm_form *f, const cm_node *n, double *number, cm_value **factor, int max,
                int *n_factors)
{
    product p = {.form = f, .number = 1, .factor = factor, .max = max};
    bool ok = take_apart(&p, n, DEEPEST);
    *number = p.number;
    *n_factors = p.n;
    return ok;
}

bool cm_factors_of(cm_form *f, cm_value *v, double *number, cm_value **factor, int max,
                   int *n_factors)
{
    product p = {.form = f, .number = 1, .factor = factor, .max = max};
    const cm_node *n = cm_maker(cm_past_casts(f, v));
    double c;
    bool ok = n && (cm_is(n, CM_OP_MUL) || (cm_is(n, CM_OP_DIV) && cm_first_with_number(n, &c)))
                  ? take_apart(&p, n, DEEPEST)
                  : take_factor(&p, v, 0);
    *number = p.number;
    *n_factors = p.n;
    return ok;
}

static bool monomial(cm_form *f, cm_value *v, cm_value *x, int depth, double *c, int *k)
{
    double a, b;
    int m;
    *c = 1;
    *k = 0;
    if (cm_same_numbers(v, x)) {
        *k = 1;
        return true;
    }
    if (cm_splat(v, c))
        return true;
    const cm_node *n = cm_maker(v);
    if (!n || depth == 0)
        return false;
    cm_note(f, n);
    if (between_floats(n))
        return monomial(f, n->in[0], x, depth, c, k);
    if (cm_is(n, CM_OP_NEG) && monomial(f, n->in[0], x, depth - 1, c, k)) {
        *c = -*c;
        return true;
    }
    if (cm_is(n, CM_OP_MUL)) {
        if (!monomial(f, n->in[0], x, depth - 1, &a, &m) ||
            !monomial(f, n->in[1], x, depth - 1, &b, k))
            return false;
        *c = a * b;
        *k += m;
        return true;
    }
    if (cm_is(n, CM_OP_DIV) && cm_first_with_number(n, &b) && b != 0 &&
        monomial(f, n->in[0], x, depth - 1, c, k)) {
        *c /= b;
        return true;
    }
    if (cm_is(n, CM_OP_POW) && cm_first_with_number(n, &b) && (b == 2 || b == 3) &&
        monomial(f, n->in[0], x, depth - 1, c, k)) {
        *c = pow(*c, b);
        *k *= (int)b;
        return true;
    }
    return false;
}

bool cm_monomial(cm_form *f, cm_value *v, cm_value *x, double *c, int *k)
{
    return monomial(f, v, x, DEEPEST, c, k) && *k >= 1;
}

bool cm_multiple(cm_form *f, cm_value *v, cm_value *x, double *c)
{
    int k;
    return cm_monomial(f, v, x, c, &k) && k == 1;
}

bool cm_one_plus_exp(cm_form *f, cm_value *v, cm_value **x, double *c)
{
    double one;
    cm_node *sum = cm_made_by(cm_past_casts(f, v), CM_OP_ADD);
    cm_value *other = sum ? cm_other_than_number(sum, &one) : NULL;
    cm_node *power = other ? cm_made_by(cm_past_casts(f, other), CM_OP_EXP) : NULL;
    if (!power || one != 1)
        return false;
    cm_note(f, sum);
    cm_note(f, power);
    *c = 1;
    if (*x)
        return cm_multiple(f, power->in[0], *x, c);
    *x = power->in[0];
    cm_node *negated = cm_made_by(cm_past_casts(f, *x), CM_OP_NEG);
    if (negated) {
        cm_note(f, negated);
        *c = -1;
        *x = negated->in[0];
    }
    return true;
}

/* ---- Replacing ------------------------------------------------------------------------------ */

static int by_mark(const void *a, const void *b)
{
    const cm_node *x = *(const cm_node *const *)a, *y = *(const cm_node *const *)b;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

cm_status cm_form_replace(cm_rewriter *rw, cm_form *f, cm_node *last, cm_op_id op, void *attr,
                          cm_value *const *in, int n_in)
{
    cm_node *n;
    cm_note(f, last);
    qsort(f->node, (size_t)f->n_nodes, sizeof f->node[0], by_mark);
    CM_TRY(cm_make_with(rw, last, op, attr, f->node[0], in, n_in, 1, &n));
    for (int i = 0; i < f->n_nodes; i++)
        CM_TRY(cm_node_add_from(rw->cx, n, f->node[i]));
    n->mark = last->mark;
    return cm_replace(rw, last, n->out[0], n);
}

cm_status cm_form_unary(cm_rewriter *rw, cm_form *f, cm_node *last, cm_op_id op, void *attr,
                        cm_value *x, bool *done)
{
    cm_dtype wanted = last->out[0]->type.dtype;
    *done = false;
    if (x->network != last->network && x->type.dtype != wanted)
        return CM_OK;
    if (!cm_same_shape(x, last->out[0]) || !cm_rewrite(rw, last))
        return CM_OK;
    *done = true;
    if (cm_root(x)->type.dtype == wanted)
        x = cm_root(x);
    if (x->type.dtype != wanted) {
        void *to;
        cm_node *cast;
        CM_TRY(cm_new_attr(rw->cx, last->network, CM_OP_CAST, &to));
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CAST, to, "to", wanted));
        CM_TRY(cm_make_with(rw, last, CM_OP_CAST, to, last, &x, 1, 1, &cast));
        cast->mark = last->mark;
        x = cast->out[0];
    }
    return cm_form_replace(rw, f, last, op, attr, &x, 1);
}
