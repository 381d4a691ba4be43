/* nbits_digits.c -- one row times weights of a few bits by dot products of bytes, where the CPU has VNNI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An element of x is a power of two, the same in a block, times a whole number of 23 bits: three digits of 8. Sums of codes times digits are exact; what
 * is lost is less than float32 sums lose. A word of codes gives 8 / bits vectors of four bytes a column,
 * and digits lie in that order. */
#include "cpu/simd/vec.h"

#include <math.h>

#include "cpu/nbits.h"

enum { DIGITS = CM_NBITS_DIGITS, WIDE = CM_NBITS_WIDE };

/* What is less than 2^(e + 1) is taken as multiples of 2^(e - KEPT). With a margin below that their last digit is no more than
 * 127. */
enum { KEPT = 22 };
static const float MARGIN = 1.005f;

/* The exponent of the largest magnitude and its margin; false: not finite, or too small to be cut. */
static bool exponent_of(const float *x, int64_t n, int *exponent)
{
    enum { LEAST = -80 };
    vf most = vf_zero();
    for (int64_t i = 0; i < n; i += VW) {
        vf v = vf_abs(i + VW <= n ? vf_load(x + i) : vf_load_n(x + i, (int)(n - i)));
        if (_mm512_cmp_ps_mask(v, vf_set(INFINITY), _CMP_NLT_UQ))
            return false;
        most = vf_max(most, v);
    }
    float m = vf_most(most) * MARGIN;
    uint32_t bits;
    memcpy(&bits, &m, sizeof bits);
    *exponent = (int)(bits >> 23) - 127;
    return m == 0 || *exponent >= LEAST;
}

static vf power_of_two(int e)
{
    return vf_bits(vi_set((int32_t)((uint32_t)(e + 127) << 23)));
}

/* Digits of VW elements, lowest first, each -128..127. */
static void cut(vf x, vf by, int32_t digit[DIGITS][VW])
{
    vi v = vi_of_float(vf_mul(x, by));
    for (int d = 0; d < DIGITS; d++) {
        vi low = vi_sar(vi_shl(v, 24), 24);
        _mm512_storeu_si512(digit[d], low);
        v = vi_sar(vi_sub(v, low), 8);
    }
}

/* A block of n elements, from its element 0 on. */
static void cut_block(int bits, const float *x, int64_t n, int exponent, int8_t *to, int32_t *sums)
{
    const int per = 32 / bits, parts = 8 / bits;
    vf by = power_of_two(KEPT - exponent);
    int32_t digit[DIGITS][VW];
    for (int64_t i = 0; i < n; i += VW) {
        int count = n - i < VW ? (int)(n - i) : VW;
        cut(vf_load_n(x + i, count), by, digit);
        for (int c = 0; c < count; c++) {
            int64_t word = (i + c) / per, at = (i + c) % per;
            int8_t *place = to + (word * parts + at % parts) * DIGITS * 4 + at / parts;
            for (int d = 0; d < DIGITS; d++) {
                place[d * 4] = (int8_t)digit[d][c];
                sums[d] += digit[d][c];
            }
        }
    }
}

bool cm_cpu_nbits_cut__avx512(const cm_nbits_weights *w, const float *x, const cm_nbits_digits *to)
{
    const int64_t words = w->block * w->bits / 32;
    const int64_t bytes = words * (8 / w->bits) * DIGITS * 4;
    memset(to->digits, 0, (size_t)(w->blocks * bytes));
    memset(to->sums, 0, (size_t)(w->blocks * DIGITS) * sizeof *to->sums);
    for (int64_t b = 0; b < w->blocks; b++) {
        int64_t left = w->k - b * w->block, n = left < w->block ? left : w->block;
        int exponent;
        to->scales[b] = 0;
        if (!exponent_of(x + b * w->block, n, &exponent))
            return false;
        if (exponent == -127)
            continue; /* zeros */
        to->scales[b] = ldexpf(1, exponent - KEPT);
        cut_block(w->bits, x + b * w->block, n, exponent, to->digits + b * bytes,
                  to->sums + b * DIGITS);
    }
    return true;
}

/* `bits` and `strips` are constants where these are inlined. */
VINLINE void add_words(int bits, int strips, const uint32_t *codes, int64_t apart, int64_t words,
                       const int8_t *x, vi (*acc)[WIDE])
{
    const vi turned = vi_set(bits == 4 ? 0x08080808 : (int)0x80808080);
    const vi mask = vi_set(bits == 4 ? 0x0f0f0f0f : -1);
    for (int64_t i = 0; i < words; i++, codes += CM_NBITS_STRIP) {
        vi word[WIDE];
        UNROLL
        for (int q = 0; q < strips; q++)
            word[q] = _mm512_loadu_si512(codes + q * apart);
        UNROLL
        for (int part = 0; part < 8 / bits; part++, x += DIGITS * 4) {
            int32_t digit[DIGITS];
            memcpy(digit, x, sizeof digit);
            UNROLL
            for (int q = 0; q < strips; q++) {
                vi code = vi_and(vi_xor(vi_shr(word[q], (unsigned)(part * bits)), turned), mask);
                UNROLL
                for (int d = 0; d < DIGITS; d++)
                    acc[d][q] = _mm512_dpbusd_epi32(acc[d][q], code, vi_set(digit[d]));
            }
        }
    }
}

/* Sums begin with what zero points take from them. */
VINLINE void begin_block(int bits, int strips, const cm_nbits_weights *w, int64_t strip, int64_t b,
                         const int32_t *sums, vi (*acc)[WIDE])
{
    UNROLL
    for (int q = 0; q < strips; q++) {
        vi zero = vi_set(1 << (bits - 1));
        if (w->zeros)
            zero = vi_add(zero, vi_of_float(vf_load(w->zeros + ((strip + q) * w->blocks + b) *
                                                                   CM_NBITS_STRIP)));
        UNROLL
        for (int d = 0; d < DIGITS; d++)
            acc[d][q] = _mm512_mullo_epi32(zero, vi_set(-sums[d]));
    }
}

VINLINE void row_of_strips(int bits, int strips, const cm_nbits_weights *w,
                           const cm_nbits_digits *x, float *y, int64_t strip)
{
    const int64_t words = w->block * bits / 32, apart = w->blocks * words * CM_NBITS_STRIP;
    const int64_t bytes = words * (8 / bits) * DIGITS * 4;
    vf sum[WIDE];
    UNROLL
    for (int q = 0; q < strips; q++)
        sum[q] = w->bias ? vf_load(w->bias + (strip + q) * CM_NBITS_STRIP) : vf_zero();
    for (int64_t b = 0; b < w->blocks; b++) {
        vi acc[DIGITS][WIDE];
        begin_block(bits, strips, w, strip, b, x->sums + b * DIGITS, acc);
        add_words(bits, strips, w->codes + strip * apart + b * words * CM_NBITS_STRIP, apart, words,
                  x->digits + b * bytes, acc);
        UNROLL
        for (int q = 0; q < strips; q++) {
            vf v = vf_of_int(acc[DIGITS - 1][q]);
            UNROLL
            for (int d = DIGITS - 2; d >= 0; d--)
                v = vf_fma(v, vf_set(256), vf_of_int(acc[d][q]));
            vf scale = vf_load(w->scales + ((strip + q) * w->blocks + b) * CM_NBITS_STRIP);
            sum[q] = vf_fma(vf_mul(v, vf_set(x->scales[b])), scale, sum[q]);
        }
    }
    UNROLL
    for (int q = 0; q < strips; q++) {
        int64_t col = (strip + q) * CM_NBITS_STRIP;
        vf_store_n(y + col, sum[q], w->n - col < VW ? (int)(w->n - col) : VW);
    }
}

VINLINE void row(int bits, const cm_nbits_weights *w, const cm_nbits_digits *x, float *y,
                 int64_t begin, int64_t end)
{
    int64_t s = begin;
    for (; s + WIDE <= end; s += WIDE)
        row_of_strips(bits, WIDE, w, x, y, s);
    for (; s < end; s++)
        row_of_strips(bits, 1, w, x, y, s);
}

void cm_cpu_nbits_digits__avx512(const cm_nbits_weights *w, const cm_nbits_digits *x, float *y,
                                 int64_t begin, int64_t end)
{
    if (w->bits == 4)
        row(4, w, x, y, begin, end);
    else
        row(8, w, x, y, begin, end);
}
