/* conv_transposed_depthwise.c -- transposed convolutions of each channel by itself, as images are enlarged by.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last. Pixels of an output row whose places are equal modulo the stride, a *class*, take the same kernel columns,
 * each from the input pixel before the last one's: with these columns in reverse, a class is a plain depthwise convolution with
 * stride 1 whose results lie `stride` pixels apart. Weights are packed so: [kernel row][columns, class by class, in
 * reverse][channels, padded]. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/depthwise.h"

enum { PAD_TO = 16 }; /* channels: a vector of any level */

typedef struct {
    const cm_conv *c;
    void (*kernel)(const cm_depthwise_row *a);
    const float *x, *w;
    float *y;
    const cm_conv_sink *sink;
} job;

static int64_t width_of(const cm_conv *c)
{
    return cm_ceil_div(c->c_in, PAD_TO) * PAD_TO;
}

/* Kernel columns of a class, and of all before it. */
static int64_t columns_of(const cm_conv *c, int64_t class)
{
    return class < c->kernel[2] ? cm_ceil_div(c->kernel[2] - class, c->stride[2]) : 0;
}
static int64_t columns_before(const cm_conv *c, int64_t class)
{
    int64_t n = 0;
    for (int64_t i = 0; i < cm_min_i64(class, c->kernel[2]); i++)
        n += columns_of(c, i);
    return n;
}

const char *cm_cpu_conv_transposed_depthwise_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (!c->transposed)
        return "not transposed";
    if (c->groups != c->c_in || c->groups != c->c_out)
        return "not one filter for each channel";
    for (int d = 0; d < 3; d++)
        if (c->dilation[d] != 1 && c->kernel[d] > 1)
            return "kernel positions are apart";
    if (c->kernel[0] * c->kernel[1] > CM_DEPTHWISE_ROWS)
        return "the kernel has too many rows";
    return cm_conv_reject_channels_last(p);
}

double cm_cpu_conv_transposed_depthwise_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    double whole = (double)width_of(c) / (double)c->c_in;
    double compute = cm_conv_ns(p) * whole / CM_DEPTHWISE_PACE;
    double memory = cm_conv_bytes(p) / (2 * cm_cpu_bytes_per_ns(&p->target));
    double rows = (double)cm_conv_rows(c);
    return 300 + cm_conv_shared(p, compute + memory + 20 * rows, compute, rows);
}

size_t cm_cpu_conv_transposed_depthwise_f32_pack_bytes(const cm_problem *p, const cm_knobs *k,
                                                       int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    return input == 1 ? (size_t)(cm_conv_taps(c) * width_of(c)) * sizeof(float) : 0;
}

static size_t bias_bytes(const cm_conv *c)
{
    return cm_round_up((size_t)c->c_out * sizeof(float), 64);
}

size_t cm_cpu_conv_transposed_depthwise_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return bias_bytes(&p->as.conv) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_transposed_depthwise_f32_pack_bytes(p, k, 1) : 0);
}

void cm_cpu_conv_transposed_depthwise_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                               const void *from, void *to, cm_threads *threads)
{
    (void)threads;
    const cm_conv *c = &p->as.conv;
    int64_t stride = c->stride[2], width = width_of(c);
    memset(to, 0, cm_cpu_conv_transposed_depthwise_f32_pack_bytes(p, k, input));
    for (int64_t tap = 0; tap < cm_conv_taps(c); tap++) {
        int64_t kx = tap % c->kernel[2], class = kx % stride;
        int64_t place = columns_before(c, class) + columns_of(c, class) - 1 - kx / stride;
        float *row = (float *)to + (tap - kx + place) * width;
        const float *w = (const float *)from + cm_conv_tap_offset(p, tap);
        for (int64_t i = 0; i < c->c_in; i++)
            row[i] = w[i * p->in[1]->strides[0]];
    }
}

/* Input position along axis d that output o takes for kernel position k; -1: none. */
static int64_t source(const cm_conv *c, int d, int64_t o, int64_t k)
{
    int64_t at = o + c->pad[d] - k;
    return at >= 0 && at % c->stride[d] == 0 && at / c->stride[d] < c->in[d] ? at / c->stride[d]
                                                                             : -1;
}

/* The rows of the input that output row (z, y) of image n takes, with their weights from column `first` on. */
static void find_rows(const job *j, int64_t n, int64_t z, int64_t y, int64_t first,
                      cm_depthwise_row *a)
{
    const cm_conv *c = j->c;
    a->n_rows = 0;
    for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
        int64_t iz = source(c, 0, z, kz);
        for (int64_t ky = 0; iz >= 0 && ky < c->kernel[1]; ky++) {
            int64_t iy = source(c, 1, y, ky);
            if (iy < 0)
                continue;
            a->x[a->n_rows] = j->x + ((n * c->in[0] + iz) * c->in[1] + iy) * c->in[2] * c->c_in;
            a->w[a->n_rows++] = j->w + ((kz * c->kernel[1] + ky) * c->kernel[2] + first) * a->w_ld;
        }
    }
}

/* The pixels of an output row from ox on, a stride apart. */
static void one_class(const job *j, int64_t row, int64_t ox, cm_depthwise_row *a)
{
    const cm_conv *c = j->c;
    const cm_simple_epilogue *e = &j->sink->e;
    int64_t y = row % c->out[1], z = row / c->out[1] % c->out[0], n = row / c->out[1] / c->out[0];
    int64_t class = (ox + c->pad[2]) % c->stride[2], first = row * c->out[2] + ox;
    a->kernel = columns_of(c, class);
    find_rows(j, n, z, y, columns_before(c, class), a);
    a->n_rows = a->kernel > 0 ? a->n_rows : 0;
    a->pad = a->kernel - 1 - (ox + c->pad[2]) / c->stride[2];
    a->begin = 0;
    a->end = cm_ceil_div(c->out[2] - ox, c->stride[2]);
    a->y = j->y + first * c->c_in;
    a->residual = e->residual ? e->residual + first * e->residual_ld : NULL;
    j->kernel(a);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    const cm_simple_epilogue *e = &j->sink->e;
    cm_depthwise_row a = {.bias = e->bias,
                          .x_ld = c->c_in,
                          .w_ld = width_of(c),
                          .y_ld = c->stride[2] * c->c_in,
                          .channels = c->c_in,
                          .in = c->in[2],
                          .stride = 1,
                          .dilation = 1,
                          .residual_ld = c->stride[2] * e->residual_ld,
                          .lo = e->lo,
                          .hi = e->hi};
    for (int64_t row = begin; row < end; row++) {
        for (int64_t ox = 0; ox < cm_min_i64(c->stride[2], c->out[2]); ox++)
            one_class(j, row, ox, &a);
        if (!j->sink->simple)
            cm_epilogue_tile(&j->sink->plan, row * c->out[2], 0, c->out[2], c->c_out,
                             j->y + row * c->out[2] * c->c_out, c->c_out);
    }
}

cm_status cm_cpu_conv_transposed_depthwise_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    int level = p->target.level;
    cm_conv_sink sink;
    job j = {.c = c,
             .kernel = level >= CM_ISA_AVX512 ? cm_cpu_depthwise_row_f32__avx512
                       : level == CM_ISA_AVX2 ? cm_cpu_depthwise_row_f32__avx2
                                              : cm_cpu_depthwise_row_f32__generic,
             .x = r->in[0],
             .w = r->in[1],
             .y = r->out[0],
             .sink = &sink};
    cm_conv_sink_init(&sink, r, r->workspace);
    if (cm_conv_packs_in_run(p)) {
        float *packed = (float *)((char *)r->workspace + bias_bytes(c));
        cm_cpu_conv_transposed_depthwise_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    cm_conv_parallel(r, cm_conv_ns(p) / CM_DEPTHWISE_PACE, cm_conv_rows(c), some_rows, &j);
    return CM_OK;
}
