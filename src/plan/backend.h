/* backend.h -- what runs problems: a device kind and its tactic tables. The only way to backends.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_BACKEND_H
#define CM_PLAN_BACKEND_H

#include "plan/tactic.h"

typedef struct cm_backend {
    const char *name; /* in reports: "cpu", "cuda" */
    cm_device_kind device;
    /* Its tactics for a kind, best guess first; *n 0 when it has none. */
    const cm_tactic *(*tactics)(cm_problem_kind kind, int *n);
    /* A strided copy between two tensors of `dims`, for conversions of layout: elements of 1, 2, 4, 8 or
     * 16 bytes, strides in elements, those of `from` may be 0 or negative. */
    void (*copy)(int level, cm_threads *t, size_t elem_bytes, int rank, const int64_t *dims,
                 const void *from, const int64_t *from_strides, void *to,
                 const int64_t *to_strides);
} cm_backend;

/* runtime/backends.c: all of them, 0, 1, ... until NULL. The first that takes a problem wins a tie;
 * what none takes runs on the operator's reference. */
const cm_backend *cm_backend_at(int index);

#endif
