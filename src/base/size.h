/* size.h -- sizes that come from a file are multiplied and added here, never bare.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each returns false on overflow and then leaves *out unspecified. */
#ifndef CM_BASE_SIZE_H
#define CM_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool cm_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool cm_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool cm_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool cm_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* align_up(5, 8) is 8; `align` is a power of two. */
static inline bool cm_align_up(size_t n, size_t align, size_t *out)
{
    if (!cm_add(n, align - 1, out))
        return false;
    *out &= ~(align - 1);
    return true;
}

static inline int64_t cm_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cm_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* floor_div(-3, 2) is -2; b > 0 */
static inline int64_t cm_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* ceil_div(3, 2) is 2; b > 0 */
static inline int64_t cm_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

#endif
