/* dropout.c -- in training, elements zeroed at random and the others scaled up; else a copy.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/pointwise/random.h"

typedef struct {
    uint64_t present;
    int64_t seed;
} dropout_attr;
CM_ATTRS(dropout, dropout_attr, CM_ATTR_INT(dropout_attr, seed, 0))

typedef struct {
    const cm_tensor *in;
    cm_tensor *out, *mask; /* NULL: nobody reads it */
    uint64_t key;
    double ratio;
} job;

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_dtype t = j->in->dtype;
    size_t offset = (size_t)at * cm_dtype_size(t);
    double v[CM_BLOCK];
    bool kept[CM_BLOCK];
    cm_load_f64(t, (const unsigned char *)j->in->data + offset, n, v);
    for (int64_t i = 0; i < n; i++) {
        kept[i] = cm_random_unit(j->key, (uint64_t)(at + i)) >= j->ratio;
        v[i] = kept[i] ? v[i] / (1 - j->ratio) : 0;
    }
    if (j->out)
        cm_store_f64(t, v, n, (unsigned char *)j->out->data + offset);
    if (j->mask)
        memcpy((bool *)j->mask->data + at, kept, (size_t)n);
}

static cm_status eval(cm_eval *e)
{
    const dropout_attr *a = e->attr;
    bool training = cm_eval_has(e, 2) && cm_eval_int(e, 2, 0) != 0;
    job j = {.in = cm_eval_in(e, 0), .ratio = cm_eval_has(e, 1) ? cm_eval_f64(e, 1, 0) : 0.5};
    int64_t n = cm_tensor_elems(j.in);
    j.out = cm_eval_wants(e, 0) ? cm_eval_out(e, 0) : NULL;
    j.mask = cm_eval_wants(e, 1) ? cm_eval_out(e, 1) : NULL;
    if (training && !(j.ratio >= 0 && j.ratio < 1))
        return cm_fail(e->cx, CM_ERR_DATA, "ratio is %g, wanted a number in [0, 1)", j.ratio);
    if (!training || j.ratio == 0) {
        if (j.out && n)
            memcpy(j.out->data, j.in->data, (size_t)n * cm_dtype_size(j.in->dtype));
        if (j.mask && n)
            memset(j.mask->data, 1, (size_t)n);
        return CM_OK;
    }
    j.key = cm_attr_has(e->op->attrs, a, "seed") ? cm_random_seed_key((uint64_t)a->seed)
                                                 : cm_random_key(e->random);
    return cm_eval_blocks(e, n, compute, &j);
}

static cm_status infer(cm_infer *f)
{
    static const char *const names[] = {"", "ratio", "training_mode"};
    int64_t d;
    for (int i = 1; i <= 2; i++) {
        if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i))
            continue;
        for (int k = 0; k < f->in[i].type->rank; k++)
            if (cm_infer_const(f, f->in[i].type->dims[k], &d) && d != 1)
                return cm_fail(f->cx, CM_ERR_MODEL, "%s is not a scalar", names[i]);
    }
    CM_TRY(cm_infer_like(f, 0, 0));
    if (f->n_out < 2)
        return CM_OK;
    f->out[1].type.kind = CM_TENSOR;
    f->out[1].type.dtype = CM_BOOL;
    return cm_infer_like(f, 1, 0);
}

const cm_family cm_family_dropout = {.name = "dropout", .infer = infer, .eval = eval};
