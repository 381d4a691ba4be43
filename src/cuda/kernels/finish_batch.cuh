// finish_batch.cuh -- the sums of several rows become results at once, N columns of each: what is added to them is asked for before
// the first is stored.
// SPDX-License-Identifier: Apache-2.0
//
// Follows finish.cuh. Fragments of products (ptx_matrix.cuh) have two columns of each 8 in a lane; where column c of 32 was multiplied as
// column fragment_column(c), a lane has 8 adjacent ones.
#pragma once

DEVICE int fragment_column(int c)
{
    return (c & ~31) | (c >> 1 & 3) << 3 | (c >> 3 & 3) << 1 | (c & 1);
}

// N elements, in as few instructions as may be.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) columns_of {
    T v[N];
};
template <class T, int N> DEVICE bool is_aligned(const T *p)
{
    return ((u64)p & (alignof(columns_of<T, N>) - 1)) == 0;
}

// n <= N elements from (row, col) on; the rest are zeros.
template <class T, int ROW, int COL, int N>
DEVICE void view_load(const view &v, i64 matrix, u32 row, u32 col, int n, float (&to)[N])
{
    const T *p = (const T *)v.data + matrix + along<ROW>(v.row, row);
    if (COL == 0) {
        float x = to_float(*p);
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = x;
    } else if (COL == 1 && n == N && is_aligned<T, N>(p + col)) {
        columns_of<T, N> part = *(const columns_of<T, N> *)(p + col);
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = to_float(part.v[i]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = i < n ? to_float(p[COL == 1 ? (i64)(col + i) : along<2>(v.col, col + i)]) : 0;
    }
}

template <class T, int ROW, int COL, int N>
DEVICE void view_store(const view &v, i64 matrix, u32 row, u32 col, int n, const float (&from)[N])
{
    T *p = (T *)v.data + matrix + along<ROW>(v.row, row);
    columns_of<T, N> part;
#pragma unroll
    for (int i = 0; i < N; i++)
        part.v[i] = from_float<T>(from[i]);
    if (COL == 1 && n == N && is_aligned<T, N>(p + col)) {
        *(columns_of<T, N> *)(p + col) = part;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            p[COL == 1 ? (i64)(col + i) : along<2>(v.col, col + i)] = part.v[i];
}

template <int ROWS> struct batch_places {
    u32 row[ROWS];
    bool exists[ROWS];
};

// Rows of n <= N columns from `col` on. The bias is the same for all rows.
template <int ROWS, int N>
DEVICE void finish_batch(const finish_args &f, const finish_places &at, const batch_places<ROWS> &p, u32 col,
                         int n, float (&x)[ROWS][N])
{
#ifdef FINISH_PROGRAM
    float o[ROWS][FINISH_N > 0 ? FINISH_N : 1][N];
#define OPERAND(k, type, r, c)                                                                     \
    _Pragma("unroll") for (int i = 0; i < ROWS; i++) if (r == 0 ? i == 0 : p.exists[i])            \
        view_load<type, r, c, N>(f.operand[k], at.operand[k], p.row[i], col, n, o[i][k]);
    FINISH_OPERANDS(OPERAND)
#undef OPERAND
#endif
    float bias[N] = {};
#ifdef FINISH_BIAS
#define BIAS(type, r, c) view_load<type, r, c, N>(f.bias, at.bias, p.row[0], col, n, bias)
    FINISH_BIAS(BIAS);
#undef BIAS
#endif
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int c = 0; c < N; c++) {
            x[i][c] = x[i][c] * f.alpha + f.beta * bias[c];
#ifdef FINISH_PROGRAM
            float each[FINISH_N > 0 ? FINISH_N : 1], result;
#define OPERAND(k, type, r, column) each[k] = o[r == 0 ? 0 : i][k][c];
            FINISH_OPERANDS(OPERAND)
#undef OPERAND
            finish_program(x[i][c], each, &result);
            x[i][c] = result;
#endif
        }
#define OUT(type, r, c) view_store<type, r, c, N>(f.out, at.out, p.row[i], col, n, x[i])
        if (p.exists[i])
            FINISH_OUT(OUT);
#undef OUT
    }
}
