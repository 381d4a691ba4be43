/* depthwise_pair.c -- two rows of a depthwise convolution at once, with AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A window of 3 x 3 or 5 x 5 slides along the input: of each column, a vector of channels is loaded from every row once, for all sums
 * that it is in, those of both output rows. One row at a time would load most of the input as many times as the window has rows,
 * and waits for the second-level cache. */
#include "cpu/depthwise.h"
#include "cpu/simd/vec.h"

enum { MOST = 5 };

/* A vector of channels: sums of the outputs that the window is over, `first` to `first + MOST`, for both rows. */
typedef struct {
    vf acc[MOST][2], weight[MOST][MOST], bias;
    int64_t c;
    int nc;
} slide;

/* Constants where this is inlined: K, S, and whether rows may be missing or channels not fill the vector. */
typedef struct {
    int k, stride;
    bool edge, tail;
} form;

VINLINE vf load(const float *p, const slide *s, form f)
{
    return f.tail ? vf_load_n(p, s->nc) : vf_load(p);
}

/* Input column `column`, the window's column `at` for the first of the outputs. */
VINLINE void one_column(const cm_depthwise_pair *a, slide *s, form f, int64_t column, int at)
{
    UNROLL
    for (int r = 0; r < f.k + f.stride; r++) {
        if (f.edge && !a->x[r])
            continue;
        vf v = load(a->x[r] + column * a->x_ld + s->c, s, f);
        UNROLL
        for (int i = 0; i * f.stride <= at; i++) {
            int j = at - i * f.stride;
            if (r < f.k)
                s->acc[i][0] = vf_fma(v, s->weight[r][j], s->acc[i][0]);
            if (r >= f.stride)
                s->acc[i][1] = vf_fma(v, s->weight[r - f.stride][j], s->acc[i][1]);
        }
    }
}

/* What the first of the outputs still lacks, pixel `ox`; then the next is the first. `beyond`: columns may be outside. */
VINLINE void one_output(const cm_depthwise_pair *a, slide *s, form f, int64_t ox, bool beyond)
{
    const int64_t column = ox * f.stride - a->pad;
    UNROLL
    for (int at = f.k - f.stride; at < f.k; at++)
        if (!beyond || column + at < a->in)
            one_column(a, s, f, column + at, at);
    UNROLL
    for (int q = 0; q < 2; q++) {
        float *y = a->y[q] + (ox - a->begin) * a->y_ld + s->c;
        vf v = vf_min(vf_set(a->hi), vf_max(vf_set(a->lo), s->acc[0][q]));
        if (f.tail)
            vf_store_n(y, v, s->nc);
        else
            vf_store(y, v);
        UNROLL
        for (int i = 0; i + 1 < MOST; i++)
            s->acc[i][q] = s->acc[i + 1][q];
        s->acc[(f.k - 1) / f.stride][q] = s->bias;
    }
}

VINLINE void one_vector(const cm_depthwise_pair *a, int64_t c, int nc, form f)
{
    slide s = {.c = c, .nc = nc, .bias = vf_zero()};
    if (a->bias)
        s.bias = load(a->bias + c, &s, f);
    UNROLL
    for (int r = 0; r < f.k; r++) {
        UNROLL
        for (int j = 0; j < f.k; j++)
            s.weight[r][j] = vf_load(a->w + (r * f.k + j) * a->w_ld + c);
    }
    UNROLL
    for (int i = 0; i < MOST; i++)
        s.acc[i][0] = s.acc[i][1] = s.bias;
    int64_t ox = a->begin, column = ox * f.stride - a->pad;
    UNROLL
    for (int at = 0; at < f.k - f.stride; at++)
        if (column + at >= 0 && column + at < a->in)
            one_column(a, &s, f, column + at, at);
    int64_t inside = (a->in - f.k + a->pad) / f.stride + 1; /* outputs whose windows end there */
    for (; ox < (inside < a->end ? inside : a->end); ox++)
        one_output(a, &s, f, ox, false);
    for (; ox < a->end; ox++)
        one_output(a, &s, f, ox, true);
}

VINLINE void all_vectors(const cm_depthwise_pair *a, int k, int stride)
{
    bool edge = false;
    for (int r = 0; r < k + stride; r++)
        edge = edge || !a->x[r];
    int64_t c = 0;
    if (edge)
        for (; c + VW <= a->channels; c += VW)
            one_vector(a, c, VW, (form){k, stride, true, false});
    else
        for (; c + VW <= a->channels; c += VW)
            one_vector(a, c, VW, (form){k, stride, false, false});
    if (c < a->channels)
        one_vector(a, c, (int)(a->channels - c), (form){k, stride, true, true});
}

void cm_cpu_depthwise_pair_f32__avx512(const cm_depthwise_pair *a)
{
    if (a->kernel == 3 && a->stride == 1)
        all_vectors(a, 3, 1);
    else if (a->kernel == 3)
        all_vectors(a, 3, 2);
    else if (a->stride == 1)
        all_vectors(a, 5, 1);
    else
        all_vectors(a, 5, 2);
}
