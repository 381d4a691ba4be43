"""networks.py -- the networks and single operators that bench/gpu times, as PyTorch modules with example inputs.
SPDX-License-Identifier: Apache-2.0

CASES: name -> (section, function that gives (module, inputs)). Weights come from a fixed seed."""
import torch
from torch import nn
from torch.nn import functional as F

HALF, FULL = torch.float16, torch.float32


def images(batch, dtype):
    return (torch.randn(batch, 3, 224, 224, device="cuda", dtype=dtype),)


def calibrate(model):
    """Statistics of the normalisations from random images: without them the activations of untrained networks vanish
    on their way, in float16 to zero, and there is nothing to compare."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean over all that is seen
    with torch.no_grad():
        model.train()(*images(8, FULL))


def vision(name, batch, dtype=HALF):
    import torchvision
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)().to("cuda")
    if name.startswith("vit"):
        nn.init.normal_(model.heads.head.weight, std=0.02)  # zeros by default
    else:
        calibrate(model)
    return model.to(dtype).eval(), images(batch, dtype)


class EncoderLayer(nn.Module):
    """A BERT layer without a padding mask, so that flash attention is open to every way of running it."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.f1, self.f2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = self.n1(x + self.o(y))
        return self.n2(x + self.f2(F.gelu(self.f1(x))))


def bert(batch, length, large=False, dtype=HALF):
    width, heads, layers = (1024, 16, 24) if large else (768, 12, 12)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(30522, width),
                          *[EncoderLayer(width, heads, 4 * width) for _ in range(layers)])
    tokens = torch.randint(0, 30000, (batch, length), device="cuda")
    return model.to("cuda", dtype).eval(), (tokens,)


class Product(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.w = nn.Parameter(torch.randn(k, n) / k ** 0.5)

    def forward(self, x):
        return x @ self.w


def product(m, n, k, dtype=HALF):
    torch.manual_seed(0)
    return Product(k, n).to("cuda", dtype), (torch.randn(m, k, device="cuda", dtype=dtype),)


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


def attention(batch, heads, length, size, causal):
    torch.manual_seed(0)
    x = [torch.randn(batch, heads, length, size, device="cuda", dtype=HALF) for _ in range(3)]
    return Attention(causal), tuple(x)


class Rows(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.kind, self.norm = kind, nn.LayerNorm(width)

    def forward(self, x):
        if self.kind == "softmax":
            return F.softmax(x, -1)
        return self.norm(x) if self.kind == "layernorm" else F.gelu(x) * 0.5


def rows(kind, n, width):
    torch.manual_seed(0)
    return Rows(kind, width).to("cuda", HALF), (torch.randn(n, width, device="cuda", dtype=HALF),)


CASES = {
    "resnet50_b1": ("networks", lambda: vision("resnet50", 1)),
    "resnet50_b8": ("networks", lambda: vision("resnet50", 8)),
    "resnet50_b128": ("networks", lambda: vision("resnet50", 128)),
    "bert_base_b1_s128": ("networks", lambda: bert(1, 128)),
    "bert_base_b8_s384": ("networks", lambda: bert(8, 384)),
    "bert_base_b32_s384": ("networks", lambda: bert(32, 384)),
    "bert_large_b1_s384": ("networks", lambda: bert(1, 384, True)),
    "vit_b16_b1": ("networks", lambda: vision("vit_b_16", 1)),
    "vit_b16_b32": ("networks", lambda: vision("vit_b_16", 32)),
    "mobilenet_v3_b1": ("networks", lambda: vision("mobilenet_v3_large", 1)),
    "mobilenet_v3_b128": ("networks", lambda: vision("mobilenet_v3_large", 128)),
    "resnet50_tf32_b128": ("networks", lambda: vision("resnet50", 128, FULL)),
    "matmul_4096": ("kernels", lambda: product(4096, 4096, 4096)),
    "matmul_128x768x768": ("kernels", lambda: product(128, 768, 768)),
    "matmul_3072x3072x768": ("kernels", lambda: product(3072, 3072, 768)),
    "matmul_12288x768x3072": ("kernels", lambda: product(12288, 768, 3072)),
    "attention_d64": ("kernels", lambda: attention(8, 16, 2048, 64, False)),
    "attention_d128": ("kernels", lambda: attention(8, 16, 2048, 128, False)),
    "attention_d64_causal": ("kernels", lambda: attention(8, 16, 2048, 64, True)),
    "attention_d128_causal": ("kernels", lambda: attention(8, 16, 2048, 128, True)),
    "softmax_16384x4096": ("kernels", lambda: rows("softmax", 16384, 4096)),
    "layernorm_65536x1024": ("kernels", lambda: rows("layernorm", 65536, 1024)),
    "gelu_65536x1024": ("kernels", lambda: rows("gelu", 65536, 1024)),
}
