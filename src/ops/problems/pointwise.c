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
    if (!t->data || t->packed || !p->constant[i] || cm_tensor_elems(t) != 1)
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

/* Operators that are an instruction of their own; of integers, where they are another one there. */
static const struct {
    cm_op_id op;
    int real, whole; /* -1: none */
} alone[] = {
    {CM_OP_TAN, CM_PW_TAN, -1},
    {CM_OP_ASIN, CM_PW_ASIN, -1},
    {CM_OP_ACOS, CM_PW_ACOS, -1},
    {CM_OP_ATAN, CM_PW_ATAN, -1},
    {CM_OP_SINH, CM_PW_SINH, -1},
    {CM_OP_COSH, CM_PW_COSH, -1},
    {CM_OP_ASINH, CM_PW_ASINH, -1},
    {CM_OP_ACOSH, CM_PW_ACOSH, -1},
    {CM_OP_ATANH, CM_PW_ATANH, -1},
    {CM_OP_CELU, CM_PW_CELU, -1},
    {CM_OP_SHRINK, CM_PW_SHRINK, -1},
    {CM_OP_MOD, CM_PW_MOD, CM_PW_MOD},
    {CM_OP_DIV, -1, CM_PW_DIV_WHOLE},
    {CM_OP_POW, -1, CM_PW_POW_WHOLE},
    {CM_OP_BITWISE_NOT, -1, CM_PW_BIT_NOT},
    {CM_OP_BITWISE_AND, -1, CM_PW_BIT_AND},
    {CM_OP_BITWISE_OR, -1, CM_PW_BIT_OR},
    {CM_OP_BITWISE_XOR, -1, CM_PW_BIT_XOR},
    {CM_OP_BIT_SHIFT, -1, CM_PW_SHIFT_LEFT},
};

static bool all_are(const cm_problem *p, bool (*is)(cm_dtype t))
{
    for (int i = 0; i < p->n_in; i++)
        if (!is(p->in[i]->dtype))
            return false;
    return true;
}

/* A Cast to 8 bits whose results may be infinite. */
static bool stays_open(const cm_op *op, const void *attr, const cm_problem *p)
{
    bool cast = op->id == CM_OP_CAST || op->id == CM_OP_CAST_LIKE;
    return cast && p->out[0] && cm_dtype_size(p->out[0]->dtype) == 1 &&
           cm_dtype_is_float(p->out[0]->dtype) && !cm_attr_int(op, attr, "saturate");
}

static int instruction_alone(const cm_op *op, const void *attr, const cm_problem *p)
{
    int found = -1;
    if (stays_open(op, attr, p))
        return CM_PW_OPEN;
    for (int i = 0; i < CM_COUNT(alone); i++)
        if (alone[i].op == op->id)
            found = all_are(p, cm_dtype_is_integer) ? alone[i].whole
                    : all_are(p, cm_dtype_is_float) ? alone[i].real
                                                    : -1;
    if (found == CM_PW_MOD && cm_attr_int(op, attr, "fmod"))
        return CM_PW_FMOD;
    if (found == CM_PW_SHIFT_LEFT &&
        !cm_str_equal(cm_attr_str(op, attr, "direction"), cm_str_of("LEFT")))
        return CM_PW_SHIFT_RIGHT;
    return found;
}

/* False: it is not one of these. */
static bool append_alone(cm_program *program, const cm_op *op, const void *attr, cm_problem *p,
                         cm_program_arg *args, cm_program_arg *result)
{
    int instruction = instruction_alone(op, attr, p);
    if (instruction < 0)
        return false;
    if (op->id == CM_OP_CELU)
        args[1] = cm_arg_number((double)cm_attr_float(op, attr, "alpha"));
    if (op->id == CM_OP_SHRINK) {
        args[1] = cm_arg_number((double)cm_attr_float(op, attr, "lambd"));
        args[2] = cm_arg_number((double)cm_attr_float(op, attr, "bias"));
    }
    cm_program_arg none = {0}, *a = args;
    int arity = cm_pointwise_arity((cm_pointwise)instruction);
    *result = cm_arg_result(cm_program_add(program, (cm_pointwise)instruction, a[0],
                                           arity > 1 ? a[1] : none, arity > 2 ? a[2] : none));
    return true;
}

/* Elementwise operators never have epilogues: they become groups instead. */
bool cm_problem_elementwise(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_program *program = cm_new(arena, cm_program);
    cm_program_arg args[CM_PROGRAM_MAX + 2], result;
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
    if (!append_alone(program, op, attr, p, args, &result) &&
        !cm_op_append(program, op, attr, n, args, &result))
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
