/* qconv.c -- QCONV: convolutions of bytes as products with patches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the product are read from the padded image itself: under an output pixel lie runs of bytes,
 * one for each row of the kernel (for each tap, where taps are apart or groups cut the channels), and
 * pixels of a line are a constant step apart. */
#include "cpu/qconv.h"

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"

static int64_t taps_of(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

/* Are the taps of a kernel's row one run? */
static bool whole_rows(const cm_conv *c)
{
    return c->groups == 1 && (c->dilation[2] == 1 || c->kernel[2] == 1);
}

static int64_t runs_of(const cm_conv *c)
{
    return whole_rows(c) ? c->kernel[0] * c->kernel[1] : taps_of(c);
}

static const char *reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.qconv.conv;
    const char *why = cm_qconv_reject(p, runs_of(c));
    if (!why && c->groups > 1 && c->c_in == c->groups && c->c_out / c->groups < 2)
        return "depthwise";
    return why;
}

static const char *reject_dots(const cm_problem *p)
{
    return cm_cpu_info()->vnni ? reject(p) : "the CPU has no VNNI";
}

/* The weights of one group. */
static cm_qpack pack_of(const cm_problem *p, bool dots)
{
    const cm_conv *c = &p->as.qconv.conv;
    int64_t runs = runs_of(c), k = c->c_in / c->groups * taps_of(c);
    return cm_qpack_of(p->target.level, dots, runs, k / runs, c->c_out / c->groups);
}

static cm_qconv_images images_of(const cm_problem *p, const cm_qpack *q)
{
    bool is_signed = p->in[p->as.qconv.x]->dtype == CM_I8;
    return cm_qconv_images_of(p, cm_qrow_form_of(q, is_signed), q->depth / q->runs, q->k / q->runs);
}

static size_t rounded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static double cost_of(const cm_problem *p, bool dots)
{
    const cm_conv *c = &p->as.qconv.conv;
    cm_qpack q = pack_of(p, dots);
    cm_qconv_images m = images_of(p, &q);
    double rows = (double)(c->n * m.out_pixels), k = (double)q.depth;
    double n = (double)(c->groups * q.panels * q.width);
    double speed = cm_cpu_flops_per_ns(&p->target) / 2 * (dots ? 3.5 : 1.5);
    double ns = 200 + rows * n * k / speed + rows * n * 0.1 + cm_qconv_images_cost(p, &m);
    return ns / cm_cpu_speedup(p, rows * n * k / 400000);
}

/* After the images: tables of each group. */
static size_t workspace_of(const cm_problem *p, bool dots)
{
    cm_qpack q = pack_of(p, dots);
    return images_of(p, &q).bytes + rounded(cm_qtables_bytes(&q)) * (size_t)p->as.qconv.conv.groups;
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
    cm_qconv_images images;
    cm_qfinish finish;
    const char *x;
    bool x_signed;
    bool zeros; /* some weights have a zero point that row sums are needed for */
    int32_t x_zero;
    int64_t block_lines, block_pixels; /* output pixels of a task: lines, or part of a line */
    int64_t line_blocks, pixel_blocks; /* tasks of an image, for each group */
    int64_t offsets[CM_QCONV_MOST_RUNS];
} job;

static char *table_of(const job *j, int64_t group)
{
    return (char *)j->r->workspace + j->images.bytes +
           (size_t)group * rounded(cm_qtables_bytes(&j->q));
}

static void run_task(const job *j, int64_t group, int64_t line, int64_t pixel)
{
    const cm_qpack *q = &j->q;
    const cm_qconv_images *m = &j->images;
    const cm_conv *c = j->c;
    const char *packed =
        (const char *)j->r->in[j->r->p->as.qconv.w] + (size_t)group * rounded(cm_qpack_bytes(q));
    int64_t n = q->panels * q->width, lines = c->out[0] * c->out[1];
    const int32_t *table = (const int32_t *)table_of(j, group);
    cm_qfinish f = j->finish;
    f.add = table;
    f.zero_b = j->zeros ? table + n : NULL;
    f.factor = (const float *)table + 2 * n;
    f.y = (char *)f.y + (size_t)(group * q->n) * m->y_size;
    int64_t last = cm_min_i64(lines, line + j->block_lines);
    cm_qrows a = {.m = cm_min_i64(j->block_pixels, c->out[2] - pixel),
                  .step = c->stride[2] * m->step[2],
                  .line_step = c->stride[1] * m->step[1],
                  .runs = q->runs,
                  .length = q->k / q->runs,
                  .offsets = j->offsets};
    while (line < last) { /* lines of one depth at a time */
        int64_t d = line / c->out[1], h = line % c->out[1];
        int64_t at = d * c->stride[0] * m->step[0] + h * a.line_step + pixel * a.step +
                     group * (c->c_in / c->groups);
        a.a = j->x + at * m->elem;
        a.lines = cm_min_i64(last - line, c->out[1] - h);
        a.row = line * c->out[2] + pixel;
        cm_qgemm_of(q, j->r->p->target.level)(q, packed, &a, 0, q->panels, &f);
        line += a.lines;
    }
}

static void run_tasks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t t = begin; t < end; t++) {
        int64_t block = t % (j->line_blocks * j->pixel_blocks);
        run_task(j, t / (j->line_blocks * j->pixel_blocks),
                 block / j->pixel_blocks * j->block_lines,
                 block % j->pixel_blocks * j->block_pixels);
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
        cm_qtables_init(&t, table_of(j, g), q,
                        (const char *)r->in[qc->w] + (size_t)g * rounded(cm_qpack_bytes(q)), &b,
                        j->x_zero, j->x_signed,
                        qc->sums >= 0 ? (const int32_t *)r->in[qc->sums] + g * q->n : NULL, 1, &f);
        cm_qconv_factors(r, g * q->n, q->n, t.factor);
        j->zeros = j->zeros || f.zero_b; /* the tables of the others hold zeros */
    }
}

/* Tasks of at most CM_QGEMM_ROWS pixels; fewer where threads would be idle. */
static void split(job *j)
{
    int threads = cm_threads_count(j->r->threads);
    int64_t wide = j->c->out[2], lines = j->c->out[0] * j->c->out[1];
    int64_t most = CM_QGEMM_ROWS;
    if (threads > 1)
        most = cm_min_i64(most, cm_max_i64(8, j->images.out_pixels / (4 * threads)));
    j->block_pixels = cm_min_i64(wide, CM_QGEMM_ROWS);
    j->block_lines = wide > most ? 1 : most / wide;
    j->pixel_blocks = cm_ceil_div(wide, j->block_pixels);
    j->line_blocks = cm_ceil_div(lines, j->block_lines);
}

static cm_status run_of(const cm_run *r, bool dots)
{
    const cm_qconv *q = &r->p->as.qconv;
    job j = {.r = r, .c = &q->conv, .q = pack_of(r->p, dots)};
    j.images = images_of(r->p, &j.q);
    j.finish = cm_qconv_finish(r);
    j.x_signed = r->p->in[q->x]->dtype == CM_I8;
    j.x_zero = cm_qconv_zero(r, q->x_zero);
    cm_qconv_offsets(&q->conv, &j.images, whole_rows(&q->conv), j.offsets);
    make_tables(&j);
    split(&j);
    int64_t tasks = j.line_blocks * j.pixel_blocks * q->conv.groups;
    double work = (double)(j.block_lines * j.block_pixels) * (double)(j.q.n * j.q.k);
    for (int64_t i = 0; i < q->conv.n; i++) {
        j.x = cm_qconv_begin(r, &j.images, i);
        j.finish.y = cm_qconv_result(r, &j.images, i);
        cm_parallel(r->threads, tasks, (int64_t)(500000 / work) + 1, run_tasks, &j);
        cm_qconv_end(r, &j.images, i);
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
