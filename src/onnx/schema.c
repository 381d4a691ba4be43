/* schema.c -- the field tables of ONNX's messages and one decoder over them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A message is walked twice: the first walk counts the elements of repeated fields, so that lists
 * are allocated once and exactly; the second fills them. Nested messages are stepped over by their
 * length in the first walk, so the whole takes time linear in the file. */
#include "onnx/schema.h"

#include <string.h>

#include "base/size.h"
#include "onnx/wire.h"

/* 20 nested If nodes are 60 messages; real models stay under 10. */
enum { MAX_DEPTH = 200, MAX_FIELDS = 24 };

typedef enum {
    ONE_I64,
    ONE_I32,
    ONE_F32,
    ONE_STR,
    ONE_MESSAGE,
    ONE_PRESENT,
    MANY_I64,
    MANY_I32,
    MANY_U64,
    MANY_F32,
    MANY_F64,
    MANY_STR,
    MANY_MESSAGE
} field_kind;

typedef struct field {
    uint32_t number;
    field_kind kind;
    size_t offset;
    size_t present; /* offset of a bool that says whether the field was there; 0: none */
    const pb_message *message;
} field;

struct pb_message {
    const char *name;
    size_t bytes;
    int n_fields;
    const field *fields;
};

typedef struct list {
    size_t n;
    void *v;
} list;

#define ONE(number, s, f, kind)                                                                    \
    {                                                                                              \
        number, kind, offsetof(s, f), 0, NULL                                                      \
    }
#define ONE_HAS(number, s, f, kind, flag)                                                          \
    {                                                                                              \
        number, kind, offsetof(s, f), offsetof(s, flag), NULL                                      \
    }
#define MSG(number, s, f, m)                                                                       \
    {                                                                                              \
        number, ONE_MESSAGE, offsetof(s, f), 0, &m                                                 \
    }
#define MSGS(number, s, f, m)                                                                      \
    {                                                                                              \
        number, MANY_MESSAGE, offsetof(s, f), 0, &m                                                \
    }
#define MESSAGE(linkage, id, text, s, table)                                                       \
    linkage const pb_message id = {text, sizeof(s), CM_COUNT(table), table}

static const pb_message type_message, graph_message;

static const field entry_fields[] = {
    ONE(1, pb_entry, key, ONE_STR),
    ONE(2, pb_entry, value, ONE_STR),
};
MESSAGE(static, entry_message, "StringStringEntryProto", pb_entry, entry_fields);

static const field opset_fields[] = {
    ONE(1, pb_opset, domain, ONE_STR),
    ONE(2, pb_opset, version, ONE_I64),
};
MESSAGE(static, opset_message, "OperatorSetIdProto", pb_opset, opset_fields);

static const field tensor_fields[] = {
    ONE(1, pb_tensor, dims, MANY_I64),
    ONE(2, pb_tensor, data_type, ONE_I32),
    ONE(3, pb_tensor, has_segment, ONE_PRESENT),
    ONE(4, pb_tensor, float_data, MANY_F32),
    ONE(5, pb_tensor, int32_data, MANY_I32),
    ONE(6, pb_tensor, string_data, MANY_STR),
    ONE(7, pb_tensor, int64_data, MANY_I64),
    ONE(8, pb_tensor, name, ONE_STR),
    ONE_HAS(9, pb_tensor, raw_data, ONE_STR, has_raw),
    ONE(10, pb_tensor, double_data, MANY_F64),
    ONE(11, pb_tensor, uint64_data, MANY_U64),
    MSGS(13, pb_tensor, external_data, entry_message),
    ONE(14, pb_tensor, data_location, ONE_I32),
};
MESSAGE(, pb_tensor_message, "TensorProto", pb_tensor, tensor_fields);

static const field sparse_fields[] = {
    MSG(1, pb_sparse, values, pb_tensor_message),
    MSG(2, pb_sparse, indices, pb_tensor_message),
    ONE(3, pb_sparse, dims, MANY_I64),
};
MESSAGE(static, sparse_message, "SparseTensorProto", pb_sparse, sparse_fields);

static const field dim_fields[] = {
    ONE_HAS(1, pb_dim, dim_value, ONE_I64, has_value),
    ONE(2, pb_dim, dim_param, ONE_STR),
};
MESSAGE(static, dim_message, "Dimension", pb_dim, dim_fields);

static const field shape_fields[] = {MSGS(1, pb_shape, dim, dim_message)};
MESSAGE(static, shape_message, "TensorShapeProto", pb_shape, shape_fields);

static const field tensor_type_fields[] = {
    ONE(1, pb_tensor_type, elem_type, ONE_I32),
    MSG(2, pb_tensor_type, shape, shape_message),
};
MESSAGE(static, tensor_type_message, "TypeProto.Tensor", pb_tensor_type, tensor_type_fields);

static const field elem_type_fields[] = {MSG(1, pb_elem_type, elem_type, type_message)};
MESSAGE(static, elem_type_message, "TypeProto.Sequence", pb_elem_type, elem_type_fields);

static const field map_type_fields[] = {
    ONE(1, pb_map_type, key_type, ONE_I32),
    MSG(2, pb_map_type, value_type, type_message),
};
MESSAGE(static, map_type_message, "TypeProto.Map", pb_map_type, map_type_fields);

static const field opaque_fields[] = {ONE(2, pb_opaque_type, name, ONE_STR)};
MESSAGE(static, opaque_message, "TypeProto.Opaque", pb_opaque_type, opaque_fields);

static const field type_fields[] = {
    MSG(1, pb_type, tensor_type, tensor_type_message),
    MSG(4, pb_type, sequence_type, elem_type_message),
    MSG(5, pb_type, map_type, map_type_message),
    MSG(7, pb_type, opaque_type, opaque_message),
    MSG(8, pb_type, sparse_tensor_type, tensor_type_message),
    MSG(9, pb_type, optional_type, elem_type_message),
};
MESSAGE(static, type_message, "TypeProto", pb_type, type_fields);

static const field value_info_fields[] = {
    ONE(1, pb_value_info, name, ONE_STR),
    MSG(2, pb_value_info, type, type_message),
};
MESSAGE(static, value_info_message, "ValueInfoProto", pb_value_info, value_info_fields);

static const field attribute_fields[] = {
    ONE(1, pb_attribute, name, ONE_STR),
    ONE_HAS(2, pb_attribute, f, ONE_F32, has_f),
    ONE_HAS(3, pb_attribute, i, ONE_I64, has_i),
    ONE_HAS(4, pb_attribute, s, ONE_STR, has_s),
    MSG(5, pb_attribute, t, pb_tensor_message),
    MSG(6, pb_attribute, g, graph_message),
    ONE(7, pb_attribute, floats, MANY_F32),
    ONE(8, pb_attribute, ints, MANY_I64),
    ONE(9, pb_attribute, strings, MANY_STR),
    MSGS(10, pb_attribute, tensors, pb_tensor_message),
    MSGS(11, pb_attribute, graphs, graph_message),
    MSG(14, pb_attribute, tp, type_message),
    ONE(20, pb_attribute, type, ONE_I32),
    ONE(21, pb_attribute, ref_attr_name, ONE_STR),
    MSG(22, pb_attribute, sparse_tensor, sparse_message),
};
MESSAGE(static, attribute_message, "AttributeProto", pb_attribute, attribute_fields);

static const field node_fields[] = {
    ONE(1, pb_node, input, MANY_STR),
    ONE(2, pb_node, output, MANY_STR),
    ONE(3, pb_node, name, ONE_STR),
    ONE(4, pb_node, op_type, ONE_STR),
    MSGS(5, pb_node, attribute, attribute_message),
    ONE(7, pb_node, domain, ONE_STR),
    ONE(8, pb_node, overload, ONE_STR),
};
MESSAGE(static, node_message, "NodeProto", pb_node, node_fields);

static const field graph_fields[] = {
    MSGS(1, pb_graph, node, node_message),
    ONE(2, pb_graph, name, ONE_STR),
    MSGS(5, pb_graph, initializer, pb_tensor_message),
    MSGS(11, pb_graph, input, value_info_message),
    MSGS(12, pb_graph, output, value_info_message),
    MSGS(13, pb_graph, value_info, value_info_message),
    MSGS(15, pb_graph, sparse_initializer, sparse_message),
};
MESSAGE(static, graph_message, "GraphProto", pb_graph, graph_fields);

static const field function_fields[] = {
    ONE(1, pb_function, name, ONE_STR),
    ONE(4, pb_function, input, MANY_STR),
    ONE(5, pb_function, output, MANY_STR),
    ONE(6, pb_function, attribute, MANY_STR),
    MSGS(7, pb_function, node, node_message),
    MSGS(9, pb_function, opset_import, opset_message),
    ONE(10, pb_function, domain, ONE_STR),
    MSGS(11, pb_function, attribute_proto, attribute_message),
    ONE(13, pb_function, overload, ONE_STR),
};
MESSAGE(static, function_message, "FunctionProto", pb_function, function_fields);

static const field model_fields[] = {
    ONE(1, pb_model, ir_version, ONE_I64),
    ONE(2, pb_model, producer_name, ONE_STR),
    ONE(3, pb_model, producer_version, ONE_STR),
    ONE(4, pb_model, domain, ONE_STR),
    ONE(5, pb_model, model_version, ONE_I64),
    MSG(7, pb_model, graph, graph_message),
    MSGS(8, pb_model, opset_import, opset_message),
    MSGS(14, pb_model, metadata_props, entry_message),
    MSGS(25, pb_model, functions, function_message),
};
MESSAGE(, pb_model_message, "ModelProto", pb_model, model_fields);

static const field sequence_fields[] = {
    ONE(1, pb_sequence, name, ONE_STR),
    ONE(2, pb_sequence, elem_type, ONE_I32),
    MSGS(3, pb_sequence, tensor_values, pb_tensor_message),
    MSGS(5, pb_sequence, sequence_values, pb_sequence_message),
    MSGS(6, pb_sequence, map_values, pb_map_message),
    MSGS(7, pb_sequence, optional_values, pb_optional_message),
};
MESSAGE(, pb_sequence_message, "SequenceProto", pb_sequence, sequence_fields);

static const field map_fields[] = {
    ONE(1, pb_map, name, ONE_STR),
    ONE(2, pb_map, key_type, ONE_I32),
    ONE(3, pb_map, keys, MANY_I64),
    ONE(4, pb_map, string_keys, MANY_STR),
    MSG(5, pb_map, values, pb_sequence_message),
};
MESSAGE(, pb_map_message, "MapProto", pb_map, map_fields);

static const field optional_fields[] = {
    ONE(1, pb_optional, name, ONE_STR),
    ONE(2, pb_optional, elem_type, ONE_I32),
    MSG(3, pb_optional, tensor_value, pb_tensor_message),
    MSG(5, pb_optional, sequence_value, pb_sequence_message),
    MSG(6, pb_optional, map_value, pb_map_message),
    MSG(7, pb_optional, optional_value, pb_optional_message),
};
MESSAGE(, pb_optional_message, "OptionalProto", pb_optional, optional_fields);

typedef struct decoder {
    cm_ctx *cx;
    cm_arena *arena;
    size_t budget; /* bytes that structs and lists may still take */
    int depth;
} decoder;

static cm_status take(decoder *d, size_t n, size_t size, void **out)
{
    size_t bytes;
    if (!cm_mul(n, size, &bytes) || bytes > d->budget)
        return cm_fail(d->cx, CM_ERR_MODEL,
                       "the file holds far more messages than its size allows for");
    d->budget -= bytes;
    *out = cm_arena_alloc_n(d->arena, n, size, 16, 1);
    return *out ? CM_OK : cm_fail_memory(d->cx);
}

static const field *find_field(const pb_message *m, uint32_t number)
{
    for (int i = 0; i < m->n_fields; i++)
        if (m->fields[i].number == number)
            return &m->fields[i];
    return NULL;
}

/* Bytes of one element in a list; how it travels when not packed. */
static size_t element_bytes(const field *f)
{
    switch (f->kind) {
    case MANY_I32:
    case MANY_F32:
        return 4;
    case MANY_I64:
    case MANY_U64:
    case MANY_F64:
        return 8;
    case MANY_STR:
        return sizeof(cm_str);
    case MANY_MESSAGE:
        return f->message->bytes;
    default:
        return 0;
    }
}

static pb_wire natural_wire(const field *f)
{
    switch (f->kind) {
    case ONE_I64:
    case ONE_I32:
    case MANY_I64:
    case MANY_I32:
    case MANY_U64:
        return PB_VARINT;
    case ONE_F32:
    case MANY_F32:
        return PB_FIXED32;
    case MANY_F64:
        return PB_FIXED64;
    default:
        return PB_BYTES;
    }
}

static cm_status wrong_wire(decoder *d, const pb_message *m, const pb_item *item)
{
    return cm_fail(d->cx, CM_ERR_MODEL, "field %u of a %s has wire type %d: the file is damaged",
                   item->number, m->name, item->wire);
}

/* How many elements `item` adds to the list of `f`. */
static cm_status count_item(decoder *d, const pb_message *m, const field *f, const pb_item *item,
                            size_t *n)
{
    pb_wire natural = natural_wire(f);
    if (item->wire == natural) {
        *n = 1;
        return CM_OK;
    }
    if (item->wire != PB_BYTES)
        return wrong_wire(d, m, item);
    *n = 0;
    if (natural == PB_VARINT) {
        for (size_t i = 0; i < item->bytes.n; i++)
            *n += !((unsigned char)item->bytes.p[i] & 0x80);
        return CM_OK;
    }
    *n = item->bytes.n / element_bytes(f);
    return item->bytes.n % element_bytes(f) == 0 ? CM_OK : wrong_wire(d, m, item);
}

static cm_status size_lists(decoder *d, const pb_message *m, cm_str bytes, char *out)
{
    size_t counts[MAX_FIELDS] = {0};
    for (pb_reader r = pb_reader_of(bytes); r.p < r.end;) {
        pb_item item;
        size_t n = 0;
        CM_TRY(pb_read_item(d->cx, &r, &item));
        const field *f = find_field(m, item.number);
        if (!f || f->kind < MANY_I64)
            continue;
        CM_TRY(count_item(d, m, f, &item, &n));
        counts[f - m->fields] += n;
    }
    for (int i = 0; i < m->n_fields; i++) {
        list *l = (list *)(void *)(out + m->fields[i].offset);
        if (m->fields[i].kind >= MANY_I64 && counts[i])
            CM_TRY(take(d, counts[i], element_bytes(&m->fields[i]), &l->v));
    }
    return CM_OK;
}

static void put_number(const field *f, list *l, uint64_t bits)
{
    switch (f->kind) {
    case MANY_I32:
        ((int32_t *)l->v)[l->n++] = (int32_t)(uint32_t)bits;
        break;
    case MANY_F32:
        ((uint32_t *)l->v)[l->n++] = (uint32_t)bits;
        break;
    default:
        ((uint64_t *)l->v)[l->n++] = bits;
    }
}

static cm_status put_packed(decoder *d, const pb_message *m, const field *f, list *l,
                            const pb_item *item)
{
    pb_reader r = pb_reader_of(item->bytes);
    size_t size = element_bytes(f);
    if (natural_wire(f) != PB_VARINT) {
        for (; r.p < r.end; r.p += size)
            put_number(f, l, size == 4 ? pb_load32(r.p) : pb_load64(r.p));
        return CM_OK;
    }
    while (r.p < r.end) {
        uint64_t bits;
        if (!pb_read_varint(&r, &bits))
            return wrong_wire(d, m, item);
        put_number(f, l, bits);
    }
    return CM_OK;
}

static cm_status decode(decoder *d, const pb_message *m, cm_str bytes, char *out);

static cm_status put_item(decoder *d, const pb_message *m, const field *f, const pb_item *item,
                          char *at)
{
    list *l = (list *)(void *)at;
    switch (f->kind) {
    case ONE_I64:
        *(int64_t *)(void *)at = (int64_t)item->bits;
        return CM_OK;
    case ONE_I32:
    case ONE_F32:
        *(uint32_t *)(void *)at = (uint32_t)item->bits;
        return CM_OK;
    case ONE_STR:
        *(cm_str *)(void *)at = item->bytes;
        return CM_OK;
    case ONE_PRESENT:
        *(bool *)at = true;
        return CM_OK;
    case ONE_MESSAGE:
        CM_TRY(take(d, 1, f->message->bytes, (void **)(void *)at));
        return decode(d, f->message, item->bytes, *(char **)(void *)at);
    case MANY_STR:
        ((cm_str *)l->v)[l->n++] = item->bytes;
        return CM_OK;
    case MANY_MESSAGE:
        return decode(d, f->message, item->bytes, (char *)l->v + l->n++ * f->message->bytes);
    default:
        if (item->wire == PB_BYTES)
            return put_packed(d, m, f, l, item);
        put_number(f, l, item->bits);
        return CM_OK;
    }
}

static cm_status decode(decoder *d, const pb_message *m, cm_str bytes, char *out)
{
    if (d->depth >= MAX_DEPTH)
        return cm_fail(d->cx, CM_ERR_MODEL, "messages are nested deeper than %d levels",
                       (int)MAX_DEPTH);
    d->depth++;
    CM_TRY(size_lists(d, m, bytes, out));
    for (pb_reader r = pb_reader_of(bytes); r.p < r.end;) {
        pb_item item;
        CM_TRY(pb_read_item(d->cx, &r, &item));
        const field *f = find_field(m, item.number);
        if (!f)
            continue;
        if (f->kind < MANY_I64 && item.wire != natural_wire(f))
            return wrong_wire(d, m, &item);
        CM_TRY(put_item(d, m, f, &item, out + f->offset));
        *(uint64_t *)(void *)out |= UINT64_C(1) << (f - m->fields);
        if (f->present)
            *(bool *)(out + f->present) = true;
    }
    d->depth--;
    return CM_OK;
}

cm_status pb_decode(cm_ctx *cx, cm_arena *arena, const pb_message *m, const void *bytes, size_t n,
                    void *out)
{
    decoder d = {.cx = cx, .arena = arena};
    /* The densest honest content is a list of small messages, about 20 bytes of struct a byte. */
    if (!cm_mul(n, 32, &d.budget) || !cm_add(d.budget, 65536, &d.budget))
        d.budget = SIZE_MAX;
    return decode(&d, m, (cm_str){bytes, n}, out);
}
