/* parse_tensor.c -- types and constants of the text form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/parse.h"

#include "base/size.h"
#include "ir/text.h"

enum { MAX_CONSTANT_BYTES = 1 << 28 };

/* One dim: up to a comma or bracket outside parentheses. */
static cm_status read_dim(cm_parser *s, cm_dim_table *dims, cm_dim *out)
{
    cm_parse_skip(s, false);
    const char *from = s->p;
    int depth = 0;
    for (; s->p < s->end && *s->p != '\n'; s->p++) {
        depth += (*s->p == '(') - (*s->p == ')');
        if (depth == 0 && (*s->p == ',' || *s->p == ']'))
            break;
    }
    cm_status st = cm_dim_parse(s->cx, dims, from, (size_t)(s->p - from), out);
    return st == CM_OK ? st : cm_while(s->cx, st, "line %d", s->line);
}

static cm_status read_elem(cm_parser *s, cm_dim_table *dims, int depth, cm_kind kind, cm_type *out)
{
    cm_type *elem;
    CM_NEW(s->cx, s->arena, elem, cm_type);
    CM_TRY(cm_parse_expect(s, '('));
    if (cm_parse_peek(s) == '?') {
        s->p++;
        elem = NULL;
    } else {
        CM_TRY(cm_parse_type(s, dims, depth + 1, elem));
    }
    *out = (cm_type){.kind = kind, .elem = elem};
    return cm_parse_expect(s, ')');
}

cm_status cm_parse_dtype(cm_parser *s, cm_dtype *out)
{
    char buf[32];
    cm_parse_skip(s, false);
    size_t k = 0;
    while (s->p < s->end && cm_text_is_name_char(*s->p) && k + 1 < sizeof buf)
        buf[k++] = *s->p++;
    buf[k] = 0;
    return cm_dtype_parse(buf, out) ? CM_OK : CM_PARSE_FAIL(s, "'%s' is not an element type", buf);
}

cm_status cm_parse_type(cm_parser *s, cm_dim_table *dims, int depth, cm_type *out)
{
    if (depth > 8)
        return CM_PARSE_FAIL(s, "types are nested too deeply");
    if (cm_parse_eat_word(s, "seq"))
        return read_elem(s, dims, depth, CM_SEQUENCE, out);
    if (cm_parse_eat_word(s, "opt"))
        return read_elem(s, dims, depth, CM_OPTIONAL, out);
    *out = (cm_type){.kind = CM_TENSOR};
    if (cm_parse_eat_word(s, "map")) {
        out->kind = CM_MAP;
        CM_TRY(cm_parse_expect(s, '('));
        CM_TRY(cm_parse_dtype(s, &out->key));
        CM_TRY(cm_parse_expect(s, ','));
        CM_TRY(cm_parse_dtype(s, &out->dtype));
        return cm_parse_expect(s, ')');
    }
    CM_TRY(cm_parse_dtype(s, &out->dtype));
    CM_TRY(cm_parse_expect(s, '['));
    if (cm_parse_eat(s, '*')) {
        out->rank = -1;
        return cm_parse_expect(s, ']');
    }
    while (cm_parse_peek(s) != ']') {
        if (out->rank == CM_MAX_RANK)
            return CM_PARSE_FAIL(s, "a type has more than %d dims", CM_MAX_RANK);
        if (out->rank)
            CM_TRY(cm_parse_expect(s, ','));
        CM_TRY(read_dim(s, dims, &out->dims[out->rank]));
        out->rank++;
    }
    return cm_parse_expect(s, ']');
}

static cm_status read_element(cm_parser *s, cm_dtype t, void *data, int64_t i)
{
    cm_dtype_kind kind = cm_dtype_get(t)->kind;
    if (kind == CM_KIND_STRING) {
        cm_parse_skip(s, true);
        return cm_parse_quoted(s, &((cm_str *)data)[i]);
    }
    if (kind == CM_KIND_COMPLEX) {
        cm_dtype part = t == CM_C64 ? CM_F32 : CM_F64;
        CM_TRY(read_element(s, part, data, 2 * i));
        return read_element(s, part, data, 2 * i + 1);
    }
    if (kind == CM_KIND_FLOAT) {
        double v;
        CM_TRY(cm_parse_real(s, &v));
        cm_set_f64(t, data, i, v);
    } else {
        int64_t v;
        CM_TRY(cm_parse_int(s, &v));
        cm_set_i64(t, data, i, v);
    }
    return CM_OK;
}

/* Reproducible values between -1 and 1 (integers: 0 to 7), for tests. */
static void fill_random(cm_tensor *t, void *data, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (cm_dtype_get(t->dtype)->kind == CM_KIND_FLOAT)
            cm_set_f64(t->dtype, data, i, (double)(int64_t)(x >> 11) / (double)(1LL << 52) - 1.0);
        else
            cm_set_i64(t->dtype, data, i, (int64_t)(x >> 61));
    }
}

static cm_status read_data(cm_parser *s, cm_tensor *t, void *data)
{
    int64_t n = cm_tensor_elems(t);
    if (cm_parse_eat_word(s, "fill")) {
        for (int64_t i = 0; i < n; i++) {
            const char *from = s->p;
            CM_TRY(read_element(s, t->dtype, data, i));
            if (i + 1 < n)
                s->p = from;
        }
        return CM_OK;
    }
    if (cm_parse_eat_word(s, "random") && t->dtype != CM_STR &&
        cm_dtype_get(t->dtype)->kind != CM_KIND_COMPLEX) {
        int64_t seed;
        CM_TRY(cm_parse_int(s, &seed));
        fill_random(t, data, (uint64_t)seed);
        return CM_OK;
    }
    CM_TRY(cm_parse_expect(s, '{'));
    for (int64_t i = 0; i < n; i++) {
        if (i)
            CM_TRY(cm_parse_expect(s, ','));
        CM_TRY(read_element(s, t->dtype, data, i));
    }
    return cm_parse_expect(s, '}');
}

cm_status cm_parse_tensor(cm_parser *s, cm_dim_table *dims, const cm_tensor **out)
{
    cm_type type;
    cm_tensor *t;
    CM_TRY(cm_parse_type(s, dims, 0, &type));
    CM_NEW(s->cx, s->arena, t, cm_tensor);
    size_t bytes;
    if (type.kind != CM_TENSOR || type.rank < 0 ||
        !cm_tensor_shape(t, type.dtype, type.rank, type.dims) ||
        !cm_mul((size_t)cm_tensor_elems(t), cm_dtype_size(type.dtype), &bytes) ||
        bytes > MAX_CONSTANT_BYTES)
        return CM_PARSE_FAIL(s,
                             "a constant needs a tensor type with numbers for dims, not too large");
    void *data = cm_arena_alloc_n(s->arena, bytes, 1, 64, 1);
    if (!data)
        return cm_fail_memory(s->cx);
    CM_TRY(read_data(s, t, data));
    t->data = data;
    t->capacity_bytes = bytes;
    if (cm_dtype_is_sub_byte(t->dtype)) {
        int64_t n = cm_tensor_elems(t);
        t->packed = true;
        if (!cm_tensor_bytes(t, &t->capacity_bytes))
            return cm_fail_memory(s->cx);
        t->data = cm_arena_alloc_n(s->arena, t->capacity_bytes, 1, 64, 1);
        if (!t->data)
            return cm_fail_memory(s->cx);
        cm_pack_sub_byte(t->dtype, data, n, t->data);
    }
    *out = t;
    return CM_OK;
}
