/* compare.c -- comparisons of two tensors, broadcast against each other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"

/* A comparison says whether it holds for less, equal, greater; for NaN none does. */
typedef struct {
    bool less, equal, greater;
} holds;

static holds holds_of(cm_op_id id)
{
    switch (id) {
    case CM_OP_GREATER:
        return (holds){.greater = true};
    case CM_OP_GREATER_OR_EQUAL:
        return (holds){.equal = true, .greater = true};
    case CM_OP_LESS:
        return (holds){.less = true};
    case CM_OP_LESS_OR_EQUAL:
        return (holds){.less = true, .equal = true};
    default:
        return (holds){.equal = true};
    }
}

typedef struct {
    holds h;
    cm_spread a, b;
    cm_tensor *out;
} job;

static void compare_f64(const holds *h, const double *a, const double *b, int64_t n, bool *r)
{
    for (int64_t i = 0; i < n; i++)
        r[i] =
            (h->less && a[i] < b[i]) || (h->equal && a[i] == b[i]) || (h->greater && a[i] > b[i]);
}

static void compare_i64(const holds *h, const int64_t *a, const int64_t *b, int64_t n, bool *r)
{
    for (int64_t i = 0; i < n; i++)
        r[i] = a[i] < b[i] ? h->less : a[i] == b[i] ? h->equal : h->greater;
}

static void compare_u64(const holds *h, const int64_t *a, const int64_t *b, int64_t n, bool *r)
{
    for (int64_t i = 0; i < n; i++)
        r[i] = (uint64_t)a[i] < (uint64_t)b[i] ? h->less : a[i] == b[i] ? h->equal : h->greater;
}

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    bool *r = (bool *)j->out->data + at;
    cm_dtype t = j->a.dtype;
    cm_block a, b;
    if (t == CM_STR) {
        const cm_str *x = cm_spread_get(&j->a, at, n, &a), *y = cm_spread_get(&j->b, at, n, &b);
        for (int64_t i = 0; i < n; i++)
            r[i] = cm_str_equal(x[i], y[i]);
    } else if (cm_dtype_is_float(t)) {
        cm_spread_f64(&j->a, at, n, a.f);
        cm_spread_f64(&j->b, at, n, b.f);
        compare_f64(&j->h, a.f, b.f, n, r);
    } else {
        cm_spread_i64(&j->a, at, n, a.i);
        cm_spread_i64(&j->b, at, n, b.i);
        (t == CM_U64 ? compare_u64 : compare_i64)(&j->h, a.i, b.i, n, r);
    }
}

static cm_status eval(cm_eval *e)
{
    job j = {.h = holds_of(e->op->id), .out = cm_eval_out(e, 0)};
    cm_spread_init(&j.a, cm_eval_in(e, 0), j.out);
    cm_spread_init(&j.b, cm_eval_in(e, 1), j.out);
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

/* Does the comparison hold whatever the symbols are? CM_DIM_ERROR: it depends. */
static cm_dim decide(cm_infer *f, holds h, cm_dim a, cm_dim b)
{
    cm_dim d = cm_infer_sub(f, a, b), back = cm_infer_sub(f, b, a);
    int64_t v;
    if (d == CM_DIM_ERROR || back == CM_DIM_ERROR)
        return CM_DIM_ERROR;
    if (cm_infer_const(f, d, &v))
        return v < 0 ? h.less : v == 0 ? h.equal : h.greater;
    if (cm_dim_is_positive(f->dims, d))
        return h.greater;
    if (cm_dim_is_positive(f->dims, back))
        return h.less;
    if (cm_dim_is_nonneg(f->dims, d) && h.greater == h.equal)
        return h.equal;
    if (cm_dim_is_nonneg(f->dims, back) && h.less == h.equal)
        return h.equal;
    return CM_DIM_ERROR;
}

static cm_status infer(cm_infer *f)
{
    cm_dim v[2 * CM_MAX_ELEMS];
    int n;
    CM_TRY(cm_infer_broadcast(f, 0, 0, 2));
    if (cm_infer_elems_together(f, 2, v, &n)) {
        for (int i = 0; i < n; i++)
            v[i] = decide(f, holds_of(f->op->id), v[i], v[CM_MAX_ELEMS + i]);
        cm_infer_set_elems(f, 0, v, n);
    }
    return CM_OK;
}

const cm_family cm_family_compare = {.name = "compare", .infer = infer, .eval = eval};
