/* loop.h -- loop nests of pointwise and reduce problems: axes in the order of memory, merged where all
 * operands allow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_PROBLEMS_LOOP_H
#define CM_OPS_PROBLEMS_LOOP_H

#include "base/arena.h"
#include "plan/tactic.h"

typedef int64_t cm_loop_strides[CM_MAX_RANK];

/* A nest before: axes as the operator has them, and the strides along them of every operand. */
typedef struct cm_loop {
    int rank;
    int64_t dims[CM_MAX_RANK];
    const int64_t *like; /* strides that say which order memory has */
    const bool *gone;    /* axes that are reduced, merged among themselves only; NULL: none */
    int n_all;
    cm_loop_strides *all;
} cm_loop;

/* Strides of t along axes that it broadcasts to: 0 where it has one element or no axis. */
void cm_loop_broadcast(const cm_tensor *t, int rank, int64_t *strides);
/* The nest after: rank and dims, the operands' strides, which axes are gone (NULL: not asked). At least
 * one axis. False: out of memory. */
bool cm_loop_merge(cm_arena *arena, const cm_loop *l, int *rank, int64_t *dims,
                   cm_loop_strides **strides, bool *gone);

#endif
