/* network.h -- the public network, for those who build nodes and plans from it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_NETWORK_H
#define CM_API_NETWORK_H

#include "api/api.h"
#include "ir/network.h"
#include "plan/plan.h"
#include "onnx/onnx.h"

struct cameo_network {
    cm_job job; /* its arena holds the network */
    cm_network *network;
    cm_onnx_source *source; /* from a file: its mappings */
    cm_plan_build *build;   /* how importing was asked for; NULL: not imported, or changed since */
};

/* A deep copy of the caller's tensor in `arena`. */
cm_status cm_api_copy_tensor(cm_ctx *cx, cm_arena *arena, const cameo_tensor *tensor,
                             const cm_tensor **out) CM_MUST_USE;

/* A copy that cameo_free takes; NULL: out of memory. */
void *cm_api_give_away(const void *bytes, size_t n);

#endif
