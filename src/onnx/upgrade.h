/* upgrade.h -- old forms of operators to the newest: the functions that versions.def names, and what
 * they are written with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An upgrade changes the pending node in place (attributes become inputs, names change), or emits
 * nodes before it with cm_up_node and goes on from their results. */
#ifndef CM_ONNX_UPGRADE_H
#define CM_ONNX_UPGRADE_H

#include "onnx/import.h"

#endif
