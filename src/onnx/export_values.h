/* export_values.h -- what the writer of ONNX models knows while it writes; names, types and weights.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_EXPORT_VALUES_H
#define CM_ONNX_EXPORT_VALUES_H

#include "base/file.h"
#include "base/map.h"
#include "ir/network.h"
#include "onnx/wire.h"

/* Numbers of fields in ONNX's messages. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTR = 5,
    NODE_DOMAIN = 7,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};

typedef struct cm_exporter {
    cm_ctx *cx;
    cm_arena tmp;
    const char **names; /* of values, by id; NULL: not chosen yet */
    int n_names;
    cm_map taken;       /* names of values */
    cm_map taken_nodes; /* and of nodes, which readers want unique too */
    cm_map domains;     /* to their versions */
    cm_map written;     /* constants, by name */
    int opset;
    cm_buf *weights;        /* the outermost graph's initialisers */
    cm_file_writer *beside; /* NULL: weights go inline */
    const char *beside_name;
    size_t beside_n;
    bool strip;
} cm_exporter;

/* A message inside a message; `in` is gone afterwards. */
static inline void cm_put_message(cm_buf *to, uint32_t number, cm_buf *in)
{
    pb_write_bytes(to, number, in->data, in->n);
    to->failed = to->failed || in->failed;
    cm_buf_deinit(in);
}

static inline cm_buf cm_message(const cm_exporter *e)
{
    cm_buf b;
    cm_buf_init(&b, e->cx->allocator);
    return b;
}

/* `wanted`, or with a number after it where it is taken. */
cm_status cm_unique_name(cm_exporter *e, cm_map *taken, const char *wanted,
                         const char **out) CM_MUST_USE;
/* A value's name in the model: its own, unless somebody has it. Of NULL: "". */
cm_status cm_name_of(cm_exporter *e, const cm_value *v, const char **out) CM_MUST_USE;
cm_status cm_claim_name(cm_exporter *e, const cm_value *v, const char *wanted) CM_MUST_USE;
void cm_put_type(const cm_exporter *e, const cm_network *g, const cm_type *t, cm_buf *out);
void cm_put_value(const cm_exporter *e, const cm_network *g, uint32_t number, const char *name,
                  const cm_type *t, cm_buf *out);
/* An initialiser of the outermost graph, written once. */
cm_status cm_put_constant(cm_exporter *e, const cm_value *v) CM_MUST_USE;

#endif
