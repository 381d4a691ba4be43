/* by_value.h -- inputs whose elements, not only their shapes, tell sizes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A few numbers that come as an input may say along which axes a sum goes, how many of the largest are wanted, or what shape
 * comes out. A context on a device binds their elements like shapes, where a step could not be given to the device
 * otherwise, and binds again when they change. If they change all the time that is given up: such steps are formed
 * while running. */
#ifndef CM_RUNTIME_BY_VALUE_H
#define CM_RUNTIME_BY_VALUE_H

#include "runtime/internal.h"

/* The elements of input i, where the host has them and they are few; else NULL. */
const void *cm_few_elements(const cm_context *c, int i, size_t *bytes);
/* The input that the value is, if its elements may be bound; -1: none. */
int cm_input_to_lend(const cm_context *c, int32_t value);
/* Bind the elements of input i from now on; of this binding they are at the result, NULL: out of memory. */
const void *cm_bind_elements(cm_context *c, int i);
void cm_unbind_elements(cm_context *c, int i);
/* Shapes came back with other elements. */
void cm_count_elements_changed(cm_context *c);
/* Are the elements of the inputs those that a binding has? NULL ones were not bound. */
bool cm_same_elements(const cm_context *c, const void *const *elements);

#endif
