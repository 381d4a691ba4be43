/* borders.h -- where slices begin and padding comes from, in numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_BORDERS_H
#define CM_OPS_BORDERS_H

#include "base/status.h"
#include "base/str.h"

/* One axis of a Slice: the first index taken and how many. step is not 0. */
int64_t cm_slice_length(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first);

typedef enum {
    CM_PAD_CONSTANT,
    CM_PAD_REFLECT,
    CM_PAD_EDGE,
    CM_PAD_WRAP,
    CM_PAD_MODES
} cm_pad_mode;
/* CM_PAD_MODES: there is none of that name. */
cm_pad_mode cm_pad_mode_of(cm_str name);
/* Where element i of an axis of `n` comes from; i counts from the first element, so that the
 * padding before it is negative. -1: the constant. */
int64_t cm_pad_source(cm_pad_mode mode, int64_t i, int64_t n);
/* The last element up to which the sources of i and all after it are the constant, or go by one step of -1,
 * 0 or 1. INT64_MAX: they do for ever. */
int64_t cm_pad_straight(cm_pad_mode mode, int64_t i, int64_t n);

#endif
