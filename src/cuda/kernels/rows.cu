// rows.cu -- softmax and normalisations of rows: THREADS threads of CLUSTER blocks to a row, which they hold in registers
// (HELD vectors each) or, where it is too long (HELD 0), read twice.
// SPDX-License-Identifier: Apache-2.0
//
// What rows_vectors.cuh says of macros, and CONSTANT: scales and biases are there before any kernel runs.
#include "common.cuh"
#include "rows.cuh"
#define SHORT (HELD > 0)
#include "rows_vectors.cuh"

#if HELD == 0 || KIND == SOFTMAX || KIND == LOG_SOFTMAX
struct all_factors {
};
enum { FEW_FACTORS = 0 };
DEVICE void load_factors(const rows_args &a, int t, all_factors &f) {}
#endif

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX
#if HELD > 0
DEVICE void do_row(const rows_args &a, const row_places &p, int t, bool there, int &turn, all_factors &f)
{
    float v[HELD][VECTOR], most = -INFINITE, sum = 0;
#pragma unroll
    for (int j = 0; j < HELD; j++) {
        for (int i = 0; i < VECTOR; i++)
            v[j][i] = -INFINITE;
        if (there)
            load(a, p, t, j, -INFINITE, v[j]);
        for (int i = 0; i < VECTOR; i++)
            most = fmaxf(most, v[j][i]);
    }
    most = over_row<larger>(most, turn);
#pragma unroll
    for (int j = 0; j < HELD; j++)
        for (int i = 0; i < VECTOR; i++) {
            float e = inside(a, t, j, i) ? __expf(v[j][i] - most) : 0.0f;
#if KIND == SOFTMAX
            v[j][i] = e;
#endif
            sum += e;
        }
    sum = over_row<plus>(sum, turn);
    float factor = KIND == SOFTMAX ? 1.0f / sum : logf(sum);
    if (!there)
        return;
#pragma unroll
    for (int j = 0; j < HELD; j++)
        soft_vector(a, p, t, j, most, factor, v[j]);
}
#else
DEVICE void do_row(const rows_args &a, const row_places &p, int t, bool there, int &turn, all_factors &f)
{
    float v[VECTOR], most = -INFINITE, sum = 0;
    int n = (int)((a.cols + TEAM * VECTOR - 1) / (TEAM * VECTOR));
    for (int j = 0; j < n; j++) {
        float here = -INFINITE;
        load(a, p, t, j, -INFINITE, v);
        for (int i = 0; i < VECTOR; i++)
            here = fmaxf(here, v[i]);
        if (here > most) {
            sum *= __expf(most - here);
            most = here;
        }
        for (int i = 0; i < VECTOR; i++) /* a NaN among them makes the sum one */
            sum += v[i] == -INFINITE ? 0.0f : __expf(v[i] - most);
    }
    float all = over_row<larger>(most, turn);
    sum = over_row<plus>(most == -INFINITE && sum == 0 ? 0.0f : sum * __expf(most - all), turn);
    float factor = KIND == SOFTMAX ? 1.0f / sum : logf(sum);
    for (int j = 0; j < n; j++) {
        load(a, p, t, j, -INFINITE, v);
        for (int i = 0; KIND == SOFTMAX && i < VECTOR; i++)
            v[i] = __expf(v[i] - all);
        soft_vector(a, p, t, j, all, factor, v);
    }
}
#endif

#else
#if HELD > 0
struct all_factors {
    factors of[HELD];
};
enum { FEW_FACTORS = sizeof(all_factors) <= 128 };

DEVICE void load_factors(const rows_args &a, int t, all_factors &f)
{
#pragma unroll
    for (int j = 0; j < HELD; j++)
        load_factors(a, t, j, f.of[j]);
}

DEVICE void do_row(const rows_args &a, const row_places &p, int t, bool there, int &turn, all_factors &f)
{
    float v[HELD][VECTOR], sum = 0, shift = 0, mean = 0;
#pragma unroll
    for (int j = 0; j < HELD; j++) {
        for (int i = 0; i < VECTOR; i++)
            v[j][i] = 0;
        if (there)
            load(a, p, t, j, 0, v[j]);
    }
    if (FEW_FACTORS && !CONSTANT)
        load_factors(a, t, f);
#pragma unroll
    for (int j = 0; j < HELD; j++)
        if (there)
            store_sum(a, p, t, j, v[j]);
#if CENTERED
    // The mean in two parts: what float32 makes of it, and what remains of distances from that. So small is this that squares
    // may be summed up before it is known.
#pragma unroll
    for (int j = 0; j < HELD; j++)
        for (int i = 0; i < VECTOR; i++)
            mean += v[j][i];
    mean = over_row<plus>(mean, turn) / (float)a.cols;
#pragma unroll
    for (int j = 0; j < HELD; j++)
        for (int i = 0; i < VECTOR; i++) {
            v[j][i] = inside(a, t, j, i) ? v[j][i] - mean : 0.0f;
            shift += v[j][i];
            sum += term(v[j][i]);
        }
    two both = over_row<plus>(two{shift, sum}, turn);
    shift = both.a / (float)a.cols;
    sum = both.b - both.a * shift;
    sum = sum < 0 ? 0.0f : sum;
#else
#pragma unroll
    for (int j = 0; j < HELD; j++)
        for (int i = 0; i < VECTOR; i++)
            sum += term(v[j][i]);
    sum = over_row<plus>(sum, turn);
#endif
    bool slow = there && out_of_range(sum, a.epsilon);
#if THREADS < 32
    slow = __any_sync(~0u, slow);
#endif
    if (slow) {
        do_row_in_double(a, p.row, t, there);
        return;
    }
    if (!there)
        return;
    float factor = factor_of(deviation_of(a, sum));
#pragma unroll
    for (int j = 0; j < HELD; j++) {
        if (!FEW_FACTORS)
            load_factors(a, t, j, f.of[j]);
        normalise(a, p, t, j, shift, factor, f.of[j], v[j]);
    }
    store_stats(a, p.row, t, mean + shift, factor);
}
#else
// VECTOR streams of means and squared distances in each thread, joined in doubles.
DEVICE void do_row(const rows_args &a, const row_places &p, int t, bool there, int &turn, all_factors &f)
{
    float v[VECTOR], part[VECTOR], square[VECTOR];
    int n = (int)((a.cols + TEAM * VECTOR - 1) / (TEAM * VECTOR)), count[VECTOR];
    for (int i = 0; i < VECTOR; i++)
        part[i] = square[i] = 0, count[i] = 0;
    for (int j = 0; j < n; j++) {
        load(a, p, t, j, 0, v);
        store_sum(a, p, t, j, v);
        float share = 1.0f / (float)(j + 1);
        for (int i = 0; i < VECTOR; i++) {
            if (!inside(a, t, j, i))
                continue;
            count[i]++;
#if CENTERED
            float d = v[i] - part[i];
            part[i] += d * share;
            square[i] += d * (v[i] - part[i]);
#else
            square[i] += term(v[i]);
#endif
        }
    }
    double mean = 0, sum = 0;
#if CENTERED
    for (int i = 0; i < VECTOR; i++)
        mean += (double)part[i] * count[i];
    mean = over_row<plus>(mean, turn) / (double)a.cols;
#endif
    for (int i = 0; i < VECTOR; i++) {
        double d = part[i] - mean;
        sum += square[i] + d * d * count[i];
    }
    sum = over_row<plus>(sum, turn);
    if (out_of_range((float)sum, a.epsilon)) {
        do_row_in_double(a, p.row, t, there);
        return;
    }
    float center = (float)mean, factor = (float)factor_of(deviation_of(a, sum));
    float shift = (float)(mean - center);
    for (int j = 0; j < n; j++) {
        factors one;
        load(a, p, t, j, 0, v);
        load_factors(a, t, j, one);
        for (int i = 0; i < VECTOR; i++)
            v[i] -= center;
        normalise(a, p, t, j, shift, factor, one, v);
    }
    store_stats(a, p.row, t, mean, 1 / deviation_of(a, sum));
}
#endif
#endif

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) rows(const __grid_constant__ rows_args a)
{
    int t = threadIdx.x % THREADS, turn = 0;
#if CLUSTER > 1
    t += (int)rank_in_cluster() * THREADS;
    cluster_barrier(); // all blocks are there to be written to
#endif
    all_factors f;
    if (FEW_FACTORS && CONSTANT)
        load_factors(a, t, f);
    wait_for_predecessor();
    for (i64 first = (i64)(blockIdx.x / CLUSTER) * ROWS; first < a.rows;
         first += (i64)(gridDim.x / CLUSTER) * ROWS) {
        i64 row = first + threadIdx.x / THREADS;
        bool there = row < a.rows;
        row_places p;
        find_row(a, there ? row : 0, p);
        do_row(a, p, t, there, turn, f);
    }
}

#ifdef EMBED
// How many entries of each batch's mask are 1.
extern "C" __global__ void count_mask(const void *mask, int wide, i64 len, int *out)
{
    int n = 0;
    for (i64 i = threadIdx.x; mask && i < len; i += 32)
        n += id_at(mask, wide, blockIdx.x * len + i) == 1;
    for (int o = 16; o > 0; o /= 2)
        n += __shfl_xor_sync(~0u, n, o);
    if (threadIdx.x == 0)
        out[blockIdx.x] = n;
}
#endif
