/* tuned.h -- plans with measurements in them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_TUNED_H
#define CM_API_TUNED_H

#include "api/compile.h"
#include "tune/tune.h"

typedef struct cm_tuned_options {
    cm_tune_options tune;
    const char *cache; /* timing cache file, NULL: none */
    /* The shape to tune input i for into dims (rank as the type says); false: there is none, and the plan is
     * not tuned. NULL: every dim must be a number. */
    bool (*shape)(void *user, const cm_engine *e, int i, int64_t *dims);
    void *user;
} cm_tuned_options;

/* As cm_compile_file, with a section of measurements for this machine. *report may say that nothing was
 * tuned because a size is open: `problems` is 0. */
cm_status cm_compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *o,
                           const cm_tuned_options *t, const char *path,
                           cm_tune_report *report) CM_MUST_USE;
/* An opened plan again, with more measurements for this machine; its other sections stay. */
cm_status cm_plan_tune(cm_ctx *cx, cm_engine *e, const cm_tuned_options *t, const char *path,
                       cm_tune_report *report) CM_MUST_USE;

#endif
