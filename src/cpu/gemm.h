/* gemm.h -- the matrix product that kernels of all kinds share: tiles on registers, packing, blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Three layers, each of use alone:
 *
 * 1. A tile kernel computes mr x nr elements of C on registers. Rows of A are given by pointers, once per
 *    *run* of k adjacent elements (a convolution's taps are its runs: an indirect convolution), or as a
 *    packed tile. B is a panel of nr columns.
 * 2. Packing: B from any strides into panels, A into tiles.
 * 3. cm_gemm_f32: all of C = A B on one thread, blocked for the caches.
 *
 * Pick the kernels once: const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(level). */
#ifndef CM_CPU_GEMM_H
#define CM_CPU_GEMM_H

#include "cpu/epilogue.h"

enum { CM_GEMM_MAX_MR = 16, CM_GEMM_MAX_NR = 64 };

/* One tile: c[i][j] = epilogue(add * c[i][j] + alpha * sum over r, l of a[r][i][l] * b[r * k + l][j]), for
 * i < m rows (which kernel is called says m) and j < n columns. */
typedef struct cm_gemm_tile {
    int64_t runs, k; /* runs of k elements each; either may be 0 */
    /* A by rows: element l of row i in run r is rows[r * rows_step + i][l]. */
    const float *const *rows;
    int64_t rows_step;
    int64_t
        rows_apart; /* lined tiles: element l of row i in run r is rows[r][i * rows_apart + l] */
    int64_t tiles;  /* of a strip, one under the other */
    /* A strip of nr columns: a line or two that are so many elements behind each run are asked for. 0: nothing. */
    int64_t runs_ahead;
    const float *a; /* A packed (one tile of cm_gemm_f32_kernel.pack_a): [runs * k][m] */
    /* Panel of B: rows of nr floats, `ldb` apart (nr where packed). All nr are read, whatever n is. */
    const float *b;
    int64_t ldb;
    const int32_t *shift; /* shifted tiles: row l of the panel is at b + shift[l] */
    const float *start;   /* shifted tiles: added to all sums of row i is start[i]; NULL: nothing */
    int64_t b_panel;      /* wide tiles: from one panel to the next */
    float *c;
    int64_t ldc;
    int n; /* columns that are stored, 1..nr (of a wide tile: of all its panels) */
    float alpha;
    bool add;                    /* onto what is in c */
    bool near;                   /* c is in the cache, so that it is not asked for */
    const cm_simple_epilogue *e; /* NULL: none */
    int64_t row, col;            /* of c[0][0], as e counts them */
    /* What a later tile wants in the cache: a row of nr floats is asked for every 4 of k, `ahead_step` bytes
     * from one to the next, once c's and the residual's rows have been. Never read, but should be mapped. NULL
     * and 0: nothing. Shifted and wide tiles do not ask. */
    const void *ahead;
    int64_t ahead_step;
} cm_gemm_tile;

typedef void (*cm_gemm_tile_fn)(const cm_gemm_tile *t);

typedef struct cm_gemm_f32_kernel {
    int mr, nr;
    int pack_from; /* columns from which packing A pays though its rows could be read in place */
    /* By the tile's rows, 1..mr. */
    cm_gemm_tile_fn rows[CM_GEMM_MAX_MR + 1];
    cm_gemm_tile_fn packed[CM_GEMM_MAX_MR + 1];
    cm_gemm_tile_fn shifted[CM_GEMM_MAX_MR + 1]; /* A packed, rows of B anywhere; one run */
    cm_gemm_tile_fn lined[CM_GEMM_MAX_MR + 1];   /* A by runs, its rows equally far apart */
    /* `tiles` lined tiles of mr rows: n a multiple of strip_step; runs and k not 0; ldb nr; alpha 1, add false, e not
     * NULL. */
    cm_gemm_tile_fn strip;
    int strip_step;
    /* Few rows, of one run, by wide_panels[m] panels at once: several streams from memory, which then
     * delivers more. NULL: none for so many rows. */
    cm_gemm_tile_fn wide[CM_GEMM_MAX_MR + 1];
    int wide_panels[CM_GEMM_MAX_MR + 1];
    /* m rows of k elements, `row` apart, their elements `col` apart -> [k][m]. m <= mr. */
    void (*pack_a)(int64_t m, int64_t k, const float *a, int64_t row, int64_t col, float *to);
    /* The same, of rows anywhere, their elements adjacent. */
    void (*pack_rows)(int64_t m, int64_t k, const float *const *rows, float *to);
    /* Columns [0, n) of k rows -> ceil(n / nr) panels of [k][nr], `panel` floats apart, columns beyond n
     * zero. */
    void (*pack_b)(int64_t k, int64_t n, const float *b, int64_t row, int64_t col, float *to,
                   int64_t panel);
} cm_gemm_f32_kernel;

/* The kernels of a cm_isa level (amx: those of avx512). */
const cm_gemm_f32_kernel *cm_gemm_f32_kernel_of(int level);

/* Floats of B packed as one: panels k * nr apart. */
static inline int64_t cm_gemm_f32_packed_b(const cm_gemm_f32_kernel *g, int64_t k, int64_t n)
{
    return (n + g->nr - 1) / g->nr * g->nr * k;
}

/* c = epilogue(add * c + alpha * a b): m x n, sums of k. */
typedef struct cm_gemm_f32_args {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_col; /* strides; a_col other than 1 needs `scratch` */
    /* A packed beforehand by cm_gemm_f32_pack_a, of a_packed_m rows, and the tile where these m begin; they
     * end with a tile. NULL: `a` it is. */
    const float *a_packed;
    int64_t a_packed_m, a_tile;
    /* Panel p at b + p * b_panel, its rows ldb apart. Packed as one: b_panel = k * nr, ldb = nr (or 0); a matrix as
     * it lies, its columns adjacent: b_panel = nr, ldb its row stride, and where n is no multiple of nr
     * the last panel packed apart in b_tail. To do columns [j, ...) of a larger product, j a multiple of nr,
     * pass b + j / nr * b_panel. */
    const float *b, *b_tail;
    int64_t b_panel, ldb;
    float *c;
    int64_t ldc;
    float alpha;
    bool add;
    const cm_simple_epilogue *e; /* NULL: none */
    int64_t row, col;            /* of c[0][0], as e counts them */
    /* Called as parts of c are complete, while they are in the second-level cache: rows [i, i + m) and columns
     * [j, j + n) of this product. NULL: nothing to do. */
    void (*done)(void *arg, int64_t i, int64_t j, int64_t m, int64_t n);
    void *done_arg;
    /* cm_gemm_f32_scratch bytes of the calling thread's own, aligned to 64. NULL: rows of A are read where
     * they lie, which is slower where there are many columns or rows are a multiple of 2 KB apart. */
    void *scratch;
} cm_gemm_f32_args;

size_t cm_gemm_f32_scratch(const cm_gemm_f32_kernel *g, int64_t m, int64_t k);
void cm_gemm_f32(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x);
/* Would it pack A, given scratch? Looks at m, n, k and how A lies. */
bool cm_gemm_f32_packs_a(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x);

/* All of A, m * k floats, into tiles that every product with it can use. */
void cm_gemm_f32_pack_a(const cm_gemm_f32_kernel *g, int64_t m, int64_t k, const float *a,
                        int64_t row, int64_t col, float *to);

/* Rows split evenly into tiles: how many rows tile i of `tiles` has, and where it begins. */
static inline int64_t cm_gemm_tiles(int64_t m, int mr)
{
    return (m + mr - 1) / mr;
}
static inline int64_t cm_gemm_tile_begin(int64_t m, int64_t tiles, int64_t i)
{
    int64_t low = m / tiles, more = m % tiles; /* the first `more` have one row more */
    return i * low + (i < more ? i : more);
}

#endif
