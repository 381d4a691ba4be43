/* greedy.c -- cameo.GreedyStep: the likeliest token for each sequence.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     tokens, ended, more = GreedyStep(scores, tokens, ended, longest, least, repetition, allowed, prefixes) {eos, pad, ngram}
 *
 * scores [b, v] after tokens [b, l]; a sequence that came to its end goes on with padding. more: some have not, and there
 * is room. */
#include <string.h>

#include "ops/expect.h"
#include "ops/search/token_scores.h"

typedef struct {
    uint64_t present;
    int64_t pad, eos, ngram;
} greedy_attr;

CM_ATTRS(greedy_step, greedy_attr, CM_ATTR_INT(greedy_attr, pad, -1),
         CM_ATTR_INT(greedy_attr, eos, -1), CM_ATTR_INT(greedy_attr, ngram, 0))

static cm_status infer(cm_infer *f)
{
    CM_TRY(cm_expect_rank(f, 0, "scores", 2, 2));
    CM_TRY(cm_expect_rank(f, 1, "tokens", 2, 2));
    CM_TRY(cm_expect_rank(f, 2, "ended", 1, 1));
    CM_TRY(cm_expect_one(f, 3, "longest"));
    CM_TRY(cm_token_rules_infer(f, 4, cm_expect_dim(f, 0, 1)));
    CM_TRY(cm_infer_like(f, 1, 2));
    CM_TRY(cm_infer_tensor(f, 2, 0, NULL));
    if (!cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim b = cm_infer_dim(f, 1, 0), longer[] = {b, cm_infer_add(f, cm_infer_dim(f, 1, 1), 1)};
    if (!f->dims) { /* symbols may be equal without being the same */
        CM_TRY(cm_infer_equal(f, "rows of scores", cm_infer_dim(f, 0, 0), b));
        CM_TRY(cm_expect_shape(f, 2, "ended", 1, &b));
    }
    return cm_infer_tensor(f, 0, 2, longer);
}

static int64_t likeliest(const float *p, int64_t v)
{
    int64_t best = 0;
    for (int64_t t = 1; t < v; t++)
        best = p[t] > p[best] ? t : best;
    return best;
}

static cm_status eval(cm_eval *e)
{
    const greedy_attr *a = e->attr;
    const cm_tensor *scores = cm_eval_in(e, 0), *tokens = cm_eval_in(e, 1);
    const bool *ended = cm_eval_in(e, 2)->data;
    int64_t b = tokens->dims[0], l = tokens->dims[1], v = scores->dims[1];
    int64_t *out = cm_eval_wants(e, 0) ? cm_eval_out(e, 0)->data : NULL;
    bool *out_ended = cm_eval_wants(e, 1) ? cm_eval_out(e, 1)->data : NULL, more = false;
    cm_token_rules rules;
    float *p;
    if (v < 1)
        return cm_fail(e->cx, CM_ERR_DATA, "no tokens to choose from");
    cm_token_rules_read(e, 4, a->eos, a->ngram, &rules);
    CM_NEW_N(e->cx, e->cx->scratch, p, v, float);
    for (int64_t i = 0; i < b; i++) {
        const int64_t *row = (const int64_t *)tokens->data + i * l;
        cm_token_rules_apply(&rules, row, l, i, b, (const float *)scores->data + i * v, v, p);
        int64_t next = likeliest(p, v);
        bool end = ended[i] || next == a->eos;
        if (out && l)
            memcpy(out + i * (l + 1), row, (size_t)l * sizeof *row);
        if (out)
            out[i * (l + 1) + l] = end ? a->pad : next;
        if (out_ended)
            out_ended[i] = end;
        more |= !end;
    }
    if (cm_eval_wants(e, 2))
        *(bool *)cm_eval_out(e, 2)->data = more && l + 1 < cm_eval_int(e, 3, 0);
    return CM_OK;
}

const cm_family cm_family_greedy = {"greedy", infer, eval, NULL};
