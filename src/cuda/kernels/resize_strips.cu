// resize_strips.cu -- two axes, of one or two taps each: a thread goes down a strip of the output, a few elements wide.
// SPDX-License-Identifier: Apache-2.0
//
// It keeps what it has made of the lines of the input that it is between: sums across, of which those of the next line are made
// when it is reached.
//
// Generated before this: INPUT, OUTPUT; TAPS (1: elements are moved, 2: interpolated); RUN (elements of the innermost axis of a
// thread); ACROSS: the innermost axis is resized, to FACTOR times its size, else another one; OTHERS (axes that are not
// resized, at least 1), WIDE (nest.cuh). Where ACROSS, PLACES and WEIGHTS[RUN][TAPS]: where in a window each element's sources
// are, which is the run of the input that belongs to the thread's with a neighbour on either side.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

// Along a resized axis: source t of position i is from[t * size + i]; a table in device memory.
struct taps {
    const int *from;
    const float *weight;
    i64 size, in_size, in_step, out_step; // steps in elements
};
struct arguments {
    const INPUT *x;
    OUTPUT *y;
    taps down, across;
    u64 units, rows; // threads; of a strip
    axis runs, columns, strips; // columns: 1 where ACROSS
    axis dims[OTHERS];
    i64 in_step[OTHERS], out_step[OTHERS];
};

#if TAPS == 1
typedef INPUT number;
#else
typedef float number;
#endif

#if ACROSS
enum { CORE = RUN / FACTOR, WINDOW = CORE + 2 };
struct column {
    int before, core, behind; // of the window in a line
};
DEVICE column column_of(const arguments &a, i64 at, i64)
{
    column c;
    c.core = (int)at / FACTOR;
    c.before = c.core ? c.core - 1 : 0;
    c.behind = c.core + CORE < a.across.in_size ? c.core + CORE : c.core + CORE - 1;
    return c;
}
struct raw {
    INPUT v[WINDOW];
};
template <bool ALIGNED> DEVICE void fetch(const INPUT *x, const column &c, raw &r)
{
    r.v[0] = x[c.before];
    load_run<ALIGNED, INPUT, CORE>(x + c.core, r.v + 1);
    r.v[WINDOW - 1] = x[c.behind];
}
DEVICE void mix(const raw &r, const column &, number *to)
{
#pragma unroll
    for (int k = 0; k < RUN; k++) {
#if TAPS == 1
        to[k] = r.v[PLACES[k][0]];
#else
        const float first = WEIGHTS[k][0], second = WEIGHTS[k][1];
        to[k] = first != 0 ? first * to_float(r.v[PLACES[k][0]]) : 0.0f;
        to[k] += second != 0 ? second * to_float(r.v[PLACES[k][1]]) : 0.0f;
#endif
    }
}
#else
struct column {
    int from[TAPS];
    float weight[TAPS]; // 0: not read
};
DEVICE column column_of(const arguments &a, i64, i64 place)
{
    column c;
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
        c.from[t] = a.across.from[t * a.across.size + place] * (int)a.across.in_step;
        c.weight[t] = a.across.weight[t * a.across.size + place];
    }
    return c;
}
struct raw {
    INPUT v[TAPS][RUN];
};
template <bool ALIGNED> DEVICE void fetch(const INPUT *x, const column &c, raw &r)
{
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
#if TAPS == 2
#pragma unroll
        for (int k = 0; k < RUN; k++)
            r.v[t][k] = from_float<INPUT>(0.0f);
#endif
        if (TAPS == 1 || c.weight[t] != 0)
            load_run<ALIGNED, INPUT, RUN>(x + c.from[t], r.v[t]);
    }
}
DEVICE void mix(const raw &r, const column &c, number *to)
{
#pragma unroll
    for (int k = 0; k < RUN; k++)
#if TAPS == 1
        to[k] = r.v[0][k];
#else
        to[k] = c.weight[0] * to_float(r.v[0][k]) + c.weight[1] * to_float(r.v[1][k]);
#endif
}
#endif

template <bool ALIGNED>
DEVICE void make_line(const arguments &a, const INPUT *x, const column &c, int s, number *to)
{
    raw r;
    fetch<ALIGNED>(x + s * a.down.in_step, c, r);
    mix(r, c, to);
}

#if TAPS == 2
// A run's sums as its elements.
template <class E> DEVICE void put_run(const float *from, E *to)
{
#pragma unroll
    for (int k = 0; k < RUN; k++)
        to[k] = from_float<E>(from[k]);
}
#endif

template <bool ALIGNED>
DEVICE void go_down(const arguments &a, const INPUT *x, OUTPUT *y, int first, int end, const column &c)
{
    number upper[RUN];
    int has_upper = -1;
#if TAPS == 1
    for (int row = first; row < end; row++, y += a.down.out_step) {
        const int s = a.down.from[row];
        if (s != has_upper)
            make_line<ALIGNED>(a, x, c, s, upper);
        has_upper = s;
        store_run<ALIGNED, OUTPUT, RUN>(y, upper);
    }
#else
    number lower[RUN];
    int has_lower = -1;
    for (int row = first; row < end; row++, y += a.down.out_step) {
        const float w0 = a.down.weight[row], w1 = a.down.weight[a.down.size + row];
        const int s0 = a.down.from[row], s1 = a.down.from[a.down.size + row];
        if (w0 != 0 && s0 != has_upper) {
            if (s0 == has_lower)
#pragma unroll
                for (int k = 0; k < RUN; k++)
                    upper[k] = lower[k];
            else
                make_line<ALIGNED>(a, x, c, s0, upper);
            has_upper = s0;
        }
        if (w1 != 0 && s1 != has_lower) {
            make_line<ALIGNED>(a, x, c, s1, lower);
            has_lower = s1;
        }
        float sums[RUN];
        OUTPUT result[RUN];
        if (w0 != 0 && w1 != 0)
#pragma unroll
            for (int k = 0; k < RUN; k++)
                sums[k] = w0 * upper[k] + w1 * lower[k];
        else
#pragma unroll
            for (int k = 0; k < RUN; k++)
                sums[k] = (w0 != 0 ? w0 * upper[k] : 0.0f) + (w1 != 0 ? w1 * lower[k] : 0.0f);
        put_run<OUTPUT>(sums, result);
        store_run<ALIGNED, OUTPUT, RUN>(y, result);
    }
#endif
}

extern "C" __global__ void __launch_bounds__(256) resize_strips(const __grid_constant__ arguments a)
{
    const int read = ACROSS ? RUN / FACTOR : RUN;
    const bool aligned = (u64)a.y % (RUN * sizeof(OUTPUT)) == 0 && (u64)a.x % (read * sizeof(INPUT)) == 0;
    for (index u = first_index(); u < a.units; u += all_threads()) {
        index rest = quotient(u, a.runs);
        const i64 at = (i64)(u - rest * size_of(a.runs)) * RUN;
        index outer = quotient(rest, a.columns);
        const i64 place = ACROSS ? 0 : rest - outer * size_of(a.columns);
        rest = quotient(outer, a.strips);
        const i64 first = (i64)(outer - rest * size_of(a.strips)) * a.rows;
        const INPUT *x = a.x + (ACROSS ? 0 : at);
        OUTPUT *y = a.y + at + first * a.down.out_step + place * a.across.out_step;
#pragma unroll
        for (int d = OTHERS - 1; d >= 0; d--) {
            const index q = d ? quotient(rest, a.dims[d]) : 0;
            const i64 i = rest - q * size_of(a.dims[d]);
            rest = q;
            x += i * a.in_step[d];
            y += i * a.out_step[d];
        }
        const i64 end = first + (i64)a.rows < a.down.size ? first + (i64)a.rows : a.down.size;
        const column c = column_of(a, at, place);
        if (aligned)
            go_down<true>(a, x, y, (int)first, (int)end, c);
        else
            go_down<false>(a, x, y, (int)first, (int)end, c);
    }
}
