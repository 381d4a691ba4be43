/* write_weights.h -- constants as a plan's weights section stores them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_WRITE_WEIGHTS_H
#define CM_PLAN_WRITE_WEIGHTS_H

#include "plan/tensor.h"

/* A constant's place in the weights section. */
typedef struct cm_weight_place {
    uint64_t offset, bytes;
    bool shared; /* its bytes are those of an earlier one */
} cm_weight_place;

/* Every constant gets its place; equal bytes share one. The table is in `arena`. */
cm_status cm_weights_place(cm_ctx *cx, cm_arena *arena, const cm_tensor *const *constants, int n,
                           cm_weight_place **out) CM_MUST_USE;

typedef cm_status (*cm_bytes_fn)(cm_ctx *cx, void *arg, const void *p, size_t n);
/* All bytes of the section in order, padding and all. */
cm_status cm_weights_walk(cm_ctx *cx, const cm_tensor *const *constants, int n,
                          const cm_weight_place *places, cm_bytes_fn fn, void *arg) CM_MUST_USE;

#endif
