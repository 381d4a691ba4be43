/* clip.c -- elements kept between two bounds, each of which may be absent.
 * SPDX-License-Identifier: Apache-2.0
 *
 * min(high, max(x, low)): the upper bound wins where the two cross. NaN stays. */
#include "ops/elementwise.h"

typedef struct {
    const cm_tensor *in, *low, *high; /* low, high: NULL when absent */
    cm_tensor *out;
} job;

static void clip_f64(const job *j, double *v, int64_t n)
{
    double low = j->low ? cm_get_f64(j->low->dtype, j->low->data, 0) : 0;
    double high = j->high ? cm_get_f64(j->high->dtype, j->high->data, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (j->low && (v[i] < low || low != low))
            v[i] = low;
        if (j->high && (v[i] > high || high != high))
            v[i] = high;
    }
}

static void clip_i64(const job *j, int64_t *v, int64_t n)
{
    uint64_t flip = j->in->dtype == CM_U64 ? (uint64_t)1 << 63 : 0; /* unsigned order as signed */
    int64_t low = j->low ? cm_get_i64(j->low->dtype, j->low->data, 0) : 0;
    int64_t high = j->high ? cm_get_i64(j->high->dtype, j->high->data, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (j->low && (int64_t)((uint64_t)v[i] ^ flip) < (int64_t)((uint64_t)low ^ flip))
            v[i] = low;
        if (j->high && (int64_t)((uint64_t)v[i] ^ flip) > (int64_t)((uint64_t)high ^ flip))
            v[i] = high;
    }
}

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_dtype t = j->in->dtype;
    size_t offset = (size_t)at * cm_dtype_size(t);
    const unsigned char *src = (const unsigned char *)j->in->data + offset;
    unsigned char *dst = (unsigned char *)j->out->data + offset;
    cm_block b;
    if (cm_dtype_is_float(t)) {
        cm_load_f64(t, src, n, b.f);
        clip_f64(j, b.f, n);
        cm_store_f64(t, b.f, n, dst);
    } else {
        cm_load_i64(t, src, n, b.i);
        clip_i64(j, b.i, n);
        cm_store_i64(t, b.i, n, dst);
    }
}

static cm_status eval(cm_eval *e)
{
    job j = {.in = cm_eval_in(e, 0), .out = cm_eval_out(e, 0)};
    j.low = cm_eval_has(e, 1) ? cm_eval_in(e, 1) : NULL;
    j.high = cm_eval_has(e, 2) ? cm_eval_in(e, 2) : NULL;
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

/* A bound is a scalar; a tensor of one element is taken too. */
static cm_status check_bound(cm_infer *f, int i, const char *name)
{
    int64_t v;
    if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i))
        return CM_OK;
    for (int a = 0; a < f->in[i].type->rank; a++)
        if (cm_infer_const(f, f->in[i].type->dims[a], &v) && v != 1)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "%s has rank %d and %lld at axis %d, wanted a scalar", name,
                           f->in[i].type->rank, (long long)v, a);
    return CM_OK;
}

static void track(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS], low[CM_MAX_ELEMS], high[CM_MAX_ELEMS];
    int n, one;
    if (!cm_infer_elems_together(f, 1, v, &n))
        return;
    if (cm_infer_has(f, 1) && (!cm_infer_elems(f, 1, low, &one) || one != 1))
        return;
    if (cm_infer_has(f, 2) && (!cm_infer_elems(f, 2, high, &one) || one != 1))
        return;
    for (int i = 0; i < n; i++) {
        if (cm_infer_has(f, 1))
            v[i] = cm_dim_max(f->dims, v[i], low[0]);
        if (cm_infer_has(f, 2))
            v[i] = cm_dim_min(f->dims, v[i], high[0]);
    }
    cm_infer_set_elems(f, 0, v, n);
}

static cm_status infer(cm_infer *f)
{
    CM_TRY(check_bound(f, 1, "min"));
    CM_TRY(check_bound(f, 2, "max"));
    CM_TRY(cm_infer_like(f, 0, 0));
    track(f);
    return CM_OK;
}

const cm_family cm_family_clip = {.name = "clip", .infer = infer, .eval = eval};
