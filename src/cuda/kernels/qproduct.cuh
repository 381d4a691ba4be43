// qproduct.cuh -- sums of products of bytes: what kernels are given, and what becomes of the sums.
// SPDX-License-Identifier: Apache-2.0
//
// Follows elements.cuh. Generated before this: A_SIGNED, B_SIGNED; A_ZERO, B_ZERO (there are zero points); MODE: 0 sums, 1
// real numbers, 2 bytes; OUTPUT.
#pragma once

struct arguments {
    const u8 *a, *b;
    OUTPUT *y;
    const float *a_scale, *b_scale, *y_scale; // NULL: 1
    const u8 *a_zero, *b_zero, *y_zero;       // NULL: 0
    const float *bias;                        // NULL: none
    const int *sums;
    i64 b_scale_step, b_zero_step, sums_step;
    i64 m, n, k; // of one matrix, one group
    i64 a_batch, b_batch, y_batch, columns_batch;
    i64 a_row;        // matrices: bytes between rows
    i64 b_row, b_col; // bytes along the depth, between columns
    i64 y_image, y_row, y_col, pixels; // place of row i: i / pixels * y_image + i % pixels * y_row
    // Patches: channels of a group, strides of x.
    i64 channels, x_image, x_channel;
    int x_step[3], in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    float alpha;
};

DEVICE int byte_of(const u8 *p, bool is_signed) { return is_signed ? (int)*(const i8 *)p : (int)*p; }

DEVICE float scale_at(const float *p, i64 i) { return p ? p[i] : 1.0f; }

// What columns share.
struct column {
    int add, zero; // to the sum; times the sum of the row
    float factor, bias;
};

DEVICE column column_of(const arguments &a, i64 batch, i64 j, int col_sum, int zero_a)
{
    column c = {0, 0, 1.0f, 0.0f};
    if (j >= a.n)
        return c;
    const i64 all = batch * a.columns_batch + j;
    c.zero = B_ZERO ? byte_of(a.b_zero + all * a.b_zero_step, B_SIGNED) : 0;
    c.add = (int)a.k * zero_a * c.zero - zero_a * col_sum + (a.sums ? a.sums[all * a.sums_step] : 0);
    if (MODE) {
        c.factor = __fmul_rn(__fmul_rn(scale_at(a.a_scale, 0), a.alpha),
                             scale_at(a.b_scale, all * a.b_scale_step));
        if (MODE == 2)
            c.factor = __fdiv_rn(c.factor, scale_at(a.y_scale, 0));
        c.bias = a.bias ? a.bias[all] : 0.0f;
    }
    return c;
}

DEVICE OUTPUT finished(int sum, const column &c, bool has_bias, float y_zero)
{
    if (MODE == 0)
        return (OUTPUT)sum;
    float v = __fmul_rn((float)sum, c.factor);
    if (MODE == 1)
        return (OUTPUT)(has_bias ? __fadd_rn(v, c.bias) : v);
    const float low = (OUTPUT)-1 < (OUTPUT)0 ? -128.0f : 0.0f;
    v = __fadd_rn(rintf(v), y_zero);
    return (OUTPUT)(int)fminf(fmaxf(v, low), low + 255.0f);
}

DEVICE float zero_of_output(const arguments &a)
{
    return MODE == 2 && a.y_zero ? (float)(OUTPUT)*a.y_zero : 0.0f;
}
