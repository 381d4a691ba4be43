"""test_folders.py -- `cameo test-onnx`: counts, workers that die, hang or lose their device, and what ran on a GPU.

Usage: test_folders.py CAMEO

The driver is tests/fake's, whose kernels do nothing, so that cases pass whose right answer is zero. NVRTC must be found.
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

from common.command import run_cases

F = TensorProto.FLOAT
SHAPE = [4, 300]
# Softmax is the one that gets hurt: kernels of its family begin with "rows". Unique has no kernel.
CASES = {"abs": "Abs", "ceil": "Ceil", "hurt": "Softmax", "relu": "Relu", "sin": "Sin", "unique": "Unique"}


def make(folder):
    """The cases, below an empty folder."""
    for name, op in CASES.items():
        data = os.path.join(folder, name, "test_data_set_0")
        os.makedirs(data)
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], name, [helper.make_tensor_value_info("x", F, SHAPE)],
                                  [helper.make_tensor_value_info("y", F, [None] if op == "Unique" else SHAPE)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  os.path.join(folder, name, "model.onnx"))
        x = np.zeros(SHAPE, np.float32)
        y = x[0, :1] if op == "Unique" else np.full(SHAPE, 1 / 300, np.float32) if name == "hurt" else x
        for file, array in (("input_0.pb", x), ("output_0.pb", y)):
            with open(os.path.join(data, file), "wb") as f:
                f.write(numpy_helper.from_array(array).SerializeToString())


def run(cameo, folder, *options, **environment):
    """Exit code and lines; with an environment on the fake driver."""
    env = dict(os.environ)
    if environment:
        env.update(environment, CAMEO_CUDA_PATH=os.path.join(os.path.dirname(os.path.abspath(cameo)), "tests", "fake"),
                   CAMEO_KERNEL_CACHE=KERNELS)
        options += ("--target", "cuda")
    r = subprocess.run([cameo, "test-onnx", folder, *options], capture_output=True, text=True, env=env)
    return r.returncode, (r.stdout + r.stderr).strip().splitlines()


def has(lines, pattern):
    assert any(re.search(pattern, line) for line in lines), "no line like %s in\n%s" % (pattern, "\n".join(lines))


def on_the_cpu(cameo, folder):
    make(folder)
    code, lines = run(cameo, folder, "--list")
    assert code == 0 and lines[-1] == "6 passed, 0 failed, 0 skipped", lines
    has(lines, "^pass .*/relu$")
    assert not any(line.startswith("on ") for line in lines), lines


def shares_on_a_gpu(cameo, folder):
    make(folder)
    code, lines = run(cameo, folder, FAKE_CUDA="1")
    assert code == 1 and lines[-1] == "5 passed, 1 failed, 0 skipped", lines
    has(lines, r"^FAIL .*/hurt: output 'y'")
    has(lines, r"^on cuda: 5 of 6 cases \(83\.3%\), 5 of them with every node; 5 of 6 nodes \(83\.3%\)$")
    has(lines, r"^  evaluate +0 of +1 nodes \(0\.0%\); never: Unique$")
    has(lines, r"^  pointwise +4 of +4 nodes \(100\.0%\)$")
    has(lines, r"^  rows +1 of +1 nodes \(100\.0%\)$")
    assert not any(line.startswith("the host keeps") for line in lines), lines


def what_the_host_keeps(cameo, folder):
    make(folder)
    data = os.path.join(folder, "few", "test_data_set_0")
    os.makedirs(data)
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "few", [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, [3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), os.path.join(folder, "few", "model.onnx"))
    for file, sign in (("input_0.pb", 1), ("output_0.pb", -1)):
        with open(os.path.join(data, file), "wb") as f:
            f.write(numpy_helper.from_array(sign * np.arange(3)).SerializeToString())
    code, lines = run(cameo, folder, "--list", FAKE_CUDA="1")
    assert lines[-1] == "6 passed, 1 failed, 0 skipped", lines
    has(lines, r"^on cuda: 5 of 6 cases \(83\.3%\), 5 of them with every node; 5 of 6 nodes \(83\.3%\)$")
    has(lines, r"^the host keeps 1 more nodes, all of 1 cases: ")
    has(lines, r"^pass .*/unique; on the CPU: Unique \(no kernel is for this operator\)$")
    has(lines, r"^pass .*/few$")


def one_that_is_hurt_is_alone(cameo, folder):
    make(folder)
    for how, said in (("ABORT", "the process died of signal 6"), ("FAULT", r"Softmax node 'y': .*fake error 700"),
                      ("HANG", "the process died of signal 9")):
        for jobs in ("1", "3"):
            code, lines = run(cameo, folder, "--jobs", jobs, "--timeout", "3", **{"FAKE_CUDA_" + how: "rows"})
            assert code == 1 and lines[-1] == "5 passed, 1 failed, 0 skipped", (how, lines)
            has(lines, "^FAIL .*/hurt: .*" + said)


def a_class_is_compiled_for(cameo, folder):
    make(folder)
    code, lines = run(cameo, folder, "--target", "sm_80")
    assert code == 0 and lines[-1] == "6 passed, 0 failed, 0 skipped", lines
    has(lines, r"^on sm_80: 5 of 6 cases")


def a_device_that_is_not_there(cameo, folder):
    make(folder)
    code, lines = run(cameo, folder, "--target", "cuda:63")
    assert code not in (0, 1) and len(lines) == 1 and lines[0].startswith("cameo: target cuda"), lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as KERNELS:
        sys.exit(run_cases(on_the_cpu, shares_on_a_gpu, what_the_host_keeps, one_that_is_hurt_is_alone, a_class_is_compiled_for,
                           a_device_that_is_not_there))
