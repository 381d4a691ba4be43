/* gemm.c -- the matrix product on one thread, in blocks that fit the caches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Per block of k: rows of A in blocks that take half of the second-level cache, packed into tiles where that
 * pays; then for each panel of B, all tiles of the block. B streams once per block of rows, asked for one
 * panel ahead; a tile of A and the panel are read from the first two levels. Where A need not be packed and
 * all panels stay in the second level, each tile goes over all panels instead. */
#include "cpu/gemm.h"

#include "base/cpu.h"
#include "cpu/cpu.h"
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

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Elements of k in a block: even blocks, none above what leaves a panel of B a quarter of the second
 * level. */
static int64_t block_k(const cm_gemm_f32_kernel *g, int64_t k)
{
    int64_t most = cm_cpu_l2_floats() / 4 / g->nr;
    most = most < 256 ? 256 : least(most, 1024);
    return k > most ? div_up(div_up(k, div_up(k, most)), 4) * 4 : k;
}

static int64_t block_m(const cm_gemm_f32_kernel *g, int64_t m, int64_t kc)
{
    int64_t most = cm_cpu_l2_floats() / 2 / (kc > 0 ? kc : 1) / g->mr * g->mr;
    if (most < g->mr)
        most = g->mr;
    return m > most ? div_up(div_up(m, div_up(m, most)), g->mr) * g->mr : m;
}

size_t cm_gemm_f32_scratch(const cm_gemm_f32_kernel *g, int64_t m, int64_t k)
{
    int64_t kc = block_k(g, k);
    return (size_t)(block_m(g, m, kc) * kc) * sizeof(float);
}

void cm_gemm_f32_pack_a(const cm_gemm_f32_kernel *g, int64_t m, int64_t k, const float *a,
                        int64_t row, int64_t col, float *to)
{
    int64_t tiles = cm_gemm_tiles(m, g->mr);
    for (int64_t t = 0; t < tiles; t++) {
        int64_t i = cm_gemm_tile_begin(m, tiles, t), end = cm_gemm_tile_begin(m, tiles, t + 1);
        g->pack_a(end - i, k, a + i * row, row, col, to + i * k);
    }
}

/* How tiles of A are read. */
typedef enum { IN_PLACE, PACKED_HERE, GIVEN } a_form;

/* Rows that are a multiple of 2 KB apart meet in one or two sets of the first-level cache, which are
 * smaller than a tile. */
bool cm_gemm_f32_packs_a(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x)
{
    if (x->a_packed)
        return false;
    if (x->a_col != 1)
        return true;
    bool meet = x->k >= 64 && x->a_row % 512 == 0;
    return x->m > 4 && x->n >= (meet ? 2 * g->nr : g->pack_from);
}

/* A block of k and of rows. */
typedef struct {
    const cm_gemm_f32_kernel *g;
    const cm_gemm_f32_args *x;
    a_form form;
    int64_t l, kc; /* elements of k */
    bool first, last;
    int64_t i, m, tiles; /* rows, from the product's first */
    int64_t tile, low,
        more; /* the block's first among those that `low` and `more` split rows into */
} block;

/* Where tile t of the block begins, from the first row that was split. */
static int64_t split_at(const block *b, int64_t t)
{
    t += b->tile;
    return t * b->low + least(t, b->more);
}

/* And from the block's first row. */
static int64_t begin_of(const block *b, int64_t t)
{
    return split_at(b, t) - split_at(b, 0);
}

/* Tile t at panel j asks for its share of the next panel, after what it finishes with: rows of C, and as many of a
 * residual. */
static void ask_ahead(const block *b, cm_gemm_tile *tile, int64_t j, int64_t t)
{
    int64_t nr = b->g->nr, rows = b->kc / 4 - 2 * b->g->mr;
    if (tile->ldb == nr && j + nr < b->x->n && b->tiles > 1 && rows > 0 && t * rows < b->kc) {
        tile->ahead = tile->b + b->x->b_panel + t * rows * nr;
        tile->ahead_step = nr * (int64_t)sizeof(float);
    }
}

static void run_tile(const block *b, int64_t t, int64_t j)
{
    const cm_gemm_f32_args *x = b->x;
    int nr = b->g->nr;
    int64_t begin = begin_of(b, t), m = begin_of(b, t + 1) - begin, i = b->i + begin;
    bool tail = x->b_tail && x->n - j < nr;
    int64_t ldb = tail || !x->ldb ? nr : x->ldb;
    const float *rows[CM_GEMM_MAX_MR];
    cm_gemm_tile tile = {.runs = 1,
                         .k = b->kc,
                         .b = (tail ? x->b_tail : x->b + j / nr * x->b_panel) + b->l * ldb,
                         .ldb = ldb,
                         .c = x->c + i * x->ldc + j,
                         .ldc = x->ldc,
                         .n = (int)least(x->n - j, nr),
                         .alpha = x->alpha,
                         .add = x->add || !b->first,
                         .e = b->last ? x->e : NULL,
                         .row = x->row + i,
                         .col = x->col + j};
    ask_ahead(b, &tile, j, t);
    if (b->form == IN_PLACE) {
        const float *a = x->a + i * x->a_row + b->l;
        for (int64_t q = 0; q < m; q++)
            rows[q] = a + q * x->a_row;
        tile.rows = rows;
        b->g->rows[m](&tile);
        return;
    }
    tile.a = b->form == GIVEN ? x->a_packed + split_at(b, t) * x->k + b->l * m
                              : (const float *)x->scratch + begin * b->kc;
    b->g->packed[m](&tile);
}

static void done(const block *b, int64_t i, int64_t j, int64_t m, int64_t n)
{
    if (b->last && b->x->done)
        b->x->done(b->x->done_arg, i, j, m, n);
}

static void tile_by_tile(const block *b)
{
    for (int64_t t = 0; t < b->tiles; t++) {
        for (int64_t j = 0; j < b->x->n; j += b->g->nr)
            run_tile(b, t, j);
        int64_t i = begin_of(b, t);
        done(b, b->i + i, 0, begin_of(b, t + 1) - i, b->x->n);
    }
}

static void panel_by_panel(const block *b)
{
    int64_t n = b->x->n, nr = b->g->nr;
    /* Panels between two calls of `done`: what is complete takes an eighth of the second level. */
    int64_t group = cm_cpu_l2_floats() / 8 / b->m / nr * nr;
    if (group < nr)
        group = nr;
    for (int64_t j0 = 0; j0 < n; j0 += group) {
        int64_t end = least(n, j0 + group);
        for (int64_t j = j0; j < end; j += nr) {
            for (int64_t t = 0; t < b->tiles; t++)
                run_tile(b, t, j);
        }
        done(b, b->i, j0, b->m, end - j0);
    }
}

static void run_block(const block *b)
{
    const cm_gemm_f32_args *x = b->x;
    if (b->form == PACKED_HERE)
        cm_gemm_f32_pack_a(b->g, b->m, b->kc, x->a + b->i * x->a_row + b->l * x->a_col, x->a_row,
                           x->a_col, x->scratch);
    if (b->form != PACKED_HERE && x->n * b->kc <= cm_cpu_l2_floats() / 2)
        tile_by_tile(b);
    else
        panel_by_panel(b);
}

/* All of k at once: B, which is read once, is most of what there is to read. */
static void run_wide(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x)
{
    const float *rows[CM_GEMM_MAX_MR];
    int64_t j = 0, width = (int64_t)g->wide_panels[x->m] * g->nr, all = div_up(x->n, g->nr) * g->nr;
    for (int64_t i = 0; i < x->m; i++)
        rows[i] = x->a + i * x->a_row;
    cm_gemm_tile t = {.runs = 1,
                      .k = x->k,
                      .rows = rows,
                      .ldb = g->nr,
                      .b_panel = x->b_panel,
                      .ldc = x->ldc,
                      .alpha = x->alpha,
                      .add = x->add,
                      .e = x->e,
                      .row = x->row};
    for (int64_t step; j < x->n; j += step) {
        bool wide = j + width <= all; /* the last few one by one */
        step = wide ? width : g->nr;
        t.n = (int)least(x->n - j, step);
        t.b = x->b + j / g->nr * x->b_panel;
        t.c = x->c + j;
        t.col = x->col + j;
        (wide ? g->wide : g->rows)[x->m](&t);
    }
    if (x->done)
        x->done(x->done_arg, 0, 0, x->m, x->n);
}

/* The block of rows from i on, which is where the last one ended. */
static void begin_block(block *b, int64_t i, int64_t mc)
{
    const cm_gemm_f32_args *x = b->x;
    b->i = i;
    if (b->form != GIVEN) {
        b->m = least(mc, x->m - i);
        b->tiles = cm_gemm_tiles(b->m, b->g->mr);
        b->low = b->m / b->tiles;
        b->more = b->m % b->tiles;
        return;
    }
    int64_t all = cm_gemm_tiles(x->a_packed_m, b->g->mr), most = div_up(mc, b->g->mr);
    b->low = x->a_packed_m / all;
    b->more = x->a_packed_m % all;
    b->tile = i == 0 ? x->a_tile : b->tile + b->tiles;
    for (b->tiles = 0; b->tiles < most && i + begin_of(b, b->tiles) < x->m;)
        b->tiles++;
    b->m = begin_of(b, b->tiles);
}

void cm_gemm_f32(const cm_gemm_f32_kernel *g, const cm_gemm_f32_args *x)
{
    if (x->m <= 0 || x->n <= 0)
        return;
    if (x->m <= g->mr && g->wide[x->m] && x->a_col == 1 && !x->a_packed && !x->b_tail &&
        (x->ldb == 0 || x->ldb == g->nr)) {
        run_wide(g, x);
        return;
    }
    int64_t kc = block_k(g, x->k), mc = block_m(g, x->m, kc), l = 0;
    block b = {.g = g, .x = x, .form = x->a_packed ? GIVEN : IN_PLACE};
    if (x->scratch && cm_gemm_f32_packs_a(g, x))
        b.form = PACKED_HERE;
    do {
        b.l = l;
        b.kc = least(kc, x->k - l);
        b.first = l == 0;
        b.last = x->k - l <= kc;
        for (int64_t i = 0; i < x->m; i += b.m) {
            begin_block(&b, i, mc);
            run_block(&b);
        }
        l += kc;
    } while (l < x->k);
}
