/* ranges.h -- named ranges for a profiler that listens (NVTX).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Profilers that know NVTX (Nsight Systems and Compute, and others) set NVTX_INJECTION64_PATH to a library of theirs
 * before they start a program. It is opened, once, and handed a table of function pointers to fill in; nothing of NVIDIA's
 * is needed for that. Without it nothing is opened and nothing costs. */
#ifndef CM_BASE_RANGES_H
#define CM_BASE_RANGES_H

#include <stdbool.h>

/* Opens the profiler's library the first time it is asked. From any thread. */
bool cm_ranges_heard(void);

/* Ranges nest, thread by thread. Only where somebody listens. */
void cm_range_push(const char *name);
void cm_range_pop(void);
/* What the calling thread is called, to the system and to a profiler. At most 15 letters are shown everywhere. */
void cm_name_thread(const char *name);

#endif
