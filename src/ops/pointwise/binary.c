/* binary.c -- functions of two tensors, element by element, broadcast against each other.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Floats go through double and are rounded once, which for + - * / of narrower types is what the
 * type's own arithmetic gives. Integers wrap modulo their width. */
#include <math.h>
#include <stdatomic.h>

#include "ops/elementwise.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    cm_str direction;
} bit_shift_attr;
typedef struct {
    uint64_t present;
    int64_t fmod;
} mod_attr;

CM_ATTRS(bit_shift, bit_shift_attr, CM_ATTR_STR_REQUIRED(bit_shift_attr, direction))
CM_ATTRS(mod, mod_attr, CM_ATTR_INT(mod_attr, fmod, 0))

/* What is needed to compute an element. */
typedef struct {
    cm_op_id id;
    cm_dtype dtype;
    int bits;
    bool is_unsigned;
    bool truncate; /* Mod: quotient toward zero */
    bool left;     /* BitShift */
    bool unsigned_power;
} rule;

/* x - floor(x/y) y, exact but for the last addition. */
static double floor_mod(double x, double y)
{
    double r = fmod(x, y);
    if (r == 0)
        return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r; /* NaN: NaN + y or NaN */
}

static double apply(const rule *k, double a, double b)
{
    switch (k->id) {
    case CM_OP_ADD:
        return a + b;
    case CM_OP_SUB:
        return a - b;
    case CM_OP_MUL:
        return a * b;
    case CM_OP_DIV:
        return a / b;
    case CM_OP_POW:
        return cm_pow(a, b);
    case CM_OP_MOD:
        return k->truncate ? fmod(a, b) : floor_mod(a, b);
    case CM_OP_PRELU:
        return a < 0 ? a * b : a;
    default:
        return NAN;
    }
}

/* a/b toward zero; b is not 0. */
static int64_t divide(const rule *k, int64_t a, int64_t b)
{
    if (k->is_unsigned)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t modulo(const rule *k, int64_t a, int64_t b)
{
    if (k->is_unsigned)
        return (int64_t)((uint64_t)a % (uint64_t)b);
    int64_t r = b == -1 ? 0 : a % b;
    return !k->truncate && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Out-of-range amounts leave what filling alone gives: the sign to the right, 0 to the left. */
static int64_t shift(const rule *k, int64_t a, int64_t by)
{
    bool fits = (k->is_unsigned || by >= 0) && (uint64_t)by < (uint64_t)k->bits;
    if (k->left)
        return fits ? (int64_t)((uint64_t)a << by) : 0;
    if (k->is_unsigned || a >= 0)
        return fits ? (int64_t)((uint64_t)a >> by) : 0;
    return fits ? (int64_t) ~(~(uint64_t)a >> by) : -1;
}

static int64_t power(int64_t a, uint64_t n) /* wraps */
{
    uint64_t r = 1, x = (uint64_t)a;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            r *= x;
    return (int64_t)r;
}

/* Integer a to the power b, false when a is 0 and b negative. Fractions are cut. */
static bool int_power(const rule *k, int64_t a, int64_t b, int64_t *r)
{
    bool negative = b < 0 && !k->unsigned_power;
    if (!negative)
        *r = power(a, (uint64_t)b);
    else if (a == 1 || a == -1)
        *r = a == 1 || b % 2 == 0 ? 1 : -1;
    else
        *r = 0;
    return !negative || a != 0;
}

/* False: a division by zero. */
static bool apply_int(const rule *k, int64_t a, int64_t b, int64_t *r)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (k->id) {
    case CM_OP_ADD:
        *r = (int64_t)(x + y);
        return true;
    case CM_OP_SUB:
        *r = (int64_t)(x - y);
        return true;
    case CM_OP_MUL:
        *r = (int64_t)(x * y);
        return true;
    case CM_OP_PRELU:
        *r = !k->is_unsigned && a < 0 ? (int64_t)(x * y) : a;
        return true;
    case CM_OP_AND:
    case CM_OP_BITWISE_AND:
        *r = a & b;
        return true;
    case CM_OP_OR:
    case CM_OP_BITWISE_OR:
        *r = a | b;
        return true;
    case CM_OP_XOR:
    case CM_OP_BITWISE_XOR:
        *r = a ^ b;
        return true;
    case CM_OP_BIT_SHIFT:
        *r = shift(k, a, b);
        return true;
    case CM_OP_POW:
        return int_power(k, a, b, r);
    case CM_OP_DIV:
        *r = b ? divide(k, a, b) : 0;
        return b != 0;
    case CM_OP_MOD:
        *r = b ? modulo(k, a, b) : 0;
        return b != 0;
    default:
        *r = 0;
        return true;
    }
}

typedef struct {
    rule rule;
    cm_spread a, b;
    cm_tensor *out;
    atomic_bool divided_by_zero;
} job;

static void compute_float(void *arg, int64_t at, int64_t n)
{
    job *j = arg;
    cm_block a, b;
    cm_spread_f64(&j->a, at, n, a.f);
    cm_spread_f64(&j->b, at, n, b.f);
    for (int64_t i = 0; i < n; i++)
        a.f[i] = apply(&j->rule, a.f[i], b.f[i]);
    size_t size = cm_dtype_size(j->out->dtype);
    cm_store_f64(j->out->dtype, a.f, n, (unsigned char *)j->out->data + (size_t)at * size);
}

static void compute_int(void *arg, int64_t at, int64_t n)
{
    job *j = arg;
    cm_block a, b;
    bool ok = true;
    cm_spread_i64(&j->a, at, n, a.i);
    cm_spread_i64(&j->b, at, n, b.i);
    for (int64_t i = 0; i < n; i++)
        ok &= apply_int(&j->rule, a.i[i], b.i[i], &a.i[i]);
    if (!ok)
        atomic_store_explicit(&j->divided_by_zero, true, memory_order_relaxed);
    size_t size = cm_dtype_size(j->out->dtype);
    cm_store_i64(j->out->dtype, a.i, n, (unsigned char *)j->out->data + (size_t)at * size);
}

/* An integer to the power of a float: as integers where the exponent is one. */
static void compute_int_to_float(void *arg, int64_t at, int64_t n)
{
    job *j = arg;
    cm_block a, b;
    cm_spread_i64(&j->a, at, n, a.i);
    cm_spread_f64(&j->b, at, n, b.f);
    for (int64_t i = 0; i < n; i++) {
        double y = b.f[i];
        if (y == rint(y) && y >= 0 && y < 0x1p62)
            a.i[i] = power(a.i[i], (uint64_t)y);
        else
            y = cm_pow((double)a.i[i], y), cm_store_f64(CM_I64, &y, 1, &a.i[i]);
    }
    size_t size = cm_dtype_size(j->out->dtype);
    cm_store_i64(j->out->dtype, a.i, n, (unsigned char *)j->out->data + (size_t)at * size);
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    const cm_dtype_info *info = cm_dtype_get(a->dtype);
    job j = {
        .rule = {.id = e->op->id,
                 .dtype = a->dtype,
                 .bits = info->bits,
                 .is_unsigned = info->kind == CM_KIND_UINT,
                 .unsigned_power = b->dtype == CM_U64},
        .out = cm_eval_out(e, 0),
    };
    if (e->op->id == CM_OP_MOD)
        j.rule.truncate = ((const mod_attr *)e->attr)->fmod != 0;
    if (e->op->id == CM_OP_BIT_SHIFT)
        j.rule.left = cm_str_equal(((const bit_shift_attr *)e->attr)->direction, cm_str_of("LEFT"));
    cm_spread_init(&j.a, a, j.out);
    cm_spread_init(&j.b, b, j.out);
    cm_block_fn fn = compute_float;
    if (!cm_dtype_is_float(a->dtype))
        fn = cm_dtype_is_float(b->dtype) ? compute_int_to_float : compute_int;
    CM_TRY(cm_eval_blocks(e, cm_tensor_elems(j.out), fn, &j));
    if (atomic_load_explicit(&j.divided_by_zero, memory_order_relaxed))
        return cm_fail(e->cx, CM_ERR_DATA, "%s",
                       e->op->id == CM_OP_POW ? "an integer 0 to a negative power"
                                              : "integer division by zero");
    return CM_OK;
}

static cm_dim apply_dim(cm_infer *f, cm_dim a, cm_dim b)
{
    int64_t x, y, r;
    if (a == CM_DIM_ERROR || b == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    if (cm_infer_const(f, a, &x) && cm_infer_const(f, b, &y)) {
        rule k = {.id = f->op->id, .dtype = CM_I64, .bits = 64};
        if (f->op->id == CM_OP_MOD)
            k.truncate = ((const mod_attr *)f->attr)->fmod != 0;
        return f->op->id != CM_OP_BIT_SHIFT && apply_int(&k, x, y, &r) ? cm_infer_number(f, r)
                                                                       : CM_DIM_ERROR;
    }
    /* A divisor that may be 0 fails while running; where it does not, the quotient holds. */
    bool nonneg = cm_dim_is_nonneg(f->dims, a) && cm_dim_is_nonneg(f->dims, b) &&
                  !(cm_infer_const(f, b, &y) && y == 0);
    switch (f->op->id) {
    case CM_OP_ADD:
        return cm_infer_add(f, a, b);
    case CM_OP_SUB:
        return cm_infer_sub(f, a, b);
    case CM_OP_MUL:
        return cm_infer_mul(f, a, b);
    case CM_OP_DIV:
        return nonneg ? cm_infer_floor_div(f, a, b) : CM_DIM_ERROR;
    case CM_OP_MOD:
        return nonneg ? cm_dim_mod(f->dims, a, b) : CM_DIM_ERROR;
    default:
        return CM_DIM_ERROR;
    }
}

static void track(cm_infer *f)
{
    cm_dim v[2 * CM_MAX_ELEMS];
    int n;
    if (!cm_infer_elems_together(f, 2, v, &n))
        return;
    for (int i = 0; i < n; i++) {
        v[i] = apply_dim(f, v[i], v[CM_MAX_ELEMS + i]);
        if (!cm_infer_elem_fits(f, f->out[0].type.dtype, v[i]))
            return;
    }
    cm_infer_set_elems(f, 0, v, n);
}

static cm_status check_attributes(cm_infer *f)
{
    if (f->op->id == CM_OP_MOD) {
        int64_t fmod_ = ((const mod_attr *)f->attr)->fmod;
        if (fmod_ != 0 && fmod_ != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "fmod is %lld, wanted 0 or 1", (long long)fmod_);
    }
    if (f->op->id == CM_OP_BIT_SHIFT) {
        cm_str d = ((const bit_shift_attr *)f->attr)->direction;
        if (!cm_str_equal(d, cm_str_of("LEFT")) && !cm_str_equal(d, cm_str_of("RIGHT")))
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "direction is \"%.*s\", wanted \"LEFT\" or \"RIGHT\"",
                           (int)(d.n < 64 ? d.n : 64), d.n ? d.p : "");
    }
    return CM_OK;
}

/* PRelu's slope is broadcast to x, never x to the slope. */
static cm_status infer_prelu(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1))
        return cm_infer_like(f, 0, 0);
    const cm_type *x = f->in[0].type, *slope = f->in[1].type;
    if (slope->rank > x->rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "slope has rank %d, wanted at most that of x, %d",
                       slope->rank, x->rank);
    for (int k = 1; k <= slope->rank; k++) {
        cm_dim d = slope->dims[slope->rank - k];
        int64_t one;
        if (!(cm_infer_const(f, d, &one) && one == 1))
            CM_TRY(cm_infer_equal(f, "an axis of slope", d, x->dims[x->rank - k]));
    }
    return cm_infer_like(f, 0, 0);
}

static cm_status infer(cm_infer *f)
{
    CM_TRY(check_attributes(f));
    if (f->op->id == CM_OP_PRELU)
        return infer_prelu(f);
    CM_TRY(cm_infer_broadcast(f, 0, 0, 2));
    track(f);
    return CM_OK;
}

const cm_family cm_family_binary = {.name = "binary", .infer = infer, .eval = eval};
