"""models.py -- makes standard networks as ONNX files with random weights.

Usage: models.py FOLDER [NAME]... [--size full|tiny] [--dynamic] [--layers N] [--list]

Networks are written node by node as PyTorch's exporter would (zoo/), from the published architectures. `tiny`
keeps the structure and makes every width small, for tests. With --dynamic, batch and sequence are symbols and
sizes are computed in the graph. --layers sets how many blocks transformers have. Same arguments, same bytes.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os

import onnx

from zoo import diffusion, small, speech, text, vision

MODELS = {
    f.__name__: f
    for f in (vision.resnet50, vision.resnet50_folded, vision.mobilenet_v2, vision.efficientnet_b0, vision.vit_b16,
              vision.unet, text.bert_base, text.gpt2_prefill, text.gpt2_decode, diffusion.diffusion_unet,
              speech.conformer, speech.lstm_speech, small.mlp, small.lenet, small.chain, small.gru, small.rms_rope)
}


def make(name, size="full", dynamic=False, layers=None):
    """The network of that name, as an onnx.ModelProto."""
    return MODELS[name](tiny=size == "tiny", dynamic=dynamic, layers=layers)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", nargs="?")
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--size", choices=("full", "tiny"), default="full")
    p.add_argument("--dynamic", action="store_true")
    p.add_argument("--layers", type=int)
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    if o.list or not o.folder:
        print("\n".join(MODELS))
        return
    os.makedirs(o.folder, exist_ok=True)
    for name in o.names or MODELS:
        if name not in MODELS:
            p.error(f"no network is called '{name}'; there are {', '.join(MODELS)}")
        model = make(name, o.size, o.dynamic, o.layers)
        path = os.path.join(o.folder, name + ".onnx")
        onnx.save(model, path)
        kinds = sum(n.op_type != "Constant" for n in model.graph.node)
        print(f"{path}: {kinds} nodes and {len(model.graph.node) - kinds} constants")


if __name__ == "__main__":
    main()
