/* pool_global.c -- GlobalAveragePool, GlobalMaxPool, GlobalLpPool: one number a channel.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t p;
} global_lp_pool_attr;

CM_ATTRS(global_lp_pool, global_lp_pool_attr, CM_ATTR_INT(global_lp_pool_attr, p, 2))

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_GLOBAL_LP_POOL) {
        const global_lp_pool_attr *a = f->attr;
        if (a->p < 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "p is %lld, wanted at least 1", (long long)a->p);
    }
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type;
    if (x->rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 2", x->rank);
    cm_dim dims[CM_MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        dims[d] = d < 2 ? x->dims[d] : 1;
    return cm_infer_tensor(f, 0, x->rank, dims);
}

typedef struct {
    cm_op_id op;
    double p;
    const double *x;
    int64_t volume;
    cm_tensor *y;
} job;

static double mean(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double largest(const double *x, int64_t n)
{
    double best = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > best || x[i] != x[i])
            best = x[i];
    return best;
}

static double norm(const double *x, int64_t n, double p)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(x[i]);
        sum += p == 1 ? v : p == 2 ? v * v : cm_pow(v, p);
    }
    return p == 1 ? sum : p == 2 ? sqrt(sum) : cm_pow(sum, 1 / p);
}

static void channels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        const double *x = j->x + i * j->volume;
        double v = j->op == CM_OP_GLOBAL_AVERAGE_POOL ? mean(x, j->volume)
                   : j->op == CM_OP_GLOBAL_MAX_POOL   ? largest(x, j->volume)
                                                      : norm(x, j->volume, j->p);
        cm_set_f64(j->y->dtype, j->y->data, i, v);
    }
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.op = e->op->id, .y = cm_eval_out(e, 0)};
    if (j.op == CM_OP_GLOBAL_LP_POOL)
        j.p = (double)((const global_lp_pool_attr *)e->attr)->p;
    j.volume = cm_dims_product(x->dims, 2, x->rank);
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    cm_parallel(e->threads, x->dims[0] * x->dims[1], 16, channels, &j);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_pool_global = {
    .name = "pool_global", .infer = infer, .eval = eval, .cost = cost};
