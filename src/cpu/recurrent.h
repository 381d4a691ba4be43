/* recurrent.h -- gates of recurrent networks, per ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_RECURRENT_H
#define CM_CPU_RECURRENT_H

#include "plan/tactic.h"

typedef struct cm_gates {
    int64_t n;      /* elements of the state */
    int64_t stride; /* from gate to gate */
    float clip;     /* what is activated stays within -clip and clip; infinite: anywhere */
    bool input_forget;
} cm_gates;

/* A piece of the inputs' product: 8 rows of k elements times a panel of 2 vectors, onto c, both vectors of
 * whose rows are read and written. */
enum { CM_AHEAD_ROWS = 8 };
typedef struct cm_ahead_piece {
    const float *rows[CM_AHEAD_ROWS];
    int64_t k;
    const float *b;
    float *c;
    int64_t ldc;
} cm_ahead_piece;

/* `g` is what products and biases sum up to, gate after gate; `h` and `c` are the state, brought up to date. */
typedef struct cm_recurrent_kernels {
    /* c[0..n) += x[0..k) times a panel of 2 vectors, n columns of it. */
    void (*panel)(const float *x, int64_t k, const float *b, int n, float *c);
    /* The same, and a piece beside it, whose arithmetic goes on while weights arrive: one of its k for every 4
     * ([0]) or 8 ([1]) of the panel's, which has that many times as many at least. NULL: none. */
    void (*ahead[2])(const float *x, int64_t k, const float *b, int n, float *c,
                     const cm_ahead_piece *piece);
    void (*rnn)(const cm_gates *a, const float *g, float *h);
    void (*lstm)(const cm_gates *a, const float *g, float *h, float *c);
    /* The reset gate times the state, to `out`; g as it is. */
    void (*gru_reset)(const cm_gates *a, const float *g, const float *h, float *out);
    /* inner: the state's part of the new value, which the reset gate multiplies; NULL: it is in g. */
    void (*gru)(const cm_gates *a, const float *g, const float *inner, float *h);
} cm_recurrent_kernels;

extern const cm_recurrent_kernels cm_cpu_recurrent_kernels__generic, cm_cpu_recurrent_kernels__avx2,
    cm_cpu_recurrent_kernels__avx512;

#endif
