/* conv_lines.c -- convolutions of few channels, above all a network's first: the rows of a window as they
 * lie in memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A *line* is one row of the window along the last axis: of one input channel where the input is row-major, of
 * all channels where they are innermost. The window of each pixel is a run of adjacent elements in each line,
 * the next pixel's the same distance further on, and the product reads them where they lie. Tiles that reach
 * into the padding have their part of the lines copied first, zeros and all. The output has its channels
 * innermost, so a row-major input needs no conversion.
 *
 * Packed weights: panels of [line][element of the run][columns of the tile], per group. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

enum {
    RUNS = 768,              /* looked at at a time: pointers on the stack */
    PIECE = 112,             /* pixels of a piece, about: whole tiles */
    LINES_FLOATS = 16 << 10, /* copied at a time, about */
    SLOTS = 4                /* pieces of the work, with a buffer each, per thread */
};

/* How lines lie: what depends on sizes, layout and level alone. */
typedef struct {
    bool last;             /* channels innermost */
    int64_t elems;         /* of one pixel in a line */
    int64_t lines;         /* of the window */
    int64_t runs, k;       /* of adjacent elements: one run per line without dilation */
    int64_t piece, pieces; /* pixels of a piece; pieces of an output row */
    int64_t ld, chunk;     /* floats of a line of one tile; lines looked at at a time */
    int64_t c_out, panels; /* of one group */
} form;

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    form f;
    const float *x, *w;
    float *y, *buffers;
    const cm_conv_sink *sink;
    int64_t first, rows; /* of the output, to be done */
    int64_t units, slots;
} job;

typedef struct {
    int64_t group, n, oz, oy, ox, pixels;
} piece;

static form form_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    form f = {.last = !(cm_conv_layout_of(p->in[0]) & CM_CONV_ROW_MAJOR)};
    f.elems = f.last ? c->c_in : 1;
    f.lines = c->kernel[0] * c->kernel[1] * (f.last ? 1 : c->c_in / c->groups);
    bool adjacent = c->dilation[2] == 1 || c->kernel[2] == 1;
    f.runs = adjacent ? f.lines : f.lines * c->kernel[2];
    f.k = adjacent ? f.elems * c->kernel[2] : f.elems;
    f.pieces = cm_ceil_div(c->out[2], PIECE / g->mr * g->mr);
    f.piece = cm_ceil_div(c->out[2], f.pieces);
    f.piece = f.pieces > 1 ? cm_ceil_div(f.piece, g->mr) * g->mr : f.piece;
    f.pieces = cm_ceil_div(c->out[2], f.piece);
    f.ld = ((g->mr - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1) * f.elems;
    f.ld = (int64_t)cm_round_up((size_t)f.ld, 16) + 16;
    f.chunk = cm_min_i64(LINES_FLOATS / f.ld, RUNS * f.lines / f.runs);
    f.chunk = f.chunk < 1 ? 1 : cm_min_i64(f.lines, f.chunk);
    f.c_out = c->c_out / c->groups;
    f.panels = cm_ceil_div(f.c_out, g->nr);
    return f;
}

const char *cm_cpu_conv_lines_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    int layout = cm_conv_layout_of(p->in[0]);
    if (c->transposed)
        return "transposed";
    if (!layout)
        return "the input is strided";
    if (!(layout & CM_CONV_ROW_MAJOR) && c->groups > 1)
        return "groups of channels that are innermost";
    if (!(cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "the output's channels are not innermost";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    if (c->kernel[2] > RUNS)
        return "too wide a window";
    return cm_conv_reject_common(p, cm_conv_channel_columns(p->out[0]));
}

/* How the input lies decides how the weights are packed: contexts of other sizes may get it otherwise. */
int cm_cpu_conv_lines_f32_knobs(const cm_problem *p, cm_knobs *out)
{
    *out = (cm_knobs){{form_of(p).last}};
    return 1;
}

double cm_cpu_conv_lines_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    form f = form_of(p);
    double sums = (double)(f.runs * f.k);
    double whole = cm_conv_columns(cm_gemm_f32_kernel_of(p->target.level)->nr, f.c_out);
    double flops = cm_conv_flops(c) * whole * (1 + 0.6 / (double)f.k + 4 / sums);
    double rows = (double)(c->n * c->out[0] * c->out[1] * f.pieces * c->groups);
    int mr = cm_gemm_f32_kernel_of(p->target.level)->mr;
    double tiles = rows * (double)cm_gemm_tiles(f.piece, mr);
    /* Tiles of few pixels wait for their sums and for the weights. */
    double pixels = rows * (double)f.piece / tiles, few = pixels < 4 ? 4 / pixels : 1;
    double copies = (c->pad[2] ? 2 * rows * (double)f.lines : 0) * (4 + 0.04 * (double)f.ld);
    double pointers = (tiles * (double)f.runs + rows * (double)f.lines * 5) * 1.0;
    /* Pixels a multiple of 4 KB apart meet in one set of the first-level cache. */
    bool meet = c->c_in * c->stride[2] % 1024 == 0;
    double compute = few * flops / ((meet ? 0.7 : 0.95) * cm_cpu_flops_per_ns(&p->target));
    double memory = cm_conv_bytes(p) / (8 * cm_cpu_bytes_per_ns(&p->target));
    return 200 + cm_conv_shared(p, compute + copies + pointers + memory, cm_conv_ns(p), rows);
}

size_t cm_cpu_conv_lines_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    if (input != 1)
        return 0;
    form f = form_of(p);
    int nr = cm_gemm_f32_kernel_of(p->target.level)->nr;
    return (size_t)(f.runs * f.k * nr * f.panels * p->as.conv.groups) * sizeof(float);
}

/* A bias, a buffer of lines per slot, the weights where they are not constant. */
static size_t bias_bytes(const cm_conv *c)
{
    return cm_round_up((size_t)c->c_out * sizeof(float), 64);
}

static size_t buffer_bytes(const form *f)
{
    return (size_t)(f->chunk * f->ld) * sizeof(float);
}

size_t cm_cpu_conv_lines_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    form f = form_of(p);
    size_t threads = p->threads > 1 ? (size_t)p->threads : 1;
    return bias_bytes(&p->as.conv) + SLOTS * threads * buffer_bytes(&f) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_lines_f32_pack_bytes(p, k, 1) : 0);
}

void cm_cpu_conv_lines_f32_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                                void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    form f = form_of(p);
    const int64_t *stride = p->in[1]->strides;
    int64_t taps = cm_conv_taps(c), c_in = c->c_in / c->groups, panel = taps * c_in * g->nr;
    for (int64_t group = 0; group < c->groups; group++) {
        const float *w = (const float *)from + group * f.c_out * stride[0];
        float *packed = (float *)to + group * f.panels * panel;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t at = cm_conv_tap_offset(p, tap);
            if (f.last) {
                g->pack_b(c_in, f.c_out, w + at, stride[1], stride[0], packed + tap * c_in * g->nr,
                          panel);
                continue;
            }
            for (int64_t i = 0; i < c_in; i++)
                g->pack_b(1, f.c_out, w + i * stride[1] + at, 1, stride[0],
                          packed + (i * taps + tap) * g->nr, panel);
        }
    }
}

/* The input rows of lines [line, line + n); NULL: outside. */
static void line_sources(const job *j, const piece *q, int64_t line, int64_t n, const float **to)
{
    const cm_conv *c = j->c;
    int64_t ky = line % c->kernel[1], kz = line / c->kernel[1] % c->kernel[0];
    int64_t plane = q->n;
    if (!j->f.last)
        plane =
            q->n * c->c_in + q->group * (c->c_in / c->groups) + line / c->kernel[1] / c->kernel[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t iz = q->oz * c->stride[0] - c->pad[0] + kz * c->dilation[0];
        int64_t iy = q->oy * c->stride[1] - c->pad[1] + ky * c->dilation[1];
        bool inside = iz >= 0 && iz < c->in[0] && iy >= 0 && iy < c->in[1];
        int64_t row = (plane * c->in[0] + iz) * c->in[1] + iy;
        to[i] = inside ? j->x + row * c->in[2] * j->f.elems : NULL;
        if (++ky < c->kernel[1])
            continue;
        ky = 0;
        if (++kz < c->kernel[0])
            continue;
        kz = 0;
        plane++; /* the next channel; there is none where they are innermost */
    }
}

/* What `count` pixels from column `first` on have of a line, zeros outside the input. */
static void copy_line(const job *j, const float *from, int64_t first, int64_t count, float *to)
{
    int64_t e = j->f.elems, lo = first < 0 ? cm_min_i64(-first, count) : 0;
    int64_t hi = cm_max_i64(lo, cm_min_i64(count, j->c->in[2] - first));
    if (!from)
        lo = hi = count;
    if (lo > 0)
        memset(to, 0, (size_t)(lo * e) * sizeof *to);
    if (hi > lo)
        memcpy(to + lo * e, from + (first + lo) * e, (size_t)((hi - lo) * e) * sizeof *to);
    if (hi < count)
        memset(to + hi * e, 0, (size_t)((count - hi) * e) * sizeof *to);
}

/* How far behind a line is the one that the next output row has in its place. 0: there is none, or it is not worth asking
 * for: what has many channels is a layer's output, and in the cache. */
static int64_t next_line(const job *j, const piece *q)
{
    enum { FEW = 8 };
    const cm_conv *c = j->c;
    int64_t lowest = (q->oy + 1) * c->stride[1] - c->pad[1] + (c->kernel[1] - 1) * c->dilation[1];
    bool asks = lowest < c->in[1] && j->f.elems < FEW;
    return asks ? c->stride[1] * c->in[2] * j->f.elems : 0;
}

/* Asks for what `count` pixels from column `first` on will have of a line. */
static void ask_line(const job *j, const float *line, int64_t first, int64_t count)
{
    enum { FLOATS = 16 };
    int64_t last = cm_min_i64(first + count, j->c->in[2]) * j->f.elems;
    for (int64_t i = cm_max_i64(first, 0) * j->f.elems; i < last; i += FLOATS)
        __builtin_prefetch(line + i, 0, 2);
}

/* Pixels [at, at + m) of the piece, lines [first, first + n) whose rows of the input are `source`. More than
 * a tile is a strip: whole tiles that lie inside, and all lines. */
static void tile(const job *j, const piece *q, const float *const *source, int64_t first, int64_t n,
                 int64_t at, int64_t m, float *buffer)
{
    const cm_conv *c = j->c;
    const form *f = &j->f;
    const float *runs[RUNS];
    int64_t per_line = f->runs / f->lines, column = (q->ox + at) * c->stride[2] - c->pad[2];
    int64_t count = (m - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1;
    int64_t next = next_line(j, q);
    bool asks = m > j->g->mr && f->c_out >= j->g->nr; /* the strip does, as it goes */
    bool inside = column >= 0 && column + count <= c->in[2];
    for (int64_t i = 0; i < n; i++) {
        const float *from = buffer + i * f->ld;
        if (inside && source[i])
            from = source[i] + column * f->elems;
        else
            copy_line(j, source[i], column, count, buffer + i * f->ld);
        if (!asks && source[i] && next && (first + i) % c->kernel[1] >= c->kernel[1] - c->stride[1])
            ask_line(j, source[i] + next, column, count);
        for (int64_t kx = 0; kx < per_line; kx++)
            runs[i * per_line + kx] = from + kx * c->dilation[2] * f->elems;
    }
    bool last = first + n == f->lines;
    int64_t row = ((q->n * c->out[0] + q->oz) * c->out[1] + q->oy) * c->out[2] + q->ox + at;
    int64_t nr = j->g->nr, panel = f->runs * f->k * nr;
    for (int64_t i = 0; i < f->panels; i++) {
        int64_t col = q->group * f->c_out + i * nr, left = f->c_out - i * nr;
        cm_gemm_tile t = {.runs = n * per_line,
                          .k = f->k,
                          .rows = runs,
                          .rows_apart = c->stride[2] * f->elems,
                          .tiles = m / j->g->mr,
                          .runs_ahead = asks && i == 0 ? next : 0,
                          .b = j->w + (q->group * f->panels + i) * panel +
                               first * per_line * f->k * nr,
                          .ldb = nr,
                          .c = j->y + row * c->c_out + col,
                          .ldc = c->c_out,
                          .n = (int)cm_min_i64(left, nr),
                          .alpha = 1,
                          .add = first > 0,
                          .e = last ? &j->sink->e : NULL,
                          .row = row,
                          .col = col};
        (m > j->g->mr ? j->g->strip : j->g->lined[m])(&t);
        if (last && !j->sink->simple)
            cm_epilogue_tile(&j->sink->plan, row, col, m, t.n, t.c, t.ldc);
    }
}

/* How many whole tiles from pixel `at` on can be a strip: none where lines are looked at in parts, lie outside
 * the input, or the tiles do; and not so many that few pixels are left. */
static int64_t strip_tiles(const job *j, const piece *q, const float *const *source, int64_t at)
{
    const cm_conv *c = j->c;
    const form *f = &j->f;
    if (f->chunk < f->lines || f->c_out % j->g->strip_step || f->runs * f->k == 0)
        return 0;
    for (int64_t i = 0; i < f->lines; i++)
        if (!source[i])
            return 0;
    int64_t mr = j->g->mr, reach = (c->kernel[2] - 1) * c->dilation[2];
    int64_t inside = (c->in[2] - 1 + c->pad[2] - reach) / c->stride[2] + 1 - q->ox;
    int64_t tiles = (cm_min_i64(inside, q->pixels) - at) / mr;
    int64_t rest = q->pixels - at - tiles * mr;
    tiles -= rest > 0 && rest < mr / 2;
    return tiles > 1 ? tiles : 0;
}

static void one_piece(const job *j, const piece *q, float *buffer)
{
    const form *f = &j->f;
    const float *source[RUNS];
    int64_t mr = j->g->mr;
    for (int64_t line = 0, n; line < f->lines; line += n) {
        n = cm_min_i64(f->chunk, f->lines - line);
        line_sources(j, q, line, n, source);
        int64_t at = q->ox == 0 && j->c->pad[2] > 0 ? cm_min_i64(mr, q->pixels) : 0;
        int64_t strip = strip_tiles(j, q, source, at) * mr;
        at = strip ? at : 0;
        if (at)
            tile(j, q, source, line, n, 0, at, buffer);
        if (strip)
            tile(j, q, source, line, n, at, strip, buffer);
        at += strip;
        int64_t left = q->pixels - at, tiles = cm_gemm_tiles(left, j->g->mr);
        for (int64_t t = 0; t < tiles; t++) {
            int64_t i = cm_gemm_tile_begin(left, tiles, t);
            int64_t m = cm_gemm_tile_begin(left, tiles, t + 1) - i;
            tile(j, q, source, line, n, at + i, m, buffer);
        }
    }
}

static void some_slots(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    for (int64_t s = begin; s < end; s++) {
        int64_t last = (s + 1) * j->units / j->slots;
        for (int64_t u = s * j->units / j->slots; u < last; u++) {
            int64_t x = u % j->f.pieces * j->f.piece, rest = u / j->f.pieces;
            int64_t row = j->first + rest % j->rows;
            piece q = {.ox = x,
                       .pixels = cm_min_i64(j->f.piece, c->out[2] - x),
                       .oy = row % c->out[1],
                       .oz = row / c->out[1] % c->out[0],
                       .n = row / c->out[1] / c->out[0],
                       .group = rest / j->rows};
            one_piece(j, &q, j->buffers + s * j->f.chunk * j->f.ld);
        }
    }
}

cm_status cm_cpu_conv_lines_f32_run(const cm_run *r)
{
    cm_cpu_conv_lines_f32_band(r, 0, cm_conv_rows(&r->p->as.conv));
    return CM_OK;
}

void cm_cpu_conv_lines_f32_band(const cm_run *r, int64_t begin, int64_t end)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    char *space = r->workspace;
    cm_conv_sink sink;
    job j = {.c = c,
             .g = cm_gemm_f32_kernel_of(p->target.level),
             .f = form_of(p),
             .x = r->in[0],
             .w = r->in[1],
             .y = r->out[0],
             .sink = &sink,
             .buffers = (float *)(space + bias_bytes(c)),
             .first = begin,
             .rows = end - begin};
    int64_t threads = cm_min_i64(p->threads > 1 ? p->threads : 1, cm_threads_count(r->threads));
    cm_conv_sink_init(&sink, r, (float *)space);
    if (cm_conv_packs_in_run(p)) {
        size_t slots = SLOTS * (p->threads > 1 ? (size_t)p->threads : 1);
        float *packed = j.buffers + slots * buffer_bytes(&j.f) / sizeof *packed;
        cm_cpu_conv_lines_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    j.units = c->groups * j.rows * j.f.pieces;
    double share = (double)j.rows / (double)cm_conv_rows(c);
    double ns = cm_conv_ns(p) * share;
    j.slots = cm_conv_slots(ns, cm_min_i64(threads > 1 ? SLOTS * threads : 1, j.units));
    cm_conv_parallel(r, ns, j.slots, some_slots, &j);
}
