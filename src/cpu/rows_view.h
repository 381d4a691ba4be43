/* rows_view.h -- where the rows of a problem lie in the memory of its tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_ROWS_VIEW_H
#define CM_CPU_ROWS_VIEW_H

#include "plan/tactic.h"

/* The tensors that have rows. */
enum { CM_ROWS_X, CM_ROWS_SKIP, CM_ROWS_Y, CM_ROWS_SUM, CM_ROWS_TENSORS, CM_ROWS_OUTER = 6 };

/* Where rows lie: `outer` axes in the order of the output's memory, then, `inner` rows side by side. */
typedef struct cm_rows_view {
    int n_outer;
    int64_t outer[CM_ROWS_OUTER], step[CM_ROWS_TENSORS][CM_ROWS_OUTER];
    int64_t n_rows; /* product of outer */
    int64_t cols, inner;
    int64_t col_step[CM_ROWS_TENSORS]; /* where inner > 1 */
    bool lanes;
} cm_rows_view;

/* NULL, or why they are not to be walked. */
const char *cm_view_rows(const cm_problem *p, cm_rows_view *v);
/* Elements before a row, or before `inner` of them side by side. */
int64_t cm_row_offset(const cm_rows_view *v, int tensor, int64_t row);

#endif
