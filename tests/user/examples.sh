# examples.sh -- the programs of examples/ run and print what they should.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/examples.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
X=$B/examples
out=$B/example.txt
data=examples/digits
has() { # has PATTERN: a line of the last output
    grep -qE "$1" "$out" || { echo "no line like: $1"; cat "$out"; exit 1; }
}
refuses() { # refuses PATTERN COMMAND...: fails, with such a sentence
    pattern=$1
    shift
    if "$@" >"$out" 2>&1; then echo "did not fail: $*"; exit 1; fi
    has "$pattern"
}

"$B/cameo" build $data/digits.onnx --output "$B/digits.plan" --quiet
for digit in 3 7 8; do
    "$X/digits" "$B/digits.plan" $data/digit-$digit.npy >"$out"
    grep '%  #' "$out" | head -n 1 | grep -q " $digit  " || { echo "digit $digit:"; cat "$out"; exit 1; }
done
"$X/digits" "$B/digits.plan" --check $data/held-out.npy $data/held-out-labels.npy >"$out"
has '352 of 359 held-out digits right: 98.1 %'
refuses 'input/output error: .*nowhere.plan' "$X/digits" nowhere.plan $data/digit-3.npy
refuses 'invalid plan: ' "$X/digits" $data/digits.onnx $data/digit-3.npy

"$X/dynamic" >"$out"
has 'whose watcher says no: cancelled'
has 'whose watcher agrees: ok, asked on the way'
has '^8 rows: softmax will be \[8,4\], places only the data can tell'
has "^4 rows: softmax of row 0 is 0.032 0.087 0.237 0.644 in the caller's memory; places \[2,6\]"
has 'asked for while running'
has 'a row of three: wrong argument: .*found 3, wanted 4'

"$X/resnet50" "$B/resnet50.plan" >"$out"
has 'image: f32\[batch,3,224,224\] to probabilities: f32\[batch,1000\], 25.6 million weights'
"$B/cameo" inspect "$B/resnet50.plan" >"$out"
has 'Conv.* 53'
cp "$B/resnet50.plan" "$B/resnet50-again.plan"
"$X/resnet50" "$B/resnet50-again.plan" >"$out"
cmp "$B/resnet50.plan" "$B/resnet50-again.plan" # the same program, the same bytes
rm -f "$B/resnet50-again.plan"

"$X/quick" $data/digits.onnx >"$out"
has 'output probabilities: f32\[batch,10\], 40 bytes'
refuses 'quick: ' "$X/quick" README.md
