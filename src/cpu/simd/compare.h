/* compare.h -- whole numbers compared, at any level: loops that the compiler turns into vectors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/pointwise.h"
#include "cpu/simd/vec.h"

#define COMPARE(name, type, is)                                                                    \
    static void name(const cm_comparison *c)                                                       \
    {                                                                                              \
        const type *restrict x = c->x, *restrict y = c->y;                                         \
        uint8_t *restrict to = c->to;                                                              \
        const type one = c->x_step ? *y : *x;                                                      \
        const int64_t n = c->n;                                                                    \
        if (!c->x_step)                                                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = one is y[i];                                                               \
        else if (!c->y_step)                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = x[i] is one;                                                               \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = x[i] is y[i];                                                              \
    }
COMPARE(equal_i32, int32_t, ==)
COMPARE(less_i32, int32_t, <)
COMPARE(up_to_i32, int32_t, <=)
COMPARE(equal_i64, int64_t, ==)
COMPARE(less_i64, int64_t, <)
COMPARE(up_to_i64, int64_t, <=)

const cm_compare_fn CM_LEVEL(cm_cpu_compare)[2][3] = {{equal_i32, less_i32, up_to_i32},
                                                      {equal_i64, less_i64, up_to_i64}};
