/* fold_scale.c -- factors and offsets per channel become part of the weights and the bias.
 *
 *     c = Conv(x, @w, @b)
 *     s = Mul(c, @scale)                @scale: one number per channel, or one for all
 *     y = Add(s, @offset)               (also Sub, Div, Neg)
 *  becomes
 *     y = Conv(x, @w*scale, @b*scale + offset)
 *
 * After Conv, ConvTranspose and MatMul with constant weights, when nobody else reads what is between. The
 * bias of a MatMul stays an Add, which the epilogue takes: there is one form of a biased product. So does one factor
 * for all of a large MatMul that is then added to something: the epilogue has it for nothing, and the weights stay
 * those of the model, of which there is no second copy.
 *
 * needs: types, uses, folded constants    keeps: types, uses
 * numerics: weights are scaled in double precision and rounded once
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/linear.h"
#include "passes/product.h"

typedef struct {
    const cm_value *constant; /* NULL: none */
    double factor;            /* the result is scaled by: factor */
    bool scales, inverse;     /* ... times the constant, or times its inverse */
    double sign;              /* else the constant is added with this sign */
} change;

/* What n does to its input `i`, as a scale and a shift. */
static bool change_of(const cm_node *n, int i, change *out)
{
    *out = (change){.factor = 1, .sign = 1};
    if (cm_is(n, CM_OP_NEG)) {
        out->factor = -1;
        return true;
    }
    if (n->n_in != 2 || n->epilogue.program)
        return false;
    out->constant = n->in[1 - i];
    switch (n->op->id) {
    case CM_OP_ADD:
        return true;
    case CM_OP_SUB:
        out->factor = i == 0 ? 1 : -1;
        out->sign = i == 0 ? -1 : 1;
        return true;
    case CM_OP_MUL:
        out->scales = true;
        return true;
    case CM_OP_DIV:
        out->scales = out->inverse = true;
        return i == 0;
    default:
        return false;
    }
}

static cm_status numbers(cm_ctx *cx, const change *ch, int64_t channels, const double **scale,
                         const double **shift)
{
    const double *c = NULL;
    double *v;
    *scale = *shift = NULL;
    if (ch->constant)
        CM_TRY(cm_channel_values(cx, ch->constant, channels, &c));
    CM_NEW_N(cx, cx->scratch, v, channels, double);
    if (ch->scales || ch->factor != 1) {
        for (int64_t i = 0; i < channels; i++)
            v[i] = !ch->scales ? ch->factor : ch->inverse ? 1 / c[i] : c[i];
        *scale = v;
    }
    if (c && !ch->scales) {
        CM_NEW_N(cx, cx->scratch, v, channels, double);
        for (int64_t i = 0; i < channels; i++)
            v[i] = c[i] * ch->sign;
        *shift = v;
    }
    return CM_OK;
}

/* Is there something to gain? A bias that a product has already as an Add is as it should be. */
static bool is_canonical(const cm_linear *l, const change *ch)
{
    return l->node->op->id == CM_OP_MATMUL && !l->add && !ch->scales && ch->factor == 1;
}

/* Is n one factor, between a product with large weights and a sum? */
static bool is_for_epilogue(const cm_linear *l, const cm_node *n, const change *ch)
{
    const cm_node *reader = cm_only_reader(n->out[0]);
    return ch->scales && cm_volume(ch->constant) == 1 && l->node->op->id == CM_OP_MATMUL &&
           cm_volume(l->weights) > CM_LARGE_WEIGHTS && reader && cm_is(reader, CM_OP_ADD) &&
           !cm_is_const(reader->in[0]) && !cm_is_const(reader->in[1]);
}

static cm_status fold(cm_rewriter *rw, cm_node *n, int i)
{
    cm_linear l;
    change ch;
    const double *scale, *shift;
    if (!change_of(n, i, &ch) || !cm_linear_find(n->in[i], &l) || is_canonical(&l, &ch) ||
        is_for_epilogue(&l, n, &ch) || !cm_same_shape(n->in[i], n->out[0]) ||
        (ch.constant && !cm_per_channel(ch.constant, n->in[i], l.axis, l.channels)))
        return CM_OK;
    CM_TRY(numbers(rw->cx, &ch, l.channels, &scale, &shift));
    if (scale && !cm_can_scale(l.weights, scale, l.channels)) {
        cm_near(rw, n, "%s not folded into the weights: a factor is out of their range",
                n->op->name);
        return CM_OK;
    }
    if (!cm_rewrite(rw, n))
        return CM_OK;
    cm_node *y;
    CM_TRY(cm_linear_apply(rw, n, &l, scale, shift, &y));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(fold_scale)
{
    CM_FOR_NODES (n, g) {
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (n->n_in < 1 || n->n_in > 2 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        bool first = n->n_in == 1 || cm_is_const(n->in[1]);
        if (first || cm_is_const(n->in[0]))
            CM_TRY(fold(rw, n, first ? 0 : 1));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
