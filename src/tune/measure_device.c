/* measure_device.c -- a candidate recorded a few times in a row, and how long the device takes for them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/measure_device.h"

#include <math.h>

#include "tune/made_up.h"

enum { RUNS = 10, ALIGN = 256, MOST_OPERANDS = 64, NOISE = 1 << 16 };

cm_status cm_device_bench_open(cm_ctx *cx, const cm_target *t, cm_device_bench *out)
{
    *out = (cm_device_bench){.api = cm_backend_for(t->kind)->api};
    CM_TRY(out->api->open(cx, t, &out->device));
    cm_status st = CM_OK;
    if (out->api->runs(out->device)) {
        st = out->api->stream_open(cx, out->device, NULL, &out->stream);
        if (st == CM_OK)
            st = out->api->mark_open(cx, out->device, &out->from);
        if (st == CM_OK)
            st = out->api->mark_open(cx, out->device, &out->to);
    }
    if (st != CM_OK)
        cm_device_bench_close(out);
    return st;
}

void cm_device_bench_close(cm_device_bench *b)
{
    if (!b->device)
        return;
    if (b->memory)
        b->api->release(b->device, b->memory);
    if (b->from)
        b->api->mark_close(b->device, b->from);
    if (b->to)
        b->api->mark_close(b->device, b->to);
    b->api->stream_close(b->stream);
    b->api->close(b->device);
    *b = (cm_device_bench){0};
}

typedef struct {
    cm_device_bench *b;
    const cm_problem *p;
    const cm_candidate *list;
    const int *chosen;
} warming;

static void warm(void *arg, int64_t begin, int64_t end)
{
    const warming *w = arg;
    for (int64_t i = begin; i < end; i++) {
        const cm_candidate *c = &w->list[w->chosen[i]];
        const void *state;
        cm_arena arena;
        cm_arena_init(&arena, NULL);
        cm_ctx cx = {.arena = &arena, .scratch = &arena};
        if (c->tactic->ready) /* one that fails will fail again when it is measured */
            (void)!c->tactic->ready(&cx, w->b->device, &arena, w->p, &c->knobs, &state);
        cm_arena_deinit(&arena);
    }
}

void cm_device_bench_warm(cm_device_bench *b, const cm_problem *p, const cm_candidate *list,
                          const int *chosen, int n, cm_threads *threads)
{
    warming w = {b, p, list, chosen};
    cm_parallel(threads, n, 1, warm, &w);
}

/* Operands of a problem in the bench's memory: offsets, and how many copies of constants there are. */
typedef struct {
    size_t in[MOST_OPERANDS], in_bytes[MOST_OPERANDS], packed[MOST_OPERANDS];
    size_t operands[MOST_OPERANDS], out[MOST_OPERANDS];
    int copies[MOST_OPERANDS];
    size_t workspace, fault, total;
} places;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN) / ALIGN * ALIGN;
}

static size_t put(places *x, size_t bytes)
{
    size_t at = x->total;
    x->total += aligned(bytes);
    return at;
}

/* So many that they do not stay in the cache from one run to the next, in reason. */
static int copies_of(size_t bytes)
{
    const size_t beyond_cache = (size_t)160 << 20;
    size_t n = bytes ? beyond_cache / bytes + 1 : 1;
    return bytes < 4096 ? 1 : n < RUNS ? (int)n : RUNS;
}

static void lay_out(const cm_problem *p, const cm_candidate *c, places *x)
{
    const cm_tactic *t = c->tactic;
    *x = (places){0};
    x->fault = put(x, sizeof(uint32_t));
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            continue;
        bool constant = p->constant[i];
        x->packed[i] = constant && t->pack_bytes ? t->pack_bytes(p, &c->knobs, i) : 0;
        x->in_bytes[i] = x->packed[i] ? x->packed[i] : cm_extent_bytes(p->in[i]);
        x->copies[i] = constant ? copies_of(x->in_bytes[i]) : 1;
        x->in[i] = put(x, aligned(x->in_bytes[i]) * (size_t)x->copies[i]);
    }
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i])
            x->operands[i] = put(x, cm_extent_bytes(p->operands[i]));
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o])
            x->out[o] = put(x, cm_extent_bytes(p->out[o]));
    x->workspace = put(x, t->workspace ? t->workspace(p, &c->knobs) : 0);
}

static cm_status reserve(cm_ctx *cx, cm_device_bench *b, size_t bytes)
{
    void *p;
    if (bytes <= b->bytes)
        return CM_OK;
    if (b->memory)
        b->api->release(b->device, b->memory);
    b->memory = NULL;
    b->bytes = 0;
    CM_TRY(b->api->alloc(cx, b->device, bytes, &p));
    b->memory = p;
    b->bytes = bytes;
    return CM_OK;
}

/* As cm_make_up has it; what is more than `noise` holds is copied by the device. */
static cm_status fill(cm_ctx *cx, cm_device_bench *b, const cm_tensor *t, size_t at)
{
    unsigned char noise[NOISE];
    size_t bytes = cm_extent_bytes(t), n = bytes < NOISE ? bytes : NOISE;
    if (!bytes)
        return CM_OK;
    if (!cm_dtype_is_float(t->dtype))
        return b->api->fill(cx, b->stream, b->memory + at, 0, bytes);
    cm_make_up(t->dtype, noise, n);
    CM_TRY(b->api->upload(cx, b->stream, b->memory + at, noise, n));
    CM_TRY(b->api->wait(cx, b->stream));
    for (size_t done = n; done < bytes; done *= 2)
        CM_TRY(b->api->move(cx, b->stream, b->memory + at + done, b->memory + at,
                            done < bytes - done ? done : bytes - done));
    return CM_OK;
}

/* A constant as the candidate wants it, and its copies. */
static cm_status upload_constant(cm_ctx *cx, cm_device_bench *b, const cm_problem *p,
                                 const cm_candidate *c, int i, const places *x, cm_threads *threads)
{
    const void *from = p->in[i]->data;
    void *packed = NULL;
    unsigned char *to = b->memory + x->in[i];
    if (!from) /* the plan has it packed for another machine: any numbers will do */
        return b->api->fill(cx, b->stream, to, 0, x->in_bytes[i]);
    if (x->packed[i]) {
        packed = cm_alloc(NULL, x->packed[i], 64);
        if (!packed)
            return cm_fail_memory(cx);
        c->tactic->pack(p, &c->knobs, i, from, packed, threads);
        from = packed;
    }
    size_t bytes = x->in_bytes[i];
    cm_status st = bytes ? b->api->upload(cx, b->stream, to, from, bytes) : CM_OK;
    if (st == CM_OK)
        st = b->api->wait(cx, b->stream);
    for (int k = 1; st == CM_OK && k < x->copies[i]; k++)
        st = b->api->move(cx, b->stream, to + aligned(bytes) * (size_t)k, to, bytes);
    cm_release(NULL, packed, x->packed[i]);
    return st;
}

static cm_status fill_all(cm_ctx *cx, cm_device_bench *b, const cm_problem *p,
                          const cm_candidate *c, const places *x, cm_threads *threads)
{
    CM_TRY(b->api->fill(cx, b->stream, b->memory + x->fault, 0, sizeof(uint32_t)));
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            continue;
        if (p->constant[i])
            CM_TRY(upload_constant(cx, b, p, c, i, x, threads));
        else
            CM_TRY(fill(cx, b, p->in[i], x->in[i]));
    }
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i])
            CM_TRY(fill(cx, b, p->operands[i], x->operands[i]));
    return b->api->wait(cx, b->stream);
}

static cm_status enqueue(cm_ctx *cx, cm_device_bench *b, const cm_problem *p, const cm_candidate *c,
                         const places *x, const void *state, int run)
{
    const void *in[MOST_OPERANDS] = {0}, *operands[MOST_OPERANDS] = {0};
    void *out[MOST_OPERANDS] = {0};
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i])
            in[i] = b->memory + x->in[i] + aligned(x->in_bytes[i]) * (size_t)(run % x->copies[i]);
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i])
            operands[i] = b->memory + x->operands[i];
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o])
            out[o] = b->memory + x->out[o];
    const cm_run r = {.cx = cx,
                      .p = p,
                      .k = &c->knobs,
                      .in = in,
                      .out = out,
                      .operands = operands,
                      .workspace = b->memory + x->workspace,
                      .state = state,
                      .stream = b->stream,
                      .fault = (uint32_t *)(b->memory + x->fault),
                      .fault_code = 1};
    return c->tactic->run(&r);
}

static cm_status time_recording(cm_ctx *cx, cm_device_bench *b, cm_recording *r, int repeats,
                                double *best)
{
    *best = INFINITY;
    for (int i = 0; i < repeats + 1; i++) {
        double ns;
        CM_TRY(b->api->mark(cx, b->stream, b->from));
        CM_TRY(b->api->launch(cx, b->stream, r));
        CM_TRY(b->api->mark(cx, b->stream, b->to));
        CM_TRY(b->api->between(cx, b->device, b->from, b->to, &ns));
        if (i > 0 && ns / RUNS < *best) /* the first one loads the kernels */
            *best = ns / RUNS;
    }
    return CM_OK;
}

static cm_status measure(cm_ctx *cx, cm_device_bench *b, const cm_problem *p, const cm_candidate *c,
                         cm_threads *threads, int repeats, double *ns)
{
    places x;
    const void *state = NULL;
    cm_recording *r = NULL;
    lay_out(p, c, &x);
    CM_TRY(reserve(cx, b, x.total));
    if (c->tactic->ready)
        CM_TRY(c->tactic->ready(cx, b->device, cx->arena, p, &c->knobs, &state));
    CM_TRY(fill_all(cx, b, p, c, &x, threads));
    CM_TRY(b->api->record_begin(cx, b->stream));
    cm_status st = CM_OK;
    for (int i = 0; st == CM_OK && i < RUNS; i++)
        st = enqueue(cx, b, p, c, &x, state, i);
    cm_status end = b->api->record_end(cx, b->stream, &r);
    st = st == CM_OK ? end : st;
    if (st == CM_OK)
        st = time_recording(cx, b, r, repeats, ns);
    b->api->recording_close(b->device, r);
    return st;
}

double cm_measure_device(cm_device_bench *b, const cm_problem *p, const cm_candidate *c,
                         cm_threads *threads, int repeats)
{
    cm_arena arena;
    double ns = NAN;
    if (p->n_in > MOST_OPERANDS || p->n_operands > MOST_OPERANDS || p->n_out > MOST_OPERANDS)
        return NAN;
    cm_arena_init(&arena, NULL);
    cm_ctx cx = {.arena = &arena, .scratch = &arena};
    if (measure(&cx, b, p, c, threads, repeats, &ns) != CM_OK)
        ns = NAN;
    cm_arena_deinit(&arena);
    return ns + (c->tactic->apart_ns ? c->tactic->apart_ns(p) : 0);
}
