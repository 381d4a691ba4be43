/* bench_report.h -- a measurement as text, JSON and CSV.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_BENCH_REPORT_H
#define CM_CLI_BENCH_REPORT_H

#include <jansson.h>

#include "cli/bench_stats.h"

enum { CM_BENCH_MOST_PERCENTILES = 16 };

typedef struct cm_bench_percentiles {
    int n;
    double p[CM_BENCH_MOST_PERCENTILES];
} cm_bench_percentiles;
/* "90,95,99" split: numbers from 0 to 100; none: those. `option` is named in the sentence. */
cm_status cm_bench_parse_percentiles(cm_ctx *cx, const char *option, const cm_texts *texts,
                                     cm_bench_percentiles *out) CM_MUST_USE;

typedef struct cm_bench_report {
    const char *path;
    const cm_model *model;
    int64_t batch; /* 0: none was asked for */
    const cm_bench_how *how;
    const cm_bench_result *result;
    const cm_bench_percentiles *percentiles;
    const cm_bench_profile *profile; /* NULL: not taken */
    int64_t layers;                  /* how many of the slowest to list */
} cm_bench_report;

/* "min = 1 ms, max = ..." as trtexec writes it. */
void cm_bench_print_series(FILE *to, const cm_bench_series *s, const cm_bench_percentiles *p);

cm_status cm_bench_print(cm_ctx *cx, const cm_bench_report *r) CM_MUST_USE;
/* A new object. */
cm_status cm_bench_json(cm_ctx *cx, const cm_bench_report *r, json_t **out) CM_MUST_USE;
void cm_bench_csv_head(const cm_bench_percentiles *p);
cm_status cm_bench_csv_line(cm_ctx *cx, const cm_bench_report *r) CM_MUST_USE;
/* One line of a sweep over batch sizes. */
void cm_bench_sweep_head(void);
cm_status cm_bench_sweep_line(cm_ctx *cx, const cm_bench_report *r) CM_MUST_USE;

#endif
