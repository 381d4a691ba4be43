/* bind.c -- input shapes give symbols their values; then memory is planned.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/bands.h"
#include "runtime/binding.h"
#include "runtime/device.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

static const char *kind_name(cm_kind k)
{
    static const char *const names[] = {"nothing", "a tensor", "a sequence", "an optional",
                                        "a map"};
    return names[k];
}

cm_status cm_check_input(cm_ctx *cx, const cm_engine *e, int i, const cm_datum *d)
{
    const cm_type *t = cm_engine_input_type(e, i);
    const char *name = cm_engine_input_name(e, i);
    if (t->kind != CM_NOTHING && d->kind != t->kind)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': found %s, wanted %s", name,
                       kind_name(d->kind), kind_name(t->kind));
    if (d->kind != CM_TENSOR)
        return CM_OK;
    const cm_tensor *x = &d->tensor;
    if (t->dtype != CM_NO_DTYPE && t->kind == CM_TENSOR && x->dtype != t->dtype)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': found element type %s, wanted %s", name,
                       cm_dtype_name(x->dtype), cm_dtype_name(t->dtype));
    if (x->rank < 0 || x->rank > CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': rank %d is out of range", name, x->rank);
    if (t->kind == CM_TENSOR && t->rank >= 0 && x->rank != t->rank)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': found rank %d, wanted %d", name, x->rank,
                       t->rank);
    return CM_OK;
}

static cm_status mismatch(cm_ctx *cx, const cm_engine *e, int input, int axis, int64_t found,
                          int64_t wanted, const char *because)
{
    return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' axis %d: found %lld, wanted %lld%s%s",
                   cm_engine_input_name(e, input), axis, (long long)found, (long long)wanted,
                   because ? ", which is " : "", because ? because : "");
}

/* Numbers are compared, bare symbols bound. */
static cm_status bind_axis(cm_ctx *cx, cm_context *c, int input, int axis, cm_dim want,
                           int64_t found)
{
    const cm_dim_table *dims = c->engine->plan->dims;
    if (cm_dim_is_size(want))
        return want == found ? CM_OK : mismatch(cx, c->engine, input, axis, found, want, NULL);
    int symbol = cm_dim_symbol_index(dims, want);
    if (symbol < 0)
        return CM_OK;
    if (c->symbols[symbol] == CM_DIM_UNBOUND)
        c->symbols[symbol] = found;
    else if (c->symbols[symbol] != found)
        return mismatch(cx, c->engine, input, axis, found, c->symbols[symbol],
                        cm_dim_symbol_name(dims, symbol));
    return CM_OK;
}

/* Expressions, once all symbols that inputs bind are known. */
static cm_status check_axis(cm_ctx *cx, cm_context *c, int input, int axis, cm_dim want,
                            int64_t found)
{
    const cm_dim_table *dims = c->engine->plan->dims;
    int64_t value;
    if (cm_dim_is_size(want) || cm_dim_symbol_index(dims, want) >= 0 ||
        !cm_dim_eval(dims, want, c->symbols, &value) || value == found)
        return CM_OK;
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_dim_print(dims, want, &text);
    cm_status st = mismatch(cx, c->engine, input, axis, found, value, cm_buf_text(&text));
    cm_buf_deinit(&text);
    return st;
}

typedef cm_status (*axis_fn)(cm_ctx *, cm_context *, int, int, cm_dim, int64_t);

static cm_status each_axis(cm_ctx *cx, cm_context *c, axis_fn fn)
{
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++) {
        const cm_type *t = cm_engine_input_type(c->engine, i);
        const cm_tensor *x = &c->inputs[i].tensor;
        if (c->inputs[i].kind != CM_TENSOR || t->kind != CM_TENSOR)
            continue;
        for (int a = 0; a < t->rank; a++)
            CM_TRY(fn(cx, c, i, a, t->dims[a], x->dims[a]));
    }
    return CM_OK;
}

/* Bytes of a value that the arena may hold; false when its shape is not known yet. */
static bool bytes_of(const cm_context *c, const cm_type *t, size_t *bytes)
{
    int64_t n = 1, d;
    for (int a = 0; a < t->rank; a++) {
        if (!cm_dim_eval(c->engine->plan->dims, t->dims[a], c->symbols, &d) || d < 0 ||
            !cm_mul_i64(n, d, &n))
            return false;
    }
    return cm_dtype_bytes(t->dtype, n, bytes);
}

/* What bound steps need while they run. */
static int add_workspace(cm_context *c, const cm_ready_step *s, int n)
{
    size_t bytes = cm_chain_workspace(c, &c->solutions[s->index]);
    if (c->solutions[s->index].way == CM_WAY_LATE || !bytes)
        return n;
    const cm_solution *sol = &c->solutions[s->index];
    int last = sol->until > s->end ? sol->until : s->end;
    if (sol->way == CM_WAY_VIEW) /* what it made of its input is its output */
        last = c->last[s->plan->out[0].value];
    c->interval_values[n] = -1 - s->index;
    c->intervals[n] = (cm_interval){s->begin, last, bytes, 0};
    return n + 1;
}

static bool lies_as(const cm_tensor *a, const cm_tensor *b)
{
    size_t bytes = (size_t)a->rank * sizeof *a->dims;
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, bytes) &&
           !memcmp(a->strides, b->strides, bytes);
}

/* Does the tactic allow that output 0 lies where input i does? */
static bool allows(const cm_solution *sol, int i)
{
    const cm_problem *p = &sol->p;
    int which = sol->choice.tactic->in_place;
    if (which != CM_IN_PLACE_ANY)
        return i == which - 1;
    return p->n_out == 1 && i < p->n_in && p->in[i] && p->out[0] && lies_as(p->in[i], p->out[0]);
}

/* May the step's output 0 have the memory of input i? Nobody else may read the input, now or later, and it must lie in
 * the arena with a place of its own, of so many bytes. */
static bool is_left_to(const cm_context *c, const cm_ready_step *s, int32_t v, int i, size_t bytes)
{
    int32_t from = s->plan->in[i].value;
    size_t held;
    for (int k = 0; k < s->plan->n_in; k++)
        if (k != i && s->plan->in[k].value == from)
            return false;
    return from >= 0 && c->slots[from].interval >= 0 && c->last[from] == s->end &&
           c->engine->values[from].list == c->engine->values[v].list && c->slots[from].shaped &&
           cm_tensor_bytes(&c->slots[from].datum.tensor, &held) && held == bytes &&
           c->intervals[c->slots[from].interval].bytes >= bytes;
}

/* May the step's output 0 take over the memory of an input that its tactic names? Steps of a chain may not: those before
 * them come back to what they read. */
static bool takes_over(cm_context *c, const cm_ready_step *s, int32_t v, size_t bytes)
{
    const cm_solution *sol = &c->solutions[s->index];
    if (sol->way != CM_WAY_TACTIC || s->plan->out[0].value != v || sol->n_conversions || sol->until)
        return false;
    int i = 0;
    while (i < s->plan->n_in && !(allows(sol, i) && is_left_to(c, s, v, i, bytes)))
        i++;
    if (i == s->plan->n_in)
        return false;
    int from = c->slots[s->plan->in[i].value].interval;
    if (c->intervals[from].last < c->last[v])
        c->intervals[from].last = c->last[v];
    c->slots[v].interval = from;
    return true;
}

static int add_output(cm_context *c, const cm_ready_step *s, int32_t v, int n)
{
    const cm_ready_value *ev = &c->engine->values[v];
    const cm_slot *slot = &c->slots[v];
    size_t bytes;
    if (!ev->in_arena || slot->output >= 0 || c->solutions[s->index].way == CM_WAY_VIEW)
        return n;
    if (slot->shaped ? !cm_tensor_bytes(&slot->datum.tensor, &bytes)
                     : !bytes_of(c, &c->engine->plan->values[v].type, &bytes))
        return n;
    if (takes_over(c, s, v, bytes))
        return n;
    bytes = cm_chain_bytes(c, &c->solutions[s->index], bytes);
    c->slots[v].interval = n;
    c->interval_values[n] = v;
    c->intervals[n] = (cm_interval){ev->first, c->last[v], bytes, 0};
    return n + 1;
}

/* Values in the order in which steps make them, which is the order of `first`. */
static int collect(cm_context *c, int list, int n)
{
    const cm_ready_list *l = &c->engine->lists[list];
    for (int i = 0; i < l->plan->n_steps; i++) {
        const cm_ready_step *s = &l->steps[i];
        for (int k = 0; k < s->plan->n_lists; k++)
            n = collect(c, s->plan->lists[k], n);
        if (c->solutions[s->index].away) /* its memory is the device's */
            continue;
        if (s->control < 0)
            n = add_workspace(c, s, n);
        for (int o = 0; o < s->plan->n_out; o++)
            if (s->plan->out[o].value >= 0)
                n = add_output(c, s, s->plan->out[o].value, n);
    }
    return n;
}

/* Ways of running, and places in the arena, *total bytes in all. */
static cm_status choose(cm_ctx *cx, cm_context *c, bool lean, int *n, size_t *total)
{
    c->lean = lean;
    CM_TRY(cm_prepare(cx, c));
    *n = collect(c, 0, 0);
    return cm_memory_plan(cx, &c->scratch, c->intervals, *n, total);
}

static bool too_much(const cm_context *c, size_t total)
{
    return c->max_memory && (total > c->max_memory || c->packed_bytes > c->max_memory - total);
}

/* A plan runs on machines that it was not measured for; whoever listens is told, once. */
static void tell(cm_ctx *cx, cm_context *c, uint64_t start)
{
    char text[32];
    bool measured = c->engine->timings || c->timings || c->tune;
    if ((measured && !c->engine->repacked) || atomic_exchange(&c->engine->told, true))
        return;
    cm_target_text(text, sizeof text, &c->target);
    cm_log(cx, CM_LOG_INFO, "the plan has no %s for %s: %s in %.1f ms",
           measured ? "packed weights" : "measurements", text,
           measured ? "its own were packed again"
                    : "kernels were chosen by the cost model and weights packed",
           (double)(cm_now_ns() - start) * 1e-6);
}

static cm_status plan_memory(cm_ctx *cx, cm_context *c)
{
    int n;
    size_t total;
    CM_TRY(choose(cx, c, false, &n, &total));
    if (too_much(c, total))
        CM_TRY(choose(cx, c, true, &n, &total));
    if (too_much(c, total))
        return cm_fail(cx, CM_ERR_MEMORY,
                       "%zu bytes for activations and %zu for packed weights are wanted; the limit "
                       "is %zu",
                       total, c->packed_bytes, c->max_memory);
    if (total > c->memory_bytes) {
        cm_release(c->allocator, c->memory, c->memory_bytes);
        c->memory_bytes = 0;
        c->memory = cm_alloc(c->allocator, total, CM_MEMORY_ALIGN);
        if (!c->memory)
            return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for a context",
                           total);
        c->memory_bytes = total;
    }
    c->memory_used = total;
    c->n_intervals = n;
    for (int i = 0; i < n; i++)
        if (c->interval_values[i] < 0)
            c->solutions[-1 - c->interval_values[i]].offset = c->intervals[i].offset;
    for (int v = 0; v < c->engine->plan->n_values; v++) {
        cm_slot *s = &c->slots[v];
        if (s->interval < 0)
            continue;
        s->offset = c->intervals[s->interval].offset;
        s->planned = c->intervals[s->interval].bytes;
    }
    return CM_OK;
}

cm_status cm_context_bind(cm_ctx *cx, cm_context *c)
{
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        if (c->inputs[i].kind == CM_NOTHING)
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' was not set",
                           cm_engine_input_name(c->engine, i));
    if (c->bound && cm_binding_fits(c))
        return CM_OK;
    if (c->device && c->device->in_flight) /* its memory may be another one soon */
        CM_TRY(cm_context_wait(cx, c));
    c->bound = c->ran = false;
    CM_TRY(cm_binding_take(cx, c, &c->bound));
    if (c->bound)
        return CM_OK;
    uint64_t start = cm_now_ns();
    for (int i = 0; i < cm_dim_symbol_count(c->engine->plan->dims); i++)
        c->symbols[i] = CM_DIM_UNBOUND;
    CM_TRY(each_axis(cx, c, bind_axis));
    CM_TRY(each_axis(cx, c, check_axis));
    CM_TRY(plan_memory(cx, c));
    CM_TRY(cm_pack_weights(cx, c));
    if (c->device)
        CM_TRY(cm_device_bind(cx, c));
    tell(cx, c, start);
    cm_binding_done(c);
    c->bound = true;
    return CM_OK;
}

bool cm_context_output_shape(const cm_context *c, int i, int *rank, int64_t *dims)
{
    const cm_type *t = cm_engine_output_type(c->engine, i);
    if (!c->bound || t->kind != CM_TENSOR || t->rank < 0)
        return false;
    for (int a = 0; a < t->rank; a++)
        if (!cm_dim_eval(c->engine->plan->dims, t->dims[a], c->symbols, &dims[a]) || dims[a] < 0)
            return false;
    *rank = t->rank;
    return true;
}
