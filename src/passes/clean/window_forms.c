/* window_forms.c -- operators over windows without kernels as those that have some; for a plan only.
 *
 *     y, next = CausalConvWithState(x, w, b, state) {activation="silu"}
 *  becomes
 *     s = Concat(state, x) {axis=2}          (zeros before x where there is no state)
 *     y = Swish(Conv(s, w, b) {group=channels})
 *     next = Slice(s), its last k - 1
 *
 * and MaxUnpool without an explicit shape as a ScatterElements into zeros. Both want the sizes that they name to be numbers.
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

CM_PASS(window_forms)
{
    static const cm_chain_form forms[] = {{is_causal_conv, expand_causal_conv},
                                          {is_max_unpool, expand_max_unpool}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
