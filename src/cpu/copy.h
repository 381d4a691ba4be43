/* copy.h -- strided copies at the speed of memory: conversions of layout, and all that MOVE does.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_COPY_H
#define CM_CPU_COPY_H

#include "base/threads.h"
#include "plan/tensor.h"

/* What is done along the two innermost axes of the destination. */
typedef enum {
    CM_COPY_NONE,      /* empty */
    CM_COPY_RUNS,      /* contiguous on both sides */
    CM_COPY_TRANSPOSE, /* columns contiguous in the destination, rows in the source */
    CM_COPY_FILL,      /* one element repeated */
    CM_COPY_ELEMENTS,  /* any strides */
} cm_copy_kind;

/* A copy made ready: axes sorted by the destination's strides and merged, split into units of work.
 * Strides count bytes. */
typedef struct cm_copy {
    cm_copy_kind kind;
    int level;
    size_t elem_bytes; /* may be wider than the caller's: short runs are moved as one element */
    int rank;          /* of the axes outside of rows and columns */
    int64_t dims[CM_MAX_RANK], from_step[CM_MAX_RANK], to_step[CM_MAX_RANK];
    int64_t rows, cols, from_row, from_col, to_row, to_col;
    bool by_cols;            /* columns are cut into blocks, else rows */
    int64_t block, n_blocks; /* rows or columns in a block */
    int64_t units;           /* n_blocks times the outer axes */
    int64_t unit_bytes;
    const char *from;
    char *to;
} cm_copy;

/* Strides count elements; those of `from` may be 0 or negative, those of `to` must not make elements
 * overlap. elem_bytes is 1, 2, 4, 8 or 16. No side needs alignment. */
void cm_copy_init(cm_copy *c, int level, size_t elem_bytes, int rank, const int64_t *dims,
                  const void *from, const int64_t *from_strides, void *to,
                  const int64_t *to_strides);
void cm_copy_run(const cm_copy *c, cm_threads *t);
/* Units [begin, end) of c->units; pieces may run on several threads. */
void cm_copy_units(const cm_copy *c, int64_t begin, int64_t end);

/* Both in one. */
void cm_copy_strided(int level, cm_threads *t, size_t elem_bytes, int rank, const int64_t *dims,
                     const void *from, const int64_t *from_strides, void *to,
                     const int64_t *to_strides);

#endif
