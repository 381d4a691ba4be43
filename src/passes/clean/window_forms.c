/* window_forms.c -- operators over windows without kernels as those that have some; for a plan only.
 *
 *     y, next = CausalConvWithState(x, w, b, state) {activation="silu"}
 *  becomes
 *     s = Concat(state, x) {axis=2}          (zeros before x where there is no state)
 *     y = Swish(Conv(s, w, b) {group=channels})
 *     next = Slice(s), its last k - 1
 *
 * MaxUnpool without an explicit shape as a ScatterElements into zeros, and Col2Im as a sum of what a Gather finds: for each position
 * in a block, the column that lies on each pixel, or a zero. All want the sizes that they name to be numbers.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

/* ---- CausalConvWithState ------------------------------------------------------------------------ */

static bool is_causal_conv(const cm_node *n)
{
    if (!cm_is(n, CM_OP_CAUSAL_CONV_WITH_STATE) || cm_rank(n->in[0]) != 3 ||
        cm_rank(n->in[1]) != 3 || !n->out[0] || !cm_is_float(n->in[0]))
        return false;
    cm_dim channels = n->in[0]->type.dims[1], k = n->in[1]->type.dims[2];
    return cm_dim_is_size(channels) && cm_dim_is_size(k) && channels > 0 && k > 1;
}

static void expand_causal_conv(cm_chain *c)
{
    const cm_node *n = c->at;
    cm_value *x = n->in[0], *w = n->in[1], *bias = n->n_in > 2 ? n->in[2] : NULL,
             *state = n->n_in > 3 ? n->in[3] : NULL, *seq;
    int64_t before = w->type.dims[2] - 1;
    if (state) {
        void *attr = cm_chain_attr(c, CM_OP_CONCAT);
        cm_chain_int(c, CM_OP_CONCAT, attr, "axis", 2);
        seq = CM_THEN(c, CM_OP_CONCAT, attr, state, x);
    } else {
        seq =
            CM_THEN(c, CM_OP_PAD, NULL, x, cm_chain_list(c, 6, (int64_t[]){0, 0, before, 0, 0, 0}));
    }
    void *attr = cm_chain_attr(c, CM_OP_CONV);
    cm_chain_int(c, CM_OP_CONV, attr, "group", x->type.dims[1]);
    cm_value *y = cm_chain_make(c, CM_OP_CONV, attr, bias ? 3 : 2, (cm_value *[]){seq, w, bias});
    if (!cm_string_is(n, "activation", "none"))
        y = CM_THEN(c, CM_OP_SWISH, NULL, y);
    cm_chain_end(c, 0, y);
    if (n->n_out > 1 && n->out[1])
        cm_chain_end(c, 1, cm_chain_slice(c, seq, 2, -before, INT64_MAX));
}

/* ---- MaxUnpool ---------------------------------------------------------------------------------- */

static bool is_max_unpool(const cm_node *n)
{
    enum { MOST = 1 << 30 };
    int64_t volume;
    return cm_is(n, CM_OP_MAX_UNPOOL) && (n->n_in < 3 || !n->in[2]) && n->out[0] &&
           cm_volume(n->in[0]) > 0 && (volume = cm_volume(n->out[0])) > 0 && volume < MOST;
}

static void expand_max_unpool(cm_chain *c)
{
    static const int64_t all = -1;
    const cm_node *n = c->at;
    int64_t dims[CM_MAX_RANK], volume = cm_volume(n->out[0]);
    cm_dtype t = n->in[0]->type.dtype;
    cm_value *zeros =
        CM_THEN(c, CM_OP_EXPAND, NULL, cm_chain_number(c, t, 0), cm_chain_list(c, 1, &volume));
    cm_value *at = cm_chain_reshape(c, n->in[1], 1, &all);
    cm_value *x = cm_chain_reshape(c, n->in[0], 1, &all);
    cm_value *y = CM_THEN(c, CM_OP_SCATTER_ELEMENTS, NULL, zeros, at, x);
    (void)cm_static_shape(n->out[0], dims); /* its volume is known */
    cm_chain_end(c, 0, cm_chain_reshape(c, y, cm_rank(n->out[0]), dims));
}

/* ---- Col2Im ------------------------------------------------------------------------------------- */

typedef struct {
    int n; /* axes of the image */
    int64_t image[CM_MAX_RANK], block[CM_MAX_RANK], count[CM_MAX_RANK];
    int64_t stride[CM_MAX_RANK], dilation[CM_MAX_RANK], pad[CM_MAX_RANK];
    int64_t channels, pixels, positions, blocks; /* positions in a block, blocks in all */
} columns;

static int64_t attr_at(const cm_node *n, const char *name, int i, int64_t otherwise)
{
    cm_ints v = cm_int_list(n, name);
    return v.n ? v.v[i] : otherwise;
}

static bool read_columns(const cm_node *n, columns *c)
{
    enum { MOST = 1 << 24 };
    int n_block;
    if (!cm_is(n, CM_OP_COL2IM) || cm_rank(n->in[0]) != 3 || !n->out[0] ||
        !cm_const_ints(n->in[1], c->image, CM_MAX_RANK, &c->n) ||
        !cm_const_ints(n->in[2], c->block, CM_MAX_RANK, &n_block) || n_block != c->n)
        return false;
    const cm_dim *x = n->in[0]->type.dims;
    c->pixels = c->positions = c->blocks = 1;
    for (int d = 0; d < c->n; d++) {
        c->stride[d] = attr_at(n, "strides", d, 1);
        c->dilation[d] = attr_at(n, "dilations", d, 1);
        c->pad[d] = attr_at(n, "pads", d, 0);
        int64_t padded = c->image[d] + c->pad[d] + attr_at(n, "pads", c->n + d, 0);
        c->count[d] = (padded - c->dilation[d] * (c->block[d] - 1) - 1) / c->stride[d] + 1;
        c->pixels *= c->image[d];
        c->positions *= c->block[d];
        c->blocks *= c->count[d];
        if (c->image[d] < 1 || c->block[d] < 1 || c->count[d] < 1 || c->pixels > MOST ||
            c->positions > MOST / c->pixels || c->blocks > MOST)
            return false;
    }
    if (!cm_dim_is_size(x[1]) || x[2] != c->blocks)
        return false;
    c->channels = x[1] / c->positions;
    return c->channels > 0;
}

static bool is_col2im(const cm_node *n)
{
    columns c;
    cm_dtype t = cm_is(n, CM_OP_COL2IM) ? n->in[0]->type.dtype : CM_NO_DTYPE;
    return (t == CM_F32 || t == CM_F16 || t == CM_BF16) && read_columns(n, &c);
}

/* Which column's entry lies on a pixel that is in this position of a block; behind the last: none. */
static int64_t entry_at(const columns *c, int64_t position, int64_t pixel)
{
    int64_t block = 0, step = 1, rest = position;
    for (int d = c->n - 1; d >= 0; d--) {
        int64_t from = pixel % c->image[d] + c->pad[d] - rest % c->block[d] * c->dilation[d];
        pixel /= c->image[d];
        rest /= c->block[d];
        if (from < 0 || from % c->stride[d] != 0 || from / c->stride[d] >= c->count[d])
            return c->positions * c->blocks;
        block += from / c->stride[d] * step;
        step *= c->count[d];
    }
    return position * c->blocks + block;
}

static cm_value *entries(cm_chain *chain, const columns *c)
{
    int64_t dims[] = {c->positions, c->pixels}, *v;
    cm_value *out = NULL;
    v = cm_new_n(chain->rw->cx->scratch, dims[0] * dims[1], int64_t);
    if (!v && chain->st == CM_OK)
        chain->st = cm_fail_memory(chain->rw->cx);
    for (int64_t i = 0; v && i < dims[0] * dims[1]; i++)
        v[i] = entry_at(c, i / c->pixels, i % c->pixels);
    if (chain->st == CM_OK)
        chain->st = cm_make_const_i64(chain->rw->cx, chain->at->network, NULL, 2, dims, v, &out);
    return out;
}

static void expand_col2im(cm_chain *chain)
{
    static const int64_t third = 2;
    const cm_node *n = chain->at;
    columns c;
    (void)read_columns(n, &c);
    cm_value *x = cm_chain_reshape(chain, cm_chain_widen(chain, n->in[0]), 3,
                                   (int64_t[]){0, c.channels, c.positions * c.blocks});
    x = CM_THEN(chain, CM_OP_PAD, NULL, x, cm_chain_list(chain, 6, (int64_t[]){0, 0, 0, 0, 0, 1}));
    void *attr = cm_chain_attr(chain, CM_OP_GATHER);
    cm_chain_int(chain, CM_OP_GATHER, attr, "axis", 2);
    x = CM_THEN(chain, CM_OP_GATHER, attr, x, entries(chain, &c));
    x = cm_chain_reduce(chain, CM_OP_REDUCE_SUM, x, 1, &third, false);
    int64_t dims[CM_MAX_RANK + 2] = {0, c.channels};
    for (int d = 0; d < c.n; d++)
        dims[2 + d] = c.image[d];
    cm_chain_end(chain, 0, cm_chain_reshape(chain, x, c.n + 2, dims));
}

CM_PASS(window_forms)
{
    static const cm_chain_form forms[] = {{is_causal_conv, expand_causal_conv},
                                          {is_max_unpool, expand_max_unpool},
                                          {is_col2im, expand_col2im}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
