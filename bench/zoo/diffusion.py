"""diffusion.py -- a denoising UNet with self- and cross-attention, as in latent diffusion (Rombach et al. 2021).

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .graph import Graph
from .text import attention_out, heads_of, scores_times_values


def _sizes(g, x, *numbers):
    return [g.size(x, i) for i in range(len(numbers))] if g.dynamic else numbers


def _residual(g, name, x, t, n_in, n_out, t_width, groups):
    """GroupNorm, SiLU, 3x3; the time's projection; again; a 1x1 round when the width changes."""
    with g.scope(name):
        y = g.conv("conv1", g.silu(g.group_norm("norm1", x, groups, n_in)), n_in, n_out, 3)
        with g.scope("time"):
            e = g.gemm("time_emb_proj", g.silu(t), t_width, n_out)
            e = g.op("Unsqueeze", g.op("Unsqueeze", e, g.ints(2)), g.ints(3))
        y = g.op("Add", y, e)
        y = g.conv("conv2", g.silu(g.group_norm("norm2", y, groups, n_out)), n_out, n_out, 3)
        if n_in != n_out:
            x = g.conv("conv_shortcut", x, n_in, n_out, 1)
        return g.op("Add", x, y)


def _attend(g, name, x, context, n, s, c, d, d_context, heads):
    with g.scope(name):
        q = heads_of(g, g.linear("to_q", x, d, d, bias=False), n, s, heads, d // heads)
        k = heads_of(g, g.linear("to_k", context, d_context, d, bias=False), n, c, heads, d // heads)
        v = heads_of(g, g.linear("to_v", context, d_context, d, bias=False), n, c, heads, d // heads)
        y = scores_times_values(g, q, k, v, d // heads)
        return g.linear("to_out", attention_out(g, y, n, s, d), d, d)


def _transformer(g, name, x, context, n, side, words, d, d_context, heads, groups):
    """Self-attention, cross-attention and GEGLU over the positions of an image."""
    with g.scope(name):
        kept, s = x, side * side
        b, _, h, w = _sizes(g, x, n, d, side, side)
        y = g.conv("proj_in", g.group_norm("norm", x, groups, d, 1e-6), d, d, 1)
        area = g.op("Mul", h, w) if g.dynamic else s
        y = g.reshape(g.op("Transpose", y, perm=[0, 2, 3, 1]), b, area, d)
        z = g.layer_norm("norm1", y, d)
        y = g.op("Add", _attend(g, "attn1", z, z, n, s, s, d, d, heads), y)
        z = g.layer_norm("norm2", y, d)
        y = g.op("Add", _attend(g, "attn2", z, context, n, s, words, d, d_context, heads), y)
        z = g.layer_norm("norm3", y, d)
        with g.scope("ff"):
            halves = g.op("Split", g.linear("proj", z, d, 8 * d), g.ints(4 * d, 4 * d), outputs=2, axis=-1)
            z = g.op("Mul", halves[0], g.gelu(halves[1]))
            y = g.op("Add", g.linear("out", z, 4 * d, d), y)
        y = g.op("Transpose", g.reshape(y, b, h, w, d), perm=[0, 3, 1, 2])
        return g.op("Add", g.conv("proj_out", y, d, d, 1), kept)


def diffusion_unet(tiny=False, dynamic=False, layers=None):
    """Three levels, attention in the lower two, one residual block a level each way."""
    n, side, base, groups, words, d_context, heads = (1, 8, 8, 4, 3, 8, 2) if tiny else (1, 32, 128, 32, 77, 768, 8)
    g = Graph("diffusion_unet", dynamic)
    x = g.input("sample", "float32", n, 4, side, side, dynamic={0: "batch", 2: "height", 3: "width"})
    when = g.input("timestep", "float32", n, dynamic={0: "batch"})
    context = g.input("encoder_hidden_states", "float32", n, words, d_context, dynamic={0: "batch", 1: "words"})
    half, t_width = base // 2, base * 4
    with g.scope("time"):
        steps = g.constant(np.exp(-np.log(10000.0) * np.arange(half) / half)[None])
        t = g.op("Mul", g.op("Unsqueeze", when, g.ints(1)), steps)
        t = g.op("Concat", g.op("Cos", t), g.op("Sin", t), axis=-1)
        t = g.gemm("linear_2", g.silu(g.gemm("linear_1", t, base, t_width)), t_width, t_width)
    x = g.conv("conv_in", x, 4, base, 3)
    skips, widths, n_in, now = [x], [base], base, side
    for level in range(3):
        n_out = base << min(level, 2)
        with g.scope("down", level):
            x = _residual(g, "resnet", x, t, n_in, n_out, t_width, groups)
            if level:
                x = _transformer(g, "attention", x, context, n, now, words, n_out, d_context, heads, groups)
            skips.append(x)
            widths.append(n_out)
            if level < 2:
                x = g.conv("downsample", x, n_out, n_out, 3, 2, pad=1)
                now //= 2
        n_in = n_out
    with g.scope("mid"):
        x = _residual(g, "resnet1", x, t, n_in, n_in, t_width, groups)
        x = _transformer(g, "attention", x, context, n, now, words, n_in, d_context, heads, groups)
        x = _residual(g, "resnet2", x, t, n_in, n_in, t_width, groups)
    for level in reversed(range(3)):
        n_out = base << min(level, 2)
        with g.scope("up", level):
            x = g.op("Concat", x, skips.pop(), axis=1)
            x = _residual(g, "resnet", x, t, n_in + widths.pop(), n_out, t_width, groups)
            if level:
                x = _transformer(g, "attention", x, context, n, now, words, n_out, d_context, heads, groups)
                x = g.op("Resize", x, None, g.constant([1.0, 1.0, 2.0, 2.0]), mode="nearest",
                         coordinate_transformation_mode="asymmetric", nearest_mode="floor")
                x = g.conv("upsample", x, n_out, n_out, 3)
                now *= 2
        n_in = n_out
    x = g.silu(g.group_norm("norm_out", x, groups, n_in))
    g.output(g.conv("conv_out", x, n_in, 4, 3), "noise")
    return g.model()
