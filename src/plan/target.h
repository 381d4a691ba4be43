/* target.h -- machine classes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_TARGET_H
#define CM_PLAN_TARGET_H

#include "base/cpu.h"

typedef enum { CM_DEVICE_CPU, CM_DEVICE_CUDA, CM_DEVICE_COUNT } cm_device_kind;

/* A machine class, and which device of it. */
typedef struct cm_target {
    cm_device_kind kind;
    int level; /* CPU: cm_isa; CUDA: SM version times 10 (900 for sm_90) */
    int index; /* CUDA: ordinal; 0 otherwise */
} cm_target;

/* "cpu", "cpu:avx2", "cuda", "cuda:1", "sm_90". */
cm_status cm_target_parse(cm_ctx *cx, const char *text, cm_target *out) CM_MUST_USE;
/* Several, separated by commas: "cpu,sm_80,sm_90", none twice. The CPU comes first, wherever it stands. */
enum { CM_MAX_TARGETS = 16 };
cm_status cm_targets_parse(cm_ctx *cx, const char *text, cm_target out[CM_MAX_TARGETS],
                           int *n) CM_MUST_USE;
const char *cm_target_text(char *buf, size_t n, const cm_target *t);

#endif
