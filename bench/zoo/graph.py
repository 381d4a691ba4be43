"""graph.py -- builds an ONNX graph node by node, in the manner of PyTorch's exporter.

Names follow the exporter: nodes are "/scope/Op", weights "scope.weight". With `dynamic` the sizes that a
program would read from a tensor are computed in the graph by Shape and Gather, otherwise they are numbers.
SPDX-License-Identifier: Apache-2.0
"""

import contextlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self, name, dynamic=False, opset=14, seed=0):
        self.name, self.dynamic, self.opset = name, dynamic, opset
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.random = np.random.default_rng(seed)
        self.scopes, self.taken = [], {}

    @contextlib.contextmanager
    def scope(self, *names):
        self.scopes += [str(n) for n in names]
        yield
        del self.scopes[len(self.scopes) - len(names):]

    def _unique(self, name):
        k = self.taken.get(name, 0)
        self.taken[name] = k + 1
        return f"{name}_{k}" if k else name

    # ---- Nodes

    def op(self, kind, *inputs, outputs=1, **attrs):
        """One node; returns the name of its output, or a list of them."""
        name = self._unique("/" + "/".join(self.scopes + [kind]))
        outs = [f"{name}_output_{i}" for i in range(outputs)]
        ins = [i if i is not None else "" for i in inputs]
        self.nodes.append(helper.make_node(kind, ins, outs, name=name, **attrs))
        return outs[0] if outputs == 1 else outs

    def constant(self, value, dtype=np.float32):
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def ints(self, *values):
        return self.constant(list(values), np.int64)

    def size(self, x, axis):
        """x.size(axis) as the exporter writes it: a scalar."""
        return self.op("Gather", self.op("Shape", x), self.constant(axis, np.int64), axis=0)

    def shape_of(self, *sizes):
        """A shape from numbers and scalars that the graph computes."""
        if all(isinstance(s, int) for s in sizes):
            return self.ints(*sizes)
        parts = [self.ints(s) if isinstance(s, int) else self.op("Unsqueeze", s, self.ints(0)) for s in sizes]
        return self.op("Concat", *parts, axis=0)

    def reshape(self, x, *sizes):
        return self.op("Reshape", x, self.shape_of(*sizes))

    # ---- Weights and borders

    def weight(self, name, *shape, scale=None, mean=0.0):
        """Random numbers with deviation `scale` (default: one over the root of the fan-in)."""
        if scale is None:
            scale = 1.0 / np.sqrt(max(1, int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]))
        return self.initialiser(name, self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
                                + np.float32(mean))

    def initialiser(self, name, array):
        full = self._unique(".".join(self.scopes + [name]))
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), full))
        return full

    def input(self, name, dtype, *shape, dynamic=()):
        """`dynamic` gives names to the axes that are symbols with --dynamic: {axis: name}."""
        dims = [dict(dynamic).get(i, d) if self.dynamic else d for i, d in enumerate(shape)]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, x, name, dtype=np.float32):
        self.nodes.append(helper.make_node("Identity", [x], [name], name=f"/{name}/Identity"))
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(info)

    def model(self):
        # The exporter names outputs by the node that makes them: drop the Identity nodes that stand for that.
        kept, made = [], {o: n for n in self.nodes for o in n.output}
        reads = {}
        for n in self.nodes:
            for i in n.input:
                reads.setdefault(i, []).append(n)
        outputs = {o.name for o in self.outputs}
        for n in self.nodes:
            if n.op_type == "Identity" and n.output[0] in outputs and n.input[0] in made:
                old, new = n.input[0], n.output[0]
                maker = made[old]
                maker.output[list(maker.output).index(old)] = new
                for r in reads[old]:
                    for k, i in enumerate(r.input):
                        if i == old:
                            r.input[k] = new
            else:
                kept.append(n)
        graph = helper.make_graph(kept, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                  producer_name="cameo bench")
        model.ir_version = 8
        return model

    # ---- Modules

    def linear(self, name, x, n_in, n_out, bias=True):
        """nn.Linear on the last axis of a tensor of rank 3: MatMul by the transposed weight, Add in front."""
        with self.scope(name):
            y = self.op("MatMul", x, self.weight("weight_t", n_in, n_out, scale=1.0 / np.sqrt(n_in)))
            return self.op("Add", self.weight("bias", n_out, scale=0.02), y) if bias else y

    def gemm(self, name, x, n_in, n_out):
        with self.scope(name):
            return self.op("Gemm", x, self.weight("weight", n_out, n_in), self.weight("bias", n_out, scale=0.02),
                           transB=1)

    def conv(self, name, x, n_in, n_out, k, stride=1, pad=None, group=1, bias=True, dims=2, dilation=1):
        k = [k] * dims if isinstance(k, int) else k
        stride = [stride] * dims if isinstance(stride, int) else stride
        pad = [(i - 1) // 2 * dilation for i in k] if pad is None else [pad] * dims if isinstance(pad, int) else pad
        with self.scope(name):
            w = [self.weight("weight", n_out, n_in // group, *k)]
            if bias:
                w.append(self.weight("bias", n_out, scale=0.02))
            return self.op("Conv", x, *w, kernel_shape=k, strides=stride, pads=pad * 2, group=group,
                           dilations=[dilation] * dims)

    def batch_norm(self, name, x, n):
        with self.scope(name):
            var = self.random.uniform(0.5, 1.5, n).astype(np.float32)
            return self.op("BatchNormalization", x, self.weight("weight", n, scale=0.1, mean=1.0),
                           self.weight("bias", n, scale=0.1), self.weight("running_mean", n, scale=0.1),
                           self.initialiser("running_var", var), epsilon=1e-5, momentum=0.9)

    def layer_norm(self, name, x, n, eps=1e-5):
        """Nine nodes, as before opset 17."""
        with self.scope(name):
            d = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
            v = self.op("ReduceMean", self.op("Pow", d, self.constant(2.0)), axes=[-1])
            y = self.op("Div", d, self.op("Sqrt", self.op("Add", v, self.constant(eps))))
            y = self.op("Mul", y, self.weight("weight", n, scale=0.1, mean=1.0))
            return self.op("Add", y, self.weight("bias", n, scale=0.1))

    def group_norm(self, name, x, groups, n, eps=1e-5):
        """InstanceNormalization of groups, then the real scale and bias."""
        with self.scope(name):
            y = self.op("Reshape", x, self.ints(0, groups, -1))
            y = self.op("InstanceNormalization", y, self.constant(np.ones(groups)),
                        self.constant(np.zeros(groups)), epsilon=eps)
            y = self.op("Reshape", y, self.op("Shape", x))
            y = self.op("Mul", y, self.weight("weight", n, 1, 1, scale=0.1, mean=1.0))
            return self.op("Add", y, self.weight("bias", n, 1, 1, scale=0.1))

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def gelu(self, x):
        """x * (1 + erf(x / sqrt 2)) / 2."""
        e = self.op("Erf", self.op("Div", x, self.constant(np.sqrt(2.0))))
        y = self.op("Mul", x, self.op("Add", e, self.constant(1.0)))
        return self.op("Mul", y, self.constant(0.5))

    def gelu_tanh(self, x):
        """The tanh approximation as GPT-2 has it."""
        half = self.op("Mul", x, self.constant(0.5))
        cube = self.op("Mul", self.op("Pow", x, self.constant(3.0)), self.constant(0.044715))
        t = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), self.constant(np.sqrt(2.0 / np.pi))))
        return self.op("Mul", half, self.op("Add", t, self.constant(1.0)))
