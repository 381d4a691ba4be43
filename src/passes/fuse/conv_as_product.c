/* conv_as_product.c -- a convolution of single points that reads its input transposed is a product.
 *
 *     t = Transpose(x) {perm=[0,2,1]}             x: [b, time, channels]
 *     c = Conv(t, @w, @b) {kernel_shape=[1]}
 *  becomes
 *     p = Add(MatMul(x, @w'), @b)
 *     c = Transpose(p) {perm=[0,2,1]}             which meets another one below
 *  or, when none is below,
 *     c = Add(com.microsoft.FusedMatMul(@w, x) {transB=1}, @b)
 *
 * One axis of space, kernel and strides 1, no padding, one group, constant weights; the Transpose is read by
 * nobody else. A Split of the channels behind it becomes one product for each part when pointwise nodes read
 * the parts: they are epilogues then (GLU).
 *
 * needs: types, uses, explicit pads    keeps: types, uses
 * numerics: the order of a sum
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/conv_match.h"
#include "passes/product.h"
#include "passes/transposes.h"

enum { MOST_PARTS = 8 };

static const int64_t SWAPPED[] = {0, 2, 1};

static bool swaps(const cm_node *n)
{
    int64_t perm[CM_MAX_RANK];
    return cm_is(n, CM_OP_TRANSPOSE) && cm_rank(n->in[0]) == 3 && cm_perm(n, perm) &&
           cm_perm_equal(perm, SWAPPED, 3);
}

/* The Transpose before n when n is a convolution of points, else NULL. */
static cm_node *transpose_before(const cm_node *n)
{
    if (!cm_is_plain_conv(n) || cm_rank(n->in[0]) != 3 || n->in[1]->constant->dims[2] != 1 ||
        !cm_all_are(cm_int_list(n, "strides"), 1))
        return NULL;
    cm_node *t = cm_made_by(n->in[0], CM_OP_TRANSPOSE);
    return swaps(t) && cm_only_reader(n->in[0]) == n ? t : NULL;
}

/* Do pointwise nodes lead from v to a Transpose back? */
static bool transposed_below(const cm_value *v)
{
    enum { FAR = 8 };
    for (int i = 0; i < FAR; i++) {
        cm_node *n = cm_only_reader(v);
        if (!n || swaps(n))
            return n != NULL;
        if (!(n->op->traits & CM_ELTWISE) || n->epilogue.program || !cm_same_shape(v, n->out[0]))
            return false;
        v = n->out[0];
    }
    return false;
}

/* A Split of the channels whose parts pointwise nodes read: their number, sizes to `sizes`; or 0. */
static int parts(const cm_node *split, int64_t channels, int64_t *sizes)
{
    if (!cm_is(split, CM_OP_SPLIT) || split->n_out < 2 || split->n_out > MOST_PARTS ||
        (cm_int(split, "axis") != 1 && cm_int(split, "axis") != -2))
        return 0;
    int64_t sum = 0;
    for (int i = 0; i < split->n_out; i++) {
        const cm_value *v = split->out[i];
        if (cm_rank(v) != 3 || !cm_dim_is_size(v->type.dims[1]) || !v->n_uses)
            return 0;
        for (const cm_use *u = v->uses; u; u = u->next)
            if (!u->node || !(u->node->op->traits & CM_ELTWISE))
                return 0;
        sizes[i] = v->type.dims[1];
        sum += sizes[i];
    }
    return sum == channels ? split->n_out : 0;
}

/* Channels first .. first + n of the convolution. */
static cm_status make_part(cm_rewriter *rw, cm_node *before, cm_node *conv, cm_node *t,
                           int64_t first, int64_t n, bool back, cm_node **out)
{
    cm_network *g = conv->network;
    cm_value *w, *b;
    cm_node *y;
    int64_t from = conv->in[1]->constant->dims[1];
    CM_TRY(cm_conv_piece(rw, g, conv->in[1], first, n, from, back, false, &w));
    cm_product p = {.a = w, .b = t->in[0], .trans_b = true, .alpha = 1};
    if (back)
        p = (cm_product){.a = t->in[0], .b = w, .alpha = 1};
    CM_TRY(cm_make_product(rw, before, conv, &p, &y));
    CM_TRY(cm_node_add_from(rw->cx, y, t));
    if (conv->n_in > 2 && conv->in[2]) {
        CM_TRY(cm_conv_piece(rw, g, conv->in[2], first, n, 1, false, back, &b));
        CM_TRY(cm_make(rw, before, CM_OP_ADD, conv, (cm_value *[]){y->out[0], b}, 2, 1, &y));
    }
    if (back)
        CM_TRY(cm_make_transpose(rw, before, y->out[0], SWAPPED, 3, conv, &y));
    *out = y;
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *conv, cm_node *t)
{
    int64_t sizes[MOST_PARTS], channels = conv->in[1]->constant->dims[0], first = 0;
    cm_node *split = cm_only_reader(conv->out[0]), *y;
    int n = parts(split, channels, sizes);
    if (!n) {
        CM_TRY(make_part(rw, conv, conv, t, 0, channels, transposed_below(conv->out[0]), &y));
        return cm_replace(rw, conv, y->out[0], y);
    }
    for (int i = 0; i < n; i++) {
        CM_TRY(make_part(rw, split, conv, t, first, sizes[i], false, &y));
        CM_TRY(cm_node_add_from(rw->cx, y, split));
        CM_TRY(cm_replace_uses(rw->cx, split->out[i], y->out[0]));
        first += sizes[i];
    }
    return CM_OK;
}

CM_PASS(conv_as_product)
{
    CM_FOR_NODES (n, g) {
        cm_node *t = transpose_before(n);
        if (!t || !n->out[0]->n_uses)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(rewrite(rw, n, t));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
