/* cuda_shorten.c -- float32 weights rounded to what matrix units read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "cuda/shorten.h"

static uint32_t bits_of(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

/* At most half a step off, and nothing is left beyond the tenth bit. */
static void to_the_nearest(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        float v;
        seed = seed * 1664525u + 1013904223u;
        memcpy(&v, &seed, sizeof v);
        if (!isfinite(v) || fabsf(v) > FLT_MAX / 2)
            continue;
        float r = cm_gpu_shortened(v);
        int e;
        frexpf(v, &e);
        float step = ldexpf(1, (e < -125 ? -125 : e) - 11);
        assert_int_equal(bits_of(r) & 0x1fff, 0);
        assert_true(fabsf(r - v) <= step / 2);
    }
}

static void what_stays(void **state)
{
    (void)state;
    const float same[] = {0, -0.0f, 1, -1.5f, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
    for (int i = 0; i < CM_COUNT(same); i++)
        assert_int_equal(bits_of(cm_gpu_shortened(same[i])), bits_of(same[i]));
    assert_true(isnan(cm_gpu_shortened(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_the_nearest),
        cmocka_unit_test(what_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
