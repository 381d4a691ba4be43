/* pairs.h -- matrix products with a quarter fewer multiplications, for cores that add beside their multiply-adds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two products of a sum cost one multiplication where three additions are free (Winograd, 1968):
 *
 *     a b + a' b' = (a + b') (a' + b) - a a' - b b'
 *                 = -(b' - a) (b - a') + a a' + b b'
 *
 * The products of two a are the same for all columns, those of two b for all rows: both are summed up ahead, where sums
 * begin. A core with as many units that add as units that multiply has time for two additions with each multiplication;
 * so of four elements of k two are multiplied as usual and two as a pair: three multiplications instead of four, and two
 * additions beside them. Pairs have the two signs in turns, so that what is added for nothing does not pile up.
 *
 * What rounding leaves is relative to (|a| + |b'|) (|a'| + |b|): columns of B are scaled by powers of two so that
 * their root mean square is about 1/2, and so are rows of A that are far from that; docs/numerics.md has the
 * errors. Rows that are zero, not finite or as good as either are multiplied as usual, with all rows of their tile. */
#ifndef CM_CPU_PAIRS_H
#define CM_CPU_PAIRS_H

#include "cpu/epilogue.h"

enum { CM_PAIRS_MR = 12, CM_PAIRS_NR = 32 };

/* Floats of a panel: k rows of weights; sums of pairs, less than nothing; what results are multiplied by; then whether
 * the panel is to be multiplied as usual (not 0). */
static inline int64_t cm_pairs_panel(int64_t k)
{
    return (k + 3) * CM_PAIRS_NR;
}
/* Scales k rows of 32 weights, `panel`, so that columns have a root mean square of about `size`, a power of two, and
 * adds what belongs behind them. */
void cm_pairs_pack(int64_t k, float size, float *panel);
static const float CM_PAIRS_SIZE = 0.5f; /* where rows may be of any size */
static inline const float *cm_pairs_packed_start(int64_t k, const float *panel)
{
    const float *behind = panel + k * CM_PAIRS_NR;
    return behind[2 * CM_PAIRS_NR] != 0 ? NULL : behind;
}
static inline const float *cm_pairs_packed_factor(int64_t k, const float *panel)
{
    return panel + (k + 1) * CM_PAIRS_NR;
}

/* The rows of a tile. */
typedef struct cm_pairs_rows {
    const float *a; /* `apart` from one to the next */
    int64_t apart;
    bool usual;               /* no pairs: some rows are not fit for them */
    bool scaled;              /* results are multiplied by `back` */
    float pairs[CM_PAIRS_MR]; /* sums of pairs */
    float back[CM_PAIRS_MR];
} cm_pairs_rows;

/* Floats from row to row where rows are copied; not such a multiple of a page's part that rows meet in one set of a cache. */
static inline int64_t cm_pairs_copied(int64_t k)
{
    return (k + 15) / 16 * 16 + (k > 256 && (k + 15) / 16 % 32 == 0 ? 16 : 0);
}
/* For a row of a mean square, and columns whose root mean square is about `size`: what its elements are to be divided by and
 * its results multiplied, a power of two; 1: nothing; 0: it is not fit for pairs. */
float cm_pairs_back(float square, float size);
/* m rows of k elements, `apart` from one to the next, for columns whose root mean square is about `size`. Those that must
 * be scaled, or all if `copy` says so, are copied to `room`, m times cm_pairs_copied(k) floats. */
void cm_pairs_rows_of(cm_pairs_rows *r, int m, int64_t k, const float *a, int64_t apart, float size,
                      bool copy, float *room);

/* For panels of k rows that are not packed by cm_pairs_pack: the size of what stands in its pairs, a power of two; 0: none
 * that would do. */
float cm_pairs_size(int64_t k, const float *panel);
/* Where sums begin, for tiles. False: some columns are too far from `size`, and the panel is to be multiplied as usual. */
bool cm_pairs_start(int64_t k, const float *panel, float size, float *start);

/* A tile: m rows (which kernel is called says m) by one panel, k > 0. */
typedef struct cm_pairs_tile {
    const cm_pairs_rows *rows;
    int64_t k;
    const float *b;      /* k rows of 32 */
    const float *start;  /* what sums begin with; NULL: the panel is multiplied as usual */
    const float *factor; /* what results are multiplied by; NULL: nothing */
    float *c;
    int64_t ldc;
    bool add;  /* onto what is in c */
    bool near; /* c is in the cache, so that it is not asked for */
    const cm_simple_epilogue *e;
    int64_t row, col;  /* of c[0][0], as e counts them */
    const char *ahead; /* what a later tile wants: a row of two lines every 4 of k; NULL: nothing */
    int ahead_rows;    /* so many; 0: while there is time */
} cm_pairs_tile;

typedef struct cm_pairs_kernel {
    void (*tile[CM_PAIRS_MR + 1])(const cm_pairs_tile *t);
    /* Of each of m rows: sums of pairs, and of squares. */
    void (*look)(int m, int64_t k, const float *a, int64_t apart, float *pairs, float *squares);
    void (*scale)(int64_t k, const float *from, float by, float *to);
    /* Of the 32 columns of k rows: sums of squares; the columns scaled, and then sums of pairs. */
    void (*squares)(int64_t k, const float *panel, double *sums);
    void (*scale_columns)(int64_t k, float *panel, const float *scale, double *sums);
    /* Of what stands in pairs alone, k >= 4: sums of squares, and of pairs. */
    void (*look_columns)(int64_t k, const float *panel, float *squares, float *pairs);
} cm_pairs_kernel;

extern const cm_pairs_kernel cm_pairs_f32__avx512;

#endif
