/* pointwise_typed.h -- instructions in the elements' own type, at any level: loops over whole blocks, which the
 * compiler turns into vectors without a rest.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What depends on the width alone is written for unsigned numbers. Conversions of floats to whole numbers
 * are those of the machine: what does not fit is the most negative number. */
#include "cpu/pointwise_typed.h"

#include <math.h>

#include "cpu/simd/vec.h"

/* What is written is not read: GCC's word for it. */
#ifdef __clang__
#define APART
#else
#define APART _Pragma("GCC ivdep")
#endif

#define BLOCKS(TY, TA, TB, value)                                                                  \
    do {                                                                                           \
        TY *y = r->to;                                                                             \
        const TA *a = r->a;                                                                        \
        const TB *b = r->b, *c = r->c;                                                             \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        const uint64_t n = (uint64_t)r->blocks * CM_TYPED_BLOCK;                                   \
        APART for (uint64_t i = 0; i < n; i++) y[i] = (TY)(value);                                 \
    } while (0)
#define A a[i]
#define B b[i]
#define C c[i]

#define EACH(TY, TA, value) BLOCKS(TY, TA, TA, value)
/* One loop for each width, the result of the same width or a truth value. */
#define WIDTHS(TO8, TO16, TO32, TO64, TA8, TA16, TA32, TA64, value)                                \
    switch ((int)type & 3) {                                                                       \
    case 0:                                                                                        \
        BLOCKS(TO8, TA8, uint8_t, value);                                                          \
        return;                                                                                    \
    case 1:                                                                                        \
        BLOCKS(TO16, TA16, uint16_t, value);                                                       \
        return;                                                                                    \
    case 2:                                                                                        \
        BLOCKS(TO32, TA32, uint32_t, value);                                                       \
        return;                                                                                    \
    default:                                                                                       \
        BLOCKS(TO64, TA64, uint64_t, value);                                                       \
        return;                                                                                    \
    }
#define BITS(value)                                                                                \
    WIDTHS(uint8_t, uint16_t, uint32_t, uint64_t, uint8_t, uint16_t, uint32_t, uint64_t, value)
#define TRUTH(value)                                                                               \
    WIDTHS(uint8_t, uint8_t, uint8_t, uint8_t, uint8_t, uint16_t, uint32_t, uint64_t, value)
#define CHOICE(value)                                                                              \
    WIDTHS(uint8_t, uint16_t, uint32_t, uint64_t, uint8_t, uint8_t, uint8_t, uint8_t, value)

/* What is the same for signed and unsigned numbers. 1u: products of 16 bits do not fit an int. */
static void apply_bits(cm_pointwise op, cm_typed type, const cm_typed_run *r)
{
    switch (op) {
    case CM_PW_ADD:
        BITS(A + B)
    case CM_PW_SUB:
        BITS(A - B)
    case CM_PW_MUL:
        BITS(1u * A * B)
    case CM_PW_NEG:
        BITS(0u - A)
    case CM_PW_BIT_NOT:
        BITS(~A)
    case CM_PW_BIT_AND:
        BITS(A & B)
    case CM_PW_BIT_OR:
        BITS(A | B)
    case CM_PW_BIT_XOR:
        BITS(A ^ B)
    case CM_PW_SHIFT_LEFT:
        BITS(B < 8 * sizeof A ? (1u * A) << (B & (8 * sizeof A - 1)) : 0u)
    case CM_PW_EQ:
        TRUTH(A == B)
    default: /* SELECT */
        CHOICE(A ? B : C)
    }
}

static void apply_bool(cm_pointwise op, const cm_typed_run *r)
{
    switch (op) {
    case CM_PW_AND:
        EACH(uint8_t, uint8_t, (A != 0) & (B != 0));
        return;
    case CM_PW_OR:
        EACH(uint8_t, uint8_t, (A | B) != 0);
        return;
    case CM_PW_XOR:
        EACH(uint8_t, uint8_t, (A != 0) ^ (B != 0));
        return;
    default: /* NOT */
        EACH(uint8_t, uint8_t, A == 0);
        return;
    }
}

#define SIGNED(bits, value)                                                                        \
    EACH(int##bits##_t, int##bits##_t, value);                                                     \
    return
#define COMPARED(bits, value)                                                                      \
    EACH(uint8_t, int##bits##_t, value);                                                           \
    return
#define SIGNED_CASES(LOOP, value)                                                                  \
    case CM_TYPED_I8:                                                                              \
        LOOP(8, value);                                                                            \
    case CM_TYPED_I16:                                                                             \
        LOOP(16, value);                                                                           \
    case CM_TYPED_I32:                                                                             \
        LOOP(32, value);                                                                           \
    case CM_TYPED_I64:                                                                             \
        LOOP(64, value);
/* One loop for each type of whole numbers; for signed ones alone; for truth values. */
#define WHOLE(value)                                                                               \
    switch (type) {                                                                                \
        SIGNED_CASES(SIGNED, value)                                                                \
    default:                                                                                       \
        BITS(value)                                                                                \
    }
#define SIGNED_ALONE(value)                                                                        \
    switch (type) {                                                                                \
        SIGNED_CASES(SIGNED, value)                                                                \
    default:                                                                                       \
        return;                                                                                    \
    }
#define ORDER(value)                                                                               \
    switch (type) {                                                                                \
        SIGNED_CASES(COMPARED, value)                                                              \
    default:                                                                                       \
        TRUTH(value)                                                                               \
    }

/* Said so that no compiler finds it odd of unsigned numbers. */
#define BELOW_0(x) ((x) < 1 && (x) != 0)

/* |x| of signed numbers, which wraps. */
static void apply_abs(cm_typed type, const cm_typed_run *r)
{
    switch (type) {
    case CM_TYPED_I8:
        SIGNED(8, A < 0 ? -A : A);
    case CM_TYPED_I16:
        SIGNED(16, A < 0 ? -A : A);
    case CM_TYPED_I32:
        SIGNED(32, A < 0 ? 0u - (uint32_t)A : (uint32_t)A);
    default:
        SIGNED(64, A < 0 ? 0u - (uint64_t)A : (uint64_t)A);
    }
}

/* What compares, or keeps a sign. */
static void apply_whole(cm_pointwise op, cm_typed type, const cm_typed_run *r)
{
    switch (op) {
    case CM_PW_SIGN: /* of signed numbers alone */
        SIGNED_ALONE((A > 0) - (A < 0))
    case CM_PW_MIN:
        WHOLE(A < B ? A : B)
    case CM_PW_MAX:
        WHOLE(A > B ? A : B)
    case CM_PW_SHIFT_RIGHT: /* by too much: what is left is the sign */
        WHOLE((uint64_t)B < 8 * sizeof A ? A >> (B & (int)(8 * sizeof A - 1)) : BELOW_0(A) ? -1 : 0)
    case CM_PW_LT:
        ORDER(A < B)
    default: /* LE */
        ORDER(A <= B)
    }
}

#define REAL(value)                                                                                \
    EACH(double, double, value);                                                                   \
    return
/* By name: as sqrt, which may set errno, it would be a call for each element. */
static void apply_sqrt(const cm_typed_run *r)
{
    double *y = r->to;
    const double *a = r->a;
    for (int64_t i = 0; i < r->blocks * CM_TYPED_BLOCK; i += VW / 2) {
#if VW == 16
        _mm512_storeu_pd(y + i, _mm512_sqrt_pd(_mm512_loadu_pd(a + i)));
#elif VW == 8
        _mm256_storeu_pd(y + i, _mm256_sqrt_pd(_mm256_loadu_pd(a + i)));
#else
        _mm_storeu_pd(y + i, _mm_sqrt_pd(_mm_loadu_pd(a + i)));
#endif
    }
}

static void apply_real(cm_pointwise op, const cm_typed_run *r)
{
    switch (op) {
    case CM_PW_ADD:
        REAL(A + B);
    case CM_PW_SUB:
        REAL(A - B);
    case CM_PW_MUL:
        REAL(A * B);
    case CM_PW_DIV:
        REAL(A / B);
    case CM_PW_NEG:
        REAL(-A);
    case CM_PW_ABS:
        REAL(fabs(A));
    case CM_PW_SQRT:
        apply_sqrt(r);
        return;
    case CM_PW_RELU:
        REAL(A != A || A > 0 ? A : 0);
    case CM_PW_MIN:
        REAL(B != B ? B : A != A || A < B ? A : B);
    case CM_PW_MAX:
        REAL(B != B ? B : A != A || A > B ? A : B);
    case CM_PW_EQ:
        EACH(uint8_t, double, A == B);
        return;
    case CM_PW_LT:
        EACH(uint8_t, double, A < B);
        return;
    default: /* LE */
        EACH(uint8_t, double, A <= B);
        return;
    }
}

static void apply(cm_pointwise op, cm_typed type, const cm_typed_run *r)
{
    if (type == CM_TYPED_BOOL) {
        apply_bool(op, r);
    } else if (op == CM_PW_SELECT) {
        apply_bits(op,
                   type == CM_TYPED_F32   ? CM_TYPED_U32
                   : type == CM_TYPED_F64 ? CM_TYPED_U64
                                          : type,
                   r);
    } else if (type == CM_TYPED_F64) {
        apply_real(op, r);
    } else {
        switch (op) {
        case CM_PW_ABS:
            apply_abs(type, r);
            return;
        case CM_PW_SIGN:
        case CM_PW_MIN:
        case CM_PW_MAX:
        case CM_PW_SHIFT_RIGHT:
        case CM_PW_LT:
        case CM_PW_LE:
            apply_whole(op, type, r);
            return;
        default:
            apply_bits(op, type, r);
        }
    }
}

/* Whole numbers cut to a narrower type, or extended by what their type says. Between 8 or 16 bits and 64 they go by way
 * of 32. */
static void convert_whole(cm_typed from, cm_typed to, const cm_typed_run *r)
{
    int narrow = (int)to & 3;
    switch (from) {
    case CM_TYPED_I8:
        if (narrow == 1)
            EACH(int16_t, int8_t, A);
        else
            EACH(int32_t, int8_t, A);
        return;
    case CM_TYPED_U8:
        if (narrow == 1)
            EACH(int16_t, uint8_t, A);
        else
            EACH(int32_t, uint8_t, A);
        return;
    case CM_TYPED_I16:
    case CM_TYPED_U16:
        if (narrow == 0)
            EACH(uint8_t, uint16_t, A);
        else if (from == CM_TYPED_I16)
            EACH(int32_t, int16_t, A);
        else
            EACH(int32_t, uint16_t, A);
        return;
    case CM_TYPED_I32:
    case CM_TYPED_U32:
        if (narrow == 0)
            EACH(uint8_t, uint32_t, A);
        else if (narrow == 1)
            EACH(uint16_t, uint32_t, A);
        else if (from == CM_TYPED_I32)
            EACH(int64_t, int32_t, A);
        else
            EACH(int64_t, uint32_t, A);
        return;
    default:
        EACH(uint32_t, uint64_t, A);
    }
}

static void convert_to_bool(cm_typed type, const cm_typed_run *r)
{
    if (type == CM_TYPED_F32) {
        EACH(uint8_t, float, A != 0);
    } else if (type == CM_TYPED_F64) {
        EACH(uint8_t, double, A != 0);
    } else {
        TRUTH(A != 0)
    }
}

/* From 32 and 64 bits. */
#define FLOATS(TY)                                                                                 \
    switch (from) {                                                                                \
    case CM_TYPED_I32:                                                                             \
        EACH(TY, int32_t, A);                                                                      \
        return;                                                                                    \
    case CM_TYPED_U32:                                                                             \
        EACH(TY, uint32_t, A);                                                                     \
        return;                                                                                    \
    case CM_TYPED_I64:                                                                             \
        EACH(TY, int64_t, A);                                                                      \
        return;                                                                                    \
    case CM_TYPED_U64:                                                                             \
        EACH(TY, uint64_t, A);                                                                     \
        return;                                                                                    \
    case CM_TYPED_F32:                                                                             \
        EACH(TY, float, A);                                                                        \
        return;                                                                                    \
    default:                                                                                       \
        EACH(TY, double, A);                                                                       \
        return;                                                                                    \
    }

static void convert_to_float(cm_typed from, cm_typed to, const cm_typed_run *r)
{
    if (to == CM_TYPED_F32) {
        FLOATS(float)
    } else {
        FLOATS(double)
    }
}

#define WHOLES(TA)                                                                                 \
    if (to == CM_TYPED_I32)                                                                        \
        EACH(int32_t, TA, A);                                                                      \
    else                                                                                           \
        EACH(int64_t, TA, A)

/* What is out of range becomes what x86-64's instructions make of it, as the reference has it; C leaves it open. */
__attribute__((no_sanitize("float-cast-overflow"))) static void
convert_float(cm_typed from, cm_typed to, const cm_typed_run *r)
{
    if (from == CM_TYPED_F32)
        WHOLES(float);
    else
        WHOLES(double);
}

static void convert(cm_typed from, cm_typed to, const cm_typed_run *r)
{
    if (to == CM_TYPED_BOOL)
        convert_to_bool(from, r);
    else if (to >= CM_TYPED_F32)
        convert_to_float(from, to, r);
    else if (from >= CM_TYPED_F32)
        convert_float(from, to, r);
    else
        convert_whole(from, to, r);
}

/* |n| of an exponent as a double has it: beyond 2^53 it is even. */
static uint64_t magnitude(int64_t n)
{
    uint64_t k = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    return k >> 53 ? k & ~UINT64_C(1) : k;
}

/* x^n for n of either sign, 0^0 and NaN^0 among them; what x^-n leaves of the range, its inverse leaves too. */
static float power_of(float x, int64_t n)
{
    double square = (double)x, p = 1;
    for (uint64_t k = magnitude(n); k; k >>= 1, square *= square)
        if (k & 1)
            p *= square;
    return (float)(n < 0 ? 1 / p : p);
}

/* The same for a block of bases and one exponent. */
static void power_of_block(float *y, const float *x, int64_t n)
{
    double square[CM_TYPED_BLOCK], p[CM_TYPED_BLOCK];
    for (int i = 0; n == 2 && i < CM_TYPED_BLOCK; i++)
        y[i] = x[i] * x[i];
    if (n == 2)
        return;
    for (int i = 0; i < CM_TYPED_BLOCK; i++) {
        square[i] = (double)x[i];
        p[i] = magnitude(n) & 1 ? square[i] : 1;
    }
    for (uint64_t k = magnitude(n) >> 1; k; k >>= 1) {
        for (int i = 0; i < CM_TYPED_BLOCK; i++)
            square[i] *= square[i];
        for (int i = 0; k & 1 && i < CM_TYPED_BLOCK; i++)
            p[i] *= square[i];
    }
    for (int i = 0; i < CM_TYPED_BLOCK; i++)
        y[i] = (float)(n < 0 ? 1 / p[i] : p[i]);
}

static void power(const cm_typed_run *r)
{
    float *y = r->to;
    const float *x = r->a;
    const int64_t *n = r->b;
    for (int64_t k = 0; k < r->blocks; k++) {
        uint64_t differ = 0;
        for (int i = 0; i < CM_TYPED_BLOCK; i++)
            differ |= (uint64_t)(n[i] ^ n[0]);
        if (!differ)
            power_of_block(y, x, *n);
        for (int i = 0; differ && i < CM_TYPED_BLOCK; i++)
            y[i] = power_of(x[i], n[i]);
        y += CM_TYPED_BLOCK;
        x += CM_TYPED_BLOCK;
        n += CM_TYPED_BLOCK;
    }
}

#define FOLD(T, start, value)                                                                      \
    do {                                                                                           \
        const T *a = x;                                                                            \
        T all = start;                                                                             \
        for (uint64_t i = 0, n = (uint64_t)blocks * CM_TYPED_BLOCK; i < n; i++)                    \
            all = value;                                                                           \
        return (int64_t)all;                                                                       \
    } while (0)
#define EXTREME(value)                                                                             \
    switch (type) {                                                                                \
    case CM_TYPED_I8:                                                                              \
        FOLD(int8_t, *a, value);                                                                   \
    case CM_TYPED_U8:                                                                              \
        FOLD(uint8_t, *a, value);                                                                  \
    case CM_TYPED_I32:                                                                             \
        FOLD(int32_t, *a, value);                                                                  \
    case CM_TYPED_U32:                                                                             \
        FOLD(uint32_t, *a, value);                                                                 \
    case CM_TYPED_I64:                                                                             \
        FOLD(int64_t, *a, value);                                                                  \
    default:                                                                                       \
        FOLD(uint64_t, *a, value);                                                                 \
    }

static int64_t fold(cm_pointwise op, cm_typed type, const void *x, int64_t blocks)
{
    if (op == CM_PW_MAX) {
        EXTREME(A > all ? A : all)
    } else if (op == CM_PW_MIN) {
        EXTREME(A < all ? A : all)
    } else if (((int)type & 3) == 2) {
        FOLD(uint32_t, 0, all + A);
    } else {
        FOLD(uint64_t, 0, all + A);
    }
}

static void fold_whole(cm_typed type, const void *x, int64_t blocks, int64_t *sum)
{
    const int64_t n = blocks * CM_TYPED_BLOCK;
    const int32_t *narrow = x;
    const uint32_t *natural = x;
    const int64_t *wide = x;
    int64_t high = 0, low = 0;
    if (type == CM_TYPED_I32) {
        for (int64_t i = 0; i < n; i++)
            high += narrow[i];
    } else if (type == CM_TYPED_U32) {
        for (int64_t i = 0; i < n; i++)
            high += natural[i];
    } else {
        for (int64_t i = 0; i < n; i++) {
            high += wide[i] >> 32;
            low += wide[i] & UINT32_MAX;
        }
        sum[1] += low;
    }
    sum[0] += high;
}

const cm_typed_kernels CM_LEVEL(cm_cpu_typed) = {apply, convert, power, fold, fold_whole};
