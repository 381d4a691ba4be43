/* control.c -- operators that hold networks: If, Loop, Scan, SequenceMap.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Their types follow from the nested networks (ir/infer_control.c) and the runtime runs them
 * (runtime/control.c); what is here is their attributes. */
#include "ops/control.h"

CM_ATTRS(scan, cm_scan_attr, CM_ATTR_INT_REQUIRED(cm_scan_attr, num_scan_inputs),
         CM_ATTR_INTS(cm_scan_attr, scan_input_axes, 0),
         CM_ATTR_INTS(cm_scan_attr, scan_input_directions, 0),
         CM_ATTR_INTS(cm_scan_attr, scan_output_axes, 0),
         CM_ATTR_INTS(cm_scan_attr, scan_output_directions, 0))

const cm_family cm_family_control = {.name = "control"};
