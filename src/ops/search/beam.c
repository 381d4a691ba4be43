/* beam.c -- cameo.BeamBegin, BeamStep, BeamEnd: the arithmetic of a beam search, around a decoder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For each sequence of a batch, n beams are kept with the sum of their tokens' log-probabilities, and the n best
 * hypotheses that ended. A step takes the best 2n continuations of all beams; those of the first n that end become
 * hypotheses, scored by sum/length^penalty; the first n that do not are the next beams. A sequence is done when it has n
 * hypotheses and no beam can beat the worst of them (`early`: when it has n).
 *
 *     rows, tokens, sums, ended, ended_scores, done, start = BeamBegin(like, n, longest, start) {pad, start}
 *     tokens, sums, ended, ended_scores, done, from, more, next =
 *         BeamStep(p, tokens, sums, ended, ended_scores, done, penalty, least, repetition, allowed, prefixes)
 *     sequences, scores = BeamEnd(tokens, sums, ended, ended_scores, done, penalty, wanted) {pad}
 *
 * b sequences, n beams, bn of both, v tokens in the vocabulary, l tokens so far, m the maximum length: tokens [bn, l],
 * sums [bn], ended [b, n, m], ended_scores [b, n] falling (-inf: none), done [b]; p [bn, v] log-probabilities, or [b, v]
 * for all beams of a sequence; from [bn]: the beam each came from; next [bn, 1]: the new tokens. `like` has b rows, and
 * `rows` [bn] names the one that each beam belongs to. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/expect.h"
#include "ops/math.h"
#include "ops/search/token_scores.h"

typedef struct {
    uint64_t present;
    int64_t pad, start, eos, ngram, early;
} beam_attr;

CM_ATTRS(beam_begin, beam_attr, CM_ATTR_INT(beam_attr, pad, -1), CM_ATTR_INT(beam_attr, start, -1))
CM_ATTRS(beam_step, beam_attr, CM_ATTR_INT(beam_attr, pad, -1), CM_ATTR_INT(beam_attr, eos, -1),
         CM_ATTR_INT(beam_attr, ngram, 0), CM_ATTR_INT(beam_attr, early, 0))
CM_ATTRS(beam_end, beam_attr, CM_ATTR_INT(beam_attr, pad, -1))

/* ---- Types ---------------------------------------------------------------------------------- */

/* The one element of input i as a dim; a fresh symbol where it is not known. */
static cm_status element(cm_infer *f, int i, const char *name, cm_dim *out)
{
    cm_dim v[CM_MAX_ELEMS];
    int64_t number;
    int n;
    CM_TRY(cm_expect_one(f, i, name));
    *out = cm_infer_elems(f, i, v, &n) && n == 1 ? v[0] : cm_infer_fresh(f, name);
    if (*out == CM_DIM_ERROR)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s is not known", name);
    if (cm_infer_const(f, *out, &number) && number < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s is %lld, wanted at least 1", name,
                       (long long)number);
    return CM_OK;
}

static cm_status infer_begin(cm_infer *f)
{
    cm_dim n, m;
    CM_TRY(element(f, 1, "beams", &n));
    CM_TRY(element(f, 2, "longest", &m));
    CM_TRY(cm_expect_rank(f, 3, "start", 2, 2));
    if (!cm_infer_ranked(f, 0) || (cm_infer_has(f, 3) && !cm_infer_ranked(f, 3))) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    if (cm_infer_rank(f, 0) < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "the first input is a scalar, wanted a batch");
    cm_dim b = cm_infer_dim(f, 0, 0), bn = cm_infer_mul(f, b, n);
    if (cm_infer_has(f, 3))
        CM_TRY(cm_infer_equal(f, "rows of start", cm_infer_dim(f, 3, 0), b));
    cm_dim pair[] = {bn, cm_infer_has(f, 3) ? cm_infer_dim(f, 3, 1) : 1}, cube[] = {b, n, m};
    cm_dim first[] = {b, pair[1]};
    CM_TRY(cm_infer_tensor(f, 0, 1, &bn));
    CM_TRY(cm_infer_tensor(f, 1, 2, pair));
    CM_TRY(cm_infer_tensor(f, 2, 1, &bn));
    CM_TRY(cm_infer_tensor(f, 3, 3, cube));
    CM_TRY(cm_infer_tensor(f, 4, 2, cube));
    CM_TRY(cm_infer_tensor(f, 5, 1, &b));
    return cm_infer_tensor(f, 6, 2, first);
}

/* tokens, sums, ended, ended_scores, done from input `at` on. */
static cm_status expect_state(cm_infer *f, int at)
{
    cm_dim b = cm_expect_dim(f, at + 2, 0), n = cm_expect_dim(f, at + 2, 1);
    cm_dim bn = b == CM_DIM_ERROR || n == CM_DIM_ERROR ? CM_DIM_ERROR : cm_infer_mul(f, b, n);
    cm_dim pair[] = {b, n};
    bool numbers = !f->dims; /* symbols may be equal without being the same */
    CM_TRY(cm_expect_rank(f, at, "tokens", 2, 2));
    CM_TRY(cm_expect_rank(f, at + 1, "sums", 1, 1));
    CM_TRY(cm_expect_rank(f, at + 2, "ended", 3, 3));
    CM_TRY(cm_expect_rank(f, at + 3, "ended_scores", 2, 2));
    CM_TRY(cm_expect_rank(f, at + 4, "done", 1, 1));
    if (!numbers)
        return CM_OK;
    CM_TRY(cm_infer_equal(f, "rows of tokens", cm_infer_dim(f, at, 0), bn));
    CM_TRY(cm_infer_equal(f, "sums", cm_infer_dim(f, at + 1, 0), bn));
    CM_TRY(cm_expect_shape(f, at + 3, "ended_scores", 2, pair));
    return cm_expect_shape(f, at + 4, "done", 1, &b);
}

static cm_status infer_step(cm_infer *f)
{
    CM_TRY(expect_state(f, 1));
    CM_TRY(cm_expect_rank(f, 0, "p", 2, 2));
    CM_TRY(cm_expect_one(f, 6, "the penalty"));
    CM_TRY(cm_token_rules_infer(f, 7, cm_expect_dim(f, 0, 1)));
    for (int i = 1; i <= 5; i++)
        CM_TRY(cm_infer_like(f, i - 1, i));
    if (!cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 5);
        cm_infer_unknown(f, 7);
        return cm_infer_tensor(f, 6, 0, NULL);
    }
    cm_dim bn = cm_infer_dim(f, 1, 0), longer[] = {bn, cm_infer_add(f, cm_infer_dim(f, 1, 1), 1)};
    cm_dim column[] = {bn, 1};
    CM_TRY(cm_infer_tensor(f, 0, 2, longer));
    CM_TRY(cm_infer_tensor(f, 5, 1, &bn));
    CM_TRY(cm_infer_tensor(f, 6, 0, NULL));
    return cm_infer_tensor(f, 7, 2, column);
}

static cm_status infer_end(cm_infer *f)
{
    cm_dim wanted;
    CM_TRY(expect_state(f, 0));
    CM_TRY(cm_expect_one(f, 5, "the penalty"));
    CM_TRY(element(f, 6, "wanted", &wanted));
    if (!cm_infer_ranked(f, 2)) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    cm_dim cube[] = {cm_infer_dim(f, 2, 0), wanted, cm_infer_dim(f, 2, 2)};
    CM_TRY(cm_infer_tensor(f, 0, 3, cube));
    return cm_infer_tensor(f, 1, 2, cube);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_BEAM_BEGIN:
        return infer_begin(f);
    case CM_OP_BEAM_STEP:
        return infer_step(f);
    default:
        return infer_end(f);
    }
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static void *out_data(const cm_eval *e, int o)
{
    return cm_eval_wants(e, o) ? cm_eval_out(e, o)->data : NULL;
}

static cm_status eval_begin(cm_eval *e)
{
    const beam_attr *a = e->attr;
    int64_t b = cm_eval_in(e, 0)->dims[0], n = cm_eval_int(e, 1, 0), m = cm_eval_int(e, 2, 0);
    int64_t t = cm_eval_has(e, 3) ? cm_eval_in(e, 3)->dims[1] : 1;
    int64_t *rows = out_data(e, 0), *tokens = out_data(e, 1), *ended = out_data(e, 3);
    float *sums = out_data(e, 2), *scores = out_data(e, 4);
    bool *done = out_data(e, 5);
    int32_t *start = out_data(e, 6);
    for (int64_t r = 0; r < b * n; r++) {
        if (rows)
            rows[r] = r / n;
        for (int64_t i = 0; tokens && i < t; i++)
            tokens[r * t + i] = cm_eval_has(e, 3) ? cm_eval_int(e, 3, r / n * t + i) : a->start;
        if (sums)
            sums[r] = r % n ? -1e9f : 0; /* one live beam: they are all alike */
        if (scores)
            scores[r] = -INFINITY;
        for (int64_t i = 0; ended && i < m; i++)
            ended[r * m + i] = a->pad;
    }
    for (int64_t i = 0; done && i < b; i++)
        done[i] = false;
    for (int64_t i = 0; start && i < b * t; i++)
        start[i] = (int32_t)(cm_eval_has(e, 3) ? cm_eval_int(e, 3, i) : a->start);
    return CM_OK;
}

/* ---- Hypotheses ----------------------------------------------------------------------------- */

static float score(float sum, int64_t length, float penalty)
{
    return sum / (float)cm_pow((double)length, penalty);
}

/* The hypotheses of one sequence, best first. */
typedef struct {
    int64_t n, m, pad;
    int64_t *tokens; /* [n, m] */
    float *scores;   /* [n] */
} hypotheses;

/* Put a candidate among them when it beats one; among equals the older stays in front. */
static void add(hypotheses *h, float s, const int64_t *tokens, int64_t l)
{
    int64_t at = h->n;
    while (at > 0 && s > h->scores[at - 1])
        at--;
    if (at == h->n)
        return;
    size_t row = (size_t)h->m * sizeof *h->tokens;
    memmove(h->scores + at + 1, h->scores + at, (size_t)(h->n - 1 - at) * sizeof *h->scores);
    memmove(h->tokens + (at + 1) * h->m, h->tokens + at * h->m, (size_t)(h->n - 1 - at) * row);
    h->scores[at] = s;
    for (int64_t i = 0; i < h->m; i++)
        h->tokens[at * h->m + i] = i < l ? tokens[i] : h->pad;
}

/* Copies of the state's hypotheses in scratch, for all sequences. */
static cm_status copy_ended(cm_eval *e, int at, int64_t **tokens, float **scores)
{
    const cm_tensor *t = cm_eval_in(e, at), *s = cm_eval_in(e, at + 1);
    int64_t n = cm_tensor_elems(t), k = cm_tensor_elems(s);
    CM_NEW_N(e->cx, e->cx->scratch, *tokens, n + 1, int64_t);
    CM_NEW_N(e->cx, e->cx->scratch, *scores, k + 1, float);
    if (n)
        memcpy(*tokens, t->data, (size_t)n * sizeof **tokens);
    if (k)
        memcpy(*scores, s->data, (size_t)k * sizeof **scores);
    return CM_OK;
}

static void put(const cm_eval *e, int o, const void *from)
{
    size_t bytes;
    if (cm_eval_wants(e, o) && cm_tensor_bytes(cm_eval_out(e, o), &bytes) && bytes)
        memcpy(cm_eval_out(e, o)->data, from, bytes);
}

/* ---- A step --------------------------------------------------------------------------------- */

typedef struct {
    float sum;
    int64_t beam, token;
} continuation;

/* What a step reads, and where it writes. */
typedef struct {
    cm_eval *e;
    const beam_attr *a;
    int64_t b, n, v, l, per_row; /* beams to a row of p */
    const float *p, *sums;
    const int64_t *tokens;
    const bool *done;
    float penalty;
    cm_token_rules rules;
    float *bent;        /* [v] */
    continuation *best; /* [2n], falling; equal ones in the order of their places */
    int64_t *next_tokens, *from;
    float *next_sums;
    bool *next_done;
} step;

/* The best 2n continuations of sequence i. */
static void find_best(step *s, int64_t i)
{
    int64_t k = 0;
    for (int64_t beam = 0; beam < s->n; beam++) {
        int64_t row = i * s->n + beam;
        cm_token_rules_apply(&s->rules, s->tokens + row * s->l, s->l, row, s->b * s->n,
                             s->p + row / s->per_row * s->v, s->v, s->bent);
        for (int64_t t = 0; t < s->v; t++) {
            float sum = s->bent[t] + s->sums[row];
            if (k == 2 * s->n && !(sum > s->best[k - 1].sum))
                continue;
            int64_t at = k < 2 * s->n ? k++ : k - 1;
            for (; at > 0 && sum > s->best[at - 1].sum; at--)
                s->best[at] = s->best[at - 1];
            s->best[at] = (continuation){sum, beam, t};
        }
    }
}

/* The next beams of sequence i: the first n that do not end, then those that do. */
static void next_beams(step *s, int64_t i)
{
    int64_t k = 0;
    for (int ending = 0; ending < 2; ending++)
        for (int64_t c = 0; c < 2 * s->n && k < s->n; c++) {
            const continuation *x = &s->best[c];
            if ((x->token == s->a->eos) != ending)
                continue;
            int64_t row = i * s->n + k++, from = i * s->n + x->beam;
            s->from[row] = from;
            s->next_sums[row] = s->done[i] ? 0 : x->sum;
            memcpy(s->next_tokens + row * (s->l + 1), s->tokens + from * s->l,
                   (size_t)s->l * sizeof *s->tokens);
            s->next_tokens[row * (s->l + 1) + s->l] = s->done[i] ? s->a->pad : x->token;
        }
}

static void advance(step *s, int64_t i, hypotheses *h)
{
    find_best(s, i);
    for (int64_t c = 0; c < s->n && !s->done[i]; c++)
        if (s->best[c].token == s->a->eos)
            add(h, score(s->best[c].sum, s->l, s->penalty),
                s->tokens + (i * s->n + s->best[c].beam) * s->l, s->l);
    float worst = h->scores[s->n - 1], hope = score(s->best[0].sum, s->l, s->penalty);
    bool full = worst > -INFINITY && (s->a->early || !(worst < hope));
    next_beams(s, i);
    s->next_done[i] = s->done[i] || full;
}

static cm_status begin_step(cm_eval *e, step *s)
{
    const cm_tensor *p = cm_eval_in(e, 0), *tokens = cm_eval_in(e, 1), *ended = cm_eval_in(e, 3);
    *s = (step){.e = e,
                .a = e->attr,
                .b = ended->dims[0],
                .n = ended->dims[1],
                .v = p->dims[1],
                .l = tokens->dims[1],
                .p = p->data,
                .tokens = tokens->data,
                .sums = cm_eval_in(e, 2)->data,
                .done = cm_eval_in(e, 5)->data,
                .penalty = (float)cm_eval_f64(e, 6, 0)};
    int64_t rows = s->b * s->n, places, size;
    if (!cm_mul_i64(s->n, s->v, &places) || s->v < 2 || s->n < 1)
        return cm_fail(e->cx, CM_ERR_DATA, "%lld beams and %lld tokens to choose from",
                       (long long)s->n, (long long)s->v);
    if (p->dims[0] != rows && p->dims[0] != s->b)
        return cm_fail(e->cx, CM_ERR_DATA, "%lld rows of scores, wanted %lld or %lld",
                       (long long)p->dims[0], (long long)rows, (long long)s->b);
    if (!cm_mul_i64(rows, s->l + 1, &size))
        return cm_fail(e->cx, CM_ERR_DATA, "%lld rows of %lld tokens", (long long)rows,
                       (long long)s->l + 1);
    s->per_row = rows ? rows / p->dims[0] : 1;
    cm_token_rules_read(e, 7, s->a->eos, s->a->ngram, &s->rules);
    CM_NEW_N(e->cx, e->cx->scratch, s->bent, s->v, float);
    CM_NEW_N(e->cx, e->cx->scratch, s->best, 2 * s->n, continuation);
    CM_NEW_N(e->cx, e->cx->scratch, s->next_tokens, size + 1, int64_t);
    CM_NEW_N(e->cx, e->cx->scratch, s->from, rows + 1, int64_t);
    CM_NEW_N(e->cx, e->cx->scratch, s->next_sums, rows + 1, float);
    CM_NEW_N(e->cx, e->cx->scratch, s->next_done, s->b + 1, bool);
    return CM_OK;
}

static cm_status eval_step(cm_eval *e)
{
    step s;
    int64_t *ended;
    float *scores;
    bool more = false;
    CM_TRY(begin_step(e, &s));
    CM_TRY(copy_ended(e, 3, &ended, &scores));
    int64_t m = cm_eval_in(e, 3)->dims[2];
    for (int64_t i = 0; i < s.b; i++) {
        hypotheses h = {s.n, m, s.a->pad, ended + i * s.n * m, scores + i * s.n};
        advance(&s, i, &h);
        more |= !s.next_done[i];
    }
    more = more && s.l + 1 < m;
    put(e, 0, s.next_tokens);
    put(e, 1, s.next_sums);
    put(e, 2, ended);
    put(e, 3, scores);
    put(e, 4, s.next_done);
    put(e, 5, s.from);
    put(e, 6, &more);
    int32_t *next = out_data(e, 7);
    for (int64_t r = 0; next && r < s.b * s.n; r++)
        next[r] = (int32_t)s.next_tokens[r * (s.l + 1) + s.l];
    return CM_OK;
}

/* Hypotheses of sequences that are not done are completed by their beams; the first `wanted` are handed out. */
static cm_status eval_end(cm_eval *e)
{
    const beam_attr *a = e->attr;
    const cm_tensor *tokens = cm_eval_in(e, 0), *t = cm_eval_in(e, 2);
    const float *sums = cm_eval_in(e, 1)->data;
    const bool *done = cm_eval_in(e, 4)->data;
    float penalty = (float)cm_eval_f64(e, 5, 0), *scores, *out_scores = out_data(e, 1);
    int64_t b = t->dims[0], n = t->dims[1], m = t->dims[2], l = tokens->dims[1], *ended;
    int64_t wanted = cm_eval_int(e, 6, 0);
    int32_t *out = out_data(e, 0);
    if (wanted > n || n < 1)
        return cm_fail(e->cx, CM_ERR_DATA, "%lld sequences wanted of %lld beams", (long long)wanted,
                       (long long)n);
    CM_TRY(copy_ended(e, 2, &ended, &scores));
    for (int64_t i = 0; i < b; i++) {
        hypotheses h = {n, m, a->pad, ended + i * n * m, scores + i * n};
        for (int64_t k = i * n; k < (i + 1) * n && !done[i]; k++)
            add(&h, score(sums[k], l, penalty), (const int64_t *)tokens->data + k * l, l);
        for (int64_t k = 0; out && k < wanted * m; k++)
            out[i * wanted * m + k] = (int32_t)h.tokens[k];
        for (int64_t k = 0; out_scores && k < wanted; k++)
            out_scores[i * wanted + k] = h.scores[k];
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    switch (e->op->id) {
    case CM_OP_BEAM_BEGIN:
        return eval_begin(e);
    case CM_OP_BEAM_STEP:
        return eval_step(e);
    default:
        return eval_end(e);
    }
}

const cm_family cm_family_beam = {"beam", infer, eval, NULL};
