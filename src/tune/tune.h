/* tune.h -- measures tactics on the problems of a network, inside a budget.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Binding a context asks for every problem in every layout that it could have; the tuner times the
 * candidates that may win, once per problem, and remembers. On a device, those that came near to the
 * best are then timed once more in the whole network (in_place.h). What is in the table already is not timed
 * again: a run that was stopped goes on where it was, and models share what they have in common. */
#ifndef CM_TUNE_TUNE_H
#define CM_TUNE_TUNE_H

#include "runtime/runtime.h"
#include "tune/problem_set.h"

typedef enum {
    CM_TUNE_OFF,   /* the cost model alone: the same plan on every machine */
    CM_TUNE_QUICK, /* candidates that the cost model has near the best; a few seconds */
    CM_TUNE_FULL,  /* all of them, repeatedly */
} cm_tune_level;
bool cm_tune_parse(const char *text, cm_tune_level *out); /* "off", "quick", "full" */

typedef struct cm_tune_options {
    cm_tune_level level;
    double budget_seconds; /* 0: the level's own */
    int threads;           /* as contexts will have; 0: one per core */
    cm_target target;
} cm_tune_options;

typedef struct cm_tune_report {
    int problems, known; /* met, each counted once; of these found in the table */
    int measured;        /* candidates timed */
    int trials,
        changed; /* of candidates in the network, on a device; of these won by the newcomer */
    double seconds;
    bool stopped;       /* by the budget or the caller: what is known by then is used */
    cm_problem_set met; /* in cx->arena */
} cm_tune_report;

/* `shapes`: one tensor per input (dims alone matter). `table` gets what was measured. Stopping it
 * (cx->progress says no, cx->cancel) is no failure. The report's list is in cx->arena. */
cm_status cm_tune(cm_ctx *cx, cm_engine *e, const cm_tune_options *o, const cm_tensor *shapes,
                  cm_timings *table, cm_tune_report *report) CM_MUST_USE;

/* A timing cache file. Reading one that is not there gives an empty table; writing replaces it at once, with
 * the lines of other machines and of others who wrote meanwhile kept. */
cm_status cm_timing_cache_read(cm_ctx *cx, const char *path, cm_timings *t) CM_MUST_USE;
cm_status cm_timing_cache_write(cm_ctx *cx, const char *path, cm_timings *t) CM_MUST_USE;

#endif
