/* export.h -- networks into ONNX files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_EXPORT_H
#define CM_ONNX_EXPORT_H

#include "base/buf.h"
#include "ir/network.h"

typedef struct cm_export_options {
    bool external; /* weights in a file beside the model; always so when they exceed 2 GB */
    bool strip; /* weights of 1 KB and more are left out: their place states CM_ONNX_STRIPPED, their
                    * length and their checksum (plan/plan.h), and import is given them again */
} cm_export_options;

/* The bytes of a model that means what g does, at the lowest opset that has g's operators in the form that
 * import leaves. Programs and epilogues become plain nodes (in g, which is rewritten). What ONNX has no
 * word for is refused: CM_ERR_UNSUPPORTED names the node. */
cm_status cm_onnx_export(cm_ctx *cx, cm_network *g, cm_buf *out) CM_MUST_USE;
/* The same to a file, with PATH.data beside it for weights kept apart. `o` may be NULL. */
cm_status cm_onnx_export_file(cm_ctx *cx, cm_network *g, const char *path,
                              const cm_export_options *o) CM_MUST_USE;

/* Replace programs, epilogues and fused reductions by ONNX's own nodes, here and in nested networks. */
cm_status cm_onnx_expand_programs(cm_ctx *cx, cm_network *g) CM_MUST_USE;
/* The first version of the opset that has the operator in the form that import leaves; 0: unknown. */
int cm_onnx_export_version(const char *domain, const char *op);

#endif
