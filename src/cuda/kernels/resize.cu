// resize.cu -- nearest elements, or sums of weighted ones, along up to three axes.
// SPDX-License-Identifier: Apache-2.0
//
// Sources and weights of every position are a table in device memory, which `resize_table` writes from its argument.
// Generated before this: `after` (a program), and
//   NUMBER, SUM   what is computed with, and what is added up in
//   INPUT, OUTPUT; COPY (elements are moved, not computed with)
//   RANK          axes, outermost of the output first; RESIZED: how many of them are, PLACE(X): X(slot, axis)
//   RUN           elements of the innermost axis at once
//   AFTER(X), N_AFTER, AFTER_OPERANDS, WIDE (nest.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct chunk {
    u32 *to;
    u64 n;
    u32 words[CHUNK];
};
extern "C" __global__ void __launch_bounds__(256) resize_table(const __grid_constant__ chunk c)
{
    for (u32 i = threadIdx.x; i < c.n; i += blockDim.x)
        c.to[i] = c.words[i];
}

#ifdef RANK
struct operand {
    void *data;
    i64 stride[RANK];
};
struct arguments {
    operand in, out, after[N_AFTER + 1];
    axis dims[RANK], inner_runs;
    const int *table;
    i64 from[3], weight[3], taps[3], size[3]; // of the resized axes: places in the table; positions
    u64 outputs, runs_fit;
    float extrapolation;
};

template <int N> DEVICE void resize_some(const arguments &a, index u)
{
    i64 at[RANK], place[3] = {0, 0, 0}, step[3] = {0, 0, 0}, from = 0, to = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        const bool runs = N > 1 && d == RANK - 1;
        const axis size = runs ? a.inner_runs : a.dims[d];
        index rest = d ? quotient(u, size) : 0;
        at[d] = (i64)(u - rest * size_of(size)) * (runs ? N : 1);
        u = rest;
        to += at[d] * a.out.stride[d];
        from += at[d] * a.in.stride[d];
    }
    bool outside = false;
#define FIND(slot, d)                                                                              \
    place[slot] = at[d];                                                                           \
    step[slot] = a.in.stride[d];                                                                   \
    from -= at[d] * a.in.stride[d];                                                                \
    outside |= a.table[a.from[slot] + at[d]] < 0;
    PLACE(FIND)
    INPUT v[N];
#if COPY
#pragma unroll
    for (int k = 0; k < RESIZED; k++)
        from += a.table[a.from[k] + place[k]] * step[k];
    load_run<true, INPUT, N>((const INPUT *)a.in.data + from, v);
    store_run<true, INPUT, N>((INPUT *)a.out.data + to, v);
#else
    SUM sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = outside ? (SUM)a.extrapolation : (SUM)0;
    const i64 taps[3] = {RESIZED > 0 ? a.taps[0] : 1, RESIZED > 1 ? a.taps[1] : 1,
                         RESIZED > 2 ? a.taps[2] : 1};
    for (i64 t0 = 0; t0 < taps[0] && !outside; t0++)
        for (i64 t1 = 0; t1 < taps[1]; t1++)
            for (i64 t2 = 0; t2 < taps[2]; t2++) {
                const i64 t[3] = {t0, t1, t2};
                float weight = 1;
                i64 source = from;
#pragma unroll
                for (int k = 0; k < RESIZED; k++) {
                    i64 w = t[k] * a.size[k] + place[k];
                    weight *= __int_as_float(a.table[a.weight[k] + w]);
                    source += a.table[a.from[k] + w] * step[k];
                }
                if (weight == 0)
                    continue; // a source of weight 0 is not read
                load_run<true, INPUT, N>((const INPUT *)a.in.data + source, v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[i] += (SUM)weight * (SUM)get<NUMBER, INPUT>(v[i]);
            }
    OUTPUT result[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        NUMBER o[AFTER_OPERANDS + 1], r[1];
#define GET_AFTER(slot, k, E)                                                                      \
    {                                                                                              \
        i64 w = i * a.after[slot].stride[RANK - 1];                                                \
        for (int d = 0; d < RANK; d++)                                                             \
            w += at[d] * a.after[slot].stride[d];                                                  \
        o[k] = get<NUMBER, E>(((const E *)a.after[slot].data)[w]);                                 \
    }
        AFTER(GET_AFTER)
        after((NUMBER)sum[i], o, r);
        result[i] = element<OUTPUT>::put(r[0]);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        ((OUTPUT *)a.out.data)[to + i * a.out.stride[RANK - 1]] = result[i];
#endif
}

template <int N> DEVICE void resize_all(const arguments &a)
{
    const index n = (index)(a.outputs / N);
    for (index u = first_index(); u < n; u += all_threads())
        resize_some<N>(a, u);
}

extern "C" __global__ void __launch_bounds__(256) resize(const __grid_constant__ arguments a)
{
    bool aligned = a.runs_fit && (u64)a.in.data % (sizeof(INPUT) * RUN) == 0;
    if (COPY)
        aligned &= (u64)a.out.data % (sizeof(INPUT) * RUN) == 0;
    if (RUN > 1 && aligned)
        resize_all<RUN>(a);
    else
        resize_all<1>(a);
}
#endif
