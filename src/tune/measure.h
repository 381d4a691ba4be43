/* measure.h -- one candidate's time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TUNE_MEASURE_H
#define CM_TUNE_MEASURE_H

#include "runtime/runtime.h"

/* Buffers that measurements of one problem share. */
typedef struct cm_bench_data {
    const cm_allocator *allocator;
    int n_blocks;
    struct {
        void *data;
        size_t bytes;
    } blocks[96];
    const void *in[64], *operands[64];
    void *out[64];
} cm_bench_data;

/* False: out of memory, or too many operands. */
bool cm_bench_data_init(cm_bench_data *d, const cm_allocator *allocator, const cm_problem *p);
void cm_bench_data_deinit(cm_bench_data *d);

/* Nanoseconds of a run, or NAN when it cannot be measured. Gives up early on what takes longer than
 * `hopeless_ns`. `repeats`: at most so many runs. */
double cm_measure(cm_bench_data *d, const cm_problem *p, const cm_candidate *c, cm_threads *threads,
                  double hopeless_ns, int repeats);

#endif
