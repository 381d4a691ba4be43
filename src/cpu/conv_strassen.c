/* conv_strassen.c -- convolutions as matrix products by Strassen's scheme: an eighth fewer multiply-adds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last, one group. Rows of the product are pixels of one image, two of which meet in a sum; blocks with pixels that are
 * not alike, or not finite, are multiplied as usual, pixels found by pointers. docs/numerics.md has the errors. The halves
 * of the sums are those of the input's channels, so that weights are packed as [half][kernel position][input
 * channel][columns] for each panel. */
#include <stdatomic.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/matmul.h"
#include "cpu/strassen.h"

enum {
    LEAST_SUMS = 256,
    MOST_MIXED = 8 << 20, /* floats */
    MOST_TAPS = 49,       /* pointers to two halves of a tile's windows are on the stack */
};

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

static int64_t depth_of(const cm_conv *c)
{
    return cm_conv_taps(c) * c->c_in;
}

static cm_strassen_cut cut_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return cm_strassen_cut_of(kernel(p), c->n, cm_conv_pixels(c) / c->n, depth_of(c), p->threads);
}

const char *cm_cpu_conv_strassen_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != 1 || cm_conv_taps(c) > MOST_TAPS)
        return "transposed, or several groups, or a large window";
    if (!p->constant[1])
        return "the weights are not constant";
    if (c->c_in % 2 != 0 || c->c_out % (2 * kernel(p)->nr) != 0)
        return "there are no equal halves of channels in whole panels";
    if (cm_conv_pixels(c) < c->n * CM_STRASSEN_LEAST_ROWS || depth_of(c) < LEAST_SUMS)
        return "too few pixels, or too short sums, for sums of quarters to pay";
    cm_strassen_cut cut = cut_of(p);
    if (cut.mixed > MOST_MIXED || cm_strassen_floats(&cut) > MOST_MIXED * cut.threads)
        return "sums of what the windows see would take too much memory";
    return cm_conv_reject_channels_last(p);
}

double cm_cpu_conv_strassen_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    cm_strassen_cut cut = cut_of(p);
    double m = (double)cm_conv_pixels(c), n = (double)c->c_out, sums = (double)depth_of(c);
    double compute = cm_conv_flops(c) * 7 / 8 / (0.97 * cm_cpu_flops_per_ns(&p->target));
    double memory = cm_conv_bytes(p) / (8 * cm_cpu_bytes_per_ns(&p->target));
    double pieces = cut.own ? (double)cut.blocks : n / (2 * kernel(p)->nr) * (double)cut.blocks;
    return 600 + (compute + memory + cm_strassen_extra_ns(m, n, sums)) / cm_cpu_speedup(p, pieces);
}

size_t cm_cpu_conv_strassen_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)(depth_of(&p->as.conv) * p->as.conv.c_out) * sizeof(float) : 0;
}

void cm_cpu_conv_strassen_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                   const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = kernel(p);
    const int64_t *stride = p->in[1]->strides;
    int64_t taps = cm_conv_taps(c), half = c->c_in / 2;
    for (int64_t i = 0; i < 2 * taps; i++) {
        int64_t at = cm_conv_tap_offset(p, i % taps) + i / taps * half * stride[1];
        g->pack_b(half, c->c_out, (const float *)from + at, stride[1], stride[0],
                  (float *)to + i * half * g->nr, depth_of(c) * g->nr);
    }
}

/* The workspace: zeros for what lies outside the input, the sum of two biases, then what Strassen's scheme wants. */
static int64_t zeros_and_bias(const cm_conv *c)
{
    return cm_ceil_div(c->c_in + c->c_out, 16) * 16;
}

size_t cm_cpu_conv_strassen_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_strassen_cut cut = cut_of(p);
    return (size_t)(zeros_and_bias(&p->as.conv) + cm_strassen_floats(&cut)) * sizeof(float) +
           (size_t)cut.blocks * sizeof(atomic_bool);
}

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *zero;
    float *y, *scratch, *mixed;
    atomic_bool *usual; /* by block: has it pixels that are not alike? */
    cm_conv_sink sink;
    bool simple; /* `e` and `act` are all that is done to sums; `sink` knows it as well */
    cm_simple_epilogue e;
    cm_pointwise act;
    cm_strassen_cut cut;
    int64_t depth, pairs;
} job;

/* Pixels [pixel, pixel + m). */
typedef struct {
    const job *j;
    int64_t pixel, m;
} block;

static block block_at(const job *j, int64_t index)
{
    block b = {.j = j};
    b.pixel = cm_strassen_block(&j->cut, index, &b.m);
    return b;
}

/* What is left to do where `e` is not all. */
static void finish_tiles(const block *b, int64_t col, int64_t n)
{
    const job *j = b->j;
    int64_t ld = j->c->c_out;
    if (!j->sink.simple)
        cm_epilogue_tile(&j->sink.plan, b->pixel, col, b->m, n, j->y + b->pixel * ld + col, ld);
}

static void part_done(void *arg, float *x, int64_t ld, int64_t col, int64_t n)
{
    const block *b = arg;
    const job *j = b->j;
    cm_strassen_finish(&j->e, j->act, b->pixel, col, b->m, n, x, ld, j->y, j->c->c_out);
    if (!j->simple)
        finish_tiles(b, col, n);
}

/* Rows [begin, end) of the sums of a block's upper and lower half. */
static void mix_rows(const job *j, int64_t index, float *mixed, int64_t begin, int64_t end)
{
    block b = block_at(j, index);
    cm_conv_window w = {j->c, j->x, j->zero};
    int64_t taps = cm_conv_taps(j->c), half = cm_strassen_half(b.m), c = j->c->c_in / 2;
    for (int64_t i = begin; i < cm_min_i64(end, half); i++) {
        const float *upper[MOST_TAPS], *lower[MOST_TAPS];
        float size[2] = {0, 0};
        cm_conv_pointers(&w, 0, taps, b.pixel + i, 1, upper);
        cm_conv_pointers(&w, 0, taps, b.pixel + (i + half < b.m ? i + half : i), 1, lower);
        for (int64_t q = 0; q < taps; q++)
            cm_strassen_mix(mixed, b.m, j->depth, i, q * c, c,
                            (const float *const[]){upper[q], upper[q] + c},
                            (const float *const[]){lower[q], lower[q] + c}, size);
        if (!cm_strassen_alike(size))
            atomic_store_explicit(&j->usual[index], true, memory_order_relaxed);
    }
}

/* Panels [begin, end) of a block, by tiles of pixels whose windows are found by pointers. */
static void run_usual(const job *j, const block *b, int64_t begin, int64_t end)
{
    const float *rows[2 * MOST_TAPS * CM_GEMM_MAX_MR];
    cm_conv_window w = {j->c, j->x, j->zero};
    int64_t taps = cm_conv_taps(j->c), nr = j->g->nr, tiles = cm_gemm_tiles(b->m, j->g->mr);
    for (int64_t i = 0; i < tiles; i++) {
        int64_t pixel = b->pixel + cm_gemm_tile_begin(b->m, tiles, i);
        int64_t m = b->pixel + cm_gemm_tile_begin(b->m, tiles, i + 1) - pixel;
        cm_conv_pointers(&w, 0, taps, pixel, m, rows);
        for (int64_t q = 0; q < taps * m; q++)
            rows[taps * m + q] = rows[q] + j->c->c_in / 2;
        for (int64_t panel = begin; panel < end; panel++) {
            cm_gemm_tile t = {.runs = 2 * taps,
                              .k = j->c->c_in / 2,
                              .rows = rows,
                              .rows_step = m,
                              .b = j->w + panel * nr * j->depth,
                              .ldb = nr,
                              .c = j->y + pixel * j->c->c_out + panel * nr,
                              .ldc = j->c->c_out,
                              .n = (int)nr,
                              .alpha = 1,
                              .e = &j->sink.e,
                              .row = pixel,
                              .col = panel * nr};
            j->g->rows[m](&t);
        }
    }
    finish_tiles(b, begin * nr, (end - begin) * nr);
}

static void run_pairs(const job *j, int64_t index, const float *mixed, int thread, int64_t begin,
                      int64_t end)
{
    block b = block_at(j, index);
    if (atomic_load_explicit(&j->usual[index], memory_order_relaxed)) {
        run_usual(j, &b, begin, end);
        run_usual(j, &b, j->pairs + begin, j->pairs + end);
        return;
    }
    cm_strassen s = {.g = j->g,
                     .m = b.m,
                     .k = j->depth,
                     .pairs = j->pairs,
                     .mixed = mixed,
                     .b = j->w,
                     .done = part_done,
                     .arg = &b};
    cm_strassen_pairs(&s, begin, end, j->scratch + thread * j->cut.scratch);
}

static void own_blocks(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    float *mixed = j->mixed + thread * j->cut.mixed;
    for (int64_t i = begin; i < end; i++) {
        mix_rows(j, i, mixed, 0, INT64_MAX);
        run_pairs(j, i, mixed, thread, 0, j->pairs);
    }
}

static void mix_shared(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t rows = cm_strassen_half(j->cut.most);
    for (int64_t i = begin; i < end; i++)
        mix_rows(j, i / rows, j->mixed + i / rows * j->cut.mixed, i % rows, i % rows + 1);
}

static void shared_pairs(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    while (begin < end) {
        int64_t i = begin / j->pairs, first = begin % j->pairs;
        int64_t last = cm_min_i64(j->pairs, first + end - begin);
        run_pairs(j, i, j->mixed + i * j->cut.mixed, thread, first, last);
        begin += last - first;
    }
}

/* Is what is done to sums, with the operator's own bias, of the form that cm_strassen_finish knows? */
static void read_epilogue(job *j)
{
    cm_simple_epilogue e;
    cm_pointwise act;
    j->e = j->sink.e;
    j->act = CM_PW_CLIP;
    j->simple = j->sink.simple;
    if (j->simple || !cm_epilogue_simple_act(&j->sink.plan, &e, &act) || (e.bias && j->e.bias))
        return;
    e.bias = e.bias ? e.bias : j->e.bias;
    j->e = e;
    j->act = act;
    j->simple = true;
}

cm_status cm_cpu_conv_strassen_f32_run(const cm_run *r)
{
    const cm_conv *c = &r->p->as.conv;
    float *zero = r->workspace;
    job j; /* not cleared: it is large */
    j.c = c;
    j.g = kernel(r->p);
    j.x = r->in[0];
    j.w = r->in[1];
    j.zero = zero;
    j.y = r->out[0];
    j.cut = cut_of(r->p);
    j.scratch = zero + zeros_and_bias(c);
    j.mixed = j.scratch + j.cut.threads * j.cut.scratch;
    j.usual = (atomic_bool *)(j.scratch + cm_strassen_floats(&j.cut));
    for (int64_t i = 0; i < j.cut.blocks; i++)
        atomic_init(&j.usual[i], false);
    j.depth = depth_of(c);
    j.pairs = c->c_out / (2 * j.g->nr);
    memset(zero, 0, (size_t)c->c_in * sizeof *zero);
    cm_conv_sink_init(&j.sink, r, zero + c->c_in);
    read_epilogue(&j);
    int threads = (int)j.cut.threads;
    if (j.cut.own) {
        cm_parallel_numbered(r->threads, threads, j.cut.blocks, own_blocks, &j);
        return CM_OK;
    }
    cm_parallel(r->threads, j.cut.blocks * cm_strassen_half(j.cut.most), 1 + 10000 / j.depth,
                mix_shared, &j);
    cm_parallel_numbered(r->threads, threads, j.cut.blocks * j.pairs, shared_pairs, &j);
    return CM_OK;
}
