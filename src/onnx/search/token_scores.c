/* token_scores.c -- repetition, n-grams, vocabulary and least length, in that order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/search/token_scores.h"

#include <float.h>

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

static cm_value *lowest(maker *k)
{
    return number(k, CM_F32, -FLT_MAX);
}

/* Tokens that stand already: positive scores are divided, negative ones multiplied. */
static cm_value *repeat_less(maker *k, cm_value *penalty, cm_value *tokens, cm_value *p)
{
    cm_value *old = along(k, "GatherElements", 1, p, tokens);
    cm_value *bent = where(k, two(k, "Less", old, number(k, CM_F32, 0)),
                           two(k, "Mul", old, penalty), two(k, "Div", old, penalty));
    cm_value *in[] = {p, tokens, bent};
    cm_up_attr a[] = {CM_UP_INT("axis", 1)};
    return make(k, "ScatterElements", in, 3, a, 1);
}

/* columns[from : from + n) of tokens */
static cm_value *part(maker *k, cm_value *tokens, cm_value *from, cm_value *n)
{
    cm_value *in[] = {tokens, from, two(k, "Add", from, n), list(k, 1)};
    return make(k, "Slice", in, 4, NULL, 0);
}

/* Where the last n-1 tokens stood before, what came after them may not come again. */
static cm_value *no_ngrams(maker *k, int64_t n, cm_value *tokens, cm_value *p)
{
    cm_value *l = dim(k, tokens, 1), *zero = list(k, 0);
    cm_value *windows = two(k, "Max", two(k, "Sub", l, list(k, n - 1)), zero);
    cm_value *after = part(k, tokens, list(k, n - 1), windows);
    cm_value *same = two(k, "Equal", after, after);
    for (int64_t i = 0; i < n - 1; i++) {
        cm_value *at = two(k, "Max", two(k, "Sub", l, list(k, n - 1 - i)), zero);
        cm_value *tail = part(k, tokens, at, list(k, 1));
        same = two(k, "And", same, two(k, "Equal", part(k, tokens, list(k, i), windows), tail));
    }
    cm_value *none = two(k, "Expand", number(k, CM_I32, 0), one(k, "Shape", p));
    cm_value *in[] = {none, after, cast(k, same, CM_I32)};
    cm_up_attr a[] = {CM_UP_INT("axis", 1), CM_UP_STR("reduction", "max")};
    cm_value *banned = cast(k, make(k, "ScatterElements", in, 3, a, 2), CM_BOOL);
    return where(k, banned, lowest(k), p);
}

static cm_value *keep(maker *k, cm_value *mask, cm_value *p)
{
    return where(k, cast(k, mask, CM_BOOL), p, lowest(k));
}

/* A row for each sequence of the batch to one for each of its beams. */
static cm_value *to_rows(maker *k, cm_value *mask, cm_value *rows)
{
    cm_value *each = two(k, "Div", rows, dim(k, mask, 0));
    return along(k, "Gather", 0, mask, two(k, "Div", range(k, rows), each));
}

cm_value *cm_token_scores(maker *k, const cm_token_options *o, cm_value *tokens, cm_value *p,
                          bool is_first)
{
    if (o->repetition)
        p = repeat_less(k, o->repetition, tokens, p);
    if (o->ngram > 0)
        p = no_ngrams(k, o->ngram, tokens, p);
    if (o->vocabulary)
        p = keep(k, o->vocabulary, p);
    if (o->prefix && is_first)
        p = keep(k, to_rows(k, o->prefix, dim(k, p, 0)), p);
    if (o->least) {
        cm_value *is_eos = two(k, "Equal", range(k, dim(k, p, 1)), list(k, o->eos));
        cm_value *early = two(k, "Less", dim(k, tokens, 1), o->least);
        p = where(k, two(k, "And", early, is_eos), lowest(k), p);
    }
    return p;
}
