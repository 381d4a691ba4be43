/* onnx_wire.c -- the wire format: what is refused, and what was written is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "onnx/wire.h"

static cm_status first(const char *bytes, size_t n, pb_item *out)
{
    cm_ctx cx = {0};
    pb_reader r = pb_reader_of((cm_str){bytes, n});
    return pb_read_item(&cx, &r, out);
}

static void refuses_broken_fields(void **state)
{
    (void)state;
    pb_item item;
    assert_int_equal(first("\x00\x01", 2, &item), CM_ERR_MODEL); /* field 0 */
    assert_int_equal(first("\x0e\x01", 2, &item), CM_ERR_MODEL); /* wire type 6 */
    assert_int_equal(first("\x0b\x0c", 2, &item), CM_ERR_MODEL); /* a group */
    assert_int_equal(first("\x0a\x05"
                           "abcd",
                           6, &item),
                     CM_ERR_MODEL); /* length past the end */
    assert_int_equal(first("\x0d\x01\x02\x03", 4, &item), CM_ERR_MODEL);
    assert_int_equal(first("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, &item),
                     CM_ERR_MODEL);
    assert_int_equal(first("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, &item),
                     CM_ERR_MODEL);
}

static void reads_what_it_writes(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_buf b;
    pb_item item;
    cm_buf_init(&b, NULL);
    pb_write_int(&b, 3, -5);
    pb_write_float(&b, 2, 1.5f);
    pb_write_text(&b, 300, "name");
    pb_reader r = {b.data, b.data + b.n};
    assert_int_equal(pb_read_item(&cx, &r, &item), CM_OK);
    assert_true(item.number == 3 && (int64_t)item.bits == -5);
    assert_int_equal(pb_read_item(&cx, &r, &item), CM_OK);
    assert_true(item.number == 2 && item.bits == 0x3fc00000);
    assert_int_equal(pb_read_item(&cx, &r, &item), CM_OK);
    assert_true(item.number == 300 && cm_str_equal(item.bytes, cm_str_of("name")));
    assert_true(r.p == r.end);
    cm_buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_broken_fields),
        cmocka_unit_test(reads_what_it_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
