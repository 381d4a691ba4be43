/* conv_narrow.c -- convolutions of one kernel position with few channels, as fast as memory brings the pixels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/conv.h"

/* As knobs, in this order; what they mean is in kernels/conv_narrow.cu. */
typedef struct {
    int tall, groups, stages;
} setting;
static const setting settings[] = {{2, 2, 3}, {2, 1, 3}, {2, 2, 2},
                                   {2, 1, 2}, {1, 2, 2}, {1, 1, 2}};
enum { WARPS = 8, PER_MULTIPROCESSOR = 2, NEVER = 1 << 20 /* bytes: more than there are */ };

/* As kernels/conv_narrow.cu has it. */
typedef struct {
    const void *x, *w;
    int64_t pitch;
    int32_t m, n, chunks, w_pitch;
} narrow_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    narrow_args args;
    cm_finish finish;
} narrow_state;

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2]};
}

static int64_t chunk_of(const cm_problem *p) /* elements */
{
    return 16 / (int64_t)cm_dtype_size(p->in[0]->dtype);
}

static size_t shared_bytes(const cm_problem *p, setting s)
{
    const cm_conv *c = &p->as.conv;
    int64_t chunks = c->c_in / chunk_of(p), columns = s.groups * 32;
    if (chunks > NEVER / 16 || c->c_out > NEVER)
        return NEVER;
    int64_t pitch = (cm_ceil_div(chunks, 2) * 2 + 1) * 16;
    int64_t lines = WARPS * s.stages * s.tall * 16 + cm_ceil_div(c->c_out, columns) * columns;
    return lines > NEVER / pitch ? NEVER : (size_t)(lines * pitch);
}

const char *cm_cuda_conv_narrow_reject(const cm_problem *p)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    const char *why = cm_gpu_conv_is_product(p) ? cm_cuda_conv_reject(p)
                                                : "outputs are not products of one pixel each";
    if (why)
        return why;
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (!cm_gpu_conv_whole(p))
        return "channels are not innermost in multiples of 16 bytes";
    if (shared_bytes(p, settings[CM_COUNT(settings) - 1]) > (size_t)g.shared_bytes)
        return "too many channels";
    return NULL;
}

/* Two blocks a multiprocessor where that can be. */
static bool fits(const cm_problem *p, setting s, int blocks)
{
    enum { RESERVED = 1024 }; /* of each block */
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    return blocks * (shared_bytes(p, s) + RESERVED) <= (size_t)g.shared_bytes + RESERVED;
}

int cm_cuda_conv_narrow_knobs(const cm_problem *p, cm_knobs *out)
{
    bool few = p->as.conv.c_out <= 32;
    int n = 0;
    for (int blocks = PER_MULTIPROCESSOR; blocks > 0 && n == 0; blocks--)
        for (int i = 0; i < CM_COUNT(settings) && n < 2; i++)
            if (fits(p, settings[i], blocks) && (!few || settings[i].groups == 1))
                out[n++] = (cm_knobs){{settings[i].tall, settings[i].groups, settings[i].stages}};
    return n;
}

/* Blocks get this of memory's rate, and of the matrix units' that older instructions reach. */
static const double MEMORY_SHARE = 0.75, ADDED_SHARE = 0.5, RATE_SHARE = 0.3;
enum { FEW_COLUMNS = 64 }; /* up to here what is added to results comes as fast as the pixels */
static const double BEGIN_NS = 1500; /* until the first results leave */
static const double GROUP_NS = 1500; /* that a warp takes for 32 columns of a tile */

double cm_cuda_conv_narrow_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    setting s = setting_of(k);
    double tiles = (double)cm_ceil_div(e.m, s.tall * 16);
    double rate = (e.arithmetic == CM_ARITHMETIC_HALF ? g.half_tflops : g.tf32_tflops) * 1000 /
                  g.multiprocessors * RATE_SHARE;
    double columns = (double)(cm_ceil_div(c->c_out, s.groups * 32) * s.groups * 32);
    double warps = (double)(g.multiprocessors * WARPS);
    double rounds = tiles / warps < 1 ? 1 : tiles / warps;
    double compute = rounds * WARPS * s.tall * 16 * columns * (double)e.k * 2 / rate;
    double weights = columns * (double)e.k * e.element / (g.read_gbs / g.multiprocessors * 3);
    bool adds = p->epilogue && p->n_operands > 0 && c->c_out > FEW_COLUMNS;
    double memory = e.bytes / (g.read_gbs * (adds ? ADDED_SHARE : MEMORY_SHARE));
    double waiting =
        (double)cm_ceil_div((int64_t)tiles, g.multiprocessors * WARPS * PER_MULTIPROCESSOR) *
        (double)cm_ceil_div(c->c_out, 32) * GROUP_NS;
    if (waiting > memory)
        memory = waiting;
    double alone = fits(p, s, PER_MULTIPROCESSOR) ? 1 : 2;
    return g.launch_ns + BEGIN_NS + weights + alone * (compute > memory ? compute : memory);
}

static void put_text(const cm_problem *p, setting s, cm_buf *out)
{
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define WARPS %d\n#define TALL %d\n#define GROUPS %d\n"
                  "#define STAGES %d\n",
                  cm_element_text(p->in[0]->dtype), WARPS, s.tall, s.groups, s.stages);
}

cm_status cm_cuda_conv_narrow_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_result_axes axes;
    cm_tensor room;
    cm_gpu_conv_args all;
    cm_buf text;
    narrow_state *s;
    setting own = setting_of(k);
    CM_NEW(cx, arena, s, narrow_state);
    cm_gpu_conv_args_of(p, 1, &all);
    s->args = (narrow_args){.pitch = cm_gpu_conv_pixel_pitch(p->in[0]),
                            .m = all.m,
                            .n = all.n,
                            .chunks = (int32_t)(all.k / chunk_of(p)),
                            .w_pitch = all.k_pitch};
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    int64_t tiles = cm_ceil_div(all.m, own.tall * 16 * WARPS);
    int64_t most = g.multiprocessors * (fits(p, own, PER_MULTIPROCESSOR) ? PER_MULTIPROCESSOR : 1);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(tiles, most)},
                        .threads = {WARPS * 32},
                        .shared = shared_bytes(p, own),
                        .overlaps = g.sm >= 90};
    *state = s;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    put_text(p, own, &text);
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "conv_narrow", .entry = "conv_narrow"},
                              s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_narrow_run(const cm_run *r)
{
    const narrow_state *s = r->state;
    narrow_args x = s->args;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &f});
}
