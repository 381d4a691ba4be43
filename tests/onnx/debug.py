"""debug.py -- `cameo debug bisect` blames the one rewrite that moves an answer; `cameo explain` says why not.

Usage: debug.py CAMEO

What bisect prints is checked by running the model with one rewrite less and with that one: the answer must hold
before it and not after. What explain prints is checked against networks that miss a pattern by one condition.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node
rng = np.random.default_rng(3)


def save(path, nodes, inputs, outputs, constants):
    """A model; inputs and outputs by name and shape."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(k, F, s) for k, s in inputs.items()],
        [helper.make_tensor_value_info(k, F, s) for k, s in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def normalised(path):
    """A product, then a layer normalisation in pieces, then another product."""
    nodes = [node("MatMul", ["x", "w"], ["p"], "product"),
             node("ReduceMean", ["p"], ["m"], "mean", axes=[-1]),
             node("Sub", ["p", "m"], ["d"], "centred"),
             node("Mul", ["d", "d"], ["q"], "square"),
             node("ReduceMean", ["q"], ["v"], "variance", axes=[-1]),
             node("Add", ["v", "eps"], ["e"], "bounded"),
             node("Sqrt", ["e"], ["s"], "deviation"),
             node("Div", ["d", "s"], ["n"], "normalised"),
             node("MatMul", ["n", "u"], ["y"], "last")]
    save(path, nodes, {"x": ["rows", 48]}, {"y": ["rows", 16]},
         {"w": rng.standard_normal((48, 64), np.float32), "u": rng.standard_normal((64, 16), np.float32),
          "eps": np.float32(1e-5)})


def apart(path):
    """A softmax in pieces, over axes that do not follow each other, and one that is found."""
    nodes = [node("ReduceMax", ["x"], ["m"], "top", axes=[0, 2]),
             node("Sub", ["x", "m"], ["d"], "less"),
             node("Exp", ["d"], ["e"], "powers"),
             node("ReduceSum", ["e", "axes"], ["s"], "sum"),
             node("Div", ["e", "s"], ["y"], "quotient"),
             node("Exp", ["x"], ["f"], "others"),
             node("ReduceSum", ["f", "last"], ["t"], "total"),
             node("Div", ["f", "t"], ["z"], "found")]
    save(path, nodes, {"x": [2, 3, 4]}, {"y": [2, 3, 4], "z": [2, 3, 4]},
         {"axes": np.array([0, 2]), "last": np.array([2])})


def says(cameo, *args, rc=0):
    r = subprocess.run([cameo, *args], capture_output=True, text=True, timeout=120)
    assert r.returncode == rc, f"{args}: exit code {r.returncode}, wanted {rc}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def answer(cameo, model, folder, *options):
    out = os.path.join(folder, "out.npz")
    says(cameo, "run", model, os.path.join(folder, "in.npz"), "--output", out, *options)
    with np.load(out) as z:
        return z["y"].astype(float)


def blame(cameo, model, folder, tolerance, *options):
    """The pass that bisect names; its rewrite is checked."""
    text = says(cameo, "debug", "bisect", model, "--inputs", os.path.join(folder, "in.npz"), "--tolerance",
                str(tolerance), *options, rc=1)
    m = re.search(r"^rewrite (\d+), of pass (\w+), at (\S+) '(.*)'\noutput '(.*)': element \d+ is", text)
    assert m, f"bisect says: {text}"
    number = int(m[1])
    assert m[5] == "y" and re.search(r"^  - ", text, re.M) and re.search(r"^  \+ ", text, re.M), text
    want = answer(cameo, model, folder, "--no-optimise")
    scale = max(1, np.abs(want).max())
    for stop, holds in ((number - 1, True), (number, False)):
        found = answer(cameo, model, folder, *(("--stop-after-rewrite", str(stop)) if stop else ("--no-optimise",)),
                       *options)
        moved = np.abs(found - want).max() / scale
        assert (moved <= tolerance) == holds, f"after rewrite {stop} y moved by {moved}, allowed {tolerance}"
    return m[2]


def bisects(cameo, folder):
    model = os.path.join(folder, "normalised.onnx")
    normalised(model)
    np.savez(os.path.join(folder, "in.npz"), x=rng.standard_normal((5, 48)).astype(np.float32))
    text = says(cameo, "debug", "bisect", model, "--dim", "rows=5")
    assert re.search(r"nothing to blame: after \d+ rewrites", text), text
    assert blame(cameo, model, folder, 1e-9) == "fuse_layer_norm"
    assert blame(cameo, model, folder, 1e-5, "--precision", "bf16") == "precision"
    assert "needs one model" in says(cameo, "debug", "bisect", rc=2)
    assert "did you mean 'bisect'" in says(cameo, "debug", "bisekt", model, rc=2)


def explains(cameo, folder):
    model = os.path.join(folder, "apart.onnx")
    apart(model)
    reason = "softmax not fused: it is over axes that do not follow each other"
    text = says(cameo, "explain", model)
    assert reason in text and "quotient" in text, text
    told = json.loads(says(cameo, "explain", model, "--json"))
    missed = [(m["pass"], m["node"], m["reason"]) for m in told["almostMatched"]]
    assert missed == [("fuse_softmax", "quotient", reason)], missed
    covered = {name for layer in told["layers"] for name in layer["covers"]}
    wanted = {n.name for n in onnx.load(model).graph.node}
    assert covered == wanted, f"layers cover {sorted(covered)}, wanted {sorted(wanted)}"
    softmax = [layer for layer in told["layers"] if layer["operator"] == "Softmax"]
    assert len(softmax) == 1 and set(softmax[0]["covers"]) == {"others", "total", "found"}, softmax


def main():
    cameo, wrong = sys.argv[1], 0
    for test in (bisects, explains):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(cameo, folder)
                print(f"{test.__name__}: as it should")
            except AssertionError as e:
                wrong += 1
                print(f"{test.__name__}: {e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
