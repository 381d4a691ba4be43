/* attention_bf16.c -- attention of bfloat16 by the processor's own instructions: pairs of products per lane
 * (AVX512-BF16), tiles (AMX).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values are packed as panels of weights are (gemm_half.h), chunks of 32 keys at a time; then blocks of queries
 * meet them. Scores and their softmax are float32; the exponentials are rounded to bfloat16 to meet the values. */
#include <emmintrin.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/attention_job.h"
#include "cpu/copy_kernels.h"
#include "cpu/cpu.h"
#include "cpu/gemm_half.h"

enum { ROWS = 32, KEYS = 256 }; /* of a block; scores of a row that are held */
enum { NR = CM_BF16_NR };

typedef struct {
    job j; /* what its scores and results need */
    const cm_gemm_bf16_kernel *g;
    int64_t depth, chunks;    /* elements of a key, rounded up; of NR keys, of a unit */
    int64_t v_panels, blocks; /* of a unit */
    int64_t unit_elems;       /* of bfloat16 */
    int64_t s_ld;
    size_t packed_bytes, block_bytes; /* of all units, of one piece */
    int64_t pieces;
    bool q_in_place;
    const char *keys, *workspace;
} plan;

static const char *reject(const cm_problem *p)
{
    const cm_attention *a = &p->as.attention;
    for (int i = Q; i <= V; i++)
        if (p->in[i]->dtype != CM_BF16)
            return "queries, keys and values are not all of bfloat16";
    if (a->past_len > 0 || cm_attention_has_present(p, 0) || cm_attention_has_present(p, 1))
        return "keys are kept";
    if (a->q.dim != 1 || a->k.dim != 1 || a->v.dim != 1)
        return "elements of heads are strided";
    if (a->heads / a->kv_heads * a->q_len <= FEW_ROWS)
        return "few queries";
    return cm_attention_reject(p);
}
const char *cm_cpu_attention_bf16_reject(const cm_problem *p)
{
    return cm_cpu_info()->bf16 ? reject(p) : "the processor has no AVX512-BF16";
}
const char *cm_cpu_attention_amx_reject(const cm_problem *p)
{
    return reject(p);
}

static int64_t round32(int64_t n)
{
    return (n + 31) / 32 * 32;
}

static void lay_out(const cm_problem *p, const cm_gemm_bf16_kernel *g, plan *l)
{
    const cm_attention *a = &p->as.attention;
    job *j = &l->j;
    cm_attention_plan(p, p->threads, j);
    l->g = g;
    l->depth = round32(a->head_size);
    l->chunks = cm_ceil_div(j->total, NR);
    l->v_panels = cm_ceil_div(a->v_head_size, NR);
    l->blocks = cm_ceil_div(j->rep * a->q_len, ROWS);
    l->unit_elems = l->chunks * NR * (l->depth + l->v_panels * NR);
    l->packed_bytes = (size_t)(j->units * l->unit_elems) * sizeof(uint16_t);
    l->q_in_place = l->depth == a->head_size && j->rep == 1;
    l->s_ld = cm_min_i64(KEYS, l->chunks * NR) + 16; /* rows are no power of two apart */
    j->o_ld = l->v_panels * NR;
    j->mask_ld = l->s_ld;
    int64_t wide = ROWS * (l->s_ld + j->o_ld + 2) + ROWS * NR + 2 * j->slots * j->mask_ld;
    int64_t narrow = ROWS * (l->s_ld + 16 + l->depth);
    l->block_bytes = (size_t)cm_ceil_div(wide * 4 + narrow * 2, 64) * 64;
    l->pieces = cm_min_i64(j->units * l->blocks, (int64_t)p->threads * 4);
}

static size_t workspace(const cm_problem *p, const cm_gemm_bf16_kernel *g)
{
    plan l = {0};
    lay_out(p, g, &l);
    return l.packed_bytes + l.block_bytes * (size_t)l.pieces;
}

/* `gain`: over float32. */
static double cost(const cm_problem *p, const cm_gemm_bf16_kernel *g, double gain)
{
    plan l = {0};
    lay_out(p, g, &l);
    const cm_attention *a = &p->as.attention;
    double scores = (double)(l.j.units * l.blocks * ROWS) * (double)l.j.total;
    double sizes = (double)(a->head_size + a->v_head_size);
    double ns = scores * (2 * sizes / (cm_cpu_flops_per_ns(&p->target) * 0.6 * gain) + 0.6);
    ns += 0.1 * (double)(l.j.units * l.unit_elems);
    return 500 + ns / cm_cpu_speedup(p, (double)(l.j.units * l.blocks));
}

/* ---- Packing -------------------------------------------------------------------------------- */

static const uint16_t *row_at(const plan *l, int input, const cm_heads *h, int64_t unit, int64_t s)
{
    const cm_attention *a = l->j.a;
    return (const uint16_t *)l->j.run->in[input] + h->offset + unit / a->kv_heads * h->batch +
           unit % a->kv_heads * h->head + s * h->seq;
}

/* Keys [s, s + n) as columns: pairs of elements are turned as one, 16 by 16. */
static void pack_keys(const plan *l, int64_t unit, int64_t s, int64_t n, uint16_t *to)
{
    const cm_attention *a = l->j.a;
    const uint16_t *k = row_at(l, K, &a->k, unit, s);
    int64_t step = a->k.seq * 2, last = a->head_size - 1;
    if (n < NR || l->depth != a->head_size)
        memset(to, 0, (size_t)(NR * l->depth) * sizeof *to);
    for (int64_t d = 0; d < a->head_size; d += CM_BF16_K)
        for (int64_t i = 0; i < n; i += 16)
            cm_cpu_transpose__avx2(4, cm_min_i64(16, (a->head_size - d) / 2), cm_min_i64(16, n - i),
                                   (const char *)(k + i * a->k.seq + d), step,
                                   (char *)(to + cm_bf16_panel_at(d, i)), 64);
    for (int64_t i = 0; a->head_size % 2 && i < n; i++)
        to[cm_bf16_panel_at(last, i)] = k[i * a->k.seq + last];
}

/* Elements of two rows by turns; y NULL: zeros. */
static void interleave(const uint16_t *x, const uint16_t *y, int64_t n, uint16_t *to)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i a = _mm_loadu_si128((const __m128i *)(x + i));
        __m128i b = y ? _mm_loadu_si128((const __m128i *)(y + i)) : _mm_setzero_si128();
        _mm_storeu_si128((__m128i *)(to + 2 * i), _mm_unpacklo_epi16(a, b));
        _mm_storeu_si128((__m128i *)(to + 2 * i + 8), _mm_unpackhi_epi16(a, b));
    }
    for (; i < n; i++) {
        to[2 * i] = x[i];
        to[2 * i + 1] = y ? y[i] : 0;
    }
}

/* Values of keys [s, s + n), pairs of keys side by side. */
static void pack_values(const plan *l, int64_t unit, int64_t s, int64_t n, uint16_t *to)
{
    const cm_attention *a = l->j.a;
    const uint16_t *v = row_at(l, V, &a->v, unit, s);
    for (int64_t p = 0; p < l->v_panels; p++, to += l->chunks * NR * NR) {
        int64_t cols = cm_min_i64(NR, a->v_head_size - p * NR);
        if (n < NR || cols < NR)
            memset(to, 0, (size_t)(NR * NR) * sizeof *to);
        for (int64_t i = 0; i < n; i += 2) {
            const uint16_t *x = v + i * a->v.seq + p * NR, *y = i + 1 < n ? x + a->v.seq : NULL;
            for (int64_t c = 0; c < cols; c += 16)
                interleave(x + c, y ? y + c : NULL, cm_min_i64(16, cols - c),
                           to + cm_bf16_panel_at(i, c));
        }
    }
}

static void pack(void *arg, int64_t begin, int64_t end)
{
    const plan *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t unit = i / l->chunks, chunk = i % l->chunks, s = chunk * NR;
        int64_t n = cm_min_i64(NR, l->j.total - s);
        uint16_t *keys = (uint16_t *)(uintptr_t)l->keys + unit * l->unit_elems;
        uint16_t *values = keys + l->chunks * NR * l->depth;
        pack_keys(l, unit, s, n, keys + s * l->depth);
        pack_values(l, unit, s, n, values + chunk * NR * NR);
    }
}

/* ---- Blocks of queries ---------------------------------------------------------------------- */

typedef struct {
    const plan *l;
    int64_t unit, row, n; /* rows [row, row + n) of the unit */
    int64_t sees[ROWS], reach;
    space w;
    float *sums;              /* [ROWS][NR] */
    uint16_t *rounded, *q_at; /* [ROWS][s_ld + 16], [ROWS][depth] */
    const uint16_t *q, *keys, *values;
    int64_t q_ld;
} block;

static void multiply(const plan *l, int64_t m, int64_t k, const uint16_t *a, int64_t lda,
                     const uint16_t *b, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i += l->g->mr) {
        cm_bf16_tile t = {.m = cm_min_i64(l->g->mr, m - i),
                          .k = k,
                          .a = a + i * lda,
                          .lda = lda,
                          .b = b,
                          .c = c + i * ldc,
                          .ldc = ldc};
        l->g->tile(&t);
    }
}

static const uint16_t *query_at(const block *b, int64_t i)
{
    const cm_attention *a = b->l->j.a;
    int64_t r = b->row + i, head = b->unit % a->kv_heads * b->l->j.rep + r / a->q_len;
    return (const uint16_t *)b->l->j.run->in[Q] + a->q.offset + b->unit / a->kv_heads * a->q.batch +
           head * a->q.head + r % a->q_len * a->q.seq;
}

static void get_queries(block *b)
{
    const plan *l = b->l;
    b->q = query_at(b, 0);
    b->q_ld = l->j.a->q.seq;
    if (l->q_in_place)
        return;
    for (int64_t i = 0; i < b->n; i++) {
        uint16_t *to = b->q_at + i * l->depth;
        memcpy(to, query_at(b, i), (size_t)l->j.a->head_size * sizeof *to);
        memset(to + l->j.a->head_size, 0, (size_t)(l->depth - l->j.a->head_size) * sizeof *to);
    }
    b->q = b->q_at;
    b->q_ld = l->depth;
}

/* Weights of keys [from, from + n), undivided: scores, their softmax, rounded. */
static void weigh(const block *b, int64_t from, int64_t n)
{
    const plan *l = b->l;
    const job *j = &l->j;
    const cm_tile_kernels *t = &cm_cpu_tile__avx512;
    int64_t padded = round32(n);
    for (int64_t c = 0; c < n; c += NR)
        multiply(l, b->n, l->depth, b->q, b->q_ld, b->keys + (from + c) * l->depth, b->w.s + c,
                 l->s_ld);
    for (int64_t at = 0, m; at < b->n; at += m) {
        cm_score rows[CM_GEMM_MAX_MR];
        m = cm_min_i64(j->slots, b->n - at);
        for (int64_t i = 0; i < m; i++) {
            int64_t sees = cm_min_i64(n, cm_max_i64(0, b->sees[at + i] - from));
            float *s = b->w.s + (at + i) * l->s_ld;
            cm_attention_score(j, b->unit, b->row + at + i, from, sees, i, &b->w, &rows[i]);
            rows[i].s = s;
            rows[i].stats = b->w.stats + 2 * (at + i);
            t->op[CM_PW_MUL].right(s, s, &j->a->scale, NULL, sees);
        }
        j->kernels->score_rows(rows, m, padded);
        for (int64_t i = 0; i < m; i++) {
            float *o = b->w.o + (at + i) * j->o_ld;
            t->store[CM_BF16](b->rounded + (at + i) * (l->s_ld + 16), 1, rows[i].s, padded);
            if (from > 0 && rows[i].factor != 1)
                j->kernels->scale(o, o, j->o_ld, rows[i].factor);
        }
    }
}

/* Onto w.o the weighted values. */
static void add_values(const block *b, int64_t from, int64_t n)
{
    const plan *l = b->l;
    const cm_tile_kernels *t = &cm_cpu_tile__avx512;
    for (int64_t p = 0; p < l->v_panels; p++) {
        const uint16_t *v = b->values + (p * l->chunks * NR + from) * NR;
        float *o = b->w.o + p * NR, *to = from > 0 ? b->sums : o;
        int64_t ld = from > 0 ? NR : l->j.o_ld;
        multiply(l, b->n, round32(n), b->rounded, l->s_ld + 16, v, to, ld);
        for (int64_t i = 0; from > 0 && i < b->n; i++, o += l->j.o_ld)
            t->op[CM_PW_ADD].each(o, o, to + i * NR, NULL, NR);
    }
}

static void finish(const block *b)
{
    const plan *l = b->l;
    const cm_attention *a = l->j.a;
    source k = {row_at(l, K, &a->k, b->unit, 0), CM_BF16, a->k.seq, 1};
    source v = {row_at(l, V, &a->v, b->unit, 0), CM_BF16, a->v.seq, 1};
    for (int64_t i = 0; i < b->n; i++)
        cm_attention_finish(&l->j, b->unit, b->row + i, &k, &v, b->w.stats + 2 * i,
                            b->w.o + i * l->j.o_ld);
}

static void one_block(const plan *l, int64_t index, char *scratch)
{
    const job *j = &l->j;
    block b = {.l = l, .unit = index / l->blocks, .row = index % l->blocks * ROWS};
    b.n = cm_min_i64(ROWS, j->rep * j->a->q_len - b.row);
    b.w.s = (float *)scratch;
    b.w.o = b.w.s + ROWS * l->s_ld;
    b.sums = b.w.o + ROWS * j->o_ld;
    b.w.bias = b.sums + ROWS * NR;
    b.w.mask = (uint8_t *)(b.w.bias + j->slots * j->mask_ld);
    b.w.stats = b.w.bias + 2 * j->slots * j->mask_ld;
    b.rounded = (uint16_t *)(b.w.stats + 2 * ROWS);
    b.q_at = b.rounded + ROWS * (l->s_ld + 16);
    b.keys = (const uint16_t *)l->keys + b.unit * l->unit_elems;
    b.values = b.keys + l->chunks * NR * l->depth;
    get_queries(&b);
    for (int64_t i = 0; i < b.n; i++) {
        b.sees[i] = j->skips ? cm_attention_sees(j, b.row + i) : j->total;
        b.reach = cm_max_i64(b.reach, b.sees[i]);
        b.w.stats[2 * i] = -__builtin_inff();
        b.w.stats[2 * i + 1] = 0;
    }
    if (b.reach <= 0)
        memset(b.w.o, 0, (size_t)(b.n * j->o_ld) * sizeof *b.w.o);
    for (int64_t from = 0; from < b.reach; from += KEYS) {
        int64_t n = cm_min_i64(KEYS, b.reach - from);
        weigh(&b, from, n);
        add_values(&b, from, n);
    }
    finish(&b);
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    const plan *l = arg;
    int64_t work = l->j.units * l->blocks;
    if (l->g->begin)
        l->g->begin();
    for (int64_t i = begin; i < end; i++) {
        char *scratch = (char *)(uintptr_t)l->workspace + l->block_bytes * (size_t)i;
        for (int64_t b = i * work / l->pieces; b < (i + 1) * work / l->pieces; b++)
            one_block(l, b, scratch);
    }
    if (l->g->end)
        l->g->end();
}

static cm_status run(const cm_run *r, const cm_gemm_bf16_kernel *g)
{
    plan l = {.j = {.run = r,
                    .kernels = &cm_cpu_attention_kernels__avx512,
                    .direct = !r->p->epilogue && r->p->out[0]->dtype == CM_F32}};
    lay_out(r->p, g, &l);
    if (!l.j.direct)
        cm_epilogue_init(&l.j.epilogue, r, 1);
    l.keys = r->workspace;
    l.workspace = l.keys + l.packed_bytes;
    int64_t grain = cm_max_i64(1, 8192 / (NR * (l.depth + l.v_panels * NR)));
    cm_parallel(r->threads, l.j.units * l.chunks, grain, pack, &l);
    cm_parallel(r->threads, l.pieces, 1, run_blocks, &l);
    return CM_OK;
}

CM_BF16_TACTIC_UNPACKED(attention_bf16, cm_gemm_bf16__avx512, 2)
CM_BF16_TACTIC_UNPACKED(attention_amx, cm_gemm_bf16__amx, 8)
