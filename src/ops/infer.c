/* infer.c -- helpers that type rules are written with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/infer.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "ops/signature.h"

static cm_status infer_operator(cm_infer *f)
{
    const cm_op *op = f->op;
    if (f->n_in < op->min_in || f->n_in > op->max_in)
        return cm_fail(f->cx, CM_ERR_MODEL, "%d inputs, wanted %d to %d", f->n_in, op->min_in,
                       op->max_in);
    if (f->n_out < op->min_out || f->n_out > op->max_out)
        return cm_fail(f->cx, CM_ERR_MODEL, "%d outputs, wanted %d to %d", f->n_out, op->min_out,
                       op->max_out);
    for (int i = 0; i < op->min_in; i++)
        if (!f->in[i].type)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is required but absent", i);
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    const cm_type **in = cm_new_n(f->cx->scratch, f->n_in, const cm_type *);
    cm_type *out = cm_new_n(f->cx->scratch, f->n_out, cm_type);
    if (!in || !out)
        return cm_fail_memory(f->cx);
    for (int i = 0; i < f->n_in; i++)
        in[i] = f->in[i].type;
    cm_status st = cm_signature_apply(f->cx, op, in, f->n_in, out, f->n_out);
    for (int o = 0; st == CM_OK && o < f->n_out; o++) {
        f->out[o].type = out[o];
        f->out[o].n_elems = -1;
    }
    cm_arena_restore(f->cx->scratch, mark);
    if (st != CM_OK)
        return st;
    return op->family->infer(f);
}

static bool never_equal(cm_infer *f, cm_dim a, cm_dim b)
{
    int64_t x, y;
    if (cm_infer_const(f, a, &x) && cm_infer_const(f, b, &y))
        return x != y;
    return f->dims && cm_dim_never_equal(f->dims, a, b);
}

/* The operands of an epilogue broadcast to output 0 and leave its shape as it is. */
static cm_status infer_epilogue(cm_infer *f, int n_own)
{
    cm_type *x = &f->out[0].type;
    if (!(f->op->traits & CM_EPILOGUE) || f->n_out < 1 || x->kind != CM_TENSOR)
        return cm_fail(f->cx, CM_ERR_MODEL, "an epilogue follows an operator that takes none");
    f->out[0].n_elems = -1;
    f->out[0].own_dtype = x->dtype;
    for (int i = n_own; i < f->n_in; i++) {
        if (!cm_infer_has(f, i) || f->in[i].type->kind != CM_TENSOR)
            return cm_fail(f->cx, CM_ERR_MODEL, "operand %d of the epilogue is no tensor",
                           i - n_own);
        if (x->rank < 0 || !cm_infer_ranked(f, i))
            continue;
        const cm_type *t = f->in[i].type;
        int rank = x->rank;
        cm_dim dims[CM_MAX_RANK];
        memcpy(dims, x->dims, sizeof dims);
        CM_TRY(cm_broadcast_dims(f, &rank, dims, t->rank, t->dims));
        for (int a = 0; a < rank; a++)
            if (rank != x->rank || never_equal(f, dims[a], x->dims[a]))
                return cm_fail(f->cx, CM_ERR_MODEL,
                               "operand %d of the epilogue enlarges the result", i - n_own);
    }
    if (f->epilogue->to != CM_NO_DTYPE)
        x->dtype = f->epilogue->to;
    return CM_OK;
}

cm_status cm_op_infer(cm_infer *f)
{
    const cm_epilogue *e = f->epilogue;
    if (!e || !e->program)
        return infer_operator(f);
    int n_in = f->n_in;
    if (e->n_operands < 0 || e->n_operands > n_in)
        return cm_fail(f->cx, CM_ERR_MODEL, "an epilogue of %d operands on %d inputs",
                       e->n_operands, n_in);
    f->n_in -= e->n_operands;
    cm_status st = infer_operator(f);
    f->n_in = n_in;
    return st == CM_OK ? infer_epilogue(f, n_in - e->n_operands) : st;
}

int cm_infer_rank(const cm_infer *f, int i)
{
    const cm_type *t = f->in[i].type;
    return t->kind == CM_TENSOR ? t->rank : -1;
}

bool cm_infer_ranked(const cm_infer *f, int i)
{
    return cm_infer_rank(f, i) >= 0;
}

cm_dim cm_infer_dim(const cm_infer *f, int i, int axis)
{
    return f->in[i].type->dims[axis];
}

cm_status cm_infer_tensor(cm_infer *f, int o, int rank, const cm_dim *dims)
{
    if (o >= f->n_out)
        return CM_OK;
    if (rank > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "output %d has rank %d, the most is %d", o, rank,
                       CM_MAX_RANK);
    cm_type *t = &f->out[o].type;
    t->kind = CM_TENSOR;
    t->rank = rank;
    for (int i = 0; i < rank; i++) {
        int64_t v;
        if (dims[i] == CM_DIM_ERROR)
            return cm_fail(f->cx, CM_ERR_MODEL, "axis %d of output %d is too large to compute", i,
                           o);
        if (cm_infer_const(f, dims[i], &v) && v < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "axis %d of output %d would be %lld", i, o,
                           (long long)v);
        t->dims[i] = dims[i];
    }
    return CM_OK;
}

cm_status cm_infer_typed(cm_infer *f, int o, cm_dtype dtype, int rank, const cm_dim *dims)
{
    if (o >= f->n_out)
        return CM_OK;
    f->out[o].type.dtype = dtype;
    return cm_infer_tensor(f, o, rank, dims);
}

cm_status cm_infer_like(cm_infer *f, int o, int i)
{
    if (o >= f->n_out)
        return CM_OK;
    if (!cm_infer_ranked(f, i)) {
        cm_infer_unknown(f, o);
        return CM_OK;
    }
    return cm_infer_tensor(f, o, f->in[i].type->rank, f->in[i].type->dims);
}

void cm_infer_unknown(cm_infer *f, int o)
{
    if (o >= f->n_out)
        return;
    f->out[o].type.kind = CM_TENSOR;
    f->out[o].type.rank = -1;
}

cm_dim cm_infer_fresh(cm_infer *f, const char *what)
{
    if (!f->dims)
        return CM_DIM_ERROR;
    char hint[96];
    snprintf(hint, sizeof hint, "%s.%s", f->hint ? f->hint : f->op->name, what);
    return cm_dim_fresh(f->dims, hint, CM_DIM_SIZE);
}

cm_dim cm_infer_upto(cm_infer *f, const char *what, cm_dim most)
{
    cm_dim d = cm_infer_fresh(f, what);
    int64_t n;
    if (cm_infer_const(f, most, &n))
        (void)cm_dim_assume(f->dims, d, 0, n);
    return d;
}

cm_status cm_infer_data_dependent(cm_infer *f, int o, int rank)
{
    if (o >= f->n_out)
        return CM_OK;
    if (!f->dims) { /* the evaluator will say */
        cm_infer_unknown(f, o);
        return CM_OK;
    }
    cm_dim dims[CM_MAX_RANK];
    for (int i = 0; i < rank && i < CM_MAX_RANK; i++) {
        char what[16];
        snprintf(what, sizeof what, "%d", i);
        dims[i] = cm_infer_fresh(f, what);
        if (dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(f->cx);
    }
    return cm_infer_tensor(f, o, rank, dims);
}

bool cm_infer_const(const cm_infer *f, cm_dim d, int64_t *v)
{
    if (d >= 0) {
        *v = d;
        return true;
    }
    if (d == CM_DIM_ERROR)
        return false;
    if (!f->dims) { /* while running, dims are plain integers of either sign */
        *v = d;
        return true;
    }
    return cm_dim_is_const(f->dims, d, v);
}

cm_dim cm_infer_number(cm_infer *f, int64_t v)
{
    return v >= 0 || !f->dims ? v : cm_dim_const(f->dims, v);
}

/* With both operands numbers, compute here; with a table, ask it; otherwise there is no answer. */
#define NUMBERS_OR_TABLE(f, a, b, when_numbers, table_call)                                        \
    int64_t x, y, r;                                                                               \
    if ((a) == CM_DIM_ERROR || (b) == CM_DIM_ERROR)                                                \
        return CM_DIM_ERROR;                                                                       \
    if (cm_infer_const(f, a, &x) && cm_infer_const(f, b, &y)) {                                    \
        if (!(when_numbers))                                                                       \
            return CM_DIM_ERROR;                                                                   \
        return cm_infer_number(f, r);                                                              \
    }                                                                                              \
    return (f)->dims ? (table_call) : CM_DIM_ERROR

cm_dim cm_infer_add(cm_infer *f, cm_dim a, cm_dim b)
{
    NUMBERS_OR_TABLE(f, a, b, cm_add_i64(x, y, &r), cm_dim_add(f->dims, a, b));
}

cm_dim cm_infer_sub(cm_infer *f, cm_dim a, cm_dim b)
{
    NUMBERS_OR_TABLE(f, a, b, !__builtin_sub_overflow(x, y, &r), cm_dim_sub(f->dims, a, b));
}

cm_dim cm_infer_mul(cm_infer *f, cm_dim a, cm_dim b)
{
    NUMBERS_OR_TABLE(f, a, b, cm_mul_i64(x, y, &r), cm_dim_mul(f->dims, a, b));
}

cm_dim cm_infer_floor_div(cm_infer *f, cm_dim a, cm_dim b)
{
    NUMBERS_OR_TABLE(f, a, b, y > 0 && (r = cm_floor_div(x, y), true),
                     cm_dim_floor_div(f->dims, a, b));
}

cm_dim cm_infer_ceil_div(cm_infer *f, cm_dim a, cm_dim b)
{
    NUMBERS_OR_TABLE(f, a, b, y > 0 && (r = cm_ceil_div(x, y), true),
                     cm_dim_ceil_div(f->dims, a, b));
}

static const char *dim_text(const cm_infer *f, cm_dim d, char *buf, size_t n)
{
    int64_t v;
    if (cm_infer_const(f, d, &v)) {
        snprintf(buf, n, "%lld", (long long)v);
        return buf;
    }
    cm_buf b;
    cm_buf_init(&b, f->cx->allocator);
    if (f->dims && d != CM_DIM_ERROR)
        cm_dim_print(f->dims, d, &b);
    snprintf(buf, n, "%s", b.n ? cm_buf_text(&b) : "?");
    cm_buf_deinit(&b);
    return buf;
}

cm_status cm_infer_equal(cm_infer *f, const char *what, cm_dim a, cm_dim b)
{
    if (!never_equal(f, a, b))
        return CM_OK;
    char x[128], y[128];
    return cm_fail(f->cx, CM_ERR_MODEL, "%s: found %s, wanted %s", what,
                   dim_text(f, a, x, sizeof x), dim_text(f, b, y, sizeof y));
}

static cm_status join_dim(cm_infer *f, cm_dim a, cm_dim b, int from_right, cm_dim *out)
{
    int64_t x, y;
    if (a == b || (cm_infer_const(f, b, &y) && y == 1)) {
        *out = a;
        return CM_OK;
    }
    if (cm_infer_const(f, a, &x) && x == 1) {
        *out = b;
        return CM_OK;
    }
    if (cm_infer_const(f, a, &x) && cm_infer_const(f, b, &y)) {
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "shapes do not broadcast: %lld against %lld at axis %d from the right",
                       (long long)x, (long long)y, from_right);
    }
    *out = f->dims ? cm_dim_broadcast(f->dims, a, b) : CM_DIM_ERROR;
    if (*out == CM_DIM_ERROR && f->dims) /* the expression grew past the table's bound */
        *out = cm_infer_fresh(f, "broadcast");
    return *out == CM_DIM_ERROR ? cm_fail_memory(f->cx) : CM_OK;
}

cm_status cm_broadcast_dims(cm_infer *f, int *rank, cm_dim *dims, int rank_b, const cm_dim *dims_b)
{
    int r = *rank > rank_b ? *rank : rank_b;
    cm_dim out[CM_MAX_RANK];
    for (int k = 1; k <= r; k++) { /* from the right */
        cm_dim a = k <= *rank ? dims[*rank - k] : 1;
        cm_dim b = k <= rank_b ? dims_b[rank_b - k] : 1;
        CM_TRY(join_dim(f, a, b, k, &out[r - k]));
    }
    memcpy(dims, out, (size_t)r * sizeof *out);
    *rank = r;
    return CM_OK;
}

cm_status cm_infer_broadcast(cm_infer *f, int o, int from, int to)
{
    int rank = 0;
    cm_dim dims[CM_MAX_RANK];
    for (int i = from; i < to && i < f->n_in; i++) {
        if (!cm_infer_has(f, i))
            continue;
        if (!cm_infer_ranked(f, i)) {
            cm_infer_unknown(f, o);
            return CM_OK;
        }
        CM_TRY(cm_broadcast_dims(f, &rank, dims, f->in[i].type->rank, f->in[i].type->dims));
    }
    return cm_infer_tensor(f, o, rank, dims);
}

cm_status cm_axis(cm_ctx *cx, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return cm_fail(cx, CM_ERR_MODEL, "axis %lld is out of range for rank %d", (long long)axis,
                       rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return CM_OK;
}

cm_status cm_axes(cm_ctx *cx, const int64_t *axes, int64_t n, int rank, bool *is_in)
{
    memset(is_in, 0, (size_t)rank * sizeof *is_in);
    for (int64_t i = 0; i < n; i++) {
        int a;
        CM_TRY(cm_axis(cx, axes[i], rank, &a));
        if (is_in[a])
            return cm_fail(cx, CM_ERR_MODEL, "axis %lld is listed twice", (long long)axes[i]);
        is_in[a] = true;
    }
    return CM_OK;
}

bool cm_infer_elems(const cm_infer *f, int i, cm_dim *v, int *n)
{
    if (!cm_infer_has(f, i))
        return false;
    const cm_infer_in *in = &f->in[i];
    if (in->elems) {
        memcpy(v, in->elems, (size_t)in->n_elems * sizeof *v);
        *n = in->n_elems;
        return true;
    }
    const cm_tensor *c = in->constant;
    if (!c || !cm_dtype_is_integer(c->dtype) || cm_tensor_elems(c) > CM_MAX_ELEMS)
        return false;
    *n = (int)cm_tensor_elems(c);
    for (int k = 0; k < *n; k++) {
        int64_t x = cm_get_i64(c->dtype, c->data, k);
        v[k] = x >= 0 || !f->dims ? x : cm_dim_const(f->dims, x);
        if (v[k] == CM_DIM_ERROR)
            return false;
    }
    return true;
}

bool cm_infer_ints(const cm_infer *f, int i, int64_t *v, int64_t max, int64_t *n)
{
    if (!cm_infer_has(f, i))
        return false;
    const cm_infer_in *in = &f->in[i];
    const cm_tensor *c = in->constant;
    if (c && cm_dtype_is_integer(c->dtype)) {
        *n = cm_tensor_elems(c);
        if (*n > max)
            return false;
        cm_load_i64(c->dtype, c->data, *n, v);
        return true;
    }
    if (!in->elems || in->n_elems > max)
        return false;
    *n = in->n_elems;
    for (int k = 0; k < in->n_elems; k++)
        if (!cm_infer_const(f, in->elems[k], &v[k]))
            return false;
    return true;
}

bool cm_infer_scalar_f64(const cm_infer *f, int i, double *v)
{
    if (!cm_infer_has(f, i))
        return false;
    const cm_tensor *c = f->in[i].constant;
    if (!c || cm_tensor_elems(c) != 1 || c->dtype == CM_STR ||
        cm_dtype_get(c->dtype)->kind == CM_KIND_COMPLEX)
        return false;
    *v = cm_get_f64(c->dtype, c->data, 0);
    return true;
}

void cm_infer_set_elems(cm_infer *f, int o, const cm_dim *v, int n)
{
    if (o >= f->n_out || n > CM_MAX_ELEMS)
        return;
    for (int i = 0; i < n; i++)
        if (v[i] == CM_DIM_ERROR)
            return;
    memcpy(f->out[o].elems, v, (size_t)n * sizeof *v);
    f->out[o].n_elems = n;
}

double cm_infer_extent(const cm_infer *f, cm_dim d)
{
    enum { NOMINAL = 128 };
    int64_t v;
    if (cm_infer_const(f, d, &v))
        return (double)v;
    if (!f->dims || d == CM_DIM_ERROR)
        return NOMINAL;
    enum { MOST = 256 };
    int64_t values[MOST];
    for (int i = 0; i < MOST; i++)
        values[i] = NOMINAL;
    if (cm_dim_symbol_count(f->dims) <= MOST && cm_dim_eval(f->dims, d, values, &v))
        return (double)v;
    return NOMINAL;
}

double cm_infer_volume(const cm_infer *f, const cm_type *t)
{
    double n = 1;
    if (t->kind != CM_TENSOR)
        return 0;
    for (int i = 0; i < t->rank; i++)
        n *= cm_infer_extent(f, t->dims[i]);
    return n;
}
