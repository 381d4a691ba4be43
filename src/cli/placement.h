/* placement.h -- for verbs that run on a device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_PLACEMENT_H
#define CM_CLI_PLACEMENT_H

#include "runtime/runtime.h"

/* Each layer of a bound context that would run on its device and does not, and how many do. Nothing where there
 * is no device. */
void cm_cli_print_placement(const cm_context *c);

#endif
