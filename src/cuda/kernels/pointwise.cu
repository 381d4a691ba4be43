// pointwise.cu -- a program over the broadcast of its operands.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: `program`, and
//   NUMBER        what is computed with
//   OPERANDS      of the program
//   RANK          of the nest; its innermost axis is the columns
//   RUN           elements that a thread takes at once
//   UNROLL        how many such runs it has in flight
//   FLAT          runs go over the ends of rows
//   INPUTS(X)     X(slot, operand, element, mode)
//   OUTPUTS(X)    X(slot, result, element, mode)
//   FAULTS        1: the program has one more result, not 0 where data are such that there is none
//   N_INPUTS, N_OUTPUTS, WIDE (nest.cuh), CUT, OPEN (elements.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

// How an operand lies along a run.
enum mode {
    SIDE_BY_SIDE, // one after the other
    ONE,          // the same for all of them
    APART,        // a stride between them
    ANYWHERE,     // FLAT: each has a place of its own
};

struct operand {
    void *data;
    i64 stride[RANK];
};
struct arguments {
    operand in[N_INPUTS + 1], out[N_OUTPUTS];
    axis dims[RANK];
    axis runs_per_row;
    u64 elems;
    u64 runs_fit; // rows are whole runs, their beginnings multiples of one
    u32 *fault;   // FAULTS
    u64 fault_code;
};

#define MEMBER_AT(slot, k, E, mode) i64 in##slot;
#define MEMBER_TO(slot, k, E, mode) i64 out##slot;
struct place {
    INPUTS(MEMBER_AT)
    OUTPUTS(MEMBER_TO)
};

DEVICE i64 along(mode m, index col, i64 stride)
{
    return m == SIDE_BY_SIDE ? (i64)col : m == ONE ? 0 : (i64)col * stride;
}

// Where element `col` of row `row` is.
DEVICE void find(const arguments &a, index row, index col, place &p)
{
#define ALONG_AT(slot, k, E, mode) p.in##slot = along(mode, col, a.in[slot].stride[RANK - 1]);
#define ALONG_TO(slot, k, E, mode) p.out##slot = along(mode, col, a.out[slot].stride[RANK - 1]);
    INPUTS(ALONG_AT)
    OUTPUTS(ALONG_TO)
#pragma unroll
    for (int d = RANK - 2; d >= 0; d--) {
        index rest = d ? quotient(row, a.dims[d]) : 0;
        i64 i = row - rest * size_of(a.dims[d]);
        row = rest;
#define STEP_AT(slot, k, E, mode) p.in##slot += i * a.in[slot].stride[d];
#define STEP_TO(slot, k, E, mode) p.out##slot += i * a.out[slot].stride[d];
        INPUTS(STEP_AT)
        OUTPUTS(STEP_TO)
    }
}

template <mode M, int N, class E> DEVICE void read(const operand &x, i64 at, E *to)
{
    const E *p = (const E *)x.data + at;
    if constexpr (M == SIDE_BY_SIDE) {
        load_run<true, E, N>(p, to);
    } else if constexpr (M == ONE) {
        E v = *p;
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = v;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = p[i * x.stride[RANK - 1]];
    }
}

template <mode M, int N, class E> DEVICE void write(const operand &y, i64 at, const E *from)
{
    E *p = (E *)y.data + at;
    if constexpr (M == SIDE_BY_SIDE) {
        store_run<true, E, N>(p, from);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            p[i * y.stride[RANK - 1]] = from[i];
    }
}

// U runs of N elements: u, u + step, ...
template <int N, int U> DEVICE void runs(const arguments &a, index u, index step)
{
#define RAW(slot, k, E, mode) E raw##slot[U][N];
    INPUTS(RAW)
    place at[U];
#pragma unroll
    for (int j = 0; j < U; j++) {
        index run = u + j * step;
#if FLAT
#pragma unroll
        for (int i = 0; i < N; i++) {
            index e = run * N + i, row = quotient(e, a.dims[RANK - 1]);
            place p;
            find(a, row, e - row * size_of(a.dims[RANK - 1]), p);
#define READ_ANYWHERE(slot, k, E, m)                                                               \
    if (m == ANYWHERE)                                                                             \
        raw##slot[j][i] = ((const E *)a.in[slot].data)[p.in##slot];
            INPUTS(READ_ANYWHERE)
        }
#define READ_FLAT(slot, k, E, m)                                                                   \
    if constexpr (m != ANYWHERE)                                                                           \
        read<m, N, E>(a.in[slot], m == ONE ? 0 : (i64)run *N, raw##slot[j]);
        INPUTS(READ_FLAT)
#define TO_FLAT(slot, k, E, m) at[j].out##slot = (i64)run * N;
        OUTPUTS(TO_FLAT)
#else
        index row = RANK == 1 ? 0 : N == 1 ? quotient(run, a.dims[RANK - 1]) : quotient(run, a.runs_per_row);
        index per_row = N == 1 ? size_of(a.dims[RANK - 1]) : size_of(a.runs_per_row);
        find(a, row, (run - row * per_row) * N, at[j]);
#define READ(slot, k, E, m) read<m, N, E>(a.in[slot], at[j].in##slot, raw##slot[j]);
        INPUTS(READ)
#endif
    }
#pragma unroll
    for (int j = 0; j < U; j++) {
#define RESULT(slot, k, E, m) E result##slot[N];
        OUTPUTS(RESULT)
#pragma unroll
        for (int i = 0; i < N; i++) {
            NUMBER o[OPERANDS + 1], r[RESULTS + FAULTS];
#define GET(slot, k, E, m) o[k] = get<NUMBER, E>(raw##slot[j][i]);
            INPUTS(GET)
            program((NUMBER)0, o, r);
#if FAULTS
            if (r[RESULTS] != 0)
                atomicCAS(a.fault, 0u, (u32)a.fault_code);
#endif
#define PUT(slot, k, E, m) result##slot[i] = element<E>::put(r[k]);
            OUTPUTS(PUT)
        }
#define WRITE(slot, k, E, m) write<m, N, E>(a.out[slot], at[j].out##slot, result##slot);
        OUTPUTS(WRITE)
    }
}

template <int N> DEVICE void all_runs(const arguments &a, index from, index to)
{
    const index step = all_threads();
    index u = from + first_index();
    for (; (u64)u + (UNROLL - 1) * (u64)step < to; u += UNROLL * step)
        runs<N, UNROLL>(a, u, step);
    for (; u < to; u += step)
        runs<N, 1>(a, u, step);
}

extern "C" __global__ void __launch_bounds__(256) pointwise(const __grid_constant__ arguments a)
{
    bool aligned = a.runs_fit;
#define ALIGNED_IN(slot, k, E, m)                                                                  \
    aligned &= m != SIDE_BY_SIDE || (u64)a.in[slot].data % (sizeof(E) * RUN) == 0;
#define ALIGNED_OUT(slot, k, E, m)                                                                 \
    aligned &= m != SIDE_BY_SIDE || (u64)a.out[slot].data % (sizeof(E) * RUN) == 0;
    INPUTS(ALIGNED_IN)
    OUTPUTS(ALIGNED_OUT)
    const index elems = (index)a.elems;
    if (RUN == 1 || !aligned) {
        all_runs<1>(a, 0, elems);
        return;
    }
    const index whole = elems / RUN; // by a constant
    all_runs<RUN>(a, 0, whole);
    if (elems % RUN)
        all_runs<1>(a, whole * RUN, elems);
}
