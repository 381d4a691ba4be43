"""speech.py -- a Conformer encoder in the shape of WeNet's, and a bidirectional LSTM network.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from onnx import numpy_helper

from .graph import Graph
from .text import heads_of


def _feed_forward(g, name, norm, x, d, hidden):
    """Half a residual step through two products with Swish between."""
    y = g.layer_norm(norm, x, d)
    with g.scope(name):
        y = g.linear("w_2", g.silu(g.linear("w_1", y, d, hidden)), hidden, d)
    return g.op("Add", x, g.op("Mul", y, g.constant(0.5)))


def _attention(g, x, place, mask, n, s, d, heads):
    """Relative positions: (q + u) k^T + (q + v) p^T, masked before and after the softmax."""
    width = d // heads
    y = g.layer_norm("norm_mha", x, d)
    with g.scope("self_attn"):
        def split(v, rows):
            rows = (g.size(v, 0), rows) if g.dynamic else rows
            return g.reshape(v, rows[0], -1, heads, width)

        q = split(g.linear("linear_q", y, d, d), (n, -1))
        k = g.op("Transpose", split(g.linear("linear_k", y, d, d), (n, -1)), perm=[0, 2, 1, 3])
        v = g.op("Transpose", split(g.linear("linear_v", y, d, d), (n, -1)), perm=[0, 2, 1, 3])
        p = split(g.linear("linear_pos", place, d, d, bias=False), (1, -1))
        p = g.op("Transpose", p, perm=[0, 2, 1, 3])
        qu = g.op("Transpose", g.op("Add", q, g.weight("pos_bias_u", heads, width, scale=0.1)), perm=[0, 2, 1, 3])
        qv = g.op("Transpose", g.op("Add", q, g.weight("pos_bias_v", heads, width, scale=0.1)), perm=[0, 2, 1, 3])
        a = g.op("Add", g.op("MatMul", qu, g.op("Transpose", k, perm=[0, 1, 3, 2])),
                 g.op("MatMul", qv, g.op("Transpose", p, perm=[0, 1, 3, 2])))
        a = g.op("Div", a, g.constant(np.sqrt(width)))
        m = g.op("Equal", g.op("Unsqueeze", g.op("Cast", mask, to=7), g.ints(1)), g.constant(0, np.int64))
        a = g.op("Softmax", g.op("Where", m, g.constant(-1e9), a), axis=-1)
        a = g.op("Where", m, g.constant(0.0), a)
        y = g.op("Transpose", g.op("MatMul", a, v), perm=[0, 2, 1, 3])
        y = g.reshape(y, g.size(y, 0) if g.dynamic else n, -1, d)
        y = g.linear("linear_out", y, d, d)
    return g.op("Add", x, y)


def _convolution(g, x, mask, d, kernel):
    """Pointwise to 2d, GLU, depthwise, LayerNorm, Swish, pointwise; padding is zeroed before and after."""
    y = g.layer_norm("norm_conv", x, d)
    with g.scope("conv_module"):
        y = g.op("Transpose", y, perm=[0, 2, 1])
        empty = g.op("Not", mask)
        y = g.op("Where", empty, g.constant(0.0), y)
        a, b = g.op("Split", g.conv("pointwise_conv1", y, d, 2 * d, 1, dims=1), g.ints(d, d), outputs=2, axis=1)
        y = g.op("Mul", a, g.op("Sigmoid", b))
        y = g.conv("depthwise_conv", y, d, d, kernel, group=d, dims=1)
        y = g.op("Transpose", g.layer_norm("norm", g.op("Transpose", y, perm=[0, 2, 1]), d), perm=[0, 2, 1])
        y = g.conv("pointwise_conv2", g.silu(y), d, d, 1, dims=1)
        y = g.op("Where", empty, g.constant(0.0), y)
        y = g.op("Transpose", y, perm=[0, 2, 1])
    return g.op("Add", x, y)


def conformer(tiny=False, dynamic=False, layers=None):
    """Gulati et al. 2020: subsampling by two convolutions, then twelve blocks."""
    n, frames, bins, d, heads, kernel = (1, 31, 16, 16, 2, 5) if tiny else (1, 259, 80, 256, 4, 15)
    g = Graph("conformer", dynamic)
    x = g.input("speech", "float32", n, frames, bins, dynamic={0: "batch", 1: "frames"})
    lengths = g.input("speech_lengths", "int64", n, dynamic={0: "batch"})
    s, f = (((frames - 3) // 2 + 1) - 3) // 2 + 1, (((bins - 3) // 2 + 1) - 3) // 2 + 1
    with g.scope("mask"):
        t = g.size(x, 1) if dynamic else g.constant(frames, np.int64)
        steps = g.op("Range", g.constant(0, np.int64), t, g.constant(1, np.int64))
        mask = g.op("Less", g.op("Unsqueeze", steps, g.ints(0)), g.op("Unsqueeze", lengths, g.ints(1)))
        mask = g.op("Unsqueeze", mask, g.ints(1))
        for _ in range(2):
            mask = g.op("Slice", mask, g.ints(0), g.ints(-2), g.ints(2), g.ints(2))
    with g.scope("embed"):
        y = g.op("Unsqueeze", x, g.ints(1))
        y = g.op("Relu", g.conv("conv.0", y, 1, d, 3, 2, pad=0))
        y = g.op("Relu", g.conv("conv.2", y, d, d, 3, 2, pad=0))
        rows = (g.size(y, 0), g.size(y, 2)) if dynamic else (n, s)
        y = g.reshape(g.op("Transpose", y, perm=[0, 2, 1, 3]), *rows, d * f)
        y = g.op("Mul", g.linear("out", y, d * f, d), g.constant(np.sqrt(d)))
        table = g.initialiser("pos_enc.pe", _sinusoid(5000 if not tiny else 64, d))
        end = g.op("Unsqueeze", g.size(y, 1), g.ints(0)) if dynamic else g.ints(s)
        place = g.op("Slice", table, g.ints(0), end, g.ints(1), g.ints(1))
    for i in range(layers or 12):
        with g.scope("encoders", i):
            y = _feed_forward(g, "feed_forward_macaron", "norm_ff_macaron", y, d, 8 * d)
            y = _attention(g, y, place, mask, n, s, d, heads)
            y = _convolution(g, y, mask, d, kernel)
            y = _feed_forward(g, "feed_forward", "norm_ff", y, d, 8 * d)
            y = g.layer_norm("norm_final", y, d)
    y = g.layer_norm("after_norm", y, d)
    g.output(y, "encoder_out")
    g.output(mask, "encoder_mask", np.bool_)
    return g.model()


def _sinusoid(places, d):
    angle = np.arange(places)[:, None] * np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    table = np.zeros((1, places, d), np.float32)
    table[0, :, 0::2], table[0, :, 1::2] = np.sin(angle), np.cos(angle)
    return table


def lstm_speech(tiny=False, dynamic=False, layers=None):
    """Two convolutions in time, then bidirectional LSTM layers and a product over the symbols."""
    n, frames, bins, hidden, symbols = (1, 13, 8, 6, 5) if tiny else (1, 200, 80, 320, 40)
    g = Graph("lstm_speech", dynamic)
    x = g.input("speech", "float32", n, frames, bins, dynamic={0: "batch", 1: "frames"})
    y = g.op("Transpose", x, perm=[0, 2, 1])
    for i in range(2):
        y = g.op("Relu", g.batch_norm(f"bn{i}", g.conv(f"conv{i}", y, bins if not i else hidden, hidden, 3, dims=1,
                                                      bias=False), hidden))
    y = g.op("Transpose", y, perm=[2, 0, 1])
    n_in = hidden
    for i in range(layers or 3):
        with g.scope("lstm", i):
            if dynamic:
                batch = g.op("Unsqueeze", g.size(y, 1), g.ints(0))
                shape = g.op("Concat", g.ints(2), batch, g.ints(hidden), axis=0)
                zero = numpy_helper.from_array(np.zeros(1, np.float32))
                h, c = (g.op("ConstantOfShape", shape, value=zero) for _ in range(2))
            else:
                h, c = (g.constant(np.zeros((2, n, hidden))) for _ in range(2))
            z, _, _ = g.op("LSTM", y, g.weight("W", 2, 4 * hidden, n_in, scale=n_in ** -0.5),
                           g.weight("R", 2, 4 * hidden, hidden, scale=hidden ** -0.5),
                           g.weight("B", 2, 8 * hidden, scale=0.02), None, h, c, outputs=3, hidden_size=hidden,
                           direction="bidirectional")
            y = g.op("Reshape", g.op("Transpose", z, perm=[0, 2, 1, 3]), g.ints(0, 0, -1))
        n_in = 2 * hidden
    y = g.linear("ctc", g.op("Transpose", y, perm=[1, 0, 2]), n_in, symbols)
    g.output(g.op("LogSoftmax", y, axis=2), "log_probs")
    return g.model()
