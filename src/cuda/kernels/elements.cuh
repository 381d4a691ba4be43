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

// Floats of 8 bits, by plan/dtype_float.c's table: bits of the fraction, exponent of the smallest normal number, codes of
// the largest number, of infinity and of NaN; UNSIGNED_ZERO: there is no -0, its code is NaN.
template <int FRACTION, int E_MIN, u32 MOST, u32 INFINITE, u32 NOT, bool UNSIGNED_ZERO> struct small_float {
    u8 bits;

    __device__ __forceinline__ operator float() const
    {
        const u32 m = bits & 0x7f, sign = (u32)(bits & 0x80) << 24;
        if (UNSIGNED_ZERO ? bits == NOT : m > MOST)
            return __uint_as_float(sign | (INFINITE != NOT && m == INFINITE ? 0x7f800000u : 0x7fc00000u));
        const u32 field = m >> FRACTION, low = m & ((1u << FRACTION) - 1);
        const int e = E_MIN - FRACTION + (field ? (int)field - 1 : 0);
        const float x = (float)(field ? low | 1u << FRACTION : low) * __uint_as_float((u32)(e + 127) << 23);
        return sign ? -x : x;
    }
    // To the nearest even; what is too large becomes the largest, or, OPEN being defined, infinite.
    static __device__ __forceinline__ small_float of(float v)
    {
        small_float r;
        const u32 u = __float_as_uint(v), sign = u >> 24 & 0x80, b = u & 0x7fffffffu;
        const int e = (int)(b >> 23) - 127, scale = e > E_MIN ? e : E_MIN;
        u32 code = 0;
        if (e >= E_MIN - FRACTION - 1) {
            const u32 m = (b & 0x7fffff) | 1u << 23, shift = 23 - FRACTION + (u32)(scale - e);
            const u32 half = 1u << (shift - 1), rest = m & (2 * half - 1), q = m >> shift;
            code = q + (rest > half || (rest == half && (q & 1)) ? 1 : 0) + ((u32)(scale - E_MIN) << FRACTION);
        }
#ifdef OPEN
        if (code > MOST && UNSIGNED_ZERO) {
            r.bits = NOT;
            return r;
        }
        code = code > MOST ? INFINITE : code;
#else
        code = code > MOST ? MOST : code;
#endif
        r.bits = (u8)(v != v ? (UNSIGNED_ZERO ? NOT : NOT | sign) : UNSIGNED_ZERO && code == 0 ? 0 : code | sign);
        return r;
    }
};
typedef small_float<3, -6, 0x7e, 0x7f, 0x7f, false> f8e4m3fn;
typedef small_float<3, -7, 0x7f, 0x80, 0x80, true> f8e4m3fnuz;
typedef small_float<2, -14, 0x7b, 0x7c, 0x7e, false> f8e5m2;
typedef small_float<2, -15, 0x7f, 0x80, 0x80, true> f8e5m2fnuz;

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

template <int F, int E, u32 M, u32 I, u32 N, bool U> struct element<small_float<F, E, M, I, N, U>> {
    typedef small_float<F, E, M, I, N, U> type;
    template <class V> static __device__ __forceinline__ type put(V v) { return type::of(to_odd(v)); }
    static __device__ __forceinline__ type put(float v) { return type::of(v); }
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

// Bytes [low, high) of the 16 from `skip` on in aligned words: none of the words is read that holds none of them. The rest of
// the 16 is of no meaning.
DEVICE uint4 load_shifted(const uint4 *from, u32 skip, int low, int high)
{
    uint4 first = make_uint4(0, 0, 0, 0), second = first;
    if (low < 16 - (int)skip)
        first = from[0];
    if (high > 16 - (int)skip)
        second = from[1];
    u32 w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    if (skip & 8)
#pragma unroll
        for (int i = 0; i < 6; i++)
            w[i] = w[i + 2];
    if (skip & 4)
#pragma unroll
        for (int i = 0; i < 5; i++)
            w[i] = w[i + 1];
    const u32 bits = skip % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}
DEVICE uint4 load_shifted(const void *p, int low, int high)
{
    const u32 skip = (u32)(u64)p & 15;
    return load_shifted((const uint4 *)((u64)p - skip), skip, low, high);
}

// Elements [low, high) of 16 bytes, which are counted in bytes.
template <class E> DEVICE void store_part(char *p, const uint4 &v, int low, int high)
{
    run_of<E, 16 / sizeof(E)> r;
    r.all = v;
#pragma unroll
    for (int i = 0; i < 16 / (int)sizeof(E); i++)
        if (i * (int)sizeof(E) >= low && i * (int)sizeof(E) < high)
            ((E *)p)[i] = r.v[i];
}
