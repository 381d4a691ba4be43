/* packing.h -- how a packed constant comes from the plain one: enough to undo it on any machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tactics keep weights in panels, tiles and blocks of their own. Where that only moves elements and pads
 * them, a plan holds the packed form alone, with this description of it: nests of loops that copy. No
 * tactic is needed to read it, so that a plan opens where the tactic does not run, or is gone. */
#ifndef CM_PLAN_PACKING_H
#define CM_PLAN_PACKING_H

#include "base/status.h"

enum { CM_NEST_DIMS = 6 };

/* Element `plain + sum of i[d] * dims[d].plain` of the plain form stands at `packed + ...` of the packed
 * one, for all i[d] < dims[d].n. */
typedef struct cm_nest {
    int64_t plain, packed;
    struct {
        int64_t n, plain, packed;
    } dims[CM_NEST_DIMS]; /* innermost first */
} cm_nest;

typedef struct cm_packing {
    uint32_t elem_bytes;   /* 1, 2 or 4 */
    int64_t plain, packed; /* elements */
    int n_nests;
    const cm_nest *nests;
} cm_packing;

/* Do the nests stay inside both forms, and copy as many elements as the plain one has? */
bool cm_packing_is_sound(const cm_packing *p);
/* The plain form back. What no nest names stays as it is. */
void cm_packing_undo(const cm_packing *p, const void *packed, void *plain);
/* The packed form again; padding stays as it is. */
void cm_packing_redo(const cm_packing *p, const void *plain, void *packed);

/* Where the packed form has its elements, found out by packing numbers: place[i] is 0 for padding, else one
 * more than the plain element that stands at i. *out is NULL when the nests would be too many. */
cm_status cm_packing_find(cm_ctx *cx, cm_arena *arena, uint32_t elem_bytes, int64_t plain,
                          const uint32_t *place, int64_t packed,
                          const cm_packing **out) CM_MUST_USE;

#endif
