/* conv_bf16.c -- convolutions of bfloat16 by the processor's own instructions: pairs of products per lane
 * (AVX512-BF16), tiles (AMX).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Activations are channels-last. Windows of a block of output pixels are gathered as rows of a matrix,
 * [pixel][kernel position][channel], padding written out and zeros behind, up to a multiple of CM_BF16_K; a
 * convolution of points needs no gathering. A row then meets panels of weights (gemm_half.h), whose sums go to
 * a buffer and from there through the epilogue, tile by tile where it is of a common form. */
#include <emmintrin.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/conv_bf16.h"
#include "cpu/gather_bf16.h"

enum {
    GROUP = CM_CONV_BF16_GROUP, /* panels whose sums wait for the epilogue together */
    BLOCK_ELEMS = 128 << 10,    /* of gathered windows: they stay in the second-level cache */
};

typedef struct {
    const cm_conv *c;
    const cm_gemm_bf16_kernel *g;
    int64_t c_in, c_out; /* of one group */
    int64_t sums, k;     /* of one output; k rounded up */
    int64_t line;        /* elements of a kernel line */
    int64_t panels;      /* of one group */
    int64_t rows;        /* pixels at a time */
    int64_t blocks, splits, units;
    int workers;
    bool short_lines; /* a kernel line fits a vector */
    bool points;      /* windows are pixels of the input, where they lie */
    size_t a_bytes, c_bytes;
} layout;

/* How long units of `tiles` tiles of pixels and a split's panels take: a thread's one after the other, and its panels, which
 * come from a far cache once. */
static double units_ns(const layout *l, int64_t tiles, int64_t splits, int threads)
{
    const double byte_ns = 1 / 15.0, unit_ns = 300, held_up = 0.25;
    /* Windows of several positions are mostly found in a near cache, where others left them. */
    const double gather_ns = cm_conv_taps(l->c) > 1 ? 0.04 : 0.15;
    int64_t blocks = cm_ceil_div(cm_conv_pixels(l->c), tiles * l->g->mr) * l->c->groups;
    double rounds = (double)cm_ceil_div(blocks * splits, threads);
    double panels = (double)cm_ceil_div(l->panels, splits), k = (double)l->k;
    double rows = (double)(tiles * l->g->mr) * k;
    double unit = (double)tiles * panels * k / CM_BF16_K * l->g->square_ns +
                  rows * (l->points ? 2 * byte_ns : gather_ns) + unit_ns;
    double ranges = 1 + (double)splits / threads;
    return rounds * unit * (1 + held_up / rounds) + ranges * panels * k * CM_BF16_NR * 2 * byte_ns;
}

static void cut(layout *l, int threads)
{
    int64_t most = cm_max_i64(1, cm_min_i64(4, BLOCK_ELEMS / l->k / l->g->mr));
    double best = 0;
    for (int64_t tiles = most; tiles >= 1; tiles /= 2) {
        for (int64_t splits = 1; splits <= (threads > 1 ? l->panels : 1); splits *= 2) {
            double ns = units_ns(l, tiles, splits, threads);
            if (best > 0 && ns >= best)
                continue;
            best = ns;
            l->rows = tiles * l->g->mr;
            l->splits = splits;
        }
    }
    l->blocks = cm_ceil_div(cm_conv_pixels(l->c), l->rows);
    l->units = l->blocks * l->c->groups * l->splits;
}

static void lay_out(const cm_problem *p, const cm_gemm_bf16_kernel *g, layout *l)
{
    const cm_conv *c = &p->as.conv;
    *l = (layout){.c = c, .g = g, .c_in = c->c_in / c->groups, .c_out = c->c_out / c->groups};
    l->sums = l->c_in * cm_conv_taps(c);
    l->line = l->c_in * c->kernel[2];
    l->k = cm_ceil_div(l->sums, CM_BF16_K) * CM_BF16_K;
    l->short_lines = c->groups == 1 && c->dilation[2] == 1 && l->line <= CM_BF16_K;
    l->panels = cm_ceil_div(l->c_out, CM_BF16_NR);
    l->points = cm_conv_is_points(c) && l->k == l->sums;
    cut(l, p->threads);
    l->workers = (int)cm_max_i64(1, cm_min_i64(p->threads, l->units));
    l->a_bytes = l->points ? 0 : cm_round_up((size_t)(l->rows * l->k) * sizeof(uint16_t), 64);
    l->c_bytes = (size_t)(l->rows * GROUP * CM_BF16_NR) * sizeof(float);
}

const char *cm_cpu_conv_bf16_reject(const cm_problem *p)
{
    return cm_cpu_info()->bf16 ? cm_conv_bf16_reject(p) : "the processor has no AVX512-BF16";
}
const char *cm_cpu_conv_amx_reject(const cm_problem *p)
{
    return cm_conv_bf16_reject(p);
}

/* `gain`: over float32. */
static double cost(const cm_problem *p, const cm_gemm_bf16_kernel *g, double gain)
{
    layout l;
    lay_out(p, g, &l);
    double waste = (double)(l.panels * CM_BF16_NR) / (double)l.c_out * (double)l.k / (double)l.sums;
    double pixels = (double)cm_conv_pixels(l.c) * (double)(l.c->groups * l.splits);
    double gathered = l.points ? 0 : pixels * (0.08 * (double)l.k + 2 * (double)cm_conv_taps(l.c));
    return cm_conv_bf16_ns(p, cm_conv_flops(l.c) * waste, gain, gathered, l.units);
}

static size_t pack_bytes(const cm_problem *p, int input)
{
    layout l;
    lay_out(p, &cm_gemm_bf16__avx512, &l);
    if (input != 1)
        return 0;
    return (size_t)(l.c->groups * l.panels * CM_BF16_NR * l.k) * sizeof(uint16_t);
}

typedef struct {
    const cm_problem *p;
    const layout *l;
    const uint16_t *from;
    uint16_t *to;
} pack_job;

/* Panels hold [kernel position, channel], as windows are gathered. */
static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const layout *l = j->l;
    const int64_t *stride = j->p->in[1]->strides;
    for (int64_t q = begin; q < end; q++) {
        int64_t first = q % l->panels * CM_BF16_NR;
        const uint16_t *from = j->from + (q / l->panels * l->c_out + first) * stride[0];
        uint16_t *to = j->to + q * CM_BF16_NR * l->k;
        memset(to, 0, (size_t)(CM_BF16_NR * l->k) * sizeof *to);
        int64_t n = cm_min_i64(CM_BF16_NR, l->c_out - first);
        for (int64_t i = 0; i < l->sums; i++) {
            int64_t at = cm_conv_tap_offset(j->p, i / l->c_in) + i % l->c_in * stride[1];
            for (int64_t c = 0; c < n; c++)
                to[cm_bf16_panel_at(i, c)] = from[c * stride[0] + at];
        }
    }
}

static void pack(const cm_problem *p, int input, const void *from, void *to, cm_threads *threads)
{
    layout l;
    (void)input;
    lay_out(p, &cm_gemm_bf16__avx512, &l);
    pack_job j = {p, &l, from, to};
    cm_parallel(threads, l.c->groups * l.panels, 1 + 20000 / (CM_BF16_NR * l.k), pack_panels, &j);
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_conv_bf16_sink sink;
} job;

/* memcpy, for what is mostly some dozens of bytes. */
static inline void copy(uint16_t *to, const uint16_t *from, size_t bytes)
{
    const char *f = (const char *)from;
    char *t = (char *)to;
    if (bytes < 16 || bytes > 64) {
        memcpy(to, from, bytes);
        return;
    }
    size_t last = bytes - 16, middle = bytes >= 32 ? 16 : 0;
    __m128i a = _mm_loadu_si128((const __m128i *)f);
    __m128i b = _mm_loadu_si128((const __m128i *)(f + middle));
    __m128i c = _mm_loadu_si128((const __m128i *)(f + last - middle));
    __m128i d = _mm_loadu_si128((const __m128i *)(f + last));
    _mm_storeu_si128((__m128i *)t, a);
    _mm_storeu_si128((__m128i *)(t + middle), b);
    _mm_storeu_si128((__m128i *)(t + last - middle), c);
    _mm_storeu_si128((__m128i *)(t + last), d);
}

/* One line of a window: kernel positions along the last axis, `ix` where the first of them lies; x: the line. */
static uint16_t *gather_line(const layout *l, const uint16_t *x, int64_t ix, uint16_t *to)
{
    const cm_conv *c = l->c;
    int64_t step = c->dilation[2], n = c->kernel[2], width = c->in[2];
    size_t bytes = (size_t)l->c_in * sizeof *to;
    if (step == 1 && c->groups == 1 && ix >= 0 && ix + n <= width) {
        copy(to, x + ix * c->c_in, bytes * (size_t)n);
        return to + n * l->c_in;
    }
    for (int64_t i = 0; i < n; i++, ix += step, to += l->c_in) {
        if (ix >= 0 && ix < width)
            copy(to, x + ix * c->c_in, bytes);
        else
            memset(to, 0, bytes);
    }
    return to;
}

/* An output pixel: of an image, along each axis. */
typedef struct {
    int64_t image, at[3];
} place;

static place place_of(const cm_conv *c, int64_t pixel)
{
    place q = {pixel, {0}};
    for (int d = 2; d >= 0; d--) {
        q.at[d] = q.image % c->out[d];
        q.image /= c->out[d];
    }
    return q;
}

static void next_place(const cm_conv *c, place *q)
{
    for (int d = 2; d >= 0; d--) {
        if (++q->at[d] < c->out[d])
            return;
        q->at[d] = 0;
    }
    q->image++;
}

/* The window of one output pixel; x: the first channel of the group. */
static void gather(const layout *l, const uint16_t *x, const place *q, uint16_t *to)
{
    const cm_conv *c = l->c;
    int64_t from[3];
    uint16_t *end = to + l->k;
    for (int d = 0; d < 3; d++)
        from[d] = q->at[d] * c->stride[d] - c->pad[d];
    for (int64_t tz = 0, iz = from[0]; tz < c->kernel[0]; tz++, iz += c->dilation[0])
        for (int64_t ty = 0, iy = from[1]; ty < c->kernel[1]; ty++, iy += c->dilation[1]) {
            if (iz < 0 || iz >= c->in[0] || iy < 0 || iy >= c->in[1]) {
                memset(to, 0, (size_t)(c->kernel[2] * l->c_in) * sizeof *to);
                to += c->kernel[2] * l->c_in;
                continue;
            }
            int64_t line = (q->image * c->in[0] + iz) * c->in[1] + iy;
            to = gather_line(l, x + line * c->in[2] * c->c_in, from[2], to);
        }
    memset(to, 0, (size_t)(end - to) * sizeof *to);
}

/* The windows of m output pixels from q on, where kernel lines are short: one of those after the other. */
static void gather_short(const layout *l, const uint16_t *x, place *q, int64_t m, uint16_t *to)
{
    const cm_conv *c = l->c;
    cm_bf16_line line = {NULL, c->in[2], c->c_in, c->kernel[2], c->stride[2]};
    for (int64_t i = 0, n; i < m; i += n) {
        n = cm_min_i64(m - i, c->out[2] - q->at[2]);
        for (int64_t t = 0; t < c->kernel[0] * c->kernel[1]; t++) {
            int64_t iz = q->at[0] * c->stride[0] - c->pad[0] + t / c->kernel[1] * c->dilation[0];
            int64_t iy = q->at[1] * c->stride[1] - c->pad[1] + t % c->kernel[1] * c->dilation[1];
            bool inside = iz >= 0 && iz < c->in[0] && iy >= 0 && iy < c->in[1];
            int64_t at = (q->image * c->in[0] + iz) * c->in[1] + iy;
            line.x = inside ? x + at * c->in[2] * c->c_in : NULL;
            bool last = t + 1 == c->kernel[0] * c->kernel[1];
            int64_t room = l->k - t * l->line;
            cm_bf16_gather_line__avx512(&line, q->at[2] * c->stride[2] - c->pad[2], n,
                                        last ? room : cm_min_i64(room, CM_BF16_K),
                                        to + i * l->k + t * l->line, l->k);
        }
        q->at[2] += n - 1;
        next_place(c, q);
    }
}

/* What the unit after this one reads and writes, and other threads may have had: asked for while this one computes. */
typedef struct {
    const char *rows; /* of the input, one behind the other; */
    int lines;        /* so many lines of the cache with every square */
    cm_chain_operand more;
    const char *out; /* NULL, as all else: nothing */
} next_unit;

static int64_t elem_bytes(const cm_chain_operand *o)
{
    return o->type == CM_F32 ? 4 : 2;
}

static const char *operand_row(const cm_chain_operand *o, int64_t row)
{
    return (const char *)o->data + row * o->ld * elem_bytes(o);
}

static next_unit after(const job *j, int64_t unit)
{
    const layout *l = &j->l;
    const cm_bf16_finish *f = &j->sink.finish;
    int64_t split = unit / l->blocks % l->splits, pixel = (unit % l->blocks + 1) * l->rows;
    next_unit n = {0};
    if (pixel >= cm_conv_pixels(l->c) || l->c->groups > 1)
        return n;
    if (l->points) {
        n.rows = (const char *)((const uint16_t *)j->r->in[0] + pixel * l->c->c_in);
        n.lines = (int)cm_ceil_div(CM_BF16_NR, (split + 1) * l->panels / l->splits -
                                                   split * l->panels / l->splits);
    }
    if (j->sink.fast) {
        n.out = (const char *)(f->out + pixel * f->ld);
        n.more = f->c.residual;
        n.more.data = n.more.data ? operand_row(&n.more, pixel) : NULL;
    }
    return n;
}

/* What a tile asks for whose first pixel and channel those are of its unit. */
static void ask_for(const job *j, next_unit *n, int64_t pixel, int64_t channel, cm_bf16_tile *t)
{
    int64_t squares = j->l.k / CM_BF16_K, mr = j->l.g->mr, ld = j->sink.finish.ld;
    int each = squares <= mr ? (int)cm_ceil_div(mr, squares) : 0;
    if (n->rows) {
        t->ahead[0] = (cm_bf16_ahead){n->rows, 64, n->lines};
        n->rows += squares * n->lines * 64;
    }
    if (n->more.data) {
        int64_t elem = elem_bytes(&n->more);
        t->ahead[1] =
            (cm_bf16_ahead){operand_row(&n->more, pixel) + channel * elem, n->more.ld * elem, each};
    }
    if (n->out)
        t->out_ahead = (cm_bf16_ahead){n->out + (pixel * ld + channel) * 2, ld * 2, each};
}

/* Pixels [pixel, pixel + m) by panels [panel, end) of a group, at most GROUP of them. */
static void block(const job *j, int64_t group, const uint16_t *a, int64_t lda, int64_t pixel,
                  int64_t m, int64_t panel, int64_t end, next_unit *next, float *c)
{
    const layout *l = &j->l;
    const int64_t ld = j->sink.fast ? CM_BF16_NR : GROUP * CM_BF16_NR, mr = l->g->mr;
    const int64_t size = CM_BF16_NR * l->k, first = group * l->c_out;
    const uint16_t *b = (const uint16_t *)j->r->in[1] + group * l->panels * size;
    cm_bf16_tile t = {.k = l->k, .lda = lda, .ldc = ld};
    for (int64_t i = 0; i < m; i += mr) {
        t.m = cm_min_i64(mr, m - i);
        t.a = a + i * lda;
        for (int64_t q = panel; q < end; q++) {
            int64_t col = q * CM_BF16_NR;
            t.b = b + q * size;
            t.c = j->sink.fast ? c : c + i * ld + (q - panel) * CM_BF16_NR;
            ask_for(j, next, i, col, &t);
            l->g->tile(&t);
            if (j->sink.fast)
                cm_conv_bf16_sink_tile(&j->sink, pixel + i, first + col, t.m,
                                       cm_min_i64(CM_BF16_NR, l->c_out - col), c, ld);
        }
    }
    if (j->sink.fast)
        return;
    int64_t from = panel * CM_BF16_NR, n = cm_min_i64(l->c_out, end * CM_BF16_NR) - from;
    cm_conv_bf16_sink_tile(&j->sink, pixel, first + from, m, n, c, ld);
}

static void one_unit(const job *j, int64_t unit, char *scratch)
{
    const layout *l = &j->l;
    int64_t pixel = unit % l->blocks * l->rows, split = unit / l->blocks % l->splits;
    int64_t group = unit / l->blocks / l->splits;
    int64_t m = cm_min_i64(l->rows, cm_conv_pixels(l->c) - pixel), lda = l->k;
    const uint16_t *x = (const uint16_t *)j->r->in[0] + group * l->c_in, *a;
    if (l->points) {
        a = x + pixel * l->c->c_in;
        lda = l->c->c_in;
    } else {
        uint16_t *rows = (uint16_t *)(scratch + l->c_bytes);
        place q = place_of(l->c, pixel);
        if (l->short_lines)
            gather_short(l, x, &q, m, rows);
        for (int64_t i = 0; !l->short_lines && i < m; i++, next_place(l->c, &q))
            gather(l, x, &q, rows + i * l->k);
        a = rows;
    }
    int64_t end = (split + 1) * l->panels / l->splits;
    next_unit next = after(j, unit);
    for (int64_t q = split * l->panels / l->splits; q < end; q += GROUP)
        block(j, group, a, lda, pixel, m, q, cm_min_i64(end, q + GROUP), &next, (float *)scratch);
}

/* Units follow each other with the same panels, so that a thread's share of them mostly has one range of those. */
static void work(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    char *scratch = (char *)j->r->workspace + (size_t)thread * (l->a_bytes + l->c_bytes);
    if (l->g->begin)
        l->g->begin();
    for (int64_t u = begin; u < end; u++)
        one_unit(j, u, scratch);
    if (l->g->end)
        l->g->end();
}

static size_t workspace(const cm_problem *p, const cm_gemm_bf16_kernel *g)
{
    layout l;
    lay_out(p, g, &l);
    return (l.a_bytes + l.c_bytes) * (size_t)l.workers;
}

static cm_status run(const cm_run *r, const cm_gemm_bf16_kernel *g)
{
    job j = {.r = r};
    lay_out(r->p, g, &j.l);
    cm_conv_bf16_sink_init(&j.sink, r);
    cm_parallel_numbered(r->threads, j.l.workers, j.l.units, work, &j);
    return CM_OK;
}

CM_BF16_TACTIC(conv_bf16, cm_gemm_bf16__avx512, 2)
CM_BF16_TACTIC(conv_amx, cm_gemm_bf16__amx, 8)
