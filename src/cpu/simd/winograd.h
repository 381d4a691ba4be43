/* winograd.h -- the kernels of Winograd convolution for one ISA level: include it once, in that folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_WINOGRAD_H
#define CM_CPU_SIMD_WINOGRAD_H

#include <stdbool.h>

#include "cpu/conv_winograd.h"
#include "cpu/simd/vec.h"
#include "cpu/simd/winograd_transform.h"
#include "cpu/simd/winograd_weights.h"

enum { MAX_COLS = 34 }; /* input columns of a strip */

/* Element i of a column that has rows [from, to) inside the image. */
VINLINE vf row_of(const float *x, int64_t stride, int i, int from, int to, int lanes)
{
    if (i < from || i >= to)
        return vf_zero();
    x += i * stride;
    return lanes == VW ? vf_load(x) : vf_load_n(x, lanes);
}

/* Down the columns of a strip, for one vector of channels: half[position][column]. */
VINLINE void input_columns(int m, const cm_winograd_input *a, int64_t channel, int lanes,
                           vf half[][MAX_COLS])
{
    const int t = m + 2, cols = m * a->n + 2;
    const int64_t stride = a->w * a->c;
    int from = a->row < 0 ? (int)-a->row : 0;
    int to = a->h - a->row < t ? (int)(a->h - a->row) : t;
    for (int j = 0; j < cols; j++) {
        vf d[CM_WINOGRAD_MAX_T], o[CM_WINOGRAD_MAX_T];
        const int64_t col = a->col + j;
        if (col < 0 || col >= a->w) {
            for (int i = 0; i < t; i++)
                half[i][j] = vf_zero();
            continue;
        }
        const float *x = a->x + a->row * stride + col * a->c + channel;
        if (from == 0 && to == t && lanes == VW) {
#pragma GCC unroll 8
            for (int i = 0; i < t; i++)
                d[i] = vf_load(x + i * stride);
        } else {
#pragma GCC unroll 8
            for (int i = 0; i < t; i++)
                d[i] = row_of(x, stride, i, from, to, lanes);
        }
        transform_input(m, d, o);
#pragma GCC unroll 8
        for (int i = 0; i < t; i++)
            half[i][j] = o[i];
    }
}

/* Along the rows, to v. */
VINLINE void input_rows(int m, const cm_winograd_input *a, int64_t channel, vf half[][MAX_COLS])
{
    const int t = m + 2;
    for (int k = 0; k < a->n; k++) {
        float *v = a->v + k * a->tile + channel;
        for (int i = 0; i < t; i++) {
            vf d[CM_WINOGRAD_MAX_T], o[CM_WINOGRAD_MAX_T];
#pragma GCC unroll 8
            for (int j = 0; j < t; j++)
                d[j] = half[i][k * m + j];
            transform_input(m, d, o);
#pragma GCC unroll 8
            for (int j = 0; j < t; j++)
                vf_store(v + (i * t + j) * a->position, o[j]);
#pragma GCC unroll 8
            for (int j = 0; j < t; j++)
                __builtin_prefetch(v + (i * t + j) * a->position + a->tile, 1, 3);
        }
    }
}

VINLINE void input_strip(int m, const cm_winograd_input *a)
{
    vf half[CM_WINOGRAD_MAX_T][MAX_COLS];
    for (int64_t c = 0; c < a->c; c += VW) {
        int lanes = a->c - c < VW ? (int)(a->c - c) : VW;
        input_columns(m, a, c, lanes, half);
        input_rows(m, a, c, half);
    }
}

static void input_strip_2(const cm_winograd_input *a)
{
    input_strip(2, a);
}
static void input_strip_4(const cm_winograd_input *a)
{
    input_strip(4, a);
}
static void input_strip_6(const cm_winograd_input *a)
{
    input_strip(6, a);
}

VINLINE vf load_some(const float *p, int lanes)
{
    return lanes == VW ? vf_load(p) : vf_load_n(p, lanes);
}

/* One row of a tile's outputs to its place: `cols` of them are inside the image. */
VINLINE void store_row(int m, const cm_winograd_output *a, const vf *o, vf bias, int64_t at,
                       int64_t channel, int cols, int lanes)
{
    const vf lo = vf_set(a->lo), hi = vf_set(a->hi);
    float *y = a->y + at * a->pixel + channel;
    const float *r = a->residual ? a->residual + at * a->residual_pixel + channel : NULL;
#pragma GCC unroll 8
    for (int j = 0; j < m; j++) {
        if (j >= cols)
            break;
        vf v = vf_add(o[j], bias);
        if (r)
            v = vf_add(v, load_some(r + j * a->residual_pixel, lanes));
        v = vf_min(hi, vf_max(lo, v));
        if (lanes == VW)
            vf_store(y + j * a->pixel, v);
        else
            vf_store_n(y + j * a->pixel, v, lanes);
    }
}

/* One tile, one vector of channels. */
VINLINE void output_tile(int m, const cm_winograd_output *a, int k, int64_t channel, int lanes,
                         vf bias)
{
    const int t = m + 2;
    const float *p = a->m + k * a->tile + channel;
    const int64_t col = a->col + k * m;
    vf half[CM_WINOGRAD_MAX_T][CM_WINOGRAD_MAX_T];
#pragma GCC unroll 8
    for (int j = 0; j < t; j++) {
        vf d[CM_WINOGRAD_MAX_T], o[CM_WINOGRAD_MAX_T];
#pragma GCC unroll 8
        for (int i = 0; i < t; i++)
            d[i] = vf_load(p + (i * t + j) * a->position);
        transform_output(m, d, o);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            half[i][j] = o[i];
    }
    int rows = a->h - a->row < m ? (int)(a->h - a->row) : m;
    int cols = a->w - col < m ? (int)(a->w - col) : m;
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        vf o[CM_WINOGRAD_MAX_T];
        if (i >= rows)
            break;
        transform_output(m, half[i], o);
        store_row(m, a, o, bias, (a->row + i) * a->w + col, channel, cols, lanes);
    }
}

VINLINE void output_strip(int m, const cm_winograd_output *a)
{
    for (int64_t c = 0; c < a->channels; c += VW) {
        int lanes = a->channels - c < VW ? (int)(a->channels - c) : VW;
        vf bias = vf_zero();
        for (int b = 0; b < 2; b++)
            if (a->bias[b])
                bias = vf_add(bias, load_some(a->bias[b] + c, lanes));
        for (int k = 0; k < a->n; k++) {
            if (lanes == VW)
                output_tile(m, a, k, c, VW, bias);
            else
                output_tile(m, a, k, c, lanes, bias);
        }
    }
}

static void output_strip_2(const cm_winograd_output *a)
{
    output_strip(2, a);
}
static void output_strip_4(const cm_winograd_output *a)
{
    output_strip(4, a);
}
static void output_strip_6(const cm_winograd_output *a)
{
    output_strip(6, a);
}

const cm_winograd_kernels CM_LEVEL(cm_cpu_winograd) = {
    .width = VW,
    .input = {input_strip_2, input_strip_4, input_strip_6},
    .output = {output_strip_2, output_strip_4, output_strip_6},
    .weights = {weights_2, weights_4, weights_6},
    .expand = {expand_2, expand_4, expand_6},
};

#endif
