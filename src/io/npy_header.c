/* npy_header.c -- parse the head of an npy file: magic, version, and a Python dict of three keys.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     \x93NUMPY 1 0 <u16 length> {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n */
#include "io/npy_header.h"

#include <string.h>

#include "base/size.h"

/* What is left of the dict's text. */
typedef struct {
    cm_ctx *cx;
    const char *p, *end;
} text;

static cm_status malformed(text *t, const char *what)
{
    return cm_fail(t->cx, CM_ERR_DATA, "npy header: %s", what);
}

static void skip_space(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' || *t->p == '\r'))
        t->p++;
}

static bool accept(text *t, char c)
{
    skip_space(t);
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

static bool accept_word(text *t, const char *word)
{
    skip_space(t);
    size_t n = strlen(word);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0)
        return false;
    t->p += n;
    return true;
}

static bool quoted(text *t, char *buf, size_t n_buf)
{
    skip_space(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;
    char quote = *t->p++;
    size_t n = 0;
    while (t->p < t->end && *t->p != quote) {
        if (n + 1 >= n_buf || *t->p == '\\')
            return false;
        buf[n++] = *t->p++;
    }
    if (t->p == t->end)
        return false;
    t->p++;
    buf[n] = '\0';
    return true;
}

static bool number(text *t, int64_t *out)
{
    skip_space(t);
    if (t->p == t->end || *t->p < '0' || *t->p > '9')
        return false;
    int64_t v = 0;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
        if (!cm_mul_i64(v, 10, &v) || !cm_add_i64(v, *t->p - '0', &v))
            return false;
    if (t->p < t->end && *t->p == 'L') /* Python 2 */
        t->p++;
    *out = v;
    return true;
}

static cm_status parse_shape(text *t, cm_npy_header *h)
{
    if (!accept(t, '('))
        return malformed(t, "'shape' is not a tuple");
    h->rank = 0;
    while (!accept(t, ')')) {
        if (h->rank == CM_MAX_RANK)
            return cm_fail(t->cx, CM_ERR_UNSUPPORTED, "npy header: more than %d dims", CM_MAX_RANK);
        if (!number(t, &h->dims[h->rank]))
            return malformed(t, "'shape' holds something that is not a size");
        h->rank++;
        if (!accept(t, ',')) {
            if (!accept(t, ')'))
                return malformed(t, "'shape' does not end");
            break;
        }
    }
    return CM_OK;
}

/* Names that ml_dtypes gives its types. */
static const struct {
    const char *name;
    cm_dtype dtype;
} named[] = {
    {"bfloat16", CM_BF16},
    {"float8_e4m3fn", CM_F8E4M3FN},
    {"float8_e4m3fnuz", CM_F8E4M3FNUZ},
    {"float8_e5m2", CM_F8E5M2},
    {"float8_e5m2fnuz", CM_F8E5M2FNUZ},
    {"float8_e8m0fnu", CM_F8E8M0},
    {"int4", CM_I4},
    {"uint4", CM_U4},
    {"int2", CM_I2},
    {"uint2", CM_U2},
    {"float4_e2m1fn", CM_F4E2M1},
    {"float6_e2m3fn", CM_F6E2M3},
    {"float6_e3m2fn", CM_F6E3M2},
};

static cm_dtype dtype_of(char kind, int64_t size)
{
    switch (kind) {
    case 'f':
        return size == 1   ? CM_F8E5M2
               : size == 2 ? CM_F16
               : size == 4 ? CM_F32
               : size == 8 ? CM_F64
                           : CM_NO_DTYPE;
    case 'i':
        return size == 1   ? CM_I8
               : size == 2 ? CM_I16
               : size == 4 ? CM_I32
               : size == 8 ? CM_I64
                           : CM_NO_DTYPE;
    case 'u':
        return size == 1   ? CM_U8
               : size == 2 ? CM_U16
               : size == 4 ? CM_U32
               : size == 8 ? CM_U64
                           : CM_NO_DTYPE;
    case 'c':
        return size == 8 ? CM_C64 : size == 16 ? CM_C128 : CM_NO_DTYPE;
    case 'b':
        return size == 1 ? CM_BOOL : CM_NO_DTYPE;
    case 'V':
        return size == 1 ? CM_U8 : size == 2 ? CM_BF16 : CM_NO_DTYPE;
    case 'S':
    case 'a':
    case 'U':
        return CM_STR;
    default:
        return CM_NO_DTYPE;
    }
}

static cm_status parse_descr(text *t, const char *descr, cm_npy_header *h)
{
    for (int i = 0; i < CM_COUNT(named); i++)
        if (strcmp(descr, named[i].name) == 0) {
            h->dtype = named[i].dtype;
            h->kind = 'V';
            h->item_bytes = h->dtype == CM_BF16 ? 2 : 1;
            return CM_OK;
        }
    const char *p = descr;
    h->swap = *p == '>';
    if (*p == '<' || *p == '>' || *p == '|' || *p == '=')
        p++;
    h->kind = *p == 'a' ? 'S' : *p;
    text size = {t->cx, *p ? p + 1 : p, p + strlen(p)};
    int64_t bytes = 0;
    if (h->kind == 'O')
        return cm_fail(t->cx, CM_ERR_UNSUPPORTED,
                       "npy: holds pickled Python objects; save strings as dtype 'U' or 'S'");
    if (!number(&size, &bytes) || size.p != size.end)
        return cm_fail(t->cx, CM_ERR_UNSUPPORTED, "npy: element type '%s' is not known", descr);
    h->dtype = dtype_of(*p, bytes);
    if (h->dtype == CM_NO_DTYPE)
        return cm_fail(t->cx, CM_ERR_UNSUPPORTED, "npy: element type '%s' has no equal", descr);
    if (h->kind == 'U' && !cm_mul_i64(bytes, 4, &bytes))
        return malformed(t, "the string length is out of range");
    h->item_bytes = (size_t)bytes;
    return CM_OK;
}

/* 'descr' is a string, or a list of fields: one nameless field is that type. */
static cm_status read_descr(text *t, cm_npy_header *h)
{
    char name[64], descr[64];
    if (!accept(t, '[')) {
        if (!quoted(t, descr, sizeof descr))
            return malformed(t, "'descr' is not a string");
        return parse_descr(t, descr, h);
    }
    if (!accept(t, '(') || !quoted(t, name, sizeof name) || !accept(t, ',') ||
        !quoted(t, descr, sizeof descr) || !accept(t, ')') || (accept(t, ','), !accept(t, ']')) ||
        name[0])
        return cm_fail(t->cx, CM_ERR_UNSUPPORTED, "npy: structured element types are not tensors");
    return parse_descr(t, descr, h);
}

static cm_status parse_dict(text *t, cm_npy_header *h)
{
    bool descr = false, order = false, shape = false;
    if (!accept(t, '{'))
        return malformed(t, "not a Python dict");
    while (!accept(t, '}')) {
        char key[32];
        if (!quoted(t, key, sizeof key) || !accept(t, ':'))
            return malformed(t, "not a Python dict");
        if (strcmp(key, "descr") == 0 && !descr) {
            CM_TRY(read_descr(t, h));
            descr = true;
        } else if (strcmp(key, "fortran_order") == 0 && !order) {
            h->fortran = accept_word(t, "True");
            if (!h->fortran && !accept_word(t, "False"))
                return malformed(t, "'fortran_order' is neither True nor False");
            order = true;
        } else if (strcmp(key, "shape") == 0 && !shape) {
            CM_TRY(parse_shape(t, h));
            shape = true;
        } else {
            return malformed(t, "an unknown or repeated key");
        }
        if (!accept(t, ',')) {
            if (!accept(t, '}'))
                return malformed(t, "not a Python dict");
            break;
        }
    }
    if (!descr || !order || !shape)
        return malformed(t, "'descr', 'fortran_order' or 'shape' is missing");
    return CM_OK;
}

cm_status cm_npy_header_read(cm_ctx *cx, const void *bytes, size_t n, cm_npy_header *out)
{
    const unsigned char *b = bytes;
    cm_npy_header h = {0};
    if (n < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
        return cm_fail(cx, CM_ERR_DATA, "not an npy file: it does not begin with \\x93NUMPY");
    if (b[6] < 1 || b[6] > 3)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "npy version %d.%d, wanted 1 to 3", b[6], b[7]);
    size_t at = b[6] == 1 ? 10 : 12, length = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1) {
        if (n < 12)
            return cm_fail(cx, CM_ERR_DATA, "npy file ends in its header");
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    if (length > CM_NPY_HEADER_MAX - 12)
        return cm_fail(cx, CM_ERR_DATA, "npy header of %zu bytes, wanted at most %d", length,
                       CM_NPY_HEADER_MAX - 12);
    if (length > n - at)
        return cm_fail(cx, CM_ERR_DATA, "npy file ends in its header");
    text t = {cx, (const char *)b + at, (const char *)b + at + length};
    CM_TRY(parse_dict(&t, &h));
    h.header_bytes = at + length;

    h.elems = 1;
    bool fits = true, empty = false;
    for (int i = 0; i < h.rank; i++)
        empty |= h.dims[i] == 0;
    for (int i = 0; i < h.rank && !empty; i++)
        fits = fits && cm_mul_i64(h.elems, h.dims[i], &h.elems);
    if (empty)
        h.elems = 0;
    if (!fits || !cm_mul((size_t)h.elems, h.item_bytes, &h.data_bytes))
        return cm_fail(cx, CM_ERR_DATA, "npy header: the shape is too large");
    *out = h;
    return CM_OK;
}
