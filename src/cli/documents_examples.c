/* documents_examples.c -- an example for every option of every verb, for the man page and docs/commands.md.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/documents.h"

/* What stands between the verb and the option. */
static const struct {
    const char *verb, *arguments;
} before[] = {
    {"build", "model.onnx"},
    {"run", "model.plan"},
    {"bench", "model.plan"},
    {"profile", "model.plan"},
    {"compare", "old.onnx new.onnx"},
    {"tune", "model.plan"},
    {"refit", "model.plan --from model.onnx"},
    {"inspect", "model.onnx"},
    {"test-onnx", "onnx/backend/test/data/node"},
    {"debug", "bisect model.onnx"},
    {"explain", "model.onnx"},
    {"trtexec", "--onnx=model.onnx"},
};

/* Options that go with other arguments. They hold the option themselves. */
static const struct {
    const char *verb, *option, *arguments;
} whole[] = {
    {"compare", "tolerance", "model.onnx reference.npz --inputs inputs.npz --tolerance 1e-4"},
    {"compare", "inputs", "model.onnx reference.npz --inputs inputs.npz"},
    {"compare", "precision-a", "model.onnx model.onnx --precision-a fp32 --precision-b fp16"},
    {"compare", "precision-b", "model.onnx model.onnx --precision-b fp16"},
    {"compare", "target-a", "model.onnx model.onnx --target-a cpu --target-b cuda"},
    {"compare", "target-b", "model.onnx model.onnx --target-b cuda"},
    {"compare", "no-optimise-a", "model.onnx model.onnx --no-optimise-a --layers"},
    {"compare", "no-optimise-b", "model.onnx model.onnx --no-optimise-b --layers"},
    {"refit", "from", "model.plan --from finetuned.onnx"},
    {"refit", "output", "model.plan --from finetuned.onnx --output finetuned.plan"},
    {"inspect", "data", "--data inputs.npz"},
    {"inspect", "histogram", "--data inputs.npz --histogram"},
    {"inspect", "diff", "--diff old.plan new.plan"},
    {"inspect", "verify", "model.plan --verify"},
    {"inspect", "after", "model.onnx --text --after fuse_attention"},
    {"debug", "check", "reduce model.onnx --check './fails.sh {}'"},
    {"debug", "fails-with", "reduce model.onnx --check './fails.sh {}' --fails-with 1"},
    {"debug", "show-checks", "reduce model.onnx --check './fails.sh {}' --show-checks"},
    {"debug", "output", "reduce model.onnx --check './fails.sh {}' --output small.onnx"},
    {"debug", "precision", "precision model.onnx --precision bf16"},
    {"edit", "inputs", "extract model.onnx part.onnx --inputs a --outputs b"},
    {"edit", "outputs", "extract model.onnx part.onnx --outputs b"},
    {"edit", "names", "rename model.onnx out.onnx --names input.1=image,499=scores"},
    {"edit", "dim", "set-shape model.onnx out.onnx --dim batch=8"},
    {"edit", "shape", "set-shape model.onnx out.onnx --shape image=1x3x224x224"},
    {"edit", "value", "insert model.onnx out.onnx --value b --with 'y = Relu(x)'"},
    {"edit", "node", "replace model.onnx out.onnx --node act1 --with 'y = Relu(x)'"},
    {"edit", "with", "insert model.onnx out.onnx --value b --with 'y = Relu(x)'"},
    {"edit", "precision", "cast model.onnx half.onnx --precision fp16"},
    {"edit", "keep-fp32", "cast model.onnx half.onnx --precision fp16 --keep-fp32 norm1,softmax"},
    {"edit", "stop-after", "simplify model.onnx out.onnx --stop-after fold_constants"},
    {"edit", "from", "restore-weights bare.onnx full.onnx --from model.onnx"},
    {"edit", "random", "restore-weights bare.onnx full.onnx --random 1"},
    {"edit", "external", "simplify model.onnx out.onnx --external"},
    {"edit", "plugins", "simplify model.onnx out.onnx --plugins ./fused_norm.so"},
    {"edit", "quiet", "simplify model.onnx out.onnx --quiet"},
    {"devices", "json", "--json"},
    {"trtexec", "onnx", "--onnx=model.onnx"},
    {"trtexec", "duration", "--onnx=model.onnx --duration=10"},
    {"trtexec", "loadEngine", "--loadEngine=model.plan"},
    {"trtexec", "getPlanVersionOnly", "--loadEngine=model.plan --getPlanVersionOnly"},
    {"trtexec", "optShapes",
     "--onnx=model.onnx --minShapes=x:1x3 --optShapes=x:8x3 --maxShapes=x:32x3"},
};

/* Values, where one does for every verb. */
static const struct {
    const char *option, *value;
} values[] = {
    {"after", "fuse_attention"},
    {"atol", "1e-4"},
    {"batch", "1,2,4,8"},
    {"dim", "batch=8"},
    {"duration", "10s"},
    {"html", "report.html"},
    {"input", "image=cat.npy"},
    {"inputs", "inputs.npz"},
    {"isa", "avx2"},
    {"iterations", "100"},
    {"jobs", "4"},
    {"keep-fp32", "norm1,softmax"},
    {"layers", "20"},
    {"max-memory", "512"},
    {"only-outputs", "scores"},
    {"output", "out.plan"},
    {"outputs", "hidden,scores"},
    {"pack", "all"},
    {"percentile", "50,99,99.9"},
    {"plugins", "./fused_norm.so"},
    {"precision", "fp16"},
    {"qps", "50"},
    {"random", "7"},
    {"repeat", "100"},
    {"rtol", "1e-2"},
    {"runs", "50"},
    {"samples", "a.npz,b.npz"},
    {"scale-atol", "1e-5"},
    {"shape", "image=8x3x224x224"},
    {"stop-after", "fuse_attention"},
    {"stop-after-rewrite", "100"},
    {"streams", "2"},
    {"svg", "model.svg"},
    {"target", "cuda"},
    {"threads", "4"},
    {"timeout", "30s"},
    {"timing-cache", "timings.cache"},
    {"tolerance", "0.01"},
    {"trace", "trace.json"},
    {"trace-runs", "3"},
    {"tune", "quick"},
    {"tune-budget", "30s"},
    {"tune-shape", "image=8x3x224x224"},
    {"warm-up", "500ms"},
    /* trtexec's */
    {"saveEngine", "model.plan"},
    {"shapes", "x:8x3x224x224,mask:8x1"},
    {"layerPrecisions", "norm1:fp32,softmax:fp32"},
    {"loadInputs", "x:x.bin,mask:mask.npy"},
    {"warmUp", "500"},
    {"sleepTime", "100"},
    {"idleTime", "5"},
    {"infStreams", "2"},
    {"cpuThreads", "4"},
    {"avgRuns", "100"},
    {"profilingVerbosity", "detailed"},
    {"exportTimes", "times.json"},
    {"exportOutput", "output.json"},
    {"exportProfile", "profile.json"},
    {"exportLayerInfo", "layers.json"},
    {"inputIOFormats", "fp32:chw"},
    {"outputIOFormats", "fp32:chw"},
    {"builderOptimizationLevel", "3"},
    {"timingCacheFile", "timings.cache"},
    {"device", "1"},
    {"staticPlugins", "./fused_norm.so"},
    {"dynamicPlugins", "./fused_norm.so"},
    {"memPoolSize", "workspace:1024"},
    {"workspace", "1024"},
    {"minShapes", "x:1x3x224x224"},
    {"maxShapes", "x:32x3x224x224"},
    {"maxTactics", "10"},
    {"avgTiming", "8"},
    {"minTiming", "1"},
    {"tacticSources", "-CUBLAS"},
    {"maxAuxStreams", "0"},
    {"precisionConstraints", "obey"},
    {"decomposableAttentions", "attention*"},
    {"sparsity", "enable"},
    {"preview", "+aliasedPluginIO1003"},
    {"hardwareCompatibilityLevel", "ampere+"},
    {"runtimePlatform", "SameAsBuild"},
    {"tempdir", "/tmp"},
    {"tempfileControls", "in_memory:allow"},
    {"useRuntime", "lean"},
    {"leanDLLPath", "libnvinfer_lean.so"},
    {"weightStreamingBudget", "50%"},
    {"tilingOptimizationLevel", "1"},
    {"l2LimitForTiling", "1048576"},
    {"quantizationFlags", "calibrate_before_fusion"},
    {"nvtxVerbosity", "detailed"},
    {"nvtxMode", "verbose"},
    {"persistentCacheRatio", "0.5"},
    {"profile", "0"},
    {"useProfile", "0"},
    {"useOptimizationProfile", "0"},
    {"allocationStrategy", "runtime"},
};

static const char *arguments_before(const char *verb)
{
    for (int i = 0; i < CM_COUNT(before); i++)
        if (!strcmp(before[i].verb, verb))
            return before[i].arguments;
    return NULL;
}

static const char *value_of(const char *option)
{
    for (int i = 0; i < CM_COUNT(values); i++)
        if (!strcmp(values[i].option, option))
            return values[i].value;
    return NULL;
}

const char *cm_document_example(cm_arena *arena, const cm_cli_verb *v, const cm_cli_option *o)
{
    for (int i = 0; i < CM_COUNT(whole); i++)
        if (!strcmp(whole[i].verb, v->name) && !strcmp(whole[i].option, o->name))
            return cm_arena_printf(arena, "cameo %s %s", v->name, whole[i].arguments);
    const char *arguments = arguments_before(v->name), *value = o->arg ? value_of(o->name) : "";
    if (!arguments || !value)
        return NULL;
    bool equals = o->arg && !strcmp(v->name, "trtexec");
    return cm_arena_printf(arena, "cameo %s %s --%s%s%s", v->name, arguments, o->name,
                           !o->arg  ? ""
                           : equals ? "="
                                    : " ",
                           value);
}
