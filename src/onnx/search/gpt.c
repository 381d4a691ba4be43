/* gpt.c -- feeding a GPT decoder: positions, masks, and the cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/search/gpt.h"

#include <string.h>

enum { FIRST_PAST = 3 };

/* heads and size from the declared type of the first cache. */
static cm_value *empty_cache(maker *k, const pb_value_info *p, cm_value *rows)
{
    const pb_tensor_type *t = p->type ? p->type->tensor_type : NULL;
    bool good = t && t->shape && t->shape->dim.n == 5 && cm_dtype_valid(t->elem_type) &&
                t->shape->dim.v[2].dim_value > 0 && t->shape->dim.v[4].dim_value > 0;
    if (!good && k->st == CM_OK)
        k->st = cm_fail(k->u->im->cx, CM_ERR_UNSUPPORTED,
                        "decoder: its cache has no type with heads and size");
    if (k->st != CM_OK)
        return NULL;
    cm_value *front = shape3(k, list(k, 2), rows, list(k, t->shape->dim.v[2].dim_value));
    cm_value *shape = shape3(k, front, list(k, 0), list(k, t->shape->dim.v[4].dim_value));
    return two(k, "Expand", number(k, (cm_dtype)t->elem_type, 0), shape);
}

void cm_gpt_begin(maker *k, cm_gpt *g, cm_value *ids, cm_value *mask, int64_t pad, cm_value **past)
{
    const pb_graph *d = g->decoder->p->g;
    int n = (int)d->input.n - FIRST_PAST;
    if (n < 1 || n > CM_GPT_MAX_LAYERS || d->output.n != (size_t)n + 1) {
        if (k->st == CM_OK)
            k->st = cm_fail(k->u->im->cx, CM_ERR_UNSUPPORTED, "decoder: %zu inputs and %zu outputs",
                            d->input.n, d->output.n);
        return;
    }
    g->n_past = n;
    cm_value *is_pad = two(k, "Equal", cast(k, ids, CM_I64), number(k, CM_I64, (double)pad));
    g->real = cast(k, one(k, "Not", is_pad), CM_I64);
    g->mask = mask ? cast(k, mask, CM_I64) : g->real;
    g->prompt = dim(k, ids, 1);
    cm_value *count = two(k, "ReduceSum", g->real, list(k, 1));
    g->before = two(k, "Sub", count, two(k, "Add", g->prompt, number(k, CM_I64, 1)));
    for (int i = 0; i < n; i++)
        past[i] = empty_cache(k, &d->input.v[FIRST_PAST + i], dim(k, ids, 0));
}

/* In the prompt, tokens are counted and padding is at 0; then on from there. */
static cm_value *positions(maker *k, const cm_gpt *g, cm_value *length, bool is_first)
{
    if (!is_first)
        return two(k, "Add", g->before, length);
    cm_value *seen = two(k, "CumSum", g->real, number(k, CM_I64, 1));
    return two(k, "Mul", two(k, "Sub", seen, number(k, CM_I64, 1)), g->real);
}

static cm_value *whole_mask(maker *k, const cm_gpt *g, cm_value *length, bool is_first)
{
    if (is_first)
        return g->mask;
    cm_value *shape = shape3(k, dim(k, g->mask, 0), two(k, "Sub", length, g->prompt), NULL);
    return along(k, "Concat", 1, g->mask, two(k, "Expand", number(k, CM_I64, 1), shape));
}

static cm_dtype declared(const pb_value_info *p)
{
    const pb_tensor_type *t = p->type ? p->type->tensor_type : NULL;
    return t && cm_dtype_valid(t->elem_type) ? (cm_dtype)t->elem_type : CM_I32;
}

cm_value *cm_gpt_run(maker *k, cm_gpt *g, cm_value *tokens, cm_value *newest, cm_value **past)
{
    bool is_first = !newest;
    const cm_attribute *a = is_first && g->first ? g->first : g->decoder;
    const pb_graph *d = a->p->g;
    cm_value *in[CM_GPT_MAX_LAYERS + FIRST_PAST], *out[CM_GPT_MAX_LAYERS + 1];
    cm_value *length = dim(k, tokens, 1);
    if (k->st == CM_OK && (!d || d->input.n != (size_t)g->n_past + FIRST_PAST))
        k->st = cm_fail(k->u->im->cx, CM_ERR_UNSUPPORTED, "the decoders take different inputs");
    if (k->st != CM_OK)
        return NULL;
    in[0] = is_first ? tokens : newest;
    in[1] = positions(k, g, length, is_first);
    in[2] = whole_mask(k, g, length, is_first);
    for (int i = 0; i < FIRST_PAST; i++)
        in[i] = cast(k, in[i], declared(&d->input.v[i]));
    memcpy(in + FIRST_PAST, past, (size_t)g->n_past * sizeof *in);
    const char *prefix = cm_arena_printf(k->u->im->tmp, "%s/decoder/", k->u->name);
    if (k->st == CM_OK)
        k->st = cm_onnx_inline(k->u->im, k->u->scope->g, a->scope, prefix ? prefix : "", d, in,
                               g->n_past + FIRST_PAST, out, g->n_past + 1);
    if (k->st != CM_OK)
        return NULL;
    memcpy(past, out + 1, (size_t)g->n_past * sizeof *out);
    return last(k, out[0], 1);
}
