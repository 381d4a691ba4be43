/* argreduce.c -- where along an axis the largest or smallest element is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NaN counts as the extreme, as in numpy. */
#include "ops/elementwise.h"

typedef struct {
    uint64_t present;
    int64_t axis, keepdims, select_last_index;
} arg_attr;

#define ARG_ATTRS(id)                                                                              \
    CM_ATTRS(id, arg_attr, CM_ATTR_INT(arg_attr, axis, 0), CM_ATTR_INT(arg_attr, keepdims, 1),     \
             CM_ATTR_INT(arg_attr, select_last_index, 0))
ARG_ATTRS(arg_max)
ARG_ATTRS(arg_min)

typedef struct {
    const cm_tensor *in;
    int64_t *out;
    bool max, last;
    int64_t n, inner; /* elements along the axis; elements from one to the next */
} job;

/* Does v take the place of best? */
static bool better_f64(const job *j, double v, double best)
{
    if (best != best)
        return j->last && v != v;
    if (v != v)
        return true;
    return (j->max ? v > best : v < best) || (j->last && v == best);
}

static bool better_i64(const job *j, int64_t v, int64_t best)
{
    if (v == best)
        return j->last;
    bool greater = j->in->dtype == CM_U64 ? (uint64_t)v > (uint64_t)best : v > best;
    return greater == j->max;
}

static void load(const job *j, int64_t from, int64_t n, cm_block *v)
{
    cm_dtype t = j->in->dtype;
    const void *src = (const unsigned char *)j->in->data + (size_t)from * cm_dtype_size(t);
    if (cm_dtype_is_float(t))
        cm_load_f64(t, src, n, v->f);
    else
        cm_load_i64(t, src, n, v->i);
}

/* Element k of the axis, v[i], against the best of those before it. */
static void challenge(const job *j, const cm_block *v, int64_t i, cm_block *best, int64_t o,
                      int64_t k, int64_t *out)
{
    bool wins = k == 0 || (cm_dtype_is_float(j->in->dtype) ? better_f64(j, v->f[i], best->f[o])
                                                           : better_i64(j, v->i[i], best->i[o]));
    if (!wins)
        return;
    best->i[o] = v->i[i]; /* the same bits whichever it is */
    *out = k;
}

/* Outputs [begin, end): along a contiguous axis one by one, else as many as lie side by side. */
static void compute(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_block best, v;
    for (int64_t at = begin; at < end && j->inner == 1; at++) {
        for (int64_t k = 0; k < j->n; k += CM_BLOCK) {
            int64_t n = j->n - k < CM_BLOCK ? j->n - k : CM_BLOCK;
            load(j, at * j->n + k, n, &v);
            for (int64_t i = 0; i < n; i++)
                challenge(j, &v, i, &best, 0, k + i, &j->out[at]);
        }
    }
    for (int64_t at = begin; at < end && j->inner > 1;) {
        int64_t row = at / j->inner, col = at % j->inner, n = j->inner - col;
        n = n < end - at ? n : end - at;
        n = n < CM_BLOCK ? n : CM_BLOCK;
        for (int64_t k = 0; k < j->n; k++) {
            load(j, (row * j->n + k) * j->inner + col, n, &v);
            for (int64_t i = 0; i < n; i++)
                challenge(j, &v, i, &best, i, k, &j->out[at + i]);
        }
        at += n;
    }
}

static cm_status eval(cm_eval *e)
{
    const arg_attr *a = e->attr;
    cm_tensor *out = cm_eval_out(e, 0);
    job j = {.in = cm_eval_in(e, 0),
             .out = out->data,
             .max = e->op->id == CM_OP_ARG_MAX,
             .last = a->select_last_index != 0,
             .n = 1,
             .inner = 1};
    int64_t n_out = cm_tensor_elems(out);
    if (n_out == 0)
        return CM_OK;
    if (j.in->rank) {
        int axis;
        CM_TRY(cm_axis(e->cx, a->axis, j.in->rank, &axis));
        j.n = j.in->dims[axis];
        j.inner = cm_dims_product(j.in->dims, axis + 1, j.in->rank);
    }
    if (j.n == 0)
        return cm_fail(e->cx, CM_ERR_DATA, "axis %lld is empty: it has no extreme element",
                       (long long)a->axis);
    cm_parallel(e->threads, n_out, j.n < 4096 ? 4096 / j.n + 1 : 1, compute, &j);
    return cm_check_cancel(e->cx);
}

static cm_status infer(cm_infer *f)
{
    const arg_attr *a = f->attr;
    cm_dim dims[CM_MAX_RANK];
    int axis, rank = 0;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *in = f->in[0].type;
    if (in->rank == 0 && (a->axis == 0 || a->axis == -1)) /* a scalar stands for one element */
        return cm_infer_tensor(f, 0, 0, NULL);
    CM_TRY(cm_axis(f->cx, a->axis, in->rank, &axis));
    for (int i = 0; i < in->rank; i++) {
        if (i != axis)
            dims[rank++] = in->dims[i];
        else if (a->keepdims)
            dims[rank++] = 1;
    }
    return cm_infer_tensor(f, 0, rank, dims);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_argreduce = {
    .name = "argreduce", .infer = infer, .eval = eval, .cost = cost};
