/* attention.h -- kernels of attention beside its products; included by one file per level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/attention.h"

#include <math.h>

#include "cpu/simd/math.h"
#include "cpu/simd/rows_math.h"
#include "cpu/simd/vec.h"

/* ---- Softmax as it goes --------------------------------------------------------------------- */

/* Lanes that a mask allows, from bytes. */
VINLINE vm mask_lanes(const uint8_t *m, int n)
{
    float v[VW];
    for (int i = 0; i < VW; i++)
        v[i] = i < n && m[i] ? 1.0f : 0.0f;
    return vf_ne(vf_load(v), vf_zero());
}

VINLINE vm mask_full(const uint8_t *m)
{
#if VW == 16
    __m128i b = _mm_loadu_si128((const __m128i *)m);
    return _mm_test_epi8_mask(b, b);
#elif VW == 8
    __m256i w = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)m));
    return _mm256_cmp_ps(_mm256_cvtepi32_ps(w), _mm256_setzero_ps(), _CMP_NEQ_UQ);
#else
    return mask_lanes(m, VW);
#endif
}

/* Scores at j, of which `n` lanes are there. */
VINLINE vf score_at(vf s, const cm_score *a, int64_t j, int n)
{
    const vf never = vf_set(-INFINITY);
    vf b = vf_zero();
    if (a->softcap > 0)
        s = vf_mul(vf_set(a->softcap), vf_tanh(vf_div(s, vf_set(a->softcap))));
    if (a->bias) {
        b = !a->bias_step ? vf_set(*a->bias)
            : n == VW     ? vf_load(a->bias + j)
                          : vf_load_n(a->bias + j, n);
        s = vf_select(vf_eq(b, never), never, vf_add(s, b));
    }
    vf no = !a->fill ? never : a->biased ? vf_add(vf_set(a->mask_value), b) : vf_set(a->mask_value);
    if (a->mask) {
        if (a->mask_step)
            s = vf_select(n == VW ? mask_full(a->mask + j) : mask_lanes(a->mask + j, n), s, no);
        else if (!*a->mask)
            s = no;
    }
    if (j + n > a->causal)
        s = j >= a->causal ? no : vf_select(vm_first((int)(a->causal - j)), s, no);
    return s;
}

VINLINE vf most_changed(float *s, int64_t n, const cm_score *a)
{
    vf m = vf_set(-INFINITY);
    int64_t j = 0;
    for (; j + VW <= n; j += VW) {
        vf v = score_at(vf_load(s + j), a, j, VW);
        vf_store(s + j, v);
        m = vf_max(v, m);
    }
    if (j < n) {
        int left = (int)(n - j);
        vf v = score_at(vf_load_n(s + j, left), a, j, left);
        vf_store_n(s + j, v, left);
        m = vf_max(vf_select(vm_first(left), v, m), m);
    }
    return m;
}

VINLINE vf most_plain(const float *s, int64_t n)
{
    vf m[4];
    int64_t j = 0;
    m[0] = m[1] = m[2] = m[3] = vf_set(-INFINITY);
    for (; j + 4 * VW <= n; j += 4 * VW)
        for (int k = 0; k < 4; k++)
            m[k] = vf_max(vf_load(s + j + k * VW), m[k]);
    for (; j + VW <= n; j += VW)
        m[0] = vf_max(vf_load(s + j), m[0]);
    if (j < n)
        m[1] =
            vf_max(vf_select(vm_first((int)(n - j)), vf_load_n(s + j, (int)(n - j)), m[1]), m[1]);
    return vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3]));
}

VINLINE float exp_all(float *s, int64_t n, float most)
{
    vf m = vf_set(most), sum[2];
    int64_t j = 0;
    sum[0] = sum[1] = vf_zero();
    for (; j + 2 * VW <= n; j += 2 * VW)
        for (int k = 0; k < 2; k++) {
            vf e = vf_exp_low(vf_sub(vf_load(s + j + k * VW), m));
            vf_store(s + j + k * VW, e);
            sum[k] = vf_add(sum[k], e);
        }
    for (; j < n; j += VW) {
        int left = (int)(n - j < VW ? n - j : VW);
        vf e = vf_exp_low(vf_sub(vf_load_n(s + j, left), m));
        vf_store_n(s + j, e, left);
        sum[0] = vf_add(sum[0], vf_select(vm_first(left), e, vf_zero()));
    }
    return vf_sum(vf_add(sum[0], sum[1]));
}

VINLINE float exp_one(float x)
{
    float v[VW];
    vf_store(v, vf_exp_low(vf_set(x)));
    return v[0];
}

static float score_row(float *s, int64_t n, int64_t zero_to, const cm_score *a, float stats[2])
{
    bool plain = !a->bias && !a->mask && !(a->softcap > 0) && a->causal >= n;
    float most = vf_most(plain ? most_plain(s, n) : most_changed(s, n, a)), old = stats[0];
    for (int64_t j = n; j < zero_to; j++)
        s[j] = 0;
    most = most > old ? most : old;
    if (most == -INFINITY) {
        for (int64_t j = 0; j < n; j++)
            s[j] = s[j] != s[j] ? s[j] : 0; /* a NaN makes a row of its own */
        for (int64_t j = 0; j < n; j++)
            stats[1] += s[j];
        return 1;
    }
    float factor = old == most ? 1 : old == -INFINITY ? 0 : exp_one(old - most);
    stats[0] = most;
    stats[1] = stats[1] * factor + exp_all(s, n, most);
    return factor;
}

/* ---- Few queries ---------------------------------------------------------------------------- */

/* The sums of four vectors. */
VINLINE __m128 sums_of_4(vf a, vf b, vf c, vf d)
{
#if VW == 4
    _MM_TRANSPOSE4_PS(a, b, c, d);
    return _mm_add_ps(_mm_add_ps(a, b), _mm_add_ps(c, d));
#else
#if VW == 16
#define HALVES(v)                                                                                  \
    _mm256_add_ps(_mm512_castps512_ps256(v),                                                       \
                  _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)))
    __m256 p = HALVES(a), q = HALVES(b), r = HALVES(c), s = HALVES(d);
#undef HALVES
#else
    __m256 p = a, q = b, r = c, s = d;
#endif
    __m256 t = _mm256_hadd_ps(_mm256_hadd_ps(p, q), _mm256_hadd_ps(r, s));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
#endif
}

VINLINE void dot_4(const float *q, int64_t d, const float *const *k, float scale, float *s)
{
    vf acc[4];
    int64_t i = 0;
    acc[0] = acc[1] = acc[2] = acc[3] = vf_zero();
    for (; i + VW <= d; i += VW) {
        vf x = vf_load(q + i);
        for (int j = 0; j < 4; j++)
            acc[j] = vf_fma(x, vf_load(k[j] + i), acc[j]);
    }
    if (i < d) {
        int left = (int)(d - i);
        vf x = vf_load_n(q + i, left);
        for (int j = 0; j < 4; j++)
            acc[j] = vf_fma(x, vf_load_n(k[j] + i, left), acc[j]);
    }
    _mm_storeu_ps(s, _mm_mul_ps(sums_of_4(acc[0], acc[1], acc[2], acc[3]), _mm_set1_ps(scale)));
}

static void dot_rows(const float *q, int64_t q_row, int rows, int64_t d, const float *k,
                     int64_t k_step, int64_t n, float scale, float *s, int64_t s_row)
{
    for (int64_t j = 0; j < n; j += 4) {
        const float *at[4];
        int have = (int)(n - j < 4 ? n - j : 4);
        for (int i = 0; i < 4; i++)
            at[i] = k + (j + (i < have ? i : 0)) * k_step;
        for (int r = 0; r < rows; r++) {
            float out[4];
            dot_4(q + r * q_row, d, at, scale, out);
            memcpy(s + r * s_row + j, out, (size_t)have * sizeof *s);
        }
    }
}

/* `v` vectors of one row's output, the last of `tail` lanes. */
VINLINE void weigh(const float *p, const float *v, int64_t v_step, int64_t n, float *o, int nv,
                   int tail)
{
    vf acc[4], more[4];
    int64_t j = 0;
    for (int k = 0; k < nv; k++)
        acc[k] = more[k] = vf_zero();
    for (; j + 2 <= n; j += 2, v += 2 * v_step)
        for (int k = 0; k < nv; k++) {
            bool full = k < nv - 1 || tail == VW;
            const float *a = v + k * VW, *b = a + v_step;
            acc[k] = vf_fma(vf_set(p[j]), full ? vf_load(a) : vf_load_n(a, tail), acc[k]);
            more[k] = vf_fma(vf_set(p[j + 1]), full ? vf_load(b) : vf_load_n(b, tail), more[k]);
        }
    for (int k = 0; j < n && k < nv; k++) {
        bool full = k < nv - 1 || tail == VW;
        acc[k] =
            vf_fma(vf_set(p[j]), full ? vf_load(v + k * VW) : vf_load_n(v + k * VW, tail), acc[k]);
    }
    for (int k = 0; k < nv; k++)
        vf_store_n(o + k * VW, vf_add(acc[k], more[k]), k < nv - 1 ? VW : tail);
}

static void weigh_rows(const float *p, int64_t p_row, int rows, const float *v, int64_t v_step,
                       int64_t n, int64_t d, float *o, int64_t o_row)
{
    for (int r = 0; r < rows; r++) {
        int64_t c = 0;
        for (; c + 4 * VW <= d; c += 4 * VW)
            weigh(p + r * p_row, v + c, v_step, n, o + r * o_row + c, 4, VW);
        for (; c + VW <= d; c += VW)
            weigh(p + r * p_row, v + c, v_step, n, o + r * o_row + c, 1, VW);
        if (c < d)
            weigh(p + r * p_row, v + c, v_step, n, o + r * o_row + c, 1, (int)(d - c));
    }
}

static void scale(const float *x, float *y, int64_t n, float factor)
{
    vf f = vf_set(factor);
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vf_store(y + i, vf_mul(vf_load(x + i), f));
    if (i < n)
        vf_store_n(y + i, vf_mul(vf_load_n(x + i, (int)(n - i)), f), (int)(n - i));
}

/* Zero times what is not finite is NaN. */
static bool all_finite(const float *x, int64_t n)
{
    vf s[4];
    int64_t i = 0;
    s[0] = s[1] = s[2] = s[3] = vf_zero();
    for (; i + 4 * VW <= n; i += 4 * VW)
        for (int k = 0; k < 4; k++)
            s[k] = vf_fma(vf_load(x + i + k * VW), vf_zero(), s[k]);
    for (; i < n; i += VW)
        s[0] = vf_fma(vf_load_n(x + i, (int)(n - i < VW ? n - i : VW)), vf_zero(), s[0]);
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3]))) == 0;
}

const cm_attention_kernels CM_LEVEL(cm_cpu_attention_kernels) = {score_row, dot_rows, weigh_rows,
                                                                 scale, all_finite};
