/* conv_transposed.c -- transposed convolutions, each output pixel gathering the inputs that reach it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels-last. Along an axis, output position o takes kernel position k from input (o + pad - k * dilation) /
 * stride where that is whole: positions of equal (o + pad) mod stride, a *class*, take the same kernel positions.
 * The pixels of a class are the rows of a product, as in conv_indirect.c; they lie `stride` pixels apart in
 * the output. Kernel positions are packed class by class, so that those of one are adjacent:
 * panels of [kernel positions by class][input channel][columns of the tile], per group.
 *
 * A unit of work is a few output rows of one class, a piece of them along the last axis, all its classes. */
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

enum {
    POINTERS = 1536, /* on the stack */
    TAPS = POINTERS / CM_GEMM_MAX_MR,
    ROWS = 16,  /* of a unit at most */
    PIECE = 256 /* pixels of a piece, about */
};

typedef struct {
    const cm_conv *c;
    const cm_gemm_f32_kernel *g;
    const float *x, *w, *zero;
    float *y;
    cm_conv_sink sink;
    int64_t c_in, c_out, panels, panel; /* of one group; floats of a panel */
    int64_t rows, blocks;               /* rows of a unit; units of a class of rows */
    int64_t piece, pieces;              /* along the last axis: whole strides */
} job;

/* Output rows (n, oz, oy + i * stride) for i < rows, pixels [begin, end), in one group. */
typedef struct {
    int64_t group, n, oz, oy, rows, begin, end;
} unit;

static int64_t class_of(const cm_conv *c, int d, int64_t o)
{
    return (o + c->pad[d]) % c->stride[d];
}

static bool in_class(const cm_conv *c, int d, int64_t class, int64_t k)
{
    return k * c->dilation[d] % c->stride[d] == class;
}

/* Kernel positions of axis d in classes [first, last). */
static int64_t count(const cm_conv *c, int d, int64_t first, int64_t last)
{
    int64_t n = 0;
    for (int64_t k = 0; k < c->kernel[d]; k++) {
        int64_t class = k * c->dilation[d] % c->stride[d];
        n += class >= first && class < last;
    }
    return n;
}

/* Where the positions of a class of all three axes begin in a panel, and how many there are. */
static int64_t class_begin(const cm_conv *c, const int64_t *class, int64_t *n)
{
    int64_t own[3], before[3];
    for (int d = 0; d < 3; d++) {
        own[d] = count(c, d, class[d], class[d] + 1);
        before[d] = count(c, d, 0, class[d]);
    }
    *n = own[0] * own[1] * own[2];
    return before[0] * c->kernel[1] * c->kernel[2] + own[0] * before[1] * c->kernel[2] +
           own[0] * own[1] * before[2];
}

const char *cm_cpu_conv_transposed_f32_reject(const cm_problem *p)
{
    if (!p->as.conv.transposed)
        return "not transposed";
    return cm_conv_reject_channels_last(p);
}

double cm_cpu_conv_transposed_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    double whole = cm_conv_columns(g->nr, c->c_out / c->groups);
    double flops = cm_conv_flops(c) * whole * (1 + 2.0 * (double)c->groups / (double)c->c_in);
    double compute = flops / (0.9 * cm_cpu_flops_per_ns(&p->target));
    double memory = cm_conv_bytes(p) / (2 * cm_cpu_bytes_per_ns(&p->target));
    return 500 +
           cm_conv_shared(p, compute + memory, cm_conv_ns(p), (double)cm_conv_pixels(c) / g->mr);
}

size_t cm_cpu_conv_transposed_f32_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    int nr = cm_gemm_f32_kernel_of(p->target.level)->nr;
    if (input != 1)
        return 0;
    return (size_t)(cm_conv_taps(c) * c->c_in * cm_ceil_div(c->c_out / c->groups, nr) * nr) *
           sizeof(float);
}

static size_t zero_and_bias(const cm_conv *c)
{
    return cm_round_up((size_t)(c->c_in / c->groups + c->c_out) * sizeof(float), 64);
}

size_t cm_cpu_conv_transposed_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    return zero_and_bias(&p->as.conv) +
           (cm_conv_packs_in_run(p) ? cm_cpu_conv_transposed_f32_pack_bytes(p, k, 1) : 0);
}

/* The place of kernel position (k[0], k[1], k[2]) in a panel. */
static int64_t place_of(const cm_conv *c, const int64_t *k)
{
    int64_t class[3], own[3], rank[3], n;
    for (int d = 0; d < 3; d++) {
        class[d] = k[d] * c->dilation[d] % c->stride[d];
        own[d] = count(c, d, class[d], class[d] + 1);
        rank[d] = 0;
        for (int64_t i = 0; i < k[d]; i++)
            rank[d] += in_class(c, d, class[d], i);
    }
    return class_begin(c, class, &n) + (rank[0] * own[1] + rank[1]) * own[2] + rank[2];
}

void cm_cpu_conv_transposed_f32_pack(const cm_problem *p, const cm_knobs *k, int input,
                                     const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    const int64_t *stride = p->in[1]->strides;
    int64_t taps = cm_conv_taps(c), c_in = c->c_in / c->groups, c_out = c->c_out / c->groups;
    int64_t panel = taps * c_in * g->nr, panels = cm_ceil_div(c_out, g->nr);
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t at[3] = {tap / c->kernel[2] / c->kernel[1], tap / c->kernel[2] % c->kernel[1],
                         tap % c->kernel[2]};
        int64_t place = place_of(c, at), offset = cm_conv_tap_offset(p, tap);
        for (int64_t group = 0; group < c->groups; group++)
            g->pack_b(c_in, c_out, (const float *)from + group * c_in * stride[0] + offset,
                      stride[0], stride[1],
                      (float *)to + group * panels * panel + place * c_in * g->nr, panel);
    }
}

/* Input position along axis d of output o and kernel position k of its class; -1: outside. */
static int64_t source(const cm_conv *c, int d, int64_t o, int64_t k)
{
    int64_t at = o + c->pad[d] - k * c->dilation[d];
    return at >= 0 && at / c->stride[d] < c->in[d] ? at / c->stride[d] : -1;
}

/* Pointers of the class's kernel positions [skip, skip + TAPS) for m pixels from (oz, oy, ox), a stride
 * apart; returns how many positions. */
static int64_t find_rows(const job *j, const unit *u, int64_t oy, int64_t ox, int64_t m,
                         const int64_t *class, int64_t skip, const float **to)
{
    const cm_conv *c = j->c;
    int64_t seen = 0, found = 0;
    for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
        if (!in_class(c, 0, class[0], kz))
            continue;
        int64_t iz = source(c, 0, u->oz, kz);
        for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
            if (!in_class(c, 1, class[1], ky))
                continue;
            int64_t iy = source(c, 1, oy, ky);
            const float *row = j->x + u->group * j->c_in +
                               ((u->n * c->in[0] + iz) * c->in[1] + iy) * c->in[2] * c->c_in;
            for (int64_t kx = 0; kx < c->kernel[2]; kx++) {
                if (!in_class(c, 2, class[2], kx) || seen++ < skip)
                    continue;
                if (found == TAPS)
                    return found;
                for (int64_t i = 0; i < m; i++) {
                    int64_t ix = source(c, 2, ox + i * c->stride[2], kx);
                    to[found * m + i] = iz < 0 || iy < 0 || ix < 0 ? j->zero : row + ix * c->c_in;
                }
                found++;
            }
        }
    }
    return found;
}

/* m pixels from (oy, ox), a stride apart, and one panel. */
static void tile(const job *j, const unit *u, int64_t oy, int64_t ox, int64_t m, int64_t panel)
{
    const cm_conv *c = j->c;
    const float *rows[POINTERS];
    int64_t class[3] = {class_of(c, 0, u->oz), class_of(c, 1, oy), class_of(c, 2, ox)}, n;
    int64_t begin = class_begin(c, class, &n), nr = j->g->nr, done = 0;
    int64_t pixel = ((u->n * c->out[0] + u->oz) * c->out[1] + oy) * c->out[2] + ox;
    int64_t col = u->group * j->c_out + panel * nr;
    cm_simple_epilogue e = j->sink.e;
    if (e.residual) {
        e.residual += pixel * e.residual_ld;
        e.residual_ld *= c->stride[2];
    }
    cm_gemm_tile t = {.k = j->c_in,
                      .rows = rows,
                      .rows_step = m,
                      .ldb = nr,
                      .c = j->y + pixel * c->c_out + col,
                      .ldc = c->stride[2] * c->c_out,
                      .n = (int)cm_min_i64(nr, j->c_out - panel * nr),
                      .alpha = 1,
                      .col = col};
    do {
        t.runs = find_rows(j, u, oy, ox, m, class, done, rows);
        t.b = j->w + (u->group * j->panels + panel) * j->panel + (begin + done) * j->c_in * nr;
        t.add = done > 0;
        done += t.runs;
        t.e = done == n ? &e : NULL;
        j->g->rows[m](&t);
    } while (done < n);
}

static void one_unit(const job *j, const unit *u)
{
    const cm_conv *c = j->c;
    int64_t stride = c->stride[2], nr = j->g->nr;
    for (int64_t panel = 0; panel < j->panels; panel++) {
        for (int64_t i = 0; i < u->rows; i++) {
            int64_t oy = u->oy + i * c->stride[1];
            for (int64_t ox = u->begin; ox < cm_min_i64(u->begin + stride, u->end); ox++) {
                int64_t pixels = cm_ceil_div(u->end - ox, stride);
                int64_t tiles = cm_gemm_tiles(pixels, j->g->mr);
                for (int64_t q = 0; q < tiles; q++) {
                    int64_t at = cm_gemm_tile_begin(pixels, tiles, q);
                    int64_t m = cm_gemm_tile_begin(pixels, tiles, q + 1) - at;
                    tile(j, u, oy, ox + at * stride, m, panel);
                }
            }
            if (j->sink.simple)
                continue;
            int64_t row = ((u->n * c->out[0] + u->oz) * c->out[1] + oy) * c->out[2] + u->begin;
            int64_t col = u->group * j->c_out + panel * nr;
            cm_epilogue_tile(&j->sink.plan, row, col, u->end - u->begin,
                             cm_min_i64(nr, j->c_out - panel * nr), j->y + row * c->c_out + col,
                             c->c_out);
        }
    }
}

static void some_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    for (int64_t i = begin; i < end; i++) {
        int64_t x = i % j->pieces * j->piece, rest = i / j->pieces;
        int64_t class = rest % c->stride[1], block = rest / c->stride[1] % j->blocks;
        rest = rest / c->stride[1] / j->blocks;
        unit u = {.begin = x,
                  .end = cm_min_i64(x + j->piece, c->out[2]),
                  .oy = class + block * j->rows * c->stride[1],
                  .oz = rest % c->out[0],
                  .n = rest / c->out[0] % c->n,
                  .group = rest / c->out[0] / c->n};
        int64_t left = c->out[1] > u.oy ? cm_ceil_div(c->out[1] - u.oy, c->stride[1]) : 0;
        u.rows = cm_min_i64(j->rows, left);
        one_unit(j, &u);
    }
}

cm_status cm_cpu_conv_transposed_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    job j = {.c = c,
             .g = cm_gemm_f32_kernel_of(p->target.level),
             .x = r->in[0],
             .w = r->in[1],
             .zero = r->workspace,
             .y = r->out[0],
             .c_in = c->c_in / c->groups,
             .c_out = c->c_out / c->groups};
    j.panels = cm_ceil_div(j.c_out, j.g->nr);
    j.panel = cm_conv_taps(c) * j.c_in * j.g->nr;
    float *zero = r->workspace;
    memset(zero, 0, (size_t)j.c_in * sizeof *zero);
    cm_conv_sink_init(&j.sink, r, zero + j.c_in);
    if (cm_conv_packs_in_run(p)) {
        float *packed = zero + zero_and_bias(c) / sizeof *zero;
        cm_cpu_conv_transposed_f32_pack(p, r->k, 1, r->in[1], packed, r->threads);
        j.w = packed;
    }
    int64_t threads = cm_threads_count(r->threads),
            per_class = cm_ceil_div(c->out[1], c->stride[1]);
    j.rows = cm_min_i64(ROWS, threads > 1 ? cm_ceil_div(per_class, 2 * threads) : per_class);
    j.blocks = cm_ceil_div(per_class, j.rows);
    j.piece = cm_ceil_div(PIECE, c->stride[2]) * c->stride[2];
    j.pieces = cm_ceil_div(c->out[2], j.piece);
    int64_t units = c->n * c->groups * c->out[0] * c->stride[1] * j.blocks * j.pieces;
    cm_conv_parallel(r, cm_conv_ns(p), units, some_units, &j);
    return CM_OK;
}
