"""inspect_views.py -- `cameo inspect`: data, differences, weights, memory, targets and pictures.

Usage: inspect_views.py CAMEO
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
SVG = "{http://www.w3.org/2000/svg}"


def make(path, act="Relu", sparse=False):
    random = np.random.default_rng(7)
    w = random.standard_normal((16, 16)).astype(np.float32)
    if sparse:
        w[::4] = w[1::4] = 0
    constants = {"w": w, "v": random.standard_normal((16, 4)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node(act, ["a"], ["b"], "act"),
             helper.make_node("Add", ["b", "x"], ["c"], "residual"), helper.make_node("MatMul", ["c", "v"], ["y"], "<last> & end")]
    graph = helper.make_graph(nodes, "seen", [helper.make_tensor_value_info("x", F, ["n", 16])],
                              [helper.make_tensor_value_info("y", F, ["n", 4])],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*command, code=0):
    r = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert r.returncode == code, f"{' '.join(command)}: {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout if code < 2 else r.stderr


def check_data(cameo, at):
    x = np.array([[0, 1, -3], [np.nan, np.inf, 4]], np.float32)
    np.save(at("x.npy"), x)
    np.savez(at("x.npz"), one=x.astype(np.float16), two=np.arange(6, dtype=np.int64).reshape(2, 3), text=np.array(["a", "bc"]))
    with open(at("x.pb"), "wb") as f:
        f.write(numpy_helper.from_array(x, "x").SerializeToString())
    seen = json.loads(run(cameo, "inspect", "--data", "--json", at("x.npy"), at("x.npz"), at("x.pb")))
    assert [s["type"] for s in seen] == ["f32[2,3]", "f16[2,3]", "i64[2,3]", "str[2]", "f32[2,3]"], seen
    for s in [seen[0], seen[1], seen[4]]:
        assert (s["nans"], s["infinities"], s["zeros"], s["elements"]) == (1, 1, 1, 6), s
        assert (s["min"], s["max"], s["mean"]) == (-3, 4, 0.5) and abs(s["deviation"] - np.std([0, 1, -3, 4])) < 1e-6, s
        assert sum(s["histogram"]) == 4 and s["histogram"][0] == s["histogram"][-1] == 1, s
    assert seen[2]["mean"] == 2.5 and "mean" not in seen[3]
    said = run(cameo, "inspect", "--data", at("x.npz"))
    assert "1 NaN, 1 infinite" in said and "min -3, max 4" in said, said
    with open(at("bad.npy"), "wb") as f:
        f.write(b"\x93NUMPY nonsense")
    run(cameo, "inspect", "--data", at("bad.npy"), code=2)
    assert "wanted a .npy, .npz or .pb" in run(cameo, "inspect", "--data", at("a.onnx"), code=2)
    assert "files of tensors" in run(cameo, "inspect", "--data", code=2)


def check_diff(cameo, at):
    assert "0 differ" in run(cameo, "inspect", "--diff", at("a.onnx"), at("a.onnx"))
    said = run(cameo, "inspect", "--diff", at("a.onnx"), at("b.onnx"), code=1)
    assert "~ 'act'; operator Relu -> Tanh" in said and "4 -> 4, 1 differ" in said, said
    run(cameo, "build", at("a.onnx"), "--tune", "off", "--output", at("a.plan"))
    run(cameo, "build", at("a.onnx"), "--tune", "off", "--no-optimise", "--output", at("b.plan"))
    said = run(cameo, "inspect", "--diff", at("a.plan"), at("b.plan"), code=1)
    assert "+ Relu 'act'" in said and "expected" in said, said
    assert "0 differ" in run(cameo, "inspect", "--diff", at("a.plan"), at("a.plan"), "--dim", "n=3")
    run(cameo, "inspect", "--diff", at("a.onnx"), at("a.plan"), code=1)
    assert "two models or plans" in run(cameo, "inspect", "--diff", at("a.onnx"), code=2)


def check_bound(cameo, at):
    for source in ["a.onnx", "a.plan"]:
        said = run(cameo, "inspect", at(source), "--memory", "--targets", "--dim", "n=5")
        assert re.search(r"<- peak", said) and "cpu:generic" in said and "layers on kernels" in said and "sm_90" in said, said
    assert "1.02 KB  MatMul 'first'" in run(cameo, "inspect", at("a.onnx"), "--memory", "--no-optimise")
    said = run(cameo, "inspect", at("sparse.onnx"), "--weights")
    assert re.search(r"w +f32\[16,16\].*50.0 % zero, sparse 2:4", said), said
    assert said.count("2:4") == 1
    assert "deviation" in run(cameo, "inspect", at("a.plan"), "--weights")
    run(cameo, "build", at("a.onnx"), "--tune", "off", "--strip-weights", "--output", at("bare.plan"))
    assert "deviation" not in run(cameo, "inspect", at("bare.plan"), "--weights")


def check_picture(cameo, at):
    for source, boxes in [("a.onnx", 6), ("a.plan", 4)]:
        run(cameo, "inspect", at(source), "--svg", at("a.svg"))
        root = xml.parse(at("a.svg")).getroot()
        rects = [{k: float(r.get(k)) for k in ["x", "y", "width", "height"]} for r in root.iter(SVG + "rect")]
        assert len(rects) == boxes, (source, len(rects))
        for i, a in enumerate(rects):  # inside the picture, and none over another
            assert a["x"] >= 0 and a["x"] + a["width"] <= float(root.get("width"))
            assert a["y"] >= 0 and a["y"] + a["height"] <= float(root.get("height"))
            for b in rects[:i]:
                assert (a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"] or a["y"] >= b["y"] + b["height"] or
                        b["y"] >= a["y"] + a["height"]), (a, b)
        titles = [t.text.splitlines()[0] for t in root.iter(SVG + "title")]
        assert "first" in titles and ("<last> & end" in titles), titles


def main(cameo):
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        make(at("a.onnx"))
        make(at("b.onnx"), act="Tanh")
        make(at("sparse.onnx"), sparse=True)
        check_data(cameo, at)
        check_diff(cameo, at)
        check_bound(cameo, at)
        check_picture(cameo, at)
    print("inspect_views: all as promised")


if __name__ == "__main__":
    main(sys.argv[1])
