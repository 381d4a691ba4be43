/* explain_tactics.h -- kernels, times and refusals of a plan's layers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_EXPLAIN_TACTICS_H
#define CM_CLI_EXPLAIN_TACTICS_H

#include <jansson.h>

#include "cli/model.h"

/* Print every layer, or append it to `json` where that is not NULL. Symbolic dims as --dim says, else 1. */
cm_status cm_explain_tactics(cm_ctx *cx, cm_engine *e, const cm_model_options *o,
                             json_t *json) CM_MUST_USE;

#endif
