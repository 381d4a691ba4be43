/* conv_tile.c -- convolutions as matrix products in tiles whose left operand is gathered.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/conv.h"

typedef struct {
    const cm_kernel *conv, *sum; /* sum NULL: one pass */
    cm_grid grid, sum_grid;
    cm_gpu_conv_args args;
    cm_finish finish;
} conv_state;

const char *cm_cuda_conv_tile_reject(const cm_problem *p)
{
    return cm_cuda_conv_reject(p);
}

int cm_cuda_conv_tile_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    return cm_tiling_choose(&g, &e, out);
}

/* Rows of a tile that take as long to gather, where channels are few, as all that the cost has. */
enum { SCATTERED_ROWS = 150, MOST_ROWS = 128 };

double cm_cuda_conv_tile_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    double rows = cm_gpu_conv_scattered(p) ? (t.m < MOST_ROWS ? t.m : MOST_ROWS) : 0;
    return cm_tiling_cost(&g, &t, &e) * (1 + rows / SCATTERED_ROWS);
}

size_t cm_cuda_conv_tile_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    return cm_tiling_partial_bytes(&g, &t, &e);
}

static void put_text(const cm_problem *p, const cm_gpu_facts *g, const cm_tiling *t,
                     const cm_extent *e, cm_buf *out)
{
    cm_tiling_text(g, t, e, cm_element_text(p->in[0]->dtype),
                   (cm_reading){false, cm_gpu_conv_whole(p)}, (cm_reading){false, true}, true, out);
    cm_buf_printf(out, "#define TRANSPOSED %d\n#define VOLUME %d\n", p->as.conv.transposed,
                  cm_gpu_conv_volume(p));
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_facts *g,
                         const cm_tiling *t, const cm_extent *e, conv_state *s)
{
    cm_tensor room;
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    cm_status st = CM_OK;
    if (s->sum_grid.blocks[0])
        st = cm_gpu_kernel(cx, d, &(cm_kernel_text){"split_sum", cm_buf_text(&text), "split_sum"},
                           0, &s->sum);
    put_text(p, g, t, e, &text);
    if (st == CM_OK && text.failed)
        st = cm_fail_memory(cx);
    if (st == CM_OK)
        st = cm_gpu_kernel(cx, d, &(cm_kernel_text){"conv_tile", cm_buf_text(&text), "conv_tile"},
                           s->grid.shared, &s->conv);
    cm_buf_deinit(&text);
    return st;
}

cm_status cm_cuda_conv_tile_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                  const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    cm_result_axes axes;
    cm_tensor room;
    conv_state *s;
    CM_NEW(cx, arena, s, conv_state);
    cm_gpu_conv_args_of(p, t.splits, &s->args);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->grid = cm_tiling_grid(&g, &t, &e);
    s->sum_grid = cm_tiling_sum_grid(&g, &t, &e);
    *state = s;
    return compile(cx, d, p, &g, &t, &e, s);
}

cm_status cm_cuda_conv_tile_run(const cm_run *r)
{
    const conv_state *s = r->state;
    cm_gpu_conv_args x = s->args;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    x.partial = r->workspace;
    CM_TRY(cm_gpu_launch(r, s->conv, &s->grid, (void *[]){&x, &f}));
    if (!s->sum)
        return CM_OK;
    /* A group's columns follow those of the groups before it. */
    return cm_gpu_launch(r, s->sum, &s->sum_grid,
                         (void *[]){&x.partial, &x.m, &x.n, &x.groups, &x.splits, &x.n, &f});
}
