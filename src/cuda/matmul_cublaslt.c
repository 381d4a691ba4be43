/* matmul_cublaslt.c -- matrix products by cuBLASLt, where it is installed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It counts columns first: our c = a b is its c^T = b^T a^T. Epilogues: a bias for each column, a matrix like the output that is
 * added; each or none. Not its ReLU: one of its ways was seen to give 0 for NaN. */
#include <pthread.h>

#include "cuda/cublaslt.h"
#include "cuda/device.h"
#include "cuda/matmul.h"
#include "cuda/wgmma.h"

enum { WAYS = 3 }; /* of the library's own ranking; knob 0 says which */
static const size_t WORKSPACE = (size_t)32 << 20;

typedef struct {
    const cm_cublaslt *lt;
    void *handle;
    cm_lt_product product;
    cm_lt_matrix a, b, c; /* ours */
    cm_lt_way way;
    float alpha, beta;
    int a_input, b_input;
    int bias_input, bias_operand, matrix_operand; /* -1: none */
} lt_state;

/* What of an epilogue the library does itself. */
typedef struct {
    int bias_input, bias_operand, matrix_operand; /* -1: none */
} lt_epilogue;

/* One number for each column, of the output's type. */
static bool is_column_bias(const cm_problem *p, const cm_gpu_product *v, const cm_tensor *t)
{
    return t && t->dtype == p->out[0]->dtype && v->a == 0 && cm_tensor_elems(t) == v->s.n &&
           v->axes.col.n <= 1 && t->rank > 0 && t->dims[t->rank - 1] == v->s.n &&
           t->strides[t->rank - 1] == 1;
}

/* Lies as the output does. */
static bool is_matrix(const cm_problem *p, const cm_tensor *t)
{
    const cm_tensor *out = p->out[0];
    bool same = t->dtype == out->dtype && t->rank == out->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->dims[i] == out->dims[i] && (t->dims[i] == 1 || t->strides[i] == out->strides[i]);
    return same;
}

/* An operand that is added, in a place that is free. */
static bool take_added(const cm_problem *p, const cm_gpu_product *v, int operand, lt_epilogue *e)
{
    const cm_tensor *t = p->operands[operand];
    if (e->bias_input < 0 && e->bias_operand < 0 && is_column_bias(p, v, t))
        e->bias_operand = operand;
    else if (e->matrix_operand < 0 && is_matrix(p, t))
        e->matrix_operand = operand;
    else
        return false;
    return true;
}

static bool read_epilogue(const cm_problem *p, const cm_gpu_product *v, lt_epilogue *e)
{
    *e = (lt_epilogue){.bias_input = v->s.bias, .bias_operand = -1, .matrix_operand = -1};
    if (v->bias && (v->s.beta != 1 || !is_column_bias(p, v, v->bias)))
        return false;
    const cm_program *x = p->epilogue;
    cm_program_arg value = cm_arg_x();
    for (int i = 0; x && i < x->n_steps; i++) {
        const cm_program_arg *arg = x->step[i].arg;
        bool first = arg[0].kind == value.kind && arg[0].index == value.index;
        const cm_program_arg *other = first ? &arg[1] : &arg[0];
        bool second = arg[1].kind == value.kind && arg[1].index == value.index;
        if (x->step[i].op != CM_PW_ADD || first == second || other->kind != CM_ARG_OPERAND ||
            !take_added(p, v, other->index, e))
            return false;
        value = cm_arg_result(i);
    }
    return !x || (x->n_outputs == 1 && x->output[0] == x->n_steps - 1);
}

const char *cm_cuda_matmul_cublaslt_reject(const cm_problem *p)
{
    cm_gpu_product v;
    lt_epilogue e;
    if (!cm_cublaslt_get())
        return "cuBLASLt was not found";
    const char *why = cm_gpu_product_of(p, &v);
    if (why)
        return why;
    int element = (int)cm_dtype_size(p->in[0]->dtype);
    if (p->out[0]->dtype != p->in[0]->dtype || (v.s.c.col != 1 && v.s.n > 1))
        return "the output is of another type, or no columns are adjacent";
    if (v.s.n_batch > 1)
        return "the batch has several axes";
    if (!cm_gpu_product_reading(&v, &v.s.a, element).whole ||
        !cm_gpu_product_reading(&v, &v.s.b, element).whole)
        return "rows do not begin at multiples of 16 bytes";
    return read_epilogue(p, &v, &e) ? NULL : "it has no such epilogue";
}

int cm_cuda_matmul_cublaslt_knobs(const cm_problem *p, cm_knobs *out)
{
    (void)p;
    for (int i = 0; i < WAYS; i++)
        out[i] = (cm_knobs){{i}};
    return WAYS;
}

/* Not modelled: about what ours take, so that measuring decides. */
double cm_cuda_matmul_cublaslt_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_knobs own[CM_MAX_KNOBS];
    cm_cuda_matmul_tile_knobs(p, own);
    double ns = cm_cuda_matmul_tile_cost(p, own);
    if (!cm_cuda_matmul_wgmma_reject(p)) {
        cm_cuda_matmul_wgmma_knobs(p, own);
        double other = cm_cuda_matmul_wgmma_cost(p, own);
        ns = other < ns ? other : ns;
    }
    return ns * (1.1 + 0.05 * k->v[0]);
}

size_t cm_cuda_matmul_cublaslt_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)p;
    (void)k;
    return WORKSPACE;
}

/* The process's handle; a device is its context's, which is entered before. */
static void *handle_of(const cm_cublaslt *lt)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *handle;
    pthread_mutex_lock(&lock);
    if (!handle && lt->create(&handle) != 0)
        handle = NULL;
    pthread_mutex_unlock(&lock);
    return handle;
}

static int type_of(cm_dtype t)
{
    return t == CM_F32 ? CM_LT_R_32F : t == CM_F16 ? CM_LT_R_16F : CM_LT_R_16BF;
}

/* A matrix of `fast` adjacent elements in `slow` lines, a batch of them; 0 or the library's status. */
static int describe(const cm_cublaslt *lt, cm_lt_matrix *m, int type, int64_t fast, int64_t slow,
                    int64_t pitch, int64_t matrices, int64_t between)
{
    int32_t count = (int32_t)matrices;
    /* The pitch of a single line is not read, but checked. */
    int status = lt->matrix_init(m, sizeof *m, type, (uint64_t)fast, (uint64_t)slow,
                                 slow == 1 ? fast : pitch);
    if (!status)
        status = lt->matrix_set(m, CM_LT_BATCH_COUNT, &count, sizeof count);
    return status ? status : lt->matrix_set(m, CM_LT_BATCH_STRIDE, &between, sizeof between);
}

static int describe_all(lt_state *s, const cm_problem *p, const cm_gpu_product *v)
{
    const cm_matmul *x = &v->s;
    int type = type_of(p->in[0]->dtype), element = (int)cm_dtype_size(p->in[0]->dtype);
    int32_t a_across = cm_gpu_product_reading(v, &x->a, element).across;
    int32_t b_along = !cm_gpu_product_reading(v, &x->b, element).across;
    int64_t za = x->n_batch ? x->a.batch[0] : 0, zb = x->n_batch ? x->b.batch[0] : 0;
    int64_t zc = x->n_batch ? x->c.batch[0] : 0;
    int compute = v->arithmetic == CM_ARITHMETIC_TF32 ? CM_LT_TF32 : CM_LT_FLOAT;
    int status = s->lt->product_init(&s->product, sizeof s->product, compute, CM_LT_R_32F);
    if (!status) /* its A is our B */
        status = s->lt->product_set(&s->product, CM_LT_TRANSPOSE_A, &b_along, sizeof b_along);
    if (!status)
        status = s->lt->product_set(&s->product, CM_LT_TRANSPOSE_B, &a_across, sizeof a_across);
    if (!status)
        status = a_across ? describe(s->lt, &s->a, type, x->m, x->k, x->a.col, v->matrices, za)
                          : describe(s->lt, &s->a, type, x->k, x->m, x->a.row, v->matrices, za);
    if (!status)
        status = b_along ? describe(s->lt, &s->b, type, x->k, x->n, x->b.col, v->matrices, zb)
                         : describe(s->lt, &s->b, type, x->n, x->k, x->b.row, v->matrices, zb);
    return status ? status : describe(s->lt, &s->c, type, x->n, x->m, x->c.row, v->matrices, zc);
}

static int set_epilogue(lt_state *s, const cm_problem *p, const lt_epilogue *e)
{
    bool bias = e->bias_input >= 0 || e->bias_operand >= 0;
    int32_t kind = bias ? CM_LT_EPILOGUE_BIAS : CM_LT_EPILOGUE_NONE;
    int32_t type = type_of(p->out[0]->dtype);
    int status = s->lt->product_set(&s->product, CM_LT_EPILOGUE, &kind, sizeof kind);
    if (!status && bias)
        status = s->lt->product_set(&s->product, CM_LT_BIAS_TYPE, &type, sizeof type);
    s->bias_input = e->bias_input;
    s->bias_operand = e->bias_operand;
    s->matrix_operand = e->matrix_operand;
    s->beta = e->matrix_operand >= 0;
    return status;
}

static int choose_way(lt_state *s, int wanted)
{
    cm_lt_preference preference;
    cm_lt_way ways[WAYS];
    int n = 0, status = s->lt->preference_init(&preference, sizeof preference);
    if (!status)
        status =
            s->lt->preference_set(&preference, CM_LT_MOST_WORKSPACE, &WORKSPACE, sizeof WORKSPACE);
    if (!status)
        status = s->lt->ways(s->handle, &s->product, &s->b, &s->a, &s->c, &s->c, &preference, WAYS,
                             ways, &n);
    if (!status && n > 0)
        s->way = ways[wanted < n ? wanted : 0];
    return status ? status : n > 0 ? 0 : -1;
}

cm_status cm_cuda_matmul_cublaslt_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                        const cm_problem *p, const cm_knobs *k, const void **state)
{
    cm_gpu_product v;
    lt_epilogue e;
    lt_state *s;
    CM_NEW(cx, arena, s, lt_state);
    *state = s;
    if (!d->cu) /* compiled for only: the library decides where it runs */
        return CM_OK;
    cm_gpu_product_of(p, &v);
    read_epilogue(p, &v, &e);
    *s = (lt_state){.lt = cm_cublaslt_get(), .alpha = v.s.alpha, .a_input = v.a, .b_input = v.b};
    CM_TRY(cm_device_enter(cx, d));
    s->handle = handle_of(s->lt);
    int status = s->handle ? describe_all(s, p, &v) : -1;
    if (!status)
        status = set_epilogue(s, p, &e);
    if (!status)
        status = choose_way(s, k->v[0]);
    cm_device_leave(d);
    return status ? cm_fail(cx, CM_ERR_DEVICE, "cuBLASLt has no way for this product (status %d)",
                            status)
                  : CM_OK;
}

cm_status cm_cuda_matmul_cublaslt_run(const cm_run *r)
{
    const lt_state *s = r->state;
    cm_lt_product product = s->product;
    const void *bias = s->bias_input >= 0     ? r->in[s->bias_input]
                       : s->bias_operand >= 0 ? r->operands[s->bias_operand]
                                              : NULL;
    const void *matrix = s->matrix_operand >= 0 ? r->operands[s->matrix_operand] : r->out[0];
    CM_TRY(cm_device_enter(r->cx, r->stream->d));
    int status = bias ? s->lt->product_set(&product, CM_LT_BIAS_POINTER, &bias, sizeof bias) : 0;
    if (!status)
        status = s->lt->multiply(s->handle, &product, &s->alpha, r->in[s->b_input], &s->b,
                                 r->in[s->a_input], &s->a, &s->beta, matrix, &s->c, r->out[0],
                                 &s->c, s->way.algorithm, r->workspace, WORKSPACE, r->stream->cu);
    cm_device_leave(r->stream->d);
    return status ? cm_fail(r->cx, CM_ERR_DEVICE, "cuBLASLt fails with status %d", status) : CM_OK;
}
