/* compile_ahead.h -- kernels that tuning will want, compiled by all threads at once before anything is timed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TUNE_COMPILE_AHEAD_H
#define CM_TUNE_COMPILE_AHEAD_H

#include "plan/backend.h"
#include "runtime/runtime.h"

/* Which of n candidates will be timed: their indices into `chosen`, which has room for all; how many. */
typedef int (*cm_choose_fn)(void *user, const cm_candidate *list, int n, int *chosen);

/* For the steps of a bound context that are the device's, in the layouts that it was bound with. After `until_ns`
 * none is begun. */
cm_status cm_compile_ahead(cm_ctx *cx, const cm_context *c, cm_device *device, int threads,
                           uint64_t until_ns, cm_choose_fn choose, void *user) CM_MUST_USE;

#endif
