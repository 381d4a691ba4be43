/* gpt.h -- a decoder of the GPT kind, inside BeamSearch and GreedySearch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Its graph takes input_ids [r, t], position_ids [r, t], attention_mask [r, past + t] and a cache
 * [2, r, heads, past, size] for each layer; it gives logits [r, t, v] and the cache again. */
#ifndef CM_ONNX_GPT_H
#define CM_ONNX_GPT_H

#include "onnx/expression.h"

enum { CM_GPT_MAX_LAYERS = 256 };

typedef struct cm_gpt {
    const cm_attribute *decoder; /* set by the caller */
    const cm_attribute *first;   /* another graph for the prompt, or NULL */
    int n_past;
    cm_value *mask;   /* [r, prompt] int64: 1 for what is attended to */
    cm_value *real;   /* [r, prompt] int64: 1 for tokens, 0 for padding; while reading the prompt */
    cm_value *before; /* [r, 1] int64: with the length so far, the position of the last token */
    cm_value *prompt; /* [1] int64: its length */
} cm_gpt;

/* Look at the prompt; `past` gets empty caches. mask may be NULL: what is not `pad` is attended
 * to. */
void cm_gpt_begin(maker *k, cm_gpt *g, cm_value *ids, cm_value *mask, int64_t pad, cm_value **past);
/* Logits [r, v] after the tokens [r, l] so far; `past` is replaced. newest [r, 1]: the last token, which alone is fed;
 * NULL: all are, the prompt. */
cm_value *cm_gpt_run(maker *k, cm_gpt *g, cm_value *tokens, cm_value *newest, cm_value **past);

#endif
