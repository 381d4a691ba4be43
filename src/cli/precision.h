/* precision.h -- `cameo build --precision auto`.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_PRECISION_H
#define CM_CLI_PRECISION_H

#include "api/precision.h"
#include "cli/model.h"

typedef struct cm_measure_options {
    const cm_model_options *model;
    cm_texts samples; /* files to measure on; none: random data */
    double tolerance;
    bool quiet;
} cm_measure_options;

/* Set co's precision and the nodes that must stay in float32; says which, and why. */
cm_status cm_measure_precision(cm_ctx *cx, const char *path, const cm_measure_options *o,
                               cm_compile_options *co) CM_MUST_USE;

/* Which nodes must stay in float32 when the rest is in one small type. */
cm_status cm_measure_type(cm_ctx *cx, const char *path, const cm_measure_options *o,
                          cm_precision small, cm_precision_result *out) CM_MUST_USE;

#endif
