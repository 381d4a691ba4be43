// finish.cuh -- from sums to results: alpha, bias, the epilogue program, the output's type and place.
// SPDX-License-Identifier: Apache-2.0
//
// The result is a batch of matrices: element (z, row, col). The output and everything that is added to it are seen
// from there. cuda/epilogue_text.c writes, before the kernel:
//     FINISH_OUT(type, row kind, column kind), FINISH_BIAS(...) where there is a bias, and
//     FINISH_OPERANDS(X) X(index, type, row kind, column kind) ..., FINISH_N, and finish_program.
// Kinds of rows: 0 all the same, 1 evenly apart, 2 several axes; of columns: 1 adjacent, 2 anyhow.
#pragma once
#include "ptx_matrix.cuh"

struct axes {
    int n;
    u32 dim[4];
    i64 stride[4]; // outermost first
};
struct view {
    void *data;
    axes z, row, col;
};

struct finish_args {
    float alpha, beta;
    view out, bias;
    view operand[FINISH_N > 0 ? FINISH_N : 1];
};

template <int KIND> DEVICE i64 along(const axes &a, u32 i)
{
    if (KIND == 0)
        return 0;
    if (KIND == 1)
        return (i64)i * a.stride[0];
    i64 at = 0;
#pragma unroll
    for (int q = 3; q > 0; q--) {
        if (q < a.n) {
            u32 rest = i / a.dim[q];
            at += (i64)(i - rest * a.dim[q]) * a.stride[q];
            i = rest;
        }
    }
    return at + (i64)i * a.stride[0];
}

// Of the matrix that a block works on.
struct finish_places {
    i64 out, bias, operand[FINISH_N > 0 ? FINISH_N : 1];
};
DEVICE finish_places finish_matrix(const finish_args &f, u32 z)
{
    finish_places p;
    p.out = along<2>(f.out.z, z);
    p.bias = along<2>(f.bias.z, z);
#pragma unroll
    for (int i = 0; i < FINISH_N; i++)
        p.operand[i] = along<2>(f.operand[i].z, z);
    return p;
}

DEVICE float to_float(u8 v) { return v; }
DEVICE float to_float(signed char v) { return v; }
template <> __device__ __forceinline__ u8 from_float<u8>(float v) { return v != 0; } // bool

// n <= 8 elements from (row, col) on; the rest are zeros.
template <class T, int ROW, int COL>
DEVICE void view_load8(const view &v, i64 matrix, u32 row, u32 col, int n, float (&to)[8])
{
    const T *p = (const T *)v.data + matrix + along<ROW>(v.row, row);
    if (COL == 0) {
        float x = to_float(*p);
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = x;
        return;
    }
    if (COL == 1 && sizeof(T) > 1 && n == 8 && ((u64)(p + col) & 15) == 0) {
        enum { EACH = 16 / sizeof(T) };
#pragma unroll
        for (int q = 0; q < 8 / EACH; q++) {
            vec16<T> part = ((const vec16<T> *)(p + col))[q];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                to[q * EACH + i] = to_float(part.v[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = i < n ? to_float(p[COL == 1 ? (i64)(col + i) : along<2>(v.col, col + i)]) : 0;
}

template <class T, int ROW, int COL>
DEVICE void view_store8(const view &v, i64 matrix, u32 row, u32 col, int n, const float (&x)[8])
{
    T *p = (T *)v.data + matrix + along<ROW>(v.row, row);
    if (COL == 1 && sizeof(T) > 1 && n == 8 && ((u64)(p + col) & 15) == 0) {
        enum { EACH = 16 / sizeof(T) };
#pragma unroll
        for (int q = 0; q < 8 / EACH; q++) {
            vec16<T> part;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                part.v[i] = from_float<T>(x[q * EACH + i]);
            ((vec16<T> *)(p + col))[q] = part;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < n)
            p[COL == 1 ? (i64)(col + i) : along<2>(v.col, col + i)] = from_float<T>(x[i]);
}

template <class T, int ROW, int COL>
DEVICE void view_prefetch(const view &v, i64 matrix, u32 row, u32 col, u32 rows, u32 cols, u32 thread, u32 threads)
{
    enum { EACH = 128 / sizeof(T) }; // what comes at once
    if (ROW != 1 || COL != 1)
        return;
    u32 across = (cols + EACH - 1) / EACH;
    for (u32 i = thread; i < rows * across; i += threads) {
        u32 r = i / across;
        prefetch((const T *)v.data + matrix + along<ROW>(v.row, row + r) + col + (i - r * across) * EACH);
    }
}

// Operands as large as the output begin to come nearer, for a tile whose sums are not there yet. Of `threads` threads.
DEVICE void finish_prefetch(const finish_args &f, const finish_places &at, u32 row, u32 col, int rows, int cols,
                            u32 thread, u32 threads)
{
#define OPERAND(k, type, r, c)                                                                     \
    if (rows > 0)                                                                                  \
        view_prefetch<type, r, c>(f.operand[k], at.operand[k], row, col, rows, cols, thread, threads);
    FINISH_OPERANDS(OPERAND)
#undef OPERAND
}

// What is added to 8 columns of a row.
struct finish_added {
    float bias[8], operand[FINISH_N > 0 ? FINISH_N : 1][8];
};
DEVICE void finish_load8(const finish_args &f, const finish_places &at, u32 row, u32 col, int n, finish_added &o)
{
#ifdef FINISH_BIAS
#define BIAS(type, r, c) view_load8<type, r, c>(f.bias, at.bias, row, col, n, o.bias)
    FINISH_BIAS(BIAS);
#undef BIAS
#endif
#ifdef FINISH_PROGRAM
#define OPERAND(k, type, r, c) view_load8<type, r, c>(f.operand[k], at.operand[k], row, col, n, o.operand[k]);
    FINISH_OPERANDS(OPERAND)
#undef OPERAND
#endif
}

// The same in two steps: what lies in whole vectors is on its way from the first on, everything else is asked for with the second.
struct finish_early {
    uint4 bias, operand[FINISH_N > 0 ? FINISH_N : 1];
    u32 has; // operands, then the bias
};
template <class T, int ROW, int COL>
DEVICE bool view_load_early(const view &v, i64 matrix, u32 row, u32 col, int n, uint4 &to)
{
    const T *p = (const T *)v.data + matrix + along<ROW>(v.row, row) + col;
    bool is = COL == 1 && sizeof(T) == 2 && n == 8 && ((u64)p & 15) == 0;
    if (is)
        to = *(const uint4 *)p;
    return is;
}
template <class T> DEVICE void unpack_early(const uint4 &from, float (&to)[8])
{
    const u32 words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        T v;
        *(u16 *)&v = (u16)(words[i / 2] >> i % 2 * 16);
        to[i] = to_float(v);
    }
}
template <> INLINE void unpack_early<float>(const uint4 &, float (&)[8]) {}
template <> INLINE void unpack_early<u8>(const uint4 &, float (&)[8]) {}
template <> INLINE void unpack_early<signed char>(const uint4 &, float (&)[8]) {}

DEVICE void finish_load_early(const finish_args &f, const finish_places &at, u32 row, u32 col, int n, finish_early &e)
{
    e.has = 0;
#ifdef FINISH_BIAS
#define BIAS(type, r, c) e.has |= (u32)view_load_early<type, r, c>(f.bias, at.bias, row, col, n, e.bias) << FINISH_N
    FINISH_BIAS(BIAS);
#undef BIAS
#endif
#ifdef FINISH_PROGRAM
#define OPERAND(k, type, r, c)                                                                     \
    e.has |= (u32)view_load_early<type, r, c>(f.operand[k], at.operand[k], row, col, n, e.operand[k]) << k;
    FINISH_OPERANDS(OPERAND)
#undef OPERAND
#endif
}
DEVICE void finish_load_rest(const finish_args &f, const finish_places &at, u32 row, u32 col, int n,
                             const finish_early &e, finish_added &o)
{
#ifdef FINISH_BIAS
#define BIAS(type, r, c)                                                                           \
    if (e.has >> FINISH_N & 1)                                                                     \
        unpack_early<type>(e.bias, o.bias);                                                        \
    else                                                                                           \
        view_load8<type, r, c>(f.bias, at.bias, row, col, n, o.bias)
    FINISH_BIAS(BIAS);
#undef BIAS
#endif
#ifdef FINISH_PROGRAM
#define OPERAND(k, type, r, c)                                                                     \
    if (e.has >> k & 1)                                                                            \
        unpack_early<type>(e.operand[k], o.operand[k]);                                            \
    else                                                                                           \
        view_load8<type, r, c>(f.operand[k], at.operand[k], row, col, n, o.operand[k]);
    FINISH_OPERANDS(OPERAND)
#undef OPERAND
#endif
}

// x: sums of n <= 8 columns of a row. They become results and go to their place.
DEVICE void finish_loaded8(const finish_args &f, const finish_places &at, u32 row, u32 col, int n,
                           const finish_added &o, float (&x)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] *= f.alpha;
#ifdef FINISH_BIAS
        x[i] += f.beta * o.bias[i];
#endif
#ifdef FINISH_PROGRAM
        float each[FINISH_N > 0 ? FINISH_N : 1], result;
#pragma unroll
        for (int k = 0; k < FINISH_N; k++)
            each[k] = o.operand[k][i];
        finish_program(x[i], each, &result);
        x[i] = result;
#endif
    }
#define OUT(type, r, c) view_store8<type, r, c>(f.out, at.out, row, col, n, x)
    FINISH_OUT(OUT);
#undef OUT
}

DEVICE void finish8(const finish_args &f, const finish_places &at, u32 row, u32 col, int n,
                    float (&x)[8])
{
    finish_added o;
    finish_load8(f, at, row, col, n, o);
    finish_loaded8(f, at, row, col, n, o, x);
}
