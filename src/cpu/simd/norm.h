/* norm.h -- normalisations of rows and of lanes, and the moments they need.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moments are taken over chunks that fit L1: the mean first, then squared distances from it, chunks joined in
 * doubles; so large means and long rows cost no accuracy. Means are subtracted in two parts, since
 * float32 holds one only to 2^-24 of itself. */
#include <math.h>

#include "cpu/rows.h"
#include "cpu/simd/vec.h"

enum { PLAIN, SQUARE, MAGNITUDE };

VINLINE vf row_term(vf x, int what)
{
    return what == SQUARE ? vf_mul(x, x) : what == MAGNITUDE ? vf_abs(x) : x;
}

/* The sum of x - shift, of its squares or magnitudes. */
VINLINE float row_sum(const float *x, int64_t n, float shift, int what)
{
    vf h = vf_set(shift), s[4];
    int64_t i = 0;
    s[0] = s[1] = s[2] = s[3] = vf_zero();
    for (; i + 4 * VW <= n; i += 4 * VW)
        for (int k = 0; k < 4; k++) {
            vf d = vf_sub(vf_load(x + i + k * VW), h);
            s[k] = what == SQUARE ? vf_fma(d, d, s[k]) : vf_add(s[k], row_term(d, what));
        }
    for (; i + VW <= n; i += VW)
        s[0] = vf_add(s[0], row_term(vf_sub(vf_load(x + i), h), what));
    if (i < n) {
        int left = (int)(n - i);
        vf d = vf_select(vm_first(left), vf_sub(vf_load_n(x + i, left), h), vf_zero());
        s[1] = vf_add(s[1], row_term(d, what));
    }
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

/* Sums in which nothing overflowed, and no square that matters vanished. */
VINLINE bool in_range(double sum)
{
    return sum < 1e37 && sum > -1e37;
}

/* Sums of distances from `near` and of their squares. */
VINLINE void row_distances(const float *x, int64_t n, float near, float *sum, float *square)
{
    vf h = vf_set(near), s[2], q[2];
    int64_t i = 0;
    s[0] = s[1] = q[0] = q[1] = vf_zero();
    for (; i + 2 * VW <= n; i += 2 * VW)
        for (int k = 0; k < 2; k++) {
            vf d = vf_sub(vf_load(x + i + k * VW), h);
            s[k] = vf_add(s[k], d);
            q[k] = vf_fma(d, d, q[k]);
        }
    for (; i < n; i += VW) {
        int left = (int)(n - i < VW ? n - i : VW);
        vf d = vf_select(vm_first(left), vf_sub(vf_load_n(x + i, left), h), vf_zero());
        s[0] = vf_add(s[0], d);
        q[0] = vf_fma(d, d, q[0]);
    }
    *sum = vf_sum(vf_add(s[0], s[1]));
    *square = vf_sum(vf_add(q[0], q[1]));
}

/* The second walk over a chunk also mends what rounding did to the first one's mean. */
static bool moments(const float *x, int64_t n, double out[2])
{
    out[0] = out[1] = 0;
    for (int64_t done = 0; done < n;) {
        int64_t m = n - done < CM_ROWS_CHUNK ? n - done : CM_ROWS_CHUNK;
        float sum = row_sum(x + done, m, 0, PLAIN), near = sum / (float)m, off, square;
        row_distances(x + done, m, near, &off, &square);
        if (!in_range(sum) || !in_range(square))
            return false;
        double rest = (double)off / (double)m;
        double part[2] = {near + rest, square - rest * rest * (double)m};
        cm_moments_join(out, (double)done, part, (double)m);
        done += m;
    }
    if (out[1] < 0)
        out[1] = 0;
    return true;
}

/* y = ((x - mean) - rest) * factor * scale + bias. */
VINLINE vf norm_one(const cm_norm *a, vf x, vf mean, vf rest, vf factor, vf scale, vf bias)
{
    if (a->kind == CM_ROWS_LAYER_NORM)
        x = vf_sub(vf_sub(x, mean), rest);
    x = vf_mul(x, factor);
    if (a->scale && a->bias)
        return vf_fma(x, scale, bias);
    return a->scale ? vf_mul(x, scale) : a->bias ? vf_add(x, bias) : x;
}

VINLINE void norm_apply(const cm_norm *a, const float *x, float *y, double mean, double factor)
{
    vf near = vf_set((float)mean), rest = vf_set((float)(mean - (float)mean));
    vf f = vf_set((float)factor), z = vf_zero();
    int64_t i = 0;
    for (; i + VW <= a->n; i += VW)
        vf_store(y + i,
                 norm_one(a, vf_load(x + i), near, rest, f, a->scale ? vf_load(a->scale + i) : z,
                          a->bias ? vf_load(a->bias + i) : z));
    if (i < a->n) {
        int left = (int)(a->n - i);
        vf_store_n(y + i,
                   norm_one(a, vf_load_n(x + i, left), near, rest, f,
                            a->scale ? vf_load_n(a->scale + i, left) : z,
                            a->bias ? vf_load_n(a->bias + i, left) : z),
                   left);
    }
}

/* Sums over long rows by chunks, which are joined in doubles. */
VINLINE double long_sum(const float *x, int64_t n, int what)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += CM_ROWS_CHUNK)
        sum += row_sum(x + i, n - i < CM_ROWS_CHUNK ? n - i : CM_ROWS_CHUNK, 0, what);
    return sum;
}

/* Did squares vanish that the result hangs on? */
VINLINE bool vanished(const cm_norm *a, double mean_square)
{
    return mean_square < 1e-26 && (a->kind == CM_ROWS_L2_NORM || a->epsilon < 1e-18f);
}

static bool norm_row(const cm_norm *a, const float *x, float *y, double stats[2])
{
    double n = (double)a->n, mean = 0, factor;
    if (a->kind == CM_ROWS_LAYER_NORM) {
        double m[2];
        if (!moments(x, a->n, m) || vanished(a, m[1] / n))
            return false;
        mean = m[0];
        factor = 1 / sqrt(m[1] / n + a->epsilon);
    } else {
        double sum = long_sum(x, a->n, a->kind == CM_ROWS_L1_NORM ? MAGNITUDE : SQUARE);
        if (!in_range(sum) || (a->kind != CM_ROWS_L1_NORM && vanished(a, sum / n)))
            return false;
        if (a->kind == CM_ROWS_RMS_NORM) {
            factor = 1 / sqrt(sum / n + a->epsilon);
        } else {
            double norm = a->kind == CM_ROWS_L2_NORM ? sqrt(sum) : sum;
            norm = norm < a->epsilon ? a->epsilon : norm;
            if (norm < 1e-36)
                return false;
            factor = 1 / norm;
        }
    }
    stats[0] = mean;
    stats[1] = factor;
    norm_apply(a, x, y, mean, factor);
    return true;
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

/* Per lane the sum over c of x[c * step] - shift, its square or magnitude; by blocks, so that errors do
 * not grow with n. */
VINLINE vf lane_sum(const float *x, int64_t step, int64_t n, int lanes, vf shift, int what)
{
    vf total = vf_zero();
    for (int64_t c = 0; c < n;) {
        vf s = vf_zero();
        for (int64_t end = c + 64 < n ? c + 64 : n; c < end; c++) {
            vf v = lanes == VW ? vf_load(x + c * step) : vf_load_n(x + c * step, lanes);
            s = vf_add(s, row_term(vf_sub(v, shift), what));
        }
        total = vf_add(total, s);
    }
    return total;
}

/* 1 / deviation or norm of each lane from its sum; false: out of range. */
VINLINE bool lane_factors(const cm_norm *a, vf sum, int lanes, vf *out)
{
    float s[VW], f[VW];
    vf_store(s, sum);
    for (int l = 0; l < lanes; l++) {
        double v = s[l], n = (double)a->n;
        if (!in_range(v) || (a->kind != CM_ROWS_L1_NORM && vanished(a, v / n)))
            return false;
        if (a->kind == CM_ROWS_LAYER_NORM || a->kind == CM_ROWS_RMS_NORM) {
            f[l] = (float)(1 / sqrt(v / n + a->epsilon));
            continue;
        }
        v = a->kind == CM_ROWS_L2_NORM ? sqrt(v) : v;
        v = v < a->epsilon ? a->epsilon : v;
        if (v < 1e-36)
            return false;
        f[l] = (float)(1 / v);
    }
    for (int l = lanes; l < VW; l++)
        f[l] = 0;
    *out = vf_load(f);
    return true;
}

VINLINE bool norm_vector(const cm_norm *a, const float *x, int64_t xs, float *y, int64_t ys,
                         int lanes)
{
    vf mean = vf_zero(), rest = vf_zero(), factor, sum;
    vf per = vf_set(1 / (float)a->n);
    if (a->kind == CM_ROWS_LAYER_NORM) {
        mean = vf_mul(lane_sum(x, xs, a->n, lanes, vf_zero(), PLAIN), per);
        rest = vf_mul(lane_sum(x, xs, a->n, lanes, mean, PLAIN), per);
        sum = lane_sum(x, xs, a->n, lanes, mean, SQUARE);
        sum = vf_fnma(vf_mul(rest, rest), vf_set((float)a->n), sum);
    } else {
        int what = a->kind == CM_ROWS_L1_NORM ? MAGNITUDE : SQUARE;
        sum = lane_sum(x, xs, a->n, lanes, vf_zero(), what);
    }
    if (!lane_factors(a, sum, lanes, &factor))
        return false;
    for (int64_t c = 0; c < a->n; c++) {
        vf v = lanes == VW ? vf_load(x + c * xs) : vf_load_n(x + c * xs, lanes);
        v = norm_one(a, v, mean, rest, factor, vf_set(a->scale ? a->scale[c] : 0),
                     vf_set(a->bias ? a->bias[c] : 0));
        if (lanes == VW)
            vf_store(y + c * ys, v);
        else
            vf_store_n(y + c * ys, v, lanes);
    }
    return true;
}

static void norm_lanes(const cm_norm *a, const float *x, int64_t xs, float *y, int64_t ys,
                       int64_t lanes)
{
    int64_t l = 0;
    for (; l + VW <= lanes; l += VW)
        if (!norm_vector(a, x + l, xs, y + l, ys, VW))
            for (int k = 0; k < VW; k++)
                cm_norm_slow(a, x + l + k, xs, y + l + k, ys, NULL);
    if (l < lanes && !norm_vector(a, x + l, xs, y + l, ys, (int)(lanes - l)))
        for (; l < lanes; l++)
            cm_norm_slow(a, x + l, xs, y + l, ys, NULL);
}

/* ---- Sums, conversions ---------------------------------------------------------------------- */

VINLINE vf sum_at(const float *a, const float *b, const float *c, const float *d, int64_t i, int n)
{
    vf s = vf_load_n(a + i, n);
    if (b)
        s = vf_add(s, vf_load_n(b + i, n));
    if (c)
        s = vf_add(s, vf_load_n(c + i, n));
    return d ? vf_add(s, vf_load_n(d + i, n)) : s;
}

static void sum_rows(const float *a, const float *b, const float *c, const float *d, float *y,
                     int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf s = vf_load(a + i);
        if (b)
            s = vf_add(s, vf_load(b + i));
        if (c)
            s = vf_add(s, vf_load(c + i));
        if (d)
            s = vf_add(s, vf_load(d + i));
        vf_store(y + i, s);
    }
    if (i < n)
        vf_store_n(y + i, sum_at(a, b, c, d, i, (int)(n - i)), (int)(n - i));
}

static void to_f32(cm_dtype from, const void *x, float *y, int64_t n)
{
    const uint16_t *h = x;
    int64_t i = 0;
    if (from == CM_F32) {
        memcpy(y, x, (size_t)n * sizeof *y);
    } else if (from == CM_BF16) {
        for (; i + VW <= n; i += VW)
            vf_store(y + i, vf_load_bf16(h + i));
        for (; i < n; i++)
            y[i] = cm_bf16_to_f32(h[i]);
    } else {
#if VW == 16
        for (; i + VW <= n; i += VW)
            vf_store(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(h + i))));
#elif VW == 8
        for (; i + VW <= n; i += VW)
            vf_store(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(h + i))));
#endif
        for (; i < n; i++)
            y[i] = cm_f16_to_f32(h[i]);
    }
}
