"""layer_counts.py -- standard networks come down to as many layers as they should, and mean the same.

Usage: layer_counts.py CAMEO [NAME]...

Makes the networks of bench/models.py in their full structure and small width, static and symbolic; checks the number
of layers that `cameo inspect --summary` prints and the operators that must not be left, and that outputs agree with the
network as it is written within 1e-5 of their scale. Then BERT-base in full size: the optimiser's
time, and how it grows with the layers, are printed (a busy machine must not fail a test).
SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import models

# Most layers, and operators that a network must not have left.
PIECES = ("ReduceMean", "Sqrt", "Erf", "Softmax", "Sigmoid")
WANTED = {
    "resnet50": (57, ("BatchNormalization", "Relu")),
    "resnet50_folded": (57, ("Relu",)),
    "mobilenet_v2": (56, ("BatchNormalization", "Clip")),
    "bert_base": (7 * 12 + 10, PIECES),
    "gpt2_prefill": (7 * 12 + 10, PIECES),
    "gpt2_decode": (7 * 12 + 10, PIECES),
    "vit_b16": (7 * 12 + 10, PIECES),
    "conformer": (250, ("ReduceMean", "Sqrt", "Sigmoid")),
    "diffusion_unet": (210, (*PIECES, "InstanceNormalization")),
}

SIZES = {"batch": 2, "sequence": 6, "past": 4, "height": 8, "width": 8, "words": 3, "frames": 37, "steps": 4}


def cameo_says(cameo, *args):
    r = subprocess.run([cameo, *args], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(r.stderr.strip())
    return r.stdout


def inputs_of(model):
    rng = np.random.default_rng(0)
    feed = {}
    for i in model.graph.input:
        t = i.type.tensor_type
        shape = [SIZES[d.dim_param] if d.dim_param else d.dim_value for d in t.shape.dim]
        if t.elem_type == onnx.TensorProto.INT64:
            feed[i.name] = np.full(shape, 30) if "lengths" in i.name else rng.integers(0, 2, shape)
        else:
            feed[i.name] = rng.standard_normal(shape).astype(np.float32)
    return feed


def outputs_of(cameo, path, folder, *options):
    out = os.path.join(folder, "out.npz")
    cameo_says(cameo, "run", path, os.path.join(folder, "in.npz"), "--output", out, *options)
    with np.load(out) as z:
        return {name: z[name] for name in z.files}


def check(cameo, name, dynamic, folder):
    """Sentences about what is not as it should be."""
    path = os.path.join(folder, name + ".onnx")
    model = models.make(name, "tiny", dynamic)
    onnx.save(model, path)
    np.savez(os.path.join(folder, "in.npz"), **inputs_of(model))
    summary = cameo_says(cameo, "inspect", "--summary", path)
    layers = int(re.search(r"(\d+) layers", summary)[1])
    after = {m[1]: int(m[2]) for m in re.finditer(r"^  (\S+) +\d+ +(\d+)$", summary, re.M)}
    most, gone = WANTED.get(name, (None, ()))
    wrong = []
    if most is not None and layers > most:
        wrong.append(f"{layers} layers, wanted at most {most}")
    wrong += [f"{after[op]} {op} left" for op in gone if after.get(op)]
    a, b = outputs_of(cameo, path, folder, "--no-optimise"), outputs_of(cameo, path, folder)
    for k in a:
        scale = np.abs(a[k].astype(float)).max() if a[k].size else 0
        worst = np.abs(a[k].astype(float) - b[k].astype(float)).max() if a[k].size else 0
        if a[k].shape != b[k].shape or a[k].dtype != b[k].dtype or not worst <= 1e-5 * scale:
            wrong.append(f"output '{k}' moves by {worst:.2g} of {scale:.2g}")
    print(f"{name}{' symbolic' if dynamic else ''}: {layers} layers")
    return wrong


def optimiser_ms(cameo, size, layers, folder):
    """The best of several runs."""
    path = os.path.join(folder, "bert.onnx")
    onnx.save(models.make("bert_base", size, False, layers), path)
    summaries = [cameo_says(cameo, "inspect", "--summary", path) for _ in range(5)]
    return min(float(re.search(r"all passes +([\d.]+)", s)[1]) for s in summaries)


def main():
    cameo, names = sys.argv[1], sys.argv[2:] or list(models.MODELS)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for dynamic in (False, True):
                wrong += [f"{name}{' symbolic' if dynamic else ''}: {w}" for w in check(cameo, name, dynamic, folder)]
        if "bert_base" in names:
            full = optimiser_ms(cameo, "full", None, folder)
            once = optimiser_ms(cameo, "tiny", 12, folder)
            four = optimiser_ms(cameo, "tiny", 48, folder)
            print(f"BERT-base: optimised in {full:.0f} ms; 12 layers of small width in {once:.1f} ms, 48 in {four:.1f} ms")
    for w in wrong:
        print("FAIL " + w)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
