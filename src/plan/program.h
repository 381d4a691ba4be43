/* program.h -- pointwise programs: what is computed per element, after a product or on its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Straight-line code, one result per instruction. As text (the form that attributes and plans hold):
 *
 *     "add x $0; relu %0"                  x plus the first operand, then ReLU
 *     "sigmoid x; mul x %0"                SiLU
 *     "mul $0 0.5; add %0 $1 -> %0 %1"     two results
 *
 * `x` is the result that the program follows (epilogues only), `$k` operand k, `%k` the result of
 * instruction k, a number is itself. Without `->` the last instruction is the result. Operands
 * broadcast to the shape of the result. Everything is computed in at least float32 and rounded once, to
 * the element type of the output; true and false are 1 and 0. */
#ifndef CM_PLAN_PROGRAM_H
#define CM_PLAN_PROGRAM_H

#include "base/buf.h"
#include "base/status.h"
#include "plan/dtype.h"

/* X(id, name, arity, meaning). Numbers follow the order; text is what is stored. */
#define CM_POINTWISE(X)                                                                            \
    X(NEG, "neg", 1)                                                                               \
    X(ABS, "abs", 1)                                                                               \
    X(SIGN, "sign", 1)                                                                             \
    X(FLOOR, "floor", 1)                                                                           \
    X(CEIL, "ceil", 1)                                                                             \
    X(ROUND, "round", 1) /* half to even */                                                        \
    X(SQRT, "sqrt", 1)                                                                             \
    X(RSQRT, "rsqrt", 1)                                                                           \
    X(RECIP, "recip", 1)                                                                           \
    X(EXP, "exp", 1)                                                                               \
    X(LOG, "log", 1)                                                                               \
    X(SIN, "sin", 1)                                                                               \
    X(COS, "cos", 1)                                                                               \
    X(TANH, "tanh", 1)                                                                             \
    X(SIGMOID, "sigmoid", 1)                                                                       \
    X(ERF, "erf", 1)                                                                               \
    X(RELU, "relu", 1)                                                                             \
    X(GELU, "gelu", 1)           /* exact, with erf */                                             \
    X(GELU_TANH, "gelu_tanh", 1) /* the tanh approximation */                                      \
    X(SILU, "silu", 1)                                                                             \
    X(MISH, "mish", 1)                                                                             \
    X(SOFTPLUS, "softplus", 1)                                                                     \
    X(SOFTSIGN, "softsign", 1)                                                                     \
    X(HARDSWISH, "hardswish", 1)                                                                   \
    X(NOT, "not", 1)                                                                               \
    X(IS_NAN, "isnan", 1)                                                                          \
    X(ADD, "add", 2)                                                                               \
    X(SUB, "sub", 2)                                                                               \
    X(MUL, "mul", 2)                                                                               \
    X(DIV, "div", 2)                                                                               \
    X(POW, "pow", 2)                                                                               \
    X(MIN, "min", 2) /* NaN if either is */                                                        \
    X(MAX, "max", 2)                                                                               \
    X(LEAKY, "leaky", 2) /* x < 0 ? a*x : x; PRelu and LeakyRelu */                                \
    X(ELU, "elu", 2)     /* x < 0 ? a*(exp(x) - 1) : x */                                          \
    X(EQ, "eq", 2)                                                                                 \
    X(LT, "lt", 2)                                                                                 \
    X(LE, "le", 2)                                                                                 \
    X(GT, "gt", 2)                                                                                 \
    X(GE, "ge", 2)                                                                                 \
    X(AND, "and", 2)                                                                               \
    X(OR, "or", 2)                                                                                 \
    X(XOR, "xor", 2)                                                                               \
    X(CLIP, "clip", 3)               /* x, low, high */                                            \
    X(HARDSIGMOID, "hardsigmoid", 3) /* max(0, min(1, a*x + b)) */                                 \
    X(SELECT, "select", 3)           /* c ? a : b */

/* The same for operators that are problems by themselves and never part of a text: of whole numbers, whose arithmetic
 * groups do not have, and functions that are rare. */
#define CM_POINTWISE_ALONE(X)                                                                      \
    X(TAN, "tan", 1)                                                                               \
    X(ASIN, "asin", 1)                                                                             \
    X(ACOS, "acos", 1)                                                                             \
    X(ATAN, "atan", 1)                                                                             \
    X(SINH, "sinh", 1)                                                                             \
    X(COSH, "cosh", 1)                                                                             \
    X(ASINH, "asinh", 1)                                                                           \
    X(ACOSH, "acosh", 1)                                                                           \
    X(ATANH, "atanh", 1)                                                                           \
    X(CELU, "celu", 2)                                                                             \
    X(OPEN, "open", 1)           /* itself, for 8 bits that do not saturate */                     \
    X(SHRINK, "shrink", 3)       /* x, lambda, bias */                                             \
    X(MOD, "mod", 2)             /* of the sign of the divisor */                                  \
    X(FMOD, "fmod", 2)           /* of the sign of the dividend */                                 \
    X(DIV_WHOLE, "div_whole", 2) /* toward 0 */                                                    \
    X(POW_WHOLE, "pow_whole", 2) /* wraps; fractions are cut */                                    \
    X(BIT_NOT, "bit_not", 1)                                                                       \
    X(BIT_AND, "bit_and", 2)                                                                       \
    X(BIT_OR, "bit_or", 2)                                                                         \
    X(BIT_XOR, "bit_xor", 2)                                                                       \
    X(SHIFT_LEFT, "shift_left", 2)   /* by too much: 0 */                                          \
    X(SHIFT_RIGHT, "shift_right", 2) /* by too much: 0, or -1 */

typedef enum {
#define X(id, name, arity) CM_PW_##id,
    CM_POINTWISE(X)
#undef X
        CM_PW_COUNT,
    CM_PW_BEFORE_ALONE = CM_PW_COUNT - 1,
#define X(id, name, arity) CM_PW_##id,
    CM_POINTWISE_ALONE(X)
#undef X
        CM_PW_ALL
} cm_pointwise;

typedef enum { CM_ARG_X, CM_ARG_OPERAND, CM_ARG_RESULT, CM_ARG_NUMBER } cm_arg_kind;

typedef struct cm_program_arg {
    cm_arg_kind kind;
    int index;     /* OPERAND, RESULT */
    double number; /* NUMBER */
} cm_program_arg;

enum { CM_PROGRAM_MAX = 64 }; /* instructions, operands, outputs */

typedef struct cm_program_step {
    cm_pointwise op;
    cm_program_arg arg[3];
} cm_program_step;

typedef struct cm_program {
    int n_steps;
    cm_program_step step[CM_PROGRAM_MAX];
    int n_outputs;
    int output[CM_PROGRAM_MAX]; /* results handed out */
    int n_operands;             /* one more than the highest `$k` read */
    bool uses_x;
} cm_program;

/* A program that follows an operator: it reads output 0 as `x`, and the last `n_operands` inputs of
 * the node as its operands, which broadcast to x's shape and never enlarge it. */
typedef struct cm_epilogue {
    const char *program; /* NULL: none */
    int n_operands;
    cm_dtype to; /* element type of the result; CM_NO_DTYPE: as without it */
} cm_epilogue;

/* Is it an operator's alone, which CPUs leave to its evaluator? */
static inline bool cm_pointwise_is_alone(cm_pointwise op)
{
    return op >= CM_PW_COUNT;
}
const char *cm_pointwise_name(cm_pointwise op);
int cm_pointwise_arity(cm_pointwise op);

/* Checked: every argument is defined before it is read, counts are bounded. */
cm_status cm_program_parse(cm_ctx *cx, const char *text, size_t n, cm_program *out) CM_MUST_USE;
void cm_program_print(const cm_program *p, cm_buf *out);

/* Building. Each appends and returns the new result's index, or -1 when the program is full. */
int cm_program_add(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg b,
                   cm_program_arg c);
static inline cm_program_arg cm_arg_x(void)
{
    return (cm_program_arg){.kind = CM_ARG_X};
}
static inline cm_program_arg cm_arg_operand(int k)
{
    return (cm_program_arg){.kind = CM_ARG_OPERAND, .index = k};
}
static inline cm_program_arg cm_arg_result(int k)
{
    return (cm_program_arg){.kind = CM_ARG_RESULT, .index = k};
}
static inline cm_program_arg cm_arg_number(double v)
{
    return (cm_program_arg){.kind = CM_ARG_NUMBER, .number = v};
}

#endif
