/* conv_window.c -- convolutions with few channels in a group, channels innermost, from patches of the image in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Columns (output channels) come in blocks of 32: several groups whole, or a part of the only one. Weights are packed as fragments
 * of products, in the order of kernels/conv_window.cu. */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/ranking.h"
#include "cuda/shorten.h"

/* As knobs, in this order; what they mean is in kernels/conv_window.cu. */
typedef struct {
    int wide, high, tall, blocks;
} setting;
enum {
    COLUMNS = 32, /* of a block */
    TILE = 8,     /* columns of a product */
    UNIT = 8,     /* bytes */
    WARPS = 8,
    LANES = 32,
    MOST_STEPS = 40,    /* they are written out */
    MOST_CHANNELS = 48, /* of an only group: more are other tactics' */
    MOST_COLUMNS = 256, /* likewise */
    LEAST_OF_GROUP = 4, /* columns */
    MOST_WIDE = 64,
    MOST_REACH = 16, /* strides, dilations, kernels */
    SETTINGS = 6,
};

/* As kernels/conv_window.cu has it. */
typedef struct {
    const void *x, *w;
    int32_t n;
    uint32_t slabs, blocks;
    cm_gpu_conv_sizes sizes;
} window_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    window_args args;
    cm_finish finish;
} window_state;

/* What follows from the problem alone. */
typedef struct {
    int64_t inputs, groups; /* of a group, of a block of columns */
    int64_t tiles, blocks;  /* of a block, of all columns */
    int64_t units, steps;   /* of a kernel position, of k */
    int64_t pixel;          /* bytes that a block sees of it */
    bool alike;             /* all blocks see the same */
} form;

static form form_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    form f = {.inputs = c->c_in / c->groups, .alike = c->groups == 1};
    f.groups = f.alike ? 1 : COLUMNS / (c->c_out / c->groups);
    f.tiles = cm_min_i64(cm_ceil_div(c->c_out, TILE), COLUMNS / TILE);
    f.blocks = cm_ceil_div(c->c_out, COLUMNS);
    f.units = f.inputs * size / UNIT;
    f.steps = cm_ceil_div(cm_gpu_conv_taps(c) * f.units, 4);
    f.pixel = f.groups * f.inputs * size;
    return f;
}

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2], k->v[3]};
}

static int64_t patch_pixels(const cm_conv *c, setting s)
{
    return ((s.high - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1) *
           ((s.wide - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1);
}

static int64_t weight_bytes(const form *f) /* of a block of columns */
{
    return f->steps * f->tiles * LANES * UNIT;
}

static size_t shared_bytes(const cm_conv *c, const form *f, setting s)
{
    int64_t slab = f->pixel * (f->alike ? 1 : s.blocks), each = f->units % 4 == 0 ? 32 : 16;
    return (size_t)(patch_pixels(c, s) * (slab / each | 1) * each + s.blocks * weight_bytes(f));
}

static const char *reject_columns(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    int64_t own = c->c_out / c->groups, size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    if (c->groups == 1)
        return c->c_in > MOST_CHANNELS || c->c_out > MOST_COLUMNS || cm_gpu_conv_taps(c) == 1
                   ? "one group of many channels, or of one kernel position"
                   : NULL;
    if (own < LEAST_OF_GROUP || COLUMNS % own != 0 || c->c_out % COLUMNS != 0)
        return "groups have not 4, 8, 16 or 32 output channels, or 32 are not a multiple of them";
    return c->c_in / c->groups * size % UNIT != 0 ? "groups are not multiples of 8 bytes" : NULL;
}

/* Is a pixel, of what a block of columns sees, in whole chunks? */
static bool whole_chunks(const cm_problem *p)
{
    const cm_tensor *x = p->in[0];
    int64_t each = 16 / (int64_t)cm_dtype_size(x->dtype);
    bool whole = x->strides[1] == 1 && p->out[0]->strides[1] == 1;
    for (int d = 0; d < x->rank; d++)
        whole = whole && (d == 1 || x->dims[d] == 1 || x->strides[d] % each == 0);
    return whole && form_of(p).pixel % 16 == 0;
}

const char *cm_cuda_conv_window_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || cm_gpu_conv_volume(p))
        return "transposed, or over three axes";
    const char *why = cm_cuda_conv_reject(p);
    why = why ? why : reject_columns(p);
    if (why)
        return why;
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (!whole_chunks(p))
        return "channels are not innermost in multiples of 16 bytes";
    if (form_of(p).steps > MOST_STEPS)
        return "windows of too many channels";
    for (int d = 1; d < 3; d++)
        if (c->kernel[d] > MOST_REACH || c->stride[d] > MOST_REACH || c->dilation[d] > MOST_REACH)
            return "too wide a window";
    return cm_cuda_conv_window_knobs(p, (cm_knobs[SETTINGS]){0}) ? NULL
                                                                 : "too large for shared memory";
}

static int64_t grid_of(const cm_conv *c, const form *f, setting s)
{
    return c->n * cm_ceil_div(c->out[1], s.high) * cm_ceil_div(c->out[2], s.wide) *
           cm_ceil_div(f->blocks, s.blocks);
}

/* Tiles of about so many outputs, of an image cut so often from left to right, in even parts. */
static setting cut(const cm_conv *c, int64_t outputs, int64_t cuts)
{
    int64_t wide = cm_ceil_div(c->out[2], cm_max_i64(cuts, cm_ceil_div(c->out[2], MOST_WIDE)));
    int64_t high = cm_min_i64(cm_max_i64(outputs / wide, 1), c->out[1]);
    high = cm_ceil_div(c->out[1], cm_ceil_div(c->out[1], high));
    return (setting){.wide = (int)wide, .high = (int)high};
}

int cm_cuda_conv_window_knobs(const cm_problem *p, cm_knobs *out)
{
    static const int outputs[] = {448, 256, 128, 64};
    const cm_conv *c = &p->as.conv;
    form f = form_of(p);
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_ranking found = {.most = SETTINGS, .out = out};
    if (cm_tensor_elems(p->out[0]) == 0)
        return 0;
    for (int i = 0; i < CM_COUNT(outputs); i++)
        for (int cuts = 1; cuts <= 4 && cuts <= c->out[2]; cuts *= 2)
            for (int tall = 1; tall <= 2; tall++)
                for (int blocks = 1; blocks <= 4 && blocks <= f.blocks; blocks++) {
                    setting s = cut(c, outputs[i], cuts);
                    s.tall = tall;
                    s.blocks = blocks;
                    bool even = f.alike || f.blocks % blocks == 0;
                    cm_knobs k = {{s.wide, s.high, s.tall, s.blocks}};
                    if (even && shared_bytes(c, &f, s) <= (size_t)g.shared_bytes)
                        cm_rank(&found, &k, cm_cuda_conv_window_cost(p, &k));
                }
    return found.n;
}

/* ns of a multiprocessor: for 16 bytes a lane into shared memory, 8 from there or a product of halves, an output's row of a block of
 * columns; of a warp by itself: for what it makes at once, and an instruction of that. As an H200 says. */
static const double COPY_NS = 7.7, WORD_NS = 0.9, ROW_NS = 40, TURN_NS = 1000, ISSUE_NS = 3;
static const double ROW_INSTRUCTIONS = 60, BEGIN_SHARE = 0.5; /* of the time of a launch */
static const double MEMORY_SHARE = 0.7;
static const double CACHE_RATE = 1.2; /* of the L2 cache, beside memory's */

/* Blocks beside one another, by shared memory and by registers. */
static int64_t at_once(const cm_gpu_facts *g, const cm_conv *c, const form *f, setting s)
{
    enum {
        RESERVED = 1024,
        MOST = 4
    }; /* bytes of a block; blocks whose warps make 16 outputs at once */
    int64_t by_shared = (g->shared_bytes + RESERVED) / ((int64_t)shared_bytes(c, f, s) + RESERVED);
    return cm_max_i64(cm_min_i64(by_shared, MOST / s.tall), 1);
}

/* What a multiprocessor does for its blocks, and what they wait for: blocks do not copy while they multiply. */
static double compute_ns(const cm_problem *p, const cm_gpu_facts *g, const form *f, setting s)
{
    const cm_conv *c = &p->as.conv;
    int64_t items = cm_ceil_div(s.wide * s.high, s.tall * 16) * s.blocks;
    int64_t blocks = cm_ceil_div(grid_of(c, f, s), g->multiprocessors);
    double turns = (double)(cm_ceil_div(blocks, at_once(g, c, f, s)) * cm_ceil_div(items, WARPS));
    double steps = (double)f->steps, rows = s.tall;
    double slab = (double)(f->pixel * (f->alike ? 1 : s.blocks));
    double products = (double)cm_max_i64(f->groups, f->tiles) * rows;
    double words = (double)f->groups * rows * 2 + (double)f->tiles;
    double multiplied = products * (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_HALF ? 1 : 2);
    double most = words > multiplied ? words : multiplied;
    double copies = (double)patch_pixels(c, s) * slab / 16 / LANES;
    double each = copies * COPY_NS + (double)items * (steps * most * WORD_NS + rows * ROW_NS);
    double chain = steps * (products + words) + rows * ROW_INSTRUCTIONS;
    return (double)blocks * each + turns * (TURN_NS + chain * ISSUE_NS);
}

double cm_cuda_conv_window_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    form f = form_of(p);
    setting s = setting_of(k);
    double moved = (double)shared_bytes(c, &f, s) * (double)grid_of(c, &f, s);
    double memory = cm_gpu_conv_memory(p) / (g.read_gbs * MEMORY_SHARE);
    double cache = moved / (g.read_gbs * CACHE_RATE);
    double compute = compute_ns(p, &g, &f, s);
    double most = compute > memory ? compute : memory;
    return g.launch_ns * BEGIN_SHARE + (cache > most ? cache : most);
}

size_t cm_cuda_conv_window_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    form f = form_of(p);
    return input == 1 ? (size_t)(f.blocks * weight_bytes(&f)) : 0;
}

/* What a lane has of a product: the unit of a step of one column. */
static void pack_unit(const cm_problem *p, const form *f, int64_t column, int64_t unit,
                      const char *from, char *to)
{
    const cm_tensor *w = p->in[1];
    int64_t size = (int64_t)cm_dtype_size(w->dtype), tap = unit / f->units, each = UNIT / size;
    if (column >= p->as.conv.c_out || tap >= cm_gpu_conv_taps(&p->as.conv))
        return;
    for (int64_t i = 0; i < each; i++) {
        int64_t channel = unit % f->units * each + i;
        int64_t at = column * w->strides[0] + channel * w->strides[1] + cm_gpu_conv_tap_at(w, tap);
        memcpy(to + i * size, from + at * size, (size_t)size);
    }
    for (float *v = (float *)to; w->dtype == CM_F32 && v < (float *)(to + UNIT); v++)
        *v = cm_gpu_shortened(*v);
}

/* [block][step][tile][lane] */
void cm_cuda_conv_window_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                              void *to, cm_threads *threads)
{
    (void)threads;
    form f = form_of(p);
    char *at = to;
    memset(to, 0, cm_cuda_conv_window_pack_bytes(p, k, input));
    for (int64_t block = 0; block < f.blocks; block++)
        for (int64_t step = 0; step < f.steps; step++)
            for (int64_t tile = 0; tile < f.tiles; tile++)
                for (int64_t lane = 0; lane < LANES; lane++, at += UNIT)
                    pack_unit(p, &f, block * COLUMNS + tile * TILE + lane / 4, step * 4 + lane % 4,
                              from, at);
}

static void put_text(const cm_problem *p, const form *f, setting s, cm_buf *out)
{
    const cm_conv *c = &p->as.conv;
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define IN %d\n#define GROUPS %d\n#define TILES %d\n"
                  "#define ALIKE %d\n#define WARPS %d\n#define WIDE %d\n#define HIGH %d\n"
                  "#define TALL %d\n#define BLOCKS %d\n",
                  cm_element_text(p->in[0]->dtype), (int)f->inputs, (int)f->groups, (int)f->tiles,
                  f->alike, WARPS, s.wide, s.high, s.tall, s.blocks);
    cm_buf_printf(out,
                  "#define KERNEL_Y %d\n#define KERNEL_X %d\n#define STRIDE_Y %d\n"
                  "#define STRIDE_X %d\n#define DILATION_Y %d\n#define DILATION_X %d\n",
                  (int)c->kernel[1], (int)c->kernel[2], (int)c->stride[1], (int)c->stride[2],
                  (int)c->dilation[1], (int)c->dilation[2]);
}

cm_status cm_cuda_conv_window_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    form f = form_of(p);
    setting own = setting_of(k);
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    window_state *s;
    CM_NEW(cx, arena, s, window_state);
    s->args = (window_args){.n = (int32_t)c->c_out,
                            .slabs = (uint32_t)cm_ceil_div(f.blocks, own.blocks),
                            .blocks = (uint32_t)f.blocks};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->grid = (cm_grid){.blocks = {(unsigned)grid_of(c, &f, own)},
                        .threads = {WARPS * LANES},
                        .shared = shared_bytes(c, &f, own),
                        .overlaps = p->target.level >= 900};
    *state = s;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    put_text(p, &f, own, &text);
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "conv_window", .entry = "conv_window"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_window_run(const cm_run *r)
{
    const window_state *s = r->state;
    window_args x = s->args;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &f});
}
