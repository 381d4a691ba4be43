// linear_attention.cu -- a state per head, token after token: a thread has a column of it, in registers.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X, S (elements of operands, of states), KEYS (rows of a state), READERS (heads that read one state),
// GATED, DELTA.
#include "common.cuh"
#include "elements.cuh"
#define WIDE 1
#include "nest.cuh"

struct arguments {
    const X *q, *k, *v;
    const S *past; // NULL: zeros
    const X *decay, *beta;
    X *y;       // NULL: nobody reads it
    S *present; // likewise
    u64 batch, len, q_heads, kv_heads, out_heads, v_size;
    u64 decay_cols, beta_cols, window; // states that are kept
    float scale;
};

// This thread's column of a state; `one` counts them through batches and heads.
DEVICE void keep(const arguments &a, u64 slot, u64 one, u64 column, const float *s)
{
    S *to = a.present + (slot * a.batch * a.kv_heads + one) * KEYS * a.v_size + column;
#pragma unroll
    for (int d = 0; d < KEYS; d++)
        to[d * a.v_size] = element<S>::put(s[d]);
}

extern "C" __global__ void __launch_bounds__(128) linear_attention(const arguments a)
{
    __shared__ float key[KEYS], query[READERS][KEYS], factor[KEYS];
    const u64 one = blockIdx.x, h = one % a.kv_heads, b = one / a.kv_heads;
    const u64 column = (u64)blockIdx.y * blockDim.x + threadIdx.x;
    const bool mine = column < a.v_size;
    float s[KEYS];
#pragma unroll
    for (int d = 0; d < KEYS; d++)
        s[d] = mine && a.past ? get<float, S>(a.past[(((a.window - 1) * a.batch * a.kv_heads + one) * KEYS + d) * a.v_size +
                                                     column])
                              : 0.0f;
    for (u64 t = 0; t < a.len; t++) {
        const u64 token = b * a.len + t;
        __syncthreads(); // the last token's are read
        for (int d = threadIdx.x; d < KEYS; d += blockDim.x) {
            key[d] = get<float, X>(a.k[(token * a.kv_heads + h) * KEYS + d]);
#pragma unroll
            for (int r = 0; r < READERS; r++) {
                const u64 from = (h * READERS + r) * a.q_heads / a.out_heads;
                query[r][d] = get<float, X>(a.q[(token * a.q_heads + from) * KEYS + d]);
            }
#if GATED
            const u64 at = a.decay_cols == a.kv_heads ? h : h * KEYS + d;
            factor[d] = expf(get<float, X>(a.decay[token * a.decay_cols + at]));
#endif
        }
        __syncthreads();
        if (mine) {
            float v = get<float, X>(a.v[(token * a.kv_heads + h) * a.v_size + column]);
#if GATED
#pragma unroll
            for (int d = 0; d < KEYS; d++)
                s[d] *= factor[d];
#endif
#if DELTA
            float known = 0;
#pragma unroll
            for (int d = 0; d < KEYS; d++)
                known = fmaf(key[d], s[d], known);
            v = (v - known) * get<float, X>(a.beta[token * a.beta_cols + (a.beta_cols == 1 ? 0 : h)]);
#endif
#pragma unroll
            for (int d = 0; d < KEYS; d++)
                s[d] = fmaf(key[d], v, s[d]);
            for (int r = 0; a.y && r < READERS; r++) {
                float sum = 0;
#pragma unroll
                for (int d = 0; d < KEYS; d++)
                    sum = fmaf(query[r][d], s[d], sum);
                a.y[(token * a.out_heads + h * READERS + r) * a.v_size + column] = element<X>::put(a.scale * sum);
            }
            if (a.present && t + a.window >= a.len && t + 1 < a.len)
                keep(a, a.window - a.len + t, one, column, s);
        }
    }
    if (mine && a.present)
        keep(a, a.window - 1, one, column, s);
}
