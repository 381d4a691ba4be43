/* attr_impl.h -- shared by attr.c and attr_serial.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ATTR_IMPL_H
#define CM_OPS_ATTR_IMPL_H

#include "ops/attr.h"

size_t cm_attr_field_bytes(cm_attr_kind kind); /* of the C field */
bool cm_attr_present(const cm_attr_desc *d, const void *attr, const cm_attr_field *f);

#endif
