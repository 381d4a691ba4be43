"""compare.py -- `cameo compare`: figures as numpy computes them, and the layer to blame.

Usage: compare.py CAMEO

Two models that differ in one weight, a precision that is too small for one layer, results saved in a file; each is
compared as it is written and as the optimiser leaves it.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import run_cases

F = TensorProto.FLOAT
node = helper.make_node
rng = np.random.default_rng(11)


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(k, F, s) for k, s in inputs.items()],
        [helper.make_tensor_value_info(k, F, s) for k, s in outputs.items()],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def tower(n):
    """Residual blocks of two convolutions with batch normalisation, then a head: nodes and weights."""
    nodes, weights, x = [], {}, "x"
    for b in range(n):
        for k in range(2):
            name = f"block{b}/conv{k}"
            weights[name + ".w"] = rng.standard_normal((8, 8, 3, 3)) / 8
            for part, value in (("s", 1 + 0.1 * rng.standard_normal(8)), ("b", 0.1 * rng.standard_normal(8)),
                                ("m", 0.1 * rng.standard_normal(8)), ("v", 1 + rng.random(8))):
                weights[f"{name}.{part}"] = value
            nodes.append(node("Conv", [x if k == 0 else f"r{b}", name + ".w"], [name], name, pads=[1, 1, 1, 1]))
            nodes.append(node("BatchNormalization", [name] + [f"{name}.{p}" for p in "sbmv"], [name + "/n"], name + "/bn"))
            if k == 0:
                nodes.append(node("Relu", [name + "/n"], [f"r{b}"], f"block{b}/relu0"))
        nodes += [node("Add", [f"block{b}/conv1/n", x], [f"s{b}"], f"block{b}/add"),
                  node("Relu", [f"s{b}"], [f"x{b}"], f"block{b}/relu1")]
        x = f"x{b}"
    nodes += [node("GlobalAveragePool", [x], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flat"),
              node("MatMul", ["f", "head.w"], ["y"], "head")]
    weights["head.w"] = rng.standard_normal((8, 5))
    return nodes, weights


def save_tower(path, made, changes=None):
    nodes, weights = made
    save(path, nodes, {"x": [1, 8, 12, 12]}, {"y": [1, 5]}, {**weights, **(changes or {})})


def says(cameo, *args, rc=0):
    r = subprocess.run([cameo, *args], capture_output=True, text=True, timeout=120)
    assert r.returncode == rc, f"{args}: exit code {r.returncode}, wanted {rc}: {r.stdout}{r.stderr}"
    return r.stdout if rc < 2 else r.stderr


def told(cameo, *args, rc=0):
    return json.loads(says(cameo, "compare", *args, "--json", rc=rc))


def blames(cameo, folder):
    """One weight is another: the layer that reads it is named, and is the cause."""
    made = tower(6)
    a, b = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
    save_tower(a, made)
    w = made[1]["block3/conv0.w"].copy()
    w[2, 3, 1, 1] += 0.5
    save_tower(b, made, {"block3/conv0.w": w})
    for options in ((), ("--no-optimise-a",), ("--no-optimise-a", "--no-optimise-b"), ("--no-optimise-b",)):
        d = told(cameo, a, b, "--layers", *options, rc=1)
        first = d["firstDiverging"]
        assert "block3/conv0" in first["nodes"] and first["cause"] == "itself", (options, first)
        assert not any("block2" in n for n in first["nodes"]), (options, first)
        assert len(d["layers"]) > 12, len(d["layers"])
        after = [x for x in d["layers"] if x["diverges"]]
        assert len(after) > 3 and not d["close"], after
    text = says(cameo, "compare", a, b, "--layers", rc=1)
    assert "first layer that diverges: Conv 'block3/conv0'" in text and "it is the cause" in text, text
    plan = os.path.join(folder, "b.plan")
    says(cameo, "build", b, "--output", plan, "--quiet", "--tune", "off")
    assert told(cameo, a, plan, "--layers", rc=1)["firstDiverging"]["layer"] == "block3/conv0"
    same = told(cameo, a, "--no-optimise-a", "--layers")
    assert same["close"] and same["firstDiverging"] is None, same["firstDiverging"]


def passes_on(cameo, folder):
    """An error below the tolerance is made large by a later layer: that one only passes it on."""
    nodes = [node("MatMul", ["x", "w"], ["p"], "product"), node("Relu", ["p"], ["r"], "positive"),
             node("Sub", ["r", "c"], ["d"], "difference"), node("Mul", ["d", "k"], ["y"], "large")]
    x = rng.random((4, 16)).astype(np.float32)
    w = rng.random((16, 16)).astype(np.float32)
    near = np.maximum(x @ w, 0).astype(np.float32)
    a, b, inputs = (os.path.join(folder, n) for n in ("a.onnx", "b.onnx", "in.npz"))
    np.savez(inputs, x=x)
    for path, moved in ((a, 0), (b, 1e-4)):
        save(path, nodes, {"x": [4, 16]}, {"y": [4, 16]}, {"w": w + np.float32(moved), "c": near + np.float32(0.01), "k": 100.0})
    d = told(cameo, a, b, "--layers", "--inputs", inputs, "--no-optimise-a", "--no-optimise-b", "--tolerance", "1e-2", rc=1)
    first = d["firstDiverging"]
    assert first["layer"] == "difference" and first["cause"] == "inputs" and first["alone"] < 1e-4, first
    text = says(cameo, "compare", a, b, "--layers", "--inputs", inputs, "--no-optimise-a", "--no-optimise-b", "--tolerance", "1e-2", rc=1)
    assert "only passes the error on" in text and "its input 'positive'" in text, text


def measures(cameo, folder):
    """The figures, against numpy's."""
    a, b = os.path.join(folder, "a.npz"), os.path.join(folder, "b.npz")
    x = rng.standard_normal((3, 100)).astype(np.float32)
    y = x + rng.standard_normal((3, 100)).astype(np.float32) * np.float32(1e-3)
    y[0, :7] = x[0, :7]
    np.savez(a, out=x)
    np.savez(b, out=y)
    d = told(cameo, a, b, rc=1)
    e, p, q = d["outputs"][0], x.astype(float), y.astype(float)
    off, scale = np.abs(p - q), np.abs(p).max()
    close = lambda found, want: abs(found - want) <= 1e-6 * max(1e-9, abs(want))
    assert close(e["maxAbs"], off.max()) and close(e["meanAbs"], off.mean()) and close(e["scale"], scale), e
    assert close(e["distance"], off.max() / scale) and e["differ"] == (p != q).sum() and e["elements"] == 300, e
    assert close(e["meanRel"], (off / np.maximum(np.abs(p), 1e-6 * scale)).mean()), e
    assert close(e["cosine"], (p * q).sum() / np.linalg.norm(p) / np.linalg.norm(q)), e
    assert close(e["snrDb"], 10 * np.log10((p ** 2).sum() / (off ** 2).sum())), e
    bins = e["histogram"]
    assert sum(bins.values()) == 300 and bins["equal"] == (off == 0).sum(), bins
    assert bins["<1e-3"] == ((off / scale >= 1e-4) & (off / scale < 1e-3)).sum(), bins
    assert told(cameo, a, b, "--tolerance", "0.1")["close"]
    assert "#" in says(cameo, "compare", a, b, "--histogram", rc=1)
    y[1, 1] = np.nan
    np.savez(b, out=y)
    d = told(cameo, a, b, "--tolerance", "0.1", rc=1)
    assert d["outputs"][0]["broken"] == 1 and d["outputs"][0]["distance"] is None, d
    np.savez(b, out=y[:2])
    assert "shapes differ" in says(cameo, "compare", a, b, rc=1)
    np.savez(b, other=y, more=y)
    assert "no output in common" in says(cameo, "compare", a, b, rc=2)


def saved(cameo, folder):
    """What a model says beside a file, precisions beside each other, and what cannot be."""
    made, model = tower(2), os.path.join(folder, "m.onnx")
    save_tower(model, made)
    inputs, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
    np.savez(inputs, x=rng.standard_normal((1, 8, 12, 12)).astype(np.float32))
    says(cameo, "run", model, "--inputs", inputs, "--output", out)
    assert told(cameo, out, model, "--inputs", inputs)["outputs"][0]["distance"] == 0
    assert told(cameo, model, out, "--inputs", inputs, "--isa", "generic")["close"]
    assert not told(cameo, out, model, "--random", "9", rc=1)["close"]
    d = told(cameo, model, "--precision-b", "bf16", "--target-a", "cpu:generic", "--layers")
    assert d["b"]["precision"] == "bf16" and d["a"]["target"] == "cpu:generic" and 0 < d["outputs"][0]["distance"] < 0.05, d
    assert told(cameo, model, "--precision-b", "bf16", "--tolerance", "1e-7", rc=1)["tolerance"] == 1e-7
    assert "--layers needs two models" in says(cameo, "compare", out, model, "--layers", rc=2)
    assert "compare needs two" in says(cameo, "compare", rc=2)


if __name__ == "__main__":
    sys.exit(run_cases(blames, passes_on, measures, saved))
