/* ml_label.c -- ai.onnx.ml: labels to numbers and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/ml/ml_keys.h"

typedef struct {
    uint64_t present;
    cm_ints cats_int64s;
    cm_strs cats_strings;
    int64_t default_int64;
    cm_str default_string;
} category_attr;
CM_ATTRS(category_mapper, category_attr, CM_ATTR_INTS(category_attr, cats_int64s, 0),
         CM_ATTR_STRS(category_attr, cats_strings, 0),
         CM_ATTR_INT(category_attr, default_int64, -1),
         CM_ATTR_STR(category_attr, default_string, "_Unused"))

typedef struct {
    uint64_t present;
    float default_float;
    int64_t default_int64;
    cm_str default_string;
    const cm_tensor *default_tensor, *keys_tensor, *values_tensor;
    cm_floats keys_floats, values_floats;
    cm_ints keys_int64s, values_int64s;
    cm_strs keys_strings, values_strings;
    cm_strs classes_strings; /* the first version's: a label and its place in the list */
} encoder_attr;
CM_ATTRS(label_encoder, encoder_attr, CM_ATTR_FLOAT(encoder_attr, default_float, -0.0),
         CM_ATTR_INT(encoder_attr, default_int64, -1),
         CM_ATTR_STR(encoder_attr, default_string, "_Unused"),
         CM_ATTR_TENSOR(encoder_attr, default_tensor, 0),
         CM_ATTR_FLOATS(encoder_attr, keys_floats, 0), CM_ATTR_INTS(encoder_attr, keys_int64s, 0),
         CM_ATTR_STRS(encoder_attr, keys_strings, 0), CM_ATTR_TENSOR(encoder_attr, keys_tensor, 0),
         CM_ATTR_FLOATS(encoder_attr, values_floats, 0),
         CM_ATTR_INTS(encoder_attr, values_int64s, 0),
         CM_ATTR_STRS(encoder_attr, values_strings, 0),
         CM_ATTR_TENSOR(encoder_attr, values_tensor, 0),
         CM_ATTR_STRS(encoder_attr, classes_strings, 0))

static cm_keys encoder_keys(const encoder_attr *a, cm_dtype in)
{
    if (a->keys_tensor)
        return cm_keys_of_tensor(a->keys_tensor);
    if (a->keys_strings.n)
        return (cm_keys){CM_STR, a->keys_strings.n, a->keys_strings.v};
    if (a->keys_int64s.n)
        return (cm_keys){CM_I64, a->keys_int64s.n, a->keys_int64s.v};
    if (a->keys_floats.n)
        return (cm_keys){CM_F32, a->keys_floats.n, a->keys_floats.v};
    if (in == CM_STR)
        return (cm_keys){CM_STR, a->classes_strings.n, a->classes_strings.v};
    return (cm_keys){CM_I64, a->classes_strings.n, NULL};
}

static cm_keys encoder_values(const encoder_attr *a, cm_dtype in)
{
    if (a->values_tensor)
        return cm_keys_of_tensor(a->values_tensor);
    if (a->values_strings.n)
        return (cm_keys){CM_STR, a->values_strings.n, a->values_strings.v};
    if (a->values_int64s.n)
        return (cm_keys){CM_I64, a->values_int64s.n, a->values_int64s.v};
    if (a->values_floats.n)
        return (cm_keys){CM_F32, a->values_floats.n, a->values_floats.v};
    if (in == CM_STR)
        return (cm_keys){CM_I64, a->classes_strings.n, NULL};
    return (cm_keys){CM_STR, a->classes_strings.n, a->classes_strings.v};
}

/* Keys and values of operator `op`, which is LabelEncoder or CategoryMapper. */
static void mapping(const cm_op *op, const void *attr, cm_dtype in, cm_keys *keys, cm_keys *values)
{
    if (op->id == CM_OP_LABEL_ENCODER) {
        *keys = encoder_keys(attr, in);
        *values = encoder_values(attr, in);
        return;
    }
    const category_attr *a = attr;
    cm_keys ints = {CM_I64, a->cats_int64s.n, a->cats_int64s.v};
    cm_keys strs = {CM_STR, a->cats_strings.n, a->cats_strings.v};
    *keys = in == CM_STR ? strs : ints;
    *values = in == CM_STR ? ints : strs;
}

/* ---- type rules ---- */

static cm_status infer(cm_infer *f)
{
    const cm_dtype in = f->in[0].type->dtype;
    cm_keys keys, values;
    mapping(f->op, f->attr, in, &keys, &values);
    if (keys.n != values.n)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld keys for %lld values", (long long)keys.n,
                       (long long)values.n);
    if (keys.dtype != in)
        return cm_fail(f->cx, CM_ERR_MODEL, "keys of %s for an input of %s",
                       cm_dtype_name(keys.dtype), cm_dtype_name(in));
    if (f->op->id == CM_OP_LABEL_ENCODER) {
        const cm_tensor *d = ((const encoder_attr *)f->attr)->default_tensor;
        if (d && (d->dtype != values.dtype || cm_tensor_elems(d) != 1))
            return cm_fail(f->cx, CM_ERR_MODEL, "default_tensor is not one element of %s",
                           cm_dtype_name(values.dtype));
    }
    f->out[0].type.dtype = values.dtype;
    return cm_infer_like(f, 0, 0);
}

/* ---- evaluators ---- */

/* What a key that is not listed gives, into one element at out. */
static void put_default(const cm_op *op, const void *attr, cm_dtype dtype, void *out)
{
    const encoder_attr *a = attr;
    const category_attr *c = attr;
    const bool encoder = op->id == CM_OP_LABEL_ENCODER;
    if (encoder && a->default_tensor)
        memcpy(out, a->default_tensor->data, cm_dtype_size(dtype));
    else if (dtype == CM_STR)
        *(cm_str *)out = encoder ? a->default_string : c->default_string;
    else if (cm_dtype_is_float(dtype))
        cm_set_f64(dtype, out, 0, (double)a->default_float);
    else
        cm_set_i64(dtype, out, 0, encoder ? a->default_int64 : c->default_int64);
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    const cm_tensor *in = cm_eval_in(e, 0), *out = cm_eval_out(e, 0);
    const size_t size = cm_dtype_size(out->dtype);
    cm_keys keys, values, given = {in->dtype, cm_tensor_elems(in), in->data};
    cm_key_table t;
    mapping(e->op, e->attr, in->dtype, &keys, &values);
    CM_TRY(cm_key_table_build(e, keys, &t));
    char *to = out->data;
    for (int64_t i = 0; i < given.n; i++, to += size) {
        const int64_t place = cm_key_table_find(&t, given, i);
        if (place < 0)
            put_default(e->op, e->attr, out->dtype, to);
        else if (values.data)
            memcpy(to, (const char *)values.data + (size_t)place * size, size);
        else
            memcpy(to, &place, sizeof place);
    }
    return CM_OK;
}

const cm_family cm_family_ml_label = {.name = "ml_label", .infer = infer, .eval = eval};
