/* program.h -- pointwise programs: what is done to each element before it is stored.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An epilogue (bias, activation, residual) or a fused group of pointwise nodes. Straight-line code in
 * single assignment: instruction i defines register i, the last one is the result. An argument is a
 * register (>= 0), or CM_ARG_OPERAND(k): the element of the problem's extra input k at this place,
 * broadcast. In an epilogue operand 0 is what the problem computed.
 *
 *     0: add  %operand0 %operand1     bias
 *     1: max  %0 %2 ...               a ReLU is: const 0, max */
#ifndef CM_PLAN_PROGRAM_H
#define CM_PLAN_PROGRAM_H

#include "base/buf.h"
#include "base/status.h"
#include "plan/dtype.h"

/* X(id, number, name, arguments). Numbers stand in plan files: never renumber. */
#define CM_INSTRS(X)                                                                               \
    X(CONST, 0, "const", 0)     /* `number` */                                                     \
    X(CAST, 1, "cast", 1)       /* to `dtype` */                                                   \
    X(ADD, 2, "add", 2)                                                                            \
    X(SUB, 3, "sub", 2)                                                                            \
    X(MUL, 4, "mul", 2)                                                                            \
    X(DIV, 5, "div", 2)                                                                            \
    X(MIN, 6, "min", 2)                                                                            \
    X(MAX, 7, "max", 2)                                                                            \
    X(POW, 8, "pow", 2)                                                                            \
    X(NEG, 9, "neg", 1)                                                                            \
    X(ABS, 10, "abs", 1)                                                                           \
    X(SQRT, 11, "sqrt", 1)                                                                         \
    X(EXP, 12, "exp", 1)                                                                           \
    X(LN, 13, "ln", 1)                                                                             \
    X(TANH, 14, "tanh", 1)                                                                         \
    X(SIGMOID, 15, "sigmoid", 1)                                                                   \
    X(ERF, 16, "erf", 1)                                                                           \
    X(FLOOR, 17, "floor", 1)                                                                       \
    X(CEIL, 18, "ceil", 1)                                                                         \
    X(ROUND, 19, "round", 1)    /* halves to even */                                               \
    X(LESS, 20, "less", 2)      /* 1 or 0 */                                                       \
    X(EQUAL, 21, "equal", 2)                                                                       \
    X(SELECT, 22, "select", 3)  /* first not 0: second, else third */

typedef enum {
#define X(id, number, name, n_args) CM_INSTR_##id = number,
    CM_INSTRS(X)
#undef X
    CM_INSTR_COUNT
} cm_instr_op;

enum { CM_PROGRAM_MAX = 64 };
#define CM_ARG_OPERAND(k) (-1 - (k))

typedef struct cm_instr {
    cm_instr_op op;
    cm_dtype dtype; /* that it computes in */
    int16_t arg[3];
    double number;
} cm_instr;

typedef struct cm_program {
    int n;
    const cm_instr *instrs;
} cm_program;

const char *cm_instr_name(cm_instr_op op); /* "?" when out of range */
int cm_instr_args(cm_instr_op op);
/* Operators known, arguments defined before they are read, operands in [0, n_operands). */
cm_status cm_program_verify(cm_ctx *cx, const cm_program *p, int n_operands) CM_MUST_USE;
/* Serial form: the count, then 24 bytes an instruction. Reading verifies. */
void cm_program_write(const cm_program *p, cm_buf *out);
cm_status cm_program_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n, int n_operands,
                          cm_program *out) CM_MUST_USE;

#endif
