# cuda.sh -- plans for NVIDIA GPUs, made on a machine that need not have one.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/cuda.sh BUILD_FOLDER, from the top of the tree. NVRTC must be found: tools/setup installs it.
set -eu
B=$1
model=examples/digits/digits.onnx
out=$B/cuda.txt
dir=$B/cuda
rm -rf "$dir"
mkdir -p "$dir"
has() { grep -qE "$1" "$out" || { echo "no line like: $1"; cat "$out"; exit 1; }; }

# What was found where, and what the absence of the rest means.
"$B/cameo" devices >"$out"
has 'libnvrtc: /'
nvrtc=$(sed -n 's/ *libnvrtc: //p' "$out")
mkdir "$dir/lib"
ln -s "$nvrtc" "$dir/lib/$(basename "$nvrtc")"
CAMEO_CUDA_PATH="/nowhere:$PWD/$dir" "$B/cameo" devices >"$out"
has "libnvrtc: .*$dir/lib/libnvrtc"

# A plan for a class of GPUs holds its kernels; it still runs here, with the same answers as one without.
"$B/cameo" build $model --target sm_80 --tune off --dim batch=1 --output "$dir/gpu.plan" >"$out"
has 'layers on the GPU'
"$B/cameo" build $model --tune off --dim batch=1 --output "$dir/cpu.plan" >"$out"
[ "$(wc -c <"$dir/gpu.plan")" -gt "$(wc -c <"$dir/cpu.plan")" ] || { echo "no kernels in the plan"; exit 1; }
for plan in gpu cpu; do
    "$B/cameo" run "$dir/$plan.plan" --random 1 --output "$dir/$plan.npz" >"$out"
done
cmp "$dir/gpu.npz" "$dir/cpu.npz"

# The same twice is the same.
"$B/cameo" build $model --target sm_80 --tune off --dim batch=1 --output "$dir/again.plan" >"$out"
cmp "$dir/gpu.plan" "$dir/again.plan"

# One plan for several classes: what each needs stands in it, and it says so.
"$B/cameo" build $model --target sm_80,cpu:generic,sm_90 --tune quick --tune-budget 1 --dim batch=1 --output "$dir/both.plan" >"$out"
has 'compiled for sm_80, not tuned'
has 'compiled for sm_90, not tuned'
has '^tuned [1-9]'
"$B/cameo" inspect "$dir/both.plan" >"$out"
has '^target +sm_80: 0 measurements, .* of kernels$'
has '^target +sm_90: 0 measurements, .* of kernels$'
has '^target +cpu:generic: [1-9][0-9]* measurements$'
"$B/cameo" run "$dir/both.plan" --random 1 --output "$dir/both.npz" >"$out"
if "$B/cameo" build $model --target sm_80,sm_80 --output "$dir/twice.plan" >"$out" 2>&1; then echo "a target twice"; exit 1; fi
has 'a target stands twice in .sm_80,sm_80.'

# Without a GPU one sentence says what was not found.
if ! "$B/cameo" devices | grep -q '^cuda:'; then
    if "$B/cameo" run $model --random 1 --target cuda >"$out" 2>&1; then echo "ran on no GPU"; exit 1; fi
    has '^cameo: target cuda: .*(not found|no GPU|too old)'
    [ "$(wc -l <"$out")" = 1 ]
fi

# With tests/fake's driver, whose work takes a microsecond each: layers are timed inside one recording, what they take is the
# whole; quick tuning times what it compiled; runs give the same bytes.
export CAMEO_CUDA_PATH="$PWD/$B/tests/fake" CAMEO_KERNEL_CACHE="$dir"
"$B/cameo" profile $model --target cuda --runs 3 >"$out"
has '^copies to the GPU [0-9.]+ ms, from it [0-9.]+ ms; with them an unwatched run takes [0-9.]+ ms by the host'
has "^layers take 100.0% of a run that is watched, [0-9.]+ ms by the GPU's clock; unwatched it takes [0-9.]+ ms"
"$B/cameo" run $model --random 1 --target cuda --repeat 5 >"$out"
has '^5 runs gave the same bytes'
"$B/cameo" build $model --target cuda --tune quick --dim batch=1 --output "$dir/tuned.plan" >"$out"
has 'tuned [0-9]+ problems .* with [1-9][0-9]* measurements'
"$B/cameo" bench "$dir/tuned.plan" --target cuda --no-transfers --streams 2 --duration 0.05 --layers 3 >"$out"
has '^Enqueue Time: '
has '^GPU Compute Time: median = [0-9.]+ ms'
has '^Copies: median = [0-9.e-]+ ms to the GPU, [0-9.e-]+ ms from it'

# A plan whose sizes come with the data, where there is no NVRTC: what the build could not know is the host's. One that lacks its
# symbols hides any other.
python=.venv/bin/python
[ -x $python ] || python=python3
$python - "$dir/late.onnx" <<'END'
import sys
import onnx
from onnx import TensorProto, helper
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])
nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Greater", ["r", "half"], ["g"]),
         helper.make_node("Compress", ["r", "g"], ["c"]), helper.make_node("Concat", ["c", "r"], ["y"], axis=0)]
half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
graph = helper.make_graph(nodes, "late", [x], [y], [half])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), sys.argv[1])
END
"$B/cameo" build "$dir/late.onnx" --target sm_90 --tune off --output "$dir/late.plan" >"$out"
has ' on the GPU'
mkdir "$dir/bare" "$dir/no-images"
ln -s "$PWD/$B"/tests/fake/libcuda.so* "$dir/bare/"
cp "$B/tests/fake/libcuda.so.1" "$dir/bare/libnvrtc.so.13"
CAMEO_KERNEL_CACHE=$dir/no-images CAMEO_CUDA_PATH=$PWD/$dir/bare "$B/cameo" run "$dir/late.plan" --random 1 --target cuda >"$out"
