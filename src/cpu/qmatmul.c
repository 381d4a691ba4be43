/* qmatmul.c -- QMATMUL: products of 8-bit matrices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/qmatmul.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/quant.h"

enum { PIECE = 1024 }; /* bytes quantised at a time */

static const char *reject(const cm_problem *p)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    const cm_tensor *a = p->in[g->a], *b = p->in[g->b], *y = p->out[0];
    if (g->dynamic ? a->dtype != CM_F32 : a->dtype != CM_U8 && a->dtype != CM_I8)
        return "A is not of bytes";
    if (b->dtype != CM_U8 && b->dtype != CM_I8)
        return "B is not of bytes";
    if (g->k > CM_QGEMM_MOST_K || g->k < 1)
        return "sums might pass 32 bits";
    if (!cm_tensor_is_dense(a) || !cm_tensor_is_dense(b) || !cm_tensor_is_dense(y))
        return "an operand is strided";
    if (y->dtype != (g->mode == CM_QREAL ? CM_F32 : g->mode == CM_QSUMS ? CM_I32 : y->dtype))
        return "the output's type";
    if (p->constant[g->b] && g->b_batch != 0)
        return "a batch of constant matrices";
    if (p->constant[g->b] && g->b_zero >= 0 && !p->in[g->b_zero]->data)
        return "weights are constant, their zero point is not";
    return p->epilogue ? cm_epilogue_reject(p, 1) : NULL;
}

static const char *reject_dots(const cm_problem *p)
{
    return cm_cpu_info()->vnni ? reject(p) : "the CPU has no VNNI";
}

static cm_qpack pack_of(const cm_problem *p, bool dots)
{
    return cm_qpack_of(p->target.level, dots, 1, p->as.qmatmul.k, p->as.qmatmul.n);
}

/* Multiply-adds in a nanosecond. */
static double speed(const cm_problem *p, bool dots)
{
    return cm_cpu_flops_per_ns(&p->target) / 2 * (dots ? 3.5 : 1.5);
}

static double cost_of(const cm_problem *p, bool dots)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    double m = (double)(g->batch * g->m), n = (double)g->n, k = (double)g->k;
    double ns = 100 + m * n * k / speed(p, dots) + m * n * 0.1 + n * 2 + m * k * 0.05;
    if (g->m < 8) /* weights are read for few rows */
        ns += n * k / cm_cpu_bytes_per_ns(&p->target);
    if (!p->constant[g->b])
        ns += (g->b_batch ? (double)g->batch : 1) * n * k;
    return ns / cm_cpu_speedup(p, m * n * k / 400000);
}

/* Parts of the workspace. */
typedef struct {
    size_t tables, a, b, bytes;
    int64_t lda; /* elements between rows of A */
    bool in_place;
} parts;

static size_t part(size_t *at, size_t bytes)
{
    size_t from = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return from;
}

static parts parts_of(const cm_problem *p, const cm_qpack *q)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    parts w = {.lda = q->depth};
    size_t at = 0;
    w.in_place = q->dots && !g->dynamic && q->depth == q->k && p->in[g->a]->dtype == CM_U8;
    w.tables = part(&at, cm_qtables_bytes(q));
    w.a = part(&at, w.in_place ? 0 : (size_t)(g->batch * g->m * q->depth) * (q->dots ? 1 : 2));
    w.b = part(&at, p->constant[g->b] ? 0 : cm_qpack_bytes(q));
    w.bytes = at;
    return w;
}

static size_t workspace_of(const cm_problem *p, bool dots)
{
    cm_qpack q = pack_of(p, dots);
    parts w = parts_of(p, &q);
    return w.bytes;
}

static cm_qmatrix matrix_of(const cm_problem *p, const void *data, const void *zero)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    return (cm_qmatrix){.data = data,
                        .is_signed = p->in[g->b]->dtype == CM_I8,
                        .row = g->trans_b ? 1 : g->n,
                        .col = g->trans_b ? g->k : 1,
                        .zero = zero,
                        .zero_step = zero && cm_tensor_elems(p->in[g->b_zero]) > 1};
}

typedef struct {
    const cm_qpack *q;
    const cm_qmatrix *b;
    void *to;
} pack_job;

static void pack_range(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    cm_qpack_panels(j->q, j->b, j->to, begin, end);
}

static void pack(const cm_qpack *q, const cm_qmatrix *b, void *to, cm_threads *threads)
{
    pack_job j = {q, b, to};
    cm_parallel(threads, q->panels, 20000 / (q->depth * q->width) + 1, pack_range, &j);
}

static size_t pack_bytes_of(const cm_problem *p, int input, bool dots)
{
    cm_qpack q = pack_of(p, dots);
    return input == p->as.qmatmul.b ? cm_qpack_bytes(&q) : 0;
}

static void pack_input(const cm_problem *p, const void *from, void *to, bool dots,
                       cm_threads *threads)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    cm_qpack q = pack_of(p, dots);
    cm_qmatrix b = matrix_of(p, from, g->b_zero >= 0 ? p->in[g->b_zero]->data : NULL);
    pack(&q, &b, to, threads);
}

/* A run. */
typedef struct {
    const cm_run *r;
    const cm_qmatmul *g;
    cm_qpack q;
    parts w;
    const char *a; /* as the kernels want it */
    const char *b;
    int32_t a_zero;
    float a_scale;
    cm_qfinish finish;
    int64_t first; /* row of the whole output that this matrix begins with */
    int64_t row_blocks, panel_blocks, block_rows, block_panels;
    cm_epilogue_plan epilogue;
} job;

static float real_at(const cm_run *r, int input, int64_t i)
{
    return input < 0 ? 1.0f : ((const float *)r->in[input])[i];
}

static int64_t step_of(const cm_run *r, int input)
{
    return input >= 0 && cm_tensor_elems(r->p->in[input]) > 1;
}

static char *row_at(const job *j, int64_t i)
{
    return (char *)j->r->workspace + j->w.a + (size_t)(i * j->w.lda) * (j->q.dots ? 1 : 2);
}

/* Bytes to a row of A, what is beyond them to 0. */
static void put_row(const job *j, const void *bytes, bool is_signed, char *row)
{
    size_t elem = j->q.dots ? 1 : 2;
    cm_qrow_of(j->r->p->target.level)(cm_qrow_form_of(&j->q, is_signed), is_signed, j->a_zero,
                                      bytes, j->q.k, row);
    memset(row + (size_t)j->q.k * elem, 0, (size_t)(j->q.depth - j->q.k) * elem);
}

static void convert_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    bool is_signed = j->r->p->in[j->g->a]->dtype == CM_I8;
    for (int64_t i = begin; i < end; i++)
        put_row(j, (const char *)j->r->in[j->g->a] + i * j->q.k, is_signed, row_at(j, i));
}

static void quantise_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const float *from = j->r->in[j->g->a];
    uint8_t bytes[PIECE];
    for (int64_t i = begin; i < end; i++) {
        char *row = row_at(j, i);
        size_t elem = j->q.dots ? 1 : 2;
        for (int64_t at = 0; at < j->q.k; at += PIECE) {
            int64_t n = cm_min_i64(PIECE, j->q.k - at);
            cm_quantise_run(j->r->p->target.level, from + i * j->q.k + at, n, j->a_scale, j->a_zero,
                            false, bytes);
            cm_qrow_of(j->r->p->target.level)(cm_qrow_form_of(&j->q, false), false, j->a_zero,
                                              bytes, n, row + (size_t)at * elem);
        }
        memset(row + (size_t)j->q.k * elem, 0, (size_t)(j->q.depth - j->q.k) * elem);
    }
}

/* A in the form that the kernel wants, all matrices of the batch. */
static void prepare_a(job *j)
{
    const cm_run *r = j->r;
    const cm_qmatmul *g = j->g;
    int64_t rows = (g->a_batch ? g->batch : 1) * g->m, grain = 32768 / g->k + 1;
    j->a = j->w.in_place ? r->in[g->a] : (const char *)r->workspace + j->w.a;
    if (g->dynamic) {
        float lo, hi;
        cm_quantise_range(r->p->target.level, r->in[g->a], rows * g->k, &lo, &hi);
        cm_quantise_choose(lo, hi, &j->a_scale, &j->a_zero);
        cm_parallel(r->threads, rows, grain, quantise_rows, j);
        return;
    }
    j->a_scale = real_at(r, g->a_scale, 0);
    j->a_zero =
        g->a_zero < 0 ? 0 : cm_qzero(r->in[g->a_zero], 0, 0, r->p->in[g->a_zero]->dtype == CM_I8);
    if (!j->w.in_place)
        cm_parallel(r->threads, rows, grain, convert_rows, j);
}

/* Factors as the reference multiplies them: (scale_a * alpha) * scale_b, then by the output's. */
static void set_factors(job *j, cm_qtables *t)
{
    const cm_run *r = j->r;
    const cm_qmatmul *g = j->g;
    float sa = j->a_scale * g->alpha, sy = real_at(r, g->y_scale, 0);
    int64_t step = step_of(r, g->b_scale);
    for (int64_t c = 0; g->mode != CM_QSUMS && c < g->n; c++) {
        float scale = sa * real_at(r, g->b_scale, c * step);
        t->factor[c] = g->mode == CM_QBYTES ? scale / sy : scale;
        if (g->bias >= 0)
            t->bias[c] = real_at(r, g->bias, c);
    }
    if (g->bias >= 0)
        j->finish.bias = t->bias;
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_qgemm_fn *kernel = cm_qgemm_of(&j->q, j->r->p->target.level);
    int64_t elem = j->q.dots ? 1 : 2;
    for (int64_t t = begin; t < end; t++) {
        int64_t row = t / j->panel_blocks * j->block_rows;
        int64_t panel = t % j->panel_blocks * j->block_panels;
        cm_qrows a = {.a = j->a + row * j->w.lda * elem,
                      .m = cm_min_i64(j->block_rows, j->g->m - row),
                      .lines = 1,
                      .step = j->w.lda,
                      .runs = 1,
                      .length = j->q.k,
                      .offsets = &(const int64_t){0},
                      .row = j->first + row};
        kernel(&j->q, j->b, &a, panel, cm_min_i64(j->q.panels, panel + j->block_panels),
               &j->finish);
    }
}

/* Blocks of rows against all of B; few rows: columns are cut too. */
static void split(job *j)
{
    int threads = cm_threads_count(j->r->threads);
    j->block_rows = cm_min_i64(CM_QGEMM_ROWS, j->g->m);
    if (threads > 1 && j->g->m >= 16 * threads)
        j->block_rows = cm_min_i64(j->block_rows, cm_ceil_div(j->g->m, 4 * threads * 8) * 8);
    j->row_blocks = cm_ceil_div(j->g->m, j->block_rows);
    j->block_panels = j->q.panels;
    if (j->row_blocks < 2 * threads)
        j->block_panels = cm_ceil_div(j->q.panels, threads > 1 ? 4 * threads : 1);
    j->panel_blocks = cm_ceil_div(j->q.panels, j->block_panels);
}

static void run_matrix(job *j, int64_t batch)
{
    const cm_run *r = j->r;
    const cm_qmatmul *g = j->g;
    const void *zero = g->b_zero >= 0 ? r->in[g->b_zero] : NULL;
    cm_qmatrix b = matrix_of(r->p, (const char *)r->in[g->b] + batch * g->b_batch, zero);
    cm_qtables t;
    if (r->p->constant[g->b]) {
        j->b = r->in[g->b];
    } else if (batch == 0 || g->b_batch) {
        char *to = (char *)r->workspace + j->w.b;
        pack(&j->q, &b, to, r->threads);
        j->b = to;
    }
    if (batch == 0 || g->b_batch) {
        cm_qtables_init(&t, (char *)r->workspace + j->w.tables, &j->q, j->b, &b, j->a_zero,
                        !g->dynamic && r->p->in[g->a]->dtype == CM_I8,
                        g->sums >= 0 ? r->in[g->sums] : NULL, step_of(r, g->sums), &j->finish);
        set_factors(j, &t);
    }
    j->first = batch * g->m;
    double work = (double)j->block_rows * (double)(j->block_panels * j->q.width) * (double)g->k;
    cm_parallel(r->threads, j->row_blocks * j->panel_blocks, (int64_t)(100000 / work) + 1,
                run_blocks, j);
}

static cm_status run_of(const cm_run *r, bool dots)
{
    const cm_qmatmul *g = &r->p->as.qmatmul;
    job j = {.r = r, .g = g, .q = pack_of(r->p, dots)};
    if (cm_tensor_elems(r->p->out[0]) == 0)
        return CM_OK;
    j.w = parts_of(r->p, &j.q);
    j.finish = (cm_qfinish){.mode = (cm_qfinish_mode)g->mode,
                            .is_signed = r->p->out[0]->dtype == CM_I8,
                            .y = r->out[0],
                            .ld = g->n};
    if (g->y_zero >= 0 && g->mode == CM_QBYTES)
        j.finish.y_zero = (float)cm_qzero(r->in[g->y_zero], 0, 0, j.finish.is_signed);
    if (r->p->epilogue) {
        cm_epilogue_init(&j.epilogue, r, 1);
        j.finish.epilogue = &j.epilogue;
    }
    prepare_a(&j);
    split(&j);
    const char *a = j.a;
    for (int64_t i = 0; i < g->batch; i++) {
        j.a = a + i * (g->a_batch ? g->m * j.w.lda * (dots ? 1 : 2) : 0);
        run_matrix(&j, i);
    }
    return CM_OK;
}

#define FORM(name, dots)                                                                           \
    static double cost_##name(const cm_problem *p, const cm_knobs *k)                              \
    {                                                                                              \
        (void)k;                                                                                   \
        return cost_of(p, dots);                                                                   \
    }                                                                                              \
    static size_t workspace_##name(const cm_problem *p, const cm_knobs *k)                         \
    {                                                                                              \
        (void)k;                                                                                   \
        return workspace_of(p, dots);                                                              \
    }                                                                                              \
    static size_t pack_bytes_##name(const cm_problem *p, const cm_knobs *k, int input)             \
    {                                                                                              \
        (void)k;                                                                                   \
        return pack_bytes_of(p, input, dots);                                                      \
    }                                                                                              \
    static void pack_##name(const cm_problem *p, const cm_knobs *k, int input, const void *from,   \
                            void *to, cm_threads *threads)                                         \
    {                                                                                              \
        (void)k, (void)input;                                                                      \
        pack_input(p, from, to, dots, threads);                                                    \
    }                                                                                              \
    static cm_status run_##name(const cm_run *r)                                                   \
    {                                                                                              \
        return run_of(r, dots);                                                                    \
    }
FORM(dots, true)
FORM(pairs, false)

static const cm_tactic rows[] = {
    {.name = "qmatmul_dots",
     .level = CM_ISA_AVX512,
     .reject = reject_dots,
     .cost = cost_dots,
     .workspace = workspace_dots,
     .pack_bytes = pack_bytes_dots,
     .pack = pack_dots,
     .run = run_dots},
    {.name = "qmatmul_pairs",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost_pairs,
     .workspace = workspace_pairs,
     .pack_bytes = pack_bytes_pairs,
     .pack = pack_pairs,
     .run = run_pairs},
};

const cm_cpu_table cm_cpu_qmatmul = {rows, CM_COUNT(rows)};
