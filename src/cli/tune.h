/* tune.h -- options of verbs that tune.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_TUNE_H
#define CM_CLI_TUNE_H

#include "api/tuned.h"
#include "cli/model.h"

typedef struct cm_tune_flags {
    const char *level; /* off, quick, full */
    double budget;
    const char *cache;
    cm_texts shapes;  /* INPUT=AxB for inputs that have symbolic dims */
    const char *pack; /* off, on, all; NULL: on, unless nothing is tuned */
} cm_tune_flags;

/* clang-format off */
#define CM_TUNE_OPTIONS(type, field)                                                               \
    {"tune", "LEVEL", "off, quick or full: how much to measure on this machine", CM_OPT_TEXT,      \
     offsetof(type, field.level)},                                                                 \
    {"tune-budget", "SECONDS", "stop measuring after this long (quick: 3s, full: 600s)",           \
     CM_OPT_SECONDS, offsetof(type, field.budget)},                                                   \
    {"tune-shape", "INPUT=AxBxC", "shape to tune for, where the model leaves dims open",           \
     CM_OPT_TEXTS, offsetof(type, field.shapes)},                                                  \
    {"timing-cache", "FILE", "read and keep measurements here: shared by models and builds",       \
     CM_OPT_TEXT, offsetof(type, field.cache)},                                                    \
    {"pack", "HOW", "off, on or all: weights in the plan as this machine wants them (on if tuned)", \
     CM_OPT_TEXT, offsetof(type, field.pack)}
/* clang-format on */

/* `out` points into `f`. */
cm_status cm_tune_options_of(cm_ctx *cx, const cm_tune_flags *f, const cm_model_options *m,
                             cm_tuned_options *out) CM_MUST_USE;
/* What came of it, a line or two. */
void cm_tune_print(const cm_tuned_options *o, const cm_tune_report *r);

#endif
