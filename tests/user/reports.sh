# reports.sh -- every option of profile, compare and debug is in the documents; their examples' forms are taken.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/reports.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
model=examples/digits/digits.onnx
page=$B/reports.html
documented() { # documented VERB FILE
    for option in $("$B/cameo" "$1" --help | sed -n 's/^  --\([A-Za-z0-9-]*\).*/\1/p'); do
        [ "$option" = help ] || grep -q -- "\`--$option[ =\`]" "$2" || { echo "$2 lacks --$option of $1"; exit 1; }
    done
}
documented profile docs/profiling.md
documented compare docs/comparing.md
documented debug docs/comparing.md

# A plan and its model: the same answers; a page that a browser can open.
"$B/cameo" build $model --output "$B/reports.plan" --quiet --tune off
"$B/cameo" profile "$B/reports.plan" --threads 1 --duration 50ms --html "$page" --trace "$B/reports.json" >"$B/reports.txt"
grep -q '^by kind' "$B/reports.txt"
grep -q '<!doctype html>' "$page"
[ "$(wc -c <"$page")" -lt 200000 ]
grep -q '"traceEvents"' "$B/reports.json"
"$B/cameo" compare $model "$B/reports.plan" --layers >"$B/reports.txt"
grep -q 'no layer diverges' "$B/reports.txt"
"$B/cameo" compare $model --no-optimise-a --target-b cpu:generic --histogram >"$B/reports.txt"

# What the model is cut down to still fails the check.
if "$B/cameo" debug reduce $model --check '! grep -q Softmax {}' --output "$B/reports.onnx" >"$B/reports.txt"; then exit 1; fi
grep -q 'reports.onnx: 1 of ' "$B/reports.txt"
"$B/cameo" inspect "$B/reports.onnx" | grep -q 'Softmax 1'
