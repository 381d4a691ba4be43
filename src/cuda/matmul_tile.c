/* matmul_tile.c -- matrix products in tiles: matrix units (float16, bfloat16, tf32) and float32 arithmetic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"

/* As kernels/matmul_tile.cu has it. */
typedef struct {
    const void *a, *b;
    float *partial;
    int32_t m, n, k, splits;
    int64_t a_row, a_k, b_col, b_k;
    cm_axes a_z, b_z;
    uint32_t matrices;
} product_args;

typedef struct {
    const cm_kernel *product, *sum; /* sum NULL: one pass */
    cm_grid grid, sum_grid;
    product_args args;
    cm_product_ends ends;
} tile_state;

const char *cm_cuda_matmul_tile_reject(const cm_problem *p)
{
    cm_gpu_product v;
    return cm_gpu_product_of(p, &v);
}

static cm_extent extent_of(const cm_problem *p)
{
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    return cm_gpu_product_extent(p, &v);
}

int cm_cuda_matmul_tile_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    return cm_tiling_choose(&g, &e, out);
}

double cm_cuda_matmul_tile_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    return cm_tiling_cost(&g, &t, &e);
}

size_t cm_cuda_matmul_tile_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    return cm_tiling_partial_bytes(&g, &t, &e);
}

static void set_args(tile_state *s, const cm_problem *p, const cm_gpu_product *v,
                     const cm_tiling *t)
{
    const cm_matmul *x = &v->s;
    s->args = (product_args){.m = (int32_t)x->m,
                             .n = (int32_t)x->n,
                             .k = (int32_t)x->k,
                             .splits = t->splits,
                             .a_row = x->a.row,
                             .a_k = x->a.col,
                             .b_col = x->b.col,
                             .b_k = x->b.row,
                             .a_z = v->a_z,
                             .b_z = v->b_z,
                             .matrices = (uint32_t)v->matrices};
    cm_product_ends_init(&s->ends, p, v);
}

/* The kernels: product, and second pass where there is one. */
static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_product *v,
                         const char *tiling, tile_state *s)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->ends.finish, p, v->bias, &text);
    cm_status st = CM_OK;
    if (s->sum_grid.blocks[0])
        st = cm_gpu_kernel(cx, d, &(cm_kernel_text){"split_sum", cm_buf_text(&text), "split_sum"},
                           0, &s->sum);
    cm_buf_str(&text, tiling);
    if (st == CM_OK && text.failed)
        st = cm_fail_memory(cx);
    if (st == CM_OK)
        st = cm_gpu_kernel(cx, d,
                           &(cm_kernel_text){"matmul_tile", cm_buf_text(&text), "matmul_tile"},
                           s->grid.shared, &s->product);
    cm_buf_deinit(&text);
    return st;
}

cm_status cm_cuda_matmul_tile_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_tiling t = cm_tiling_of_knobs(k);
    tile_state *s;
    CM_NEW(cx, arena, s, tile_state);
    set_args(s, p, &v, &t);
    s->grid = cm_tiling_grid(&g, &t, &e);
    s->sum_grid = cm_tiling_sum_grid(&g, &t, &e);
    cm_buf tiling;
    cm_buf_init(&tiling, cx->allocator);
    cm_reading a = cm_gpu_product_reading(&v, &v.s.a, e.element);
    cm_reading b = cm_gpu_product_reading(&v, &v.s.b, e.element);
    cm_tiling_text(&g, &t, &e, cm_element_text(p->in[0]->dtype), a, b, p->constant[v.b], &tiling);
    cm_status st =
        tiling.failed ? cm_fail_memory(cx) : compile(cx, d, p, &v, cm_buf_text(&tiling), s);
    cm_buf_deinit(&tiling);
    *state = s;
    return st;
}

cm_status cm_cuda_matmul_tile_run(const cm_run *r)
{
    const tile_state *s = r->state;
    product_args x = s->args;
    cm_finish f = cm_product_ends_bind(&s->ends, r);
    x.a = r->in[s->ends.a];
    x.b = r->in[s->ends.b];
    x.partial = r->workspace;
    CM_TRY(cm_gpu_launch(r, s->product, &s->grid, (void *[]){&x, &f}));
    if (!s->sum)
        return CM_OK;
    int32_t none = 0; /* columns between matrices */
    return cm_gpu_launch(r, s->sum, &s->sum_grid,
                         (void *[]){&x.partial, &x.m, &x.n, &x.matrices, &x.splits, &none, &f});
}
