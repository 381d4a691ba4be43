/* trtexec.h -- `cameo trtexec`: what its files share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_TRTEXEC_H
#define CM_CLI_TRTEXEC_H

#include "cli/bench_report.h"

/* Flags that are taken and change nothing, each with why. X(name, why) */
#define CM_TRT_IDLE_FLAGS(X)                                                                       \
    X(stronglyTyped, "types are the model's own in any case")                                      \
    X(explicitBatch, "batches are always explicit")                                                \
    X(int8, "INT8 comes from the model's own QuantizeLinear and DequantizeLinear nodes")           \
    X(fp8, "FP8 comes from the model's own QuantizeLinear and DequantizeLinear nodes")             \
    X(int4, "INT4 comes from the model's own QuantizeLinear and DequantizeLinear nodes")           \
    X(refit, "every plan can be refitted: see `cameo refit`")                                      \
    X(versionCompatible, "plans open in every later version")                                      \
    X(vc, "plans open in every later version")                                                     \
    X(excludeLeanRuntime, "a plan holds no runtime")                                               \
    X(allowWeightStreaming, "weights are mapped from the file, and paged in as they are used")     \
    X(asyncFileReader, "plans are mapped, not read")                                               \
    X(directIO, "no layout is added at inputs and outputs in any case")                            \
    X(restricted, "there is nothing to restrict")                                                  \
    X(disableCompilationCache, "there is no compilation cache")                                    \
    X(noCompilationCache, "there is no compilation cache")                                         \
    X(errorOnTimingCacheMiss, "what a timing cache lacks is measured")                             \
    X(noBuilderCache, "there is no cache but that of --timingCacheFile")                           \
    X(monitorMemory, "memory is planned: see the size of the execution context")                   \
    X(enableMonitorMemory, "memory is planned: see the size of the execution context")             \
    X(pluginInstanceNorm, "InstanceNormalization needs no plugin")                                 \
    X(pi, "InstanceNormalization needs no plugin")                                                 \
    X(distributiveIndependence, "a row's result never depends on other rows")                      \
    X(ignoreParsedPluginLibs, "no library is loaded from a plan")                                  \
    X(includeDataTransfers, "data are handed over for every inference unless --noDataTransfers")   \
    X(useCudaGraph, "on a GPU the layers of a shape are one graph in any case")                    \
    X(noCudaGraph, "on a GPU the layers of a shape are one graph in any case")                     \
    X(useSpinWait, "the driver waits as it thinks best")                                           \
    X(noSpinWait, "the driver waits as it thinks best")                                            \
    X(exposeDMA, "copies are in order with their inference in any case")                           \
    X(useManagedMemory, "managed memory is not used")                                              \
    X(threads, "each stream has a thread of its own in any case; --cpuThreads says of how many")   \
    X(separateProfileRun, "layers are timed in a run of their own in any case")                    \
    X(timeDeserialize, "the time of opening a plan is printed in any case")                        \
    X(timeRefit, "nothing is refitted")                                                            \
    X(dumpOptimizationProfile, "a plan has no profiles: any shape runs")

/* The same with a value. X(name, ARG, why) */
#define CM_TRT_IDLE_VALUES(X)                                                                      \
    X(memPoolSize, "SPEC", "memory is planned exactly, from the lifetimes of values")              \
    X(workspace, "MB", "memory is planned exactly, from the lifetimes of values")                  \
    X(minShapes, "SPEC", "any shape runs")                                                         \
    X(maxShapes, "SPEC", "any shape runs")                                                         \
    X(maxTactics, "N", "--builderOptimizationLevel says how much is measured")                     \
    X(avgTiming, "N", "a kernel is measured until its time is known well enough")                  \
    X(minTiming, "N", "a kernel is measured until its time is known well enough")                  \
    X(tacticSources, "SPEC", "all of Cameo's kernels compete")                                     \
    X(maxAuxStreams, "N", "a context gives its work to one stream")                                \
    X(precisionConstraints, "SPEC", "constraints are always obeyed")                               \
    X(decomposableAttentions, "NAMES", "attention is fused where that is faster")                  \
    X(sparsity, "SPEC", "weights are used as they are: `cameo edit prune` makes them 2:4")         \
    X(preview, "SPEC", "there are no preview features")                                            \
    X(hardwareCompatibilityLevel, "LEVEL", "a plan runs on every machine")                         \
    X(runtimePlatform, "P", "a plan runs on every machine")                                        \
    X(tempdir, "DIR", "no temporary files are made")                                               \
    X(tempfileControls, "SPEC", "no temporary files are made")                                     \
    X(useRuntime, "KIND", "there is one runtime")                                                  \
    X(leanDLLPath, "FILE", "there is one runtime")                                                 \
    X(weightStreamingBudget, "N", "weights are mapped from the file")                              \
    X(tilingOptimizationLevel, "N", "tiles follow from the sizes of the caches")                   \
    X(l2LimitForTiling, "N", "tiles follow from the sizes of the caches")                          \
    X(quantizationFlags, "SPEC", "quantisation is as the model says")                              \
    X(nvtxVerbosity, "LEVEL", "layers are named in ranges whenever a profiler listens")            \
    X(nvtxMode, "LEVEL", "layers are named in ranges whenever a profiler listens")                 \
    X(persistentCacheRatio, "R", "no part of a cache is set aside")                                \
    X(profile, "N", "a plan has no profiles: any shape runs")                                      \
    X(useProfile, "N", "a plan has no profiles: any shape runs")                                   \
    X(useOptimizationProfile, "N", "a plan has no profiles: any shape runs")                       \
    X(allocationStrategy, "S", "a context's memory follows from its shapes")

typedef struct cm_trt_options {
    const char *onnx, *save_engine, *load_engine;
    const char *shapes, *opt_shapes, *load_inputs, *layer_precisions, *input_formats,
        *output_formats, *timing_cache;
    cm_texts plugins, static_plugins, dynamic_plugins;
    bool fp16, bf16, best, no_tf32, cpu_only, strip_weights, strip_all_weights, skip_inference,
        build_only, no_data_transfers, plan_version_only;
    int64_t device, level; /* -1: not given */
    int64_t iterations, streams, old_streams, average_runs, cpu_threads;
    double duration, warm_up_ms, sleep_ms, idle_ms;
    cm_texts percentiles;
    const char *profiling_verbosity;
    const char *export_times, *export_output, *export_profile, *export_layer_info;
    bool verbose, dump_output, dump_profile, dump_layer_info;
#define X(name, why) bool name;
    struct {
        CM_TRT_IDLE_FLAGS(X)
    } idle;
#undef X
#define X(name, arg, why) const char *name;
    struct {
        CM_TRT_IDLE_VALUES(X)
    } idle_value;
#undef X
} cm_trt_options;

/* A run of the verb. */
typedef struct cm_trt {
    const cm_trt_options *o;
    const char *command; /* as it was typed */
    cm_model_options model_options;
    cm_target target;
    cm_model model;
    cm_inputs in;
    cm_bench_how how;
    cm_bench_percentiles percentiles;
    cm_bench_subject subject;
    cm_bench_result result;
    cm_bench_profile profile;
} cm_trt;

/* "[11/15/2026-07:05:17] [I] text". */
void cm_trt_say(char level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "1x3x224x224" into buf. */
const char *cm_trt_dims(char *buf, size_t n, int rank, const int64_t *dims);

/* ---- trtexec_flags.c -------------------------------------------------------------------------- */

/* What to use in place of a flag that is not taken; NULL: no flag of trtexec's. */
const char *cm_trt_instead(const char *flag);
/* Flag number i of those; false: there are no more. */
bool cm_trt_instead_at(int i, const char **flag, const char **sentence);
/* Say of each idle flag that was given why it changes nothing. */
void cm_trt_say_idle(const cm_trt_options *o);
/* "a:1x2,'b':3x4" as the texts of --shape. */
cm_status cm_trt_parse_shapes(cm_ctx *cx, const char *flag, const char *text,
                              cm_texts *out) CM_MUST_USE;
/* "a:fp32,b:fp16": the names that are to stay in float32. */
cm_status cm_trt_parse_precisions(cm_ctx *cx, const char *text, cm_texts *keep) CM_MUST_USE;
/* "chw" or "fp32:chw" for each input or output, or once for all: what they are in any case. */
cm_status cm_trt_check_formats(cm_ctx *cx, const cm_trt *t) CM_MUST_USE;
/* Inputs as the options say: from files, else random. */
cm_status cm_trt_inputs(cm_ctx *cx, cm_trt *t) CM_MUST_USE;

/* ---- trtexec_device.c ------------------------------------------------------------------------- */

/* The GPU that --device names, else the first one, else the CPU; says which. */
cm_status cm_trt_choose_device(cm_ctx *cx, cm_trt *t) CM_MUST_USE;

/* ---- trtexec_report.c ------------------------------------------------------------------------- */

void cm_trt_print_options(const cm_trt *t);
cm_status cm_trt_print_performance(cm_ctx *cx, const cm_trt *t) CM_MUST_USE;
void cm_trt_print_output(const cm_trt *t);
cm_status cm_trt_print_profile(cm_ctx *cx, const cm_trt *t) CM_MUST_USE;
void cm_trt_print_layers(const cm_trt *t);

/* ---- trtexec_json.c --------------------------------------------------------------------------- */

cm_status cm_trt_export_times(cm_ctx *cx, const cm_trt *t, const char *path) CM_MUST_USE;
cm_status cm_trt_export_output(cm_ctx *cx, const cm_trt *t, const char *path) CM_MUST_USE;
cm_status cm_trt_export_profile(cm_ctx *cx, const cm_trt *t, const char *path) CM_MUST_USE;
cm_status cm_trt_export_layers(cm_ctx *cx, const cm_trt *t, const char *path) CM_MUST_USE;
/* Layers in one object per layer, rather than their names alone. */
bool cm_trt_detailed(const cm_trt *t);

/* Times of the layers that ran, control steps left out since they hold others. */
typedef struct cm_trt_layer {
    int step;
    double total_ms, average_ms, median_ms, percent;
} cm_trt_layer;
cm_status cm_trt_layer_times(cm_ctx *cx, const cm_bench_profile *p, const cm_engine *e,
                             cm_trt_layer **out, int *n) CM_MUST_USE;

#endif
