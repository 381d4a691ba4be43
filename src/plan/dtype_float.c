/* dtype_float.c -- the narrow floating-point formats, one value at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A code is a sign bit, then an exponent field, then a fraction. With the sign taken off, codes are
 * ordered as their values are, so rounding a magnitude is integer arithmetic on the code:
 *
 *     code = rne(|x| / 2^(e - fraction bits)) + ((e - e_min) << fraction bits)
 *
 * where e is the exponent of x, at least e_min, that of the smallest normal number. A carry out of the
 * fraction lands in the exponent by itself, and e = e_min gives denormals. */
#include <math.h>
#include <string.h>

#include "plan/dtype.h"

typedef struct format {
    int bits;           /* of the whole code */
    int fraction;       /* bits of the fraction */
    int e_min;          /* exponent of the smallest normal number */
    unsigned max;       /* code of the largest finite number */
    unsigned inf;       /* code that overflow gives: infinity, or NaN where there is none */
    unsigned nan;       /* code of NaN; where `unsigned_zero`, with no sign added */
    bool unsigned_zero; /* the FNUZ formats: no negative zero, its code is the one NaN */
} format;

static const format f16_format = {16, 10, -14, 0x7bff, 0x7c00, 0x7e00, false};
static const format bf16_format = {16, 7, -126, 0x7f7f, 0x7f80, 0x7fc0, false};

static format f8_format(cm_dtype t)
{
    static const format all[] = {
        {8, 3, -6, 0x7e, 0x7f, 0x7f, false},  /* F8E4M3FN */
        {8, 3, -7, 0x7f, 0x80, 0x80, true},   /* F8E4M3FNUZ */
        {8, 2, -14, 0x7b, 0x7c, 0x7e, false}, /* F8E5M2 */
        {8, 2, -15, 0x7f, 0x80, 0x80, true},  /* F8E5M2FNUZ */
    };
    return all[t - CM_F8E4M3FN];
}

static format small_format(cm_dtype t)
{
    static const format e2m1 = {4, 1, 0, 0x7, 0x7, 0, false};
    static const format e2m3 = {6, 3, 0, 0x1f, 0x1f, 0, false};
    static const format e3m2 = {6, 2, -2, 0x1f, 0x1f, 0, false};
    return t == CM_F4E2M1 ? e2m1 : t == CM_F6E2M3 ? e2m3 : e3m2;
}

static inline uint64_t bits_of(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline float float_of(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* |x| as a code, unbounded above; x is finite. */
static inline uint64_t round_magnitude(const format *f, double x)
{
    uint64_t b = bits_of(x) & INT64_MAX;
    int e = (int)(b >> 52) - 1023;
    if (e < f->e_min - f->fraction - 1) /* under half of the smallest denormal */
        return 0;
    uint64_t m = (b & 0xfffffffffffff) | (uint64_t)1 << 52;
    int scale = e > f->e_min ? e : f->e_min;
    unsigned shift = (unsigned)(52 - f->fraction + (scale - e));
    uint64_t half = (uint64_t)1 << (shift - 1), rest = m & ((half << 1) - 1);
    uint64_t q = m >> shift;
    q += rest > half || (rest == half && (q & 1));
    return q + ((uint64_t)(scale - f->e_min) << f->fraction);
}

static inline unsigned encode(const format *f, double x, bool saturate)
{
    unsigned sign = (unsigned)(bits_of(x) >> 63) << (f->bits - 1);
    if (isnan(x))
        return f->unsigned_zero ? f->nan : f->nan | sign;
    uint64_t code = isinf(x) ? UINT64_MAX : round_magnitude(f, x);
    if (code > f->max) {
        code = saturate ? f->max : f->inf;
        if (!saturate && f->unsigned_zero)
            return f->nan;
    }
    if (f->unsigned_zero && code == 0)
        return 0;
    return (unsigned)code | sign;
}

/* The value of a code that is neither NaN nor infinite. */
static inline float decode(const format *f, unsigned code)
{
    unsigned magnitude = code & ((1u << (f->bits - 1)) - 1);
    unsigned field = magnitude >> f->fraction, fraction = magnitude & ((1u << f->fraction) - 1);
    int e = f->e_min - f->fraction; /* of the last bit of the fraction */
    if (field) {
        fraction |= 1u << f->fraction;
        e += (int)field - 1;
    }
    float x = (float)fraction * float_of((uint32_t)(e + 127) << 23);
    return code >> (f->bits - 1) ? -x : x;
}

uint16_t cm_f64_to_f16(double x)
{
    return (uint16_t)encode(&f16_format, x, false);
}

uint16_t cm_f64_to_bf16(double x)
{
    return (uint16_t)encode(&bf16_format, x, false);
}

static inline uint32_t float_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* As cm_f64_to_f16, without its way over double. Beside a half, which has no smaller bits than 2^-24, the sum rounds denormals. */
static inline uint16_t f16_of(float x)
{
    const uint32_t overflow = 0x47800000, normal = 0x38800000, inf = 0x7f800000,
                   rebias = 112u << 23;
    uint32_t b = float_bits(x), sign = b >> 16 & 0x8000, m = b & INT32_MAX;
    if (m >= overflow)
        m = m > inf ? f16_format.nan : f16_format.inf;
    else if (m < normal)
        m = float_bits(float_of(m) + 0.5f) - float_bits(0.5f);
    else
        m = (m - rebias + 0xfff + (m >> 13 & 1)) >> 13;
    return (uint16_t)(m | sign);
}

static inline uint16_t bf16_of(float x)
{
    uint32_t b = float_bits(x), m = b & INT32_MAX;
    if (m > 0x7f800000)
        return (uint16_t)(bf16_format.nan | (b >> 16 & 0x8000));
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

void cm_f32_to_half(cm_dtype half, const float *src, int64_t n, uint16_t *dst)
{
    if (half == CM_F16)
        for (int64_t i = 0; i < n; i++)
            dst[i] = f16_of(src[i]);
    else
        for (int64_t i = 0; i < n; i++)
            dst[i] = bf16_of(src[i]);
}

/* F8E8M0 is a power of two, 2^(code - 127); it has no zero and no sign. */
static uint8_t encode_exponent(double x, bool saturate)
{
    enum { E8M0_MAX = 0xfe, E8M0_NAN = 0xff };
    if (isnan(x))
        return E8M0_NAN;
    x = fabs(x);
    if (x > 0x1p127)
        return saturate ? E8M0_MAX : E8M0_NAN;
    if (x < 0x1p-127)
        return saturate ? 0 : E8M0_NAN;
    uint64_t b = bits_of(x);
    int up = (b & 0xfffffffffffff) != 0;
    return (uint8_t)((int)(b >> 52) - 1023 + 127 + up);
}

static float decode_exponent(uint8_t code)
{
    if (code == 0xff)
        return float_of(0x7fc00000);
    return code ? float_of((uint32_t)code << 23) : 0x1p-127f;
}

float cm_f8_to_f32(cm_dtype t, uint8_t code)
{
    if (t == CM_F8E8M0)
        return decode_exponent(code);
    format f = f8_format(t);
    if (f.unsigned_zero) {
        if (code == f.nan)
            return float_of(0x7fc00000);
    } else if ((code & 0x7f) > f.max) {
        uint32_t sign = (uint32_t)(code & 0x80) << 24;
        bool infinite = f.inf != f.nan && (code & 0x7f) == f.inf;
        return float_of(sign | (infinite ? 0x7f800000 : 0x7fc00000));
    }
    return decode(&f, code);
}

uint8_t cm_f64_to_f8(cm_dtype t, double x, bool saturate)
{
    if (t == CM_F8E8M0)
        return encode_exponent(x, saturate);
    format f = f8_format(t);
    return (uint8_t)encode(&f, x, saturate);
}

float cm_small_float_to_f32(cm_dtype t, uint8_t code)
{
    format f = small_format(t);
    return decode(&f, code & ((1u << f.bits) - 1));
}

uint8_t cm_f64_to_small_float(cm_dtype t, double x)
{
    format f = small_format(t);
    if (isnan(x)) /* there is no NaN: a zero of the other sign, as ONNX's reference has it */
        x = signbit(x) ? 0.0 : -0.0;
    return (uint8_t)encode(&f, x, true);
}
