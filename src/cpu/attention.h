/* attention.h -- the kernels of attention beside its products, per ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_ATTENTION_H
#define CM_CPU_ATTENTION_H

#include "plan/tactic.h"

/* A row of scores, and what happens to it before its softmax. */
typedef struct cm_score {
    float *s;
    int64_t n;         /* scores; those behind, up to where weights are read, become 0 */
    float *stats;      /* largest score and sum of exponentials so far: -inf and 0 at first */
    float factor;      /* out: for what was summed up with the old ones */
    const float *bias; /* NULL: none; elements `bias_step` (0 or 1) apart */
    int bias_step;
    const uint8_t *mask; /* NULL: none; 0 forbids */
    int mask_step;
    float softcap; /* 0: none */
    bool fill,
        biased; /* forbidden scores become mask_value, with the bias; else they take no part */
    float mask_value;
    int64_t first;  /* scores before it are forbidden */
    int64_t causal; /* scores from here on are forbidden */
} cm_score;

typedef struct cm_attention_kernels {
    /* Scores become exp(s - largest), up to 16 rows; stats are brought up to date. */
    void (*score_rows)(cm_score *rows, int64_t m, int64_t zero_to);
    /* s[r * s_row + j] = scale * q[r * q_row ...] . k[j * k_step ...], d elements each. */
    void (*dot_rows)(const float *q, int64_t q_row, int rows, int64_t d, const float *k,
                     int64_t k_step, int64_t n, float scale, float *s, int64_t s_row);
    /* o[r * o_row + c] = sum over j of p[r * p_row + j] * v[j * v_step + c], c < d. */
    void (*weigh_rows)(const float *p, int64_t p_row, int rows, const float *v, int64_t v_step,
                       int64_t n, int64_t d, float *o, int64_t o_row);
    /* y = x * factor; is all of x finite? */
    bool (*scale)(const float *x, float *y, int64_t n, float factor);
} cm_attention_kernels;

extern const cm_attention_kernels cm_cpu_attention_kernels__generic, cm_cpu_attention_kernels__avx2,
    cm_cpu_attention_kernels__avx512;

#endif
