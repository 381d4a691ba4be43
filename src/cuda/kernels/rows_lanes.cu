// rows_lanes.cu -- softmax and normalisations of rows that lie side by side: element c of neighbours is adjacent.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has SIDE neighbours; ways share these, way w having elements w, w + WAYS, ... in registers as they are (HELD of them) or, where
// there are more (HELD 0), read for each walk. A warp is ACROSS threads along the neighbours, the others being ways; DEEP warps of WARPS
// are ways as well.
#include "common.cuh"
#define THREADS 32
#include "rows.cuh"

enum { WARP_WAYS = 32 / ACROSS, WAYS = WARP_WAYS * DEEP, TILE = ACROSS * (WARPS / DEEP) * SIDE };

// Over the ways of each row, N rows at once.
template <class Op, int N, class T> DEVICE void over_ways(T (&v)[N], int &turn)
{
#pragma unroll
    for (int o = ACROSS; o < 32; o *= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = Op::of(v[i], __shfl_xor_sync(~0u, v[i], o));
#if DEEP > 1
    __shared__ T held[2][WARPS][N][ACROSS];
    const int warp = threadIdx.x / 32, at = threadIdx.x % ACROSS;
    turn ^= 1;
    if (threadIdx.x % 32 < ACROSS)
#pragma unroll
        for (int i = 0; i < N; i++)
            held[turn][warp][i][at] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = held[turn][warp / DEEP * DEEP][i][at];
#pragma unroll
        for (int w = 1; w < DEEP; w++)
            v[i] = Op::of(v[i], held[turn][warp / DEEP * DEEP + w][i][at]);
    }
#endif
}

// SIDE rows; n is 0 where there are none.
struct lane {
    const XT *x;
    YT *y;
    i64 row, index;
    int n, way;
};
typedef vec<XT, SIDE> some;

DEVICE some get_some(const rows_args &a, const lane &l, int c) { return *(const some *)(l.x + c * a.at_x.col); }

// This thread's elements, from memory and from where they are held.
#define WALK for (int c = l.way; c < l.n; c += WAYS)
#if HELD > 0
#define WALK_HELD _Pragma("unroll") for (int j = 0; j < HELD; j++) if (const int c = l.way + j * WAYS; c < l.n)
#define SOME v[j]
#else
#define WALK_HELD WALK
#define SOME get_some(a, l, c)
#endif
#define EACH _Pragma("unroll") for (int i = 0; i < SIDE; i++)

DEVICE void put_some(const rows_args &a, const lane &l, const operand_places &o, int c, const float *v)
{
    vec<YT, SIDE> y;
    EACH y.v[i] = from_float<YT>(finish(a, o, c, l.index + i, v[i]));
    *(vec<YT, SIDE> *)(l.y + c * a.at_y.col) = y;
}

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX
DEVICE void do_lane(const rows_args &a, const lane &l, const some *v, int &turn)
{
    operand_places o;
    find_operands(a, l.row, o);
    float most[SIDE], sum[SIDE];
    EACH most[i] = -INFINITE, sum[i] = 0;
    WALK_HELD
    {
        const some s = SOME;
        EACH most[i] = fmaxf(most[i], to_float(s.v[i]));
    }
    over_ways<larger>(most, turn);
    WALK_HELD
    {
        const some s = SOME;
        EACH sum[i] += exp_of(to_float(s.v[i]) - most[i]);
    }
    over_ways<plus>(sum, turn);
    EACH sum[i] = KIND == SOFTMAX ? 1.0f / sum[i] : logf(sum[i]);
    WALK_HELD
    {
        const some s = SOME;
        float r[SIDE];
        EACH {
            const float d = to_float(s.v[i]) - most[i];
            r[i] = KIND == SOFTMAX ? exp_of(d) * sum[i] : d - sum[i];
        }
        put_some(a, l, o, c, r);
    }
}
#else
// One of a thread's neighbours in doubles, where float32 cannot hold the statistics of one.
DEVICE void do_row_in_double(const rows_args &a, const lane &l, const operand_places &o, int i, int &turn)
{
    double mean[1] = {0}, sum[1] = {0};
    const XT *x = l.x + i;
#if CENTERED
    WALK mean[0] += to_float(x[c * a.at_x.col]);
    over_ways<plus>(mean, turn);
    mean[0] /= (double)a.cols;
#endif
    WALK sum[0] += term<double>(to_float(x[c * a.at_x.col]) - mean[0]);
    over_ways<plus>(sum, turn);
    const double by = deviation_of<double>(a, sum[0]);
    WALK
    {
        const double v = IS_NORM && by == 0 ? 0 : (to_float(x[c * a.at_x.col]) - mean[0]) / by;
        l.y[c * a.at_y.col + i] =
            from_float<YT>(finish(a, o, c, l.index + i, (float)(v * scale_of(a, c) + bias_of(a, c))));
    }
}

static __device__ __noinline__ void do_lane_in_double(const rows_args &a, lane l)
{
    int turn = 0;
    operand_places o;
    find_operands(a, l.row, o);
#pragma unroll 1
    for (int i = 0; i < SIDE; i++)
        do_row_in_double(a, l, o, i, turn);
#if DEEP > 1
    __syncthreads(); // sums are read before others take their place
#endif
}

DEVICE void do_lane(const rows_args &a, const lane &l, const some *v, int &turn)
{
    float mean[SIDE], rest[SIDE], sum[SIDE];
    const float share = 1.0f / (float)a.cols;
    EACH mean[i] = rest[i] = sum[i] = 0;
#if CENTERED
    // The mean in two parts: what float32 makes of it, and what remains of distances from that.
    WALK_HELD
    {
        const some s = SOME;
        EACH mean[i] += to_float(s.v[i]);
    }
    over_ways<plus>(mean, turn);
    EACH mean[i] *= share;
    WALK_HELD
    {
        const some s = SOME;
        EACH rest[i] += to_float(s.v[i]) - mean[i];
    }
    over_ways<plus>(rest, turn);
    EACH rest[i] *= share;
#endif
    WALK_HELD
    {
        const some s = SOME;
        EACH sum[i] += term(to_float(s.v[i]) - mean[i] - rest[i]);
    }
    over_ways<plus>(sum, turn);
    bool slow = false;
    EACH slow = slow || (l.n > 0 && out_of_range(sum[i], a.epsilon));
#if DEEP > 1
    slow = __syncthreads_or(slow);
#else
    slow = __any_sync(~0u, slow);
#endif
    if (slow) {
        do_lane_in_double(a, l);
        return;
    }
    operand_places o;
    find_operands(a, l.row, o);
    EACH sum[i] = factor_of(deviation_of(a, sum[i]));
    WALK_HELD
    {
        const some s = SOME;
        float r[SIDE];
        const float scale = scale_of(a, c), bias = bias_of(a, c);
        EACH r[i] = (to_float(s.v[i]) - mean[i] - rest[i]) * sum[i] * scale + bias;
        put_some(a, l, o, c, r);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS, HELD * SIDE * sizeof(XT) > 128 ? 2 : 1) rows_lanes(const __grid_constant__ rows_args a)
{
    const i64 blocks = (a.lanes + TILE - 1) / TILE;
    const int warp = threadIdx.x / 32, at = threadIdx.x % 32;
    int turn = 0;
    wait_for_predecessor();
    for (i64 unit = blockIdx.x; unit < a.rows * blocks; unit += gridDim.x) {
        some v[HELD > 0 ? HELD : 1];
        lane l;
        l.row = unit / blocks;
        l.index = unit % blocks * TILE + (warp / DEEP * ACROSS + at % ACROSS) * SIDE;
        l.way = warp % DEEP * WARP_WAYS + at / ACROSS;
        l.n = l.index < a.lanes ? (int)a.cols : 0;
        l.x = (const XT *)a.x + place_of(a, a.at_x, l.row) + l.index * a.at_x.side;
        l.y = (YT *)a.y + place_of(a, a.at_y, l.row) + l.index * a.at_y.side;
#if HELD > 0
        WALK_HELD v[j] = get_some(a, l, c);
#endif
        do_lane(a, l, v, turn);
    }
}
