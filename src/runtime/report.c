/* report.c -- what reports ask of an engine and a context: work, values and memory of their steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report.h"

#include <string.h>

#include "ops/eval.h"
#include "runtime/device.h"
#include "runtime/internal.h"

/* ---- Work ------------------------------------------------------------------------------------- */

static double bytes_of(const cm_datum *d)
{
    size_t bytes;
    if (d->kind == CM_TENSOR)
        return cm_tensor_bytes(&d->tensor, &bytes) ? (double)bytes : 0;
    double sum = 0;
    for (int64_t i = 0; i < d->n; i++)
        sum += bytes_of(&d->items[i]);
    return sum;
}

static const cm_datum *operand(const cm_context *c, const cm_operand *o)
{
    return o->value >= 0 ? cm_context_value(c, o->value) : NULL;
}

/* Does it pick from its inputs, so that no more is read than comes out? */
static bool picks(const cm_ready_step *s)
{
    return s->problem &&
           (s->problem->kind == CM_PROBLEM_MOVE || s->problem->kind == CM_PROBLEM_GATHER);
}

static void count_bytes(const cm_context *c, const cm_ready_step *s, cm_layer_work *w)
{
    const cm_plan_step *p = s->plan;
    for (int o = 0; o < p->n_out; o++) {
        const cm_datum *d = operand(c, &p->out[o]);
        w->out_bytes += d ? bytes_of(d) : 0;
    }
    for (int i = 0; i < p->n_in; i++) {
        const cm_datum *d = operand(c, &p->in[i]);
        double bytes = d ? bytes_of(d) : 0;
        if (picks(s) && bytes > w->out_bytes)
            bytes = w->out_bytes;
        if (d && c->engine->plan->values[p->in[i].value].storage == CM_STORE_CONSTANT)
            w->weight_bytes += bytes;
        else
            w->in_bytes += bytes;
    }
}

static void count_conversions(const cm_solution *sol, cm_layer_work *w)
{
    for (int k = 0; k < sol->n_conversions; k++)
        w->conversion_bytes += 2 * bytes_of(&sol->conversions[k].to);
    w->conversion_ns = sol->n_conversions ? (double)sol->conversion_ns : 0;
}

/* What the operator says of its operations, and of its bytes where inputs are not read whole: then that is
 * weights which are not. */
static void ask_operator(cm_ctx *cx, const cm_context *c, const cm_ready_step *s, cm_layer_work *w)
{
    const cm_plan_step *p = s->plan;
    cm_infer_in *in = cm_new_n(cx->scratch, p->n_in, cm_infer_in);
    cm_infer_out *out = cm_new_n(cx->scratch, p->n_out, cm_infer_out);
    cm_type *types = cm_new_n(cx->scratch, p->n_in, cm_type);
    cm_cost cost = {.bytes = w->in_bytes + w->weight_bytes + w->out_bytes};
    if (!in || !out || !types)
        return;
    for (int i = 0; i < p->n_in; i++) {
        const cm_datum *d = operand(c, &p->in[i]);
        if (!d)
            continue;
        types[i] = cm_type_of_datum(d);
        in[i].type = &types[i];
    }
    for (int o = 0; o < p->n_out; o++) {
        const cm_datum *d = operand(c, &p->out[o]);
        out[o].n_elems = -1;
        if (d)
            out[o].type = cm_type_of_datum(d);
    }
    cm_infer f = {.cx = cx,
                  .op = s->op,
                  .attr = s->attr,
                  .n_in = p->n_in - p->epilogue.n_operands,
                  .in = in,
                  .n_out = p->n_out,
                  .out = out,
                  .epilogue = &p->epilogue};
    double first = out[0].type.kind == CM_TENSOR ? cm_infer_volume(&f, &out[0].type) : 0;
    if (s->op->family->cost)
        s->op->family->cost(&f, &cost);
    else if (!picks(s))
        cost.ops = first;
    w->ops = cost.ops + (s->program ? first * s->program->n_steps : 0);
    double weights = cost.bytes - w->in_bytes - w->out_bytes;
    if (weights >= 0 && weights < w->weight_bytes)
        w->weight_bytes = weights;
}

bool cm_context_work(cm_ctx *cx, const cm_context *c, int step, cm_layer_work *out)
{
    const cm_ready_step *s = c->engine->ready[step];
    const cm_plan_step *p = s->plan;
    *out = (cm_layer_work){0};
    if (s->control >= 0 || !p->n_out || !operand(c, &p->out[0]))
        return false;
    count_conversions(&c->solutions[step], out);
    if (c->solutions[step].way == CM_WAY_VIEW || c->solutions[step].way == CM_WAY_KNOWN)
        return true;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    count_bytes(c, s, out);
    ask_operator(cx, c, s, out);
    cm_arena_restore(cx->scratch, mark);
    return true;
}

/* ---- Values and memory ------------------------------------------------------------------------ */

const cm_datum *cm_context_value(const cm_context *c, int value)
{
    const cm_datum *d = &c->slots[value].datum;
    return d->kind == CM_NOTHING ? NULL : d;
}

static int maker_of(const cm_engine *e, int value)
{
    for (int i = 0; i < e->n_steps; i++)
        for (int o = 0; o < e->steps[i]->n_out; o++)
            if (e->steps[i]->out[o].value == value)
                return i;
    return -1;
}

/* Bytes of the value, in its own layout, from the device. */
static cm_status download(cm_ctx *cx, const cm_context *c, int value, size_t bytes, void *to)
{
    const cm_device_state *d = c->device;
    CM_TRY(d->api->download(cx, d->stream, to, d->tables.places[value].data, bytes));
    return d->api->wait(cx, d->stream);
}

cm_status cm_context_copy_value(cm_ctx *cx, const cm_context *c, int value, cm_arena *arena,
                                cm_tensor *out)
{
    const cm_datum *d = cm_context_value(c, value);
    int maker = maker_of(c->engine, value);
    size_t bytes;
    if (!d || !cm_datum_is_plain(d) || !cm_tensor_bytes(&d->tensor, &bytes))
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "it is not a plain tensor");
    cm_tensor from = d->tensor;
    if (!cm_tensor_shape(out, from.dtype, from.rank, from.dims))
        return cm_fail_memory(cx);
    out->packed = from.packed;
    out->capacity_bytes = bytes;
    out->data = cm_arena_alloc_n(arena, bytes ? bytes : 1, 1, 64, 0);
    if (!out->data)
        return cm_fail_memory(cx);
    bool away = c->device && maker >= 0 && c->solutions[maker].away;
    if (away && bytes) {
        from.data = cm_arena_alloc_n(arena, bytes, 1, 64, 0);
        if (!from.data)
            return cm_fail_memory(cx);
        CM_TRY(download(cx, c, value, bytes, from.data));
    }
    if (from.packed)
        memcpy(out->data, from.data, bytes);
    else if (bytes)
        cm_tensor_copy_dense(&from, out->data);
    return CM_OK;
}

int cm_context_n_blocks(const cm_context *c)
{
    return c->bound ? c->n_intervals : 0;
}

void cm_context_block(const cm_context *c, int i, cm_memory_block *out)
{
    const cm_interval *v = &c->intervals[i];
    int owner = c->interval_values[i];
    *out = (cm_memory_block){.value = owner < 0 ? -1 : owner,
                             .step = owner < 0 ? -1 - owner : maker_of(c->engine, owner),
                             .first = v->first,
                             .last = v->last,
                             .bytes = v->bytes,
                             .offset = v->offset};
}

void cm_engine_step_span(const cm_engine *e, int step, int *first, int *last)
{
    *first = e->ready[step]->begin;
    *last = e->ready[step]->end;
}

bool cm_engine_step_is_main(const cm_engine *e, int step)
{
    const cm_plan_list *main = &e->variant->lists[0];
    return e->steps[step] >= main->steps && e->steps[step] < main->steps + main->n_steps;
}

/* ---- One step on its reference ------------------------------------------------------------------ */

static cm_status from_arena(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "output %d is too large", output);
    t->data = cm_arena_alloc_n(user, bytes ? bytes : 1, 1, 64, 0);
    t->capacity_bytes = bytes;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

cm_status cm_engine_eval_step(cm_ctx *cx, cm_arena *arena, const cm_engine *e, int step,
                              const cm_datum *const *in, cm_threads *threads, cm_datum *out)
{
    const cm_ready_step *s = e->ready[step];
    const cm_plan_step *p = s->plan;
    uint64_t random = 0;
    cm_datum **wanted;
    cm_eval_host host = {from_arena, arena};
    if (s->control >= 0)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "%s '%s' holds other steps", p->op, p->name);
    CM_NEW_N(cx, arena, wanted, p->n_out, cm_datum *);
    for (int o = 0; o < p->n_out; o++) {
        out[o] = (cm_datum){0};
        wanted[o] = p->out[o].value >= 0 ? &out[o] : NULL;
    }
    cm_eval eval = {.cx = cx,
                    .op = s->op,
                    .attr = s->attr,
                    .prepared = s->prepared,
                    .n_in = p->n_in,
                    .in = in,
                    .n_out = p->n_out,
                    .out = wanted,
                    .threads = threads,
                    .random = &random,
                    .host = &host,
                    .epilogue = &p->epilogue};
    cm_status st = cm_op_eval(&eval);
    return st == CM_OK ? st : cm_while(cx, st, "%s node '%s'", p->op, p->name);
}
