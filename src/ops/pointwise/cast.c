/* cast.c -- elements of one type as another: Cast, CastLike, and BitCast.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Integers keep their low bits; floats to integers are cut toward zero and, out of range, give what
 * x86-64's conversions give; floats to floats round to nearest even. */
#include <math.h>
#include <string.h>

#include "ops/pointwise/cast_string.h"
#include "ops/elementwise.h"

typedef struct {
    uint64_t present;
    int64_t to;
    int64_t saturate;
    cm_str round_mode;
} cast_attr;
typedef struct {
    uint64_t present;
    int64_t saturate;
    cm_str round_mode;
} cast_like_attr;
typedef struct {
    uint64_t present;
    int64_t to;
} bit_cast_attr;

CM_ATTRS(cast, cast_attr, CM_ATTR_INT_REQUIRED(cast_attr, to), CM_ATTR_INT(cast_attr, saturate, 1),
         CM_ATTR_STR(cast_attr, round_mode, "up"))
CM_ATTRS(cast_like, cast_like_attr, CM_ATTR_INT(cast_like_attr, saturate, 1),
         CM_ATTR_STR(cast_like_attr, round_mode, "up"))
CM_ATTRS(bit_cast, bit_cast_attr, CM_ATTR_INT_REQUIRED(bit_cast_attr, to))

/* How f8e8m0, which holds powers of two alone, rounds. */
typedef enum { ROUND_UP, ROUND_DOWN, ROUND_NEAREST } round_mode;

static bool round_mode_of(cm_str s, round_mode *out)
{
    static const char *const names[] = {"up", "down", "nearest"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(s, cm_str_of(names[i]))) {
            *out = (round_mode)i;
            return true;
        }
    return false;
}

typedef struct {
    const cm_tensor *in;
    cm_tensor *out;
    bool saturate;
    round_mode mode;
} job;

/* Code c stands for 2^(c - 127); 255 is NaN. */
static uint8_t to_e8m0(double x, bool saturate, round_mode mode)
{
    enum { NOT_A_NUMBER = 255, LARGEST = 254 };
    int e;
    if (!(x >= 0))
        return NOT_A_NUMBER;
    if (x < 0x1p-127)
        return saturate ? 0 : NOT_A_NUMBER;
    if (x == INFINITY)
        return saturate ? LARGEST : NOT_A_NUMBER;
    double m = frexp(x, &e); /* x = m 2^e, m in [1/2, 1) */
    if (mode == ROUND_DOWN || m == 0.5 || (mode == ROUND_NEAREST && m < 0.75))
        e--;
    if (e > 127)
        return saturate ? LARGEST : NOT_A_NUMBER;
    return (uint8_t)(e + 127);
}

/* CVTTSD2SI: cut toward zero; what does not fit is the most negative number. */
static int64_t cut_to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static int64_t cut_to_i32(double x)
{
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int64_t)x : INT32_MIN;
}

static int64_t float_to_int(cm_dtype t, double x)
{
    switch (t) {
    case CM_I64:
    case CM_U32:
        return cut_to_i64(x);
    case CM_U64:
        if (x < 0x1p63)
            return cut_to_i64(x);
        return (int64_t)((uint64_t)cut_to_i64(x - 0x1p63) ^ (uint64_t)1 << 63);
    default:
        return cut_to_i32(x);
    }
}

/* An unsigned number as a double that rounds on to narrower types as the number itself would. */
static double u64_sticky(uint64_t u)
{
    if (u >> 53)
        u = (u & ~(uint64_t)0x7ff) | (u & 0x7ff ? 0x800 : 0);
    return (double)u;
}

static bool is_f8(cm_dtype t)
{
    return t == CM_F8E4M3FN || t == CM_F8E4M3FNUZ || t == CM_F8E5M2 || t == CM_F8E5M2FNUZ;
}

/* Doubles to any type but strings. */
static void store(const job *j, const double *v, int64_t n, void *dst)
{
    cm_dtype t = j->out->dtype;
    if (t == CM_F8E8M0) {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] = to_e8m0(v[i], j->saturate, j->mode);
    } else if (is_f8(t)) {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] = cm_f64_to_f8(t, v[i], j->saturate);
    } else if (cm_dtype_is_integer(t) && !cm_dtype_is_sub_byte(t)) {
        int64_t r[CM_BLOCK];
        for (int64_t i = 0; i < n; i++)
            r[i] = float_to_int(t, v[i]);
        cm_store_i64(t, r, n, dst);
    } else {
        cm_store_f64(t, v, n, dst);
    }
}

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_dtype from = j->in->dtype, to = j->out->dtype;
    const unsigned char *src = j->in->data;
    unsigned char *dst = j->out->data;
    bool to_float = cm_dtype_is_float(to);
    cm_block b;
    src += (size_t)at * cm_dtype_size(from);
    dst += (size_t)at * cm_dtype_size(to);
    if (cm_dtype_is_float(from) || is_f8(to) || to == CM_F8E8M0) {
        cm_load_f64(from, src, n, b.f);
        store(j, b.f, n, dst);
    } else if (from == CM_U64 && to_float && to != CM_F64) {
        for (int64_t i = 0; i < n; i++)
            b.f[i] = u64_sticky(((const uint64_t *)src)[i]);
        cm_store_f64(to, b.f, n, dst);
    } else if (to == CM_F64) {
        cm_load_f64(from, src, n, b.f);
        cm_store_f64(to, b.f, n, dst);
    } else {
        cm_load_i64(from, src, n, b.i);
        cm_store_i64(to, b.i, n, dst);
    }
}

static bool is_complex(cm_dtype t)
{
    return cm_dtype_get(t)->kind == CM_KIND_COMPLEX;
}

/* To and from complex numbers: the real part, and an imaginary part of 0 where there is none. */
static void cast_complex(const job *j)
{
    cm_dtype from = j->in->dtype, to = j->out->dtype;
    cm_dtype part = from == CM_C64 ? CM_F32 : CM_F64, to_part = to == CM_C64 ? CM_F32 : CM_F64;
    int64_t n = cm_tensor_elems(j->out);
    for (int64_t i = 0; i < n; i++) {
        double re, im = 0;
        if (is_complex(from)) {
            re = cm_get_f64(part, j->in->data, 2 * i);
            im = cm_get_f64(part, j->in->data, 2 * i + 1);
        } else {
            re = cm_get_f64(from, j->in->data, i);
        }
        if (is_complex(to)) {
            cm_set_f64(to_part, j->out->data, 2 * i, re);
            cm_set_f64(to_part, j->out->data, 2 * i + 1, im);
        } else {
            store(j, &re, 1, (unsigned char *)j->out->data + (size_t)i * cm_dtype_size(to));
        }
    }
}

static cm_status print_all(cm_eval *e, const job *j)
{
    cm_str *dst = j->out->data;
    int64_t n = cm_tensor_elems(j->out);
    char text[CM_TEXT_MAX];
    for (int64_t i = 0; i < n; i++) {
        int length = cm_text_print(j->in->dtype, j->in->data, i, text, sizeof text);
        dst[i] = (cm_str){cm_arena_strndup(e->cx->scratch, text, (size_t)length), (size_t)length};
        if (!dst[i].p) {
            dst[i].n = 0;
            return cm_fail_memory(e->cx);
        }
    }
    return CM_OK;
}

static cm_status parse_all(cm_eval *e, const job *j)
{
    const cm_str *src = j->in->data;
    cm_dtype to = j->out->dtype;
    int64_t n = cm_tensor_elems(j->out);
    for (int64_t i = 0; i < n; i++) {
        char text[256];
        cm_number v;
        size_t length = src[i].n < sizeof text ? src[i].n : sizeof text - 1;
        if (length)
            memcpy(text, src[i].p, length);
        text[length] = 0;
        if (!cm_text_parse(to, text, &v))
            return cm_fail(e->cx, CM_ERR_DATA, "\"%s\" (element %lld) is not a number", text,
                           (long long)i);
        unsigned char *dst = (unsigned char *)j->out->data + (size_t)i * cm_dtype_size(to);
        if (v.is_int)
            cm_store_i64(to, &v.i, 1, dst);
        else
            store(j, &v.f, 1, dst);
    }
    return CM_OK;
}

static cm_status cast_text(cm_eval *e, const job *j)
{
    cm_text t;
    if (is_complex(j->in->dtype) || is_complex(j->out->dtype))
        return cm_fail(e->cx, CM_ERR_UNSUPPORTED, "casting between complex numbers and strings");
    if (!cm_text_begin(&t))
        return cm_fail_memory(e->cx);
    cm_status st = j->in->dtype == CM_STR ? parse_all(e, j) : print_all(e, j);
    cm_text_end(&t);
    return st;
}

static cm_status bit_cast(cm_eval *e, const job *j)
{
    cm_dtype from = j->in->dtype, to = j->out->dtype;
    int64_t n = cm_tensor_elems(j->out);
    size_t bytes = (size_t)n * cm_dtype_size(from);
    if (n == 0)
        return CM_OK;
    if (cm_dtype_is_sub_byte(from) && from != to) {
        void *packed;
        CM_TRY(cm_eval_scratch(e, bytes, 1, &packed));
        cm_pack_sub_byte(from, j->in->data, n, packed);
        cm_unpack_sub_byte(to, packed, n, j->out->data);
        return CM_OK;
    }
    memcpy(j->out->data, j->in->data, bytes);
    for (int64_t i = 0; to == CM_BOOL && i < n; i++) /* a bool is 0 or 1 everywhere else */
        ((unsigned char *)j->out->data)[i] = ((unsigned char *)j->out->data)[i] != 0;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    job j = {.in = cm_eval_in(e, 0), .out = cm_eval_out(e, 0)};
    int64_t n = cm_tensor_elems(j.out);
    cm_str mode = {0};
    if (e->op->id == CM_OP_BIT_CAST)
        return bit_cast(e, &j);
    if (e->op->id == CM_OP_CAST) {
        const cast_attr *a = e->attr;
        j.saturate = a->saturate != 0;
        mode = a->round_mode;
    } else {
        const cast_like_attr *a = e->attr;
        j.saturate = a->saturate != 0;
        mode = a->round_mode;
    }
    if (!round_mode_of(mode, &j.mode))
        return cm_fail(e->cx, CM_ERR_INTERNAL, "round_mode was not checked");
    if (j.in->dtype == j.out->dtype) {
        if (n)
            memcpy(j.out->data, j.in->data, (size_t)n * cm_dtype_size(j.in->dtype));
        return CM_OK;
    }
    if (j.in->dtype == CM_STR || j.out->dtype == CM_STR)
        return cast_text(e, &j);
    if (is_complex(j.in->dtype) || is_complex(j.out->dtype)) {
        cast_complex(&j);
        return CM_OK;
    }
    return cm_eval_blocks(e, n, compute, &j);
}

/* Integer elements survive a cast that has room for them. */
static void track(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS];
    int64_t number;
    int n;
    cm_dtype from = f->in[0].type->dtype, to = f->out[0].type.dtype;
    bool from_ok = from == CM_I64 || from == CM_I32 || from == CM_BOOL;
    if (!from_ok || !cm_infer_elems_together(f, 1, v, &n))
        return;
    for (int i = 0; i < n; i++) {
        if (to == CM_BOOL && cm_infer_const(f, v[i], &number))
            v[i] = number != 0;
        else if (to == CM_BOOL)
            v[i] = cm_dim_is_positive(f->dims, v[i]) ? 1 : CM_DIM_ERROR;
        if (!cm_infer_elem_fits(f, to, v[i]))
            return;
    }
    cm_infer_set_elems(f, 0, v, n);
}

static cm_status check_target(cm_infer *f, int64_t to)
{
    if (to < 0 || to >= CM_DTYPE_COUNT || !cm_dtype_valid((int)to))
        return cm_fail(f->cx, CM_ERR_MODEL, "to is %lld, which names no element type",
                       (long long)to);
    f->out[0].type.dtype = (cm_dtype)to;
    return CM_OK;
}

static cm_status check_mode(cm_infer *f, cm_str mode)
{
    round_mode unused;
    if (!round_mode_of(mode, &unused))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "round_mode is \"%.*s\", wanted \"up\", \"down\" or \"nearest\"",
                       (int)(mode.n < 64 ? mode.n : 64), mode.n ? mode.p : "");
    return CM_OK;
}

static cm_status infer_bit_cast(cm_infer *f)
{
    const cm_dtype_info *from = cm_dtype_get(f->in[0].type->dtype);
    CM_TRY(check_target(f, ((const bit_cast_attr *)f->attr)->to));
    const cm_dtype_info *to = cm_dtype_get(f->out[0].type.dtype);
    if (to->kind == CM_KIND_STRING)
        return cm_fail(f->cx, CM_ERR_MODEL, "BitCast to strings");
    if (from->bits != to->bits)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has %d bits and %s has %d, wanted as many",
                       from->name, from->bits, to->name, to->bits);
    return cm_infer_like(f, 0, 0);
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_BIT_CAST)
        return infer_bit_cast(f);
    if (f->op->id == CM_OP_CAST) {
        CM_TRY(check_mode(f, ((const cast_attr *)f->attr)->round_mode));
        CM_TRY(check_target(f, ((const cast_attr *)f->attr)->to));
    } else {
        CM_TRY(check_mode(f, ((const cast_like_attr *)f->attr)->round_mode));
    }
    CM_TRY(cm_infer_like(f, 0, 0));
    track(f);
    return CM_OK;
}

const cm_family cm_family_cast = {.name = "cast", .infer = infer, .eval = eval};
