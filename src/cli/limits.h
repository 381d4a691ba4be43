/* limits.h -- what this machine can do at most, measured.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Needs nothing but the C library: the bench folder's program links it too. */
#ifndef CM_CLI_LIMITS_H
#define CM_CLI_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* Rates a second of all threads together; 0: the level has no such instruction. */
typedef struct cm_limits {
    int threads;
    double f32_ops, bf16_ops, int8_ops; /* a multiply-add counts two */
    /* Bytes read: from a core's own cache, from the one that cores share (0: there is none), from memory. */
    double near_bytes, shared_bytes, dram_bytes;
} cm_limits;

enum { CM_LIMITS_MOST_THREADS = 256 };

/* The best of several short trials: the limit is what the machine reaches when nobody disturbs it. About
 * half a second. `level` as cm_isa numbers them, no higher than the CPU's own; `near` and `shared` are the
 * sizes of a core's own cache and of the one that cores share, 0: unknown. False: no memory or no threads. */
bool cm_limits_measure(int threads, int level, size_t near, size_t shared, cm_limits *out);

#endif
