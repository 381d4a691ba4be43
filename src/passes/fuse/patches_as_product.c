/* patches_as_product.c -- a convolution of patches that are read as rows is a product.
 *
 *     c = Conv(x, @w, @b) {kernel_shape=[16,16], strides=[16,16]}     x: [b, 3, 224, 224]
 *     r = Reshape(c, @(b,768,196))
 *     y = Transpose(r) {perm=[0,2,1]}
 *  becomes
 *     s = Reshape(x, @(b,3,14,16,14,16))
 *     t = Transpose(s) {perm=[0,2,4,1,3,5]}
 *     p = Reshape(t, @(b,196,768))                                    one patch, one row
 *     y = Add(MatMul(p, @w'), @b)
 *
 * The Reshape may be missing (a Transpose that puts channels last). Patches do not overlap and cover the input, which has fewer
 * channels than a vector: kernels of convolutions that want channels side by side read little else
 * than padding there. With many channels the convolution stays, as the patches would have to be copied first.
 *
 * needs: types, uses, explicit pads    keeps: types, uses
 * numerics: the order of a sum
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/conv_match.h"
#include "passes/product.h"
#include "passes/transposes.h"
#include "passes/views.h"

enum { MOST_CHANNELS = 7, MOST_SPACE = (CM_MAX_RANK - 2) / 2 };

typedef struct patches {
    cm_node *conv, *flat, *back; /* flat may be NULL */
    int space;
    int64_t channels, to, size[MOST_SPACE], count[MOST_SPACE];
} patches;

/* Does n take its input apart into patches of few channels? Their sizes and counts to p. */
static bool takes_patches(cm_node *n, patches *p)
{
    if (!cm_is_plain_conv(n))
        return false;
    cm_ints strides = cm_int_list(n, "strides");
    p->space = cm_rank(n->in[0]) - 2;
    if (p->space > MOST_SPACE || strides.n != p->space)
        return false;
    const cm_tensor *w = n->in[1]->constant;
    const cm_dim *in = n->in[0]->type.dims;
    p->conv = n;
    p->to = w->dims[0];
    p->channels = w->dims[1];
    for (int i = 0; i < p->space; i++) {
        p->size[i] = w->dims[2 + i];
        if (p->size[i] < 2 || strides.v[i] != p->size[i] || !cm_dim_is_size(in[2 + i]) ||
            in[2 + i] % p->size[i])
            return false;
        p->count[i] = in[2 + i] / p->size[i];
        if (p->count[i] < 1)
            return false;
    }
    return p->to > 0 && p->channels > 0 && p->channels <= MOST_CHANNELS;
}

/* Does t put the channels, axis 1, last and leave the order of the others? */
static bool puts_channels_last(const cm_node *t)
{
    int64_t perm[CM_MAX_RANK];
    if (!cm_is(t, CM_OP_TRANSPOSE) || !cm_perm(t, perm))
        return false;
    int rank = cm_rank(t->in[0]);
    bool last = perm[0] == 0 && perm[rank - 1] == 1;
    for (int i = 1; i < rank - 1; i++)
        last = last && perm[i] == i + 1;
    return last;
}

/* Is the result read as rows, one for each patch, and not otherwise? */
static bool read_as_rows(patches *p)
{
    const cm_value *c = p->conv->out[0];
    cm_node *n = cm_only_reader(c);
    p->flat = NULL;
    if (cm_is(n, CM_OP_RESHAPE)) {
        const cm_value *r = n->out[0];
        if (n->in[0] != c || cm_rank(r) != 3 || r->type.dims[0] != c->type.dims[0] ||
            r->type.dims[1] != p->to)
            return false;
        p->flat = n;
        n = cm_only_reader(r);
    }
    p->back = n;
    return puts_channels_last(n) && n->out[0]->n_uses;
}

/* x as [batch, patches.., elements of a patch]: the patches along one axis when they are read so. */
static cm_status rows_of(cm_rewriter *rw, const patches *p, int64_t elements, cm_node **out)
{
    int s = p->space, rank = 2 + 2 * s, k = 1;
    int64_t apart[CM_MAX_RANK] = {0, p->channels}, perm[CM_MAX_RANK] = {0}, rows[CM_MAX_RANK] = {0};
    int64_t count = 1;
    for (int i = 0; i < s; i++) {
        apart[2 + 2 * i] = p->count[i];
        apart[3 + 2 * i] = p->size[i];
        perm[1 + i] = 2 + 2 * i;
        perm[2 + s + i] = 3 + 2 * i;
        count *= p->count[i];
        if (!p->flat)
            rows[k++] = p->count[i];
    }
    perm[1 + s] = 1;
    if (p->flat)
        rows[k++] = count;
    rows[k++] = elements;
    CM_TRY(cm_make_reshape(rw, p->back, p->conv->in[0], apart, rank, p->conv, out));
    CM_TRY(cm_make_transpose(rw, p->back, (*out)->out[0], perm, rank, p->conv, out));
    return cm_make_reshape(rw, p->back, (*out)->out[0], rows, k, p->conv, out);
}

static cm_status rewrite(cm_rewriter *rw, const patches *p)
{
    int64_t elements = p->channels;
    cm_node *rows, *y;
    cm_value *w;
    for (int i = 0; i < p->space; i++)
        elements *= p->size[i];
    CM_TRY(rows_of(rw, p, elements, &rows));
    CM_TRY(
        cm_conv_piece(rw, p->conv->network, p->conv->in[1], 0, p->to, elements, true, false, &w));
    cm_product product = {.a = rows->out[0], .b = w, .alpha = 1};
    CM_TRY(cm_make_product(rw, p->back, p->conv, &product, &y));
    if (p->flat)
        CM_TRY(cm_node_add_from(rw->cx, y, p->flat));
    CM_TRY(cm_node_add_from(rw->cx, y, p->back));
    if (p->conv->n_in > 2 && p->conv->in[2])
        CM_TRY(cm_make(rw, p->back, CM_OP_ADD, p->conv, (cm_value *[]){y->out[0], p->conv->in[2]},
                       2, 1, &y));
    return cm_replace(rw, p->back, y->out[0], y);
}

CM_PASS(patches_as_product)
{
    CM_FOR_NODES (n, g) {
        patches p;
        if (!takes_patches(n, &p) || !read_as_rows(&p))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(rewrite(rw, &p));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
