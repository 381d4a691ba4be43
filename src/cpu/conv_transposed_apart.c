/* conv_transposed_apart.c -- transposed convolutions whose windows lie side by side, kernel and stride being equal.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last, one group. Every output pixel comes from one input pixel: an output row is a matrix with a row for each pixel of
 * an input row and a column for each (kernel position along the last axis, output channel), which are adjacent. So it
 * is one product, stored where it belongs; weights are packed as one matrix for each kernel position along the
 * other axes, [input channel][kernel position along the last axis, output channel]. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

const char *cm_cpu_conv_transposed_apart_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (!c->transposed)
        return "not transposed";
    if (c->groups != 1)
        return "several groups";
    for (int d = 0; d < 3; d++) {
        if (c->kernel[d] != c->stride[d] || (c->dilation[d] != 1 && c->kernel[d] > 1) ||
            c->pad[d] != 0 || c->out[d] != c->in[d] * c->stride[d])
            return "windows overlap, lie apart, or reach beyond the output";
    }
    return cm_conv_reject_channels_last(p);
}

/* Columns of an output row's matrix, and matrices of weights. */
static int64_t columns_of(const cm_conv *c)
{
    return c->kernel[2] * c->c_out;
}
static int64_t matrices_of(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1];
}

/* What is computed, lanes without a column too, on one thread. */
static double compute_ns(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    double ends = 1 + 4 / (double)c->c_in;
    return cm_conv_ns(p) * cm_conv_columns(kernel(p)->nr, columns_of(c)) * ends / 0.95;
}

double cm_cpu_conv_transposed_apart_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    double memory = cm_conv_bytes(p) / (2 * cm_cpu_bytes_per_ns(&p->target));
    double units = (double)cm_conv_rows(&p->as.conv), compute = compute_ns(p);
    return 300 + cm_conv_shared(p, compute + memory, compute, units);
}

size_t cm_cpu_conv_transposed_apart_f32_pack_bytes(const cm_problem *p, const cm_knobs *k,
                                                   int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    int64_t each = cm_gemm_f32_packed_b(kernel(p), c->c_in, columns_of(c));
    return input == 1 ? (size_t)(matrices_of(c) * each) * sizeof(float) : 0;
}

/* One matrix; `from` is the first weight of its kernel positions. */
static void pack_matrix(const cm_problem *p, const float *from, float *to)
{
    const cm_conv *c = &p->as.conv;
    const int64_t *stride = p->in[1]->strides;
    int64_t nr = kernel(p)->nr, along = c->kernel[2] > 1 ? stride[p->in[1]->rank - 1] : 0;
    memset(to, 0, (size_t)cm_gemm_f32_packed_b(kernel(p), c->c_in, columns_of(c)) * sizeof *to);
    for (int64_t j = 0; j < columns_of(c); j++) {
        const float *w = from + j / c->c_out * along + j % c->c_out * stride[1];
        float *column = to + j / nr * nr * c->c_in + j % nr;
        for (int64_t l = 0; l < c->c_in; l++)
            column[l * nr] = w[l * stride[0]];
    }
}

void cm_cpu_conv_transposed_apart_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                           const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    int64_t each = cm_gemm_f32_packed_b(kernel(p), c->c_in, columns_of(c));
    for (int64_t i = 0; i < matrices_of(c); i++)
        pack_matrix(p, (const float *)from + cm_conv_tap_offset(p, i * c->kernel[2]),
                    (float *)to + i * each);
}

/* The workspace: the sum of two biases, a bias for each column, weights. */
static int64_t bias_floats(const cm_conv *c)
{
    return cm_ceil_div(c->c_out + columns_of(c), 16) * 16;
}

size_t cm_cpu_conv_transposed_apart_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return (size_t)bias_floats(&p->as.conv) * sizeof(float) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_transposed_apart_f32_pack_bytes(p, k, 1) : 0);
}

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w;
    float *y;
    cm_conv_sink sink;
    cm_simple_epilogue e; /* of a row's matrix */
} job;

/* Output row i in the order of memory. */
static void one_row(const job *j, int64_t i)
{
    const cm_conv *c = j->c;
    int64_t oy = i % c->out[1], oz = i / c->out[1] % c->out[0], n = i / c->out[1] / c->out[0];
    int64_t ky = oy % c->stride[1], kz = oz % c->stride[0], columns = columns_of(c);
    int64_t from = (n * c->in[0] + oz / c->stride[0]) * c->in[1] + oy / c->stride[1];
    int64_t pixel = i * c->out[2];
    float *y = j->y + pixel * c->c_out;
    cm_gemm_f32_args x = {.m = c->in[2],
                          .n = columns,
                          .k = c->c_in,
                          .a = j->x + from * c->in[2] * c->c_in,
                          .a_row = c->c_in,
                          .a_col = 1,
                          .b = j->w + (kz * c->kernel[1] + ky) *
                                          cm_gemm_f32_packed_b(j->g, c->c_in, columns),
                          .b_panel = c->c_in * j->g->nr,
                          .ldb = j->g->nr,
                          .c = y,
                          .ldc = columns,
                          .alpha = 1,
                          .e = &j->e,
                          .row = i * c->in[2]};
    cm_gemm_f32(j->g, &x);
    if (!j->sink.simple)
        cm_epilogue_tile(&j->sink.plan, pixel, 0, c->out[2], c->c_out, y, c->c_out);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        one_row(arg, i);
}

/* The epilogue of pixels as one of matrices: the bias once for each kernel position; a residual has their form only where its
 * pixels lie side by side. */
static void widen_epilogue(job *j, const cm_run *r, float *bias)
{
    const cm_conv *c = j->c;
    j->e = j->sink.e;
    if (j->e.residual && j->e.residual_ld != c->c_out) {
        cm_epilogue_compile(&j->sink.plan);
        j->sink.simple = false;
        j->e = (cm_simple_epilogue){c->bias ? r->in[2] : NULL, NULL, 0, -INFINITY, INFINITY};
    }
    j->e.residual_ld = columns_of(c);
    if (!j->e.bias)
        return;
    for (int64_t i = 0; i < columns_of(c); i++)
        bias[i] = j->e.bias[i % c->c_out];
    j->e.bias = bias;
}

cm_status cm_cpu_conv_transposed_apart_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    float *bias = r->workspace, *packed = bias + bias_floats(c);
    job j = {.c = c, .g = kernel(p), .x = r->in[0], .w = r->in[1], .y = r->out[0]};
    cm_conv_sink_init(&j.sink, r, bias);
    widen_epilogue(&j, r, bias + c->c_out);
    if (cm_conv_packs_in_run(p)) {
        cm_cpu_conv_transposed_apart_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    cm_conv_parallel(r, compute_ns(p), cm_conv_rows(c), some_rows, &j);
    return CM_OK;
}
