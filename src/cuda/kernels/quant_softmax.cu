// quant_softmax.cu -- softmax of rows of bytes.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: BYTE (u8 or i8); TEAM, the threads that share a row, a power of two up to 32 or a whole block; RUN, how
// many elements a thread takes at once, which divides a row; TABLE, results are looked up in one that each row makes.
//
// Bytes become keys, numbers without sign that grow with the real numbers that they stand for. Terms of a sum depend on a
// key's distance from the row's largest. They are within some 2^-16 of themselves, so that results differ from the reference's by
// one step at most, as cpu/simd/quant_softmax.h has it; where keys are equal, as ties are likely, terms are 1 and nothing differs.
#include "common.cuh"
#include "elements.cuh"
#include "quant_byte.cuh"

enum { THREADS = 256 };

struct softmax {
    const u8 *x;
    u8 *y;
    const float *scale, *y_scale;
    const BYTE *zero, *y_zero; // NULL: 0
    u64 rows;
    u32 n;
};

struct larger {
    static __device__ __forceinline__ u32 of(u32 a, u32 b) { return a > b ? a : b; }
};
struct plus {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};

// Over a row's threads, for each of them.
template <class Op, class T> DEVICE T over_team(T v)
{
#pragma unroll
    for (int o = 1; o < TEAM && o < 32; o *= 2)
        v = Op::of(v, __shfl_xor_sync(~0u, v, o));
#if TEAM > 32
    __shared__ T held[TEAM / 32];
    __syncthreads(); // what the last row had here is read
    if (threadIdx.x % 32 == 0)
        held[threadIdx.x / 32] = v;
    __syncthreads();
    v = held[0];
#pragma unroll
    for (int w = 1; w < TEAM / 32; w++)
        v = Op::of(v, held[w]);
#endif
    return v;
}

DEVICE void team_sync()
{
#if TEAM > 32
    __syncthreads();
#else
    __syncwarp();
#endif
}

// N bytes in words. One alone is the lowest byte of its word.
template <int N> struct bytes {
    enum { WORDS = N < 4 ? 1 : N / 4 };
    u32 w[WORDS];
};
template <int N> DEVICE bytes<N> load_keys(const u8 *p, u32 flip)
{
    bytes<N> r;
    if (N == 16) {
        const uint4 v = *(const uint4 *)p;
        r.w[0] = v.x ^ flip, r.w[1 % r.WORDS] = v.y ^ flip;
        r.w[2 % r.WORDS] = v.z ^ flip, r.w[3 % r.WORDS] = v.w ^ flip;
    } else {
        r.w[0] = N == 4 ? *(const u32 *)p ^ flip : (*p ^ flip) & 0xff;
    }
    return r;
}
template <int N> DEVICE void store_bytes(u8 *p, const bytes<N> &r)
{
    if (N == 16)
        *(uint4 *)p = make_uint4(r.w[0], r.w[1 % r.WORDS], r.w[2 % r.WORDS], r.w[3 % r.WORDS]);
    else if (N == 4)
        *(u32 *)p = r.w[0];
    else
        *p = (u8)r.w[0];
}

// A row, and what is the same for all.
struct one_row {
    const u8 *x;
    u8 *y;
    u32 n, at; // at: which of the team this thread is
    u32 flip;
    float by; // a term is 2^(by * (key - most))
    float share, scale, zero;
};
#define WALK for (u32 i = r.at * N; i < r.n; i += TEAM * N)
#define EACH _Pragma("unroll") for (int k = 0; k < N; k++)

// Of four keys at once the largest is the upper byte.
template <int N> DEVICE u32 largest_key(const one_row &r)
{
    u32 most = 0;
    WALK
    {
        const bytes<N> v = load_keys<N>(r.x + i, r.flip);
        EACH most = larger::of(most, v.w[k / 4] << (24 - k % 4 * 8));
    }
    return over_team<larger>(most) >> 24;
}

// Key k as a number above 2^23, of which it is the last bits.
template <int N> DEVICE float raised(const bytes<N> &v, int k) { return __uint_as_float(__byte_perm(v.w[k / 4], 0x4b000000u, 0x7440 + k % 4)); }

template <int N> DEVICE float sum_of(const one_row &r, u32 most)
{
    const float base = 8388608.0f + (float)most;
    float sum = 0;
    WALK
    {
        const bytes<N> v = load_keys<N>(r.x + i, r.flip);
        float part = 0;
        EACH {
            float term;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(term) : "f"((raised(v, k) - base) * r.by));
            part += term;
        }
        sum += part;
    }
    return over_team<plus>(sum);
}

DEVICE u32 result_of(const one_row &r, float below)
{
    return (u8)to_byte(__fmul_rn(exp2f(below * r.by), r.share) / r.scale, r.zero);
}

#if TABLE
// Results by distance.
template <int N> DEVICE void put_row(const one_row &r, u32 most)
{
    __shared__ u8 tables[THREADS / TEAM][256];
    u8 *table = tables[threadIdx.x / TEAM];
    for (int d = r.at; d < 256; d += TEAM)
        table[d] = (u8)result_of(r, -(float)d);
    team_sync();
    WALK
    {
        const bytes<N> v = load_keys<N>(r.x + i, r.flip);
        bytes<N> y = {};
        EACH y.w[k / 4] |= (u32)table[most - (v.w[k / 4] >> k % 4 * 8 & 0xff)] << k % 4 * 8;
        store_bytes<N>(r.y + i, y);
    }
    team_sync(); // read before the next row's is made
}
#else
template <int N> DEVICE void put_row(const one_row &r, u32 most)
{
    const float base = 8388608.0f + (float)most;
    WALK
    {
        const bytes<N> v = load_keys<N>(r.x + i, r.flip);
        bytes<N> y = {};
        EACH y.w[k / 4] |= result_of(r, raised(v, k) - base) << k % 4 * 8;
        store_bytes<N>(r.y + i, y);
    }
}
#endif

template <int N> DEVICE void do_row(one_row &r, float scale, float zero)
{
    const u32 most = largest_key<N>(r);
    const float real = __fmul_rn(scale, __fsub_rn((float)(BYTE)(u8)(most ^ r.flip), zero));
    r.share = 1.0f / sum_of<N>(r, most);
    if (!(fabsf(real) <= 3.402823466e38f))
        r.share = __uint_as_float(0x7fc00000u); // the row is NaN
    put_row<N>(r, most);
}

template <int N> DEVICE void do_rows(const softmax &a)
{
    const u32 teams = THREADS / TEAM;
    const float scale = *a.scale, zero = a.zero ? (float)*a.zero : 0.0f;
    const u32 key = ((BYTE)-1 < 0 ? 0x80u : 0u) ^ (scale < 0 ? 0xffu : 0u);
    one_row r;
    r.at = threadIdx.x % TEAM;
    r.flip = key * 0x01010101u;
    r.by = fminf(fabsf(scale) * 1.4426950408889634f, 1e30f); // so that 0 times it is 0
    r.scale = *a.y_scale;
    r.zero = a.y_zero ? (float)*a.y_zero : 0.0f;
    for (u64 first = (u64)blockIdx.x * teams; first < a.rows; first += (u64)gridDim.x * teams) {
        const u64 row = first + threadIdx.x / TEAM;
        r.x = a.x + row * a.n;
        r.y = a.y + row * a.n;
        r.n = row < a.rows ? a.n : 0;
        do_row<N>(r, scale, zero);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) quantise_softmax(const softmax a)
{
    if (((u64)a.x | (u64)a.y) % RUN == 0)
        do_rows<RUN>(a);
    else
        do_rows<1>(a);
}
