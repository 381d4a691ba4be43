/* beam_search.c -- com.microsoft's BeamSearch, as a Loop of plain nodes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For each sequence of a batch, n beams are kept with the sum of their tokens'
 * log-probabilities, and the n best hypotheses that ended. A step takes the best 2n
 * continuations of all beams; those of the first n that end become hypotheses, scored by
 * sum/length^penalty; the first n that do not are the next beams. A sequence is done when it has
 * n hypotheses and no beam can beat the worst of them.
 *
 * Shapes below: b sequences, n beams, bn of both, v tokens in the vocabulary, l tokens so far, m
 * the maximum length. */
#include <math.h>
#include <string.h>

#include "onnx/expression.h"
#include "onnx/search/gpt.h"
#include "onnx/search/token_scores.h"

enum { MAX_LAYERS = CM_GPT_MAX_LAYERS, GPT = 0, T5 = 1, WHISPER = 2 };

typedef struct settings {
    int64_t pad, start, model, early;
    cm_value *one;             /* [1]: 1 */
    cm_value *b, *n, *longest; /* [1], int64 */
    cm_value *penalty;         /* [1], float: of length */
    cm_token_options tokens;
} settings;

typedef struct beams {
    cm_value *tokens;       /* [bn, l] int64 */
    cm_value *sums;         /* [bn] */
    cm_value *ended;        /* [b, n, m] int64: hypotheses */
    cm_value *ended_scores; /* [b, n], falling; -inf: none */
    cm_value *done;         /* [b] bool */
    cm_value *from;         /* [bn]: which beam each came from; not carried */
} beams;

/* sum/length^penalty */
static cm_value *score(maker *k, const settings *s, cm_value *sums, cm_value *tokens)
{
    cm_value *length = cast(k, dim(k, tokens, 1), CM_F32);
    return two(k, "Div", sums, two(k, "Pow", length, s->penalty));
}

/* Put candidates (scores [b, n], -inf for none; tokens [bn, l]) among the ended ones, keep the n
 * best. */
static void add_ended(maker *k, const settings *s, beams *g, cm_value *scores, cm_value *tokens)
{
    cm_value *rest = two(k, "Sub", s->longest, dim(k, tokens, 1));
    cm_value *in[] = {tokens, shape3(k, list(k, 0), rest, NULL), number(k, CM_I64, (double)s->pad),
                      list(k, 1)};
    cm_value *filled = make(k, "Pad", in, 4, NULL, 0), *places;
    cm_value *cube = two(k, "Reshape", filled, shape3(k, s->b, s->n, s->longest));
    cm_value *all = along(k, "Concat", 1, g->ended_scores, scores);
    g->ended_scores = top(k, all, s->n, true, &places);
    cm_value *pick[] = {along(k, "Concat", 1, g->ended, cube),
                        two(k, "Unsqueeze", places, list(k, 2))};
    cm_up_attr batch[] = {CM_UP_INT("batch_dims", 1)};
    g->ended = make(k, "GatherND", pick, 2, batch, 1);
}

/* One step from logits [bn, v]. */
static void step(maker *k, const settings *s, beams *g, cm_value *logits, bool is_first)
{
    cm_value *p = along(k, "LogSoftmax", -1, cast(k, logits, CM_F32), NULL);
    p = cm_token_scores(k, &s->tokens, g->tokens, p, is_first);
    p = two(k, "Add", p, column(k, g->sums));
    cm_value *n2 = two(k, "Add", s->n, s->n), *v = dim(k, logits, 1), *at, *pick;
    cm_value *flat = two(k, "Reshape", p, shape3(k, s->b, list(k, -1), NULL));
    cm_value *best = top(k, flat, n2, true, &at); /* [b, 2n] */
    cm_value *beam = two(k, "Div", at, v), *token = two(k, "Sub", at, two(k, "Mul", beam, v));
    cm_value *ends = two(k, "Equal", token, list(k, s->tokens.eos));
    cm_value *base = column(k, two(k, "Mul", range(k, s->b), s->n)); /* [b, 1]: first beam's row */
    cm_value *was_done = column(k, g->done), *open = one(k, "Not", was_done);
    cm_value *flat_all = list(k, -1), *none = number(k, CM_F32, -INFINITY);

    /* Those of the first n that end. */
    cm_value *counts = two(k, "And", first(k, ends, 1, s->n), open);
    cm_value *scores = where(k, counts, score(k, s, first(k, best, 1, s->n), g->tokens), none);
    cm_value *rows = two(k, "Add", first(k, beam, 1, s->n), base);
    add_ended(k, s, g, scores, along(k, "Gather", 0, g->tokens, two(k, "Reshape", rows, flat_all)));

    /* The first n that do not: sort by place, those that end behind. */
    cm_value *late = two(k, "Mul", cast(k, ends, CM_I64), number(k, CM_I64, 1 << 30));
    top(k, two(k, "Add", late, range(k, n2)), s->n, false, &pick);
    cm_value *sums = along(k, "GatherElements", 1, best, pick);
    cm_value *next = along(k, "GatherElements", 1, token, pick);
    cm_value *from = two(k, "Add", along(k, "GatherElements", 1, beam, pick), base);

    /* Is anything left to gain? */
    cm_value *worst = last(k, g->ended_scores, 1);
    cm_value *full = two(k, "Greater", worst, none);
    cm_value *hope = score(k, s, along(k, "Gather", 1, best, number(k, CM_I64, 0)), g->tokens);
    if (!s->early)
        full = two(k, "And", full, one(k, "Not", two(k, "Less", worst, hope)));
    g->done = two(k, "Or", g->done, full);

    sums = where(k, was_done, number(k, CM_F32, 0), sums);
    next = where(k, was_done, number(k, CM_I64, (double)s->pad), next);
    g->from = two(k, "Reshape", from, flat_all);
    g->sums = two(k, "Reshape", sums, flat_all);
    next = column(k, two(k, "Reshape", next, flat_all));
    g->tokens = along(k, "Concat", 1, along(k, "Gather", 0, g->tokens, g->from), next);
}

/* Another round: some sequence is not done, and there is room. */
static cm_value *go_on(maker *k, const settings *s, const beams *g)
{
    cm_up_attr a[] = {CM_UP_INT("keepdims", 0)};
    cm_value *open = cast(k, one(k, "Not", g->done), CM_I32);
    cm_value *left = make(k, "ReduceMax", &open, 1, a, 1);
    cm_value *room = two(k, "Less", dim(k, g->tokens, 1), s->longest);
    return two(k, "And", cast(k, left, CM_BOOL), one(k, "Squeeze", room));
}

/* What the decoder is fed besides tokens and its cache, by the names of its inputs. */
typedef struct feeds {
    cm_value *ids, *mask, *hidden; /* [bn, ...] */
    int n_self, n_cross;
    int batch_axis; /* of the cache in `self` */
    cm_value *self[2 * MAX_LAYERS], *cross[2 * MAX_LAYERS];
    cm_gpt gpt; /* a decoder without an encoder */
} feeds;

static bool is_named(cm_str s, const char *name)
{
    return cm_str_equal(s, cm_str_of(name));
}

/* Run the decoder on the beams: logits [bn, v], and its cache in f->self. */
static cm_value *decode(maker *k, const cm_attribute *a, const beams *g, feeds *f)
{
    if (f->gpt.decoder)
        return cm_gpt_run(k, &f->gpt, g->tokens, f->self, false);
    const pb_graph *d = a->p->g;
    cm_value *in[4 * MAX_LAYERS + 8], *out[2 * MAX_LAYERS + 1];
    int n_in = (int)d->input.n, n_cache = 0, n_out = 1 + f->n_self;
    const pb_type *type = d->input.v[0].type;
    const pb_shape *shape = type && type->tensor_type ? type->tensor_type->shape : NULL;
    bool newest = shape && shape->dim.n == 2 && shape->dim.v[1].dim_value == 1;
    cm_value *tokens = cast(k, newest ? column(k, last(k, g->tokens, 1)) : g->tokens, CM_I32);
    for (int i = 0; i < n_in && k->st == CM_OK; i++) {
        cm_str name = d->input.v[i].name;
        if (i == 0)
            in[i] = tokens;
        else if (is_named(name, "encoder_input_ids"))
            in[i] = f->ids;
        else if (is_named(name, "encoder_attention_mask"))
            in[i] = f->mask;
        else if (is_named(name, "encoder_hidden_states"))
            in[i] = f->hidden;
        else if (n_cache < f->n_self + f->n_cross && ++n_cache)
            in[i] = n_cache <= f->n_self ? f->self[n_cache - 1] : f->cross[n_cache - 1 - f->n_self];
        else
            k->st =
                cm_fail(k->u->im->cx, CM_ERR_MODEL, "decoder: it has %d inputs, too many", n_in);
    }
    const char *prefix = cm_arena_printf(k->u->im->tmp, "%s/decoder/", k->u->name);
    if (k->st == CM_OK)
        k->st = cm_onnx_inline(k->u->im, k->u->scope->g, a->scope, prefix ? prefix : "", d, in,
                               n_in, out, n_out);
    if (k->st != CM_OK)
        return NULL;
    memcpy(f->self, out + 1, (size_t)f->n_self * sizeof *out);
    return last(k, out[0], 1);
}

static void reorder(maker *k, feeds *f, cm_value *rows)
{
    for (int i = 0; i < f->n_self; i++)
        f->self[i] = along(k, "Gather", f->batch_axis, f->self[i], rows);
}

/* A decoder alone reads the prompt first: logits [bn, v] and all feeds. */
static cm_value *read_prompt(maker *k, const settings *s, cm_value *ids, cm_value *mask,
                             cm_value *rows, feeds *f)
{
    cm_gpt_begin(k, &f->gpt, ids, mask, s->pad, f->self);
    cm_value *logits = cm_gpt_run(k, &f->gpt, cast(k, ids, CM_I64), f->self, true);
    f->n_self = f->gpt.n_past;
    f->batch_axis = 1;
    reorder(k, f, rows);
    f->gpt.mask = along(k, "Gather", 0, f->gpt.mask, rows);
    f->gpt.count = along(k, "Gather", 0, f->gpt.count, rows);
    return along(k, "Gather", 0, logits, rows);
}

/* The encoder, which takes the first step of the decoder too: logits [bn, v] and all feeds. */
static cm_value *encode(maker *k, const cm_attribute *a, int64_t model, cm_value *ids,
                        cm_value *mask, cm_value *start, cm_value *rows, feeds *f)
{
    const pb_graph *e = a->p->g;
    cm_importer *im = k->u->im;
    cm_value *in[8], *out[4 * MAX_LAYERS + 2];
    int n_in = (int)e->input.n, n_out = (int)e->output.n;
    if (n_in > 8 || n_out < 6 || n_out > 4 * MAX_LAYERS + 2 || (n_out - 2) % 4 != 0) {
        k->st =
            cm_fail(im->cx, CM_ERR_UNSUPPORTED, "encoder: %d inputs and %d outputs", n_in, n_out);
        return NULL;
    }
    for (int i = 0; i < n_in; i++)
        in[i] = i == 0                                                   ? ids
                : is_named(e->input.v[i].name, "encoder_attention_mask") ? mask
                                                                         : start;
    const char *prefix = cm_arena_printf(im->tmp, "%s/encoder/", k->u->name);
    if (k->st == CM_OK)
        k->st = cm_onnx_inline(im, k->u->scope->g, a->scope, prefix ? prefix : "", e, in, n_in, out,
                               n_out);
    if (k->st != CM_OK)
        return NULL;
    f->n_self = f->n_cross = (n_out - 2) / 2;
    for (int i = 0; i < f->n_self; i++) {
        f->self[i] = along(k, "Gather", 0, out[2 + i], rows);
        f->cross[i] = along(k, "Gather", 0, out[2 + f->n_self + i], rows);
    }
    f->hidden = along(k, "Gather", 0, out[1], rows);
    if (model == WHISPER) /* its keys and values are cached: only the shape counts, by convention */
        f->hidden = two(k, "Expand", number(k, out[1]->type.dtype, 0), one(k, "Shape", f->hidden));
    f->ids = along(k, "Gather", 0, ids, rows);
    f->mask = mask ? along(k, "Gather", 0, mask, rows) : NULL;
    return along(k, "Gather", 0, last(k, out[0], 1), rows);
}

/* The Loop's carried values: beams, then the decoder's cache. */
static int pack(const beams *g, const feeds *f, cm_value **v)
{
    cm_value *of_beams[] = {g->tokens, g->sums, g->ended, g->ended_scores, g->done};
    memcpy(v, of_beams, sizeof of_beams);
    memcpy(v + 5, f->self, (size_t)f->n_self * sizeof *v);
    return 5 + f->n_self;
}

static void unpack(cm_value *const *v, beams *g, feeds *f)
{
    *g = (beams){v[0], v[1], v[2], v[3], v[4], NULL};
    memcpy(f->self, v + 5, (size_t)f->n_self * sizeof *v);
}

/* What a round of the loop needs from outside. */
typedef struct round_state {
    const settings *s;
    const cm_attribute *decoder;
    const feeds *f;
} round_state;

static cm_value *turn(maker *k, cm_value **carried, const void *state)
{
    const round_state *r = state;
    beams g;
    feeds *f = cm_new(k->u->im->tmp, feeds);
    if (!f && k->st == CM_OK)
        k->st = cm_fail_memory(k->u->im->cx);
    if (k->st != CM_OK)
        return NULL;
    *f = *r->f;
    unpack(carried, &g, f);
    step(k, r->s, &g, decode(k, r->decoder, &g, f), false);
    reorder(k, f, g.from);
    pack(&g, f, carried);
    return go_on(k, r->s, &g);
}

static cm_value *input(const cm_pending *u, int i)
{
    return i < u->n_in ? u->in[i] : NULL;
}

static cm_status read_settings(cm_pending *u, maker *k, settings *s)
{
    static const char *const names[] = {"pad_token_id", "decoder_start_token_id", "model_type",
                                        "early_stopping"};
    int64_t *fields[] = {&s->pad, &s->start, &s->model, &s->early};
    bool found;
    *s = (settings){.pad = -1, .start = -1};
    for (int i = 0; i < CM_COUNT(names); i++)
        CM_TRY(cm_up_take_int(u, names[i], fields[i], &found));
    CM_TRY(cm_token_options_read(u, k, 2, 6, 7, 8, &s->tokens));
    if (s->model != GPT && s->model != T5 && s->model != WHISPER)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "model_type %lld, wanted 0, 1 or 2",
                       (long long)s->model);
    if (input(u, 11) || u->n_out > 2)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "a logits processor, or the output `scores`");
    int needed[] = {0, 1, 3, 4};
    for (int i = 0; i < CM_COUNT(needed); i++)
        CM_TRY(cm_up_need_input(u, needed[i]));
    s->one = list(k, 1);
    s->b = dim(k, u->in[0], 0);
    s->n = vector(k, u->in[3], CM_I64);
    s->longest = vector(k, u->in[1], CM_I64);
    s->penalty = input(u, 5) ? vector(k, u->in[5], CM_F32) : cast(k, s->one, CM_F32);
    return k->st;
}

/* Before the first step: one live beam, no hypotheses. */
static void begin(maker *k, const settings *s, cm_value *tokens, beams *g)
{
    cm_value *is_first = two(k, "Equal", range(k, s->n), number(k, CM_I64, 0));
    cm_value *sums = where(k, is_first, number(k, CM_F32, 0), number(k, CM_F32, -1e9));
    cm_value *pairs = shape3(k, s->b, s->n, NULL);
    g->tokens = tokens;
    g->sums = two(k, "Reshape", two(k, "Expand", sums, pairs), list(k, -1));
    g->ended =
        two(k, "Expand", number(k, CM_I64, (double)s->pad), shape3(k, s->b, s->n, s->longest));
    g->ended_scores = two(k, "Expand", number(k, CM_F32, -INFINITY), pairs);
    g->done = cast(k, two(k, "Expand", number(k, CM_I32, 0), s->b), CM_BOOL);
}

/* Hypotheses of sequences that are not done are completed by their beams. */
static void finish(maker *k, const settings *s, beams *g)
{
    cm_value *sums = two(k, "Reshape", g->sums, shape3(k, s->b, s->n, NULL));
    cm_value *scores =
        where(k, column(k, g->done), number(k, CM_F32, -INFINITY), score(k, s, sums, g->tokens));
    add_ended(k, s, g, scores, g->tokens);
}

/* An encoder and a decoder: the first token of each sequence, and all feeds. */
static cm_value *begin_pair(maker *k, const settings *s, const cm_attribute *encoder,
                            cm_value *rows, feeds *f, cm_value **start)
{
    cm_pending *u = k->u;
    cm_value *ids = u->in[0], *mask = input(u, 9);
    *start = input(u, 10);
    if (!*start)
        *start =
            two(k, "Expand", number(k, CM_I32, (double)s->start), shape3(k, s->b, s->one, NULL));
    if (!mask && ids->type.dtype == CM_I32)
        mask =
            cast(k, one(k, "Not", two(k, "Equal", ids, number(k, CM_I32, (double)s->pad))), CM_I32);
    return encode(k, encoder, s->model, ids, mask, *start, rows, f);
}

static cm_status find_graphs(cm_pending *u, const settings *s, const cm_attribute **encoder,
                             const cm_attribute **decoder)
{
    *encoder = cm_onnx_find_attr(u, "encoder");
    *decoder = cm_onnx_find_attr(u, "decoder");
    bool alone = s->model == GPT;
    if (!*decoder || !(*decoder)->p->g || (!alone && (!*encoder || !(*encoder)->p->g)))
        return cm_fail(u->im->cx, CM_ERR_MODEL, "the encoder or the decoder is missing");
    size_t n = (*decoder)->p->g->input.n;
    if (n < 1 || n > 4 * MAX_LAYERS)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "a decoder of %zu inputs", n);
    return CM_OK;
}

cm_status cm_up_beam_search(cm_pending *u)
{
    const cm_attribute *encoder, *decoder;
    maker k = {u, CM_OK};
    settings s;
    beams g;
    feeds *f;
    CM_TRY(read_settings(u, &k, &s));
    CM_TRY(find_graphs(u, &s, &encoder, &decoder));
    CM_NEW(u->im->cx, u->im->tmp, f, feeds);
    cm_value *start = u->in[0], *logits;
    cm_value *rows = two(&k, "Div", range(&k, two(&k, "Mul", s.b, s.n)), s.n);
    if (s.model == GPT) {
        f->gpt.decoder = decoder;
        f->gpt.first = cm_onnx_find_attr(u, "init_decoder");
        logits = read_prompt(&k, &s, start, input(u, 9), rows, f);
    } else {
        logits = begin_pair(&k, &s, encoder, rows, f, &start);
    }
    begin(&k, &s, cast(&k, along(&k, "Gather", 0, start, rows), CM_I64), &g);
    step(&k, &s, &g, logits, true);
    reorder(&k, f, g.from);
    cm_value *more = go_on(&k, &s, &g), *carried[2 * MAX_LAYERS + 8];
    CM_TRY(k.st);
    round_state r = {&s, decoder, f};
    int n = pack(&g, f, carried);
    CM_TRY(cm_expression_loop(u, more, carried, n, turn, &r));
    unpack(carried, &g, f);
    finish(&k, &s, &g);
    cm_value *wanted = vector(&k, u->in[4], CM_I64);
    cm_value *sequences = cast(&k, first(&k, g.ended, 1, wanted), CM_I32);
    cm_value *scores = first(&k, g.ended_scores, 1, wanted);
    CM_TRY(k.st);
    CM_TRY(cm_up_result(u, 0, sequences));
    return cm_up_result(u, 1, scores);
}
