/* buf.c -- growable bytes with sticky errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void bytes_come_out_as_they_went_in(void **state)
{
    (void)state;
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_buf_bytes(&b, NULL, 0);
    cm_buf_zeros(&b, 0);
    assert_string_equal(cm_buf_text(&b), "");
    cm_buf_u8(&b, 1);
    cm_buf_align(&b, 4);
    cm_buf_u32(&b, 0x01020304);
    cm_buf_u64(&b, 5);
    cm_buf_bytes(&b, NULL, 0);
    const unsigned char want[] = {1, 0, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.data, want, sizeof want);
    cm_buf_deinit(&b);
    cm_buf_str(&b, "n = ");
    for (int i = 0; i < 3000; i++)
        cm_buf_printf(&b, "%d,", i);
    const char *text = cm_buf_text(&b);
    assert_memory_equal(text, "n = 0,1,2,", 10);
    assert_int_equal(strlen(text), b.n);
    assert_string_equal(text + b.n - 5, "2999,");
    assert_false(b.failed);
    cm_buf_deinit(&b);
}

static void *alloc_some(void *user, size_t bytes, size_t align)
{
    int *left = user;
    return (*left)-- > 0 ? cm_alloc(NULL, bytes, align) : NULL;
}

static void release(void *user, void *p, size_t bytes)
{
    (void)user;
    cm_release(NULL, p, bytes);
}

static void a_failed_append_sticks(void **state)
{
    (void)state;
    int left = 1;
    cm_allocator some = {alloc_some, release, &left};
    cm_buf b;
    cm_buf_init(&b, &some);
    cm_buf_str(&b, "fits");
    cm_buf_zeros(&b, 100000);
    assert_true(b.failed);
    assert_int_equal(b.n, 4);
    cm_buf_str(&b, "x");
    cm_buf_printf(&b, "%d", 1);
    assert_int_equal(b.n, 4);
    assert_string_equal(cm_buf_text(&b), "");
    cm_buf_deinit(&b);
    cm_buf_init(&b, NULL);
    cm_buf_u8(&b, 0);
    cm_buf_zeros(&b, SIZE_MAX); /* the sum overflows */
    assert_true(b.failed);
    cm_buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(a_failed_append_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
