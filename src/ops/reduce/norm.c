/* norm.c -- LayerNormalization, RMSNormalization, GroupNormalization and InstanceNormalization:
 * runs of consecutive elements share their statistics.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/reduce/lanes.h"

typedef struct {
    uint64_t present;
    int64_t axis;
    float epsilon;
    int64_t stash_type;
} layer_attr;

typedef struct {
    uint64_t present;
    float epsilon;
    int64_t num_groups, stash_type;
} group_attr;

typedef struct {
    uint64_t present;
    float epsilon;
} instance_attr;

CM_ATTRS(layer_normalization, layer_attr, CM_ATTR_INT(layer_attr, axis, -1),
         CM_ATTR_FLOAT(layer_attr, epsilon, 1e-5f), CM_ATTR_INT(layer_attr, stash_type, 1))
CM_ATTRS(rms_normalization, layer_attr, CM_ATTR_INT(layer_attr, axis, -1),
         CM_ATTR_FLOAT(layer_attr, epsilon, 1e-5f), CM_ATTR_INT(layer_attr, stash_type, 1))
CM_ATTRS(group_normalization, group_attr, CM_ATTR_FLOAT(group_attr, epsilon, 1e-5f),
         CM_ATTR_INT_REQUIRED(group_attr, num_groups), CM_ATTR_INT(group_attr, stash_type, 1))
CM_ATTRS(instance_normalization, instance_attr, CM_ATTR_FLOAT(instance_attr, epsilon, 1e-5f))

/* Input i must broadcast to the shape of X. */
static cm_status check_broadcast(cm_infer *f, int i)
{
    if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i))
        return CM_OK;
    const cm_type *x = f->in[0].type, *s = f->in[i].type;
    if (s->rank > x->rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, more than the %d of input 0", i,
                       s->rank, x->rank);
    for (int k = 1; k <= s->rank; k++)
        if (s->dims[s->rank - k] != 1)
            CM_TRY(cm_infer_equal(f, "scale or bias broadcast to the input", s->dims[s->rank - k],
                                  x->dims[x->rank - k]));
    return CM_OK;
}

static cm_status infer_layer(cm_infer *f)
{
    const layer_attr *a = f->attr;
    const cm_type *x = f->in[0].type;
    int axis;
    CM_TRY(cm_infer_like(f, 0, 0));
    if (f->op->id == CM_OP_LAYER_NORMALIZATION) {
        if (a->stash_type != CM_F32 && a->stash_type != CM_BF16 && a->stash_type != CM_F16 &&
            a->stash_type != CM_F64)
            return cm_fail(f->cx, CM_ERR_MODEL, "stash_type is %lld, wanted 1 or 16",
                           (long long)a->stash_type);
        for (int o = 1; o < f->n_out; o++) {
            f->out[o].type.dtype = (cm_dtype)a->stash_type;
            cm_infer_unknown(f, o);
        }
    }
    if (!cm_infer_ranked(f, 0))
        return CM_OK;
    CM_TRY(cm_axis(f->cx, a->axis, x->rank, &axis));
    CM_TRY(check_broadcast(f, 1));
    if (f->op->id == CM_OP_RMS_NORMALIZATION)
        return CM_OK;
    CM_TRY(check_broadcast(f, 2));
    cm_dim dims[CM_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        dims[d] = d < axis ? x->dims[d] : 1;
    CM_TRY(cm_infer_tensor(f, 1, x->rank, dims));
    return cm_infer_tensor(f, 2, x->rank, dims);
}

static cm_status infer_channels(cm_infer *f)
{
    const cm_type *x = f->in[0].type;
    CM_TRY(cm_infer_like(f, 0, 0));
    int64_t groups = 1, c;
    if (f->op->id == CM_OP_GROUP_NORMALIZATION)
        groups = ((const group_attr *)f->attr)->num_groups;
    if (groups < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_groups is %lld, wanted at least 1",
                       (long long)groups);
    if (!cm_infer_ranked(f, 0))
        return CM_OK;
    if (x->rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 2", x->rank);
    if (cm_infer_const(f, x->dims[1], &c) && c % groups != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_groups=%lld does not divide %lld channels",
                       (long long)groups, (long long)c);
    for (int i = 1; i < 3; i++) {
        if (!cm_infer_ranked(f, i))
            continue;
        if (cm_infer_rank(f, i) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted 1", i,
                           cm_infer_rank(f, i));
        CM_TRY(cm_infer_equal(f, "elements of scale and bias", cm_infer_dim(f, i, 0), x->dims[1]));
    }
    return CM_OK;
}

static bool is_layer(cm_op_id op)
{
    return op == CM_OP_LAYER_NORMALIZATION || op == CM_OP_RMS_NORMALIZATION;
}

static cm_status infer(cm_infer *f)
{
    return is_layer(f->op->id) ? infer_layer(f) : infer_channels(f);
}

/* Scale or bias, and how its index moves with an element's coordinates. */
typedef struct {
    const double *v; /* NULL: none */
    int64_t strides[CM_MAX_RANK];
} factor;

typedef struct {
    cm_op_id op;
    const cm_tensor *x;
    double *v, *mean, *inverse; /* mean, inverse: one a row, NULL: not wanted */
    int64_t row;
    double epsilon;
    factor scale, bias;
} job;

/* v[first .. first + row) of the tensor: times scale plus bias. */
static void affine(const job *j, int64_t first)
{
    const cm_tensor *x = j->x;
    int64_t index[CM_MAX_RANK], left = first;
    for (int d = x->rank - 1; d >= 0; d--) {
        index[d] = left % x->dims[d];
        left /= x->dims[d];
    }
    for (int64_t i = first; i < first + j->row; i++) {
        int64_t s = 0, b = 0;
        for (int d = 0; d < x->rank; d++) {
            s += index[d] * j->scale.strides[d];
            b += index[d] * j->bias.strides[d];
        }
        j->v[i] *= j->scale.v[s];
        if (j->bias.v)
            j->v[i] += j->bias.v[b];
        for (int d = x->rank - 1; d >= 0 && ++index[d] == x->dims[d]; d--)
            index[d] = 0;
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t r = begin; r < end; r++) {
        double *v = j->v + r * j->row, mean = 0, square = 0;
        for (int64_t i = 0; i < j->row && j->op != CM_OP_RMS_NORMALIZATION; i++)
            mean += v[i];
        mean /= (double)j->row;
        for (int64_t i = 0; i < j->row; i++)
            square += (v[i] - mean) * (v[i] - mean);
        double deviation = sqrt(square / (double)j->row + j->epsilon);
        for (int64_t i = 0; i < j->row; i++)
            v[i] = (v[i] - mean) / deviation;
        if (j->mean)
            j->mean[r] = mean;
        if (j->inverse)
            j->inverse[r] = 1 / deviation;
        affine(j, r * j->row);
    }
}

/* Rows, epsilon, and how scale and bias lie, by operator. */
static cm_status set_up(cm_eval *e, job *j)
{
    const cm_tensor *x = j->x;
    if (is_layer(j->op)) {
        const layer_attr *a = e->attr;
        int axis;
        CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
        j->epsilon = a->epsilon;
        j->row = cm_dims_product(x->dims, axis, x->rank);
        cm_broadcast_strides(cm_eval_in(e, 1), x->rank, x->dims, j->scale.strides);
        if (cm_eval_has(e, 2))
            cm_broadcast_strides(cm_eval_in(e, 2), x->rank, x->dims, j->bias.strides);
        return CM_OK;
    }
    int64_t groups = x->dims[1];
    if (j->op == CM_OP_GROUP_NORMALIZATION) {
        groups = ((const group_attr *)e->attr)->num_groups;
        j->epsilon = ((const group_attr *)e->attr)->epsilon;
    } else {
        j->epsilon = ((const instance_attr *)e->attr)->epsilon;
    }
    j->row = cm_dims_product(x->dims, 1, x->rank) / (groups ? groups : 1);
    j->scale.strides[1] = j->bias.strides[1] = 1;
    return CM_OK;
}

static cm_status wanted_stat(cm_eval *e, int o, double **out)
{
    if (!cm_eval_wants(e, o))
        return CM_OK;
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(cm_eval_out(e, o)), sizeof(double), &p));
    *out = p;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    job j = {.op = e->op->id, .x = cm_eval_in(e, 0)};
    CM_TRY(set_up(e, &j));
    CM_TRY(cm_eval_copy_f64(e, 0, &j.v));
    CM_TRY(cm_eval_as_f64(e, 1, &j.scale.v));
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &j.bias.v));
    CM_TRY(wanted_stat(e, 1, &j.mean));
    CM_TRY(wanted_stat(e, 2, &j.inverse));
    int64_t n = cm_tensor_elems(j.x);
    if (n > 0)
        cm_parallel(e->threads, n / j.row, 4, rows, &j);
    if (cm_eval_wants(e, 0))
        cm_eval_store_f64(e, 0, j.v);
    if (j.mean)
        cm_eval_store_f64(e, 1, j.mean);
    if (j.inverse)
        cm_eval_store_f64(e, 2, j.inverse);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 8 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_norm = {.name = "norm", .infer = infer, .eval = eval, .cost = cost};
