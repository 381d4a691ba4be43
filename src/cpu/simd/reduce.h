/* reduce.h -- kernels of reductions at one ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums are kept in doubles: 1e38 squared has to be a number, and a mean of a million is then nearly as
 * exact as the reference's. */
#include "cpu/reduce.h"

#include "cpu/simd/math.h"
#include "cpu/simd/math_wide.h"

#if VW == 16
#define vd_load(p)     _mm512_loadu_pd(p)
#define vd_store(p, v) _mm512_storeu_pd(p, v)
#elif VW == 8
#define vd_load(p)     _mm256_loadu_pd(p)
#define vd_store(p, v) _mm256_storeu_pd(p, v)
#else
#define vd_load(p)     _mm_loadu_pd(p)
#define vd_store(p, v) _mm_storeu_pd(p, v)
#endif

VINLINE double vd_total(vd v)
{
    double lane[VW / 2], sum = 0;
    vd_store(lane, v);
    for (int i = 0; i < VW / 2; i++)
        sum += lane[i];
    return sum;
}

/* A sum of `value`, made of v; lanes that are not there must give 0, so `rest` is masked. */
#define SUM_ONE(name, value)                                                                       \
    static double name##_one(const float *x, int64_t n, float by)                                  \
    {                                                                                              \
        const vf shift = vf_set(by);                                                               \
        (void)shift;                                                                               \
        vd a = vd_set(0), b = a, c = a, d = a;                                                     \
        int64_t i = 0;                                                                             \
        for (; i + 2 * VW <= n; i += 2 * VW) {                                                     \
            vf v = vf_load(x + i);                                                                 \
            vdd p = value;                                                                         \
            v = vf_load(x + i + VW);                                                               \
            vdd q = value;                                                                         \
            a = vd_add(a, p.low);                                                                  \
            b = vd_add(b, p.high);                                                                 \
            c = vd_add(c, q.low);                                                                  \
            d = vd_add(d, q.high);                                                                 \
        }                                                                                          \
        double sum = 0;                                                                            \
        for (; i < n; i += VW) {                                                                   \
            int k = n - i < VW ? (int)(n - i) : VW;                                                \
            double lane[VW];                                                                       \
            vf v = vf_load_n(x + i, k);                                                            \
            vdd p = value;                                                                         \
            vd_store(lane, p.low);                                                                 \
            vd_store(lane + VW / 2, p.high);                                                       \
            for (int l = 0; l < k; l++)                                                            \
                sum += lane[l];                                                                    \
        }                                                                                          \
        return sum + vd_total(vd_add(vd_add(a, b), vd_add(c, d)));                                 \
    }

/* Each into its own; `old` and the element as doubles in p. */
#define EACH_INTO(name, prepare, low_, high_, tail)                                                \
    static void name##_each(double *acc, const float *x, const float *shifts, int64_t n)           \
    {                                                                                              \
        (void)shifts;                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + VW <= n; i += VW) {                                                             \
            vf v = vf_load(x + i);                                                                 \
            vdd p = prepare;                                                                       \
            vd old = vd_load(acc + i);                                                             \
            vd_store(acc + i, low_);                                                               \
            old = vd_load(acc + i + VW / 2);                                                       \
            vd_store(acc + i + VW / 2, high_);                                                     \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            acc[i] = tail;                                                                         \
    }

VINLINE vdd vdd_square(vf v)
{
    vdd d = vdd_of(v);
    return (vdd){vd_mul(d.low, d.low), vd_mul(d.high, d.high)};
}
VINLINE double exp_of(float x, float shift)
{
    float lane[VW];
    vf_store(lane, vf_exp(vf_set(x - shift)));
    return (double)lane[0];
}

/* Neighbouring vectors are added before they become doubles: one rounding to float32 for two terms, and
 * half the conversions. */
static double sum_one(const float *x, int64_t n, float shift)
{
    (void)shift;
    vd a = vd_set(0), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        vdd p = vdd_of(vf_add(vf_load(x + i), vf_load(x + i + VW)));
        vdd q = vdd_of(vf_add(vf_load(x + i + 2 * VW), vf_load(x + i + 3 * VW)));
        a = vd_add(a, p.low);
        b = vd_add(b, p.high);
        c = vd_add(c, q.low);
        d = vd_add(d, q.high);
    }
    for (; i < n; i += VW) { /* lanes beyond the end are zero */
        int64_t k = n - i < VW ? n - i : VW;
        vdd p = vdd_of(vf_load_n(x + i, (int)k));
        a = vd_add(a, p.low);
        b = vd_add(b, p.high);
    }
    return vd_total(vd_add(vd_add(a, b), vd_add(c, d)));
}
EACH_INTO(sum, vdd_of(v), vd_add(old, p.low), vd_add(old, p.high), acc[i] + (double)x[i])
SUM_ONE(abs, vdd_of(vf_abs(v)))
EACH_INTO(abs, vdd_of(vf_abs(v)), vd_add(old, p.low), vd_add(old, p.high),
          acc[i] + (double)fabsf(x[i]))
SUM_ONE(square, vdd_square(v))
EACH_INTO(square, vdd_square(v), vd_add(old, p.low), vd_add(old, p.high),
          acc[i] + (double)x[i] * (double)x[i])
SUM_ONE(exp, vdd_of(vf_exp(vf_sub(v, shift))))
EACH_INTO(exp, vdd_of(vf_exp(vf_sub(v, vf_load(shifts + i)))), vd_add(old, p.low),
          vd_add(old, p.high), acc[i] + exp_of(x[i], shifts[i]))
EACH_INTO(prod, vdd_of(v), vd_mul(old, p.low), vd_mul(old, p.high), acc[i] * (double)x[i])

static double prod_one(const float *x, int64_t n, float shift)
{
    (void)shift;
    double p[4] = {1, 1, 1, 1};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            p[l] *= (double)x[i + l];
    for (; i < n; i++)
        p[0] *= (double)x[i];
    return (p[0] * p[1]) * (p[2] * p[3]);
}

/* The larger of two, NaN if either is. */
static inline double larger(double a, double b)
{
    return a != a || a > b ? a : b;
}
static inline double smaller(double a, double b)
{
    return a != a || a < b ? a : b;
}

#define EXTREME(name, start, better, better_scalar, of_lanes)                                      \
    static double name##_one(const float *x, int64_t n, float shift)                               \
    {                                                                                              \
        (void)shift;                                                                               \
        vf a = vf_set(start), b = a;                                                               \
        int64_t i = 0;                                                                             \
        for (; i + 2 * VW <= n; i += 2 * VW) {                                                     \
            a = better(a, vf_load(x + i));                                                         \
            b = better(b, vf_load(x + i + VW));                                                    \
        }                                                                                          \
        for (; i < n; i += VW) {                                                                   \
            const int k = n - i < VW ? (int)(n - i) : VW;                                          \
            a = vf_select(vm_first(k), better(a, vf_load_n(x + i, k)), a);                         \
        }                                                                                          \
        a = better(a, b);                                                                          \
        return vm_any(vf_ne(a, a)) ? (double)NAN : (double)of_lanes(a);                            \
    }                                                                                              \
    static void name##_each(double *acc, const float *x, const float *shift, int64_t n)            \
    {                                                                                              \
        (void)shift;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] = better_scalar(acc[i], (double)x[i]);                                          \
    }
EXTREME(max, -INFINITY, vf_max_nan, larger, vf_most)
EXTREME(min, INFINITY, vf_min_nan, smaller, vf_least)

/* 2 * VW columns are kept in registers down all rows, two rows added before they become doubles. */
static void sum_rows(double *acc, const float *x, int64_t ld, int64_t rows, int64_t n)
{
    int64_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) {
        vd a = vd_load(acc + i), b = vd_load(acc + i + VW / 2), c = vd_load(acc + i + VW),
           d = vd_load(acc + i + VW + VW / 2);
        const float *p = x + i;
        for (int64_t r = 0; r < rows; r += 2, p += 2 * ld) {
            vf second = vf_zero(), fourth = vf_zero();
            if (r + 1 < rows) {
                second = vf_load(p + ld);
                fourth = vf_load(p + ld + VW);
            }
            vdd v = vdd_of(vf_add(vf_load(p), second));
            vdd w = vdd_of(vf_add(vf_load(p + VW), fourth));
            a = vd_add(a, v.low);
            b = vd_add(b, v.high);
            c = vd_add(c, w.low);
            d = vd_add(d, w.high);
        }
        vd_store(acc + i, a);
        vd_store(acc + i + VW / 2, b);
        vd_store(acc + i + VW, c);
        vd_store(acc + i + VW + VW / 2, d);
    }
    for (; i + VW <= n; i += VW) {
        vd a = vd_load(acc + i), b = vd_load(acc + i + VW / 2);
        const float *p = x + i;
        for (int64_t r = 0; r < rows; r++, p += ld) {
            vdd v = vdd_of(vf_load(p));
            a = vd_add(a, v.low);
            b = vd_add(b, v.high);
        }
        vd_store(acc + i, a);
        vd_store(acc + i + VW / 2, b);
    }
    for (int64_t r = 0; i < n && r < rows; r++)
        for (int64_t l = i; l < n; l++)
            acc[l] += (double)x[r * ld + l];
}

/* The extreme first, which is cheap, then where it is. */
static int64_t arg(const float *x, int64_t n, float sign, int last)
{
    float best = (float)(sign > 0 ? max_one(x, n, 0) : min_one(x, n, 0));
    if (last) {
        for (int64_t i = n - 1; i > 0; i--)
            if (x[i] == best || (best != best && x[i] != x[i]))
                return i;
        return 0;
    }
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = vf_load(x + i);
        if (vm_any(vf_eq(v, vf_set(best))) || (best != best && vm_any(vf_ne(v, v))))
            break;
    }
    for (; i < n; i++)
        if (x[i] == best || (best != best && x[i] != x[i]))
            return i;
    return 0;
}

const cm_reduce_kernels CM_LEVEL(cm_cpu_reduce) = {
    .one = {[CM_FOLD_SUM] = sum_one,
            [CM_FOLD_ABS] = abs_one,
            [CM_FOLD_SQUARE] = square_one,
            [CM_FOLD_MAX] = max_one,
            [CM_FOLD_MIN] = min_one,
            [CM_FOLD_PROD] = prod_one,
            [CM_FOLD_EXP] = exp_one},
    .each = {[CM_FOLD_SUM] = sum_each,
             [CM_FOLD_ABS] = abs_each,
             [CM_FOLD_SQUARE] = square_each,
             [CM_FOLD_MAX] = max_each,
             [CM_FOLD_MIN] = min_each,
             [CM_FOLD_PROD] = prod_each,
             [CM_FOLD_EXP] = exp_each},
    .sum_rows = sum_rows,
    .arg = arg,
};
