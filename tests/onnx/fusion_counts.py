"""fusion_counts.py -- are the normalisations and activations of real networks all found?

Usage: fusion_counts.py CAMEO

Counts, in each network as the optimiser leaves it, composites by kind: as nodes, and as instructions of epilogues
and pointwise groups. The counts wanted were read from the networks' own nodes. For the networks of
../shared/models/fusion the number of nodes is no more than ONNX Runtime's, from NODE_COUNTS.json there.
Nothing to do without ../shared/models.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "../../../shared/models")

# Kind: operators, instructions.
KINDS = {
    "layer norm": (["LayerNormalization", "com.microsoft.SkipLayerNormalization",
                    "com.microsoft.EmbedLayerNormalization"], []),
    "rms norm": (["RMSNormalization", "com.microsoft.SkipSimplifiedLayerNormalization"], []),
    "skip": (["com.microsoft.SkipLayerNormalization"], []),
    "embed": (["com.microsoft.EmbedLayerNormalization"], []),
    "gelu": (["Gelu"], ["gelu", "gelu_tanh"]),
    "silu": (["Swish"], ["silu"]),
    "hard swish": (["HardSwish"], ["hardswish"]),
    "hard sigmoid": (["HardSigmoid"], ["hardsigmoid"]),
    "softmax": (["Softmax"], []),
    "erf": (["Erf"], ["erf"]),
}

# Network: counts wanted; "nodes" is the most allowed.
WANTED = {
    "torch/bert_erf_op11": {"layer norm": 7, "embed": 1, "gelu": 3, "erf": 0},
    "torch/gpt2_past_op14": {"layer norm": 5, "gelu": 2},
    "torch/tv_vit_small": {"layer norm": 7, "gelu": 3, "erf": 0},
    "torch/tv_convnext_small": {"layer norm": 9, "gelu": 5, "erf": 0},
    "torch/yolov8_like": {"silu": 29},
    "real/text/bert_toy_optimized_contrib": {"layer norm": 12, "gelu": 6, "erf": 0},
    "real/text/gpt2_past": {"layer norm": 25, "gelu": 12},
    "real/text/magika_standard_v3_3": {"layer norm": 2, "gelu": 2, "softmax": 1},
    "real/classify/tinyvit_demo": {"layer norm": 9, "gelu": 12},
    "real/classify/cct_2_32_32_128_op20": {"layer norm": 5, "gelu": 2},
    "real/audio/gtcrn_simple": {"layer norm": 4},
    "real/ocr/ppocr_v2_cls": {"hard swish": 18, "hard sigmoid": 9},
    "real/ocr/ppocr_v3_det": {"hard swish": 20, "hard sigmoid": 8},
    "fusion/transform/fusion/bias_gelu_fusion_format_2": {"gelu": 1, "nodes": 1},
    "fusion/transform/fusion/embed_layer_norm_format3": {"embed": 1},
    "fusion/transform/fusion/embed_layer_norm_format5_opset13": {"embed": 1},
    "fusion/transform/fusion/embed_layer_norm_format8": {"embed": 1},
    "fusion/transform/fusion/embed_layer_norm_format9_opset13": {"embed": 1},
    "fusion/transform/fusion/embed_layer_norm_multiple": {"embed": 2},
    "fusion/transform/fusion/fast_gelu3_with_casts": {"gelu": 1, "nodes": 1},
    "fusion/transform/fusion/gelu_format2_1": {"gelu": 1, "nodes": 1},
    "fusion/transform/fusion/layer_norm_fusion_scale_bias": {"layer norm": 1, "nodes": 1},
    "fusion/transform/fusion/layer_norm_shared_input": {"layer norm": 1, "nodes": 1},
    "fusion/transform/fusion/layer_norm_with_cast": {"layer norm": 1, "nodes": 1},
    "fusion/transform/fusion/layer_norm_with_cast_3": {"layer norm": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format1": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format2_partial": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format2_with_cast": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format3": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format3_graph_output": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_format3_with_cast": {"skip": 1, "nodes": 1},
    "fusion/transform/fusion/skip_layer_norm_no_beta": {"skip": 1, "nodes": 1},
    "fusion/transform/model_parallel/bart_mlp_megatron_basic_test": {"gelu": 1, "nodes": 2},
    "fusion/transformers_py/attention_mha": {"layer norm": 2},
    "fusion/transformers_py/attention_opt": {"layer norm": 2},
    "fusion/transformers_py/attention_with_varied_qkv_opt": {"layer norm": 2},
    "fusion/transformers_py/gemma3-vision-attention_fp16": {"layer norm": 2},
    "fusion/transformers_py/phi-3.5-v-instruct-vision-quickgelu": {"silu": 1, "nodes": 1},
    "fusion/transformers_py/whisper/hf_fp16_decoder_attention_no_past_split_bias":
        {"layer norm": 3, "gelu": 1},
    "fusion/transformers_py/whisper/hf_fp16_decoder_attention_with_past_split_bias":
        {"layer norm": 3, "gelu": 1},
    "fusion/transformers_py/whisper/hf_fp32_decoder_attention_with_past": {"layer norm": 3, "gelu": 1},
    "fusion/transformers_py/whisper/hf_fp32_decoder_attention_with_past_split_bias":
        {"layer norm": 3, "gelu": 1},
    "fusion/transformers_py/whisper/oai_fp16_encoder_self_attention": {"layer norm": 2, "gelu": 1},
}


def optimised(cameo, network):
    """Operators and instructions, with how often each stands in the optimised network."""
    path = os.path.join(MODELS, network, "model.onnx")
    text = subprocess.run([cameo, "inspect", path, "--optimised", "--text"], check=True,
                          capture_output=True, text=True, timeout=300).stdout
    operators = re.findall(r" = ([A-Za-z][\w.]*)\(", text)
    programs = re.findall(r'(?:then |program=)"([^"]*)"', text)
    steps = [s.split()[0] for p in programs for s in p.split(" -> ")[0].split("; ")]
    return operators, steps


def check(cameo, network, wanted, most_nodes):
    operators, steps = optimised(cameo, network)
    wrong = []
    for kind, n in wanted.items():
        if kind == "nodes":
            continue
        found = sum(operators.count(o) for o in KINDS[kind][0])
        found += sum(steps.count(s) for s in KINDS[kind][1])
        if found != n:
            wrong.append(f"{kind} {found} times, wanted {n}")
    most = wanted.get("nodes", most_nodes)
    if most is not None and len(operators) > most:
        wrong.append(f"{len(operators)} nodes, wanted at most {most}")
    return wrong


def main():
    if not os.path.isdir(MODELS):
        print("no ../shared/models: nothing to check")
        return 0
    with open(os.path.join(MODELS, "fusion/NODE_COUNTS.json")) as f:
        counts = json.load(f)
    failed = 0
    for network, wanted in WANTED.items():
        if not os.path.exists(os.path.join(MODELS, network, "model.onnx")):
            continue
        most = counts.get(network.removeprefix("fusion/"), {}).get("ort_extended")
        for why in check(sys.argv[1], network, wanted, most):
            print(f"FAIL {network}: {why}")
            failed += 1
    print(f"{len(WANTED)} networks, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
