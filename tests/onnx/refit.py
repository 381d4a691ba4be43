"""refit.py -- plans without weights, and new weights into plans: `cameo build --strip-weights`, `cameo refit`.

Usage: refit.py CAMEO. A refitted plan is, to the byte, the plan that building the other model gives; measurements stay; what
is not the same network is refused with a sentence and nothing is written; a plan without weights says how to get them back.
SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import refused, run


def model(path, seed, hidden=64, relu="Relu", scale=None):
    """Convolution with a batch normalisation to fold, a product with a bias, shapes open in the batch."""
    random = numpy.random.default_rng(seed)

    def weight(name, *shape):
        return numpy_helper.from_array(random.uniform(0.1, 1, shape).astype(numpy.float32), name)

    weights = [weight("w0", 8, 3, 3, 3), weight("w1", 8 * 6 * 6, hidden), weight("b1", hidden), weight("w2", hidden, 4)]
    weights += [weight(n, 8) for n in ["gamma", "beta", "mean", "variance"]]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "conv"),
        helper.make_node("BatchNormalization", ["a", "gamma", "beta", "mean", "variance"], ["b"], "norm"),
        helper.make_node(relu, ["b"], ["c"], "act"),
        helper.make_node("Flatten", ["c"], ["d"], "flat"),
        helper.make_node("MatMul", ["d", "w1"], ["e"], "first"),
        helper.make_node("Add", ["e", "b1"], ["f"], "bias"),
        helper.make_node("MatMul", ["f", "w2"], ["g"], "second"),
    ]
    if scale is not None:
        weights.append(numpy_helper.from_array(numpy.float32(scale), "scale"))
        nodes.append(helper.make_node("Mul", ["g", "scale"], ["y"], "scaled"))
    else:
        nodes.append(helper.make_node("Identity", ["g"], ["y"], "end"))
    graph = helper.make_graph(
        nodes, "refitted", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_roundtrip(cameo, at):
    """Options that a build may be given are kept and used again."""
    for options in [[], ["--dim", "batch=2"], ["--precision", "bf16"], ["--precision", "fp16", "--keep-fp32", "second"],
                    ["--outputs", "f"], ["--outputs", "f", "--only-outputs", "f"], ["--no-optimise"],
                    ["--stop-after", "fold_batch_norm"]]:
        build = lambda m, plan, *more: run(cameo, "build", at(m), "--tune", "off", "--output", at(plan), *options, *more)
        build("one.onnx", "stripped.plan", "--strip-weights")
        build("two.onnx", "two.plan")
        refused("put them back with `cameo refit PLAN --from MODEL`", cameo, "run", at("stripped.plan"))
        run(cameo, "refit", at("stripped.plan"), "--from", at("two.onnx"), "--output", at("refitted.plan"))
        assert read(at("refitted.plan")) == read(at("two.plan")), f"{options}: other bytes than a build's"
        run(cameo, "refit", at("two.plan"), "--from", at("one.onnx"))
        build("one.onnx", "one.plan")
        assert read(at("two.plan")) == read(at("one.plan")), f"{options}: other bytes after a second refit"
        run(cameo, "inspect", at("one.plan"), "--verify")
    refused("put them back with", cameo, "inspect", at("stripped.plan"), "--verify")
    refused("put them back with", cameo, "bench", at("stripped.plan"))
    refused("put them back with", cameo, "tune", at("stripped.plan"))
    assert len(read(at("stripped.plan"))) < len(read(at("one.plan"))), "nothing was left out"


def check_measurements(cameo, at):
    run(cameo, "build", at("one.onnx"), "--tune", "quick", "--dim", "batch=1", "--threads", "1", "--timing-cache", at("cache"),
        "--strip-weights", "--output", at("tuned.plan"))
    assert "cpu" in str(read(at("tuned.plan"))), "no measurements in the plan"
    said = run(cameo, "refit", at("tuned.plan"), "--from", at("two.onnx"), "--output", at("refitted.plan"))
    assert "measurements of 1 machine kept" in said, said
    run(cameo, "build", at("two.onnx"), "--tune", "quick", "--dim", "batch=1", "--threads", "1", "--timing-cache", at("cache"),
        "--output", at("fresh.plan"))
    assert read(at("refitted.plan")) == read(at("fresh.plan")), "measurements were not kept as they were"


def check_refusals(cameo, at):
    run(cameo, "build", at("one.onnx"), "--tune", "off", "--output", at("one.plan"))
    before = read(at("one.plan"))
    refit = [cameo, "refit", at("one.plan"), "--from"]
    model(at("wider.onnx"), 3, hidden=65)
    refused("value 'w1' is f32[288,65], in the plan 'w1' is f32[288,64]", *refit, at("wider.onnx"))
    model(at("other.onnx"), 3, relu="Sigmoid")
    refused("must be built anew", *refit, at("other.onnx"))
    refused("cannot open", *refit, at("nothing.onnx"))
    refused("refit needs one plan and --from MODEL", cameo, "refit", at("one.plan"))
    refused("not a plan", cameo, "refit", at("one.onnx"), "--from", at("one.onnx"))
    assert read(at("one.plan")) == before, "a refusal changed the plan"
    # what the optimiser folds into the weights makes no difference to the network
    model(at("scaled.onnx"), 4, scale=2.0)
    run(cameo, "refit", at("one.plan"), "--from", at("scaled.onnx"))
    run(cameo, "build", at("scaled.onnx"), "--tune", "off", "--output", at("fresh.plan"))
    assert read(at("one.plan")) == read(at("fresh.plan")), "a folded factor was not taken over"


def main(cameo):
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        model(at("one.onnx"), 1)
        model(at("two.onnx"), 2)
        check_roundtrip(cameo, at)
        check_measurements(cameo, at)
        check_refusals(cameo, at)
    print("refit: all as promised")


if __name__ == "__main__":
    main(sys.argv[1])
