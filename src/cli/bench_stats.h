/* bench_stats.h -- what a trace says: percentiles, and whether to believe them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_BENCH_STATS_H
#define CM_CLI_BENCH_STATS_H

#include "cli/bench_measure.h"

/* A part of an inference's time. */
typedef enum {
    CM_BENCH_LATENCY, /* from due to done */
    CM_BENCH_ENQUEUE, /* until the inference was handed over */
    CM_BENCH_H2D,     /* inputs */
    CM_BENCH_COMPUTE,
    CM_BENCH_D2H,  /* outputs */
    CM_BENCH_WAIT, /* from due to begun */
    CM_BENCH_PARTS,
} cm_bench_part;

typedef struct cm_bench_series {
    int64_t n;
    double *ms;                     /* ascending */
    double mean, median, variation; /* the last: standard deviation over mean */
} cm_bench_series;

cm_status cm_bench_series_of(cm_ctx *cx, const cm_bench_result *r, cm_bench_part part,
                             cm_bench_series *out) CM_MUST_USE;
/* As trtexec counts it: the largest of what is left when the slowest (100 - p) % are put aside. */
double cm_bench_percentile(const cm_bench_series *s, double p);
double cm_bench_median(double *v, int64_t n); /* sorts v */

/* The median of v with its 95 % interval by order statistics, which asks nothing of how v is
 * distributed. Under 6 values the interval is NaN. Sorts v. */
typedef struct cm_bench_interval {
    double median, low, high;
} cm_bench_interval;
cm_bench_interval cm_bench_median_interval(double *v, int n);

/* Reasons not to trust the figures, each with what to do. Returns how many. */
enum { CM_BENCH_MOST_WARNINGS = 12 };
cm_status cm_bench_warnings(cm_ctx *cx, const cm_bench_result *r, const cm_bench_how *how,
                            const char *warnings[CM_BENCH_MOST_WARNINGS], int *n) CM_MUST_USE;

#endif
