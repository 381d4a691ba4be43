/* conv_match.h -- what the passes that make products of convolutions share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_CONV_MATCH_H
#define CM_PASSES_CONV_MATCH_H

#include "passes/match.h"

bool cm_all_are(cm_ints v, int64_t want);
/* Is n a Conv in one group, without padding and dilations, whose weights and bias are constants? */
bool cm_is_plain_conv(const cm_node *n);
/* Rows first .. first + rows of a constant that is read as [.., columns], as a constant of its own: [rows, columns],
 * or [columns, rows] when turned, or one axis when flat. */
cm_status cm_conv_piece(cm_rewriter *rw, cm_network *g, const cm_value *c, int64_t first,
                        int64_t rows, int64_t columns, bool turn, bool flat,
                        cm_value **out) CM_MUST_USE;

#endif
