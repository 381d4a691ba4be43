/* cuda_image.c -- compiled kernels as plans keep them: written, taken, and not believed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/image.h"

/* What the reader looks at before it takes an image: an ELF file for a GPU. */
static void make_image(unsigned char *p, size_t n, unsigned char seed)
{
    memset(p, seed, n);
    memcpy(p, "\177ELF\2\1", 6);
    p[18] = 190;
    p[19] = 0;
}

static void put(cm_buf *b, uint64_t key, unsigned char seed, size_t n)
{
    unsigned char bytes[256];
    make_image(bytes, n, seed);
    const cm_image image = {{{key, ~key}}, n, bytes};
    cm_images_put(b, &image);
}

static void images_come_back(void **state)
{
    (void)state;
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_images_begin(&b, 2);
    put(&b, 101, 7, 200);
    put(&b, 102, 8, 64);
    assert_int_equal(cm_images_take(b.data, b.n), 2);
    const cm_image *i = cm_image_find(&(cm_image_key){{101, ~(uint64_t)101}});
    assert_non_null(i);
    assert_int_equal(i->n, 200);
    assert_int_equal(i->data[199], 7);
    assert_null(cm_image_find(&(cm_image_key){{101, 0}}));
    cm_buf_deinit(&b);
}

static void every_truncation_is_harmless(void **state)
{
    (void)state;
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_images_begin(&b, 2);
    put(&b, 201, 7, 200);
    put(&b, 202, 8, 64);
    for (size_t n = 0; n < b.n; n++) {
        unsigned char *copy = malloc(n + 1); /* sanitizers see a read behind it */
        memcpy(copy, b.data, n);
        assert_true(cm_images_take(copy, n) < 2);
        free(copy);
    }
    cm_buf_deinit(&b);
}

static void what_is_no_image_is_left_out(void **state)
{
    (void)state;
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_images_begin(&b, 1);
    put(&b, 301, 7, 128);
    enum { HEADER = 12, RECORD = 24, SIZE_AT = HEADER + 16, MACHINE_AT = HEADER + RECORD + 18 };
    b.data[MACHINE_AT] = 62; /* for a CPU */
    assert_int_equal(cm_images_take(b.data, b.n), 0);
    b.data[MACHINE_AT] = 190;
    memset(b.data + SIZE_AT, 0xff, 8);
    assert_int_equal(cm_images_take(b.data, b.n), 0);
    b.data[0] = 'x';
    assert_int_equal(cm_images_take(b.data, b.n), 0);
    assert_null(cm_image_find(&(cm_image_key){{301, ~(uint64_t)301}}));
    cm_buf_deinit(&b);
}

static void the_first_of_a_key_is_kept(void **state)
{
    (void)state;
    unsigned char one[64], other[64];
    const cm_image_key key = {{401, 401}};
    make_image(one, sizeof one, 1);
    make_image(other, sizeof other, 2);
    const cm_image *a = cm_image_add(&key, one, sizeof one);
    assert_ptr_equal(cm_image_add(&key, other, sizeof other), a);
    assert_int_equal(a->data[63], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_come_back),
        cmocka_unit_test(every_truncation_is_harmless),
        cmocka_unit_test(what_is_no_image_is_left_out),
        cmocka_unit_test(the_first_of_a_key_is_kept),
    };
    return cmocka_run_group_tests_name("cuda_image", tests, NULL, NULL);
}
