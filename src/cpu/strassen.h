/* strassen.h -- matrix products by Strassen's scheme, one level deep: seven products of quarters instead of eight.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     A1 = a11 + a22    B1 = b11 + b22    C11 = M1 + M4 - M5 + M7
 *     A2 = a21 + a22    B2 = b11          C12 = M3 + M5
 *     A3 = a11          B3 = b12 - b22    C21 = M2 + M4
 *     A4 = a22          B4 = b21 - b11    C22 = M1 - M2 + M3 + M6
 *     A5 = a11 + a12    B5 = b22
 *     A6 = a21 - a11    B6 = b11 + b12    Mq = Aq Bq
 *     A7 = a12 - a22    B7 = b21 + b22
 *
 * Sums of A are made ahead, once for all columns. Sums of B are made on registers by the first tile that reads them and
 * kept for those that follow, so that weights stay as they are: a core that adds beside its multiply-adds does that for
 * nothing. What a product goes into is a small matrix of the thread's own, which stays in the cache until all seven have
 * been there. */
#ifndef CM_CPU_STRASSEN_H
#define CM_CPU_STRASSEN_H

#include "cpu/gemm.h"

enum {
    CM_STRASSEN_PRODUCTS = 7,
    CM_STRASSEN_LEAST_TILE = 9,
    CM_STRASSEN_LEAST_ROWS = 40, /* fewer do not make two such tiles in each half, or do not pay */
};

/* What a product is to one of its places. */
typedef enum {
    CM_STRASSEN_NONE,
    CM_STRASSEN_STORE,
    CM_STRASSEN_ADD,
    CM_STRASSEN_LESS
} cm_strassen_how;

/* A tile of one of the products: m rows (which kernel is called says m) by nr columns, sums of k. */
typedef struct cm_strassen_tile {
    int64_t k;
    const float *a; /* rows `a_row` apart */
    int64_t a_row;
    const float *b[2]; /* panels: b[0], or as `mix` says b[0] + b[1] or b[0] - b[1] */
    cm_strassen_how mix;
    float *keep; /* where the sum of two panels goes, for other tiles */
    float *c[2]; /* rows `ldc` apart */
    cm_strassen_how how[2];
    int64_t ldc;
    const char *ahead; /* two lines are asked for every 4 of k */
} cm_strassen_tile;

typedef struct cm_strassen_kernel {
    void (*tile[CM_GEMM_MAX_MR + 1])(
        const cm_strassen_tile *t); /* from CM_STRASSEN_LEAST_TILE on */
    /* A row of the quarters a11, a12, a21, a22 -> a row of A1 ... A7, `apart` from one to the next. Magnitudes of the upper
     * and the lower row are added to `size`. */
    void (*mix)(int64_t k, const float *const quarter[4], float *to, int64_t apart, float size[2]);
    void (*finish)(const cm_simple_epilogue *e, cm_pointwise act, int64_t row, int64_t col,
                   int64_t m, int64_t n, const float *x, int64_t ld, float *y, int64_t ldy);
} cm_strassen_kernel;

extern const cm_strassen_kernel cm_strassen_f32__avx512;

/* Some rows of a product, an even number of panels, k even. */
typedef struct cm_strassen {
    const cm_gemm_f32_kernel *g;
    int64_t m, k, pairs; /* rows; sums; pairs of panels */
    const float *mixed;  /* A1 ... A7 by cm_strassen_mix: cm_strassen_mixed_floats of them */
    const float *b;      /* panels packed as one for k; panel p of the left half meets p + pairs */
    /* Called as columns are complete: `x` has m rows of n sums, `ld` apart, of columns [col, col + n). */
    void (*done)(void *arg, float *x, int64_t ld, int64_t col, int64_t n);
    void *arg;
} cm_strassen;

/* Rows of each half; the last of the second half is one too many where m is odd. */
static inline int64_t cm_strassen_half(int64_t m)
{
    return (m + 1) / 2;
}
static inline int64_t cm_strassen_mixed_floats(int64_t m, int64_t k)
{
    return CM_STRASSEN_PRODUCTS * cm_strassen_half(m) * (k / 2);
}
/* Row i of each of the seven from rows i and i + half of A, whose elements [0, k / 2) and [k / 2, k) are found at `upper`
 * and `lower`: n of them, which are those from `at` on in the rows of the seven. Their magnitudes are added to
 * `size`. */
void cm_strassen_mix(float *mixed, int64_t m, int64_t k, int64_t i, int64_t at, int64_t n,
                     const float *const upper[2], const float *const lower[2], float size[2]);
/* False: rows of these sizes are not finite, or one is so much larger than the other that its rounding would spoil the
 * other: they had better not meet. */
bool cm_strassen_alike(const float size[2]);

int64_t cm_strassen_scratch_floats(const cm_gemm_f32_kernel *g, int64_t m);
/* Pairs of panels [begin, end), on one thread with scratch of its own. */
void cm_strassen_pairs(const cm_strassen *s, int64_t begin, int64_t end, float *scratch);

/* How rows are cut into blocks, each a product of its own: of rows that belong together, in one of several items. */
typedef struct cm_strassen_cut {
    int64_t together, each, blocks; /* rows of an item; blocks of an item; of all */
    int64_t most;                   /* rows of a block */
    bool
        own; /* each thread makes the sums of A of its own blocks; else all together, and share columns */
    int64_t threads;        /* that take part: as many as have scratch */
    int64_t mixed, scratch; /* floats of a block, of a thread */
} cm_strassen_cut;
cm_strassen_cut cm_strassen_cut_of(const cm_gemm_f32_kernel *g, int64_t items, int64_t together,
                                   int64_t k, int threads);
/* Where block `index` begins, counting rows of all items; *m: how many it has. */
int64_t cm_strassen_block(const cm_strassen_cut *c, int64_t index, int64_t *m);
/* Of all threads. */
int64_t cm_strassen_floats(const cm_strassen_cut *c);
/* Nanoseconds beside the products on one thread: some six elements of A are summed in one, and three of C finished. */
double cm_strassen_extra_ns(double m, double n, double k);

/* For `done`: e and act (cm_epilogue_simple_act) of m rows by n columns, n a multiple of a vector's; `row` and `col` as e
 * counts, y where its row 0 and column 0 go. */
void cm_strassen_finish(const cm_simple_epilogue *e, cm_pointwise act, int64_t row, int64_t col,
                        int64_t m, int64_t n, const float *x, int64_t ld, float *y, int64_t ldy);

#endif
