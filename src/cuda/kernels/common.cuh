// common.cuh -- element types without toolkit headers; every kernel begins with it.
// SPDX-License-Identifier: Apache-2.0
//
// float16 and bfloat16 are stored as structs of 16 bits; arithmetic is in float. It is included before a kernel's
// generated part as well, so that this may use what is here.
#ifndef COMMON_CUH
#define COMMON_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

#define DEVICE static __device__ __forceinline__

DEVICE float to_float(float v) { return v; }
DEVICE float to_float(f16 v)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
    return r;
}
DEVICE float to_float(bf16 v) { return __uint_as_float((u32)v.bits << 16); }

template <class T> DEVICE T from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }
template <> __device__ __forceinline__ f16 from_float<f16>(float v)
{
    f16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
    return r;
}
// Rounded to nearest even; a NaN stays one.
template <> __device__ __forceinline__ bf16 from_float<bf16>(float v)
{
    bf16 r;
    u32 u = __float_as_uint(v);
    r.bits = v != v ? (u16)(u >> 16 | 0x40) : (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    return r;
}

// What is loaded and stored in one instruction of 16 bytes.
template <class T> struct alignas(16) vec16 {
    T v[16 / sizeof(T)];
};

#endif
