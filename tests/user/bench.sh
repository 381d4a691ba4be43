# bench.sh -- `cameo bench` prints what it promises, in every form, and refuses what cannot be.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: tests/user/bench.sh BUILD_FOLDER, from the top of the tree.
set -eu
B=$1
model=examples/digits/digits.onnx
out=$B/bench.txt
python=.venv/bin/python
[ -x $python ] || python=python3
bench() { # bench OPTION...: short, one thread
    "$B/cameo" bench --threads 1 --duration 50ms --warm-up 10ms "$@" >"$out" 2>&1
}
has() { # has PATTERN: a line of the last output
    grep -qE "$1" "$out" || { echo "no line like: $1"; cat "$out"; exit 1; }
}
lacks() { if grep -qE "$1" "$out"; then echo "a line like: $1"; cat "$out"; exit 1; fi; }
refuses() { # refuses PATTERN OPTION...
    pattern=$1
    shift
    if bench "$@"; then echo "did not fail: bench $*"; exit 1; fi
    has "$pattern"
}
json() { # json PYTHON: an assertion about the last output, which is `d`
    $python -c "import json, sys; d = json.load(open('$out')); assert $1, d" || exit 1
}

# The summary, in the order that trtexec has.
bench $model
grep -oE '^(Throughput|Latency|Enqueue Time|H2D Latency|Compute Time|D2H Latency|Total Host Walltime|Total Compute Time):' \
    "$out" | tr -d '\n' >"$B/bench.order"
[ "$(cat "$B/bench.order")" = "Throughput:Latency:Enqueue Time:H2D Latency:Compute Time:D2H Latency:Total Host Walltime:Total Compute Time:" ]
has 'Latency: min = [0-9.e-]+ ms, max = .* mean = .* median = .*percentile\(90%\) = .*percentile\(95%\) = .*percentile\(99%\) = '
has '=== Where the time went'
bench $model --layers 0 --percentile 50,99.9
has 'percentile\(50%\) = [0-9.e-]+ ms, percentile\(99.9%\) = '
lacks 'Where the time went'
bench $model --iterations 1 --duration 0 --layers 0
has 'Warning: only 1 inferences were measured'

# JSON: figures that fit together.
bench $model --json
json 'abs(d["throughputQps"] * d["totalSeconds"] - d["inferences"]) < 1e-6 * d["inferences"]'
json 'd["latencyMs"]["min"] <= d["latencyMs"]["median"] <= d["latencyMs"]["p90"] <= d["latencyMs"]["p99"] <= d["latencyMs"]["max"]'
json 'abs(d["latencyMs"]["mean"] - sum(d[k]["mean"] for k in ("h2dMs", "computeMs", "d2hMs"))) < 1e-6'
json 'd["overheadUs"] >= 0 and d["threads"] == 1 and len(d["layers"]) > 3 and all("tactic" in x for x in d["layers"])'
bench $model --json --no-transfers --layers 0
json 'd["h2dMs"]["max"] == 0 and d["d2hMs"]["max"] == 0 and "layers" not in d'

# Streams, arrivals, batch sizes, CSV.
bench $model --streams 2 --json --iterations 40
json 'd["streams"] == 2 and d["inferences"] >= 80'
bench $model --qps 400 --duration 300ms --json --spin
json 'd["askedQps"] == 400 and 60 <= d["inferences"] <= 200 and d["queueMs"]["min"] >= 0'
bench $model --qps 1e7 --duration 10ms --layers 0
has 'Queue Time: '
has 'Warning: 1e\+07 inferences a second were asked for'
bench $model --batch 1,3 --json --layers 0
json '[b["batch"] for b in d["batches"]] == [1, 3]'
bench $model --batch 1,3 --csv
[ "$(grep -c "^$model,[13],1,1," "$out")" = 2 ]
bench $model --batch 2,4
[ "$(grep -cE '^ +[24] ' "$out")" = 2 ]

# A plan, a level, given inputs.
"$B/cameo" build $model --output "$B/bench.plan" --quiet
bench "$B/bench.plan" --isa generic --layers 0
has 'bench.plan on cpu:generic with 1 thread'
bench $model --cuda-graph --layers 0
has '^cameo: warning: --cuda-graph means nothing on a CPU'

# Sizes that nobody gave, other than a batch, are told.
$python - "$B/open.onnx" <<'END'
import sys
def part(number, text):  # a field of a message
    return bytes([number << 3 | 2, len(text)]) + text
def value(name):  # f32[n,width]
    dims = part(1, part(2, b"n")) + part(1, part(2, b"width"))
    return part(1, name) + part(2, part(1, b"\x08\x01" + part(2, dims)))
node = part(1, b"x") + part(2, b"y") + part(4, b"Relu")
graph = part(1, node) + part(2, b"g") + part(11, value(b"x")) + part(12, value(b"y"))
open(sys.argv[1], "wb").write(b"\x08\x08" + part(7, graph) + part(8, b"\x10\x0d"))
END
bench "$B/open.onnx" --layers 0
has '^cameo: warning: sizes that the model leaves open are taken as 1: width; --dim or --shape gives others$'
bench "$B/open.onnx" --layers 0 --dim width=5
lacks 'taken as 1'
bench "$B/open.onnx" --layers 0 --shape x=2x5
lacks 'taken as 1'
bench $model --layers 0
lacks 'taken as 1'

# Two in turns.
bench $model "$B/bench.plan"
[ "$(grep -cE '^Latency: min = 0\.[0-9]+ ms, max = [0-9.]+ ms' "$out")" = 2 ] || { echo "latencies of both"; cat "$out"; exit 1; }
has 'Ratio: .*digits.onnx is [0-9.]+ times as fast as .*bench.plan, 95 % interval \[[0-9.]+, [0-9.]+\], [0-9]+ pairs'
bench $model "$B/bench.plan" --json
json 'd["low"] <= d["ratio"] <= d["high"] and d["pairs"] >= 6 and d["a"]["model"] == "examples/digits/digits.onnx" and d["b"]["inferences"] > 5'

refuses 'bench needs one model or plan, or two'
refuses 'two models are compared at one --batch' $model $model --batch 1,2
refuses 'two models are compared without --qps' $model $model --qps 5
refuses 'batch 0: wanted sizes' $model --batch 0
refuses 'streams 0: wanted 1 to 256' $model --streams 0
refuses 'iterations 0: wanted 1 or more' $model --iterations 0
refuses 'percentile 101: wanted numbers from 0 to 100' $model --percentile 101
refuses 'isa mmx: wanted generic' $model --isa mmx
refuses 'json and --csv: one of them' $model --json --csv
refuses 'qps -1: wanted inferences a second' $model --qps -1
refuses 'more than 50000000 arrivals' $model --qps 1e9 --duration 100s

# Every option of --help is in the documents.
for verb in bench trtexec; do
    doc=docs/$verb.md
    [ $verb = bench ] && doc=docs/benchmarks.md
    for option in $("$B/cameo" $verb --help | sed -n 's/^  --\([A-Za-z0-9-]*\).*/\1/p'); do
        [ "$option" = help ] || grep -q -- "\`--$option[ =\`]" $doc || { echo "$doc lacks --$option"; exit 1; }
    done
done
