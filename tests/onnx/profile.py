"""profile.py -- `cameo profile`: figures that add up, in text, JSON, CSV, a trace and a page.

Usage: profile.py CAMEO

No figure is compared with a clock. The page is taken apart as a browser would: one file, nothing fetched from
elsewhere, data that parse, every element that the script looks for.
SPDX-License-Identifier: Apache-2.0
"""

import csv
import html.parser
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import run_cases

F, I = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node
rng = np.random.default_rng(5)
EVIL = 'relu</script><b>"\\'


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(k, t, s) for k, t, s in inputs],
        [helper.make_tensor_value_info(k, F, s) for k, s in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def images(path):
    """A convolution, a pool, a product; a node with a name that would end a script."""
    nodes = [node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"], EVIL),
             node("GlobalAveragePool", ["r"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flat"),
             node("MatMul", ["f", "v"], ["y"], "product"), node("Transpose", ["r"], ["t"], "turned", perm=[3, 2, 1, 0])]
    save(path, nodes, [("x", F, [1, 8, 20, 20])], [("y", [1, 10]), ("t", [20, 20, 16, 1])],
         {"w": rng.standard_normal((16, 8, 3, 3), np.float32), "v": rng.standard_normal((16, 10), np.float32)})


def looped(path):
    """A loop of three rounds, which only the data tells."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["going"], "goes"), node("MatMul", ["a", "m"], ["b"], "inside")], "body",
        [helper.make_tensor_value_info("i", I, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("a", F, [4, 4])],
        [helper.make_tensor_value_info("going", TensorProto.BOOL, []), helper.make_tensor_value_info("b", F, [4, 4])])
    save(path, [node("Loop", ["n", "", "x"], ["l"], "loop", body=body), node("Relu", ["l"], ["y"], "after")],
         [("n", I, []), ("x", F, [4, 4])], [("y", [4, 4])], {"m": np.eye(4, dtype=np.float32)})


def says(cameo, *args, rc=0, threads="1"):
    r = subprocess.run([cameo, "profile", *args, "--threads", threads], capture_output=True, text=True, timeout=120)
    assert r.returncode == rc, f"{args}: exit code {r.returncode}, wanted {rc}: {r.stdout}{r.stderr}"
    return r.stdout if rc == 0 else r.stderr


SHORT = ("--duration", "100ms", "--runs", "5")


def adds_up(cameo, folder):
    model = os.path.join(folder, "images.onnx")
    images(model)
    d = json.loads(says(cameo, model, "--json", *SHORT))
    layers = d["layers"]
    assert 1 <= d["runs"] <= 5 and d["threads"] == 1, d["runs"]
    assert 0 < d["covered"] <= 1.0001 and d["watchedMs"] > 0 and d["plainMs"] > 0, d["covered"]
    assert abs(sum(x["share"] for x in layers) - 1) < 1e-6, [x["share"] for x in layers]
    assert abs(sum(t["ms"] for t in d["totals"]) - sum(x["ms"] for x in layers)) < 1e-6
    assert sum(t["layers"] for t in d["totals"]) == len(layers)
    conv = next(x for x in layers if x["operator"] == "Conv")
    assert conv["ops"] == 2 * 8 * 9 * 16 * 400 + 16 * 400, conv["ops"]  # and the activation after it
    assert conv["inBytes"] == 4 * 8 * 400 and conv["outBytes"] == 4 * 16 * 400, conv
    assert set(conv["nodes"]) == {"conv", EVIL}, conv["nodes"]
    assert conv["minMs"] <= conv["ms"] <= conv["maxMs"]
    rate = conv["ops"] / conv["ms"] * 1e-6
    assert abs(conv["gflops"] / rate - 1) < 1e-3 and abs(conv["fraction"] - conv["limitMs"] / conv["ms"]) < 1e-6, conv
    product = next(x for x in layers if x["operator"] == "MatMul")
    assert product["weightBytes"] == 4 * 160 and product["inputs"][1].get("weight"), product
    for x in layers:  # whom it reads came before
        assert all(i.get("from", -1) < x["index"] for i in x["inputs"]), x
    m = d["machine"]
    assert m["f32Gflops"] > 0.1 and m["memoryGbps"] > 0.1 and m["ownCacheGbps"] > 0.1, m
    memory = d["memory"]
    assert max(memory["live"]) == memory["live"][memory["peakPosition"]] <= memory["arenaBytes"], memory["live"]
    for b in memory["blocks"]:
        assert b["offset"] + b["bytes"] <= memory["arenaBytes"] and b["first"] <= b["last"], b


def prints(cameo, folder):
    model, plan = os.path.join(folder, "images.onnx"), os.path.join(folder, "images.plan")
    images(model)
    subprocess.run([cameo, "build", model, "--output", plan, "--quiet", "--tune", "off"], check=True)
    for path in (model, plan):
        text = says(cameo, path, "--layers", "2", *SHORT)
        for wanted in (r"limits, measured now: f32 [\d.]+ GFLOP/s", r"and \d more: --layers \d", r"^by kind", r"^memory: weights",
                       r"layers take [\d.]+% of a run that is watched, [\d.]+ ms; unwatched it takes [\d.]+ ms \([+-][\d.]+%\)",
                       r"conversions (and|or) copies"):
            assert re.search(wanted, text, re.M), f"no line like {wanted}: {text}"
    rows = list(csv.DictReader(io.StringIO(says(cameo, model, "--csv", *SHORT))))
    assert [int(r["index"]) for r in rows] == list(range(len(rows))) and any(r["operator"] == "Conv" for r in rows), rows
    assert all(None not in r and None not in r.values() for r in rows), rows
    assert "one of them" in says(cameo, model, "--json", "--csv", rc=2)
    assert "needs one model" in says(cameo, rc=2)
    assert "wanted 1 to 100" in says(cameo, model, "--trace-runs", "0", rc=2)


def nests(cameo, folder):
    model, inputs = os.path.join(folder, "looped.onnx"), os.path.join(folder, "in.npz")
    looped(model)
    np.savez(inputs, n=np.int64(3), x=np.ones((4, 4), np.float32))
    d = json.loads(says(cameo, model, "--json", "--inputs", inputs, *SHORT))
    inside = [x for x in d["layers"] if x["depth"] == 1 and x["operator"] == "MatMul"]
    assert len(inside) == 1 and inside[0]["calls"] == 3 and inside[0]["ops"] == 3 * 2 * 4 ** 3, inside
    loop = next(x for x in d["layers"] if x["operator"] == "Loop")
    assert loop["bound"] == "control" and loop["ms"] >= inside[0]["ms"], loop
    assert abs(sum(x["share"] for x in d["layers"] if not x["depth"]) - 1) < 1e-6


def traces(cameo, folder):
    model, path = os.path.join(folder, "images.onnx"), os.path.join(folder, "trace.json")
    images(model)
    says(cameo, model, "--trace", path, "--trace-runs", "2", *SHORT)
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    runs = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
    assert len(runs) == 2 and all(e["dur"] >= 0 and e["ts"] >= 0 for e in events if e["ph"] == "X"), runs
    layers = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    for e in layers:  # inside one of the runs
        assert any(r["ts"] <= e["ts"] + 1e-3 and e["ts"] + e["dur"] <= r["ts"] + r["dur"] + 1e-3 for r in runs), e
    assert {e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]} >= {"runs", "layers"}
    assert any(e["ph"] == "C" for e in events)


def threads(cameo, folder):
    """With several threads each has a track, and what it does lies inside a layer of that name."""
    model, path = os.path.join(folder, "large.onnx"), os.path.join(folder, "trace.json")
    weights = {"w": np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)}
    save(model, [node("MatMul", ["x", "w"], ["m"], "large"), node("MatMul", ["m", "w"], ["y"], "too")],
         [("x", F, [512, 512])], [("y", [512, 512])], weights)
    says(cameo, model, "--trace", path, *SHORT, threads="2")
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {"caller", "worker 1"} <= set(names), names
    spans = [e for e in events if e["ph"] == "X" and e["cat"] == "thread"]
    assert spans and {e["tid"] for e in spans} <= {names["caller"], names["worker 1"]}, spans
    layers = [e for e in events if e["ph"] == "X" and e["tid"] == names["layers"]]
    for e in spans:
        middle = e["ts"] + e["dur"] / 2
        assert any(x["name"] == e["name"] and x["ts"] <= middle <= x["ts"] + x["dur"] + 1 for x in layers), e


class Reader(html.parser.HTMLParser):
    """Collects elements, text of scripts, and everything that refers to something."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.ids, self.refers, self.scripts, self.labels, self.stack = set(), [], [], [], []

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if "id" in a:
            assert a["id"] not in self.ids, f"two elements are called {a['id']}"
            self.ids.add(a["id"])
        self.refers += [a[k] for k in ("src", "href", "data", "action", "poster") if k in a]
        if tag == "script":
            self.scripts.append([a, ""])
        if tag in ("svg", "canvas"):
            assert a.get("aria-label"), f"{tag} {a} says nothing to a reader of screens"
        self.stack.append(tag)

    def handle_data(self, text):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1][1] += text

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass


def reports(cameo, folder):
    model, path = os.path.join(folder, "images.onnx"), os.path.join(folder, "report.html")
    images(model)
    says(cameo, model, "--html", path, *SHORT)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert len(text) < 300e3, len(text)
    page = Reader()
    page.feed(text)
    for r in page.refers:
        assert r.startswith("#") and r[1:] in page.ids, f"the page refers to {r}"
    outside = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text)) - {"http://www.w3.org/2000/svg"}
    assert not outside, outside
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "@DATA@" not in text and "@STYLE@" not in text and "@SCRIPT@" not in text
    data = [t for a, t in page.scripts if a.get("id") == "data"]
    assert len(page.scripts) == 2 and len(data) == 1, [a for a, _ in page.scripts]
    found = json.loads(data[0])
    assert any(EVIL in x["nodes"] for x in found["layers"]), "a name was changed"
    script = next(t for a, t in page.scripts if "id" not in a)
    for wanted in re.findall(r'\$\("([\w-]+)"\)', script):
        assert wanted in page.ids, f"the script looks for #{wanted}"
    assert "prefers-color-scheme" in script and 'data-theme="dark"' in text
    for key in re.findall(r"\bdata\.(\w+)", script):
        assert key in found or key == "theme", f"the script reads data.{key}"


if __name__ == "__main__":
    sys.exit(run_cases(adds_up, prints, nests, traces, threads, reports))
