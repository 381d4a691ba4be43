/* schema.h -- ONNX's messages as C structs, and the decoder that fills them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Field names are ONNX's. Strings and bytes are views into the file. `has` is not 0 when the file
 * gave any field that we know. */
#ifndef CM_ONNX_SCHEMA_H
#define CM_ONNX_SCHEMA_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#define PB_LIST(type)                                                                              \
    struct {                                                                                       \
        size_t n;                                                                                  \
        type *v;                                                                                   \
    }

typedef struct pb_graph pb_graph;
typedef struct pb_type pb_type;
typedef struct pb_sequence pb_sequence;
typedef struct pb_optional pb_optional;
typedef struct pb_map pb_map;

typedef struct pb_entry {
    uint64_t has;
    cm_str key, value;
} pb_entry;

typedef struct pb_opset {
    uint64_t has;
    cm_str domain;
    int64_t version;
} pb_opset;

typedef struct pb_tensor {
    uint64_t has;
    PB_LIST(int64_t) dims;
    int32_t data_type;
    PB_LIST(float) float_data;
    PB_LIST(int32_t) int32_data;
    PB_LIST(cm_str) string_data;
    PB_LIST(int64_t) int64_data;
    cm_str name;
    cm_str raw_data;
    bool has_raw;
    PB_LIST(double) double_data;
    PB_LIST(uint64_t) uint64_data;
    PB_LIST(pb_entry) external_data;
    int32_t data_location; /* 1: external */
    bool has_segment;
} pb_tensor;

typedef struct pb_sparse {
    uint64_t has;
    pb_tensor *values, *indices;
    PB_LIST(int64_t) dims;
} pb_sparse;

typedef struct pb_dim {
    uint64_t has;
    int64_t dim_value;
    cm_str dim_param;
    bool has_value;
} pb_dim;

typedef struct pb_shape {
    uint64_t has;
    PB_LIST(pb_dim) dim;
} pb_shape;

typedef struct pb_tensor_type {
    uint64_t has;
    int32_t elem_type;
    pb_shape *shape; /* NULL: rank unknown */
} pb_tensor_type;

typedef struct pb_elem_type { /* Sequence and Optional */
    uint64_t has;
    pb_type *elem_type;
} pb_elem_type;

typedef struct pb_map_type {
    uint64_t has;
    int32_t key_type;
    pb_type *value_type;
} pb_map_type;

typedef struct pb_opaque_type {
    uint64_t has;
    cm_str name;
} pb_opaque_type;

struct pb_type { /* at most one is set */
    uint64_t has;
    pb_tensor_type *tensor_type, *sparse_tensor_type;
    pb_elem_type *sequence_type, *optional_type;
    pb_map_type *map_type;
    pb_opaque_type *opaque_type;
};

typedef struct pb_value_info {
    uint64_t has;
    cm_str name;
    pb_type *type;
} pb_value_info;

typedef enum {
    PB_ATTR_UNDEFINED,
    PB_ATTR_FLOAT,
    PB_ATTR_INT,
    PB_ATTR_STRING,
    PB_ATTR_TENSOR,
    PB_ATTR_GRAPH,
    PB_ATTR_FLOATS,
    PB_ATTR_INTS,
    PB_ATTR_STRINGS,
    PB_ATTR_TENSORS,
    PB_ATTR_GRAPHS,
    PB_ATTR_SPARSE_TENSOR,
    PB_ATTR_SPARSE_TENSORS,
    PB_ATTR_TYPE_PROTO,
    PB_ATTR_TYPE_PROTOS,
    PB_ATTR_COUNT
} pb_attribute_type;

typedef struct pb_attribute {
    uint64_t has;
    cm_str name, ref_attr_name;
    int32_t type; /* pb_attribute_type; files of the first IR versions leave it out */
    float f;
    int64_t i;
    cm_str s;
    pb_tensor *t;
    pb_graph *g;
    pb_sparse *sparse_tensor;
    pb_type *tp;
    PB_LIST(float) floats;
    PB_LIST(int64_t) ints;
    PB_LIST(cm_str) strings;
    PB_LIST(pb_tensor) tensors;
    PB_LIST(pb_graph) graphs;
    bool has_f, has_i, has_s;
} pb_attribute;

typedef struct pb_node {
    uint64_t has;
    PB_LIST(cm_str) input;
    PB_LIST(cm_str) output;
    cm_str name, op_type, domain, overload;
    PB_LIST(pb_attribute) attribute;
} pb_node;

struct pb_graph {
    uint64_t has;
    PB_LIST(pb_node) node;
    cm_str name;
    PB_LIST(pb_tensor) initializer;
    PB_LIST(pb_sparse) sparse_initializer;
    PB_LIST(pb_value_info) input;
    PB_LIST(pb_value_info) output;
    PB_LIST(pb_value_info) value_info;
};

typedef struct pb_function {
    uint64_t has;
    cm_str name, domain, overload;
    PB_LIST(cm_str) input;
    PB_LIST(cm_str) output;
    PB_LIST(cm_str) attribute;
    PB_LIST(pb_attribute) attribute_proto;
    PB_LIST(pb_node) node;
    PB_LIST(pb_opset) opset_import;
} pb_function;

typedef struct pb_model {
    uint64_t has;
    int64_t ir_version;
    PB_LIST(pb_opset) opset_import;
    cm_str producer_name, producer_version, domain;
    int64_t model_version;
    pb_graph *graph;
    PB_LIST(pb_entry) metadata_props;
    PB_LIST(pb_function) functions;
} pb_model;

/* What a sequence or an optional holds, in `elem_type` of SequenceProto and OptionalProto. */
enum { PB_HOLDS_TENSOR = 1, PB_HOLDS_SPARSE, PB_HOLDS_SEQUENCE, PB_HOLDS_MAP, PB_HOLDS_OPTIONAL };

struct pb_sequence {
    uint64_t has;
    cm_str name;
    int32_t elem_type;
    PB_LIST(pb_tensor) tensor_values;
    PB_LIST(pb_sequence) sequence_values;
    PB_LIST(pb_map) map_values;
    PB_LIST(pb_optional) optional_values;
};

struct pb_map {
    uint64_t has;
    cm_str name;
    int32_t key_type;
    PB_LIST(int64_t) keys;
    PB_LIST(cm_str) string_keys;
    pb_sequence *values;
};

struct pb_optional {
    uint64_t has;
    cm_str name;
    int32_t elem_type;
    pb_tensor *tensor_value;
    pb_sequence *sequence_value;
    pb_map *map_value;
    pb_optional *optional_value;
};

typedef struct pb_message pb_message;
extern const pb_message pb_model_message, pb_tensor_message, pb_sequence_message,
    pb_optional_message, pb_map_message;

/* Decode `bytes` into `out`, a zeroed struct of the message's type; lists and nested structs go
 * to `arena`. Unknown fields are skipped. Nesting is bounded, and so is memory: a small multiple
 * of the bytes, whatever they hold. */
cm_status pb_decode(cm_ctx *cx, cm_arena *arena, const pb_message *m, const void *bytes, size_t n,
                    void *out) CM_MUST_USE;

#endif
