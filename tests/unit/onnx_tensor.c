/* onnx_tensor.c -- tensors, sequences and maps in ONNX's messages, there and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "onnx/onnx.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"

typedef struct bench {
    cm_arena arena;
    cm_ctx cx;
    cm_buf b;
} bench;

static void begin(bench *t)
{
    *t = (bench){0};
    cm_arena_init(&t->arena, NULL);
    cm_buf_init(&t->b, NULL);
}

static void end(bench *t)
{
    cm_arena_deinit(&t->arena);
    cm_buf_deinit(&t->b);
}

/* Every element type comes back as it was written, whatever the alignment of the message. */
static void round_trips(void **state)
{
    (void)state;
    for (int dt = 1; dt < CM_DTYPE_COUNT; dt++) {
        if (dt == CM_STR)
            continue;
        bench t;
        unsigned char data[64], *copy;
        int64_t dims[] = {1, 3};
        cm_tensor in = {0};
        cm_datum out;
        size_t bytes;
        begin(&t);
        for (int i = 0; i < 64; i++)
            data[i] = dt == CM_BOOL ? i & 1 : (unsigned char)(i * 37 + 5);
        assert_true(cm_tensor_shape(&in, (cm_dtype)dt, 2, dims));
        in.data = data;
        in.packed = cm_dtype_is_sub_byte((cm_dtype)dt);
        assert_true(cm_dtype_bytes((cm_dtype)dt, 3, &bytes));
        assert_int_equal(cm_onnx_write_tensor(&t.cx, "t", &in, &t.b), CM_OK);
        copy = malloc(t.b.n + 1);
        memcpy(copy + 1, t.b.data, t.b.n);
        for (int shift = 0; shift < 2; shift++) {
            memmove(copy + shift, t.b.data, t.b.n);
            assert_int_equal(cm_onnx_read_datum(&t.cx, &t.arena, copy + shift, t.b.n, NULL, &out),
                             CM_OK);
            assert_true(out.kind == CM_TENSOR && out.tensor.dtype == (cm_dtype)dt);
            assert_true(out.tensor.rank == 2 && out.tensor.dims[1] == 3);
            assert_memory_equal(out.tensor.data, data, bytes);
        }
        free(copy);
        end(&t);
    }
}

static void round_trips_strings(void **state)
{
    (void)state;
    bench t;
    cm_str v[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    int64_t n = 3;
    cm_tensor in = {0};
    cm_datum out;
    begin(&t);
    assert_true(cm_tensor_shape(&in, CM_STR, 1, &n));
    in.data = v;
    assert_int_equal(cm_onnx_write_tensor(&t.cx, NULL, &in, &t.b), CM_OK);
    assert_int_equal(cm_onnx_read_datum(&t.cx, &t.arena, t.b.data, t.b.n, NULL, &out), CM_OK);
    for (int i = 0; i < 3; i++)
        assert_true(cm_str_equal(((cm_str *)out.tensor.data)[i], v[i]));
    end(&t);
}

/* Types under 32 bits in int32_data, packed and not. */
static void reads_typed_data(void **state)
{
    (void)state;
    static const struct {
        int dtype, n_entries, entries[3];
        int64_t n;
        unsigned char bytes[6];
        size_t n_bytes;
    } rows[] = {
        {CM_I8, 3, {-1, 2, 300}, 3, {255, 2, 44}, 3},
        {CM_BOOL, 2, {1, 7}, 2, {1, 1}, 2},
        {CM_F16, 2, {0x3c00, 0xc000}, 2, {0, 0x3c, 0, 0xc0}, 4},
        {CM_U4, 2, {0x21, 0x03}, 3, {0x21, 0x03}, 2},
        {CM_I2, 1, {0x1b}, 4, {0x1b}, 1},
        {CM_F6E2M3, 3, {1, 2, 3}, 3, {0x81, 0x30, 0}, 3},
    };
    for (int r = 0; r < CM_COUNT(rows); r++) {
        for (int packed = 0; packed < 2; packed++) {
            bench t;
            cm_buf list;
            cm_datum out;
            begin(&t);
            cm_buf_init(&list, NULL);
            pb_write_int(&t.b, 1, rows[r].n);
            pb_write_int(&t.b, 2, rows[r].dtype);
            for (int i = 0; i < rows[r].n_entries; i++) {
                pb_write_varint(&list, (uint64_t)(int64_t)rows[r].entries[i]);
                if (!packed)
                    pb_write_int(&t.b, 5, rows[r].entries[i]);
            }
            if (packed)
                pb_write_bytes(&t.b, 5, list.data, list.n);
            assert_int_equal(cm_onnx_read_datum(&t.cx, &t.arena, t.b.data, t.b.n, NULL, &out),
                             CM_OK);
            assert_memory_equal(out.tensor.data, rows[r].bytes, rows[r].n_bytes);
            cm_buf_deinit(&list);
            end(&t);
        }
    }
}

static void write_tensor(cm_buf *b, cm_dtype dtype, int rank, const int64_t *dims, const void *data,
                         size_t bytes)
{
    for (int i = 0; i < rank; i++)
        pb_write_int(b, 1, dims[i]);
    pb_write_int(b, 2, dtype);
    pb_write_bytes(b, 9, data, bytes);
}

static cm_status read_sparse(bench *t, const int64_t *indices, int rank, int64_t columns,
                             cm_tensor *out)
{
    const float values[] = {5, 7};
    int64_t n[] = {2, columns}, dims[] = {2, 3};
    cm_buf v, i;
    cm_buf_init(&v, NULL);
    cm_buf_init(&i, NULL);
    write_tensor(&v, CM_F32, 1, n, values, sizeof values);
    write_tensor(&i, CM_I64, rank, n, indices, 2 * (size_t)columns * sizeof(int64_t));
    pb_tensor pv = {0}, pi = {0};
    assert_int_equal(pb_decode(&t->cx, &t->arena, &pb_tensor_message, v.data, v.n, &pv), CM_OK);
    assert_int_equal(pb_decode(&t->cx, &t->arena, &pb_tensor_message, i.data, i.n, &pi), CM_OK);
    pb_sparse p = {.values = &pv, .indices = &pi, .dims = {2, dims}};
    pb_context c = {.cx = &t->cx, .arena = &t->arena};
    cm_status st = pb_sparse_read(&c, &p, out);
    cm_buf_deinit(&v);
    cm_buf_deinit(&i);
    return st;
}

static void makes_sparse_dense(void **state)
{
    (void)state;
    const int64_t linear[] = {1, 5}, rows[] = {0, 1, 1, 2}, far[] = {1, 6};
    const float wanted[] = {0, 5, 0, 0, 0, 7};
    bench t;
    cm_tensor out;
    begin(&t);
    assert_int_equal(read_sparse(&t, linear, 1, 1, &out), CM_OK);
    assert_memory_equal(out.data, wanted, sizeof wanted);
    assert_int_equal(read_sparse(&t, rows, 2, 2, &out), CM_OK);
    assert_memory_equal(out.data, wanted, sizeof wanted);
    assert_int_equal(read_sparse(&t, far, 1, 1, &out), CM_ERR_MODEL);
    end(&t);
}

static void refuses_wrong_amounts(void **state)
{
    (void)state;
    bench t;
    cm_datum out;
    int64_t dims[] = {2}, huge[] = {INT64_MAX, 16};
    begin(&t);
    write_tensor(&t.b, CM_F32, 1, dims, "12345", 5);
    assert_int_equal(cm_onnx_read_datum(&t.cx, &t.arena, t.b.data, t.b.n, NULL, &out),
                     CM_ERR_MODEL);
    assert_string_equal(t.cx.message, "found 5 bytes of raw data, wanted 8");
    t.b.n = 0;
    write_tensor(&t.b, CM_F32, 2, huge, "", 0);
    assert_int_equal(cm_onnx_read_datum(&t.cx, &t.arena, t.b.data, t.b.n, NULL, &out),
                     CM_ERR_MODEL);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),           cmocka_unit_test(round_trips_strings),
        cmocka_unit_test(reads_typed_data),      cmocka_unit_test(makes_sparse_dense),
        cmocka_unit_test(refuses_wrong_amounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
