/* token_scores.h -- how the options of a search bend the scores of the next token.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_SEARCH_TOKEN_SCORES_H
#define CM_OPS_SEARCH_TOKEN_SCORES_H

#include "ops/eval.h"

typedef struct cm_token_rules {
    int64_t eos;
    int64_t ngram;           /* no n-gram of this size twice; 0: no limit */
    int64_t least;           /* no end before this length */
    float repetition;        /* divides scores of tokens that stand already; 1: does nothing */
    const int32_t *allowed;  /* [v], 0: never; NULL: all */
    const int32_t *prefixes; /* [batch, v], 0: not as the first token; NULL: all */
    int64_t batch;           /* rows of prefixes */
} cm_token_rules;

/* The rules: attributes `eos` and `ngram`, and the optional inputs from `at` on: least, repetition, allowed, prefixes. */
cm_status cm_token_rules_infer(cm_infer *f, int at, cm_dim v) CM_MUST_USE;
void cm_token_rules_read(const cm_eval *e, int at, int64_t eos, int64_t ngram, cm_token_rules *out);
/* p [v]: the scores of row `row` of so many, after tokens [l]. In order: repetition, n-grams, allowed, prefixes, least. */
void cm_token_rules_apply(const cm_token_rules *r, const int64_t *tokens, int64_t l, int64_t row,
                          int64_t rows, const float *scores, int64_t v, float *p);

#endif
