/* timings.h -- what tactics were measured to take, problem by problem.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plan's target section holds one, a timing cache file too: the same text, a line each,
 *
 *     cameo-timings 1
 *     machine cpu AMD EPYC 9354
 *     3f2a9c01d4e5b677 matmul_f32_packed__avx512 0,0,0,0,0,0,0,0 48123
 *
 * problem (a hash of everything that makes a difference), tactic, knobs, nanoseconds; sorted. Lines under
 * another machine than this one are kept and not used; tactics that this version does not know too. */
#ifndef CM_RUNTIME_TIMINGS_H
#define CM_RUNTIME_TIMINGS_H

#include "base/buf.h"
#include "plan/tactic.h"

typedef struct cm_timing {
    uint64_t problem;
    const char *tactic;
    cm_knobs knobs;
    double ns;
} cm_timing;

/* The measurements of one machine. Grows; never shared between threads while it does. */
typedef struct cm_timings {
    cm_arena arena;
    char machine[96];
    int n, cap;
    cm_timing *v;  /* in order of problem, tactic, knobs */
    cm_buf others; /* lines of other machines, as they came */
} cm_timings;

void cm_timings_init(cm_timings *t, const cm_allocator *allocator, const cm_target *target);
void cm_timings_deinit(cm_timings *t);
/* NAN: not measured. */
double cm_timings_find(const cm_timings *t, uint64_t problem, const char *tactic,
                       const cm_knobs *knobs);
/* Added, or replaced where it is there. */
cm_status cm_timings_add(cm_ctx *cx, cm_timings *t, uint64_t problem, const char *tactic,
                         const cm_knobs *knobs, double ns) CM_MUST_USE;
/* The first of a problem's; *n how many. */
const cm_timing *cm_timings_of(const cm_timings *t, uint64_t problem, int *n);

void cm_timings_print(const cm_timings *t, cm_buf *out);
/* Text that somebody gave us: a line that is not understood is CM_ERR_DATA with its number. Adds to what is there. */
cm_status cm_timings_parse(cm_ctx *cx, cm_timings *t, const char *text, size_t n) CM_MUST_USE;

#endif
