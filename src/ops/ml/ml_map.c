/* ml_map.c -- ai.onnx.ml: maps from and to tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ml/ml_keys.h"
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
    cm_ints int64_vocabulary;
    cm_strs string_vocabulary;
} dict_attr;
CM_ATTRS(dict_vectorizer, dict_attr, CM_ATTR_INTS(dict_attr, int64_vocabulary, 0),
         CM_ATTR_STRS(dict_attr, string_vocabulary, 0))

typedef struct {
    uint64_t present;
    cm_ints classlabels_int64s;
    cm_strs classlabels_strings;
} zip_attr;
CM_ATTRS(zip_map, zip_attr, CM_ATTR_INTS(zip_attr, classlabels_int64s, 0),
         CM_ATTR_STRS(zip_attr, classlabels_strings, 0))

/* ---- type rules ---- */

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
    default:
        return infer_dict(f);
    }
}

/* ---- evaluators ---- */

/* Keys in ascending order: a map has none, but two equal ones should look alike. */
static cm_status eval_zip(cm_eval *e)
{
    const zip_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const int64_t rows = in->rank == 2 ? in->dims[0] : 1, n = in->dims[in->rank - 1];
    const bool text = a->classlabels_strings.n > 0;
    const cm_keys labels = {text ? CM_STR : CM_I64, n,
                            text ? (const void *)a->classlabels_strings.v
                                 : (const void *)a->classlabels_int64s.v};
    int64_t *order;
    CM_TRY(cm_keys_sort(e, labels, &order));
    CM_TRY(cm_eval_sequence(e, 0, rows, e->out[0]->elem));
    for (int64_t r = 0; r < rows; r++) {
        cm_datum *map = &e->out[0]->items[r];
        map->kind = CM_MAP;
        map->n = 2;
        CM_NEW_N(e->cx, e->cx->scratch, map->items, 2, cm_datum);
        cm_tensor *keys = &map->items[0].tensor, *values = &map->items[1].tensor;
        map->items[0].kind = map->items[1].kind = CM_TENSOR;
        CM_TRY(cm_eval_temp(e, labels.dtype, 1, &n, keys));
        CM_TRY(cm_eval_temp(e, CM_F32, 1, &n, values));
        for (int64_t i = 0; i < n; i++) {
            if (text)
                ((cm_str *)keys->data)[i] = a->classlabels_strings.v[order[i]];
            else
                ((int64_t *)keys->data)[i] = a->classlabels_int64s.v[order[i]];
            ((float *)values->data)[i] = ((const float *)in->data)[r * n + order[i]];
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

static cm_status eval_cast_map(cm_eval *e)
{
    const cast_map_attr *a = e->attr;
    const cm_tensor *keys = &e->in[0]->items[0].tensor, *values = &e->in[0]->items[1].tensor;
    const int64_t n = cm_tensor_elems(keys);
    const bool sparse = is_word(a->map_form, "SPARSE");
    int64_t *order;
    CM_TRY(cm_keys_sort(e, cm_keys_of_tensor(keys), &order));
    if (!sparse)
        CM_TRY(cm_eval_alloc(e, 0, e->out[0]->tensor.dtype, 2, (int64_t[]){1, n}));
    cm_tensor *out = cm_eval_out(e, 0);
    if (sparse) {
        memset(out->data, 0, (size_t)a->max_map * cm_dtype_size(out->dtype));
        for (int64_t i = 0; out->dtype == CM_STR && i < a->max_map; i++)
            ((cm_str *)out->data)[i] = cm_str_of("0.f"); /* as ONNX Runtime has it */
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = ((const int64_t *)keys->data)[order[i]];
        if (sparse && key < 0)
            return cm_fail(e->cx, CM_ERR_DATA, "key %lld is no place in a tensor", (long long)key);
        if (!sparse || key < a->max_map)
            CM_TRY(convert(e, values, order[i], out, sparse ? key : i));
    }
    return CM_OK;
}

static cm_status eval_dict(cm_eval *e)
{
    const dict_attr *a = e->attr;
    const cm_tensor *values = &e->in[0]->items[1].tensor;
    cm_tensor *out = cm_eval_out(e, 0);
    const cm_keys given = cm_keys_of_tensor(&e->in[0]->items[0].tensor);
    const cm_keys words = a->string_vocabulary.n
                              ? (cm_keys){CM_STR, a->string_vocabulary.n, a->string_vocabulary.v}
                              : (cm_keys){CM_I64, a->int64_vocabulary.n, a->int64_vocabulary.v};
    cm_key_table t;
    CM_TRY(cm_key_table_build(e, words, &t));
    memset(out->data, 0, (size_t)words.n * cm_dtype_size(out->dtype));
    for (int64_t i = 0; i < given.n; i++) { /* words that are not in the vocabulary are dropped */
        const int64_t place = cm_key_table_find(&t, given, i);
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
    if (e->op->id == CM_OP_ZIP_MAP)
        return eval_zip(e);
    CM_TRY(check_map(e));
    return e->op->id == CM_OP_CAST_MAP ? eval_cast_map(e) : eval_dict(e);
}

const cm_family cm_family_ml_map = {.name = "ml_map", .infer = infer, .eval = eval};
