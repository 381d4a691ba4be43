/* problem_set.h -- problems by their signatures.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TUNE_PROBLEM_SET_H
#define CM_TUNE_PROBLEM_SET_H

#include <stdbool.h>

#include "base/status.h"

/* {0} is empty. */
typedef struct cm_problem_set {
    int n;
    size_t n_slots;  /* 0, or a power of two; at least twice n */
    uint64_t *slots; /* a hash table in the arena of who adds; 0: a free one */
} cm_problem_set;

bool cm_problem_in(const cm_problem_set *s, uint64_t signature);
/* Nothing changes where it is in already. */
cm_status cm_problem_add(cm_ctx *cx, cm_problem_set *s, uint64_t signature) CM_MUST_USE;

#endif
