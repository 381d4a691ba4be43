/* ptx_bits.h -- numbers in registers: bits of floats, roundings, what single instructions of PTX calculate.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float as_f32(uint32_t b)
{
    float v;
    memcpy(&v, &b, 4);
    return v;
}
static inline double as_f64(uint64_t b)
{
    double v;
    memcpy(&v, &b, 8);
    return v;
}
static inline uint32_t of_f32(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return b;
}
static inline uint64_t of_f64(double v)
{
    uint64_t b;
    memcpy(&b, &v, 8);
    return b;
}

static inline float as_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31)
        return as_f32(sign | 0x7f800000 | m << 13);
    float v = e ? ldexpf((float)(m + 1024), (int)e - 25) : ldexpf((float)m, -24);
    return sign ? -v : v;
}
static inline uint16_t of_half(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    if (isnan(v))
        return 0x7fff;
    if (a >= 65520)
        return sign | 0x7c00;
    int e;
    frexp(a, &e); /* a < 2^e */
    e = e < -13 ? -13 : e;
    double steps = rint(ldexp(a, 11 - e)); /* of the last place */
    return steps == 0 ? sign : (uint16_t)(sign + (uint16_t)((e + 13) << 10) + (uint16_t)steps);
}
static inline float as_bf16(uint16_t h)
{
    return as_f32((uint32_t)h << 16);
}
static inline uint16_t of_bf16(float v)
{
    uint32_t b = of_f32(v);
    return isnan(v) ? 0x7fff : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static inline uint32_t of_tf32(float v)
{
    uint32_t b = of_f32(v);
    return isnan(v) || isinf(v) ? b : (b + 0x1000) & 0xffffe000;
}
/* As the matrix units read it: what is beyond ten bits is not looked at. */
static inline float as_tf32(uint32_t b)
{
    return as_f32(b & 0xffffe000);
}

static const int modes[] = {FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define ROUNDED(name, expression)                                                                  \
    __attribute__((noinline)) static float rounded_##name                                          \
    {                                                                                              \
        volatile float x = a, y = b, r;                                                            \
        fesetround(modes[mode]);                                                                   \
        r = expression;                                                                            \
        fesetround(FE_TONEAREST);                                                                  \
        return r;                                                                                  \
    }
ROUNDED(add(int mode, float a, float b), x + y)
ROUNDED(sub(int mode, float a, float b), x - y)
ROUNDED(mul(int mode, float a, float b), x *y)
ROUNDED(fma(int mode, float a, float b, float c), fmaf(x, y, c))

/* Toward zero. */
static inline float cut_f32(long double v)
{
    float f = (float)v;
    return fabsl((long double)f) > fabsl(v) ? nextafterf(f, 0) : f;
}

static inline double saturated(double v)
{
    return v > 0 ? v < 1 ? v : 1 : 0;
}
#define mmin(a, b)     fmin(a, b)
#define mmax(a, b)     fmax(a, b)
#define mmin_nan(a, b) (isnan(a) || isnan(b) ? NAN : fmin(a, b))
#define mmax_nan(a, b) (isnan(a) || isnan(b) ? NAN : fmax(a, b))

static inline uint64_t to_integer(double v, int bits, int is_signed)
{
    double most = ldexp(1, bits - is_signed), least = is_signed ? -most : 0;
    if (isnan(v))
        return bits == 64 ? UINT64_C(1) << 63 : 0;
    if (v >= most)
        return bits == 64 && !is_signed ? UINT64_MAX : (UINT64_C(1) << (bits - is_signed)) - 1;
    if (v < least)
        v = least;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}
static inline int64_t clamped(__int128 v, int bits, int is_signed)
{
    __int128 most = ((__int128)1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    return (int64_t)(v > most ? most : v < least ? least : v);
}
static inline uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}
static inline int leading_zeros(uint64_t v, int bits)
{
    return v ? __builtin_clzll(v) - (64 - bits) : bits;
}
static inline uint32_t funnel_l(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) << (n & 31) >> 32);
}
static inline uint32_t funnel_r(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (n & 31));
}
static inline uint32_t funnel_l_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n >= 32 ? low : funnel_l(low, high, n);
}
static inline uint32_t funnel_r_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n >= 32 ? high : funnel_r(low, high, n);
}
static inline uint64_t inserted(uint64_t a, uint64_t b, uint32_t at, uint32_t n, int bits)
{
    uint64_t mask = (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << (at & 63);
    return at >= (uint32_t)bits ? b : (b & ~mask) | (a << at & mask);
}
static inline uint64_t field_u64(uint64_t v, uint32_t at, uint32_t n)
{
    return at > 63 || n == 0 ? 0 : v >> at & (n > 63 ? UINT64_MAX : (UINT64_C(1) << n) - 1);
}
#define field_u32(v, at, n) field_u64((uint32_t)(v), at, n)
static inline int64_t field_s64(int64_t v, uint32_t at, uint32_t n)
{
    if (n == 0)
        return 0;
    int top = at + n > 64 ? 0 : 64 - (int)(at + n);
    return (int64_t)((uint64_t)v << top) >> (n > 64 ? 0 : 64 - n);
}
#define field_s32(v, at, n) field_s64((int32_t)(v), at, n)
static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = how >> (4 * i) & 15, byte = (uint32_t)(both >> (8 * (s & 7))) & 255;
        r |= (s & 8 ? byte & 128 ? 255u : 0 : byte) << (8 * i);
    }
    return r;
}
static inline uint32_t of_table(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return r;
}
#define DOT4(name, A, B)                                                                           \
    static inline uint32_t dot4_##name(uint32_t a, uint32_t b, uint32_t c)                         \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            c += (uint32_t)((int)(A)(a >> (8 * i)) * (int)(B)(b >> (8 * i)));                      \
        return c;                                                                                  \
    }
DOT4(ss, int8_t, int8_t)
DOT4(su, int8_t, uint8_t)
DOT4(us, uint8_t, int8_t)
DOT4(uu, uint8_t, uint8_t)
