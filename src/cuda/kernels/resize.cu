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
//   LINES         the same where taps are few and known; threads keep to their columns, whose taps they hold
//   FEW_TAPS      of every axis, and the innermost one is not resized
//   OUTSIDE       some positions are outside the input
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

#if FEW_TAPS
// The same of all taps where they are few, and runs are read as such: what the table tells is read once.
template <int N>
DEVICE void add_few_taps(const arguments &a, const i64 *place, const i64 *step, i64 from, SUM *sum)
{
    enum { FIRST = TAPS(0), SECOND = TAPS(1), THIRD = TAPS(2), OTHERS = SECOND * THIRD, MOST = 4 };
    i64 source[3][MOST];
    float weight[3][MOST];
#pragma unroll
    for (int k = 0; k < 3; k++)
#pragma unroll
        for (int t = 0; t < MOST; t++) {
            source[k][t] = 0;
            weight[k][t] = 1;
            if (k >= RESIZED || t >= (TAPS(k)))
                continue;
            const i64 w = t * a.size[k] + place[k];
            const int at = a.table[a.from[k] + w];
            weight[k][t] = at < 0 ? 0.0f : __int_as_float(a.table[a.weight[k] + w]);
            source[k][t] = at * step[k];
        }
#pragma unroll
    for (int t = 0; t < FIRST; t++) {
        INPUT v[OTHERS][N];
        float all[OTHERS];
#pragma unroll
        for (int o = 0; o < OTHERS; o++) {
            all[o] = weight[0][t] * weight[1][o / THIRD] * weight[2][o % THIRD];
            if (all[o] != 0)
                load_run<true, INPUT, N>((const INPUT *)a.in.data + from + source[0][t] +
                                             source[1][o / THIRD] + source[2][o % THIRD],
                                         v[o]);
        }
#pragma unroll
        for (int o = 0; o < OTHERS; o++)
#pragma unroll
            for (int i = 0; i < N; i++)
                if (all[o] != 0)
                    sum[i] += (SUM)all[o] * (SUM)get<NUMBER, INPUT>(v[o][i]);
    }
}
#endif

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
    SUM sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = 0;
#if FEW_TAPS
    add_few_taps<N>(a, place, step, from, sum);
#else
    const i64 taps[3] = {TAPS(0), TAPS(1), TAPS(2)};
    for (i64 t0 = 0; t0 < taps[0]; t0++)
        for (i64 t1 = 0; t1 < taps[1]; t1++)
            for (i64 t2 = 0; t2 < taps[2]; t2++) {
                const i64 t[3] = {t0, t1, t2};
                add_taps<N>(a, place, step, from, t, sum);
            }
#endif
    OUTPUT result[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        NUMBER o[AFTER_OPERANDS + 1], r[1];
        bool outside = false;
#pragma unroll
        for (int k = 0; k < RESIZED && OUTSIDE; k++)
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

#if LINES
enum { DOWN = TAPS(0), ACROSS_TAPS = TAPS(1), AT_ONCE = COPY && sizeof(INPUT) < 8 ? 4 : 2, READ = sizeof(INPUT) < 8 ? 4 : 2 };
enum { MOST_LINES = 32, LINE_ROOM = 4096 + READ * MOST_LINES }; // of a block; elements of them, and zeros behind each

// From line to line: of whole runs, with a zero at least.
DEVICE u32 pitch_of(u32 width) { return (width + READ) / READ * READ; }

// A row of the output: where it is, and the lines of the input that it is made of.
struct line {
    i64 to, from[DOWN];
    float weight[DOWN];
    bool outside;
};

DEVICE void find_line(const arguments &a, index row, line &l)
{
    i64 from = 0;
    l.to = 0;
#pragma unroll
    for (int d = RANK - 2; d >= 0; d--) {
        const index q = d ? quotient(row, a.dims[d]) : 0;
        const i64 at = row - q * size_of(a.dims[d]);
        row = q;
        l.to += at * a.out.stride[d];
        if (d < RANK - 2) {
            from += at * a.in.stride[d];
            continue;
        }
        l.outside = a.table[a.from[0] + at] < 0;
#pragma unroll
        for (int t = 0; t < DOWN; t++) {
            const int source = a.table[a.from[0] + t * a.size[0] + at];
            l.weight[t] = source < 0 ? 0.0f : __int_as_float(a.table[a.weight[0] + t * a.size[0] + at]);
            l.from[t] = (source < 0 ? 0 : source) * a.in.stride[RANK - 2];
        }
    }
#pragma unroll
    for (int t = 0; t < DOWN; t++)
        l.from[t] += from;
}

// Threads side by side have columns (of N elements) side by side, and every `ways`-th row.
struct columns {
    u32 side, ways, way, first;
};
DEVICE columns columns_of(u32 n)
{
    columns c;
    c.side = n < blockDim.x ? n : blockDim.x;
    c.ways = blockDim.x / c.side;
    c.way = threadIdx.x / c.side;
    c.first = c.way < c.ways ? threadIdx.x - c.way * c.side : n;
    return c;
}

#if !COPY
// Lines of sums down the columns of the input, each with a zero behind it. A source of weight 0, which may be infinite, is
// not read.
template <int N> DEVICE void make_lines(const arguments &a, const line *lines, u32 here, SUM *to)
{
    const u32 width = size_of(a.in_width), pitch = pitch_of(width);
    const columns c = columns_of(width / N);
    for (u32 row = threadIdx.x; row < here; row += blockDim.x)
        to[row * pitch + width] = 0;
    for (u32 x = c.first; x < width / N; x += c.side) {
        const INPUT *from = (const INPUT *)a.in.data + x * N;
#pragma unroll 2
        for (u32 row = c.way; row < here; row += c.ways) {
            SUM *line_to = to + row * pitch + x * N;
            INPUT v[DOWN][N];
            SUM sum[N];
#pragma unroll
            for (int t = 0; t < DOWN; t++) {
                const float w = lines[row].weight[t];
#pragma unroll
                for (int k = 0; k < N; k++)
                    v[t][k] = element<INPUT>::put((NUMBER)0);
                if (w != 0)
                    load_run<true, INPUT, N>(from + lines[row].from[t], v[t]);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[k] = (t ? sum[k] : (SUM)0) + (SUM)w * (SUM)get<NUMBER, INPUT>(v[t][k]);
            }
            store_run<N * sizeof(SUM) <= 16, SUM, N * sizeof(SUM) <= 16 ? N : 1>(line_to, sum);
#pragma unroll
            for (int k = 1; k < N && N * sizeof(SUM) > 16; k++)
                line_to[k] = sum[k];
        }
    }
}
#endif

// N neighbours of each of the rows. Taps of weight 0 are the zero behind a line.
template <int N> DEVICE void fill_rows(const arguments &a, const line *lines, u32 here, const SUM *sums)
{
    const u32 width = size_of(a.dims[RANK - 1]), in_width = size_of(a.in_width), pitch = pitch_of(in_width);
    const columns c = columns_of(width / N);
    for (u32 x = c.first; x < width / N; x += c.side) {
        int from[N][ACROSS_TAPS];
        float weight[N][ACROSS_TAPS];
        bool outside[N];
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int t = 0; t < ACROSS_TAPS; t++) {
                const i64 w = t * a.size[1] + x * N + k;
                const int at = a.table[a.from[1] + w];
                weight[k][t] = COPY || at < 0 ? 0.0f : __int_as_float(a.table[a.weight[1] + w]);
                from[k][t] = COPY || weight[k][t] != 0 ? at : (int)in_width;
                if (t == 0)
                    outside[k] = at < 0;
            }
        OUTPUT *to = (OUTPUT *)a.out.data + x * N;
#pragma unroll 2
        for (u32 row = c.way; row < here; row += c.ways) {
            OUTPUT result[N];
#pragma unroll
            for (int k = 0; k < N; k++) {
#if COPY
                result[k] = ((const INPUT *)a.in.data)[lines[row].from[0] + from[k][0]];
#else
                const SUM *line_sums = sums + row * pitch;
                SUM sum = 0;
#pragma unroll
                for (int t = 0; t < ACROSS_TAPS; t++)
                    sum += (SUM)weight[k][t] * line_sums[from[k][t]];
                if (OUTSIDE && (lines[row].outside || outside[k]))
                    sum = (SUM)a.extrapolation;
                NUMBER o[1], r[1];
                after((NUMBER)sum, o, r);
                result[k] = element<OUTPUT>::put(r[0]);
#endif
            }
            store_run<true, OUTPUT, N>(to + lines[row].to, result);
        }
    }
}

// Do runs of n elements lie at multiples of themselves?
DEVICE bool runs_of(const operand &o, u32 width, u32 n, u32 size)
{
    bool fit = width % n == 0 && (u64)o.data % (n * size) == 0;
#pragma unroll
    for (int d = 0; d < RANK - 1; d++)
        fit &= o.stride[d] % n == 0;
    return fit;
}

extern "C" __global__ void __launch_bounds__(256) resize_lines(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) SUM sums[COPY ? 1 : LINE_ROOM];
    __shared__ line lines[MOST_LINES];
    const u32 in_width = size_of(a.in_width), width = size_of(a.dims[RANK - 1]);
    const u32 room = COPY ? MOST_LINES : LINE_ROOM / pitch_of(in_width);
    const u32 most = room < MOST_LINES ? room : MOST_LINES;
    const u32 rows = (u32)(a.outputs / width);
    const bool wide_in = runs_of(a.in, in_width, READ, sizeof(INPUT));
    const bool wide_out = runs_of(a.out, width, AT_ONCE, sizeof(OUTPUT));
    for (u64 first = (u64)blockIdx.x * most; first < rows; first += (u64)gridDim.x * most) {
        const u32 here = rows - first < most ? (u32)(rows - first) : most;
        __syncthreads(); // the rows before have been written
        if (threadIdx.x < here)
            find_line(a, (index)(first + threadIdx.x), lines[threadIdx.x]);
        __syncthreads();
#if !COPY
        if (wide_in)
            make_lines<READ>(a, lines, here, sums);
        else
            make_lines<1>(a, lines, here, sums);
        __syncthreads();
#endif
        if (wide_out)
            fill_rows<AT_ONCE>(a, lines, here, sums);
        else
            fill_rows<1>(a, lines, here, sums);
    }
}
#endif
