"""precision.py -- `cameo build --precision` keeps its tolerance, and takes the small type that fits.

Usage: precision.py CAMEO

Three products in a row: of numbers near 1, and with numbers beyond float16's range between them, which bfloat16 holds;
and with a tolerance that neither holds, so that nodes stay in float32.
SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
rng = np.random.default_rng(5)


def save(path, middle):
    """x -> three products and Relus; the numbers between them are `middle` times as large as x."""
    w = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(3)]
    w[0] *= np.float32(middle)
    w[2] /= np.float32(middle)
    nodes, x = [], "x"
    for i in range(3):
        nodes += [node("MatMul", [x, f"w{i}"], [f"p{i}"], f"product{i}"), node("Relu", [f"p{i}"], [f"r{i}"], f"relu{i}")]
        x = f"r{i}"
    nodes[-1].output[0] = "y"
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 32])
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")],
                              [numpy_helper.from_array(v, f"w{i}") for i, v in enumerate(w)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def says(cameo, *args):
    r = subprocess.run([cameo, *args], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, f"{args}: {r.stderr}"
    return r.stdout


def check(cameo, folder, middle, tolerance, wanted):
    """Build with auto; the first line about precision must match, and the plan keep the tolerance."""
    model, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.plan")
    sample, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
    save(model, middle)
    np.savez(sample, x=rng.standard_normal((16, 32)).astype(np.float32))
    text = says(cameo, "build", model, "--tune", "off", "--output", plan, "--precision", "auto", "--tolerance", str(tolerance),
                "--samples", sample)
    assert re.search(wanted, text), f"middle {middle}, tolerance {tolerance}: wanted '{wanted}' in: {text}"
    answers = []
    for path in (model, plan):
        says(cameo, "run", path, sample, "--output", out)
        with np.load(out) as z:
            answers.append(z["y"].astype(float))
    moved = np.abs(answers[0] - answers[1]).max() / np.abs(answers[0]).max()
    assert moved <= tolerance, f"moved by {moved}, allowed {tolerance}"


def main():
    cameo, wrong = sys.argv[1], 0
    cases = ((1, 1e-2, r"precision: (\d+) of \1 nodes in f16"),
             (1e6, 3e-2, r"precision: f16 would leave \d of \d nodes in f32, bf16 fewer\n"
                         r"precision: (\d+) of \1 nodes in bf16"),
             (1, 1e-5, r"stays in f32: in b?f16 the outputs would move by"))
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            try:
                check(cameo, folder, *case)
            except AssertionError as e:
                wrong += 1
                print(e)
        text = says(cameo, "build", os.path.join(folder, "m.onnx"), "--tune", "off", "--output", os.path.join(folder, "m.plan"),
                    "--precision", "tf32")
        if "tf32 changes nothing on a CPU" not in text:
            wrong += 1
            print(f"tf32: {text}")
    print(f"{len(cases) + 1} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
