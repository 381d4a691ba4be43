/* linear.c -- scaling and shifting the results of convolutions and products through their weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/linear.h"

#include <math.h>

/* A bias of one number per channel, or a single number for all of them. */
static bool is_bias(const cm_value *b, int64_t channels)
{
    return !b || (b->constant && cm_rank(b) == 1 && b->type.dims[0] == channels);
}

static bool find_conv(cm_node *n, cm_linear *out)
{
    cm_value *w = n->in[1];
    bool transposed = n->op->id == CM_OP_CONV_TRANSPOSE;
    *out = (cm_linear){.node = n, .weights = w, .axis = 1};
    out->bias = n->n_in > 2 ? n->in[2] : NULL;
    if (!cm_is_const(w) || !cm_is_float(w) || cm_rank(w) < 3)
        return false;
    out->channels = transposed ? w->type.dims[1] * cm_int(n, "group") : w->type.dims[0];
    return is_bias(out->bias, out->channels);
}

static bool find_matmul(cm_node *n, cm_linear *out)
{
    cm_value *w = n->in[1];
    *out = (cm_linear){.node = n, .weights = w, .axis = cm_rank(n->out[0]) - 1};
    if (!cm_is_const(w) || !cm_is_float(w) || cm_rank(w) != 2 || out->axis < 0 ||
        cm_rank(n->in[0]) < 2)
        return false;
    out->channels = w->type.dims[1];
    return true;
}

/* A product and the constant added to it. */
static bool find_biased(cm_node *add, cm_linear *out)
{
    for (int i = 0; i < 2; i++) {
        cm_value *v = add->in[i], *b = add->in[1 - i];
        cm_node *p = cm_made_by(v, CM_OP_MATMUL);
        if (!p || !cm_sole_use(v) || !cm_is_const(b) || !find_matmul(p, out) ||
            !cm_same_shape(v, add->out[0]) || !cm_per_channel(b, v, out->axis, out->channels))
            continue;
        out->add = add;
        out->bias = b;
        return true;
    }
    return false;
}

bool cm_linear_find(const cm_value *v, cm_linear *out)
{
    if (!v || !cm_sole_use(v) || !v->producer || v->index != 0 ||
        v->network != v->producer->network)
        return false;
    cm_node *p = v->producer;
    if (cm_is(p, CM_OP_CONV) || cm_is(p, CM_OP_CONV_TRANSPOSE))
        return find_conv(p, out);
    if (cm_is(p, CM_OP_MATMUL))
        return find_matmul(p, out);
    return cm_is(p, CM_OP_ADD) && find_biased(p, out);
}

bool cm_per_channel(const cm_value *c, const cm_value *v, int axis, int64_t channels)
{
    int rank = cm_rank(c), offset = cm_rank(v) - rank;
    if (!cm_is_const(c) || rank < 0 || offset < 0)
        return false;
    for (int i = 0; i < rank; i++)
        if (c->type.dims[i] != 1 && (i + offset != axis || c->type.dims[i] != channels))
            return false;
    return true;
}

cm_status cm_channel_values(cm_ctx *cx, const cm_value *c, int64_t channels, const double **out)
{
    int64_t n;
    CM_TRY(cm_const_f64(cx, c, out, &n));
    if (n == channels)
        return CM_OK;
    double *all;
    CM_NEW_N(cx, cx->scratch, all, channels, double);
    for (int64_t i = 0; i < channels; i++)
        all[i] = (*out)[0];
    *out = all;
    return CM_OK;
}

bool cm_can_scale(const cm_value *weights, const double *scale, int64_t channels)
{
    bool narrow = weights->type.dtype != CM_F32 && weights->type.dtype != CM_F64;
    double most = narrow ? 64 : 1e15;
    for (int64_t i = 0; i < channels; i++) {
        double a = fabs(scale[i]);
        if (!(a <= most) || (a != 0 && a < 1 / most))
            return false;
    }
    return true;
}

/* Which channel of the result element i of the weights belongs to. */
static int64_t channel_of(const cm_linear *l, int64_t i, int64_t inner)
{
    const cm_dim *d = l->weights->type.dims;
    if (l->node->op->id == CM_OP_CONV)
        return i / inner;
    if (l->node->op->id == CM_OP_MATMUL)
        return i % l->channels;
    int64_t from = i / inner / d[1], to = i / inner % d[1], groups = cm_int(l->node, "group");
    return from / (d[0] / groups) * d[1] + to;
}

/* Elements of the weights that share their leading one (Conv) or two (ConvTranspose) indices. */
static int64_t inner_of(const cm_linear *l)
{
    int64_t inner = 1;
    for (int a = l->node->op->id == CM_OP_CONV ? 1 : 2; a < cm_rank(l->weights); a++)
        inner *= l->weights->type.dims[a];
    return inner;
}

static cm_status scale_weights(cm_rewriter *rw, const cm_linear *l, const double *scale,
                               cm_value **out)
{
    const double *w;
    double *v;
    int64_t n, inner = inner_of(l);
    cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
    CM_TRY(cm_const_f64(rw->cx, l->weights, &w, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, v, n, double);
    for (int64_t i = 0; i < n; i++)
        v[i] = w[i] * scale[channel_of(l, i, inner)];
    const cm_tensor *t = l->weights->constant;
    CM_TRY(cm_make_const_f64(rw->cx, l->node->network, l->weights->name, t->dtype, t->rank, t->dims,
                             v, out));
    cm_arena_restore(rw->cx->scratch, mark);
    return CM_OK;
}

static cm_status new_bias(cm_rewriter *rw, const cm_linear *l, const double *scale,
                          const double *shift, cm_value **out)
{
    const double *old = NULL;
    double *v;
    *out = l->bias;
    if (!shift && (!scale || !l->bias))
        return CM_OK;
    if (l->bias)
        CM_TRY(cm_channel_values(rw->cx, l->bias, l->channels, &old));
    CM_NEW_N(rw->cx, rw->cx->scratch, v, l->channels, double);
    for (int64_t i = 0; i < l->channels; i++)
        v[i] = (old ? old[i] : 0) * (scale ? scale[i] : 1) + (shift ? shift[i] : 0);
    return cm_make_const_f64(rw->cx, l->node->network, l->bias ? l->bias->name : "bias",
                             l->weights->type.dtype, 1, &l->channels, v, out);
}

cm_status cm_linear_apply(cm_rewriter *rw, cm_node *last, const cm_linear *l, const double *scale,
                          const double *shift, cm_node **out)
{
    cm_value *in[3] = {l->node->in[0], l->weights};
    void *attr;
    if (scale)
        CM_TRY(scale_weights(rw, l, scale, &in[1]));
    CM_TRY(new_bias(rw, l, scale, shift, &in[2]));
    bool product = l->node->op->id == CM_OP_MATMUL;
    CM_TRY(cm_attr_copy(rw->cx, last->network->arena, l->node->op->attrs, l->node->attr, &attr));
    CM_TRY(cm_make_with(rw, last, l->node->op->id, attr, l->node, in, product || !in[2] ? 2 : 3, 1,
                        out));
    if (!product || !in[2])
        return CM_OK;
    cm_node *p = *out;
    CM_TRY(cm_make(rw, last, CM_OP_ADD, l->add ? l->add : last, (cm_value *[]){p->out[0], in[2]}, 2,
                   1, out));
    return CM_OK;
}
