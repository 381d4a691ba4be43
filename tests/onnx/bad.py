"""bad.py -- hostile and broken models: refused with a sentence, or run; never a crash, never a hang.

Usage: bad.py CAMEO

Models come from ../shared/onnx/bad, whose EXPECT.json says what is wrong with each; without that folder, from
a few made here. Also: an endless loop stops at its time limit and at an interrupt.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/onnx/bad")
SLOWEST = 10  # seconds that any of them may take
LINEAR = {"many_nodes_20000": 8, "wide_concat_5000": 8}  # large but plain: seconds, generous for a busy machine
RUNS, REFUSED, EITHER = {0}, {2}, {0, 2}


def expectation(name, about):
    """The exit codes that are right."""
    if name == "loop_infinite":
        return REFUSED
    if "VALID" in about["why"] or name in ("deep_if_20", "name_c_injection", "name_nul", "unsorted"):
        return RUNS
    if "any outcome" in about["why"] or about["onnxruntime"] != "reject":
        return EITHER
    return REFUSED


def model(nodes, inputs=(), initializers=(), outputs=(("y", TensorProto.FLOAT, None),), opset=17):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(v, n) for n, v in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def endless():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["v", "v"], ["v2"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("c2", TensorProto.BOOL, []), helper.make_tensor_value_info("v2", TensorProto.FLOAT, [1])])
    return model([helper.make_node("Loop", ["", "go", "x"], ["y"], body=body)], [("x", TensorProto.FLOAT, [1])],
                 [("go", np.array(True))])


def made(folder):
    """Models of our own: what shared/onnx/bad would have held."""
    x = ("x", TensorProto.FLOAT, [2, 3])
    good = model([helper.make_node("Relu", ["x"], ["y"])], [x])
    ints = ("y", TensorProto.INT64, None)
    models = {
        "good": (good, RUNS),
        "unknown_op": (model([helper.make_node("Frobnicate", ["x"], ["y"])], [x]), REFUSED),
        "cycle": (model([helper.make_node("Add", ["x", "y"], ["z"]), helper.make_node("Relu", ["z"], ["y"])], [x]), REFUSED),
        "reshape": (model([helper.make_node("Reshape", ["x", "s"], ["y"])], [x], [("s", np.array([4, 4]))]), REFUSED),
        "huge": (model([helper.make_node("ConstantOfShape", ["s"], ["y"])], [], [("s", np.array([1 << 31, 1 << 31]))]), REFUSED),
        "div": (model([helper.make_node("Div", ["a", "b"], ["y"])], [], [("a", np.array([5])), ("b", np.array([0]))], [ints]), REFUSED),
        "int_min": (model([helper.make_node("Div", ["a", "b"], ["y"])], [], [("a", np.array([-2**63])), ("b", np.array([-1]))], [ints]), EITHER),
        "opset": (model([helper.make_node("Relu", ["x"], ["y"])], [x], opset=9999), REFUSED),
        "loop_infinite": (endless(), REFUSED),
        "many_nodes_20000": (model(
            [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20000)],
            [("v0", TensorProto.FLOAT, [2, 3])], outputs=[("v20000", TensorProto.FLOAT, None)]), RUNS),
    }
    for name, (m, _) in models.items():
        with open(os.path.join(folder, name + ".onnx"), "wb") as f:
            f.write(m.SerializeToString())
    bytes_of_good = good.SerializeToString()
    raw = {"empty": (b"", REFUSED), "zeros": (bytes(100), REFUSED), "html": (b"<!DOCTYPE html><html></html>", REFUSED),
           "cut": (bytes_of_good[:-9], REFUSED), "length": (b"\x3a" + b"\xff" * 9 + b"\x01", REFUSED),
           "deep": (b"\x3a\xff\xff\x03" * 5000, REFUSED)}
    for name, (b, _) in raw.items():
        with open(os.path.join(folder, name + ".onnx"), "wb") as f:
            f.write(b)
    return {name: wanted for name, (_, wanted) in {**models, **raw}.items()}


def slow(folder):
    """Single nodes that would compute for long: they stop when their time has passed."""
    f = TensorProto.FLOAT
    image = ("x", f, [1, 4, 512, 512])
    models = {
        "slow_matmul": model([helper.make_node("MatMul", ["x", "x"], ["y"])], [("x", f, [9000, 9000])]),
        "slow_pool": model([helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[255, 255], p=3)], [image]),
        "slow_conv": model([helper.make_node("Conv", ["x", "w"], ["y"], pads=[50] * 4)], [image, ("w", f, [64, 4, 101, 101])]),
        "slow_lstm": model([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=512)],
                           [("x", f, [20000, 1, 64]), ("w", f, [1, 2048, 64]), ("r", f, [1, 2048, 512])]),
        "slow_roi": model([helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], sampling_ratio=3000, output_height=100, output_width=100)],
                          [image, ("r", f, [50, 4])], [("b", np.zeros(50, np.int64))]),
    }
    for name, m in models.items():
        with open(os.path.join(folder, name + ".onnx"), "wb") as out:
            out.write(m.SerializeToString())
    return models.keys()


def check(cameo, path, wanted, timeout="5s"):
    """None when all is well, else a sentence."""
    start = time.monotonic()
    try:
        r = subprocess.run([cameo, "run", path, "--random", "1", "--timeout", timeout], capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "hangs"
    seconds = time.monotonic() - start
    message = r.stderr.decode("utf-8", "replace").strip()
    name = os.path.splitext(os.path.basename(path))[0]
    if r.returncode not in wanted:
        return f"exit {r.returncode}, wanted {sorted(wanted)}: {message[-300:]}"
    if seconds > LINEAR.get(name, SLOWEST):
        return f"took {seconds:.1f} s"
    if r.returncode and not message.startswith("cameo: "):
        return f"no sentence: {message[:200]!r}"
    if name in LINEAR:
        print(f"  {name}: {seconds:.2f} s")
    return None


def check_interrupt(cameo, path):
    p = subprocess.Popen([cameo, "run", path, "--random", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    if p.poll() is not None:
        return f"ended by itself with {p.returncode}"
    start = time.monotonic()
    p.send_signal(signal.SIGINT)
    try:
        _, err = p.communicate(timeout=SLOWEST)
    except subprocess.TimeoutExpired:
        p.kill()
        return "an interrupt does not stop it"
    seconds = time.monotonic() - start
    if p.returncode != 2 or b"cameo: " not in err or seconds > 2:
        return f"interrupted: exit {p.returncode} after {seconds:.1f} s, {err[-200:]!r}"
    return None


def main():
    cameo = sys.argv[1]
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        if os.path.isdir(SHARED):
            folder = SHARED
            with open(os.path.join(SHARED, "EXPECT.json")) as f:
                wanted = {name: expectation(name, about) for name, about in json.load(f).items()}
        else:
            folder, wanted = tmp, made(tmp)
        for name in sorted(wanted):
            wrong = check(cameo, os.path.join(folder, name + ".onnx"), wanted[name])
            if wrong:
                failed += 1
                print(f"FAIL {name}: {wrong}")
        for name in slow(tmp):
            wanted[name] = REFUSED
            wrong = check(cameo, os.path.join(tmp, name + ".onnx"), REFUSED, "1s")
            if wrong:
                failed += 1
                print(f"FAIL {name}: {wrong}")
        wrong = check_interrupt(cameo, os.path.join(folder, "loop_infinite.onnx"))
        if wrong:
            failed += 1
            print(f"FAIL interrupt: {wrong}")
    print(f"{len(wanted) + 1 - failed} of {len(wanted) + 1} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
