/* vec.h -- vectors of float32 and int32 as wide as the level this file is built for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * VW lanes: 16 with AVX-512, 8 with AVX2, 4 otherwise (SSE2, which every x86-64 has). Code written with
 * these is built once per level. Loads and stores need no alignment. `n` counts lanes from the
 * first; lanes beyond it are read as zero and not written. */
#ifndef CM_CPU_SIMD_VEC_H
#define CM_CPU_SIMD_VEC_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define VW             16
#define CM_LEVEL(name) name##__avx512
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
#elif defined(__AVX2__)
#define VW             8
#define CM_LEVEL(name) name##__avx2
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* all bits of a lane set or clear */
#else
#define VW             4
#define CM_LEVEL(name) name##__generic
typedef __m128 vf;
typedef __m128i vi;
typedef __m128 vm;
#endif

#define VINLINE static inline __attribute__((always_inline, unused))

/* Before a loop whose bounds are constants: written out, so that its arrays are registers. Not under
 * sanitizers, which check every copy of the code and take minutes to be compiled. */
#ifdef __has_feature
#define VEC_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VEC_SANITIZED 1
#else
#define VEC_SANITIZED 0
#endif
#if VEC_SANITIZED
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if VW == 16
#define V1(f, i, g) f
#elif VW == 8
#define V1(f, i, g) i
#else
#define V1(f, i, g) g
#endif

VINLINE vf vf_load(const float *p)
{
    return V1(_mm512_loadu_ps, _mm256_loadu_ps, _mm_loadu_ps)(p);
}
VINLINE void vf_store(float *p, vf v)
{
    V1(_mm512_storeu_ps, _mm256_storeu_ps, _mm_storeu_ps)(p, v);
}
VINLINE vf vf_set(float x)
{
    return V1(_mm512_set1_ps, _mm256_set1_ps, _mm_set1_ps)(x);
}
VINLINE vf vf_zero(void)
{
    return V1(_mm512_setzero_ps, _mm256_setzero_ps, _mm_setzero_ps)();
}
VINLINE vf vf_add(vf a, vf b)
{
    return V1(_mm512_add_ps, _mm256_add_ps, _mm_add_ps)(a, b);
}
VINLINE vf vf_sub(vf a, vf b)
{
    return V1(_mm512_sub_ps, _mm256_sub_ps, _mm_sub_ps)(a, b);
}
VINLINE vf vf_mul(vf a, vf b)
{
    return V1(_mm512_mul_ps, _mm256_mul_ps, _mm_mul_ps)(a, b);
}
VINLINE vf vf_div(vf a, vf b)
{
    return V1(_mm512_div_ps, _mm256_div_ps, _mm_div_ps)(a, b);
}
VINLINE vf vf_sqrt(vf a)
{
    return V1(_mm512_sqrt_ps, _mm256_sqrt_ps, _mm_sqrt_ps)(a);
}
/* a * b + c; rounded once where the level has it, twice in generic. */
VINLINE vf vf_fma(vf a, vf b, vf c)
{
#if VW == 16
    return _mm512_fmadd_ps(a, b, c);
#elif VW == 8
    return _mm256_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(_mm_mul_ps(a, b), c);
#endif
}
/* c - a * b */
VINLINE vf vf_fnma(vf a, vf b, vf c)
{
#if VW == 16
    return _mm512_fnmadd_ps(a, b, c);
#elif VW == 8
    return _mm256_fnmadd_ps(a, b, c);
#else
    return _mm_sub_ps(c, _mm_mul_ps(a, b));
#endif
}
/* x86's: the second operand when either is NaN. vf_max(x, lo) therefore gives lo for NaN and
 * vf_max(lo, x) gives NaN. */
VINLINE vf vf_max(vf a, vf b)
{
    return V1(_mm512_max_ps, _mm256_max_ps, _mm_max_ps)(a, b);
}
VINLINE vf vf_min(vf a, vf b)
{
    return V1(_mm512_min_ps, _mm256_min_ps, _mm_min_ps)(a, b);
}

/* Lane masks. */
#if VW == 16
VINLINE vm vf_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VINLINE vm vf_le(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
VINLINE vm vf_eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
VINLINE vm vf_ne(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
} /* true for NaN */
VINLINE vf vf_select(vm m, vf yes, vf no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}
VINLINE vm vm_first(int n)
{
    return (vm)(n >= 16 ? 0xffff : (1u << n) - 1);
}
VINLINE vf vf_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
VINLINE void vf_store_n(float *p, vf v, int n)
{
    _mm512_mask_storeu_ps(p, vm_first(n), v);
}
VINLINE vf vf_of_int(vi v)
{
    return _mm512_cvtepi32_ps(v);
}
VINLINE vi vi_of_float(vf v)
{
    return _mm512_cvtps_epi32(v);
} /* to nearest, ties to even */
VINLINE vi vi_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
VINLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
VINLINE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}
VINLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
VINLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
VINLINE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n) /* zeros come in */
#define vi_sar(a, n) _mm512_srai_epi32(a, n)
VINLINE vf vf_bits(vi v)
{
    return _mm512_castsi512_ps(v);
}
VINLINE vi vi_bits(vf v)
{
    return _mm512_castps_si512(v);
}
VINLINE vf vf_round(vf v)
{
    return _mm512_roundscale_ps(v, 0x08);
} /* ties to even */
VINLINE vf vf_floor(vf v)
{
    return _mm512_roundscale_ps(v, 0x09);
}
VINLINE vf vf_ceil(vf v)
{
    return _mm512_roundscale_ps(v, 0x0a);
}
/* Lane by lane the one of 16 floats that the last 4 bits of i say. */
VINLINE vf vf_lookup(const float *table, vi i)
{
    return _mm512_permutexvar_ps(i, vf_load(table));
}
VINLINE vi vi_lookup(const uint32_t *table, vi i)
{
    return _mm512_permutexvar_epi32(i, _mm512_loadu_si512(table));
}
VINLINE float vf_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}
VINLINE float vf_most(vf v)
{
    return _mm512_reduce_max_ps(v);
}
VINLINE float vf_least(vf v)
{
    return _mm512_reduce_min_ps(v);
}
#elif VW == 8
VINLINE vm vf_lt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
VINLINE vm vf_le(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
VINLINE vm vf_eq(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
VINLINE vm vf_ne(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ);
}
VINLINE vf vf_select(vm m, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, m);
}
VINLINE vi vi_first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VINLINE vm vm_first(int n)
{
    return _mm256_castsi256_ps(vi_first(n));
}
VINLINE vf vf_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, vi_first(n));
}
VINLINE void vf_store_n(float *p, vf v, int n)
{
    _mm256_maskstore_ps(p, vi_first(n), v);
}
VINLINE vf vf_of_int(vi v)
{
    return _mm256_cvtepi32_ps(v);
}
VINLINE vi vi_of_float(vf v)
{
    return _mm256_cvtps_epi32(v);
}
VINLINE vi vi_set(int32_t x)
{
    return _mm256_set1_epi32(x);
}
VINLINE vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
VINLINE vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}
VINLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
VINLINE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
VINLINE vi vi_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}
#define vi_shl(a, n) _mm256_slli_epi32(a, n)
#define vi_shr(a, n) _mm256_srli_epi32(a, n)
#define vi_sar(a, n) _mm256_srai_epi32(a, n)
VINLINE vf vf_bits(vi v)
{
    return _mm256_castsi256_ps(v);
}
VINLINE vi vi_bits(vf v)
{
    return _mm256_castps_si256(v);
}
VINLINE vf vf_round(vf v)
{
    return _mm256_round_ps(v, 0x08);
}
VINLINE vf vf_floor(vf v)
{
    return _mm256_round_ps(v, 0x09);
}
VINLINE vf vf_ceil(vf v)
{
    return _mm256_round_ps(v, 0x0a);
}
VINLINE float vf_sum(vf v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
VINLINE float vf_most(vf v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}
VINLINE float vf_least(vf v)
{
    __m128 x = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_min_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_min_ss(x, _mm_shuffle_ps(x, x, 1)));
}
#else
VINLINE vm vf_lt(vf a, vf b)
{
    return _mm_cmplt_ps(a, b);
}
VINLINE vm vf_le(vf a, vf b)
{
    return _mm_cmple_ps(a, b);
}
VINLINE vm vf_eq(vf a, vf b)
{
    return _mm_cmpeq_ps(a, b);
}
VINLINE vm vf_ne(vf a, vf b)
{
    return _mm_cmpneq_ps(a, b);
}
VINLINE vf vf_select(vm m, vf yes, vf no)
{
    return _mm_or_ps(_mm_and_ps(m, yes), _mm_andnot_ps(m, no));
}
VINLINE vm vm_first(int n)
{
    return _mm_castsi128_ps(_mm_cmpgt_epi32(_mm_set1_epi32(n), _mm_setr_epi32(0, 1, 2, 3)));
}
VINLINE vf vf_load_n(const float *p, int n)
{
    float v[4] = {0};
    memcpy(v, p, (size_t)(n < 4 ? n : 4) * sizeof *v);
    return _mm_loadu_ps(v);
}
VINLINE void vf_store_n(float *p, vf v, int n)
{
    float x[4];
    _mm_storeu_ps(x, v);
    memcpy(p, x, (size_t)(n < 4 ? n : 4) * sizeof *x);
}
VINLINE vf vf_of_int(vi v)
{
    return _mm_cvtepi32_ps(v);
}
VINLINE vi vi_of_float(vf v)
{
    return _mm_cvtps_epi32(v);
}
VINLINE vi vi_set(int32_t x)
{
    return _mm_set1_epi32(x);
}
VINLINE vi vi_add(vi a, vi b)
{
    return _mm_add_epi32(a, b);
}
VINLINE vi vi_sub(vi a, vi b)
{
    return _mm_sub_epi32(a, b);
}
VINLINE vi vi_and(vi a, vi b)
{
    return _mm_and_si128(a, b);
}
VINLINE vi vi_or(vi a, vi b)
{
    return _mm_or_si128(a, b);
}
VINLINE vi vi_xor(vi a, vi b)
{
    return _mm_xor_si128(a, b);
}
#define vi_shl(a, n) _mm_slli_epi32(a, n)
#define vi_shr(a, n) _mm_srli_epi32(a, n)
#define vi_sar(a, n) _mm_srai_epi32(a, n)
VINLINE vf vf_bits(vi v)
{
    return _mm_castsi128_ps(v);
}
VINLINE vi vi_bits(vf v)
{
    return _mm_castps_si128(v);
}
/* Beyond 2^23 every float is whole; below, adding and taking away 2^23 rounds. Keeps the sign of zero. */
VINLINE vf vf_round(vf v)
{
    const vf sign = _mm_set1_ps(-0.0f), big = _mm_set1_ps(8388608.0f);
    vf s = _mm_and_ps(v, sign), a = _mm_andnot_ps(sign, v);
    vf r = _mm_or_ps(_mm_sub_ps(_mm_add_ps(a, big), big), s);
    return vf_select(_mm_cmplt_ps(a, big), r, v);
}
VINLINE vf vf_floor(vf v)
{
    vf r = vf_round(v);
    vf d = vf_sub(r, _mm_and_ps(_mm_cmplt_ps(v, r), _mm_set1_ps(1)));
    return _mm_or_ps(d, _mm_and_ps(v, _mm_set1_ps(-0.0f)));
}
VINLINE vf vf_ceil(vf v)
{
    const vf sign = _mm_set1_ps(-0.0f);
    return _mm_xor_ps(vf_floor(_mm_xor_ps(v, sign)), sign);
}
VINLINE float vf_sum(vf v)
{
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
VINLINE float vf_most(vf v)
{
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps(v, v, 1)));
}
VINLINE float vf_least(vf v)
{
    v = _mm_min_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_min_ss(v, _mm_shuffle_ps(v, v, 1)));
}
#endif

VINLINE vf vf_and(vf a, vf b)
{
    return vf_bits(vi_and(vi_bits(a), vi_bits(b)));
}
VINLINE vf vf_or(vf a, vf b)
{
    return vf_bits(vi_or(vi_bits(a), vi_bits(b)));
}
VINLINE vf vf_xor(vf a, vf b)
{
    return vf_bits(vi_xor(vi_bits(a), vi_bits(b)));
}
VINLINE vf vf_abs(vf a)
{
    return vf_bits(vi_and(vi_bits(a), vi_set(0x7fffffff)));
}
VINLINE vf vf_neg(vf a)
{
    return vf_xor(a, vf_set(-0.0f));
}
/* a with the sign of b. */
VINLINE vf vf_copysign(vf a, vf b)
{
    return vf_or(vf_abs(a), vf_and(b, vf_set(-0.0f)));
}

/* bfloat16 is the upper half of a float32. */
VINLINE vf vf_load_bf16(const uint16_t *p)
{
#if VW == 16
    return vf_bits(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
#elif VW == 8
    return vf_bits(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
#else
    __m128i h = _mm_loadl_epi64((const __m128i *)p);
    return vf_bits(_mm_unpacklo_epi16(_mm_setzero_si128(), h));
#endif
}

#endif
