/* conv_bulk.c -- convolutions on sm_90 as matrix products whose left operand is brought by bulk copies that walk over images.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as [output channel][kernel position][channel], channels in whole lines of the copies. */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/wgmma.h"

/* As kernels/matmul_wgmma.cu and kernels/pixel_copies.cuh have it; axes are height, width. */
typedef struct {
    int32_t m, n, k;
    uint32_t places;
    int32_t a_moves, b_moves, added_moves;
    int32_t channels, kernel_x;
    int32_t out[2], stride[2], dilation[2], pad[2];
} bulk_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    bulk_args args;
    cm_finish finish;
    cm_whole whole;
    cm_image_map x_map;
    uint64_t w_dims[3], w_strides[2]; /* of the weights, for the copies */
    uint32_t w_box[3];
    cm_dtype dtype;
} bulk_state;

static int64_t line_of(const cm_problem *p) /* elements */
{
    return CM_WGMMA_LINE / (int64_t)cm_dtype_size(p->in[0]->dtype);
}

static int64_t room_of(const cm_problem *p) /* for the channels of a kernel position */
{
    return cm_ceil_div(p->as.conv.c_in, line_of(p)) * line_of(p);
}

/* Where the last window begins, from the last pixel of the axis on. */
static int64_t last_window(const cm_conv *c, int d)
{
    return (c->out[d] - 1) * c->stride[d] - c->pad[d] - (c->in[d] - 1);
}

/* Do the copies reach all places? */
static bool reaches(const cm_conv *c)
{
    enum { LOW = -128, HIGH = 127, FAR = 255, STEP = 8 };
    for (int d = 1; d < 3; d++)
        if (-c->pad[d] < LOW || -c->pad[d] > HIGH || last_window(c, d) < LOW ||
            last_window(c, d) > HIGH || (c->kernel[d] - 1) * c->dilation[d] > FAR ||
            c->stride[d] > STEP)
            return false;
    return true;
}

const char *cm_cuda_conv_bulk_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (p->target.level / 10 != 90)
        return "these instructions are sm_90's own";
    if (c->transposed || c->groups != 1 || cm_gpu_conv_volume(p))
        return "transposed, of groups, or over three axes";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (!cm_gpu_conv_whole(p))
        return "channels are not innermost in multiples of 16 bytes";
    if (!reaches(c))
        return "windows reach too far";
    return NULL;
}

static cm_extent extent_of(const cm_problem *p)
{
    cm_extent e = cm_gpu_conv_extent(p);
    e.k = cm_gpu_conv_taps(&p->as.conv) * room_of(p);
    return e;
}

int cm_cuda_conv_bulk_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    return cm_wgmma_choose(&g, &e, CM_WGMMA_IMAGES, out);
}

static const double WALK_NS = 500;      /* what walking takes at first, beside plain copies */
static const double APART_SHARE = 0.06; /* of memory's rate, for results that are not adjacent */

double cm_cuda_conv_bulk_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    double apart = 0;
    if (p->out[0]->strides[1] != 1)
        apart = (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype) /
                (g.read_gbs * APART_SHARE);
    return cm_wgmma_cost(&g, &w, &e) + cm_gpu_conv_way_out(p) + WALK_NS + apart;
}

size_t cm_cuda_conv_bulk_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    int64_t column = cm_gpu_conv_taps(&p->as.conv) * room_of(p);
    return input == 1 ? (size_t)(p->as.conv.c_out * column) * cm_dtype_size(p->in[1]->dtype) : 0;
}

void cm_cuda_conv_bulk_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                            void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    cm_gpu_conv_pack_taps(p, room_of(p), cm_gpu_conv_taps(&p->as.conv) * room_of(p), from, to,
                          threads);
}

static cm_image_map images_of(const cm_problem *p, int rows)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_conv_sizes s;
    cm_gpu_conv_sizes_of(p, &s);
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int64_t right = c->in[2] > 1 ? s.step[2] : room_of(p);
    int64_t down = c->in[1] > 1 ? s.step[1] : right * c->in[2];
    int64_t image = c->n > 1 ? s.image : down * c->in[1];
    cm_image_map m = {
        .dims = {(uint64_t)c->c_in, (uint64_t)c->in[2], (uint64_t)c->in[1], (uint64_t)c->n},
        .strides = {(uint64_t)(right * size), (uint64_t)(down * size), (uint64_t)(image * size)},
        .channels = (uint32_t)line_of(p),
        .pixels = (uint32_t)rows,
        .steps = {1, (uint32_t)c->stride[2], (uint32_t)c->stride[1], 1}};
    for (int d = 0; d < 2; d++) {
        m.low[d] = (int)-c->pad[2 - d];
        m.high[d] = (int)last_window(c, 2 - d);
    }
    return m;
}

static void describe_weights(bulk_state *s, const cm_problem *p, const cm_wgmma *w)
{
    uint64_t size = cm_dtype_size(s->dtype);
    s->w_dims[0] = (uint64_t)s->args.k;
    s->w_dims[1] = (uint64_t)p->as.conv.c_out;
    s->w_dims[2] = 1;
    s->w_strides[0] = s->w_strides[1] = s->w_dims[0] * size;
    s->w_box[0] = (uint32_t)line_of(p);
    s->w_box[1] = (uint32_t)(w->n / w->together);
    s->w_box[2] = 1;
}

static bulk_args args_of(const cm_problem *p, const cm_extent *e, const cm_wgmma *w)
{
    const cm_conv *c = &p->as.conv;
    bulk_args a = {.m = (int32_t)e->m,
                   .n = (int32_t)e->n,
                   .k = (int32_t)e->k,
                   .places = (uint32_t)cm_wgmma_places(w, e),
                   .channels = (int32_t)c->c_in,
                   .kernel_x = (int32_t)c->kernel[2]};
    for (int d = 0; d < 2; d++) {
        a.out[d] = (int32_t)c->out[1 + d];
        a.stride[d] = (int32_t)c->stride[1 + d];
        a.dilation[d] = (int32_t)c->dilation[1 + d];
        a.pad[d] = (int32_t)c->pad[1 + d];
    }
    return a;
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_wgmma *w,
                         const cm_wgmma_room *room, bulk_state *s)
{
    cm_tensor bias;
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &bias), &text);
    cm_whole_text(&s->whole, &s->finish, p, cm_gpu_conv_bias(p, &bias), &text);
    cm_wgmma_text(w, room, s->dtype, false, false, &text);
    cm_buf_printf(&text,
                  "#define PER_MULTIPROCESSOR %d\n#define A_ACROSS 0\n#define B_ACROSS 0\n"
                  "#define TOGETHER %d\n#define B_EARLY 1\n#define PIXELS 1\n#define SPLITS %d\n",
                  w->per_multiprocessor, w->together, w->splits);
    return cm_gpu_kernel_with(
        cx, d, &text,
        (cm_kernel_text){.file = "matmul_wgmma", .entry = "matmul_wgmma", .needs_a = true},
        s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_bulk_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                  const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    cm_result_axes axes;
    cm_tensor bias;
    bulk_state *s;
    CM_NEW(cx, arena, s, bulk_state);
    s->dtype = p->in[0]->dtype;
    s->args = args_of(p, &e, &w);
    s->x_map = images_of(p, w.rows);
    describe_weights(s, p, &w);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &bias));
    cm_whole_of(&s->finish, p, cm_gpu_conv_bias(p, &bias), e.n, w.n, &s->whole);
    s->whole.is = s->whole.is && w.splits == 1; /* those meet their own way */
    s->args.added_moves = s->whole.added.dims[2] > 1;
    cm_wgmma_room room = cm_wgmma_room_of(&g, &w, false, &s->whole);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_wgmma_blocks(&g, &w, &e)},
                        .threads = {cm_wgmma_threads(&w)},
                        .cluster = (unsigned)(w.splits > 1 ? w.splits : w.together),
                        .shared = room.bytes,
                        .overlaps = true};
    *state = s;
    return compile(cx, d, p, &w, &room, s);
}

cm_status cm_cuda_conv_bulk_run(const cm_run *r)
{
    const bulk_state *s = r->state;
    cm_tensor_map a, b, added;
    bulk_args x = s->args;
    cm_finish f = s->finish;
    CM_TRY(cm_gpu_image_map(r->cx, r, s->dtype, r->in[0], &s->x_map, &a));
    CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[1], s->w_dims, s->w_strides, s->w_box,
                             128, &b));
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    CM_TRY(cm_whole_bind(&s->whole, &f, r, &added));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a, &b, &added, &x, &f});
}
