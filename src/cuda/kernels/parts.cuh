// parts.cuh -- elements of less than a byte, packed: a stream of bits, low ones first. Eight of them fill as many bytes as
// one has bits.
// SPDX-License-Identifier: Apache-2.0
//
// Follows elements.cuh.
#pragma once

// One element, out of its place.
template <int BITS, bool SIGNED> struct part {
    u8 code;
    __device__ __forceinline__ operator int() const
    {
        return SIGNED ? (int)((u32)code << (32 - BITS)) >> (32 - BITS) : (int)code;
    }
    static __device__ __forceinline__ part of(u64 v)
    {
        part r = {(u8)(v & ((1u << BITS) - 1))};
        return r;
    }
};
typedef part<4, true> i4;
typedef part<4, false> u4;
typedef part<2, true> i2;
typedef part<2, false> u2;

// Neither infinities nor NaN: what is too large becomes the largest, NaN a zero of the other sign.
template <int BITS, int FRACTION, int E_MIN> struct part_float {
    u8 code;
    __device__ __forceinline__ operator float() const
    {
        const u32 m = code & ((1u << (BITS - 1)) - 1), field = m >> FRACTION, low = m & ((1u << FRACTION) - 1);
        const int e = E_MIN - FRACTION + (field ? (int)field - 1 : 0);
        const float x = (float)(field ? low | 1u << FRACTION : low) * __uint_as_float((u32)(e + 127) << 23);
        return code >> (BITS - 1) ? -x : x;
    }
    // To the nearest even.
    static __device__ __forceinline__ part_float of(float v, bool negative)
    {
        const u32 b = __float_as_uint(v) & 0x7fffffffu, most = (1u << (BITS - 1)) - 1;
        const int e = (int)(b >> 23) - 127, scale = e > E_MIN ? e : E_MIN;
        u32 code = 0;
        if (v != v) {
            negative = !negative;
        } else if (e > 127) {
            code = most;
        } else if (e >= E_MIN - FRACTION - 1) {
            const u32 m = (b & 0x7fffff) | 1u << 23, shift = 23 - FRACTION + (u32)(scale - e);
            const u32 half = 1u << (shift - 1), rest = m & (2 * half - 1), q = m >> shift;
            code = q + (rest > half || (rest == half && (q & 1)) ? 1 : 0) + ((u32)(scale - E_MIN) << FRACTION);
        }
        part_float r = {(u8)((code > most ? most : code) | (negative ? most + 1 : 0))};
        return r;
    }
};
typedef part_float<4, 1, 0> f4e2m1;
typedef part_float<6, 3, 0> f6e2m3;
typedef part_float<6, 2, -2> f6e3m2;

template <int B, bool S> struct element<part<B, S>> {
    typedef part<B, S> type;
    template <class N> static __device__ __forceinline__ type put(N v) { return type::of((u64)v); }
    static __device__ __forceinline__ type put(double v) { return type::of(wrap(v)); }
    static __device__ __forceinline__ type put(float v) { return put((double)v); }
};
template <int B, int F, int M> struct element<part_float<B, F, M>> {
    typedef part_float<B, F, M> type;
    template <class N> static __device__ __forceinline__ type put(N v) { return type::of(to_odd(v), v < 0); }
    static __device__ __forceinline__ type put(double v) { return type::of(to_odd(v), __double_as_longlong(v) < 0); }
    static __device__ __forceinline__ type put(float v) { return type::of(v, __float_as_uint(v) >> 31); }
};

// Where elements lie: load any, store n from i on, which for parts is a multiple of 8.
template <class E, int BITS> struct packed_elements {
    static __device__ __forceinline__ E load(const void *p, u64 i)
    {
        const u64 bit = i * BITS;
        const u8 *from = (const u8 *)p + bit / 8;
        const int skip = bit % 8;
        u32 v = from[0];
        if (8 % BITS && skip + BITS > 8)
            v |= (u32)from[1] << 8;
        E r = {(u8)(v >> skip & ((1u << BITS) - 1))};
        return r;
    }
    static __device__ __forceinline__ void store(void *p, u64 i, const E *v, int n)
    {
        u64 all = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            all |= k < n ? (u64)v[k].code << k * BITS : 0;
        u8 *to = (u8 *)p + i / 8 * BITS;
#pragma unroll
        for (int b = 0; b < BITS; b++)
            if (b * 8 < n * BITS)
                to[b] = (u8)(all >> b * 8);
    }
};
template <class E> struct elements_at {
    static __device__ __forceinline__ E load(const void *p, u64 i) { return ((const E *)p)[i]; }
    static __device__ __forceinline__ void store(void *p, u64 i, const E *v, int n)
    {
        for (int k = 0; k < n; k++)
            ((E *)p)[i + k] = v[k];
    }
};
template <int B, bool S> struct elements_at<part<B, S>> : packed_elements<part<B, S>, B> {};
template <int B, int F, int M> struct elements_at<part_float<B, F, M>> : packed_elements<part_float<B, F, M>, B> {};
