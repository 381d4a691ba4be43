/* quant_softmax.h -- softmax of rows of bytes: one body for every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bytes become keys, numbers without sign that grow with the real numbers that they stand for. A term
 * of the row's sum depends on a key's distance from the largest one only, so that all there are stand in
 * tables.
 *
 * The reference rounds real numbers to float32, then the softmax, then its quotient by y's scale. Against
 * it terms, sum and quotient differ by some 2^-21 of themselves, and by what rounding real numbers makes,
 * 2^-23 of 255 |scale|; beyond |scale| = 104 only the largest key has a term. Of 255 steps that is less
 * than one: results differ by one step at most, and only next to a tie. Where keys are equal, as ties are
 * likely, terms are 1 and nothing differs. */
#ifndef CM_CPU_SIMD_QUANT_SOFTMAX_H
#define CM_CPU_SIMD_QUANT_SOFTMAX_H

#include <math.h>

#include "cpu/quant_softmax.h"
#include "cpu/simd/math.h"
#include "cpu/simd/quant_bytes.h"

enum {
    BYTES = 4 * VW, /* of a vector */
    SPAN = 4096,    /* most terms that are summed in float32 */
    LONG = 256,     /* from so many elements on a row has a table of its results */
    BLOCK = 16      /* entries of a table that one instruction looks up in */
};

#if VW == 16
#define VB(name) _mm512_##name
#elif VW == 8
#define VB(name) _mm256_##name
#else
#define VB(name) _mm_##name
#endif

/* n of BYTES keys; the others are 0. */
VINLINE vi load_keys(const uint8_t *x, int64_t n, uint8_t flip)
{
    const vi f = VB(set1_epi8)((char)flip);
#if VW == 16
    __mmask64 there = n < BYTES ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
    return vi_xor(_mm512_mask_loadu_epi8(f, there, x), f);
#else
    vi v;
    uint8_t bytes[BYTES];
    if (n >= BYTES) {
        memcpy(&v, x, sizeof v);
    } else {
        memset(bytes, flip, sizeof bytes);
        memcpy(bytes, x, (size_t)n);
        memcpy(&v, bytes, sizeof v);
    }
    return vi_xor(v, f);
#endif
}

VINLINE uint8_t largest_byte(vi v)
{
#if VW == 16
    __m256i h = _mm256_max_epu8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
#elif VW == 8
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
#else
    __m128i m = v;
#endif
    m = _mm_max_epu8(m, _mm_srli_si128(m, 8));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 4));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 2));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 1));
    return (uint8_t)_mm_cvtsi128_si32(m);
}

VINLINE uint8_t largest_key(const uint8_t *x, int64_t n, uint8_t flip)
{
    vi most = vi_set(0);
    for (int64_t i = 0; i < n; i += BYTES)
        most = VB(max_epu8)(most, load_keys(x + i, n - i, flip));
    return largest_byte(most);
}

/* The tables of powers as registers. */
typedef struct {
#if VW == 16
    vf by_1, by_16;
#elif VW == 8
    vf by_1, by_8, by_64;
#else
    const float *all;
#endif
} power_tables;

VINLINE power_tables load_powers(const cm_qsoftmax *q)
{
#if VW == 16
    return (power_tables){vf_load(q->power), vf_load(q->by_16)};
#elif VW == 8
    return (power_tables){vf_load(q->power), vf_load(q->by_8), vf_load(q->by_64)};
#else
    return (power_tables){q->power};
#endif
}

/* Terms of VW distances below 256. */
VINLINE vf powers_of(const power_tables *t, vi d)
{
#if VW == 16
    return vf_mul(_mm512_permutexvar_ps(d, t->by_1), _mm512_permutexvar_ps(vi_shr(d, 4), t->by_16));
#elif VW == 8
    vf p = vf_mul(_mm256_permutevar8x32_ps(t->by_1, d),
                  _mm256_permutevar8x32_ps(t->by_8, vi_shr(d, 3)));
    return vf_mul(p, _mm256_permutevar8x32_ps(t->by_64, vi_shr(d, 6)));
#else
    int32_t at[VW];
    memcpy(at, &d, sizeof d);
    return _mm_setr_ps(t->all[at[0]], t->all[at[1]], t->all[at[2]], t->all[at[3]]);
#endif
}

/* One row: x as keys below `most`, which is the largest of them. */
typedef struct {
    const uint8_t *x;
    uint8_t *y;
    int64_t n;
    uint8_t flip, most;
    power_tables powers;
} one_row;

VINLINE vf terms_at(const one_row *r, const uint8_t *x)
{
    vi key = vi_xor(load_bytes(x, false), vi_set(r->flip));
    return powers_of(&r->powers, vi_sub(vi_set(r->most), key));
}

/* The first n of VW terms, n < VW; distances of the others are 0. */
VINLINE vf last_terms(const one_row *r, const uint8_t *x, int64_t n)
{
    uint8_t bytes[VW];
    memset(bytes, r->most ^ r->flip, sizeof bytes);
    for (int i = 0; i < VW && i < n; i++)
        bytes[i] = x[i];
    return vf_select(vm_first((int)n), terms_at(r, bytes), vf_zero());
}

VINLINE float sum_of_span(const one_row *r, const uint8_t *x, int64_t n)
{
    vf s[4];
    int64_t i = 0;
    s[0] = s[1] = s[2] = s[3] = vf_zero();
    for (; i + 4 * VW <= n; i += 4 * VW)
        UNROLL for (int k = 0; k < 4; k++) s[k] = vf_add(s[k], terms_at(r, x + i + k * VW));
    for (; i + VW <= n; i += VW)
        s[0] = vf_add(s[0], terms_at(r, x + i));
    if (i < n)
        s[1] = vf_add(s[1], last_terms(r, x + i, n - i));
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

VINLINE float sum_of(const one_row *r)
{
    if (r->n <= SPAN)
        return sum_of_span(r, r->x, r->n);
    double sum = 0;
    for (int64_t i = 0; i < r->n; i += SPAN)
        sum += (double)sum_of_span(r, r->x + i, r->n - i < SPAN ? r->n - i : SPAN);
    return (float)sum;
}

/* What terms become: `share` is 1 over their sum. */
typedef struct {
    vf share, scale, zero;
} result;

VINLINE void put_results(const result *to, vf terms, bool is_signed, uint8_t *y)
{
    vf v = vf_div(vf_mul(terms, to->share), to->scale);
    store_bytes(y, round_to_byte(v, to->zero, is_signed), is_signed);
}

VINLINE void short_row(const one_row *r, const result *to, bool is_signed)
{
    int64_t i = 0;
    for (; i + VW <= r->n; i += VW)
        put_results(to, terms_at(r, r->x + i), is_signed, r->y + i);
    if (i < r->n) {
        uint8_t last[VW];
        put_results(to, last_terms(r, r->x + i, r->n - i), is_signed, last);
        for (int64_t k = 0; i + k < r->n; k++)
            r->y[i + k] = last[k];
    }
}

/* The result of each distance, less that of the largest, `rest`: 0 from some distance on, as results fall or rise
 * with it. Returns how many blocks have others. */
VINLINE int make_table(const float *power, const result *to, bool is_signed, uint8_t *table,
                       uint8_t *rest)
{
    int n = 0;
    uint8_t far[VW];
    put_results(to, vf_set(power[255]), is_signed, far);
    const __m128i base = _mm_set1_epi8((char)far[0]);
    *rest = far[0];
    for (bool more = true; more && n < 256 / BLOCK; n++) {
        uint8_t *t = table + n * BLOCK;
        UNROLL for (int k = 0; k < BLOCK; k += VW)
            put_results(to, vf_load(power + n * BLOCK + k), is_signed, t + k);
        more = t[BLOCK - 1] != far[0];
        __m128i v = _mm_loadu_si128((const __m128i *)t);
        _mm_storeu_si128((__m128i *)t, _mm_sub_epi8(v, base));
    }
    return n;
}

#if VW > 4
/* Entries of the table's blocks, 0 for distances beyond them. A distance of another block gets its upper bit set, which
 * makes a shuffle answer 0. */
VINLINE vi look_up_blocks(const uint8_t *table, int blocks, vi d)
{
    const vi within = VB(set1_epi8)(0x70);
    vi y = vi_set(0);
    for (int b = 0; b < blocks; b++) {
        __m128i one = _mm_loadu_si128((const __m128i *)(table + b * BLOCK));
        vi t = V1(_mm512_broadcast_i32x4, _mm256_broadcastsi128_si256, )(one);
        vi at = VB(adds_epu8)(vi_xor(d, VB(set1_epi8)((char)(b * BLOCK))), within);
        y = vi_or(y, VB(shuffle_epi8)(t, at));
    }
    return y;
}

VINLINE void look_up(const one_row *r, const uint8_t *table, int blocks, uint8_t rest)
{
    const vi most = VB(set1_epi8)((char)r->most), base = VB(set1_epi8)((char)rest);
    for (int64_t i = 0; i < r->n; i += BYTES) {
        int64_t n = r->n - i;
        vi d = VB(sub_epi8)(most, load_keys(r->x + i, n, r->flip));
        vi y = VB(add_epi8)(look_up_blocks(table, blocks, d), base);
        memcpy(r->y + i, &y, n < BYTES ? (size_t)n : BYTES);
    }
}
#else
VINLINE void look_up(const one_row *r, uint8_t *table, int blocks, uint8_t rest)
{
    memset(table + blocks * BLOCK, 0, (size_t)(256 - blocks * BLOCK));
    for (int64_t i = 0; i < r->n; i++)
        r->y[i] = (uint8_t)(table[(uint8_t)(r->most - (r->x[i] ^ r->flip))] + rest);
}
#endif

VINLINE void do_row(const cm_qsoftmax *q, one_row *r, bool is_signed)
{
    r->most = largest_key(r->x, r->n, r->flip);
    uint8_t most = r->most ^ r->flip;
    float real = q->scale * ((float)(is_signed ? (int8_t)most : most) - q->zero);
    if (!isfinite(real)) { /* the row is NaN, and that is the least */
        memset(r->y, is_signed ? 0x80 : 0, (size_t)r->n);
        return;
    }
    result to = {vf_set(1.0f / sum_of(r)), vf_set(q->y_scale), vf_set(q->y_zero)};
    if (r->n < LONG) {
        short_row(r, &to, is_signed);
        return;
    }
    uint8_t table[256], rest;
    int blocks = make_table(q->power, &to, is_signed, table, &rest);
    look_up(r, table, blocks, rest);
}

VINLINE void do_rows(const cm_qsoftmax *q, int64_t begin, int64_t end, bool is_signed)
{
    one_row r = {.n = q->n,
                 .flip = (is_signed ? 0x80 : 0) ^ (q->scale < 0 ? 0xff : 0),
                 .powers = load_powers(q)};
    for (int64_t i = begin; i < end; i++) {
        r.x = q->x + i * q->n;
        r.y = q->y + i * q->n;
        do_row(q, &r, is_signed);
    }
}

void CM_LEVEL(cm_cpu_qsoftmax_rows)(const cm_qsoftmax *q, int64_t begin, int64_t end)
{
    if (q->is_signed)
        do_rows(q, begin, end, true);
    else
        do_rows(q, begin, end, false);
}

void CM_LEVEL(cm_cpu_qsoftmax_powers)(cm_qsoftmax *q)
{
    const vf by = vf_set(-fabsf(q->scale));
    float d[256];
    for (int i = 0; i < 256; i++)
        d[i] = (float)i;
    for (int i = 0; i < 256; i += VW)
        vf_store(q->power + i, vf_exp_below(vf_mul(vf_load(d + i), by)));
    for (int i = 0; i < 16; i++)
        q->by_16[i] = q->power[16 * i];
    for (int i = 0; i < 8; i++) {
        q->by_8[i] = q->power[8 * i];
        q->by_64[i] = q->power[64 * (i % 4)];
    }
}

#endif
