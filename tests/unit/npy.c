/* npy.c -- npy and npz: what comes back, and what is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "io/io.h"

typedef struct {
    cm_ctx cx;
    cm_arena arena;
    cm_buf buf;
} env;

static int setup(void **state)
{
    static env e;
    memset(&e, 0, sizeof e);
    cm_arena_init(&e.arena, NULL);
    cm_buf_init(&e.buf, NULL);
    e.cx.arena = e.cx.scratch = &e.arena;
    *state = &e;
    return 0;
}

static int teardown(void **state)
{
    env *e = *state;
    cm_arena_deinit(&e->arena);
    cm_buf_deinit(&e->buf);
    return 0;
}

/* An npy file of version 1 with this dict and data. */
static cm_status read_made(env *e, const char *dict, const void *data, size_t n, cm_tensor *out)
{
    e->buf.n = 0;
    cm_buf_bytes(&e->buf, "\x93NUMPY\x01\x00", 8);
    cm_buf_u8(&e->buf, (uint8_t)strlen(dict));
    cm_buf_u8(&e->buf, 0);
    cm_buf_str(&e->buf, dict);
    cm_buf_bytes(&e->buf, data, n);
    return cm_npy_read(&e->cx, &e->arena, e->buf.data, e->buf.n, out);
}

static void test_forms(void **state)
{
    env *e = *state;
    cm_tensor t;
    const unsigned char big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    assert_int_equal(CM_OK, read_made(e, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}",
                                      big, sizeof big, &t));
    assert_int_equal(CM_I16, t.dtype);
    const int16_t want[] = {1, 3, 5, 2, 4, 6};
    assert_memory_equal(t.data, want, sizeof want);
    const unsigned char chars[] = {0xE9, 0, 0, 0, 'x', 0, 0, 0, 'y', 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(CM_OK, read_made(e, "{'descr':'<U2','fortran_order':False,'shape':(2,),}",
                                      chars, sizeof chars, &t));
    assert_true(cm_str_equal(((cm_str *)t.data)[0], cm_str_of("\xC3\xA9x")));
    assert_true(cm_str_equal(((cm_str *)t.data)[1], cm_str_of("y")));
    assert_int_equal(CM_OK, read_made(e, "{'descr':'<V1','fortran_order':False,'shape':(2,)}",
                                      "\x0F\x07", 2, &t));
    assert_true(cm_npy_view(&t, CM_I4));
    assert_int_equal(-1, ((int8_t *)t.data)[0]);
    assert_false(cm_npy_view(&t, CM_F32));
    assert_int_equal(CM_OK, read_made(e, "{'descr':'<f8','fortran_order':False,'shape':()}",
                                      "\0\0\0\0\0\0\xf0\x3f", 8, &t));
    assert_true(t.rank == 0 && *(double *)t.data == 1.0);
}

static void test_refused(void **state)
{
    env *e = *state;
    cm_tensor t;
    static const char *const bad[] = {
        "{'descr':'<f4','fortran_order':False,'shape':(3,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(9223372036854775807,4)}",
        "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(-1,)}",
        "{'descr':'<f4','fortran_order':False}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,",
        "{'descr':'|O','fortran_order':False,'shape':(1,)}",
        "{'descr':[('a','<f4'),('b','<f4')],'fortran_order':False,'shape':(1,)}",
        "{'descr':'<U0','fortran_order':False,'shape':(1000000000000,)}",
        "{'descr':'<U9223372036854775807','fortran_order':False,'shape':(1,)}",
        "{'descr':'<f16','fortran_order':False,'shape':(1,)}",
        "{'descr':'','fortran_order':False,'shape':(1,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
        "",
    };
    for (int i = 0; i < CM_COUNT(bad); i++)
        assert_int_not_equal(CM_OK, read_made(e, bad[i], "abcdefgh", 8, &t));
    assert_int_not_equal(CM_OK, cm_npy_read(&e->cx, &e->arena, "\x93NUMPY\x01", 7, &t));
}

static void test_npz(void **state)
{
    env *e = *state;
    for (int deflate = 0; deflate < 2; deflate++) {
        float f[100] = {1, 2, 3};
        cm_str s[2] = {{"a\xC3\xA9", 3}, {"", 0}};
        uint8_t packed[2] = {0x21, 0x0F};
        cm_tensor a = {0}, b = {0}, c = {0}, t;
        assert_true(cm_tensor_shape(&a, CM_F32, 2, (int64_t[]){10, 10}));
        a.data = f;
        assert_true(cm_tensor_shape(&b, CM_STR, 1, (int64_t[]){2}));
        b.data = s;
        assert_true(cm_tensor_shape(&c, CM_I4, 1, (int64_t[]){3}));
        c.data = packed;
        c.packed = true;
        e->buf.n = 0;
        assert_int_equal(CM_OK, cm_npz_write(&e->cx, 3, (const char *[]){"a", "b", "c/d"},
                                             (const cm_tensor *[]){&a, &b, &c}, deflate, &e->buf));
        cm_npz *z;
        assert_int_equal(CM_OK, cm_npz_open(&e->cx, &e->arena, e->buf.data, e->buf.n, &z));
        assert_int_equal(3, cm_npz_count(z));
        assert_int_equal(-1, cm_npz_find(z, "x"));
        assert_int_equal(CM_OK, cm_npz_read(&e->cx, &e->arena, z, cm_npz_find(z, "a"), &t));
        assert_memory_equal(t.data, f, sizeof f);
        assert_int_equal(CM_OK, cm_npz_read(&e->cx, &e->arena, z, 1, &t));
        assert_true(cm_str_equal(((cm_str *)t.data)[0], s[0]) && ((cm_str *)t.data)[1].n == 0);
        assert_int_equal(CM_OK, cm_npz_read(&e->cx, &e->arena, z, 2, &t));
        assert_true(cm_npy_view(&t, CM_I4));
        assert_memory_equal(t.data, "\x01\x02\xFF", 3);
        /* Every byte turned over: an error or not, never worse. */
        for (size_t i = 0; i < e->buf.n; i++) {
            e->buf.data[i] ^= 0xFF;
            if (cm_npz_open(&e->cx, &e->arena, e->buf.data, e->buf.n, &z) == CM_OK)
                for (int k = 0; k < cm_npz_count(z); k++)
                    (void)!cm_npz_read(&e->cx, &e->arena, z, k, &t);
            e->buf.data[i] ^= 0xFF;
            (void)!cm_npz_open(&e->cx, &e->arena, e->buf.data, i, &z);
        }
    }
}

/* The longest head there is. */
static void test_long_shape(void **state)
{
    env *e = *state;
    int64_t dims[CM_MAX_RANK];
    cm_tensor t = {0}, back;
    for (int i = 0; i < CM_MAX_RANK; i++)
        dims[i] = i ? 99999999999999999 : 0;
    if (!cm_tensor_shape(&t, CM_U8, CM_MAX_RANK, dims))
        return; /* refused: no such head */
    assert_int_equal(CM_OK, cm_npy_write(&e->cx, &t, &e->buf));
    assert_int_equal(CM_OK, cm_npy_read(&e->cx, &e->arena, e->buf.data, e->buf.n, &back));
    assert_int_equal(CM_MAX_RANK, back.rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_npz, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_shape, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
