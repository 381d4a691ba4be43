/* dtype.h -- element types: names, sizes, and conversion to and from double and int64.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_DTYPE_H
#define CM_PLAN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(id, number, name, onnx name, bits, kind). The numbers are those of ONNX's TensorProto.DataType
 * and stand in plan files: never renumber. */
#define CM_DTYPES(X)                                                                               \
    X(F32, 1, "f32", "float", 32, FLOAT)                                                           \
    X(U8, 2, "u8", "uint8", 8, UINT)                                                               \
    X(I8, 3, "i8", "int8", 8, INT)                                                                 \
    X(U16, 4, "u16", "uint16", 16, UINT)                                                           \
    X(I16, 5, "i16", "int16", 16, INT)                                                             \
    X(I32, 6, "i32", "int32", 32, INT)                                                             \
    X(I64, 7, "i64", "int64", 64, INT)                                                             \
    X(STR, 8, "str", "string", 128, STRING)                                                        \
    X(BOOL, 9, "bool", "bool", 8, BOOLEAN)                                                         \
    X(F16, 10, "f16", "float16", 16, FLOAT)                                                        \
    X(F64, 11, "f64", "double", 64, FLOAT)                                                         \
    X(U32, 12, "u32", "uint32", 32, UINT)                                                          \
    X(U64, 13, "u64", "uint64", 64, UINT)                                                          \
    X(C64, 14, "c64", "complex64", 64, COMPLEX)                                                    \
    X(C128, 15, "c128", "complex128", 128, COMPLEX)                                                \
    X(BF16, 16, "bf16", "bfloat16", 16, FLOAT)                                                     \
    X(F8E4M3FN, 17, "f8e4m3fn", "float8e4m3fn", 8, FLOAT)                                          \
    X(F8E4M3FNUZ, 18, "f8e4m3fnuz", "float8e4m3fnuz", 8, FLOAT)                                    \
    X(F8E5M2, 19, "f8e5m2", "float8e5m2", 8, FLOAT)                                                \
    X(F8E5M2FNUZ, 20, "f8e5m2fnuz", "float8e5m2fnuz", 8, FLOAT)                                    \
    X(U4, 21, "u4", "uint4", 4, UINT)                                                              \
    X(I4, 22, "i4", "int4", 4, INT)                                                                \
    X(F4E2M1, 23, "f4e2m1", "float4e2m1", 4, FLOAT)                                                \
    X(F8E8M0, 24, "f8e8m0", "float8e8m0", 8, FLOAT)                                                \
    X(U2, 25, "u2", "uint2", 2, UINT)                                                              \
    X(I2, 26, "i2", "int2", 2, INT)                                                                \
    X(F6E2M3, 27, "f6e2m3", "float6e2m3", 6, FLOAT)                                                \
    X(F6E3M2, 28, "f6e3m2", "float6e3m2", 6, FLOAT)

typedef enum {
    CM_NO_DTYPE = 0,
#define X(id, number, name, onnx, bits, kind) CM_##id = number,
    CM_DTYPES(X)
#undef X
        CM_DTYPE_COUNT = 29
} cm_dtype;

typedef enum {
    CM_KIND_NONE,
    CM_KIND_FLOAT,
    CM_KIND_INT,
    CM_KIND_UINT,
    CM_KIND_BOOLEAN,
    CM_KIND_STRING,
    CM_KIND_COMPLEX
} cm_dtype_kind;

typedef struct cm_dtype_info {
    const char *name;      /* "f32": in the text form, messages and the command */
    const char *onnx_name; /* "float" */
    int bits;              /* of one element, packed; strings: sizeof(cm_str) * 8 in memory */
    cm_dtype_kind kind;
} cm_dtype_info;

bool cm_dtype_valid(int dtype);
const cm_dtype_info *cm_dtype_get(cm_dtype dtype); /* of CM_NO_DTYPE: "?" */
const char *cm_dtype_name(cm_dtype dtype);
bool cm_dtype_parse(const char *name, cm_dtype *out); /* ours or ONNX's name */

static inline bool cm_dtype_is_sub_byte(cm_dtype t)
{
    return (t >= CM_U4 && t <= CM_F4E2M1) || (t >= CM_U2 && t <= CM_F6E3M2);
}
bool cm_dtype_is_float(cm_dtype t);   /* FLOAT kind, every width */
bool cm_dtype_is_integer(cm_dtype t); /* INT or UINT kind; not bool */
bool cm_dtype_is_signed(cm_dtype t);  /* INT or FLOAT kind */

/* Bytes of one element as evaluators see it: sub-byte types are unpacked, one byte an element
 * (sign-extended for I4 and I2; the code for 4- and 6-bit floats). STR is sizeof(cm_str). */
size_t cm_dtype_size(cm_dtype t);
/* Bytes of `n` elements packed, as files, plans and callers hold them: 3 of I4 take 2 bytes.
 * False on overflow. */
bool cm_dtype_bytes(cm_dtype t, int64_t n, size_t *out);
/* Between packed storage (a stream of bits, low bits first; 6-bit types: 4 in 3 bytes) and one byte
 * an element. `t` is a sub-byte type. */
void cm_unpack_sub_byte(cm_dtype t, const void *packed, int64_t n, void *unpacked);
void cm_pack_sub_byte(cm_dtype t, const void *unpacked, int64_t n, void *packed);

/* Runs of elements, unpacked, to and from wide types. Any numeric type or bool; not STR, not
 * complex. To double: exact but for 64-bit integers over 2^53. From double: floats round to
 * nearest even, overflow to infinity where the type has one, else NaN (F8E4M3FN) -- saturation is
 * Cast's and Quantize's business; integers truncate toward zero and wrap modulo 2^bits (NaN and
 * infinities give 0 for types under 64 bits); bool is x != 0. */
void cm_load_f64(cm_dtype t, const void *src, int64_t n, double *dst);
void cm_store_f64(cm_dtype t, const double *src, int64_t n, void *dst);
/* To int64: integers and bool exactly (U64 wraps); floats truncate. From int64: wraps. */
void cm_load_i64(cm_dtype t, const void *src, int64_t n, int64_t *dst);
void cm_store_i64(cm_dtype t, const int64_t *src, int64_t n, void *dst);
double cm_get_f64(cm_dtype t, const void *data, int64_t index);
int64_t cm_get_i64(cm_dtype t, const void *data, int64_t index);
void cm_set_f64(cm_dtype t, void *data, int64_t index, double v);
void cm_set_i64(cm_dtype t, void *data, int64_t index, int64_t v);

/* One value. Bits in, bits out; rounding to nearest even. */
static inline float cm_bf16_to_f32(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float cm_f16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float x;
    if (bits < 0x7c00 << 13) {
        /* the exponent field is too small by 112, in denormals too: scale by 2^112 */
        memcpy(&x, &bits, sizeof x);
        x *= 0x1p112f;
    } else { /* infinity, NaN */
        bits |= 0x7f800000;
        memcpy(&x, &bits, sizeof x);
    }
    return h & 0x8000 ? -x : x;
}
uint16_t cm_f64_to_f16(double x);
uint16_t cm_f64_to_bf16(double x);
/* Many at once, as the two above round; half: CM_F16 or CM_BF16. */
void cm_f32_to_half(cm_dtype half, const float *src, int64_t n, uint16_t *dst);
float cm_f8_to_f32(cm_dtype t, uint8_t code);
/* `saturate`: overflow gives the largest finite value of that sign, as ONNX's Cast does by default;
 * else infinity or NaN as the type has it. F8E8M0 rounds up (towards the larger power), as ONNX's
 * round_mode "up"; cast.c has the other modes. */
uint8_t cm_f64_to_f8(cm_dtype t, double x, bool saturate);
/* F4E2M1, F6E2M3, F6E3M2: no infinity, no NaN; from double always saturates. */
float cm_small_float_to_f32(cm_dtype t, uint8_t code);
uint8_t cm_f64_to_small_float(cm_dtype t, double x);

#endif
