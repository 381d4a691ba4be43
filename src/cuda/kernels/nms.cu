// nms.cu -- the best boxes of each class that do not overlap better ones.
// SPDX-License-Identifier: Apache-2.0
//
// A block has a row: the scores of one class in one batch. The best candidates that are left, CHUNK at a time, are sorted;
// of these GROUP at a time are held against all boxes that were kept, then against each other, by masks. Overlaps are
// calculated as the reference does, no product joined to a sum. Generated before this: CENTER.
#include "common.cuh"

struct arguments {
    const float4 *boxes; // [batches, n]
    const float *scores; // [batches, classes, n]
    const i64 *most;     // NULL: 0
    const float *overlap, *least_score; // NULL: 0; none
    i64 *y, *count;      // count: for the host, NULL: it does not ask
    u32 *kept;           // per row: how many
    u32 *indices;        // per row, `room` of them: which
    float4 *corners;     // ... and where
    i64 rows;
    u32 classes, n, room;
};

enum { THREADS = 512, CHUNK = 4096, GROUP = 64, SHARES = THREADS / GROUP };
#include "sort_keys.cuh"

struct box {
    float y0, x0, y1, x1, area;
};

DEVICE box box_of(float4 p)
{
    box b = {p.x, p.y, p.z, p.w, 0};
    b.area = __fmul_rn(__fsub_rn(b.y1, b.y0), __fsub_rn(b.x1, b.x0));
    return b;
}
DEVICE float4 read_corners(float4 p)
{
#if CENTER
    const float h = __fmul_rn(p.w, 0.5f), w = __fmul_rn(p.z, 0.5f);
    return make_float4(__fsub_rn(p.y, h), __fsub_rn(p.x, w), __fadd_rn(p.y, h), __fadd_rn(p.x, w));
#else
    return make_float4(fminf(p.x, p.z), fminf(p.y, p.w), fmaxf(p.x, p.z), fmaxf(p.y, p.w));
#endif
}

// Of a NaN and a number, the number.
DEVICE float least(float a, float b) { return a < b || b != b ? a : b; }
DEVICE float most(float a, float b) { return a > b || b != b ? a : b; }

DEVICE bool overlaps(const box &a, const box &b, float threshold)
{
    const float height = __fsub_rn(least(a.y1, b.y1), most(a.y0, b.y0));
    const float width = __fsub_rn(least(a.x1, b.x1), most(a.x0, b.x0));
    const float both = __fmul_rn(most(height, 0), most(width, 0));
    if (both <= 0 && threshold >= 0)
        return false;
    const float either = __fsub_rn(__fadd_rn(a.area, b.area), both);
    if (a.area <= 0 || b.area <= 0 || either <= 0)
        return false;
    return __fdiv_rn(both, either) > threshold;
}

// Small keys come first: large scores, of equal ones the first; NaN last.
enum : u64 { NO_KEY = ~0ull };
DEVICE u64 key_of(const arguments &a, const float *scores, u32 i)
{
    const float s = scores[i] + 0.0f;
    if (a.least_score && !(s > *a.least_score))
        return NO_KEY;
    const u32 bits = __float_as_uint(s), up = bits ^ ((u32)((int)bits >> 31) | 0x80000000u);
    return (u64)(s != s ? ~0u : ~up) << 32 | i;
}

// How many keys from `first` on there are; where that is more than CHUNK, the CHUNK-th of them, digit by digit.
DEVICE u32 next_chunk(const arguments &a, const float *scores, u64 first, u64 &last)
{
    __shared__ u32 bins[256];
    __shared__ u32 chosen, rank;
    u64 prefix = 0, mask = 0;
    u32 k = CHUNK;
    last = NO_KEY - 1;
    for (int shift = 56; shift >= 0; shift -= 8) {
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += THREADS)
            bins[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < a.n; i += THREADS) {
            const u64 key = key_of(a, scores, i);
            if (key != NO_KEY && key >= first && (key & mask) == prefix)
                atomicAdd(&bins[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 sum = 0, bin = 0;
            for (; bin < 256 && sum + bins[bin] < k; bin++)
                sum += bins[bin];
            chosen = bin;
            rank = bin == 256 ? sum : k - sum;
        }
        __syncthreads();
        if (chosen == 256) // only at the first digit: all of them
            return rank;
        prefix |= (u64)chosen << shift;
        mask |= 255ull << shift;
        k = rank;
    }
    last = prefix;
    return CHUNK;
}

// Keys from `first` to `last`, sorted; the rest of the power of two are NO_KEY.
DEVICE void sort_chunk(const arguments &a, const float *scores, u64 first, u64 last, u32 n, u64 *keys)
{
    __shared__ u32 n_keys;
    u32 all = 2;
    while (all < n)
        all *= 2;
    if (threadIdx.x == 0)
        n_keys = 0;
    for (u32 i = threadIdx.x; i < all; i += THREADS)
        keys[i] = NO_KEY;
    __syncthreads();
    for (u32 i = threadIdx.x; i < a.n; i += THREADS) {
        const u64 key = key_of(a, scores, i);
        if (key >= first && key <= last)
            keys[atomicAdd(&n_keys, 1u)] = key;
    }
    sort_keys(keys, all);
}

// Adds those of up to GROUP candidates that nothing hides to the row's; true: no more are wanted.
DEVICE bool keep_of_group(const arguments &a, i64 row, const u64 *keys, u32 n, u32 wanted, float threshold, u32 &kept)
{
    __shared__ float4 corners[GROUP];
    __shared__ u32 hidden[GROUP];
    __shared__ u64 by[GROUP]; // which earlier ones of the group hide it
    __shared__ u32 kept_now;
    u32 *indices = a.indices + row * a.room;
    float4 *places = a.corners + row * a.room;
    const u32 me = threadIdx.x % GROUP, share = threadIdx.x / GROUP;
    __syncthreads(); // the group before has been read
    if (threadIdx.x < GROUP) {
        hidden[me] = 0;
        by[me] = 0;
        if (me < n)
            corners[me] = read_corners(a.boxes[row / a.classes * a.n + (u32)keys[me]]);
    }
    __syncthreads();
    if (me < n) {
        const box mine = box_of(corners[me]);
        bool covered = false;
        for (u32 k = share; k < kept && !covered; k += SHARES)
            covered = overlaps(mine, box_of(places[k]), threshold);
        if (covered)
            atomicOr(&hidden[me], 1u);
        u64 mask = 0;
        for (u32 k = share; k < me; k += SHARES)
            mask |= (u64)overlaps(mine, box_of(corners[k]), threshold) << k;
        if (mask)
            atomicOr(&by[me], mask);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 stay = 0;
        u32 to = kept;
        for (u32 k = 0; k < n && to < wanted; k++) {
            if (hidden[k] || (by[k] & stay))
                continue;
            stay |= 1ull << k;
            indices[to] = (u32)keys[k];
            places[to++] = corners[k];
        }
        kept_now = to;
    }
    __syncthreads(); // of global memory too: the block reads what it wrote
    kept = kept_now;
    return kept == wanted;
}

extern "C" __global__ void __launch_bounds__(THREADS) nms_rows(const __grid_constant__ arguments a)
{
    __shared__ u64 keys[CHUNK];
    const i64 limit = a.most ? *a.most : 0;
    const u32 wanted = limit < 0 ? 0 : limit < a.room ? (u32)limit : a.room;
    const float threshold = a.overlap ? *a.overlap : 0;
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const float *scores = a.scores + row * a.n;
        u64 first = 0, last;
        u32 kept = 0, n = CHUNK;
        bool done = wanted == 0;
        while (!done && n == CHUNK) {
            n = next_chunk(a, scores, first, last);
            sort_chunk(a, scores, first, last, n, keys);
            for (u32 at = 0; at < n && !done; at += GROUP)
                done = keep_of_group(a, row, keys + at, n - at < GROUP ? n - at : GROUP, wanted, threshold, kept);
            first = last + 1;
            __syncthreads(); // keys have been read
        }
        if (threadIdx.x == 0)
            a.kept[row] = kept;
    }
}

// Triples of all rows, one after the other: a block adds up what comes before its rows.
extern "C" __global__ void __launch_bounds__(THREADS) nms_write(const __grid_constant__ arguments a)
{
    __shared__ unsigned long long sums[2];
    const i64 each = (a.rows + gridDim.x - 1) / gridDim.x;
    const i64 first = each * blockIdx.x, end = first + each < a.rows ? first + each : a.rows;
    if (threadIdx.x < 2)
        sums[threadIdx.x] = 0;
    __syncthreads();
    u64 before = 0, all = 0;
    for (i64 row = threadIdx.x; row < a.rows; row += THREADS) {
        before += row < first ? a.kept[row] : 0;
        all += a.kept[row];
    }
    atomicAdd(&sums[0], before);
    atomicAdd(&sums[1], all);
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0 && a.count)
        *a.count = (i64)sums[1];
    u64 at = sums[0];
    for (i64 row = first; row < end; row++) {
        const u32 kept = a.kept[row];
        for (u32 i = threadIdx.x; i < 3 * kept; i += THREADS)
            a.y[at * 3 + i] = i % 3 == 0   ? row / a.classes
                              : i % 3 == 1 ? row % a.classes
                                           : (i64)a.indices[row * a.room + i / 3];
        at += kept;
    }
}
