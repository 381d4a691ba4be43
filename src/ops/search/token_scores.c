/* token_scores.c -- repetition, n-grams, vocabulary and least length, in that order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/search/token_scores.h"

#include <float.h>
#include <string.h>

#include "ops/expect.h"

enum { LEAST, REPETITION, ALLOWED, PREFIXES };

cm_status cm_token_rules_infer(cm_infer *f, int at, cm_dim v)
{
    cm_dim pair[] = {CM_DIM_ERROR, v};
    CM_TRY(cm_expect_one(f, at + LEAST, "the least length"));
    CM_TRY(cm_expect_one(f, at + REPETITION, "the penalty of repetition"));
    CM_TRY(cm_expect_shape(f, at + ALLOWED, "the mask of the vocabulary", 1, &v));
    return cm_expect_shape(f, at + PREFIXES, "the mask of first tokens", 2, pair);
}

void cm_token_rules_read(const cm_eval *e, int at, int64_t eos, int64_t ngram, cm_token_rules *out)
{
    *out = (cm_token_rules){.eos = eos, .ngram = ngram, .repetition = 1};
    if (cm_eval_has(e, at + LEAST))
        out->least = cm_eval_int(e, at + LEAST, 0);
    if (cm_eval_has(e, at + REPETITION))
        out->repetition = (float)cm_eval_f64(e, at + REPETITION, 0);
    if (cm_eval_has(e, at + ALLOWED))
        out->allowed = cm_eval_in(e, at + ALLOWED)->data;
    if (cm_eval_has(e, at + PREFIXES)) {
        out->prefixes = cm_eval_in(e, at + PREFIXES)->data;
        out->batch = cm_eval_in(e, at + PREFIXES)->dims[0];
    }
}

/* Where the last n-1 tokens stood before, what came after them may not come again. */
static void ban_ngrams(int64_t n, const int64_t *tokens, int64_t l, int64_t v, float *p)
{
    for (int64_t i = 0; i + n <= l; i++) {
        int64_t after = tokens[i + n - 1];
        bool again = n == 1 || memcmp(tokens + i, tokens + l - (n - 1),
                                      (size_t)(n - 1) * sizeof *tokens) == 0;
        if (again && after >= 0 && after < v)
            p[after] = -FLT_MAX;
    }
}

static void keep(const int32_t *mask, int64_t v, float *p)
{
    for (int64_t i = 0; i < v; i++)
        p[i] = mask[i] ? p[i] : -FLT_MAX;
}

void cm_token_rules_apply(const cm_token_rules *r, const int64_t *tokens, int64_t l, int64_t row,
                          int64_t rows, const float *scores, int64_t v, float *p)
{
    if (v > 0)
        memcpy(p, scores, (size_t)v * sizeof *p);
    for (int64_t i = 0; i < l && r->repetition != 1; i++) /* negative ones are multiplied */
        if (tokens[i] >= 0 && tokens[i] < v)
            p[tokens[i]] = scores[tokens[i]] < 0 ? scores[tokens[i]] * r->repetition
                                                 : scores[tokens[i]] / r->repetition;
    if (r->ngram > 0)
        ban_ngrams(r->ngram, tokens, l, v, p);
    if (r->allowed)
        keep(r->allowed, v, p);
    if (r->prefixes && r->batch > 0 && rows >= r->batch) {
        int64_t b = row / (rows / r->batch);
        keep(r->prefixes + (b < r->batch ? b : r->batch - 1) * v, v, p);
    }
    if (l < r->least && r->eos >= 0 && r->eos < v)
        p[r->eos] = -FLT_MAX;
}
