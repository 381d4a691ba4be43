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

// This thread's elements of one row.
struct lane {
    const XT *x;
    YT *y;
    i64 index;
    operand_places operands;
    i64 n; // 0: there is no such row
#if HELD > 0
    float v[HELD];
#endif
};

DEVICE float value(const rows_args &a, const lane &l, i64 c)
{
    return to_float(l.x[c * a.at_x.col]);
}

#if HELD > 0
#define WALK                                                                                       \
    _Pragma("unroll") for (int j = 0; j < HELD; j++) if (i64 c = threadIdx.y + (i64)j * WAYS;      \
                                                         c < l.n)
#define VALUE l.v[j]
#else
#define WALK for (i64 c = threadIdx.y; c < l.n; c += WAYS)
#define VALUE value(a, l, c)
#endif

DEVICE void put(const rows_args &a, const lane &l, i64 c, float v)
{
    l.y[c * a.at_y.col] = from_float<YT>(finish(a, l.operands, c, l.index, v));
}

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX
DEVICE void do_lane(const rows_args &a, const lane &l, int &turn)
{
    float most = -INFINITE, sum = 0;
    WALK most = fmaxf(most, VALUE);
    most = over_ways<larger>(most, turn);
    WALK sum += __expf(VALUE - most);
    sum = over_ways<plus>(sum, turn);
    float factor = KIND == SOFTMAX ? 1.0f / sum : logf(sum);
    WALK put(a, l, c, KIND == SOFTMAX ? __expf(VALUE - most) * factor : VALUE - most - factor);
}
#else
DEVICE float scale_of(const rows_args &a, i64 c)
{
#ifdef SCALET
    return to_float(((const SCALET *)a.scale)[c * SCALE_STEP]);
#else
    return 1.0f;
#endif
}

DEVICE float bias_of(const rows_args &a, i64 c)
{
#ifdef BIAST
    return to_float(((const BIAST *)a.bias)[c * BIAS_STEP]);
#else
    return 0.0f;
#endif
}

template <class T> struct moments {
    T mean, rest, sum; // the mean in two parts; squared distances from it, or what the norm adds up
};

template <class T> DEVICE moments<T> take_moments(const rows_args &a, const lane &l, int &turn)
{
    moments<T> m = {0, 0, 0};
#if CENTERED
    WALK m.mean += VALUE;
    m.mean = over_ways<plus>(m.mean, turn) / (T)a.cols;
    WALK m.rest += VALUE - m.mean;
    m.rest = over_ways<plus>(m.rest, turn) / (T)a.cols;
#endif
    WALK m.sum += term<T>((T)VALUE - m.mean - m.rest);
    m.sum = over_ways<plus>(m.sum, turn);
    return m;
}

template <class T> DEVICE void normalise(const rows_args &a, const lane &l, const moments<T> &m)
{
    T by = deviation_of<T>(a, m.sum);
    WALK
    {
        T v = IS_NORM && by == 0 ? (T)0 : ((T)VALUE - m.mean - m.rest) / by;
        put(a, l, c, (float)(v * scale_of(a, c) + bias_of(a, c)));
    }
}

DEVICE void do_lane(const rows_args &a, const lane &l, int &turn)
{
    moments<float> m = take_moments<float>(a, l, turn);
    if (!__syncthreads_or(l.n > 0 && out_of_range(m.sum, a.epsilon)))
        normalise(a, l, m);
    else
        normalise(a, l, take_moments<double>(a, l, turn));
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WAYS) rows_lanes(const __grid_constant__ rows_args a)
{
    i64 blocks = (a.lanes + 31) / 32;
    int turn = 0;
    for (i64 unit = blockIdx.x; unit < a.rows * blocks; unit += gridDim.x) {
        lane l;
        i64 row = unit / blocks;
        l.index = unit % blocks * 32 + threadIdx.x;
        l.n = l.index < a.lanes ? a.cols : 0;
        l.x = (const XT *)a.x + place_of(a, a.at_x, row) + l.index * a.at_x.side;
        l.y = (YT *)a.y + place_of(a, a.at_y, row) + l.index * a.at_y.side;
        find_operands(a, row, l.operands);
#if HELD > 0
        WALK l.v[j] = value(a, l, c);
#endif
        do_lane(a, l, turn);
    }
}
