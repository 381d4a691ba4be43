/* token_scores.h -- how BeamSearch's and GreedySearch's options bend the scores of the next token.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_TOKEN_SCORES_H
#define CM_ONNX_TOKEN_SCORES_H

#include "onnx/expression.h"

typedef struct cm_token_options {
    int64_t eos;
    int64_t ngram;        /* no n-gram of this size twice; 0: no limit */
    cm_value *least;      /* [1] int64: no end before this length; NULL: none */
    cm_value *repetition; /* [1] float: divides scores of tokens that stand already; NULL: none */
    cm_value *vocabulary; /* [v], 0: never; NULL: all */
    cm_value *prefix;     /* [b, v], 0: not as the first token; NULL: all. Repeated to r rows */
} cm_token_options;

/* Read them from the node: attributes, and inputs at these places (-1: the operator has none). */
cm_status cm_token_options_read(cm_pending *u, maker *k, int least, int repetition, int vocabulary,
                                int prefix, cm_token_options *out) CM_MUST_USE;
/* scores [r, v] after tokens [r, l]. */
cm_value *cm_token_scores(maker *k, const cm_token_options *o, cm_value *tokens, cm_value *scores,
                          bool is_first);

#endif
