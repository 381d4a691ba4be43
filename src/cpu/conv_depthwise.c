/* conv_depthwise.c -- convolutions of each channel with its own window, channels innermost.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An output row of at most CHUNK channels is one unit of work, or two where there is a kernel for that: the rows of
 * its window are found once, then the kernel slides along them. Chunks keep the weights and a few input rows in the first cache.
 * Packed weights: [kernel position][channels rounded up to LANES]. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/depthwise.h"

/* PIECE: pixels between epilogues on tiles, whole tiles of the kernels of each level, about. */
enum { LANES = 16, CHUNK = 256, PIECE = 28 };

typedef void (*row_fn)(const cm_depthwise_row *a);
typedef void (*pair_fn)(const cm_depthwise_pair *a);

typedef struct {
    const cm_conv *c;
    const float *x, *w;
    float *y; /* NULL: the output is not float32 */
    row_fn kernel;
    pair_fn pair; /* NULL: rows one by one */
    const cm_conv_sink *sink;
    int64_t chunks, chunk; /* of channels */
    int64_t first, rows;   /* rows of the output to be done */
    int64_t bands, steps;  /* of rows, each of which a thread does whole; of one row or two */
} job;

static int64_t padded(int64_t channels)
{
    return (int64_t)cm_round_up((size_t)channels, LANES);
}

const char *cm_cpu_conv_depthwise_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    if (c->groups != c->c_in || c->c_out != c->c_in)
        return "not one channel to a group";
    if (c->kernel[0] * c->kernel[1] > CM_DEPTHWISE_ROWS)
        return "a window of too many rows";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "channels are not innermost";
    return cm_conv_reject_common(p, cm_conv_channel_columns(p->out[0]));
}

double cm_cpu_conv_depthwise_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    double lanes = (double)c->c_in / (double)padded(c->c_in);
    double compute = cm_conv_flops(c) / (0.6 * lanes * cm_cpu_flops_per_ns(&p->target));
    double memory = cm_conv_bytes(p) / (2 * cm_cpu_bytes_per_ns(&p->target));
    double rows = (double)(c->n * c->out[0] * c->out[1]);
    return 200 + cm_conv_shared(p, compute > memory ? compute : memory,
                                cm_conv_ns(p) / CM_DEPTHWISE_PACE, rows);
}

size_t cm_cpu_conv_depthwise_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const int64_t *kernel = p->as.conv.kernel;
    if (input != 1)
        return 0;
    return (size_t)(kernel[0] * kernel[1] * kernel[2] * padded(p->as.conv.c_in)) * sizeof(float);
}

static size_t bias_bytes(const cm_conv *c)
{
    return cm_round_up((size_t)c->c_out * sizeof(float), 64);
}

size_t cm_cpu_conv_depthwise_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return bias_bytes(&p->as.conv) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_depthwise_f32_pack_bytes(p, k, 1) : 0);
}

void cm_cpu_conv_depthwise_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                    const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    int64_t positions = c->kernel[0] * c->kernel[1] * c->kernel[2], ld = padded(c->c_in);
    float *packed = to;
    for (int64_t at = 0; at < positions; at++) {
        const float *w = (const float *)from + cm_conv_tap_offset(p, at);
        for (int64_t i = 0; i < c->c_in; i++)
            packed[at * ld + i] = w[i * p->in[1]->strides[0]];
        memset(packed + at * ld + c->c_in, 0, (size_t)(ld - c->c_in) * sizeof *packed);
    }
}

/* The rows of the input under output row (z, y) of image n, with their weights, from channel c0. */
static void window_rows(const job *j, int64_t n, int64_t z, int64_t y, int64_t c0,
                        cm_depthwise_row *a)
{
    const cm_conv *c = j->c;
    a->n_rows = 0;
    for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
        int64_t iz = z * c->stride[0] - c->pad[0] + kz * c->dilation[0];
        if (iz < 0 || iz >= c->in[0])
            continue;
        for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
            int64_t iy = y * c->stride[1] - c->pad[1] + ky * c->dilation[1];
            if (iy < 0 || iy >= c->in[1])
                continue;
            int64_t pixel = ((n * c->in[0] + iz) * c->in[1] + iy) * c->in[2];
            a->x[a->n_rows] = j->x + pixel * c->c_in + c0;
            a->w[a->n_rows++] = j->w + (kz * c->kernel[1] + ky) * c->kernel[2] * a->w_ld + c0;
        }
    }
}

static void row_in_pieces(const job *j, int64_t row, int64_t c0, cm_depthwise_row *a)
{
    float buffer[PIECE * CHUNK];
    int64_t width = j->c->out[2], first = row * width;
    for (int64_t at = 0; at < width; at += PIECE) {
        a->begin = at;
        a->end = at + PIECE < width ? at + PIECE : width;
        a->y = j->y ? j->y + (first + at) * a->y_ld + c0 : buffer;
        j->kernel(a);
        cm_epilogue_tile(&j->sink->plan, first + at, c0, a->end - at, a->channels, a->y, a->y_ld);
    }
}

static void one_row(const job *j, int64_t row, int64_t c0, cm_depthwise_row *a)
{
    const cm_conv *c = j->c;
    const cm_simple_epilogue *e = &j->sink->e;
    int64_t y = row % c->out[1], z = row / c->out[1] % c->out[0], n = row / c->out[1] / c->out[0];
    window_rows(j, n, z, y, c0, a);
    if (!j->sink->simple) {
        row_in_pieces(j, row, c0, a);
        return;
    }
    int64_t first = row * c->out[2];
    a->begin = 0;
    a->end = c->out[2];
    a->y = j->y + first * c->c_in + c0;
    a->residual = e->residual ? e->residual + first * e->residual_ld + c0 : NULL;
    j->kernel(a);
}

/* Output rows `row` and the next, channels [c0, c0 + channels). False: one of them is of another image or not there. */
static bool two_rows(const job *j, int64_t row, int64_t last, int64_t c0, int64_t channels)
{
    const cm_conv *c = j->c;
    const cm_simple_epilogue *e = &j->sink->e;
    int64_t y = row % c->out[1], n = row / c->out[1], width = c->out[2];
    if (!j->pair || row + 1 >= last || y + 1 >= c->out[1])
        return false;
    bool whole = j->sink->simple;
    float buffer[2][PIECE * CHUNK];
    cm_depthwise_pair a = {.w = j->w + c0,
                           .bias = e->bias ? e->bias + c0 : NULL,
                           .x_ld = c->c_in,
                           .w_ld = padded(c->c_in),
                           .y_ld = j->y ? c->c_in : CHUNK,
                           .channels = channels,
                           .in = c->in[2],
                           .kernel = c->kernel[2],
                           .stride = c->stride[2],
                           .pad = c->pad[2],
                           .lo = e->lo,
                           .hi = e->hi};
    for (int64_t r = 0; r < a.kernel + a.stride; r++) {
        int64_t iy = y * c->stride[1] - c->pad[1] + r;
        bool inside = iy >= 0 && iy < c->in[1];
        a.x[r] = inside ? j->x + (n * c->in[1] + iy) * c->in[2] * c->c_in + c0 : NULL;
    }
    for (int64_t at = 0; at < width; at = a.end) {
        a.begin = at;
        a.end = whole ? width : cm_min_i64(at + PIECE, width);
        for (int64_t q = 0; q < 2; q++)
            a.y[q] = j->y ? j->y + ((row + q) * width + at) * a.y_ld + c0 : buffer[q];
        j->pair(&a);
        for (int64_t q = 0; !whole && q < 2; q++)
            cm_epilogue_tile(&j->sink->plan, (row + q) * width + at, c0, a.end - at, channels,
                             a.y[q], a.y_ld);
    }
    return true;
}

static int64_t band_begin(const job *j, int64_t band)
{
    return cm_min_i64(j->rows, band * j->steps / j->bands * (j->pair ? 2 : 1));
}

/* Chunks of channels of bands. */
static void some_chunks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    const cm_simple_epilogue *e = &j->sink->e;
    cm_depthwise_row a = {.x_ld = c->c_in,
                          .w_ld = padded(c->c_in),
                          .y_ld = j->y ? c->c_in : CHUNK,
                          .in = c->in[2],
                          .kernel = c->kernel[2],
                          .stride = c->stride[2],
                          .dilation = c->dilation[2],
                          .pad = c->pad[2],
                          .residual_ld = e->residual_ld,
                          .lo = e->lo,
                          .hi = e->hi};
    for (int64_t u = begin; u < end; u++) {
        int64_t band = u / j->chunks, c0 = u % j->chunks * j->chunk;
        a.channels = c->c_in - c0 < j->chunk ? c->c_in - c0 : j->chunk;
        a.bias = e->bias ? e->bias + c0 : NULL;
        int64_t last = j->first + band_begin(j, band + 1);
        for (int64_t i = j->first + band_begin(j, band); i < last; i++) {
            if (two_rows(j, i, last, c0, a.channels))
                i++;
            else
                one_row(j, i, c0, &a);
        }
    }
}

static row_fn kernel_for(int level)
{
    return level >= CM_ISA_AVX512 ? cm_cpu_depthwise_row_f32__avx512
           : level == CM_ISA_AVX2 ? cm_cpu_depthwise_row_f32__avx2
                                  : cm_cpu_depthwise_row_f32__generic;
}

/* For rows two by two. */
static pair_fn pair_for(const cm_conv *c, int level, const cm_simple_epilogue *e)
{
    int64_t k = c->kernel[2], s = c->stride[2];
    bool square = c->kernel[0] == 1 && c->kernel[1] == k && c->stride[1] == s && c->in[0] == 1 &&
                  c->dilation[1] == 1 && c->dilation[2] == 1;
    if (level < CM_ISA_AVX512 || !square || (k != 3 && k != 5) || s > 2 || e->residual)
        return NULL;
    return c->pad[2] <= k - s && c->in[2] >= k ? cm_cpu_depthwise_pair_f32__avx512 : NULL;
}

cm_status cm_cpu_conv_depthwise_f32_run(const cm_run *r)
{
    cm_cpu_conv_depthwise_f32_band(r, 0, cm_conv_rows(&r->p->as.conv));
    return CM_OK;
}

void cm_cpu_conv_depthwise_f32_band(const cm_run *r, int64_t begin, int64_t end)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    cm_conv_sink sink;
    job j = {.c = c,
             .sink = &sink,
             .x = r->in[0],
             .w = r->in[1],
             .y = p->out[0]->dtype == CM_F32 ? r->out[0] : NULL,
             .kernel = kernel_for(p->target.level),
             .first = begin,
             .rows = end - begin};
    cm_conv_sink_init(&sink, r, r->workspace);
    j.pair = pair_for(c, p->target.level, &sink.e);
    if (cm_conv_packs_in_run(p)) {
        float *packed = (float *)((char *)r->workspace + bias_bytes(c));
        cm_cpu_conv_depthwise_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    j.chunks = (c->c_in + CHUNK - 1) / CHUNK;
    j.chunk = padded((c->c_in + j.chunks - 1) / j.chunks);
    int threads = cm_threads_count(r->threads);
    j.steps = j.pair ? cm_ceil_div(j.rows, 2) : j.rows;
    j.bands = threads > 1 ? cm_min_i64(j.steps, 4 * threads) : 1;
    double share = (double)j.rows / (double)cm_conv_rows(c);
    cm_conv_parallel(r, cm_conv_ns(p) / CM_DEPTHWISE_PACE * share, j.bands * j.chunks, some_chunks,
                     &j);
}
