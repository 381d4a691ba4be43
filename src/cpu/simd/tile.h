/* tile.h -- the functions of tiles (cpu/tile.h) at one ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/tile.h"

#include "cpu/simd/convert.h"
#include "cpu/simd/math.h"
#include "cpu/simd/math_wide.h"

/* A function of tiles; `from_a` and the like load vectors, `value` computes from x, y and z. */
#define BODY(name, get_x, get_y, get_z, value)                                                     \
    static void name(float *to, const float *a, const float *b, const float *c, int64_t n)         \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        if (n <= 0)                                                                                \
            return;                                                                                \
        const vf sa = get_x##_ONCE(a), sb = get_y##_ONCE(b), sc = get_z##_ONCE(c);                 \
        (void)sa, (void)sb, (void)sc;                                                              \
        int64_t i = 0;                                                                             \
        for (; i + VW <= n; i += VW) {                                                             \
            vf x = get_x(a, sa), y = get_y(b, sb), z = get_z(c, sc);                               \
            (void)y, (void)z;                                                                      \
            vf_store(to + i, value);                                                               \
        }                                                                                          \
        if (i < n) {                                                                               \
            int rest = (int)(n - i);                                                               \
            vf x = get_x##_REST(a, sa), y = get_y##_REST(b, sb), z = get_z##_REST(c, sc);          \
            (void)y, (void)z;                                                                      \
            vf_store_n(to + i, value, rest);                                                       \
        }                                                                                          \
    }
/* The same of functions that several vectors are given to at once, of x and perhaps y. */
#define SEVERAL(name, get_y, value, f)                                                             \
    static void name(float *to, const float *a, const float *b, const float *c, int64_t n)         \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        if (n <= 0)                                                                                \
            return;                                                                                \
        const vf sb = get_y##_ONCE(b);                                                             \
        (void)sb;                                                                                  \
        int64_t at = 0;                                                                            \
        for (; at + VF_EACH * VW <= n; at += VF_EACH * VW) {                                       \
            vf v[VF_EACH];                                                                         \
            UNROLL                                                                                 \
            for (int64_t k = 0, i = at; k < VF_EACH; k++, i += VW) {                               \
                vf x = vf_load(a + i), y = get_y(b, sb);                                           \
                (void)y;                                                                           \
                v[k] = value;                                                                      \
            }                                                                                      \
            f(v, VF_EACH);                                                                         \
            UNROLL                                                                                 \
            for (int k = 0; k < VF_EACH; k++)                                                      \
                vf_store(to + at + k * VW, v[k]);                                                  \
        }                                                                                          \
        for (int64_t i = at; i < n; i += VW) {                                                     \
            int rest = n - i < VW ? (int)(n - i) : VW;                                             \
            vf x = vf_load_n(a + i, rest), y = get_y##_REST(b, sb);                                \
            (void)y;                                                                               \
            vf v = value;                                                                          \
            f(&v, 1);                                                                              \
            vf_store_n(to + i, v, rest);                                                           \
        }                                                                                          \
    }
/* What is loaded before the loop. Arguments that a function does not have point nowhere. */
#define EACH_ONCE(p)    vf_zero()
#define ONE_ONCE(p)     vf_set(*p)
#define NONE_ONCE(p)    vf_zero()
#define EACH(p, s)      vf_load(p + i)
#define EACH_REST(p, s) vf_load_n(p + i, rest)
#define ONE(p, s)       s
#define ONE_REST(p, s)  s
#define NONE(p, s)      vf_zero()
#define NONE_REST(p, s) vf_zero()

#define UNARY(op, value) BODY(op##_each, EACH, NONE, NONE, value)
/* Of a number too, and of a sum. */
#define SUMMED(op, f)                                                                              \
    UNARY(op, f(x))                                                                                \
    BODY(SUM_##op##_each, EACH, EACH, NONE, f(vf_add(x, y)))                                       \
    BODY(SUM_##op##_right, EACH, ONE, NONE, f(vf_add(x, y)))
#define SUMMED_EACH(op, f)                                                                         \
    SEVERAL(op##_each, NONE, x, f)                                                                 \
    SEVERAL(SUM_##op##_each, EACH, vf_add(x, y), f)                                                \
    SEVERAL(SUM_##op##_right, ONE, vf_add(x, y), f)
#define BINARY(op, value)                                                                          \
    BODY(op##_each, EACH, EACH, NONE, value)                                                       \
    BODY(op##_right, EACH, ONE, NONE, value)                                                       \
    BODY(op##_left, ONE, EACH, NONE, value)
#define TERNARY(op, value)                                                                         \
    BODY(op##_each, EACH, EACH, EACH, value)                                                       \
    BODY(op##_right, EACH, ONE, ONE, value)

/* 1 where the mask is set, else 0. */
VINLINE vf truth(vm m)
{
    return vf_select(m, vf_set(1), vf_zero());
}
#define IS(x) vf_ne(x, vf_zero())
VINLINE vf vf_elu(vf x, vf a)
{
    vf below = vf_mul(a, vf_expm1_below(vf_min(vf_zero(), x)));
    return vf_select(vf_lt(x, vf_zero()), below, x);
}

VINLINE vf vf_relu(vf x)
{
    return vf_max(vf_zero(), x);
}

SUMMED(NEG, vf_neg)
SUMMED(ABS, vf_abs)
UNARY(SIGN, vf_sign(x))
UNARY(FLOOR, vf_floor(x))
UNARY(CEIL, vf_ceil(x))
UNARY(ROUND, vf_round(x))
SUMMED(SQRT, vf_sqrt)
UNARY(RSQRT, vf_div(vf_set(1), vf_sqrt(x)))
UNARY(RECIP, vf_div(vf_set(1), x))
SUMMED(EXP, vf_exp)
UNARY(LOG, vf_log(x))
UNARY(SIN, vf_sin(x))
UNARY(COS, vf_cos(x))
SUMMED_EACH(TANH, vf_tanh_each)
SUMMED_EACH(SIGMOID, vf_sigmoid_each)
SUMMED(ERF, vf_erf)
SUMMED(RELU, vf_relu)
SUMMED(GELU, vf_gelu)
SUMMED(GELU_TANH, vf_gelu_tanh)
SUMMED_EACH(SILU, vf_silu_each)
UNARY(MISH, vf_mish(x))
SUMMED(SOFTPLUS, vf_softplus)
UNARY(SOFTSIGN, vf_softsign(x))
SUMMED(HARDSWISH, vf_hardswish)
UNARY(NOT, truth(vf_eq(x, vf_zero())))
UNARY(IS_NAN, truth(vf_ne(x, x)))
UNARY(SQUARE, vf_mul(x, x))
UNARY(CUBE, vf_mul(vf_mul(x, x), x))
BODY(SPLAT_each, ONE, NONE, NONE, x)

BINARY(ADD, vf_add(x, y))
BINARY(SUB, vf_sub(x, y))
BINARY(MUL, vf_mul(x, y))
BINARY(DIV, vf_div(x, y))
BODY(POW_each, EACH, EACH, NONE, vf_pow(x, y))
BINARY(MIN, vf_min_nan(x, y))
BINARY(MAX, vf_max_nan(x, y))
BINARY(LEAKY, vf_select(vf_lt(x, vf_zero()), vf_mul(x, y), x))
BINARY(ELU, vf_elu(x, y))
BINARY(EQ, truth(vf_eq(x, y)))
BINARY(LT, truth(vf_lt(x, y)))
BINARY(LE, truth(vf_le(x, y)))
BINARY(GT, truth(vf_lt(y, x)))
BINARY(GE, truth(vf_le(y, x)))
BINARY(AND, vf_select(IS(x), truth(IS(y)), vf_zero()))
BINARY(OR, vf_select(IS(x), vf_set(1), truth(IS(y))))
BINARY(XOR, vf_select(IS(x), truth(vf_eq(y, vf_zero())), truth(IS(y))))

/* Powers are long: with a number, it is spread over a tile of its own. The few that products give need no logarithm; a
 * cube's two roundings are within 1 ulp, and its square leaves the range only where the cube does. */
enum { POWERS = 64 };
static void POW_right(float *to, const float *a, const float *b, const float *c, int64_t n)
{
    float same[POWERS];
    if (*b == 2 || *b == 3 || *b == -1) {
        (*b == 2 ? SQUARE_each : *b == 3 ? CUBE_each : RECIP_each)(to, a, c, c, n);
        return;
    }
    SPLAT_each(same, b, c, c, n < POWERS ? n : POWERS);
    for (int64_t i = 0; i < n; i += POWERS)
        POW_each(to + i, a + i, same, c, n - i < POWERS ? n - i : POWERS);
}
static void POW_left(float *to, const float *a, const float *b, const float *c, int64_t n)
{
    float same[POWERS];
    SPLAT_each(same, a, c, c, n < POWERS ? n : POWERS);
    for (int64_t i = 0; i < n; i += POWERS)
        POW_each(to + i, same, b + i, c, n - i < POWERS ? n - i : POWERS);
}

BODY(CLIP_each, EACH, EACH, EACH, vf_min_nan(vf_max_nan(x, y), z))
BODY(CLIP_right, EACH, ONE, ONE, vf_clip(x, y, z)) /* of bounds that are numbers */
TERNARY(HARDSIGMOID, vf_clip(vf_fma(x, y, z), vf_zero(), vf_set(1)))
TERNARY(SELECT, vf_select(IS(x), y, z))
TERNARY(MUL_ADD, vf_fma(x, y, z))

#define ROW1(id)                                                                                   \
    {                                                                                              \
        id##_each, NULL, NULL                                                                      \
    }
#define ROW2(id)                                                                                   \
    {                                                                                              \
        id##_each, id##_right, id##_left                                                           \
    }
#define ROW3(id)                                                                                   \
    {                                                                                              \
        id##_each, id##_right, NULL                                                                \
    }
#define ROW_OF(arity, id) ROW##arity(id)
#define SUM_ROW(id)       [CM_TILE_SUM + CM_PW_##id] = {SUM_##id##_each, SUM_##id##_right, NULL}

const cm_tile_kernels CM_LEVEL(cm_cpu_tile) = {
    .op =
        {
#define X(id, name, arity) [CM_PW_##id] = ROW_OF(arity, id),
            CM_POINTWISE(X)
#undef X
                [CM_TILE_SPLAT] = ROW1(SPLAT),
            [CM_TILE_SQUARE] = ROW1(SQUARE),
            [CM_TILE_MUL_ADD] = ROW3(MUL_ADD),
            SUM_ROW(NEG),
            SUM_ROW(ABS),
            SUM_ROW(SQRT),
            SUM_ROW(EXP),
            SUM_ROW(TANH),
            SUM_ROW(SIGMOID),
            SUM_ROW(ERF),
            SUM_ROW(RELU),
            SUM_ROW(GELU),
            SUM_ROW(GELU_TANH),
            SUM_ROW(SILU),
            SUM_ROW(SOFTPLUS),
            SUM_ROW(HARDSWISH),
        },
    .load = {[CM_F32] = load_f32,
             [CM_F16] = load_f16,
             [CM_BF16] = load_bf16,
             [CM_BOOL] = load_bool,
             [CM_U8] = load_u8,
             [CM_I8] = load_i8,
             [CM_U16] = load_u16,
             [CM_I16] = load_i16},
    .store = {[CM_F32] = store_f32,
              [CM_F16] = store_f16,
              [CM_BF16] = store_bf16,
              [CM_BOOL] = store_bool},
};
