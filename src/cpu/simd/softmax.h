/* softmax.h -- softmax and its logarithm, of rows and of lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A NaN makes its row NaN through the sum of exponentials, as an infinite maximum does; the maximum
 * itself may miss NaNs. */
#include <math.h>

#include "cpu/rows.h"
#include "cpu/simd/math.h"
#include "cpu/simd/rows_math.h"
#include "cpu/simd/vec.h"

VINLINE float row_most(const float *x, int64_t n)
{
    vf m[4];
    int64_t i = 0;
    m[0] = m[1] = m[2] = m[3] = vf_set(-INFINITY);
    for (; i + 4 * VW <= n; i += 4 * VW)
        for (int k = 0; k < 4; k++)
            m[k] = vf_max(vf_load(x + i + k * VW), m[k]);
    for (; i + VW <= n; i += VW)
        m[0] = vf_max(vf_load(x + i), m[0]);
    float most = vf_most(vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3])));
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* The sum of exp(x - most); the terms go to y where it is not NULL. */
VINLINE float row_exp_sum(const float *x, float *y, int64_t n, float most)
{
    vf m = vf_set(most), s[4];
    int64_t i = 0;
    s[0] = s[1] = s[2] = s[3] = vf_zero();
    for (; i + 4 * VW <= n; i += 4 * VW)
        for (int k = 0; k < 4; k++) {
            vf e = vf_exp_low(vf_sub(vf_load(x + i + k * VW), m));
            if (y)
                vf_store(y + i + k * VW, e);
            s[k] = vf_add(s[k], e);
        }
    for (; i + VW <= n; i += VW) {
        vf e = vf_exp_low(vf_sub(vf_load(x + i), m));
        if (y)
            vf_store(y + i, e);
        s[0] = vf_add(s[0], e);
    }
    if (i < n) {
        int left = (int)(n - i);
        vf e = vf_exp_low(vf_sub(vf_load_n(x + i, left), m));
        if (y)
            vf_store_n(y + i, e, left);
        s[1] = vf_add(s[1], vf_select(vm_first(left), e, vf_zero()));
    }
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

VINLINE void row_scale(float *y, int64_t n, vf a)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vf_store(y + i, vf_mul(vf_load(y + i), a));
    if (i < n)
        vf_store_n(y + i, vf_mul(vf_load_n(y + i, (int)(n - i)), a), (int)(n - i));
}

/* y = x - a - b. Not x - (a + b), which would lose a small b beside a large a. */
VINLINE void row_subtract(const float *x, float *y, int64_t n, vf a, vf b)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vf_store(y + i, vf_sub(vf_sub(vf_load(x + i), a), b));
    if (i < n)
        vf_store_n(y + i, vf_sub(vf_sub(vf_load_n(x + i, (int)(n - i)), a), b), (int)(n - i));
}

/* Rows in step, so that one's maximum and sum are found while another's are waited for; few enough to
 * stay in L1. */
static void softmax_rows(const float *x, int64_t xs, float *y, int64_t ys, int64_t rows, int64_t n,
                         bool log)
{
    enum { MOST = 8 };
    int64_t together = n > 512 ? 1 : MOST;
    for (int64_t r = 0; r < rows; r += together, x += together * xs, y += together * ys) {
        int64_t m = rows - r < together ? rows - r : together;
        float most[MOST], sum[MOST];
        for (int64_t i = 0; i < m; i++)
            most[i] = row_most(x + i * xs, n);
        for (int64_t i = 0; i < m; i++)
            sum[i] = row_exp_sum(x + i * xs, log ? NULL : y + i * ys, n, most[i]);
        for (int64_t i = 0; i < m && !log; i++)
            row_scale(y + i * ys, n, vf_set(1 / sum[i]));
        for (int64_t i = 0; i < m && log; i++)
            row_subtract(x + i * xs, y + i * ys, n, vf_set(most[i]), vf_log(vf_set(sum[i])));
    }
}

/* `v` vectors of lanes, the last of `tail` lanes. */
VINLINE vf lane_load(const float *p, int k, int v, int tail)
{
    return k == v - 1 && tail < VW ? vf_load_n(p + k * VW, tail) : vf_load(p + k * VW);
}
VINLINE void lane_store(float *p, vf x, int k, int v, int tail)
{
    if (k == v - 1 && tail < VW)
        vf_store_n(p + k * VW, x, tail);
    else
        vf_store(p + k * VW, x);
}

VINLINE void softmax_vectors(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, int v,
                             int tail, bool log)
{
    vf m[4], s[4];
    for (int k = 0; k < v; k++)
        m[k] = lane_load(x, k, v, tail), s[k] = vf_zero();
    for (int64_t c = 1; c < n; c++)
        for (int k = 0; k < v; k++)
            m[k] = vf_max(lane_load(x + c * xs, k, v, tail), m[k]);
    for (int64_t c = 0; c < n; c++)
        for (int k = 0; k < v; k++) {
            vf e = vf_exp_low(vf_sub(lane_load(x + c * xs, k, v, tail), m[k]));
            s[k] = vf_add(s[k], e);
            if (!log)
                lane_store(y + c * ys, e, k, v, tail);
        }
    for (int k = 0; k < v; k++)
        s[k] = log ? vf_log(s[k]) : vf_div(vf_set(1), s[k]);
    for (int64_t c = 0; c < n; c++)
        for (int k = 0; k < v; k++) {
            vf r = log ? vf_sub(vf_sub(lane_load(x + c * xs, k, v, tail), m[k]), s[k])
                       : vf_mul(lane_load(y + c * ys, k, v, tail), s[k]);
            lane_store(y + c * ys, r, k, v, tail);
        }
}

static void softmax_lanes(const float *x, int64_t xs, float *y, int64_t ys, int64_t n,
                          int64_t lanes, bool log)
{
    int64_t l = 0;
    for (; l + 4 * VW <= lanes; l += 4 * VW)
        softmax_vectors(x + l, xs, y + l, ys, n, 4, VW, log);
    for (; l + VW <= lanes; l += VW)
        softmax_vectors(x + l, xs, y + l, ys, n, 1, VW, log);
    if (l < lanes)
        softmax_vectors(x + l, xs, y + l, ys, n, 1, (int)(lanes - l), log);
}
