/* cumulative.c -- running sums and products along an axis.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"

typedef struct {
    uint64_t present;
    int64_t exclusive, reverse;
} cum_attr;

#define CUM_ATTRS(id)                                                                              \
    CM_ATTRS(id, cum_attr, CM_ATTR_INT(cum_attr, exclusive, 0), CM_ATTR_INT(cum_attr, reverse, 0))
CUM_ATTRS(cum_prod)
CUM_ATTRS(cum_sum)

typedef struct {
    const cm_tensor *in;
    cm_tensor *out;
    bool product, exclusive, reverse;
    int64_t n, inner; /* elements along the axis; elements from one to the next */
} job;

static void step_f64(const job *j, double *acc, const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        acc[i] = j->product ? acc[i] * v[i] : acc[i] + v[i];
}

static void step_i64(const job *j, int64_t *acc, const int64_t *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t a = (uint64_t)acc[i], x = (uint64_t)v[i];
        acc[i] = (int64_t)(j->product ? a * x : a + x);
    }
}

/* Lines [begin, end) along the axis, as many at a time as lie beside each other. */
static void compute(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_dtype t = j->in->dtype;
    bool is_float = cm_dtype_is_float(t);
    size_t size = cm_dtype_size(t);
    for (int64_t at = begin; at < end;) {
        cm_block acc, v;
        int64_t row = at / j->inner, col = at % j->inner, n = j->inner - col;
        n = n < end - at ? n : end - at;
        n = n < CM_BLOCK ? n : CM_BLOCK;
        for (int64_t i = 0; i < n; i++) {
            if (is_float)
                acc.f[i] = j->product;
            else
                acc.i[i] = j->product;
        }
        for (int64_t k = 0; k < j->n; k++) {
            int64_t step = j->reverse ? j->n - 1 - k : k;
            size_t offset = (size_t)((row * j->n + step) * j->inner + col) * size;
            const void *src = (const unsigned char *)j->in->data + offset;
            void *dst = (unsigned char *)j->out->data + offset;
            if (is_float) {
                cm_load_f64(t, src, n, v.f);
                if (j->exclusive)
                    cm_store_f64(t, acc.f, n, dst);
                step_f64(j, acc.f, v.f, n);
                if (!j->exclusive)
                    cm_store_f64(t, acc.f, n, dst);
            } else {
                cm_load_i64(t, src, n, v.i);
                if (j->exclusive)
                    cm_store_i64(t, acc.i, n, dst);
                step_i64(j, acc.i, v.i, n);
                if (!j->exclusive)
                    cm_store_i64(t, acc.i, n, dst);
            }
        }
        at += n;
    }
}

static cm_status eval(cm_eval *e)
{
    const cum_attr *a = e->attr;
    int axis;
    job j = {.in = cm_eval_in(e, 0),
             .out = cm_eval_out(e, 0),
             .product = e->op->id == CM_OP_CUM_PROD,
             .exclusive = a->exclusive != 0,
             .reverse = a->reverse != 0,
             .n = 1,
             .inner = 1};
    int64_t total = cm_tensor_elems(j.in);
    if (total == 0)
        return CM_OK;
    if (j.in->rank) {
        CM_TRY(cm_axis(e->cx, cm_eval_int(e, 1, 0), j.in->rank, &axis));
        j.n = j.in->dims[axis];
        j.inner = cm_dims_product(j.in->dims, axis + 1, j.in->rank);
    }
    cm_parallel(e->threads, total / j.n, j.n < 4096 ? 4096 / j.n + 1 : 1, compute, &j);
    return cm_check_cancel(e->cx);
}

static cm_status infer(cm_infer *f)
{
    int64_t axis, n, d;
    int unused;
    if (cm_infer_ranked(f, 1)) {
        const cm_type *t = f->in[1].type;
        if (t->rank > 1 || (t->rank == 1 && cm_infer_const(f, t->dims[0], &d) && d != 1))
            return cm_fail(f->cx, CM_ERR_MODEL, "axis is not a scalar");
    }
    if (cm_infer_ranked(f, 0) && f->in[0].type->rank > 0 && cm_infer_ints(f, 1, &axis, 1, &n) &&
        n == 1)
        CM_TRY(cm_axis(f->cx, axis, f->in[0].type->rank, &unused));
    return cm_infer_like(f, 0, 0);
}

const cm_family cm_family_cumulative = {.name = "cumulative", .infer = infer, .eval = eval};
