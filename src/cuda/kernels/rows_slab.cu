// rows_slab.cu -- softmax of rows that lie side by side, in slabs: CLUSTER blocks keep WIDTH neighbours of all elements in shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// Block r of a cluster has elements [r * part, (r + 1) * part) of the rows. A thread has SIDE neighbours of every WAYS-th of them and reads
// no other's: copies need no barrier. The largest elements and sums of a block's ways meet in its memory, those of blocks in that of all.
#include "common.cuh"
#include "rows.cuh"

enum { SPAN = WIDTH / SIDE, WAYS = THREADS / SPAN };
typedef vec<XT, SIDE> some;

extern __shared__ uint4 kept[]; // what element j * WAYS + way has of thread t at j * THREADS + t, of SIDE elements each

#define EACH _Pragma("unroll") for (int i = 0; i < SIDE; i++)

// The largest of some elements and the sum of exponentials of distances from it.
struct soft {
    float most, sum;
};
// The sum, about another one: there may be nothing, or only -inf.
DEVICE float sum_about(soft s, float other) { return s.most == other ? s.sum : s.sum * exp_of(s.most - other); }

template <int N> DEVICE soft join(const soft *from, int apart, int n)
{
    soft all = {-INFINITE, 0};
#pragma unroll N
    for (int w = 0; w < n; w++)
        all.most = fmaxf(all.most, from[w * apart].most);
#pragma unroll N
    for (int w = 0; w < n; w++)
        all.sum += sum_about(from[w * apart], all.most);
    return all;
}

DEVICE void copy_some(u32 to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(sizeof(some)));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) rows_slab(const __grid_constant__ rows_args a)
{
    __shared__ soft of_ways[WAYS][WIDTH], of_blocks[CLUSTER][WIDTH], of_all[WIDTH];
    const int way = threadIdx.x / SPAN, at = threadIdx.x % SPAN * SIDE;
    const u32 slabs = (u32)((a.lanes + WIDTH - 1) / WIDTH), unit = blockIdx.x / CLUSTER;
#if CLUSTER > 1
    const int rank = (int)rank_in_cluster();
    cluster_barrier(); // all blocks are there to be written to
#else
    const int rank = 0;
#endif
    const i64 row = unit / slabs, index = (i64)(unit % slabs) * WIDTH + at;
    const int first = rank * (int)a.part, end = first + (int)a.part < (int)a.cols ? first + (int)a.part : (int)a.cols;
    const int left = end - first - way;
    const int n = way < WAYS && index < a.lanes && left > 0 ? (left + WAYS - 1) / WAYS : 0;
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row) + index + (i64)(first + way) * a.at_x.col;
    YT *y = (YT *)a.y + place_of(a, a.at_y, row) + index + (i64)(first + way) * a.at_y.col;
    const some *own = (const some *)kept + threadIdx.x;
    float most[SIDE], sum[SIDE];
    wait_for_predecessor();
    EACH most[i] = -INFINITE, sum[i] = 0;
    {
        const u32 to = shared_address(own);
        const i64 apart = WAYS * a.at_x.col;
#pragma unroll 8
        for (int j = 0; j < n; j++)
            copy_some(to + j * (THREADS * (u32)sizeof(some)), x + j * apart);
        copies_end_group();
        copies_wait<0>();
    }
#pragma unroll 4
    for (int j = 0; j < n; j++)
        EACH most[i] = fmaxf(most[i], to_float(own[j * THREADS].v[i]));
#pragma unroll 4
    for (int j = 0; j < n; j++)
        EACH sum[i] += exp_of(to_float(own[j * THREADS].v[i]) - (most[i] == -INFINITE ? 0.0f : most[i]));
    if (way < WAYS)
        EACH of_ways[way][at + i] = {most[i], sum[i]};
    __syncthreads();
    for (int c = threadIdx.x; c < WIDTH; c += THREADS) {
        const soft s = join<4>(&of_ways[0][c], WIDTH, WAYS);
#if CLUSTER > 1
        for (u32 r = 0; r < CLUSTER; r++) {
            store_cluster(shared_address(&of_blocks[rank][c].most), r, s.most);
            store_cluster(shared_address(&of_blocks[rank][c].sum), r, s.sum);
        }
#else
        of_blocks[0][c] = s;
#endif
    }
#if CLUSTER > 1
    cluster_barrier();
#else
    __syncthreads();
#endif
    for (int c = threadIdx.x; c < WIDTH; c += THREADS) {
        soft s = join<CLUSTER>(&of_blocks[0][c], WIDTH, CLUSTER);
        s.sum = KIND == SOFTMAX ? 1.0f / s.sum : logf(s.sum);
        of_all[c] = s;
    }
    __syncthreads();
    if (n == 0)
        return;
    operand_places o;
    find_operands(a, row, o);
    EACH most[i] = of_all[at + i].most, sum[i] = of_all[at + i].sum;
#pragma unroll 4
    for (int j = 0; j < n; j++) {
        const some v = own[j * THREADS];
        vec<YT, SIDE> to;
        EACH {
            const float d = to_float(v.v[i]) - most[i];
            to.v[i] = from_float<YT>(finish(a, o, first + way + j * WAYS, index + i, KIND == SOFTMAX ? exp_of(d) * sum[i] : d - sum[i]));
        }
        *(vec<YT, SIDE> *)(y + (i64)(j * WAYS) * a.at_y.col) = to;
    }
}
