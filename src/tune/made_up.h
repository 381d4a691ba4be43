/* made_up.h -- data to measure with.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TUNE_MADE_UP_H
#define CM_TUNE_MADE_UP_H

#include "plan/tensor.h"

/* From the first element to the last, whatever the strides. */
size_t cm_extent_bytes(const cm_tensor *t);
/* Numbers around zero, the same ones over and over; of what is no float, or less than a byte: zeros, which are good indices. */
void cm_make_up(cm_dtype type, void *data, size_t bytes);

#endif
