/* activation.h -- activation functions by name, with alpha and beta: recurrent and fused operators.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ACTIVATION_H
#define CM_OPS_ACTIVATION_H

#include "base/str.h"
#include "ops/attr.h"

typedef struct cm_activation {
    int kind;
    double alpha, beta;
} cm_activation;

/* The function of that name (case does not matter), alpha and beta at their defaults. An empty name
 * is the identity. CM_ERR_MODEL with the name when there is none. */
cm_status cm_activation_find(cm_ctx *cx, cm_str name, cm_activation *out) CM_MUST_USE;
int cm_activation_params(const cm_activation *a); /* how many of alpha, beta it has: 0, 1 or 2 */
double cm_activation_apply(const cm_activation *a, double x);

/* n functions by name (default_names when the list is empty), alphas and betas taken in order by
 * those functions that have them. */
cm_status cm_activation_list(cm_ctx *cx, cm_strs names, const char *const *default_names, int n,
                             cm_floats alphas, cm_floats betas, cm_activation *out) CM_MUST_USE;

#endif
