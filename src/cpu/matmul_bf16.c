/* matmul_bf16.c -- products of bfloat16 with constant weights by the processor's own instructions: pairs of
 * products per lane (AVX512-BF16), tiles (AMX).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both read the same packed weights (gemm_half.h). Rows of A are read in place where k is a multiple of
 * CM_BF16_K, else from a copy with zeros behind. Sums go to a buffer and from there through the epilogue, tile by
 * tile where it is of a common form. */
#include <string.h>
#include <xmmintrin.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/finish_bf16.h"
#include "cpu/gemm_half.h"
#include "cpu/matmul.h"

enum { GROUP = 8, BLOCK_ELEMS = 256 << 10, MIN_PIECE_NS = 4000 };

typedef struct {
    cm_matmul_view v;
    const cm_gemm_bf16_kernel *g;
    cm_matmul_grid grid;
    int64_t tiles, panels, k, rows; /* k rounded up; rows at a time */
    bool in_place;
    size_t a_bytes, c_bytes;
} layout;

static const char *reject(const cm_problem *p)
{
    cm_matmul_view v;
    if (p->in[0]->dtype != CM_BF16 || p->in[1]->dtype != CM_BF16)
        return "the operands are not bfloat16";
    if (!cm_matmul_view_of(p, &v))
        return "the output is strided along both axes";
    if (!p->constant[v.b])
        return "the operand that gives the columns is not constant";
    if (!cm_matmul_is_regular(p, &v))
        return "the constant's matrices are interleaved";
    return cm_matmul_out_reject(p, &v, true);
}
const char *cm_cpu_matmul_bf16_reject(const cm_problem *p)
{
    return cm_cpu_info()->bf16 ? reject(p) : "the processor has no AVX512-BF16";
}
const char *cm_cpu_matmul_amx_reject(const cm_problem *p)
{
    return reject(p);
}

/* How long a grid takes: its threads' pieces one after the other, each of which reads its panels from a far cache, and
 * rows of A as often as it comes to others. Many pieces suffer less when a thread is held up. */
static double grid_ns(const layout *l, int64_t rows, int64_t cols, int threads)
{
    const double byte_ns = 1 / 15.0, piece_ns = 500, held_up = 0.25;
    double rounds = (double)cm_ceil_div(l->v.n_batch * rows * cols, threads);
    double tiles = (double)cm_ceil_div(l->tiles, rows),
           panels = (double)cm_ceil_div(l->panels, cols);
    double k = (double)l->k, b_bytes = panels * k * CM_BF16_NR * 2;
    double a_bytes = tiles * l->g->mr * k * 2,
           turns = rounds < (double)rows ? rounds : (double)rows;
    double piece = tiles * panels * k / CM_BF16_K * l->g->square_ns + b_bytes * byte_ns + piece_ns;
    return (rounds * piece + turns * a_bytes * byte_ns) * (1 + held_up / rounds);
}

static void cut(layout *l, int threads)
{
    double best = 0;
    l->grid = (cm_matmul_grid){l->v.n_batch, 1, 1, 1};
    double alone =
        (double)(l->v.n_batch * l->tiles * l->panels) * (double)l->k / CM_BF16_K * l->g->square_ns;
    if (threads <= 1 || alone < 2 * MIN_PIECE_NS)
        return;
    for (int64_t rows = 1; rows <= l->tiles;
         rows = rows < l->tiles ? cm_min_i64(2 * rows, l->tiles) : rows + 1) {
        for (int64_t each = 1; each <= GROUP; each++) {
            int64_t cols = cm_ceil_div(l->panels, each);
            double ns = grid_ns(l, rows, cols, threads);
            if (best > 0 && ns >= best)
                continue;
            best = ns;
            l->grid.rows = rows;
            l->grid.cols = cols;
        }
    }
    l->grid.workers = cm_min_i64(threads, l->v.n_batch * l->grid.rows * l->grid.cols);
}

static void lay_out(const cm_problem *p, const cm_gemm_bf16_kernel *g, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    l->g = g;
    l->tiles = cm_gemm_tiles(s->m, g->mr);
    l->panels = cm_ceil_div(s->n, CM_BF16_NR);
    l->k = cm_ceil_div(s->k, CM_BF16_K) * CM_BF16_K;
    l->in_place = l->k == s->k && s->a.col == 1;
    cut(l, p->threads);
    l->rows = cm_max_i64(1, BLOCK_ELEMS / l->k / g->mr) * g->mr;
    l->rows = cm_min_i64(l->rows, s->m);
    l->a_bytes = l->in_place ? 0 : ((size_t)(l->rows * l->k) * 2 + 63) / 64 * 64;
    l->c_bytes = (size_t)(l->rows * GROUP * CM_BF16_NR) * sizeof(float);
}

static size_t workspace(const cm_problem *p, const cm_gemm_bf16_kernel *g)
{
    layout l;
    lay_out(p, g, &l);
    return (l.a_bytes + l.c_bytes) * (size_t)l.grid.workers;
}

/* `gain`: over float32. */
static double cost(const cm_problem *p, const cm_gemm_bf16_kernel *g, double gain)
{
    layout l;
    lay_out(p, g, &l);
    double waste =
        (double)(l.panels * CM_BF16_NR) / (double)l.v.s.n * (double)l.k / (double)l.v.s.k;
    double pieces = (double)(l.grid.batch * l.grid.rows * l.grid.cols);
    double ns = cm_matmul_ns(p, 0.85 * gain) * waste;
    return 500 + ns / (l.grid.workers > 1 ? cm_cpu_speedup(p, pieces) : 1);
}

static size_t pack_bytes(const cm_problem *p, int input)
{
    layout l;
    lay_out(p, &cm_gemm_bf16__avx512, &l);
    if (input != l.v.b)
        return 0;
    int64_t matrices = cm_tensor_elems(p->in[input]) / (l.v.s.k * l.v.s.n);
    return (size_t)(matrices * l.panels * CM_BF16_NR * l.k) * sizeof(uint16_t);
}

typedef struct {
    const layout *l;
    const uint16_t *from;
    uint16_t *to;
} pack_job;

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_matmul *s = &j->l->v.s;
    for (int64_t q = begin; q < end; q++) {
        int64_t col = q % j->l->panels * CM_BF16_NR, n = cm_min_i64(CM_BF16_NR, s->n - col);
        const uint16_t *from = j->from + q / j->l->panels * s->k * s->n + col * s->b.col;
        uint16_t *to = j->to + q * CM_BF16_NR * j->l->k;
        for (int64_t l = 0; l < j->l->k; l++) {
            for (int64_t c = 0; c < CM_BF16_NR; c++)
                to[cm_bf16_panel_at(l, c)] =
                    l < s->k && c < n ? from[l * s->b.row + c * s->b.col] : 0;
        }
    }
}

static void pack(const cm_problem *p, int input, const void *from, void *to, cm_threads *threads)
{
    layout l;
    lay_out(p, &cm_gemm_bf16__avx512, &l);
    pack_job j = {&l, from, to};
    int64_t matrices = cm_tensor_elems(p->in[input]) / (l.v.s.k * l.v.s.n);
    cm_parallel(threads, matrices * l.panels, 1 + 20000 / (CM_BF16_NR * l.k), pack_panels, &j);
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_matmul_out out;
    bool fast; /* `finish` is all there is to do with sums */
    cm_bf16_finish finish;
} job;

static void copy_rows(const layout *l, const uint16_t *a, int64_t m, uint16_t *to)
{
    const cm_matmul *s = &l->v.s;
    for (int64_t i = 0; i < m; i++, a += s->a.row, to += l->k) {
        for (int64_t x = 0; x < s->k; x++)
            to[x] = a[x * s->a.col];
        memset(to + s->k, 0, (size_t)(l->k - s->k) * sizeof *to);
    }
}

static void add_alpha(const job *j, float *c, int64_t ld, int64_t m, int64_t n)
{
    float alpha = j->l.v.s.alpha;
    for (int64_t x = 0; alpha != 1 && x < m; x++)
        for (int64_t y = 0; y < n; y++)
            c[x * ld + y] *= alpha;
}

/* The next rows of A, which other threads wrote, while these are multiplied with their first panel; the first of all at
 * once. They lie one after the other. */
static void ask_for_rows(const layout *l, cm_bf16_tile *t, bool first, bool more)
{
    const char *rows = (const char *)t->a;
    int64_t bytes = l->g->mr * l->k * 2;
    for (int64_t i = 0; first && i < t->m * l->k * 2; i += 64)
        _mm_prefetch(rows + i, _MM_HINT_T1);
    t->ahead[0] = (cm_bf16_ahead){rows + bytes, 64, more ? l->g->mr : 0};
}

/* Rows [i, i + m) by panels [panel, end), at most GROUP of them. Whole tiles come first: AMX is set up for those. The
 * next panel is asked for meanwhile, or at first (`cold`) the next rows. */
static void block(const job *j, const cm_matmul_at *at, const uint16_t *a, int64_t lda, int64_t i,
                  int64_t m, int64_t panel, int64_t end, bool cold, float *c)
{
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    const int64_t mr = l->g->mr, size = CM_BF16_NR * l->k, tiles = cm_gemm_tiles(m, l->g->mr);
    const uint16_t *b =
        (const uint16_t *)j->r->in[l->v.b] + at->b / (s->k * s->n) * l->panels * size;
    int64_t ld = j->fast ? CM_BF16_NR : GROUP * CM_BF16_NR, n = cm_min_i64(s->n, end * CM_BF16_NR);
    cm_bf16_tile t = {.k = l->k, .lda = lda, .ldc = ld};
    for (int64_t q = panel; q < end; q++) {
        int64_t col = q * CM_BF16_NR;
        t.b = b + q * size;
        t.ahead[0] = (cm_bf16_ahead){(const char *)(t.b + (q + 1 < l->panels ? size : 0)), 64,
                                     (int)cm_ceil_div(32, tiles)};
        for (int64_t row = 0; row < m; row += mr) {
            t.m = cm_min_i64(mr, m - row);
            t.a = a + row * lda;
            t.c = j->fast ? c : c + row * ld + (q - panel) * CM_BF16_NR;
            if (cold && q == panel && lda == l->k)
                ask_for_rows(l, &t, row == 0, row + mr < m);
            l->g->tile(&t);
            t.ahead[0].from += l->k / CM_BF16_K * t.ahead[0].lines * 64;
            if (j->fast)
                cm_bf16_finish_panel(&j->finish, at->row + i + row, col, t.m,
                                     cm_min_i64(CM_BF16_NR, n - col), c, ld);
        }
    }
    if (j->fast)
        return;
    n -= panel * CM_BF16_NR;
    add_alpha(j, c, ld, m, n);
    cm_matmul_part part = {&j->out, c, ld, at->row, i, panel * CM_BF16_NR};
    cm_matmul_part_done(&part, 0, 0, m, n);
}

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t col)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    int64_t i = row * l->tiles / l->grid.rows * l->g->mr;
    int64_t i_end = cm_min_i64(s->m, (row + 1) * l->tiles / l->grid.rows * l->g->mr);
    int64_t panel = col * l->panels / l->grid.cols, end = (col + 1) * l->panels / l->grid.cols;
    cm_matmul_at at = cm_matmul_batch_at(&l->v, batch);
    char *scratch = (char *)j->r->workspace + (size_t)worker * (l->a_bytes + l->c_bytes);
    if (l->g->begin)
        l->g->begin();
    for (int64_t m; i < i_end; i += m) {
        const uint16_t *a = (const uint16_t *)j->r->in[l->v.a] + at.a + i * s->a.row;
        int64_t lda = s->a.row;
        m = cm_min_i64(l->rows, i_end - i);
        if (!l->in_place) {
            copy_rows(l, a, m, (uint16_t *)(scratch + l->c_bytes));
            a = (const uint16_t *)(scratch + l->c_bytes);
            lda = l->k;
        }
        for (int64_t q = panel; q < end; q += GROUP)
            block(j, &at, a, lda, i, m, q, cm_min_i64(end, q + GROUP), q == panel && l->in_place,
                  (float *)scratch);
    }
    if (l->g->end)
        l->g->end();
}

static cm_status run(const cm_run *r, const cm_gemm_bf16_kernel *g)
{
    job j = {.r = r};
    lay_out(r->p, g, &j.l);
    cm_matmul_out_init(&j.out, r, &j.l.v, true);
    j.fast = !j.out.bias && j.l.v.s.alpha == 1 && (j.l.v.row == 1 || j.l.v.s.m == 1) &&
             cm_bf16_finish_of(&j.out.plan, &j.finish);
    cm_matmul_run_grid(r->threads, &j.l.grid, piece, &j);
    return CM_OK;
}

CM_BF16_TACTIC(matmul_bf16, cm_gemm_bf16__avx512, 2)
CM_BF16_TACTIC(matmul_amx, cm_gemm_bf16__amx, 8)
