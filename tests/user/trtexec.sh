# trtexec.sh -- `cameo trtexec` prints trtexec's lines in its order, writes its JSON shapes, takes its flags.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/trtexec.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
model=examples/digits/digits.onnx
T=$B/trtexec
out=$T/out.txt
python=.venv/bin/python
[ -x $python ] || python=python3
mkdir -p "$T"
trt() { # trt FLAG...: short, one thread
    "$B/cameo" trtexec --cpuThreads=1 --duration=0 --warmUp=5 "$@" >"$out" 2>&1
}
has() { # has PATTERN: a line of the last output
    grep -qE -- "$1" "$out" || { echo "no line like: $1"; cat "$out"; exit 1; }
}
refuses() { # refuses PATTERN FLAG...
    pattern=$1
    shift
    if trt "$@"; then echo "did not fail: trtexec $*"; exit 1; fi
    has "$pattern"
}
json() { # json FILE PYTHON: an assertion about the file, which is `d`
    $python -c "import json, sys; d = json.load(open('$T/$1')); assert $2, d" || exit 1
}

# The lines, in trtexec's order.
trt --onnx=$model --iterations=40 --shapes=picture:3x1x8x8 --percentile=50,99 --avgRuns=20 --saveEngine="$T/m.plan" \
    --dumpProfile --dumpLayerInfo --dumpOutput --profilingVerbosity=detailed --separateProfileRun --useSpinWait \
    --exportTimes="$T/times.json" --exportOutput="$T/output.json" --exportProfile="$T/profile.json" \
    --exportLayerInfo="$T/layers.json"
$python - "$out" <<'END' || exit 1
import re, sys
text = open(sys.argv[1]).read()
stamp = r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[[IWV]\] "
wanted = [r"^&&&& RUNNING TensorRT\.trtexec \[.*\] # .*trtexec .*--onnx="]
wanted += [stamp + s for s in (
    "=== Model Options ===", "Format: ONNX", "Model: ", "=== Build Options ===", "Precision: FP32", "Save engine: .*m.plan",
    "=== System Options ===", "Device: ", "=== Inference Options ===", "Batch: Explicit",
    "Input inference shapes: picture:3x1x8x8", "Iterations: 40", r"Duration: 0s \(\+ 5ms warm up\)", "Inference Streams: 1",
    "Data transfers: Enabled", "=== Reporting Options ===", "Averages: 20 inferences", "Percentiles: 50,99",
    "Export timing to JSON file: .*times.json", "=== Device Information ===", "Selected Device: ",
    "Start parsing network model.", r"Finished parsing network model. Parse time: [\d.e-]+", r"Engine built in [\d.e-]+ sec.",
    r"Engine deserialized in [\d.e-]+ sec.", "Using random values for input picture",
    "Input binding for picture with dimensions 3x1x8x8 is created.",
    "Output binding for probabilities with dimensions 3x10 is created.", "Layer Information:", "Starting inference",
    r"Warmup completed \d+ queries over 5 ms", r"Timing trace has 40 queries over [\d.e-]+ s", "=== Trace details ===",
    "Trace averages of 20 runs:",
    r"Average on 20 runs - GPU latency: [\d.e-]+ ms - Host latency: [\d.e-]+ ms \(enqueue [\d.e-]+ ms\)",
    "=== Performance summary ===", r"Throughput: [\d.e+]+ qps")]
numbers = r"min = [\d.e-]+ ms, max = [\d.e-]+ ms, mean = [\d.e-]+ ms, median = [\d.e-]+ ms, percentile\(50%\) = [\d.e-]+ ms, percentile\(99%\) = [\d.e-]+ ms$"
wanted += [stamp + s + ": " + numbers for s in ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")]
wanted += [stamp + s for s in (
    r"Total Host Walltime: [\d.e-]+ s", r"Total GPU Compute Time: [\d.e-]+ s", "Explanations of the performance metrics",
    "Output Tensors:", r"probabilities: \(3x10\)", r"=== Profile \(\d+ iterations \) ===",
    r"   Time\(ms\)     Avg.\(ms\)   Median\(ms\)   Time\(%\)   Layer", r" +[\d.]+ +[\d.]+ +[\d.]+ +100.0   Total")]
wanted += [r"^&&&& PASSED TensorRT\.trtexec \["]
at = 0
for w in wanted:
    m = re.compile(w, re.M).search(text, at)
    if not m:
        sys.exit(f"missing or out of order: {w}\n{text}")
    at = m.end()
END

# The JSON files.
json times.json 'len(d) == 40 and all(abs(x["h2dMs"] + x["computeMs"] + x["d2hMs"] - x["latencyMs"]) < 1e-5 for x in d)'
json times.json 'all(x["startH2dMs"] <= x["endH2dMs"] <= x["endComputeMs"] <= x["endD2hMs"] for x in d) and "startEnqMs" in d[0]'
json output.json '[(x["name"], x["dimensions"], len(x["values"])) for x in d] == [("probabilities", "3x10", 30)]'
json output.json 'all(abs(sum(d[0]["values"][i * 10:i * 10 + 10]) - 1) < 1e-4 for i in range(3))'
json profile.json 'd[0]["count"] >= 1 and abs(sum(x["percentage"] for x in d[1:]) - 100) < 0.01'
json profile.json 'all(abs(x["averageMs"] * d[0]["count"] - x["timeMs"]) < 1e-6 and x["medianMs"] >= 0 for x in d[1:])'
json layers.json 'd["Bindings"] == ["picture", "probabilities"] and all("Name" in x and "LayerType" in x for x in d["Layers"])'
json layers.json 'd["Layers"][0]["Inputs"][0]["Dimensions"][1:] == [1, 8, 8] and "ONNX Layer" in d["Layers"][0]["Metadata"]'

# A saved engine loads, with other shapes too; names alone; what made it.
trt --loadEngine="$T/m.plan" --shapes="'picture':5x1x8x8" --exportLayerInfo="$T/names.json" --infStreams=2 --noDataTransfers
has 'Output binding for probabilities with dimensions 5x10'
has 'Inference Streams: 2'
json names.json 'isinstance(d["Layers"][0], str)'
trt --loadEngine="$T/m.plan" --getPlanVersionOnly
has 'Plan was created with cameo'
trt --onnx=$model --skipInference --optShapes=picture:2x1x8x8 --minShapes=picture:1x1x8x8 --maxShapes=picture:8x1x8x8
has 'Skipped inference phase'
trt --onnx=$model
has 'Dynamic dimensions required for input: picture.*overriding shape to: 1x1x8x8'

# A plan without weights is small, and runs once they are back.
trt --onnx=$model --skipInference --stripWeights --saveEngine="$T/bare.plan"
has 'Strip weights: Enabled'
refuses 'built without its weights' --loadEngine="$T/bare.plan"
"$B/cameo" refit "$T/bare.plan" --from $model --quiet
cmp "$T/bare.plan" "$T/m.plan"

# Measuring: asked for by a level or by a cache, which the next build finds.
trt --onnx=$model --builderOptimizationLevel=2 --skipInference
has 'Tactics come from the cost model'
rm -f "$T/x.cache"
trt --onnx=$model --timingCacheFile="$T/x.cache" --skipInference
has '[1-9][0-9]* problems, 0 known before, [1-9][0-9]* measurements'
trt --onnx=$model --builderOptimizationLevel=3 --timingCacheFile="$T/x.cache" --skipInference
has '([1-9][0-9]*) problems, \1 known before, 0 measurements'
refuses 'builderOptimizationLevel .0 to 5.' --onnx=$model --builderOptimizationLevel=6

# Formats are checked; shapes may have spaces between them.
trt --onnx=$model --inputIOFormats=fp32:chw --outputIOFormats=chw+hwc8 --shapes=' picture:2x1x8x8'
has 'Input.s.s format: fp32:chw'
refuses "inputIOFormats=fp16:chw: 'picture' is of the model's own type, f32" --onnx=$model --inputIOFormats=fp16:chw
refuses "outputIOFormats=fp32:hwc8: 'probabilities' is dense and row-major" --onnx=$model --outputIOFormats=fp32:hwc8

# Where it runs. A device is a GPU; without one the CPU does it.
trt --onnx=$model --cpuOnly --device=0
has 'Selected Device ID: 0'
has 'Compute Capability: (generic|avx2|avx512|amx)'
if ! "$B/cameo" devices | grep -q '^cuda:'; then
    trt --onnx=$model --device=3
    has '\[W\] --device=3: no GPU is to be had .*; the CPU is used'
fi

# Plugins are Cameo's own, by any of trtexec's flags.
refuses 'cannot load the plugin' --onnx=$model --staticPlugins="$T/nothing.so"
[ ! -f "$B/examples/fused_norm.so" ] || trt --onnx=$model --dynamicPlugins="$B/examples/fused_norm.so"
[ ! -f "$B/examples/fused_norm.so" ] || has 'dynamicPlugins: .*fused_norm.so'

# The same data as bytes and as .npy give the same answer; wrong sizes are refused.
$python -c "import numpy as np; x = np.load('examples/digits/digit-7.npy').reshape(1, 1, 8, 8).astype('f4')
x.tofile('$T/x.bin'); np.save('$T/x.npy', x)"
trt --onnx=$model --loadInputs=picture:"$T/x.bin" --exportOutput="$T/a.json"
has 'Using values loaded from file for input picture'
trt --onnx=$model --loadInputs=picture:"$T/x.npy" --exportOutput="$T/b.json"
cmp "$T/a.json" "$T/b.json"
json a.json 'max(range(10), key=d[0]["values"].__getitem__) == 7'
refuses 'x.bin has 256 bytes; input .picture. wants 512' --onnx=$model --shapes=picture:2x1x8x8 --loadInputs=picture:"$T/x.bin"

# Flags that change nothing say why; those that are not taken say what to use instead.
trt --onnx=$model --useCudaGraph --memPoolSize=workspace:64 --noTF32 --stronglyTyped --refit --best --int8 --verbose \
    --idleTime=1 --sleepTime=1 --threads --vc --pi --asyncFileReader --noCudaGraph --noSpinWait --includeDataTransfers \
    --profile=0 --sparsity=enable --decomposableAttentions='*'
for flag in useCudaGraph memPoolSize stronglyTyped refit int8 vc pi asyncFileReader noCudaGraph noSpinWait \
    includeDataTransfers profile sparsity decomposableAttentions; do
    has "\[I\] --$flag changes nothing: "
done
has '\[V\] Latency: '
trt --onnx=$model --fp16 --layerPrecisions=conv1:fp32,conv2:fp16
has 'Precision: FP32\+FP16'
trt --onnx=$model --bf16
refuses 'trtexec takes no --batch here: .*--shapes' --onnx=$model --batch=8
refuses 'trtexec takes no --calib here: .*QuantizeLinear' --onnx=$model --calib=x
refuses 'trtexec takes no --useDLACore here' --onnx=$model --useDLACore=0
refuses 'trtexec takes no --refitFromOnnx here: .*cameo refit' --onnx=$model --refitFromOnnx=x.onnx
refuses 'trtexec takes no --loadRefOutputs here: .*cameo compare' --onnx=$model --loadRefOutputs=x:y.bin
refuses 'trtexec takes no --tuneBuildRoutes here: .*cameo tune' --onnx=$model --tuneBuildRoutes=x
refuses 'trtexec has no option --saveEngin; did you mean --saveEngine' --onnx=$model --saveEngin=x
refuses 'wanted either --onnx=FILE or --loadEngine=FILE'
refuses '^&&&& FAILED TensorRT.trtexec' --onnx=$model --shapes=nobody:1x2
refuses "shapes: the model has no input 'nobody'" --onnx=$model --shapes=nobody:1x2
refuses 'wanted NAME:1x3x224x224' --onnx=$model --shapes=picture:1x
refuses 'wanted NAME:VALUE' --onnx=$model --shapes=picture
refuses 'profilingVerbosity=much: wanted' --onnx=$model --profilingVerbosity=much
refuses 'found 9' --onnx=$model --shapes=picture:1x1x9x8
refuses 'nowhere.onnx' --onnx=nowhere.onnx

# Every flag of trtexec 8 to 11 is taken or answered; none is unknown.
for flag in accuracyAlgorithm accuracyThreshold adjustForDLA allocationStrategy allowGPUFallback allowWeightStreaming \
    asyncFileReader atol avgRuns avgTiming batch best bf16 buildDLAStandalone buildOnly builderOptimizationLevel calib \
    calibProfile consistency continue cpuOnly decomposableAttentions deploy device directIO disableCompilationCache \
    distributiveIndependence dryRun dumpKernelText dumpLayerInfo dumpOptimizationProfile dumpOutput dumpProfile \
    dumpRawBindingsToFile dumpRefit duration dynamicPlugins enableMonitorMemory enablePluginOverride errorOnTimingCacheMiss \
    excludeLeanRuntime explicitBatch exportLayerInfo exportOutput exportProfile exportTimes exposeDMA fp16 fp8 \
    getPlanVersionOnly hardwareCompatibilityLevel helpBuildRoute idleTime ignoreParsedPluginLibs includeDataTransfers \
    infStreams inputIOFormats int4 int8 iterations l2LimitForTiling layerDeviceTypes layerOutputTypes layerPrecisions \
    leanDLLPath loadEngine loadInputs loadRefOutputs markDebug markUnfusedTensorsAsDebugTensors maxAuxStreams maxBatch \
    maxShapes maxShapesCalib maxTactics memPoolSize minShapes minShapesCalib minTiming model monitorMemory noBuilderCache \
    noCompilationCache noCudaGraph noDataTransfers noSpinWait noTF32 nvtxMode nvtxVerbosity onnx optShapes optShapesCalib \
    output outputIOFormats percentile persistentCacheRatio pi pluginInstanceNorm plugins precisionConstraints preview profile \
    profilingVerbosity quantizationFlags refPair refit refitFromOnnx remoteAutoTuningConfig reportCapabilityDLA restricted rtol \
    runtimePlatform safe safetyPlugins saveAllDebugTensors saveAllEngines saveDebugTensors saveEngine separateProfileRun \
    setBuildRoute setPluginsToSerialize shapes skipInference sleepTime sparsity staticPlugins streams stripAllWeights \
    stripWeights stronglyTyped tacticSources tempdir tempfileControls threads tilingOptimizationLevel timeDeserialize timeRefit \
    timingCacheFile tuneBuildRouteFile tuneBuildRoutes tuningCacheFile tuningSearch tuningTimeOut uff uffInput uffNHWC \
    uint8AsymmetricQuantizationDLA useCudaGraph useDLACore useManagedMemory useOptimizationProfile useProfile useRuntime \
    useSpinWait vc verbose versionCompatible warmUp weightStreamingBudget weightless workspace; do
    if trt --$flag; then echo "ran on nothing: --$flag"; exit 1; fi
    ! grep -q 'has no option' "$out" || { cat "$out"; exit 1; }
done
