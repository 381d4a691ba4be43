// attention_weights.cuh -- what attention_wgmma.cu makes of products, in the registers that hold them: scores, then weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef FILL
#define FORBIDDEN a.mask_value
#else
#define FORBIDDEN -INFINITE
#endif

// Of a thread's two rows: l / 4 and 8 further, of its warp's 16.
struct two_rows {
    float most[2], sum[2];
    masks mask[2];
    int fewest; // keys that both of the rows see
};

#if KEYED
// What becomes of the scores of a key, whatever the query: they are multiplied, and added to. Two tiles of each group.
__shared__ __align__(16) float2 by_key[GROUPS][2][BLOCK_KEYS];

DEVICE void find_by_key(const attention_args &a, const two_rows &w, int tile)
{
    masks m = w.mask[0];
    m.sees = a.total; // causality is the rows' own
    for (int i = threadIdx.x % 128; i < BLOCK_KEYS; i += 128) {
        int key = tile * BLOCK_KEYS + i;
        bool part = key < a.total && takes_part(a, m, key);
        by_key[threadIdx.x / 128][tile / PARTS % 2][i] =
            make_float2(part ? 1.0f : 0.0f, key < a.total ? score_of(a, m, key, 0.0f) : -INFINITE);
    }
    TEAM_SYNC();
}

// Products become scores.
DEVICE void mask_scores(const attention_args &a, const share &h, const two_rows &w, int first,
                        float (&s)[BLOCK_KEYS / 2])
{
    int lane = threadIdx.x % 4 * 2;
    const float2 *by = by_key[threadIdx.x / 128][first / BLOCK_KEYS / PARTS % 2] + lane;
#pragma unroll
    for (int i = 0; i < BLOCK_KEYS / 2; i += 4) {
        float4 f = *(const float4 *)(by + i * 2);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float v = s[i + k] * a.scale;
#ifdef SOFTCAP
            v = capped(v, a.softcap);
#endif
            s[i + k] = v * (k % 2 ? f.z : f.x) + (k % 2 ? f.w : f.y);
#ifdef CAUSAL
            if (first + lane + i * 2 + k % 2 >= w.mask[k / 2].sees)
                s[i + k] = FORBIDDEN;
#endif
        }
    }
}
#else
// Products become scores.
DEVICE void mask_scores(const attention_args &a, const share &h, const two_rows &w, int first,
                        float (&s)[BLOCK_KEYS / 2])
{
    int key = first + threadIdx.x % 4 * 2;
#if PLAIN
    if (first + BLOCK_KEYS <= w.fewest)
        return;
#endif
#pragma unroll
    for (int i = 0; i < BLOCK_KEYS / 2; i++) {
        int k = key + i / 4 * 8 + i % 2;
        const masks &m = w.mask[i / 2 % 2];
#if PLAIN
        if (k >= m.sees)
            s[i] = -INFINITE;
#else
        s[i] = k < h.to ? score_of(a, m, k, s[i] * a.scale) : -INFINITE;
#endif
    }
}

#endif

// Scores become weights; factor: what was summed up is to be multiplied by.
DEVICE void soften(const attention_args &a, float (&s)[BLOCK_KEYS / 2], two_rows &w, float (&factor)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = w.most[r], sum = 0;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_KEYS / 2; i += 4)
            most = fmaxf(most, fmaxf(s[i], s[i + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        float base = most == -INFINITE ? 0.0f : most;
        factor[r] = weight_of(a, w.most[r], base);
        w.most[r] = most;
#pragma unroll
        for (int i = 2 * r; i < BLOCK_KEYS / 2; i += 4) {
            s[i] = weight_of(a, s[i], base);
            s[i + 1] = weight_of(a, s[i + 1], base);
            sum += s[i] + s[i + 1];
        }
        w.sum[r] = w.sum[r] * factor[r] + sum;
    }
}

DEVICE void shorten(const float (&s)[BLOCK_KEYS / 2], u32 (&p)[BLOCK_KEYS / 4])
{
#pragma unroll
    for (int i = 0; i < BLOCK_KEYS / 4; i++)
        p[i] = pair_of<QT>(s[2 * i], s[2 * i + 1]);
}
