"""small.py -- tiny networks, for measuring what a step costs and for quick tests.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .graph import Graph


def mlp(tiny=False, dynamic=False, layers=None):
    """Products with ReLU."""
    n, d = (2, 8) if tiny else (1, 256)
    g = Graph("mlp", dynamic)
    x = g.input("x", "float32", n, d, dynamic={0: "batch"})
    for i in range(layers or 4):
        x = g.op("Relu", g.gemm(f"fc{i}", x, d, d))
    g.output(g.gemm("out", x, d, 10), "y")
    return g.model()


def lenet(tiny=False, dynamic=False, layers=None):
    """LeCun et al. 1998, with ReLU and largest-of pooling."""
    g = Graph("lenet", dynamic)
    x = g.input("x", "float32", 1, 1, 28, 28, dynamic={0: "batch"})
    for i, (a, b) in enumerate(((1, 6), (6, 16))):
        x = g.op("Relu", g.conv(f"conv{i}", x, a, b, 5, pad=2 if not i else 0))
        x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.op("Flatten", x, axis=1)
    for i, (a, b) in enumerate(((400, 120), (120, 84))):
        x = g.op("Relu", g.gemm(f"fc{i}", x, a, b))
    g.output(g.gemm("out", x, 84, 10), "y")
    return g.model()


def chain(tiny=False, dynamic=False, layers=None):
    """Pointwise work only."""
    g = Graph("chain", dynamic)
    x = g.input("x", "float32", 4, 16 if tiny else 4096, dynamic={0: "batch"})
    for i in range(layers or 16):
        x = g.op(("Tanh", "Sigmoid", "Abs", "Neg")[i % 4], g.op("Add", x, g.constant(0.25)))
    g.output(x, "y")
    return g.model()


def gru(tiny=False, dynamic=False, layers=None):
    """One GRU over a sequence."""
    s, d = (5, 4) if tiny else (64, 128)
    g = Graph("gru", dynamic)
    x = g.input("x", "float32", s, 1, d, dynamic={0: "steps", 1: "batch"})
    y, _ = g.op("GRU", x, g.weight("W", 1, 3 * d, d, scale=d ** -0.5), g.weight("R", 1, 3 * d, d, scale=d ** -0.5),
                g.weight("B", 1, 6 * d, scale=0.02), outputs=2, hidden_size=d, linear_before_reset=1)
    g.output(g.op("Squeeze", y, g.ints(1)), "y")
    return g.model()


def rms_rope(tiny=False, dynamic=False, layers=None):
    """RMSNorm, rotary positions by halves and SwiGLU, decomposed as decoders of today are exported."""
    n, s, d, heads = (1, 6, 16, 2) if tiny else (1, 64, 512, 8)
    width = d // heads
    g = Graph("rms_rope", dynamic)
    x = g.input("x", "float32", n, s, d, dynamic={0: "batch", 1: "sequence"})

    def norm(name, x):
        with g.scope(name):
            v = g.op("ReduceMean", g.op("Pow", x, g.constant(2.0)), axes=[-1])
            y = g.op("Div", g.constant(1.0), g.op("Sqrt", g.op("Add", v, g.constant(1e-6))))
            return g.op("Mul", g.weight("weight", d, scale=0.1, mean=1.0), g.op("Mul", x, y))

    angle = np.arange(4096 if not tiny else 32)[:, None] * (10000.0 ** (-np.arange(0, width, 2) / width))
    angle = np.concatenate([angle, angle], -1)[None, None]
    tables = [g.initialiser(k, f(angle).astype(np.float32)) for k, f in (("cos", np.cos), ("sin", np.sin))]
    end = g.op("Unsqueeze", g.size(x, 1), g.ints(0)) if dynamic else g.ints(s)
    for i in range(layers or 2):
        with g.scope("layers", i):
            y = norm("input_norm", x)
            q, k, v = (g.op("Transpose", g.reshape(g.linear(j, y, d, d, bias=False), *(
                (g.size(y, 0), g.size(y, 1)) if dynamic else (n, s)), heads, width), perm=[0, 2, 1, 3])
                for j in ("q", "k", "v"))
            cos, sin = (g.op("Slice", t, g.ints(0), end, g.ints(2), g.ints(1)) for t in tables)

            def rotate(z):
                a = g.op("Slice", z, g.ints(0), g.ints(width // 2), g.ints(3), g.ints(1))
                b = g.op("Slice", z, g.ints(width // 2), g.ints(2**63 - 1), g.ints(3), g.ints(1))
                return g.op("Add", g.op("Mul", z, cos), g.op("Mul", g.op("Concat", g.op("Neg", b), a, axis=-1), sin))

            q, k = rotate(q), rotate(k)
            a = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
            a = g.op("Softmax", g.op("Div", a, g.constant(np.sqrt(width))), axis=-1)
            a = g.op("Transpose", g.op("MatMul", a, v), perm=[0, 2, 1, 3])
            a = g.reshape(a, *((g.size(a, 0), g.size(a, 1)) if dynamic else (n, s)), d)
            x = g.op("Add", x, g.linear("o", a, d, d, bias=False))
            y = norm("post_norm", x)
            y = g.op("Mul", g.silu(g.linear("gate", y, d, 2 * d, bias=False)),
                     g.linear("up", y, d, 2 * d, bias=False))
            x = g.op("Add", x, g.linear("down", y, 2 * d, d, bias=False))
    g.output(x, "y")
    return g.model()
