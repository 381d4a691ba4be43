/* trtexec_report.c -- `cameo trtexec`: the lines that trtexec prints, in its order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/trtexec.h"

void cm_trt_say(char level, const char *format, ...)
{
    char when[32];
    time_t now = time(NULL);
    struct tm local;
    va_list args;
    localtime_r(&now, &local);
    strftime(when, sizeof when, "%m/%d/%Y-%H:%M:%S", &local);
    printf("[%s] [%c] ", when, level);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

const char *cm_trt_dims(char *buf, size_t n, int rank, const int64_t *dims)
{
    size_t k = 0;
    buf[0] = 0;
    for (int i = 0; i < rank && k < n; i++)
        k += (size_t)snprintf(buf + k, n - k, "%s%lld", i ? "x" : "", (long long)dims[i]);
    return buf;
}

/* ---- Options ----------------------------------------------------------------------------------- */

static const char *on(bool yes)
{
    return yes ? "Enabled" : "Disabled";
}

static const char *text(const char *s)
{
    return s ? s : "";
}

static void print_build_options(const cm_trt_options *o)
{
    cm_trt_say('I', "=== Build Options ===");
    cm_trt_say('I', "Memory Pools: workspace: default, dlaSRAM: default, dlaLocalDRAM: default, "
                    "dlaGlobalDRAM: default, tacticSharedMem: default");
    cm_trt_say('I', "avgTiming: 8");
    cm_trt_say('I', "Precision: FP32%s%s", o->fp16 ? "+FP16" : "", o->bf16 ? "+BF16" : "");
    cm_trt_say('I', "LayerPrecisions: %s", text(o->layer_precisions));
    cm_trt_say('I', "Layer Device Types: ");
    cm_trt_say('I', "Calibration: ");
    cm_trt_say('I', "Refit: %s", on(o->idle.refit));
    cm_trt_say('I', "Strip weights: %s", on(o->strip_weights || o->strip_all_weights));
    cm_trt_say('I', "Version Compatible: Enabled");
    cm_trt_say('I', "TensorRT runtime: full");
    cm_trt_say('I', "Sparsity: Disabled");
    cm_trt_say('I', "Safe mode: Disabled");
    cm_trt_say('I', "DirectIO mode: %s", on(o->idle.directIO));
    cm_trt_say('I', "Restricted mode: Disabled");
    cm_trt_say('I', "Skip inference: %s", on(o->skip_inference || o->build_only));
    cm_trt_say('I', "Save engine: %s", text(o->save_engine));
    cm_trt_say('I', "Load engine: %s", text(o->load_engine));
    cm_trt_say('I', "Profiling verbosity: %s",
               o->profiling_verbosity ? o->profiling_verbosity : "layer_names_only");
    cm_trt_say('I', "Tactic sources: Using default tactic sources");
    cm_trt_say('I', "timingCacheMode: %s", o->timing_cache ? "global" : "disable");
    cm_trt_say('I', "timingCacheFile: %s", text(o->timing_cache));
    cm_trt_say('I', "Input(s)s format: %s", o->input_formats ? o->input_formats : "chw");
    cm_trt_say('I', "Output(s)s format: %s", o->output_formats ? o->output_formats : "chw");
    const char *shapes = o->shapes ? o->shapes : o->opt_shapes;
    cm_trt_say('I', "Input build shapes: %s", shapes ? shapes : "model");
    cm_trt_say('I', "Input calibration shapes: model");
}

static void print_inference_options(const cm_trt *t)
{
    const cm_trt_options *o = t->o;
    const char *shapes = o->shapes ? o->shapes : o->opt_shapes;
    cm_trt_say('I', "=== Inference Options ===");
    cm_trt_say('I', "Batch: Explicit");
    cm_trt_say('I', "Input inference shapes: %s", shapes ? shapes : "model");
    cm_trt_say('I', "Iterations: %lld", (long long)o->iterations);
    cm_trt_say('I', "Duration: %gs (+ %gms warm up)", o->duration, o->warm_up_ms);
    cm_trt_say('I', "Sleep time: %gms", o->sleep_ms);
    cm_trt_say('I', "Idle time: %gms", o->idle_ms);
    cm_trt_say('I', "Inference Streams: %d", t->how.streams);
    cm_trt_say('I', "ExposeDMA: %s", on(o->idle.exposeDMA));
    cm_trt_say('I', "Data transfers: %s", on(!o->no_data_transfers));
    cm_trt_say('I', "Spin-wait: %s", on(o->idle.useSpinWait));
    cm_trt_say('I', "Multithreading: %s", on(o->idle.threads || t->how.streams > 1));
    cm_trt_say('I', "CUDA Graph: %s", on(o->idle.useCudaGraph));
    cm_trt_say('I', "Separate profiling: Enabled");
    cm_trt_say('I', "Time Deserialize: %s", on(o->idle.timeDeserialize));
    cm_trt_say('I', "Time Refit: Disabled");
    cm_trt_say('I', "NVTX verbosity: 0");
    cm_trt_say('I', "Persistent Cache Ratio: 0");
    cm_trt_say('I', "Inputs: %s", text(o->load_inputs));
}

static void print_reporting_options(const cm_trt *t)
{
    const cm_trt_options *o = t->o;
    char list[256] = "";
    for (int i = 0; i < t->percentiles.n; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%g", i ? "," : "", t->percentiles.p[i]);
    }
    cm_trt_say('I', "=== Reporting Options ===");
    cm_trt_say('I', "Verbose: %s", on(o->verbose));
    cm_trt_say('I', "Averages: %lld inferences", (long long)o->average_runs);
    cm_trt_say('I', "Percentiles: %s", list);
    cm_trt_say('I', "Dump refittable layers:Disabled");
    cm_trt_say('I', "Dump output: %s", on(o->dump_output));
    cm_trt_say('I', "Profile: %s", on(o->dump_profile || o->export_profile));
    cm_trt_say('I', "Export timing to JSON file: %s", text(o->export_times));
    cm_trt_say('I', "Export output to JSON file: %s", text(o->export_output));
    cm_trt_say('I', "Export profile to JSON file: %s", text(o->export_profile));
}

static void print_texts(const char *name, const cm_texts *t)
{
    char line[512];
    size_t n = (size_t)snprintf(line, sizeof line, "%s", name);
    for (int i = 0; i < t->n && n < sizeof line; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, " %s", t->v[i]);
    cm_trt_say('I', "%s", line);
}

void cm_trt_print_options(const cm_trt *t)
{
    const cm_trt_options *o = t->o;
    cm_trt_say('I', "=== Model Options ===");
    cm_trt_say('I', "Format: %s", o->onnx ? "ONNX" : "*");
    cm_trt_say('I', "Model: %s", text(o->onnx));
    cm_trt_say('I', "Output:");
    print_build_options(o);
    cm_trt_say('I', "=== System Options ===");
    cm_trt_say('I', "Device: %lld", (long long)(o->device > 0 ? o->device : 0));
    cm_trt_say('I', "DLACore: ");
    print_texts("Plugins:", &o->plugins);
    print_texts("setPluginsToSerialize:", &(cm_texts){0});
    print_texts("staticPlugins:", &o->static_plugins);
    print_texts("dynamicPlugins:", &o->dynamic_plugins);
    cm_trt_say('I', "ignoreParsedPluginLibs: %d", o->idle.ignoreParsedPluginLibs);
    print_inference_options(t);
    print_reporting_options(t);
    cm_trt_say('I', "%s", "");
}

/* ---- Performance ------------------------------------------------------------------------------- */

static double average(const cm_bench_trace *t, int64_t n, uint64_t (*part)(const cm_bench_trace *))
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)part(&t[i]) * 1e-6;
    return sum / (double)n;
}

static uint64_t compute_of(const cm_bench_trace *t)
{
    return t->computed - t->handed;
}

static uint64_t latency_of(const cm_bench_trace *t)
{
    return t->done - t->due;
}

static uint64_t enqueue_of(const cm_bench_trace *t)
{
    return t->enqueued - t->begun;
}

static void print_trace(const cm_trt *t)
{
    const cm_bench_result *r = &t->result;
    int64_t each = t->o->average_runs;
    cm_trt_say('I', "%s", "");
    cm_trt_say('I', "=== Trace details ===");
    cm_trt_say('I', "Trace averages of %lld runs:", (long long)each);
    for (int64_t i = 0; i + each <= r->n; i += each)
        cm_trt_say(
            'I', "Average on %lld runs - GPU latency: %g ms - Host latency: %g ms (enqueue %g ms)",
            (long long)each, average(r->trace + i, each, compute_of),
            average(r->trace + i, each, latency_of), average(r->trace + i, each, enqueue_of));
    cm_trt_say('I', "%s", "");
}

static cm_status print_part(cm_ctx *cx, const cm_trt *t, const char *name, cm_bench_part part,
                            double *total_s)
{
    cm_bench_series s;
    char *line = NULL;
    size_t n;
    CM_TRY(cm_bench_series_of(cx, &t->result, part, &s));
    FILE *f = open_memstream(&line, &n);
    if (!f)
        return cm_fail_memory(cx);
    cm_bench_print_series(f, &s, &t->percentiles);
    fclose(f);
    cm_trt_say('I', "%s: %s", name, line);
    free(line);
    *total_s = s.mean * (double)s.n * 1e-3;
    return CM_OK;
}

static void explain(bool gpu)
{
    const char *const lines[] = {
        "",
        "=== Explanations of the performance metrics ===",
        "Total Host Walltime: the time from the first inference's start to the last one's end.",
        gpu ? "GPU Compute Time: the time of the inference itself."
            : "GPU Compute Time: the time of the inference itself, here on the CPU.",
        "Total GPU Compute Time: the sum of it over all inferences.",
        "Throughput: inferences over Total Host Walltime.",
        "Enqueue Time: the time until an inference is handed over.",
        gpu ? "H2D Latency: the time to hand over the inputs."
            : "H2D Latency: the time to hand over the inputs; nothing is copied on a CPU.",
        gpu ? "D2H Latency: the time to take the outputs."
            : "D2H Latency: the time to take the outputs; nothing is copied on a CPU.",
        "Latency: H2D Latency, GPU Compute Time and D2H Latency together.",
    };
    for (int i = 0; i < CM_COUNT(lines); i++)
        cm_trt_say('V', "%s", lines[i]);
}

cm_status cm_trt_print_performance(cm_ctx *cx, const cm_trt *t)
{
    const cm_bench_result *r = &t->result;
    const char *warnings[CM_BENCH_MOST_WARNINGS];
    double compute, other;
    int n;
    cm_trt_say('I', "Warmup completed %lld queries over %g ms", (long long)r->n_warm,
               t->o->warm_up_ms);
    cm_trt_say('I', "Timing trace has %lld queries over %g s", (long long)r->n, r->wall_s);
    print_trace(t);
    cm_trt_say('I', "=== Performance summary ===");
    cm_trt_say('I', "Throughput: %g qps", (double)r->n / r->wall_s);
    CM_TRY(print_part(cx, t, "Latency", CM_BENCH_LATENCY, &other));
    CM_TRY(print_part(cx, t, "Enqueue Time", CM_BENCH_ENQUEUE, &other));
    CM_TRY(print_part(cx, t, "H2D Latency", CM_BENCH_H2D, &other));
    CM_TRY(print_part(cx, t, "GPU Compute Time", CM_BENCH_COMPUTE, &compute));
    CM_TRY(print_part(cx, t, "D2H Latency", CM_BENCH_D2H, &other));
    cm_trt_say('I', "Total Host Walltime: %g s", r->wall_s);
    cm_trt_say('I', "Total GPU Compute Time: %g s", compute);
    CM_TRY(cm_bench_warnings(cx, r, &t->how, warnings, &n));
    for (int i = 0; i < n; i++)
        cm_trt_say('W', "* %s", warnings[i]);
    cm_trt_say('I', "Explanations of the performance metrics are printed in the verbose logs.");
    if (t->o->verbose)
        explain(t->target.kind == CM_DEVICE_CUDA);
    return CM_OK;
}

/* ---- Outputs, profile, layers -------------------------------------------------------------------- */

static void print_values(const cm_tensor *x)
{
    cm_dtype_kind kind = cm_dtype_get(x->dtype)->kind;
    if (x->packed || kind == CM_KIND_COMPLEX)
        return;
    for (int64_t i = 0; i < cm_tensor_elems(x); i++) {
        if (kind == CM_KIND_STRING)
            printf("\"%.*s\" ", (int)((cm_str *)x->data)[i].n, ((cm_str *)x->data)[i].p);
        else if (kind == CM_KIND_FLOAT)
            printf("%g ", cm_get_f64(x->dtype, x->data, i));
        else
            printf("%lld ", (long long)cm_get_i64(x->dtype, x->data, i));
    }
    printf("\n");
}

void cm_trt_print_output(const cm_trt *t)
{
    char dims[256];
    cm_trt_say('I', "Output Tensors:");
    for (int i = 0; i < cm_engine_n_outputs(t->model.engine); i++) {
        const cm_datum *d = cm_context_output(t->subject.contexts[0], i);
        if (!d || d->kind != CM_TENSOR)
            continue;
        cm_trt_say('I', "%s: (%s)", cm_engine_output_name(t->model.engine, i),
                   cm_trt_dims(dims, sizeof dims, d->tensor.rank, d->tensor.dims));
        print_values(&d->tensor);
    }
}

cm_status cm_trt_print_profile(cm_ctx *cx, const cm_trt *t)
{
    cm_trt_layer *layers, sum = {0};
    int n;
    CM_TRY(cm_trt_layer_times(cx, &t->profile, t->model.engine, &layers, &n));
    cm_trt_say('I', "%s", "");
    cm_trt_say('I', "=== Profile (%d iterations ) ===", t->profile.runs);
    cm_trt_say('I', "   Time(ms)     Avg.(ms)   Median(ms)   Time(%%)   Layer");
    for (int i = 0; i < n; i++) {
        const cm_trt_layer *l = &layers[i];
        cm_trt_say('I', "%11.2f  %11.4f  %11.4f  %8.1f   %s", l->total_ms, l->average_ms,
                   l->median_ms, l->percent, cm_engine_step(t->model.engine, l->step)->name);
        sum.total_ms += l->total_ms;
        sum.average_ms += l->average_ms;
        sum.median_ms += l->median_ms;
    }
    cm_trt_say('I', "%11.2f  %11.4f  %11.4f  %8.1f   %s", sum.total_ms, sum.average_ms,
               sum.median_ms, 100.0, "Total");
    cm_trt_say('I', "%s", "");
    return CM_OK;
}

void cm_trt_print_layers(const cm_trt *t)
{
    const cm_engine *e = t->model.engine;
    cm_trt_say('I', "Layer Information:");
    cm_trt_say('I', "Layers:");
    for (int i = 0; i < cm_engine_n_steps(e); i++) {
        const cm_plan_step *s = cm_engine_step(e, i);
        cm_layer_facts f = {0};
        if (cm_trt_detailed(t) && t->subject.n)
            cm_context_layer(t->subject.contexts[0], i, &f);
        if (f.tactic)
            printf("Name: %s, LayerType: %s, TacticName: %s\n", s->name, text(s->op), f.tactic);
        else
            printf("%s\n", s->name);
    }
    printf("\n");
    cm_trt_say('I', "Bindings:");
    for (int i = 0; i < cm_engine_n_inputs(e); i++)
        printf("%s\n", cm_engine_input_name(e, i));
    for (int i = 0; i < cm_engine_n_outputs(e); i++)
        printf("%s\n", cm_engine_output_name(e, i));
}
