/* greedy_search.c -- com.microsoft's GreedySearch over a GPT decoder, as a Loop of it and cameo.GreedyStep.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "onnx/search/gpt.h"
#include "onnx/search/token_options.h"

typedef struct greedy {
    int64_t pad;
    cm_value *longest; /* [1] */
    cm_token_options options;
    cm_gpt gpt;
    cm_value *past[CM_GPT_MAX_LAYERS];
    cm_value *tokens; /* [b, l] int64 */
    cm_value *ended;  /* [b] bool */
} greedy;

/* Whether to go on. */
static cm_value *step(maker *k, greedy *g, cm_value *logits, bool is_first)
{
    cm_value *in[4 + CM_N_TOKEN_INPUTS] = {cast(k, logits, CM_F32), g->tokens, g->ended,
                                           g->longest};
    cm_value *out[3];
    cm_up_attr a[] = {CM_UP_INT("pad", g->pad), CM_UP_INT("eos", g->options.eos),
                      CM_UP_INT("ngram", g->options.ngram)};
    cm_token_inputs(&g->options, is_first, in + 4);
    cm_expression_node(k, CM_OP_GREEDY_STEP, in, 4 + CM_N_TOKEN_INPUTS, a, 3, out, 3);
    g->tokens = out[0];
    g->ended = out[1];
    return out[2];
}

static int pack(const greedy *g, cm_value **v)
{
    v[0] = g->tokens;
    v[1] = g->ended;
    memcpy(v + 2, g->past, (size_t)g->gpt.n_past * sizeof *v);
    return 2 + g->gpt.n_past;
}

static void unpack(cm_value *const *v, greedy *g)
{
    g->tokens = v[0];
    g->ended = v[1];
    memcpy(g->past, v + 2, (size_t)g->gpt.n_past * sizeof *v);
}

static cm_value *turn(maker *k, cm_value **carried, const void *state)
{
    greedy *g = cm_arena_memdup(k->u->im->tmp, state, sizeof *g);
    if (!g && k->st == CM_OK)
        k->st = cm_fail_memory(k->u->im->cx);
    if (k->st != CM_OK)
        return NULL;
    unpack(carried, g);
    cm_value *logits = cm_gpt_run(k, &g->gpt, g->tokens, column(k, last(k, g->tokens, 1)), g->past);
    cm_value *more = step(k, g, logits, false);
    pack(g, carried);
    return more;
}

static cm_status read_settings(cm_pending *u, maker *k, greedy *g)
{
    int64_t model = 0;
    bool found;
    g->pad = -1;
    CM_TRY(cm_up_take_int(u, "pad_token_id", &g->pad, &found));
    CM_TRY(cm_up_take_int(u, "model_type", &model, &found));
    if (model != 0)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "model_type %lld, wanted 0",
                       (long long)model);
    CM_TRY(cm_token_options_read(u, k, 2, 3, 4, 5, &g->options));
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_need_input(u, 1));
    g->longest = vector(k, u->in[1], CM_I64);
    g->gpt.decoder = cm_onnx_find_attr(u, "decoder");
    g->gpt.first = cm_onnx_find_attr(u, "init_decoder");
    if (!g->gpt.decoder || !g->gpt.decoder->p->g)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "the decoder is missing");
    return k->st;
}

cm_status cm_up_greedy_search(cm_pending *u)
{
    maker k = {u, CM_OK};
    greedy *g;
    CM_NEW(u->im->cx, u->im->tmp, g, greedy);
    CM_TRY(read_settings(u, &k, g));
    cm_value *ids = u->in[0], *mask = u->n_in > 6 ? u->in[6] : NULL;
    cm_gpt_begin(&k, &g->gpt, ids, mask, g->pad, g->past);
    g->tokens = cast(&k, ids, CM_I64);
    g->ended = cast(&k, two(&k, "Expand", number(&k, CM_I32, 0), dim(&k, ids, 0)), CM_BOOL);
    cm_value *logits = cm_gpt_run(&k, &g->gpt, g->tokens, NULL, g->past);
    cm_value *more = step(&k, g, logits, true), *carried[CM_GPT_MAX_LAYERS + 2];
    CM_TRY(k.st);
    int n = pack(g, carried);
    CM_TRY(cm_expression_loop(u, more, carried, n, turn, g));
    unpack(carried, g);
    cm_value *rest = two(&k, "Sub", g->longest, dim(&k, g->tokens, 1));
    cm_value *in[] = {g->tokens, shape3(&k, list(&k, 0), rest, NULL),
                      number(&k, CM_I64, (double)g->pad), list(&k, 1)};
    cm_value *y = cast(&k, make(&k, "Pad", in, 4, NULL, 0), CM_I32);
    CM_TRY(k.st);
    return cm_up_result(u, 0, y);
}
