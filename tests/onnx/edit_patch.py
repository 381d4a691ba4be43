"""edit_patch.py -- `cameo edit` insert, replace, cast, prune, strip-weights and restore-weights, against ONNX Runtime.

Usage: edit_patch.py CAMEO
SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from common.command import refused, run

onnxruntime.set_default_logger_severity(4)
F = TensorProto.FLOAT
rng = np.random.default_rng(5)


def weights(*shape):
    return (rng.standard_normal(shape) / 4).astype(np.float32)


def make(path):
    """A convolution, a product with a transposed weight, one without, and a table that two read."""
    constants = {"w": weights(16, 8, 3, 3), "b": weights(16), "v": weights(32, 16), "u": weights(32, 10),
                 "odd": weights(10, 5), "axes": np.array([2, 3], np.int64)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "act"),
        helper.make_node("ReduceMean", ["r", "axes"], ["m"], "mean", keepdims=0),
        helper.make_node("Gemm", ["m", "v"], ["g"], "gemm", transB=1),
        helper.make_node("MatMul", ["g", "u"], ["h"], "matmul"),
        helper.make_node("MatMul", ["h", "odd"], ["y"], "head"),
    ]
    graph = helper.make_graph(nodes, "patched", [helper.make_tensor_value_info("x", F, ["n", 8, 6, 6])],
                              [helper.make_tensor_value_info("y", F, ["n", 5])],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return constants


def answer(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def near(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    assert np.abs(a - b).max() <= tolerance * max(1, np.abs(b).max()), np.abs(a - b).max()


def constants_of(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def check_nodes(cameo, at, x):
    edit = lambda what, *o: run(cameo, "edit", what, at("m.onnx"), at("out.onnx"), *o)
    y = answer(at("m.onnx"), x)
    edit("insert", "--value", "y", "--with", "y = Softmax(x) {axis=1}")
    onnx.checker.check_model(at("out.onnx"), full_check=True)
    near(answer(at("out.onnx"), x), np.exp(y) / np.exp(y).sum(1, keepdims=True))
    edit("insert", "--value", "x", "--with", "@two = f32[] {2}; y = Mul(x, @two)")
    near(answer(at("out.onnx"), x), answer(at("m.onnx"), 2 * x))
    edit("replace", "--node", "act", "--with", "t = Sigmoid(x); y = Mul(x, t)")
    onnx.checker.check_model(at("out.onnx"), full_check=True)
    swish = answer(at("out.onnx"), x)
    assert np.abs(swish - y).max() > 1e-3, "replace changed nothing"
    assert [n.op_type for n in onnx.load(at("out.onnx")).graph.node][:3] == ["Conv", "Sigmoid", "Mul"]
    edit("replace", "--node", "gemm", "--with", "t = Transpose(x1) {perm=[1,0]}; y = MatMul(x0, t)")
    near(answer(at("out.onnx"), x), y)
    out = at("none.onnx")
    for what, sentence in [
            (["insert", "--value", "y"], "insert needs --value NAME and --with TEXT"),
            (["insert", "--value", "q", "--with", "y = Relu(x)"], "the model has no value 'q'"),
            (["insert", "--value", "y", "--with", "y = Rellu(x)"], "--with: line 2"),
            (["insert", "--value", "y", "--with", "z = Relu(x)"], "--with: line 3"),
            (["replace", "--node", "q", "--with", "y = Relu(x)"], "the model has no node 'q'"),
            (["replace", "--node", "gemm", "--with", "y = MatMul(x0, x1)"], "MatMul"),
            (["cast"], "cast needs --precision fp16 or bf16"),
            (["restore-weights", "--random", "1"], "lacks no weights"),
            (["restore-weights"], "needs --from MODEL or --random SEED"),
            (["prun"], "did you mean 'prune'?")]:
        refused(sentence, cameo, "edit", what[0], at("m.onnx"), out, *what[1:])
    assert not os.path.exists(out)


def check_cast(cameo, at, x):
    y = answer(at("m.onnx"), x)
    for kind, number, tolerance in [("fp16", TensorProto.FLOAT16, 5e-3), ("bf16", TensorProto.BFLOAT16, 4e-2)]:
        run(cameo, "edit", "cast", at("m.onnx"), at("out.onnx"), "--precision", kind)
        onnx.checker.check_model(at("out.onnx"), full_check=True)
        types = {i.name: i.data_type for i in onnx.load(at("out.onnx")).graph.initializer}
        assert types and all(t == number for n, t in types.items() if n not in ("axes",)), types
        if kind == "fp16":  # ONNX Runtime's CPU has few kernels in bfloat16
            near(answer(at("out.onnx"), x), y, tolerance)
        run(cameo, "run", at("out.onnx"), at("x.npy"), "--output", at("y.npz"))
        near(np.load(at("y.npz"))["y"], y, tolerance)
    run(cameo, "edit", "cast", at("m.onnx"), at("out.onnx"), "--precision", "fp16", "--keep-fp32", "head")
    kept = [i.name for i in onnx.load(at("out.onnx")).graph.initializer if i.data_type == F]
    assert kept == ["odd"], kept


def check_prune(cameo, at, constants):
    said = run(cameo, "edit", "prune", at("m.onnx"), at("out.onnx"))
    assert "pruned 2:4: 3 of " in said, said
    found = constants_of(at("out.onnx"))
    for name, axis in [("w", 1), ("v", 1), ("u", 0)]:
        before = np.moveaxis(constants[name], axis, -1)
        after = np.moveaxis(found[name], axis, -1)
        fours, was = after.reshape(-1, 4), before.reshape(-1, 4)
        assert ((fours != 0).sum(1) == 2).all(), name
        assert (np.sort(np.abs(fours), 1)[:, 2:] == np.sort(np.abs(was), 1)[:, 2:]).all(), name
        assert ((fours == was) | (fours == 0)).all(), name
    assert (found["odd"] == constants["odd"]).all() and (found["b"] == constants["b"]).all()


def check_strip(cameo, at, constants, x):
    run(cameo, "edit", "strip-weights", at("m.onnx"), at("light.onnx"))
    assert os.path.getsize(at("light.onnx")) < os.path.getsize(at("m.onnx")) / 4
    refused("`cameo edit restore-weights` puts it back", cameo, "inspect", at("light.onnx"))
    said = run(cameo, "edit", "restore-weights", at("light.onnx"), at("out.onnx"), "--from", at("m.onnx"))
    assert "the weights are those that were left out" in said, said
    onnx.checker.check_model(at("out.onnx"), full_check=True)
    found = constants_of(at("out.onnx"))
    for name, v in constants.items():
        assert (found[name] == v).all(), name
    assert (answer(at("out.onnx"), x) == answer(at("m.onnx"), x)).all()
    run(cameo, "edit", "prune", at("m.onnx"), at("other.onnx"))
    said = run(cameo, "edit", "restore-weights", at("light.onnx"), at("out.onnx"), "--from", at("other.onnx"))
    assert "not those that were left out" in said, said
    near(answer(at("out.onnx"), x), answer(at("other.onnx"), x), 0)
    run(cameo, "edit", "restore-weights", at("light.onnx"), at("out.onnx"), "--random", "3")
    run(cameo, "edit", "restore-weights", at("light.onnx"), at("again.onnx"), "--random", "3")
    near(answer(at("out.onnx"), x), answer(at("again.onnx"), x), 0)
    assert 0 < np.abs(constants_of(at("out.onnx"))["w"]).max() < 1
    run(cameo, "edit", "set-shape", at("m.onnx"), at("out.onnx"), "--dim", "n=1")
    model = onnx.load(at("m.onnx"))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights(16, 8, 3, 4), "w"))
    model.graph.node[0].attribute[0].ints[:] = [1, 1, 1, 2]
    onnx.save(model, at("wide.onnx"))
    refused("weight 'w' has another type or shape", cameo, "edit", "restore-weights", at("light.onnx"), at("out.onnx"),
            "--from", at("wide.onnx"))


def main(cameo):
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        constants = make(at("m.onnx"))
        x = rng.standard_normal((2, 8, 6, 6)).astype(np.float32)
        np.save(at("x.npy"), x)
        check_nodes(cameo, at, x)
        check_cast(cameo, at, x)
        check_prune(cameo, at, constants)
        check_strip(cameo, at, constants, x)
    print("edit_patch: all as promised")


if __name__ == "__main__":
    main(sys.argv[1])
