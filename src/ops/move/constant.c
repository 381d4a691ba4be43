/* constant.c -- Constant, ConstantOfShape, Range, EyeLike: tensors out of nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    const cm_tensor *value;
    float value_float;
    cm_floats value_floats;
    int64_t value_int;
    cm_ints value_ints;
    cm_str value_string;
    cm_strs value_strings;
} constant_attr;
CM_ATTRS(constant, constant_attr, CM_ATTR_TENSOR(constant_attr, value, 0),
         CM_ATTR_FLOAT(constant_attr, value_float, 0),
         CM_ATTR_FLOATS(constant_attr, value_floats, 0), CM_ATTR_INT(constant_attr, value_int, 0),
         CM_ATTR_INTS(constant_attr, value_ints, 0), CM_ATTR_STR(constant_attr, value_string, ""),
         CM_ATTR_STRS(constant_attr, value_strings, 0))
enum { VALUE, FLOAT, FLOATS, INT, INTS, STRING, STRINGS, N_FORMS };

typedef struct {
    uint64_t present;
    const cm_tensor *value;
} constant_of_shape_attr;
CM_ATTRS(constant_of_shape, constant_of_shape_attr,
         CM_ATTR_TENSOR(constant_of_shape_attr, value, 0))

typedef struct {
    uint64_t present;
    int64_t stash_type; /* what f16 and bf16 are computed in; here it is double anyway */
} range_attr;
CM_ATTRS(range, range_attr, CM_ATTR_INT(range_attr, stash_type, 1))

typedef struct {
    uint64_t present;
    int64_t dtype, k;
} eye_like_attr;
CM_ATTRS(eye_like, eye_like_attr, CM_ATTR_INT(eye_like_attr, dtype, 0),
         CM_ATTR_INT(eye_like_attr, k, 0))

/* The constant as a tensor that borrows the attribute's memory; a sub-byte `value` is packed. */
static cm_status read_constant(cm_ctx *cx, const constant_attr *a, cm_tensor *out)
{
    int n_given = 0, form = -1;
    for (int i = 0; i < N_FORMS; i++) {
        if (a->present >> i & 1) {
            n_given++;
            form = i;
        }
    }
    if (n_given != 1)
        return cm_fail(cx, CM_ERR_MODEL, "%d of the value attributes are given, wanted one",
                       n_given);
    if (form == VALUE) {
        *out = *a->value;
        return CM_OK;
    }
    bool is_list = form == FLOATS || form == INTS || form == STRINGS;
    cm_dtype t = form <= FLOATS ? CM_F32 : form <= INTS ? CM_I64 : CM_STR;
    int64_t n = form == FLOATS ? a->value_floats.n
                : form == INTS ? a->value_ints.n
                               : a->value_strings.n;
    const void *const data[N_FORMS] = {
        NULL,
        &a->value_float,
        a->value_floats.v,
        &a->value_int,
        a->value_ints.v,
        &a->value_string,
        a->value_strings.v,
    };
    *out = (cm_tensor){0};
    if (!cm_tensor_shape(out, t, is_list, &n))
        return cm_fail(cx, CM_ERR_MODEL, "the list has %lld elements", (long long)n);
    out->data = (void *)(uintptr_t)data[form];
    return CM_OK;
}

static cm_status infer_constant(cm_infer *f)
{
    cm_tensor t;
    CM_TRY(read_constant(f->cx, f->attr, &t));
    CM_TRY(cm_infer_typed(f, 0, t.dtype, t.rank, t.dims));
    int64_t n = cm_tensor_elems(&t);
    if (!f->dims || n > CM_MAX_ELEMS || t.packed || !cm_dtype_is_integer(t.dtype))
        return CM_OK;
    cm_dim v[CM_MAX_ELEMS];
    for (int64_t i = 0; i < n; i++)
        v[i] = cm_infer_number(f, cm_get_i64(t.dtype, t.data, i));
    cm_infer_set_elems(f, 0, v, (int)n);
    return CM_OK;
}

/* Vectors of an integer value: its repetition. */
static void fill_elems(cm_infer *f, const cm_tensor *value)
{
    cm_dim v[CM_MAX_ELEMS];
    const cm_type *t = &f->out[0].type;
    int64_t n = 1;
    if (!f->dims || !value || value->packed || !cm_dtype_is_integer(t->dtype) || t->rank > 1 ||
        (t->rank == 1 && !cm_infer_const(f, t->dims[0], &n)) || n > CM_MAX_ELEMS)
        return;
    for (int64_t i = 0; i < n; i++)
        v[i] = cm_infer_number(f, cm_get_i64(value->dtype, value->data, 0));
    cm_infer_set_elems(f, 0, v, (int)n);
}

static cm_status infer_constant_of_shape(cm_infer *f)
{
    const constant_of_shape_attr *a = f->attr;
    cm_vector shape;
    cm_dim dims[CM_MAX_RANK];
    if (a->value && cm_tensor_elems(a->value) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "value has %lld elements, wanted 1",
                       (long long)cm_tensor_elems(a->value));
    f->out[0].type.dtype = a->value ? a->value->dtype : CM_F32;
    CM_TRY(cm_move_vector(f, 0, "the shape", &shape));
    if (!shape.known) {
        if (shape.n >= 0)
            return cm_move_fresh_shape(f, 0, shape.n);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    for (int64_t i = 0; i < shape.n && i < CM_MAX_RANK; i++)
        CM_TRY(cm_move_size(f, "the shape", shape.v[i], &dims[i]));
    CM_TRY(cm_move_shape(f, 0, shape.n, dims));
    fill_elems(f, a->value);
    return CM_OK;
}

static cm_status infer_eye_like(cm_infer *f)
{
    const eye_like_attr *a = f->attr;
    int64_t t = a->present & 1 ? a->dtype : (int64_t)f->in[0].type->dtype;
    if (t < 0 || t >= CM_DTYPE_COUNT || !cm_dtype_valid((int)t) || t == CM_STR ||
        cm_dtype_get((cm_dtype)t)->kind == CM_KIND_COMPLEX)
        return cm_fail(f->cx, CM_ERR_MODEL, "dtype %lld is not a numeric type", (long long)t);
    f->out[0].type.dtype = (cm_dtype)t;
    if (!cm_infer_ranked(f, 0))
        return cm_move_fresh_shape(f, 0, 2);
    if (cm_infer_rank(f, 0) != 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 2", cm_infer_rank(f, 0));
    return cm_infer_like(f, 0, 0);
}

/* ceil((limit - start)/delta), at least 0, when all three are numbers. */
static cm_status count_steps(cm_infer *f, int64_t start, int64_t limit, int64_t delta, int64_t *out)
{
    __int128 way = (__int128)limit - start, step = delta;
    if (delta == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "delta is 0");
    if (step < 0) {
        way = -way;
        step = -step;
    }
    __int128 n = way > 0 ? (way + step - 1) / step : 0;
    if (n > INT64_MAX / 8)
        return cm_fail(f->cx, CM_ERR_MODEL, "from %lld to %lld by %lld is too long a range",
                       (long long)start, (long long)limit, (long long)delta);
    *out = (int64_t)n;
    return CM_OK;
}

static cm_status count_f64(cm_infer *f, const double *v, int64_t *out)
{
    double n = ceil((v[1] - v[0]) / v[2]);
    if (v[2] == 0 || !(n < 1e15))
        return cm_fail(f->cx, CM_ERR_MODEL, "from %g to %g by %g is not a finite range", v[0], v[1],
                       v[2]);
    *out = n > 0 ? (int64_t)n : 0;
    return CM_OK;
}

/* The number of steps as an expression; the sign of delta must be known. */
static cm_dim count_symbolic(cm_infer *f, const cm_dim *v)
{
    int64_t delta;
    if (!cm_infer_const(f, v[2], &delta) || delta == 0 || delta == INT64_MIN)
        return cm_infer_fresh(f, "steps");
    cm_dim way = delta > 0 ? cm_infer_sub(f, v[1], v[0]) : cm_infer_sub(f, v[0], v[1]);
    cm_dim n = cm_move_max(f, cm_infer_ceil_div(f, way, delta > 0 ? delta : -delta), 0);
    if (n == CM_DIM_ERROR || cm_move_may_be_anything(f, n))
        return cm_infer_fresh(f, "steps");
    return n;
}

static void range_elems(cm_infer *f, const cm_dim *v, cm_dim n)
{
    cm_dim out[CM_MAX_ELEMS];
    int64_t count;
    if (!f->dims || !cm_infer_const(f, n, &count) || count > CM_MAX_ELEMS)
        return;
    for (int64_t i = 0; i < count; i++)
        out[i] = cm_infer_add(f, v[0], cm_infer_mul(f, v[2], i));
    cm_infer_set_elems(f, 0, out, (int)count);
}

/* Integers, each a number, an expression or unknown. */
static cm_status infer_range_int(cm_infer *f)
{
    cm_dim v[3], elem[CM_MAX_ELEMS];
    int64_t x[3], one[CM_MAX_ELEMS], m, count = 0;
    int n_known = 0, n_numbers = 0, n_elems;
    for (int i = 0; i < 3; i++) {
        if (cm_infer_ints(f, i, one, CM_MAX_ELEMS, &m) && m == 1) {
            x[i] = one[0];
            v[i] = cm_infer_number(f, x[i]);
            n_numbers++;
            n_known++;
        } else if (cm_infer_elems(f, i, elem, &n_elems) && n_elems == 1) {
            v[i] = elem[0];
            n_known++;
        }
    }
    if (n_numbers == 3)
        CM_TRY(count_steps(f, x[0], x[1], x[2], &count));
    cm_dim n = n_numbers == 3 ? count
               : n_known == 3 ? count_symbolic(f, v)
                              : cm_infer_fresh(f, "steps");
    CM_TRY(cm_move_shape(f, 0, 1, &n));
    if (n_known == 3)
        range_elems(f, v, n);
    return CM_OK;
}

static cm_status infer_range(cm_infer *f)
{
    static const char *const names[] = {"start", "limit", "delta"};
    double x[3];
    int64_t count = 0;
    int n_known = 0;
    for (int i = 0; i < 3; i++) {
        CM_TRY(cm_move_check_count(f, i, names[i], 1));
        n_known += cm_infer_scalar_f64(f, i, &x[i]);
    }
    if (!cm_dtype_is_float(f->in[0].type->dtype))
        return infer_range_int(f);
    if (n_known < 3)
        return cm_move_fresh_shape(f, 0, 1);
    CM_TRY(count_f64(f, x, &count));
    return cm_move_shape(f, 0, 1, &count);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_CONSTANT:
        return infer_constant(f);
    case CM_OP_CONSTANT_OF_SHAPE:
        return infer_constant_of_shape(f);
    case CM_OP_RANGE:
        return infer_range(f);
    default:
        return infer_eye_like(f);
    }
}

/* All elements of an attribute's tensor, unpacked. */
static void copy_value(const cm_tensor *from, void *to)
{
    int64_t n = cm_tensor_elems(from);
    if (n == 0)
        return;
    if (from->packed && cm_dtype_is_sub_byte(from->dtype))
        cm_unpack_sub_byte(from->dtype, from->data, n, to);
    else
        memcpy(to, from->data, (size_t)n * cm_dtype_size(from->dtype));
}

static cm_status eval_constant(cm_eval *e)
{
    cm_tensor t;
    CM_TRY(read_constant(e->cx, e->attr, &t));
    copy_value(&t, cm_eval_out(e, 0)->data);
    return CM_OK;
}

static cm_status eval_constant_of_shape(cm_eval *e)
{
    const constant_of_shape_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    uint64_t value[2] = {0, 0}; /* room for an element of any type */
    if (a->value)
        copy_value(a->value, value);
    cm_move_fill(cm_dtype_size(y->dtype), value, y->data, cm_tensor_elems(y), e->threads);
    return CM_OK;
}

static cm_status eval_range(cm_eval *e)
{
    cm_tensor *y = cm_eval_out(e, 0);
    bool is_float = cm_dtype_is_float(y->dtype);
    double start = is_float ? cm_eval_f64(e, 0, 0) : 0, delta = is_float ? cm_eval_f64(e, 2, 0) : 0;
    uint64_t first = is_float ? 0 : (uint64_t)cm_eval_int(e, 0, 0);
    uint64_t step = is_float ? 0 : (uint64_t)cm_eval_int(e, 2, 0);
    for (int64_t i = 0; i < y->dims[0]; i++) {
        if (is_float)
            cm_set_f64(y->dtype, y->data, i, start + (double)i * delta);
        else
            cm_set_i64(y->dtype, y->data, i, (int64_t)(first + (uint64_t)i * step));
    }
    return CM_OK;
}

static cm_status eval_eye_like(cm_eval *e)
{
    const eye_like_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t rows = y->dims[0], columns = y->dims[1];
    static const uint64_t zero[2] = {0, 0};
    cm_move_fill(cm_dtype_size(y->dtype), zero, y->data, rows * columns, e->threads);
    if (a->k <= -rows || a->k >= columns)
        return CM_OK;
    for (int64_t i = 0; i < rows; i++)
        if (i + a->k >= 0 && i + a->k < columns)
            cm_set_f64(y->dtype, y->data, i * columns + i + a->k, 1);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    switch (e->op->id) {
    case CM_OP_CONSTANT:
        return eval_constant(e);
    case CM_OP_CONSTANT_OF_SHAPE:
        return eval_constant_of_shape(e);
    case CM_OP_RANGE:
        return eval_range(e);
    default:
        return eval_eye_like(e);
    }
}

const cm_family cm_family_constant = {"constant", infer, eval, cm_move_cost};
