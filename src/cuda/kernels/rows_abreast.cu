// rows_abreast.cu -- groups of channels that are innermost, kept: an element passes through memory once.
// SPDX-License-Identifier: Apache-2.0
//
// A slab is SPAN vectors of WIDTH channels at each position of an image (a.parts slabs are beside each other there), and has SLAB_ROWS whole
// groups. CLUSTER blocks keep one in shared memory; while they write its results, the next one comes to take its place. A thread has
// the same vector of every position that is its own; of cells, GRAIN elements of it that are of the same group, it finds the statistics, which
// meet in the block's memory and then in that of all blocks. HELD: vectors of a thread at most. JOINERS: threads for each group of a slab. A
// slab is often all that a block has: loops are short, so that little code is to be fetched. What rows_group.cuh says of other macros.
#include "common.cuh"
#include "rows.cuh"
#include "rows_group.cuh"
#include "rows_batches.cuh"

// Those of batch g that there are.
#define OWN_OF_BATCH(g) _Pragma("unroll 2") for (int j = (g) * PER; j < own && j < (g) * PER + PER; j++)

enum {
    USED = THREADS / SPAN * SPAN, // threads that keep something
    WAYS = USED / SPAN,           // positions that a block has at once
    TEAM = WAYS * CLUSTER,
    CELLS = WIDTH / GRAIN,
    COLUMNS = SPAN * CELLS,
    TERMS = COLUMNS / SLAB_ROWS, // columns of cells that are of one group
};
typedef vec<XT, WIDTH> some;

#define EACH_OF_VECTOR _Pragma("unroll") for (int i = 0; i < WIDTH; i++)

struct stat { // of elements
    double mean, square;
};

// The shared memory of a block.
extern __shared__ uint4 kept[]; // vector j of thread t at j * THREADS + t
DEVICE stat *cells() { return (stat *)(kept + HELD * THREADS); }                               // [WAYS][COLUMNS]
DEVICE stat *parts(int turn) { return cells() + WAYS * COLUMNS + turn * SLAB_ROWS * CLUSTER; } // [SLAB_ROWS][CLUSTER], of blocks
DEVICE row_stats *rows_told() { return (row_stats *)parts(2); }

DEVICE some get_kept(int j) { return *(const some *)(kept + j * THREADS + threadIdx.x); }

// Positions of a way, and of all ways of a block.
DEVICE int own_of(const rows_args &a, int way) { return ((int)a.part - way + TEAM - 1) / TEAM; }
DEVICE int own_of_block(const rows_args &a, int rank)
{
    const int all = (int)a.part / TEAM, more = (int)a.part % TEAM - rank * WAYS;
    return all * WAYS + (more < 0 ? 0 : more < WAYS ? more : WAYS);
}

// What a thread has of a slab: where it begins in input and output, and its place there. x is NULL where there is nothing.
struct share {
    const XT *x;
    YT *y;
    i64 image, first; // channel
};

DEVICE share share_of(const rows_args &a, i64 unit, int way)
{
    share s = {nullptr, nullptr, 0, 0};
    if (unit >= a.units || threadIdx.x >= USED)
        return s;
    s.image = (u32)unit / (u32)a.parts;
    s.first = (i64)((u32)unit % (u32)a.parts * SPAN + threadIdx.x % SPAN) * WIDTH;
    s.x = (const XT *)a.x + s.image * a.at_x.outer[0] + s.first + way * a.channels;
    s.y = (YT *)a.y + s.image * a.at_y.outer[0] + s.first + way * a.channels;
    return s;
}

// Vector j sets out, to where what was there has been read.
DEVICE void fetch(const share &s, i64 step, int j)
{
    asm volatile("" ::: "memory");
    if (s.x)
        copy16(shared_address(kept) + (j * THREADS + threadIdx.x) * 16, s.x + j * step, true);
}

template <class T> DEVICE T over_joiners(T v)
{
#pragma unroll
    for (int o = JOINERS / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// ---- Statistics -----------------------------------------------------------------------------------

// Of cell k in doubles, where float32 does not hold them.
static __device__ __noinline__ stat cell_in_double(int own, int k)
{
    stat s = {0, 0};
    for (int j = 0; j < own; j++)
        for (int i = 0; i < GRAIN; i++)
            s.mean += to_float(((const XT *)(kept + j * THREADS + threadIdx.x))[k * GRAIN + i]) / (double)(own * GRAIN);
    for (int j = 0; j < own; j++)
        for (int i = 0; i < GRAIN; i++) {
            const double d = to_float(((const XT *)(kept + j * THREADS + threadIdx.x))[k * GRAIN + i]) - s.mean;
            s.square += d * d;
        }
    return s;
}

// As vectors come: of each channel about its first element. They are so few that squares about that tell those about the mean well.
DEVICE void take_cells(const rows_args &a, int own, stat *to)
{
    float first[WIDTH], sum[WIDTH], square[WIDTH];
    wait_for_batch(0);
    const some begin = get_kept(0);
    EACH_OF_VECTOR first[i] = to_float(begin.v[i]), sum[i] = square[i] = 0;
#pragma unroll
    for (int g = 0; g < BATCHES; g++) {
        wait_for_batch(g);
        OWN_OF_BATCH(g)
        {
            const some v = get_kept(j);
            EACH_OF_VECTOR {
                const float d = to_float(v.v[i]) - first[i];
                sum[i] += d;
                square[i] += d * d;
            }
        }
    }
    if (own == 0)
        return;
    const float n = (float)own, share = __fdividef(1.0f, n);
#pragma unroll
    for (int k = 0; k < CELLS; k++) {
        stat s = {0, 0};
        bool held = true;
#pragma unroll
        for (int i = k * GRAIN; i < k * GRAIN + GRAIN; i++)
            s.mean += ((double)first[i] + sum[i] * share) / GRAIN;
#pragma unroll
        for (int i = k * GRAIN; i < k * GRAIN + GRAIN; i++) {
            const float off = sum[i] * share, d = (float)(first[i] - s.mean) + off, about = square[i] - sum[i] * off;
            const float all = (about < 0 ? 0.0f : about) + d * d * n;
            held = held && !out_of_range(all, a.epsilon) && square[i] < 1e37f;
            s.square += all;
        }
        to[k] = held ? s : cell_in_double(own, k);
    }
}

// Of a row in this block, from cells; all its joiners have the same.
DEVICE stat join_cells(const rows_args &a, int row, int rank)
{
    const int part = threadIdx.x % JOINERS, all = own_of_block(a, rank) * TERMS;
    stat s = {0, 0};
    for (int way = part; way < WAYS; way += JOINERS) {
        const int n = own_of(a, rank * WAYS + way);
        for (int k = 0; k < TERMS && n > 0; k++)
            s.mean += cells()[way * COLUMNS + row * TERMS + k].mean * n;
    }
    s.mean = over_joiners(s.mean) / (all > 0 ? all : 1);
    for (int way = part; way < WAYS; way += JOINERS) {
        const int n = own_of(a, rank * WAYS + way);
        for (int k = 0; k < TERMS && n > 0; k++) {
            const stat c = cells()[way * COLUMNS + row * TERMS + k];
            s.square += squares_about(s.mean, c.mean, c.square, (double)n * GRAIN);
        }
    }
    s.square = over_joiners(s.square);
    return s;
}

#if CLUSTER > 1
DEVICE void send(u32 at, u32 rank, const stat &s)
{
    store_cluster(at, rank, s.mean);
    store_cluster(at + 8, rank, s.square);
}
#endif

DEVICE row_stats join_parts(const rows_args &a, const stat *from)
{
    double mean = 0, square = 0;
#pragma unroll
    for (int r = 0; r < CLUSTER; r++)
        mean += from[r].mean * own_of_block(a, r);
    mean /= (double)a.space;
#pragma unroll
    for (int r = 0; r < CLUSTER; r++)
        square += squares_about(mean, from[r].mean, from[r].square, (double)own_of_block(a, r) * (TERMS * GRAIN));
    return stats_from(a, mean, square);
}

// From cells to what is told of rows. Slabs take turns at two places of parts, so that one barrier of the cluster each is enough.
DEVICE void meet(const rows_args &a, int rank, int turn)
{
    __syncthreads();
    for (int from = 0; from < SLAB_ROWS; from += THREADS / JOINERS) {
        const int at = from + threadIdx.x / JOINERS, row = at < SLAB_ROWS ? at : 0;
        const stat s = join_cells(a, row, rank);
        if (at >= SLAB_ROWS)
            continue;
#if CLUSTER > 1
        for (int r = threadIdx.x % JOINERS; r < CLUSTER; r += JOINERS)
            send(shared_address(parts(turn) + row * CLUSTER + rank), r, s);
#else
        if (threadIdx.x % JOINERS == 0)
            rows_told()[row] = join_parts(a, &s);
#endif
    }
#if CLUSTER > 1
    cluster_barrier();
    for (int row = threadIdx.x; row < SLAB_ROWS; row += THREADS)
        rows_told()[row] = join_parts(a, parts(turn) + row * CLUSTER);
#endif
    __syncthreads();
}

// ---- Results --------------------------------------------------------------------------------------

DEVICE int slab_row(int i) { return ((int)(threadIdx.x % SPAN * WIDTH) + i) / (TERMS * GRAIN); } // of element i of a thread's vectors

// What is done to a thread's channels; true: it is not for float32 to do.
DEVICE bool find_channels(const rows_args &a, const share &s, channel *h)
{
    bool extreme = false;
    EACH_OF_VECTOR {
        const row_stats &r = rows_told()[slab_row(i)];
        h[i] = channel_of(a, r, s.first + i);
        extreme = extreme || r.extreme;
    }
    return extreme;
}

static __device__ __noinline__ void put_extremes(const rows_args &a, const share s, int own, int way)
{
    operand_places o;
    find_operands(a, s.image * a.groups, o);
    for (int j = 0; j < own; j++)
        for (int i = 0; i < WIDTH; i++) {
            const float v = normalise_in_double(a, rows_told()[slab_row(i)], s.first + i,
                                                to_float(((const XT *)(kept + j * THREADS + threadIdx.x))[i]));
            s.y[j * TEAM * a.channels + i] = from_float<YT>(finish(a, o, s.first + i, way + j * TEAM, v));
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) rows_abreast(const __grid_constant__ rows_args a)
{
#if CLUSTER > 1
    const int rank = (int)rank_in_cluster();
    cluster_barrier(); // all blocks are there to be written to
#else
    const int rank = 0;
#endif
    const int of_block = threadIdx.x / SPAN, way = rank * WAYS + of_block, own = threadIdx.x < USED ? own_of(a, way) : 0;
    const i64 teams = gridDim.x / CLUSTER, step = a.channels * TEAM;
    i64 unit = blockIdx.x / CLUSTER;
    int turn = 0;
    wait_for_predecessor();
    share here = share_of(a, unit, way);
#pragma unroll 1
    for (int g = 0; g < BATCHES; g++) {
        OWN_OF_BATCH(g) fetch(here, step, j);
        copies_end_group();
    }
    for (; unit < a.units; unit += teams, turn ^= 1) {
        const share next = share_of(a, unit + teams, way);
        take_cells(a, own, cells() + of_block * COLUMNS + threadIdx.x % SPAN * CELLS);
        meet(a, rank, turn);
        operand_places o;
        channel h[WIDTH];
        find_operands(a, here.image * a.groups, o);
        const bool extreme = own > 0 && find_channels(a, here, h);
        if (extreme)
            put_extremes(a, here, own, way);
#pragma unroll 1
        for (int g = 0; g < BATCHES; g++) {
            OWN_OF_BATCH(g)
            {
                const some v = get_kept(j);
                vec<YT, WIDTH> y;
                EACH_OF_VECTOR y.v[i] = from_float<YT>(finish(a, o, here.first + i, way + j * TEAM, normalise(h[i], to_float(v.v[i]))));
                if (!extreme)
                    *(vec<YT, WIDTH> *)(here.y + j * step) = y;
                fetch(next, step, j);
            }
            copies_end_group();
        }
        here = next;
    }
}
