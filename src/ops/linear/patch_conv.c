/* patch_conv.c -- convolution as a product of weights and patches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/patch_conv.h"

#include "ops/expect.h"
#include "ops/linear/gemm.h"

static cm_window_attr window_attr(const cm_conv_fields *a)
{
    return (cm_window_attr){a->auto_pad, a->kernel_shape, a->strides, a->dilations, a->pads};
}

static cm_status check_channels(cm_infer *f, const cm_conv_fields *a, cm_dim channels, int w, int b)
{
    int64_t m;
    if (a->group < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "group is %lld, wanted 1 or more", (long long)a->group);
    CM_TRY(cm_infer_equal(f, "input channels", channels,
                          cm_infer_mul(f, cm_infer_dim(f, w, 1), a->group)));
    if (cm_infer_const(f, cm_infer_dim(f, w, 0), &m) && m % a->group != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "group=%lld does not divide %lld output channels",
                       (long long)a->group, (long long)m);
    cm_dim bias = cm_infer_dim(f, w, 0);
    return b < 0 ? CM_OK : cm_expect_shape(f, b, "bias", 1, &bias);
}

cm_status cm_patch_conv_infer(cm_infer *f, int o, int x, int w, int b, const cm_conv_fields *a,
                              bool channels_last)
{
    if (!cm_infer_ranked(f, x) || !cm_infer_ranked(f, w)) {
        cm_infer_unknown(f, o);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, x), n = rank - 2, first = channels_last ? 1 : 2;
    if (rank < 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 3 or more", rank);
    CM_TRY(cm_expect_rank(f, w, "the weights", rank, rank));
    CM_TRY(check_channels(f, a, cm_infer_dim(f, x, channels_last ? rank - 1 : 1), w, b));
    cm_dim kernel[CM_MAX_RANK], in[CM_MAX_RANK], out[CM_MAX_RANK], dims[CM_MAX_RANK];
    for (int i = 0; i < n; i++) {
        kernel[i] = cm_infer_dim(f, w, 2 + i);
        in[i] = cm_infer_dim(f, x, first + i);
    }
    cm_window window;
    cm_window_attr attr = window_attr(a);
    CM_TRY(cm_window_read(f, &attr, n, kernel, &window));
    CM_TRY(cm_window_out(f, &window, in, false, out));
    dims[0] = cm_infer_dim(f, x, 0);
    dims[channels_last ? rank - 1 : 1] = cm_infer_dim(f, w, 0);
    for (int i = 0; i < n; i++)
        dims[first + i] = out[i];
    return cm_infer_tensor(f, o, rank, dims);
}

cm_status cm_patch_conv_read(cm_eval *e, int x, int w, const cm_conv_fields *a, bool channels_last,
                             cm_patch_conv *c)
{
    const cm_tensor *tx = cm_eval_in(e, x), *tw = cm_eval_in(e, w), *ty = cm_eval_out(e, 0);
    int n = tx->rank - 2, first = channels_last ? 1 : 2, channel = channels_last ? tx->rank - 1 : 1;
    *c = (cm_patch_conv){.images = tx->dims[0],
                         .group = a->group,
                         .in_c = tw->dims[1],
                         .out_c = tw->dims[0] / a->group,
                         .positions = 1};
    for (int i = 0; i < n; i++) {
        c->in[i] = tx->dims[first + i];
        c->out[i] = ty->dims[first + i];
        c->kernel[i] = tw->dims[2 + i];
        c->x_space[i] = tx->strides[first + i];
        c->positions *= c->out[i];
    }
    c->x_image = tx->strides[0];
    c->x_channel = tx->strides[channel];
    c->y_image = ty->strides[0];
    c->y_channel = ty->strides[channel];
    c->y_position = channels_last ? tw->dims[0] : 1;
    cm_window_attr attr = window_attr(a);
    cm_window_of(&attr, n, c->kernel, c->in, &c->window);
    CM_TRY(cm_eval_as_f64(e, x, &c->x));
    return cm_eval_as_f64(e, w, &c->w);
}

static void load_weights(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const cm_patch_conv *c = arg;
    int64_t channel = batch % c->group * c->out_c + row, cols = c->in_c;
    for (int i = 0; i < c->window.n; i++)
        cols *= c->kernel[i];
    double zero = c->w_zero ? c->w_zero[c->n_w_zero == 1 ? 0 : channel] : 0;
    for (int64_t i = 0; i < n; i++)
        dst[i] = c->w[channel * cols + col + i] - zero;
}

/* Row of the patch matrix: one channel and one tap of the kernel; columns are output positions. */
static void load_patches(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const cm_patch_conv *c = arg;
    int64_t tap[CM_MAX_RANK], at[CM_MAX_RANK];
    for (int d = c->window.n - 1; d >= 0; d--) {
        tap[d] = row % c->kernel[d] * c->window.dilation[d] - c->window.pad_begin[d];
        row /= c->kernel[d];
        at[d] = col % c->out[d];
        col /= c->out[d];
    }
    const double *x =
        c->x + batch / c->group * c->x_image + (batch % c->group * c->in_c + row) * c->x_channel;
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        bool inside = true;
        for (int d = 0; d < c->window.n; d++) {
            int64_t p = at[d] * c->window.stride[d] + tap[d];
            inside = inside && p >= 0 && p < c->in[d];
            offset += p * c->x_space[d];
        }
        dst[i] = inside ? x[offset] - c->x_zero : 0;
        for (int d = c->window.n - 1; d >= 0 && ++at[d] == c->out[d]; d--)
            at[d] = 0;
    }
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const cm_patch_conv *c = arg;
    c->store(c, batch / c->group, batch % c->group * c->out_c + row, col, n, src);
}

cm_status cm_patch_conv_run(cm_eval *e, const cm_patch_conv *c)
{
    cm_gemm_f64 g = {.batch = c->images * c->group,
                     .m = c->out_c,
                     .n = c->positions,
                     .k = c->in_c,
                     .load_a = load_weights,
                     .load_b = load_patches,
                     .store = store,
                     .a = c,
                     .b = c,
                     .c = (void *)c};
    for (int i = 0; i < c->window.n; i++)
        g.k *= c->kernel[i];
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}
