/* ms_fft.c -- com.microsoft Rfft and Irfft over the last axes, one-sided, without normalisation.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     Rfft   [..., n] to [..., n/2 + 1, 2]         Irfft   the way back: n is even
 *
 * One signal axis; the transform is the sum that defines it. */
#include "ops/eval.h"

#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t normalized, onesided, signal_ndim;
} fft_attr;

CM_ATTRS(ms_fft, fft_attr, CM_ATTR_INT(fft_attr, normalized, 0), CM_ATTR_INT(fft_attr, onesided, 1),
         CM_ATTR_INT(fft_attr, signal_ndim, 1))

static cm_status infer(cm_infer *f)
{
    const fft_attr *a = f->attr;
    bool inverse = f->op->id == CM_OP_MS_IRFFT;
    if (a->normalized || !a->onesided || a->signal_ndim != 1)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED,
                       "a transform that is normalised, two-sided or of %lld axes",
                       (long long)a->signal_ndim);
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, 0);
    cm_dim dims[CM_MAX_RANK];
    CM_TRY(cm_expect_rank(f, 0, "X", inverse ? 2 : 1, CM_MAX_RANK - 1));
    for (int d = 0; d < rank; d++)
        dims[d] = cm_infer_dim(f, 0, d);
    if (inverse) {
        CM_TRY(cm_infer_equal(f, "the last axis", dims[rank - 1], 2));
        dims[rank - 2] = cm_infer_mul(f, cm_infer_sub(f, dims[rank - 2], 1), 2);
        int64_t n;
        if (cm_infer_const(f, dims[rank - 2], &n) && n < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "a spectrum of no frequencies");
        return cm_infer_tensor(f, 0, rank - 1, dims);
    }
    dims[rank - 1] = cm_infer_add(f, cm_infer_floor_div(f, dims[rank - 1], 2), 1);
    dims[rank] = 2;
    return cm_infer_tensor(f, 0, rank + 1, dims);
}

/* Cosine and sine of m/n of a turn, exact at the quarters. */
static void turn(int64_t m, int64_t n, double *c, double *s)
{
    if (4 * m % n == 0) {
        static const double quarters[] = {1, 0, -1, 0, 1};
        *c = quarters[4 * m / n % 4];
        *s = quarters[(4 * m / n + 3) % 4];
        return;
    }
    double angle = 6.28318530717958647692 * (double)m / (double)n;
    *c = cm_cos(angle);
    *s = cm_sin(angle);
}

static void forward(const double *x, int64_t n, double *re, double *im, int64_t k)
{
    *re = *im = 0;
    for (int64_t t = 0; t < n; t++) {
        double c, s;
        turn(k * t % n, n, &c, &s);
        *re += x[t] * c;
        *im -= x[t] * s;
    }
}

/* Frequencies between the first and the last count twice: their mirror images are left out. */
static double backward(const double *x, int64_t n, int64_t t)
{
    double sum = 0;
    for (int64_t k = 0; k <= n / 2; k++) {
        double c, s;
        turn(k * t % n, n, &c, &s);
        double v = x[2 * k] * c - x[2 * k + 1] * s;
        sum += k == 0 || 2 * k == n ? v : 2 * v;
    }
    return sum / (double)n;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *tx = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    bool inverse = e->op->id == CM_OP_MS_IRFFT;
    int64_t n = inverse ? y->dims[y->rank - 1] : tx->dims[tx->rank - 1], bins = n / 2 + 1;
    const double *x;
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    int64_t out = inverse ? n : bins, rows = out ? cm_tensor_elems(y) / out / (inverse ? 1 : 2) : 0;
    for (int64_t i = 0; i < rows; i++) {
        CM_TRY(cm_check_cancel(e->cx));
        for (int64_t k = 0; k < out; k++) {
            double v[2];
            if (inverse)
                v[0] = backward(x + i * bins * 2, n, k);
            else
                forward(x + i * n, n, &v[0], &v[1], k);
            for (int j = 0; j < (inverse ? 1 : 2); j++)
                cm_set_f64(y->dtype, y->data, inverse ? i * n + k : (i * bins + k) * 2 + j, v[j]);
        }
    }
    return CM_OK;
}

const cm_family cm_family_ms_fft = {.name = "ms_fft", .infer = infer, .eval = eval};
