/* rnn.h -- what LSTM shares with the operators that store its weights otherwise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_RNN_H
#define CM_OPS_RNN_H

#include "ops/eval.h"

typedef struct cm_rnn_attr {
    uint64_t present;
    cm_floats activation_alpha, activation_beta;
    cm_strs activations;
    float clip;
    cm_str direction;
    int64_t hidden_size, layout;
    int64_t linear_before_reset; /* GRU */
    int64_t input_forget;        /* LSTM */
} cm_rnn_attr;

/* How the weights lie. */
typedef struct cm_rnn_places {
    bool transposed; /* W [dirs, in, gates*hidden] and R [dirs, hidden, gates*hidden] */
    bool dynamic; /* the inputs, and each step's hidden state, are rounded to u8 for the products */
} cm_rnn_places;

cm_status cm_rnn_infer(cm_infer *f, cm_op_id id, const cm_rnn_attr *a,
                       const cm_rnn_places *at) CM_MUST_USE;
/* `w` and `r` are the weights as doubles in ONNX's order. */
cm_status cm_rnn_eval(cm_eval *e, cm_op_id id, const cm_rnn_attr *a, const cm_rnn_places *at,
                      const double *w, const double *r) CM_MUST_USE;

#endif
