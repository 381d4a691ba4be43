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
VINLINE vf score_at(vf s, const cm_score *a, int64_t j, int n, bool only_bias)
{
    const vf never = vf_set(-INFINITY);
    vf b = vf_zero();
    if (only_bias) {
        b = n == VW ? vf_load(a->bias + j) : vf_load_n(a->bias + j, n);
        return vf_select(vf_eq(b, never), never, vf_add(s, b));
    }
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
    if (j < a->first)
        s = j + n <= a->first ? no : vf_select(vm_first((int)(a->first - j)), no, s);
    if (j + n > a->causal)
        s = j >= a->causal ? no : vf_select(vm_first((int)(a->causal - j)), s, no);
    return s;
}

VINLINE vf most_changed(float *s, int64_t n, const cm_score *a, bool only_bias)
{
    vf m[2];
    int64_t j = 0;
    m[0] = m[1] = vf_set(-INFINITY);
    for (; j + 2 * VW <= n; j += 2 * VW)
        for (int k = 0; k < 2; k++) {
            vf v = score_at(vf_load(s + j + k * VW), a, j + k * VW, VW, only_bias);
            vf_store(s + j + k * VW, v);
            m[k] = vf_max(v, m[k]);
        }
    for (; j < n; j += VW) {
        int left = (int)(n - j < VW ? n - j : VW);
        vf v = score_at(vf_load_n(s + j, left), a, j, left, only_bias);
        vf_store_n(s + j, v, left);
        m[0] = vf_max(vf_select(vm_first(left), v, m[0]), m[0]);
    }
    return vf_max(m[0], m[1]);
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
            vf e = vf_exp_weight(vf_sub(vf_load(s + j + k * VW), m));
            vf_store(s + j + k * VW, e);
            sum[k] = vf_add(sum[k], e);
        }
    for (; j < n; j += VW) {
        int left = (int)(n - j < VW ? n - j : VW);
        vf e = vf_exp_weight(vf_sub(vf_load_n(s + j, left), m));
        vf_store_n(s + j, e, left);
        sum[0] = vf_add(sum[0], vf_select(vm_first(left), e, vf_zero()));
    }
    return vf_sum(vf_add(sum[0], sum[1]));
}

VINLINE float exp_one(float x)
{
    float v[VW];
    vf_store(v, vf_exp_weight(vf_set(x)));
    return v[0];
}

/* Nothing takes part; but a NaN makes a row of its own. */
VINLINE void clear_row(cm_score *a)
{
    for (int64_t j = 0; j < a->n; j++) {
        a->s[j] = a->s[j] != a->s[j] ? a->s[j] : 0;
        a->stats[1] += a->s[j];
    }
    a->factor = 1;
}

/* Two walks, so that one row's maximum is found while another's is waited for. */
static void score_rows(cm_score *rows, int64_t m, int64_t zero_to)
{
    float most[16];
    for (int64_t i = 0; i < m; i++) {
        cm_score *a = &rows[i];
        bool plain = !a->mask && !(a->softcap > 0) && a->causal >= a->n && a->first <= 0;
        most[i] = vf_most(plain && !a->bias            ? most_plain(a->s, a->n)
                          : plain && a->bias_step == 1 ? most_changed(a->s, a->n, a, true)
                                                       : most_changed(a->s, a->n, a, false));
        for (int64_t j = a->n; j < zero_to; j++)
            a->s[j] = 0;
    }
    for (int64_t i = 0; i < m; i++) {
        cm_score *a = &rows[i];
        float old = a->stats[0], now = most[i] > old ? most[i] : old;
        if (now == -INFINITY) {
            clear_row(a);
            continue;
        }
        a->factor = old == now ? 1 : old == -INFINITY ? 0 : exp_one(old - now);
        a->stats[0] = now;
        a->stats[1] = a->stats[1] * a->factor + exp_all(a->s, a->n, now);
    }
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

/* Zero times what is not finite is NaN. */
static bool scale(const float *x, float *y, int64_t n, float factor)
{
    vf f = vf_set(factor), bad = vf_zero();
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = vf_load(x + i);
        bad = vf_fma(v, vf_zero(), bad);
        vf_store(y + i, vf_mul(v, f));
    }
    if (i < n) {
        vf v = vf_load_n(x + i, (int)(n - i));
        bad = vf_fma(v, vf_zero(), bad);
        vf_store_n(y + i, vf_mul(v, f), (int)(n - i));
    }
    return vf_sum(bad) == 0;
}

const cm_attention_kernels CM_LEVEL(cm_cpu_attention_kernels) = {score_rows, dot_rows, weigh_rows,
                                                                 scale};
