"""plugin.py -- operators of a plugin in models and plans: `--plugins`, with the library of examples/plugin.

Usage: plugin.py CAMEO. The library is looked for in examples/ beside CAMEO.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import refused, run

F = TensorProto.FLOAT
N = 48


def make(path, with_sum, op="FusedNorm", attributes=None, weight=N):
    """A product, the plugin's operator on its outcome and the input, a product of that."""
    random = np.random.default_rng(3)
    weights = {"w": random.standard_normal((N, N)) / 7, "g": random.uniform(0.5, 2, weight), "v": random.standard_normal((N, 4))}
    outputs = ["n", "s"] if with_sum else ["n"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "first"),
             helper.make_node(op, ["m", "x", "g"], outputs, "norm", domain="example", **(attributes or {"epsilon": 0.25})),
             helper.make_node("MatMul", ["n", "v"], ["y"], "last")]
    results = [helper.make_tensor_value_info("y", F, ["rows", 4])]
    if with_sum:
        results.append(helper.make_tensor_value_info("s", F, ["rows", N]))
    graph = helper.make_graph(nodes, "custom", [helper.make_tensor_value_info("x", F, ["rows", N])], results,
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("example", 1)],
                                ir_version=8), path)
    return weights


def expected(weights, x):
    s = x @ weights["w"] + x
    n = s / np.sqrt((s * s).mean(1, keepdims=True) + 0.25) * weights["g"]
    return n @ weights["v"], s


def check_runs(cameo, plugins, at):
    x = np.random.default_rng(4).standard_normal((5, N)).astype(np.float32)
    np.save(at("x.npy"), x)
    for with_sum in [False, True]:
        weights = make(at("m.onnx"), with_sum)
        y, s = expected(weights, x)
        refused("FusedNorm node 'norm' (domain 'example', version 1)", cameo, "build", at("m.onnx"))
        run(cameo, "build", at("m.onnx"), *plugins, "--tune-shape", f"x=5x{N}", "--output", at("m.plan"))
        for source in ["m.onnx", "m.plan"]:
            for threads in ["1", "2"]:
                run(cameo, "run", at(source), at("x.npy"), *plugins, "--threads", threads, "--output", at("y.npz"))
                found = np.load(at("y.npz"))
                assert np.abs(found["y"] - y).max() < 1e-4, np.abs(found["y"] - y).max()
                if with_sum:
                    assert np.abs(found["s"] - s).max() < 1e-5
        for verb in ["run", "bench", "inspect", "explain", "tune"]:
            refused("the plan needs plugin 'fused_norm 1.0' for operator example.FusedNorm", cameo, verb, at("m.plan"))
        run(cameo, "tune", at("m.plan"), *plugins, "--tune-budget", "1s")
        said = run(cameo, "inspect", at("m.plan"), *plugins, "--layers")
        assert "example.FusedNorm 'norm'" in said, said
        run(cameo, "refit", at("m.plan"), "--from", at("m.onnx"), *plugins, "--output", at("again.plan"))
        layers = json.loads(run(cameo, "explain", at("m.plan"), *plugins, "--json", "--dim", "rows=5"))
        norm = next(layer for layer in layers if layer["name"] == "norm")
        assert norm["chosen"] == "example_fused_norm_rows" and not norm["reference"], norm
        run(cameo, "edit", "simplify", at("m.onnx"), at("simple.onnx"), *plugins)
        assert [n.op_type for n in onnx.load(at("simple.onnx")).graph.node].count("FusedNorm") == 1
        run(cameo, "run", at("simple.onnx"), at("x.npy"), *plugins, "--output", at("y.npz"))
        assert np.abs(np.load(at("y.npz"))["y"] - y).max() < 1e-4
        run(cameo, "build", at("m.onnx"), *plugins, "--verify", "--dim", "rows=3", "--output", at("verified.plan"))


def check_gpu(cameo, plugins, at):
    """The kernel is compiled into the plan for a class of GPUs, and runs where there is one."""
    x = np.random.default_rng(5).standard_normal((7, N)).astype(np.float32)
    np.save(at("x.npy"), x)
    y, s = expected(make(at("gpu.onnx"), True), x)
    built = [at("gpu.onnx"), *plugins, "--target", "sm_80", "--tune", "off", "--dim", "rows=7", "--output"]
    assert "3 layers on the GPU, 0 on the CPU" in run(cameo, "build", *built, at("gpu.plan"))
    with open(at("gpu.plan"), "rb") as f:
        assert b"fused_norm" in f.read().split(b"example_fused_norm_block")[-1], "no image of the kernel"
    layers = json.loads(run(cameo, "explain", at("gpu.plan"), *plugins, "--json", "--dim", "rows=7", "--target", "sm_80"))
    assert next(layer for layer in layers if layer["name"] == "norm")["chosen"] == "example_fused_norm_block", layers
    targets = ["cpu"] + (["cuda"] if "\ncuda:" in run(cameo, "devices") else [])
    for target in targets:
        run(cameo, "run", at("gpu.plan"), at("x.npy"), *plugins, "--target", target, "--output", at("y.npz"))
        found = np.load(at("y.npz"))
        assert np.abs(found["y"] - y).max() < 1e-4 and np.abs(found["s"] - s).max() < 1e-5, target


def check_verbs(cameo, plugins, at):
    """Every verb that takes a model or a plan takes plugins."""
    x = np.random.default_rng(6).standard_normal((3, N)).astype(np.float32)
    y, _ = expected(make(at("m.onnx"), False), x)
    data = at("case/test_data_set_0")
    os.makedirs(data, exist_ok=True)
    os.replace(at("m.onnx"), at("case/model.onnx"))
    for name, value in [("input_0", x), ("output_0", y.astype(np.float32))]:
        with open(os.path.join(data, name + ".pb"), "wb") as f:
            f.write(numpy_helper.from_array(value, name).SerializeToString())
    assert "1 passed, 0 failed" in run(cameo, "test-onnx", at("case"), *plugins, "--via-plan")
    make(at("m.onnx"), False)
    run(cameo, "build", at("m.onnx"), *plugins, "--tune", "off", "--output", at("m.plan"), "--quiet")
    short = ["--duration", "50ms", "--dim", "rows=3"]
    for model in [at("m.onnx"), at("m.plan")]:
        run(cameo, "bench", model, *plugins, *short)
        run(cameo, "profile", model, *plugins, *short)
        run(cameo, "compare", at("m.onnx"), model, *plugins, "--dim", "rows=3", "--layers")
        flag = "--onnx=" if model.endswith("onnx") else "--loadEngine="
        said = run(cameo, "trtexec", flag + model, "--plugins=" + plugins[1], "--duration=0", "--shapes=x:3x48")
        assert "PASSED" in said, said
    run(cameo, "debug", "bisect", at("m.onnx"), *plugins, "--dim", "rows=3")


def check_refusals(cameo, plugins, at):
    make(at("bad.onnx"), False, attributes={"epsilon": 0.1, "colour": 3})
    refused("colour", cameo, "build", at("bad.onnx"), *plugins)
    make(at("bad.onnx"), False, weight=N - 1)
    refused("length of weight", cameo, "build", at("bad.onnx"), *plugins)
    make(at("bad.onnx"), False, op="OtherNorm")
    refused("OtherNorm", cameo, "build", at("bad.onnx"), *plugins)
    refused("cannot load the plugin", cameo, "run", at("m.plan"), "--plugins", at("nothing.so"))
    with open(at("empty.c"), "w", encoding="utf-8") as f:
        f.write("int empty;\n")
    run("cc", "-shared", "-fPIC", "-o", at("empty.so"), at("empty.c"))
    refused("it exports no cameo_plugin_entry", cameo, "run", at("m.plan"), "--plugins", at("empty.so"))


def main(cameo):
    library = os.path.join(os.path.dirname(os.path.abspath(cameo)), "examples", "fused_norm.so")
    if not os.path.exists(library):
        raise SystemExit(f"{library} is missing: make examples")
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        check_runs(cameo, ["--plugins", library], at)
        check_gpu(cameo, ["--plugins", library], at)
        check_verbs(cameo, ["--plugins", library], at)
        check_refusals(cameo, ["--plugins", library], at)
    print("plugin: all as promised")


if __name__ == "__main__":
    main(sys.argv[1])
