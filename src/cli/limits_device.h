/* limits_device.h -- what a device can do at most.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_LIMITS_DEVICE_H
#define CM_CLI_LIMITS_DEVICE_H

#include "base/status.h"
#include "cli/limits.h"
#include "plan/target.h"

/* Bytes that count as held by a device's cache. */
#define CM_DEVICE_CACHE_BYTES ((size_t)16 << 20)

/* Bandwidth of its memory and of its cache measured, and what starting work takes, in ns; rates of arithmetic by its
 * clock and the number of its processors, which no program exceeds. */
cm_status cm_limits_of_device(cm_ctx *cx, const cm_target *t, cm_limits *out,
                              double *launch_ns) CM_MUST_USE;

#endif
