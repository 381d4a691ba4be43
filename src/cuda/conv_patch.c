/* conv_patch.c -- convolutions of images with up to 4 channels, from patches of them in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as [output channel][kernel row][pixel][4 channels], with rows of multiples of 32 bytes. Where windows begin at
 * any pixel, the halves of the 4 pixels of 32 bytes are apart: first two channels of each, then the others. */
#include "base/size.h"
#include "cuda/conv.h"

/* As knobs, in this order; what they mean is in kernels/conv_patch.cu. */
typedef struct {
    int tall, groups;
} setting;
static const setting settings[] = {{2, 2}, {1, 2}, {2, 1}, {1, 1}};
enum {
    CHANNELS = 4,
    WIDE = 16,
    WARPS = 8,
    PER_MULTIPROCESSOR = 2,
    STEP = 32, /* bytes of a row of the kernel that are multiplied at once */
    MOST_KERNEL = 16,
    MOST_STRIDE = 8,
};

/* As kernels/conv_patch.cu has it. */
typedef struct {
    const void *x, *w;
    int32_t n;
    uint32_t images;
    cm_gpu_conv_sizes sizes;
} patch_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    patch_args args;
    uint32_t tiles;
    cm_finish finish;
} patch_state;

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1]};
}

static int64_t pixel_of(const cm_problem *p) /* bytes */
{
    return CHANNELS * (int64_t)cm_dtype_size(p->in[0]->dtype);
}

static int64_t row_bytes(const cm_problem *p) /* of a row of the kernel */
{
    return cm_ceil_div(p->as.conv.kernel[2] * pixel_of(p), STEP) * STEP;
}

/* Do windows begin at pixels that are not at multiples of 16 bytes? Fragments are then made of pixels, one by one. */
static bool is_loose(const cm_problem *p)
{
    return p->as.conv.stride[2] * pixel_of(p) % 16 != 0;
}

static size_t shared_bytes(const cm_problem *p, setting s)
{
    const cm_conv *c = &p->as.conv;
    int64_t high = WARPS * s.tall, pixel = pixel_of(p), columns = s.groups * 32;
    int64_t rows = (high - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1;
    int64_t across = cm_ceil_div((WIDE - 1) * c->stride[2] * pixel + row_bytes(p), 16) * 16;
    int64_t line = c->kernel[1] * row_bytes(p) + 16;
    return (size_t)(2 * rows * across + cm_ceil_div(c->c_out, columns) * columns * line);
}

static int64_t tiles_of(const cm_conv *c, setting s)
{
    return c->n * cm_ceil_div(c->out[1], WARPS * s.tall) * cm_ceil_div(c->out[2], WIDE);
}

/* Beside one another on a multiprocessor. */
static bool fits(const cm_problem *p, setting s, int blocks)
{
    enum { RESERVED = 1024 }; /* of each block */
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    return blocks * (shared_bytes(p, s) + RESERVED) <= (size_t)g.shared_bytes + RESERVED;
}

const char *cm_cuda_conv_patch_reject(const cm_problem *p)
{
    enum { MOST_COLUMNS = 4096 };
    const cm_conv *c = &p->as.conv;
    if (c->c_in > CHANNELS || c->groups != 1 || c->transposed || c->axes != 2)
        return "not of up to 4 channels over two axes";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (c->dilation[2] != 1)
        return "pixels of a window are not adjacent";
    if (c->kernel[1] > MOST_KERNEL || c->kernel[2] > MOST_KERNEL || c->stride[1] > MOST_STRIDE ||
        c->stride[2] > MOST_STRIDE || c->dilation[1] > MOST_STRIDE || c->c_out > MOST_COLUMNS ||
        !fits(p, settings[CM_COUNT(settings) - 1], 1))
        return "too large for shared memory";
    return NULL;
}

int cm_cuda_conv_patch_knobs(const cm_problem *p, cm_knobs *out)
{
    bool few = p->as.conv.c_out <= 32;
    int n = 0;
    for (int blocks = PER_MULTIPROCESSOR; blocks > 0 && n == 0; blocks--)
        for (int i = 0; i < CM_COUNT(settings) && n < 2; i++)
            if (fits(p, settings[i], blocks) && (!few || settings[i].groups == 1))
                out[n++] = (cm_knobs){{settings[i].tall, settings[i].groups}};
    return n;
}

/* Blocks get this of memory's rate, and of the matrix units' that older instructions reach. */
static const double MEMORY_SHARE = 0.7, RATE_SHARE = 0.36;
static const double BEGIN_NS = 500, TILE_NS = 900; /* until products begin; beside them */

double cm_cuda_conv_patch_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    setting s = setting_of(k);
    double rate =
        (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_HALF ? g.half_tflops : g.tf32_tflops) * 1000 /
        g.multiprocessors * RATE_SHARE;
    double elements =
        (double)(c->kernel[1] * row_bytes(p)) / (double)cm_dtype_size(p->in[0]->dtype);
    double columns = (double)(cm_ceil_div(c->c_out, s.groups * 32) * s.groups * 32);
    double tile = WARPS * s.tall * WIDE * columns * elements * 2 / rate;
    double rounds = (double)cm_ceil_div(tiles_of(c, s), g.multiprocessors);
    double both = fits(p, s, PER_MULTIPROCESSOR) ? PER_MULTIPROCESSOR : 1;
    double waiting = rounds < both ? TILE_NS : rounds / both * TILE_NS;
    double compute = rounds * tile, memory = cm_gpu_conv_memory(p) / (g.read_gbs * MEMORY_SHARE);
    double most = compute > memory ? compute : memory;
    return g.launch_ns + BEGIN_NS + (most > waiting ? most : waiting);
}

size_t cm_cuda_conv_patch_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    return input == 1 ? (size_t)(c->c_out * c->kernel[1] * row_bytes(p)) : 0;
}

/* Where a channel of a pixel is packed in its row of the kernel; in elements. */
static int64_t place_in_row(const cm_problem *p, int64_t x, int64_t channel)
{
    enum { PIXELS = 4, HALF = CHANNELS / 2 }; /* of 32 bytes */
    if (!is_loose(p))
        return x * CHANNELS + channel;
    return x / PIXELS * (PIXELS * CHANNELS) + channel / HALF * (PIXELS * HALF) + x % PIXELS * HALF +
           channel % HALF;
}

void cm_cuda_conv_patch_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                             void *to, cm_threads *threads)
{
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_tensor *w = p->in[1];
    size_t size = cm_dtype_size(w->dtype);
    memset(to, 0, cm_cuda_conv_patch_pack_bytes(p, k, input));
    for (int64_t o = 0; o < c->c_out; o++)
        for (int64_t y = 0; y < c->kernel[1]; y++) {
            char *row = (char *)to + (o * c->kernel[1] + y) * row_bytes(p);
            for (int64_t x = 0; x < c->kernel[2]; x++)
                for (int64_t i = 0; i < c->c_in; i++)
                    memcpy(row + (size_t)place_in_row(p, x, i) * size,
                           (const char *)from + (size_t)(o * w->strides[0] + i * w->strides[1] +
                                                         y * w->strides[2] + x * w->strides[3]) *
                                                    size,
                           size);
        }
}

static void put_text(const cm_problem *p, setting s, cm_buf *out)
{
    const cm_conv *c = &p->as.conv;
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define IN_CHANNELS %d\n#define KERNEL_Y %d\n"
                  "#define KERNEL_X %d\n#define STRIDE_Y %d\n#define STRIDE_X %d\n"
                  "#define DILATION_Y %d\n#define WARPS %d\n#define TALL %d\n#define GROUPS %d\n"
                  "#define LOOSE %d\n",
                  cm_element_text(p->in[0]->dtype), (int)c->c_in, (int)c->kernel[1],
                  (int)c->kernel[2], (int)c->stride[1], (int)c->stride[2], (int)c->dilation[1],
                  WARPS, s.tall, s.groups, is_loose(p));
}

cm_status cm_cuda_conv_patch_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    patch_state *s;
    setting own = setting_of(k);
    CM_NEW(cx, arena, s, patch_state);
    s->args = (patch_args){.n = (int32_t)c->c_out, .images = (uint32_t)c->n};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->tiles = (uint32_t)tiles_of(c, own);
    int64_t most = g.multiprocessors * (fits(p, own, PER_MULTIPROCESSOR) ? PER_MULTIPROCESSOR : 1);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(s->tiles, most)},
                        .threads = {WARPS * 32},
                        .shared = shared_bytes(p, own),
                        .overlaps = g.sm >= 90};
    *state = s;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    put_text(p, own, &text);
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "conv_patch", .entry = "conv_patch"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_patch_run(const cm_run *r)
{
    const patch_state *s = r->state;
    patch_args x = s->args;
    uint32_t tiles = s->tiles;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &tiles, &f});
}
