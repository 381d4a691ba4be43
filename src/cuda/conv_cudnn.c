/* conv_cudnn.c -- convolutions by cuDNN, where it is installed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two spatial axes, channels innermost, one group: with more of them, huge numbers in one were seen to come out as NaN in another.
 * The bias and an epilogue that is a chain of simple steps go into its graph. */
#include <string.h>

#include "cuda/conv.h"
#include "cuda/cudnn.h"

enum { WAYS = 3 }; /* of the library's own ranking; knob 0 says which */
static const size_t WORKSPACE = (size_t)32 << 20;

typedef struct {
    const cm_dnn_plan *plan;
    int n_operands;
    int operand[CM_DNN_STEPS]; /* of the epilogue; -1: the bias */
} dnn_state;

static int64_t type_of(cm_dtype t)
{
    return t == CM_F32 ? CM_DNN_FLOAT : t == CM_F16 ? CM_DNN_HALF : CM_DNN_BFLOAT16;
}

/* -1: none that cuDNN has, or with another meaning for NaN and infinities. */
static int64_t operation_of(cm_pointwise op)
{
    static const struct {
        cm_pointwise ours;
        int theirs;
    } same[] = {{CM_PW_ADD, CM_DNN_ADD},         {CM_PW_MUL, CM_DNN_MUL},
                {CM_PW_RELU, CM_DNN_RELU},       {CM_PW_TANH, CM_DNN_TANH},
                {CM_PW_SIGMOID, CM_DNN_SIGMOID}, {CM_PW_GELU, CM_DNN_GELU},
                {CM_PW_SILU, CM_DNN_SWISH},      {CM_PW_GELU_TANH, CM_DNN_GELU_TANH}};
    for (int i = 0; i < CM_COUNT(same); i++)
        if (same[i].ours == op)
            return same[i].theirs;
    return -1;
}

/* An axis of one element may have any stride: it gets that of dense pixels, which cuDNN tells layouts by. */
static void describe(const cm_tensor *t, cm_dnn_tensor *out)
{
    static const int inner_first[CM_DNN_RANK] = {1, 3, 2, 0};
    int64_t dense = 1;
    out->type = type_of(t->dtype);
    for (int i = 0; i < CM_DNN_RANK; i++) {
        int d = inner_first[i];
        out->dims[d] = t->dims[d];
        out->strides[d] = t->dims[d] == 1 ? dense : t->strides[d];
        dense = out->strides[d] * t->dims[d];
    }
}

/* As it broadcasts to four axes, channels innermost. False: it has a form that is not described so. */
static bool describe_operand(const cm_tensor *t, cm_dtype dtype, cm_dnn_tensor *out)
{
    int missing = CM_DNN_RANK - t->rank;
    if (t->dtype != dtype || missing < 0)
        return false;
    int64_t elems = cm_tensor_elems(t);
    out->type = type_of(t->dtype);
    for (int d = 0; d < CM_DNN_RANK; d++) {
        out->dims[d] = d < missing ? 1 : t->dims[d - missing];
        out->strides[d] = out->dims[d] == 1 ? elems : t->strides[d - missing];
    }
    out->strides[1] = 1;
    return out->dims[1] == 1 || t->strides[1 - missing] == 1;
}

static bool add_step(cm_dnn_conv *c, int64_t op, const cm_tensor *operand)
{
    if (c->n_steps == CM_DNN_STEPS || op < 0)
        return false;
    struct cm_dnn_step *s = &c->step[c->n_steps++];
    s->op = op;
    s->has_operand = operand != NULL;
    return !operand || describe_operand(operand,
                                        c->y.type == CM_DNN_FLOAT  ? CM_F32
                                        : c->y.type == CM_DNN_HALF ? CM_F16
                                                                   : CM_BF16,
                                        &s->operand);
}

/* Each step takes the one before, and perhaps an operand. */
static bool add_epilogue(const cm_problem *p, cm_dnn_conv *c, int *operand, int *n)
{
    const cm_program *e = p->epilogue;
    cm_program_arg value = cm_arg_x();
    for (int i = 0; e && i < e->n_steps; i++) {
        const cm_program_arg *arg = e->step[i].arg;
        bool first = arg[0].kind == value.kind && arg[0].index == value.index;
        int arity = cm_pointwise_arity(e->step[i].op);
        const cm_program_arg *other = arity == 2 ? &arg[first ? 1 : 0] : NULL;
        bool second = arity == 2 && arg[1].kind == value.kind && arg[1].index == value.index;
        if ((!first && !second) || arity > 2 || (other && other->kind != CM_ARG_OPERAND) ||
            !add_step(c, operation_of(e->step[i].op), other ? p->operands[other->index] : NULL))
            return false;
        if (other)
            operand[(*n)++] = other->index;
        value = cm_arg_result(i);
    }
    return !e || (e->n_outputs == 1 && e->output[0] == e->n_steps - 1);
}

/* False: it is not of cuDNN's kind. */
static bool read_problem(const cm_problem *p, cm_dnn_conv *c, int *operand, int *n)
{
    const cm_conv *v = &p->as.conv;
    cm_tensor bias;
    memset(c, 0, sizeof *c);
    *n = 0;
    describe(p->in[0], &c->x);
    describe(p->out[0], &c->y);
    c->w = (cm_dnn_tensor){
        .type = c->x.type,
        .dims = {v->c_out, v->c_in, v->kernel[1], v->kernel[2]},
        .strides = {v->c_in * v->kernel[1] * v->kernel[2], 1, v->c_in * v->kernel[2], v->c_in}};
    for (int d = 0; d < 2; d++) {
        c->pad[d] = v->pad[d + 1];
        c->stride[d] = v->stride[d + 1];
        c->dilation[d] = v->dilation[d + 1];
        c->pad_after[d] = (v->out[d + 1] - 1) * c->stride[d] +
                          (v->kernel[d + 1] - 1) * c->dilation[d] + 1 - v->in[d + 1] - c->pad[d];
        if (c->pad[d] < 0)
            return false;
        if (c->pad_after[d] <
            0) /* the last of the input are not read; the size of the output says so */
            c->pad_after[d] = 0;
    }
    if (cm_gpu_conv_bias(p, &bias)) {
        if (!add_step(c, CM_DNN_ADD, &bias))
            return false;
        operand[(*n)++] = -1;
    }
    return add_epilogue(p, c, operand, n);
}

const char *cm_cuda_conv_cudnn_reject(const cm_problem *p)
{
    cm_dnn_conv c;
    int operand[CM_DNN_STEPS], n;
    if (!cm_cudnn_get())
        return "cuDNN was not found";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (p->as.conv.axes != 2 || p->as.conv.transposed || p->as.conv.groups != 1)
        return "it is transposed, of several groups, or has not two spatial axes";
    if (cm_gpu_conv_arithmetic(p) == CM_ARITHMETIC_FLOAT)
        return "float32 that is not to be shortened";
    if (!cm_gpu_conv_whole(p) || p->out[0]->strides[1] != 1 || p->out[0]->dtype != p->in[0]->dtype)
        return "channels are not innermost in multiples of 16 bytes, or the output is of another "
               "type";
    return read_problem(p, &c, operand, &n) ? NULL : "it has no such epilogue or padding";
}

int cm_cuda_conv_cudnn_knobs(const cm_problem *p, cm_knobs *out)
{
    (void)p;
    for (int i = 0; i < WAYS; i++)
        out[i] = (cm_knobs){{i}};
    return WAYS;
}

/* Not modelled: somewhat more than ours take, so that only measuring decides for it. */
double cm_cuda_conv_cudnn_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_knobs own[CM_MAX_KNOBS];
    cm_cuda_conv_tile_knobs(p, own);
    double ns = cm_cuda_conv_tile_cost(p, own);
    if (!cm_cuda_conv_wgmma_reject(p)) {
        cm_cuda_conv_wgmma_knobs(p, own);
        double other = cm_cuda_conv_wgmma_cost(p, own);
        ns = other < ns ? other : ns;
    }
    return ns * (1.2 + 0.05 * k->v[0]);
}

size_t cm_cuda_conv_cudnn_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)p;
    (void)k;
    return WORKSPACE;
}

cm_status cm_cuda_conv_cudnn_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **state)
{
    cm_dnn_conv c;
    dnn_state *s;
    CM_NEW(cx, arena, s, dnn_state);
    *state = s;
    if (!d->cu) /* compiled for only: the library decides where it runs */
        return CM_OK;
    if (!read_problem(p, &c, s->operand, &s->n_operands))
        return cm_fail(cx, CM_ERR_INTERNAL, "a convolution that cuDNN cannot do was given to it");
    CM_TRY(cm_device_enter(cx, d));
    cm_status st = cm_dnn_plan_of(cx, d, &c, k->v[0], WORKSPACE, &s->plan);
    cm_device_leave(d);
    return st;
}

cm_status cm_cuda_conv_cudnn_run(const cm_run *r)
{
    const dnn_state *s = r->state;
    void *data[3 + CM_DNN_STEPS] = {(void *)r->in[0], (void *)r->in[1], r->out[0]};
    for (int i = 0; i < s->n_operands; i++)
        data[3 + i] = (void *)(s->operand[i] < 0 ? r->in[2] : r->operands[s->operand[i]]);
    CM_TRY(cm_device_enter(r->cx, r->stream->d));
    cm_status st = cm_dnn_run(r->cx, s->plan, r->stream->cu, data, 3 + s->n_operands, r->workspace);
    cm_device_leave(r->stream->d);
    return st;
}
