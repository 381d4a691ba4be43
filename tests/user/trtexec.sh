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
trt --onnx=$model --useCudaGraph --memPoolSize=workspace:64 --builderOptimizationLevel=5 --noTF32 --stronglyTyped --refit \
    --timingCacheFile=x.cache --best --int8 --verbose --idleTime=1 --sleepTime=1 --threads
for flag in useCudaGraph memPoolSize builderOptimizationLevel noTF32 stronglyTyped refit timingCacheFile int8; do
    has "\[I\] --$flag changes nothing: "
done
has '\[V\] Latency: '
trt --onnx=$model --fp16 --layerPrecisions=conv1:fp32,conv2:fp16
has 'Precision: FP32\+FP16'
trt --onnx=$model --bf16
refuses 'trtexec takes no --batch here: .*--shapes' --onnx=$model --batch=8
refuses 'trtexec takes no --calib here: .*QuantizeLinear' --onnx=$model --calib=x
refuses 'trtexec takes no --useDLACore here' --onnx=$model --useDLACore=0
refuses 'trtexec has no option --saveEngin; did you mean --saveEngine' --onnx=$model --saveEngin=x
refuses 'wanted either --onnx=FILE or --loadEngine=FILE'
refuses '^&&&& FAILED TensorRT.trtexec' --onnx=$model --shapes=nobody:1x2
refuses "shapes: the model has no input 'nobody'" --onnx=$model --shapes=nobody:1x2
refuses 'wanted NAME:1x3x224x224' --onnx=$model --shapes=picture:1x
refuses 'wanted NAME:VALUE' --onnx=$model --shapes=picture
refuses 'profilingVerbosity=much: wanted' --onnx=$model --profilingVerbosity=much
refuses 'found 9' --onnx=$model --shapes=picture:1x1x9x8
refuses 'nowhere.onnx' --onnx=nowhere.onnx
