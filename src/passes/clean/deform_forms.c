/* deform_forms.c -- deformable convolutions as samples of the image and a product; for a plan only.
 *
 *     y = DeformConv(x, w, offset, b, mask)
 *  becomes
 *     g = places of all samples, (x, y) from -1 to 1: offset, scaled and moved
 *     s = GridSample(x, g)                       [batch, channels, kernel positions, output positions]
 *     y = MatMul(w, Mul(s, mask)) + b            reshaped there and back
 *
 * An image is sampled once for every group of offsets: these are part of the batch meanwhile. Fires for images of two axes in
 * float32 whose sizes, but for the batch's, are numbers.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

typedef struct {
    int64_t channels, groups, sets, features;    /* sets: of offsets */
    int64_t in[2], out[2], kernel[2], positions; /* of the kernel */
    int64_t stride[2], dilation[2], pad[2];
} sizes;

static int64_t entry(const cm_node *n, const char *name, int i, int64_t otherwise)
{
    cm_ints list = cm_int_list(n, name);
    return i < list.n ? list.v[i] : otherwise;
}

static bool read_sizes(const cm_node *n, sizes *s)
{
    enum { MOST = 1 << 28 };
    if (!cm_is(n, CM_OP_DEFORM_CONV) || cm_rank(n->in[0]) != 4 || cm_rank(n->out[0]) != 4 ||
        n->in[0]->type.dtype != CM_F32)
        return false;
    const cm_dim *x = n->in[0]->type.dims, *w = n->in[1]->type.dims, *y = n->out[0]->type.dims;
    for (int i = 1; i < 4; i++)
        if (!cm_dim_is_size(x[i]) || !cm_dim_is_size(y[i]) || x[i] < 1 || y[i] < 1)
            return false;
    *s = (sizes){.channels = x[1],
                 .groups = cm_int(n, "group"),
                 .sets = cm_int(n, "offset_group"),
                 .features = y[1]};
    for (int i = 0; i < 2; i++) {
        if (!cm_dim_is_size(w[i + 2]) || w[i + 2] < 1)
            return false;
        s->in[i] = x[i + 2];
        s->out[i] = y[i + 2];
        s->kernel[i] = w[i + 2];
        s->stride[i] = entry(n, "strides", i, 1);
        s->dilation[i] = entry(n, "dilations", i, 1);
        s->pad[i] = entry(n, "pads", i, 0);
    }
    s->positions = s->kernel[0] * s->kernel[1];
    return s->positions < MOST / (s->out[0] * s->out[1]);
}

/* Where samples are without offsets, (y, x) from -1 to 1: [kernel positions, output positions, 2]. */
static cm_value *places(cm_chain *c, const sizes *s)
{
    int64_t volume = s->out[0] * s->out[1], dims[] = {s->positions, volume, 2};
    double *v = cm_new_n(c->rw->cx->scratch, s->positions * volume * 2, double);
    cm_value *out = NULL;
    if (!v)
        c->st = cm_fail_memory(c->rw->cx);
    for (int64_t i = 0; c->st == CM_OK && i < s->positions * volume; i++) {
        int64_t k[] = {i / volume / s->kernel[1], i / volume % s->kernel[1]};
        int64_t o[] = {i % volume / s->out[1], i % volume % s->out[1]};
        for (int d = 0; d < 2; d++) {
            int64_t at = o[d] * s->stride[d] - s->pad[d] + k[d] * s->dilation[d];
            v[2 * i + d] = (double)(2 * at + 1) / (double)s->in[d] - 1;
        }
    }
    if (c->st == CM_OK)
        c->st = cm_make_const_f64(c->rw->cx, c->at->network, NULL, CM_F32, 3, dims, v, &out);
    return out;
}

static cm_value *grid(cm_chain *c, const sizes *s)
{
    static const int64_t pairs_last[] = {0, 1, 3, 2}, x_first[] = {1, 0}, two = 2;
    const double scale[] = {2 / (double)s->in[0], 2 / (double)s->in[1]};
    cm_value *factor = NULL;
    void *perm = cm_chain_attr(c, CM_OP_TRANSPOSE), *axis = cm_chain_attr(c, CM_OP_GATHER);
    cm_chain_ints(c, CM_OP_TRANSPOSE, perm, "perm", 4, pairs_last);
    cm_chain_int(c, CM_OP_GATHER, axis, "axis", 3);
    if (c->st == CM_OK)
        c->st = cm_make_const_f64(c->rw->cx, c->at->network, NULL, CM_F32, 1, &two, scale, &factor);
    cm_value *v = cm_chain_reshape(c, c->at->in[2], 4,
                                   (int64_t[]){-1, s->positions, 2, s->out[0] * s->out[1]});
    v = CM_THEN(c, CM_OP_TRANSPOSE, perm, v);
    v = CM_THEN(c, CM_OP_MUL, NULL, v, factor);
    v = CM_THEN(c, CM_OP_ADD, NULL, v, places(c, s));
    return CM_THEN(c, CM_OP_GATHER, axis, v, cm_chain_list(c, 2, x_first));
}

static bool is_deform(const cm_node *n)
{
    sizes s;
    return read_sizes(n, &s);
}

static void expand(cm_chain *c)
{
    const cm_node *n = c->at;
    cm_value *bias = n->n_in > 3 ? n->in[3] : NULL, *mask = n->n_in > 4 ? n->in[4] : NULL;
    sizes s;
    (void)read_sizes(n, &s); /* it is one */
    int64_t volume = s.out[0] * s.out[1], rows = s.channels / s.groups * s.positions;
    cm_value *x =
        cm_chain_reshape(c, n->in[0], 4, (int64_t[]){-1, s.channels / s.sets, s.in[0], s.in[1]});
    cm_value *v = CM_THEN(c, CM_OP_GRID_SAMPLE, NULL, x, grid(c, &s));
    if (mask)
        v = CM_THEN(c, CM_OP_MUL, NULL, v,
                    cm_chain_reshape(c, mask, 4, (int64_t[]){-1, 1, s.positions, volume}));
    v = cm_chain_reshape(c, v, 4, (int64_t[]){-1, s.groups, rows, volume});
    cm_value *w =
        cm_chain_reshape(c, n->in[1], 3, (int64_t[]){s.groups, s.features / s.groups, rows});
    v = CM_THEN(c, CM_OP_MATMUL, NULL, w, v);
    v = cm_chain_reshape(c, v, 4, (int64_t[]){-1, s.features, s.out[0], s.out[1]});
    if (bias)
        v = CM_THEN(c, CM_OP_ADD, NULL, v,
                    cm_chain_reshape(c, bias, 3, (int64_t[]){s.features, 1, 1}));
    cm_chain_end(c, 0, v);
}

CM_PASS(deform_forms)
{
    static const cm_chain_form form = {is_deform, expand};
    return cm_chain_rewrite(rw, g, &form, 1);
}
