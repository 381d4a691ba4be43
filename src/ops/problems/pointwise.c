/* pointwise.c -- cameo.Pointwise and all elementwise operators as problems.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that are constants of one element become numbers of the program, so that tactics need not look
 * at their types. What an operator does to integers (wrapping, division toward zero) is for tactics to
 * know: a program says which function, not in which arithmetic. */
#include <math.h>
#include <string.h>

#include "ops/op_program.h"
#include "ops/problem.h"
#include "ops/problems/loop.h"

bool cm_problem_pointwise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_elementwise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static const cm_tensor *first_output(const cm_problem *p)
{
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o])
            return p->out[o];
    return NULL;
}

static bool fill_loop(cm_arena *arena, cm_problem *p)
{
    cm_pointwise_shape *s = &p->as.pointwise;
    const cm_tensor *shape = first_output(p);
    cm_loop_strides *merged;
    if (!shape)
        return false;
    cm_loop l = {.rank = shape->rank, .like = shape->strides, .n_all = p->n_in + p->n_out};
    l.all = cm_arena_alloc_n(arena, (size_t)l.n_all, sizeof *l.all, _Alignof(int64_t), 1);
    if (!l.all)
        return false;
    memcpy(l.dims, shape->dims, sizeof l.dims);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i])
            cm_loop_broadcast(p->in[i], l.rank, l.all[i]);
    for (int o = 0; o < p->n_out; o++)
        memcpy(l.all[p->n_in + o], (p->out[o] ? p->out[o] : shape)->strides, sizeof *l.all);
    if (!cm_loop_merge(arena, &l, &s->rank, s->dims, &merged, NULL))
        return false;
    s->in = (const cm_loop_strides *)merged;
    s->out = (const cm_loop_strides *)(merged + p->n_in);
    return true;
}

/* Is the input one number that is known, and that a double holds? */
static bool is_number(const cm_problem *p, int i, double *v)
{
    const cm_tensor *t = p->in[i];
    if (!t->data || !p->constant[i] || cm_tensor_elems(t) != 1)
        return false;
    cm_dtype_kind kind = cm_dtype_get(t->dtype)->kind;
    if (kind == CM_KIND_STRING || kind == CM_KIND_COMPLEX || kind == CM_KIND_NONE)
        return false;
    *v = cm_get_f64(t->dtype, t->data, 0);
    return !cm_dtype_is_integer(t->dtype) || fabs(*v) <= 0x1p53;
}

static cm_program_arg argument(const cm_problem *p, int i)
{
    double v;
    return is_number(p, i, &v) ? cm_arg_number(v) : cm_arg_operand(i);
}

bool cm_problem_pointwise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_ctx cx = {0};
    cm_str text = cm_attr_str(op, attr, "program");
    cm_program *program = cm_new(arena, cm_program);
    if (!program || cm_program_parse(&cx, text.p, text.n, program) != CM_OK)
        return false;
    p->program = program;
    return fill_loop(arena, p);
}

/* Elementwise operators never have epilogues: they become groups instead. */
bool cm_problem_elementwise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_program *program = cm_new(arena, cm_program);
    cm_program_arg args[CM_PROGRAM_MAX], result;
    int n = 0;
    if (!program || p->n_in > CM_PROGRAM_MAX || p->epilogue)
        return false;
    memset(program, 0, sizeof *program);
    for (int i = 0; i < p->n_in; i++) {
        if (op->id == CM_OP_CLIP && i > 0)
            break;
        if (!p->in[i])
            return false;
        args[n++] = argument(p, i);
    }
    if (op->id == CM_OP_CLIP) {
        args[1] = cm_problem_has(p, 1) ? argument(p, 1) : cm_arg_number(-INFINITY);
        args[2] = cm_problem_has(p, 2) ? argument(p, 2) : cm_arg_number(INFINITY);
        n = 3;
    }
    if (!cm_op_append(program, op, attr, n, args, &result))
        return false;
    if (result.kind != CM_ARG_RESULT) { /* nothing to compute: a copy, which x * 1 is to the bit */
        int r = cm_program_add(program, CM_PW_MUL, result, cm_arg_number(1), cm_arg_number(0));
        result = cm_arg_result(r);
    }
    program->n_outputs = 1;
    program->output[0] = result.index;
    p->program = program;
    return fill_loop(arena, p);
}
