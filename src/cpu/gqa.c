/* gqa.c -- GQA: rotated queries and keys, a cache that grows, and attention over it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Queries and new keys that are normalised or rotated are made first, in the workspace. Then sequences of one
 * length are a problem of attention (attention_job.h), whose past keys and values are the old cache's and whose present ones
 * go to the new cache; rows of it that no query of theirs sees are filled in here. */
#include <string.h>

#include "base/size.h"
#include "cpu/attention_job.h"
#include "cpu/cpu.h"
#include "cpu/rotary.h"
#include "cpu/rows.h"

/* Inputs behind q, k and v, and where attention has its own. */
enum {
    OLD_K = 3,
    OLD_V,
    LENGTHS,
    TOTAL,
    COS,
    SIN,
    POSITIONS,
    SCORE_BIAS,
    SINK,
    Q_NORM = 14,
    K_NORM
};
enum { PIECE_FLOATS = 8192 }; /* a piece of work for a thread */

/* Are queries and keys made anew, rather than read where they lie? */
static bool turns(const cm_problem *p)
{
    return p->as.gqa.rotary || cm_problem_has(p, Q_NORM);
}

static bool is_real(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

static const char *reject_inputs(const cm_problem *p)
{
    static const int real[] = {Q, K, V, OLD_K, OLD_V, COS, SIN, SCORE_BIAS, SINK, Q_NORM, K_NORM};
    const cm_gqa *g = &p->as.gqa;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    for (int i = 0; i < (int)CM_COUNT(real); i++)
        if (cm_problem_has(p, real[i]) && p->in[real[i]]->dtype != p->in[Q]->dtype)
            return "inputs are of different types";
    if (p->in[LENGTHS]->dtype != CM_I32 || p->in[TOTAL]->dtype != CM_I32)
        return "lengths are not int32";
    if (cm_tensor_elems(p->in[LENGTHS]) < g->batch)
        return "there are fewer lengths than sequences";
    if (g->rotary && cm_problem_has(p, POSITIONS) && p->in[POSITIONS]->dtype != CM_I64)
        return "positions are not int64";
    return NULL;
}

static const char *reject(const cm_problem *p)
{
    const cm_gqa *g = &p->as.gqa;
    if (g->batch < 1 || g->len < 1)
        return "there are no new tokens";
    if (!is_real(p->in[Q]->dtype))
        return "not float32, float16 or bfloat16";
    for (int o = 0; o < 3; o++)
        if (p->out[o]->dtype != p->in[Q]->dtype || !cm_tensor_is_dense(p->out[o]))
            return "an output is strided or of another type";
    if (p->n_out > 3 && p->out[3])
        return "scores are an output";
    if (p->epilogue)
        return "it has an epilogue";
    return reject_inputs(p);
}

/* ---- As a problem of attention -------------------------------------------------------------- */

typedef struct span {
    int64_t first, n;   /* sequences */
    int64_t past, keys; /* of each: keys before its first query, keys that count */
} span;

typedef struct attention {
    cm_problem p;
    cm_tensor
        y; /* axes of size 1 have the strides of a row-major tensor: rows are cut from these */
    const cm_tensor *in[PAST_V + 1], *out[3];
} attention;

static cm_heads heads_of(int64_t from, int64_t seq, const cm_gqa *g, int64_t first)
{
    int64_t batch = g->len * seq;
    return (cm_heads){from + first * batch, batch, g->size, seq, 1};
}

/* Made anew: [batch, heads, len, size]. */
static cm_heads turned_heads(int64_t heads, const cm_gqa *g, int64_t first)
{
    int64_t head = g->len * g->size, batch = heads * head;
    return (cm_heads){first * batch, batch, head, g->size, 1};
}

static void put_heads(const cm_problem *p, int64_t first, cm_attention *a)
{
    const cm_gqa *g = &p->as.gqa;
    int64_t q = g->heads * g->size, k = g->kv_heads * g->size;
    int64_t q_row = g->packed ? q + 2 * k : q, k_row = g->packed ? q_row : k;
    bool turned = turns(p);
    a->q = turned ? turned_heads(g->heads, g, first) : heads_of(0, q_row, g, first);
    a->k =
        turned ? turned_heads(g->kv_heads, g, first) : heads_of(g->packed ? q : 0, k_row, g, first);
    a->v = heads_of(g->packed ? q + k : 0, k_row, g, first);
    a->y = heads_of(0, q, g, first);
}

static void put_bias(const cm_tensor *t, cm_attention *a)
{
    for (int i = 0; i < 4; i++)
        a->bias[i] = t->dims[i] == 1 ? 0 : t->strides[i];
    a->bias_batch = t->dims[0] == 1 ? 1 : a->batch;
}

/* Tensors are those of the problem: attention asks for their types, and strides of the past ones. Queries that are
 * made anew are float32, keys are of the cache's type. */
static void describe(const cm_problem *p, const span *s, attention *out)
{
    static const cm_tensor made = {.dtype = CM_F32};
    const cm_gqa *g = &p->as.gqa;
    *out = (attention){.p = {.kind = CM_PROBLEM_ATTENTION,
                             .op = p->op,
                             .n_in = CM_COUNT(out->in),
                             .n_out = CM_COUNT(out->out),
                             .target = p->target,
                             .threads = p->threads},
                       .in = {[Q] = turns(p) ? &made : p->in[Q], [K] = p->in[Q], [V] = p->in[Q]},
                       .out = {&out->y, p->out[1], p->out[2]}};
    cm_attention *a = &out->p.as.attention;
    *a = (cm_attention){.batch = s->n,
                        .heads = g->heads,
                        .kv_heads = g->kv_heads,
                        .q_len = g->len,
                        .kv_len = s->keys - s->past,
                        .past_len = s->past,
                        .head_size = g->size,
                        .v_head_size = g->size,
                        .scale = g->scale,
                        .softcap = g->softcap,
                        .causal = g->causal};
    put_heads(p, s->first, a);
    if (cm_problem_has(p, SCORE_BIAS)) {
        out->in[BIAS] = p->in[SCORE_BIAS];
        put_bias(p->in[SCORE_BIAS], a);
    }
    out->in[PAST_K] = cm_problem_has(p, OLD_K) ? p->in[OLD_K] : NULL;
    out->in[PAST_V] = cm_problem_has(p, OLD_K) ? p->in[OLD_V] : NULL;
    cm_tensor_shape(&out->y, p->out[0]->dtype, p->out[0]->rank, p->out[0]->dims);
    out->p.in = out->in;
    out->p.out = out->out;
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static int64_t turned_elems(const cm_problem *p, int64_t heads)
{
    const cm_gqa *g = &p->as.gqa;
    return turns(p) ? round16(g->batch * heads * g->len * g->size) : 0;
}

/* Of a token: cosines and sines, one for each column, and a head before and after. */
static int64_t slot_elems(const cm_gqa *g)
{
    return round16(2 * (g->rotated + g->size));
}

/* The weights of both normalisations, then sinks, where they are not float32. */
static int64_t widened_elems(const cm_gqa *g)
{
    return round16(2 * g->size + g->heads);
}

static int64_t slots_elems(const cm_problem *p)
{
    const cm_gqa *g = &p->as.gqa;
    return turns(p) ? g->batch * g->len * slot_elems(g) : 0;
}

/* What attention needs at most: sequences may come one by one or together. More of them than attention has pieces need
 * no more. */
static size_t attention_bytes(const cm_problem *p)
{
    const cm_gqa *g = &p->as.gqa;
    int64_t enough = cm_min_i64(g->batch, cm_attention_most_pieces(p->threads) + 1);
    size_t most = 0;
    for (int64_t n = 1; n <= enough; n++) {
        span s = {.n = n, .past = g->rows - g->len, .keys = g->rows};
        attention a;
        describe(p, &s, &a);
        size_t bytes = cm_attention_workspace(&a.p, NULL);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Queries and keys made anew, what is widened, slots of tokens; then attention's own. */
static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_gqa *g = &p->as.gqa;
    (void)k;
    int64_t turned = turned_elems(p, g->heads) + turned_elems(p, g->kv_heads);
    return (size_t)(turned + widened_elems(g) + slots_elems(p)) * sizeof(float) +
           attention_bytes(p);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_gqa *g = &p->as.gqa;
    span s = {.n = g->batch, .past = g->rows - g->len, .keys = g->rows};
    attention a;
    describe(p, &s, &a);
    double turned = (double)turned_elems(p, g->heads + g->kv_heads);
    return cm_attention_cost(&a.p, k) +
           24 * turned / cm_cpu_bytes_per_ns(&p->target) / cm_cpu_speedup(p, turned / PIECE_FLOATS);
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct gqa_job {
    const cm_run *r;
    cm_dtype type;
    int64_t bytes;               /* of an element */
    float *q;                    /* made anew, in the workspace: queries, and ... */
    void *k;                     /* ... keys of the cache's type */
    float *slots;                /* of tokens; */
    void *rest;                  /* the workspace behind them, attention's */
    const float *norm[2], *sink; /* NULL: none */
    cm_rotate_fn *rotate;
    const cm_rows_kernels *rows;
    const cm_tile_kernels *tile;
} gqa_job;

static int64_t total_of(const cm_run *r)
{
    return *(const int32_t *)r->in[TOTAL];
}

/* Keys of sequence b, the new ones among them, as the input tells. */
static int64_t length_of(const cm_run *r, int64_t b)
{
    return (int64_t)((const int32_t *)r->in[LENGTHS])[b] + 1;
}

/* A prompt, which has as many tokens as there are in all, starts the cache. */
static int64_t past_of(const cm_run *r, int64_t b)
{
    int64_t len = r->p->as.gqa.len;
    return total_of(r) == len ? 0 : length_of(r, b) - len;
}

static int64_t keys_of(const cm_run *r, int64_t b)
{
    const cm_gqa *g = &r->p->as.gqa;
    return g->causal ? past_of(r, b) + g->len : length_of(r, b);
}

static int64_t position_of(const cm_run *r, int64_t token)
{
    int64_t len = r->p->as.gqa.len;
    return cm_problem_has(r->p, POSITIONS) ? ((const int64_t *)r->in[POSITIONS])[token]
                                           : past_of(r, token / len) + token % len;
}

static cm_status check_lengths(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_gqa *g = &p->as.gqa;
    int64_t total = total_of(r);
    if (total < g->len || total > g->rows)
        return cm_fail(r->cx, CM_ERR_DATA,
                       "total_sequence_length is %lld for %lld queries and a cache of %lld",
                       (long long)total, (long long)g->len, (long long)g->rows);
    if (cm_problem_has(p, SCORE_BIAS) &&
        (p->in[SCORE_BIAS]->dims[2] < g->len || p->in[SCORE_BIAS]->dims[3] < total))
        return cm_fail(r->cx, CM_ERR_DATA, "attention_bias does not cover %lld keys",
                       (long long)total);
    for (int64_t b = 0; b < g->batch; b++) {
        int64_t n = length_of(r, b), past = past_of(r, b);
        if (n < 0 || n > total || past < 0 || past > g->past)
            return cm_fail(r->cx, CM_ERR_DATA,
                           "seqlens_k[%lld] is %lld: total_sequence_length is %lld, "
                           "past keys %lld",
                           (long long)b, (long long)(n - 1), (long long)total, (long long)g->past);
    }
    return CM_OK;
}

static cm_status check_positions(const cm_run *r)
{
    const cm_gqa *g = &r->p->as.gqa;
    int64_t most = g->rotary ? r->p->in[COS]->dims[0] : 0;
    for (int64_t t = 0; g->rotary && t < g->batch * g->len; t++) {
        int64_t at = position_of(r, t);
        if (at < 0 || at >= most)
            return cm_fail(r->cx, CM_ERR_DATA,
                           "position %lld is outside the cos and sin caches of %lld", (long long)at,
                           (long long)most);
    }
    return CM_OK;
}

/* Element i of an input, and from there on. */
static const void *element(const gqa_job *j, int input, int64_t i)
{
    return (const char *)j->r->in[input] + i * j->bytes;
}

/* n elements as float32: where they lie, or in `room`. */
static const float *widened(const gqa_job *j, const void *x, int64_t n, float *room)
{
    if (j->type == CM_F32)
        return x;
    j->tile->load[j->type](room, x, 1, n);
    return room;
}

/* An angle for each column, from one for each pair; `room` for these. */
static void spread(const gqa_job *j, const void *angles, float *room, float *to)
{
    const cm_gqa *g = &j->r->p->as.gqa;
    int64_t half = g->rotated / 2;
    const float *from = widened(j, angles, half, room);
    if (g->interleaved) {
        for (int64_t i = 0; i < half; i++)
            to[2 * i] = to[2 * i + 1] = from[i];
        return;
    }
    memcpy(to, from, (size_t)half * sizeof *to);
    memcpy(to + half, from, (size_t)half * sizeof *to);
}

/* One head of a token, normalised and rotated. */
static void turn(const gqa_job *j, const void *head, const float *weight, float *slot, float *y)
{
    const cm_gqa *g = &j->r->p->as.gqa;
    const float *x = widened(j, head, g->size, slot + 2 * g->rotated);
    if (weight) {
        double stats[2];
        cm_norm norm = {
            .kind = CM_ROWS_RMS_NORM, .n = g->size, .epsilon = g->epsilon, .scale = weight};
        if (!j->rows->norm_row(&norm, x, y, stats))
            cm_norm_slow(&norm, x, 1, y, 1, stats);
        x = y;
    }
    if (g->rotary)
        j->rotate(x, slot, slot + g->rotated, g->rotated, y);
    if (x != y)
        memcpy(y + g->rotated, x + g->rotated, (size_t)(g->size - g->rotated) * sizeof *y);
}

/* The same for a key; it is the one at element `at` of those made anew. */
static void turn_key(const gqa_job *j, const void *head, float *slot, int64_t at)
{
    const cm_gqa *g = &j->r->p->as.gqa;
    float *y = slot + 2 * g->rotated + g->size;
    void *to = (char *)j->k + at * j->bytes;
    turn(j, head, j->norm[1], slot, j->type == CM_F32 ? to : y);
    if (j->type != CM_F32)
        j->tile->store[j->type](to, 1, y, g->size);
}

/* Queries and keys of some tokens. */
static void turn_tokens(void *arg, int64_t begin, int64_t end)
{
    const gqa_job *j = arg;
    const cm_gqa *g = &j->r->p->as.gqa;
    int64_t q = g->heads * g->size, k = g->kv_heads * g->size, row = g->packed ? q + 2 * k : q;
    for (int64_t t = begin; t < end; t++) {
        int64_t b = t / g->len, s = t % g->len;
        float *slot = j->slots + t * slot_elems(g), *room = slot + 2 * g->rotated;
        const char *keys = g->packed ? element(j, Q, t * row + q) : element(j, K, t * k);
        if (g->rotary) {
            int64_t at = position_of(j->r, t) * (g->rotated / 2);
            spread(j, element(j, COS, at), room, slot);
            spread(j, element(j, SIN, at), room, slot + g->rotated);
        }
        for (int64_t h = 0; h < g->heads; h++)
            turn(j, element(j, Q, t * row + h * g->size), j->norm[0], slot,
                 j->q + ((b * g->heads + h) * g->len + s) * g->size);
        for (int64_t h = 0; h < g->kv_heads; h++)
            turn_key(j, keys + h * g->size * j->bytes, slot,
                     ((b * g->kv_heads + h) * g->len + s) * g->size);
    }
}

/* Keys (0) or values (1) of the new tokens; put_heads tells where in there. */
static const void *fresh(const gqa_job *j, int which)
{
    const cm_problem *p = j->r->p;
    return !which && turns(p) ? j->k : j->r->in[p->as.gqa.packed ? Q : K + which];
}

/* Rows of the cache behind the keys that count: new ones that are padding, then zeros. */
static void fill_rest(void *arg, int64_t begin, int64_t end)
{
    const gqa_job *j = arg;
    const cm_run *r = j->r;
    const cm_gqa *g = &r->p->as.gqa;
    int64_t row = g->size * j->bytes;
    cm_attention a;
    put_heads(r->p, 0, &a);
    for (int64_t i = begin; i < end; i++) {
        int which = i % 2 != 0;
        int64_t u = i / 2, b = u / g->kv_heads, past = past_of(r, b), s = keys_of(r, b);
        const cm_heads *h = which ? &a.v : &a.k;
        int64_t from = h->offset + b * h->batch + u % g->kv_heads * h->head;
        char *to = (char *)r->out[1 + which] + u * g->rows * row;
        for (; s < past + g->len; s++)
            memcpy(to + s * row,
                   (const char *)fresh(j, which) + (from + (s - past) * h->seq) * j->bytes,
                   (size_t)row);
        memset(to + s * row, 0, (size_t)((g->rows - s) * row));
    }
}

/* Attention of a span of sequences. */
static void attend(const gqa_job *j, const span *s)
{
    const cm_run *r = j->r;
    const cm_problem *p = r->p;
    const cm_gqa *g = &p->as.gqa;
    int64_t heads = s->first * g->kv_heads, old = heads * g->past * g->size;
    int64_t present = heads * g->rows * g->size * j->bytes;
    attention a;
    describe(p, s, &a);
    const void *in[PAST_V + 1] = {
        [Q] = turns(p) ? j->q : r->in[Q], [K] = fresh(j, 0), [V] = fresh(j, 1)};
    void *out[] = {r->out[0], (char *)r->out[1] + present, (char *)r->out[2] + present};
    if (cm_problem_has(p, SCORE_BIAS))
        in[BIAS] = element(j, SCORE_BIAS, s->first * a.p.as.attention.bias[0]);
    if (cm_problem_has(p, OLD_K)) {
        in[PAST_K] = element(j, OLD_K, old);
        in[PAST_V] = element(j, OLD_V, old);
    }
    cm_run run = *r;
    run.p = &a.p;
    run.in = in;
    run.out = out;
    run.workspace = j->rest;
    job of = {.run = &run,
              .present_rows = g->rows,
              .window = g->left + 1,
              .sink = j->sink,
              .sink_step = cm_problem_has(p, SINK)};
    cm_attention_execute(&of);
}

static gqa_job job_of(const cm_run *r)
{
    static const float smooth = 0;
    const cm_problem *p = r->p;
    const cm_gqa *g = &p->as.gqa;
    gqa_job j = {.r = r,
                 .type = p->in[Q]->dtype,
                 .bytes = (int64_t)cm_dtype_size(p->in[Q]->dtype),
                 .rotate = cm_cpu_rotate_kernel(p->target.level, g->interleaved),
                 .rows = cm_cpu_rows_kernels(p->target.level),
                 .tile = cm_tile_kernels_at(p->target.level)};
    j.q = r->workspace;
    float *k = j.q + turned_elems(p, g->heads), *room = k + turned_elems(p, g->kv_heads);
    j.k = k;
    j.slots = room + widened_elems(g);
    j.rest = j.slots + slots_elems(p);
    for (int i = 0; i < 2; i++)
        if (cm_problem_has(p, Q_NORM + i))
            j.norm[i] = widened(&j, r->in[Q_NORM + i], g->size, room + i * g->size);
    if (cm_problem_has(p, SINK))
        j.sink = widened(&j, r->in[SINK], g->heads, room + 2 * g->size);
    else if (g->smooth)
        j.sink = &smooth;
    return j;
}

static cm_status run(const cm_run *r)
{
    const cm_gqa *g = &r->p->as.gqa;
    gqa_job j = job_of(r);
    bool rest = false;
    CM_TRY(check_lengths(r));
    CM_TRY(check_positions(r));
    if (turns(r->p))
        cm_parallel(r->threads, g->batch * g->len,
                    1 + PIECE_FLOATS / ((g->heads + g->kv_heads) * g->size), turn_tokens, &j);
    for (int64_t b = 0; b < g->batch; b++)
        rest = rest || keys_of(r, b) < g->rows;
    if (rest)
        cm_parallel(r->threads, 2 * g->batch * g->kv_heads, 1, fill_rest, &j);
    for (span s = {0}; s.first < g->batch; s.first += s.n) {
        s.past = past_of(r, s.first);
        s.keys = keys_of(r, s.first);
        s.n = 1;
        while (s.first + s.n < g->batch && past_of(r, s.first + s.n) == s.past &&
               keys_of(r, s.first + s.n) == s.keys)
            s.n++;
        attend(&j, &s);
    }
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "gqa",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .run = run},
};

const cm_cpu_table cm_cpu_gqa = {rows, CM_COUNT(rows)};
