/* attention_block.c -- a block of queries against all keys, scores never leaving the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scores of BLOCK_ROWS queries and BLOCK_KEYS keys at a time: products on register tiles, softmax as it goes
 * (a larger maximum later scales down what was summed), and the product with the values onto the sum. */
#include <string.h>

#include "base/size.h"
#include "cpu/attention_job.h"
#include "cpu/copy_kernels.h"

/* Keys side by side: panels of nr keys, an element of all of them in each row. */
static void pack_keys(const job *j, const source *k, float *to)
{
    int64_t size = j->a->head_size, nr = j->g->nr;
    if (k->dim != 1) {
        j->g->pack_b(size, j->total, k->at, k->dim, k->seq, to, size * nr);
        return;
    }
    cm_transpose_fn *turn =
        j->run->p->target.level >= CM_ISA_AVX2 ? cm_cpu_transpose__avx2 : cm_cpu_transpose__generic;
    for (int64_t s = 0; s < j->total; s += nr, to += size * nr) {
        int64_t n = cm_min_i64(nr, j->total - s);
        for (int64_t i = 0; n < nr && i < size; i++)
            memset(to + i * nr + n, 0, (size_t)(nr - n) * sizeof *to);
        turn(sizeof *to, size, n, (const char *)((const float *)k->at + s * k->seq),
             k->seq * (int64_t)sizeof *to, (char *)to, nr * (int64_t)sizeof *to);
    }
}

void cm_attention_pack(const job *j, const source *k, const source *v, float *keys, float *values)
{
    const cm_attention *a = j->a;
    pack_keys(j, k, keys);
    j->g->pack_b(j->total, a->v_head_size, v->at, v->seq, v->dim, values, j->total * j->g->nr);
}

typedef struct block {
    const job *j;
    const space *w;
    int64_t row, n; /* of the unit */
    int64_t tiles;
    int64_t begin; /* the first key that one of its rows sees, or some before it */
    const float *q[BLOCK_ROWS];
    int64_t sees[BLOCK_ROWS];  /* keys per row, all where none are skipped */
    int64_t reach[BLOCK_ROWS]; /* of each tile: the most that one of its rows sees */
} block;

static void find_reach(block *b)
{
    b->tiles = cm_gemm_tiles(b->n, b->j->g->mr);
    b->begin = b->j->total;
    for (int64_t t = 0; t < b->tiles; t++) {
        int64_t end = cm_gemm_tile_begin(b->n, b->tiles, t + 1);
        b->reach[t] = 0;
        for (int64_t i = cm_gemm_tile_begin(b->n, b->tiles, t); i < end; i++) {
            b->sees[i] = b->j->skips ? cm_attention_sees(b->j, b->row + i) : b->j->total;
            b->reach[t] = cm_max_i64(b->reach[t], b->sees[i]);
            b->begin = cm_min_i64(b->begin, cm_attention_first(b->j, b->row + i));
        }
    }
    b->begin = b->begin / BLOCK_STEP * BLOCK_STEP;
}

/* Scores of keys [from, from + n). */
static void multiply_keys(const block *b, int64_t from, int64_t n, const float *keys)
{
    const job *j = b->j;
    int nr = j->g->nr;
    for (int64_t c = 0; c < n; c += nr)
        for (int64_t t = 0; t < b->tiles; t++) {
            if (from + c >= b->reach[t])
                continue;
            int64_t at = cm_gemm_tile_begin(b->n, b->tiles, t);
            int64_t m = cm_gemm_tile_begin(b->n, b->tiles, t + 1) - at;
            cm_gemm_tile tile = {.runs = 1,
                                 .k = j->a->head_size,
                                 .rows = b->q + at,
                                 .b = keys + (from + c) * j->a->head_size,
                                 .ldb = nr,
                                 .c = b->w->s + at * j->s_ld + c,
                                 .ldc = j->s_ld,
                                 .n = (int)cm_min_i64(nr, n - c),
                                 .alpha = j->a->scale,
                                 .near = true};
            j->g->rows[m](&tile);
        }
}

static void take_softmax(const block *b, int64_t unit, int64_t from, int64_t n)
{
    const job *j = b->j;
    for (int64_t t = 0; t < b->tiles; t++) {
        int64_t at = cm_gemm_tile_begin(b->n, b->tiles, t);
        int64_t m = cm_gemm_tile_begin(b->n, b->tiles, t + 1) - at;
        int64_t reach = cm_min_i64(n, b->reach[t] - from);
        cm_score rows[CM_GEMM_MAX_MR];
        if (reach <= 0)
            continue;
        for (int64_t i = 0; i < m; i++) {
            int64_t sees = cm_min_i64(n, cm_max_i64(0, b->sees[at + i] - from));
            cm_attention_score(j, unit, b->row + at + i, from, sees, i, b->w, &rows[i]);
            rows[i].s = b->w->s + (at + i) * j->s_ld;
            rows[i].stats = b->w->stats + 2 * (at + i);
        }
        j->kernels->score_rows(rows, m, reach);
        for (int64_t i = 0; from > b->begin && i < m; i++) {
            float *o = b->w->o + (at + i) * j->o_ld;
            if (rows[i].factor != 1)
                j->kernels->scale(o, o, j->o_ld, rows[i].factor);
        }
    }
}

/* Onto o the weighted values of keys [from, from + n). */
static void multiply_values(const block *b, int64_t from, int64_t n, const float *values)
{
    const job *j = b->j;
    int nr = j->g->nr;
    for (int64_t l = 0; l < n; l += BLOCK_DEPTH) {
        const float *rows[BLOCK_ROWS];
        for (int64_t i = 0; i < b->n; i++)
            rows[i] = b->w->s + i * j->s_ld + l;
        for (int64_t c = 0; c < j->a->v_head_size; c += nr)
            for (int64_t t = 0; t < b->tiles; t++) {
                int64_t depth = cm_min_i64(cm_min_i64(BLOCK_DEPTH, n - l), b->reach[t] - from - l);
                if (depth <= 0)
                    continue;
                int64_t at = cm_gemm_tile_begin(b->n, b->tiles, t);
                int64_t m = cm_gemm_tile_begin(b->n, b->tiles, t + 1) - at;
                cm_gemm_tile tile = {.runs = 1,
                                     .k = depth,
                                     .rows = rows + at,
                                     .b = values + c * j->total + (from + l) * nr,
                                     .ldb = nr,
                                     .c = b->w->o + at * j->o_ld + c,
                                     .ldc = j->o_ld,
                                     .n = nr,
                                     .alpha = 1,
                                     .add = from + l > b->begin,
                                     .near = true};
                j->g->rows[m](&tile);
            }
    }
}

void cm_attention_block(const job *j, int64_t unit, int64_t index, const source *k, const source *v,
                        const float *keys, const float *values, const space *w)
{
    int64_t span = index / j->blocks_per_span, part = index % j->blocks_per_span;
    int64_t first = cm_gemm_tile_begin(j->span, j->blocks_per_span, part);
    block b = {.j = j,
               .w = w,
               .row = span * j->span + first,
               .n = cm_gemm_tile_begin(j->span, j->blocks_per_span, part + 1) - first};
    int64_t end = 0, least = j->total;
    find_reach(&b);
    for (int64_t t = 0; t < b.tiles; t++) {
        end = cm_max_i64(end, b.reach[t]);
        least = cm_min_i64(least, b.reach[t]);
    }
    for (int64_t i = 0; i < b.n; i++) {
        b.q[i] = cm_attention_query(j, unit, b.row + i, w->q + i * j->q_ld);
        w->stats[2 * i] = -__builtin_inff();
        w->stats[2 * i + 1] = 0;
    }
    if (least <= b.begin) /* some rows see nothing: their sums are what they are now */
        memset(w->o, 0, (size_t)(b.n * j->o_ld) * sizeof *w->o);
    for (int64_t from = b.begin; from < end; from += BLOCK_KEYS) {
        int64_t n = cm_min_i64(BLOCK_KEYS, end - from);
        multiply_keys(&b, from, n, keys);
        take_softmax(&b, unit, from, n);
        multiply_values(&b, from, n, values);
    }
    for (int64_t i = 0; i < b.n; i++)
        cm_attention_finish(j, unit, b.row + i, k, v, w->stats + 2 * i, w->o + i * j->o_ld);
}
