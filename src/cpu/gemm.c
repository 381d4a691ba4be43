/* gemm.c -- the matrix product on one thread, in blocks that fit the caches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Per block of k: rows of A in blocks that take half of the second-level cache, packed into tiles; then for
 * each panel of B, all tiles of the block. B streams once per block of rows; a tile of A and the panel are
 * read from the first two levels. Where packing A does not pay (few columns), rows are read in place, and each
 * tile of rows goes over all panels, which stay in the second level. */
#include "cpu/gemm.h"

#include "base/cpu.h"
#include "cpu/gemm_impl.h"

const cm_gemm_f32_kernel *cm_gemm_f32_kernel_of(int level)
{
    static const cm_gemm_f32_kernel *const table[CM_ISA_COUNT] = {
        [CM_ISA_GENERIC] = &cm_gemm_f32__generic,
        [CM_ISA_AVX2] = &cm_gemm_f32__avx2,
        [CM_ISA_AVX512] = &cm_gemm_f32__avx512,
        [CM_ISA_AMX] = &cm_gemm_f32__avx512,
    };
    return table[level];
}

static int64_t l2_floats(void)
{
    int64_t bytes = cm_cpu_info()->l2_bytes;
    return (bytes > 0 ? bytes : 256 << 10) / 4;
}

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Elements of k in a block: even blocks, none above what leaves a panel of B a quarter of the second
 * level. */
static int64_t block_k(const cm_gemm_f32_kernel *g, int64_t k)
{
    int64_t most = l2_floats() / 4 / g->nr;
    most = most < 256 ? 256 : most > 1024 ? 1024 : most;
    return k > most ? div_up(div_up(k, div_up(k, most)), 4) * 4 : k;
}

static int64_t block_m(const cm_gemm_f32_kernel *g, int64_t m, int64_t kc)
{
    int64_t most = l2_floats() / 2 / (kc > 0 ? kc : 1) / g->mr * g->mr;
    if (most < g->mr)
        most = g->mr;
    return m > most ? div_up(div_up(m, div_up(m, most)), g->mr) * g->mr : m;
}

size_t cm_gemm_f32_scratch(const cm_gemm_f32_kernel *g, int64_t m, int64_t k)
{
    int64_t kc = block_k(g, k);
    return (size_t)(block_m(g, m, kc) * kc) * sizeof(float);
}

/* Does packing A pay? Reading rows in place costs about 2 %, and much more where all of a tile's rows meet
 * in one set of the first-level cache; packing costs about as much as 8 columns. */
static bool pack_pays(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x)
{
    if (!x->scratch)
        return false;
    if (x->a_col != 1)
        return true;
    bool meet = x->m > 4 && x->k >= 64 && x->a_row % 512 == 0;
    return x->n >= (meet ? 2 * g->nr : 512) && x->m > 4;
}

typedef struct {
    const cm_gemm_f32_kernel *g;
    const cm_gemm_f32_args *x;
    int64_t l, kc; /* block of k */
    bool first, last;
} block;

static cm_gemm_tile tile_of(const block *b, int64_t i, int64_t j)
{
    const cm_gemm_f32_args *x = b->x;
    int nr = b->g->nr;
    return (cm_gemm_tile){.runs = 1,
                          .k = b->kc,
                          .b = x->b + j / nr * x->b_panel + b->l * nr,
                          .ldb = nr,
                          .c = x->c + i * x->ldc + j,
                          .ldc = x->ldc,
                          .n = (int)(x->n - j < nr ? x->n - j : nr),
                          .alpha = x->alpha,
                          .add = x->add || !b->first,
                          .e = b->last ? x->e : NULL,
                          .row = x->row + i,
                          .col = x->col + j};
}

static void in_place(const block *b, int64_t i, int64_t m, int64_t j)
{
    const cm_gemm_f32_args *x = b->x;
    const float *rows[CM_GEMM_MAX_MR];
    const float *a = x->a + i * x->a_row + b->l;
    for (int64_t q = 0; q < m; q++)
        rows[q] = a + q * x->a_row;
    cm_gemm_tile t = tile_of(b, i, j);
    t.rows = rows;
    b->g->rows[m](&t);
}

static void run_in_place(const block *b)
{
    const cm_gemm_f32_args *x = b->x;
    int64_t tiles = cm_gemm_tiles(x->m, b->g->mr);
    int64_t n = x->n, nr = b->g->nr;
    bool panels_stay = n * b->kc <= l2_floats() / 2;
    for (int64_t o = 0; o < (panels_stay ? tiles : n); o += panels_stay ? 1 : nr) {
        for (int64_t q = 0; q < (panels_stay ? n : tiles); q += panels_stay ? nr : 1) {
            int64_t t = panels_stay ? o : q, j = panels_stay ? q : o;
            int64_t i = cm_gemm_tile_begin(x->m, tiles, t);
            in_place(b, i, cm_gemm_tile_begin(x->m, tiles, t + 1) - i, j);
        }
    }
}

static void run_packed(const block *b)
{
    const cm_gemm_f32_args *x = b->x;
    int64_t mc = block_m(b->g, x->m, b->kc);
    float *to = x->scratch;
    for (int64_t i0 = 0; i0 < x->m; i0 += mc) {
        int64_t m = x->m - i0 < mc ? x->m - i0 : mc, tiles = cm_gemm_tiles(m, b->g->mr);
        for (int64_t t = 0; t < tiles; t++) {
            int64_t i = cm_gemm_tile_begin(m, tiles, t), end = cm_gemm_tile_begin(m, tiles, t + 1);
            b->g->pack_a(end - i, b->kc, x->a + (i0 + i) * x->a_row + b->l * x->a_col, x->a_row,
                         x->a_col, to + i * b->kc);
        }
        for (int64_t j = 0; j < x->n; j += b->g->nr) {
            for (int64_t t = 0; t < tiles; t++) {
                int64_t i = cm_gemm_tile_begin(m, tiles, t);
                cm_gemm_tile tile = tile_of(b, i0 + i, j);
                tile.a = to + i * b->kc;
                b->g->packed[cm_gemm_tile_begin(m, tiles, t + 1) - i](&tile);
            }
        }
    }
}

void cm_gemm_f32(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x)
{
    bool pack = pack_pays(g, x);
    int64_t kc = block_k(g, x->k), l = 0;
    do {
        block b = {g, x, l, x->k - l < kc ? x->k - l : kc, l == 0, x->k - l <= kc};
        if (pack)
            run_packed(&b);
        else
            run_in_place(&b);
        l += kc;
    } while (l < x->k);
}
