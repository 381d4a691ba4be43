// rows.cuh -- what the kernels of softmax and normalisations share: arguments, operands, sums over a row.
// SPDX-License-Identifier: Apache-2.0
//
// Specialised by macros: KIND, XT and YT (elements of input and output), THREADS (to a row), ROWS (of a
// block), and where there are such: SKIPT, THIRDT, SCALET, BIAST, SUMT, MEANT, INVT; OPERANDS(X), X(index, type) for each
// operand of `epilogue`, a generated function that is there when EPILOGUE is defined. EVEN: rows are evenly apart. CLUSTER: blocks
// to a row, 1 where it is not given.
#include "ptx_matrix.cuh"

#ifndef CLUSTER
#define CLUSTER 1
#endif

#define SOFTMAX 0
#define LOG_SOFTMAX 1
#define LAYER_NORM 2
#define RMS_NORM 3
#define GROUP_NORM 4
#define L2_NORM 5
#define L1_NORM 6

#define MAX_OUTER 6
#define MAX_OPERANDS 8
#define INFINITE __int_as_float(0x7f800000)

// Where elements lie. Row r counts through the outer axes; element c of a row is c * col further. `side`: rows side
// by side are that far apart; in a group of channels c is one of those, and `side` goes by its positions.
struct rows_place {
    i64 outer[MAX_OUTER], col, side;
};
struct rows_args { // as cuda/rows.h has it
    const void *x, *skip, *third, *scale, *bias;
    void *y, *sum, *mean, *inv;
    const void *operand[MAX_OPERANDS];
    const void *ids, *place_ids, *segment_ids;
    u32 *fault;
    double *partials, *stats; // GROUP_NORM in parts: moments of parts; mean and deviation of rows
    rows_place at_x, at_y, at_sum, at_operand[MAX_OPERANDS];
    i64 dims[MAX_OUTER];
    i64 rows, cols, skip_rows;
    i64 lanes;                       // rows side by side
    i64 channels, groups, space;     // GROUP_NORM
    i64 parts, part;                 // and how many parts of how many elements (positions) a row (image) has
    i64 units;                       // parts of all
    struct {
        i64 size;
        u32 magic, shift;
    } by_space;                      // to divide by: cuda/nest.h makes them
    i64 table_rows[3];               // embeddings
    int n_outer, wide_ids[3];
    u32 fault_code;
    float epsilon;
};

DEVICE float to_float(u8 v) { return v ? 1.0f : 0.0f; }

#define VECTOR (16 / (int)sizeof(XT))

template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) vec {
    T v[N];
};

// Of what is held in registers: what is made from it is made anew from here on, and takes none till then.
template <class T> DEVICE void forget(T &v)
{
#pragma unroll
    for (int k = 0; k < (int)sizeof v / 4; k++)
        asm volatile("" : "+r"(((u32 *)&v)[k]));
}

// Which channel of a group element c is in.
DEVICE u32 over_space(const rows_args &a, u32 c)
{
    return (__umulhi(c, a.by_space.magic) + c) >> a.by_space.shift;
}

DEVICE i64 place_of(const rows_args &a, const rows_place &p, i64 row)
{
    i64 at = 0;
    if (!EVEN && row >> 31 == 0) { // short division is much quicker
        u32 rest = (u32)row;
        for (int i = a.n_outer - 1; i > 0; i--) {
            const u32 n = (u32)a.dims[i], q = rest / n;
            at += (i64)(rest - q * n) * p.outer[i];
            rest = q;
        }
        return at + rest * p.outer[0];
    }
    for (int i = a.n_outer - 1; !EVEN && i > 0; i--) {
        at += row % a.dims[i] * p.outer[i];
        row /= a.dims[i];
    }
    return at + row * p.outer[0];
}

// Where the epilogue's operands of a row begin.
struct operand_places {
    i64 at[MAX_OPERANDS];
};

DEVICE void find_operands(const rows_args &a, i64 row, operand_places &o)
{
#ifdef OPERANDS
#define X(k, type) o.at[k] = place_of(a, a.at_operand[k], row);
    OPERANDS(X)
#undef X
#endif
}

// What follows the normalised value.
DEVICE float finish(const rows_args &a, const operand_places &o, i64 c, i64 side, float v)
{
#ifdef SILU
    v = __fdividef(v, 1.0f + __expf(-v));
#endif
#ifdef EPILOGUE
    float with[MAX_OPERANDS];
#ifdef OPERANDS
#define X(k, type)                                                                                 \
    with[k] = to_float(((const type *)                                                             \
                            a.operand[k])[o.at[k] + c * a.at_operand[k].col +                      \
                                          side * a.at_operand[k].side]);
    OPERANDS(X)
#undef X
#endif
    float results[1];
    epilogue(v, with, results);
    v = results[0];
#endif
    return v;
}

// Of element (channel) c.
template <class C> DEVICE float scale_of(const rows_args &a, C c)
{
#ifdef SCALET
    return to_float(((const SCALET *)a.scale)[c * SCALE_STEP]);
#else
    return 1.0f;
#endif
}
template <class C> DEVICE float bias_of(const rows_args &a, C c)
{
#ifdef BIAST
    return to_float(((const BIAST *)a.bias)[c * BIAS_STEP]);
#else
    return 0.0f;
#endif
}

// ---- Sums over the threads of a row ------------------------------------------------------------

struct plus {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
};
struct larger {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

// Two sums that are taken at once.
struct two {
    float a, b;
};
DEVICE two operator+(two x, two y) { return {x.a + y.a, x.b + y.b}; }

template <class T> DEVICE T from_lane(T v, int o) { return __shfl_xor_sync(~0u, v, o); }
template <> __device__ __forceinline__ two from_lane<two>(two v, int o)
{
    return {__shfl_xor_sync(~0u, v.a, o), __shfl_xor_sync(~0u, v.b, o)};
}

#if CLUSTER > 1
DEVICE void store_cluster(u32 at, u32 rank, two v)
{
    store_cluster(at, rank, v.a);
    store_cluster(at + sizeof v.a, rank, v.b);
}
#endif

// Over THREADS threads of each block of the cluster, the same in each. Calls take turns at two slots of memory, so that one
// barrier each is enough.
template <class Op, class T> DEVICE T over_row(T v, int &turn)
{
    for (int o = (THREADS < 32 ? THREADS : 32) / 2; o > 0; o /= 2)
        v = Op::of(v, from_lane(v, o));
#if THREADS > 32
    __shared__ T held[2][THREADS / 32];
    turn ^= 1;
    if (threadIdx.x % 32 == 0)
        held[turn][threadIdx.x / 32] = v;
    __syncthreads();
    v = held[turn][0];
    for (int i = 1; i < THREADS / 32; i++)
        v = Op::of(v, held[turn][i]);
#endif
#if CLUSTER > 1
    __shared__ T of_block[2][CLUSTER];
    if (threadIdx.x < CLUSTER)
        store_cluster(shared_address(&of_block[turn][rank_in_cluster()]), threadIdx.x, v);
    cluster_barrier();
    v = of_block[turn][0];
    for (int i = 1; i < CLUSTER; i++)
        v = Op::of(v, of_block[turn][i]);
#endif
    return v;
}

// Less than the smallest normal number is 0.
DEVICE float exp_of(float v)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v * 1.4426950408889634f));
    return r;
}

// Is a sum of squares (of n elements) one that float32 cannot hold well?
DEVICE bool out_of_range(float square, float epsilon)
{
    return !(square < 1e37f) || (square < 1e-30f && epsilon < 1e-20f);
}

#define CENTERED (KIND == LAYER_NORM || KIND == GROUP_NORM)
#define IS_NORM (KIND == L1_NORM || KIND == L2_NORM)

// What a row's sum of squares (absolutes) becomes: what values are divided by.
template <class T> DEVICE T deviation_of(const rows_args &a, T sum)
{
#if IS_NORM
    T norm = KIND == L2_NORM ? sqrt(sum) : sum;
    return norm < (T)a.epsilon ? (T)a.epsilon : norm;
#else
    return sqrt(sum / (T)a.cols + (T)a.epsilon);
#endif
}

// Values of a row of zeros stay zero where there is nothing to divide by.
template <class T> DEVICE T factor_of(T deviation)
{
    return IS_NORM && deviation == 0 ? (T)0 : 1 / deviation;
}

template <class T> DEVICE T term(T v)
{
    return KIND == L1_NORM ? (v < 0 ? -v : v) : v * v;
}
