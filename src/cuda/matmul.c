/* matmul.c -- the table of matrix-product tactics, and what they share: roles, types, packing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/matmul.h"

#include "base/size.h"
#include "cuda/tactics.h"

/* Best guess first. */
#define ROW(stem, packing, least, ...)                                                             \
    {                                                                                              \
        .name = #stem, .level = least, .reject = cm_cuda_##stem##_reject,                          \
        .knobs = cm_cuda_##stem##_knobs, .cost = cm_cuda_##stem##_cost,                            \
        .pack_bytes = packing##_pack_bytes, .pack = packing##_pack,                                \
        .ready = cm_cuda_##stem##_ready, .run = cm_cuda_##stem##_run, __VA_ARGS__                  \
    }
const cm_tactic cm_cuda_matmul_tactics[] = {
    ROW(matmul_wgmma, cm_gpu_turned, 900, .joins = true, .signals = cm_cuda_matmul_wgmma_signals),
    ROW(matmul_skinny, cm_gpu_turned, 800),
    ROW(matmul_few, cm_gpu_product, 750),
    ROW(matmul_tile, cm_gpu_product, 750, .workspace = cm_cuda_matmul_tile_workspace),
    ROW(matmul_cublaslt, cm_gpu_product, 750, .workspace = cm_cuda_matmul_cublaslt_workspace,
        .apart_ns = cm_gpu_apart_ns),
};
const int cm_cuda_matmul_count = CM_COUNT(cm_cuda_matmul_tactics);

enum { LINE = 16 }; /* bytes read at once */

int64_t cm_gpu_product_pitch(const cm_problem *p, int input)
{
    const cm_tensor *t = p->in[input];
    int64_t each = LINE / (int64_t)cm_dtype_size(t->dtype);
    if (!p->constant[input] || t->rank != 2 || t->dims[1] == 1 || !cm_tensor_is_dense(t) ||
        t->dims[1] % each == 0)
        return 0;
    return cm_ceil_div(t->dims[1], each) * each;
}

size_t cm_gpu_product_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    if (input > 1)
        return 0;
    return (size_t)(cm_gpu_product_pitch(p, input) * p->in[input]->dims[0]) *
           cm_dtype_size(p->in[input]->dtype);
}

typedef struct {
    const char *from;
    char *to;
    size_t row, pitch; /* bytes */
} pack_job;

static void pack_rows(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        char *to = j->to + (size_t)i * j->pitch;
        memcpy(to, j->from + (size_t)i * j->row, j->row);
        memset(to + j->row, 0, j->pitch - j->row);
    }
}

void cm_gpu_product_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                         void *to, cm_threads *threads)
{
    (void)k;
    const cm_tensor *t = p->in[input];
    size_t size = cm_dtype_size(t->dtype);
    pack_job j = {from, to, (size_t)t->dims[1] * size,
                  (size_t)cm_gpu_product_pitch(p, input) * size};
    cm_parallel(threads, t->dims[0], 1 + 100000 / (int64_t)j.pitch, pack_rows, &j);
}

/* The transposed product: c^T = b^T a^T. */
static void exchange(cm_gpu_product *v)
{
    cm_matmul_transpose(&v->s);
    v->a = 1;
    v->b = 0;
}

/* Strides of a packed constant: its rows are further apart. */
static bool use_pitch(const cm_problem *p, int input, cm_matrix *x)
{
    int64_t pitch = cm_gpu_product_pitch(p, input);
    if (pitch == 0)
        return false;
    int64_t *between_rows = x->col == 1 ? &x->row : &x->col;
    *between_rows = pitch;
    return true;
}

static const char *read_types(const cm_problem *p, cm_gpu_product *v)
{
    cm_dtype t = p->in[0]->dtype;
    if (p->in[1]->dtype != t || (t != CM_F32 && t != CM_F16 && t != CM_BF16))
        return "the operands are not both float32, float16 or bfloat16";
    if (t == CM_BF16 && p->target.level < 800)
        return "bfloat16 needs sm_80";
    v->arithmetic = t != CM_F32                         ? CM_ARITHMETIC_HALF
                    : p->tf32 && p->target.level >= 800 ? CM_ARITHMETIC_TF32
                                                        : CM_ARITHMETIC_FLOAT;
    return NULL;
}

const char *cm_gpu_product_of(const cm_problem *p, cm_gpu_product *v)
{
    *v = (cm_gpu_product){.s = p->as.matmul, .a = 0, .b = 1, .matrices = 1};
    const char *why = read_types(p, v);
    if (why)
        return why;
    v->packed[0] = use_pitch(p, 0, &v->s.a);
    v->packed[1] = use_pitch(p, 1, &v->s.b);
    bool cols = v->s.n == 1 || v->s.c.col == 1, rows = v->s.m == 1 || v->s.c.row == 1;
    if ((!cols && rows) || (v->s.n == 1 && v->s.m > 1 && v->s.c.row == 1)) {
        exchange(v);
        bool first = v->packed[0];
        v->packed[0] = v->packed[1];
        v->packed[1] = first;
    }
    for (int i = 0; i < v->s.n_batch; i++) {
        v->matrices *= v->s.batch[i];
        if (!cm_axes_push(&v->a_z, v->s.batch[i], v->s.a.batch[i]) ||
            !cm_axes_push(&v->b_z, v->s.batch[i], v->s.b.batch[i]))
            return "the batch has too many axes";
    }
    if (v->s.k > INT32_MAX / 8)
        return "k is too large";
    if (!cm_result_of_matmul(p->out[0], &v->s, &v->axes))
        return "the output's axes are not those of the product";
    v->bias = v->s.bias >= 0 ? p->in[v->s.bias] : NULL;
    return cm_finish_reject(p, &v->axes, v->bias);
}

cm_reading cm_gpu_product_reading(const cm_gpu_product *v, const cm_matrix *x, int element)
{
    bool is_a = x == &v->s.a, packed = v->packed[!is_a];
    const cm_axes *z = is_a ? &v->a_z : &v->b_z;
    int64_t rows = is_a ? v->s.m : v->s.n;
    int64_t row = is_a ? x->row : x->col, k = is_a ? x->col : x->row, each = LINE / element;
    cm_reading r = {.across = k != 1 && row == 1 && v->s.k > 1};
    int64_t along = r.across ? row : k, between = r.across ? k : row;
    int64_t length = r.across ? rows : v->s.k, lines = r.across ? v->s.k : rows;
    r.whole = (along == 1 || length == 1) && (length % each == 0 || packed) &&
              (between % each == 0 || lines == 1);
    for (int i = 0; i < z->n; i++)
        r.whole = r.whole && z->stride[i] % each == 0;
    return r;
}

cm_extent cm_gpu_product_extent(const cm_problem *p, const cm_gpu_product *v)
{
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    cm_reading a = cm_gpu_product_reading(v, &v->s.a, element);
    cm_reading b = cm_gpu_product_reading(v, &v->s.b, element);
    double bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += (double)cm_tensor_elems(p->in[i]) * element;
    bytes += (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype);
    int added = 0;
    for (int i = 0; p->epilogue && i < p->n_operands; i++) {
        bytes +=
            (double)cm_tensor_elems(p->operands[i]) * (double)cm_dtype_size(p->operands[i]->dtype);
        added += cm_tensor_elems(p->operands[i]) == cm_tensor_elems(p->out[0]);
    }
    return (cm_extent){v->arithmetic,
                       v->s.m,
                       v->s.n,
                       v->s.k,
                       v->matrices,
                       element,
                       bytes,
                       a.whole && b.whole ? 1 : 10,
                       cm_extent_functions(p),
                       added};
}

void cm_product_ends_init(cm_product_ends *e, const cm_problem *p, const cm_gpu_product *v)
{
    e->a = v->a;
    e->b = v->b;
    e->bias = v->s.bias;
    cm_finish_init(&e->finish, p, &v->axes, v->bias);
    e->finish.alpha = v->s.alpha;
    e->finish.beta = v->s.beta;
}

cm_finish cm_product_ends_bind(const cm_product_ends *e, const cm_run *r)
{
    cm_finish f = e->finish;
    cm_finish_bind(&f, r, e->bias >= 0 ? r->in[e->bias] : NULL);
    return f;
}
