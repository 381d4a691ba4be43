// pad.cu -- a dense output, 16 bytes at a time, each position of which has a place in the input or is the constant.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT (a word of the element's size), RANK, WIDE 0 (nest.cuh), CONSTANT_BORDERS (of the innermost
// axis), ROWS (they are put together in shared memory; what is beside their middles is the constant, or in their middles
// too). The innermost axis of the input is of adjacent elements; a row of the output has at least WIDTH.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

// Position i is base + step * i of the input's, by the segment that it is in; base CONSTANT: it is the constant. The one in
// the middle has step 1 where there are adjacent elements at all.
struct cut {
    int low, high; // where the second and the third segment begin
    int base[3], step[3];
};
struct arguments {
    const ELEMENT *x;
    ELEMENT *y;
    const ELEMENT *constant; // NULL: `fill`
    u64 fill[2];             // an element, again and again
    u64 outputs;
    axis per_row; // ROWS: vectors of the middle of a row
    u64 rows;     // of a block at once
    axis dims[RANK];
    i64 stride[RANK]; // of the input, in elements
    cut cuts[RANK];
};

enum { WIDTH = 16 / sizeof(ELEMENT), CONSTANT = -0x7fffffff - 1 };
typedef run_of<ELEMENT, WIDTH> vector;

// The place in the input's axis, negative: the constant.
DEVICE int source(const cut &c, int i)
{
    const bool middle = i >= c.low && i < c.high, before = i < c.low;
    const int base = middle ? c.base[1] : before ? c.base[0] : c.base[2];
    const int step = middle ? c.step[1] : before ? c.step[0] : c.step[2];
    return base + step * i; // CONSTANT has step 0
}

// Where a row of the output is in the input, of fewer than 2^31 elements; -1: it is the constant.
DEVICE int row_source(const arguments &a, u32 row)
{
    int at = 0;
    bool inside = true;
#pragma unroll
    for (int d = RANK - 2; d >= 0; d--) {
        const u32 q = d ? quotient(row, a.dims[d]) : 0;
        const int from = source(a.cuts[d], (int)(row - q * size_of(a.dims[d])));
        row = q;
        inside &= from >= 0;
        at += from * (int)a.stride[d];
    }
    return inside ? at : -1;
}

#if ROWS
enum { MOST_ROWS = 256 };

// `have` of WIDTH elements to a place in shared memory that is aligned to one of them.
DEVICE void put(ELEMENT *to, const vector &v, int have)
{
    if (sizeof(ELEMENT) == 2 && have == WIDTH) {
        const u32 odd = (u32)(u64)to & 2;
        const u32 w[4] = {v.all.x, v.all.y, v.all.z, v.all.w};
        u32 *words = (u32 *)((char *)to - odd);
        if (odd)
            to[0] = v.v[0];
        else
            words[0] = w[0];
#pragma unroll
        for (int i = 1; i < 4; i++)
            words[i] = __funnelshift_l(w[i - 1], w[i], odd * 8);
        if (odd)
            to[WIDTH - 1] = v.v[WIDTH - 1];
        return;
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        if (i < have)
            to[i] = v.v[i];
}

// Rows of the output in shared memory as they will be: the middles of those that are in the input are put there anew for
// every tile, the constants beside them stay.
extern "C" __global__ void __launch_bounds__(256) pad_rows(const __grid_constant__ arguments a)
{
    extern __shared__ uint4 tile[];
    __shared__ int from[MOST_ROWS];
    ELEMENT *image = (ELEMENT *)tile;
    const cut &c = a.cuts[RANK - 1];
    const int width = (int)size_of(a.dims[RANK - 1]), middle = c.high - c.low, most = (int)a.rows, many = 4;
    const u32 rows = (u32)a.outputs / width;
    const bool aligned = (u64)a.y % 16 == 0;
    vector same;
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        same.v[i] = a.constant ? *a.constant : *(const ELEMENT *)a.fill;
    for (int i = threadIdx.x; i < most * width / WIDTH; i += 256)
        tile[i] = same.all;
    for (u32 first = blockIdx.x * most; first < rows; first += gridDim.x * most) {
        const int here = rows - first < most ? (int)(rows - first) : most;
        __syncthreads(); // the tile before has left
        if (threadIdx.x < here)
            from[threadIdx.x] = row_source(a, first + threadIdx.x);
        __syncthreads();
        const u32 n = here * size_of(a.per_row);
        for (u32 u = threadIdx.x; u < n; u += many * 256) {
            vector v[many];
            int to[many], have[many];
#pragma unroll
            for (int j = 0; j < many; j++) {
                const u32 row = quotient(u + j * 256, a.per_row), at = (u + j * 256 - row * size_of(a.per_row)) * WIDTH;
                have[j] = u + j * 256 >= n ? 0 : middle - (int)at < WIDTH ? middle - (int)at : WIDTH;
                to[j] = (int)row * width + c.low + (int)at;
                v[j] = same;
                if (have[j] == 0 || from[row] < 0)
                    continue;
                const ELEMENT *x = a.x + from[row] + c.low + c.base[1] + (int)at;
                if (have[j] == WIDTH && (u64)x % 16 == 0)
                    v[j].all = *(const uint4 *)x;
                else
                    v[j].all = load_shifted(x, 0, have[j] * (int)sizeof(ELEMENT));
            }
#pragma unroll
            for (int j = 0; j < many; j++)
                put(image + to[j], v[j], have[j]);
        }
        __syncthreads();
        const int borders = width - middle;
        for (int i = threadIdx.x; !CONSTANT_BORDERS && i < here * borders; i += 256) {
            const int row = i / borders, k = i - row * borders, x = k < c.low ? k : k + middle;
            image[row * width + x] = image[row * width + source(c, x) - c.base[1]];
        }
        if (!CONSTANT_BORDERS)
            __syncthreads();
        ELEMENT *y = a.y + (u64)first * width;
        const int whole = aligned ? here * width / WIDTH : 0;
        for (int i = threadIdx.x; i < whole; i += 256)
            ((uint4 *)y)[i] = tile[i];
        for (int i = whole * WIDTH + threadIdx.x; i < here * width; i += 256)
            y[i] = image[i];
    }
}
#else
// 16 bytes from any element on: of the words that hold them.
DEVICE uint4 load_anywhere(const ELEMENT *p)
{
    const u32 skip = (u32)(u64)p & 15;
    const uint4 *from = (const uint4 *)((u64)p - skip);
    const uint4 low = from[0], high = skip ? from[1] : low;
    u32 w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (skip & 8)
#pragma unroll
        for (int i = 0; i < 6; i++)
            w[i] = w[i + 2];
    if (skip & 4)
#pragma unroll
        for (int i = 0; i < 5; i++)
            w[i] = w[i + 1];
    const u32 bits = skip % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

// WIDTH elements from position x of a row on, `next` being where the row behind it is.
DEVICE void load_each(const arguments &a, ELEMENT constant, int x, int row, int next, vector &v)
{
    const cut &c = a.cuts[RANK - 1];
    const int width = (int)size_of(a.dims[RANK - 1]);
    // Of constant borders only the middle is read: from `low` on, `n` of this row and of the next.
    const int low = c.low, n = c.high - low, here = row < 0 ? 0 : n, there = next < 0 ? 0 : n;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const bool behind = x + i >= width;
        const int at = x + i - (behind ? width : 0), line = behind ? next : row;
        if (CONSTANT_BORDERS) {
            v.v[i] = constant;
            if ((u32)(at - low) < (u32)(behind ? there : here))
                v.v[i] = a.x[line + at + c.base[1]];
        } else {
            const int from = source(c, at);
            v.v[i] = constant;
            if (line >= 0 && from >= 0)
                v.v[i] = a.x[line + from];
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) pad(const __grid_constant__ arguments a)
{
    const ELEMENT constant = a.constant ? *a.constant : *(const ELEMENT *)a.fill;
    const cut &c = a.cuts[RANK - 1];
    const u32 skip = (u32)((u64)a.y % 16) / sizeof(ELEMENT); // the first vector begins so far before y
    const u32 width = size_of(a.dims[RANK - 1]), n = (u32)a.outputs, n_vectors = (n + skip + WIDTH - 1) / WIDTH;
    for (u32 u = first_index(); u < n_vectors; u += all_threads()) {
        const bool whole = (u > 0 || skip == 0) && u * WIDTH + WIDTH - skip <= n;
        const u32 first = u > 0 ? u * WIDTH - skip : 0;
        const u32 row = quotient(first, a.dims[RANK - 1]), x = first - row * width;
        const int at = row_source(a, row);
        vector v;
        if (at >= 0 && (int)x >= c.low && (int)x + WIDTH <= c.high) {
            v.all = load_anywhere(a.x + at + (int)x + c.base[1]);
        } else {
            const bool crosses = x + WIDTH > width && first + width - x < n;
            load_each(a, constant, (int)x, at, crosses ? row_source(a, row + 1) : -1, v);
        }
        if (whole) {
            *(decltype(v.all) *)(a.y + first) = v.all;
            continue;
        }
        const u32 here = u > 0 ? n - first : n < WIDTH - skip ? n : WIDTH - skip;
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (i < here)
                a.y[first + i] = v.v[i];
    }
}
#endif
