/* conv.c -- Conv and ConvTranspose as problems: sizes over three spatial axes, padding in numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/linear/window_shape.h"
#include "ops/problem.h"

enum { AXES = 3 };

bool cm_problem_conv(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_conv_transpose(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

/* The window's sizes, in the last of the three axes. */
static void set_axes(cm_conv *c, const cm_window *w, const cm_tensor *x, const cm_tensor *y)
{
    c->axes = w->n;
    for (int d = 0; d < AXES; d++) {
        int i = d - (AXES - w->n);
        c->in[d] = i < 0 ? 1 : x->dims[i + 2];
        c->out[d] = i < 0 ? 1 : y->dims[i + 2];
        c->kernel[d] = i < 0 ? 1 : w->kernel[i];
        c->stride[d] = i < 0 ? 1 : w->stride[i];
        c->dilation[d] = i < 0 ? 1 : w->dilation[i];
        c->pad[d] = i < 0 ? 0 : w->pad_begin[i];
    }
}

/* No axis is empty, and every product of sizes that tactics form is a number. */
static bool countable(const cm_conv *c)
{
    int64_t in = c->n, out = c->n, weights = c->c_out;
    if (c->n < 1 || c->c_in < 1 || c->c_out < 1)
        return false;
    for (int d = 0; d < AXES; d++) {
        if (c->in[d] < 1 || c->out[d] < 1 || c->kernel[d] < 1)
            return false;
        int64_t reach, last;
        if (__builtin_mul_overflow(c->kernel[d] - 1, c->dilation[d], &reach) ||
            __builtin_mul_overflow((c->transposed ? c->in[d] : c->out[d]) - 1, c->stride[d],
                                   &last) ||
            reach > INT32_MAX || last > INT32_MAX || c->pad[d] > INT32_MAX)
            return false;
        if (__builtin_mul_overflow(in, c->in[d], &in) ||
            __builtin_mul_overflow(out, c->out[d], &out) ||
            __builtin_mul_overflow(weights, c->kernel[d], &weights))
            return false;
    }
    return in < INT64_MAX / 64 / c->c_in && out < INT64_MAX / 64 / c->c_out &&
           weights < INT64_MAX / 64 / c->c_in;
}

static bool read_window(const cm_op *op, const void *attr, cm_problem *p, cm_window *w)
{
    const cm_tensor *x = p->in[0], *k = p->in[1];
    if (x->rank < 3 || x->rank > AXES + 2)
        return false;
    cm_window_attr a = {cm_attr_str(op, attr, "auto_pad"), cm_attr_ints(op, attr, "kernel_shape"),
                        cm_attr_ints(op, attr, "strides"), cm_attr_ints(op, attr, "dilations"),
                        cm_attr_ints(op, attr, "pads")};
    cm_window_of(&a, x->rank - 2, k->dims + 2, x->dims + 2, w);
    return true;
}

bool cm_problem_conv(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_window w;
    cm_conv *c = &p->as.conv;
    if (!cm_problem_wants(p, 0) || !read_window(op, attr, p, &w))
        return false;
    *c = (cm_conv){.n = p->in[0]->dims[0],
                   .groups = cm_attr_int(op, attr, "group"),
                   .c_in = p->in[0]->dims[1],
                   .c_out = p->in[1]->dims[0],
                   .bias = cm_problem_has(p, 2)};
    set_axes(c, &w, p->in[0], p->out[0]);
    return countable(c);
}

/* Padding of a transposed convolution whose output's size was asked for: what the whole has over it,
 * the odd element at the end for SAME_UPPER and at the beginning otherwise. */
static void pads_from_sizes(const cm_op *op, const void *attr, const cm_problem *p, cm_window *w)
{
    bool same = w->auto_pad == CM_PAD_SAME_UPPER || w->auto_pad == CM_PAD_SAME_LOWER;
    cm_ints extra = cm_attr_ints(op, attr, "output_padding");
    if (!same && !cm_attr_ints(op, attr, "output_shape").n)
        return;
    for (int i = 0; i < w->n; i++) {
        int64_t all = (p->in[0]->dims[i + 2] - 1) * w->stride[i] +
                      (w->kernel[i] - 1) * w->dilation[i] + 1 + (extra.n ? extra.v[i] : 0);
        int64_t total = cm_max_i64(all - p->out[0]->dims[i + 2], 0);
        w->pad_begin[i] = w->auto_pad == CM_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    }
}

bool cm_problem_conv_transpose(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_window w;
    cm_conv *c = &p->as.conv;
    if (!cm_problem_wants(p, 0) || !read_window(op, attr, p, &w))
        return false;
    pads_from_sizes(op, attr, p, &w);
    int64_t groups = cm_attr_int(op, attr, "group");
    *c = (cm_conv){.n = p->in[0]->dims[0],
                   .groups = groups,
                   .c_in = p->in[0]->dims[1],
                   .c_out = p->out[0]->dims[1],
                   .bias = cm_problem_has(p, 2),
                   .transposed = true};
    set_axes(c, &w, p->in[0], p->out[0]);
    return countable(c);
}
