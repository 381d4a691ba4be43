/* conv_depthwise.h -- the depthwise row at any level: vectors over channels, sums of a tile of
 * pixels in registers, each input pixel loaded once for all the sums that it is in.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/depthwise.h"
#include "cpu/simd/vec.h"

#if VW == 16
enum { TILE = 14 };
#elif VW == 8
enum { TILE = 8 };
#else
enum { TILE = 4 };
#endif

/* In a register: compilers would rather load it again for each product. */
#define KEEP(v) __asm__("" : "+v"(v))

/* Where a tile begins: output pixel `ox`, of `nt` pixels; channel `c`, of `nc` lanes. */
typedef struct {
    int64_t ox, c;
    int nt, nc;
} place;

/* Of the tile, those that there are. */
#define EACH_PIXEL _Pragma("GCC unroll 16") for (int t = 0; t < TILE; t++) if (!edge || t < at.nt)

VINLINE vf load(const float *p, int nc, bool tail)
{
    return tail ? vf_load_n(p, nc) : vf_load(p);
}

VINLINE void finish(const cm_depthwise_row *a, place at, bool edge, bool tail, vf *acc)
{
    float *y = a->y + (at.ox - a->begin) * a->y_ld + at.c;
    const int64_t ld = a->y_ld, residual_ld = a->residual_ld;
    if (a->residual) {
        const float *residual = a->residual + (at.ox - a->begin) * residual_ld + at.c;
        EACH_PIXEL
        acc[t] = vf_add(acc[t], load(residual + t * residual_ld, at.nc, tail));
    }
    if (a->lo > -__builtin_inff()) {
        vf lo = vf_set(a->lo);
        EACH_PIXEL
        acc[t] = vf_max(lo, acc[t]);
    }
    if (a->hi < __builtin_inff()) {
        vf hi = vf_set(a->hi);
        EACH_PIXEL
        acc[t] = vf_min(hi, acc[t]);
    }
    EACH_PIXEL
    {
        if (tail)
            vf_store_n(y + t * ld, acc[t], at.nc);
        else
            vf_store(y + t * ld, acc[t]);
    }
}

/* Windows of K columns, S apart, side by side: column i of the tile's input is in the sums t with
 * i == t * S + j. Columns that are not in [lo, hi) are outside the input. */
VINLINE void slide(const cm_depthwise_row *a, place at, int K, int S, bool edge, bool tail)
{
    vf acc[TILE], bias = a->bias ? load(a->bias + at.c, at.nc, tail) : vf_zero();
    int64_t first = at.ox * a->stride - a->pad;
    int64_t lo = first < 0 ? -first : 0;
    int64_t hi = (at.nt - 1) * S + K < a->in - first ? (at.nt - 1) * S + K : a->in - first;
#pragma GCC unroll 16
    for (int t = 0; t < TILE; t++)
        acc[t] = bias;
    for (int r = 0; r < a->n_rows; r++) {
        const float *x = a->x[r] + (first * a->x_ld + at.c), *w = a->w[r] + at.c;
        vf wk[7];
#pragma GCC unroll 7
        for (int j = 0; j < K; j++)
            wk[j] = vf_load(w + j * a->w_ld);
#pragma GCC unroll 40
        for (int i = 0; i < (TILE - 1) * S + K; i++) {
            if (edge && (i < lo || i >= hi))
                continue;
            vf v = load(x + i * a->x_ld, at.nc, tail);
            KEEP(v);
#pragma GCC unroll 7
            for (int j = 0; j < K; j++)
                if (i >= j && (i - j) % S == 0 && (i - j) / S < TILE)
                    acc[(i - j) / S] = vf_fma(v, wk[j], acc[(i - j) / S]);
        }
    }
    finish(a, at, edge, tail, acc);
}

/* Any window: a load for each product. */
VINLINE void gather(const cm_depthwise_row *a, place at, bool edge, bool tail)
{
    vf acc[TILE], bias = a->bias ? load(a->bias + at.c, at.nc, tail) : vf_zero();
    int64_t first = at.ox * a->stride - a->pad, step = a->stride * a->x_ld;
#pragma GCC unroll 16
    for (int t = 0; t < TILE; t++)
        acc[t] = bias;
    for (int r = 0; r < a->n_rows; r++) {
        for (int64_t j = 0; j < a->kernel; j++) {
            int64_t column = first + j * a->dilation;
            const float *x = a->x[r] + (column * a->x_ld + at.c);
            vf w = vf_load(a->w[r] + j * a->w_ld + at.c);
#pragma GCC unroll 16
            for (int t = 0; t < TILE; t++) {
                int64_t i = column + t * a->stride;
                if (edge && (t >= at.nt || i < 0 || i >= a->in))
                    continue;
                acc[t] = vf_fma(load(x + t * step, at.nc, tail), w, acc[t]);
            }
        }
    }
    finish(a, at, edge, tail, acc);
}

#define TILES(name, call)                                                                          \
    static void name(const cm_depthwise_row *a, int64_t ox, int nt, bool edge)                     \
    {                                                                                              \
        place at = {ox, 0, nt, VW};                                                                \
        if (edge)                                                                                  \
            for (; at.c + VW <= a->channels; at.c += VW)                                           \
                call(true, false);                                                                 \
        else                                                                                       \
            for (; at.c + VW <= a->channels; at.c += VW)                                           \
                call(false, false);                                                                \
        at.nc = (int)(a->channels - at.c);                                                         \
        if (at.nc > 0)                                                                             \
            call(true, true);                                                                      \
    }
#define SLIDE31(edge, tail) slide(a, at, 3, 1, edge, tail)
#define SLIDE32(edge, tail) slide(a, at, 3, 2, edge, tail)
#define SLIDE51(edge, tail) slide(a, at, 5, 1, edge, tail)
#define SLIDE52(edge, tail) slide(a, at, 5, 2, edge, tail)
#define SLIDE71(edge, tail) slide(a, at, 7, 1, edge, tail)
#define GATHER(edge, tail)  gather(a, at, edge, tail)
TILES(slide_3_1, SLIDE31)
TILES(slide_3_2, SLIDE32)
TILES(slide_5_1, SLIDE51)
TILES(slide_5_2, SLIDE52)
TILES(slide_7_1, SLIDE71)
TILES(gather_any, GATHER)

typedef void (*tiles_fn)(const cm_depthwise_row *a, int64_t ox, int nt, bool edge);

static tiles_fn tiles_for(const cm_depthwise_row *a)
{
    if (a->dilation != 1)
        return gather_any;
    if (a->kernel == 3)
        return a->stride == 1 ? slide_3_1 : a->stride == 2 ? slide_3_2 : gather_any;
    if (a->kernel == 5)
        return a->stride == 1 ? slide_5_1 : a->stride == 2 ? slide_5_2 : gather_any;
    return a->kernel == 7 && a->stride == 1 ? slide_7_1 : gather_any;
}

void CM_LEVEL(cm_cpu_depthwise_row_f32)(const cm_depthwise_row *a)
{
    tiles_fn tiles = tiles_for(a);
    int64_t reach = (a->kernel - 1) * a->dilation;
    for (int64_t ox = a->begin; ox < a->end; ox += TILE) {
        int nt = a->end - ox < TILE ? (int)(a->end - ox) : TILE;
        int64_t first = ox * a->stride - a->pad, last = first + (TILE - 1) * a->stride + reach;
        tiles(a, ox, nt, nt < TILE || first < 0 || last >= a->in);
    }
}
