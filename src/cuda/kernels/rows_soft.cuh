// rows_soft.cuh -- exponentials of softmax, and what is told of some elements of a row.
// SPDX-License-Identifier: Apache-2.0
//
// Follows rows.cuh.
#pragma once

// What exponentials are taken about, made from the largest element, and these. Of float16 it is in units of log 2, so that a product and a
// sum are one instruction: what it is rounded by is the same for all that are taken about it, and their ratios do not change.
template <class T> struct powers {
    static INLINE float base(float most) { return most; }
    static INLINE float of(float v, float base) { return exp_of(v - base); }
    static INLINE float between(float base, float other) { return exp_of(base - other); }
};
#if KIND == SOFTMAX
template <> struct powers<f16> {
    static INLINE float two_to(float v)
    {
        float r;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
        return r;
    }
    static INLINE float base(float most) { return most * 1.4426950408889634f; }
    static INLINE float of(float v, float base) { return two_to(fmaf(v, 1.4426950408889634f, -base)); }
    static INLINE float between(float base, float other) { return two_to(base - other); }
};
#endif
typedef powers<XT> power;

// What exponentials of some elements are taken about, and their sum.
struct soft {
    float base, sum;
#if CLUSTER > 1
    INLINE void send(u32 at, u32 rank) const
    {
        store_cluster(at, rank, base);
        store_cluster(at + 4, rank, sum);
    }
#endif
    // The sum, about another one: there may be nothing, or only -inf.
    INLINE float about(float other) const { return base == other ? sum : sum * power::between(base, other); }
};

// What results are multiplied by (LOG_SOFTMAX: what is taken from them), from the sum of a whole row; and these.
DEVICE float soft_factor(float sum) { return KIND == SOFTMAX ? 1.0f / sum : logf(sum); }
DEVICE float soft_result(float v, float base, float factor)
{
    return KIND == SOFTMAX ? power::of(v, base) * factor : v - base - factor;
}
