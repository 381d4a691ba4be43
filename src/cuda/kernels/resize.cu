// resize.cu -- nearest elements, or sums of weighted ones, along up to three axes.
// SPDX-License-Identifier: Apache-2.0
//
// Sources and weights of every position are a table in device memory.
// Generated before this: `after` (a program), and
//   NUMBER, SUM   what is computed with, and what is added up in
//   INPUT, OUTPUT; COPY (elements are moved, not computed with)
//   RANK          axes, outermost of the output first; RESIZED: how many of them are, PLACE(X): X(slot, axis)
//   RUN           elements of the innermost axis at once; STORED: by one instruction
//   ACROSS        the slot of the innermost axis, -1: it is not resized; SLOT: the same or 0
//   TAPS(slot)
//   ROWS          the two innermost axes are resized: lines of the input are made, then rows of those
//   AFTER(X), N_AFTER, AFTER_OPERANDS, WIDE (nest.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

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
    axis in_width; // ROWS
    float extrapolation;
};

// Element i of a run has a place of its own along the innermost axis where that is resized.
DEVICE i64 entry(const arguments &a, const i64 *place, int slot, i64 tap, int i)
{
    return tap * a.size[slot] + place[slot] + (slot == ACROSS ? i : 0);
}

// A source of weight 0 is not read.
template <int N>
DEVICE void add_taps(const arguments &a, const i64 *place, const i64 *step, i64 from, const i64 *t, SUM *sum)
{
    float weight[N];
    i64 source[N];
    INPUT v[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        weight[i] = 1;
        source[i] = from;
#pragma unroll
        for (int k = 0; k < RESIZED; k++) {
            const i64 w = entry(a, place, k, t[k], i);
            const int at = a.table[a.from[k] + w];
            weight[i] *= at < 0 ? 0.0f : __int_as_float(a.table[a.weight[k] + w]);
            source[i] += at * step[k];
        }
    }
    if (ACROSS < 0 && weight[0] == 0)
        return;
    if (ACROSS < 0)
        load_run<true, INPUT, N>((const INPUT *)a.in.data + source[0], v);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (ACROSS >= 0 && weight[i] == 0)
            continue;
        if (ACROSS >= 0)
            v[i] = ((const INPUT *)a.in.data)[source[i]];
        sum[i] += (SUM)weight[i] * (SUM)get<NUMBER, INPUT>(v[i]);
    }
}

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
#define FIND(slot, d)                                                                              \
    place[slot] = at[d];                                                                           \
    step[slot] = a.in.stride[d];                                                                   \
    from -= at[d] * a.in.stride[d];
    PLACE(FIND)
#if COPY
    INPUT v[N];
#pragma unroll
    for (int k = 0; k < RESIZED; k++)
        from += k == ACROSS ? 0 : a.table[a.from[k] + place[k]] * step[k];
    if (ACROSS < 0)
        load_run<true, INPUT, N>((const INPUT *)a.in.data + from, v);
#pragma unroll
    for (int i = 0; i < N && ACROSS >= 0; i++)
        v[i] = ((const INPUT *)a.in.data)[from + a.table[a.from[SLOT] + place[SLOT] + i] * step[SLOT]];
    store_run<true, INPUT, N>((INPUT *)a.out.data + to, v);
#else
    const i64 taps[3] = {TAPS(0), TAPS(1), TAPS(2)};
    SUM sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = 0;
    for (i64 t0 = 0; t0 < taps[0]; t0++)
        for (i64 t1 = 0; t1 < taps[1]; t1++)
            for (i64 t2 = 0; t2 < taps[2]; t2++) {
                const i64 t[3] = {t0, t1, t2};
                add_taps<N>(a, place, step, from, t, sum);
            }
    OUTPUT result[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        NUMBER o[AFTER_OPERANDS + 1], r[1];
        bool outside = false;
#pragma unroll
        for (int k = 0; k < RESIZED; k++)
            outside |= a.table[a.from[k] + entry(a, place, k, 0, i)] < 0;
        if (outside)
            sum[i] = (SUM)a.extrapolation;
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
    if (STORED)
        store_run<true, OUTPUT, STORED ? N : 1>((OUTPUT *)a.out.data + to, result);
    else
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
    bool aligned = a.runs_fit;
    if (ACROSS < 0)
        aligned &= (u64)a.in.data % (sizeof(INPUT) * RUN) == 0;
    if (STORED)
        aligned &= (u64)a.out.data % (sizeof(OUTPUT) * RUN) == 0;
    if (RUN > 1 && aligned)
        resize_all<RUN>(a);
    else
        resize_all<1>(a);
}

#if ROWS
enum { MOST_ROWS = 32, ROOM = 4096 }; // of a block; elements of its lines

DEVICE SUM weighted(const arguments &a, int slot, i64 w, const SUM *line)
{
    const int at = a.table[a.from[slot] + w];
    const float weight = at < 0 ? 0.0f : __int_as_float(a.table[a.weight[slot] + w]);
    return weight == 0 ? (SUM)0 : (SUM)weight * line[at];
}

DEVICE SUM weighted_line(const arguments &a, i64 w, const INPUT *from)
{
    const int at = a.table[a.from[0] + w];
    const float weight = at < 0 ? 0.0f : __int_as_float(a.table[a.weight[0] + w]);
    return weight == 0 ? (SUM)0 : (SUM)weight * (SUM)get<NUMBER, INPUT>(from[at * a.in.stride[RANK - 2]]);
}

extern "C" __global__ void __launch_bounds__(256) resize_rows(const __grid_constant__ arguments a)
{
    __shared__ SUM lines[ROOM];
    __shared__ i64 from_row[MOST_ROWS], to_row[MOST_ROWS];
    __shared__ int place[MOST_ROWS]; // along the rows' axis
    const u32 in_width = size_of(a.in_width), width = size_of(a.dims[RANK - 1]);
    const u32 most = ROOM / in_width < MOST_ROWS ? ROOM / in_width : MOST_ROWS;
    const u64 rows = a.outputs / width;
    for (u64 first = (u64)blockIdx.x * most; first < rows; first += (u64)gridDim.x * most) {
        const u32 here = rows - first < most ? (u32)(rows - first) : most;
        __syncthreads(); // the rows before have been written
        if (threadIdx.x < here) {
            index rest = (index)(first + threadIdx.x);
            i64 from = 0, to = 0;
#pragma unroll
            for (int d = RANK - 2; d >= 0; d--) {
                const index q = d ? quotient(rest, a.dims[d]) : 0;
                const i64 at = rest - q * size_of(a.dims[d]);
                rest = q;
                to += at * a.out.stride[d];
                if (d == RANK - 2)
                    place[threadIdx.x] = (int)at;
                else
                    from += at * a.in.stride[d];
            }
            from_row[threadIdx.x] = from;
            to_row[threadIdx.x] = to;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < here * in_width; i += blockDim.x) {
            const u32 row = quotient(i, a.in_width), x = i - row * in_width;
            const INPUT *from = (const INPUT *)a.in.data + from_row[row] + x;
            SUM sum = 0;
            for (i64 t = 0; t < TAPS(0); t++)
                sum += weighted_line(a, t * a.size[0] + place[row], from);
            lines[i] = sum;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < here * width; i += blockDim.x) {
            const u32 row = quotient(i, a.dims[RANK - 1]), x = i - row * width;
            SUM sum = 0;
            for (i64 t = 0; t < TAPS(1); t++)
                sum += weighted(a, 1, t * a.size[1] + x, lines + row * in_width);
            if (a.table[a.from[0] + place[row]] < 0 || a.table[a.from[1] + x] < 0)
                sum = (SUM)a.extrapolation;
            NUMBER o[1], r[1];
            after((NUMBER)sum, o, r);
            ((OUTPUT *)a.out.data)[to_row[row] + x] = element<OUTPUT>::put(r[0]);
        }
    }
}
#endif
