/* onnx.h -- ONNX files into networks, and tensors into and out of ONNX's messages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_ONNX_H
#define CM_ONNX_ONNX_H

#include "base/buf.h"
#include "ir/network.h"

/* A symbolic dim given a number while importing: every dim_param of that name becomes it. */
typedef struct cm_import_dim {
    const char *name;
    int64_t value;
} cm_import_dim;

/* An input given a shape. An entry -1 leaves that dim as the file has it. */
typedef struct cm_import_shape {
    const char *input;
    int rank;
    const int64_t *dims;
} cm_import_shape;

/* Where weights come from that were left out of a model (export.h): the bytes of the one of that name, with
 * the shape's element type and sizes, dense and packed, as long as the network lives. `checksum` is that of
 * the bytes that were left out; others will do. May be asked several times for one. */
typedef struct cm_weight_source {
    cm_status (*find)(void *user, cm_ctx *cx, cm_str name, const cm_tensor *shape,
                      uint64_t checksum, const void **bytes);
    void *user;
} cm_weight_source;
#define CM_ONNX_STRIPPED "cameo-stripped-weights" /* the location that such weights state */

typedef struct cm_import_options {
    const char *folder; /* where external data may lie; NULL: external data is refused. Importing a
                         * file sets it to the file's own folder when NULL */
    int n_outputs;      /* values to hand out besides the model's outputs */
    const char *const *outputs;
    int n_dims;
    const cm_import_dim *dims;
    int n_shapes;
    const cm_import_shape *shapes;
    bool keep_overridable; /* initialisers that are also inputs stay inputs (IR version 3 and such);
                            * else they are constants */
    const cm_weight_source *stripped; /* NULL: a model that lacks weights is refused */
} cm_import_options;

/* The mappings that a network's constants point into: closed after the network's end. */
typedef struct cm_onnx_source cm_onnx_source;
void cm_onnx_source_close(cm_onnx_source *s); /* NULL is fine */
/* The bytes, if they lie in its files, will not be read for a while (see cm_file_forget); p NULL: none of them. A
 * `source` that is NULL has none. */
void cm_onnx_source_forget(void *source, const void *p, size_t n);

/* Large tensors that lie askew in a file were copied; of these it keeps where they came from, and an engine that has
 * packed one need not have both. From now on only `constants` are read, and they through the engine: copies of others
 * go at once. */
void cm_onnx_source_lend(cm_onnx_source *s, const cm_tensor *const *constants, int n);
/* As cm_constant_source (runtime/runtime.h) wants them. */
bool cm_onnx_source_let_go(void *source, const void *p, size_t n);
void cm_onnx_source_fetch(void *source, const void *p, size_t n, void *to);
/* The network is to be read again: what went is put back, and nothing goes any more. From any thread. */
void cm_onnx_source_recall(cm_onnx_source *s);

/* The network lives in `arena`; its constants point into `bytes` too. `o` may be NULL. What
 * cannot be done is refused with every offending node in one sentence, and each one logged. */
cm_status cm_onnx_import(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                         const cm_import_options *o, cm_network **out) CM_MUST_USE;
/* The same from a file, mapped: *keep must outlive the network. */
cm_status cm_onnx_import_file(cm_ctx *cx, cm_arena *arena, const char *path,
                              const cm_import_options *o, cm_onnx_source **keep,
                              cm_network **out) CM_MUST_USE;

/* A serialised TensorProto, SequenceProto, OptionalProto or MapProto, as `expected` says which
 * (NULL: a tensor). What it holds is in `arena` or points into `bytes`. */
cm_status cm_onnx_read_datum(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                             const cm_type *expected, cm_datum *out) CM_MUST_USE;
/* A TensorProto appended to `out`; name may be NULL. Any strides; sub-byte types packed or not. */
cm_status cm_onnx_write_tensor(cm_ctx *cx, const char *name, const cm_tensor *t,
                               cm_buf *out) CM_MUST_USE;

/* The operators that import knows with the opset versions that changed them, for documents. Walk
 * 0, 1, ... until NULL. */
typedef struct cm_onnx_op {
    const char *name;   /* "Conv" */
    const char *domain; /* "", "ai.onnx.ml", ... */
    const char *since;  /* "1 11 22": versions in which it was defined anew */
} cm_onnx_op;
const cm_onnx_op *cm_onnx_op_at(int index);
enum { CM_ONNX_NEWEST_OPSET = 28, CM_ONNX_NEWEST_ML_OPSET = 5 };

#endif
