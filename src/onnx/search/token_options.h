/* token_options.h -- options of BeamSearch and GreedySearch that bend the scores of the next token.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_ONNX_TOKEN_OPTIONS_H
#define CM_ONNX_TOKEN_OPTIONS_H

#include "onnx/expression.h"

typedef struct cm_token_options {
    int64_t eos;
    int64_t ngram;        /* no n-gram of this size twice; 0: no limit */
    cm_value *least;      /* [1] int64: no end before this length; NULL: none */
    cm_value *repetition; /* [1] float: divides scores of tokens that stand already; NULL: none */
    cm_value *vocabulary; /* [v], 0: never; NULL: all */
    cm_value *prefix;     /* [b, v], 0: not as the first token; NULL: all. */
} cm_token_options;

/* Read them from the node: attributes, and inputs at these places (-1: the operator has none). */
cm_status cm_token_options_read(cm_pending *u, maker *k, int least, int repetition, int vocabulary,
                                int prefix, cm_token_options *out) CM_MUST_USE;
/* As cameo.BeamStep and GreedyStep take them: least, repetition, vocabulary, prefix. */
enum { CM_N_TOKEN_INPUTS = 4 };
void cm_token_inputs(const cm_token_options *o, bool is_first, cm_value **in);

#endif
