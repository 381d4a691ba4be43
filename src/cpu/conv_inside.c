/* conv_inside.c -- convolutions much of whose windows lies in the padding: nothing is multiplied there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Along each axis the kernel positions that see the image are a range, and the same range for outputs side by side: the
 * axis is cut into spans of these. What spans of all axes cut out of the output is a region, whose pixels all have the same
 * kernel positions inside:
 *
 *     14 pixels, 3 positions 12 apart:   0 1 | 2 ... 11 | 12 13      spans
 *                                        1 2 |    1     | 0 1        positions inside
 *
 * so of 9 * 196 products of a 14x14 image 324 are left. Sums are made region by region, tiles of adjacent rows in
 * an order of their own, then brought where they belong and finished. Channels-last; weights as conv_indirect.c packs
 * them. Pixels that would meet in one set of the first-level cache are first copied further apart. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

enum { AXES = 3, LONGEST = 4096, MOST_SPANS = 16, MOST_REGIONS = 128, APART = 16 };
static const double MOST_INSIDE =
    0.7; /* of all products; with more, an order of one's own does not pay */

typedef struct {
    int64_t begin, end;  /* outputs */
    int64_t first, last; /* kernel positions that they see */
} span;

typedef struct {
    span at[AXES];
    int64_t row;   /* of the sums, where its own begin */
    int64_t tiles; /* of this one and all before it */
} region;

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w;
    float *copy, *sums, *y;
    const cm_conv_sink *sink;
    int64_t pitch;                /* from pixel to pixel of x */
    int64_t taps, c_in, c_out;    /* channels of one group */
    int64_t panels, panel, tiles; /* of one group; floats of one; tiles of all regions */
    int n_spans[AXES], n_regions;
    span spans[AXES][MOST_SPANS];
    region regions[MOST_REGIONS];
} job;

/* The kernel positions that output o sees along axis d: `first` to `last`. */
static span seen_by(const cm_conv *c, int d, int64_t o)
{
    int64_t at = o * c->stride[d] - c->pad[d], step = c->dilation[d];
    int64_t first = at < 0 ? cm_ceil_div(-at, step) : 0;
    int64_t last = at < c->in[d] ? cm_ceil_div(c->in[d] - at, step) : 0;
    last = cm_min_i64(last, c->kernel[d]);
    return (span){o, o + 1, cm_min_i64(first, last), last};
}

static int64_t size_of(const span *s)
{
    return s->end - s->begin;
}
static int64_t seen(const span *s)
{
    return s->last - s->first;
}

/* 0: there are too many, or the axis is so long that most of it sees everything. */
static int find_spans(const cm_conv *c, int d, span *out)
{
    int n = 0;
    if (c->out[d] > LONGEST)
        return 0;
    for (int64_t o = 0; o < c->out[d]; o++) {
        span s = seen_by(c, d, o);
        if (n > 0 && s.first == out[n - 1].first && s.last == out[n - 1].last) {
            out[n - 1].end = s.end;
            continue;
        }
        if (n == MOST_SPANS)
            return 0;
        out[n++] = s;
    }
    return n;
}

static void add_region(job *j, const span *z, const span *y, const span *x)
{
    region *r = &j->regions[j->n_regions];
    const region *before = j->n_regions++ > 0 ? r - 1 : NULL;
    int64_t pixels = j->c->n * size_of(z) * size_of(y) * size_of(x);
    *r = (region){.at = {*z, *y, *x}};
    if (before)
        r->row = before->row + j->c->n * size_of(&before->at[0]) * size_of(&before->at[1]) *
                                   size_of(&before->at[2]);
    r->tiles = (before ? before->tiles : 0) + cm_gemm_tiles(pixels, j->g->mr);
}

/* False: not in so few regions. */
static bool divide(const cm_problem *p, job *j)
{
    const cm_conv *c = &p->as.conv;
    *j = (job){.c = c, .g = cm_gemm_f32_kernel_of(p->target.level)};
    int64_t regions = 1;
    for (int d = 0; d < AXES; d++)
        regions *= j->n_spans[d] = find_spans(c, d, j->spans[d]);
    if (regions == 0 || regions > MOST_REGIONS)
        return false;
    for (int z = 0; z < j->n_spans[0]; z++)
        for (int y = 0; y < j->n_spans[1]; y++)
            for (int x = 0; x < j->n_spans[2]; x++)
                add_region(j, &j->spans[0][z], &j->spans[1][y], &j->spans[2][x]);
    j->tiles = j->regions[j->n_regions - 1].tiles;
    return true;
}

/* Of all products, those that see the image. */
static double share_inside(const job *j)
{
    double share = 1;
    for (int d = 0; d < AXES; d++) {
        int64_t positions = 0;
        for (int i = 0; i < j->n_spans[d]; i++)
            positions += size_of(&j->spans[d][i]) * seen(&j->spans[d][i]);
        share *= (double)positions / (double)(j->c->out[d] * j->c->kernel[d]);
    }
    return share;
}

const char *cm_cpu_conv_inside_f32_reject(const cm_problem *p)
{
    job j;
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    const char *why = cm_conv_reject_channels_last(p);
    if (why)
        return why;
    if (cm_conv_packs_in_run(p))
        return "weights are not constant";
    if (cm_conv_taps(c) == 1 || cm_conv_pixels(c) == 0)
        return "there is no padding";
    if (!divide(p, &j))
        return "outputs are many, or see too many different parts of the kernel";
    return share_inside(&j) > MOST_INSIDE ? "most of the windows lies in the image" : NULL;
}

static int64_t pitch_of(const cm_conv *c)
{
    return cm_conv_pixels_meet(c) ? c->c_in + APART : c->c_in;
}

/* Tiles that are not full take as long as if they were. */
double cm_cpu_conv_inside_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    job j;
    const cm_conv *c = &p->as.conv;
    if (!divide(p, &j))
        return 1e30;
    double rows = 0, c_in = (double)(c->c_in / c->groups), before = 0;
    for (int i = 0; i < j.n_regions; i++) {
        const span *at = j.regions[i].at;
        rows += ((double)j.regions[i].tiles - before) * j.g->mr *
                (double)(seen(&at[0]) * seen(&at[1]) * seen(&at[2]));
        before = (double)j.regions[i].tiles;
    }
    double share = rows / (double)(cm_conv_taps(c) * cm_conv_pixels(c));
    double flops = cm_conv_flops(c) * share * cm_conv_columns(j.g->nr, c->c_out / c->groups);
    double compute = flops * (1 + 4 / c_in) / (0.85 * cm_cpu_flops_per_ns(&p->target));
    double sums = (double)cm_tensor_elems(p->out[0]) * 0.5;
    double copy = cm_conv_pixels_meet(c) ? (double)cm_tensor_elems(p->in[0]) * 0.3 : 0;
    double memory = cm_conv_bytes(p) / (4 * cm_cpu_bytes_per_ns(&p->target));
    return 500 + cm_conv_shared(p, compute + memory + sums + copy, cm_conv_ns(p) * share,
                                (double)(j.tiles * cm_ceil_div(c->c_out / c->groups, j.g->nr)));
}

static size_t floats_of(int64_t n)
{
    return cm_round_up((size_t)n * sizeof(float), 64);
}

static int64_t pixels_in(const cm_conv *c)
{
    return c->n * c->in[0] * c->in[1] * c->in[2];
}

/* A bias, the input further apart, the sums. */
size_t cm_cpu_conv_inside_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    return floats_of(c->c_out) +
           floats_of(cm_conv_pixels_meet(c) ? pixels_in(c) * pitch_of(c) : 0) +
           floats_of(cm_conv_pixels(c) * c->c_out);
}

static void copy_pixels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++)
        memcpy(j->copy + i * j->pitch, j->x + i * j->c->c_in, (size_t)j->c->c_in * sizeof *j->copy);
}

/* Where output pixel i of a region sees the first of its kernel positions. */
static const float *first_seen(const job *j, const region *r, int64_t i)
{
    const cm_conv *c = j->c;
    int64_t at = 0, o[AXES];
    for (int d = AXES - 1; d >= 0; d--) {
        o[d] = r->at[d].begin + i % size_of(&r->at[d]);
        i /= size_of(&r->at[d]);
    }
    at = i; /* the image */
    for (int d = 0; d < AXES; d++)
        at = at * c->in[d] + o[d] * c->stride[d] - c->pad[d] + r->at[d].first * c->dilation[d];
    return j->x + at * j->pitch;
}

/* The kernel positions of row (z, y) of the kernel, for the m pixels that `rows` say where they see the first. */
static void add_kernel_row(const job *j, const region *r, cm_gemm_tile *t, int64_t m,
                           const float *const *seen_first, int64_t z, int64_t y)
{
    const cm_conv *c = j->c;
    const float *rows[CM_GEMM_MAX_MR];
    const float *b = t->b;
    for (int64_t x = r->at[2].first; x < r->at[2].last; x++) {
        int64_t pixels = ((z - r->at[0].first) * c->dilation[0] * c->in[1] +
                          (y - r->at[1].first) * c->dilation[1]) *
                             c->in[2] +
                         (x - r->at[2].first) * c->dilation[2];
        for (int64_t i = 0; i < m; i++)
            rows[i] = seen_first[i] + pixels * j->pitch;
        t->rows = rows;
        t->b = b + ((z * c->kernel[1] + y) * c->kernel[2] + x) * j->c_in * j->g->nr;
        j->g->rows[m](t);
        t->add = true;
    }
    t->b = b;
}

/* Pixels [begin, begin + m) of a region by one panel of a group. */
static void one_tile(const job *j, const region *r, int64_t begin, int64_t m, int64_t group,
                     int64_t panel)
{
    const float *seen_first[CM_GEMM_MAX_MR];
    int nr = j->g->nr;
    int64_t col = panel * nr, left = j->c_out - col;
    cm_gemm_tile t = {.runs = 1,
                      .k = j->c_in,
                      .b = j->w + (group * j->panels + panel) * j->panel,
                      .ldb = nr,
                      .c = j->sums + (r->row + begin) * j->c->c_out + group * j->c_out + col,
                      .ldc = j->c->c_out,
                      .n = (int)(left < nr ? left : nr),
                      .alpha = 1};
    for (int64_t i = 0; i < m; i++)
        seen_first[i] = first_seen(j, r, begin + i) + group * j->c_in;
    for (int64_t z = r->at[0].first; z < r->at[0].last; z++)
        for (int64_t y = r->at[1].first; y < r->at[1].last; y++)
            add_kernel_row(j, r, &t, m, seen_first, z, y);
    if (!t.add) { /* it sees nothing */
        t.runs = 0;
        j->g->rows[m](&t);
    }
}

/* A unit is a tile by a panel; those of a panel follow each other, and its weights stay near. */
static void some_tiles(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t panel = unit / j->tiles, tile = unit % j->tiles, before = 0;
        const region *r = j->regions;
        for (; r->tiles <= tile; r++)
            before = r->tiles;
        int64_t pixels = j->c->n * size_of(&r->at[0]) * size_of(&r->at[1]) * size_of(&r->at[2]);
        int64_t tiles = r->tiles - before;
        int64_t first = cm_gemm_tile_begin(pixels, tiles, tile - before);
        int64_t m = cm_gemm_tile_begin(pixels, tiles, tile - before + 1) - first;
        one_tile(j, r, first, m, panel / j->panels, panel % j->panels);
    }
}

static int span_of(const job *j, int d, int64_t o)
{
    int i = 0;
    while (o >= j->spans[d][i].end)
        i++;
    return i;
}

/* The sums of a row of the output, in order. */
static void bring_row(const job *j, int64_t row)
{
    const cm_conv *c = j->c;
    int64_t y = row % c->out[1], z = row / c->out[1] % c->out[0], n = row / c->out[1] / c->out[0];
    int at_z = span_of(j, 0, z), at_y = span_of(j, 1, y);
    const region *r = &j->regions[(at_z * j->n_spans[1] + at_y) * j->n_spans[2]];
    for (int i = 0; i < j->n_spans[2]; i++, r++) {
        const span *s = r->at;
        int64_t from = ((n * size_of(&s[0]) + z - s[0].begin) * size_of(&s[1]) + y - s[1].begin) *
                       size_of(&s[2]);
        memcpy(j->y + (row * c->out[2] + s[2].begin) * c->c_out,
               j->sums + (r->row + from) * c->c_out,
               (size_t)(size_of(&s[2]) * c->c_out) * sizeof *j->y);
    }
}

/* Bias and epilogue of what lies in y, as of products that have nothing to add. */
static void finish_row(const job *j, int64_t row)
{
    const cm_conv *c = j->c;
    int64_t mr = j->g->mr, begin = row * c->out[2];
    for (int64_t pixel = begin, m; pixel < begin + c->out[2]; pixel += m) {
        m = cm_min_i64(begin + c->out[2] - pixel, mr);
        for (int64_t col = 0; col < c->c_out; col += j->g->nr) {
            cm_gemm_tile t = {.c = j->y + pixel * c->c_out + col,
                              .ldc = c->c_out,
                              .n = (int)cm_min_i64(c->c_out - col, j->g->nr),
                              .alpha = 1,
                              .add = true,
                              .near = true,
                              .e = &j->sink->e,
                              .row = pixel,
                              .col = col};
            j->g->rows[m](&t);
        }
    }
    if (!j->sink->simple)
        cm_epilogue_tile(&j->sink->plan, begin, 0, c->out[2], c->c_out, j->y + begin * c->c_out,
                         c->c_out);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        bring_row(arg, row);
        finish_row(arg, row);
    }
}

cm_status cm_cpu_conv_inside_f32_run(const cm_run *r)
{
    job j;
    cm_conv_sink sink;
    const cm_conv *c = &r->p->as.conv;
    char *work = r->workspace;
    (void)divide(r->p, &j); /* it did when it was chosen */
    cm_conv_sink_init(&sink, r, (float *)work);
    work += floats_of(c->c_out);
    j.sink = &sink;
    j.x = r->in[0];
    j.w = r->in[1];
    j.y = r->out[0];
    j.taps = cm_conv_taps(c);
    j.c_in = c->c_in / c->groups;
    j.c_out = c->c_out / c->groups;
    j.panels = cm_ceil_div(j.c_out, j.g->nr);
    j.panel = j.taps * j.c_in * j.g->nr;
    j.pitch = pitch_of(c);
    if (cm_conv_pixels_meet(c)) {
        j.copy = (float *)work;
        work += floats_of(pixels_in(c) * j.pitch);
        cm_conv_parallel(r, (double)(pixels_in(c) * c->c_in) * 0.3, pixels_in(c), copy_pixels, &j);
        j.x = j.copy;
    }
    j.sums = (float *)work;
    cm_conv_parallel(r, cm_conv_ns(r->p) * share_inside(&j), j.tiles * j.panels * c->groups,
                     some_tiles, &j);
    cm_conv_parallel(r, (double)(cm_conv_pixels(c) * c->c_out) * 0.5, cm_conv_rows(c), some_rows,
                     &j);
    return CM_OK;
}
