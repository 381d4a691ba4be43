/* transposes.h -- what the passes on transposes share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_TRANSPOSES_H
#define CM_PASSES_TRANSPOSES_H

#include "passes/match.h"

/* The permutation of a Transpose, written out: output axis i is input axis perm[i]. False when the rank
 * is not known. */
bool cm_perm(const cm_node *n, int64_t *perm);
void cm_perm_inverse(const int64_t *perm, int rank, int64_t *inverse);
bool cm_perm_equal(const int64_t *a, const int64_t *b, int rank);
/* Values that are transposed by `perm`: those that a Transpose made, and `more`, for which that is planned. */
enum { CM_MOST_TRANSPOSED = 128 };
typedef struct cm_transposed {
    int64_t perm[CM_MAX_RANK];
    int rank, n_more;
    const cm_value *more[CM_MOST_TRANSPOSED];
} cm_transposed;
bool cm_is_transposed(const cm_transposed *t, const cm_value *v);
cm_status cm_make_transpose(cm_rewriter *rw, cm_node *before, cm_value *x, const int64_t *perm,
                            int rank, const cm_node *like, cm_node **out) CM_MUST_USE;
/* A constant as it was before a Transpose by `perm` of so many axes; leading ones that it lacks are put in front. Its
 * elements take whole bytes. */
cm_status cm_constant_before(cm_rewriter *rw, cm_network *g, const cm_value *v, const int64_t *perm,
                             int rank, cm_value **out) CM_MUST_USE;

#endif
