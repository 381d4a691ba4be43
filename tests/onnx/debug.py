"""debug.py -- `cameo debug`: bisect blames one rewrite, reduce cuts a model down, precision finds what must stay in
float32; `cameo explain` says why not.

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

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import run_cases

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
    assert "needs bisect, reduce or precision" in says(cameo, "debug", rc=2)
    assert "did you mean 'bisect'" in says(cameo, "debug", "bisekt", model, rc=2)


def long_chain(path, n):
    """n nodes in a row with branches; a bad one in the middle, and one more that only counts with another."""
    nodes, x = [], "x"
    for i in range(n // 3):
        bad = {n // 6: "Elu", n // 9: "Selu", n // 4: "Softsign"}.get(i, "Relu")
        nodes += [node("Mul", [x, "k"], [f"m{i}"], f"mul{i}"), node(bad, [f"m{i}"], [f"r{i}"], f"act{i}"),
                  node("Add", [f"r{i}", x], [f"a{i}"], f"add{i}")]
        x = f"a{i}"
    nodes.append(node("Identity", [x], ["y"], "end"))
    save(path, nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, {"k": np.full(4, 0.5, np.float32)})


def reshaped(path):
    """Shape arithmetic leads to a reshape: cut off from it, the reshape still knows its shape."""
    nodes = [node("Relu", ["x"], ["r"], "first"), node("Shape", ["w"], ["s"], "shape"),
             node("Gather", ["s", "zero"], ["g"], "size"), node("Unsqueeze", ["g", "axis"], ["u"], "size1"),
             node("Concat", ["u", "rest"], ["c"], "shape2", axis=0), node("Reshape", ["r", "c"], ["t"], "reshape"),
             node("Elu", ["t"], ["e"], "bad"), node("Relu", ["e"], ["y"], "last")]
    save(path, nodes, {"x": [2, 6]}, {"y": [3, 4]},
         {"w": np.zeros((3, 5), np.float32), "zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])})


def reduces(cameo, folder):
    model, small = os.path.join(folder, "long.onnx"), os.path.join(folder, "small model's.onnx")
    long_chain(model, 600)
    assert len(onnx.load(model).graph.node) >= 600

    def reduce(check, *options, source=model):
        text = says(cameo, "debug", "reduce", source, "--check", check, "--output", small, *options, rc=1)
        m = re.search(r": (\d+) of (\d+) nodes still fail, found by (\d+) checks", text)
        assert m, text
        onnx.checker.check_model(onnx.load(small), full_check=True)
        return [n.op_type for n in onnx.load(small).graph.node], int(m[1]), int(m[3])

    ops, n, checks = reduce("! grep -q Elu {}")
    assert ops == ["Elu"] and n == 1 and checks < 40, (ops, n, checks)
    ops, n, checks = reduce("! { grep -q Selu {} && grep -q Softsign {}; }")
    assert sorted(ops) == ["Selu", "Softsign"] and n == 2 and checks < 150, (ops, n, checks)
    ops, n, _ = reduce("if grep -q Elu {}; then exit 3; fi; exit 1", "--fails-with", "3")
    assert ops == ["Elu"] and n == 1, ops
    assert not [f for f in os.listdir(folder) if "try" in f], os.listdir(folder)
    shaped = os.path.join(folder, "reshaped.onnx")
    reshaped(shaped)
    ops, n, _ = reduce("! { grep -q Reshape {} && grep -q Elu {}; }", source=shaped)
    found = onnx.load(small).graph
    assert ops == ["Reshape", "Elu"] and len(found.input) == 1 and len(found.initializer) == 1, found
    for check, words in (("true {}", "finds nothing wrong"), ("no-such-command {}", "cannot run"), ("false", "must stand for")):
        text = says(cameo, "debug", "reduce", model, "--check", check, "--output", small, rc=2)
        assert words in text, text
    assert "needs --check" in says(cameo, "debug", "reduce", model, rc=2)


def overflowing(path):
    """Products in a row; what one hands to the next is beyond float16's range."""
    names = ["first", "second", "large", "back", "last"]
    scales = [1 / 16, 1 / 16, 4000, 1 / 4000, 1 / 256]
    nodes, x = [], "x"
    for name in names:
        nodes.append(node("MatMul", [x, "w_" + name], ["y" if name == "last" else "p_" + name], name))
        x = "p_" + name
        if name in ("first", "second"):
            nodes.append(node("Tanh", [x], ["t_" + name], name + "_bounded"))
            x = "t_" + name
    save(path, nodes, {"x": [8, 256]}, {"y": [8, 256]},
         {"w_" + n: rng.standard_normal((256, 256), np.float32) * np.float32(s) for n, s in zip(names, scales)})


def finds_precision(cameo, folder):
    model = os.path.join(folder, "overflowing.onnx")
    overflowing(model)
    text = says(cameo, "debug", "precision", model, "--precision", "fp16", "--tolerance", "1e-2", rc=1)
    assert re.search(r"(large: reaches|back: reads values up to) [\d.e+]+, beyond float16's 65504", text), text
    kept = re.search(r"--precision fp16 --keep-fp32 (\S+)", text)[1].split(",")
    assert {"large", "back"} & set(kept) and not set(kept) & {"first", "second", "last"}, kept
    says(cameo, "compare", model, "--precision-b", "fp16", "--keep-fp32", ",".join(kept))
    says(cameo, "compare", model, "--precision-b", "fp16", rc=1)
    text = says(cameo, "debug", "precision", model, "--precision", "bf16", "--tolerance", "0.2")
    assert "must stay" not in text and re.search(r"(\d+) of \1 nodes can be in bf16", text), text
    assert "wants fp16 or bf16" in says(cameo, "debug", "precision", model, "--precision", "tf32", rc=2)


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


if __name__ == "__main__":
    sys.exit(run_cases(bisects, reduces, finds_precision, explains))
