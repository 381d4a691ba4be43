/* ml_label.c -- ai.onnx.ml: labels to numbers and back, and maps.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "ops/nested.h"

typedef struct {
    uint64_t present;
    cm_str cast_to, map_form;
    int64_t max_map;
} cast_map_attr;
CM_ATTRS(cast_map, cast_map_attr, CM_ATTR_STR(cast_map_attr, cast_to, "TO_FLOAT"),
         CM_ATTR_STR(cast_map_attr, map_form, "DENSE"), CM_ATTR_INT(cast_map_attr, max_map, 1))

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
    cm_ints int64_vocabulary;
    cm_strs string_vocabulary;
} dict_attr;
CM_ATTRS(dict_vectorizer, dict_attr, CM_ATTR_INTS(dict_attr, int64_vocabulary, 0),
         CM_ATTR_STRS(dict_attr, string_vocabulary, 0))

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

typedef struct {
    uint64_t present;
    cm_ints classlabels_int64s;
    cm_strs classlabels_strings;
} zip_attr;
CM_ATTRS(zip_map, zip_attr, CM_ATTR_INTS(zip_attr, classlabels_int64s, 0),
         CM_ATTR_STRS(zip_attr, classlabels_strings, 0))

/* ---- lists of one element type ---- */

/* Elements of an attribute or a tensor; data NULL: 0, 1, 2, ... */
typedef struct {
    cm_dtype dtype;
    int64_t n;
    const void *data;
} list;

static list list_of_tensor(const cm_tensor *t)
{
    return (list){t->dtype, cm_tensor_elems(t), t->data};
}

static list encoder_keys(const encoder_attr *a, cm_dtype in)
{
    if (a->keys_tensor)
        return list_of_tensor(a->keys_tensor);
    if (a->keys_strings.n)
        return (list){CM_STR, a->keys_strings.n, a->keys_strings.v};
    if (a->keys_int64s.n)
        return (list){CM_I64, a->keys_int64s.n, a->keys_int64s.v};
    if (a->keys_floats.n)
        return (list){CM_F32, a->keys_floats.n, a->keys_floats.v};
    if (in == CM_STR)
        return (list){CM_STR, a->classes_strings.n, a->classes_strings.v};
    return (list){CM_I64, a->classes_strings.n, NULL};
}

static list encoder_values(const encoder_attr *a, cm_dtype in)
{
    if (a->values_tensor)
        return list_of_tensor(a->values_tensor);
    if (a->values_strings.n)
        return (list){CM_STR, a->values_strings.n, a->values_strings.v};
    if (a->values_int64s.n)
        return (list){CM_I64, a->values_int64s.n, a->values_int64s.v};
    if (a->values_floats.n)
        return (list){CM_F32, a->values_floats.n, a->values_floats.v};
    if (in == CM_STR)
        return (list){CM_I64, a->classes_strings.n, NULL};
    return (list){CM_STR, a->classes_strings.n, a->classes_strings.v};
}

/* Keys and values of operator `op`, which is LabelEncoder or CategoryMapper. */
static void mapping(const cm_op *op, const void *attr, cm_dtype in, list *keys, list *values)
{
    if (op->id == CM_OP_LABEL_ENCODER) {
        *keys = encoder_keys(attr, in);
        *values = encoder_values(attr, in);
        return;
    }
    const category_attr *a = attr;
    list ints = {CM_I64, a->cats_int64s.n, a->cats_int64s.v};
    list strs = {CM_STR, a->cats_strings.n, a->cats_strings.v};
    *keys = in == CM_STR ? strs : ints;
    *values = in == CM_STR ? ints : strs;
}

/* A key as what is hashed and compared: bytes. Floats that are equal have equal bytes. */
static cm_str key_bytes(list l, int64_t i, uint64_t *room)
{
    if (l.dtype == CM_STR)
        return ((const cm_str *)l.data)[i];
    if (cm_dtype_is_float(l.dtype)) {
        double x = cm_get_f64(l.dtype, l.data, i);
        x = isnan(x) ? (double)NAN : x == 0 ? 0 : x;
        memcpy(room, &x, sizeof x);
    } else {
        const int64_t x = l.data ? cm_get_i64(l.dtype, l.data, i) : i;
        memcpy(room, &x, sizeof x);
    }
    return (cm_str){(const char *)room, sizeof *room};
}

/* Places of keys by hash: slot 0 is free, else the place + 1. */
typedef struct {
    list keys;
    int64_t *slots;
    uint64_t mask;
} table;

static int64_t *find(const table *t, cm_str key)
{
    uint64_t i = cm_hash_bytes(key.p, key.n, 0) & t->mask, room;
    while (t->slots[i] && !cm_str_equal(key_bytes(t->keys, t->slots[i] - 1, &room), key))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

/* Of keys that are repeated the last counts. */
static cm_status build_table(cm_eval *e, list keys, table *t)
{
    uint64_t n = 16, room;
    while (n < 2 * (uint64_t)keys.n)
        n *= 2;
    void *slots;
    CM_TRY(cm_eval_scratch(e, n, sizeof(int64_t), &slots));
    *t = (table){keys, slots, n - 1};
    for (int64_t i = 0; i < keys.n; i++)
        *find(t, key_bytes(keys, i, &room)) = i + 1;
    return CM_OK;
}

/* ---- type rules ---- */

static cm_status infer_mapping(cm_infer *f)
{
    const cm_dtype in = f->in[0].type->dtype;
    list keys, values;
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

static cm_status infer_zip(cm_infer *f)
{
    static const cm_type maps[2] = {{.kind = CM_MAP, .dtype = CM_F32, .key = CM_I64},
                                    {.kind = CM_MAP, .dtype = CM_F32, .key = CM_STR}};
    const zip_attr *a = f->attr;
    if ((a->classlabels_int64s.n > 0) == (a->classlabels_strings.n > 0))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "one of classlabels_int64s and classlabels_strings must be given");
    if (cm_infer_ranked(f, 0)) {
        const int rank = cm_infer_rank(f, 0);
        if (rank < 1 || rank > 2)
            return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted [C] or [N,C]", rank);
        CM_TRY(cm_infer_equal(f, "columns", cm_infer_dim(f, 0, rank - 1),
                              a->classlabels_int64s.n + a->classlabels_strings.n));
    }
    cm_infer_holder(f, 0, CM_SEQUENCE, &maps[a->classlabels_strings.n > 0]);
    return CM_OK;
}

static cm_status map_type(cm_infer *f, const cm_type **out)
{
    const cm_type *t = f->in[0].type;
    if (t->kind != CM_MAP && t->kind != CM_NOTHING)
        return cm_fail(f->cx, CM_ERR_MODEL, "input 0 is not a map");
    *out = t->kind == CM_MAP ? t : NULL;
    return CM_OK;
}

static bool is_word(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static cm_status infer_cast_map(cm_infer *f)
{
    const cast_map_attr *a = f->attr;
    const cm_type *map = NULL;
    CM_TRY(map_type(f, &map));
    if (map && map->key != CM_I64)
        return cm_fail(f->cx, CM_ERR_MODEL, "a map with keys of %s, wanted i64",
                       cm_dtype_name(map->key));
    const bool sparse = is_word(a->map_form, "SPARSE");
    if (!sparse && !is_word(a->map_form, "DENSE"))
        return cm_fail(f->cx, CM_ERR_MODEL, "map_form is neither DENSE nor SPARSE");
    const cm_dtype dtype = is_word(a->cast_to, "TO_FLOAT")    ? CM_F32
                           : is_word(a->cast_to, "TO_STRING") ? CM_STR
                           : is_word(a->cast_to, "TO_INT64")  ? CM_I64
                                                              : CM_NO_DTYPE;
    if (dtype == CM_NO_DTYPE)
        return cm_fail(f->cx, CM_ERR_MODEL, "cast_to is none of TO_FLOAT, TO_STRING, TO_INT64");
    if (sparse && a->max_map < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "max_map is %lld", (long long)a->max_map);
    f->out[0].type.dtype = dtype;
    if (!sparse && !f->dims) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){1, sparse ? a->max_map : cm_infer_fresh(f, "keys")});
}

static cm_status infer_dict(cm_infer *f)
{
    const dict_attr *a = f->attr;
    const cm_type *map = NULL;
    CM_TRY(map_type(f, &map));
    if ((a->int64_vocabulary.n > 0) == (a->string_vocabulary.n > 0))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "one of int64_vocabulary and string_vocabulary must be given");
    if (map && map->key != (a->string_vocabulary.n ? CM_STR : CM_I64))
        return cm_fail(f->cx, CM_ERR_MODEL, "a map with keys of %s against a vocabulary of %s",
                       cm_dtype_name(map->key), a->string_vocabulary.n ? "str" : "i64");
    f->out[0].type.dtype = map ? map->dtype : CM_F32;
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){1, a->int64_vocabulary.n + a->string_vocabulary.n});
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_ZIP_MAP:
        return infer_zip(f);
    case CM_OP_CAST_MAP:
        return infer_cast_map(f);
    case CM_OP_DICT_VECTORIZER:
        return infer_dict(f);
    default:
        return infer_mapping(f);
    }
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

static cm_status eval_mapping(cm_eval *e)
{
    const cm_tensor *in = cm_eval_in(e, 0), *out = cm_eval_out(e, 0);
    const size_t size = cm_dtype_size(out->dtype);
    list keys, values, given = {in->dtype, cm_tensor_elems(in), in->data};
    table t;
    uint64_t room;
    mapping(e->op, e->attr, in->dtype, &keys, &values);
    CM_TRY(build_table(e, keys, &t));
    char *to = out->data;
    for (int64_t i = 0; i < given.n; i++, to += size) {
        const int64_t place = *find(&t, key_bytes(given, i, &room)) - 1;
        if (place < 0)
            put_default(e->op, e->attr, out->dtype, to);
        else if (values.data)
            memcpy(to, (const char *)values.data + (size_t)place * size, size);
        else
            memcpy(to, &place, sizeof place);
    }
    return CM_OK;
}

static cm_status eval_zip(cm_eval *e)
{
    const zip_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const int64_t rows = in->rank == 2 ? in->dims[0] : 1, n = in->dims[in->rank - 1];
    const bool text = a->classlabels_strings.n > 0;
    CM_TRY(cm_eval_sequence(e, 0, rows, e->out[0]->elem));
    for (int64_t r = 0; r < rows; r++) {
        cm_datum *map = &e->out[0]->items[r];
        map->kind = CM_MAP;
        map->n = 2;
        CM_NEW_N(e->cx, e->cx->scratch, map->items, 2, cm_datum);
        for (int k = 0; k < 2; k++) {
            map->items[k].kind = CM_TENSOR;
            CM_TRY(cm_eval_temp(e,
                                k      ? CM_F32
                                : text ? CM_STR
                                       : CM_I64,
                                1, &n, &map->items[k].tensor));
        }
        const void *labels =
            text ? (const void *)a->classlabels_strings.v : (const void *)a->classlabels_int64s.v;
        if (n) {
            memcpy(map->items[0].tensor.data, labels,
                   (size_t)n * (text ? sizeof(cm_str) : sizeof(int64_t)));
            memcpy(map->items[1].tensor.data, (const float *)in->data + r * n,
                   (size_t)n * sizeof(float));
        }
    }
    return CM_OK;
}

/* Element i of `v` as the output's element at `to`. */
static cm_status convert(cm_eval *e, const cm_tensor *v, int64_t i, cm_tensor *out, int64_t to)
{
    char text[64];
    if (out->dtype == CM_STR && v->dtype != CM_STR) {
        if (cm_dtype_is_float(v->dtype))
            snprintf(text, sizeof text, "%f", cm_get_f64(v->dtype, v->data, i));
        else
            snprintf(text, sizeof text, "%lld", (long long)cm_get_i64(v->dtype, v->data, i));
        char *kept = cm_arena_strdup(e->cx->scratch, text);
        if (!kept)
            return cm_fail_memory(e->cx);
        ((cm_str *)out->data)[to] = cm_str_of(kept);
    } else if (v->dtype == CM_STR) {
        const cm_str s = ((const cm_str *)v->data)[i];
        if (out->dtype == CM_STR) {
            ((cm_str *)out->data)[to] = s;
            return CM_OK;
        }
        const size_t n = s.n < sizeof text - 1 ? s.n : sizeof text - 1;
        if (n)
            memcpy(text, s.p, n);
        text[n] = '\0';
        if (out->dtype == CM_F32)
            ((float *)out->data)[to] = strtof(text, NULL);
        else
            ((int64_t *)out->data)[to] = strtoll(text, NULL, 10);
    } else if (cm_dtype_is_float(v->dtype)) {
        cm_set_f64(out->dtype, out->data, to, cm_get_f64(v->dtype, v->data, i));
    } else {
        const int64_t x = cm_get_i64(v->dtype, v->data, i);
        if (out->dtype == CM_F32)
            cm_set_f64(CM_F32, out->data, to, (double)x);
        else
            cm_set_i64(out->dtype, out->data, to, x);
    }
    return CM_OK;
}

typedef struct {
    int64_t key, place;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->place > y->place) - (x->place < y->place);
}

static cm_status eval_cast_map(cm_eval *e)
{
    const cast_map_attr *a = e->attr;
    const cm_tensor *keys = &e->in[0]->items[0].tensor, *values = &e->in[0]->items[1].tensor;
    const int64_t n = cm_tensor_elems(keys);
    const bool sparse = is_word(a->map_form, "SPARSE");
    keyed *order;
    CM_NEW_N(e->cx, e->cx->scratch, order, n + 1, keyed);
    for (int64_t i = 0; i < n; i++)
        order[i] = (keyed){((const int64_t *)keys->data)[i], i};
    qsort(order, (size_t)n, sizeof *order, by_key);
    if (!sparse)
        CM_TRY(cm_eval_alloc(e, 0, e->out[0]->tensor.dtype, 2, (int64_t[]){1, n}));
    cm_tensor *out = cm_eval_out(e, 0);
    if (sparse) {
        memset(out->data, 0, (size_t)a->max_map * cm_dtype_size(out->dtype));
        for (int64_t i = 0; out->dtype == CM_STR && i < a->max_map; i++)
            ((cm_str *)out->data)[i] = cm_str_of("0.f"); /* as ONNX Runtime has it */
    }
    for (int64_t i = 0; i < n; i++) {
        if (sparse && order[i].key < 0)
            return cm_fail(e->cx, CM_ERR_DATA, "key %lld is no place in a tensor",
                           (long long)order[i].key);
        if (!sparse || order[i].key < a->max_map)
            CM_TRY(convert(e, values, order[i].place, out, sparse ? order[i].key : i));
    }
    return CM_OK;
}

static cm_status eval_dict(cm_eval *e)
{
    const dict_attr *a = e->attr;
    const cm_tensor *values = &e->in[0]->items[1].tensor;
    cm_tensor *out = cm_eval_out(e, 0);
    const list given = list_of_tensor(&e->in[0]->items[0].tensor);
    const list words = a->string_vocabulary.n
                           ? (list){CM_STR, a->string_vocabulary.n, a->string_vocabulary.v}
                           : (list){CM_I64, a->int64_vocabulary.n, a->int64_vocabulary.v};
    table t;
    uint64_t room;
    CM_TRY(build_table(e, words, &t));
    memset(out->data, 0, (size_t)words.n * cm_dtype_size(out->dtype));
    for (int64_t i = 0; i < given.n; i++) { /* words that are not in the vocabulary are dropped */
        const int64_t place = *find(&t, key_bytes(given, i, &room)) - 1;
        if (place >= 0)
            CM_TRY(convert(e, values, i, out, place));
    }
    return CM_OK;
}

/* A map's keys and values must be tensors of one length, of the types that its type says. */
static cm_status check_map(cm_eval *e)
{
    const cm_datum *d = e->in[0];
    if (d->kind != CM_MAP || d->n != 2 || d->items[0].kind != CM_TENSOR ||
        d->items[1].kind != CM_TENSOR ||
        cm_tensor_elems(&d->items[0].tensor) != cm_tensor_elems(&d->items[1].tensor))
        return cm_fail(e->cx, CM_ERR_DATA, "the map's keys and values do not go together");
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    switch (e->op->id) {
    case CM_OP_ZIP_MAP:
        return eval_zip(e);
    case CM_OP_CAST_MAP:
        CM_TRY(check_map(e));
        return eval_cast_map(e);
    case CM_OP_DICT_VECTORIZER:
        CM_TRY(check_map(e));
        return eval_dict(e);
    default:
        return eval_mapping(e);
    }
}

const cm_family cm_family_ml_label = {.name = "ml_label", .infer = infer, .eval = eval};
