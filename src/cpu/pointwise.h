/* pointwise.h -- what the tactics of pointwise problems share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_POINTWISE_H
#define CM_CPU_POINTWISE_H

#include "cpu/cpu.h"
#include "cpu/tile.h"

/* Does any instruction read the operand? */
bool cm_pointwise_reads(const cm_program *p, int operand);
/* A tensor with axis `cols` of the nest as columns. False: too many axes. */
bool cm_pointwise_view(cm_tile_view *v, const cm_pointwise_shape *s, int cols,
                       const int64_t *strides, cm_dtype dtype, const void *data);
/* The product of the nest's other axes. */
int64_t cm_pointwise_rows(const cm_pointwise_shape *s, int cols);

/* How fast that many bytes are streamed: they are in a cache where they fit, since somebody has just
 * written them. */
double cm_pointwise_bytes_per_ns(const cm_target *t, double bytes);

const char *cm_pointwise_tile_reject(const cm_problem *p);
/* int64 and double inside: pointwise_wide.c. */
const char *cm_pointwise_wide_reject(const cm_problem *p);
double cm_pointwise_wide_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_pointwise_wide_run(const cm_run *r);

/* Two tensors of whole numbers compared: pointwise_compare.c. */
CM_TACTIC(pointwise_compare);
/* One operator on whole numbers or doubles, and casts: pointwise_typed.c. */
CM_TACTIC(pointwise_typed);

/* to[i] = is x[i] like y[i]? An operand whose step is 0 is one number; not both are. */
typedef struct cm_comparison {
    const void *x, *y;
    int x_step, y_step; /* 0 or 1 */
    int64_t n;
    uint8_t *to;
} cm_comparison;

/* By element: i32, i64; by relation: equal, less, less or equal. */
typedef void (*cm_compare_fn)(const cm_comparison *c);
extern const cm_compare_fn cm_cpu_compare__generic[2][3], cm_cpu_compare__avx2[2][3],
    cm_cpu_compare__avx512[2][3];

#endif
