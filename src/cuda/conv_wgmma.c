/* conv_wgmma.c -- convolutions on sm_90 as products of warp groups with a gathered operand.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/wgmma.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    cm_gpu_conv_args args;
    uint32_t tiles;
    cm_finish finish;
    cm_whole whole;
    cm_dtype dtype;
    uint64_t dims[3], strides[2]; /* of the weights, for bulk copies */
    uint32_t box[3];
} wgmma_state;

const char *cm_cuda_conv_wgmma_reject(const cm_problem *p)
{
    if (p->target.level / 10 != 90)
        return "these instructions are sm_90's own";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (!cm_gpu_conv_whole(p))
        return "channels are not innermost in multiples of 16 bytes";
    return NULL;
}

int cm_cuda_conv_wgmma_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    return cm_wgmma_choose(&g, &e, CM_WGMMA_PLAIN, out);
}

/* What gathering takes beside the products: at first, and for each tile of k. */
static const double GATHER_NS = 1500, GATHER_STEP_NS = 100;
/* As an H200 says: of each tile of groups, whose results do not go out in whole lines; of each tile of k in tiles of 64 columns. */
static const double GROUP_NS = 1200, SCATTERED_STEP_NS = 450;

/* What convolutions of few channels take besides. */
static double scattered_ns(const cm_problem *p, const cm_wgmma *w, double tiles, double steps)
{
    if (!cm_gpu_conv_scattered(p))
        return 0;
    return (p->as.conv.groups > 1 ? tiles * GROUP_NS : 0) +
           (w->n <= 64 ? steps * SCATTERED_STEP_NS : 0);
}

double cm_cuda_conv_wgmma_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    double busiest = (double)cm_ceil_div(cm_wgmma_places(&w, &e), g.multiprocessors);
    double steps = busiest * (double)cm_ceil_div(e.k * e.element, CM_WGMMA_LINE);
    return cm_wgmma_cost(&g, &w, &e) + cm_gpu_conv_way_out(p) + GATHER_NS + steps * GATHER_STEP_NS +
           scattered_ns(p, &w, busiest, steps);
}

static void describe_weights(wgmma_state *s, const cm_problem *p, const cm_wgmma *w)
{
    uint64_t size = cm_dtype_size(p->in[1]->dtype);
    s->dtype = p->in[1]->dtype;
    s->dims[0] = (uint64_t)s->args.k_pitch;
    s->dims[1] = (uint64_t)p->as.conv.c_out;
    s->dims[2] = 1;
    s->strides[0] = s->strides[1] = s->dims[0] * size;
    s->box[0] = CM_WGMMA_LINE / (uint32_t)size;
    s->box[1] = (uint32_t)w->n;
    s->box[2] = 1;
}

cm_status cm_cuda_conv_wgmma_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    wgmma_state *s;
    CM_NEW(cx, arena, s, wgmma_state);
    cm_gpu_conv_args_of(p, 1, &s->args);
    describe_weights(s, p, &w);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    cm_whole_of(&s->finish, p, cm_gpu_conv_bias(p, &room), e.n, w.n, &s->whole);
    s->whole.is = s->whole.is && p->as.conv.groups == 1;
    cm_wgmma_room shared = cm_wgmma_room_of(&g, &w, false, &s->whole);
    s->tiles = (uint32_t)cm_wgmma_places(&w, &e);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_wgmma_blocks(&g, &w, &e)},
                        .threads = {384},
                        .shared = shared.bytes,
                        .overlaps = true};
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    cm_whole_text(&s->whole, &s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    cm_wgmma_text(&w, &shared, s->dtype, false, false, &text);
    cm_buf_printf(&text, "#define TRANSPOSED %d\n#define VOLUME %d\n", p->as.conv.transposed,
                  cm_gpu_conv_volume(p));
    *state = s;
    return cm_gpu_kernel_with(
        cx, d, &text,
        (cm_kernel_text){.file = "conv_wgmma", .entry = "conv_wgmma", .needs_a = true},
        s->grid.shared, &s->kernel);
}

cm_status cm_cuda_conv_wgmma_run(const cm_run *r)
{
    const wgmma_state *s = r->state;
    cm_gpu_conv_args x = s->args;
    cm_finish f = s->finish;
    cm_tensor_map w, added;
    uint32_t tiles = s->tiles;
    CM_TRY(
        cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[1], s->dims, s->strides, s->box, 128, &w));
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    CM_TRY(cm_whole_bind(&s->whole, &f, r, &added));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&w, &added, &x, &tiles, &f});
}
