/* attention_wgmma.c -- attention of 16-bit elements on sm_90 with bulk copies and products of warp groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block has 64 rows of queries for each of its warp groups, or two groups for the same rows, which share the keys. Long
 * sequences want large blocks that have a multiprocessor to themselves, short ones several small ones on each; where there are
 * fewer shares than multiprocessors, two groups for the same rows. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cuda/attention.h"
#include "cuda/epilogue_text.h"
#include "cuda/ranking.h"

enum { LINE = 128, MOST_HEAD = 128, Q_SLOTS = 2 };
enum { Q = CM_ATTENTION_Q, K, V };

/* As knobs, in this order. parts: so many groups have the same rows and their part of the keys each. */
typedef struct {
    int groups, parts, keys, stages, per_multiprocessor;
} setting;

typedef struct {
    uint64_t dims[4], strides[3];
    uint32_t box[4];
    int64_t offset; /* bytes */
} box_map;

typedef struct {
    const cm_kernel *kernel;
    cm_attention_around around;
    cm_grid grid;
    cm_attention_args args;
    box_map maps[3];
    cm_dtype dtype;
} state;

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2], k->v[3], k->v[4]};
}

static int round16(int64_t n)
{
    return (int)((n + 15) / 16 * 16);
}

static cm_attention_tile tile_of(const cm_problem *p, const setting *s)
{
    enum { ALIGN = 1024, BARRIERS = 256 };
    const cm_attention *a = &p->as.attention;
    int d = (int)cm_ceil_div(a->head_size, 64), dv = (int)cm_ceil_div(a->v_head_size, 64);
    int lines =
        Q_SLOTS * s->groups / s->parts * 64 * (d > dv ? d : dv) + s->stages * s->keys * (d + dv);
    return (cm_attention_tile){.file = "attention_wgmma",
                               .matrix = true,
                               .bulk = true,
                               .threads = s->groups * 128 + (s->groups > 1 ? 128 : 32),
                               .rows = s->groups / s->parts * 64,
                               .keys = s->keys,
                               .tiles = 1,
                               .d = round16(a->head_size),
                               .dv = round16(a->v_head_size),
                               .shared = ALIGN + BARRIERS + (size_t)(lines * LINE)};
}

/* ---- Choosing ------------------------------------------------------------------------------- */

/* Can the copies be told where these heads lie? */
static bool has_map(const cm_heads *h, int64_t batch, int64_t heads, int64_t seq)
{
    const int64_t dims[] = {seq, heads, batch}, strides[] = {h->seq, h->head, h->batch};
    for (int i = 0; i < 3; i++)
        if (dims[i] > 1 && (strides[i] <= 0 || strides[i] >= (int64_t)1 << 38))
            return false;
    return cm_cuda_heads_in_vectors(h);
}

const char *cm_cuda_attention_wgmma_reject(const cm_problem *p)
{
    const cm_attention *a = &p->as.attention;
    const char *why = cm_cuda_attention_reject(p);
    if (why)
        return why;
    if (p->target.level / 10 != 90)
        return "these instructions are sm_90's own";
    cm_dtype t = p->in[Q]->dtype;
    if (t == CM_F32 || p->in[K]->dtype != t || p->in[V]->dtype != t)
        return "queries, keys and values are not all of float16 or all of bfloat16";
    if (a->past_len > 0)
        return "past keys lie apart";
    if (a->q_len < 1 || a->kv_len < 1)
        return "there is nothing to copy";
    if (a->head_size > MOST_HEAD || a->v_head_size > MOST_HEAD)
        return "heads are larger than 128";
    if (a->causal && a->has_mask_value && !a->bias_last && cm_problem_has(p, CM_ATTENTION_MASK))
        return "masks may leave a row nothing but what causality forbids";
    if (!has_map(&a->q, a->batch, a->heads, a->q_len) ||
        !has_map(&a->k, a->batch, a->kv_heads, a->kv_len) ||
        !has_map(&a->v, a->batch, a->kv_heads, a->kv_len))
        return "heads do not begin at multiples of 16 bytes";
    return NULL;
}

/* What was measured of each, in ns: a kernel's beginning and end; a share beside its tiles; a tile where the block is alone on its
 * multiprocessor, and where as many are there as may be. */
typedef struct {
    setting s;
    double start, share, tile, full_tile;
} measured;
static const measured small_heads[] =
    {{{1, 1, 64, 2, 3}, 2000, 500, 600, 1150},    {{1, 1, 80, 2, 3}, 2100, 500, 670, 1480},
     {{1, 1, 112, 2, 2}, 2100, 600, 850, 1300},   {{1, 1, 128, 2, 2}, 2000, 500, 1000, 1480},
     {{3, 1, 128, 4, 1}, 2500, 1300, 1450, 1450}, {{2, 2, 64, 4, 1}, 2000, 800, 850, 850},
     {{2, 2, 112, 4, 1}, 2000, 800, 1200, 1200},  {{2, 2, 192, 2, 1}, 2000, 650, 2200, 2200},
     {{3, 1, 128, 2, 1}, 2500, 1300, 1450, 1450}, {{4, 1, 64, 2, 1}, 2500, 1300, 1300, 1300}},
                      large_heads[] = {{{1, 1, 64, 2, 2}, 2000, 600, 900, 1150},
                                       {{2, 2, 64, 4, 1}, 2000, 800, 1400, 1400},
                                       {{2, 1, 128, 2, 1}, 2500, 900, 1630, 1630},
                                       {{3, 1, 80, 2, 1}, 2500, 1000, 1550, 1550}};

static const measured *settings_of(const cm_problem *p, int *n)
{
    bool small = p->as.attention.head_size <= 64 && p->as.attention.v_head_size <= 64;
    *n = small ? CM_COUNT(small_heads) : CM_COUNT(large_heads);
    return small ? small_heads : large_heads;
}

static const measured *measured_of(const cm_problem *p, const setting *s)
{
    int n;
    const measured *all = settings_of(p, &n);
    for (int i = 0; i < n; i++)
        if (memcmp(&all[i].s, s, sizeof *s) == 0)
            return &all[i];
    return all;
}

int cm_cuda_attention_wgmma_knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_attention *a = &p->as.attention;
    int count;
    const measured *all = settings_of(p, &count);
    cm_ranking r = {.most = CM_MAX_KNOBS, .out = out};
    for (int i = 0; i < count; i++) {
        const setting *s = &all[i].s;
        if (a->q_len <= 64 * (s->groups / s->parts - 1) || a->kv_len <= s->keys * (s->parts - 1))
            continue;
        cm_knobs k = {{s->groups, s->parts, s->keys, s->stages, s->per_multiprocessor}};
        cm_rank(&r, &k, cm_cuda_attention_wgmma_cost(p, &k));
    }
    return r.n;
}

/* Where causality makes shares differ in length, blocks have one each, in the order of their lengths; else they have as many as
 * there are blocks for. */
static int64_t blocks_of(const cm_problem *p, const setting *s, int64_t shares)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t most = (int64_t)facts.multiprocessors * s->per_multiprocessor;
    return p->as.attention.causal ? shares : cm_min_i64(shares, most);
}

/* Tiles that a group meets for a share of the rows, on average. */
static double tiles_of(const cm_problem *p, const setting *s, const cm_attention_args *a)
{
    double all = (double)cm_ceil_div(a->total, s->keys);
    if (p->as.attention.causal) {
        double seen = a->total - cm_min_i64(a->q_len, a->total) / 2.0;
        double on_average = (seen + 32.0 * (s->groups / s->parts)) / s->keys + 0.5;
        all = on_average < all ? on_average : all;
    }
    return p->as.attention.causal ? all / s->parts : ceil(all / s->parts);
}

double cm_cuda_attention_wgmma_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_attention_args a;
    setting s = setting_of(k);
    cm_attention_tile t = tile_of(p, &s);
    double bytes, flops;
    cm_gpu_facts_of(&p->target, &facts);
    cm_cuda_attention_place(p, &t, &a);
    cm_cuda_attention_work(p, &bytes, &flops);
    const measured *m = measured_of(p, &s);
    int64_t shares = (int64_t)a.batch * a.kv_heads * a.spans * a.blocks;
    int64_t most = (int64_t)facts.multiprocessors * s.per_multiprocessor;
    int64_t rest = cm_ceil_div(shares % most, facts.multiprocessors);
    double tiles = tiles_of(p, &s, &a), rounds = (double)(shares / most);
    double last =
        m->share + tiles * (m->tile + (m->full_tile - m->tile) * (double)cm_max_i64(rest - 1, 0) /
                                          cm_max_i64(s.per_multiprocessor - 1, 1));
    if (rest == 0)
        last = 0;
    else if (p->as.attention.causal) { /* the others help */
        last = last * 0.5;
        rounds = (double)shares / (double)most;
    }
    double work = rounds * (m->share + tiles * m->full_tile) + last;
    double memory = bytes / facts.read_gbs / 0.8;
    return m->start - 2000 + facts.launch_ns + (memory > work ? memory : work);
}

/* ---- Running -------------------------------------------------------------------------------- */

static box_map map_of(const cm_heads *h, int64_t size, int64_t seq, int64_t heads, int64_t batch,
                      int rows)
{
    const int64_t strides[] = {h->seq, h->head, h->batch};
    const int64_t dims[] = {seq, heads, batch};
    box_map m = {
        .dims = {(uint64_t)size}, .box = {64, (uint32_t)rows, 1, 1}, .offset = h->offset * 2};
    for (int i = 0; i < 3; i++) {
        m.dims[i + 1] = (uint64_t)dims[i];
        m.strides[i] = dims[i] > 1 ? (uint64_t)strides[i] * 2 : i > 0 ? m.strides[i - 1] : LINE * 2;
    }
    return m;
}

/* A product's instruction: sums, `a` (a descriptor, or four registers of weights), b's descriptor. */
static void put_product(cm_buf *b, const char *name, int n, const char *type, bool weights)
{
    int sums = n / 2, next = sums + (weights ? 4 : 1);
    cm_buf_printf(b,
                  "static __device__ __forceinline__ void %s(float (&d)[%d], %s, unsigned long "
                  "long b%s)\n{\n",
                  name, sums, weights ? "const unsigned *a" : "unsigned long long a",
                  weights ? "" : ", int add");
    cm_buf_printf(b,
                  "    asm volatile(\"{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %%%d, 0;\\n\\t"
                  "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {",
                  next + 1, n, type, type);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(b, "%s%%%d", i ? ", " : "", i);
    if (weights)
        cm_buf_printf(b,
                      "}, {%%%d, %%%d, %%%d, %%%d}, %%%d, p, 1, 1, 1;\\n\\t}\"\n        : ", sums,
                      sums + 1, sums + 2, sums + 3, next);
    else
        cm_buf_printf(b, "}, %%%d, %%%d, p, 1, 1, 0, 0;\\n\\t}\"\n        : ", sums, next);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(b, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    cm_buf_printf(b, "\n        : %s, \"l\"(b), \"r\"(%s));\n}\n",
                  weights ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)",
                  weights ? "1" : "add");
}

static bool hands_out_vectors(const cm_problem *p)
{
    const cm_attention *a = &p->as.attention;
    return !p->epilogue && cm_dtype_size(p->out[0]->dtype) == 2 && a->v_head_size % 8 == 0 &&
           cm_cuda_heads_in_vectors(&a->y);
}

static bool hands_out_pairs(const cm_problem *p)
{
    const cm_attention *a = &p->as.attention;
    return a->v_head_size % 2 == 0 && cm_cuda_heads_in_vectors(&a->y);
}

/* Are biases and masks the same for all queries, and anything but plain? */
static bool is_keyed(const cm_problem *p, const cm_attention_tile *t)
{
    const cm_attention *a = &p->as.attention;
    return !cm_cuda_attention_is_plain(p, t) && a->bias[2] == 0 && a->mask[2] == 0 &&
           !(a->causal && a->has_mask_value && a->bias_last);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const setting *s,
                         const cm_attention_tile *t, state *to)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_attention_text(&b, p, t, &to->args, true);
    put_product(&b, "multiply_scores", t->keys, cm_element_text(to->dtype), false);
    put_product(&b, "multiply_values", t->dv, cm_element_text(to->dtype), true);
    cm_buf_printf(&b,
                  "#define GROUPS %d\n#define PARTS %d\n#define STAGES %d\n"
                  "#define PER_MULTIPROCESSOR %d\n#define Y_VECTORS %d\n#define Y_PAIRS %d\n"
                  "#define KEYED %d\n",
                  s->groups, s->parts, s->stages, s->per_multiprocessor, hands_out_vectors(p),
                  hands_out_pairs(p), is_keyed(p, t));
    cm_kernel_text text = {.file = t->file, .entry = "attention", .needs_a = true};
    return cm_gpu_kernel_with(cx, d, &b, text, t->shared, &to->kernel);
}

cm_status cm_cuda_attention_wgmma_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                        const cm_problem *p, const cm_knobs *k, const void **out)
{
    const cm_attention *x = &p->as.attention;
    setting set = setting_of(k);
    cm_attention_tile t = tile_of(p, &set);
    state *s;
    CM_NEW(cx, arena, s, state);
    cm_attention_args *a = &s->args;
    cm_cuda_attention_place(p, &t, a);
    s->dtype = p->in[Q]->dtype;
    s->maps[Q] = map_of(&x->q, x->head_size, x->q_len, x->heads, x->batch, t.rows);
    s->maps[K] = map_of(&x->k, x->head_size, x->kv_len, x->kv_heads, x->batch, t.keys);
    s->maps[V] = map_of(&x->v, x->v_head_size, x->kv_len, x->kv_heads, x->batch, t.keys);
    int64_t shares = (int64_t)a->batch * a->kv_heads * a->spans * a->blocks;
    s->grid = (cm_grid){.blocks = {(unsigned)blocks_of(p, &set, shares)},
                        .threads = {(unsigned)t.threads},
                        .shared = t.shared,
                        .overlaps = true};
    *out = s;
    CM_TRY(compile(cx, d, p, &set, &t, s));
    return cm_cuda_attention_around_ready(cx, d, p, &t, a, &s->around);
}

cm_status cm_cuda_attention_wgmma_run(const cm_run *r)
{
    const state *s = r->state;
    cm_attention_args a = s->args;
    cm_tensor_map maps[3];
    cm_cuda_attention_point(r, &a);
    for (int i = 0; i < 3; i++) {
        const box_map *m = &s->maps[i];
        CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 4, (const char *)r->in[i] + m->offset, m->dims,
                                 m->strides, m->box, LINE, &maps[i]));
    }
    CM_TRY(cm_cuda_attention_presents(r, &s->around, &a));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&maps[Q], &maps[K], &maps[V], &a});
}
