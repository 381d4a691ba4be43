/* problem.h -- one unit of work as a backend sees it: never a graph.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A problem has a kind, operands (element type, symbolic sizes, layout, and where the operand is
 * quantised a scale and a zero point), an epilogue program, and, for the kind `evaluate`, the
 * operator whose reference solves it. */
#ifndef CM_PLAN_PROBLEM_H
#define CM_PLAN_PROBLEM_H

#include "plan/tensor.h"

/* X(id, number, name). Numbers stand in plan files: never renumber. */
/* clang-format off */
#define CM_PROBLEM_KINDS(X)                                                                        \
    X(EVALUATE,  0,  "evaluate")  /* an operator's reference, run by the runtime through ops/ */   \
    X(MATMUL,    1,  "matmul")                                                                     \
    X(CONV,      2,  "conv")      /* and transposed convolution */                                 \
    X(ATTENTION, 3,  "attention")                                                                  \
    X(ROWS,      4,  "rows")      /* normalisations and softmax: each row from itself */           \
    X(POINTWISE, 5,  "pointwise") /* a program per element */                                      \
    X(REDUCE,    6,  "reduce")    /* a program per element, then a reduction */                    \
    X(POOL,      7,  "pool")                                                                       \
    X(RESIZE,    8,  "resize")                                                                     \
    X(MOVE,      9,  "move")      /* elements to other places: transpose, slice, pad, concat */    \
    X(GATHER,    10, "gather")    /* from places that data tell */                                 \
    X(RECURRENT, 11, "recurrent")                                                                  \
    X(SORT,      12, "sort")      /* top-k, cumulative sums */                                     \
    X(QMATMUL,   13, "qmatmul")   /* products of small integers */                                 \
    X(QCONV,     14, "qconv")                                                                      \
    X(QUANTISE,  15, "quantise")  /* between real numbers and small integers */                    \
    X(CUSTOM,    16, "custom")    /* a plugin's operator, with tactics of its own */               \
    X(SCATTER,   17, "scatter")   /* to places that data tell */                                   \
    X(PLACED,    18, "placed")    /* each element by a rule of its place */                        \
    X(ROTARY,    19, "rotary")    /* pairs of columns rotated by angles */                         \
    X(SAMPLE,    20, "sample")    /* images read at places that data tell */                       \
    X(PICK,      21, "pick")      /* as many as data tell: what is not 0, slices */                \
    X(NMS,       22, "nms")       /* boxes that do not overlap better ones */                      \
    X(NBITS,     23, "nbits")     /* products with weights of a few bits */                        \
    X(LINEAR_ATTENTION, 24, "linear attention") /* a state per head, token after token */          \
    X(GQA,       25, "gqa")       /* attention with rotary positions over a cache */
/* clang-format on */

typedef enum {
#define X(id, number, name) CM_PROBLEM_##id = number,
    CM_PROBLEM_KINDS(X)
#undef X
        CM_PROBLEM_KIND_COUNT
} cm_problem_kind;

const char *cm_problem_kind_name(cm_problem_kind k); /* "?" when out of range */

/* How elements lie in memory. Blocked layouts put `block` elements of `axis` innermost. */
typedef enum {
    CM_LAYOUT_ROW_MAJOR = 0,
    CM_LAYOUT_STRIDED = 1,
    CM_LAYOUT_BLOCKED = 2
} cm_layout_kind;
typedef struct cm_layout {
    cm_layout_kind kind;
    int axis;
    int block;
} cm_layout;

/* Quantisation of an operand: real = (stored - zero_point) * scale. */
typedef struct cm_quant {
    int32_t scale;      /* value index of the scale, -1: not quantised */
    int32_t zero_point; /* value index, -1: zero */
    int32_t axis;       /* the axis that scales run along, -1: one scale for all */
    int64_t block;      /* elements of the axis that share a scale, 0: the whole slice */
} cm_quant;

typedef struct cm_operand {
    int32_t value; /* index in the plan's value table, -1: absent */
    cm_layout layout;
    cm_quant quant;
} cm_operand;

#endif
