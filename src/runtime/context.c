/* context.c -- one running instance of an engine.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/binding.h"
#include "runtime/device.h"

#include <string.h>

/* Constants stand in their slots for good. */
static void set_constants(cm_context *c)
{
    const cm_plan *p = c->engine->plan;
    for (int i = 0; i < p->n_values; i++) {
        const cm_plan_value *v = &p->values[i];
        c->slots[i].output = -1;
        if (v->storage != CM_STORE_CONSTANT)
            continue;
        cm_datum *d = &c->slots[i].datum;
        d->kind = CM_TENSOR;
        if (!cm_tensor_shape(&d->tensor, v->type.dtype, v->type.rank, v->type.dims))
            d->kind = CM_NOTHING; /* unreachable: the reader checked */
        d->tensor.packed = cm_dtype_is_sub_byte(v->type.dtype);
        if (cm_plan_packed_of(p, i)) { /* its data is set where it is wanted plain */
            (void)cm_tensor_bytes(&d->tensor, &d->tensor.capacity_bytes);
            continue;
        }
        d->tensor.data = (void *)c->engine->values[i].data;
        d->tensor.capacity_bytes = (size_t)v->bytes;
    }
}

static cm_status make_controls(cm_ctx *cx, cm_context *c, int list)
{
    const cm_ready_list *l = &c->engine->lists[list];
    for (int i = 0; i < l->plan->n_steps; i++) {
        const cm_ready_step *s = &l->steps[i];
        if (s->control < 0)
            continue;
        CM_TRY(cm_control_create(cx, c, s));
        for (int k = 0; k < s->plan->n_lists; k++)
            CM_TRY(make_controls(cx, c, s->plan->lists[k]));
    }
    return CM_OK;
}

static cm_status fill(cm_ctx *cx, cm_context *c, const cm_context_options *options)
{
    const cm_engine *e = c->engine;
    int n_in = cm_engine_n_inputs(e);
    CM_NEW_N(cx, &c->arena, c->slots, e->plan->n_values, cm_slot);
    CM_NEW_N(cx, &c->arena, c->controls, e->n_controls, cm_control);
    CM_NEW_N(cx, &c->arena, c->in, e->max_in, const cm_datum *);
    CM_NEW_N(cx, &c->arena, c->out, e->max_out, cm_datum *);
    CM_NEW_N(cx, &c->arena, c->inputs, n_in, cm_datum);
    CM_NEW_N(cx, &c->arena, c->by_value, n_in, bool);
    CM_NEW_N(cx, &c->arena, c->outputs, cm_engine_n_outputs(e), cm_output_binding);
    CM_TRY(cm_bindings_create(cx, c));
    set_constants(c);
    CM_TRY(make_controls(cx, c, 0));
    c->target = (cm_target){CM_DEVICE_CPU, cm_cpu_info()->isa, 0};
    if (options->target && options->target->kind == CM_DEVICE_CPU)
        c->target = *options->target;
    else if (options->target)
        CM_TRY(cm_device_state_create(cx, c, options->target));
    c->timings = options->timings;
    c->max_memory = options->max_memory;
    c->tune = options->tune;
    c->tune_user = options->tune_user;
    c->random = options->seed;
    c->profile = options->profile;
    c->profile_user = options->profile_user;
    c->only_times = options->only_times;
    c->heard = cm_ranges_heard();
    CM_TRY(cm_threads_create(cx, options->threads, &c->threads));
    cm_threads_observe(c->threads, options->stint, options->profile_user);
    return CM_OK;
}

cm_status cm_context_create(cm_ctx *cx, cm_engine *e, const cm_context_options *options,
                            cm_context **out)
{
    static const cm_context_options defaults = {0};
    if (e->plan->stripped)
        return cm_plan_fail_stripped(cx);
    cm_context *c = cm_alloc(cx->allocator, sizeof *c, 64);
    if (!c)
        return cm_fail_memory(cx);
    memset(c, 0, sizeof *c);
    c->allocator = cx->allocator;
    c->engine = cm_engine_retain(e);
    cm_arena_init(&c->arena, cx->allocator);
    cm_arena_init(&c->scratch, cx->allocator);
    cm_status st = fill(cx, c, options ? options : &defaults);
    if (st != CM_OK) {
        cm_context_destroy(c);
        return st;
    }
    *out = c;
    return CM_OK;
}

void cm_context_destroy(cm_context *c)
{
    if (!c)
        return;
    cm_device_settle(c);
    cm_bindings_destroy(c);
    cm_device_state_destroy(c);
    cm_threads_destroy(c->threads);
    for (int i = 0; c->slots && i < c->engine->plan->n_values; i++)
        cm_room_deinit(c->allocator, &c->slots[i].room);
    for (int i = 0; c->controls && i < c->engine->n_controls; i++)
        cm_control_destroy(c, i);
    cm_room_deinit(c->allocator, &c->late_workspace);
    cm_release(c->allocator, c->memory, c->memory_bytes);
    cm_arena_deinit(&c->scratch);
    cm_arena_deinit(&c->arena);
    cm_engine_release(c->engine);
    cm_release(c->allocator, c, sizeof *c);
}

cm_engine *cm_context_engine(const cm_context *c)
{
    return c->engine;
}

static cm_status check_index(cm_ctx *cx, const char *what, int i, int n)
{
    if (i >= 0 && i < n)
        return CM_OK;
    return cm_fail(cx, CM_ERR_ARGUMENT, "%s %d is out of range: there are %d", what, i, n);
}

cm_status cm_context_set_input(cm_ctx *cx, cm_context *c, int i, const cm_datum *d)
{
    CM_TRY(check_index(cx, "input", i, cm_engine_n_inputs(c->engine)));
    CM_TRY(cm_check_input(cx, c->engine, i, d));
    size_t bytes;
    if (d->kind == CM_TENSOR) {
        if (!cm_tensor_bytes(&d->tensor, &bytes))
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' is too large",
                           cm_engine_input_name(c->engine, i));
        if (!d->tensor.data && bytes)
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' has no memory",
                           cm_engine_input_name(c->engine, i));
        if (!cm_tensor_is_dense(&d->tensor))
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' is not dense",
                           cm_engine_input_name(c->engine, i));
    }
    cm_forget_device_input(c, i);
    c->inputs[i] = *d;
    return CM_OK;
}

cm_status cm_set_shape(cm_ctx *cx, cm_context *c, int i, int rank, const int64_t *dims)
{
    CM_TRY(check_index(cx, "input", i, cm_engine_n_inputs(c->engine)));
    const cm_type *t = cm_engine_input_type(c->engine, i);
    cm_datum d = {.kind = CM_TENSOR};
    if (!cm_tensor_shape(&d.tensor, t->dtype, rank, dims))
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': such a shape is not possible",
                       cm_engine_input_name(c->engine, i));
    d.tensor.packed = cm_dtype_is_sub_byte(t->dtype);
    CM_TRY(cm_check_input(cx, c->engine, i, &d));
    c->inputs[i] = d;
    return CM_OK;
}

cm_status cm_context_set_shape(cm_ctx *cx, cm_context *c, int i, int rank, const int64_t *dims)
{
    CM_TRY(cm_set_shape(cx, c, i, rank, dims));
    cm_forget_device_input(c, i);
    return CM_OK;
}

cm_status cm_context_input_memory(cm_ctx *cx, cm_context *c, int i, int rank, const int64_t *dims,
                                  cm_tensor *out)
{
    CM_TRY(cm_context_set_shape(cx, c, i, rank, dims));
    cm_tensor *t = &c->inputs[i].tensor;
    cm_room *room = &c->slots[c->engine->variant->lists[0].inputs[i]].room;
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' is too large",
                       cm_engine_input_name(c->engine, i));
    cm_ctx inner = {.allocator = c->allocator};
    if (cm_room_reserve(&inner, room, bytes, 0) != CM_OK)
        return cm_fail(cx, CM_ERR_MEMORY, "%s", inner.message);
    t->data = room->data;
    t->capacity_bytes = room->bytes;
    *out = *t;
    return CM_OK;
}

size_t cm_context_arena_bytes(const cm_context *c)
{
    return c->memory_used + (c->device ? c->device->tables.memory_used : 0);
}

size_t cm_context_total_bytes(const cm_context *c)
{
    size_t n = sizeof *c + c->arena.total + c->scratch.total + c->bound_arena.total +
               c->memory_bytes + cm_room_total(&c->late_workspace) + cm_bindings_bytes(c);
    for (int i = 0; i < c->engine->plan->n_values; i++)
        n += cm_room_total(&c->slots[i].room);
    for (int i = 0; i < c->engine->n_controls; i++) {
        for (int k = 0; k < c->controls[i].n_carried; k++)
            n += cm_room_total(&c->controls[i].pending[k]);
        for (int k = 0; k < c->controls[i].n_scanned; k++)
            n += cm_room_total(&c->controls[i].unpacked[k]);
    }
    return n;
}

bool cm_is_output(const cm_context *c, int32_t v)
{
    const cm_plan_list *main = c->engine->lists[0].plan;
    for (int i = 0; i < main->n_outputs; i++)
        if (main->outputs[i] == v)
            return true;
    return false;
}

/* Roughly: most evaluators go through doubles, one element after the other. 0: shapes are not known. */
static double evaluator_ns(const cm_context *c, const cm_plan_step *s)
{
    const double EACH_NS = 10, BEGIN_NS = 500;
    double elems = 0;
    const cm_op *op = cm_op_find(s->op);
    int first = op && (op->traits & CM_SHAPE_ONLY) ? s->n_in : 0;
    for (int i = first; i < s->n_in + s->n_out; i++) {
        int32_t v = i < s->n_in ? s->in[i].value : s->out[i - s->n_in].value;
        if (v >= 0 && !c->slots[v].shaped)
            return 0;
        if (v >= 0 && c->slots[v].datum.kind == CM_TENSOR)
            elems += (double)cm_tensor_elems(&c->slots[v].datum.tensor);
    }
    return BEGIN_NS + elems * EACH_NS;
}

void cm_context_layer(const cm_context *c, int step, cm_layer_facts *out)
{
    const cm_solution *sol = &c->solutions[step];
    const cm_tactic *t = sol->choice.tactic;
    const cm_plan_step *s = c->engine->steps[step];
    bool problem = s->kind == CM_STEP_PROBLEM;
    *out = (cm_layer_facts){
        .refused = sol->refused, .n_conversions = sol->n_conversions, .workspace = sol->workspace};
    bool late = sol->way == CM_WAY_LATE;
    if (!problem)
        out->tactic = "control";
    else if (sol->way == CM_WAY_VIEW)
        out->tactic = "view";
    else if (sol->joined)
        out->tactic = "joined";
    else if (t)
        out->tactic = t->name;
    else
        out->tactic = late && !sol->formed ? "late" : "reference";
    out->reference = problem && !t && sol->way == CM_WAY_EVALUATOR;
    out->expected_ns = out->reference ? evaluator_ns(c, s) : t && !sol->joined ? sol->choice.ns : 0;
    out->away = sol->away;
    out->fell = c->device && problem && !sol->away && (late || sol->may_go) &&
                sol->way != CM_WAY_VIEW && sol->way != CM_WAY_KNOWN && !sol->small;
    out->small = c->device && problem && !sol->away && sol->small;
    out->idle =
        (problem && (sol->way == CM_WAY_KNOWN || (sol->way == CM_WAY_VIEW && !sol->away))) ||
        cm_inner_not_run(c, step);
    if (s->n_out && s->out[0].value >= 0 && c->slots[s->out[0].value].shaped)
        out->channels_last = !cm_tensor_is_dense(&c->slots[s->out[0].value].datum.tensor);
}

static cm_status bind_output(cm_ctx *cx, cm_context *c, int i, cm_output_binding b)
{
    CM_TRY(check_index(cx, "output", i, cm_engine_n_outputs(c->engine)));
    const cm_type *t = cm_engine_output_type(c->engine, i);
    if (t->kind != CM_TENSOR || t->dtype == CM_STR)
        return cm_fail(cx, CM_ERR_ARGUMENT, "output '%s' is not a tensor of numbers",
                       cm_engine_output_name(c->engine, i));
    c->outputs[i] = b;
    return CM_OK;
}

cm_status cm_context_set_output(cm_ctx *cx, cm_context *c, int i, void *data, size_t bytes)
{
    return bind_output(cx, c, i, (cm_output_binding){.data = data, .bytes = bytes});
}

cm_status cm_context_set_output_fn(cm_ctx *cx, cm_context *c, int i, cm_output_fn fn, void *user)
{
    return bind_output(cx, c, i, (cm_output_binding){.fn = fn, .user = user});
}

/* Inputs into their slots; what is not aligned to its element is copied. */
static cm_status place_inputs(cm_ctx *cx, cm_context *c)
{
    const cm_plan_list *main = &c->engine->variant->lists[0];
    for (int i = 0; i < main->n_inputs; i++) {
        cm_slot *s = &c->slots[main->inputs[i]];
        const cm_datum *d = &c->inputs[i];
        s->datum = *d;
        s->owned = false;
        if (d->kind != CM_TENSOR)
            continue;
        size_t bytes, size = cm_dtype_size(d->tensor.dtype);
        size_t align = size > 8 ? 8 : size;
        if (c->device && c->device->in_at[i])
            continue;
        if (!cm_tensor_bytes(&d->tensor, &bytes) || (!d->tensor.data && bytes))
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s' has a shape but no data",
                           cm_engine_input_name(c->engine, i));
        if (!d->tensor.data || (uintptr_t)d->tensor.data % align) {
            CM_TRY(cm_room_reserve(cx, &s->room, bytes, 0));
            if (bytes)
                memcpy(s->room.data, d->tensor.data, bytes);
            s->datum.tensor.data = s->room.data;
        }
    }
    return CM_OK;
}

static bool overlaps_an_input(const cm_context *c, const cm_output_binding *b)
{
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++) {
        const cm_datum *d = &c->inputs[i];
        size_t bytes;
        if (d->kind != CM_TENSOR || !cm_tensor_bytes(&d->tensor, &bytes))
            return true;
        uintptr_t x = (uintptr_t)d->tensor.data, y = (uintptr_t)b->data;
        if (x < y + b->bytes && y < x + bytes)
            return true;
    }
    return false;
}

/* Values that steps may write straight to the caller's memory. One that is two outputs goes to the
 * first; memory that an input shares is filled at the end. */
static void direct_outputs(cm_context *c)
{
    const cm_plan_list *main = &c->engine->variant->lists[0];
    for (int i = 0; i < main->n_outputs; i++)
        c->slots[main->outputs[i]].output = -1;
    for (int i = 0; i < main->n_outputs; i++) {
        cm_output_binding *b = &c->outputs[i];
        cm_slot *s = &c->slots[main->outputs[i]];
        if (b->fn)
            b->data = NULL;
        b->over_input = b->data && overlaps_an_input(c, b);
        if ((b->fn || b->data) && !b->over_input && s->output < 0)
            s->output = i;
    }
}

static cm_status deliver(cm_ctx *cx, cm_context *c, int i)
{
    cm_output_binding *b = &c->outputs[i];
    const cm_datum *d = &c->slots[c->engine->variant->lists[0].outputs[i]].datum;
    size_t bytes;
    void *to;
    if (!(b->fn || b->data) || !cm_datum_is_plain(d) || (b->data && d->tensor.data == b->data))
        return CM_OK;
    if (!cm_tensor_bytes(&d->tensor, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "output '%s' is too large",
                       cm_engine_output_name(c->engine, i));
    CM_TRY(cm_callers_memory(cx, c, i, &d->tensor, bytes, &to));
    if (bytes)
        memmove(to, d->tensor.data, bytes);
    return CM_OK;
}

/* Outputs that lie elsewhere (views, constants, inputs, control steps') to the caller's memory; what
 * overwrites an input comes last. */
static cm_status deliver_all(cm_ctx *cx, cm_context *c)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < cm_engine_n_outputs(c->engine); i++)
            if (c->outputs[i].over_input == (pass == 1))
                CM_TRY(deliver(cx, c, i));
    return CM_OK;
}

/* The first half of a run: everything is given to whom it is for. */
static cm_status begin(cm_ctx *cx, cm_context *c)
{
    c->ran = false;
    CM_TRY(cm_context_bind(cx, c));
    CM_TRY(place_inputs(cx, c));
    direct_outputs(c);
    cm_threads_watch(c->threads, cx);
    cm_status st = c->device ? cm_run_actions(cx, c) : cm_run_list(cx, c, 0);
    cm_threads_watch(c->threads, NULL);
    CM_TRY(st);
    return cm_check_cancel(cx); /* the last step may have stopped early */
}

static cm_status finish(cm_ctx *cx, cm_context *c)
{
    if (c->device)
        CM_TRY(cm_finish_actions(cx, c));
    CM_TRY(deliver_all(cx, c));
    c->ran = true;
    return CM_OK;
}

static cm_status run(cm_ctx *cx, cm_context *c)
{
    CM_TRY(begin(cx, c));
    return finish(cx, c);
}

typedef cm_status (*job_fn)(cm_ctx *cx, cm_context *c);

static cm_status do_inside(cm_ctx *cx, cm_context *c, job_fn job)
{
    cm_ctx inner = *cx; /* memory and scratch are the context's, words and limits the caller's */
    inner.allocator = c->allocator;
    inner.scratch = &c->scratch;
    inner.arena = NULL;
    cm_arena_reset(&c->scratch);
    if (c->device && c->device->in_flight && job != finish)
        CM_TRY(cm_context_wait(cx, c));
    cm_status st = job(&inner, c);
    if (st != CM_OK)
        memcpy(cx->message, inner.message, sizeof cx->message);
    return st;
}

cm_status cm_context_run(cm_ctx *cx, cm_context *c)
{
    return do_inside(cx, c, run);
}

cm_status cm_context_enqueue(cm_ctx *cx, cm_context *c)
{
    return do_inside(cx, c, c->device ? begin : run);
}

cm_status cm_context_wait(cm_ctx *cx, cm_context *c)
{
    return c->device && c->device->in_flight ? do_inside(cx, c, finish) : CM_OK;
}

const cm_datum *cm_context_output(const cm_context *c, int i)
{
    if (!c->ran || i < 0 || i >= cm_engine_n_outputs(c->engine))
        return NULL;
    return &c->slots[c->engine->variant->lists[0].outputs[i]].datum;
}
