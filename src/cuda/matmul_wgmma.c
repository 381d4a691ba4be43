/* matmul_wgmma.c -- matrix products on sm_90 with bulk copies and products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/product_norm.h"

/* As kernels/matmul_wgmma.cu has it. */
typedef struct {
    int32_t m, n, k;
    uint32_t places;
    int32_t a_moves, b_moves, added_moves;
} wgmma_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    wgmma_args args;
    cm_product_ends ends;
    cm_whole whole;
    cm_box_map a_map, b_map;
    cm_dtype dtype;
} wgmma_state;

/* The step behind it is done with results that lie in whole lines, by blocks that have whole rows. */
static const char *reject_then(const cm_problem *p, const cm_gpu_product *v)
{
    cm_knobs knobs[CM_MAX_KNOBS];
    cm_finish f;
    cm_whole whole;
    const char *why = cm_norm_reject(p, v);
    if (why)
        return why;
    if (cm_cuda_matmul_wgmma_knobs(p, knobs) == 0)
        return "no tiles side by side make up whole rows";
    cm_finish_init(&f, p, &v->axes, v->bias);
    cm_whole_of(&f, p, v->bias, v->s.n, knobs[0].v[0], &whole);
    return whole.is ? NULL : "results do not lie in whole lines";
}

const char *cm_cuda_matmul_wgmma_reject(const cm_problem *p)
{
    cm_gpu_product v;
    if (p->target.level / 10 != 90)
        return "these instructions are sm_90's own";
    const char *why = cm_gpu_product_turned(p, &v);
    if (why)
        return why;
    if (v.arithmetic == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (v.a_z.n > 1 || v.b_z.n > 1)
        return "the batch has several axes";
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    cm_reading a = cm_gpu_product_reading(&v, &v.s.a, element);
    cm_reading b = cm_gpu_product_reading(&v, &v.s.b, element);
    if (!a.whole || !b.whole)
        return "rows do not begin at multiples of 16 bytes";
    if (v.arithmetic == CM_ARITHMETIC_TF32 && (a.across || b.across))
        return "k of a float32 operand is not adjacent";
    return p->then ? reject_then(p, &v) : NULL;
}

int cm_cuda_matmul_wgmma_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    bool b_across = cm_gpu_product_reading(&v, &v.s.b, e.element).across;
    cm_wgmma_kernel kernel = p->then ? CM_WGMMA_ROWS : b_across ? CM_WGMMA_ACROSS : CM_WGMMA_ALL;
    return cm_wgmma_choose(&g, &e, kernel, out);
}

double cm_cuda_matmul_wgmma_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    return cm_wgmma_cost(&g, &w, &e) + (p->then ? cm_norm_cost(p, &w, &e, &g) : 0);
}

size_t cm_cuda_matmul_wgmma_signals(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    return p->then ? cm_norm_signals(&w, &e) : 0;
}

/* rows: of the operand, m or n; tile: as many of them in a box where k is innermost. */
static cm_box_map map_of(const cm_gpu_product *v, const cm_matrix *x, int element, int64_t rows,
                         int tile)
{
    bool is_a = x == &v->s.a;
    const cm_axes *z = is_a ? &v->a_z : &v->b_z;
    cm_reading r = cm_gpu_product_reading(v, x, element);
    int64_t row = is_a ? x->row : x->col, k = is_a ? x->col : x->row, chunk = 16 / element;
    int64_t length = r.across ? rows : v->s.k, lines = r.across ? v->s.k : rows;
    int64_t line = lines == 1 ? cm_ceil_div(length, chunk) * chunk : r.across ? k : row;
    bool moves = z->n == 1 && z->stride[0] != 0;
    return (cm_box_map){
        {(uint64_t)length, (uint64_t)lines, moves ? z->dim[0] : 1},
        {(uint64_t)(line * element), (uint64_t)((moves ? z->stride[0] : line) * element)},
        {(uint32_t)(CM_WGMMA_LINE / element), r.across ? 64 : (uint32_t)tile, 1}};
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_product *v,
                         const cm_wgmma *w, const cm_wgmma_room *room, wgmma_state *s)
{
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    cm_reading a = cm_gpu_product_reading(v, &v->s.a, element);
    cm_reading b = cm_gpu_product_reading(v, &v->s.b, element);
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->ends.finish, p, v->bias, &text);
    cm_whole_text(&s->whole, &s->ends.finish, p, v->bias, &text);
    cm_wgmma_text(w, room, p->in[0]->dtype, a.across, b.across, &text);
    if (p->then)
        cm_norm_text(p, cm_norm_members(w, v->s.n), &text);
    cm_buf_printf(&text,
                  "#define PER_MULTIPROCESSOR %d\n#define A_ACROSS %d\n#define B_ACROSS %d\n"
                  "#define TOGETHER %d\n#define B_EARLY %d\n#define SPLITS %d\n",
                  w->per_multiprocessor, a.across, b.across, w->together, p->constant[v->b],
                  w->splits);
    return cm_gpu_kernel_with(
        cx, d, &text,
        (cm_kernel_text){.file = "matmul_wgmma", .entry = "matmul_wgmma", .needs_a = true},
        s->grid.shared, &s->kernel);
}

cm_status cm_cuda_matmul_wgmma_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                     const cm_knobs *k, const void **state)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_turned(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    wgmma_state *s;
    CM_NEW(cx, arena, s, wgmma_state);
    s->a_map = map_of(&v, &v.s.a, e.element, v.s.m, w.rows);
    s->b_map = map_of(&v, &v.s.b, e.element, v.s.n, w.n / w.together);
    s->dtype = p->in[0]->dtype;
    cm_product_ends_init(&s->ends, p, &v);
    cm_whole_of(&s->ends.finish, p, v.bias, v.s.n, w.n, &s->whole);
    s->whole.is = s->whole.is && w.splits == 1; /* those meet their own way */
    s->args = (wgmma_args){(int32_t)v.s.m,
                           (int32_t)v.s.n,
                           (int32_t)v.s.k,
                           (uint32_t)cm_wgmma_places(&w, &e),
                           s->a_map.dims[2] > 1,
                           s->b_map.dims[2] > 1,
                           s->whole.added.dims[2] > 1};
    bool b_across = cm_gpu_product_reading(&v, &v.s.b, e.element).across;
    cm_wgmma_room room = cm_wgmma_room_of(&g, &w, b_across, &s->whole);
    w.late = cm_wgmma_is_late(&w, &e, &s->whole, &room);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_wgmma_blocks(&g, &w, &e)},
                        .threads = {cm_wgmma_threads(&w)},
                        .cluster = (unsigned)(w.splits > 1 ? w.splits : w.together),
                        .shared = room.bytes,
                        .overlaps = true};
    if (p->then) { /* blocks that make up rows are there at once */
        unsigned members = (unsigned)cm_norm_members(&w, e.n);
        s->grid.blocks[0] -= s->grid.blocks[0] % members;
        s->grid.together = members > 1;
    }
    *state = s;
    return compile(cx, d, p, &v, &w, &room, s);
}

cm_status cm_cuda_matmul_wgmma_run(const cm_run *r)
{
    const wgmma_state *s = r->state;
    cm_tensor_map a, b, added;
    wgmma_args x = s->args;
    CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[s->ends.a], s->a_map.dims,
                             s->a_map.strides, s->a_map.box, 128, &a));
    CM_TRY(cm_gpu_tensor_map(r->cx, r, s->dtype, 3, r->in[s->ends.b], s->b_map.dims,
                             s->b_map.strides, s->b_map.box, 128, &b));
    cm_finish f = cm_product_ends_bind(&s->ends, r);
    CM_TRY(cm_whole_bind(&s->whole, &f, r, &added));
    cm_norm_args norm = {0};
    if (r->then) {
        norm = cm_norm_bind(r);
        f.out.data = r->p->kept ? r->out[0] : r->then->out[0];
    }
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a, &b, &added, &x, &f, &norm});
}
