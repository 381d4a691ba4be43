"""products.py -- single matrix products as ONNX files, for run.py --models.

Usage: products.py FOLDER

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# BERT-base with 128 tokens, 1x1 convolutions of ResNet-50, GPT-2's decoding step: rows, columns, sum.
PACKED = [(128, 768, 768), (128, 3072, 768), (128, 768, 3072), (128, 2304, 768), (3136, 256, 64), (3136, 64, 256),
          (784, 512, 128), (49, 512, 2048), (49, 2048, 512), (1, 50257, 768), (1, 3072, 768), (1, 768, 3072),
          (4, 4096, 4096), (8, 768, 768), (1, 8, 16)]
# Activations on both sides: batch, rows, columns, sum.
PAIRS = [(12, 128, 128, 64), (12, 128, 64, 128), (1, 512, 512, 512), (8, 1, 128, 64)]
# Weights on the left.
LEFT = [(1, 256, 3136, 64), (1, 512, 49, 2048)]


def info(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(folder, name, nodes, inputs, output, weights):
    graph = helper.make_graph(nodes, name, inputs, [output],
                              [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, os.path.join(folder, name + ".onnx"))


def main(folder):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(0)
    for m, n, k in PACKED:
        weights = {"w": rng.standard_normal((k, n), dtype=np.float32) / 20,
                   "b": rng.standard_normal(n, dtype=np.float32)}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
        save(folder, f"packed_{m}x{n}x{k}", nodes, [info("x", [m, k])], info("y", [m, n]), weights)
    for b, m, n, k in PAIRS:
        save(folder, f"pair_{b}x{m}x{n}x{k}", [helper.make_node("MatMul", ["x", "w"], ["y"])],
             [info("x", [b, m, k]), info("w", [b, k, n])], info("y", [b, m, n]), {})
    for b, m, n, k in LEFT:
        weights = {"w": rng.standard_normal((m, k), dtype=np.float32) / 20}
        save(folder, f"left_{b}x{m}x{n}x{k}", [helper.make_node("MatMul", ["w", "x"], ["y"])],
             [info("x", [b, k, n])], info("y", [b, m, n]), weights)


if __name__ == "__main__":
    main(sys.argv[1])
