/* sample.h -- the kernels that read planes at many places, for one ISA level: include it once, in that folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_SAMPLE_H
#define CM_CPU_SIMD_SAMPLE_H

#include "cpu/sample.h"
#include "cpu/simd/vec.h"

/* Neighbouring elements are fetched two at a time: 8 places fill two vectors of 256 bits, and wider ones gain
 * nothing, because what takes the time is fetching. */
#if VW > 4
typedef __m256 pf;
enum { PW = 8 };
#define PF(name) _mm256_##name
#else
typedef __m128 pf;
enum { PW = 4 };
#define PF(name) _mm_##name
#endif

/* ---- Places --------------------------------------------------------------------------------------- */

/* a * b + c, rounded once where the level can; else a is halved into parts whose products are exact for b of up to 12 bits. */
VINLINE vf exact_fma(vf a, vf b, vf c)
{
#if VW > 4
    return vf_fma(a, b, c);
#else
    vf high = vf_bits(vi_and(vi_bits(a), vi_set((int32_t)0xfffff000)));
    return vf_add(vf_add(vf_mul(high, b), c), vf_mul(vf_sub(a, high), b));
#endif
}

VINLINE vf only(vm m, vf bits)
{
    return vf_select(m, bits, vf_zero());
}

/* The whole number is exact as far as float32 goes; what is left is computed from it in one step, so that no
 * digits of it are lost in large images, and corrects it. */
VINLINE void split(const cm_sample_axis *a, vf g, vf *whole, vf *part)
{
    const vf scale = vf_set(a->scale), shift = vf_set(a->shift);
    const vf x = exact_fma(g, scale, shift);
    *whole = a->taps == 1 ? vf_round(x) : vf_floor(x);
    *part = exact_fma(g, scale, vf_sub(shift, *whole));
    if (a->taps > 1) {
        vf over = vf_floor(*part);
        *whole = vf_add(*whole, over);
        *part = vf_sub(*part, over);
        /* As in double, where g is lost beside 1; products with it would be slow besides. */
        *part = only(vf_le(vf_set(1e-16f), *part), *part);
    }
}

static void locate(const cm_sample_axis *a, int d, cm_sample_run *s)
{
    const vf zero = vf_zero(), last = vf_set(a->last), surely = vf_set(0.499f);
    const vf ones = vf_bits(vi_set(-1));
    for (int i = 0; i < s->n; i += VW) {
        vf whole, part;
        split(a, vf_load(s->grid[d] + i), &whole, &part);
        vf low = vf_sub(whole, vf_set(a->taps == 4)),
           high = vf_add(low, vf_set((float)a->taps - 1));
        vf in = only(vf_le(zero, low), only(vf_le(high, last), ones));
        vf some = only(vf_le(zero, high), only(vf_le(low, last), ones));
        if (a->taps == 1) { /* what is in doubt may be anything */
            vm sure = vf_le(vf_abs(part), surely);
            in = only(sure, in);
            some = vf_select(sure, some, ones);
        }
        vi first = vi_and(vi_of_float(vf_and(low, in)), vi_bits(in));
        vf_store((float *)s->first[d] + i, vf_bits(first));
        vf_store(s->part[d] + i, vf_and(part, in));
        vf_store((float *)s->inside + i, vf_and(in, vf_load((const float *)s->inside + i)));
        vf_store((float *)s->touches + i, vf_and(some, vf_load((const float *)s->touches + i)));
    }
}

static void unpack(const float *restrict g, int axes, cm_sample_run *restrict s)
{
    for (int d = 0; d < axes; d++)
        for (int i = 0; i < s->n; i++)
            s->grid[d][i] = g[i * axes + axes - 1 - d];
}

static void settle(const int64_t *step, int axes, cm_sample_run *s)
{
    const int padded = (s->n + CM_SAMPLE_LANES - 1) / CM_SAMPLE_LANES * CM_SAMPLE_LANES;
    int inside = 0;
    memcpy(s->base, s->first[axes - 1], (size_t)padded * sizeof *s->base);
    for (int d = 0; d < axes - 1; d++)
        for (int i = 0; i < padded; i++)
            s->base[i] += s->first[d][i] * (int32_t)step[d];
    for (int i = 0; i < s->n; i++)
        inside -= s->inside[i];
    s->n_inside = inside;
}

/* Of taps -1 to 2 around a place `part` behind tap 0: Keys' polynomials, with their zeros as factors. */
static void cubic_weights(const float *part, int n, float *restrict weight)
{
    const float a = -0.75f;
    for (int i = 0; i < n; i++) {
        const float f = part[i], e = 1 - f;
        weight[4 * i] = a * f * e * e;
        weight[4 * i + 1] = ((a + 2) * f - (a + 3)) * f * f + 1;
        weight[4 * i + 2] = ((a + 2) * e - (a + 3)) * e * e + 1;
        weight[4 * i + 3] = a * e * f * f;
    }
}

/* ---- Planes --------------------------------------------------------------------------------------- */

VINLINE __m128 two_pairs(const float *x, const int32_t *at)
{
    __m128 v = _mm_castsi128_ps(_mm_loadu_si64(x + at[0]));
    return _mm_loadh_pi(v, (const __m64 *)(const void *)(x + at[1]));
}

/* x[at[i]] and x[at[i] + 1] of PW places. */
VINLINE void pairs(const float *x, const int32_t *at, pf *left, pf *right)
{
#if VW > 4
    __m256 a =
        _mm256_insertf128_ps(_mm256_castps128_ps256(two_pairs(x, at)), two_pairs(x, at + 4), 1);
    __m256 b =
        _mm256_insertf128_ps(_mm256_castps128_ps256(two_pairs(x, at + 2)), two_pairs(x, at + 6), 1);
#else
    __m128 a = two_pairs(x, at), b = two_pairs(x, at + 2);
#endif
    *left = PF(shuffle_ps)(a, b, 0x88);
    *right = PF(shuffle_ps)(a, b, 0xdd);
}

/* Weights that are 0 still meet their element: what is not finite spreads as in sums of products. */
VINLINE pf between(pf a, pf b, pf f)
{
    pf first = PF(mul_ps)(PF(sub_ps)(PF(set1_ps)(1), f), a);
#if VW > 4
    return PF(fmadd_ps)(f, b, first);
#else
    return PF(add_ps)(first, PF(mul_ps)(f, b));
#endif
}

/* Where fewer than PW places are left, only those. */
VINLINE void put(float *y, int n, int i, pf v)
{
    float last[PW];
    if (i + PW <= n) {
        PF(storeu_ps)(y + i, v);
        return;
    }
    PF(storeu_ps)(last, v);
    memcpy(y + i, last, (size_t)(n - i) * sizeof *y);
}

VINLINE void linear(int axes, const float *x, const int64_t *step, const cm_sample_run *s, float *y)
{
    for (int i = 0; i < s->n; i += PW) {
        pf line[4];
        UNROLL
        for (int r = 0; r < 1 << (axes - 1); r++) {
            const float *row = x + (r & 1 ? step[axes - 2] : 0) + (r & 2 ? step[0] : 0);
            pf left, right;
            pairs(row, s->base + i, &left, &right);
            line[r] = between(left, right, PF(loadu_ps)(s->part[axes - 1] + i));
        }
        UNROLL
        for (int d = axes - 2; d >= 0; d--) {
            const pf f = PF(loadu_ps)(s->part[d] + i);
            UNROLL
            for (int r = 0; r < 1 << d; r++)
                line[r] = between(line[2 * r], line[2 * r + 1], f);
        }
        const pf keep = PF(loadu_ps)((const float *)s->inside + i);
        put(y, s->n, i, PF(and_ps)(line[0], keep));
    }
}

static void linear1(const float *x, const int64_t *step, const cm_sample_run *s, float *y)
{
    linear(1, x, step, s, y);
}
static void linear2(const float *x, const int64_t *step, const cm_sample_run *s, float *y)
{
    linear(2, x, step, s, y);
}
static void linear3(const float *x, const int64_t *step, const cm_sample_run *s, float *y)
{
    linear(3, x, step, s, y);
}

/* Four rows of four elements, added up down; what is left to add is along. */
VINLINE __m128 cubic_place(const float *x, int64_t step, const float *down, const float *along)
{
    __m128 sum = _mm_mul_ps(_mm_loadu_ps(x), _mm_set1_ps(down[0]));
#pragma GCC unroll 3
    for (int r = 1; r < 4; r++)
        sum = _mm_add_ps(sum, _mm_mul_ps(_mm_loadu_ps(x + r * step), _mm_set1_ps(down[r])));
    return _mm_mul_ps(sum, _mm_loadu_ps(along));
}

static void cubic(const float *x, const int64_t *step, const cm_sample_run *s, float *y)
{
    enum { FOUR = 4 };
    for (int i = 0; i < s->n; i += FOUR) {
        __m128 v[FOUR];
        float last[FOUR];
#pragma GCC unroll 4
        for (int k = 0; k < FOUR; k++)
            v[k] = cubic_place(x + s->base[i + k], step[0], s->weight[0] + FOUR * (i + k),
                               s->weight[1] + FOUR * (i + k));
        _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
        __m128 sum = _mm_add_ps(_mm_add_ps(v[0], v[1]), _mm_add_ps(v[2], v[3]));
        sum = _mm_and_ps(sum, _mm_loadu_ps((const float *)s->inside + i));
        _mm_storeu_ps(last, sum);
        memcpy(y + i, last, (size_t)(s->n - i < FOUR ? s->n - i : FOUR) * sizeof *y);
    }
}

static void nearest(const float *x, const cm_sample_run *s, float *y)
{
    for (int i = 0; i < s->n; i++)
        y[i] = s->inside[i] ? x[s->base[i]] : 0;
}

const cm_sample_kernels CM_LEVEL(cm_cpu_sample) = {.locate = locate,
                                                   .unpack = unpack,
                                                   .settle = settle,
                                                   .cubic_weights = cubic_weights,
                                                   .nearest = nearest,
                                                   .linear = {linear1, linear2, linear3},
                                                   .cubic = cubic};

#endif
