/* beam_search.c -- com.microsoft's BeamSearch over an encoder and a decoder, as a Loop of plain nodes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For each sequence of a batch, n beams are kept with the sum of their tokens' log-probabilities, and
 * the n best hypotheses that ended. A step takes the best 2n continuations of all beams; those of the
 * first n that end become hypotheses, scored by sum/length^penalty; the first n that do not are the
 * next beams. A sequence is done when it has n hypotheses and no beam can beat the worst of them.
 *
 * Shapes below: b sequences, n beams, bn of both, v tokens in the vocabulary, l tokens so far, m the
 * maximum length. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "onnx/upgrade.h"

enum { MAX_LAYERS = 256, T5 = 1, WHISPER = 2 };

/* Nodes are written as expressions: the first failure sticks, and later calls do nothing. */
typedef struct maker {
    cm_pending *u; /* whose scope the nodes go to */
    cm_status st;
} maker;

typedef struct settings {
    int64_t eos, pad, start, model, early;
    cm_value *one;                    /* [1]: 1 */
    cm_value *b, *n, *longest, *least; /* [1], int64 */
    cm_value *penalty;                 /* [1], float: of length */
    cm_value *repetition;              /* [1], float, or NULL */
} settings;

typedef struct beams {
    cm_value *tokens;      /* [bn, l] int64 */
    cm_value *sums;        /* [bn] */
    cm_value *ended;       /* [b, n, m] int64: hypotheses */
    cm_value *ended_scores; /* [b, n], falling; -inf: none */
    cm_value *done;        /* [b] bool */
    cm_value *from;        /* [bn]: which beam each came from; not carried */
} beams;

static cm_value *make(maker *k, const char *op, cm_value *const *in, int n_in,
                      const cm_up_attr *attrs, int n_attrs)
{
    cm_value *v = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_node(k->u, op, in, n_in, attrs, n_attrs, &v);
    return v;
}

static cm_value *one(maker *k, const char *op, cm_value *x)
{
    return make(k, op, &x, 1, NULL, 0);
}

static cm_value *two(maker *k, const char *op, cm_value *x, cm_value *y)
{
    cm_value *in[] = {x, y};
    return make(k, op, in, 2, NULL, 0);
}

static cm_value *where(maker *k, cm_value *c, cm_value *x, cm_value *y)
{
    cm_value *in[] = {c, x, y};
    return make(k, "Where", in, 3, NULL, 0);
}

static cm_value *along(maker *k, const char *op, int64_t axis, cm_value *x, cm_value *y)
{
    cm_value *in[] = {x, y};
    cm_up_attr a[] = {CM_UP_INT("axis", axis)};
    return make(k, op, in, y ? 2 : 1, a, 1);
}

static cm_value *cast(maker *k, cm_value *x, cm_dtype t)
{
    cm_up_attr a[] = {CM_UP_INT("to", t)};
    return make(k, "Cast", &x, 1, a, 1);
}

static cm_value *list(maker *k, int64_t v) /* [1] */
{
    cm_value *out = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_ints(k->u, &v, 1, &out);
    return out;
}

static cm_value *number(maker *k, cm_dtype t, double v) /* rank 0 */
{
    cm_value *out = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_number(k->u, t, v, &out);
    return out;
}

static cm_value *dim(maker *k, cm_value *x, int axis) /* [1] */
{
    cm_up_attr a[] = {CM_UP_INT("start", axis), CM_UP_INT("end", axis + 1)};
    return make(k, "Shape", &x, 1, a, 2);
}

static cm_value *vector(maker *k, cm_value *x, cm_dtype t) /* any scalar to [1] */
{
    return two(k, "Reshape", cast(k, x, t), list(k, -1));
}

static cm_value *range(maker *k, cm_value *n) /* 0 .. n-1 for n [1] */
{
    cm_value *in[] = {number(k, CM_I64, 0), one(k, "Squeeze", n), number(k, CM_I64, 1)};
    return make(k, "Range", in, 3, NULL, 0);
}

static cm_value *first(maker *k, cm_value *x, int axis, cm_value *n) /* x[..., :n] */
{
    cm_value *in[] = {x, list(k, 0), n, list(k, axis)};
    return make(k, "Slice", in, 4, NULL, 0);
}

static cm_value *last(maker *k, cm_value *x, int axis)
{
    return along(k, "Gather", axis, x, number(k, CM_I64, -1));
}

static cm_value *column(maker *k, cm_value *x) /* [b] to [b, 1] */
{
    return two(k, "Unsqueeze", x, list(k, 1));
}

static cm_value *shape3(maker *k, cm_value *x, cm_value *y, cm_value *z)
{
    cm_value *in[] = {x, y, z};
    cm_up_attr a[] = {CM_UP_INT("axis", 0)};
    return make(k, "Concat", in, z ? 3 : 2, a, 1);
}

/* The best `n` along the last axis; their places in *where_. */
static cm_value *top(maker *k, cm_value *x, cm_value *n, bool largest, cm_value **places)
{
    cm_importer *im = k->u->im;
    cm_pending v = {.im = im, .scope = k->u->scope, .domain = "", .version = CM_ONNX_NEWEST_OPSET};
    const cm_op *op = cm_onnx_find_op(im, "", "TopK");
    cm_value *in[] = {x, n};
    cm_node *node;
    void *attr;
    *places = NULL;
    if (k->st == CM_OK && !op)
        k->st = cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator TopK is not supported");
    if (k->st == CM_OK)
        k->st = cm_up_set_int(&v, "largest", largest);
    if (k->st == CM_OK)
        k->st = cm_onnx_attr_struct(&v, op, &attr);
    if (k->st == CM_OK)
        k->st = cm_network_add_node(im->cx, v.scope->g, NULL, op, k->u->name, attr, in, 2, NULL, 2,
                                    &node);
    if (k->st == CM_OK)
        k->st = cm_node_infer(im->cx, node);
    if (k->st != CM_OK)
        return NULL;
    *places = node->out[1];
    return node->out[0];
}

/* sum/length^penalty */
static cm_value *score(maker *k, const settings *s, cm_value *sums, cm_value *tokens)
{
    cm_value *length = cast(k, dim(k, tokens, 1), CM_F32);
    return two(k, "Div", sums, two(k, "Pow", length, s->penalty));
}

/* Put candidates (scores [b, n], -inf for none; tokens [bn, l]) among the ended ones, keep the n best. */
static void add_ended(maker *k, const settings *s, beams *g, cm_value *scores, cm_value *tokens)
{
    cm_value *rest = two(k, "Sub", s->longest, dim(k, tokens, 1));
    cm_value *in[] = {tokens, shape3(k, list(k, 0), rest, NULL), number(k, CM_I64, (double)s->pad),
                      list(k, 1)};
    cm_value *filled = make(k, "Pad", in, 4, NULL, 0), *places;
    cm_value *cube = two(k, "Reshape", filled, shape3(k, s->b, s->n, s->longest));
    cm_value *all = along(k, "Concat", 1, g->ended_scores, scores);
    g->ended_scores = top(k, all, s->n, true, &places);
    cm_value *pick[] = {along(k, "Concat", 1, g->ended, cube), two(k, "Unsqueeze", places, list(k, 2))};
    cm_up_attr batch[] = {CM_UP_INT("batch_dims", 1)};
    g->ended = make(k, "GatherND", pick, 2, batch, 1);
}

/* Log-probabilities [bn, v] of the next token, bent by the options. */
static cm_value *bend(maker *k, const settings *s, const beams *g, cm_value *logits)
{
    cm_value *p = along(k, "LogSoftmax", -1, logits, NULL);
    if (s->repetition) { /* tokens that stand already */
        cm_value *old = along(k, "GatherElements", 1, p, g->tokens);
        cm_value *bent = where(k, two(k, "Less", old, number(k, CM_F32, 0)),
                               two(k, "Mul", old, s->repetition), two(k, "Div", old, s->repetition));
        cm_value *in[] = {p, g->tokens, bent};
        cm_up_attr a[] = {CM_UP_INT("axis", 1)};
        p = make(k, "ScatterElements", in, 3, a, 1);
    }
    if (s->least) { /* no end before the least length */
        cm_value *is_eos = two(k, "Equal", range(k, dim(k, p, 1)), list(k, s->eos));
        cm_value *early = two(k, "Less", dim(k, g->tokens, 1), s->least);
        p = where(k, two(k, "And", early, is_eos), number(k, CM_F32, -FLT_MAX), p);
    }
    return p;
}

/* One step from logits [bn, v]. */
static void step(maker *k, const settings *s, beams *g, cm_value *logits)
{
    cm_value *p = two(k, "Add", bend(k, s, g, logits), column(k, g->sums));
    cm_value *n2 = two(k, "Add", s->n, s->n), *v = dim(k, logits, 1), *at, *pick;
    cm_value *flat = two(k, "Reshape", p, shape3(k, s->b, list(k, -1), NULL));
    cm_value *best = top(k, flat, n2, true, &at); /* [b, 2n] */
    cm_value *beam = two(k, "Div", at, v), *token = two(k, "Sub", at, two(k, "Mul", beam, v));
    cm_value *ends = two(k, "Equal", token, list(k, s->eos));
    cm_value *base = column(k, two(k, "Mul", range(k, s->b), s->n)); /* [b, 1]: first beam's row */
    cm_value *was_done = column(k, g->done), *open = one(k, "Not", was_done);
    cm_value *flat_all = list(k, -1), *none = number(k, CM_F32, -INFINITY);

    /* Those of the first n that end. */
    cm_value *counts = two(k, "And", first(k, ends, 1, s->n), open);
    cm_value *scores = where(k, counts, score(k, s, first(k, best, 1, s->n), g->tokens), none);
    cm_value *rows = two(k, "Add", first(k, beam, 1, s->n), base);
    add_ended(k, s, g, scores,
              along(k, "Gather", 0, g->tokens, two(k, "Reshape", rows, flat_all)));

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
    cm_value *self[2 * MAX_LAYERS], *cross[2 * MAX_LAYERS];
} feeds;

static bool is_named(cm_str s, const char *name)
{
    return cm_str_equal(s, cm_str_of(name));
}

/* Run the decoder on the beams: logits [bn, v], and its cache in f->self. */
static cm_value *decode(maker *k, const cm_attribute *a, const beams *g, feeds *f)
{
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
            k->st = cm_fail(k->u->im->cx, CM_ERR_MODEL, "decoder: it has %d inputs, too many", n_in);
    }
    const char *prefix = cm_arena_printf(k->u->im->tmp, "%s/decoder/", k->u->name);
    if (k->st == CM_OK)
        k->st = cm_onnx_inline(k->u->im, k->u->scope->g, a->scope, prefix ? prefix : "", d, in, n_in,
                               out, n_out);
    if (k->st != CM_OK)
        return NULL;
    memcpy(f->self, out + 1, (size_t)f->n_self * sizeof *out);
    return last(k, out[0], 1);
}

static void reorder(maker *k, feeds *f, cm_value *rows)
{
    for (int i = 0; i < f->n_self; i++)
        f->self[i] = along(k, "Gather", 0, f->self[i], rows);
}

/* The encoder, which takes the first step of the decoder too: logits [bn, v] and all feeds. */
static cm_value *encode(maker *k, const cm_attribute *a, int64_t model, cm_value *ids, cm_value *mask,
                        cm_value *start, cm_value *rows, feeds *f)
{
    const pb_graph *e = a->p->g;
    cm_importer *im = k->u->im;
    cm_value *in[8], *out[4 * MAX_LAYERS + 2];
    int n_in = (int)e->input.n, n_out = (int)e->output.n;
    if (n_in > 8 || n_out < 6 || n_out > 4 * MAX_LAYERS + 2 || (n_out - 2) % 4 != 0) {
        k->st = cm_fail(im->cx, CM_ERR_UNSUPPORTED, "encoder: %d inputs and %d outputs", n_in, n_out);
        return NULL;
    }
    for (int i = 0; i < n_in; i++)
        in[i] = i == 0                                                    ? ids
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

/* The type of a carried value whose sizes may change. */
static cm_status loose_type(cm_importer *im, cm_network *g, const cm_value *v, cm_type *out)
{
    *out = v->type;
    for (int i = 0; i < out->rank; i++) {
        out->dims[i] = cm_dim_fresh(g->dims, "beam", CM_DIM_SIZE);
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(im->cx);
    }
    return CM_OK;
}

static cm_status build_body(cm_pending *u, const settings *s, const cm_attribute *decoder,
                            const feeds *outer, cm_value *const *carried, int n, cm_network **out)
{
    cm_importer *im = u->im;
    cm_scope *inside;
    feeds *f;
    beams g;
    cm_value *in[2 * MAX_LAYERS + 8], *ignored;
    cm_type iter = cm_type_tensor(CM_I64, 0, NULL), cond = cm_type_tensor(CM_BOOL, 0, NULL), t;
    CM_NEW(im->cx, im->tmp, inside, cm_scope);
    CM_NEW(im->cx, im->tmp, f, feeds);
    *f = *outer;
    *inside = *u->scope;
    inside->outer = u->scope;
    inside->rename = NULL;
    cm_map_init(&inside->values, im->tmp);
    CM_TRY(cm_network_nested(im->cx, u->scope->g, u->name, &inside->g));
    CM_TRY(cm_network_add_input(im->cx, inside->g, "iteration", &iter, &ignored));
    CM_TRY(cm_network_add_input(im->cx, inside->g, "go_on", &cond, &ignored));
    for (int i = 0; i < n; i++) {
        CM_TRY(loose_type(im, inside->g, carried[i], &t));
        CM_TRY(cm_network_add_input(im->cx, inside->g, "beam", &t, &in[i]));
    }
    cm_pending w = {.im = im, .scope = inside, .domain = "", .name = u->name,
                    .version = CM_ONNX_NEWEST_OPSET};
    maker k = {&w, CM_OK};
    unpack(in, &g, f);
    step(&k, s, &g, decode(&k, decoder, &g, f));
    reorder(&k, f, g.from);
    cm_value *more = go_on(&k, s, &g);
    CM_TRY(k.st);
    CM_TRY(cm_network_add_output(im->cx, inside->g, more, NULL));
    pack(&g, f, in);
    for (int i = 0; i < n; i++)
        CM_TRY(cm_network_add_output(im->cx, inside->g, in[i], NULL));
    *out = inside->g;
    return CM_OK;
}

static cm_status loop(cm_pending *u, const settings *s, const cm_attribute *decoder, beams *g,
                      feeds *f, cm_value *more)
{
    cm_importer *im = u->im;
    const cm_op *op = cm_onnx_find_op(im, "", "Loop");
    cm_value *in[2 * MAX_LAYERS + 8] = {NULL, more};
    cm_network *body;
    cm_node *node;
    if (!op)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator Loop is not supported");
    int n = pack(g, f, in + 2);
    CM_TRY(build_body(u, s, decoder, f, in + 2, n, &body));
    CM_TRY(cm_network_add_node(im->cx, u->scope->g, NULL, op, u->name, NULL, in, n + 2, NULL, n,
                               &node));
    CM_TRY(cm_node_set_subs(im->cx, node, &body, 1));
    CM_TRY(cm_node_infer(im->cx, node));
    unpack(node->out, g, f);
    return CM_OK;
}

static cm_value *input(const cm_pending *u, int i)
{
    return i < u->n_in ? u->in[i] : NULL;
}

static cm_status read_settings(cm_pending *u, maker *k, settings *s)
{
    static const char *const names[] = {"eos_token_id", "pad_token_id", "decoder_start_token_id",
                                        "model_type", "early_stopping"};
    int64_t *fields[] = {&s->eos, &s->pad, &s->start, &s->model, &s->early}, ngram = 0;
    bool found;
    *s = (settings){.eos = -1, .pad = -1, .start = -1};
    for (int i = 0; i < CM_COUNT(names); i++)
        CM_TRY(cm_up_take_int(u, names[i], fields[i], &found));
    CM_TRY(cm_up_take_int(u, "no_repeat_ngram_size", &ngram, &found));
    if (s->model != T5 && s->model != WHISPER)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "model_type %lld, wanted 1 or 2",
                       (long long)s->model);
    if (ngram || input(u, 7) || input(u, 8) || input(u, 11) || u->n_out > 2)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED,
                       "n-gram limits, vocabulary masks, processors or all scores");
    int needed[] = {0, 1, 3, 4};
    for (int i = 0; i < CM_COUNT(needed); i++)
        CM_TRY(cm_up_need_input(u, needed[i]));
    s->one = list(k, 1);
    s->b = dim(k, u->in[0], 0);
    s->n = vector(k, u->in[3], CM_I64);
    s->longest = vector(k, u->in[1], CM_I64);
    s->least = input(u, 2) ? vector(k, u->in[2], CM_I64) : NULL;
    s->penalty = input(u, 5) ? vector(k, u->in[5], CM_F32) : cast(k, s->one, CM_F32);
    s->repetition = input(u, 6) ? vector(k, u->in[6], CM_F32) : NULL;
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
    g->ended = two(k, "Expand", number(k, CM_I64, (double)s->pad),
                   shape3(k, s->b, s->n, s->longest));
    g->ended_scores = two(k, "Expand", number(k, CM_F32, -INFINITY), pairs);
    g->done = cast(k, two(k, "Expand", number(k, CM_I32, 0), s->b), CM_BOOL);
}

/* Hypotheses of sequences that are not done are completed by their beams. */
static void finish(maker *k, const settings *s, beams *g)
{
    cm_value *sums = two(k, "Reshape", g->sums, shape3(k, s->b, s->n, NULL));
    cm_value *scores = where(k, column(k, g->done), number(k, CM_F32, -INFINITY),
                             score(k, s, sums, g->tokens));
    add_ended(k, s, g, scores, g->tokens);
}

cm_status cm_up_beam_search(cm_pending *u)
{
    maker k = {u, CM_OK};
    settings s;
    beams g;
    feeds *f;
    CM_TRY(read_settings(u, &k, &s));
    const cm_attribute *encoder = cm_onnx_find_attr(u, "encoder");
    const cm_attribute *decoder = cm_onnx_find_attr(u, "decoder");
    if (!encoder || !encoder->p->g || !decoder || !decoder->p->g || !decoder->p->g->input.n)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "the encoder or the decoder is missing");
    if (decoder->p->g->input.n > 4 * MAX_LAYERS)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "a decoder of %zu inputs",
                       decoder->p->g->input.n);
    CM_NEW(u->im->cx, u->im->tmp, f, feeds);
    cm_value *ids = u->in[0], *start = input(u, 10), *mask = input(u, 9);
    if (!start)
        start = two(&k, "Expand", number(&k, CM_I32, (double)s.start),
                    shape3(&k, s.b, s.one, NULL));
    if (!mask && ids->type.dtype == CM_I32)
        mask = cast(&k, one(&k, "Not", two(&k, "Equal", ids, number(&k, CM_I32, (double)s.pad))),
                    CM_I32);
    cm_value *rows = two(&k, "Div", range(&k, two(&k, "Mul", s.b, s.n)), s.n);
    cm_value *logits = encode(&k, encoder, s.model, ids, mask, start, rows, f);
    begin(&k, &s, cast(&k, along(&k, "Gather", 0, start, rows), CM_I64), &g);
    step(&k, &s, &g, logits);
    reorder(&k, f, g.from);
    cm_value *more = go_on(&k, &s, &g);
    CM_TRY(k.st);
    CM_TRY(loop(u, &s, decoder, &g, f, more));
    finish(&k, &s, &g);
    cm_value *wanted = vector(&k, u->in[4], CM_I64);
    cm_value *sequences = cast(&k, first(&k, g.ended, 1, wanted), CM_I32);
    cm_value *scores = first(&k, g.ended_scores, 1, wanted);
    CM_TRY(k.st);
    CM_TRY(cm_up_result(u, 0, sequences));
    return cm_up_result(u, 1, scores);
}
