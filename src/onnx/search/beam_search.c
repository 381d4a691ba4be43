/* beam_search.c -- com.microsoft's BeamSearch, as a Loop of its decoder and the steps of ops/search/beam.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Shapes below: b sequences, n beams, bn of both, v tokens in the vocabulary, l tokens so far, m
 * the maximum length. */
#include <string.h>

#include "onnx/expression.h"
#include "onnx/search/gpt.h"
#include "onnx/search/token_options.h"

enum { MAX_LAYERS = CM_GPT_MAX_LAYERS, GPT = 0, T5 = 1, WHISPER = 2, N_CARRIED = 6 };

typedef struct settings {
    int64_t pad, start, model, early;
    cm_value *n, *longest; /* [1], int64 */
    cm_value *penalty;     /* [1], float: of length */
    cm_token_options tokens;
} settings;

typedef struct beams {
    cm_value *tokens;       /* [bn, l] int64 */
    cm_value *sums;         /* [bn] */
    cm_value *ended;        /* [b, n, m] int64: hypotheses */
    cm_value *ended_scores; /* [b, n], falling; -inf: none */
    cm_value *done;         /* [b] bool */
    cm_value *next;         /* [bn, 1] int32: the last of the tokens */
    cm_value *from;         /* [bn]: which beam each came from; not carried */
    cm_value *more;         /* bool: go on; not carried */
} beams;

/* Before the first step. *rows: the sequence that each beam belongs to; *start, int32 [b, t]: the first tokens, `given` or
 * one for each row of `like`. */
static void begin(maker *k, const settings *s, cm_value *like, cm_value *given, beams *g,
                  cm_value **rows, cm_value **start)
{
    cm_value *in[] = {like, s->n, s->longest, given}, *out[7];
    cm_up_attr a[] = {CM_UP_INT("pad", s->pad), CM_UP_INT("start", s->start)};
    cm_expression_node(k, CM_OP_BEAM_BEGIN, in, 4, a, 2, out, 7);
    *g = (beams){out[1], out[2], out[3], out[4], out[5], NULL, NULL, NULL};
    *rows = out[0];
    *start = out[6];
}

/* One step from logits [bn, v], or [b, v] for all beams of a sequence. */
static void step(maker *k, const settings *s, beams *g, cm_value *logits, bool is_first)
{
    cm_value *p = along(k, "LogSoftmax", -1, cast(k, logits, CM_F32), NULL), *out[8];
    cm_value *in[7 + CM_N_TOKEN_INPUTS] = {p,       g->tokens, g->sums, g->ended, g->ended_scores,
                                           g->done, s->penalty};
    cm_up_attr a[] = {CM_UP_INT("pad", s->pad), CM_UP_INT("eos", s->tokens.eos),
                      CM_UP_INT("ngram", s->tokens.ngram), CM_UP_INT("early", s->early)};
    cm_token_inputs(&s->tokens, is_first, in + 7);
    cm_expression_node(k, CM_OP_BEAM_STEP, in, 7 + CM_N_TOKEN_INPUTS, a, 4, out, 8);
    *g = (beams){out[0], out[1], out[2], out[3], out[4], out[7], out[5], out[6]};
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
        return cm_gpt_run(k, &f->gpt, g->tokens, g->next, f->self);
    const pb_graph *d = a->p->g;
    cm_value *in[4 * MAX_LAYERS + 8], *out[2 * MAX_LAYERS + 1];
    int n_in = (int)d->input.n, n_cache = 0, n_out = 1 + f->n_self;
    const pb_type *type = d->input.v[0].type;
    const pb_shape *shape = type && type->tensor_type ? type->tensor_type->shape : NULL;
    bool newest = shape && shape->dim.n == 2 && shape->dim.v[1].dim_value == 1;
    cm_value *tokens = newest ? g->next : cast(k, g->tokens, CM_I32);
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

/* A decoder alone reads the prompt first: logits [b, v] and all feeds. */
static cm_value *read_prompt(maker *k, const settings *s, cm_value *ids, cm_value *mask,
                             cm_value *rows, feeds *f)
{
    cm_gpt_begin(k, &f->gpt, ids, mask, s->pad, f->self);
    cm_value *logits = cm_gpt_run(k, &f->gpt, cast(k, ids, CM_I64), NULL, f->self);
    f->n_self = f->gpt.n_past;
    f->batch_axis = 1;
    reorder(k, f, rows);
    f->gpt.mask = along(k, "Gather", 0, f->gpt.mask, rows);
    f->gpt.before = along(k, "Gather", 0, f->gpt.before, rows);
    return logits;
}

/* The encoder, which takes the first step of the decoder too: logits [b, v] and all feeds. */
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
    return last(k, out[0], 1);
}

/* The Loop's carried values: beams, then the decoder's cache. */
static int pack(const beams *g, const feeds *f, cm_value **v)
{
    cm_value *of_beams[] = {g->tokens, g->sums, g->ended, g->ended_scores, g->done, g->next};
    memcpy(v, of_beams, sizeof of_beams);
    memcpy(v + N_CARRIED, f->self, (size_t)f->n_self * sizeof *v);
    return N_CARRIED + f->n_self;
}

static void unpack(cm_value *const *v, beams *g, feeds *f)
{
    *g = (beams){v[0], v[1], v[2], v[3], v[4], v[5], NULL, NULL};
    memcpy(f->self, v + N_CARRIED, (size_t)f->n_self * sizeof *v);
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
    return g.more;
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
    s->n = vector(k, u->in[3], CM_I64);
    s->longest = vector(k, u->in[1], CM_I64);
    s->penalty = input(u, 5) ? vector(k, u->in[5], CM_F32) : cast(k, list(k, 1), CM_F32);
    return k->st;
}

/* An encoder and a decoder: logits and all feeds. */
static cm_value *begin_pair(maker *k, const settings *s, const cm_attribute *encoder,
                            cm_value *start, cm_value *rows, feeds *f)
{
    cm_pending *u = k->u;
    cm_value *ids = u->in[0], *mask = input(u, 9);
    if (!mask && ids->type.dtype == CM_I32)
        mask =
            cast(k, one(k, "Not", two(k, "Equal", ids, number(k, CM_I32, (double)s->pad))), CM_I32);
    return encode(k, encoder, s->model, ids, mask, start, rows, f);
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
    cm_value *given = s.model == GPT ? u->in[0] : input(u, 10), *rows, *start, *logits;
    begin(&k, &s, u->in[0], given, &g, &rows, &start);
    if (s.model == GPT) {
        f->gpt.decoder = decoder;
        f->gpt.first = cm_onnx_find_attr(u, "init_decoder");
        logits = read_prompt(&k, &s, u->in[0], input(u, 9), rows, f);
    } else {
        logits = begin_pair(&k, &s, encoder, start, rows, f);
    }
    step(&k, &s, &g, logits, true);
    reorder(&k, f, g.from);
    cm_value *carried[2 * MAX_LAYERS + N_CARRIED];
    CM_TRY(k.st);
    round_state r = {&s, decoder, f};
    int n = pack(&g, f, carried);
    CM_TRY(cm_expression_loop(u, g.more, carried, n, turn, &r));
    unpack(carried, &g, f);
    cm_value *in[] = {
        g.tokens, g.sums, g.ended, g.ended_scores, g.done, s.penalty, vector(&k, u->in[4], CM_I64)};
    cm_up_attr pad[] = {CM_UP_INT("pad", s.pad)};
    cm_value *out[2];
    cm_expression_node(&k, CM_OP_BEAM_END, in, 7, pad, 1, out, 2);
    CM_TRY(k.st);
    CM_TRY(cm_up_result(u, 0, out[0]));
    return cm_up_result(u, 1, out[1]);
}
