// rows_slab.cu -- softmax of rows that lie side by side, in slabs: CLUSTER blocks have WIDTH neighbours of all elements.
// SPDX-License-Identifier: Apache-2.0
//
// Block r of a cluster has elements [r * part, (r + 1) * part) of the rows. A thread has HELD vectors of SIDE neighbours at most, all of the same
// neighbours: those of every WAYS-th element. A slab that is all neighbours there are goes on from element to element, and a vector may
// lie in two of them. Vectors are read from registers, while those of the next slab come to the thread's own places in shared memory: copies
// need no barrier. What threads found of their neighbours meets in the block's memory, then in that of all blocks. Threads SPAN apart have the
// same neighbours; where that divides a warp, WARP_WAYS of them meet there first. TOLD: softs of a neighbour that then meet in a block; HELPERS
// threads join them. COPY: bytes of a vector.
#include "common.cuh"
#include "rows.cuh"
#include "rows_soft.cuh"

enum {
    USED = THREADS / SPAN * SPAN, // threads that have something
    WAYS = USED * SIDE / WIDTH,
    PARTS = CLUSTER * HELPERS,
};
typedef vec<XT, SIDE> some;
typedef vec<float, SIDE> floats;

#define EACH _Pragma("unroll") for (int i = 0; i < SIDE; i++)
#define EACH_HELD _Pragma("unroll") for (int j = 0; j < HELD; j++)

// The shared memory of a block. Bases and sums of n * WIDTH softs are apart.
extern __shared__ uint4 kept[]; // vector j of thread t at j * THREADS + t, of SIDE elements each
DEVICE float *told() { return (float *)((some *)kept + HELD * THREADS); }                  // [2][TOLD][WIDTH]
DEVICE float *parts(int turn) { return told() + (TOLD + turn * PARTS) * (2 * WIDTH); }     // [2][PARTS][WIDTH]
DEVICE float *of_all() { return parts(2); }                                                // [2][WIDTH]

// N softs of one neighbour, `apart` from each other; sums are `sums` behind bases. The first n are there.
template <int N> DEVICE soft join(const float *from, int apart, int sums, int n)
{
    enum { UNROLLED = N < 16 ? N : 16 };
    soft all = {-INFINITE, 0};
#pragma unroll UNROLLED
    for (int w = 0; w < N; w++)
        if (w < n)
            all.base = fmaxf(all.base, from[w * apart]);
#pragma unroll UNROLLED
    for (int w = 0; w < N; w++)
        if (w < n)
            all.sum += soft{from[w * apart], from[w * apart + sums]}.about(all.base);
    return all;
}

// Of this thread's neighbours, from those of its ways in a warp.
DEVICE void tell(const floats &base, const floats &sum)
{
    float *to = told() + threadIdx.x / 32 * (32 / WARP_WAYS) * SIDE + threadIdx.x % (32 / WARP_WAYS) * SIDE;
    if (threadIdx.x < USED && threadIdx.x % 32 < 32 / WARP_WAYS) {
        *(floats *)to = base;
        *(floats *)(to + TOLD * WIDTH) = sum;
    }
}

DEVICE void put_soft(float *to, int sums, const soft &s) { to[0] = s.base, to[sums] = s.sum; }

// From what threads told to what results are made of. Slabs take turns at two places of parts, so that one barrier of the cluster each is
// enough.
DEVICE void meet(int rank, int turn)
{
    enum { MOST = (TOLD + HELPERS - 1) / HELPERS };
    __syncthreads();
    for (int c = threadIdx.x; c < WIDTH * HELPERS; c += THREADS) {
        const int helper = c / WIDTH, at = c % WIDTH;
        const soft s = join<MOST>(told() + helper * WIDTH + at, HELPERS * WIDTH, TOLD * WIDTH, (TOLD - helper + HELPERS - 1) / HELPERS);
        float *to = parts(turn) + (rank * HELPERS + helper) * WIDTH + at;
#if CLUSTER > 1
        for (u32 r = 0; r < CLUSTER; r++) {
            store_cluster(shared_address(to), r, s.base);
            store_cluster(shared_address(to + PARTS * WIDTH), r, s.sum);
        }
#else
        put_soft(to, PARTS * WIDTH, s);
#endif
    }
#if CLUSTER > 1
    cluster_barrier();
#else
    __syncthreads();
#endif
    for (int c = threadIdx.x; c < WIDTH; c += THREADS) {
        soft s = join<PARTS>(parts(turn) + c, WIDTH, PARTS * WIDTH, PARTS);
        s.sum = soft_factor(s.sum);
        put_soft(of_all() + c, WIDTH, s);
    }
    __syncthreads();
}

// Where a slab is: its row of neighbours, and the first of these. A thread's vectors begin at neighbour `at` of element `first`, counted from
// the block's first one, which is `begin`.
struct slab {
    i64 row, index;
};
DEVICE slab slab_of(const rows_args &a, i64 unit)
{
    const u32 slabs = (u32)((a.lanes + WIDTH - 1) / WIDTH);
    return {unit / slabs, unit % slabs * WIDTH};
}
DEVICE i64 first_of(const rows_args &a, const rows_place &p, const slab &s, int begin)
{
    const int at = threadIdx.x * SIDE % WIDTH, first = threadIdx.x * SIDE / WIDTH;
    return place_of(a, p, s.row) + s.index + at + (begin + first) * p.col;
}
DEVICE bool has_neighbours(const rows_args &a, const slab &s) { return s.index + threadIdx.x * SIDE % WIDTH < a.lanes; }

DEVICE void fetch(const rows_args &a, i64 unit, int begin, int n)
{
    const u32 to = shared_address((const some *)kept + threadIdx.x);
    const slab s = slab_of(a, unit);
    const XT *x = (const XT *)a.x + first_of(a, a.at_x, s, begin);
    const i64 step = WAYS * a.at_x.col;
    asm volatile("" ::: "memory");
    if (unit < a.units && has_neighbours(a, s))
        EACH_HELD if (j < n)
        {
#if COPY == 16
            copy16(to + j * (THREADS * COPY), x + j * step, true);
#else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to + j * (THREADS * COPY)), "l"(x + j * step), "n"(COPY));
#endif
        }
    copies_end_group();
}

// Over the ways of a warp, of each neighbour.
template <class Op> DEVICE void over_ways(floats &v)
{
#pragma unroll
    for (int o = 32 / WARP_WAYS; o < 32; o *= 2)
        EACH v.v[i] = Op::of(v.v[i], __shfl_xor_sync(~0u, v.v[i], o));
}

DEVICE void put_results(const rows_args &a, i64 unit, some *v, int begin, int n)
{
    const slab s = slab_of(a, unit);
    float base[SIDE], factor[SIDE];
    operand_places o;
    find_operands(a, s.row, o);
    EACH {
        const float *from = of_all() + (threadIdx.x * SIDE + i) % WIDTH;
        base[i] = from[0], factor[i] = from[WIDTH];
    }
    YT *y = (YT *)a.y + first_of(a, a.at_y, s, begin);
    const i64 step = WAYS * a.at_y.col;
    if (!has_neighbours(a, s))
        return;
    EACH_HELD if (j < n)
    {
        vec<YT, SIDE> to;
        forget(v[j]);
        EACH {
            const int e = threadIdx.x * SIDE + i;
            const float r = soft_result(to_float(v[j].v[i]), base[i], factor[i]);
            to.v[i] = from_float<YT>(finish(a, o, begin + e / WIDTH + j * WAYS, s.index + e % WIDTH, r));
        }
        *(vec<YT, SIDE> *)(y + j * step) = to;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) rows_slab(const __grid_constant__ rows_args a)
{
#if CLUSTER > 1
    const int rank = (int)rank_in_cluster();
    cluster_barrier(); // all blocks are there to be written to
#else
    const int rank = 0;
#endif
    const int begin = rank * (int)a.part, end = begin + (int)a.part < (int)a.cols ? begin + (int)a.part : (int)a.cols;
    const int left = (end - begin) * WIDTH - (int)threadIdx.x * SIDE;
    const int n = threadIdx.x < USED && left > 0 ? (left + USED * SIDE - 1) / (USED * SIDE) : 0;
    const i64 teams = gridDim.x / CLUSTER;
    some *own = (some *)kept + threadIdx.x;
    int turn = 0;
    EACH_HELD if (j >= n) EACH own[j * THREADS].v[i] = from_float<XT>(-INFINITE);
    wait_for_predecessor();
    i64 unit = blockIdx.x / CLUSTER;
    fetch(a, unit, begin, n);
    for (; unit < a.units; unit += teams, turn ^= 1) {
        some v[HELD];
        floats base, sum;
        EACH base.v[i] = -INFINITE, sum.v[i] = 0;
        copies_wait<0>();
        EACH_HELD
        {
            v[j] = own[j * THREADS];
            EACH base.v[i] = fmaxf(base.v[i], to_float(v[j].v[i]));
        }
        fetch(a, unit + teams, begin, n);
        over_ways<larger>(base);
        EACH base.v[i] = power::base(base.v[i]);
        EACH_HELD
        {
            forget(v[j]);
            EACH sum.v[i] += power::of(to_float(v[j].v[i]), base.v[i] == -INFINITE ? 0.0f : base.v[i]);
        }
        over_ways<plus>(sum);
        tell(base, sum);
        meet(rank, turn);
        put_results(a, unit, v, begin, n);
    }
}
