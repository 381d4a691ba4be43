/* profile_json.c -- a profile as JSON, and as a trace that Chrome and Perfetto read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/profile.h"

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

/* ---- Layers ------------------------------------------------------------------------------------- */

/* Who makes each value: the layer, -1 for inputs and constants. */
static void find_makers(const cm_profile *p, int *maker)
{
    for (int v = 0; v < cm_engine_plan(p->engine)->n_values; v++)
        maker[v] = -1;
    for (int i = 0; i < p->n_layers; i++)
        for (int o = 0; o < p->layers[i].step->n_out; o++)
            if (p->layers[i].step->out[o].value >= 0)
                maker[p->layers[i].step->out[o].value] = i;
}

static json_t *operands(const cm_profile *p, const cm_operand *o, const char *const *texts, int n,
                        const int *maker)
{
    const cm_plan *plan = cm_engine_plan(p->engine);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        if (o[i].value < 0)
            continue;
        const cm_plan_value *v = &plan->values[o[i].value];
        json_t *e = json_object();
        json_object_set_new(e, "name", json_string(v->name));
        json_object_set_new(e, "type", text_or_null(texts[i]));
        if (v->storage == CM_STORE_CONSTANT)
            json_object_set_new(e, "weight", json_true());
        else if (maker && maker[o[i].value] >= 0)
            json_object_set_new(e, "from", json_integer(maker[o[i].value]));
        json_array_append_new(list, e);
    }
    return list;
}

static json_t *layer_json(const cm_profile *p, int i, const int *maker)
{
    const cm_profile_layer *l = &p->layers[i];
    const cm_plan_step *s = l->step;
    json_t *nodes = json_array();
    for (int k = 0; k < s->n_from; k++)
        json_array_append_new(nodes, json_string(s->from[k]));
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s?, s:s?, s:i, s:I, s:f, s:f, s:f, s:f, s:f}",
                          "index", i, "name", s->name, "operator", s->op ? s->op : "copy", "kind",
                          l->kind, "tactic", l->facts.tactic, "epilogue", s->epilogue.program,
                          "depth", l->depth, "calls", (json_int_t)l->calls, "ms", l->ms, "minMs",
                          l->min_ms, "maxMs", l->max_ms, "share", l->share, "ops", l->work.ops);
    json_t *rest = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:b, s:i, s:f, s:f, s:I, s:f}", "inBytes",
        l->work.in_bytes, "weightBytes", l->work.weight_bytes, "outBytes", l->work.out_bytes,
        "gflops", l->ops_rate * 1e-9, "gbps", l->bytes_rate * 1e-9, "limitMs", l->limit_ms,
        "fraction", l->fraction, "bound", cm_bound_name(l->bound), "reference", l->facts.reference,
        "conversions", l->facts.n_conversions, "conversionMs", l->conversion_ms, "conversionBytes",
        l->work.conversion_bytes, "workspace", (json_int_t)l->facts.workspace, "expectedMs",
        l->facts.expected_ns * 1e-6);
    json_object_update_missing(o, rest);
    json_decref(rest);
    json_object_set_new(o, "onDevice", json_boolean(l->facts.away));
    json_object_set_new(o, "inputs", operands(p, s->in, l->in, s->n_in, maker));
    json_object_set_new(o, "outputs", operands(p, s->out, l->out, s->n_out, NULL));
    json_object_set_new(o, "nodes", nodes);
    return o;
}

static json_t *layers_json(const cm_profile *p)
{
    json_t *list = json_array();
    int n = cm_engine_plan(p->engine)->n_values;
    cm_arena arena;
    cm_arena_init(&arena, NULL);
    int *maker = cm_new_n(&arena, n + 1, int);
    if (maker) {
        find_makers(p, maker);
        for (int i = 0; i < p->n_layers; i++)
            json_array_append_new(list, layer_json(p, i, maker));
    }
    cm_arena_deinit(&arena);
    return list;
}

/* ---- The rest ----------------------------------------------------------------------------------- */

static json_t *machine_json(const cm_profile *p)
{
    const cm_limits *m = &p->limits;
    const cm_cpu *c = cm_cpu_info();
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f}", "cpu", c->name,
                     "f32Gflops", m->f32_ops * 1e-9, "bf16Gflops", m->bf16_ops * 1e-9, "int8Gflops",
                     m->int8_ops * 1e-9, "memoryGbps", m->dram_bytes * 1e-9, "sharedCacheGbps",
                     m->shared_bytes * 1e-9, "ownCacheGbps", m->near_bytes * 1e-9, "ownCacheBytes",
                     (json_int_t)c->l2_bytes, "sharedCacheBytes", (json_int_t)c->l3_bytes,
                     "launchUs", p->launch_ns * 1e-3);
}

static json_t *totals_json(const cm_profile *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->n_totals; i++) {
        const cm_profile_total *t = &p->totals[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f}", "kind", t->kind,
                                              "layers", t->n, "ms", t->ms, "share", t->share, "ops",
                                              t->ops, "bytes", t->bytes));
    }
    return list;
}

static json_t *memory_json(const cm_profile *p)
{
    json_t *blocks = json_array(), *live = json_array(), *spans = json_array();
    for (int i = 0; i < p->n_blocks; i++) {
        const cm_memory_block *b = &p->blocks[i];
        json_t *e =
            json_pack("{s:i, s:i, s:I, s:I, s:i}", "first", b->first, "last", b->last, "bytes",
                      (json_int_t)b->bytes, "offset", (json_int_t)b->offset, "layer", b->step);
        json_object_set_new(e, "value",
                            b->value >= 0
                                ? json_string(cm_engine_plan(p->engine)->values[b->value].name)
                                : json_null());
        json_array_append_new(blocks, e);
    }
    for (int k = 0; k < p->n_positions; k++)
        json_array_append_new(live, json_real(p->live[k]));
    for (int i = 0; i < p->n_layers; i++) {
        int first, last;
        cm_engine_step_span(p->engine, i, &first, &last);
        json_array_append_new(spans, json_pack("[i, i]", first, last));
    }
    return json_pack("{s:I, s:I, s:I, s:i, s:o, s:o, s:o}", "arenaBytes",
                     (json_int_t)p->arena_bytes, "contextBytes", (json_int_t)p->context_bytes,
                     "weightBytes", (json_int_t)p->weight_bytes, "peakPosition", p->peak, "live",
                     live, "spans", spans, "blocks", blocks);
}

/* The traced run whose length is nearest to the median. */
static int typical_run(const cm_profile *p)
{
    int best = 0;
    double nearest = 1e300;
    for (int r = 0; r < p->n_traced; r++) {
        double ms = (double)(p->run_end[r] - p->run_start[r]) * 1e-6 - p->whole_ms;
        if ((ms < 0 ? -ms : ms) < nearest) {
            nearest = ms < 0 ? -ms : ms;
            best = r;
        }
    }
    return best;
}

/* For each thread what it did, as below. */
static json_t *threads_json(const cm_profile *p, int run)
{
    json_t *threads = json_array();
    for (int t = 0; t < p->n_threads && p->n_traced; t++) {
        json_t *list = json_array();
        uint64_t start = p->run_start[run], end = p->run_end[run];
        for (int i = 0; i < p->stints[t].n; i++) {
            const cm_profile_stint *s = &p->stints[t].v[i];
            if (s->start >= start && s->start < end && s->step >= 0)
                json_array_append_new(list, json_pack("[i, f, f]", s->step,
                                                      (double)(s->start - start) * 1e-3,
                                                      (double)(s->end - s->start) * 1e-3));
        }
        json_array_append_new(threads, list);
    }
    return threads;
}

/* [layer, start, length] in microseconds since the run began. */
static json_t *timeline_json(const cm_profile *p)
{
    json_t *events = json_array();
    int run = typical_run(p);
    uint64_t start = p->n_traced ? p->run_start[run] : 0;
    for (int64_t i = 0; i < p->n_events; i++) {
        const cm_profile_event *e = &p->events[i];
        if (e->run == run)
            json_array_append_new(events,
                                  json_pack("[i, f, f]", e->step, (double)(e->start - start) * 1e-3,
                                            (double)(e->end - e->start) * 1e-3));
    }
    return json_pack("{s:f, s:o, s:o}", "us",
                     p->n_traced ? (double)(p->run_end[run] - start) * 1e-3 : 0.0, "events", events,
                     "threads", threads_json(p, run));
}

json_t *cm_profile_json(const cm_profile *p)
{
    char target[64];
    cm_target_text(target, sizeof target, &p->target);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "cameo",
                  CM_VERSION, "model", p->path, "target", target, "threads", p->threads, "runs",
                  p->n_runs, "watchedMs", p->whole_ms, "plainMs", p->plain_ms, "covered",
                  p->covered, "machine", machine_json(p), "totals", totals_json(p), "layers",
                  layers_json(p), "memory", memory_json(p), "timeline", timeline_json(p));
    if (o && p->target.kind != CM_DEVICE_CPU)
        json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:b}", "uploadMs", p->up_ms,
                                            "downloadMs", p->down_ms, "hostMs", p->host_ms,
                                            "deviceClock", p->device_clock));
    return o;
}

/* ---- The trace ---------------------------------------------------------------------------------- */

/* The host and the device are processes. A track is a thread of one: whole runs, layers, conversions inside them. */
enum { HOST = 1, DEVICE, TRACK_RUNS = 1, TRACK_LAYERS, TRACK_CONVERSIONS, TRACK_THREADS };

static json_t *span(const char *name, const char *category, int process, int track, uint64_t start,
                    uint64_t end)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "ph", "X", "name", name, "cat",
                     category, "pid", process, "tid", track, "ts", (double)start * 1e-3, "dur",
                     (double)(end - start) * 1e-3);
}

static void name_track(json_t *events, int process, int track, const char *name)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name",
                                            "thread_name", "pid", process, "tid", track, "args",
                                            "name", name));
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name",
                                            "thread_sort_index", "pid", process, "tid", track,
                                            "args", "sort_index", track));
}

static void name_process(json_t *events, int process, const char *name)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "ph", "M", "name",
                                            "process_name", "pid", process, "args", "name", name));
}

static void name_tracks(const cm_profile *p, json_t *events)
{
    char target[64];
    bool device = p->target.kind != CM_DEVICE_CPU;
    cm_target_text(target, sizeof target, &p->target);
    name_process(events, HOST, device ? "host" : target);
    name_track(events, HOST, TRACK_RUNS, "runs");
    name_track(events, HOST, TRACK_LAYERS, "layers");
    name_track(events, HOST, TRACK_CONVERSIONS, "conversions");
    for (int t = 0; t < p->n_threads; t++) {
        char name[32];
        snprintf(name, sizeof name, t ? "worker %d" : "caller", t);
        name_track(events, HOST, TRACK_THREADS + t, name);
    }
    if (device) {
        name_process(events, DEVICE, target);
        name_track(events, DEVICE, TRACK_LAYERS, "layers");
        name_track(events, DEVICE, TRACK_CONVERSIONS, "conversions");
    }
}

static void add_layer_event(const cm_profile *p, const cm_profile_event *e, json_t *events)
{
    const cm_profile_layer *l = &p->layers[e->step];
    int first, last, process = l->facts.away ? DEVICE : HOST;
    json_t *x = span(l->step->name, l->kind, process, TRACK_LAYERS, e->start, e->end);
    json_object_set_new(
        x, "args",
        json_pack("{s:s, s:s?, s:i, s:s, s:f, s:f}", "operator", l->step->op ? l->step->op : "copy",
                  "tactic", l->facts.tactic, "layer", e->step, "bound by", cm_bound_name(l->bound),
                  "GFLOP", l->work.ops * 1e-9, "MB",
                  (l->work.in_bytes + l->work.weight_bytes + l->work.out_bytes) * 1e-6));
    json_array_append_new(events, x);
    if (l->conversion_ms > 0) { /* they come first in a layer */
        uint64_t end = e->start + (uint64_t)(l->conversion_ms * 1e6 / (double)l->calls);
        json_array_append_new(events, span(l->step->name, "conversion", process, TRACK_CONVERSIONS,
                                           e->start, end < e->end ? end : e->end));
    }
    cm_engine_step_span(p->engine, e->step, &first, &last);
    if (l->is_main && first < p->n_positions)
        json_array_append_new(events,
                              json_pack("{s:s, s:s, s:i, s:f, s:{s:f}}", "ph", "C", "name",
                                        "arena in use", "pid", HOST, "ts", (double)e->start * 1e-3,
                                        "args", "MB", p->live[first] * 1e-6));
}

static void add_stints(const cm_profile *p, uint64_t until, json_t *events)
{
    for (int t = 0; t < p->n_threads; t++)
        for (int i = 0; i < p->stints[t].n && p->stints[t].v[i].start < until; i++) {
            const cm_profile_stint *s = &p->stints[t].v[i];
            if (s->step >= 0)
                json_array_append_new(events, span(p->layers[s->step].step->name, "thread", HOST,
                                                   TRACK_THREADS + t, s->start, s->end));
        }
}

json_t *cm_profile_trace(const cm_profile *p, int most_runs)
{
    json_t *events = json_array();
    name_tracks(p, events);
    int runs = p->n_traced < most_runs ? p->n_traced : most_runs;
    for (int r = 0; r < runs; r++) {
        char name[32];
        snprintf(name, sizeof name, "run %d", r);
        json_array_append_new(events,
                              span(name, "run", HOST, TRACK_RUNS, p->run_start[r], p->run_end[r]));
    }
    for (int64_t i = 0; i < p->n_events && p->events[i].run < runs; i++)
        add_layer_event(p, &p->events[i], events);
    if (runs)
        add_stints(p, p->run_end[runs - 1], events);
    return json_pack("{s:o, s:s, s:{s:s, s:s}}", "traceEvents", events, "displayTimeUnit", "ms",
                     "otherData", "cameo", CM_VERSION, "model", p->path);
}
