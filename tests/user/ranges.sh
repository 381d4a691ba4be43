# ranges.sh -- a profiler that listens hears the layers by name (NVTX's injection), and costs nothing where it fails.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/ranges.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
case $B in /*) ;; *) B=$PWD/$B ;; esac
model=examples/digits/digits.onnx
${CC:-cc} -std=c11 -Wall -Wextra -shared -fPIC -o "$B/listener.so" tests/user/listener.c
heard=$B/heard.txt
listen() { # listen COMMAND...
    rm -f "$heard"
    LISTENER_OUT=$heard NVTX_INJECTION64_PATH=$B/listener.so "$@" >"$B/ranges.txt"
}

listen "$B/cameo" run $model --random 1 --threads 2
sed -n '/^thread/!p' "$heard" >"$B/names.txt"
for layer in conv1 conv2 logits probabilities; do
    grep -qx "$layer" "$B/names.txt" || { echo "nobody said $layer"; cat "$heard"; exit 1; }
done
grep -qx 'thread is cameo worker 1' "$heard"
! grep -q 'nothing to end' "$heard"
! grep -q '^  ' "$heard" || { echo "layers inside layers"; exit 1; }

# Wherever it runs: each run says each layer once.
listen "$B/cameo" bench $model --iterations 5 --duration 0 --warm-up 0 --threads 1 --layers 0
[ "$(grep -cx conv1 "$heard")" = 6 ] || { echo "not once a run"; cat "$heard"; exit 1; }

# A library that is none, or that fails, changes nothing.
NVTX_INJECTION64_PATH=/nowhere.so "$B/cameo" run $model --random 1 >"$B/ranges.txt"
NVTX_INJECTION64_PATH=$B/listener.so LISTENER_OUT=/nowhere/x "$B/cameo" run $model --random 1 >"$B/ranges.txt"
