// gqa.cu -- grouped attention over a cache: new keys and values are put into it, then each query goes over the keys that it sees.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X, S (elements of operands, of caches), SIZE (of a head), ROTATED (columns of it, 0: none), INTERLEAVED,
// CAUSAL, SMOOTH.
#include "common.cuh"
#include "elements.cuh"
#define WIDE 1
#include "nest.cuh"

struct arguments {
    const X *q, *k, *v;
    const S *past_k, *past_v; // NULL: none
    const i32 *lengths, *total;
    const X *cos, *sin;
    const i64 *positions;          // NULL: one after the other behind the past
    const X *sink;                 // NULL: none
    const X *q_norm, *k_norm;      // NULL: none
    X *y;
    S *present_k, *present_v;
    float *queries; // [batch, len, heads, size], rotated
    u64 batch, len, heads, kv_heads, past, rows, angles;
    u64 q_row, k_row; // from one token to the next
    i64 left;
    float scale, softcap, epsilon;
    u32 *fault;
    u64 fault_code;
};

// Keys of sequence b before the new ones, and those that count; false: they make no sense.
DEVICE bool read_lengths(const arguments &a, u64 b, i64 &before, i64 &valid)
{
    const i64 n = (i64)a.lengths[b] + 1, total = *a.total;
    before = total == (i64)a.len ? 0 : n - (i64)a.len;
    valid = CAUSAL ? before + (i64)a.len : n;
    const bool good = total >= (i64)a.len && total <= (i64)a.rows && n >= 0 && n <= total && before >= 0 && before <= (i64)a.past;
    if (!good)
        *a.fault = (u32)a.fault_code;
    return good;
}

DEVICE float sum_of_warp(float v)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// A head of a token, normalised and rotated, by a warp: element `lane` + 32 i in out[i].
enum { EACH = (SIZE + 31) / 32 };
DEVICE void prepare(const arguments &a, const X *x, const X *norm, u64 b, u64 t, i64 before, float *out)
{
    const int lane = threadIdx.x & 31;
    float factor = 1;
    if (norm) {
        float sum = 0;
        for (int i = lane; i < SIZE; i += 32)
            sum += get<float, X>(x[i]) * get<float, X>(x[i]);
        factor = 1 / sqrtf(sum_of_warp(sum) / SIZE + a.epsilon);
    }
    i64 row = 0;
#if ROTATED
    row = a.positions ? a.positions[b * a.len + t] : before + (i64)t;
    if (row < 0 || row >= (i64)a.angles) {
        *a.fault = (u32)a.fault_code;
        row = 0;
    }
#endif
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int c = lane + 32 * i;
        if (c >= SIZE)
            continue;
        float v = get<float, X>(x[c]) * factor * (norm ? get<float, X>(norm[c]) : 1.0f);
#if ROTATED
        if (c < ROTATED) {
            const int half = ROTATED / 2;
            const bool first = INTERLEAVED ? c % 2 == 0 : c < half;
            const int other = INTERLEAVED ? c ^ 1 : first ? c + half : c - half;
            const int pair = INTERLEAVED ? c / 2 : c % half;
            const float w = get<float, X>(x[other]) * factor * (norm ? get<float, X>(norm[other]) : 1.0f);
            const float cosine = get<float, X>(a.cos[row * half + pair]), sine = get<float, X>(a.sin[row * half + pair]);
            v = first ? cosine * v - sine * w : cosine * v + sine * w;
        }
#endif
        out[i] = v;
    }
}

// Warps over queries of all tokens and heads, then over rows of the caches.
extern "C" __global__ void __launch_bounds__(256) gqa_place(const arguments a)
{
    const u64 n_queries = a.batch * a.len * a.heads, n_rows = a.batch * a.kv_heads * a.rows;
    const int lane = threadIdx.x & 31;
    for (u64 w = first_index() / 32; w < n_queries + n_rows; w += all_threads() / 32) {
        const bool query = w < n_queries;
        const u64 u = query ? w : w - n_queries;
        const u64 b = u / (query ? a.len * a.heads : a.kv_heads * a.rows);
        i64 before, valid;
        float out[EACH];
        if (!read_lengths(a, b, before, valid))
            continue;
        if (query) {
            const u64 h = u % a.heads, t = u / a.heads % a.len;
            prepare(a, a.q + (b * a.len + t) * a.q_row + h * SIZE, a.q_norm, b, t, before, out);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (lane + 32 * i < SIZE)
                    a.queries[u * SIZE + lane + 32 * i] = out[i];
            continue;
        }
        const u64 r = u % a.rows, h = u / a.rows % a.kv_heads, old = ((b * a.kv_heads + h) * a.past + r) * SIZE;
        const i64 t = (i64)r - before;
        const bool fresh = t >= 0 && t < (i64)a.len;
        const u64 token = (b * a.len + (fresh ? (u64)t : 0)) * a.k_row + h * SIZE;
        if (fresh)
            prepare(a, a.k + token, a.k_norm, b, (u64)t, before, out);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int c = lane + 32 * i;
            if (c >= SIZE)
                continue;
            const bool kept = t < 0 && a.past_k;
            S key = element<S>::put(fresh ? out[i] : 0.0f);
            S value = element<S>::put(fresh ? get<float, X>(a.v[token + c]) : 0.0f);
            if (kept) {
                key = a.past_k[old + c];
                value = a.past_v[old + c];
            }
            a.present_k[u * SIZE + c] = key;
            a.present_v[u * SIZE + c] = value;
        }
    }
}

enum { THREADS = 128, COLUMNS = (SIZE + THREADS - 1) / THREADS };

// Of all threads.
template <bool MOST> DEVICE float all_of_block(float v, float *room)
{
    __syncthreads();
    room[threadIdx.x] = v;
    __syncthreads();
    for (int d = THREADS / 2; d > 0; d /= 2) {
        if (threadIdx.x < d)
            room[threadIdx.x] = MOST ? fmaxf(room[threadIdx.x], room[threadIdx.x + d])
                                     : room[threadIdx.x] + room[threadIdx.x + d];
        __syncthreads();
    }
    return room[0];
}

// A block for a query of a head: as many keys at a time as there are threads.
extern "C" __global__ void __launch_bounds__(THREADS) gqa_attend(const arguments a)
{
    __shared__ float query[SIZE], score[THREADS], room[THREADS];
    const float none = __uint_as_float(0xff800000u);
    for (u64 u = blockIdx.x; u < a.batch * a.len * a.heads; u += gridDim.x) {
        const u64 h = u % a.heads, t = u / a.heads % a.len, b = u / a.heads / a.len;
        const u64 head = (b * a.kv_heads + h / (a.heads / a.kv_heads)) * a.rows * SIZE;
        i64 before, valid;
        if (!read_lengths(a, b, before, valid)) // the same in all threads
            continue;
        __syncthreads();
        for (int c = threadIdx.x; c < SIZE; c += THREADS)
            query[c] = a.queries[u * SIZE + c];
        __syncthreads();
        const i64 place = before + (i64)t, end = CAUSAL && place + 1 < valid ? place + 1 : valid;
        const i64 begin = a.left >= 0 && place - a.left > 0 ? place - a.left : 0;
        float most = none, sum = 0, acc[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            acc[i] = 0;
        for (i64 j0 = begin; j0 < end; j0 += THREADS) {
            const i64 j = j0 + threadIdx.x;
            float s = none;
            if (j < end) {
                s = 0;
                for (int c = 0; c < SIZE; c++)
                    s = fmaf(query[c], get<float, S>(a.present_k[head + j * SIZE + c]), s);
                s *= a.scale;
                if (a.softcap > 0)
                    s = a.softcap * tanhf(s / a.softcap);
            }
            const float now = fmaxf(most, all_of_block<true>(s, room)), fade = most == none ? 0.0f : expf(most - now);
            const float p = s == none ? 0.0f : expf(s - now);
            sum = sum * fade + all_of_block<false>(p, room);
            most = now;
            score[threadIdx.x] = p;
            __syncthreads();
            const int n = end - j0 < THREADS ? (int)(end - j0) : THREADS;
#pragma unroll
            for (int i = 0; i < COLUMNS; i++) {
                const int c = threadIdx.x + i * THREADS;
                acc[i] *= fade;
                for (int k = 0; c < SIZE && k < n; k++)
                    if (score[k] != 0) // nothing of a value that is not finite
                        acc[i] = fmaf(score[k], get<float, S>(a.present_v[head + (j0 + k) * SIZE + c]), acc[i]);
            }
        }
        if (SMOOTH || a.sink) {
            const float sink = a.sink ? get<float, X>(a.sink[h]) : 0.0f, now = fmaxf(most, sink);
            const float fade = most == none ? 0.0f : expf(most - now);
            sum = sum * fade + expf(sink - now);
#pragma unroll
            for (int i = 0; i < COLUMNS; i++)
                acc[i] *= fade;
        }
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            if (threadIdx.x + i * THREADS < SIZE)
                a.y[u * SIZE + threadIdx.x + i * THREADS] = element<X>::put(sum > 0 ? acc[i] / sum : sum);
    }
}
