// elements.cuh -- elements of every type to and from the number that is computed with; runs of them at once.
// SPDX-License-Identifier: Apache-2.0
//
// Follows common.cuh. NUMBER is float, double, i64 or u64.
#pragma once

typedef signed char i8;
typedef short i16;
typedef int i32;
struct truth { // bool: a byte that is 0 or not
    u8 byte;
};

template <class N, class E> DEVICE N get(E v) { return (N)v; }
template <> __device__ __forceinline__ float get<float, f16>(f16 v) { return to_float(v); }
template <> __device__ __forceinline__ float get<float, bf16>(bf16 v) { return to_float(v); }
template <> __device__ __forceinline__ float get<float, truth>(truth v) { return v.byte ? 1.0f : 0.0f; }
template <> __device__ __forceinline__ double get<double, f16>(f16 v) { return to_float(v); }
template <> __device__ __forceinline__ double get<double, bf16>(bf16 v) { return to_float(v); }
template <> __device__ __forceinline__ double get<double, truth>(truth v) { return v.byte ? 1.0 : 0.0; }
template <> __device__ __forceinline__ i64 get<i64, truth>(truth v) { return v.byte != 0; }
template <> __device__ __forceinline__ u64 get<u64, truth>(truth v) { return v.byte != 0; }

// A float that rounds to any shorter type as v would: cut, the last bit set where something was lost.
DEVICE float to_odd(double v)
{
    float f = __double2float_rz(v);
    return (double)f == v ? f : __uint_as_float(__float_as_uint(f) | 1);
}
DEVICE float to_odd(i64 v)
{
    float f = __ll2float_rz(v);
    return __float2ll_rz(f) == v ? f : __uint_as_float(__float_as_uint(f) | 1);
}
DEVICE float to_odd(u64 v)
{
    float f = __ull2float_rz(v);
    return __float2ull_rz(f) == v ? f : __uint_as_float(__float_as_uint(f) | 1);
}

// Toward zero and modulo 2^64, as the evaluators store a double into an integer.
DEVICE u64 wrap(double v)
{
    if (v > -9223372036854775808.0 && v < 9223372036854775808.0)
        return (u64)(i64)v;
    u64 bits = (u64)__double_as_longlong(v);
    u32 exponent = bits >> 52 & 0x7ff, shift = exponent - 1075;
    u64 m = (bits & 0xfffffffffffffull) | 1ull << 52;
    if (exponent == 0x7ff)
        return 1ull << 63;
    m = shift < 64 ? m << shift : 0;
    return bits >> 63 ? 0 - m : m;
}

// put: an element from a number. Integers of floats wrap, unless CUT is defined: then as Cast has it.
template <class E> struct element {
    template <class N> static __device__ __forceinline__ E put(N v) { return (E)v; }
#ifdef CUT
    static __device__ __forceinline__ E put(double v)
    {
        const bool wide = sizeof(E) == 8 || (sizeof(E) == 4 && (E)-1 > (E)0);
        const bool inside = wide ? v >= -9223372036854775808.0 && v < 9223372036854775808.0
                                 : v > -2147483649.0 && v < 2147483648.0;
        return (E)(inside ? (i64)v : wide ? (i64)(1ull << 63) : (i64)-2147483648ll);
    }
#else
    static __device__ __forceinline__ E put(double v) { return (E)wrap(v); }
#endif
};
template <> struct element<float> {
    template <class N> static __device__ __forceinline__ float put(N v) { return (float)v; }
};
template <> struct element<double> {
    template <class N> static __device__ __forceinline__ double put(N v) { return (double)v; }
};
template <> struct element<truth> {
    template <class N> static __device__ __forceinline__ truth put(N v)
    {
        truth t = {(u8)(v != 0)};
        return t;
    }
};
template <> struct element<f16> {
    template <class N> static __device__ __forceinline__ f16 put(N v) { return from_float<f16>(to_odd(v)); }
    static __device__ __forceinline__ f16 put(float v) { return from_float<f16>(v); }
};
template <> struct element<bf16> {
    template <class N> static __device__ __forceinline__ bf16 put(N v) { return from_float<bf16>(to_odd(v)); }
    static __device__ __forceinline__ bf16 put(float v) { return from_float<bf16>(v); }
};

// What moves in one instruction.
template <int BYTES> struct word;
template <> struct word<1> {
    typedef u8 type;
};
template <> struct word<2> {
    typedef u16 type;
};
template <> struct word<4> {
    typedef u32 type;
};
template <> struct word<8> {
    typedef uint2 type;
};
template <> struct word<16> {
    typedef uint4 type;
};

template <class E, int N> struct run_of {
    union {
        typename word<sizeof(E) * N>::type all;
        E v[N];
    };
};

// N elements from p on, which is aligned to all of them or, where ALIGNED is false, to one.
template <bool ALIGNED, class E, int N> DEVICE void load_run(const E *p, E *to)
{
    if (ALIGNED) {
        run_of<E, N> r;
        r.all = *(const decltype(r.all) *)p;
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = r.v[i];
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = p[i];
    }
}
template <bool ALIGNED, class E, int N> DEVICE void store_run(E *p, const E *from)
{
    if (ALIGNED) {
        run_of<E, N> r;
#pragma unroll
        for (int i = 0; i < N; i++)
            r.v[i] = from[i];
        *(decltype(r.all) *)p = r.all;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            p[i] = from[i];
    }
}
