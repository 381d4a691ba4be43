/* to_program.c -- pointwise nodes as instructions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/to_program.h"

#include <math.h>
#include <string.h>

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
};

static int plain_instruction(cm_op_id op)
{
    for (int i = 0; i < CM_COUNT(plain); i++)
        if (plain[i].op == op)
            return (int)plain[i].instruction;
    return -1;
}

/* Clip's bounds: absent, or constants of one number. */
static bool bound(const cm_node *n, int i, double absent, double *out)
{
    *out = absent;
    return i >= n->n_in || !n->in[i] || cm_splat(n->in[i], out);
}

bool cm_program_reads(const cm_node *n, int i)
{
    return n->in[i] && (i == 0 || n->op->id != CM_OP_CLIP);
}

static bool numbers_only(const cm_value *v)
{
    if (!v || v->type.kind != CM_TENSOR)
        return false;
    return cm_dtype_is_float(v->type.dtype) || v->type.dtype == CM_BOOL;
}

static bool float_of_use(cm_dtype t) /* floats that are computed with, not only stored */
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16 || t == CM_F64;
}

static bool known_operator(const cm_node *n)
{
    double low, high;
    switch (n->op->id) {
    case CM_OP_CLIP:
        return bound(n, 1, -INFINITY, &low) && bound(n, 2, INFINITY, &high) && low <= high;
    case CM_OP_CAST:
        return float_of_use(n->out[0]->type.dtype) && float_of_use(n->in[0]->type.dtype);
    case CM_OP_SWISH:
    case CM_OP_LEAKY_RELU:
    case CM_OP_ELU:
    case CM_OP_HARD_SIGMOID:
    case CM_OP_GELU:
    case CM_OP_MS_GELU:
    case CM_OP_POINTWISE:
        return true;
    case CM_OP_SUM:
    case CM_OP_MAX:
    case CM_OP_MIN:
        return n->n_in == 2;
    default:
        return plain_instruction(n->op->id) >= 0;
    }
}

bool cm_is_pointwise(const cm_node *n)
{
    if (!n || n->epilogue.program || n->n_out != 1 || !n->out[0] || n->n_in > CM_PROGRAM_MAX)
        return false;
    if (!numbers_only(n->out[0]))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !numbers_only(n->in[i]))
            return false;
    return known_operator(n);
}

static bool add(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg b,
                cm_program_arg c, cm_program_arg *out)
{
    int r = cm_program_add(p, op, a, b, c);
    *out = cm_arg_result(r);
    return r >= 0;
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
        if (!add(p, other->step[s].op, arg[0], arg[1], arg[2], &result[s]))
            return false;
    }
    *out = result[other->output[0]];
    return true;
}

static bool append_group(cm_program *p, const cm_node *n, const cm_program_arg *args,
                         cm_program_arg *out)
{
    cm_ctx cx = {0};
    cm_program inner;
    cm_str text = cm_string(n, "program");
    if (cm_program_parse(&cx, text.p, text.n, &inner) != CM_OK)
        return false;
    return cm_append_program(p, &inner, NULL, args, out);
}

static bool append_swish(cm_program *p, double alpha, cm_program_arg x, cm_program_arg *out)
{
    cm_program_arg none = {0}, t;
    if (alpha == 1)
        return add(p, CM_PW_SILU, x, none, none, out);
    return add(p, CM_PW_MUL, x, cm_arg_number(alpha), none, &t) &&
           add(p, CM_PW_SIGMOID, t, none, none, &t) && add(p, CM_PW_MUL, x, t, none, out);
}

bool cm_append_node(cm_program *p, const cm_node *n, const cm_program_arg *args,
                    cm_program_arg *out)
{
    cm_program_arg none = {0};
    double low, high;
    switch (n->op->id) {
    case CM_OP_POINTWISE:
        return append_group(p, n, args, out);
    case CM_OP_CAST: /* rounding comes last: nothing to compute */
        *out = args[0];
        return true;
    case CM_OP_CLIP:
        bound(n, 1, -INFINITY, &low);
        bound(n, 2, INFINITY, &high);
        if (low == 0 && high == INFINITY)
            return add(p, CM_PW_RELU, args[0], none, none, out);
        return add(p, CM_PW_CLIP, args[0], cm_arg_number(low), cm_arg_number(high), out);
    case CM_OP_SWISH:
        return append_swish(p, cm_float(n, "alpha"), args[0], out);
    case CM_OP_MS_GELU:
        return add(p, CM_PW_GELU, args[0], none, none, out);
    case CM_OP_GELU:
        return add(p, cm_string_is(n, "approximate", "tanh") ? CM_PW_GELU_TANH : CM_PW_GELU,
                   args[0], none, none, out);
    case CM_OP_LEAKY_RELU:
        return add(p, CM_PW_LEAKY, args[0], cm_arg_number(cm_float(n, "alpha")), none, out);
    case CM_OP_ELU:
        return add(p, CM_PW_ELU, args[0], cm_arg_number(cm_float(n, "alpha")), none, out);
    case CM_OP_HARD_SIGMOID:
        return add(p, CM_PW_HARDSIGMOID, args[0], cm_arg_number(cm_float(n, "alpha")),
                   cm_arg_number(cm_float(n, "beta")), out);
    case CM_OP_SUM:
        return add(p, CM_PW_ADD, args[0], args[1], none, out);
    case CM_OP_MAX:
        return add(p, CM_PW_MAX, args[0], args[1], none, out);
    case CM_OP_MIN:
        return add(p, CM_PW_MIN, args[0], args[1], none, out);
    default: {
        int op = plain_instruction(n->op->id), arity = op < 0 ? 0 : cm_pointwise_arity(op);
        return op >= 0 && add(p, (cm_pointwise)op, args[0], arity > 1 ? args[1] : none,
                              arity > 2 ? args[2] : none, out);
    }
    }
}

cm_status cm_program_text(cm_ctx *cx, cm_network *g, const cm_program *p, const char **out)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_program_print(p, &b);
    *out = cm_arena_strdup(g->arena, cm_buf_text(&b));
    bool failed = b.failed || !*out;
    cm_buf_deinit(&b);
    return failed ? cm_fail_memory(cx) : CM_OK;
}
