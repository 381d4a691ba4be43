/* debug.h -- what `cameo debug` can do, one file each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_DEBUG_H
#define CM_CLI_DEBUG_H

#include "cli/model.h"

typedef struct cm_debug_options {
    cm_model_options model;
    cm_texts inputs;
    int64_t random;
    double tolerance; /* 0: as each has it */
    const char *check, *output;
    int64_t fails_with; /* the only exit code of a check that counts; -1: all but 0 */
    bool show_checks;
} cm_debug_options;

/* Each prints what it found; *found: there is something to blame. */
cm_status cm_debug_bisect(cm_ctx *cx, const cm_debug_options *o, const char *path,
                          bool *found) CM_MUST_USE;
cm_status cm_debug_reduce(cm_ctx *cx, const cm_debug_options *o, const char *path,
                          bool *found) CM_MUST_USE;
cm_status cm_debug_precision(cm_ctx *cx, const cm_debug_options *o, const char *path,
                             bool *found) CM_MUST_USE;

#endif
