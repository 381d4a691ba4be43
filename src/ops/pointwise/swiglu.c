/* swiglu.c -- a gated activation: a sigmoid(alpha a) b.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float alpha;
} swiglu_attr;
CM_ATTRS(swiglu, swiglu_attr, CM_ATTR_FLOAT(swiglu_attr, alpha, 1))

typedef struct {
    const cm_tensor *a, *b;
    cm_tensor *out;
    double alpha;
} job;

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_dtype t = j->out->dtype;
    size_t offset = (size_t)at * cm_dtype_size(t);
    cm_block a, b;
    cm_load_f64(t, (const unsigned char *)j->a->data + offset, n, a.f);
    cm_load_f64(t, (const unsigned char *)j->b->data + offset, n, b.f);
    for (int64_t i = 0; i < n; i++)
        a.f[i] = a.f[i] * cm_sigmoid(j->alpha * a.f[i]) * b.f[i];
    cm_store_f64(t, a.f, n, (unsigned char *)j->out->data + offset);
}

static cm_status eval(cm_eval *e)
{
    job j = {cm_eval_in(e, 0), cm_eval_in(e, 1), cm_eval_out(e, 0),
             (double)((const swiglu_attr *)e->attr)->alpha};
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

static cm_status infer(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1))
        return cm_infer_like(f, 0, cm_infer_ranked(f, 0) ? 0 : 1);
    const cm_type *a = f->in[0].type, *b = f->in[1].type;
    if (a->rank != b->rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "B has rank %d, wanted that of A, %d", b->rank,
                       a->rank);
    for (int i = 0; i < a->rank; i++)
        CM_TRY(cm_infer_equal(f, "an axis of B", b->dims[i], a->dims[i]));
    return cm_infer_like(f, 0, 0);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 14 * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_swiglu = {.name = "swiglu", .infer = infer, .eval = eval, .cost = cost};
