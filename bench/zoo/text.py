"""text.py -- BERT-base and GPT-2 small.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from .graph import Graph


def heads_of(g, x, n, s, heads, width):
    """[n, s, heads*width] -> [n, heads, s, width], sizes read again from x as programs do."""
    if g.dynamic:
        n, s = g.size(x, 0), g.size(x, 1)
    return g.op("Transpose", g.reshape(x, n, s, heads, width), perm=[0, 2, 1, 3])


def scores_times_values(g, q, k, v, width, mask=None):
    """Softmax(q k^T / sqrt(width) + mask) v, decomposed."""
    s = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    s = g.op("Div", s, g.constant(np.sqrt(width)))
    if mask:
        s = g.op("Add", s, mask)
    return g.op("MatMul", g.op("Softmax", s, axis=-1), v)


def attention_out(g, x, n, s, d):
    """[n, heads, s, width] -> [n, s, d]."""
    x = g.op("Transpose", x, perm=[0, 2, 1, 3])
    if g.dynamic:
        n, s = g.size(x, 0), g.size(x, 1)
    return g.reshape(x, n, s, d)


def bert_base(tiny=False, dynamic=False, layers=None):
    """Devlin et al. 2018: post-norm encoder, erf GELU, sequence of 128; LayerNorm and attention decomposed."""
    n, s, d, heads, words, places = (2, 8, 16, 2, 50, 16) if tiny else (1, 128, 768, 12, 30522, 512)
    g = Graph("bert_base", dynamic)
    axes = {0: "batch", 1: "sequence"}
    ids, mask, kinds = (g.input(i, "int64", n, s, dynamic=axes)
                        for i in ("input_ids", "attention_mask", "token_type_ids"))
    m = g.op("Unsqueeze", g.op("Unsqueeze", mask, g.ints(1)), g.ints(2))
    m = g.op("Sub", g.constant(1.0), g.op("Cast", m, to=1))
    m = g.op("Mul", m, g.constant(-10000.0))
    with g.scope("embeddings"):
        place = g.initialiser("position_ids", np.arange(places, dtype=np.int64)[None])
        length = g.op("Unsqueeze", g.size(ids, 1), g.ints(0)) if dynamic else g.ints(s)
        place = g.op("Slice", place, g.ints(0), length, g.ints(1), g.ints(1))
        x = g.op("Add", g.op("Gather", g.weight("word", words, d, scale=0.05), ids),
                 g.op("Gather", g.weight("token_type", 2, d, scale=0.05), kinds))
        x = g.op("Add", x, g.op("Gather", g.weight("position", places, d, scale=0.05), place))
        x = g.layer_norm("LayerNorm", x, d, 1e-12)
    for i in range(layers or 12):
        with g.scope("encoder", i):
            with g.scope("attention"):
                q, k, v = (heads_of(g, g.linear(j, x, d, d), n, s, heads, d // heads)
                           for j in ("query", "key", "value"))
                y = scores_times_values(g, q, k, v, d // heads, m)
                y = g.linear("output", attention_out(g, y, n, s, d), d, d)
                x = g.layer_norm("LayerNorm", g.op("Add", y, x), d, 1e-12)
            with g.scope("output"):
                y = g.gelu(g.linear("intermediate", x, d, 4 * d))
                y = g.linear("dense", y, 4 * d, d)
                x = g.layer_norm("LayerNorm", g.op("Add", y, x), d, 1e-12)
    g.output(x, "last_hidden_state")
    first = g.op("Gather", x, g.constant(0, np.int64), axis=1)
    g.output(g.op("Tanh", g.gemm("pooler", first, d, d)), "pooled")
    return g.model()


def _gpt2(name, tiny, dynamic, layers, decode):
    """Radford et al. 2019: pre-norm, tanh GELU, causal mask cut from a table, keys and values handed out."""
    n, s, past, d, heads, words, places = (1, 5, 4, 16, 2, 50, 16) if tiny else (1, 64, 64, 768, 12, 50257, 1024)
    s = 1 if decode else s
    layers, width = layers or 12, d // heads
    g = Graph(name, dynamic)
    ids = g.input("input_ids", "int64", n, s, dynamic={0: "batch", 1: "sequence"})
    cache = []
    if decode:
        for i in range(layers):
            cache.append([g.input(f"past_{i}_{j}", "float32", n, heads, past, width,
                                  dynamic={0: "batch", 2: "past"}) for j in ("key", "value")])
    start = (g.size(cache[0][0], 2) if dynamic else g.constant(past, np.int64)) if decode else \
        g.constant(0, np.int64)
    length = g.size(ids, 1) if dynamic else g.constant(s, np.int64)
    place = g.op("Range", start, g.op("Add", start, length), g.constant(1, np.int64))
    place = g.op("Unsqueeze", place, g.ints(0))
    wte = g.weight("wte", words, d, scale=0.05)
    x = g.op("Add", g.op("Gather", wte, ids), g.op("Gather", g.weight("wpe", places, d, scale=0.02), place))
    triangle = g.initialiser("bias", np.tril(np.ones((1, 1, places, places), bool)))

    def conv1d(name, x, n_in, n_out):
        """x of rank 3 flattened for Gemm and brought back."""
        with g.scope(name):
            rows = (g.size(x, 0), g.size(x, 1)) if dynamic else (n, s)
            y = g.op("Gemm", g.reshape(x, -1, n_in), g.weight("weight", n_in, n_out, scale=1.0 / np.sqrt(n_in)),
                     g.weight("bias", n_out, scale=0.02))
            return g.reshape(y, *rows, n_out)

    for i in range(layers):
        with g.scope("h", i):
            y = g.layer_norm("ln_1", x, d)
            with g.scope("attn"):
                parts = g.op("Split", conv1d("c_attn", y, d, 3 * d), g.ints(d, d, d), outputs=3, axis=2)
                q, k, v = (heads_of(g, p, n, s, heads, width) for p in parts)
                if decode:
                    k, v = (g.op("Concat", c, j, axis=2) for c, j in zip(cache[i], (k, v)))
                g.output(k, f"present_{i}_key")
                g.output(v, f"present_{i}_value")
                k, v = (g.outputs[-2].name, g.outputs[-1].name)
                a = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
                a = g.op("Div", a, g.constant(np.sqrt(width)))
                if dynamic:
                    have, new = g.size(k, 2), g.size(q, 2)
                    one = g.op("Unsqueeze", g.op("Sub", have, new), g.ints(0))
                    end = g.op("Unsqueeze", have, g.ints(0))
                else:
                    total = s + (past if decode else 0)
                    one, end = g.ints(total - s), g.ints(total)
                m = g.op("Slice", triangle, one, end, g.ints(2), g.ints(1))
                m = g.op("Slice", m, g.ints(0), end, g.ints(3), g.ints(1))
                a = g.op("Where", m, a, g.constant(-1e4))
                y = g.op("MatMul", g.op("Softmax", a, axis=-1), v)
                y = conv1d("c_proj", attention_out(g, y, n, s, d), d, d)
            x = g.op("Add", y, x)
            y = g.layer_norm("ln_2", x, d)
            with g.scope("mlp"):
                y = conv1d("c_proj", g.gelu_tanh(conv1d("c_fc", y, d, 4 * d)), 4 * d, d)
            x = g.op("Add", x, y)
    x = g.layer_norm("ln_f", x, d)
    g.output(g.op("MatMul", x, g.op("Transpose", wte, perm=[1, 0])), "logits")
    return g.model()


def gpt2_prefill(tiny=False, dynamic=False, layers=None):
    return _gpt2("gpt2_prefill", tiny, dynamic, layers, False)


def gpt2_decode(tiny=False, dynamic=False, layers=None):
    return _gpt2("gpt2_decode", tiny, dynamic, layers, True)
