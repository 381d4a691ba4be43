/* crop_kernel.c -- convolutions without the positions of their kernel that only ever see padding.
 *
 *     y = Conv(x, @w) {dilations=[24,24], pads=[24,24,24,24]}     x: f32[n,8,14,14], w: f32[4,8,3,3]
 *  becomes
 *     v = Slice(@w) [1:2, 1:2] of the spatial axes                v: f32[4,8,1,1], folded later
 *     y = Conv(x, v) {dilations=[1,1], pads=[0,0,0,0]}
 *
 * At o of the output, position j of an axis reads the input at o * stride - pad + j * dilation. Positions at either end
 * that are outside for every o are cut off, and the padding shrinks by a dilation for each, so that the output keeps its
 * size. Fires on the axes whose sizes are known, when the weights are constant and padding is in numbers. Never cuts
 * further than the padding reaches; an axis where all positions are outside is left alone. So are weights that are not
 * finite: padding times infinity is not 0.
 *
 * needs: types, explicit pads    keeps: types, uses; constants are folded later
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/size.h"
#include "ops/linear/window_shape.h"
#include "passes/match.h"

/* What is kept: positions first[i] to end[i] - 1 of axis i, and the window that they are. */
typedef struct {
    int64_t first[CM_MAX_RANK], end[CM_MAX_RANK];
    cm_window window;
} crop;

/* Does position j of the kernel see an element of the input somewhere? */
static bool sees_input(const cm_window *w, int axis, int64_t j, int64_t in, int64_t out)
{
    int64_t at = j * w->dilation[axis] - w->pad_begin[axis], stride = w->stride[axis];
    int64_t o = at < 0 ? cm_ceil_div(-at, stride) : 0; /* the first that is not in front of it */
    return o < out && at + o * stride < in;
}

/* Cuts axis i; false: nothing goes. */
static bool cut_axis(crop *c, int i, int64_t in, int64_t out)
{
    cm_window *w = &c->window;
    int64_t front = 0, back = 0, kernel = w->kernel[i], d = w->dilation[i];
    while (front < kernel && !sees_input(w, i, front, in, out))
        front++;
    if (front == kernel)
        return false;
    while (!sees_input(w, i, kernel - 1 - back, in, out))
        back++;
    front = cm_min_i64(front, w->pad_begin[i] / d);
    back = cm_min_i64(back, w->pad_end[i] / d);
    if (front + back == 0)
        return false;
    c->first[i] = front;
    c->end[i] = kernel - back;
    w->kernel[i] = kernel - front - back;
    w->dilation[i] = w->kernel[i] == 1 ? 1 : d;
    w->pad_begin[i] -= front * d;
    w->pad_end[i] -= back * d;
    return true;
}

static bool find(const cm_node *n, crop *c)
{
    int64_t weights[CM_MAX_RANK];
    if (!cm_is(n, CM_OP_CONV) || !n->out[0]->n_uses || !cm_is_const(n->in[1]) ||
        !cm_static_shape(n->in[1], weights) || !cm_string_is(n, "auto_pad", "NOTSET"))
        return false;
    int spatial = cm_rank(n->in[1]) - 2;
    if (cm_rank(n->in[0]) != spatial + 2 || cm_rank(n->out[0]) != spatial + 2 || spatial < 1 ||
        2 * spatial > CM_MAX_RANK)
        return false;
    cm_window_attr a = {.auto_pad = cm_string(n, "auto_pad"),
                        .strides = cm_int_list(n, "strides"),
                        .dilations = cm_int_list(n, "dilations"),
                        .pads = cm_int_list(n, "pads")};
    const cm_dim *in = n->in[0]->type.dims + 2, *out = n->out[0]->type.dims + 2;
    cm_window_of(&a, spatial, weights + 2, in, &c->window);
    bool less = false;
    for (int i = 0; i < spatial; i++) {
        c->first[i] = 0;
        c->end[i] = weights[i + 2];
        if (cm_dim_is_size(in[i]) && cm_dim_is_size(out[i]))
            less |= cut_axis(c, i, in[i], out[i]);
    }
    return less;
}

static cm_status is_finite(cm_ctx *cx, const cm_value *weights, bool *out)
{
    const double *v;
    int64_t n;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    CM_TRY(cm_const_f64(cx, weights, &v, &n));
    *out = true;
    for (int64_t i = 0; i < n && *out; i++)
        *out = isfinite(v[i]);
    cm_arena_restore(cx->scratch, mark);
    return CM_OK;
}

static cm_status cut_weights(cm_rewriter *rw, cm_node *n, const crop *c)
{
    int64_t axes[CM_MAX_RANK], k = c->window.n;
    cm_value *in[4] = {n->in[1]};
    cm_node *cut;
    for (int i = 0; i < k; i++)
        axes[i] = i + 2;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, c->first, &in[1]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, c->end, &in[2]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, axes, &in[3]));
    CM_TRY(cm_make(rw, n, CM_OP_SLICE, n, in, 4, 1, &cut));
    return cm_node_set_input(rw->cx, n, 1, cut->out[0]);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const crop *c)
{
    const cm_window *w = &c->window;
    int64_t pads[CM_MAX_RANK];
    for (int i = 0; i < w->n; i++) {
        pads[i] = w->pad_begin[i];
        pads[w->n + i] = w->pad_end[i];
    }
    CM_TRY(cut_weights(rw, n, c));
    CM_TRY(cm_set_ints(rw->cx, n, "kernel_shape", w->kernel, w->n));
    CM_TRY(cm_set_ints(rw->cx, n, "dilations", w->dilation, w->n));
    CM_TRY(cm_set_ints(rw->cx, n, "pads", pads, 2 * w->n));
    return cm_node_infer(rw->cx, n);
}

CM_PASS(crop_kernel)
{
    CM_FOR_NODES (n, g) {
        crop c;
        bool finite;
        if (!find(n, &c))
            continue;
        CM_TRY(is_finite(rw->cx, n->in[1], &finite));
        if (!finite) {
            cm_near(rw, n, "kernel not cropped: its weights are not finite");
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &c));
    }
    return CM_OK;
}
