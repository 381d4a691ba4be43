"""flops.py -- how much work a model is: operations of its products, convolutions and recurrences; bytes of weights.

A multiplication and an addition are two operations. Convolutions are counted directly, however they are computed.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
from onnx import shape_inference


def _attr(node, name, default):
    for a in node.attribute:
        if a.name == name:
            return onnx.helper.get_attribute_value(a)
    return default


def _matmul(a, b, out):
    return 2 * np.prod(out) * a[-1] if out else 2 * a[-1]


def _node_flops(node, shape):
    """Operations of one node, or None when a shape that is needed is unknown. shape(i): of input i; shape(-1): of
    the first output."""
    kind = node.op_type
    if kind in ("MatMul", "MatMulInteger", "FusedMatMul"):
        a, b, out = shape(0), shape(1), shape(-1)
        return _matmul(a, b, out) if a and out is not None else None
    if kind == "QLinearMatMul":
        a, b, out = shape(0), shape(3), shape(-1)
        return _matmul(a, b, out) if a and out is not None else None
    if kind == "Gemm":
        a, out = shape(0), shape(-1)
        return 2 * np.prod(out) * a[0 if _attr(node, "transA", 0) else 1] if a and out else None
    if kind in ("Conv", "ConvInteger", "QLinearConv"):
        w, out = shape(3 if kind == "QLinearConv" else 1), shape(-1)
        return 2 * np.prod(out) * np.prod(w[1:]) if w and out else None
    if kind == "ConvTranspose":
        x, w = shape(0), shape(1)
        return 2 * np.prod(x) * np.prod(w[1:]) if x and w else None
    if kind in ("LSTM", "GRU", "RNN"):
        x, w, r = shape(0), shape(1), shape(2)
        return 2 * x[0] * x[1] * (np.prod(w) + np.prod(r)) if x and w and r else None
    if kind in ("Einsum", "Attention", "GroupQueryAttention", "MultiHeadAttention"):
        return None
    return 0


def _inferred(model):
    """Shapes by name, where they are all numbers."""
    light = onnx.ModelProto()
    light.CopyFrom(model)
    for t in light.graph.initializer:  # shapes need no big weights
        if len(t.raw_data) > 4096:
            t.ClearField("raw_data")
    try:
        light = shape_inference.infer_shapes(light, data_prop=True)
    except Exception:
        pass
    shapes = {t.name: list(t.dims) for t in light.graph.initializer}
    for v in list(light.graph.value_info) + list(light.graph.input) + list(light.graph.output):
        if v.type.HasField("tensor_type") and v.type.tensor_type.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else None for d in v.type.tensor_type.shape.dim]
            if None not in dims:
                shapes.setdefault(v.name, dims)
    return shapes


def _seen(model, feed, names):
    """Shapes of these values in a run without optimisation."""
    del model.graph.output[:]
    for name in names:
        model.graph.output.add().name = name
    o = onnxruntime.SessionOptions()
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
        return {n: list(a.shape) for n, a in zip(names, session.run(names, feed)) if hasattr(a, "shape")}
    except Exception:
        return {}


def _sum(graph, shapes):
    """(operations, values whose shapes are missing, whether all nodes could be counted)."""
    total, missing, whole = 0, set(), True
    for node in graph.node:
        def shape(i, node=node):
            names = node.output if i < 0 else node.input
            if max(i, 0) >= len(names):
                return None
            name = names[max(i, 0)]
            if name not in shapes:
                missing.add(name)
            return shapes.get(name)
        n = _node_flops(node, shape)
        whole = whole and n is not None and node.op_type not in ("If", "Loop", "Scan")
        total += int(n or 0)
    return total, sorted(missing), whole


def work(path, feed):
    """(operations, bytes of weights, whether all nodes were counted) for these inputs."""
    model = onnx.load(path)
    for v in model.graph.input:
        if v.name in feed and v.type.HasField("tensor_type"):
            dims = v.type.tensor_type.shape.dim
            del dims[:]
            for n in feed[v.name].shape:
                dims.add().dim_value = int(n)
    weights = sum(t.ByteSize() for t in model.graph.initializer)
    weights += sum(n.ByteSize() for n in model.graph.node if n.op_type == "Constant")
    shapes = _inferred(model)
    total, missing, whole = _sum(model.graph, shapes)
    if missing:
        shapes.update(_seen(model, feed, missing))
        total, _, whole = _sum(model.graph, shapes)
    return total, weights, whole
