// program.cuh -- what generated programs call: instructions that are more than one operator.
// SPDX-License-Identifier: Apache-2.0
//
// Generated text stands before a kernel's own lines, so this file includes nothing.
#pragma once

#define PW template <class T> static __device__ __forceinline__

PW T pw_abs(T x) { return x < 0 ? -x : x; }
PW T pw_sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; }

// Of a NaN and a bound the NaN.
PW T pw_at_most(T a, T b) { return a != a || a < b ? a : b; }
PW T pw_at_least(T a, T b) { return a != a || a > b ? a : b; }

// No exponential overflows; the smaller half keeps its precision.
PW T pw_sigmoid(T x)
{
    T e = exp(-fabs(x)), r = 1 / (1 + e);
    return x < 0 ? e * r : r;
}

PW T pw_softplus(T x) { return fmax(x, (T)0) + log1p(exp(-fabs(x))); }

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); 1 where that would overflow.
PW T pw_mish(T x)
{
    T e = exp(fmin(x, (T)40)), n = e * (e + 2);
    return x * (n / (n + 2));
}

// 1 + erf(t) = erfc(-t) keeps its precision below zero.
PW T pw_gelu(T x)
{
    T y = x / 2 * erfc(x * (T)-0.70710678118654752440);
    return x < 0 && isinf(x) ? (T)0 : y;
}

// (1 + tanh(u)) / 2 is the sigmoid of 2u.
PW T pw_gelu_tanh(T x)
{
    T u = (T)1.59576912160573071176 * (x + (T)0.044715 * x * x * x);
    return x * pw_sigmoid(u);
}

PW T pw_celu(T x, T a) { return fmax(x, (T)0) + fmin((T)0, a * expm1(x / a)); }

// x - floor(x / y) y
PW T pw_mod(T x, T y)
{
    T r = fmod(x, y);
    return r == 0 ? copysign((T)0, y) : (r < 0) != (y < 0) ? r + y : r;
}

// Of whole numbers; a divisor of 0 is somebody else's to complain of.
PW T pw_div_whole(T x, T y) { return y == 0 ? 0 : y == (T)-1 && (T)-1 < 0 ? 0 - x : x / y; }
PW T pw_fmod_whole(T x, T y) { return y == 0 || (y == (T)-1 && (T)-1 < 0) ? 0 : x % y; }
PW T pw_mod_whole(T x, T y)
{
    T r = pw_fmod_whole(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
PW T pw_pow_whole(T x, T n)
{
    if (n < 0)
        return x == 1 ? 1 : x == (T)-1 ? (n % 2 == 0 ? 1 : -1) : 0;
    unsigned long long r = 1, a = (unsigned long long)x, k = (unsigned long long)n;
    for (; k; k >>= 1, a *= a)
        r = k & 1 ? r * a : r;
    return (T)r;
}
PW T pw_shift_left(T x, T by) { return by >= 0 && by < 64 ? (T)((unsigned long long)x << by) : 0; }
PW T pw_shift_right(T x, T by) { return by >= 0 && by < 64 ? x >> by : x < 0 ? -1 : 0; }

#undef PW

// Forms for results that are rounded to 16 bits: errors stay below 2^-14 of the result, a quarter of float16's half step.
#define SHORT static __device__ __forceinline__ float
SHORT short_exp2(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
SHORT short_recip(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
// The larger, the smaller; a NaN stays one.
SHORT short_max(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return pw_at_least(a, b);
#endif
}
SHORT short_min(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return pw_at_most(a, b);
#endif
}

SHORT short_exp(float x) { return short_exp2(x * 1.44269504088896340736f); }
// e^-x may be infinite: that is 0.
SHORT short_sigmoid(float x) { return short_recip(1 + short_exp2(x * -1.44269504088896340736f)); }
SHORT short_silu(float x) { return x * short_sigmoid(x); }

// Where 1 - 2 / (1 + e^2x) would lose its leading bits, the first terms of the series.
SHORT short_tanh(float x)
{
    float far = 1 - 2 * short_recip(1 + short_exp2(x * 2.88539008177792681472f)), s = x * x;
    float near = x + x * s * (-0.33333333f + s * (0.13333333f + s * -0.053968254f));
    return s < 0.0625f ? near : far;
}

// max(x, 0) - |x| Q(|x|), Q(t) = erfc(t / sqrt 2) / 2. The polynomial is log2 Q for t to 8, which makes 2^-14.9 of Q; what is beyond
// that is nothing, 2^-47.
SHORT short_gelu(float x)
{
    float t = fminf(fabsf(x), 8);
    float high = 0.007944578f + t * (-0.00080724823f + t * (4.82033e-5f + t * -1.2624589e-6f));
    float q = -1.000043f + t * (-1.15061f + t * (-0.45995685f + t * (-0.05263538f + t * high)));
    return short_max(x, 0) - t * short_exp2(q);
}

// The same for float16, whose least step is 2^-24: log2 Q for t to 5.75 to 2^-17.5 of Q where the result is above 2^-14, and to as
// much of 2^-14 below; what is beyond becomes zero.
SHORT half_gelu(float x)
{
    float t = fminf(fabsf(x), 5.75f);
    float high = -0.0530518171f + t * (0.00794227498f + t * (-0.000748422432f + t * 3.24448997e-5f));
    float q = -1.00000759f + t * (-1.15103665f + t * (-0.459170456f + t * high));
    return short_max(x, 0) - t * short_exp2(q);
}

SHORT short_gelu_tanh(float x)
{
    return x * short_sigmoid(x * (1.59576912160573071176f + 0.07135481627260f * (x * x)));
}

SHORT short_hardswish(float x)
{
    return x * short_min(short_max(x * 0.16666667f + 0.5f, 0), 1);
}
#undef SHORT
