/* token_options.c -- repetition, n-grams, vocabulary and least length, as a node has them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/search/token_options.h"

static cm_value *input(const cm_pending *u, int i)
{
    return i >= 0 && i < u->n_in ? u->in[i] : NULL;
}

cm_status cm_token_options_read(cm_pending *u, maker *k, int least, int repetition, int vocabulary,
                                int prefix, cm_token_options *out)
{
    bool found;
    *out = (cm_token_options){.eos = -1};
    CM_TRY(cm_up_take_int(u, "eos_token_id", &out->eos, &found));
    CM_TRY(cm_up_take_int(u, "no_repeat_ngram_size", &out->ngram, &found));
    if (out->ngram < 0 || out->ngram > 64)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "no_repeat_ngram_size is %lld",
                       (long long)out->ngram);
    out->least = input(u, least) ? vector(k, u->in[least], CM_I64) : NULL;
    out->repetition = input(u, repetition) ? vector(k, u->in[repetition], CM_F32) : NULL;
    out->vocabulary = input(u, vocabulary);
    out->prefix = input(u, prefix);
    return k->st;
}

void cm_token_inputs(const cm_token_options *o, bool is_first, cm_value **in)
{
    in[0] = o->least;
    in[1] = o->repetition;
    in[2] = o->vocabulary;
    in[3] = is_first ? o->prefix : NULL;
}
