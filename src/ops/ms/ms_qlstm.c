/* ms_qlstm.c -- com.microsoft DynamicQuantizeLSTM: LSTM whose weights are quantised.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights lie transposed, [directions, size, 4*hidden], with a scale and a zero point per direction
 * or per column. The inputs as a whole, and the hidden state of each step, are quantised too. */
#include "ops/attention/rnn.h"

#include "ops/expect.h"

CM_ATTRS(ms_dynamic_quantize_lstm, cm_rnn_attr, CM_ATTR_FLOATS(cm_rnn_attr, activation_alpha, 0),
         CM_ATTR_FLOATS(cm_rnn_attr, activation_beta, 0), CM_ATTR_STRS(cm_rnn_attr, activations, 0),
         CM_ATTR_FLOAT(cm_rnn_attr, clip, 0), CM_ATTR_STR(cm_rnn_attr, direction, "forward"),
         CM_ATTR_INT(cm_rnn_attr, hidden_size, 0), CM_ATTR_INT(cm_rnn_attr, layout, 0),
         CM_ATTR_INT(cm_rnn_attr, input_forget, 0))

enum { W = 1, R = 2, W_SCALE = 8, W_ZERO, R_SCALE, R_ZERO };

static const cm_rnn_places transposed = {.transposed = true, .dynamic = true};

/* [directions], or [directions, columns] */
static cm_status check_param(cm_infer *f, int p, const char *name, int w)
{
    CM_TRY(cm_expect_rank(f, p, name, 1, 2));
    if (!cm_expect_known(f, p) || !cm_expect_known(f, w))
        return CM_OK;
    cm_dim want[] = {cm_infer_dim(f, w, 0), cm_infer_dim(f, w, 2)};
    return cm_expect_shape(f, p, name, cm_infer_rank(f, p), want);
}

static cm_status infer(cm_infer *f)
{
    static const int required[] = {W_SCALE, W_ZERO, R_SCALE, R_ZERO};
    CM_TRY(cm_expect_present(f, required, CM_COUNT(required)));
    CM_TRY(cm_rnn_infer(f, CM_OP_LSTM, f->attr, &transposed));
    CM_TRY(check_param(f, W_SCALE, "W_scale", W));
    CM_TRY(check_param(f, W_ZERO, "W_zero_point", W));
    CM_TRY(check_param(f, R_SCALE, "R_scale", R));
    return check_param(f, R_ZERO, "R_zero_point", R);
}

static double param(const cm_tensor *t, const double *v, int64_t direction, int64_t column)
{
    return v[t->rank == 1 ? direction : direction * t->dims[1] + column];
}

/* Dequantised, in LSTM's own order: [directions, columns, size]. */
static cm_status read_weights(cm_eval *e, int w, int scale, int zero, const double **out)
{
    const cm_tensor *t = cm_eval_in(e, w), *ts = cm_eval_in(e, scale), *tz = cm_eval_in(e, zero);
    const double *codes, *s, *z;
    void *own;
    CM_TRY(cm_eval_as_f64(e, w, &codes));
    CM_TRY(cm_eval_as_f64(e, scale, &s));
    CM_TRY(cm_eval_as_f64(e, zero, &z));
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(t), sizeof(double), &own));
    double *to = own;
    for (int64_t d = 0; d < t->dims[0]; d++)
        for (int64_t c = 0; c < t->dims[2]; c++)
            for (int64_t r = 0; r < t->dims[1]; r++)
                *to++ = (codes[(d * t->dims[1] + r) * t->dims[2] + c] - param(tz, z, d, c)) *
                        param(ts, s, d, c);
    *out = own;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const double *w, *r;
    CM_TRY(read_weights(e, W, W_SCALE, W_ZERO, &w));
    CM_TRY(read_weights(e, R, R_SCALE, R_ZERO, &r));
    return cm_rnn_eval(e, CM_OP_LSTM, e->attr, &transposed, w, r);
}

const cm_family cm_family_ms_qlstm = {.name = "ms_qlstm", .infer = infer, .eval = eval};
