/* qconv.c -- QCONV: convolutions of bytes as products with patches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of output pixels is a block of rows: the bytes under the kernel, tap by tap with the channels
 * innermost, padding being the zero point. Patches of one block are gathered by the thread that
 * multiplies them, into room of its own. */
#include "cpu/qconv.h"

#include <stdatomic.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"

static const char *reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.qconv.conv;
    const char *why = cm_qconv_reject(p);
    if (!why && c->groups > 1 && c->c_in == c->groups && c->c_out / c->groups < 2)
        return "depthwise";
    return why;
}

static const char *reject_dots(const cm_problem *p)
{
    return cm_cpu_info()->vnni ? reject(p) : "the CPU has no VNNI";
}

static int64_t taps_of(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

/* The weights of one group. */
static cm_qpack pack_of(const cm_problem *p, bool dots)
{
    const cm_conv *c = &p->as.qconv.conv;
    return cm_qpack_of(p->target.level, dots, c->c_in / c->groups * taps_of(c),
                       c->c_out / c->groups);
}

static size_t rounded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Are the rows of the product the image itself? */
static bool in_place(const cm_problem *p, const cm_qpack *q)
{
    const cm_conv *c = &p->as.qconv.conv;
    bool plain = q->dots && p->in[p->as.qconv.x]->dtype == CM_U8 && q->depth == c->c_in;
    for (int d = 0; d < 3; d++)
        plain = plain && c->kernel[d] == 1 && c->stride[d] == 1 && c->pad[d] == 0 &&
                c->out[d] == c->in[d];
    return plain;
}

/* After the images: tables of each group, then for each thread a block of rows and one row of bytes. */
typedef struct {
    cm_qconv_images images;
    size_t tables, table_bytes, rows, row_bytes, slot_bytes, bytes;
} parts;

static parts parts_of(const cm_problem *p, const cm_qpack *q)
{
    const cm_conv *c = &p->as.qconv.conv;
    parts w = {.images = cm_qconv_images_of(p)};
    w.tables = w.images.bytes;
    w.table_bytes = rounded(cm_qtables_bytes(q));
    w.rows = w.tables + w.table_bytes * (size_t)c->groups;
    w.row_bytes = (size_t)q->depth * (q->dots ? 1 : 2);
    w.slot_bytes =
        in_place(p, q) ? 0 : rounded(CM_QGEMM_ROWS * w.row_bytes) + rounded((size_t)q->k);
    w.bytes = w.rows + w.slot_bytes * (size_t)(p->threads > 1 ? p->threads : 1);
    return w;
}

static double cost_of(const cm_problem *p, bool dots)
{
    const cm_conv *c = &p->as.qconv.conv;
    cm_qpack q = pack_of(p, dots);
    cm_qconv_images m = cm_qconv_images_of(p);
    double rows = (double)(c->n * m.out_pixels), k = (double)q.depth;
    double n = (double)(c->groups * q.panels * q.width);
    double speed = cm_cpu_flops_per_ns(&p->target) / 2 * (dots ? 3.5 : 1.5);
    double ns = 200 + rows * n * k / speed + rows * n * 0.1;
    if (!in_place(p, &q)) /* patches */
        ns += rows * (double)c->groups * (k * (dots ? 0.05 : 0.1) + (double)taps_of(c));
    ns += cm_qconv_images_cost(p);
    return ns / cm_cpu_speedup(p, rows / 16);
}

static size_t workspace_of(const cm_problem *p, bool dots)
{
    cm_qpack q = pack_of(p, dots);
    return parts_of(p, &q).bytes;
}

static cm_qmatrix weights_of(const cm_problem *p, const void *from, const void *zero, int64_t group)
{
    const cm_qconv *q = &p->as.qconv;
    const cm_conv *c = &q->conv;
    int64_t k = c->c_in / c->groups * taps_of(c), n = c->c_out / c->groups;
    int64_t step = zero && cm_tensor_elems(p->in[q->w_zero]) > 1;
    return (cm_qmatrix){.data = from ? (const char *)from + group * n * k : NULL,
                        .is_signed = p->in[q->w]->dtype == CM_I8,
                        .col = k,
                        .taps = taps_of(c),
                        .channels = c->c_in / c->groups,
                        .zero = zero ? (const char *)zero + group * n * step : NULL,
                        .zero_step = step};
}

static size_t pack_bytes_of(const cm_problem *p, int input, bool dots)
{
    cm_qpack q = pack_of(p, dots);
    return input == p->as.qconv.w ? rounded(cm_qpack_bytes(&q)) * (size_t)p->as.qconv.conv.groups
                                  : 0;
}

static void pack_weights(const cm_problem *p, const void *from, void *to, bool dots)
{
    const cm_qconv *c = &p->as.qconv;
    cm_qpack q = pack_of(p, dots);
    for (int64_t g = 0; g < c->conv.groups; g++) {
        cm_qmatrix b = weights_of(p, from, c->w_zero >= 0 ? p->in[c->w_zero]->data : NULL, g);
        cm_qpack_panels(&q, &b, (char *)to + (size_t)g * rounded(cm_qpack_bytes(&q)), 0, q.panels);
    }
}

typedef struct {
    const cm_run *r;
    const cm_conv *c;
    cm_qpack q;
    parts w;
    cm_qfinish finish;
    const uint8_t *x;
    bool x_signed, in_place;
    bool zeros; /* some weights have a zero point that row sums are needed for */
    int32_t x_zero;
    int64_t block, tasks; /* pixels of a task; tasks of an image, all groups of one after another */
    atomic_llong next;
} job;

/* The bytes under the kernel at one pixel. */
static void gather(const job *j, int64_t pixel, int64_t group, uint8_t *to)
{
    const cm_conv *c = j->c;
    int64_t channels = c->c_in / c->groups, wide = c->kernel[2];
    int64_t at[3], rest = pixel;
    for (int d = 2; d >= 0; rest /= c->out[d--])
        at[d] = rest % c->out[d] * c->stride[d] - c->pad[d];
    bool run = c->dilation[2] == 1 && c->groups == 1 && at[2] >= 0 && at[2] + wide <= c->in[2];
    for (int64_t kd = 0; kd < c->kernel[0]; kd++)
        for (int64_t kh = 0; kh < c->kernel[1]; kh++, to += wide * channels) {
            int64_t d = at[0] + kd * c->dilation[0], h = at[1] + kh * c->dilation[1];
            if (d < 0 || d >= c->in[0] || h < 0 || h >= c->in[1]) {
                memset(to, (uint8_t)j->x_zero, (size_t)(wide * channels));
                continue;
            }
            const uint8_t *line = j->x + (d * c->in[1] + h) * c->in[2] * c->c_in + group * channels;
            if (run) {
                memcpy(to, line + at[2] * c->c_in, (size_t)(wide * channels));
                continue;
            }
            for (int64_t kw = 0; kw < wide; kw++) {
                int64_t w = at[2] + kw * c->dilation[2];
                if (w < 0 || w >= c->in[2])
                    memset(to + kw * channels, (uint8_t)j->x_zero, (size_t)channels);
                else
                    memcpy(to + kw * channels, line + w * c->c_in, (size_t)channels);
            }
        }
}

static void run_task(const job *j, int64_t task, char *slot)
{
    int64_t group = task % j->c->groups, first = task / j->c->groups * j->block;
    int64_t m = cm_min_i64(j->block, j->w.images.out_pixels - first);
    const cm_qpack *q = &j->q;
    const char *packed =
        (const char *)j->r->in[j->r->p->as.qconv.w] + (size_t)group * rounded(cm_qpack_bytes(q));
    int64_t n = q->panels * q->width, lda = q->depth;
    cm_qfinish f = j->finish;
    const int32_t *table =
        (const int32_t *)((char *)j->r->workspace + j->w.tables + (size_t)group * j->w.table_bytes);
    f.add = table;
    f.zero_b = j->zeros ? table + n : NULL;
    f.factor = (const float *)table + 2 * n;
    f.y = (char *)f.y + (size_t)(group * q->n) * j->w.images.y_size;
    const void *a = slot;
    if (j->in_place) {
        a = j->x + first * j->c->c_in;
        lda = j->c->c_in;
    }
    uint8_t *bytes = (uint8_t *)slot + rounded(CM_QGEMM_ROWS * j->w.row_bytes);
    bool direct = q->dots && !j->x_signed;
    for (int64_t i = 0; i < m && !j->in_place; i++) {
        uint8_t *row = (uint8_t *)slot + (size_t)i * j->w.row_bytes;
        gather(j, first + i, group, direct ? row : bytes);
        if (direct)
            memset(row + q->k, 0, (size_t)(q->depth - q->k));
        else
            cm_qgemm_row(q, bytes, j->x_signed, j->x_zero, q->k, row);
    }
    cm_qgemm_of(q, j->r->p->target.level)(q, packed, a, lda, first, m, 0, q->panels, &f);
}

static void work(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t slot = begin; slot < end; slot++) {
        char *room = (char *)j->r->workspace + j->w.rows + (size_t)slot * j->w.slot_bytes;
        for (int64_t t; (t = atomic_fetch_add(&j->next, 1)) < j->tasks;)
            run_task(j, t, room);
    }
}

/* One set of tables for each group. */
static void make_tables(job *j)
{
    const cm_run *r = j->r;
    const cm_qconv *qc = &r->p->as.qconv;
    const cm_qpack *q = &j->q;
    for (int64_t g = 0; g < j->c->groups; g++) {
        cm_qtables t;
        cm_qfinish f;
        cm_qmatrix b = weights_of(r->p, NULL, qc->w_zero >= 0 ? r->in[qc->w_zero] : NULL, g);
        cm_qtables_init(&t, (char *)r->workspace + j->w.tables + (size_t)g * j->w.table_bytes, q,
                        (const char *)r->in[qc->w] + (size_t)g * rounded(cm_qpack_bytes(q)), &b,
                        j->x_zero, j->x_signed,
                        qc->sums >= 0 ? (const int32_t *)r->in[qc->sums] + g * q->n : NULL, 1, &f);
        cm_qconv_factors(r, g * q->n, q->n, t.factor);
        j->zeros = j->zeros || f.zero_b; /* the tables of the others hold zeros */
    }
}

static cm_status run_of(const cm_run *r, bool dots)
{
    const cm_qconv *q = &r->p->as.qconv;
    job j = {.r = r, .c = &q->conv, .q = pack_of(r->p, dots)};
    j.w = parts_of(r->p, &j.q);
    j.finish = cm_qconv_finish(r);
    j.x_signed = r->p->in[q->x]->dtype == CM_I8;
    j.x_zero = cm_qconv_zero(r, q->x_zero);
    j.in_place = in_place(r->p, &j.q);
    make_tables(&j);
    int64_t pixels = j.w.images.out_pixels, threads = r->p->threads > 1 ? r->p->threads : 1;
    j.block = cm_min_i64(CM_QGEMM_ROWS, cm_ceil_div(cm_ceil_div(pixels, threads), 8) * 8);
    j.tasks = cm_ceil_div(pixels, j.block) * q->conv.groups;
    for (int64_t i = 0; i < q->conv.n; i++) {
        j.x = cm_qconv_begin(r, &j.w.images, i);
        j.finish.y = cm_qconv_result(r, &j.w.images, i);
        atomic_store(&j.next, 0);
        double macs = (double)pixels * (double)(q->conv.c_out * j.q.k);
        if (macs < 200000)
            work(&j, 0, 1);
        else
            cm_qconv_workers(r, work, &j);
        cm_qconv_end(r, &j.w.images, i);
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
        (void)k, (void)input, (void)threads;                                                       \
        pack_weights(p, from, to, dots);                                                           \
    }                                                                                              \
    static cm_status run_##name(const cm_run *r)                                                   \
    {                                                                                              \
        return run_of(r, dots);                                                                    \
    }
FORM(dots, true)
FORM(pairs, false)

static const cm_tactic rows[] = {
    {.name = "qconv_depthwise",
     .level = CM_ISA_GENERIC,
     .reject = cm_cpu_qconv_depthwise_reject,
     .cost = cm_cpu_qconv_depthwise_cost,
     .workspace = cm_cpu_qconv_depthwise_workspace,
     .pack_bytes = cm_cpu_qconv_depthwise_pack_bytes,
     .pack = cm_cpu_qconv_depthwise_pack,
     .run = cm_cpu_qconv_depthwise_run},
    {.name = "qconv_dots",
     .level = CM_ISA_AVX512,
     .reject = reject_dots,
     .cost = cost_dots,
     .workspace = workspace_dots,
     .pack_bytes = pack_bytes_dots,
     .pack = pack_dots,
     .run = run_dots},
    {.name = "qconv_pairs",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost_pairs,
     .workspace = workspace_pairs,
     .pack_bytes = pack_bytes_pairs,
     .pack = pack_pairs,
     .run = run_pairs},
};

const cm_cpu_table cm_cpu_qconv = {rows, CM_COUNT(rows)};
