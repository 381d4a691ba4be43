/* copy.c -- large copies by several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/copy.h"
#include "base/status.h"

static void large_copies_are_whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 1 << 20, (3 << 20) + 7, (9 << 20) + 1};
    for (int i = 0; i < CM_COUNT(sizes); i++) {
        unsigned char *from = malloc(sizes[i] + 1), *to = calloc(sizes[i] + 1, 1);
        for (size_t k = 0; k < sizes[i]; k++)
            from[k] = (unsigned char)(k * 7 + k / 251);
        cm_copy_large(to, from, sizes[i]);
        assert_memory_equal(to, from, sizes[i]);
        assert_int_equal(to[sizes[i]], 0);
        free(from);
        free(to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_copies_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
