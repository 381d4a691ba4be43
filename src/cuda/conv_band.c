/* conv_band.c -- depthwise convolutions of 16-bit elements on matrix units, channels innermost: rows of the kernel as band matrices.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as conv_depthwise.c has them. */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/ranking.h"

/* As knobs, in this order; what they mean is in kernels/conv_band.cu. */
typedef struct {
    int chunks, across, down, tall, steps;
} setting;
enum {
    EIGHT = 8, /* channels of a chunk, rows that are made at once */
    STEP = 16, /* inputs that a product takes */
    WARPS = 4,
    MOST_STEPS = 2,
    LEAST_COLUMNS = 4, /* of a kernel */
    MOST_ROWS = 11,    /* of a kernel: its loop is written out */
    MOST_BOX = 256,    /* pixels of a copy */
    SETTINGS = 6,
};

/* As kernels/conv_band.cu has it. */
typedef struct {
    const void *w;
    int32_t channels;
    uint32_t parts, across, down;
    cm_gpu_conv_sizes sizes;
} band_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    band_args args;
    cm_finish finish;
    uint64_t dims[4], strides[3]; /* of the input, for the copies */
    uint32_t box[4];
    cm_dtype dtype;
} band_state;

static int64_t reach(const cm_conv *c, int d)
{
    return (c->kernel[d] - 1) * c->dilation[d] + 1;
}

/* Outputs side by side from so many products. */
static int64_t span_of(const cm_conv *c, int steps)
{
    int64_t room = steps * STEP - reach(c, 2);
    return room < 0 ? 0 : cm_min_i64(room / c->stride[2] + 1, STEP);
}

static int64_t rows_of(const cm_conv *c, setting s) /* of inputs, in shared memory */
{
    return (s.down * EIGHT - 1) * c->stride[1] + reach(c, 1);
}

static int64_t columns_of(const cm_conv *c, setting s)
{
    return ((s.across - 1) * span_of(c, s.steps) * c->stride[2] + s.steps * STEP) | 1;
}

static int64_t tile_chunks(const cm_conv *c, setting s)
{
    return rows_of(c, s) * columns_of(c, s) * s.chunks;
}

static size_t shared_bytes(const cm_conv *c, setting s)
{
    return (size_t)(tile_chunks(c, s) + c->kernel[1] * (c->kernel[2] + 1) * s.chunks) * 16;
}

/* Tiles of an image. */
static void tiles_of(const cm_conv *c, setting s, int64_t *parts, int64_t *across, int64_t *down)
{
    *parts = cm_ceil_div(c->c_in, s.chunks * EIGHT);
    *across = cm_ceil_div(c->out[2], s.across * span_of(c, s.steps));
    *down = cm_ceil_div(c->out[1], s.down * EIGHT);
}

static bool fits(const cm_conv *c, setting s, size_t bytes)
{
    return shared_bytes(c, s) <= bytes && rows_of(c, s) <= MOST_BOX && columns_of(c, s) <= MOST_BOX;
}

/* The largest tile, in even parts of an image, that shared memory of so many bytes holds; chunks 0: none. */
static setting largest(const cm_conv *c, int chunks, int steps, int tall, size_t bytes)
{
    int64_t spans = cm_ceil_div(c->out[2], span_of(c, steps)),
            eights = cm_ceil_div(c->out[1], EIGHT);
    setting s = {.chunks = chunks, .tall = tall, .steps = steps};
    for (int64_t cuts = 1; cuts <= eights; cuts++) {
        int64_t down = cm_ceil_div(eights, cuts);
        s.down = (int)(cm_ceil_div(down, s.tall) * s.tall);
        s.across = (int)cm_min_i64(spans, MOST_BOX);
        while (s.across > 1 && !fits(c, s, bytes) && s.across * 2 > s.down)
            s.across = (s.across + 1) / 2;
        if (fits(c, s, bytes))
            return s;
    }
    return (setting){0};
}

const char *cm_cuda_conv_band_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != c->c_in || c->c_out != c->c_in)
        return "not depthwise";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (p->target.level < 900)
        return "an older GPU than sm_90";
    if (p->in[0]->dtype != CM_F16 && p->in[0]->dtype != CM_BF16)
        return "elements are not of 16 bits";
    if (cm_gpu_conv_volume(p))
        return "three spatial axes";
    const cm_tensor *x = p->in[0];
    bool whole = x->strides[1] == 1 && p->out[0]->strides[1] == 1 && c->c_in % EIGHT == 0;
    for (int d = 0; d < x->rank; d++)
        whole = whole && (d == 1 || x->dims[d] == 1 || x->strides[d] % EIGHT == 0);
    if (!whole)
        return "channels are not innermost in multiples of 16 bytes";
    if (c->kernel[2] < LEAST_COLUMNS || c->stride[1] > 1 || c->stride[2] > 1)
        return "windows of few columns or far apart, which products do not pay for";
    if (c->kernel[1] > MOST_ROWS || span_of(c, MOST_STEPS) == 0)
        return "too wide a window";
    cm_knobs k[SETTINGS];
    return cm_cuda_conv_band_knobs(p, k) ? NULL : "a tile does not fit shared memory";
}

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2], k->v[3], k->v[4]};
}

/* Of a warp: instructions for a product of 8 channels with what it takes to load its operands, for a band, for the results
 * of 8 rows, and for each 16 bytes of a tile; what warps get of the rate of instructions and of memory. */
static const double PRODUCT = 28, BAND = 22, RESULTS = 230, CHECK = 0.5, SHARE = 0.33,
                    MEMORY_SHARE = 0.75;
static const double BEGIN_NS = 1500; /* until a block's tile has come */

double cm_cuda_conv_band_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    setting s = setting_of(k);
    int64_t parts, across, down;
    tiles_of(c, s, &parts, &across, &down);
    double tiles = (double)(c->n * parts * across * down);
    double item = (double)c->kernel[1] * (BAND * (s.steps + 1) / 2 + s.tall * s.steps * PRODUCT) +
                  s.tall * RESULTS;
    double tile = (double)(s.chunks * s.across * (s.down / s.tall)) * item +
                  (double)tile_chunks(c, s) * CHECK;
    double rate = g.tflops * 1000 / 64 * SHARE; /* warps' instructions per ns */
    double compute = tiles * tile / rate, alone = tile / WARPS * 2;
    double memory = cm_gpu_conv_memory(p) / (g.read_gbs * MEMORY_SHARE);
    double most = compute > memory ? compute : memory;
    return g.launch_ns + BEGIN_NS + (most > alone ? most : alone);
}

static void rank(const cm_problem *p, setting s, cm_ranking *r)
{
    cm_knobs k = {{s.chunks, s.across, s.down, s.tall, s.steps}};
    cm_rank(r, &k, cm_cuda_conv_band_cost(p, &k));
}

int cm_cuda_conv_band_knobs(const cm_problem *p, cm_knobs *out)
{
    /* Odd numbers: pixels then begin in other banks than their neighbours. */
    static const int chunks[] = {3, 5, 7, 9, 1};
    /* Larger tiles leave too few blocks beside one another, smaller ones spend too much on edges. */
    static const size_t rooms[] = {32 << 10, 20 << 10};
    const cm_conv *c = &p->as.conv;
    cm_ranking r = {.most = SETTINGS, .out = out};
    for (int i = 0; i < CM_COUNT(chunks) * CM_COUNT(rooms) * 4; i++) {
        int steps = 1 + i % 2, tall = 1 + i / 2 % 2;
        if (span_of(c, steps) == 0 || tall > cm_ceil_div(c->out[1], EIGHT))
            continue;
        setting s = largest(c, chunks[i / 4 / CM_COUNT(rooms)], steps, tall,
                            rooms[i / 4 % CM_COUNT(rooms)]);
        if (s.chunks)
            rank(p, s, &r);
    }
    return r.n;
}

static void put_text(const cm_problem *p, setting s, cm_buf *out)
{
    const cm_conv *c = &p->as.conv;
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define WARPS %d\n#define CHUNKS %d\n#define ACROSS %d\n"
                  "#define DOWN %d\n#define TALL %d\n#define STEPS %d\n",
                  cm_element_text(p->in[0]->dtype), WARPS, s.chunks, s.across, s.down, s.tall,
                  s.steps);
    for (int d = 1; d < 3; d++)
        cm_buf_printf(out, "#define KERNEL_%c %d\n#define STRIDE_%c %d\n#define DILATION_%c %d\n",
                      "ZYX"[d], (int)c -> kernel[d], "ZYX"[d], (int)c -> stride[d], "ZYX"[d],
                      (int)c -> dilation[d]);
}

/* The input as copies see it: channels, width, height, images. Axes of one element have any stride. */
static void describe_input(band_state *s, const cm_problem *p, setting own)
{
    const cm_conv *c = &p->as.conv;
    const cm_gpu_conv_sizes *z = &s->args.sizes;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int64_t right = c->in[2] > 1 ? z->step[2] : c->c_in;
    int64_t down = c->in[1] > 1 ? z->step[1] : right * c->in[2];
    int64_t image = c->n > 1 ? z->image : down * c->in[1];
    const int64_t dims[4] = {c->c_in, c->in[2], c->in[1], c->n}, strides[3] = {right, down, image};
    const int64_t box[4] = {own.chunks * EIGHT, columns_of(c, own), rows_of(c, own), 1};
    s->dtype = p->in[0]->dtype;
    for (int i = 0; i < 4; i++) {
        s->dims[i] = (uint64_t)dims[i];
        s->box[i] = (uint32_t)box[i];
        if (i < 3)
            s->strides[i] = (uint64_t)(strides[i] * size);
    }
}

cm_status cm_cuda_conv_band_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                  const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    setting own = setting_of(k);
    int64_t parts, across, down;
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    band_state *s;
    CM_NEW(cx, arena, s, band_state);
    tiles_of(c, own, &parts, &across, &down);
    s->args = (band_args){.channels = (int32_t)c->c_in,
                          .parts = (uint32_t)parts,
                          .across = (uint32_t)across,
                          .down = (uint32_t)down};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    describe_input(s, p, own);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->grid = (cm_grid){.blocks = {(unsigned)(c->n * parts * across * down)},
                        .threads = {WARPS * 32},
                        .shared = shared_bytes(c, own),
                        .overlaps = true};
    *state = s;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    put_text(p, own, &text);
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "conv_band", .entry = "conv_band"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_band_run(const cm_run *r)
{
    const band_state *s = r->state;
    band_args x = s->args;
    cm_finish f = s->finish;
    cm_tensor_map map;
    CM_TRY(
        cm_gpu_tensor_map(r->cx, r, s->dtype, 4, r->in[0], s->dims, s->strides, s->box, 0, &map));
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.w = r->in[1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &map, &f});
}
