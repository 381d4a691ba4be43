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

#undef PW
