// rows_lanes.cu -- softmax and normalisations of rows that lie side by side: element c of neighbours is adjacent.
// SPDX-License-Identifier: Apache-2.0
//
// A block does 32 rows; WAYS threads share one, way w having elements w, w + WAYS, ... in registers (HELD of them)
// or, where there are more (HELD 0), read for each walk.
#include "common.cuh"
#define THREADS 32
#include "rows.cuh"

// Over the ways of each row.
template <class Op, class T> DEVICE T over_ways(T v, int &turn)
{
    __shared__ T held[2][WAYS][32];
    turn ^= 1;
    held[turn][threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    v = held[turn][0][threadIdx.x];
    for (int i = 1; i < WAYS; i++)
        v = Op::of(v, held[turn][i][threadIdx.x]);
    return v;
}

// One row; n is 0 where there is none.
struct lane {
    const XT *x;
    YT *y;
    i64 row, index;
    int n;
};

DEVICE float value(const rows_args &a, const lane &l, int c)
{
    return to_float(l.x[c * a.at_x.col]);
}

// This thread's elements, from memory and from where they are held.
#define WALK for (int c = threadIdx.y; c < l.n; c += WAYS)
#if HELD > 0
#define WALK_HELD                                                                                  \
    _Pragma("unroll") for (int j = 0; j < HELD; j++) if (int c = threadIdx.y + j * WAYS; c < l.n)
#define VALUE v[j]
#else
#define WALK_HELD WALK
#define VALUE value(a, l, c)
#endif

DEVICE void put(const rows_args &a, const lane &l, const operand_places &o, int c, float v)
{
    l.y[c * a.at_y.col] = from_float<YT>(finish(a, o, c, l.index, v));
}

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX
DEVICE void do_lane(const rows_args &a, const lane &l, const float *v, int &turn)
{
    operand_places o;
    find_operands(a, l.row, o);
    float most = -INFINITE, sum = 0;
    WALK_HELD most = fmaxf(most, VALUE);
    most = over_ways<larger>(most, turn);
    WALK_HELD sum += __expf(VALUE - most);
    sum = over_ways<plus>(sum, turn);
    float factor = KIND == SOFTMAX ? 1.0f / sum : logf(sum);
    WALK_HELD put(a, l, o, c, KIND == SOFTMAX ? __expf(VALUE - most) * factor : VALUE - most - factor);
}
#else
// The whole block's rows in doubles, where float32 cannot hold the statistics of one.
static __device__ __noinline__ void do_lane_in_double(const rows_args &a, lane l)
{
    int turn = 0;
    double mean = 0, sum = 0;
    operand_places o;
    find_operands(a, l.row, o);
#if CENTERED
    WALK mean += value(a, l, c);
    mean = over_ways<plus>(mean, turn) / (double)a.cols;
#endif
    WALK sum += term<double>(value(a, l, c) - mean);
    double by = deviation_of<double>(a, over_ways<plus>(sum, turn));
    WALK
    {
        double v = IS_NORM && by == 0 ? 0 : (value(a, l, c) - mean) / by;
        put(a, l, o, c, (float)(v * scale_of(a, c) + bias_of(a, c)));
    }
    __syncthreads(); // sums are read before others take their place
}

DEVICE void do_lane(const rows_args &a, const lane &l, const float *v, int &turn)
{
    float mean = 0, rest = 0, sum = 0;
#if CENTERED
    // The mean in two parts: what float32 makes of it, and what remains of distances from that.
    WALK_HELD mean += VALUE;
    mean = over_ways<plus>(mean, turn) / (float)a.cols;
    WALK_HELD rest += VALUE - mean;
    rest = over_ways<plus>(rest, turn) / (float)a.cols;
#endif
    WALK_HELD sum += term(VALUE - mean - rest);
    sum = over_ways<plus>(sum, turn);
    if (__syncthreads_or(l.n > 0 && out_of_range(sum, a.epsilon))) {
        do_lane_in_double(a, l);
        return;
    }
    operand_places o;
    find_operands(a, l.row, o);
    float factor = factor_of(deviation_of(a, sum));
    WALK_HELD put(a, l, o, c, (VALUE - mean - rest) * factor * scale_of(a, c) + bias_of(a, c));
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WAYS) rows_lanes(const __grid_constant__ rows_args a)
{
    i64 blocks = (a.lanes + 31) / 32;
    int turn = 0;
    wait_for_predecessor();
    for (i64 unit = blockIdx.x; unit < a.rows * blocks; unit += gridDim.x) {
        float v[HELD > 0 ? HELD : 1];
        lane l;
        l.row = unit / blocks;
        l.index = unit % blocks * 32 + threadIdx.x;
        l.n = l.index < a.lanes ? (int)a.cols : 0;
        l.x = (const XT *)a.x + place_of(a, a.at_x, l.row) + l.index * a.at_x.side;
        l.y = (YT *)a.y + place_of(a, a.at_y, l.row) + l.index * a.at_y.side;
#if HELD > 0
        WALK_HELD v[j] = value(a, l, c);
#endif
        do_lane(a, l, v, turn);
    }
}
