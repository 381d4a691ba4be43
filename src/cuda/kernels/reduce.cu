// reduce.cu -- a program per element, its results folded along some axes, and a program after.
// SPDX-License-Identifier: Apache-2.0
//
// A block has X outputs at once and Y threads for each (X * Y = 256); where the innermost axis is kept, a thread has RUN
// outputs side by side, else it takes RUN elements at once. A few long folds are cut into parts, one for each blockIdx.y,
// which a second launch (JOIN) folds: always in one order, so that results are the same in every run.
//
// Generated before this: `before` and `after` (programs), and
//   NUMBER, SUM   what is computed with, and what is added up in
//   KIND          cm_reduce_kind
//   KEPT, GONE    axes of each sort
//   COLUMNS       the innermost axis is kept
//   RUN, X, Y, LAST (of equals the last), PARTS (there are), JOIN
//   INPUTS(X), N_INPUTS, OPERANDS; AFTER(X), N_AFTER, AFTER_OPERANDS; OUTPUT
//   WIDE (nest.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"
#include "ptx_matrix.cuh"

enum mode { SIDE_BY_SIDE, ONE, APART };
enum { SUMS, MEAN, MAX, MIN, PROD, SUM_SQUARE, L1, L2, LOG_SUM, LOG_SUM_EXP, ARG_MAX, ARG_MIN };
enum { IS_ARG = KIND == ARG_MAX || KIND == ARG_MIN };

struct operand {
    void *data;
    i64 kept[KEPT], gone[GONE];
};
// As large as a number: threads hand on both as one.
template <int BYTES> struct position_of {
    typedef int type;
};
template <> struct position_of<8> {
    typedef i64 type;
};
typedef position_of<WIDE ? 8 : sizeof(NUMBER)>::type position;
struct folded {
    SUM v;
    union {
        NUMBER top;  // LOG_SUM_EXP: the largest, which v is relative to
        position at; // of an extreme, -1: none is more than the lowest there is
    };
};
struct arguments {
    operand in[N_INPUTS], after[N_AFTER + 1], out;
    axis kept[KEPT], gone[GONE], inner_runs;
    u64 outputs, count; // elements
    u64 parts, runs_fit;
    folded *partial; // [outputs][parts]
};

DEVICE NUMBER infinity() { return (NUMBER)__int_as_float(0x7f800000); }

DEVICE folded start()
{
    folded f;
    f.at = -1;
    if (KIND == LOG_SUM_EXP)
        f.top = -infinity();
    f.v = KIND == PROD                       ? (SUM)1
          : KIND == MAX || KIND == ARG_MAX ? (SUM)LOWEST
          : KIND == MIN || KIND == ARG_MIN ? (SUM)HIGHEST
                                           : (SUM)0;
    return f;
}

// Does x at `at` take the place of y at `y_at`? NaN counts as the extreme.
DEVICE bool wins(SUM x, position at, SUM y, position y_at)
{
    if (at < 0 || y_at < 0)
        return y_at < 0;
    bool nan = x != x, y_nan = y != y;
    bool equal = nan || y_nan ? nan == y_nan : x == y;
    if (equal)
        return LAST ? at > y_at : at < y_at;
    return nan || (!y_nan && (KIND == ARG_MAX ? x > y : x < y));
}

// The more extreme of two, NaN being the most; of equals either.
DEVICE NUMBER extreme_of(NUMBER x, NUMBER y)
{
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(NUMBER) == 4) {
        float r;
        if (KIND == ARG_MAX || KIND == MAX)
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"((float)x), "f"((float)y));
        else
            asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"((float)x), "f"((float)y));
        return (NUMBER)r;
    }
#endif
    return y != y || (KIND == ARG_MAX || KIND == MAX ? y > x : y < x) ? y : x;
}

DEVICE void join_exps(folded &a, NUMBER top, SUM v)
{
    if (top != top || a.top != a.top) {
        a.top += top;
        return;
    }
    SUM gap = (SUM)(top > a.top ? top - a.top : a.top - top);
    SUM e = top == a.top ? (SUM)1 : (SUM)exp(gap * -1.0f); // integers, for which nobody calls this, are read too
    a.v = top > a.top ? a.v * e + v : a.v + v * e;
    a.top = top > a.top ? top : a.top;
}

DEVICE void join(folded &a, const folded &b)
{
    if (KIND == LOG_SUM_EXP) {
        join_exps(a, b.top, b.v);
    } else if (IS_ARG) {
        if (wins(b.v, b.at, a.v, a.at))
            a = b;
    } else if (KIND == MAX || KIND == MIN) {
        a.v = (SUM)extreme_of((NUMBER)a.v, (NUMBER)b.v);
    } else if (KIND == PROD) {
        a.v *= b.v;
    } else {
        a.v += b.v;
    }
}

// As join does, of an element behind all that are in `a`.
DEVICE void fold_arg(folded &a, SUM x, position at)
{
    const bool more = LAST ? x >= a.v : x > a.v, less = LAST ? x <= a.v : x < a.v;
    const bool better = (x != x && (LAST || a.v == a.v)) || (KIND == ARG_MAX ? more : less);
    a.v = better ? x : a.v;
    a.at = better ? at : a.at;
}

DEVICE void fold(folded &a, NUMBER x, position at)
{
    folded b;
    if (IS_ARG) {
        fold_arg(a, (SUM)x, at);
        return;
    }
    b.v = (SUM)x;
    b.at = at;
    if (KIND == LOG_SUM_EXP) {
        join_exps(a, x, (SUM)1);
        return;
    }
    if (KIND == SUM_SQUARE || KIND == L2)
        b.v *= b.v;
    if (KIND == L1)
        b.v = b.v < 0 ? -b.v : b.v;
    join(a, b);
}

DEVICE folded from_lane(const folded &f, int d)
{
    folded other;
    other.v = __shfl_xor_sync(~0u, f.v, d);
    other.at = __shfl_xor_sync(~0u, f.at, d);
    return other;
}

DEVICE void finish(const arguments &a, const folded &f, const i64 *after_at, i64 to)
{
    if (IS_ARG) {
        ((OUTPUT *)a.out.data)[to] = element<OUTPUT>::put((i64)(f.at < 0 ? 0 : f.at));
        return;
    }
    NUMBER x = KIND == MEAN          ? (NUMBER)(f.v / (SUM)(i64)a.count)
               : KIND == L2          ? (NUMBER)sqrt((double)f.v)
               : KIND == LOG_SUM     ? (NUMBER)log((double)f.v)
               : KIND != LOG_SUM_EXP ? (NUMBER)f.v
               : f.top - f.top == 0  ? (NUMBER)(f.top + log((double)f.v))
                                     : f.top;
    NUMBER o[AFTER_OPERANDS + 1], r[1];
#define GET_AFTER(slot, k, E) o[k] = get<NUMBER, E>(((const E *)a.after[slot].data)[after_at[slot]]);
    AFTER(GET_AFTER)
    after(x, o, r);
    ((OUTPUT *)a.out.data)[to] = element<OUTPUT>::put(r[0]);
}

// Where output `o` (a run of N where the innermost axis is kept) and its operands are.
struct place {
    i64 in[N_INPUTS], after[N_AFTER + 1], to;
};
template <int N> DEVICE void find_kept(const arguments &a, index o, place &p)
{
    p.to = 0;
#pragma unroll
    for (int k = 0; k < N_INPUTS; k++)
        p.in[k] = 0;
#pragma unroll
    for (int k = 0; k < N_AFTER; k++)
        p.after[k] = 0;
#pragma unroll
    for (int d = KEPT - 1; d >= 0; d--) {
        const bool runs = COLUMNS && N > 1 && d == KEPT - 1;
        const axis &size = runs ? a.inner_runs : a.kept[d];
        index rest = d ? quotient(o, size) : 0;
        i64 i = (o - rest * size_of(size)) * (runs ? N : 1);
        o = rest;
        p.to += i * a.out.kept[d];
#pragma unroll
        for (int k = 0; k < N_INPUTS; k++)
            p.in[k] += i * a.in[k].kept[d];
#pragma unroll
        for (int k = 0; k < N_AFTER; k++)
            p.after[k] += i * a.after[k].kept[d];
    }
}

#if JOIN
extern "C" __global__ void __launch_bounds__(256) reduce_join(const __grid_constant__ arguments a)
{
    wait_for_predecessor();
    const u32 lane = threadIdx.x % 32;
    for (u64 o = (u64)blockIdx.x * 8 + threadIdx.x / 32; o < a.outputs; o += (u64)gridDim.x * 8) {
        folded f = start();
        for (u64 part = lane; part < a.parts; part += 32)
            join(f, a.partial[o * a.parts + part]);
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
            join(f, from_lane(f, d));
        if (lane == 0) {
            place p;
            find_kept<1>(a, (index)o, p);
            finish(a, f, p.after, p.to);
        }
    }
}
#else

template <mode M, int N, class E> DEVICE void read(const E *p, i64 stride, E *to)
{
    if constexpr (M == SIDE_BY_SIDE) {
        load_run<true, E, N>(p, to);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = M == ONE && i ? to[0] : p[i * stride];
    }
}

// Elements j, j + STEP, ...: U at a time, of N each, as the program has them.
template <int N, int U, int STEP = Y>
DEVICE void load_some(const arguments &a, const place &p, index j, NUMBER (*to)[N])
{
#define RAW(slot, k, E, m) E raw##slot[U][N];
    INPUTS(RAW)
#pragma unroll
    for (int u = 0; u < U; u++) {
        i64 at[N_INPUTS];
        index rest = j + u * STEP;
#pragma unroll
        for (int k = 0; k < N_INPUTS; k++)
            at[k] = p.in[k];
#pragma unroll
        for (int d = GONE - 1; d >= 0; d--) {
            const bool runs = !COLUMNS && N > 1 && d == GONE - 1;
            const axis &size = runs ? a.inner_runs : a.gone[d];
            index q = d ? quotient(rest, size) : 0;
            i64 i = (rest - q * size_of(size)) * (runs ? N : 1);
            rest = q;
#pragma unroll
            for (int k = 0; k < N_INPUTS; k++)
                at[k] += i * a.in[k].gone[d];
        }
#define READ(slot, k, E, m)                                                                        \
    read<m, N, E>((const E *)a.in[slot].data + at[slot],                                           \
                  COLUMNS ? a.in[slot].kept[KEPT - 1] : a.in[slot].gone[GONE - 1], raw##slot[u]);
        INPUTS(READ)
    }
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            NUMBER o[OPERANDS], r[1];
#define GET(slot, k, E, m) o[k] = get<NUMBER, E>(raw##slot[u][i]);
            INPUTS(GET)
            before((NUMBER)0, o, r);
            to[u][i] = r[0];
        }
}

// The same folded into one output or into N.
template <int N, int U> DEVICE void fold_some(const arguments &a, const place &p, index j, folded *f)
{
    NUMBER x[U][N];
    load_some<N, U>(a, p, j, x);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int i = 0; i < N; i++)
            fold(f[COLUMNS ? i : 0], x[u][i],
                 COLUMNS ? (position)(j + u * Y) : (position)(j + u * Y) * N + i);
}

#if COLUMNS
// U elements from j on, of those before `end`, for each of N outputs. Of an extreme, f.at is the first of those that it is among.
template <int N, int U> DEVICE void fold_batch(const arguments &a, const place &p, index j, index end, folded *f)
{
    if ((u64)j + U <= end) {
        NUMBER x[U][N];
        load_some<N, U, 1>(a, p, j, x);
#pragma unroll
        for (int i = 0; i < N; i++) {
            NUMBER most = x[0][i];
#pragma unroll
            for (int u = 1; u < U; u++)
                most = extreme_of(most, x[u][i]);
            fold_arg(f[i], (SUM)most, (position)j);
        }
        return;
    }
    for (index k = j; k < end; k++) {
        NUMBER x[1][N];
        load_some<N, 1>(a, p, k, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            fold_arg(f[i], (SUM)x[0][i], (position)j);
    }
}

// From there to its place; p is of the output itself.
template <int U> DEVICE void find_in_batch(const arguments &a, const place &p, index end, folded &f)
{
    if (f.at < 0)
        return;
    const index first = (index)f.at;
    NUMBER x[U][1];
    int at = 0;
#pragma unroll
    for (int u = 0; u < U; u++)
        load_some<1, 1>(a, p, (u64)first + u < end ? first + u : first, x + u);
#pragma unroll
    for (int k = 0; k < U; k++) {
        const int u = LAST ? k : U - 1 - k;
        const bool same = (SUM)x[u][0] == f.v || (f.v != f.v && x[u][0] != x[u][0]);
        at = same && (u64)first + u < end ? u : at;
    }
    f.at += at;
}
#else
// Runs j, j + Y, ...: U at a time. Of an extreme, f.at is the run that it is in.
template <int N, int U> DEVICE void fold_runs(const arguments &a, const place &p, index j, folded &f)
{
    NUMBER x[U][N];
    load_some<N, U>(a, p, j, x);
#pragma unroll
    for (int u = 0; u < U; u++) {
        NUMBER most = x[u][0];
#pragma unroll
        for (int i = 1; i < N; i++)
            most = extreme_of(most, x[u][i]);
        fold_arg(f, (SUM)most, (position)(j + u * Y));
    }
}

// From the run that an extreme is in to its place.
template <int N> DEVICE void find_in_run(const arguments &a, const place &p, folded &f)
{
    if (f.at < 0)
        return;
    NUMBER x[1][N];
    int at = 0;
    load_some<N, 1>(a, p, (index)f.at, x);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int i = LAST ? k : N - 1 - k;
        at = (SUM)x[0][i] == f.v || (f.v != f.v && x[0][i] != x[0][i]) ? i : at;
    }
    f.at = f.at * N + at;
}
#endif

// What is at the end of output i of those of p, the o-th of all.
DEVICE void end_output(const arguments &a, const place &p, int i, u64 o, const folded &f)
{
    if (PARTS) {
        a.partial[o * a.parts + blockIdx.y] = f;
        return;
    }
    i64 after_at[N_AFTER + 1];
#pragma unroll
    for (int k = 0; k < N_AFTER; k++)
        after_at[k] = p.after[k] + i * a.after[k].kept[KEPT - 1];
    finish(a, f, after_at, p.to + i * a.out.kept[KEPT - 1]);
}

#if COLUMNS
// Of the Y threads of N outputs, which then share the outputs: those of one warp first.
template <int N, int U>
DEVICE void end_columns(const arguments &a, const place &p, int lane, int output, u64 o, u64 units, index end, folded *f)
{
    const int at_once = N < 8 ? N : 8, deep = X < 32 ? 8 : Y, own = X < 32 ? (int)threadIdx.x / 32 : lane;
    __shared__ folded room[at_once][deep][X];
#pragma unroll
    for (int d = X; d < 32; d *= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            join(f[i], from_lane(f[i], d));
#pragma unroll
    for (int from = 0; from < N; from += at_once) {
        __syncthreads(); // what was there has been read
        if (X >= 32 || threadIdx.x % 32 < X)
#pragma unroll
            for (int i = 0; i < at_once; i++)
                room[i][own][output] = f[from + i];
        __syncthreads();
        for (int i = lane; i < at_once && o < units; i += Y) {
            folded all = room[i][0][output];
#pragma unroll
            for (int k = 1; k < deep; k++)
                join(all, room[i][k][output]);
            if (IS_ARG) {
                place own_place = p;
#pragma unroll
                for (int k = 0; k < N_INPUTS; k++)
                    own_place.in[k] += (from + i) * a.in[k].kept[KEPT - 1];
                find_in_batch<U>(a, own_place, end, all);
            }
            end_output(a, p, from + i, o * N + from + i, all);
        }
    }
}
#else
// Of the Y threads of an output; the result is the first one's.
DEVICE void join_threads(folded &f, int lane, int output)
{
    __shared__ folded room[256 / 32];
#pragma unroll
    for (int d = (Y < 32 ? Y : 32) / 2; d > 0; d /= 2)
        join(f, from_lane(f, d));
    if (Y <= 32)
        return;
    const int n = Y / 32, first = output * n;
    __syncthreads(); // what was there has been read
    if (lane % 32 == 0)
        room[first + lane / 32] = f;
    __syncthreads();
    if (lane == 0)
        for (int i = 1; i < n; i++)
            join(f, room[first + i]);
}
#endif

template <int N> DEVICE void reduce_with(const arguments &a)
{
    const int outputs = COLUMNS ? N : 1, many = N > 8 ? 2 : 4;
    const int lane = COLUMNS ? threadIdx.x / X : threadIdx.x % Y;
    const int output = COLUMNS ? threadIdx.x % X : threadIdx.x / Y;
    const u64 units = a.outputs / outputs, steps = COLUMNS ? a.count : a.count / N;
    const index begin = (index)(steps * blockIdx.y / a.parts);
    const index end = (index)(steps * (blockIdx.y + 1) / a.parts);
    for (u64 group = blockIdx.x; group * X < units; group += gridDim.x) {
        const u64 o = group * X + output;
        folded f[outputs];
        place p;
#pragma unroll
        for (int i = 0; i < outputs; i++)
            f[i] = start();
        find_kept<N>(a, (index)(o < units ? o : 0), p);
        index j = begin + lane;
#if !COLUMNS
        if (IS_ARG && N > 1 && o < units) {
            for (; (u64)j + (many - 1) * Y < end; j += many * Y)
                fold_runs<N, many>(a, p, j, f[0]);
            for (; j < end; j += Y)
                fold_runs<N, 1>(a, p, j, f[0]);
            find_in_run<N>(a, p, f[0]);
        }
#else
        if (IS_ARG && Y > 1 && o < units)
            for (j = begin + lane * many; j < end; j += many * Y)
                fold_batch<N, many>(a, p, j, end, f);
#endif
        for (; o < units && (u64)j + (many - 1) * Y < end; j += many * Y)
            fold_some<N, many>(a, p, j, f);
        for (; o < units && j < end; j += Y)
            fold_some<N, 1>(a, p, j, f);
#if COLUMNS
        if constexpr (Y > 1)
            end_columns<N, many>(a, p, lane, output, o, units, end, f);
        else if (o < units)
#pragma unroll
            for (int i = 0; i < N; i++)
                end_output(a, p, i, o * N + i, f[i]);
#else
        join_threads(f[0], lane, output);
        if (o < units && lane == 0)
            end_output(a, p, 0, o, f[0]);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(256) reduce(const __grid_constant__ arguments a)
{
    wait_for_predecessor();
    bool aligned = a.runs_fit;
#define ALIGNED(slot, k, E, m)                                                                     \
    aligned &= m != SIDE_BY_SIDE || (u64)a.in[slot].data % (sizeof(E) * RUN) == 0;
    INPUTS(ALIGNED)
    if (RUN > 1 && aligned)
        reduce_with<RUN>(a);
    else
        reduce_with<1>(a);
}
#endif
