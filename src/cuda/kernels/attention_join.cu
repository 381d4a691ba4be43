// attention_join.cu -- around attention: parts of the keys joined, past and fresh keys (or values) as one.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#define BLOCK_ROWS 1
#include "attention.cuh"

#ifdef SPLITS
// A block to a row.
extern "C" __global__ void __launch_bounds__(THREADS) join_parts(const __grid_constant__ attention_args a)
{
    int rows = a.rep * a.q_len, unit = blockIdx.x / rows, row = blockIdx.x % rows;
    float most = -INFINITE, sum = 0;
    for (int s = 0; s < a.splits; s++)
        most = fmaxf(most, part_stats(a, unit, row, s)[0]);
    float base = most == -INFINITE ? 0.0f : most;
    for (int s = 0; s < a.splits; s++) {
        const float *stats = part_stats(a, unit, row, s);
        sum += stats[1] * exp2f((stats[0] - base) * a.unit);
    }
    query q = query_of(a, unit, row);
    bool good = is_good(sum);
    for (int d = threadIdx.x; d < a.v_head_size; d += THREADS) {
        float v = 0;
        for (int s = 0; s < a.splits; s++)
            v += part_of(a, unit, row, s)[d] *
                 exp2f((part_stats(a, unit, row, s)[0] - base) * a.unit);
        v /= sum;
        good = good && fabsf(v) < INFINITE;
        put(a, q, d, v);
    }
    if (__syncthreads_or(!good))
        slow_row(a, unit, row);
}
#endif

// [batch, head, position, element], blocks of x along the last two. `values`: of values, else of keys.
template <class T>
DEVICE void copy_unit(const attention_args &a, const void *fresh, const heads &at, const void *past,
                      const heads &at_past, void *to, int size)
{
    int unit = blockIdx.y;
    T *out = (T *)to + (i64)unit * a.total * size;
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < (i64)a.total * size;
         i += (i64)gridDim.x * THREADS) {
        int s = (int)(i / size), d = (int)(i % size);
        out[i] = key_row<T>(fresh, at, past, at_past, a, unit, s)[d * key_step(at, at_past, a, s)];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) join_keys(const __grid_constant__ attention_args a)
{
    copy_unit<KT>(a, a.k, a.at_k, a.past_k, a.at_past_k, a.present_k, a.head_size);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    join_values(const __grid_constant__ attention_args a)
{
    copy_unit<VT>(a, a.v, a.at_v, a.past_v, a.at_past_v, a.present_v, a.v_head_size);
}
