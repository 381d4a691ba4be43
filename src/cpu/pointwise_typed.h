/* pointwise_typed.h -- instructions on runs of elements of one type, which the levels have.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_POINTWISE_TYPED_H
#define CM_CPU_POINTWISE_TYPED_H

#include "plan/tactic.h"
#include "plan/program.h"

/* How the bits of an element are read. The width of a whole number is 2^(kind & 3) bytes. */
typedef enum {
    CM_TYPED_I8,
    CM_TYPED_I16,
    CM_TYPED_I32,
    CM_TYPED_I64,
    CM_TYPED_U8,
    CM_TYPED_U16,
    CM_TYPED_U32,
    CM_TYPED_U64,
    CM_TYPED_BOOL,
    CM_TYPED_F32,
    CM_TYPED_F64,
    CM_TYPED_NONE
} cm_typed;

enum { CM_TYPED_BLOCK = 64 }; /* elements */

/* Blocks of elements. The result may take the place of an operand of the same width, and overlaps none otherwise. */
typedef struct cm_typed_run {
    void *to;
    const void *a, *b, *c;
    int64_t blocks;
} cm_typed_run;

typedef struct cm_typed_kernels {
    /* The instruction on elements of a type; comparisons give bytes of 0 and 1, SELECT reads such from a. There is no
     * kernel for GT and GE (the operands change places); ABS and SIGN are of signed numbers. */
    void (*apply)(cm_pointwise op, cm_typed type, const cm_typed_run *r);
    /* a as another type, as Cast has it, for these pairs: anything to truth values; whole numbers of 32 and 64 bits and
     * floats to floats; floats to int32 and int64; whole numbers to another width, but not between 8 or 16 bits and 64. */
    void (*convert)(cm_typed from, cm_typed to, const cm_typed_run *r);
    /* a, of float32, to the power of b, of int64, by products of doubles. An exponent n brings an error of n 2^-53; beyond
     * 2^30 no float32 but those of magnitude 0 and 1 has a finite power that is not 0. */
    void (*power)(const cm_typed_run *r);
    /* All of x's blocks into one number, extended by its type: ADD (the lower bits of the sum; 32 and 64 bits), MAX, MIN
     * (not of 16 bits). blocks > 0. */
    int64_t (*fold)(cm_pointwise op, cm_typed type, const void *x, int64_t blocks);
    /* The whole sum, added to `sum`: of 32 bits to the first; of int64 what is above 32 bits to the first, what is below to
     * the second. */
    void (*fold_whole)(cm_typed type, const void *x, int64_t blocks, int64_t *sum);
} cm_typed_kernels;
extern const cm_typed_kernels cm_cpu_typed__generic, cm_cpu_typed__avx2, cm_cpu_typed__avx512;
const cm_typed_kernels *cm_typed_kernels_at(int level);

/* How elements of a type are read; NONE: there are no kernels for it. */
cm_typed cm_typed_of(cm_dtype t);

enum {
    CM_TYPED_INPUTS = 4,
    CM_TYPED_STEPS = 3,
    /* Places: inputs, numbers, results of steps, the output. */
    CM_TYPED_NUMBERS = CM_TYPED_INPUTS,
    CM_TYPED_BETWEEN = CM_TYPED_NUMBERS + 3,
    CM_TYPED_OUT = CM_TYPED_BETWEEN + CM_TYPED_STEPS,
    CM_TYPED_PLACES,
};

/* What a step runs; HALF is between float32 and float16 or bfloat16. */
typedef enum {
    CM_TYPED_APPLY,
    CM_TYPED_CONVERT,
    CM_TYPED_COPY,
    CM_TYPED_POWER,
    CM_TYPED_FROM_HALF,
    CM_TYPED_TO_HALF
} cm_typed_kind;

typedef struct cm_typed_step {
    cm_typed_kind kind;
    cm_pointwise op;
    cm_typed type, to_type; /* CONVERT: from the first to the second */
    cm_dtype half;          /* FROM and TO_HALF */
    int to, arg[3];         /* places */
} cm_typed_step;

typedef struct cm_typed_code {
    int n_in, n_steps, n_numbers;
    int input[CM_TYPED_INPUTS]; /* of the problem */
    cm_typed_step step[CM_TYPED_STEPS];
    size_t size[CM_TYPED_PLACES]; /* of an element */
    uint64_t number[3];           /* its bits */
} cm_typed_code;

/* The steps of a problem with one output. False: it is not one of these. `c` is zeroed before. */
bool cm_typed_compile(cm_typed_code *c, const cm_problem *p);

#endif
