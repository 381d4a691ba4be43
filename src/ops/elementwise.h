/* elementwise.h -- walking outputs block by block, with inputs broadcast to them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ELEMENTWISE_H
#define CM_OPS_ELEMENTWISE_H

#include "ops/eval.h"

enum { CM_BLOCK = 512 };

/* Room for a block of any element type. */
typedef union cm_block {
    double f[CM_BLOCK];
    int64_t i[CM_BLOCK];
    cm_str s[CM_BLOCK];
    unsigned char bytes[16 * CM_BLOCK];
} cm_block;

/* Compute elements [at, at + n) of the output, n <= CM_BLOCK. Called from several threads. */
typedef void (*cm_block_fn)(void *arg, int64_t at, int64_t n);
/* Call fn over [0, n) in blocks, in parallel, until the job is cancelled. */
cm_status cm_eval_blocks(cm_eval *e, int64_t n, cm_block_fn fn, void *arg) CM_MUST_USE;

/* A dense tensor as it looks when broadcast to another shape. */
typedef struct cm_spread {
    const unsigned char *data;
    cm_dtype dtype;
    size_t size; /* of an element */
    enum { CM_SPREAD_SAME, CM_SPREAD_SCALAR, CM_SPREAD_WALK } mode;
    int rank; /* WALK: of the output, axes that go together joined */
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
} cm_spread;

void cm_spread_init(cm_spread *s, const cm_tensor *in, const cm_tensor *out);
/* Its elements [at, at + n): a pointer into the tensor, or `buf` filled. */
const void *cm_spread_get(const cm_spread *s, int64_t at, int64_t n, cm_block *buf);
/* The same, converted. */
void cm_spread_f64(const cm_spread *s, int64_t at, int64_t n, double *dst);
void cm_spread_i64(const cm_spread *s, int64_t at, int64_t n, int64_t *dst);

/* Elements of integer (or bool) inputs [0, n_in) as dims, broadcast to one count, for a rule whose
 * output 0 may be tracked: int32, int64 or bool, of rank 0 or 1, and not while running. v holds
 * n_in * CM_MAX_ELEMS. */
bool cm_infer_elems_together(const cm_infer *f, int n_in, cm_dim *v, int *n);
/* Does the number, if d is one, fit `t`? A symbol is taken to. */
bool cm_infer_elem_fits(const cm_infer *f, cm_dtype t, cm_dim d);

#endif
