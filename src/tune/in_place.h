/* in_place.h -- candidates that came near to the best alone, timed where they will run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Alone, kernels have a cool device, a cache and neighbours that they will not have in the network: two that are
 * within a few per cent of each other alone may well be the other way round there. */
#ifndef CM_TUNE_IN_PLACE_H
#define CM_TUNE_IN_PLACE_H

#include "runtime/runtime.h"

typedef struct cm_in_place {
    const cm_context_options *options; /* of a device that runs; `timings` is `table` */
    const cm_tensor *shapes;           /* one per input */
    cm_timings *table;
    bool (*is_new)(void *user,
                   uint64_t problem); /* was it measured just now? Others are left as they are */
    bool (*stop)(void *user);         /* asked before each trial */
    void *user;
    int tried, changed; /* out: trials, and those that were won by the newcomer */
} cm_in_place;

/* The whole network is timed with one candidate after the other in place of the one that the table has for the best,
 * most time first. What a candidate takes there replaces what it took alone, so that the table tells the same
 * story. A network that cannot be run with made-up inputs, or twice at once, is left as it is: no failure. */
cm_status cm_tune_in_place(cm_ctx *cx, cm_engine *e, cm_in_place *o) CM_MUST_USE;

#endif
