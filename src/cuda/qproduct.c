/* qproduct.c -- QMATMUL and QCONV: products of bytes with exact sums, on tensor cores.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Constant weights are packed as [columns][depth], the depth filled up with zeros to whole words of 16 bytes; that of a
 * convolution counts channels first, then taps. A group of a convolution is a matrix of a batch; thin ones (depthwise)
 * need no tiles. Weights of a convolution that are not constant are brought into that form first. */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

enum { WORD = 16, LARGE = 128, SMALL = 64, THREADS = 256, MOST_BATCH = 65535 };
enum { MOST_DEPTH = 32768 }; /* so many products of bytes stay below 2^31 */

/* As in kernels/qproduct.cu. */
typedef struct {
    const void *a, *b;
    void *y;
    const void *a_scale, *b_scale, *y_scale, *a_zero, *b_zero, *y_zero, *bias, *sums;
    int64_t b_scale_step, b_zero_step, sums_step;
    int64_t m, n, k;
    int64_t a_batch, b_batch, y_batch, columns_batch;
    int64_t a_row, b_row, b_col;
    int64_t y_image, y_row, y_col, pixels;
    int64_t channels, x_image, x_channel;
    int32_t x_step[3], in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    float alpha;
} arguments;

/* Inputs of either kind, -1: none. */
typedef struct {
    cm_qmode mode;
    int a, b, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero, bias, sums;
    bool patches, a_words, b_words;
    bool
        dynamic; /* A is real: bytes are made of it first, with a scale and a zero point of their own */
    int64_t batch;
} form;

typedef struct {
    const cm_kernel *kernel, *range, *quantise; /* the latter two: dynamic */
    const cm_kernel *pack;                      /* NULL: weights are packed already */
    cm_grid grid, quantise_grid, pack_grid;
    form f;
    arguments a;
} state;

static int64_t whole_words(int64_t k)
{
    return cm_ceil_div(k, WORD) * WORD;
}

static void matmul_form(const cm_problem *p, form *f, arguments *a)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    bool packed = p->constant[g->b];
    *f = (form){.mode = g->mode,
                .a = g->a,
                .b = g->b,
                .a_scale = g->a_scale,
                .a_zero = g->a_zero,
                .b_scale = g->b_scale,
                .b_zero = g->b_zero,
                .y_scale = g->y_scale,
                .y_zero = g->y_zero,
                .bias = g->bias,
                .sums = g->sums,
                .a_words = g->k % WORD == 0,
                .b_words = packed || (g->trans_b && g->k % WORD == 0),
                .dynamic = g->dynamic,
                .batch = g->batch};
    *a = (arguments){.m = g->m,
                     .n = g->n,
                     .k = g->k,
                     .a_batch = g->a_batch,
                     .b_batch = g->b_batch,
                     .y_batch = g->m * g->n,
                     .a_row = g->k,
                     .b_row = packed || g->trans_b ? 1 : g->n,
                     .b_col = packed       ? whole_words(g->k)
                              : g->trans_b ? g->k
                                           : 1,
                     .y_row = g->n,
                     .y_col = 1,
                     .pixels = INT64_MAX,
                     .alpha = g->alpha};
}

static void put_images(const cm_qconv *q, arguments *a)
{
    const cm_conv *c = &q->conv;
    int64_t in = c->in[0] * c->in[1] * c->in[2], step = q->x_last ? c->c_in : 1;
    a->x_image = c->c_in * in;
    a->x_channel = q->x_last ? 1 : in;
    for (int d = 2; d >= 0; d--) {
        a->x_step[d] = (int32_t)step;
        step *= c->in[d];
        a->in[d] = (int32_t)c->in[d];
        a->out[d] = (int32_t)c->out[d];
        a->kernel[d] = (int32_t)c->kernel[d];
        a->stride[d] = (int32_t)c->stride[d];
        a->dilation[d] = (int32_t)c->dilation[d];
        a->pad[d] = (int32_t)c->pad[d];
    }
}

static void conv_form(const cm_problem *p, form *f, arguments *a)
{
    const cm_qconv *q = &p->as.qconv;
    const cm_conv *c = &q->conv;
    int64_t channels = c->c_in / c->groups, pixels = c->out[0] * c->out[1] * c->out[2];
    int64_t k = channels * c->kernel[0] * c->kernel[1] * c->kernel[2], n = c->c_out / c->groups;
    *f = (form){.mode = q->mode,
                .a = q->x,
                .b = q->w,
                .a_scale = q->x_scale,
                .a_zero = q->x_zero,
                .b_scale = q->w_scale,
                .b_zero = q->w_zero,
                .y_scale = q->y_scale,
                .y_zero = q->y_zero,
                .bias = -1,
                .sums = q->sums,
                .patches = true,
                .a_words = q->x_last && channels % WORD == 0,
                .b_words = true,
                .batch = c->groups};
    *a = (arguments){.m = c->n * pixels,
                     .n = n,
                     .k = k,
                     .b_batch = n * whole_words(k),
                     .columns_batch = n,
                     .b_row = 1,
                     .b_col = whole_words(k),
                     .y_batch = q->y_last ? n : n * pixels,
                     .y_image = c->c_out * pixels,
                     .y_row = q->y_last ? c->c_out : 1,
                     .y_col = q->y_last ? 1 : pixels,
                     .pixels = pixels,
                     .channels = channels,
                     .alpha = 1};
    put_images(q, a);
    a->a_batch = channels * a->x_channel;
}

static void form_of(const cm_problem *p, form *f, arguments *a)
{
    if (p->kind == CM_PROBLEM_QCONV)
        conv_form(p, f, a);
    else
        matmul_form(p, f, a);
}

static bool is_byte(const cm_tensor *t)
{
    return t->dtype == CM_U8 || t->dtype == CM_I8;
}

static const char *reject_form(const cm_problem *p)
{
    form f;
    arguments a;
    form_of(p, &f, &a);
    cm_dtype y = p->out[0]->dtype;
    if ((f.dynamic ? p->in[f.a]->dtype != CM_F32 : !is_byte(p->in[f.a])) || !is_byte(p->in[f.b]))
        return "operands are not of bytes";
    if (f.mode == CM_QSUMS ? y != CM_I32 : f.mode == CM_QREAL ? y != CM_F32 : !is_byte(p->out[0]))
        return "the output's type";
    if (a.k < 1 || a.k > MOST_DEPTH)
        return "sums might pass 32 bits";
    if (p->epilogue)
        return "an epilogue";
    if (f.batch > MOST_BATCH || cm_gpu_is_wide(cm_tensor_elems(p->in[f.a])) ||
        cm_gpu_is_wide(cm_tensor_elems(p->out[0])))
        return "too large";
    return NULL;
}

static const char *reject_matmul(const cm_problem *p)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    if (!cm_tensor_is_dense(p->in[g->a]) || !cm_tensor_is_dense(p->in[g->b]) ||
        !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    if (p->constant[g->b] && g->b_batch != 0)
        return "a batch of constant matrices";
    return reject_form(p);
}

static const char *reject_conv(const cm_problem *p)
{
    const cm_qconv *q = &p->as.qconv;
    if (!cm_tensor_is_dense(p->in[q->w]))
        return "the weights are strided";
    if (q->strided)
        return "an activation is neither row-major nor channels-last";
    return reject_form(p);
}

/* So few columns in a group leave tiles empty. */
static bool is_thin(const cm_conv *c)
{
    enum { THIN = 16 };
    return c->groups > 1 && c->c_out / c->groups < THIN;
}

static const char *reject_tiles(const cm_problem *p)
{
    return is_thin(&p->as.qconv.conv) ? "few channels in a group" : reject_conv(p);
}

static const char *reject_direct(const cm_problem *p)
{
    return is_thin(&p->as.qconv.conv) ? reject_conv(p) : "many channels in a group";
}

static int64_t tiles(const arguments *a, int64_t side)
{
    return cm_ceil_div(a->m, side) * cm_ceil_div(a->n, side);
}

/* Large tiles where they keep the device busy. */
static int knobs(const cm_problem *p, cm_knobs *out)
{
    form f;
    arguments a;
    cm_gpu_facts facts;
    form_of(p, &f, &a);
    cm_gpu_facts_of(&p->target, &facts);
    bool large = tiles(&a, LARGE) * f.batch >= facts.multiprocessors && a.n > SMALL;
    out[0] = (cm_knobs){{large ? LARGE : SMALL}};
    out[1] = (cm_knobs){{large ? SMALL : LARGE}};
    return 2;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { TILE_NS = 3000, WORDS_RATE = 3, GATHERED_RATE = 12 };
    form f;
    arguments a;
    cm_gpu_facts facts;
    form_of(p, &f, &a);
    cm_gpu_facts_of(&p->target, &facts);
    double side = k->v[0], depth = (double)whole_words(a.k);
    double n_tiles = (double)tiles(&a, k->v[0]) * (double)f.batch;
    double rate = facts.half_tflops * 1000 / (f.a_words && f.b_words ? WORDS_RATE : GATHERED_RATE);
    double rounds = (double)cm_ceil_div((int64_t)n_tiles, 2 * facts.multiprocessors);
    double each = 2 * side * side * depth * 2 * facts.multiprocessors / rate + TILE_NS;
    double bytes = (double)f.batch * (double)(a.m * a.n) * (double)cm_dtype_size(p->out[0]->dtype) +
                   (double)cm_tensor_elems(p->in[f.a]) + (double)cm_tensor_elems(p->in[f.b]);
    double memory = cm_gpu_stream_ns(&p->target, bytes);
    return memory > rounds * each ? memory : rounds * each;
}

static double cost_direct(const cm_problem *p, const cm_knobs *k)
{
    enum { PRODUCTS_PER_NS = 1500 };
    form f;
    arguments a;
    (void)k;
    form_of(p, &f, &a);
    double bytes = (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype) +
                   (double)cm_tensor_elems(p->in[f.a]);
    return cm_gpu_stream_ns(&p->target, bytes) +
           (double)cm_tensor_elems(p->out[0]) * (double)a.k / PRODUCTS_PER_NS;
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    form f;
    arguments a;
    (void)k;
    form_of(p, &f, &a);
    return input == f.b ? (size_t)((f.patches ? f.batch : 1) * a.n * a.b_col) : 0;
}

static void pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads)
{
    form f;
    arguments a;
    const char *w = from;
    char *out = to;
    (void)k, (void)input, (void)threads;
    form_of(p, &f, &a);
    bool rows = f.patches || p->as.qmatmul.trans_b; /* of one column */
    int64_t channels = f.patches ? a.channels : a.k, taps = a.k / channels;
    for (int64_t j = 0; j < (f.patches ? f.batch : 1) * a.n; j++, out += a.b_col) {
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < channels; c++)
                out[t * channels + c] = rows ? w[j * a.k + c * taps + t] : w[c * a.n + j];
        memset(out + a.k, 0, (size_t)(a.b_col - a.k));
    }
}

/* Of a dynamic product: scale and zero point, ranges of the blocks that read A, its bytes. */
enum { SCALE_BYTES = 64 };

static size_t range_bytes(const cm_problem *p)
{
    size_t n = cm_gpu_blocks(&p->target, cm_tensor_elems(p->in[p->as.qmatmul.a]));
    return (n * 2 * sizeof(float) + SCALE_BYTES - 1) / SCALE_BYTES * SCALE_BYTES;
}

/* Weights that are not constant, packed. */
static size_t workspace_conv(const cm_problem *p, const cm_knobs *k)
{
    int w = p->as.qconv.w;
    return p->constant[w] ? 0 : pack_bytes(p, k, w);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_qmatmul *g = &p->as.qmatmul;
    (void)k;
    return g->dynamic ? SCALE_BYTES + range_bytes(p) + (size_t)cm_tensor_elems(p->in[g->a]) : 0;
}

static int64_t step_of(const cm_problem *p, int input)
{
    return input >= 0 && cm_tensor_elems(p->in[input]) > 1;
}

/* Without the kernel: an empty result has none. */
static cm_status new_state(cm_ctx *cx, cm_arena *arena, const cm_problem *p, state **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    form_of(p, &s->f, &s->a);
    s->a.b_scale_step = step_of(p, s->f.b_scale);
    s->a.b_zero_step = step_of(p, s->f.b_zero);
    s->a.sums_step = step_of(p, s->f.sums);
    *out = s;
    return CM_OK;
}

static int put_defines(const cm_problem *p, const form *f, char *to, size_t n)
{
    return snprintf(to, n,
                    "#define A_SIGNED %d\n#define B_SIGNED %d\n#define A_ZERO %d\n"
                    "#define B_ZERO %d\n#define MODE %d\n#define OUTPUT %s\n",
                    p->in[f->a]->dtype == CM_I8, p->in[f->b]->dtype == CM_I8,
                    f->dynamic || f->a_zero >= 0, f->b_zero >= 0, (int)f->mode,
                    cm_gpu_element(p->out[0]->dtype));
}

static cm_status ready_dynamic(cm_ctx *cx, cm_device *d, const cm_problem *p, state *s)
{
    cm_kernel_text t = {.file = "quant", .defines = "#define BYTE u8\n", .entry = "quantise_range"};
    s->quantise_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, cm_tensor_elems(p->in[s->f.a]))},
                  .threads = {CM_GPU_THREADS}};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &s->range));
    t.entry = "quantise_dynamic";
    return cm_gpu_kernel(cx, d, &t, 0, &s->quantise);
}

static cm_status ready_pack(cm_ctx *cx, cm_device *d, const cm_problem *p, state *s)
{
    cm_kernel_text t = {.file = "qpack", .defines = "", .entry = "qpack"};
    if (!s->f.patches || p->constant[s->f.b])
        return CM_OK;
    s->pack_grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->f.batch * s->a.n * s->a.b_col)},
                  .threads = {CM_GPU_THREADS}};
    return cm_gpu_kernel(cx, d, &t, 0, &s->pack);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    char defines[512];
    state *s;
    CM_TRY(new_state(cx, arena, p, &s));
    *out = s;
    if (cm_tensor_elems(p->out[0]) == 0)
        return CM_OK;
    CM_TRY(ready_pack(cx, d, p, s));
    if (s->f.dynamic)
        CM_TRY(ready_dynamic(cx, d, p, s));
    s->grid = (cm_grid){.blocks = {(unsigned)tiles(&s->a, k->v[0]), 1, (unsigned)s->f.batch},
                        .threads = {THREADS}};
    int at = put_defines(p, &s->f, defines, sizeof defines);
    snprintf(defines + at, sizeof defines - (size_t)at,
             "#define BM %d\n#define BN %d\n#define PATCHES %d\n#define A_WORDS %d\n"
             "#define B_WORDS %d\n",
             k->v[0], k->v[0], s->f.patches, s->f.a_words, s->f.b_words);
    cm_kernel_text t = {.file = "qproduct", .defines = defines, .entry = "qproduct"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
}

static cm_status ready_direct(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    char defines[256];
    state *s;
    (void)k;
    CM_TRY(new_state(cx, arena, p, &s));
    *out = s;
    if (cm_tensor_elems(p->out[0]) == 0)
        return CM_OK;
    CM_TRY(ready_pack(cx, d, p, s));
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, cm_tensor_elems(p->out[0]))},
                        .threads = {CM_GPU_THREADS}};
    put_defines(p, &s->f, defines, sizeof defines);
    cm_kernel_text t = {.file = "qdirect", .defines = defines, .entry = "qdirect"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
}

static const void *input(const cm_run *r, int i)
{
    return i >= 0 ? r->in[i] : NULL;
}

/* Bytes of A in the workspace, with their scale and zero point. */
static cm_status quantise(const cm_run *r, const state *s, arguments *to)
{
    char *work = r->workspace;
    struct {
        const void *x;
        void *y, *scale, *zero, *parts;
        uint64_t n, n_parts;
    } a = {r->in[s->f.a],
           work + SCALE_BYTES + range_bytes(r->p),
           work,
           work + sizeof(float),
           work + SCALE_BYTES,
           (uint64_t)cm_tensor_elems(r->p->in[s->f.a]),
           s->quantise_grid.blocks[0]};
    to->a = a.y;
    to->a_scale = a.scale;
    to->a_zero = a.zero;
    CM_TRY(cm_gpu_launch(r, s->range, &s->quantise_grid, (void *[]){&a}));
    return cm_gpu_launch(r, s->quantise, &s->quantise_grid, (void *[]){&a});
}

static cm_status pack_weights(const cm_run *r, const state *s, arguments *to)
{
    struct {
        const void *from;
        void *to;
        uint64_t lines, line, channels, taps;
    } a = {r->in[s->f.b],
           r->workspace,
           (uint64_t)(s->f.batch * s->a.n),
           (uint64_t)s->a.b_col,
           (uint64_t)s->a.channels,
           (uint64_t)(s->a.k / s->a.channels)};
    to->b = a.to;
    return cm_gpu_launch(r, s->pack, &s->pack_grid, (void *[]){&a});
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    const form *f = &s->f;
    arguments a = s->a;
    if (!s->kernel)
        return CM_OK;
    a.a = r->in[f->a];
    a.b = r->in[f->b];
    a.y = r->out[0];
    a.a_scale = input(r, f->a_scale);
    a.b_scale = input(r, f->b_scale);
    a.y_scale = input(r, f->y_scale);
    a.a_zero = input(r, f->a_zero);
    a.b_zero = input(r, f->b_zero);
    a.y_zero = input(r, f->y_zero);
    a.bias = input(r, f->bias);
    a.sums = input(r, f->sums);
    if (f->dynamic)
        CM_TRY(quantise(r, s, &a));
    if (s->pack)
        CM_TRY(pack_weights(r, s, &a));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

const cm_tactic cm_cuda_qmatmul_tactics[] = {
    {.name = "cuda_qproduct",
     .level = 750,
     .reject = reject_matmul,
     .knobs = knobs,
     .cost = cost,
     .workspace = workspace,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .ready = ready,
     .run = run},
};
const int cm_cuda_qmatmul_count = CM_COUNT(cm_cuda_qmatmul_tactics);
const cm_tactic cm_cuda_qconv_tactics[] = {
    {.name = "cuda_qproduct",
     .level = 750,
     .reject = reject_tiles,
     .knobs = knobs,
     .cost = cost,
     .workspace = workspace_conv,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .ready = ready,
     .run = run},
    {.name = "cuda_qdirect",
     .level = 750,
     .reject = reject_direct,
     .cost = cost_direct,
     .workspace = workspace_conv,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .ready = ready_direct,
     .run = run},
};
const int cm_cuda_qconv_count = CM_COUNT(cm_cuda_qconv_tactics);
