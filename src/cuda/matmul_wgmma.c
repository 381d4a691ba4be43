/* matmul_wgmma.c -- matrix products on sm_90 with bulk copies and products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"
#include "cuda/wgmma.h"

/* As kernels/matmul_wgmma.cu has it. */
typedef struct {
    int32_t m, n, k;
    uint32_t places;
    int32_t a_moves, b_moves;
} wgmma_args;

/* What the copies are told of an operand, innermost first. */
typedef struct {
    uint64_t dims[3], strides[2];
    uint32_t box[3];
} box_map;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    wgmma_args args;
    cm_finish finish;
    box_map a_map, b_map;
    cm_dtype dtype;
    int a, b, bias; /* inputs; bias -1: none */
} wgmma_state;

const char *cm_cuda_matmul_wgmma_reject(const cm_problem *p)
{
    cm_gpu_product v;
    if (p->target.level / 10 != 90)
        return "these instructions are sm_90's own";
    const char *why = cm_gpu_product_of(p, &v);
    if (why)
        return why;
    if (v.arithmetic != CM_ARITHMETIC_HALF)
        return "not of 16-bit elements";
    if (v.a_z.n > 1 || v.b_z.n > 1)
        return "the batch has several axes";
    if (!cm_gpu_product_reading(&v, &v.s.a, 2).whole ||
        !cm_gpu_product_reading(&v, &v.s.b, 2).whole)
        return "rows do not begin at multiples of 16 bytes";
    return NULL;
}

int cm_cuda_matmul_wgmma_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    return cm_wgmma_choose(&g, &e, true, out);
}

double cm_cuda_matmul_wgmma_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    return cm_wgmma_cost(&g, &w, &e);
}

/* rows: of the operand, m or n; tile: as many of them in a box where k is innermost. */
static box_map map_of(const cm_gpu_product *v, const cm_matrix *x, int64_t rows, int tile)
{
    bool is_a = x == &v->s.a;
    const cm_axes *z = is_a ? &v->a_z : &v->b_z;
    cm_reading r = cm_gpu_product_reading(v, x, 2);
    int64_t row = is_a ? x->row : x->col, k = is_a ? x->col : x->row;
    int64_t length = r.across ? rows : v->s.k, lines = r.across ? v->s.k : rows;
    int64_t line = lines == 1 ? cm_ceil_div(length, 8) * 8 : r.across ? k : row;
    bool moves = z->n == 1 && z->stride[0] != 0;
    return (box_map){{(uint64_t)length, (uint64_t)lines, moves ? z->dim[0] : 1},
                     {(uint64_t)line * 2, (uint64_t)(moves ? z->stride[0] : line) * 2},
                     {64, r.across ? 64 : (uint32_t)tile, 1}};
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_product *v,
                         const cm_wgmma *w, wgmma_state *s)
{
    cm_reading a = cm_gpu_product_reading(v, &v->s.a, 2), b = cm_gpu_product_reading(v, &v->s.b, 2);
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, v->bias, &text);
    cm_wgmma_text(w, p->in[0]->dtype, a.across, b.across, &text);
    cm_buf_printf(&text,
                  "#define PER_MULTIPROCESSOR %d\n#define A_ACROSS %d\n#define B_ACROSS %d\n"
                  "#define TOGETHER %d\n#define B_EARLY %d\n",
                  w->per_multiprocessor, a.across, b.across, w->together, p->constant[v->b]);
    cm_status st = text.failed ? cm_fail_memory(cx)
                               : cm_gpu_kernel(cx, d,
                                               &(cm_kernel_text){"matmul_wgmma", cm_buf_text(&text),
                                                                 "matmul_wgmma", true},
                                               s->grid.shared, &s->kernel);
    cm_buf_deinit(&text);
    return st;
}

cm_status cm_cuda_matmul_wgmma_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                     const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    wgmma_state *s;
    CM_NEW(cx, arena, s, wgmma_state);
    s->a_map = map_of(&v, &v.s.a, v.s.m, CM_WGMMA_ROWS);
    s->b_map = map_of(&v, &v.s.b, v.s.n, w.n / w.together);
    s->args = (wgmma_args){(int32_t)v.s.m,       (int32_t)v.s.n,
                           (int32_t)v.s.k,       (uint32_t)cm_wgmma_places(&w, &e),
                           s->a_map.dims[2] > 1, s->b_map.dims[2] > 1};
    s->dtype = p->in[0]->dtype;
    s->a = v.a;
    s->b = v.b;
    s->bias = v.s.bias;
    cm_finish_init(&s->finish, p, &v.axes, v.bias);
    s->finish.alpha = v.s.alpha;
    s->finish.beta = v.s.beta;
    s->grid = (cm_grid){.blocks = {(unsigned)cm_wgmma_blocks(&g, &w, &e)},
                        .threads = {w.per_multiprocessor == 1 ? 384 : 288},
                        .cluster = (unsigned)w.together,
                        .shared = cm_wgmma_shared(&w),
                        .overlaps = true};
    *state = s;
    return compile(cx, d, p, &v, &w, s);
}

cm_status cm_cuda_matmul_wgmma_run(const cm_run *r)
{
    const wgmma_state *s = r->state;
    cm_tensor_map a, b;
    wgmma_args x = s->args;
    cm_finish f = s->finish;
    CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[s->a], s->a_map.dims, s->a_map.strides,
                             s->a_map.box, 128, &a));
    CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[s->b], s->b_map.dims, s->b_map.strides,
                             s->b_map.box, 128, &b));
    cm_finish_bind(&f, r, s->bias >= 0 ? r->in[s->bias] : NULL);
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a, &b, &x, &f});
}
