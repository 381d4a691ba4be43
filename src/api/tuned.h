/* tuned.h -- plans with measurements in them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_TUNED_H
#define CM_API_TUNED_H

#include "api/compile.h"
#include "tune/tune.h"

/* Which weights a plan holds as the kernels chosen here want them. */
typedef enum {
    CM_PACK_OFF, /* none: they are packed when it is opened */
    CM_PACK_ON, /* in place of the plain ones, where that can be undone, else besides: up to twice the bytes */
    CM_PACK_ALL, /* however large the plan gets */
} cm_pack_level;
bool cm_pack_parse(const char *text, cm_pack_level *out); /* "off", "on", "all" */

typedef struct cm_tuned_options {
    cm_tune_options tune;
    const char *cache; /* timing cache file, NULL: none */
    cm_pack_level pack;
    /* The shape to tune input i for into dims (rank as the type says); false: there is none, and the plan is
     * not tuned. NULL: every dim must be a number. */
    bool (*shape)(void *user, const cm_engine *e, int i, int64_t *dims);
    /* For a device, shown the context that kernels were compiled for; NULL: nobody looks. */
    void (*bound)(void *user, const cm_context *c);
    void *user;
    /* Beside tune.target, which weights are packed for: what the plan is measured (where there is such a device) and its
     * kernels compiled for too. */
    int n_more;
    cm_target more[CM_MAX_TARGETS];
} cm_tuned_options;

/* As cm_compile_file, with a section of measurements for this machine, and weights packed for it. *report counts
 * all targets; it may say that nothing was tuned because a size is open (`problems` is 0); then nothing is packed either. */
cm_status cm_compile_tuned(cm_ctx *cx, cm_network *g, const cm_compile_options *o,
                           const cm_tuned_options *t, const char *path,
                           cm_tune_report *report) CM_MUST_USE;
/* The same in memory, ... */
cm_status cm_compile_tuned_memory(cm_ctx *cx, cm_network *g, const cm_compile_options *o,
                                  const cm_tuned_options *t, cm_buf *out,
                                  cm_tune_report *report) CM_MUST_USE;
/* ... or not written at all: the plan to open as it is (cm_engine_open_lowered), with its measurements. It
 * lives in `arena` and points into g's. */
cm_status cm_compile_lowered(cm_ctx *cx, cm_arena *arena, cm_network *g,
                             const cm_compile_options *o, const cm_tuned_options *t, cm_plan **plan,
                             const cm_tensor *const **constants,
                             cm_tune_report *report) CM_MUST_USE;
/* An opened plan again, with more measurements for this machine; those of others stay. Weights are packed for
 * this machine, or plain again. */
cm_status cm_plan_tune(cm_ctx *cx, cm_engine *e, const cm_tuned_options *t, const char *path,
                       cm_tune_report *report) CM_MUST_USE;

#endif
