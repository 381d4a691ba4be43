/* finish_whole.h -- results in whole lines, and what is added to them: what kernels/finish_whole.cuh is given.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_FINISH_WHOLE_H
#define CM_CUDA_FINISH_WHOLE_H

#include "cuda/epilogue_text.h"
#include "cuda/gpu.h"

/* What bulk copies are told of a batch of matrices, innermost first. */
typedef struct cm_box_map {
    uint64_t dims[3], strides[2]; /* strides in bytes */
    uint32_t box[3];
} cm_box_map;

typedef struct cm_whole {
    bool is;     /* else finish.cuh hands out, element by element */
    int size;    /* bytes of a result, 2 or 4, and of what vectors and matrices have */
    int vectors; /* added: a number for each column */
    int matrix;  /* operand that is added as a matrix, CM_FINISH_OPERANDS: the bias; -1: none */
    int line;    /* bytes of one that a copy takes, 64 or 128 */
    cm_box_map added;
} cm_whole;

/* Of a finish that cm_finish_init made, for a batch of matrices of so many columns; tile: columns of a tile. */
void cm_whole_of(const cm_finish *f, const cm_problem *p, const cm_tensor *bias, int64_t cols,
                 int tile, cm_whole *w);
/* Stands after cm_finish_text's. */
void cm_whole_text(const cm_whole *w, const cm_finish *f, const cm_problem *p,
                   const cm_tensor *bias, cm_buf *out);
/* In each run. */
cm_status cm_whole_bind(const cm_whole *w, const cm_finish *f, const cm_run *r,
                        cm_tensor_map *added) CM_MUST_USE;

#endif
