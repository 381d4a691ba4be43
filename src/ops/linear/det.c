/* det.c -- Det: determinants of a batch of square matrices, by elimination with pivots.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/reduce/lanes.h"

static cm_status infer(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type;
    if (x->rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 2", x->rank);
    CM_TRY(cm_infer_equal(f, "columns of a square matrix", x->dims[x->rank - 1],
                          x->dims[x->rank - 2]));
    return cm_infer_tensor(f, 0, x->rank - 2, x->dims);
}

static void swap_rows(double *a, double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

/* Destroys m. */
static double determinant(double *m, int64_t n)
{
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(m[i * n + k]) > fabs(m[pivot * n + k]))
                pivot = i;
        if (pivot != k) {
            swap_rows(m + pivot * n, m + k * n, n);
            det = -det;
        }
        double top = m[k * n + k];
        det *= top;
        if (top == 0)
            return det;
        for (int64_t i = k + 1; i < n; i++) {
            double factor = m[i * n + k] / top;
            for (int64_t j = k + 1; j < n; j++)
                m[i * n + j] -= factor * m[k * n + j];
        }
    }
    return det;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t n = x->dims[x->rank - 1], batch = cm_dims_product(x->dims, 0, x->rank - 2);
    double *m;
    CM_TRY(cm_eval_copy_f64(e, 0, &m));
    for (int64_t b = 0; b < batch; b++) {
        CM_TRY(cm_check_cancel(e->cx));
        cm_set_f64(y->dtype, y->data, b, determinant(m + b * n * n, n));
    }
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    int rank = cm_infer_rank(f, 0);
    double n = rank > 0 ? cm_infer_extent(f, cm_infer_dim(f, 0, rank - 1)) : 1;
    c->ops = 2.0 / 3 * n * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_det = {.name = "det", .infer = infer, .eval = eval, .cost = cost};
