"""tuning.py -- measured plans: what `--tune`, `--timing-cache`, `cameo tune` and `cameo explain` promise.

Usage: tuning.py CAMEO. The same timing cache gives the same bytes; a plan that is tuned again keeps what it knew; answers
do not hang on tuning beyond rounding; a plan runs at every ISA level.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from common.command import run


def model(path):
    """A few convolutions with a residual, pooling and a product, of a size that leaves tactics a choice."""
    random = numpy.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / 8).astype(numpy.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "stem", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w1"], ["c"], "body", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "c"], ["d"], "residual"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], "pool"),
        helper.make_node("Flatten", ["e"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w2"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes, "tuned", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 40, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [weight("w0", 32, 3, 3, 3), weight("w1", 32, 32, 3, 3), weight("w2", 32, 10)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main(cameo):
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        model(at("m.onnx"))
        build = lambda plan, *more: run(cameo, "build", at("m.onnx"), "--output", at(plan), "--threads", "1", *more)
        says = build("a.plan", "--timing-cache", at("cache"))
        assert "measurements" in says, says
        problems = says.split("tuned ")[1].split()[0]
        assert "(0 known before)" in says, says  # repeats inside one network are not known before
        says = build("again.plan", "--timing-cache", at("cache"))
        assert f"tuned {problems} problems ({problems} known before) with 0 measurements" in says, says
        build("third.plan", "--timing-cache", at("cache"))
        assert read(at("again.plan")) == read(at("third.plan")), "the same cache, other bytes"
        build("off1.plan", "--tune", "off")
        build("off2.plan", "--tune", "off")
        assert read(at("off1.plan")) == read(at("off2.plan")), "without tuning, other bytes"
        says = build("verified.plan", "--verify", "--timing-cache", at("cache"))
        assert "verified:" in says and "known before" in says, says
        assert read(at("verified.plan")) == read(at("again.plan")), "--verify gives another plan"
        run(cameo, "tune", at("off1.plan"), "--output", at("tuned.plan"), "--threads", "1", "--tune", "quick")

        numpy.save(at("x.npy"), numpy.random.default_rng(2).standard_normal((1, 3, 40, 40)).astype(numpy.float32))
        answers = []
        for how in ["off", "on", "all"]:
            build(f"pack-{how}.plan", "--timing-cache", at("cache"), "--pack", how)
        plain, packed, besides = (len(read(at(f"pack-{how}.plan"))) for how in ["off", "on", "all"])
        assert packed < 2.2 * plain and packed <= besides, (plain, packed, besides)
        assert read(at("pack-on.plan")) == read(at("again.plan")), "a tuned plan is packed unless told otherwise"
        run(cameo, "tune", at("pack-all.plan"), "--output", at("unpacked.plan"), "--threads", "1", "--tune", "off", "--pack", "off")
        assert read(at("unpacked.plan")) == read(at("pack-off.plan")), "packing was not undone"
        for plan in ["off1.plan", "a.plan", "tuned.plan", "pack-off.plan", "pack-on.plan", "pack-all.plan"]:
            for isa in ["generic", None]:
                level = ["--isa", isa] if isa else []
                run(cameo, "run", at(plan), at("x.npy"), "--output", at("y.npz"), "--threads", "1", *level)
                answers.append(numpy.load(at("y.npz"))["y"])
        for y in answers:
            assert numpy.abs(y - answers[0]).max() <= 1e-4 * numpy.abs(answers[0]).max(), "answers differ"

        layers = json.loads(run(cameo, "explain", at("tuned.plan"), "--threads", "1", "--json"))
        body = next(l for l in layers if l["name"] == "body")
        assert any("measuredNs" in t for t in body["tactics"]), body
        assert any("declines" in t for t in body["tactics"]), body
        assert not any(l["reference"] for l in layers if l["operator"] == "Conv"), layers
        build("generic.plan", "--isa", "generic")
        explained = run(cameo, "explain", at("generic.plan"), "--threads", "1", "--isa", "generic", "--json")
        body = next(l for l in json.loads(explained) if l["name"] == "body")
        assert any("measuredNs" in t for t in body["tactics"]), body
    print("tuning: all as promised")


if __name__ == "__main__":
    main(sys.argv[1])
