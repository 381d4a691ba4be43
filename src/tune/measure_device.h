/* measure_device.h -- runs candidates on a device and asks it for the time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TUNE_MEASURE_DEVICE_H
#define CM_TUNE_MEASURE_DEVICE_H

#include "plan/backend.h"
#include "runtime/runtime.h"

typedef struct cm_device_bench {
    const cm_device_api *api;
    cm_device *device;
    cm_stream *stream;
    cm_mark *from, *to;
    unsigned char *memory;
    size_t bytes;
} cm_device_bench;

/* A target that is a class without a device gives a bench without a stream: nothing can be measured. */
cm_status cm_device_bench_open(cm_ctx *cx, const cm_target *t, cm_device_bench *out) CM_MUST_USE;
void cm_device_bench_close(cm_device_bench *b);

/* Compiles what the candidates launch, several at once. */
void cm_device_bench_warm(cm_device_bench *b, const cm_problem *p, const cm_candidate *list,
                          const int *chosen, int n, cm_threads *threads);
/* Nanoseconds of one run inside a recording of several, the best of `repeats` recordings; NAN: it cannot be run.
 * Constants come from memory, not from the device's cache, as in a network of many; activations as they
 * were left. What a tactic's neighbours lose is added. */
double cm_measure_device(cm_device_bench *b, const cm_problem *p, const cm_candidate *c,
                         cm_threads *threads, int repeats);

#endif
