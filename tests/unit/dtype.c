/* dtype.c -- element types and their conversions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "plan/dtype.h"

static void the_table_agrees_with_itself(void **state)
{
    (void)state;
    for (int i = 1; i < CM_DTYPE_COUNT; i++) {
        cm_dtype t = CM_NO_DTYPE;
        assert_true(cm_dtype_valid(i));
        assert_true(cm_dtype_parse(cm_dtype_name((cm_dtype)i), &t) && t == (cm_dtype)i);
        assert_true(cm_dtype_parse(cm_dtype_get((cm_dtype)i)->onnx_name, &t) && t == (cm_dtype)i);
        assert_int_equal(cm_dtype_is_sub_byte(t), cm_dtype_get(t)->bits < 8);
        assert_true(cm_dtype_size(t) >= 1);
    }
    cm_dtype t;
    assert_false(cm_dtype_parse("f128", &t));
    assert_false(cm_dtype_valid(0) || cm_dtype_valid(-1) || cm_dtype_valid(CM_DTYPE_COUNT));
    assert_string_equal(cm_dtype_name((cm_dtype)99), "?");
    assert_true(cm_dtype_is_signed(CM_I4) && cm_dtype_is_signed(CM_F16));
    assert_false(cm_dtype_is_signed(CM_U4) || cm_dtype_is_signed(CM_BOOL));
    assert_false(cm_dtype_is_integer(CM_BOOL));
}

static void packed_sizes_round_up_and_do_not_overflow(void **state)
{
    (void)state;
    size_t n;
    assert_true(cm_dtype_bytes(CM_I4, 3, &n) && n == 2);
    assert_true(cm_dtype_bytes(CM_U2, 5, &n) && n == 2);
    assert_true(cm_dtype_bytes(CM_F6E2M3, 4, &n) && n == 3);
    assert_true(cm_dtype_bytes(CM_F6E2M3, 5, &n) && n == 4);
    assert_true(cm_dtype_bytes(CM_STR, 2, &n) && n == 32);
    assert_true(cm_dtype_bytes(CM_U4, INT64_MAX, &n) && n == (size_t)1 << 62);
    assert_false(cm_dtype_bytes(CM_F64, INT64_MAX, &n));
    assert_false(cm_dtype_bytes(CM_F64, -1, &n));
}

static void packing_is_undone_by_unpacking(void **state)
{
    (void)state;
    static const cm_dtype types[] = {CM_U4, CM_I4, CM_F4E2M1, CM_U2, CM_I2, CM_F6E2M3, CM_F6E3M2};
    for (int i = 0; i < CM_COUNT(types); i++) {
        int bits = cm_dtype_get(types[i])->bits, codes = 1 << bits;
        for (int n = 0; n < 2 * codes + 3; n++) {
            uint8_t in[256], packed[256], out[256];
            size_t bytes;
            for (int k = 0; k < n; k++) {
                int code = k % codes;
                bool negative = cm_dtype_get(types[i])->kind == CM_KIND_INT && code >= codes / 2;
                in[k] = (uint8_t)(negative ? code - codes : code);
            }
            assert_true(cm_dtype_bytes(types[i], n, &bytes));
            memset(packed, 0xaa, sizeof packed);
            cm_pack_sub_byte(types[i], in, n, packed);
            assert_int_equal(packed[bytes], 0xaa); /* nothing beyond the end */
            cm_unpack_sub_byte(types[i], packed, n, out);
            assert_memory_equal(in, out, (size_t)n);
        }
    }
    uint8_t packed[3];
    cm_pack_sub_byte(CM_I4, "\x01\xff\x07", 3, packed); /* low half first */
    assert_memory_equal(packed, "\xf1\x07", 2);
    cm_pack_sub_byte(CM_F6E2M3, "\x01\x02\x03\x3f", 4, packed); /* a stream of bits */
    assert_memory_equal(packed, "\x81\x30\xfc", 3);
}

/* What a format's code means, by the definition: bits, exponent bias, fraction bits. */
static double value_of(unsigned code, int bits, int fraction, int bias)
{
    unsigned magnitude = code & ((1u << (bits - 1)) - 1), field = magnitude >> fraction;
    double m = magnitude & ((1u << fraction) - 1);
    m = field ? ldexp(m + (1 << fraction), (int)field - bias - fraction)
              : ldexp(m, 1 - bias - fraction);
    return code >> (bits - 1) ? -m : m;
}

typedef struct {
    cm_dtype type;
    int bits, fraction, bias;
    unsigned max, inf, nan; /* codes without sign; inf 0: none; nan 0: none */
    bool fnuz;
} format;

static const format formats[] = {
    {CM_F16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00, false},
    {CM_BF16, 16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false},
    {CM_F8E4M3FN, 8, 3, 7, 0x7e, 0, 0x7f, false},
    {CM_F8E4M3FNUZ, 8, 3, 8, 0x7f, 0, 0x80, true},
    {CM_F8E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7e, false},
    {CM_F8E5M2FNUZ, 8, 2, 16, 0x7f, 0, 0x80, true},
    {CM_F4E2M1, 4, 1, 1, 0x7, 0, 0, false},
    {CM_F6E2M3, 6, 3, 1, 0x1f, 0, 0, false},
    {CM_F6E3M2, 6, 2, 3, 0x1f, 0, 0, false},
};

static unsigned store(cm_dtype t, double x)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    if (cm_dtype_size(t) == 2)
        cm_store_f64(t, &x, 1, &wide);
    else
        cm_store_f64(t, &x, 1, &narrow);
    return wide | narrow;
}

static double load(cm_dtype t, unsigned code)
{
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    double x;
    cm_load_f64(t, cm_dtype_size(t) == 2 ? (void *)&wide : (void *)&narrow, 1, &x);
    return x;
}

static void every_finite_code_means_what_its_format_says(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(formats); i++) {
        const format *f = &formats[i];
        unsigned sign = 1u << (f->bits - 1);
        for (unsigned code = 0; code < 2 * sign; code++) {
            double x = load(f->type, code);
            unsigned magnitude = code & (sign - 1);
            if (f->fnuz ? code == sign : magnitude > f->max) {
                assert_true(f->inf && magnitude == f->inf ? isinf(x) : isnan(x));
                continue;
            }
            double want = value_of(code, f->bits, f->fraction, f->bias);
            assert_true(x == want && signbit(x) == signbit(want));
            assert_int_equal(store(f->type, x), code);
        }
    }
}

/* Between neighbours: nearer one, and the even code from the middle. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(formats); i++) {
        const format *f = &formats[i];
        unsigned sign = 1u << (f->bits - 1);
        for (unsigned code = 0; code < f->max; code++) {
            double a = load(f->type, code), b = load(f->type, code + 1), mid = (a + b) / 2;
            unsigned even = code + (code & 1);
            assert_int_equal(store(f->type, mid), even);
            assert_int_equal(store(f->type, nextafter(mid, 0)), code);
            assert_int_equal(store(f->type, nextafter(mid, INFINITY)), code + 1);
            unsigned zero = f->fnuz ? 0 : sign;
            assert_int_equal(store(f->type, -mid), even ? even | sign : zero);
        }
    }
}

static void overflow_and_specials_follow_the_format(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(formats); i++) {
        const format *f = &formats[i];
        unsigned sign = 1u << (f->bits - 1), over = f->inf ? f->inf : f->nan ? f->nan : f->max;
        unsigned negative_over = f->fnuz ? over : over | sign;
        double max = load(f->type, f->max);
        /* the next number up, had the format one more exponent */
        double next = value_of(f->max + 1, f->bits + 1, f->fraction, f->bias);
        double mid = (max + next) / 2;
        assert_int_equal(store(f->type, nextafter(mid, 0)), f->max);
        assert_int_equal(store(f->type, nextafter(mid, INFINITY)), over);
        assert_int_equal(store(f->type, mid), f->max & 1 ? over : f->max);
        assert_int_equal(store(f->type, INFINITY), over);
        assert_int_equal(store(f->type, -INFINITY), negative_over);
        assert_int_equal(store(f->type, -DBL_MAX), negative_over);
        assert_int_equal(store(f->type, DBL_MIN / 4), 0);
        if (f->nan)
            assert_int_equal(store(f->type, NAN), f->nan);
        if (f->bits == 8) {
            assert_int_equal(cm_f64_to_f8(f->type, INFINITY, true), f->max);
            assert_int_equal(cm_f64_to_f8(f->type, -1e30, true), f->max | sign);
            assert_int_equal(cm_f64_to_f8(f->type, NAN, true), f->nan);
        }
    }
}

static void e8m0_holds_powers_of_two(void **state)
{
    (void)state;
    for (int code = 0; code < 255; code++) {
        double x = cm_f8_to_f32(CM_F8E8M0, (uint8_t)code);
        assert_true(x == ldexp(1, code - 127));
        assert_int_equal(cm_f64_to_f8(CM_F8E8M0, x, true), code);
        int up = code < 254 ? code + 1 : 254;
        assert_int_equal(cm_f64_to_f8(CM_F8E8M0, x * 1.0001, true), up);
    }
    assert_true(isnan(cm_f8_to_f32(CM_F8E8M0, 0xff)));
    /* the two columns of ONNX's table of special values */
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, 0, true), 0);
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, 0, false), 0xff);
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, 1e-60, true), 0);
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, INFINITY, true), 0xfe);
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, 1e60, false), 0xff);
    assert_int_equal(cm_f64_to_f8(CM_F8E8M0, NAN, true), 0xff);
}

static void doubles_are_truncated_and_wrapped_to_integers(void **state)
{
    (void)state;
    static const struct {
        cm_dtype type;
        double x;
        int64_t want; /* as cm_get_i64 gives it */
    } cases[] = {
        {CM_I8, -1.9, -1},
        {CM_I8, 200, -56},
        {CM_U8, -1, 255},
        {CM_U8, 256.5, 0},
        {CM_I16, 40000, -25536},
        {CM_U16, 65537, 1},
        {CM_I32, 3e9, -1294967296},
        {CM_U32, 4294967297.0, 1},
        {CM_I32, NAN, 0},
        {CM_I32, INFINITY, 0},
        {CM_U8, -INFINITY, 0},
        {CM_I4, 9, -7},
        {CM_U4, -1, 15},
        {CM_I2, 2, -2},
        {CM_U2, 5, 1},
        {CM_I64, 1e300, 0},
        {CM_I64, 0x1p63, INT64_MIN},
        {CM_U64, 0x1.8p63, -0x1p62},
        {CM_I64, -0x1.8p63, 0x1p62},
        {CM_BOOL, 0.25, 1},
        {CM_BOOL, -0.0, 0},
        {CM_BOOL, NAN, 1},
    };
    for (int i = 0; i < CM_COUNT(cases); i++) {
        uint64_t space = 0;
        cm_set_f64(cases[i].type, &space, 0, cases[i].x);
        assert_int_equal(cm_get_i64(cases[i].type, &space, 0), cases[i].want);
    }
}

static void integers_reach_floats_with_one_rounding(void **state)
{
    (void)state;
    uint16_t b;
    /* a double would round this to 2^60 + 2^52, the middle between bf16 neighbours, and that to 2^60 */
    int64_t v = ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1;
    cm_store_i64(CM_BF16, &v, 1, &b);
    assert_int_equal(b, 0x5d81);
    v = -v + 1; /* the very middle: to even */
    cm_store_i64(CM_BF16, &v, 1, &b);
    assert_int_equal(b, 0xdd80);
    v = INT64_MIN;
    cm_store_i64(CM_BF16, &v, 1, &b);
    assert_int_equal(b, 0xdf00);
    v = 65520; /* over the last half step of f16 */
    cm_store_i64(CM_F16, &v, 1, &b);
    assert_int_equal(b, 0x7c00);
    float x;
    v = INT64_MAX;
    cm_store_i64(CM_F32, &v, 1, &x);
    assert_true(x == 0x1p63f);
}

static void every_numeric_type_keeps_small_integers(void **state)
{
    (void)state;
    for (int i = 1; i < CM_DTYPE_COUNT; i++) {
        cm_dtype t = (cm_dtype)i;
        cm_dtype_kind kind = cm_dtype_get(t)->kind;
        if (kind == CM_KIND_STRING || kind == CM_KIND_COMPLEX)
            continue;
        int64_t space[3] = {0}, in[3] = {1, kind == CM_KIND_BOOLEAN ? 0 : 2, 1}, out[3];
        double as_double[3];
        if (t == CM_I2)
            in[1] = -2;
        cm_store_i64(t, in, 3, space);
        cm_load_i64(t, space, 3, out);
        cm_load_f64(t, space, 3, as_double);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(out[k], in[k]);
            assert_true(as_double[k] == (double)in[k]);
            assert_int_equal(cm_get_i64(t, space, k), in[k]);
            assert_true(cm_get_f64(t, space, k) == (double)in[k]);
        }
    }
}

static void many_floats_round_as_one_does(void **state)
{
    (void)state;
    /* Halves of f16's last bit are multiples of 2^12, of bf16's of 2^15: those and their neighbours, and a point between. */
    static const int about[] = {-1, 0, 1, 1717};
    for (uint64_t tie = 0; tie <= UINT32_MAX; tie += 1 << 12)
        for (int k = 0; k < CM_COUNT(about); k++) {
            uint32_t bits = (uint32_t)tie + (uint32_t)about[k];
            float x;
            uint16_t f16, bf16;
            memcpy(&x, &bits, sizeof x);
            cm_f32_to_half(CM_F16, &x, 1, &f16);
            cm_f32_to_half(CM_BF16, &x, 1, &bf16);
            if (f16 != cm_f64_to_f16(x) || bf16 != cm_f64_to_bf16(x))
                fail_msg("%a (%08x): f16 %04x, wanted %04x; bf16 %04x, wanted %04x", (double)x,
                         bits, f16, cm_f64_to_f16(x), bf16, cm_f64_to_bf16(x));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_agrees_with_itself),
        cmocka_unit_test(packed_sizes_round_up_and_do_not_overflow),
        cmocka_unit_test(packing_is_undone_by_unpacking),
        cmocka_unit_test(every_finite_code_means_what_its_format_says),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(overflow_and_specials_follow_the_format),
        cmocka_unit_test(e8m0_holds_powers_of_two),
        cmocka_unit_test(doubles_are_truncated_and_wrapped_to_integers),
        cmocka_unit_test(integers_reach_floats_with_one_rounding),
        cmocka_unit_test(every_numeric_type_keeps_small_integers),
        cmocka_unit_test(many_floats_round_as_one_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
