/* attention.c -- tactics for attention: what is declined, what it costs, how it is shared out.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values of a head are packed once and met by blocks of queries (attention_block.c). Where there are
 * only few queries they are read where they lie (attention_few.c), long caches in parts for several
 * threads. bfloat16 has its own instructions (attention_bf16.c). */
#include <math.h>

#include "base/size.h"
#include "cpu/attention_job.h"
#include "cpu/cpu.h"

enum { MOST_PIECES = 4, SPLIT_KEYS = 128 };

static bool is_real(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

bool cm_attention_has_present(const cm_problem *p, int which)
{
    return 1 + which < p->n_out && p->out[1 + which];
}

/* Rows of tiles are cut along the last axis; an axis of size 1 must not seem to lie inside it. */
static bool is_last_innermost(const cm_tensor *t)
{
    const int last = t->rank - 1;
    for (int a = 0; a < last; a++)
        if (t->dims[last] > 1 && t->strides[a] <= t->strides[last])
            return false;
    return true;
}

const char *cm_attention_reject(const cm_problem *p)
{
    for (int i = Q; i <= PAST_V; i++)
        if (i != MASK && cm_problem_has(p, i) && !is_real(p->in[i]->dtype))
            return "an input is not of float32, float16 or bfloat16";
    if (cm_problem_has(p, MASK) && p->in[MASK]->dtype != CM_BOOL)
        return "the mask is not of bool";
    if (cm_problem_has(p, PAST_K) &&
        (p->in[PAST_K]->dtype != p->in[K]->dtype || p->in[PAST_V]->dtype != p->in[V]->dtype))
        return "past and fresh keys are of different types";
    for (int which = 0; which < 2; which++)
        if (cm_attention_has_present(p, which) && !cm_tensor_is_dense(p->out[1 + which]))
            return "an output is strided";
    if (p->out[0]->dtype != CM_F32 || p->epilogue) {
        if (!cm_tensor_is_dense(p->out[0]) || !is_last_innermost(p->out[0]))
            return "the output is strided";
        return cm_epilogue_reject(p, 1);
    }
    return NULL;
}

static void plan_sizes(const cm_problem *p, job *j)
{
    const cm_attention *a = j->a;
    int nr = j->g->nr;
    int64_t rows = j->rep * a->q_len;
    j->span = a->q_len < 16 ? rows : a->q_len;
    j->blocks_per_span = cm_ceil_div(j->span, BLOCK_ROWS);
    j->blocks = rows / j->span * j->blocks_per_span;
    j->q_ld = round16(a->head_size) + 16; /* rows are no power of two apart */
    j->o_ld = cm_ceil_div(a->v_head_size, nr) * nr;
    int64_t held = j->few ? rows : cm_min_i64(BLOCK_ROWS, j->span);
    int64_t keys = j->few ? j->total : cm_min_i64(BLOCK_KEYS, j->total);
    j->s_ld = cm_ceil_div(keys, nr) * nr + 16;
    j->mask_ld = round16(keys);
    j->slots = j->few ? 1 : j->g->mr;
    j->block_elems = round16(held * (j->q_ld + j->s_ld + j->o_ld + 2)) + 2 * j->slots * j->mask_ld;
    const cm_heads *q = &a->q;
    j->q_in_place = p->in[Q]->dtype == CM_F32 && q->dim == 1 && q->seq * 4 / 64 % 32 != 0;
    j->unit_elems = j->few ? 0
                           : cm_gemm_f32_packed_b(j->g, a->head_size, j->total) +
                                 cm_gemm_f32_packed_b(j->g, j->total, a->v_head_size);
    const int64_t sizes[] = {a->head_size, a->v_head_size};
    for (int which = 0; which < 2; which++) {
        bool present = cm_attention_has_present(p, which);
        bool plain = p->in[K + which]->dtype == CM_F32;
        j->joins[which] = present || !plain || a->past_len > 0;
        if (j->few && (which ? a->v.dim : a->k.dim) != 1)
            j->joins[which] = true;
        if (j->joins[which] && !(present && plain))
            j->unit_elems += round16(j->total * sizes[which]);
    }
    j->unit_elems = round16(j->unit_elems);
}

int64_t cm_attention_most_pieces(int threads)
{
    return threads <= 1 ? 1 : (int64_t)threads * MOST_PIECES;
}

void cm_attention_plan(const cm_problem *p, int threads, job *j)
{
    const cm_attention *a = &p->as.attention;
    j->a = a;
    j->g = cm_gemm_f32_kernel_of(p->target.level);
    j->total = a->past_len + a->kv_len;
    j->units = a->batch * a->kv_heads;
    j->rep = a->heads / a->kv_heads;
    j->few = j->rep * a->q_len <= FEW_ROWS;
    j->skips = a->causal && !(a->has_mask_value && a->bias_last);
    j->splits = 1;
    if (!j->present_rows)
        j->present_rows = j->total;
    plan_sizes(p, j);
    j->shared = j->units < threads;
    int64_t work = j->units;
    if (j->shared && j->few) {
        j->splits = cm_min_i64(cm_ceil_div(threads, j->units), cm_ceil_div(j->total, SPLIT_KEYS));
        j->splits = cm_max_i64(1, j->splits);
        work = j->units * j->splits;
    } else if (j->shared) {
        work = j->units * j->blocks;
    }
    j->n_pieces = threads <= 1          ? 1
                  : work % threads == 0 ? threads
                                        : cm_min_i64(work, cm_attention_most_pieces(threads));
}

/* Floats per multiply-add: a product of two would cost 2. */
static double work_of(const cm_attention *a)
{
    double keys = (double)(a->past_len + a->kv_len);
    if (a->causal && a->q_len > 1)
        keys -= (double)cm_min_i64(a->q_len, a->kv_len) / 2;
    return (double)a->batch * (double)a->heads * (double)a->q_len * keys;
}

double cm_attention_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_attention *a = &p->as.attention;
    job j = {0};
    cm_attention_plan(p, p->threads, &j);
    double wide = p->target.level == CM_ISA_GENERIC ? 4 : p->target.level == CM_ISA_AVX2 ? 8 : 12;
    double scores = work_of(a), sizes = (double)(a->head_size + a->v_head_size);
    double ns = scores * (2 * sizes / cm_cpu_flops_per_ns(&p->target) / 0.8 + 6 / wide);
    double memory = (double)j.units * (double)j.total * sizes * 4;
    ns += memory / cm_cpu_bytes_per_ns(&p->target) * (j.joins[0] ? 3 : 1);
    double pieces = (double)(j.few ? j.units * j.splits : j.units * j.blocks);
    return 500 + ns / cm_cpu_speedup(p, pieces);
}

/* Units and blocks that have memory of their own. */
static int64_t unit_slots(const job *j)
{
    return j->shared ? j->units : j->n_pieces;
}

static int64_t block_slots(const job *j)
{
    return j->few && j->shared ? j->units * j->splits : j->n_pieces;
}

size_t cm_attention_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    job j = {0};
    cm_attention_plan(p, p->threads, &j);
    return (size_t)(unit_slots(&j) * j.unit_elems + block_slots(&j) * j.block_elems) *
           sizeof(float);
}

/* ---- Running -------------------------------------------------------------------------------- */

static space space_of(const job *j, int64_t unit_slot, int64_t block_slot)
{
    const cm_attention *a = j->a;
    int64_t rows = j->rep * a->q_len;
    int64_t held = j->few ? rows : cm_min_i64(BLOCK_ROWS, j->span);
    space w;
    float *unit = j->units_at + unit_slot * j->unit_elems;
    w.keys = unit;
    w.values = unit + (j->few ? 0 : cm_gemm_f32_packed_b(j->g, a->head_size, j->total));
    w.q = j->blocks_at + block_slot * j->block_elems;
    w.s = w.q + held * j->q_ld;
    w.o = w.s + held * j->s_ld;
    w.stats = w.o + held * j->o_ld;
    w.bias = j->blocks_at + (block_slot + 1) * j->block_elems - 2 * j->slots * j->mask_ld;
    w.mask = (uint8_t *)(w.bias + j->slots * j->mask_ld);
    return w;
}

/* Where keys and values are joined: behind what is packed. */
static float *room_of(const job *j, int which, const space *w)
{
    const cm_attention *a = j->a;
    float *at = j->few ? w->keys : w->values + cm_gemm_f32_packed_b(j->g, j->total, a->v_head_size);
    const cm_problem *p = j->run->p;
    bool keys_here = j->joins[0] && !(cm_attention_has_present(p, 0) && p->in[K]->dtype == CM_F32);
    return at + (which && keys_here ? round16(j->total * a->head_size) : 0);
}

static void get_sources(const job *j, int64_t unit, int64_t from, int64_t to, const space *w,
                        source *k, source *v)
{
    *k = cm_attention_source(j, 0, unit, from, to, room_of(j, 0, w));
    *v = cm_attention_source(j, 1, unit, from, to, room_of(j, 1, w));
}

static void run_few(const job *j, int64_t unit, const space *w)
{
    source k, v;
    get_sources(j, unit, 0, j->total, w, &k, &v);
    cm_attention_few(j, unit, 0, j->total, &k, &v, w);
    for (int64_t r = 0; r < j->rep * j->a->q_len; r++)
        cm_attention_finish(j, unit, r, &k, &v, w->stats + 2 * r, w->o + r * j->o_ld);
}

/* Whole units, each with the memory of its piece. */
static void run_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        space w = space_of(j, i, i);
        for (int64_t u = i * j->units / j->n_pieces; u < (i + 1) * j->units / j->n_pieces; u++) {
            source k, v;
            if (j->few) {
                run_few(j, u, &w);
                continue;
            }
            get_sources(j, u, 0, j->total, &w, &k, &v);
            cm_attention_pack(j, &k, &v, w.keys, w.values);
            for (int64_t b = 0; b < j->blocks; b++)
                cm_attention_block(j, u, b, &k, &v, w.keys, w.values, &w);
        }
    }
}

/* Fewer units than threads: first pack them all, then share out their blocks. */
static void pack_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t u = begin; u < end; u++) {
        source k, v;
        space w = space_of(j, u, 0);
        get_sources(j, u, 0, j->total, &w, &k, &v);
        cm_attention_pack(j, &k, &v, w.keys, w.values);
    }
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t work = j->units * j->blocks;
    for (int64_t i = begin; i < end; i++)
        for (int64_t b = i * work / j->n_pieces; b < (i + 1) * work / j->n_pieces; b++) {
            source k, v;
            space w = space_of(j, b / j->blocks, i);
            get_sources(j, b / j->blocks, 0, 0, &w, &k, &v);
            cm_attention_block(j, b / j->blocks, b % j->blocks, &k, &v, w.keys, w.values, &w);
        }
}

/* Parts of the keys of few queries. */
static void run_parts(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t unit = i / j->splits, part = i % j->splits;
        int64_t from = part * j->total / j->splits, to = (part + 1) * j->total / j->splits;
        source k, v;
        space w = space_of(j, unit, i);
        get_sources(j, unit, from, to, &w, &k, &v);
        cm_attention_few(j, unit, from, to, &k, &v, &w);
    }
}

static void join_parts(const job *j)
{
    for (int64_t u = 0; u < j->units; u++) {
        space first = space_of(j, u, u * j->splits);
        source k, v;
        get_sources(j, u, 0, 0, &first, &k, &v);
        for (int64_t r = 0; r < j->rep * j->a->q_len; r++) {
            float *stats = first.stats + 2 * r, *o = first.o + r * j->o_ld;
            for (int64_t s = 1; s < j->splits; s++) {
                space w = space_of(j, u, u * j->splits + s);
                const float *more = w.stats + 2 * r, *p = w.o + r * j->o_ld;
                float most = stats[0] > more[0] ? stats[0] : more[0];
                float own = stats[0] == most ? 1 : expf(stats[0] - most);
                float other = more[0] == most ? 1 : expf(more[0] - most);
                for (int64_t i = 0; i < j->a->v_head_size; i++)
                    o[i] = o[i] * own + p[i] * other;
                stats[0] = most;
                stats[1] = stats[1] * own + more[1] * other;
            }
            cm_attention_finish(j, u, r, &k, &v, stats, o);
        }
    }
}

void cm_attention_execute(job *j)
{
    const cm_run *r = j->run;
    const cm_problem *p = r->p;
    int level = p->target.level;
    j->kernels = level >= CM_ISA_AVX512 ? &cm_cpu_attention_kernels__avx512
                 : level >= CM_ISA_AVX2 ? &cm_cpu_attention_kernels__avx2
                                        : &cm_cpu_attention_kernels__generic;
    j->direct = !p->epilogue && p->out[0]->dtype == CM_F32;
    cm_attention_plan(p, p->threads, j);
    j->units_at = r->workspace;
    j->blocks_at = j->units_at + unit_slots(j) * j->unit_elems;
    if (!j->direct)
        cm_epilogue_init(&j->epilogue, r, 1);
    if (!j->shared) {
        cm_parallel(r->threads, j->n_pieces, 1, run_units, j);
    } else if (j->few) {
        cm_parallel(r->threads, j->units * j->splits, 1, run_parts, j);
        join_parts(j);
    } else {
        cm_parallel(r->threads, j->units, 1, pack_units, j);
        cm_parallel(r->threads, j->n_pieces, 1, run_blocks, j);
    }
}

static cm_status run(const cm_run *r)
{
    job j = {.run = r};
    cm_attention_execute(&j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {"attention", CM_ISA_GENERIC, cm_attention_reject, NULL, cm_attention_cost,
     cm_attention_workspace, NULL, NULL, run},
    CM_ROW(attention_amx, AMX, CM_HAS_WORKSPACE(attention_amx)),
    CM_ROW(attention_bf16, AVX512, CM_HAS_WORKSPACE(attention_bf16)),
};
const cm_cpu_table cm_cpu_attention = {rows, CM_COUNT(rows)};
