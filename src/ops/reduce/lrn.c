/* lrn.c -- LRN: local response normalisation across neighbouring channels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include "base/size.h"
#include "ops/reduce/lanes.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float alpha, beta, bias;
    int64_t size;
} lrn_attr;

CM_ATTRS(lrn, lrn_attr, CM_ATTR_FLOAT(lrn_attr, alpha, 0.0001f),
         CM_ATTR_FLOAT(lrn_attr, beta, 0.75f), CM_ATTR_FLOAT(lrn_attr, bias, 1),
         CM_ATTR_INT_REQUIRED(lrn_attr, size))

static cm_status infer(cm_infer *f)
{
    const lrn_attr *a = f->attr;
    if (a->size < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "size is %lld, wanted at least 1", (long long)a->size);
    if (cm_infer_ranked(f, 0) && cm_infer_rank(f, 0) < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 2",
                       cm_infer_rank(f, 0));
    return cm_infer_like(f, 0, 0);
}

typedef struct {
    const lrn_attr *a;
    const double *x;
    double *y;
    cm_lanes channels;
} job;

/* Item i is one channel of one image. */
static void channels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const lrn_attr *a = j->a;
    int64_t count = j->channels.n, inner = j->channels.inner;
    for (int64_t item = begin; item < end; item++) {
        int64_t c = item % count;
        int64_t before = (a->size - 1) / 2, after = a->size - 1 - before;
        int64_t low = c > before ? c - before : 0,
                high = after < count - 1 - c ? c + after : count - 1;
        const double *image = j->x + (item - c) * inner;
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t k = low; k <= high; k++)
                sum += image[k * inner + i] * image[k * inner + i];
            double base = (double)a->bias + (double)a->alpha / (double)a->size * sum;
            j->y[item * inner + i] = j->x[item * inner + i] / cm_pow(base, a->beta);
        }
    }
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.a = e->attr, .channels = cm_lanes_of(x, 1)};
    void *p;
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(x), sizeof(double), &p));
    j.y = p;
    cm_parallel(e->threads, j.channels.outer * j.channels.n, 1, channels, &j);
    cm_eval_store_f64(e, 0, j.y);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const lrn_attr *a = f->attr;
    c->ops = (2 * (double)a->size + 4) * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_lrn = {.name = "lrn", .infer = infer, .eval = eval, .cost = cost};
