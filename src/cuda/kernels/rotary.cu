// rotary.cu -- rotary positions: pairs of columns turned by angles that are given as cosines and sines.
// SPDX-License-Identifier: Apache-2.0
//
// XT, COST, SINT, YT: elements. INTERLEAVED: columns 2 j and 2 j + 1 are a pair, else j and j + half. OPERANDS(X), X(index, type)
// for each operand of `epilogue`, a generated function that is there when EPILOGUE is defined.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"
#include "ptx_matrix.cuh"

#define MAX_OUTER 6
#define MAX_OPERANDS 8

enum { X_AT, COS_AT, SIN_AT, Y_AT, OPERANDS_AT, TENSORS = OPERANDS_AT + MAX_OPERANDS };

struct place {
    i64 outer[MAX_OUTER], col; // strides; 0 along axes of which there is one
};
struct rotary_args { // as cuda/rotary.c has it
    const void *in[3];
    void *y;
    const void *operand[MAX_OPERANDS];
    place at[TENSORS];
    axis dims[MAX_OUTER], half;
    i64 pairs;
    int n_outer;
};

struct row_places {
    i64 at[TENSORS];
};

DEVICE void find_row(const rotary_args &a, index row, row_places &p)
{
#pragma unroll
    for (int t = 0; t < TENSORS; t++)
        p.at[t] = 0;
    for (int i = a.n_outer - 1; i >= 0; i--) {
        index above = quotient(row, a.dims[i]), here = row - above * size_of(a.dims[i]);
        row = above;
#pragma unroll
        for (int t = 0; t < OPERANDS_AT; t++)
            p.at[t] += here * a.at[t].outer[i];
#define X(k, type) p.at[OPERANDS_AT + k] += here * a.at[OPERANDS_AT + k].outer[i];
        OPERANDS(X)
#undef X
    }
}

template <class T> DEVICE float number(const rotary_args &a, const row_places &p, int which, i64 c)
{
    return get<float, T>(((const T *)a.in[which])[p.at[which] + c * a.at[which].col]);
}

DEVICE void put(const rotary_args &a, const row_places &p, i64 c, float v)
{
#ifdef EPILOGUE
    float with[MAX_OPERANDS], results[1];
#define X(k, type)                                                                                 \
    with[k] = get<float, type>(((const type *)                                                     \
                                    a.operand[k])[p.at[OPERANDS_AT + k] + c * a.at[OPERANDS_AT + k].col]);
    OPERANDS(X)
#undef X
    epilogue(v, with, results);
    v = results[0];
#endif
    ((YT *)a.y)[p.at[Y_AT] + c * a.at[Y_AT].col] = element<YT>::put(v);
}

extern "C" __global__ void rotary(const __grid_constant__ rotary_args a)
{
    wait_for_predecessor();
    for (index i = first_index(); i < a.pairs; i += all_threads()) {
        index row = quotient(i, a.half), j = i - row * size_of(a.half);
        i64 first = INTERLEAVED ? 2 * j : j, second = INTERLEAVED ? 2 * j + 1 : j + size_of(a.half);
        row_places p;
        find_row(a, row, p);
        float x = number<XT>(a, p, X_AT, first), y = number<XT>(a, p, X_AT, second);
        put(a, p, first,
            x * number<COST>(a, p, COS_AT, first) - y * number<SINT>(a, p, SIN_AT, first));
        put(a, p, second,
            y * number<COST>(a, p, COS_AT, second) + x * number<SINT>(a, p, SIN_AT, second));
    }
}
