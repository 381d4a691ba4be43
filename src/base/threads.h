/* threads.h -- fork-join loops over a pool of threads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_THREADS_H
#define CM_BASE_THREADS_H

#include <stdint.h>

#include "base/status.h"

/* A pool. One parallel loop at a time: a context owns its pool, it does not share it. */
typedef struct cm_threads cm_threads;

/* `n` threads counting the caller; 0: one per core this process may use; 1: no thread is made and
 * loops run inline. */
cm_status cm_threads_create(cm_ctx *cx, int n, cm_threads **out) CM_MUST_USE;
void cm_threads_destroy(cm_threads *t);
int cm_threads_count(const cm_threads *t); /* t may be NULL: 1 */

/* From now on loops stop early, pieces left out, when that job is cancelled or out of time; whoever runs
 * them asks cm_check_cancel afterwards. NULL: no longer. */
void cm_threads_watch(cm_threads *t, const cm_ctx *cx);

/* Is it so? For loops of a kernel's own that take long. t may be NULL. */
bool cm_threads_stopped(const cm_threads *t);

/* Told, by each thread that took part in a loop, from when to when; number 0 is who called. The caller of the loop may
 * have gone on by then. Set while no loop runs; NULL: nobody wants to know, and when the call returns nobody is told. */
typedef void (*cm_stint_fn)(void *user, int thread, uint64_t start_ns, uint64_t end_ns);
void cm_threads_observe(cm_threads *t, cm_stint_fn fn, void *user);

typedef void (*cm_range_fn)(void *arg, int64_t begin, int64_t end);
/* Call fn over [0, n) in pieces of at least `grain`, from several threads at once, and wait.
 * t may be NULL: inline. fn must not fail; it records failures in arg. */
void cm_parallel(cm_threads *t, int64_t n, int64_t grain, cm_range_fn fn, void *arg);

/* The same for loops with memory of their own per thread: fn is told which of at most `most` threads it runs on, counted
 * from 0. Two calls of one number are never at once. */
typedef void (*cm_numbered_fn)(void *arg, int thread, int64_t begin, int64_t end);
void cm_parallel_numbered(cm_threads *t, int most, int64_t n, cm_numbered_fn fn, void *arg);

#endif
