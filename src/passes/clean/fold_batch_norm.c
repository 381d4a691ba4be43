/* fold_batch_norm.c -- batch normalisation at inference is a factor and an offset per channel.
 *
 *     c = Conv(x, @w, @b)                                     (also ConvTranspose, MatMul)
 *     y = BatchNormalization(c, @scale, @bias, @mean, @var)
 *  becomes
 *     y = Conv(x, @w*a, @b*a + c)        a = scale/sqrt(var + epsilon), c = bias - mean*a
 *
 * and, in this order of preference: in front of a Conv without padding it goes into that one's weights; alone it
 * becomes Mul and Add, which join an epilogue or a pointwise group; of 16 bits, for a plan only, in float32 between two
 * casts. With parameters that are not constant, for a plan
 * only, it becomes what it says. Training mode is left alone, and so are results that others read.
 *
 * needs: types, uses, folded constants    keeps: types, uses
 * numerics: computed in double precision, rounded once
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/linear.h"

typedef struct {
    const double *factor, *offset;
    int64_t channels;
} affine;

static bool is_inference(const cm_node *n)
{
    if (!cm_is(n, CM_OP_BATCH_NORMALIZATION) || !n->out[0]->n_uses || !cm_one_output(n) ||
        cm_int(n, "training_mode") || cm_rank(n->in[0]) < 2 || !cm_is_float(n->in[0]))
        return false;
    for (int i = 1; i < 5; i++)
        if (cm_rank(n->in[i]) != 1 || n->in[i]->type.dims[0] != n->in[1]->type.dims[0])
            return false;
    return true;
}

static bool is_constant(const cm_node *n)
{
    for (int i = 1; i < 5; i++)
        if (!cm_is_const(n->in[i]))
            return false;
    return true;
}

static cm_status affine_of(cm_ctx *cx, const cm_node *n, affine *out)
{
    const double *in[5];
    double *a, *c;
    int64_t channels = 0;
    for (int i = 1; i < 5; i++)
        CM_TRY(cm_const_f64(cx, n->in[i], &in[i], &channels));
    CM_NEW_N(cx, cx->scratch, a, channels, double);
    CM_NEW_N(cx, cx->scratch, c, channels, double);
    for (int64_t i = 0; i < channels; i++) {
        a[i] = in[1][i] / sqrt(in[4][i] + cm_float(n, "epsilon"));
        c[i] = in[2][i] - in[3][i] * a[i];
    }
    *out = (affine){a, c, channels};
    return CM_OK;
}

/* ---- Behind a convolution or product -------------------------------------------------------- */

static bool follows(const cm_node *n, const affine *t, cm_linear *l)
{
    return cm_linear_find(n->in[0], l) && l->axis == 1 && l->channels == t->channels &&
           l->weights->type.dtype == n->out[0]->type.dtype &&
           cm_can_scale(l->weights, t->factor, t->channels);
}

static cm_status fold_back(cm_rewriter *rw, cm_node *n, const affine *t, const cm_linear *l)
{
    cm_node *y;
    CM_TRY(cm_linear_apply(rw, n, l, t->factor, t->offset, &y));
    return cm_replace(rw, n, y->out[0], y);
}

/* ---- In front of a convolution -------------------------------------------------------------- */

static bool pads_nothing(const cm_node *conv)
{
    cm_ints pads = cm_int_list(conv, "pads");
    if (!cm_string_is(conv, "auto_pad", "NOTSET") && !cm_string_is(conv, "auto_pad", "VALID"))
        return false;
    for (int i = 0; i < pads.n; i++)
        if (pads.v[i] != 0)
            return false;
    return true;
}

/* The convolution that alone reads n and whose weights can take it in. */
static cm_node *precedes(const cm_node *n, const affine *t)
{
    cm_node *conv = cm_only_reader(n->out[0]);
    if (!cm_is(conv, CM_OP_CONV) || !conv->out[0]->n_uses || conv->in[0] != n->out[0] ||
        !pads_nothing(conv))
        return NULL;
    const cm_value *w = conv->in[1], *b = conv->n_in > 2 ? conv->in[2] : NULL;
    bool fits = cm_is_const(w) && w->type.dtype == CM_F32 && (!b || b->constant) &&
                w->type.dims[1] * cm_int(conv, "group") == t->channels &&
                cm_can_scale(w, t->factor, t->channels);
    return fits ? conv : NULL;
}

static cm_status fold_forward(cm_rewriter *rw, cm_node *n, const affine *t, cm_node *conv)
{
    const double *w, *b = NULL;
    double *scaled, *bias;
    int64_t elems, k;
    const cm_tensor *wt = conv->in[1]->constant;
    int64_t to = wt->dims[0], from = wt->dims[1], groups = cm_int(conv, "group");
    CM_TRY(cm_const_f64(rw->cx, conv->in[1], &w, &elems));
    if (conv->n_in > 2 && conv->in[2])
        CM_TRY(cm_const_f64(rw->cx, conv->in[2], &b, &k));
    CM_NEW_N(rw->cx, rw->cx->scratch, scaled, elems, double);
    CM_NEW_N(rw->cx, rw->cx->scratch, bias, to, double);
    int64_t inner = cm_dims_product(wt->dims, 2, wt->rank);
    for (int64_t m = 0; m < to; m++) {
        bias[m] = b ? b[m] : 0;
        for (int64_t c = 0; c < from; c++) {
            int64_t channel = m / (to / groups) * from + c;
            for (int64_t i = (m * from + c) * inner, end = i + inner; i < end; i++) {
                bias[m] += w[i] * t->offset[channel];
                scaled[i] = w[i] * t->factor[channel];
            }
        }
    }
    cm_value *nw, *nb;
    cm_network *g = n->network;
    CM_TRY(cm_make_const_f64(rw->cx, g, conv->in[1]->name, wt->dtype, wt->rank, wt->dims, scaled,
                             &nw));
    CM_TRY(cm_make_const_f64(rw->cx, g, "bias", wt->dtype, 1, &to, bias, &nb));
    void *attr;
    cm_node *y;
    CM_TRY(cm_attr_copy(rw->cx, g->arena, conv->op->attrs, conv->attr, &attr));
    CM_TRY(
        cm_make_with(rw, conv, CM_OP_CONV, attr, conv, (cm_value *[]){n->in[0], nw, nb}, 3, 1, &y));
    CM_TRY(cm_node_add_from(rw->cx, y, n));
    CM_TRY(cm_replace(rw, conv, y->out[0], y));
    return cm_node_set_input(rw->cx, conv, 0, n->in[0]); /* dead, and no reader of n any more */
}

/* ---- Alone ---------------------------------------------------------------------------------- */

static cm_status cast(cm_rewriter *rw, cm_node *n, cm_dtype to, cm_value **v)
{
    cm_node *c;
    if ((*v)->type.dtype == to)
        return CM_OK;
    CM_TRY(cm_make_cast(rw, n, n, *v, to, &c));
    *v = c->out[0];
    return CM_OK;
}

/* Factors of 16 bits would lose what the offsets take away again. */
static cm_status to_mul_add(cm_rewriter *rw, cm_node *n, const affine *t)
{
    int64_t dims[CM_MAX_RANK] = {t->channels};
    int rank = cm_rank(n->in[0]) - 1;
    cm_dtype dtype = n->in[0]->type.dtype == CM_F64 ? CM_F64 : CM_F32;
    cm_value *factor, *offset, *x = n->in[0];
    cm_node *mul, *add;
    for (int i = 1; i < rank; i++)
        dims[i] = 1;
    CM_TRY(cm_make_const_f64(rw->cx, n->network, "scale", dtype, rank, dims, t->factor, &factor));
    CM_TRY(cm_make_const_f64(rw->cx, n->network, "bias", dtype, rank, dims, t->offset, &offset));
    CM_TRY(cast(rw, n, dtype, &x));
    CM_TRY(cm_make(rw, n, CM_OP_MUL, n, (cm_value *[]){x, factor}, 2, 1, &mul));
    CM_TRY(cm_make(rw, n, CM_OP_ADD, n, (cm_value *[]){mul->out[0], offset}, 2, 1, &add));
    cm_value *y = add->out[0];
    CM_TRY(cast(rw, n, n->out[0]->type.dtype, &y));
    return cm_replace(rw, n, y, NULL);
}

static bool becomes_mul_add(const cm_rewriter *rw, const cm_node *n, int64_t channels)
{
    cm_dtype d = n->in[0]->type.dtype;
    return (d == CM_F32 || d == CM_F64 || rw->options->for_plan) &&
           n->in[0]->type.dims[1] == channels && channels != 1;
}

/* ---- With parameters that vary ---------------------------------------------------------------- */

static bool may_vary(const cm_rewriter *rw, const cm_node *n)
{
    for (int i = 1; i < 5; i++)
        if (n->in[i]->type.dtype != n->in[0]->type.dtype)
            return false;
    return rw->options->for_plan && n->in[0]->type.dtype == CM_F32 &&
           n->in[0]->type.dims[1] == n->in[1]->type.dims[0];
}

static cm_status make2(cm_rewriter *rw, cm_node *n, cm_op_id op, cm_value *a, cm_value *b,
                       cm_value **out)
{
    cm_node *m;
    CM_TRY(cm_make(rw, n, op, n, (cm_value *[]){a, b}, 2, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

/* One a channel as it broadcasts to x. */
static cm_status along_channels(cm_rewriter *rw, cm_node *n, cm_value **v)
{
    int64_t all[CM_MAX_RANK], count = cm_rank(n->in[0]) - 2;
    cm_value *axes;
    if (count == 0)
        return CM_OK;
    for (int64_t i = 0; i < count; i++)
        all[i] = i + 1;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &count, all, &axes));
    return make2(rw, n, CM_OP_UNSQUEEZE, *v, axes, v);
}

/* (x - mean) * (scale / sqrt(var + epsilon)) + bias */
static cm_status spell_out(cm_rewriter *rw, cm_node *n)
{
    cm_value *scale = n->in[1], *bias = n->in[2], *mean = n->in[3], *epsilon, *t;
    cm_node *root;
    CM_TRY(cm_make_scalar(rw->cx, n->network, NULL, CM_F32, cm_float(n, "epsilon"), &epsilon));
    CM_TRY(make2(rw, n, CM_OP_ADD, n->in[4], epsilon, &t));
    CM_TRY(cm_make(rw, n, CM_OP_SQRT, n, &t, 1, 1, &root));
    CM_TRY(make2(rw, n, CM_OP_DIV, scale, root->out[0], &scale));
    CM_TRY(along_channels(rw, n, &scale));
    CM_TRY(along_channels(rw, n, &bias));
    CM_TRY(along_channels(rw, n, &mean));
    CM_TRY(make2(rw, n, CM_OP_SUB, n->in[0], mean, &t));
    CM_TRY(make2(rw, n, CM_OP_MUL, t, scale, &t));
    CM_TRY(make2(rw, n, CM_OP_ADD, t, bias, &t));
    CM_TRY(cm_replace(rw, n, t, NULL));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(fold_batch_norm)
{
    CM_FOR_NODES (n, g) {
        if (!is_inference(n))
            continue;
        if (!is_constant(n)) {
            if (!may_vary(rw, n))
                continue;
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(spell_out(rw, n));
            continue;
        }
        affine t;
        cm_linear l;
        cm_node *conv = NULL;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(affine_of(rw->cx, n, &t));
        bool back = follows(n, &t, &l);
        if (!back)
            conv = precedes(n, &t);
        if (back || conv || becomes_mul_add(rw, n, t.channels)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(back   ? fold_back(rw, n, &t, &l)
                   : conv ? fold_forward(rw, n, &t, conv)
                          : to_mul_add(rw, n, &t));
            cm_drop_if_dead(n);
        }
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
