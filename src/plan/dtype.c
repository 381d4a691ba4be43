/* dtype.c -- element types: the table, sub-byte packing, and runs of elements to and from wide types.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/dtype.h"

#include <string.h>

#include "base/size.h"
#include "base/str.h"

static const cm_dtype_info infos[CM_DTYPE_COUNT] = {[CM_NO_DTYPE] = {"?", "?", 0, CM_KIND_NONE},
#define X(id, number, name, onnx, bits, kind) [CM_##id] = {name, onnx, bits, CM_KIND_##kind},
                                                    CM_DTYPES(X)
#undef X
};

bool cm_dtype_valid(int dtype)
{
    return dtype > CM_NO_DTYPE && dtype < CM_DTYPE_COUNT;
}

const cm_dtype_info *cm_dtype_get(cm_dtype dtype)
{
    return &infos[cm_dtype_valid((int)dtype) ? dtype : CM_NO_DTYPE];
}

const char *cm_dtype_name(cm_dtype dtype)
{
    return cm_dtype_get(dtype)->name;
}

bool cm_dtype_parse(const char *name, cm_dtype *out)
{
    for (int i = 1; i < CM_DTYPE_COUNT; i++) {
        if (strcmp(name, infos[i].name) == 0 || strcmp(name, infos[i].onnx_name) == 0) {
            *out = (cm_dtype)i;
            return true;
        }
    }
    return false;
}

bool cm_dtype_is_float(cm_dtype t)
{
    return cm_dtype_get(t)->kind == CM_KIND_FLOAT;
}

bool cm_dtype_is_integer(cm_dtype t)
{
    cm_dtype_kind k = cm_dtype_get(t)->kind;
    return k == CM_KIND_INT || k == CM_KIND_UINT;
}

bool cm_dtype_is_signed(cm_dtype t)
{
    cm_dtype_kind k = cm_dtype_get(t)->kind;
    return k == CM_KIND_INT || k == CM_KIND_FLOAT;
}

_Static_assert(sizeof(cm_str) * 8 == 128, "the table says how large a string element is");

size_t cm_dtype_size(cm_dtype t)
{
    return ((size_t)cm_dtype_get(t)->bits + 7) / 8;
}

bool cm_dtype_bytes(cm_dtype t, int64_t n, size_t *out)
{
    size_t bits = (size_t)cm_dtype_get(t)->bits;
    if (n < 0)
        return false;
    if (bits % 8 == 0)
        return cm_mul((size_t)n, bits / 8, out);
    size_t whole, rest = ((size_t)n % 8 * bits + 7) / 8;
    return cm_mul((size_t)n / 8, bits, &whole) && cm_add(whole, rest, out);
}

/* The low `bits` of v as a two's complement number. */
static inline int8_t sign_extend(unsigned v, unsigned bits)
{
    unsigned sign = 1u << (bits - 1);
    v &= (sign << 1) - 1;
    return (int8_t)((int)(v ^ sign) - (int)sign);
}

void cm_unpack_sub_byte(cm_dtype t, const void *packed, int64_t n, void *unpacked)
{
    const uint8_t *p = packed;
    uint8_t *q = unpacked;
    unsigned bits = (unsigned)cm_dtype_get(t)->bits, mask = (1u << bits) - 1;
    bool is_signed = cm_dtype_get(t)->kind == CM_KIND_INT;
    unsigned held = 0, n_held = 0; /* bits read and not yet given out */
    for (int64_t i = 0; i < n; i++) {
        if (n_held < bits) {
            held |= (unsigned)*p++ << n_held;
            n_held += 8;
        }
        q[i] = is_signed ? (uint8_t)sign_extend(held, bits) : (uint8_t)(held & mask);
        held >>= bits;
        n_held -= bits;
    }
}

void cm_pack_sub_byte(cm_dtype t, const void *unpacked, int64_t n, void *packed)
{
    const uint8_t *p = unpacked;
    uint8_t *q = packed;
    unsigned bits = (unsigned)cm_dtype_get(t)->bits, mask = (1u << bits) - 1;
    unsigned held = 0, n_held = 0;
    for (int64_t i = 0; i < n; i++) {
        held |= (p[i] & mask) << n_held;
        n_held += bits;
        if (n_held >= 8) {
            *q++ = (uint8_t)held;
            held >>= 8;
            n_held -= 8;
        }
    }
    if (n_held)
        *q = (uint8_t)held;
}

/* Truncated toward zero, modulo 2^64. NaN and infinities give 2^63, so that narrower types see 0. */
static inline uint64_t f64_to_u64(double x)
{
    if (x > -9223372036854775808.0 && x < 9223372036854775808.0)
        return (uint64_t)(int64_t)x;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    unsigned exponent = bits >> 52 & 0x7ff;
    if (exponent == 0x7ff)
        return (uint64_t)1 << 63;
    /* |x| >= 2^63: the significand times 2^(exponent - 1075), and the exponent is at least 11 */
    unsigned shift = exponent - 1075;
    uint64_t m = (bits & 0xfffffffffffff) | (uint64_t)1 << 52;
    m = shift < 64 ? m << shift : 0;
    return bits >> 63 ? 0 - m : m;
}

/* To a double that rounds to any type of up to 42 bits of significand as v itself would: bits that
 * a double has no room for leave a sticky bit. */
static inline double i64_to_f64_sticky(int64_t v)
{
    uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (m >> 53)
        m = (m & ~(uint64_t)0x7ff) | (m & 0x7ff ? 0x800 : 0);
    double d = (double)m;
    return v < 0 ? -d : d;
}

/* Codes of 8 bits and fewer: over many elements, from a table of what each code means. */
static void load_codes(cm_dtype t, const uint8_t *src, int64_t n, double *dst)
{
    enum { CODES = 256 };
    double table[CODES];
    bool is_small = cm_dtype_is_sub_byte(t);
    if (n < CODES) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = is_small ? cm_small_float_to_f32(t, src[i]) : cm_f8_to_f32(t, src[i]);
        return;
    }
    for (int i = 0; i < CODES; i++)
        table[i] = is_small ? cm_small_float_to_f32(t, (uint8_t)i) : cm_f8_to_f32(t, (uint8_t)i);
    for (int64_t i = 0; i < n; i++)
        dst[i] = table[src[i]];
}

/* One loop a type: `expr` is in terms of v, the element read. */
#define EACH(from, to, expr)                                                                       \
    do {                                                                                           \
        const from *s_ = (const from *)src;                                                        \
        to *d_ = (to *)dst;                                                                        \
        for (int64_t i_ = 0; i_ < n; i_++) {                                                       \
            from v = s_[i_];                                                                       \
            d_[i_] = (to)(expr);                                                                   \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

#define F8_CASES                                                                                   \
    case CM_F8E4M3FN:                                                                              \
    case CM_F8E4M3FNUZ:                                                                            \
    case CM_F8E5M2:                                                                                \
    case CM_F8E5M2FNUZ:                                                                            \
    case CM_F8E8M0
#define SMALL_FLOAT_CASES                                                                          \
    case CM_F4E2M1:                                                                                \
    case CM_F6E2M3:                                                                                \
    case CM_F6E3M2

/* Each of the four is a table, a type a line. */
/* clang-format off */

void cm_load_f64(cm_dtype t, const void *src, int64_t n, double *dst)
{
    switch (t) {
    case CM_F64: EACH(double, double, v);
    case CM_F32: EACH(float, double, v);
    case CM_F16: EACH(uint16_t, double, cm_f16_to_f32(v));
    case CM_BF16: EACH(uint16_t, double, cm_bf16_to_f32(v));
    case CM_I64: EACH(int64_t, double, v);
    case CM_U64: EACH(uint64_t, double, v);
    case CM_I32: EACH(int32_t, double, v);
    case CM_U32: EACH(uint32_t, double, v);
    case CM_I16: EACH(int16_t, double, v);
    case CM_U16: EACH(uint16_t, double, v);
    case CM_I8: case CM_I4: case CM_I2: EACH(int8_t, double, v);
    case CM_U8: case CM_U4: case CM_U2: EACH(uint8_t, double, v);
    case CM_BOOL: EACH(uint8_t, double, v != 0);
    F8_CASES: SMALL_FLOAT_CASES: load_codes(t, src, n, dst); return;
    default: memset(dst, 0, (size_t)n * sizeof *dst);
    }
}

void cm_store_f64(cm_dtype t, const double *src, int64_t n, void *dst)
{
    switch (t) {
    case CM_F64: EACH(double, double, v);
    case CM_F32: EACH(double, float, v);
    case CM_F16: EACH(double, uint16_t, cm_f64_to_f16(v));
    case CM_BF16: EACH(double, uint16_t, cm_f64_to_bf16(v));
    case CM_I64: case CM_U64: EACH(double, uint64_t, f64_to_u64(v));
    case CM_I32: case CM_U32: EACH(double, uint32_t, f64_to_u64(v));
    case CM_I16: case CM_U16: EACH(double, uint16_t, f64_to_u64(v));
    case CM_I8: case CM_U8: EACH(double, uint8_t, f64_to_u64(v));
    case CM_I4: EACH(double, int8_t, sign_extend((unsigned)f64_to_u64(v), 4));
    case CM_I2: EACH(double, int8_t, sign_extend((unsigned)f64_to_u64(v), 2));
    case CM_U4: EACH(double, uint8_t, f64_to_u64(v) & 15);
    case CM_U2: EACH(double, uint8_t, f64_to_u64(v) & 3);
    case CM_BOOL: EACH(double, uint8_t, v != 0);
    F8_CASES: EACH(double, uint8_t, cm_f64_to_f8(t, v, false));
    SMALL_FLOAT_CASES: EACH(double, uint8_t, cm_f64_to_small_float(t, v));
    default: return;
    }
}

void cm_load_i64(cm_dtype t, const void *src, int64_t n, int64_t *dst)
{
    switch (t) {
    case CM_I64: case CM_U64: EACH(int64_t, int64_t, v);
    case CM_I32: EACH(int32_t, int64_t, v);
    case CM_U32: EACH(uint32_t, int64_t, v);
    case CM_I16: EACH(int16_t, int64_t, v);
    case CM_U16: EACH(uint16_t, int64_t, v);
    case CM_I8: case CM_I4: case CM_I2: EACH(int8_t, int64_t, v);
    case CM_U8: case CM_U4: case CM_U2: EACH(uint8_t, int64_t, v);
    case CM_BOOL: EACH(uint8_t, int64_t, v != 0);
    case CM_F64: EACH(double, int64_t, f64_to_u64(v));
    case CM_F32: EACH(float, int64_t, f64_to_u64((double)v));
    case CM_F16: EACH(uint16_t, int64_t, f64_to_u64((double)cm_f16_to_f32(v)));
    case CM_BF16: EACH(uint16_t, int64_t, f64_to_u64((double)cm_bf16_to_f32(v)));
    F8_CASES: EACH(uint8_t, int64_t, f64_to_u64((double)cm_f8_to_f32(t, v)));
    SMALL_FLOAT_CASES: EACH(uint8_t, int64_t, f64_to_u64((double)cm_small_float_to_f32(t, v)));
    default: memset(dst, 0, (size_t)n * sizeof *dst);
    }
}

void cm_store_i64(cm_dtype t, const int64_t *src, int64_t n, void *dst)
{
    switch (t) {
    case CM_I64: case CM_U64: EACH(int64_t, uint64_t, v);
    case CM_I32: case CM_U32: EACH(int64_t, uint32_t, v);
    case CM_I16: case CM_U16: EACH(int64_t, uint16_t, v);
    case CM_I8: case CM_U8: EACH(int64_t, uint8_t, v);
    case CM_I4: EACH(int64_t, int8_t, sign_extend((unsigned)v, 4));
    case CM_I2: EACH(int64_t, int8_t, sign_extend((unsigned)v, 2));
    case CM_U4: EACH(int64_t, uint8_t, v & 15);
    case CM_U2: EACH(int64_t, uint8_t, v & 3);
    case CM_BOOL: EACH(int64_t, uint8_t, v != 0);
    case CM_F64: EACH(int64_t, double, v);
    case CM_F32: EACH(int64_t, float, v);
    case CM_F16: EACH(int64_t, uint16_t, cm_f64_to_f16(i64_to_f64_sticky(v)));
    case CM_BF16: EACH(int64_t, uint16_t, cm_f64_to_bf16(i64_to_f64_sticky(v)));
    F8_CASES: EACH(int64_t, uint8_t, cm_f64_to_f8(t, i64_to_f64_sticky(v), false));
    SMALL_FLOAT_CASES: EACH(int64_t, uint8_t, cm_f64_to_small_float(t, (double)v));
    default: return;
    }
}

/* clang-format on */

static const void *element(cm_dtype t, const void *data, int64_t index)
{
    return (const unsigned char *)data + (size_t)index * cm_dtype_size(t);
}

double cm_get_f64(cm_dtype t, const void *data, int64_t index)
{
    double v;
    cm_load_f64(t, element(t, data, index), 1, &v);
    return v;
}

int64_t cm_get_i64(cm_dtype t, const void *data, int64_t index)
{
    int64_t v;
    cm_load_i64(t, element(t, data, index), 1, &v);
    return v;
}

void cm_set_f64(cm_dtype t, void *data, int64_t index, double v)
{
    cm_store_f64(t, &v, 1, (void *)element(t, data, index));
}

void cm_set_i64(cm_dtype t, void *data, int64_t index, int64_t v)
{
    cm_store_i64(t, &v, 1, (void *)element(t, data, index));
}
