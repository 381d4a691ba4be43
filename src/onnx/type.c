/* type.c -- TypeProto to type: named dims become symbols, dims without a size fresh ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "onnx/import.h"

static cm_status read_dtype(cm_ctx *cx, int32_t elem_type, cm_dtype *out)
{
    if (elem_type <= 0 || elem_type >= CM_DTYPE_COUNT)
        return cm_fail(cx, CM_ERR_MODEL, "element type %d is %s", elem_type,
                       elem_type == 0 ? "undefined" : "unknown");
    *out = (cm_dtype)elem_type;
    return CM_OK;
}

/* A name that the text form of dims can hold: letters, digits, underscores. */
static const char *symbol_name(cm_importer *im, const char *name)
{
    char *s = cm_arena_printf(im->tmp, "%s%s",
                              isalpha((unsigned char)*name) || *name == '_' ? "" : "_", name);
    for (char *c = s; c && *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return s;
}

/* Exporters write "past_len + seq_len": an expression, when it reads as one. */
static bool looks_like_expression(const char *name)
{
    return strpbrk(name, "+*") || strstr(name, " - ") || strstr(name, "//");
}

/* The expression with the numbers that the caller gave for its symbols; CM_DIM_ERROR: it is none. */
static cm_dim parse_expression(cm_importer *im, cm_dim_table *dims, const char *name)
{
    cm_dim d;
    if (cm_dim_parse(im->cx, dims, name, strlen(name), &d) != CM_OK) {
        im->cx->message[0] = 0;
        return CM_DIM_ERROR;
    }
    int n = cm_dim_symbol_count(dims);
    cm_dim *to = cm_new_n(im->tmp, n, cm_dim);
    if (!to)
        return CM_DIM_ERROR;
    for (int s = 0; s < n; s++) {
        const cm_dim *given = cm_map_get(&im->dims, cm_dim_symbol_name(dims, s));
        to[s] = given && *given >= 0 ? *given : CM_DIM_UNBOUND;
    }
    return cm_dim_substitute(dims, d, to, n);
}

static cm_status named_dim(cm_importer *im, cm_dim_table *dims, const char *name, cm_dim *out)
{
    cm_dim *known = cm_map_get(&im->dims, name);
    if (!known) {
        const char *symbol = symbol_name(im, name);
        CM_NEW(im->cx, im->tmp, known, cm_dim);
        if (!symbol)
            return cm_fail_memory(im->cx);
        *known = looks_like_expression(name) ? parse_expression(im, dims, name) : CM_DIM_ERROR;
        if (*known == CM_DIM_ERROR)
            *known = strcmp(symbol, name) == 0 ? cm_dim_symbol(dims, name, CM_DIM_SIZE)
                                               : cm_dim_fresh(dims, symbol, CM_DIM_SIZE);
        if (*known == CM_DIM_ERROR || !cm_map_put(&im->dims, name, known))
            return cm_fail_memory(im->cx);
    }
    *out = *known;
    return CM_OK;
}

static cm_status read_dim(cm_importer *im, cm_dim_table *dims, const pb_dim *p, const char *hint,
                          size_t axis, cm_dim *out)
{
    if (p->has_value && p->dim_value > 0) {
        *out = p->dim_value;
        return CM_OK;
    }
    const char *name = cm_onnx_name(im, p->dim_param);
    if (name && *name)
        return named_dim(im, dims, name, out);
    name = cm_arena_printf(im->tmp, "%s_%zu", hint, axis);
    name = name ? symbol_name(im, name) : NULL;
    *out = name ? cm_dim_fresh(dims, name, CM_DIM_SIZE) : CM_DIM_ERROR;
    return *out == CM_DIM_ERROR ? cm_fail_memory(im->cx) : CM_OK;
}

static cm_status read_tensor(cm_importer *im, cm_dim_table *dims, const pb_tensor_type *p,
                             const char *hint, cm_type *out)
{
    *out = (cm_type){.kind = CM_TENSOR, .rank = -1};
    CM_TRY(read_dtype(im->cx, p->elem_type, &out->dtype));
    if (!p->shape)
        return CM_OK;
    if (p->shape->dim.n > CM_MAX_RANK)
        return cm_fail(im->cx, CM_ERR_MODEL, "rank %zu is over %d", p->shape->dim.n, CM_MAX_RANK);
    out->rank = (int)p->shape->dim.n;
    for (int i = 0; i < out->rank; i++)
        CM_TRY(read_dim(im, dims, &p->shape->dim.v[i], hint, (size_t)i, &out->dims[i]));
    return CM_OK;
}

static cm_status read_elem(cm_importer *im, cm_dim_table *dims, const pb_elem_type *p, cm_kind kind,
                           const char *hint, cm_type *out)
{
    cm_type *elem = NULL;
    if (p->elem_type) {
        CM_NEW(im->cx, im->arena, elem, cm_type);
        CM_TRY(cm_onnx_type(im, dims, p->elem_type, hint, elem));
    }
    *out = (cm_type){.kind = kind, .elem = elem};
    return CM_OK;
}

static cm_status read_map(cm_importer *im, cm_dim_table *dims, const pb_map_type *p,
                          const char *hint, cm_type *out)
{
    cm_type value;
    *out = (cm_type){.kind = CM_MAP};
    CM_TRY(read_dtype(im->cx, p->key_type, &out->key));
    if (!p->value_type)
        return cm_fail(im->cx, CM_ERR_MODEL, "a map without a value type");
    CM_TRY(cm_onnx_type(im, dims, p->value_type, hint, &value));
    if (value.kind != CM_TENSOR)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "a map to something other than tensors");
    out->dtype = value.dtype;
    return CM_OK;
}

cm_status cm_onnx_type(cm_importer *im, cm_dim_table *dims, const pb_type *p, const char *hint,
                       cm_type *out)
{
    if (p->tensor_type)
        return read_tensor(im, dims, p->tensor_type, hint, out);
    if (p->sequence_type)
        return read_elem(im, dims, p->sequence_type, CM_SEQUENCE, hint, out);
    if (p->optional_type)
        return read_elem(im, dims, p->optional_type, CM_OPTIONAL, hint, out);
    if (p->map_type)
        return read_map(im, dims, p->map_type, hint, out);
    if (p->sparse_tensor_type || p->opaque_type)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "%s types are not supported",
                       p->opaque_type ? "opaque" : "sparse tensor");
    return cm_fail(im->cx, CM_ERR_MODEL, "the type is missing");
}
