#!/usr/bin/env python3
"""run.py -- Cameo beside PyTorch on an NVIDIA GPU: the same networks, checked, timed by the GPU's clock.
SPDX-License-Identifier: Apache-2.0

Usage: run.py [--cameo build/cameo] [--names A,B | --sections networks,kernels] [--compile] [--tune quick]
Needs PyTorch and torchvision. A row is printed as soon as it is known:

    network, Cameo (ms), PyTorch eager, as a CUDA graph, compiled (--compile), how much faster Cameo is than the best of
    them, the share of what the GPU's limits allow (operations over the matrix rate, weights and inputs over the
    bandwidth), the largest error against float32 over the largest value, layers on the GPU and on the CPU."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from networks import CASES, FULL  # noqa: E402

warnings.filterwarnings("ignore")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--cameo", default="build/cameo")
    p.add_argument("--names", help="cases, separated by commas")
    p.add_argument("--sections", default="networks", help="networks, kernels (default: networks)")
    p.add_argument("--compile", action="store_true", help="also torch.compile, max-autotune")
    p.add_argument("--no-torch", action="store_true", help="do not time PyTorch")
    p.add_argument("--tune", default="quick", help="off, quick or full (default: quick)")
    p.add_argument("--seconds", type=float, default=1, help="to bench each network for")
    p.add_argument("--folder", help="keep models and plans there")
    p.add_argument("--profile", action="store_true", help="print Cameo's slowest layers as well")
    p.add_argument("--tflops", type=float, default=790, help="measured matrix rate, float16")
    p.add_argument("--tbs", type=float, default=4.3, help="measured bandwidth, TB/s")
    return p.parse_args()


def median(values):
    return sorted(values)[len(values) // 2]


def time_eager(f):
    with torch.no_grad():
        for _ in range(5):
            f()
        torch.cuda.synchronize()
        times = []
        for _ in range(20):
            start = time.perf_counter()
            f()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def time_graph(f):
    """Replays of a CUDA graph by events, as Cameo's time is taken."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(4):
            f()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        f()
    for _ in range(5):
        graph.replay()
    times = []
    for _ in range(51):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return median(times)


def time_torch(o, model, inputs):
    """Eager, graph, compiled; None where it was not asked for or does not work."""
    if o.no_torch:
        return [None] * 3
    vision = inputs[0].dim() == 4 and inputs[0].shape[1] == 3
    if vision:  # what a PyTorch user does
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
    out = [time_eager(lambda: model(*inputs)), time_graph(lambda: model(*inputs)), None]
    if o.compile:
        torch._dynamo.reset()
        try:
            compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
            out[2] = time_graph(lambda: compiled(*inputs))
        except Exception as e:  # noqa: BLE001: another compiler's trouble is not ours
            print("torch.compile:", str(e).split("\n")[0][:150])
    return out


def export(model, inputs, path):
    names = ["in%d" % i for i in range(len(inputs))]
    options = dict(input_names=names, output_names=["out"], opset_version=17)
    torch.backends.mha.set_fastpath_enabled(False)  # it has no form in ONNX
    try:
        torch.onnx.export(model, inputs, path, dynamo=False, **options)
    except Exception:  # noqa: BLE001: the older exporter is gone or refuses
        torch.onnx.export(model, inputs, path, dynamo=True, **dict(options, opset_version=18))
    torch.backends.mha.set_fastpath_enabled(True)
    return names


def call(command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError("%s: %s" % (" ".join(command[:2]), (r.stderr or r.stdout).strip()[-400:]))
    return r.stdout


def limit_ms(o, model, inputs):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    tensors = list(model.parameters()) + list(inputs)
    moved = sum(t.numel() * t.element_size() for t in tensors)
    rate = o.tflops / 2 if inputs[0].dtype == FULL else o.tflops
    return max(counter.get_total_flops() / (rate * 1e9), moved / (o.tbs * 1e9))


def allow_tf32(yes):
    torch.set_float32_matmul_precision("high" if yes else "highest")
    torch.backends.cudnn.allow_tf32 = yes


def errors_of(model, inputs, path):
    """The largest difference from PyTorch in true float32, relative to the largest value: Cameo's, and PyTorch's own in
    the precision that was timed."""
    with torch.no_grad():
        own = model(*inputs).float().cpu().numpy()
        allow_tf32(False)
        want = model.float()(*[x.float() if x.is_floating_point() else x for x in inputs])
        allow_tf32(True)
    want = want.cpu().numpy()
    got = np.load(path)["out"].astype(np.float32)
    return [float(np.abs(x - want).max() / np.abs(want).max())
            if x.shape == want.shape and np.isfinite(x).all() else float("nan") for x in (got, own)]


def run_cameo(o, folder, name, model, inputs):
    """Device time, the whole JSON, and the answer's file."""
    onnx, plan, data, answer = (os.path.join(folder, name + e)
                                for e in (".onnx", ".plan", ".npz", ".out.npz"))
    names = export(model, inputs, onnx)
    np.savez(data, **{n: x.cpu().numpy() for n, x in zip(names, inputs)})
    where = ["--target", "cuda"]
    precision = ["--precision", "tf32"] if inputs[0].dtype == FULL else []
    start = time.time()
    told = call([o.cameo, "build", onnx, "--output", plan, "--tune", o.tune] + where + precision)
    built = time.time() - start
    for line in told.splitlines():
        if line.startswith("on the CPU"):
            print("   ", line)
    call([o.cameo, "run", plan, data, "--output", answer] + where)
    text = call([o.cameo, "bench", plan, "--json", "--duration", str(o.seconds)] + where)
    if o.profile:
        print(call([o.cameo, "profile", plan] + where))
    return json.loads(text), answer, built


def print_row(cells):
    widths = (24, 9, 9, 9, 9, 8, 8, 10, 10, 9, 9)
    print(" ".join(str(c).rjust(w) if i else str(c).ljust(w)
                   for i, (c, w) in enumerate(zip(cells, widths))), flush=True)


def number(v):
    return "-" if v is None else "%.3f" % v


def bench(o, folder, name):
    model, inputs = CASES[name][1]()
    torch_ms = time_torch(o, model, inputs)
    limit = limit_ms(o, model, inputs)
    torch.cuda.empty_cache()
    report, answer, built = run_cameo(o, folder, name, model, inputs)
    ms = report.get("deviceMs")
    best = min((t for t in torch_ms if t is not None), default=None)
    print_row([name, number(ms)] + [number(t) for t in torch_ms] +
              ["%.2fx" % (best / ms) if ms and best else "-", "%.0f%%" % (100 * limit / ms) if ms else "-",
               *["%.1e" % e for e in errors_of(model, inputs, answer)],
               "%s+%s" % (report.get("deviceLayers", 0), report.get("fallenLayers", 0)),
               "%.0f s" % built])


def main():
    o = arguments()
    sections = o.sections.split(",")
    names = o.names.split(",") if o.names else [n for n in CASES if CASES[n][0] in sections]
    torch.backends.cudnn.benchmark = True
    allow_tf32(True)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print_row(["network", "cameo", "eager", "graph", "compiled", "ratio", "limit", "error", "torch's", "layers",
               "build"])
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            try:
                bench(o, o.folder or temporary, name)
            except Exception as e:  # noqa: BLE001: the other rows are wanted all the same
                failed += 1
                print(name.ljust(24), "FAILED:", str(e)[:600], flush=True)
            torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
