/* bench_device.h -- inputs and outputs of a measured context that stay in a device's memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_BENCH_DEVICE_H
#define CM_CLI_BENCH_DEVICE_H

#include "cli/model.h"

typedef struct cm_bench_device cm_bench_device;

/* The context's inputs, which are set, copied to memory on its device, and memory there for the outputs whose shapes
 * follow from theirs. Binds. The result goes with cx->arena, its memory with cm_bench_device_close, after the context. */
cm_status cm_bench_device_open(cm_ctx *cx, cm_context *c, const cm_inputs *in, const cm_target *t,
                               cm_bench_device **out) CM_MUST_USE;
void cm_bench_device_close(cm_bench_device *d); /* NULL is fine */

#endif
