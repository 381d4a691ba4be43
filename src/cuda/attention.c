/* attention.c -- ATTENTION: scores never reach memory. Matrix units for 16-bit elements, float32 for the rest.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of queries meet the keys tile by tile. Where there are few of them (one new query and a long cache) keys
 * are split among blocks, and a second kernel joins the parts. */
#include "cuda/attention.h"

#include "base/size.h"

enum { JOIN_THREADS = 128, STATIC_BYTES = 4096 };

typedef struct {
    const cm_kernel *vectors, *scalars; /* vectors: NULL where heads do not lie in any */
    cm_attention_around around;
    cm_grid grid;
    cm_attention_args args;
} state;

static int round16(int64_t n)
{
    return (int)((n + 15) / 16 * 16);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static size_t matrix_bytes(const cm_attention_tile *t)
{
    return (size_t)((t->rows + t->keys) * (t->d + 8) + t->keys * (t->dv + 8)) * 2;
}

/* Knob 0: tiles of 16 rows to a warp. */
static cm_attention_tile matrix_tile(const cm_problem *p, const cm_knobs *k)
{
    const cm_attention *a = &p->as.attention;
    cm_attention_tile t = {.file = "attention_mma",
                           .matrix = true,
                           .threads = 128,
                           .tiles = k->v[0],
                           .rows = 64 * k->v[0],
                           .keys = 64,
                           .d = round16(a->head_size),
                           .dv = round16(a->v_head_size)};
    if (t.d > 128 || t.dv > 128)
        t.keys = 32;
    t.shared = matrix_bytes(&t);
    return t;
}

static int matrix_knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_attention *a = &p->as.attention;
    int64_t rows = a->q_len < 128 ? a->heads / a->kv_heads * a->q_len : a->q_len;
    bool wide = rows > 64 && a->head_size <= 128 && a->v_head_size <= 128;
    out[0] = (cm_knobs){{wide ? 2 : 1}};
    out[1] = (cm_knobs){{1}};
    return wide ? 2 : 1;
}

/* As much as fits the shared memory that every device has. */
static cm_attention_tile simt_tile(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_attention *a = &p->as.attention;
    cm_attention_tile t = {.file = "attention_simt",
                           .threads = 256,
                           .tiles = 1,
                           .rows = 64,
                           .keys = 64,
                           .d = round16(a->head_size),
                           .dv = round16(a->v_head_size)};
    int most = t.d > t.dv ? t.d : t.dv;
    if (most > 64)
        t.keys = 32;
    if (most > 128) {
        t.rows = 32;
        t.keys = 16;
    }
    t.shared =
        (size_t)(t.rows * (t.d + 4) + t.keys * (most + 4) + t.rows * (t.keys + 4)) * sizeof(float);
    return t;
}

/* ---- Choosing ------------------------------------------------------------------------------- */

static const char *reject_matrix(const cm_problem *p)
{
    const char *why = cm_cuda_attention_reject(p);
    if (why)
        return why;
    cm_dtype t = p->in[CM_ATTENTION_Q]->dtype;
    if (t == CM_F32 || p->in[CM_ATTENTION_K]->dtype != t || p->in[CM_ATTENTION_V]->dtype != t)
        return "queries, keys and values are not all of float16 or all of bfloat16";
    if (t == CM_BF16 && p->target.level < 800)
        return "the device multiplies no matrices of bfloat16";
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    cm_attention_tile tile = matrix_tile(p, &(cm_knobs){{1}});
    return tile.shared + STATIC_BYTES > (size_t)facts.shared_bytes
               ? "heads are too large for shared memory"
               : NULL;
}

static const char *reject_simt(const cm_problem *p)
{
    return cm_cuda_attention_reject(p);
}

void cm_cuda_attention_work(const cm_problem *p, double *bytes, double *flops)
{
    const cm_attention *a = &p->as.attention;
    double total = (double)(a->past_len + a->kv_len);
    double rows = (double)a->batch * (double)a->heads * (double)a->q_len;
    double keys = a->causal && a->q_len > 1
                      ? total - (double)cm_min_i64(a->q_len, a->past_len + a->kv_len) / 2
                      : total;
    double sizes = (double)(a->head_size + a->v_head_size);
    *bytes = (double)a->batch * (double)a->kv_heads * total * sizes *
                 (double)cm_dtype_size(p->in[CM_ATTENTION_K]->dtype) +
             rows * sizes * 4;
    if (p->n_out > 1)
        *bytes *= 3;
    *flops = 2 * rows * keys * sizes;
}

/* tile_ns: what a block takes for a tile of keys however little there is to do. */
static double time_of(const cm_problem *p, const cm_attention_tile *t, double ops_per_ns,
                      double tile_ns)
{
    cm_gpu_facts facts;
    cm_attention_args args;
    double bytes, flops;
    cm_gpu_facts_of(&p->target, &facts);
    cm_cuda_attention_place(p, t, &args);
    cm_cuda_attention_work(p, &bytes, &flops);
    double blocks = (double)args.batch * args.kv_heads * args.spans * args.blocks * args.splits;
    double used = blocks < facts.multiprocessors ? blocks / facts.multiprocessors : 1;
    double memory = bytes / facts.read_gbs / 0.8, work = flops / ops_per_ns;
    double rate = (memory > work ? memory : work) / used;
    double walk = (double)cm_ceil_div(args.split_keys, t->keys) * tile_ns;
    return facts.launch_ns * (args.splits > 1 ? 2 : 1) + (rate > walk ? rate : walk);
}

static double matrix_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    cm_attention_tile t = matrix_tile(p, k);
    double most = p->target.level / 10 == 90 ? 0.45 : 1; /* sm_90 is fast for warp groups only */
    return time_of(p, &t, facts.half_tflops * 1000 * most * (k->v[0] == 2 ? 0.4 : 0.39), 2500);
}

static double simt_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    cm_attention_tile t = simt_tile(p, k);
    return time_of(p, &t, facts.tflops * 1000 * 0.35, 2500);
}

static size_t parts_bytes(const cm_problem *p, const cm_attention_tile *t)
{
    cm_attention_args a;
    cm_cuda_attention_place(p, t, &a);
    if (a.splits < 2)
        return 0;
    size_t rows = (size_t)a.batch * (size_t)(a.kv_heads * a.rep) * (size_t)a.q_len;
    return rows * (size_t)a.splits * (size_t)(a.v_head_size + 2) * sizeof(float);
}

static size_t matrix_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_attention_tile t = matrix_tile(p, k);
    return parts_bytes(p, &t);
}

static size_t simt_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_attention_tile t = simt_tile(p, k);
    return parts_bytes(p, &t);
}

/* ---- Running -------------------------------------------------------------------------------- */

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_attention_tile *t,
                         const cm_attention_args *a, bool vectors, const cm_kernel **out)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_attention_text(&b, p, t, a, vectors);
    cm_buf_printf(&b, "#define THREADS %d\n#define BLOCK_ROWS %d\n", t->threads, t->rows);
    cm_kernel_text text = {.file = t->file, .entry = "attention"};
    return cm_gpu_kernel_with(cx, d, &b, text, t->shared, out);
}

cm_status cm_cuda_attention_around_ready(cm_ctx *cx, cm_device *d, const cm_problem *p,
                                         const cm_attention_tile *t, const cm_attention_args *a,
                                         cm_attention_around *out)
{
    cm_buf b;
    int64_t units = (int64_t)a->batch * a->kv_heads;
    int64_t elems = (int64_t)a->total * cm_max_i64(a->head_size, a->v_head_size);
    *out = (cm_attention_around){
        .rows = {.blocks = {(unsigned)(units * a->rep * a->q_len)}, .threads = {JOIN_THREADS}},
        .copies = {.blocks = {(unsigned)cm_min_i64(1024, cm_ceil_div(elems, JOIN_THREADS * 4)),
                              (unsigned)units},
                   .threads = {JOIN_THREADS}}};
    cm_buf_init(&b, cx->allocator);
    cm_cuda_attention_text(&b, p, t, a, false);
    cm_buf_printf(&b, "#define THREADS %d\n", JOIN_THREADS);
    cm_kernel_text text = {.file = "attention_join", .defines = cm_buf_text(&b)};
    const char *const entries[] = {"join_parts", "join_keys", "join_values"};
    const cm_kernel **const to[] = {&out->join, &out->keys, &out->values};
    const bool wanted[] = {a->splits > 1, p->n_out > 1 && p->out[1], p->n_out > 2 && p->out[2]};
    cm_status st = b.failed ? cm_fail_memory(cx) : CM_OK;
    for (int i = 0; i < CM_COUNT(wanted) && st == CM_OK; i++) {
        text.entry = entries[i];
        st = wanted[i] ? cm_gpu_kernel(cx, d, &text, 0, to[i]) : CM_OK;
    }
    cm_buf_deinit(&b);
    return st;
}

cm_status cm_cuda_attention_presents(const cm_run *r, const cm_attention_around *s,
                                     cm_attention_args *a)
{
    if (s->keys)
        CM_TRY(cm_gpu_launch(r, s->keys, &s->copies, (void *[]){a}));
    return s->values ? cm_gpu_launch(r, s->values, &s->copies, (void *[]){a}) : CM_OK;
}

static cm_status prepare(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                         const cm_attention_tile *t, const void **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    cm_attention_args *a = &s->args;
    cm_cuda_attention_place(p, t, a);
    int64_t units = (int64_t)a->batch * a->kv_heads;
    s->grid = (cm_grid){.blocks = {(unsigned)(units * a->spans * a->blocks), (unsigned)a->splits},
                        .threads = {(unsigned)t->threads},
                        .shared = t->shared,
                        .overlaps = t->matrix};
    if (t->matrix && cm_cuda_attention_takes_vectors(p, a))
        CM_TRY(compile(cx, d, p, t, a, true, &s->vectors));
    CM_TRY(compile(cx, d, p, t, a, false, &s->scalars));
    *out = s;
    return cm_cuda_attention_around_ready(cx, d, p, t, a, &s->around);
}

static cm_status matrix_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    cm_attention_tile t = matrix_tile(p, k);
    return prepare(cx, d, arena, p, &t, out);
}

static cm_status simt_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **out)
{
    cm_attention_tile t = simt_tile(p, k);
    return prepare(cx, d, arena, p, &t, out);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    cm_attention_args a = s->args;
    cm_cuda_attention_point(r, &a);
    uintptr_t any = (uintptr_t)a.q | (uintptr_t)a.k | (uintptr_t)a.v | (uintptr_t)a.past_k |
                    (uintptr_t)a.past_v;
    const cm_kernel *kernel = s->vectors && any % 16 == 0 ? s->vectors : s->scalars;
    void *args[] = {&a};
    CM_TRY(cm_cuda_attention_presents(r, &s->around, &a));
    CM_TRY(cm_gpu_launch(r, kernel, &s->grid, args));
    return s->around.join ? cm_gpu_launch(r, s->around.join, &s->around.rows, args) : CM_OK;
}

const cm_tactic cm_cuda_attention_tactics[] = {
    {.name = "cuda_attention_wgmma",
     .level = 900,
     .reject = cm_cuda_attention_wgmma_reject,
     .knobs = cm_cuda_attention_wgmma_knobs,
     .cost = cm_cuda_attention_wgmma_cost,
     .ready = cm_cuda_attention_wgmma_ready,
     .run = cm_cuda_attention_wgmma_run},
    {.name = "cuda_attention_mma",
     .level = 750,
     .reject = reject_matrix,
     .knobs = matrix_knobs,
     .cost = matrix_cost,
     .workspace = matrix_workspace,
     .ready = matrix_ready,
     .run = run},
    {.name = "cuda_attention",
     .level = 750,
     .reject = reject_simt,
     .cost = simt_cost,
     .workspace = simt_workspace,
     .ready = simt_ready,
     .run = run},
};
const int cm_cuda_attention_count = CM_COUNT(cm_cuda_attention_tactics);
