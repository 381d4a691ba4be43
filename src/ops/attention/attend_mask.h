/* attend_mask.h -- the masks of com.microsoft's attention operators, as one bias.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     [batch]            keys of each sequence, the rest is padding
 *     [2*batch]          ends, then starts, of each sequence's keys
 *     [3*batch + 2]      keys of each sequence, then cumulated lengths that say nothing more
 *     [batch, total]     0: masked      [batch, 1] masks nothing
 *     [batch, q, total]  0: masked
 *     [batch, 1, m, m]   0: masked; the row is the query's position
 *
 * A masked key's score has `filter` added; it is not taken out. */
#ifndef CM_OPS_ATTEND_MASK_H
#define CM_OPS_ATTEND_MASK_H

#include "ops/attention/attend.h"

/* mask, bias: input numbers, -1 where the operator has none. Sizes may be CM_DIM_ERROR: unknown. */
cm_status cm_attend_mask_check(cm_infer *f, int mask, int bias, cm_dim batch, cm_dim heads,
                               cm_dim q_len, cm_dim total) CM_MUST_USE;
/* Set a's bias from mask and additional bias; a's sizes are set. `past`: keys before the first
 * query. */
cm_status cm_attend_mask(cm_eval *e, int mask, int bias, int64_t past, double filter,
                         cm_attend *a) CM_MUST_USE;
/* Every batch's first query at the same position. */
cm_status cm_attend_position(cm_eval *e, cm_attend *a, int64_t position) CM_MUST_USE;

#endif
