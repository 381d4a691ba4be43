/* conv_winograd_pairs.c -- the products of Winograd convolutions by pairs (cpu/pairs.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv_winograd_pairs.h"

#include "base/size.h"
#include "cpu/pairs.h"

enum { MOST_TILES = 32, MOST_STRIP = 12 };

/* What weights are scaled to: about the size that V has where inputs are of size 1/2, so that few rows of V
 * must be scaled. */
static const float sizes[] = {1, 2}; /* of F(2,3) and F(4,3) */

void cm_winograd_pairs_pack(const cm_winograd_plan *g, int64_t n, float *u)
{
    for (int64_t e = 0; e < g->positions; e++)
        cm_pairs_pack(n, sizes[g->form], u + e * g->u_panel);
}

/* Channels [from, from + n) of a position of V. */
typedef struct {
    int64_t from, n;
    float *v, *pairs, *back; /* of tile 0 */
} part;

static part part_of(const cm_winograd_plan *g, float *v, int64_t i)
{
    part p = {.from = i * g->part, .v = v + i * g->part};
    p.n = cm_min_i64(g->part, g->c_in - p.from);
    p.pairs = v + g->v_rows * (g->v_tile + 2 * i);
    p.back = p.pairs + g->v_rows;
    return p;
}

static void look_at_part(const cm_winograd_plan *g, const part *p, int64_t at, int n)
{
    const cm_pairs_kernel *kernel = &cm_pairs_f32__avx512;
    float *rows = p->v + at * g->v_tile, squares[MOST_STRIP];
    kernel->look(n, p->n, rows, g->v_tile, p->pairs + at, squares);
    for (int i = 0; i < n; i++) {
        float back = cm_pairs_back(squares[i] / (float)p->n, sizes[g->form]);
        p->back[at + i] = back;
        if (back == 0 || back == 1)
            continue;
        kernel->scale(p->n, rows + i * g->v_tile, 1 / back, rows + i * g->v_tile);
        p->pairs[at + i] *= 1 / back * (1 / back);
    }
}

void cm_winograd_pairs_rows(const cm_winograd_plan *g, int64_t at, int n, float *v)
{
    for (int64_t e = 0; e < g->positions; e++)
        for (int64_t i = 0; i < g->parts; i++) {
            part p = part_of(g, v + e * g->v_position, i);
            look_at_part(g, &p, at, n);
        }
}

/* A tile of rows of one part, ready for any panel. */
typedef struct {
    int64_t m, k, u; /* u: the part's weights in a panel's */
    int64_t row;     /* of M */
    int64_t ahead;   /* what it asks for of the next panel; below 0: nothing */
    bool add;        /* onto what is in M */
    cm_pairs_rows rows;
} tile;

static void set_rows(const cm_winograd_plan *g, const part *p, int64_t at, int64_t m,
                     cm_pairs_rows *r)
{
    r->a = p->v + at * g->v_tile;
    r->apart = g->v_tile;
    r->usual = r->scaled = false;
    for (int64_t i = 0; i < m; i++) {
        float back = p->back[at + i];
        r->pairs[i] = p->pairs[at + i];
        r->back[i] = back == 0 ? 1 : back;
        r->usual = r->usual || back == 0;
        r->scaled = r->scaled || r->back[i] != 1;
    }
}

/* Tile `cut` of `cuts` among `tiles` rows. The first few share the next panel among them. */
static void set_tile(const cm_winograd_plan *g, float *v, int64_t i, int64_t at, int64_t tiles,
                     int64_t cuts, int64_t cut, tile *t)
{
    enum { AHEAD = 4 };
    const part p = part_of(g, v, i);
    t->row = cm_gemm_tile_begin(tiles, cuts, cut);
    t->m = cm_gemm_tile_begin(tiles, cuts, cut + 1) - t->row;
    t->k = p.n;
    t->u = i * g->u_part;
    t->ahead = cut < AHEAD ? cut * (g->u_panel / AHEAD) + p.from / AHEAD * CM_PAIRS_NR : -1;
    t->add = i > 0;
    set_rows(g, &p, at + t->row, t->m, &t->rows);
}

/* What stands behind a part's weights is wanted as soon as a tile begins, and nothing else would have asked for it. */
static void ask_behind(const tile *t, const float *u)
{
    const float *behind = u + t->u + t->k * CM_PAIRS_NR;
    for (int i = 0; i <= 2 * CM_PAIRS_NR; i += 16)
        __builtin_prefetch(behind + i);
}

static void multiply_panel(const cm_winograd_plan *g, const tile *tiles, int64_t n, const float *u,
                           const float *next, float *m)
{
    static const cm_simple_epilogue nothing = {.lo = -__builtin_inff(), .hi = __builtin_inff()};
    for (int64_t i = 0; i < n; i++) {
        const tile *x = &tiles[i];
        const float *b = u + x->u;
        if (i + 1 < n)
            ask_behind(x + 1, u);
        else if (next)
            ask_behind(tiles, next);
        cm_pairs_tile t = {.rows = &x->rows,
                           .k = x->k,
                           .b = b,
                           .start = cm_pairs_packed_start(x->k, b),
                           .factor = cm_pairs_packed_factor(x->k, b),
                           .c = m + x->row * g->m_tile,
                           .ldc = g->m_tile,
                           .add = x->add,
                           .near = true,
                           .e = &nothing};
        if (next && x->ahead >= 0)
            t.ahead = (const char *)(next + x->ahead);
        cm_pairs_f32__avx512.tile[x->m](&t);
    }
}

/* One position: some tiles meet one panel after the other, each by all its parts, so that weights are read as they lie. */
static void multiply_position(const cm_winograd_plan *g, int64_t at, int64_t tiles, float *v,
                              int64_t panels, const float *u, const float *after, float *m)
{
    const int64_t cuts = cm_gemm_tiles(tiles, CM_PAIRS_MR), whole = g->positions * g->u_panel;
    tile t[MOST_TILES];
    for (int64_t i = 0, n; i < cuts * g->parts; i += n) {
        n = cm_min_i64(MOST_TILES, cuts * g->parts - i);
        for (int64_t j = 0; j < n; j++)
            set_tile(g, v, (i + j) % g->parts, at, tiles, cuts, (i + j) / g->parts, &t[j]);
        for (int64_t q = 0; q < panels; q++)
            multiply_panel(g, t, n, u + q * whole, q + 1 < panels ? u + (q + 1) * whole : after,
                           m + q * CM_PAIRS_NR);
    }
}

void cm_winograd_pairs_multiply(const cm_winograd_plan *g, int64_t at, int64_t tiles, float *v,
                                int64_t panels, const float *u, float *m)
{
    for (int64_t e = 0; e < g->positions; e++)
        multiply_position(g, at, tiles, v + e * g->v_position, panels, u + e * g->u_panel,
                          e + 1 < g->positions ? u + (e + 1) * g->u_panel : NULL,
                          m + e * g->m_position);
}
