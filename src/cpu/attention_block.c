/* attention_block.c -- a block of queries against all keys, scores never leaving the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scores of BLOCK_ROWS queries and BLOCK_KEYS keys at a time: products on register tiles, softmax as it goes
 * (a larger maximum later scales down what was summed), and the product with the values onto the sum. */
#include <string.h>

#include "base/size.h"
#include "cpu/attention_job.h"

void cm_attention_pack(const job *j, const source *k, const source *v, float *keys, float *values)
{
    const cm_attention *a = j->a;
    int nr = j->g->nr;
    j->g->pack_b(a->head_size, j->total, k->at, k->dim, k->seq, keys, a->head_size * nr);
    j->g->pack_b(j->total, a->v_head_size, v->at, v->seq, v->dim, values, j->total * nr);
}

typedef struct block {
    const job *j;
    const space *w;
    int64_t row, n; /* of the unit */
    int64_t tiles;
    int64_t sees[BLOCK_ROWS];  /* keys per row, all where none are skipped */
    int64_t reach[BLOCK_ROWS]; /* of each tile: the most that one of its rows sees */
} block;

static void find_reach(block *b)
{
    b->tiles = cm_gemm_tiles(b->n, b->j->g->mr);
    for (int64_t t = 0; t < b->tiles; t++) {
        int64_t end = cm_gemm_tile_begin(b->n, b->tiles, t + 1);
        b->reach[t] = 0;
        for (int64_t i = cm_gemm_tile_begin(b->n, b->tiles, t); i < end; i++) {
            b->sees[i] = b->j->skips ? cm_attention_sees(b->j, b->row + i) : b->j->total;
            b->reach[t] = cm_max_i64(b->reach[t], b->sees[i]);
        }
    }
}

/* Scores of keys [from, from + n). */
static void multiply_keys(const block *b, int64_t from, int64_t n, const float *keys)
{
    const job *j = b->j;
    const float *rows[CM_GEMM_MAX_MR];
    int nr = j->g->nr;
    for (int64_t c = 0; c < n; c += nr)
        for (int64_t t = 0; t < b->tiles; t++) {
            if (from + c >= b->reach[t])
                continue;
            int64_t at = cm_gemm_tile_begin(b->n, b->tiles, t);
            int64_t m = cm_gemm_tile_begin(b->n, b->tiles, t + 1) - at;
            for (int64_t i = 0; i < m; i++)
                rows[i] = b->w->q + (at + i) * j->q_ld;
            cm_gemm_tile tile = {.runs = 1,
                                 .k = j->a->head_size,
                                 .rows = rows,
                                 .b = keys + (from + c) * j->a->head_size,
                                 .ldb = nr,
                                 .c = b->w->s + at * j->s_ld + c,
                                 .ldc = j->s_ld,
                                 .n = (int)cm_min_i64(nr, n - c),
                                 .alpha = j->a->scale};
            j->g->rows[m](&tile);
        }
}

static void take_softmax(const block *b, int64_t unit, int64_t from, int64_t n)
{
    const job *j = b->j;
    for (int64_t t = 0; t < b->tiles; t++) {
        int64_t end = cm_gemm_tile_begin(b->n, b->tiles, t + 1);
        int64_t reach = cm_min_i64(n, b->reach[t] - from);
        for (int64_t i = cm_gemm_tile_begin(b->n, b->tiles, t); reach > 0 && i < end; i++) {
            cm_score score;
            int64_t sees = cm_min_i64(n, cm_max_i64(0, b->sees[i] - from));
            cm_attention_score(j, unit, b->row + i, from, sees, b->w, &score);
            float factor = j->kernels->score_row(b->w->s + i * j->s_ld, sees, reach, &score,
                                                 b->w->stats + 2 * i);
            float *o = b->w->o + i * j->o_ld;
            if (from > 0 && factor != 1)
                j->kernels->scale(o, o, j->o_ld, factor);
        }
    }
}

/* Onto o the weighted values of keys [from, from + n). */
static void multiply_values(const block *b, int64_t from, int64_t n, const float *values)
{
    const job *j = b->j;
    const float *rows[CM_GEMM_MAX_MR];
    int nr = j->g->nr;
    for (int64_t c = 0; c < j->a->v_head_size; c += nr)
        for (int64_t l = 0; l < n; l += BLOCK_DEPTH)
            for (int64_t t = 0; t < b->tiles; t++) {
                int64_t depth = cm_min_i64(cm_min_i64(BLOCK_DEPTH, n - l), b->reach[t] - from - l);
                if (depth <= 0)
                    continue;
                int64_t at = cm_gemm_tile_begin(b->n, b->tiles, t);
                int64_t m = cm_gemm_tile_begin(b->n, b->tiles, t + 1) - at;
                for (int64_t i = 0; i < m; i++)
                    rows[i] = b->w->s + (at + i) * j->s_ld + l;
                cm_gemm_tile tile = {.runs = 1,
                                     .k = depth,
                                     .rows = rows,
                                     .b = values + c * j->total + (from + l) * nr,
                                     .ldb = nr,
                                     .c = b->w->o + at * j->o_ld + c,
                                     .ldc = j->o_ld,
                                     .n = nr,
                                     .alpha = 1,
                                     .add = from + l > 0};
                j->g->rows[m](&tile);
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
        cm_attention_query(j, unit, b.row + i, w->q + i * j->q_ld);
        w->stats[2 * i] = -__builtin_inff();
        w->stats[2 * i + 1] = 0;
    }
    if (least <= 0) /* some rows see nothing: their sums are what they are now */
        memset(w->o, 0, (size_t)(b.n * j->o_ld) * sizeof *w->o);
    for (int64_t from = 0; from < end; from += BLOCK_KEYS) {
        int64_t n = cm_min_i64(BLOCK_KEYS, end - from);
        multiply_keys(&b, from, n, keys);
        take_softmax(&b, unit, from, n);
        multiply_values(&b, from, n, values);
    }
    for (int64_t i = 0; i < b.n; i++)
        cm_attention_finish(j, unit, b.row + i, k, v, w->stats + 2 * i, w->o + i * j->o_ld);
}
