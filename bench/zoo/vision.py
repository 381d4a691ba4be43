"""vision.py -- ResNet-50, MobileNet-v2, EfficientNet-B0, ViT-B/16, a segmentation UNet.

SPDX-License-Identifier: Apache-2.0
"""

from .graph import Graph
from .text import attention_out


def _image(name, tiny, dynamic, side):
    g = Graph(name, dynamic)
    return g, g.input("x", "float32", 1, 3, side, side, dynamic={0: "batch"})


def resnet50(tiny=False, dynamic=False, layers=None, norm=True):
    """Stages of 3, 4, 6, 3 bottlenecks (He et al. 2015), stride in the 3x3. Without norm: as exporters fold it."""
    g, x = _image("resnet50", tiny, dynamic, 32 if tiny else 224)
    base = 8 if tiny else 64

    def unit(name, x, n_in, n_out, k, stride=1, act=True):
        y = g.conv(name, x, n_in, n_out, k, stride, bias=not norm)
        y = g.batch_norm(name.replace("conv", "bn"), y, n_out) if norm else y
        return g.op("Relu", y) if act else y

    x = unit("conv1", x, 3, base, 7, 2)
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    n_in = base
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = base << stage
        for b in range(blocks):
            stride = 2 if stage and not b else 1
            with g.scope(f"layer{stage + 1}", b):
                y = unit("conv1", x, n_in, width, 1)
                y = unit("conv2", y, width, width, 3, stride)
                y = unit("conv3", y, width, width * 4, 1, act=False)
                if not b:
                    x = unit("downsample.conv", x, n_in, width * 4, 1, stride, act=False)
                x = g.op("Relu", g.op("Add", y, x))
            n_in = width * 4
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(g.gemm("fc", x, n_in, 10 if tiny else 1000), "logits")
    return g.model()


def resnet50_folded(**options):
    return resnet50(norm=False, **options)


def mobilenet_v2(tiny=False, dynamic=False, layers=None):
    """Inverted residuals (Sandler et al. 2018): t, c, n, s."""
    g, x = _image("mobilenet_v2", tiny, dynamic, 32 if tiny else 224)
    div = 8 if tiny else 1

    def unit(name, x, n_in, n_out, k, stride=1, group=1, act=True):
        y = g.conv(name, x, n_in, n_out, k, stride, group=group, bias=False)
        y = g.batch_norm(name + ".bn", y, n_out)
        return g.op("Clip", y, g.constant(0.0), g.constant(6.0)) if act else y

    n_in = 32 // div
    x = unit("features.0", x, 3, n_in, 3, 2)
    k = 1
    for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):
        c = max(2, c // div)
        for i in range(n):
            with g.scope("features", k):
                y, hidden = x, n_in * t
                if t > 1:
                    y = unit("expand", y, n_in, hidden, 1)
                y = unit("depthwise", y, hidden, hidden, 3, s if not i else 1, group=hidden)
                y = unit("project", y, hidden, c, 1, act=False)
                x = g.op("Add", x, y) if i else y
            n_in, k = c, k + 1
    last = 1280 // div
    x = unit("features.last", x, n_in, last, 1)
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(g.gemm("classifier.1", x, last, 10 if tiny else 1000), "logits")
    return g.model()


def efficientnet_b0(tiny=False, dynamic=False, layers=None):
    """MBConv with squeeze-and-excitation and SiLU (Tan and Le 2019): t, k, s, c, n."""
    g, x = _image("efficientnet_b0", tiny, dynamic, 32 if tiny else 224)
    div = 8 if tiny else 1

    def unit(name, x, n_in, n_out, k, stride=1, group=1, act=True):
        y = g.batch_norm(name + ".1", g.conv(name + ".0", x, n_in, n_out, k, stride, group=group, bias=False), n_out)
        return g.silu(y) if act else y

    n_in = 32 // div
    x = unit("features.0", x, 3, n_in, 3, 2)
    stages = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
              (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))
    for stage, (t, k, s, c, n) in enumerate(stages):
        c = max(2, c // div)
        for i in range(n):
            with g.scope("features", stage + 1, i):
                y, hidden, squeezed = x, n_in * t, max(1, n_in // 4)
                if t > 1:
                    y = unit("expand", y, n_in, hidden, 1)
                y = unit("depthwise", y, hidden, hidden, k, s if not i else 1, group=hidden)
                with g.scope("se"):
                    e = g.conv("fc1", g.op("GlobalAveragePool", y), hidden, squeezed, 1)
                    e = g.op("Sigmoid", g.conv("fc2", g.silu(e), squeezed, hidden, 1))
                    y = g.op("Mul", e, y)
                y = unit("project", y, hidden, c, 1, act=False)
                x = g.op("Add", y, x) if i else y
            n_in = c
    last = 1280 // div
    x = unit("features.8", x, n_in, last, 1)
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(g.gemm("classifier.1", x, last, 10 if tiny else 1000), "logits")
    return g.model()


def vit_b16(tiny=False, dynamic=False, layers=None):
    """Patches by a convolution, a class token, pre-norm encoder with a joint QKV product (Dosovitskiy et al. 2020)."""
    side, patch, d, heads = (32, 8, 16, 2) if tiny else (224, 16, 768, 12)
    tokens = (side // patch) ** 2
    g, x = _image("vit_b16", tiny, dynamic, side)
    batch = g.size(x, 0) if dynamic else 1
    x = g.conv("patch_embed.proj", x, 3, d, patch, patch, pad=0)
    x = g.op("Transpose", g.reshape(x, batch, d, tokens), perm=[0, 2, 1])
    token = g.weight("cls_token", 1, 1, d, scale=0.02)
    token = g.op("Expand", token, g.shape_of(batch, 1, d))
    x = g.op("Add", g.op("Concat", token, x, axis=1), g.weight("pos_embed", 1, tokens + 1, d, scale=0.02))
    for i in range(layers or 12):
        with g.scope("blocks", i):
            y = g.layer_norm("norm1", x, d, 1e-6)
            with g.scope("attn"):
                n, s = (g.size(y, 0), g.size(y, 1)) if dynamic else (1, tokens + 1)
                y = g.reshape(g.linear("qkv", y, d, 3 * d), n, s, 3, heads, d // heads)
                y = g.op("Transpose", y, perm=[2, 0, 3, 1, 4])
                q, k, v = (g.op("Gather", y, g.constant(j, "int64"), axis=0) for j in range(3))
                q = g.op("Mul", q, g.constant((d // heads) ** -0.5))
                p = g.op("Softmax", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
                y = attention_out(g, g.op("MatMul", p, v), n, s, d)
                y = g.linear("proj", y, d, d)
            x = g.op("Add", x, y)
            y = g.layer_norm("norm2", x, d, 1e-6)
            with g.scope("mlp"):
                y = g.linear("fc2", g.gelu(g.linear("fc1", y, d, 4 * d)), 4 * d, d)
            x = g.op("Add", x, y)
    x = g.layer_norm("norm", x, d, 1e-6)
    x = g.op("Gather", x, g.constant(0, "int64"), axis=1)
    g.output(g.gemm("head", x, d, 10 if tiny else 1000), "logits")
    return g.model()


def unet(tiny=False, dynamic=False, layers=None):
    """The segmentation UNet (Ronneberger et al. 2015) with padding and BatchNorm; four levels."""
    side, base = (32, 4) if tiny else (256, 64)
    g = Graph("unet", dynamic)
    x = g.input("x", "float32", 1, 3, side, side, dynamic={0: "batch"})

    def double(name, x, n_in, n_out):
        with g.scope(name):
            for i in range(2):
                x = g.conv(f"conv{i}", x, n_in if not i else n_out, n_out, 3, bias=False)
                x = g.op("Relu", g.batch_norm(f"bn{i}", x, n_out))
        return x

    skips, n_in = [], 3
    for level in range(4):
        x = double(f"down{level}", x, n_in, base << level)
        n_in = base << level
        skips.append(x)
        x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = double("middle", x, n_in, n_in * 2)
    n_in *= 2
    for level in reversed(range(4)):
        n = base << level
        with g.scope(f"up{level}"):
            x = g.op("ConvTranspose", x, g.weight("weight", n_in, n, 2, 2), g.weight("bias", n, scale=0.02),
                     kernel_shape=[2, 2], strides=[2, 2])
            x = g.op("Concat", skips[level], x, axis=1)
        x = double(f"merge{level}", x, 2 * n, n)
        n_in = n
    g.output(g.conv("out", x, base, 2, 1), "mask")
    return g.model()
