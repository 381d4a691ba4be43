/* matmul_half.c -- products of float16 or bfloat16 at any level: operands are made float32 block by block.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows of A are widened once per block of rows, panels of B a piece of k at a time, into a buffer that
 * stays in the first-level cache; sums are float32. Constant weights keep 16 bits: a product of few rows
 * takes as long as reading them. */
#include <string.h>

#include "base/size.h"
#include "cpu/gemm_half.h"
#include "cpu/matmul.h"

enum { PIECE_K = 128, GROUP = 8, BLOCK_FLOATS = 128 << 10 };

cm_widen_fn cm_gemm_widen_of(int level, bool bf16)
{
    switch (level) {
    case CM_ISA_GENERIC:
        return bf16 ? cm_gemm_widen_bf16__generic : cm_gemm_widen_f16__generic;
    case CM_ISA_AVX2:
        return bf16 ? cm_gemm_widen_bf16__avx2 : cm_gemm_widen_f16__avx2;
    default:
        return bf16 ? cm_gemm_widen_bf16__avx512 : cm_gemm_widen_f16__avx512;
    }
}

const char *cm_cpu_matmul_half_reject(const cm_problem *p)
{
    cm_matmul_view v;
    cm_dtype t = p->in[0]->dtype;
    if ((t != CM_F16 && t != CM_BF16) || p->in[1]->dtype != t)
        return "the operands are not float16 or bfloat16";
    if (!cm_matmul_view_of(p, &v))
        return "the output is strided along both axes";
    return cm_matmul_out_reject(p, &v, true);
}

typedef struct {
    cm_matmul_view v;
    const cm_gemm_f32_kernel *g;
    cm_widen_fn widen;
    cm_matmul_grid grid;
    int64_t tiles, panels, rows; /* rows at a time */
    bool packed;                 /* B is constant, in panels of 16-bit elements */
    size_t a_bytes, b_bytes, c_bytes;
} layout;

static size_t round_up(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

static void lay_out(const cm_problem *p, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    l->g = cm_gemm_f32_kernel_of(p->target.level);
    l->widen = cm_gemm_widen_of(p->target.level, p->in[0]->dtype == CM_BF16);
    l->packed = p->constant[l->v.b] && cm_matmul_is_regular(p, &l->v);
    l->tiles = cm_gemm_tiles(s->m, l->g->mr);
    l->panels = cm_ceil_div(s->n, l->g->nr);
    l->grid = cm_matmul_cut(l->v.n_batch, l->tiles, l->panels, s->m > s->n, cm_matmul_ns(p, 0.7),
                            p->threads);
    l->rows = cm_max_i64(1, BLOCK_FLOATS / s->k / l->g->mr) * l->g->mr;
    l->rows = cm_min_i64(l->rows, s->m);
    l->a_bytes = round_up(l->rows * s->k);
    l->b_bytes = round_up(PIECE_K * l->g->nr);
    l->c_bytes = round_up(l->rows * GROUP * l->g->nr);
}

size_t cm_cpu_matmul_half_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    return (l.a_bytes + l.b_bytes + l.c_bytes) * (size_t)l.grid.workers;
}

double cm_cpu_matmul_half_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    double waste = (double)(l.panels * l.g->nr) / (double)l.v.s.n;
    double pieces = (double)(l.grid.batch * l.grid.rows * l.grid.cols);
    double ns = cm_matmul_ns(p, l.packed ? 0.75 : 0.5) * waste;
    return 500 + ns / (l.grid.workers > 1 ? cm_cpu_speedup(p, pieces) : 1);
}

size_t cm_cpu_matmul_half_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    if (!l.packed || input != l.v.b)
        return 0;
    int64_t matrices = cm_tensor_elems(p->in[input]) / (l.v.s.k * l.v.s.n);
    return (size_t)(matrices * cm_gemm_f32_packed_b(l.g, l.v.s.k, l.v.s.n)) * sizeof(uint16_t);
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
    int64_t nr = j->l->g->nr;
    for (int64_t q = begin; q < end; q++) {
        int64_t col = q % j->l->panels * nr, n = cm_min_i64(nr, s->n - col);
        const uint16_t *from = j->from + q / j->l->panels * s->k * s->n + col * s->b.col;
        uint16_t *to = j->to + q * nr * s->k;
        for (int64_t l = 0; l < s->k; l++, from += s->b.row, to += nr) {
            for (int64_t c = 0; c < nr; c++)
                to[c] = c < n ? from[c * s->b.col] : 0;
        }
    }
}

void cm_cpu_matmul_half_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                             void *to, cm_threads *threads)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    pack_job j = {&l, from, to};
    int64_t matrices = cm_tensor_elems(p->in[input]) / (l.v.s.k * l.v.s.n);
    cm_parallel(threads, matrices * l.panels, 1 + 20000 / (l.g->nr * l.v.s.k), pack_panels, &j);
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_matmul_out out;
} job;

/* Elements [at, at + k) of a panel's columns as float32. */
static void widen_b(const job *j, const cm_matmul_at *m, int64_t panel, int64_t at, int64_t k,
                    float *to)
{
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    const uint16_t *b = j->r->in[l->v.b];
    int64_t nr = l->g->nr, col = panel * nr, n = cm_min_i64(nr, s->n - col);
    if (l->packed) {
        b += (m->b / (s->k * s->n) * l->panels + panel) * nr * s->k + at * nr;
        l->widen(k * nr, b, 1, to);
        return;
    }
    b += m->b + col * s->b.col + at * s->b.row;
    for (int64_t q = 0; q < k; q++, b += s->b.row, to += nr) {
        l->widen(n, b, s->b.col, to);
        memset(to + n, 0, (size_t)(nr - n) * sizeof *to);
    }
}

/* A piece of k of one panel, for the m rows at `a`. */
static void multiply(const layout *l, const float *a, const float *b, float *c, int64_t m,
                     int64_t k, bool add)
{
    const float *rows[CM_GEMM_MAX_MR];
    int64_t tiles = cm_gemm_tiles(m, l->g->mr), ldc = GROUP * l->g->nr;
    cm_gemm_tile t = {.runs = 1,
                      .k = k,
                      .rows = rows,
                      .b = b,
                      .ldb = l->g->nr,
                      .ldc = ldc,
                      .n = l->g->nr,
                      .alpha = l->v.s.alpha,
                      .add = add};
    for (int64_t q = 0; q < tiles; q++) {
        int64_t i = cm_gemm_tile_begin(m, tiles, q), end = cm_gemm_tile_begin(m, tiles, q + 1);
        for (int64_t x = i; x < end; x++)
            rows[x - i] = a + x * l->v.s.k;
        t.c = c + i * ldc;
        l->g->rows[end - i](&t);
    }
}

/* Rows [i, i + m) by panels [panel, end), at most GROUP of them. */
static void block(const job *j, const cm_matmul_at *at, int64_t i, int64_t m, int64_t panel,
                  int64_t end, char *scratch)
{
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    const float *a = (const float *)scratch;
    float *b = (float *)(scratch + l->a_bytes), *c = (float *)(scratch + l->a_bytes + l->b_bytes);
    int64_t nr = l->g->nr;
    for (int64_t q = panel; q < end; q++) {
        for (int64_t x = 0; x < s->k; x += PIECE_K) {
            int64_t k = cm_min_i64(PIECE_K, s->k - x);
            widen_b(j, at, q, x, k, b);
            multiply(l, a + x, b, c + (q - panel) * nr, m, k, x > 0);
        }
    }
    cm_matmul_part part = {&j->out, c, GROUP * nr, at->row, i, panel * nr};
    cm_matmul_part_done(&part, 0, 0, m, cm_min_i64(s->n, end * nr) - panel * nr);
}

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t col)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    int64_t i = cm_gemm_tile_begin(s->m, l->tiles, row * l->tiles / l->grid.rows);
    int64_t i_end = cm_gemm_tile_begin(s->m, l->tiles, (row + 1) * l->tiles / l->grid.rows);
    int64_t panel = col * l->panels / l->grid.cols, end = (col + 1) * l->panels / l->grid.cols;
    cm_matmul_at at = cm_matmul_batch_at(&l->v, batch);
    char *scratch =
        (char *)j->r->workspace + (size_t)worker * (l->a_bytes + l->b_bytes + l->c_bytes);
    const uint16_t *a = (const uint16_t *)j->r->in[l->v.a] + at.a;
    for (int64_t m; i < i_end; i += m) {
        m = cm_min_i64(l->rows, i_end - i);
        for (int64_t q = 0; q < m; q++)
            l->widen(s->k, a + (i + q) * s->a.row, s->a.col, (float *)scratch + q * s->k);
        for (int64_t q = panel; q < end; q += GROUP)
            block(j, &at, i, m, q, cm_min_i64(end, q + GROUP), scratch);
    }
}

cm_status cm_cpu_matmul_half_run(const cm_run *r)
{
    job j = {.r = r};
    lay_out(r->p, &j.l);
    cm_matmul_out_init(&j.out, r, &j.l.v, true);
    cm_matmul_run_grid(r->threads, &j.l.grid, piece, &j);
    return CM_OK;
}
