/* attention_match.h -- the parts of an attention as they are found: scores, values, operands, masks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * fuse_attention.c asks for them in this order; each answers false where it is no attention, or not one that can be
 * fused: `why` says so then, when it was almost one. */
#ifndef CM_PASSES_ATTENTION_MATCH_H
#define CM_PASSES_ATTENTION_MATCH_H

#include "passes/heads_view.h"
#include "passes/labelled.h"

enum { CM_MOST_BIASES = 4, CM_MOST_INSIDE = 32 };

typedef struct cm_score_bias {
    cm_value *v;
    double times;
    const cm_value *at; /* the scores that it was added to, for their shape */
} cm_score_bias;

typedef struct cm_attention_parts {
    cm_labelled qk, pv;
    double scale, softcap;
    cm_score_bias biases[CM_MOST_BIASES], mask;
    int n_biases;
    bool mask_keeps, biased_after_mask, bias_last, causal, retype;
    bool
        widened; /* scores of 16 bits and values cast from 16 bits meet in float32, which is the result's type */
    double fill;
    cm_value *cleared; /* where probabilities are set to 0 after the softmax, or NULL */
    int n_inside;
    cm_value *inside[CM_MOST_INSIDE];      /* scores and probabilities on the way */
    const cm_node *reader[CM_MOST_INSIDE]; /* of each: the node of the pattern */
    int64_t heads; /* when batch and heads are one axis: heads among them, 0 not known */
    cm_heads_at q, k, v, y;
    const char *why;
} cm_attention_parts;

/* The product with v behind a softmax, and what stands between. */
bool cm_attention_values(cm_attention_parts *m, cm_node *softmax);
/* The product of q and k before it: scale, soft cap, biases and a mask on the way. */
bool cm_attention_scores(cm_attention_parts *m, const cm_node *softmax);
/* Probabilities that are set to 0 behind the softmax: where the mask said so too? */
bool cm_attention_clears(cm_attention_parts *m);
/* Does nobody else read scores or probabilities, but for their shape? */
bool cm_attention_alone(cm_attention_parts *m);
/* Where q, k, v and the result lie. */
bool cm_attention_operands(cm_attention_parts *m);
/* Do biases and mask broadcast to the scores? Is the mask the causal one? */
bool cm_attention_masks(cm_attention_parts *m);
/* Has the result as many rows as q, surely? */
bool cm_attention_keeps_rows(cm_attention_parts *m);
/* Dims of the result with q's rows for its own. */
void cm_attention_result(const cm_attention_parts *m, cm_dim *dims);
/* The shape in which a bias or mask broadcasts to [batch, heads, rows, cols]. False: none. */
bool cm_score_bias_shape(const cm_attention_parts *m, const cm_score_bias *b, int *rank,
                         cm_dim *dims);

#endif
