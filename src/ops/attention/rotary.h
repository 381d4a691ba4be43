/* rotary.h -- rotation of pairs by position, shared by the rotary operators and attention.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of each head's `size` elements the first `dim` are rotated, pair j by the angle of cache row
 * rows[token] and column j; pairs are (j, j + dim/2), or (2j, 2j + 1) when interleaved. */
#ifndef CM_OPS_ROTARY_H
#define CM_OPS_ROTARY_H

#include "ops/attention/attend.h"

typedef struct cm_rotary {
    int64_t batch, heads, len, size, dim;
    bool interleaved;
    const double *cos, *sin; /* rows of dim/2 */
    const int64_t *rows;     /* [batch, len] */
    cm_heads x;
    cm_heads_out y;
} cm_rotary;

void cm_rotary_run(cm_threads *t, const cm_rotary *r);
/* Fail unless all n rows lie in [0, n_cache). */
cm_status cm_rotary_check(cm_ctx *cx, const int64_t *rows, int64_t n, int64_t n_cache) CM_MUST_USE;

#endif
