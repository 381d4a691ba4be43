// rows_kept.cu -- softmax and normalisations of long rows: THREADS threads of CLUSTER blocks keep a row in shared memory, read once.
// SPDX-License-Identifier: Apache-2.0
//
// Every thread has room for PER vectors in each of BATCHES batches of copies, and reads no other's: copies need no barrier. While it writes
// the results of a row, the next one comes to take its place; RING: so many rows have places of their own (OWN vectors of a thread each), and
// scales and biases stay in registers if there are several. A row's threads meet once, each bringing the statistics of what it keeps.
// BLOCKS of them are on a multiprocessor, so that one calculates while others read. RAGGED (softmax only): rows begin and end anywhere in
// a vector, and results at the same place as elements; what is before the first whole vector and behind the last one, the loose elements,
// the first threads have, one each. What rows_vectors.cuh says of other macros.
#include "common.cuh"
#include "rows.cuh"
#define VECTORS 1
#define FULL 0
#define SHORT 1
#include "rows_vectors.cuh"
#include "rows_batches.cuh"
#if KIND == SOFTMAX || KIND == LOG_SOFTMAX
#include "rows_soft.cuh"
#endif

enum { WARPS = THREADS / 32, PARTS = WARPS * CLUSTER };

extern __shared__ uint4 kept[]; // vector j of thread t at j * THREADS + t, of each row

// Where this thread's vectors of the row at place `slot` are.
DEVICE uint4 *own_place(int slot) { return kept + (RING > 1 ? slot * (OWN * THREADS) : 0) + threadIdx.x; }
DEVICE void get_kept(const uint4 *from, int j, float *v) { get_vector<XT>(from + j * THREADS, 0, v); }

// What a thread has of a row: `own` vectors from x on (NULL: there is no row), the first of all vectors `head` elements behind the row's
// begin, and the loose element at `loose` (-1: none).
struct share {
    const XT *x;
    int own, head, loose;
};

DEVICE share share_of(const rows_args &a, i64 row, int t)
{
    if (row >= a.rows)
        return {nullptr, 0, 0, -1};
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row);
    const int head = RAGGED ? (int)((16 - (u32)(u64)x % 16) % 16 / sizeof(XT)) : 0;
    const int vectors = ((int)a.cols - head) / VECTOR, behind = head + vectors * VECTOR + t - VECTOR;
    share s = {x + head + t * VECTOR, t < vectors ? (vectors - t + TEAM - 1) / TEAM : 0, head, -1};
    if (RAGGED && t < head)
        s.loose = t;
    if (RAGGED && t >= VECTOR && t < 2 * VECTOR && behind < (int)a.cols)
        s.loose = behind;
    return s;
}

// A compiler that is not told of 0 here writes rows of whole vectors element by element.
DEVICE int head_of(const share &s) { return RAGGED ? s.head : 0; }

// The loose element, -inf where there is none.
DEVICE float loose_of(const share &s, int t)
{
    return RAGGED && s.loose >= 0 ? to_float(s.x[s.loose - s.head - t * VECTOR]) : -INFINITE;
}

// Vector j sets out, to where what was there has been read.
DEVICE void fetch(const uint4 *to, const share &s, int j)
{
    asm volatile("" ::: "memory");
    if (s.x && j < s.own)
        copy16(shared_address(to) + j * (THREADS * 16), s.x + j * (TEAM * VECTOR), true);
}

// Behind what has set out of batch g, and before it is read: of a ring, a row is one group of copies.
DEVICE void end_batch(int g)
{
    if (RING == 1 || g == BATCHES - 1)
        copies_end_group();
}
DEVICE void await_batch(int g)
{
    if (RING == 1)
        wait_for_batch(g);
    else if (g == 0)
        copies_wait<RING - 1>();
}

// This thread's vectors, and those of batch g.
#define OF_BATCH(g) _Pragma("unroll") for (int j = (g) * PER; j < (g) * PER + PER; j++)
#define OWN_OF_BATCH(g) OF_BATCH(g) if (j < own)

template <class Op, class T> DEVICE T over_lanes(T v)
{
#pragma unroll
    for (int o = 16; o > 0; o /= 2)
        v = Op::of(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

// What a warp brings, for all warps of the row to see. Rows take turns at two places, so that one barrier each is enough.
template <class T> DEVICE const T *meet(const T &of_warp, int turn)
{
    __shared__ T parts[2][PARTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if CLUSTER > 1
    if (lane < CLUSTER)
        of_warp.send(shared_address(&parts[turn][rank_in_cluster() * WARPS + warp]), lane);
    cluster_barrier();
#else
    if (lane == 0)
        parts[turn][warp] = of_warp;
    __syncthreads();
#endif
    return parts[turn];
}

// Scales and biases of a thread's vectors.
struct all_factors {
#if RING > 1
    factors of[PER * BATCHES];
#endif
};

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX

// As vectors come.
DEVICE soft soft_of_thread(const uint4 *from, int own, float loose)
{
    soft s = {power::base(fmaxf(loose, -INFINITE)), 0}; // of numbers
    if (RAGGED)
        s.sum = power::of(loose, s.base == -INFINITE ? 0.0f : s.base);
    float v[VECTOR];
#pragma unroll
    for (int g = 0; g < BATCHES; g++) {
        await_batch(g);
        OWN_OF_BATCH(g)
        {
            float here = -INFINITE;
            get_kept(from, j, v);
            for (int i = 0; i < VECTOR; i++)
                here = fmaxf(here, v[i]);
            here = power::base(here);
            if (here > s.base) {
                s.sum *= power::between(s.base, here);
                s.base = here;
            }
            const float center = s.base == -INFINITE ? 0.0f : s.base;
            for (int i = 0; i < VECTOR; i++)
                s.sum += power::of(v[i], center);
        }
    }
    return s;
}

DEVICE soft soft_of_row(const soft &s, int turn)
{
    soft all = {over_lanes<larger>(s.base), 0};
    all.sum = over_lanes<plus>(s.about(all.base));
    const soft *parts = meet(all, turn);
    for (int i = threadIdx.x % 32; i < PARTS; i += 32)
        all.base = fmaxf(all.base, parts[i].base);
    all.base = over_lanes<larger>(all.base);
    all.sum = 0;
    for (int i = threadIdx.x % 32; i < PARTS; i += 32)
        all.sum += parts[i].about(all.base);
    all.sum = over_lanes<plus>(all.sum);
    return all;
}

DEVICE float result_of(const rows_args &a, const row_places &p, const soft &s, float factor, int c, float v)
{
    return finish(a, p.operands, c, 0, soft_result(v, s.base, factor));
}

DEVICE void do_row(const rows_args &a, const row_places &p, const uint4 *at, const share &here, const share &next, float loose, const all_factors &, int t, int turn)
{
    const int own = here.own;
    const soft s = soft_of_row(soft_of_thread(at, own, loose), turn);
    const float factor = soft_factor(s.sum);
    float v[VECTOR];
#pragma unroll
    for (int g = 0; g < BATCHES; g++) {
        OF_BATCH(g)
        {
            if (j < own) {
                const int first = head_of(here) + (j * TEAM + t) * VECTOR;
                get_kept(at, j, v);
                for (int i = 0; i < VECTOR; i++)
                    v[i] = result_of(a, p, s, factor, first + i, v[i]);
                put_vector<YT>(a.y, p.y + first, v);
            }
            fetch(at, next, j);
        }
        end_batch(g);
    }
    if (RAGGED && here.loose >= 0)
        ((YT *)a.y)[p.y + here.loose] = from_float<YT>(result_of(a, p, s, factor, here.loose, loose));
}

#else

// Of n elements: their mean (0 where it does not count) and the sum of squared distances from it.
struct moments {
    double mean;
    float square, n;
#if CLUSTER > 1
    INLINE void send(u32 at, u32 rank) const
    {
        store_cluster(at, rank, mean);
        store_cluster(at + 8, rank, square);
        store_cluster(at + 12, rank, n);
    }
#endif
    INLINE float about(double other) const
    {
        const float d = (float)(mean - other);
        return CENTERED ? square + n * d * d : square;
    }
};

// Of what this thread keeps, as vectors come: a few streams, each about its first element. They are so short that squares about that
// tell those about the mean well.
DEVICE moments moments_of_thread(const uint4 *at, int own)
{
    enum { STREAMS = 4, EACH = VECTOR / STREAMS };
    moments m = {0, 0, (float)(own * VECTOR)};
    float v[VECTOR], first[STREAMS] = {}, sum[STREAMS] = {}, square[STREAMS] = {};
#pragma unroll
    for (int g = 0; g < BATCHES; g++) {
        await_batch(g);
        OWN_OF_BATCH(g)
        {
            get_kept(at, j, v);
            for (int i = 0; CENTERED && j == 0 && i < STREAMS; i++)
                first[i] = v[i];
            for (int i = 0; i < VECTOR; i++) {
                const float d = v[i] - first[i % STREAMS];
                sum[i % STREAMS] += d;
                square[i % STREAMS] += term(d);
            }
        }
    }
    const float n = (float)(own * EACH), share = own > 0 ? __fdividef(1.0f, n) : 0.0f;
    for (int i = 0; CENTERED && i < STREAMS; i++)
        m.mean += (double)first[i] + sum[i] * share;
    m.mean /= STREAMS;
    for (int i = 0; i < STREAMS; i++) {
        const float off = sum[i] * share, d = (float)(first[i] - m.mean) + off;
        const float about = square[i] - sum[i] * off;
        m.square += CENTERED ? (about < 0 ? 0.0f : about) + d * d * n : square[i];
    }
    return m;
}

DEVICE moments moments_of_row(const rows_args &a, const uint4 *at, int own, int turn)
{
    const moments m = moments_of_thread(at, own);
    moments all = {0, 0, over_lanes<plus>(m.n)};
    if (CENTERED)
        all.mean = over_lanes<plus>(m.mean * m.n) / (all.n > 0 ? all.n : 1);
    all.square = over_lanes<plus>(m.about(all.mean));
    const moments *parts = meet(all, turn);
    double mean = 0;
    float square = 0;
    for (int i = threadIdx.x % 32; CENTERED && i < PARTS; i += 32)
        mean += parts[i].mean * parts[i].n;
    if (CENTERED)
        mean = over_lanes<plus>(mean) / (double)a.cols;
    for (int i = threadIdx.x % 32; i < PARTS; i += 32)
        square += parts[i].about(mean);
    all.mean = mean;
    all.square = over_lanes<plus>(square);
    return all;
}

DEVICE void do_row(const rows_args &a, const row_places &p, const uint4 *at, const share &here, const share &next, float, const all_factors &held, int t, int turn)
{
    const int own = here.own;
    const moments m = moments_of_row(a, at, own, turn);
    const bool slow = out_of_range(m.square, a.epsilon);
    const float center = (float)m.mean, shift = (float)(m.mean - center);
    const float factor = factor_of(deviation_of(a, m.square));
    if (slow)
        do_row_in_double(a, p.row, t, true);
    else
        store_stats(a, p.row, t, m.mean, factor);
    enum { AT_ONCE = RING > 1 ? BATCHES : 1 };
    float v[VECTOR];
#pragma unroll AT_ONCE
    for (int g = 0; g < BATCHES; g++) {
        OF_BATCH(g)
        {
            if (j < own && !slow) {
                factors f;
                get_kept(at, j, v);
#if RING > 1
                f = held.of[j];
                forget(f);
#else
                load_factors(a, t, j, f);
#endif
                for (int i = 0; i < VECTOR; i++)
                    v[i] -= center;
                normalise(a, p, t, j, shift, factor, f, v);
            }
            fetch(at, next, j);
        }
        end_batch(g);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) rows_kept(const __grid_constant__ rows_args a)
{
    int t = threadIdx.x, turn = 0;
#if CLUSTER > 1
    t += (int)rank_in_cluster() * THREADS;
    cluster_barrier(); // all blocks are there to be written to
#endif
    const i64 teams = gridDim.x / CLUSTER;
    i64 row = blockIdx.x / CLUSTER;
    wait_for_predecessor();
    all_factors held;
#if RING > 1
#pragma unroll
    for (int j = 0; j < PER * BATCHES; j++)
        load_factors(a, t, j, held.of[j]);
#endif
    share here = share_of(a, row, t);
#pragma unroll
    for (int r = 0; r < RING; r++) {
        const share s = share_of(a, row + r * teams, t);
#pragma unroll
        for (int g = 0; g < BATCHES; g++) {
            OF_BATCH(g) fetch(own_place(r), s, j);
            end_batch(g);
        }
    }
    float loose = loose_of(here, t);
    for (int slot = 0; row < a.rows; row += teams, turn ^= 1) {
        const share next = share_of(a, row + RING * teams, t);
        const float loose_next = loose_of(next, t);
        row_places p;
        find_row(a, row, p);
        do_row(a, p, own_place(slot), here, next, loose, held, t, turn);
        here = RING > 1 ? share_of(a, row + teams, t) : next;
        slot = slot + 1 < RING ? slot + 1 : 0;
        loose = loose_next;
    }
}
