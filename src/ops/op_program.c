/* op_program.c -- elementwise operators as instructions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/op_program.h"

#include <math.h>

#include "ops/problem.h"

/* Operators that are one instruction with the node's inputs as arguments. */
static const struct {
    cm_op_id op;
    cm_pointwise instruction;
} plain[] = {
    {CM_OP_NEG, CM_PW_NEG},
    {CM_OP_ABS, CM_PW_ABS},
    {CM_OP_SIGN, CM_PW_SIGN},
    {CM_OP_FLOOR, CM_PW_FLOOR},
    {CM_OP_CEIL, CM_PW_CEIL},
    {CM_OP_ROUND, CM_PW_ROUND},
    {CM_OP_SQRT, CM_PW_SQRT},
    {CM_OP_RECIPROCAL, CM_PW_RECIP},
    {CM_OP_EXP, CM_PW_EXP},
    {CM_OP_LOG, CM_PW_LOG},
    {CM_OP_SIN, CM_PW_SIN},
    {CM_OP_COS, CM_PW_COS},
    {CM_OP_TANH, CM_PW_TANH},
    {CM_OP_SIGMOID, CM_PW_SIGMOID},
    {CM_OP_ERF, CM_PW_ERF},
    {CM_OP_RELU, CM_PW_RELU},
    {CM_OP_MISH, CM_PW_MISH},
    {CM_OP_SOFTPLUS, CM_PW_SOFTPLUS},
    {CM_OP_SOFTSIGN, CM_PW_SOFTSIGN},
    {CM_OP_HARD_SWISH, CM_PW_HARDSWISH},
    {CM_OP_NOT, CM_PW_NOT},
    {CM_OP_IS_NAN, CM_PW_IS_NAN},
    {CM_OP_ADD, CM_PW_ADD},
    {CM_OP_SUB, CM_PW_SUB},
    {CM_OP_MUL, CM_PW_MUL},
    {CM_OP_DIV, CM_PW_DIV},
    {CM_OP_POW, CM_PW_POW},
    {CM_OP_PRELU, CM_PW_LEAKY},
    {CM_OP_EQUAL, CM_PW_EQ},
    {CM_OP_LESS, CM_PW_LT},
    {CM_OP_LESS_OR_EQUAL, CM_PW_LE},
    {CM_OP_GREATER, CM_PW_GT},
    {CM_OP_GREATER_OR_EQUAL, CM_PW_GE},
    {CM_OP_AND, CM_PW_AND},
    {CM_OP_OR, CM_PW_OR},
    {CM_OP_XOR, CM_PW_XOR},
    {CM_OP_WHERE, CM_PW_SELECT},
    {CM_OP_MS_GELU, CM_PW_GELU},
};

static int plain_instruction(cm_op_id op)
{
    for (int i = 0; i < CM_COUNT(plain); i++)
        if (plain[i].op == op)
            return (int)plain[i].instruction;
    return -1;
}

/* One more instruction; arguments beyond its arity are not looked at. */
static bool add(cm_program *p, cm_pointwise op, const cm_program_arg *args, cm_program_arg *out)
{
    cm_program_arg none = {0};
    int arity = cm_pointwise_arity(op);
    int r = cm_program_add(p, op, args[0], arity > 1 ? args[1] : none, arity > 2 ? args[2] : none);
    *out = cm_arg_result(r);
    return r >= 0;
}

static bool add1(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg *out)
{
    return add(p, op, &a, out);
}

static bool add2(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg b,
                 cm_program_arg *out)
{
    return add(p, op, (cm_program_arg[]){a, b}, out);
}

static bool add3(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg b,
                 cm_program_arg c, cm_program_arg *out)
{
    return add(p, op, (cm_program_arg[]){a, b, c}, out);
}

bool cm_append_program(cm_program *p, const cm_program *other, const cm_program_arg *x,
                       const cm_program_arg *operands, cm_program_arg *out)
{
    cm_program_arg result[CM_PROGRAM_MAX];
    for (int s = 0; s < other->n_steps; s++) {
        cm_program_arg arg[3] = {{0}};
        for (int k = 0; k < cm_pointwise_arity(other->step[s].op); k++) {
            const cm_program_arg *a = &other->step[s].arg[k];
            arg[k] = a->kind == CM_ARG_X         ? *x
                     : a->kind == CM_ARG_OPERAND ? operands[a->index]
                     : a->kind == CM_ARG_RESULT  ? result[a->index]
                                                 : *a;
        }
        if (!add(p, other->step[s].op, arg, &result[s]))
            return false;
    }
    *out = result[other->output[0]];
    return true;
}

static bool append_swish(cm_program *p, double alpha, cm_program_arg x, cm_program_arg *out)
{
    cm_program_arg t;
    if (alpha == 1)
        return add1(p, CM_PW_SILU, x, out);
    return add2(p, CM_PW_MUL, x, cm_arg_number(alpha), &t) && add1(p, CM_PW_SIGMOID, t, &t) &&
           add2(p, CM_PW_MUL, x, t, out);
}

static bool append_clip(cm_program *p, const cm_program_arg *args, cm_program_arg *out)
{
    bool numbers = args[1].kind == CM_ARG_NUMBER && args[2].kind == CM_ARG_NUMBER;
    if (numbers && args[1].number == 0 && args[2].number == INFINITY)
        return add1(p, CM_PW_RELU, args[0], out);
    return add(p, CM_PW_CLIP, args, out);
}

static bool append_is_inf(cm_program *p, const cm_op *op, const void *attr, cm_program_arg x,
                          cm_program_arg *out)
{
    bool below = cm_attr_int(op, attr, "detect_negative") != 0;
    bool above = cm_attr_int(op, attr, "detect_positive") != 0;
    if (below && above)
        return add1(p, CM_PW_ABS, x, &x) && add2(p, CM_PW_EQ, x, cm_arg_number(INFINITY), out);
    if (!below && !above)
        return add2(p, CM_PW_LT, x, cm_arg_number(-INFINITY), out); /* never */
    return add2(p, CM_PW_EQ, x, cm_arg_number(below ? -INFINITY : INFINITY), out);
}

/* All inputs combined from the first on. */
static bool append_variadic(cm_program *p, cm_op_id op, int n_in, const cm_program_arg *args,
                            cm_program_arg *out)
{
    cm_pointwise with = op == CM_OP_MAX ? CM_PW_MAX : op == CM_OP_MIN ? CM_PW_MIN : CM_PW_ADD;
    *out = args[0];
    for (int i = 1; i < n_in; i++)
        if (!add2(p, with, *out, args[i], out))
            return false;
    return op != CM_OP_MEAN || n_in == 1 || add2(p, CM_PW_DIV, *out, cm_arg_number(n_in), out);
}

bool cm_op_is_program(const cm_op *op)
{
    static const cm_op_id others[] = {
        CM_OP_CAST, CM_OP_CAST_LIKE,    CM_OP_CLIP,   CM_OP_SWISH, CM_OP_GELU,
        CM_OP_ELU,  CM_OP_LEAKY_RELU,   CM_OP_IS_INF, CM_OP_SELU,  CM_OP_THRESHOLDED_RELU,
        CM_OP_SUM,  CM_OP_HARD_SIGMOID, CM_OP_MAX,    CM_OP_MIN,   CM_OP_MEAN};
    for (int i = 0; i < CM_COUNT(others); i++)
        if (op->id == others[i])
            return true;
    return plain_instruction(op->id) >= 0;
}

bool cm_op_append(cm_program *p, const cm_op *op, const void *attr, int n_in,
                  const cm_program_arg *args, cm_program_arg *out)
{
    cm_program_arg t, x = args[0];
    switch (op->id) {
    case CM_OP_CAST: /* rounding comes last: nothing to compute */
    case CM_OP_CAST_LIKE:
        *out = x;
        return true;
    case CM_OP_CLIP:
        return append_clip(p, args, out);
    case CM_OP_SWISH:
        return append_swish(p, (double)cm_attr_float(op, attr, "alpha"), x, out);
    case CM_OP_GELU: {
        bool tanh = cm_str_equal(cm_attr_str(op, attr, "approximate"), cm_str_of("tanh"));
        return add1(p, tanh ? CM_PW_GELU_TANH : CM_PW_GELU, x, out);
    }
    case CM_OP_LEAKY_RELU:
        return add2(p, CM_PW_LEAKY, x, cm_arg_number((double)cm_attr_float(op, attr, "alpha")),
                    out);
    case CM_OP_ELU:
        return add2(p, CM_PW_ELU, x, cm_arg_number((double)cm_attr_float(op, attr, "alpha")), out);
    case CM_OP_SELU:
        return add2(p, CM_PW_ELU, x, cm_arg_number((double)cm_attr_float(op, attr, "alpha")), &t) &&
               add2(p, CM_PW_MUL, t, cm_arg_number((double)cm_attr_float(op, attr, "gamma")), out);
    case CM_OP_THRESHOLDED_RELU:
        return add2(p, CM_PW_GT, x, cm_arg_number((double)cm_attr_float(op, attr, "alpha")), &t) &&
               add3(p, CM_PW_SELECT, t, x, cm_arg_number(0), out);
    case CM_OP_HARD_SIGMOID:
        return add3(p, CM_PW_HARDSIGMOID, x,
                    cm_arg_number((double)cm_attr_float(op, attr, "alpha")),
                    cm_arg_number((double)cm_attr_float(op, attr, "beta")), out);
    case CM_OP_IS_INF:
        return append_is_inf(p, op, attr, x, out);
    case CM_OP_SUM:
    case CM_OP_MEAN:
    case CM_OP_MAX:
    case CM_OP_MIN:
        return append_variadic(p, op->id, n_in, args, out);
    default: {
        int instruction = plain_instruction(op->id);
        return instruction >= 0 && add(p, (cm_pointwise)instruction, args, out);
    }
    }
}
