/* refit.h -- new weights into an existing plan.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The model that brings them is built by the options that the plan keeps, without measuring. When that
 * gives the plan's own network, constants aside, the plan is written with the new constants and all
 * its measurements; when it does not, a sentence says where they part. So a refitted plan is, byte for
 * byte, the plan that building the model anew would give, with the old plan's measurements. */
#ifndef CM_API_REFIT_H
#define CM_API_REFIT_H

#include "plan/plan.h"

typedef struct cm_refit_report {
    int n_constants;
    uint64_t bytes;    /* of weights */
    bool was_stripped; /* the plan had none */
    bool same_weights; /* those that it was built with */
    int n_targets;     /* sections of measurements taken over */
} cm_refit_report;

/* `out` may be `plan`. */
cm_status cm_refit(cm_ctx *cx, const char *plan, const char *model, const char *out,
                   cm_refit_report *report) CM_MUST_USE;

#endif
