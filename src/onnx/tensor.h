/* tensor.h -- TensorProto and its kin to tensors; data in files beside the model.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_TENSOR_H
#define CM_ONNX_TENSOR_H

#include "base/map.h"
#include "onnx/onnx.h"
#include "onnx/schema.h"

/* Where tensors' bytes come from. */
typedef struct pb_context {
    cm_ctx *cx;
    cm_arena *arena;        /* for what must be copied; lives as long as the tensors */
    const char *folder;     /* external data lies here; NULL: refused */
    cm_onnx_source *source; /* NULL: external data is copied and its file closed at once */
    const cm_weight_source *stripped;
} pb_context;

/* Check everything (type, shape, amount of data, external file) without copying elements. */
cm_status pb_tensor_check(const pb_context *c, const pb_tensor *p) CM_MUST_USE;
/* The tensor: dense, aligned, sub-byte types packed. Elements stay in the file where they can. */
cm_status pb_tensor_read(const pb_context *c, const pb_tensor *p, cm_tensor *out) CM_MUST_USE;
cm_status pb_sparse_check(const pb_context *c, const pb_sparse *p) CM_MUST_USE;
cm_status pb_sparse_read(const pb_context *c, const pb_sparse *p, cm_tensor *out) CM_MUST_USE;

cm_status cm_onnx_source_open(cm_ctx *cx, const char *path, cm_onnx_source **out,
                              cm_str *bytes) CM_MUST_USE;
/* Bytes of its files, where elements of any type may lie. */
cm_status cm_onnx_source_copy(cm_ctx *cx, cm_onnx_source *s, cm_str bytes, void **out) CM_MUST_USE;
/* The file at `path`, mapped once. */
cm_status cm_onnx_source_map(cm_ctx *cx, cm_onnx_source *s, const char *path,
                             cm_str *bytes) CM_MUST_USE;

#endif
