/* conv_depthwise_half.c -- convolutions of each channel with its own window, of float16 and bfloat16 with the channels
 * innermost.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A band of output rows of some channels is one unit of work. The rows of its windows are widened to float32 once each,
 * into a ring that stays in the near cache, where the kernel of float32 slides along them; a finished row goes through
 * the epilogue. Packed weights: [kernel position][channels rounded up to LANES], float32. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/depthwise.h"
#include "cpu/finish_bf16.h"
#include "cpu/widen.h"

enum { LANES = 16, MOST_CHANNELS = 256, ROW_FLOATS = 8192, LEAST_ROWS = 4 };

typedef struct {
    const cm_conv *c;
    int64_t chunk, chunks; /* of channels */
    int64_t ring;          /* rows that a window spans */
    int64_t bands;         /* of all images' rows */
    int64_t units, workers;
    int64_t row_floats, worker_floats;
} layout;

static int64_t padded(int64_t channels)
{
    return (int64_t)cm_round_up((size_t)channels, LANES);
}

static void lay_out(const cm_problem *p, layout *l)
{
    const cm_conv *c = l->c = &p->as.conv;
    l->chunk = cm_min_i64(MOST_CHANNELS, cm_max_i64(LANES, ROW_FLOATS / c->in[2] / LANES * LANES));
    l->chunk = cm_min_i64(l->chunk, padded(c->c_in));
    l->chunks = cm_ceil_div(c->c_in, l->chunk);
    l->ring = (c->kernel[1] - 1) * c->dilation[1] + 1;
    int64_t rows = cm_conv_rows(c), wanted = cm_ceil_div(4 * p->threads, l->chunks);
    l->bands = cm_max_i64(1, cm_min_i64(wanted, rows / LEAST_ROWS));
    if (p->threads <= 1)
        l->bands = 1;
    l->units = l->bands * l->chunks;
    l->workers = cm_max_i64(1, cm_min_i64(p->threads, l->units));
    l->row_floats = c->in[2] * l->chunk;
    l->worker_floats = l->ring * l->row_floats + c->out[2] * l->chunk + l->chunk + l->ring * 2;
    l->worker_floats = padded(l->worker_floats);
}

const char *cm_cpu_conv_depthwise_half_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && (p->in[i]->dtype != p->in[0]->dtype || !cm_is_half(p->in[i]->dtype)))
            return "neither float16 nor bfloat16";
    if (c->groups != c->c_in || c->c_out != c->c_in)
        return "not one channel to a group";
    if (c->kernel[0] != 1 || c->in[0] != 1 || c->out[0] != 1 || c->kernel[1] > CM_DEPTHWISE_ROWS)
        return "windows of three axes, or of too many rows";
    if (!p->constant[1])
        return "the weights are not constant";
    if (c->bias && !cm_tensor_is_dense(p->in[2]))
        return "the bias is strided";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "channels are not innermost";
    return cm_epilogue_reject(p, cm_conv_channel_columns(p->out[0]));
}

double cm_cpu_conv_depthwise_half_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    double lanes = (double)l.c->c_in / (double)padded(l.c->c_in);
    double compute = cm_conv_flops(l.c) / (0.6 * lanes * cm_cpu_flops_per_ns(&p->target));
    double elems = (double)(cm_tensor_elems(p->in[0]) + cm_tensor_elems(p->out[0]));
    return 300 + (compute + 0.15 * elems) / cm_cpu_speedup(p, (double)l.units);
}

size_t cm_cpu_conv_depthwise_half_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    return input == 1 ? (size_t)(cm_conv_taps(c) * padded(c->c_in)) * sizeof(float) : 0;
}

void cm_cpu_conv_depthwise_half_pack(const cm_problem *p, const cm_knobs *k, int input,
                                     const void *from, void *to, cm_threads *threads)
{
    (void)k, (void)input, (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_tile_kernels *t = cm_tile_kernels_at(p->target.level);
    int64_t ld = padded(c->c_in);
    float *packed = to;
    for (int64_t at = 0; at < cm_conv_taps(c); at++, packed += ld) {
        const uint16_t *w = (const uint16_t *)from + cm_conv_tap_offset(p, at);
        t->load[p->in[1]->dtype](packed, w, p->in[1]->strides[0], c->c_in);
        memset(packed + c->c_in, 0, (size_t)(ld - c->c_in) * sizeof *packed);
    }
}

size_t cm_cpu_conv_depthwise_half_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    return (size_t)(l.worker_floats * l.workers) * sizeof(float);
}

typedef struct {
    const cm_run *r;
    layout l;
    const cm_tile_kernels *tile;
    void (*kernel)(const cm_depthwise_row *a);
    cm_epilogue_plan plan;
    bool fast; /* `finish` is all there is to do with a row */
    cm_bf16_finish finish;
} job;

/* What a worker has: rows of the ring, which of them it holds, a row of results, the bias. */
typedef struct {
    float *ring, *y, *bias;
    int64_t *held; /* input row of all images, -1: none */
} space;

static space space_of(const job *j, int thread)
{
    const layout *l = &j->l;
    space w;
    w.ring = (float *)j->r->workspace + thread * l->worker_floats;
    w.held = (int64_t *)(w.ring + l->ring * l->row_floats);
    w.y = (float *)(w.held + l->ring);
    w.bias = w.y + l->c->out[2] * l->chunk;
    return w;
}

/* Row `line` of all images, `n` channels from c0 on, in its place of the ring. */
static const float *widened(const job *j, const space *w, int64_t line, int64_t c0, int64_t n)
{
    const layout *l = &j->l;
    const cm_conv *c = l->c;
    int64_t place = line % l->ring;
    float *to = w->ring + place * l->row_floats;
    if (w->held[place] == line)
        return to;
    w->held[place] = line;
    const uint16_t *x = (const uint16_t *)j->r->in[0] + line * c->in[2] * c->c_in + c0;
    cm_dtype type = j->r->p->in[0]->dtype;
    if (n == c->c_in && n == l->chunk) {
        j->tile->load[type](to, x, 1, n * c->in[2]);
        return to;
    }
    for (int64_t i = 0; i < c->in[2]; i++)
        j->tile->load[type](to + i * l->chunk, x + i * c->c_in, 1, n);
    return to;
}

static void one_row(const job *j, const space *w, int64_t row, int64_t c0, cm_depthwise_row *a)
{
    const layout *l = &j->l;
    const cm_conv *c = l->c;
    int64_t image = row / c->out[1], top = row % c->out[1] * c->stride[1] - c->pad[1];
    a->n_rows = 0;
    for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
        int64_t iy = top + ky * c->dilation[1];
        if (iy < 0 || iy >= c->in[1])
            continue;
        a->x[a->n_rows] = widened(j, w, image * c->in[1] + iy, c0, a->channels);
        a->w[a->n_rows++] = (const float *)j->r->in[1] + ky * c->kernel[2] * a->w_ld + c0;
    }
    j->kernel(a);
    for (int64_t i = 0; j->fast && i < a->channels; i += 32)
        cm_bf16_finish_panel(&j->finish, row * c->out[2], c0 + i, c->out[2],
                             cm_min_i64(32, a->channels - i), w->y + i, l->chunk);
    if (!j->fast)
        cm_epilogue_tile(&j->plan, row * c->out[2], c0, c->out[2], a->channels, w->y, l->chunk);
}

static void some_units(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_conv *c = l->c;
    space w = space_of(j, thread);
    int64_t rows = cm_conv_rows(c);
    cm_depthwise_row a = {.x_ld = l->chunk,
                          .w_ld = padded(c->c_in),
                          .y = w.y,
                          .y_ld = l->chunk,
                          .in = c->in[2],
                          .end = c->out[2],
                          .kernel = c->kernel[2],
                          .stride = c->stride[2],
                          .dilation = c->dilation[2],
                          .pad = c->pad[2],
                          .lo = -INFINITY,
                          .hi = INFINITY};
    for (int64_t u = begin; u < end; u++) {
        int64_t band = u / l->chunks, c0 = u % l->chunks * l->chunk;
        a.channels = cm_min_i64(l->chunk, c->c_in - c0);
        for (int64_t i = 0; i < l->ring; i++)
            w.held[i] = -1;
        if (c->bias) {
            const uint16_t *bias = (const uint16_t *)j->r->in[2] + c0;
            j->tile->load[j->r->p->in[2]->dtype](w.bias, bias, 1, a.channels);
            a.bias = w.bias;
        }
        for (int64_t i = band * rows / l->bands; i < (band + 1) * rows / l->bands; i++)
            one_row(j, &w, i, c0, &a);
    }
}

cm_status cm_cpu_conv_depthwise_half_run(const cm_run *r)
{
    int level = r->p->target.level;
    job j = {.r = r,
             .tile = cm_tile_kernels_at(level),
             .kernel = level >= CM_ISA_AVX512 ? cm_cpu_depthwise_row_f32__avx512
                       : level == CM_ISA_AVX2 ? cm_cpu_depthwise_row_f32__avx2
                                              : cm_cpu_depthwise_row_f32__generic};
    lay_out(r->p, &j.l);
    cm_epilogue_init(&j.plan, r, cm_conv_channel_columns(r->p->out[0]));
    j.fast = level >= CM_ISA_AVX512 && cm_bf16_finish_of(&j.plan, &j.finish);
    cm_parallel_numbered(r->threads, (int)j.l.workers, j.l.units, some_units, &j);
    return CM_OK;
}
