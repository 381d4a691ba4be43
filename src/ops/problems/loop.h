/* loop.h -- the loop nest of a pointwise problem: axes in the order of memory, merged where all allow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_PROBLEMS_LOOP_H
#define CM_OPS_PROBLEMS_LOOP_H

#include "base/arena.h"
#include "plan/tactic.h"

typedef int64_t cm_loop_strides[CM_MAX_RANK];

/* Fill in s for the problem's inputs, which broadcast to dims[0..rank), and outputs whose strides along
 * those axes are given; `like` are the strides that say which order memory has. gone[a] (NULL: none)
 * marks axes that are reduced; they are merged among themselves only, and merged[] tells which of the nest's they
 * are. False: out of memory. */
bool cm_loop_fill(cm_arena *arena, const cm_problem *p, int rank, const int64_t *dims,
                  const cm_loop_strides *out, const int64_t *like, const bool *gone,
                  cm_pointwise_shape *s, bool *merged);
/* Strides of t along axes that it broadcasts to: 0 where it has one element or no axis. */
void cm_loop_broadcast(const cm_tensor *t, int rank, int64_t *strides);

#endif
