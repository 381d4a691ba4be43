/* control.h -- attributes of the control operators, for those who type and run them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_CONTROL_H
#define CM_OPS_CONTROL_H

#include "ops/op.h"

typedef struct cm_scan_attr {
    uint64_t present;
    int64_t num_scan_inputs;
    cm_ints scan_input_axes, scan_input_directions;   /* empty: all 0 */
    cm_ints scan_output_axes, scan_output_directions; /* empty: all 0 */
} cm_scan_attr;

extern const cm_attr_desc cm_attrs_scan;

#endif
