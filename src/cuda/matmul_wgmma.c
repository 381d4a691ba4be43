/* matmul_wgmma.c -- matrix products on sm_90 with bulk copies and products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"

enum { TILE_M = 128, TILE_K = 64, WARPS = 8 };

/* As knobs, in this order. */
typedef struct {
    int n;      /* columns of a tile */
    int stages; /* tiles of k in shared memory */
    int per_multiprocessor;
} setting;

static const struct {
    setting s;
    double efficiency; /* of the matrix units, between beginning and end of a tile */
} settings[] = {
    {{256, 4, 1}, 0.95},
    {{128, 3, 2}, 0.90},
    {{128, 6, 1}, 0.82},
    {{64, 4, 2}, 0.65},
};

/* As kernels/matmul_wgmma.cu has it. */
typedef struct {
    int32_t m, n, k;
    uint32_t tiles;
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

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2]};
}

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
    double ns[CM_COUNT(settings)];
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const setting *s = &settings[i].s;
        cm_knobs k = {{s->n, s->stages, s->per_multiprocessor}};
        double cost = cm_cuda_matmul_wgmma_cost(p, &k);
        int at = i;
        for (; at > 0 && ns[at - 1] > cost; at--) {
            ns[at] = ns[at - 1];
            out[at] = out[at - 1];
        }
        ns[at] = cost;
        out[at] = k;
    }
    return CM_COUNT(settings);
}

static int64_t tiles_of(const cm_gpu_product *v, const setting *s)
{
    return cm_ceil_div(v->s.m, TILE_M) * cm_ceil_div(v->s.n, s->n) * v->matrices;
}

/* What a multiprocessor needs to hand out one result, and a block to begin. */
static const double RESULT_NS = 0.07, BEGIN_NS = 2000;

double cm_cuda_matmul_wgmma_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_gpu_product v;
    cm_gpu_product_of(p, &v);
    cm_extent e = cm_gpu_product_extent(p, &v);
    setting s = setting_of(k);
    double efficiency = 0.6;
    for (int i = 0; i < CM_COUNT(settings); i++)
        if (settings[i].s.n == s.n && settings[i].s.per_multiprocessor == s.per_multiprocessor)
            efficiency = settings[i].efficiency;
    double rate = g.half_tflops * 1000 / g.multiprocessors * efficiency;
    double k_steps = (double)cm_ceil_div(e.k, TILE_K);
    double tile = 2.0 * TILE_M * s.n * TILE_K * k_steps / rate;
    double out = RESULT_NS * TILE_M * s.n / (s.per_multiprocessor == 1 ? 1 : 2);
    double busiest = (double)cm_ceil_div(tiles_of(&v, &s), g.multiprocessors);
    /* One block of two that are meant to share a multiprocessor waits more. */
    double alone = s.per_multiprocessor == 2 && busiest < 2 ? 1.4 : 1;
    double compute = busiest * (tile * alone + out), memory = e.bytes / g.read_gbs;
    return g.launch_ns + BEGIN_NS + (compute > memory ? compute : memory);
}

/* wgmma(): 64 rows by n columns from 16 of k. */
static void put_instruction(cm_buf *out, int n, const char *type, bool a_across, bool b_across)
{
    int sums = n / 2;
    cm_buf_printf(
        out,
        "static __device__ __forceinline__ void wgmma(float (&d)[%d], unsigned long long a,"
        " unsigned long long b, int add)\n{\n    asm volatile(\"{\\n\\t.reg .pred p;\\n\\t"
        "setp.ne.b32 p, %%%d, 0;\\n\\twgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {",
        sums, sums + 2, n, type, type);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(out, "%s%%%d", i ? ", " : "", i);
    cm_buf_printf(out, "}, %%%d, %%%d, p, 1, 1, %d, %d;\\n\\t}\"\n        : ", sums, sums + 1,
                  a_across, b_across);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(out, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    cm_buf_str(out, "\n        : \"l\"(a), \"l\"(b), \"r\"(add));\n}\n");
}

static size_t shared_bytes(const setting *s)
{
    size_t part = s->per_multiprocessor == 1 ? 64 : 32;
    return 1024 + (size_t)s->stages * (size_t)((TILE_M + s->n) * TILE_K * 2 + 16) +
           WARPS * 8 * (part + 8) * sizeof(float);
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
                         const setting *x, wgmma_state *s)
{
    cm_reading a = cm_gpu_product_reading(v, &v->s.a, 2), b = cm_gpu_product_reading(v, &v->s.b, 2);
    const char *type = cm_element_text(p->in[0]->dtype);
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, v->bias, &text);
    put_instruction(&text, x->n, type, a.across, b.across);
    cm_buf_printf(&text,
                  "#define ELEMENT %s\n#define TILE_N %d\n#define STAGES %d\n"
                  "#define PER_MULTIPROCESSOR %d\n#define A_ACROSS %d\n#define B_ACROSS %d\n",
                  type, x->n, x->stages, x->per_multiprocessor, a.across, b.across);
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
    setting x = setting_of(k);
    wgmma_state *s;
    CM_NEW(cx, arena, s, wgmma_state);
    int64_t tiles = tiles_of(&v, &x), most = (int64_t)g.multiprocessors * x.per_multiprocessor;
    s->a_map = map_of(&v, &v.s.a, v.s.m, TILE_M);
    s->b_map = map_of(&v, &v.s.b, v.s.n, x.n);
    s->args = (wgmma_args){(int32_t)v.s.m,  (int32_t)v.s.n,       (int32_t)v.s.k,
                           (uint32_t)tiles, s->a_map.dims[2] > 1, s->b_map.dims[2] > 1};
    s->dtype = p->in[0]->dtype;
    s->a = v.a;
    s->b = v.b;
    s->bias = v.s.bias;
    cm_finish_init(&s->finish, p, &v.axes, v.bias);
    s->finish.alpha = v.s.alpha;
    s->finish.beta = v.s.beta;
    s->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(tiles, most)},
                        .threads = {x.per_multiprocessor == 1 ? 384 : 288},
                        .shared = shared_bytes(&x),
                        .overlaps = true};
    *state = s;
    return compile(cx, d, p, &v, &x, s);
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
