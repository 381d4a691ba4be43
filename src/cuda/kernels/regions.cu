// regions.cu -- cells of regions of images, each the mean or the largest of samples between pixels.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has one cell and CHANNELS planes, which share its samples' places. Places are computed in double, as the evaluator
// does; samples outside [-1, size] read as 0. Generated before this: ELEMENT, NUMBER, LARGEST, HALF_PIXEL.
#include "common.cuh"
#include "elements.cuh"

enum { CHANNELS = 8 };

struct arguments {
    const ELEMENT *x, *regions;
    const i64 *images;
    ELEMENT *y;
    i64 n_regions, n_images, channels, in[2], out[2], ratio;
    double scale;
    u32 *fault;
    u32 fault_code, unused;
};

// One axis of a region: its cell's first place and, from one sample to the next, the step.
struct span {
    double from, step;
    i64 n;
};

DEVICE span cell(double start, double end, i64 index, i64 cells, i64 ratio)
{
    span s;
    double length = end - start;
    if (!HALF_PIXEL && length < 1)
        length = 1;
    const double each = length / (double)cells, pixels = ceil(each);
    s.n = ratio ? ratio : pixels > 1 ? (i64)pixels : 1;
    s.from = start + (double)index * each;
    s.step = each / (double)s.n;
    return s;
}

// Of n samples those in [first, end) may be within [-1, size]: a region may be much larger than the image.
DEVICE void inside(const span &s, i64 size, i64 *first, i64 *end)
{
    *first = 0;
    *end = s.n;
    if (!(s.step > 0))
        return;
    const double low = (-1 - s.from) / s.step - 2, high = ((double)size - s.from) / s.step + 2, n = (double)s.n;
    if (low > 0)
        *first = (i64)(low < n ? low : n);
    if (high < n)
        *end = high > (double)*first ? (i64)high : *first;
}

// Two neighbouring pixels and the second's share; false: the place reads as 0.
DEVICE bool neighbours(double at, i64 size, i64 *low, i64 *high, NUMBER *share)
{
    if (!(at >= -1 && at <= (double)size))
        return false;
    at = at <= 0 ? 0 : at;
    *low = (i64)at;
    *high = *low + 1;
    *share = (NUMBER)(at - (double)*low);
    if (*low >= size - 1) {
        *low = *high = size - 1;
        *share = 0;
    }
    return true;
}

DEVICE NUMBER larger(NUMBER a, NUMBER b) { return a > b || b != b ? a : b; }

struct pixels {
    i64 at[4];
    NUMBER weight[4];
};

DEVICE bool find(const arguments &a, double y, double x, pixels *p)
{
    i64 y0, y1, x0, x1;
    NUMBER fy, fx;
    if (!neighbours(y, a.in[0], &y0, &y1, &fy) || !neighbours(x, a.in[1], &x0, &x1, &fx))
        return false;
    p->at[0] = y0 * a.in[1] + x0;
    p->at[1] = y0 * a.in[1] + x1;
    p->at[2] = y1 * a.in[1] + x0;
    p->at[3] = y1 * a.in[1] + x1;
    p->weight[0] = (1 - fy) * (1 - fx);
    p->weight[1] = (1 - fy) * fx;
    p->weight[2] = fy * (1 - fx);
    p->weight[3] = fy * fx;
    return true;
}

// The samples of one cell, of `planes` planes from x on.
DEVICE void gather(const arguments &a, const span &v, const span &h, const ELEMENT *x, int planes, NUMBER *out)
{
    const i64 plane = a.in[0] * a.in[1];
    i64 v0, v1, h0, h1;
    inside(v, a.in[0], &v0, &v1);
    inside(h, a.in[1], &h0, &h1);
    bool any = v0 > 0 || h0 > 0 || v1 < v.n || h1 < h.n; // a sample that reads as 0
    for (i64 i = v0; i < v1; i++)
        for (i64 k = h0; k < h1; k++) {
            pixels p;
            const bool there = find(a, v.from + ((double)i + 0.5) * v.step, h.from + ((double)k + 0.5) * h.step, &p);
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                if (c >= planes)
                    continue;
                NUMBER t[4];
#pragma unroll
                for (int q = 0; q < 4; q++)
                    t[q] = there ? p.weight[q] * get<NUMBER, ELEMENT>(x[c * plane + p.at[q]]) : (NUMBER)0;
                const NUMBER top = larger(larger(t[0], t[1]), larger(t[2], t[3]));
                out[c] = LARGEST ? (any && out[c] > top ? out[c] : top) : out[c] + (t[0] + t[1] + t[2] + t[3]);
            }
            any = true;
        }
}

extern "C" __global__ void __launch_bounds__(256) regions(const arguments a)
{
    const i64 volume = a.out[0] * a.out[1], all = a.n_regions * volume, step = (i64)gridDim.x * blockDim.x;
    const i64 first = (i64)blockIdx.y * CHANNELS;
    const int planes = (int)(a.channels - first < CHANNELS ? a.channels - first : CHANNELS);
    for (i64 item = (i64)blockIdx.x * blockDim.x + threadIdx.x; item < all; item += step) {
        const i64 region = item / volume, place = item - region * volume, image = a.images[region];
        double corner[4]; // left, top, right, bottom
        bool good = image >= 0 && image < a.n_images;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            corner[i] = get<double, ELEMENT>(a.regions[region * 4 + i]) * a.scale;
            good = good && corner[i] < 1e9 && corner[i] > -1e9;
            corner[i] -= HALF_PIXEL ? 0.5 : 0.0;
        }
        NUMBER sum[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            sum[c] = 0;
        NUMBER samples = 1;
        if (good) {
            const span v = cell(corner[1], corner[3], place / a.out[1], a.out[0], a.ratio);
            const span h = cell(corner[0], corner[2], place % a.out[1], a.out[1], a.ratio);
            gather(a, v, h, a.x + (image * a.channels + first) * a.in[0] * a.in[1], planes, sum);
            samples = (NUMBER)(v.n * h.n);
        } else {
            atomicCAS(a.fault, 0u, a.fault_code);
        }
        ELEMENT *y = a.y + (region * a.channels + first) * volume + place;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            if (c < planes)
                y[c * volume] = element<ELEMENT>::put(LARGEST ? sum[c] : sum[c] / samples);
    }
}
