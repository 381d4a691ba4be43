"""attention_counts.py -- every attention of the model collection is found.

Usage: attention_counts.py CAMEO

For each network of ../shared/models: how many cameo.Attention the optimiser makes, how many Softmax are left.
SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import sys

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/models")

# network: attentions, softmaxes that are none (a pooling by weights, a classifier)
WANTED = {
    "torch/bert_erf_op11": (3, 0),
    "torch/gpt2_past_op14": (2, 0),
    "torch/tv_vit_small": (3, 0),
    "real/classify/cct_2_32_32_128_op20": (2, 1),
    "real/classify/tinyvit_demo": (4, 0),
    "real/imgtoimg/lytnet_320x240": (3, 0),
    "real/text/bert_toy_optimized_contrib": (5, 0),
    "real/text/gpt2_past": (12, 0),
    "fusion/transform/fusion/gpt2_past_mask_one_layer": (1, 0),
    "fusion/transform/fusion/gpt2_past_one_layer": (1, 0),
    "fusion/transform/model_parallel/bart_self_attention_megatron_basic_test": (1, 0),
}


def main(cameo):
    failed = 0
    for name, wanted in WANTED.items():
        path = os.path.join(MODELS, name, "model.onnx")
        if not os.path.exists(path):
            continue
        text = subprocess.run([cameo, "inspect", "--optimised", "--text", path], capture_output=True, text=True).stdout
        found = (len(re.findall(r"= cameo\.Attention\(", text)), len(re.findall(r"= Softmax\(", text)))
        if found != wanted:
            failed += 1
            print(f"FAIL {name}: {found[0]} attentions and {found[1]} softmaxes, wanted {wanted[0]} and {wanted[1]}")
    print(f"{len(WANTED) - failed} of {len(WANTED)} networks have the attentions that they should")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
