/* matmul_few.c -- products of a few rows: the matrix is read once, as fast as memory gives it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"

/* As kernels/matmul_few.cu has it. */
typedef struct {
    const void *a, *b;
    int32_t m, n, k;
    int64_t a_row, a_k, b_line;
    cm_axes a_z, b_z;
} few_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    few_args args;
    cm_product_ends ends;
} few_state;

enum { MOST_ROWS = 8, MOST_SPLITS = 8, THREADS = 256 };

const char *cm_cuda_matmul_few_reject(const cm_problem *p)
{
    cm_gpu_product v;
    const char *why = cm_gpu_product_of(p, &v);
    if (why)
        return why;
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    if (v.s.m > MOST_ROWS)
        return "more than a few rows";
    cm_reading a = cm_gpu_product_reading(&v, &v.s.a, element);
    cm_reading b = cm_gpu_product_reading(&v, &v.s.b, element);
    if (!b.whole || (!b.across && (!a.whole || a.across)))
        return "lines do not begin at multiples of 16 bytes";
    return NULL;
}

static bool is_across(const cm_problem *p, const cm_gpu_product *v)
{
    return cm_gpu_product_reading(v, &v->s.b, (int)cm_dtype_size(p->in[0]->dtype)).across;
}

/* That are computed. */
static int rows_of(const cm_gpu_product *v)
{
    int rows = 1;
    while (rows < v->s.m)
        rows *= 2;
    return rows;
}

/* Columns of a block. */
static int64_t columns_of(const cm_problem *p, const cm_gpu_product *v)
{
    return is_across(p, v) ? 128 / (int64_t)cm_dtype_size(p->in[0]->dtype) : 8;
}

int cm_cuda_matmul_few_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { STEP = 256 }; /* of k, worth a block */
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    int64_t blocks = cm_ceil_div(v.s.n, columns_of(p, &v)) * v.matrices;
    int splits = 1;
    while (g.sm >= 90 && is_across(p, &v) && splits < MOST_SPLITS &&
           v.s.k >= 2 * (int64_t)splits * STEP && blocks * splits < 4 * (int64_t)g.multiprocessors)
        splits *= 2;
    out[0] = (cm_knobs){{splits}};
    return 1;
}

/* A block's beginning and end; what of memory's rate it reaches; and of that of products, where rows are several (an H200's 8 rows of
 * 25088 by 4096: 660 us), and of one. */
static const double BLOCK_NS = 2200, SHARE = 0.75, RATE = 0.045, RATE_OF_ONE = 0.5;

double cm_cuda_matmul_few_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    double blocks = (double)(cm_ceil_div(v.s.n, columns_of(p, &v)) * v.matrices * k->v[0]);
    double busy = blocks < g.multiprocessors ? blocks / g.multiprocessors : 1;
    double memory = e.bytes / (g.read_gbs * SHARE * busy);
    double compute = 2.0 * rows_of(&v) * (double)v.s.n * (double)v.s.k * (double)v.matrices /
                     (g.tflops * 1000 * (v.s.m > 1 ? RATE : RATE_OF_ONE) * busy);
    return g.launch_ns + BLOCK_NS + (compute > memory ? compute : memory);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_product *v,
                         int splits, few_state *s)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->ends.finish, p, v->bias, &text);
    cm_buf_printf(&text,
                  "#define ELEMENT %s\n#define ROWS %d\n#define B_ACROSS %d\n#define SPLITS %d\n"
                  "#define B_EARLY %d\n",
                  cm_element_text(p->in[0]->dtype), rows_of(v), is_across(p, v), splits,
                  p->constant[v->b]);
    return cm_gpu_kernel_with(
        cx, d, &text, (cm_kernel_text){.file = "matmul_few", .entry = "matmul_few"}, 0, &s->kernel);
}

cm_status cm_cuda_matmul_few_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **state)
{
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    few_state *s;
    CM_NEW(cx, arena, s, few_state);
    const cm_matmul *x = &v.s;
    s->args = (few_args){.m = (int32_t)x->m,
                         .n = (int32_t)x->n,
                         .k = (int32_t)x->k,
                         .a_row = x->a.row,
                         .a_k = x->a.col,
                         .b_line = is_across(p, &v) ? x->b.row : x->b.col,
                         .a_z = v.a_z,
                         .b_z = v.b_z};
    cm_product_ends_init(&s->ends, p, &v);
    int64_t blocks = cm_ceil_div(x->n, columns_of(p, &v)) * v.matrices * k->v[0];
    s->grid = (cm_grid){.blocks = {(unsigned)blocks},
                        .threads = {THREADS},
                        .cluster = (unsigned)k->v[0],
                        .overlaps = p->target.level >= 900};
    *state = s;
    return compile(cx, d, p, &v, k->v[0], s);
}

cm_status cm_cuda_matmul_few_run(const cm_run *r)
{
    const few_state *s = r->state;
    few_args x = s->args;
    cm_finish f = cm_product_ends_bind(&s->ends, r);
    x.a = r->in[s->ends.a];
    x.b = r->in[s->ends.b];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &f});
}
