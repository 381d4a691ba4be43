/* variadic.c -- sum, mean, largest and smallest of any number of tensors, broadcast together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums are kept in double and rounded once. NaN wins over every number. */
#include "ops/elementwise.h"

typedef struct {
    cm_op_id id;
    int n_in;
    const cm_spread *in;
    cm_tensor *out;
} job;

static void combine_f64(cm_op_id id, double *r, const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        switch (id) {
        case CM_OP_MAX:
            r[i] = v[i] > r[i] || v[i] != v[i] ? v[i] : r[i];
            break;
        case CM_OP_MIN:
            r[i] = v[i] < r[i] || v[i] != v[i] ? v[i] : r[i];
            break;
        default:
            r[i] += v[i];
        }
    }
}

static void combine_i64(cm_op_id id, cm_dtype t, int64_t *r, const int64_t *v, int64_t n)
{
    uint64_t flip = t == CM_U64 ? (uint64_t)1 << 63 : 0; /* unsigned order as signed order */
    for (int64_t i = 0; i < n; i++) {
        bool less = (int64_t)((uint64_t)v[i] ^ flip) < (int64_t)((uint64_t)r[i] ^ flip);
        if (less == (id == CM_OP_MIN))
            r[i] = v[i];
    }
}

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_dtype t = j->out->dtype;
    cm_block r, v;
    unsigned char *dst = (unsigned char *)j->out->data + (size_t)at * cm_dtype_size(t);
    if (cm_dtype_is_float(t)) {
        cm_spread_f64(&j->in[0], at, n, r.f);
        for (int k = 1; k < j->n_in; k++) {
            cm_spread_f64(&j->in[k], at, n, v.f);
            combine_f64(j->id, r.f, v.f, n);
        }
        for (int64_t i = 0; j->id == CM_OP_MEAN && i < n; i++)
            r.f[i] /= j->n_in;
        cm_store_f64(t, r.f, n, dst);
    } else {
        cm_spread_i64(&j->in[0], at, n, r.i);
        for (int k = 1; k < j->n_in; k++) {
            cm_spread_i64(&j->in[k], at, n, v.i);
            combine_i64(j->id, t, r.i, v.i, n);
        }
        cm_store_i64(t, r.i, n, dst);
    }
}

static cm_status eval(cm_eval *e)
{
    cm_spread *in;
    job j = {.id = e->op->id, .out = cm_eval_out(e, 0)};
    CM_NEW_N(e->cx, e->cx->scratch, in, e->n_in, cm_spread);
    for (int i = 0; i < e->n_in; i++)
        if (cm_eval_has(e, i))
            cm_spread_init(&in[j.n_in++], cm_eval_in(e, i), j.out);
    j.in = in;
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

static cm_status infer(cm_infer *f)
{
    cm_dim v[2 * CM_MAX_ELEMS];
    int n;
    bool max = f->op->id == CM_OP_MAX;
    CM_TRY(cm_infer_broadcast(f, 0, 0, f->n_in));
    if (f->n_in > 2 || !cm_infer_elems_together(f, f->n_in, v, &n))
        return CM_OK;
    for (int i = 0; f->n_in == 2 && i < n; i++) {
        cm_dim a = v[i], b = v[CM_MAX_ELEMS + i];
        if (a != b)
            v[i] = max ? cm_dim_max(f->dims, a, b) : cm_dim_min(f->dims, a, b);
    }
    cm_infer_set_elems(f, 0, v, n);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = (double)f->n_in * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_variadic = {
    .name = "variadic", .infer = infer, .eval = eval, .cost = cost};
