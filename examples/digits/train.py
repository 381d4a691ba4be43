#!/usr/bin/env python3
"""Train the digit classifier and write digits.onnx and the test pictures beside this file.

SPDX-License-Identifier: Apache-2.0

Needs numpy and scikit-learn (for its 1797 handwritten digits of 8x8 pixels; nothing is downloaded).
Training is plain numpy with a fixed seed; the same machine gives the same file. The network:

    picture f32[batch,1,8,8], 0..16
    Div 16, Conv 3x3 24, BatchNormalization, Relu, Conv 3x3 32, Relu, MaxPool 2x2, Flatten,
    Gemm 10, Softmax
    probabilities f32[batch,10]

A fifth of the data is held out and never trained on; the accuracy that is printed is over it. The
ONNX file is written by hand, field by field, so that no other package is needed.
"""
import os
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))
CHANNELS = (24, 32)
EPOCHS, BATCH, RATE, EPSILON = 40, 32, 2e-3, 1e-5


# ---- The layers: each forward keeps what its backward needs -------------------------------------


def patches(x):
    """Zero-pad by 1 and gather 3x3 neighbourhoods: [n,c,h,w] to [n,h,w,c*9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, weight, bias):
    p = patches(x)
    y = p @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), p


def conv_back(dy, p, weight):
    dy = dy.transpose(0, 2, 3, 1)
    n, h, w, k = dy.shape
    dweight = np.tensordot(dy, p, axes=((0, 1, 2), (0, 1, 2))).reshape(weight.shape)
    dp = (dy @ weight.reshape(k, -1)).reshape(n, h, w, weight.shape[1], 3, 3)
    dx = np.zeros((n, weight.shape[1], h + 2, w + 2), dy.dtype)
    for i in range(3):
        for j in range(3):
            dx[:, :, i : i + h, j : j + w] += dp[..., i, j].transpose(0, 3, 1, 2)
    return dx[:, :, 1:-1, 1:-1], dweight, dy.sum((0, 1, 2))


def pool(x):
    n, c, h, w = x.shape
    tiles = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    tiles = tiles.reshape(n, c, h // 2, w // 2, 4)
    return tiles.max(-1), tiles.argmax(-1)


def pool_back(dy, where):
    n, c, h, w = dy.shape
    tiles = (np.arange(4) == where[..., None]) * dy[..., None]
    return tiles.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)


def normalise(x, gamma, beta, mean, var):
    scale = gamma / np.sqrt(var + EPSILON)
    return x * scale[:, None, None] + (beta - mean * scale)[:, None, None]


# ---- Training -----------------------------------------------------------------------------------


def initial(rng):
    a, b = CHANNELS
    he = lambda shape, fan_in: rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
    zeros = lambda n: np.zeros(n, np.float32)
    return {
        "conv1.weight": he((a, 1, 3, 3), 9), "conv1.bias": zeros(a),
        "norm.scale": np.ones(a, np.float32), "norm.shift": zeros(a),
        "conv2.weight": he((b, a, 3, 3), 9 * a), "conv2.bias": zeros(b),
        "fc.weight": he((10, b * 16), b * 16), "fc.bias": zeros(10),
    }


def gradients(p, x, labels, moving):
    """Mean cross-entropy's gradients over a batch; `moving` gets the batch's mean and variance."""
    c1, p1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    mean, var = c1.mean((0, 2, 3)), c1.var((0, 2, 3))
    for name, v in (("norm.mean", mean), ("norm.var", var)):
        moving[name] = v if name not in moving else 0.95 * moving[name] + 0.05 * v
    std = np.sqrt(var + EPSILON)[:, None, None]
    hat = (c1 - mean[:, None, None]) / std
    n1 = hat * p["norm.scale"][:, None, None] + p["norm.shift"][:, None, None]
    r1 = np.maximum(n1, 0)
    c2, p2 = conv(r1, p["conv2.weight"], p["conv2.bias"])
    r2 = np.maximum(c2, 0)
    m, where = pool(r2)
    flat = m.reshape(len(m), -1)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(d)), labels] -= 1
    d = (d / len(d)).astype(np.float32)

    g = {"fc.weight": d.T @ flat, "fc.bias": d.sum(0)}
    d = pool_back((d @ p["fc.weight"]).reshape(m.shape), where) * (c2 > 0)
    d, g["conv2.weight"], g["conv2.bias"] = conv_back(d, p2, p["conv2.weight"])
    d = d * (n1 > 0)
    g["norm.scale"], g["norm.shift"] = (d * hat).sum((0, 2, 3)), d.sum((0, 2, 3))
    d = d * p["norm.scale"][:, None, None]
    d = (d - d.mean((0, 2, 3), keepdims=True)
         - hat * (d * hat).mean((0, 2, 3), keepdims=True)) / std
    _, g["conv1.weight"], g["conv1.bias"] = conv_back(d, p1, p["conv1.weight"])
    return g


def shifted(x, rng):
    """Every picture moved by -1, 0 or 1 pixels each way."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, (len(x), 2))):
        out[i] = np.roll(x[i], (dy, dx), (1, 2))
    return out


def train(x, labels, rng):
    p, moving = initial(rng), {}
    first = {k: np.zeros_like(v) for k, v in p.items()}
    second = {k: np.zeros_like(v) for k, v in p.items()}
    step, steps = 0, EPOCHS * (len(x) // BATCH)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for i in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[i : i + BATCH]
            g = gradients(p, shifted(x[pick], rng), labels[pick], moving)
            step += 1
            rate = RATE * (1 - step / steps)
            for k in p:  # Adam
                first[k] = 0.9 * first[k] + 0.1 * g[k]
                second[k] = 0.999 * second[k] + 0.001 * g[k] ** 2
                a, b = first[k] / (1 - 0.9**step), second[k] / (1 - 0.999**step)
                p[k] = (p[k] - rate * a / (np.sqrt(b) + 1e-8)).astype(np.float32)
    p.update({k: v.astype(np.float32) for k, v in moving.items()})
    return p


def classify(p, x):
    y, _ = conv(x, p["conv1.weight"], p["conv1.bias"])
    y = normalise(y, p["norm.scale"], p["norm.shift"], p["norm.mean"], p["norm.var"])
    y, _ = conv(np.maximum(y, 0), p["conv2.weight"], p["conv2.bias"])
    y, _ = pool(np.maximum(y, 0))
    return (y.reshape(len(y), -1) @ p["fc.weight"].T + p["fc.bias"]).argmax(1)


# ---- The ONNX file: protobuf, field by field ----------------------------------------------------


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, float):
        body = varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    elif isinstance(value, int):
        body = number(3, value) + number(20, 2)
    else:
        body = b"".join(number(8, v) for v in value) + number(20, 7)
    return block(1, name) + body


def node(op, inputs, output, **attributes):
    body = b"".join(block(1, i) for i in inputs) + block(2, output) + block(3, output)
    body += block(4, op)
    return body + b"".join(block(5, attribute(k, v)) for k, v in attributes.items())


def tensor(name, a):
    dims = b"".join(number(1, d) for d in a.shape)
    return dims + number(2, 1) + block(8, name) + block(9, np.ascontiguousarray(a, "<f4").tobytes())


def value(name, dims):
    dim = lambda d: block(2, d) if isinstance(d, str) else number(1, d)
    shape = b"".join(block(1, dim(d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def model(p):
    c3 = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Div", ["picture", "white"], "scaled"),
        node("Conv", ["scaled", "conv1.weight", "conv1.bias"], "conv1", **c3),
        node("BatchNormalization",
             ["conv1", "norm.scale", "norm.shift", "norm.mean", "norm.var"], "norm",
             epsilon=EPSILON),
        node("Relu", ["norm"], "relu1"),
        node("Conv", ["relu1", "conv2.weight", "conv2.bias"], "conv2", **c3),
        node("Relu", ["conv2"], "relu2"),
        node("MaxPool", ["relu2"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["pool"], "flat", axis=1),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], "logits", transB=1),
        node("Softmax", ["logits"], "probabilities", axis=1),
    ]
    weights = {"white": np.float32(16), **p}
    graph = b"".join(block(1, n) for n in nodes) + block(2, "digits")
    graph += b"".join(block(5, tensor(k, np.asarray(v))) for k, v in weights.items())
    graph += block(11, value("picture", ["batch", 1, 8, 8]))
    graph += block(12, value("probabilities", ["batch", 10]))
    return number(1, 8) + block(2, "cameo/examples/digits/train.py") + block(7, graph) + block(
        8, block(1, "") + number(2, 17))


def main():
    digits = load_digits()
    x = digits.images.astype(np.float32)[:, None]
    labels = digits.target
    rng = np.random.default_rng(2024)
    order = rng.permutation(len(x))
    held, rest = order[: len(x) // 5], order[len(x) // 5 :]
    p = train(x[rest] / 16, labels[rest], rng)
    got = classify(p, x[held] / 16)
    right = int((got == labels[held]).sum())
    print(f"{right} of {len(held)} held-out digits right: {100 * right / len(held):.1f} %")
    with open(os.path.join(HERE, "digits.onnx"), "wb") as f:
        f.write(model(p))
    for digit in (3, 7, 8):
        i = held[np.flatnonzero(labels[held] == digit)[1]]
        np.save(os.path.join(HERE, f"digit-{digit}.npy"), x[i : i + 1])
    np.save(os.path.join(HERE, "held-out.npy"), x[held].astype(np.uint8))
    np.save(os.path.join(HERE, "held-out-labels.npy"), labels[held].astype(np.uint8))


if __name__ == "__main__":
    main()
