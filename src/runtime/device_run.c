/* device_run.c -- the main list of a device's context: its actions, one after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/device.h"

/* Where the device finds input i of a step. */
static const void *input_at(const cm_context *c, const cm_ready_step *s, const cm_solution *sol,
                            int i)
{
    if (sol->packed && sol->packed[i])
        return sol->packed[i];
    return c->device->tables.places[s->plan->in[i].value].data;
}

static cm_status convert(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    cm_device_state *d = c->device;
    for (int i = 0; i < sol->n_conversions; i++) {
        cm_conversion *k = &sol->conversions[i];
        cm_tensor *to = &k->to.tensor;
        const cm_tensor *from = &c->slots[s->plan->in[k->input].value].datum.tensor;
        to->data = d->memory + sol->offset + k->offset;
        CM_TRY(d->api->copy(cx, d->stream, cm_dtype_size(to->dtype), to->rank, to->dims,
                            input_at(c, s, sol, k->input), from->strides, to->data, to->strides));
    }
    return CM_OK;
}

cm_status cm_launch_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol,
                         void *workspace, int64_t *count)
{
    cm_device_state *d = c->device;
    int64_t elems = 0;
    const cm_solution *then = sol->then ? &c->solutions[sol->then->index] : NULL;
    cm_run second;
    for (int o = 0; o < s->plan->n_out; o++)
        elems += s->plan->out[o].value >= 0 ? cm_tensor_elems(sol->p.out[o]) : 0;
    if (elems == 0 && !count)
        return CM_OK;
    cm_run r = {.cx = cx,
                .p = &sol->p,
                .k = &sol->choice.knobs,
                .in = sol->data,
                .out = sol->out_data,
                .operands = sol->data + sol->p.n_in,
                .workspace = workspace,
                .threads = c->threads,
                .state = sol->state,
                .stream = d->stream,
                .fault = d->fault,
                .fault_code = (uint32_t)s->index + 1,
                .count = count};
    if (then) {
        second = (cm_run){.cx = cx, .p = &then->p, .in = then->data, .out = then->out_data};
        r.then = &second;
        r.signals = d->memory + d->tables.signals;
    }
    return sol->choice.tactic->run(&r);
}

static void point(const cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    const cm_device_state *d = c->device;
    const cm_plan_step *p = s->plan;
    for (int i = 0; i < p->n_in; i++)
        if (sol->in[i])
            sol->data[i] = input_at(c, s, sol, i);
    for (int i = 0; i < sol->n_conversions; i++)
        sol->data[sol->conversions[i].input] = sol->conversions[i].to.tensor.data;
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o].value >= 0)
            sol->out_data[o] = (void *)d->tables.places[p->out[o].value].data;
}

static cm_status run_tactic(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    cm_device_state *d = c->device;
    if (sol->joined) /* its kernel has been enqueued */
        return CM_OK;
    point(c, s, sol);
    if (sol->then)
        point(c, sol->then, &c->solutions[sol->then->index]);
    int64_t *count = sol->counted ? (int64_t *)(d->pinned + sol->count) : NULL;
    return cm_launch_step(cx, c, s, sol, d->memory + sol->offset, count);
}

static cm_status enqueue(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_device_state *d = c->device;
    cm_solution *sol = &c->solutions[s->index];
    if (c->heard)
        cm_range_push(s->plan->name);
    cm_status st = convert(cx, c, s, sol);
    if (sol->way == CM_WAY_VIEW)
        d->tables.places[s->plan->out[0].value].data =
            sol->n_conversions ? sol->conversions[0].to.tensor.data : input_at(c, s, sol, 0);
    else if (st == CM_OK)
        st = run_tactic(cx, c, s, sol);
    if (c->heard)
        cm_range_pop();
    return st == CM_OK ? st : cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
}

static cm_status open_marks(cm_ctx *cx, cm_device_state *d, int n)
{
    for (; d->n_marks < n; d->n_marks++)
        CM_TRY(d->api->mark_open(cx, d->device, &d->marks[d->n_marks]));
    return CM_OK;
}

static cm_status enqueue_timed(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    cm_device_state *d = c->device;
    for (int i = 0; i < a->n; i++) {
        CM_TRY(d->api->mark_inside(cx, d->stream, d->marks[i]));
        CM_TRY(enqueue(cx, c, d->tables.order[a->first + i]));
    }
    CM_TRY(d->api->mark_inside(cx, d->stream, d->marks[a->n]));
    return d->api->mark_inside(cx, d->stream, d->marks[a->n + 1]);
}

static cm_status enqueue_segment(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    if (c->profile && c->only_times)
        return enqueue_timed(cx, c, a);
    for (int i = 0; i < a->n; i++)
        CM_TRY(enqueue(cx, c, c->device->tables.order[a->first + i]));
    return CM_OK;
}

static cm_status record(cm_ctx *cx, cm_context *c, cm_action *a)
{
    cm_device_state *d = c->device;
    CM_TRY(open_marks(cx, d, c->profile ? a->n + 2 : 0));
    CM_TRY(d->api->record_begin(cx, d->stream));
    cm_status st = enqueue_segment(cx, c, a);
    cm_ctx other = *cx;
    cm_status end = d->api->record_end(st == CM_OK ? cx : &other, d->stream, &a->recording);
    return st == CM_OK ? end : st;
}

static cm_status copy_up(cm_ctx *cx, cm_context *c, int32_t v)
{
    cm_device_state *d = c->device;
    const cm_place *x = &d->tables.places[v];
    if (!x->bytes)
        return CM_OK;
    memcpy(d->pinned + x->pinned, c->slots[v].datum.tensor.data, x->bytes);
    return d->api->upload(cx, d->stream, (void *)x->data, d->pinned + x->pinned, x->bytes);
}

static bool overlaps_an_input(const cm_context *c, const void *p, size_t bytes)
{
    uintptr_t y = (uintptr_t)p;
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++) {
        uintptr_t x = (uintptr_t)c->device->in_at[i];
        size_t held = 0;
        if (x && cm_tensor_bytes(&c->inputs[i].tensor, &held) && x < y + bytes && y < x + held)
            return true;
    }
    return false;
}

/* An output that a kernel makes goes straight to the caller's memory; one value has one place, so that
 * a second output of it is copied. */
static void place_output(cm_context *c, int o)
{
    cm_device_state *d = c->device;
    cm_place *x = &d->tables.places[c->engine->lists[0].plan->outputs[o]];
    size_t bytes = 0;
    if (!d->out_at[o] || !x->planned || x->up || x->counted || x->direct ||
        !cm_tensor_bytes(&c->slots[c->engine->lists[0].plan->outputs[o]].datum.tensor, &bytes) ||
        bytes > d->out_bytes[o] || overlaps_an_input(c, d->out_at[o], bytes))
        return;
    x->data = d->out_at[o];
    x->direct = true;
}

/* Where values are in this binding, with the pointers that the caller gave. */
static void set_places(cm_context *c)
{
    cm_device_state *d = c->device;
    const cm_plan_list *main = c->engine->lists[0].plan;
    for (int v = 0; v < c->engine->plan->n_values; v++) {
        d->tables.places[v].direct = false;
        if (d->tables.places[v].planned)
            d->tables.places[v].data = d->memory + d->tables.places[v].offset;
    }
    for (int i = 0; i < main->n_inputs; i++)
        if (d->in_at[i])
            d->tables.places[main->inputs[i]].data = d->in_at[i];
    for (int o = 0; o < main->n_outputs; o++)
        place_output(c, o);
}

/* What never changes, into memory that another binding may have used. */
static cm_status upload_constants(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    for (int v = 0; v < c->engine->plan->n_values; v++)
        if (d->tables.places[v].up && d->tables.places[v].once)
            CM_TRY(copy_up(cx, c, v));
    if (d->tables.signals_bytes)
        CM_TRY(
            d->api->fill(cx, d->stream, d->memory + d->tables.signals, 0, d->tables.signals_bytes));
    d->resident = c->binding;
    return CM_OK;
}

/* The bytes of n pointers or sizes, where there are any. */
static bool same(const void *a, const void *b, int n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof(void *)) == 0;
}

/* Do the recordings hold the pointers of today? */
static bool is_recorded(const cm_context *c)
{
    const cm_device_state *d = c->device;
    const cm_device_tables *t = &d->tables;
    int n_out = cm_engine_n_outputs(c->engine);
    return t->recorded && t->recorded_memory == d->moves &&
           same(t->recorded_in, d->in_at, cm_engine_n_inputs(c->engine)) &&
           same(t->recorded_out, d->out_at, n_out) && same(t->recorded_bytes, d->out_bytes, n_out);
}

static void note_recorded(cm_context *c)
{
    cm_device_state *d = c->device;
    cm_device_tables *t = &d->tables;
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        t->recorded_in[i] = d->in_at[i];
    for (int o = 0; o < cm_engine_n_outputs(c->engine); o++) {
        t->recorded_out[o] = d->out_at[o];
        t->recorded_bytes[o] = d->out_bytes[o];
    }
    t->recorded_memory = d->moves;
    t->recorded = true;
}

static cm_status record_all(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    d->tables.recorded = false;
    set_places(c);
    CM_TRY(upload_constants(cx, c));
    for (int i = 0; i < d->tables.n_actions; i++)
        if (d->tables.actions[i].kind == CM_DO_SEGMENT)
            CM_TRY(record(cx, c, &d->tables.actions[i]));
    note_recorded(c);
    return CM_OK;
}

cm_status cm_check_fault(cm_ctx *cx, cm_context *c)
{
    uint32_t code = *(volatile uint32_t *)c->device->fault;
    if (!code)
        return CM_OK;
    *c->device->fault = 0;
    const cm_plan_step *s = c->engine->steps[code <= (uint32_t)c->engine->n_steps ? code - 1 : 0];
    return cm_fail(cx, CM_ERR_DATA, "%s node '%s': an index or a size in its data is out of range",
                   s->op, s->name);
}

/* The count is a kernel's word, and kernels come with plans. */
cm_status cm_shape_counted(cm_ctx *cx, cm_context *c, const cm_ready_step *s,
                           const cm_solution *sol, int64_t n)
{
    for (int o = 0; o < s->plan->n_out; o++) {
        int axis = s->plan->out[o].value >= 0 ? sol->counted[o] : -1;
        if (axis < 0)
            continue;
        cm_tensor t = *sol->p.out[o];
        if (n < 0 || n > t.dims[axis])
            return cm_fail(cx, CM_ERR_DEVICE, "%s node '%s': output %d has %lld, at most %lld fit",
                           s->plan->op, s->plan->name, o, (long long)n, (long long)t.dims[axis]);
        t.dims[axis] = n;
        (void)cm_tensor_shape(&t, t.dtype, t.rank, t.dims); /* no larger than the most */
        c->slots[s->plan->out[o].value].datum = (cm_datum){.kind = CM_TENSOR, .tensor = t};
    }
    return CM_OK;
}

/* What data sized has come. */
static cm_status take_count(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_device_state *d = c->device;
    const cm_solution *sol = &c->solutions[s->index];
    CM_TRY(d->api->wait(cx, d->stream));
    CM_TRY(cm_check_fault(cx, c));
    CM_TRY(cm_shape_counted(cx, c, s, sol, *(volatile int64_t *)(d->pinned + sol->count)));
    for (int o = 0; o < s->plan->n_out; o++) {
        int32_t v = s->plan->out[o].value;
        if (v < 0 || sol->counted[o] < 0)
            continue;
        d->late[v].there = d->run;
        d->late[v].at = d->tables.places[v].data;
    }
    return CM_OK;
}

/* Step by step, each one waited for, so that whoever is told finds its outputs. */
static cm_status walk_segment(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    cm_device_state *d = c->device;
    CM_TRY(open_marks(cx, d, 2));
    for (int i = 0; i < a->n; i++) {
        const cm_ready_step *s = d->tables.order[a->first + i];
        double ns;
        CM_TRY(d->api->mark(cx, d->stream, d->marks[0]));
        CM_TRY(enqueue(cx, c, s));
        CM_TRY(d->api->mark(cx, d->stream, d->marks[1]));
        CM_TRY(d->api->between(cx, d->device, d->marks[0], d->marks[1], &ns));
        if (c->solutions[s->index].counted)
            CM_TRY(take_count(cx, c, s));
        uint64_t now = cm_now_ns();
        c->profile(c->profile_user, s->index, now - (uint64_t)ns, now);
    }
    return CM_OK;
}

/* As one graph; a range over it is named by its first layer. */
static cm_status launch_segment(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    cm_device_state *d = c->device;
    if (c->heard)
        cm_range_push(a->name);
    cm_status st = d->api->launch(cx, d->stream, a->recording);
    if (c->heard)
        cm_range_pop();
    return st;
}

/* As a whole, with a mark before every step and two behind the last, which tell what a mark itself takes: a few
 * microseconds, which no step shall be charged with. */
static cm_status time_segment(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    cm_device_state *d = c->device;
    double all, ns, mark;
    CM_TRY(d->api->launch(cx, d->stream, a->recording));
    CM_TRY(d->api->between(cx, d->device, d->marks[a->n], d->marks[a->n + 1], &mark));
    CM_TRY(d->api->between(cx, d->device, d->marks[0], d->marks[a->n], &all));
    double at = (double)cm_now_ns() - all;
    for (int i = 0; i < a->n; i++, at += ns) {
        CM_TRY(d->api->between(cx, d->device, d->marks[i], d->marks[i + 1], &ns));
        ns = ns > mark ? ns - mark : 0;
        c->profile(c->profile_user, d->tables.order[a->first + i]->index, (uint64_t)at,
                   (uint64_t)(at + ns));
    }
    return CM_OK;
}

static cm_status copy_down(cm_ctx *cx, cm_context *c, int32_t v)
{
    cm_device_state *d = c->device;
    const cm_place *x = &d->tables.places[v];
    c->slots[v].datum.tensor.data = d->pinned + x->pinned;
    c->slots[v].owned = false;
    return x->bytes ? d->api->download(cx, d->stream, d->pinned + x->pinned, x->data, x->bytes)
                    : CM_OK;
}

/* An output to the caller's memory on the device, from wherever it is. */
static cm_status copy_out(cm_ctx *cx, cm_context *c, int o)
{
    cm_device_state *d = c->device;
    int32_t v = c->engine->lists[0].plan->outputs[o];
    const cm_place *x = &d->tables.places[v];
    cm_tensor *t = &c->slots[v].datum.tensor;
    size_t bytes;
    if (!cm_datum_is_plain(&c->slots[v].datum) || !cm_tensor_bytes(t, &bytes) ||
        bytes > d->out_bytes[o])
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "output '%s' does not fit the memory on the device: there are %zu bytes",
                       cm_engine_output_name(c->engine, o), d->out_bytes[o]);
    if (!bytes || (x->direct && x->data == d->out_at[o]))
        return CM_OK;
    if (x->late && d->late[v].there == d->run)
        return d->api->move(cx, d->stream, d->out_at[o], d->late[v].at, bytes);
    if (x->away && !x->late)
        return d->api->move(cx, d->stream, d->out_at[o], x->data, bytes);
    CM_TRY(d->api->upload(cx, d->stream, d->out_at[o], t->data, bytes));
    return d->api->wait(cx, d->stream); /* the host may change it */
}

/* One that is timed is waited for. */
static cm_status copy_across(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    bool up = a->kind == CM_DO_UP, timed = c->profile && c->only_times;
    uint64_t start = timed ? cm_now_ns() : 0;
    CM_TRY(up ? copy_up(cx, c, a->value) : copy_down(cx, c, a->value));
    if (!timed)
        return CM_OK;
    CM_TRY(c->device->api->wait(cx, c->device->stream));
    c->profile(c->profile_user, up ? CM_STEP_UPLOAD : CM_STEP_DOWNLOAD, start, cm_now_ns());
    return CM_OK;
}

static cm_status act(cm_ctx *cx, cm_context *c, cm_action *a)
{
    cm_device_state *d = c->device;
    switch (a->kind) {
    case CM_DO_HOST:
        return cm_run_step(cx, c, a->step);
    case CM_DO_UP:
    case CM_DO_DOWN:
        return copy_across(cx, c, a);
    case CM_DO_SEGMENT:
        return !c->profile     ? launch_segment(cx, c, a)
               : c->only_times ? time_segment(cx, c, a)
                               : walk_segment(cx, c, a);
    case CM_DO_COUNT:
        return take_count(cx, c, a->step);
    case CM_DO_LATE:
        return cm_run_late(cx, c, a);
    case CM_DO_FETCH:
        return cm_fetch_late(cx, c, a->value);
    case CM_DO_OUT:
        return copy_out(cx, c, a->value);
    case CM_DO_WAIT:
        return d->api->wait(cx, d->stream);
    }
    return CM_OK;
}

cm_status cm_run_actions(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    if (!d->stream)
        return cm_fail(cx, CM_ERR_DEVICE, "sm_%d was compiled for; there is no device to run on",
                       d->target.level / 10);
    if (!is_recorded(c))
        CM_TRY(record_all(cx, c));
    else if (d->resident != c->binding)
        CM_TRY(upload_constants(cx, c));
    cm_status st = CM_OK;
    d->in_flight = true;
    d->run++;
    for (int i = 0; i < d->tables.n_actions && st == CM_OK; i++)
        st = act(cx, c, &d->tables.actions[i]);
    if (st == CM_OK)
        return CM_OK;
    cm_ctx other = *cx; /* nothing of this run may go on when the caller's memory is his again */
    (void)!d->api->wait(&other, d->stream);
    d->in_flight = false;
    *d->fault = 0;
    return st;
}

cm_status cm_finish_actions(cm_ctx *cx, cm_context *c)
{
    c->device->in_flight = false;
    CM_TRY(c->device->api->wait(cx, c->device->stream));
    return cm_check_fault(cx, c);
}

cm_status cm_context_device_ns(cm_ctx *cx, cm_context *c, int runs, double *ns)
{
    cm_device_state *d = c->device;
    if (!d || !d->tables.recorded || c->profile)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "only a context that ran on a device can be timed there");
    CM_TRY(open_marks(cx, d, 2));
    for (int r = 0; r < runs; r++) {
        CM_TRY(d->api->mark(cx, d->stream, d->marks[0]));
        for (int i = 0; i < d->tables.n_actions; i++)
            if (d->tables.actions[i].kind == CM_DO_SEGMENT)
                CM_TRY(d->api->launch(cx, d->stream, d->tables.actions[i].recording));
        CM_TRY(d->api->mark(cx, d->stream, d->marks[1]));
        CM_TRY(d->api->between(cx, d->device, d->marks[0], d->marks[1], &ns[r]));
    }
    return CM_OK;
}
