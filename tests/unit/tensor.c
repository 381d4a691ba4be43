/* tensor.c -- shapes, dense copies, types as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/tensor.h"

static void a_shape_sets_dense_strides(void **state)
{
    (void)state;
    cm_tensor t = {0};
    size_t bytes;
    assert_true(cm_tensor_shape(&t, CM_F32, 3, (int64_t[]){2, 3, 4}));
    assert_int_equal(t.strides[0], 12);
    assert_int_equal(t.strides[2], 1);
    assert_int_equal(cm_tensor_elems(&t), 24);
    assert_true(cm_tensor_bytes(&t, &bytes) && bytes == 96);
    assert_true(cm_tensor_is_dense(&t));
    assert_int_equal(cm_dims_product(t.dims, 1, 3), 12);
    assert_int_equal(cm_dims_product(t.dims, 1, 1), 1);
    t.strides[0] = 24;
    assert_false(cm_tensor_is_dense(&t));
    assert_true(cm_tensor_shape(&t, CM_I4, 0, NULL));
    assert_int_equal(cm_tensor_elems(&t), 1);
    assert_true(cm_tensor_shape(&t, CM_I4, 1, (int64_t[]){3}));
    assert_true(cm_tensor_bytes(&t, &bytes) && bytes == 3);
    t.packed = true;
    assert_true(cm_tensor_bytes(&t, &bytes) && bytes == 2);
    assert_true(cm_tensor_shape(&t, CM_F32, 2, (int64_t[]){0, 5}));
    assert_int_equal(cm_tensor_elems(&t), 0);
    assert_true(cm_tensor_is_dense(&t));
}

static void shapes_out_of_range_are_refused(void **state)
{
    (void)state;
    cm_tensor t = {0};
    int64_t many[CM_MAX_RANK + 1] = {0};
    assert_false(cm_tensor_shape(&t, CM_F32, -1, many));
    assert_false(cm_tensor_shape(&t, CM_F32, CM_MAX_RANK + 1, many));
    assert_false(cm_tensor_shape(&t, CM_NO_DTYPE, 0, NULL));
    assert_false(cm_tensor_shape(&t, CM_F32, 1, (int64_t[]){-1}));
    assert_false(cm_tensor_shape(&t, CM_F32, 1, (int64_t[]){INT64_MAX}));
    assert_false(cm_tensor_shape(&t, CM_U8, 2, (int64_t[]){1ll << 40, 1ll << 40}));
    /* empty, but the product of the other dims would overflow */
    assert_false(cm_tensor_shape(&t, CM_U8, 3, (int64_t[]){1ll << 40, 0, 1ll << 40}));
}

static void same_shape_ignores_the_rest(void **state)
{
    (void)state;
    cm_tensor a = {0}, b = {0};
    assert_true(cm_tensor_shape(&a, CM_F32, 2, (int64_t[]){2, 3}));
    assert_true(cm_tensor_shape(&b, CM_I8, 2, (int64_t[]){2, 3}));
    assert_true(cm_tensor_same_shape(&a, &b));
    assert_true(cm_tensor_shape(&b, CM_I8, 1, (int64_t[]){2}));
    assert_false(cm_tensor_same_shape(&a, &b));
}

static void strided_elements_are_copied_in_order(void **state)
{
    (void)state;
    uint16_t from[120], to[120];
    for (int i = 0; i < 120; i++)
        from[i] = (uint16_t)i;
    static const struct {
        int rank;
        int64_t dims[4], strides[4];
        int offset;
    } cases[] = {
        {0, {0}, {0}, 7},
        {1, {5}, {3}, 2},
        {1, {5}, {-1}, 9},                     /* backwards */
        {2, {3, 4}, {1, 3}, 0},                /* transposed */
        {3, {2, 3, 4}, {60, 20, 5}, 1},        /* every fifth */
        {3, {4, 1, 5}, {0, 9, 1}, 10},         /* broadcast */
        {4, {2, 2, 3, 5}, {60, 30, 10, 2}, 0}, /* joins axes */
        {4, {2, 3, 2, 2}, {12, 4, 2, 1}, 0},   /* dense */
        {2, {3, 0}, {1, 1}, 0},                /* empty */
    };
    for (int i = 0; i < CM_COUNT(cases); i++) {
        cm_tensor t = {.dtype = CM_U16, .rank = cases[i].rank, .data = from + cases[i].offset};
        int64_t d[4] = {1, 1, 1, 1}, s[4] = {0};
        for (int k = 0; k < t.rank; k++) {
            t.dims[k] = d[k] = cases[i].dims[k];
            t.strides[k] = s[k] = cases[i].strides[k];
        }
        to[0] = 0xffff;
        cm_tensor_copy_dense(&t, to);
        int n = 0;
        for (int64_t a = 0; a < d[0]; a++)
            for (int64_t b = 0; b < d[1]; b++)
                for (int64_t c = 0; c < d[2]; c++)
                    for (int64_t e = 0; e < d[3]; e++)
                        assert_int_equal(to[n++], cases[i].offset + a * s[0] + b * s[1] + c * s[2] +
                                                      e * s[3]);
    }
}

static void expect_text(const cm_dim_table *t, cm_type type, const char *want)
{
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_type_print(t, &type, &b);
    assert_string_equal(cm_buf_text(&b), want);
    cm_buf_deinit(&b);
}

static void types_print_and_compare(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_arena arena;
    cm_dim_table *t;
    cm_arena_init(&arena, NULL);
    assert_int_equal(cm_dim_table_create(&cx, &arena, &t), CM_OK);
    cm_dim batch = cm_dim_symbol(t, "batch", CM_DIM_SIZE);
    cm_type x = cm_type_tensor(CM_F32, 2, (cm_dim[]){batch, 3});
    cm_type seq = {.kind = CM_SEQUENCE, .elem = &x}, opt = {.kind = CM_OPTIONAL, .elem = &seq};
    cm_type map = {.kind = CM_MAP, .key = CM_I64, .dtype = CM_F32};
    expect_text(t, x, "f32[batch,3]");
    expect_text(t, cm_type_tensor(CM_STR, 0, NULL), "str[]");
    expect_text(t, cm_type_tensor(CM_F8E5M2, -1, NULL), "f8e5m2[*]");
    expect_text(t, opt, "opt(seq(f32[batch,3]))");
    expect_text(t, (cm_type){.kind = CM_SEQUENCE}, "seq(?)");
    expect_text(t, map, "map(i64,f32)");
    expect_text(NULL, (cm_type){0}, "?");

    cm_type y = x, other = {.kind = CM_SEQUENCE, .elem = &y};
    assert_true(cm_type_equal(&seq, &other));
    y.dims[0] = 1;
    assert_false(cm_type_equal(&seq, &other));
    assert_false(cm_type_equal(&seq, &x));
    assert_false(cm_type_equal(&seq, &(cm_type){.kind = CM_SEQUENCE}));
    assert_true(cm_type_equal(&map, &map));

    cm_tensor keys = {.dtype = CM_I64, .rank = 1, .dims = {2}};
    cm_datum items[2] = {{.kind = CM_TENSOR, .tensor = keys}, {.kind = CM_TENSOR, .tensor = keys}};
    items[1].tensor.dtype = CM_F32;
    expect_text(t, cm_type_of_datum(&items[1]), "f32[2]");
    expect_text(t, cm_type_of_datum(&(cm_datum){.kind = CM_MAP, .n = 2, .items = items}),
                "map(i64,f32)");
    expect_text(t, cm_type_of_datum(&(cm_datum){.kind = CM_SEQUENCE, .elem = &x}),
                "seq(f32[batch,3])");
    cm_arena_deinit(&arena);
}

static void concrete_shapes_print_and_are_cut(void **state)
{
    (void)state;
    char text[8];
    assert_string_equal(cm_shape_text(text, sizeof text, 0, NULL), "[]");
    assert_string_equal(cm_shape_text(text, sizeof text, 2, (int64_t[]){2, 3}), "[2,3]");
    assert_string_equal(cm_shape_text(text, sizeof text, 3, (int64_t[]){200, 300, 4}), "[200,30");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_sets_dense_strides),
        cmocka_unit_test(shapes_out_of_range_are_refused),
        cmocka_unit_test(same_shape_ignores_the_rest),
        cmocka_unit_test(strided_elements_are_copied_in_order),
        cmocka_unit_test(types_print_and_compare),
        cmocka_unit_test(concrete_shapes_print_and_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
