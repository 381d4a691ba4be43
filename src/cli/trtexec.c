/* trtexec.c -- `cameo trtexec`: trtexec's own flags and output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/trtexec.h"

#include <string.h>

#include "api/tuned.h"
#include "cli/tune.h"

#define RUNNING "TensorRT.trtexec [Cameo v" CM_VERSION "]"

static cm_status check(cm_ctx *cx, cm_trt *t)
{
    const cm_trt_options *o = t->o;
    static const char *const verbosity[] = {"layer_names_only", "detailed", "none", "default",
                                            "verbose"};
    if (!o->onnx == !o->load_engine)
        return cm_fail(cx, CM_ERR_ARGUMENT, "wanted either --onnx=FILE or --loadEngine=FILE");
    if (o->iterations < 0 || o->average_runs < 1 || o->streams < 1 || o->streams > 256 ||
        o->old_streams < 0 || o->old_streams > 256 || o->cpu_threads < 0 || o->cpu_threads > 1024)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "--iterations, --avgRuns, --infStreams (to 256) and --cpuThreads (to 1024) "
                       "are counts");
    if (o->level > 5 || o->device > 1024)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "--builderOptimizationLevel (0 to 5) and --device are small numbers");
    if (!(o->duration >= 0) || !(o->warm_up_ms >= 0) || !(o->sleep_ms >= 0) || !(o->idle_ms >= 0))
        return cm_fail(
            cx, CM_ERR_ARGUMENT,
            "--duration (s), --warmUp, --sleepTime and --idleTime (ms) are times of 0 or "
            "more");
    bool known = !o->profiling_verbosity;
    for (int i = 0; i < CM_COUNT(verbosity) && !known; i++)
        known = !strcmp(o->profiling_verbosity, verbosity[i]);
    if (!known)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "--profilingVerbosity=%s: wanted layer_names_only, detailed or none",
                       o->profiling_verbosity);
    static const cm_bench_words words = {"--iterations", "--duration",   "--warmUp",
                                         "--infStreams", "--cpuThreads", "--noDataTransfers"};
    t->how = (cm_bench_how){.words = &words,
                            .iterations = o->iterations > 0 ? o->iterations : 1,
                            .duration = o->duration,
                            .warm_up = o->warm_up_ms * 1e-3,
                            .streams = (int)(o->old_streams ? o->old_streams : o->streams),
                            .threads = (int)o->cpu_threads,
                            .no_transfers = o->no_data_transfers,
                            .sleep = o->sleep_ms * 1e-3,
                            .idle = o->idle_ms * 1e-3};
    return cm_bench_parse_percentiles(cx, "percentile", &o->percentiles, &t->percentiles);
}

static cm_status model_options(cm_ctx *cx, cm_trt *t)
{
    const cm_trt_options *o = t->o;
    cm_model_options *m = &t->model_options;
    *m = (cm_model_options){0};
    if (o->fp16)
        m->precision = "fp16";
    else if (o->bf16)
        m->precision = "bf16";
    else if (o->best && t->target.kind == CM_DEVICE_CPU)
        cm_trt_say('I', "--best: float32, which is the fastest on this CPU");
    else if (o->best)
        m->precision = "fp16";
    else if (!o->no_tf32 && t->target.kind == CM_DEVICE_CUDA)
        m->precision = "tf32";
    if (t->target.kind == CM_DEVICE_CUDA) {
        m->target = cm_arena_printf(cx->arena, "cuda:%d", t->target.index);
        if (!m->target)
            return cm_fail_memory(cx);
    }
    m->threads = o->cpu_threads;
    if (o->fp16 && o->bf16)
        cm_trt_say('W', "--fp16 and --bf16: float16 is taken");
    if (o->layer_precisions)
        CM_TRY(cm_trt_parse_precisions(cx, o->layer_precisions, &m->keep_fp32));
    if (o->shapes)
        return cm_trt_parse_shapes(cx, "shapes", o->shapes, &m->shapes);
    if (o->opt_shapes)
        return cm_trt_parse_shapes(cx, "optShapes", o->opt_shapes, &m->shapes);
    return CM_OK;
}

/* ---- The engine -------------------------------------------------------------------------------- */

static double seconds_since(uint64_t start)
{
    return (double)(cm_now_ns() - start) * 1e-9;
}

static cm_status open_engine(cm_ctx *cx, cm_trt *t)
{
    uint64_t start = cm_now_ns();
    CM_TRY(cm_engine_open_memory(cx, t->model.plan.data, t->model.plan.n, false, NULL,
                                 &t->model.engine));
    cm_trt_say('I', "Engine deserialized in %g sec.", seconds_since(start));
    return CM_OK;
}

/* trtexec measures in every build. Here a level of 3 or more, a timing cache or a GPU asks for it; else tactics
 * come from the cost model. */
static const char *tune_level(const cm_trt *t)
{
    int64_t level = t->o->level;
    bool measures =
        level >= 3 || (level < 0 && (t->o->timing_cache || t->target.kind == CM_DEVICE_CUDA));
    return !measures ? "off" : level > 3 ? "full" : "quick";
}

/* Shapes as the flags say; a size that none gives is 1, as when it runs. */
static bool shape_to_tune(void *user, const cm_engine *e, int i, int64_t *dims)
{
    const cm_tuned_options *asked = user;
    const cm_type *type = cm_engine_input_type(e, i);
    if (type->kind != CM_TENSOR || type->rank < 0)
        return false;
    if (asked->shape(asked->user, e, i, dims))
        return true;
    for (int a = 0; a < type->rank; a++)
        if (!cm_dim_is_const(cm_engine_plan(e)->dims, type->dims[a], &dims[a]))
            dims[a] = 1;
    return true;
}

static void say_tuned(const cm_tuned_options *o, const cm_tune_report *r)
{
    if (o->tune.level == CM_TUNE_OFF)
        cm_trt_say('I', "Tactics come from the cost model; --builderOptimizationLevel=3 measures");
    else if (!r->problems)
        cm_trt_say('W', "Nothing was measured: the network has nothing that can be");
    else
        cm_trt_say(
            'I',
            "%d problems, %d known before, %d measurements, %d in the whole network, in %.1f s",
            r->problems, r->known, r->measured, r->trials, r->seconds);
}

/* Shapes are not fixed in the plan: it runs others too. */
static cm_status build(cm_ctx *cx, cm_trt *t)
{
    cm_model_options options = t->model_options;
    cm_compile_options co;
    cm_tune_flags flags = {
        .level = tune_level(t), .cache = t->o->timing_cache, .shapes = t->model_options.shapes};
    cm_tuned_options asked, tuned;
    cm_tune_report report;
    options.shapes = (cm_texts){0};
    CM_TRY(cm_model_compile_options(cx, &options, &co));
    CM_TRY(cm_tune_options_of(cx, &flags, &options, &asked));
    tuned = asked;
    tuned.shape = shape_to_tune;
    tuned.user = &asked;
    cm_trt_say('I', "Start parsing network model.");
    CM_TRY(cm_model_import(cx, t->o->onnx, &options, &t->model));
    cm_trt_say('I', "Finished parsing network model. Parse time: %g", t->model.import_seconds);
    uint64_t start = cm_now_ns();
    CM_TRY(cm_compile_tuned_memory(cx, t->model.network, &co, &tuned, &t->model.plan, &report));
    say_tuned(&tuned, &report);
    cm_trt_say('I', "Engine built in %g sec.", seconds_since(start));
    cm_trt_say('I', "Created engine with size: %g MiB", (double)t->model.plan.n / (1 << 20));
    co.strip_weights = t->o->strip_weights || t->o->strip_all_weights;
    if (t->o->save_engine && co.strip_weights)
        CM_TRY(cm_compile_file(cx, t->model.network, &co, t->o->save_engine));
    else if (t->o->save_engine)
        CM_TRY(cm_file_write(cx, t->o->save_engine, t->model.plan.data, t->model.plan.n));
    return open_engine(cx, t);
}

static cm_status load(cm_ctx *cx, cm_trt *t)
{
    const cm_trt_options *o = t->o;
    uint64_t start = cm_now_ns();
    CM_TRY(cm_engine_open_file(cx, o->load_engine, NULL, &t->model.engine));
    cm_trt_say('I', "Engine deserialized in %g sec.", seconds_since(start));
    if (o->plan_version_only)
        cm_trt_say('I', "Plan was created with %s", cm_engine_plan(t->model.engine)->producer);
    if (o->save_engine)
        cm_trt_say('W', "--saveEngine: %s is a plan already; copy it", o->load_engine);
    return CM_OK;
}

/* ---- Inference --------------------------------------------------------------------------------- */

static cm_status set_up(cm_ctx *cx, cm_trt *t)
{
    const cm_engine *e = t->model.engine;
    char dims[256];
    CM_TRY(cm_trt_check_formats(cx, t));
    CM_TRY(cm_trt_inputs(cx, t));
    CM_TRY(cm_bench_open(cx, t->model.engine, &t->in, &t->how, &t->subject));
    cm_context *c = t->subject.contexts[0];
    CM_TRY(cm_context_bind(cx, c));
    for (int i = 0; i < cm_engine_n_outputs(e); i++) {
        int rank;
        int64_t sizes[CM_MAX_RANK];
        if (cm_context_output_shape(c, i, &rank, sizes))
            cm_trt_say('I', "Output binding for %s with dimensions %s is created.",
                       cm_engine_output_name(e, i), cm_trt_dims(dims, sizeof dims, rank, sizes));
        else
            cm_trt_say('I', "Output binding for %s with dynamic dimensions is created.",
                       cm_engine_output_name(e, i));
    }
    cm_trt_say('I', "Created execution context with device memory size: %g MiB",
               (double)cm_context_arena_bytes(c) / (1 << 20));
    return CM_OK;
}

static cm_status layers(cm_ctx *cx, const cm_trt *t)
{
    if (t->o->dump_layer_info)
        cm_trt_print_layers(t);
    return t->o->export_layer_info ? cm_trt_export_layers(cx, t, t->o->export_layer_info) : CM_OK;
}

static cm_status infer(cm_ctx *cx, cm_trt *t)
{
    const cm_trt_options *o = t->o;
    CM_TRY(set_up(cx, t));
    CM_TRY(layers(cx, t));
    cm_trt_say('I', "Starting inference");
    CM_TRY(cm_bench_measure(cx, &t->subject, &t->how, &t->result));
    CM_TRY(cm_trt_print_performance(cx, t));
    if (o->export_times)
        CM_TRY(cm_trt_export_times(cx, t, o->export_times));
    if (o->dump_output)
        cm_trt_print_output(t);
    if (o->export_output)
        CM_TRY(cm_trt_export_output(cx, t, o->export_output));
    if (!o->dump_profile && !o->export_profile)
        return CM_OK;
    double seconds = o->duration < 0.2 ? 0.2 : o->duration < 3 ? o->duration : 3;
    CM_TRY(cm_bench_profile_steps(cx, t->model.engine, &t->in, &t->how, seconds, &t->profile));
    if (o->dump_profile)
        CM_TRY(cm_trt_print_profile(cx, t));
    return o->export_profile ? cm_trt_export_profile(cx, t, o->export_profile) : CM_OK;
}

static cm_status all(cm_ctx *cx, cm_trt *t)
{
    CM_TRY(check(cx, t));
    cm_trt_print_options(t);
    CM_TRY(cm_trt_choose_device(cx, t));
    t->how.target = &t->target;
    cm_trt_say_idle(t->o);
    CM_TRY(model_options(cx, t));
    CM_TRY(t->o->onnx ? build(cx, t) : load(cx, t));
    if (t->o->plan_version_only)
        return CM_OK;
    if (!t->o->skip_inference && !t->o->build_only)
        return infer(cx, t);
    cm_trt_say('I', "Skipped inference phase since --skipInference is added.");
    return layers(cx, t);
}

/* The command as it was typed, from the system: words divided by spaces. */
static const char *command_line(cm_ctx *cx)
{
    enum { MOST = 4096 };
    char *words = cm_arena_alloc(cx->arena, MOST);
    FILE *f = fopen("/proc/self/cmdline", "r");
    size_t n = f && words ? fread(words, 1, MOST - 1, f) : 0;
    if (f)
        fclose(f);
    for (size_t i = 0; i + 1 < n; i++)
        if (!words[i])
            words[i] = ' ';
    return words ? words : "";
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    cm_trt t = {.o = options, .command = command_line(cx)};
    printf("&&&& RUNNING %s # %s\n", RUNNING, t.command);
    cm_buf_init(&t.model.plan, cx->allocator);
    cm_status st =
        n_args ? cm_fail(cx, CM_ERR_ARGUMENT,
                         "'%s': trtexec's flags are written --name or --name=value", args[0])
               : all(cx, &t);
    cm_bench_close(&t.subject);
    cm_model_close(&t.model);
    int code = st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
    printf("&&&& %s %s # %s\n", st == CM_OK ? "PASSED" : "FAILED", RUNNING, t.command);
    return code;
}

static void defaults(void *options)
{
    cm_trt_options *o = options;
    o->iterations = 10;
    o->duration = 3;
    o->warm_up_ms = 200;
    o->streams = 1;
    o->average_runs = 10;
    o->device = o->level = -1;
}

#define ROW(name, arg, help, kind, field)                                                          \
    {                                                                                              \
        name, arg, help, kind, offsetof(cm_trt_options, field)                                     \
    }
static const cm_cli_option table[] = {
    ROW("onnx", "FILE", "the model", CM_OPT_TEXT, onnx),
    ROW("saveEngine", "FILE", "write the plan", CM_OPT_TEXT, save_engine),
    ROW("loadEngine", "FILE", "run a plan that was written", CM_OPT_TEXT, load_engine),
    ROW("shapes", "SPEC", "shapes to run with: x:1x3x224x224,y:1x10", CM_OPT_TEXT, shapes),
    ROW("optShapes", "SPEC", "shapes to run with where --shapes says none", CM_OPT_TEXT,
        opt_shapes),
    ROW("fp16", NULL, "compute in float16", CM_OPT_FLAG, fp16),
    ROW("bf16", NULL, "compute in bfloat16", CM_OPT_FLAG, bf16),
    ROW("best", NULL, "compute in what is fastest: float16 on a GPU, float32 on a CPU", CM_OPT_FLAG,
        best),
    ROW("noTF32", NULL, "on a GPU, keep products of float32 in float32", CM_OPT_FLAG, no_tf32),
    ROW("inputIOFormats", "SPEC", "fp32:chw,...: checked, inputs are nothing else", CM_OPT_TEXT,
        input_formats),
    ROW("outputIOFormats", "SPEC", "fp32:chw,...: checked, outputs are nothing else", CM_OPT_TEXT,
        output_formats),
    ROW("builderOptimizationLevel", "N",
        "0 to 2: tactics from the cost model; 3: the likely ones are measured; 4, 5: all of them",
        CM_OPT_INT, level),
    ROW("timingCacheFile", "FILE", "measure, and keep measurements here for other builds",
        CM_OPT_TEXT, timing_cache),
    ROW("device", "N", "the GPU to use (default 0; the CPU where there is none)", CM_OPT_INT,
        device),
    ROW("cpuOnly", NULL, "use the CPU even where there is a GPU", CM_OPT_FLAG, cpu_only),
    ROW("plugins", "LIBS", "Cameo's plugins to load (docs/plugins.md)", CM_OPT_PLUGINS, plugins),
    ROW("staticPlugins", "LIBS", "the same", CM_OPT_PLUGINS, static_plugins),
    ROW("dynamicPlugins", "LIBS", "the same", CM_OPT_PLUGINS, dynamic_plugins),
    ROW("layerPrecisions", "SPEC", "layers that stay in float32: NAME:fp32,...", CM_OPT_TEXT,
        layer_precisions),
    ROW("stripWeights", NULL, "write the plan without its weights; `cameo refit` puts them back",
        CM_OPT_FLAG, strip_weights),
    ROW("stripAllWeights", NULL, "the same", CM_OPT_FLAG, strip_all_weights),
    ROW("weightless", NULL, "the older name of --stripWeights", CM_OPT_FLAG, strip_weights),
    ROW("skipInference", NULL, "build only", CM_OPT_FLAG, skip_inference),
    ROW("buildOnly", NULL, "the older name of --skipInference", CM_OPT_FLAG, build_only),
    ROW("getPlanVersionOnly", NULL, "say what made the plan, and end", CM_OPT_FLAG,
        plan_version_only),
    ROW("loadInputs", "SPEC", "x:file.bin (bytes), x:file.npy, ...", CM_OPT_TEXT, load_inputs),
    ROW("iterations", "N", "at least this many inferences (default 10)", CM_OPT_INT, iterations),
    ROW("duration", "S", "for at least this many seconds (default 3)", CM_OPT_REAL, duration),
    ROW("warmUp", "MS", "run for this many ms before measuring (default 200)", CM_OPT_REAL,
        warm_up_ms),
    ROW("sleepTime", "MS", "wait before the first inference", CM_OPT_REAL, sleep_ms),
    ROW("idleTime", "MS", "wait between inferences", CM_OPT_REAL, idle_ms),
    ROW("infStreams", "N", "contexts that run at once (default 1)", CM_OPT_INT, streams),
    ROW("streams", "N", "the older name of --infStreams", CM_OPT_INT, old_streams),
    ROW("cpuThreads", "N", "Cameo's own: threads of each stream (0: all cores, shared)", CM_OPT_INT,
        cpu_threads),
    ROW("noDataTransfers", NULL, "hand inputs over once, not for every inference", CM_OPT_FLAG,
        no_data_transfers),
    ROW("verbose", NULL, "explain the figures", CM_OPT_FLAG, verbose),
    ROW("avgRuns", "N", "averages over N inferences (default 10)", CM_OPT_INT, average_runs),
    ROW("percentile", "LIST", "percentiles to report (default 90,95,99)", CM_OPT_TEXTS,
        percentiles),
    ROW("profilingVerbosity", "LEVEL", "layer_names_only, detailed or none", CM_OPT_TEXT,
        profiling_verbosity),
    ROW("dumpOutput", NULL, "print the outputs of the last inference", CM_OPT_FLAG, dump_output),
    ROW("dumpProfile", NULL, "print the time of each layer", CM_OPT_FLAG, dump_profile),
    ROW("dumpLayerInfo", NULL, "print the layers", CM_OPT_FLAG, dump_layer_info),
    ROW("exportTimes", "FILE", "write the time of each inference as JSON", CM_OPT_TEXT,
        export_times),
    ROW("exportOutput", "FILE", "write the outputs as JSON", CM_OPT_TEXT, export_output),
    ROW("exportProfile", "FILE", "write the time of each layer as JSON", CM_OPT_TEXT,
        export_profile),
    ROW("exportLayerInfo", "FILE", "write the layers as JSON", CM_OPT_TEXT, export_layer_info),
#define X(name, why) ROW(#name, NULL, "taken; changes nothing: " why, CM_OPT_FLAG, idle.name),
    CM_TRT_IDLE_FLAGS(X)
#undef X
#define X(name, arg, why)                                                                          \
    ROW(#name, arg, "taken; changes nothing: " why, CM_OPT_TEXT, idle_value.name),
        CM_TRT_IDLE_VALUES(X)
#undef X
};

const cm_cli_verb cm_verb_trtexec = {
    .name = "trtexec",
    .summary = "trtexec's own flags and output",
    .usage = "--onnx=FILE|--loadEngine=FILE [FLAG]...",
    .details =
        "Builds a plan or loads one, runs it and reports, with the flags, the lines and the JSON\n"
        "files of NVIDIA's trtexec, so that scripts written for it work with the name changed.\n"
        "A flag that changes nothing here is taken, and a line says why; one that cannot be\n"
        "taken is refused with what to use instead. Runs on the first GPU, or on the CPU where\n"
        "there is none; GPU Compute Time is the time of the inference on whatever runs it.\n"
        "docs/trtexec.md has the differences.",
    .examples = "  cameo trtexec --onnx=model.onnx --saveEngine=model.plan --skipInference\n"
                "  cameo trtexec --loadEngine=model.plan --shapes=x:8x3x224x224 --duration=10\n"
                "  cameo trtexec --onnx=model.onnx --dumpProfile --exportTimes=times.json\n",
    .options_bytes = sizeof(cm_trt_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .instead = cm_trt_instead,
    .run = run,
};
