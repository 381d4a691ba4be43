/* conv_winograd.c -- 3x3 convolutions of stride 1 by Winograd's F(m x m, 3 x 3).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of all images are numbered in order and cut into blocks. A block's transformed inputs (V) and the
 * products of a group of output channels (M) stay in L2 while all positions are multiplied; the output's
 * transform and the epilogue take M to its place. Where tiles are few and channels many, the weights'
 * traffic is what counts: then V is made once for all (`shared`) and threads divide output channels. Large
 * weights may be kept as they are (`raw`) and transformed in pieces of L2's size in every run, which takes
 * less memory and, where there are many threads to share its bandwidth, less time. */
#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/conv_winograd_pairs.h"
#include "cpu/epilogue.h"
#include "cpu/pairs.h"

static const char *reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != 1)
        return "Winograd is for plain convolutions in one group";
    for (int d = 0; d < 3; d++)
        if (c->stride[d] != 1 || c->dilation[d] != 1 || c->kernel[d] != (d == 0 ? 1 : 3))
            return "Winograd is for 3x3 kernels with stride 1 and dilation 1";
    if (c->in[0] != c->out[0] || c->pad[0] != 0)
        return "Winograd does not pad the depth of a volume";
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32 || p->out[0]->dtype != CM_F32)
        return "Winograd computes in float32 from and to float32";
    if (!p->constant[1] || !cm_tensor_is_dense(p->in[1]))
        return "Winograd packs weights ahead of time, so they must be constant and dense";
    if (!(cm_conv_layout_of(p->in[0]) & CM_CONV_CHANNELS_LAST) ||
        !(cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST) || p->out[0]->strides[1] != 1)
        return "Winograd wants input and output channels-last";
    if (c->bias && (p->in[2]->dtype != CM_F32 || p->in[2]->strides[0] != 1))
        return "the bias is not plain float32";
    return cm_epilogue_reject(p, cm_conv_channel_columns(p->out[0]));
}

static size_t workspace(const cm_problem *p, const cm_knobs *k, int m)
{
    cm_winograd_plan g = cm_winograd_plan_of(p, k, m);
    size_t v = cm_winograd_v(&g) * (g.shared ? 1 : (size_t)g.threads);
    size_t own = cm_winograd_m(&g) + cm_winograd_u(&g);
    return (v + own * (size_t)g.threads) * sizeof(float);
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input, int m)
{
    if (input != 1)
        return 0;
    cm_winograd_plan g = cm_winograd_plan_of(p, k, m);
    return cm_winograd_packed(&g) * sizeof(float);
}

enum { PACK_CHANNELS = 64 }; /* input channels in a piece of packing */

typedef struct packing {
    cm_winograd_plan g;
    const float *from;
    float *to;
} packing;

/* Input channels [c, c + n) of a panel, transformed. */
static void pack_transformed(const packing *a, int64_t panel, int64_t c, int64_t n)
{
    const cm_winograd_plan *g = &a->g;
    const int64_t nr = g->product->nr;
    const int width = g->kernels->width;
    float *u = a->to + panel * g->positions * g->u_panel + c * nr;
    if (g->pairs) /* behind what follows the parts before */
        u += c / g->part * cm_pairs_panel(0);
    for (int64_t o = 0; o < nr; o += width) {
        int64_t out = panel * nr + o;
        cm_winograd_weights w = {.w = a->from + (cm_min_i64(out, g->c_out - 1) * g->c_in + c) * 9,
                                 .stride = g->c_in * 9,
                                 .c = n,
                                 .n = (int)cm_max_i64(0, cm_min_i64(width, g->c_out - out)),
                                 .u = u + o,
                                 .row = nr,
                                 .position = g->u_panel};
        g->kernels->weights[g->form](&w);
    }
}

/* The same as they are: [c][9][nr]. */
static void pack_raw(const packing *a, int64_t panel, int64_t c, int64_t n)
{
    const cm_winograd_plan *g = &a->g;
    const int64_t nr = g->product->nr;
    float *to = a->to + (panel * g->c_in + c) * 9 * nr;
    for (int64_t o = 0; o < nr; o++) {
        const int64_t out = panel * nr + o;
        const float *w = a->from + (cm_min_i64(out, g->c_out - 1) * g->c_in + c) * 9;
        for (int64_t i = 0; i < n * 9; i++)
            to[i * nr + o] = out < g->c_out ? w[i] : 0;
    }
}

/* Pairs are packed by parts of sums: columns of one must be seen as a whole. */
static void pack_parts(void *arg, int64_t begin, int64_t end)
{
    const packing *a = arg;
    const cm_winograd_plan *g = &a->g;
    for (int64_t i = begin; i < end; i++) {
        const int64_t panel = i / g->parts, part = i % g->parts, c = part * g->part;
        const int64_t n = cm_min_i64(g->part, g->c_in - c);
        pack_transformed(a, panel, c, n);
        cm_winograd_pairs_pack(g, n, a->to + panel * g->positions * g->u_panel + part * g->u_part);
    }
}

static void pack_pieces(void *arg, int64_t begin, int64_t end)
{
    const packing *a = arg;
    const int64_t chunks = (a->g.c_in + PACK_CHANNELS - 1) / PACK_CHANNELS;
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i % chunks * PACK_CHANNELS;
        (a->g.raw ? pack_raw : pack_transformed)(a, i / chunks, c,
                                                 cm_min_i64(PACK_CHANNELS, a->g.c_in - c));
    }
}

static void pack(const cm_problem *p, const cm_knobs *k, const void *from, void *to,
                 cm_threads *threads, int m)
{
    packing a = {.g = cm_winograd_plan_of(p, k, m), .from = from, .to = to};
    int64_t chunks = (a.g.c_in + PACK_CHANNELS - 1) / PACK_CHANNELS;
    if (a.g.pairs)
        cm_parallel(threads, a.g.panels * a.g.parts, 1, pack_parts, &a);
    else
        cm_parallel(threads, a.g.panels * chunks, 1, pack_pieces, &a);
}

typedef struct job {
    cm_winograd_plan g;
    const cm_run *run;
    cm_epilogue_plan epilogue;
    cm_simple_epilogue simple;
    bool is_simple;
    int64_t items;
} job;

/* Tiles side by side in a row of an image, at most a strip. */
typedef struct strip {
    int64_t image, row, col; /* in tiles */
    int n;
} strip;

static strip strip_at(const cm_winograd_plan *g, int64_t tile, int64_t end)
{
    strip s = {.col = tile % g->tiles_x};
    s.row = tile / g->tiles_x % g->tiles_y;
    s.image = tile / g->tiles_x / g->tiles_y;
    s.n = (int)cm_min_i64(cm_min_i64(g->tiles_x - s.col, end - tile), cm_winograd_strip(g->m));
    return s;
}

/* Tiles [begin, end) to V, tile `begin` to row `at` of it. */
static void transform_input(const job *j, int64_t begin, int64_t end, float *v, int64_t at)
{
    const cm_winograd_plan *g = &j->g;
    const float *x = j->run->in[0];
    for (int64_t tile = begin; tile < end;) {
        strip s = strip_at(g, tile, end);
        int64_t row = at + tile - begin;
        cm_winograd_input a = {.x = x + s.image * g->h * g->w * g->c_in,
                               .h = g->h,
                               .w = g->w,
                               .c = g->c_in,
                               .row = s.row * g->m - g->pad_y,
                               .col = s.col * g->m - g->pad_x,
                               .n = s.n,
                               .v = v + row * g->v_tile,
                               .tile = g->v_tile,
                               .position = g->v_position};
        g->kernels->input[g->form](&a);
        if (g->pairs)
            cm_winograd_pairs_rows(g, row, s.n, v);
        tile += s.n;
    }
}

enum { AHEAD_EVERY = 4 }; /* the tile kernels fetch a row ahead for so many of k */

/* One position: `tiles` rows of V, k channels, times one panel; onto M? Memory at `ahead`, wanted
 * next, is fetched meanwhile (NULL: none). */
static void multiply_position(const cm_winograd_plan *g, int64_t tiles, int64_t k, const float *v,
                              const float *u, bool onto, const float *ahead, float *m)
{
    const cm_gemm_f32_kernel *f = g->product;
    const int64_t cuts = cm_gemm_tiles(tiles, f->mr);
    for (int64_t cut = 0; cut < cuts; cut++) {
        const float *rows[CM_GEMM_MAX_MR];
        int64_t from = cm_gemm_tile_begin(tiles, cuts, cut);
        int64_t count = cm_gemm_tile_begin(tiles, cuts, cut + 1) - from;
        for (int64_t row = 0; row < count; row++)
            rows[row] = v + (from + row) * g->v_tile;
        cm_gemm_tile t = {.runs = 1,
                          .k = k,
                          .rows = rows,
                          .b = u,
                          .ldb = f->nr,
                          .c = m + from * g->m_tile,
                          .ldc = g->m_tile,
                          .n = f->nr,
                          .alpha = 1,
                          .add = onto,
                          .near = true};
        if (ahead && cut < AHEAD_EVERY) {
            t.ahead = ahead + cut * (k / AHEAD_EVERY) * f->nr;
            t.ahead_step = f->nr * (int64_t)sizeof(float);
        }
        f->rows[count](&t);
    }
}

/* The buffers of one thread. */
typedef struct buffers {
    float *v, *m, *u;
} buffers;

static buffers buffers_of(const job *j, int64_t piece)
{
    const cm_winograd_plan *g = &j->g;
    float *own =
        (float *)j->run->workspace + cm_winograd_v(g) * (size_t)(g->shared ? 1 : g->threads);
    buffers b = {.v = j->run->workspace};
    if (!g->shared)
        b.v += (size_t)piece * cm_winograd_v(g);
    b.m = own + (size_t)piece * (cm_winograd_m(g) + cm_winograd_u(g));
    b.u = b.m + cm_winograd_m(g);
    return b;
}

/* Raw weights: some channels of a panel are transformed, then multiplied at every position. */
static void multiply_raw(const job *j, int64_t panel, int64_t tiles, const float *v, float *u,
                         float *m)
{
    const cm_winograd_plan *g = &j->g;
    const int64_t nr = g->product->nr, cuts = cm_gemm_tiles(tiles, g->product->mr);
    const float *w = (const float *)j->run->in[1] + panel * g->c_in * 9 * nr;
    for (int64_t c = 0; c < g->c_in; c += g->chunk) {
        const int64_t n = cm_min_i64(g->chunk, g->c_in - c);
        g->kernels->expand[g->form](w + c * 9 * nr, n, (int)nr, u, g->u_position);
        const float *ahead = w + (c + n) * 9 * nr,
                    *end = w + cm_min_i64(c + n + g->chunk, g->c_in) * 9 * nr;
        for (int64_t e = 0; e < g->positions; e++) {
            multiply_position(g, tiles, n, v + e * g->v_position + c, u + e * g->u_position, c > 0,
                              ahead < end ? ahead : NULL, m + e * g->m_position);
            ahead += cm_min_i64(cuts, AHEAD_EVERY) * (n / AHEAD_EVERY) * nr;
        }
    }
}

/* M of `tiles` tiles, from row `at` of V, and one group of output channels. */
static void multiply(const job *j, int64_t group, int64_t at, int64_t tiles, const buffers *b)
{
    const cm_winograd_plan *g = &j->g;
    const int64_t first = group * g->group, size = g->u_panel;
    const int64_t n = cm_min_i64(g->group, g->panels - first);
    const float *v = b->v + at * g->v_tile;
    if (g->raw) {
        for (int64_t i = 0; i < n; i++)
            multiply_raw(j, first + i, tiles, v, b->u, b->m + i * g->product->nr);
        return;
    }
    const float *u = (const float *)j->run->in[1] + first * g->positions * size;
    if (g->pairs) {
        cm_winograd_pairs_multiply(g, at, tiles, b->v, n, u, b->m);
        return;
    }
    for (int64_t e = 0; e < g->positions; e++)
        for (int64_t i = 0; i < n; i++) {
            const float *panel = u + (i * g->positions + e) * size;
            const float *next = i + 1 < n              ? panel + g->positions * size
                                : e + 1 < g->positions ? u + (e + 1) * size
                                                       : NULL;
            multiply_position(g, tiles, g->c_in, v + e * g->v_position, panel, false, next,
                              b->m + e * g->m_position + i * g->product->nr);
        }
}

/* The epilogue of a strip that was written as it came from the transform. */
static void finish_strip(const job *j, const strip *s, int64_t channel, int64_t channels)
{
    const cm_winograd_plan *g = &j->g;
    int64_t y = s->row * g->m, x = s->col * g->m;
    int64_t rows = cm_min_i64(g->m, g->out_h - y), cols = cm_min_i64(s->n * g->m, g->out_w - x);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (s->image * g->out_h + y + i) * g->out_w + x;
        cm_epilogue_tile(&j->epilogue, at, channel, cols, channels,
                         (const float *)j->run->out[0] + at * g->c_out + channel, g->c_out);
    }
}

static const float *plus(const float *p, int64_t n)
{
    return p ? p + n : NULL;
}

/* M of tiles [begin, end) to the output. */
static void transform_output(const job *j, int64_t group, int64_t begin, int64_t end,
                             const float *m)
{
    const cm_winograd_plan *g = &j->g;
    const int64_t channel = group * g->group * g->product->nr;
    const int64_t channels = cm_min_i64(g->m_tile, g->c_out - channel);
    const float *own = j->run->p->as.conv.bias ? j->run->in[2] : NULL;
    const cm_simple_epilogue *e = &j->simple;
    for (int64_t tile = begin; tile < end;) {
        strip s = strip_at(g, tile, end);
        int64_t image = s.image * g->out_h * g->out_w;
        cm_winograd_output a = {.m = m + (tile - begin) * g->m_tile,
                                .tile = g->m_tile,
                                .position = g->m_position,
                                .n = s.n,
                                .y = (float *)j->run->out[0] + image * g->c_out + channel,
                                .h = g->out_h,
                                .w = g->out_w,
                                .pixel = g->c_out,
                                .channels = channels,
                                .row = s.row * g->m,
                                .col = s.col * g->m,
                                .bias = {plus(own, channel), plus(e->bias, channel)},
                                .residual = plus(e->residual, image * e->residual_ld + channel),
                                .residual_pixel = e->residual_ld,
                                .lo = e->lo,
                                .hi = e->hi};
        g->kernels->output[g->form](&a);
        if (!j->is_simple)
            finish_strip(j, &s, channel, channels);
        tile += s.n;
    }
}

static void run_blocks(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_winograd_plan *g = &j->g;
    const buffers b = buffers_of(j, thread);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * g->block, to = cm_min_i64(from + g->block, g->tiles);
        transform_input(j, from, to, b.v, 0);
        for (int64_t group = 0; group < g->groups; group++) {
            multiply(j, group, 0, to - from, &b);
            transform_output(j, group, from, to, b.m);
        }
    }
}

/* Shared: one strip of V an item. */
static void run_inputs(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_winograd_plan *g = &j->g;
    const int64_t size = cm_winograd_strip(g->m);
    const int64_t strips = (g->tiles_x + size - 1) / size; /* in a row of tiles */
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / strips * g->tiles_x;
        int64_t from = row + i % strips * size, to = cm_min_i64(from + size, row + g->tiles_x);
        transform_input(j, from, to, j->run->workspace, from);
    }
}

/* Each thread has blocks of its own where there are enough of them, and for those all groups: it reads the V that it
 * made. */
static void run_groups(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_winograd_plan *g = &j->g;
    const buffers b = buffers_of(j, thread);
    int64_t parts = g->raw || g->blocks < g->threads ? 1 : g->threads, part = 0;
    for (int64_t i = begin; i < end; i++) {
        while (i >= (part + 1) * g->blocks / parts * g->groups)
            part++;
        int64_t first = part * g->blocks / parts, blocks = (part + 1) * g->blocks / parts - first;
        int64_t at = i - first * g->groups, group = at / blocks;
        int64_t from = (first + at % blocks) * g->block;
        int64_t to = cm_min_i64(from + g->block, g->tiles);
        multiply(j, group, from, to - from, &b);
        transform_output(j, group, from, to, b.m);
    }
}

static cm_status run(const cm_run *r, int m)
{
    job j = {.g = cm_winograd_plan_of(r->p, r->k, m), .run = r};
    const cm_winograd_plan *g = &j.g;
    cm_epilogue_init(&j.epilogue, r, cm_conv_channel_columns(r->p->out[0]));
    j.is_simple = cm_epilogue_simple(&j.epilogue, &j.simple);
    j.items = g->shared ? g->blocks * g->groups : g->blocks;
    if (g->shared) {
        int64_t size = cm_winograd_strip(m);
        int64_t strips = g->images * g->tiles_y * ((g->tiles_x + size - 1) / size);
        cm_parallel(r->threads, strips, 1, run_inputs, &j);
    }
    cm_parallel_numbered(r->threads, g->threads, j.items, g->shared ? run_groups : run_blocks, &j);
    return CM_OK;
}

/* The functions of cpu/conv.h for one m. */
#define FORM(m)                                                                                    \
    const char *cm_cpu_conv_winograd_f##m##_reject(const cm_problem *p)                            \
    {                                                                                              \
        return reject(p);                                                                          \
    }                                                                                              \
    int cm_cpu_conv_winograd_f##m##_knobs(const cm_problem *p, cm_knobs *out)                      \
    {                                                                                              \
        return cm_winograd_knobs(p, out, m);                                                       \
    }                                                                                              \
    double cm_cpu_conv_winograd_f##m##_cost(const cm_problem *p, const cm_knobs *k)                \
    {                                                                                              \
        return cm_winograd_cost(p, k, m);                                                          \
    }                                                                                              \
    size_t cm_cpu_conv_winograd_f##m##_workspace(const cm_problem *p, const cm_knobs *k)           \
    {                                                                                              \
        return workspace(p, k, m);                                                                 \
    }                                                                                              \
    size_t cm_cpu_conv_winograd_f##m##_pack_bytes(const cm_problem *p, const cm_knobs *k,          \
                                                  int input)                                       \
    {                                                                                              \
        return pack_bytes(p, k, input, m);                                                         \
    }                                                                                              \
    void cm_cpu_conv_winograd_f##m##_pack(const cm_problem *p, const cm_knobs *k, int input,       \
                                          const void *from, void *to, cm_threads *threads)         \
    {                                                                                              \
        (void)input;                                                                               \
        pack(p, k, from, to, threads, m);                                                          \
    }                                                                                              \
    cm_status cm_cpu_conv_winograd_f##m##_run(const cm_run *r)                                     \
    {                                                                                              \
        return run(r, m);                                                                          \
    }

FORM(2)
FORM(4)
FORM(6)
