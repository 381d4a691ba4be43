/* window.c -- Hann, Hamming and Blackman windows; the mel filter bank.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t output_datatype, periodic;
} window_attr;
CM_ATTRS(blackman_window, window_attr, CM_ATTR_INT(window_attr, output_datatype, CM_F32),
         CM_ATTR_INT(window_attr, periodic, 1))
CM_ATTRS(hamming_window, window_attr, CM_ATTR_INT(window_attr, output_datatype, CM_F32),
         CM_ATTR_INT(window_attr, periodic, 1))
CM_ATTRS(hann_window, window_attr, CM_ATTR_INT(window_attr, output_datatype, CM_F32),
         CM_ATTR_INT(window_attr, periodic, 1))

typedef struct {
    uint64_t present;
    int64_t output_datatype;
} mel_attr;
CM_ATTRS(mel_weight_matrix, mel_attr, CM_ATTR_INT(mel_attr, output_datatype, CM_F32))

static cm_status output_dtype(cm_infer *f, int64_t number, cm_dtype *out)
{
    const int t = number > 0 && number < CM_DTYPE_COUNT ? (int)number : 0;
    if (!cm_dtype_valid(t) || t == CM_STR || t == CM_BOOL ||
        cm_dtype_get((cm_dtype)t)->kind == CM_KIND_COMPLEX)
        return cm_fail(f->cx, CM_ERR_MODEL, "output_datatype %lld is not numeric",
                       (long long)number);
    *out = (cm_dtype)t;
    return CM_OK;
}

/* Input i, a scalar, as a dim: a number or an expression; a fresh symbol when it is not known. */
static cm_status scalar_dim(cm_infer *f, int i, const char *what, cm_dim *out)
{
    int n = 0;
    cm_dim v[CM_MAX_ELEMS];
    if (!cm_infer_elems(f, i, v, &n)) {
        *out = cm_infer_fresh(f, what);
        return *out == CM_DIM_ERROR ? cm_fail_memory(f->cx) : CM_OK;
    }
    if (n != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "input %d has %d elements, wanted one", i, n);
    int64_t number;
    if (cm_infer_const(f, v[0], &number) && number < 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s is %lld", what, (long long)number);
    *out = v[0];
    return CM_OK;
}

static cm_status infer_mel(cm_infer *f)
{
    const mel_attr *a = f->attr;
    cm_dtype dtype;
    cm_dim dims[2];
    CM_TRY(output_dtype(f, a->output_datatype, &dtype));
    CM_TRY(scalar_dim(f, 0, "num_mel_bins", &dims[1]));
    CM_TRY(scalar_dim(f, 1, "dft_length", &dims[0]));
    dims[0] = cm_infer_add(f, cm_infer_floor_div(f, dims[0], 2), 1);
    return cm_infer_typed(f, 0, dtype, 2, dims);
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_MEL_WEIGHT_MATRIX)
        return infer_mel(f);
    const window_attr *a = f->attr;
    cm_dtype dtype;
    cm_dim size;
    CM_TRY(output_dtype(f, a->output_datatype, &dtype));
    CM_TRY(scalar_dim(f, 0, "size", &size));
    return cm_infer_typed(f, 0, dtype, 1, &size);
}

static double window_at(cm_op_id op, double angle)
{
    switch (op) {
    case CM_OP_HANN_WINDOW:
        return 0.5 - 0.5 * cm_cos(angle);
    case CM_OP_HAMMING_WINDOW:
        return 25.0 / 46.0 - 21.0 / 46.0 * cm_cos(angle);
    default:
        return 0.42 - 0.5 * cm_cos(angle) + 0.08 * cm_cos(2 * angle);
    }
}

static cm_status eval_window(cm_eval *e)
{
    const window_attr *a = e->attr;
    cm_tensor *out = cm_eval_out(e, 0);
    const int64_t n = out->dims[0], period = a->periodic ? n : n - 1;
    for (int64_t i = 0; i < n; i++)
        cm_set_f64(out->dtype, out->data, i,
                   window_at(e->op->id, 2 * M_PI * (double)i / (double)period));
    return CM_OK;
}

static double to_mel(double hertz)
{
    return 2595 * cm_log10(1 + hertz / 700);
}

static double from_mel(double mel)
{
    return 700 * (cm_pow(10, mel / 2595) - 1);
}

/* The spectrogram bin of edge i of n + 2, kept to what a bin can be. */
static int64_t edge_bin(double low, double high, int64_t i, int64_t n, int64_t dft_length,
                        double sample_rate)
{
    const double mel = low + (double)i * (high - low) / (double)(n + 2);
    const double bin = floor(((double)dft_length + 1) * from_mel(mel) / sample_rate);
    return bin > 0 ? (bin < 1e15 ? (int64_t)bin : (int64_t)1e15) : 0;
}

static cm_status eval_mel(cm_eval *e)
{
    cm_tensor *out = cm_eval_out(e, 0);
    const int64_t n_bins = out->dims[0], n_mel = out->dims[1], dft_length = cm_eval_int(e, 1, 0);
    for (int i = 2; i < 5; i++)
        if (cm_tensor_elems(cm_eval_in(e, i)) != 1)
            return cm_fail(e->cx, CM_ERR_DATA, "input %d is not a scalar", i);
    const double rate = (double)cm_eval_int(e, 2, 0);
    const double low = to_mel(cm_eval_f64(e, 3, 0)), high = to_mel(cm_eval_f64(e, 4, 0));
    if (rate <= 0)
        return cm_fail(e->cx, CM_ERR_DATA, "sample_rate is %g, wanted a positive number", rate);
    memset(out->data, 0, (size_t)(n_bins * n_mel) * cm_dtype_size(out->dtype));
    for (int64_t m = 0; m < n_mel; m++) {
        const int64_t from = edge_bin(low, high, m, n_mel, dft_length, rate);
        const int64_t peak = edge_bin(low, high, m + 1, n_mel, dft_length, rate);
        const int64_t to = edge_bin(low, high, m + 2, n_mel, dft_length, rate);
        if (peak == from && peak < n_bins)
            cm_set_f64(out->dtype, out->data, peak * n_mel + m, 1);
        for (int64_t j = from; j <= peak && j < n_bins && peak > from; j++)
            cm_set_f64(out->dtype, out->data, j * n_mel + m,
                       (double)(j - from) / (double)(peak - from));
        for (int64_t j = peak; j < to && j < n_bins; j++)
            cm_set_f64(out->dtype, out->data, j * n_mel + m,
                       (double)(to - j) / (double)(to - peak));
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    return e->op->id == CM_OP_MEL_WEIGHT_MATRIX ? eval_mel(e) : eval_window(e);
}

const cm_family cm_family_window = {.name = "window", .infer = infer, .eval = eval};
