"""side.py -- one measurement in a process of its own, for run.py; prints one JSON object.

Usage: side.py time MODEL OPTIONS     Cameo and ONNX Runtime in turns
       side.py work MODEL             operations and bytes of weights
       side.py load WHO MODEL OPTIONS WHO: cameo, plan or ort; from file to first result, and peak memory
OPTIONS is a JSON object: library, threads, isa, seconds, plan.
SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import cameo_ctypes
import flops
import stats

BLOCK_SECONDS = 0.06  # of each side in turn
WARM_SECONDS = 0.003  # untimed at the start of a block; none for runs of over 30 ms
TINY_SECONDS = 0.0005  # runs under this are timed from C
SPIN_SECONDS = 0.06  # idle threads spin up to this long before they sleep: they would take the other side's core


def stored_inputs(folder):
    """input_I.pb of the first test set beside a model, in order."""
    arrays = []
    for i in range(len(glob.glob(os.path.join(folder, "test_data_set_0", "input_*.pb")))):
        with open(os.path.join(folder, "test_data_set_0", f"input_{i}.pb"), "rb") as f:
            arrays.append(numpy_helper.to_array(onnx.TensorProto.FromString(f.read())))
    return arrays


def random_input(name, kind, shape, random, first):
    """Values that mean something to usual networks, by the input's name and type."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if dtype.kind in "iu":
        if "length" in name and first is not None:
            return np.full(shape, first[1], dtype)
        if "position" in name:
            return np.broadcast_to(np.arange(shape[-1], dtype=dtype), shape).copy()
        if "mask" in name:
            return np.ones(shape, dtype)
        return random.integers(0, 2 if "type" in name else 100, shape).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    return random.standard_normal(shape).astype(dtype)


def make_feed(path):
    """Arrays by input name: stored beside the model, else random; symbolic sizes are 1."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    inputs = [v for v in graph.input if v.name not in constants]
    stored = stored_inputs(os.path.dirname(path))
    if stored:
        return {v.name: a for v, a in zip(inputs, stored)}
    random, feed, first = np.random.default_rng(1), {}, None
    for v in inputs:
        shape = [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
        feed[v.name] = random_input(v.name, v.type.tensor_type.elem_type, shape, random, first)
        first = first or (shape if len(shape) > 1 else None)
    return feed


class Peer:
    """ONNX Runtime with every optimisation, on the CPU, inputs and outputs bound beforehand."""

    def __init__(self, path, threads):
        o = onnxruntime.SessionOptions()
        o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        o.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        o.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])

    def set_inputs(self, feed):
        self.binding = self.session.io_binding()
        for i in self.session.get_inputs():
            self.binding.bind_cpu_input(i.name, feed[i.name])
        self.names = [o.name for o in self.session.get_outputs()]
        for name in self.names:
            self.binding.bind_output(name, "cpu")

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        out = {}
        for name, value in zip(self.names, self.binding.get_outputs()):
            out[name] = value.numpy() if value.is_tensor() else None
        return out


class Turns(Peer):
    """A peer whose inputs cannot be bound (strings): fed at every run."""

    def set_inputs(self, feed):
        self.feed = {i.name: feed[i.name] for i in self.session.get_inputs()}
        self.names = [o.name for o in self.session.get_outputs()]

    def run(self):
        self.last = self.session.run(None, self.feed)

    def outputs(self):
        return {n: v if isinstance(v, np.ndarray) else None for n, v in zip(self.names, self.last)}


def peer(path, threads, feed):
    return (Turns if any(a.dtype.kind in "OSU" for a in feed.values()) else Peer)(path, threads)


def run_block(side, runs, warm):
    """Milliseconds of `runs` runs, after runs that are not counted for `warm` seconds."""
    clock, run = time.perf_counter_ns, side.run
    end = clock() + warm * 1e9
    while warm:
        run()
        if clock() >= end:
            break
    out = []
    for _ in range(runs):
        start = clock()
        run()
        out.append((clock() - start) * 1e-6)
    return out


def estimate(side):
    """Seconds of a warm run."""
    side.run()
    start = time.perf_counter()
    n = 0
    while n < 1 or (n < 20 and time.perf_counter() - start < 0.05):
        side.run()
        n += 1
    return (time.perf_counter() - start) / n


def in_turns(ours, theirs, seconds, threads):
    """Blocks of milliseconds of both sides, taken alternately for about `seconds`."""
    sides = (ours, theirs)
    takes = [estimate(s) for s in sides]
    runs = [max(1, min(2000, round(BLOCK_SECONDS / t))) for t in takes]
    warm = [0 if t > 0.03 else WARM_SECONDS for t in takes]
    blocks = ([], [])
    least = 5 if sum(takes) < 1 else 3 if sum(takes) < 4 else 1
    end = time.perf_counter() + seconds
    while len(blocks[0]) < least or (time.perf_counter() < end and len(blocks[0]) < 200):
        order = (0, 1) if len(blocks[0]) % 2 == 0 else (1, 0)
        for k in order:
            if threads > 1:
                time.sleep(SPIN_SECONDS)
            blocks[k].append(run_block(sides[k], runs[k], warm[k]))
    return blocks


def in_c(o, feed, *args):
    """What side.c answers to `args`, its inputs from `feed`; None where it cannot take them."""
    program = o.get("program")
    if not program or any(a.dtype not in cameo_ctypes.CODES or any(x.isspace() for x in name)
                          for name, a in feed.items()):
        return None
    text = b""
    for name, a in feed.items():
        a = np.asarray(a, order="C")
        words = [name, cameo_ctypes.CODES[a.dtype], a.nbytes, a.ndim, *a.shape]
        text += " ".join(map(str, words)).encode() + b"\n" + a.tobytes() + b"\n"
    r = subprocess.run([program, *map(str, args), *glob.glob(os.path.join(
        os.path.dirname(onnxruntime.__file__), "capi", "libonnxruntime.so*"))[:1]], input=text, capture_output=True)
    if r.returncode != 0:
        raise RuntimeError(r.stderr.decode().strip() or f"{program} ended with {r.returncode}")
    return json.loads(r.stdout)


def target(o):
    return f"cpu:{o['isa']}" if o.get("isa") else ""


def tiny_blocks(ours, theirs, path, feed, o):
    """Blocks timed from C, where one side's run is short; else None."""
    if min(estimate(ours), estimate(theirs)) > TINY_SECONDS:
        return None
    found = in_c(o, feed, "time", path, o["threads"], target(o), o["seconds"])
    return found and ([[m] for m in found["ours"]], [[m] for m in found["theirs"]])


def switches():
    """How often another program was given our core."""
    return sum(resource.getrusage(who).ru_nivcsw for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def time_both(path, o):
    feed = make_feed(path)
    library = cameo_ctypes.Library(o["library"])
    ours = cameo_ctypes.Context(library, path, o["threads"], o.get("isa"))
    ours.set_inputs(feed)
    theirs = peer(path, o["threads"], feed)
    theirs.set_inputs(feed)
    ours.run()
    theirs.run()
    error = stats.worst_error(ours.outputs(), theirs.outputs())
    before, start = switches(), time.perf_counter()
    blocks = tiny_blocks(ours, theirs, path, feed, o)
    a, b = blocks or in_turns(ours, theirs, o["seconds"], o["threads"])
    disturbed = (switches() - before) / (time.perf_counter() - start)
    ratio, low, high = stats.ratio(a, b)
    flat = [np.concatenate(x) for x in (a, b)]
    return {"ours_ms": float(np.median(flat[0])), "theirs_ms": float(np.median(flat[1])),
            "ours_best_ms": float(flat[0].min()), "theirs_best_ms": float(flat[1].min()),
            "ratio": float(ratio), "low": low, "high": high, "switches_per_s": disturbed,
            "timed_from": "C" if blocks else "Python", "error": error}


def memory_line(name):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


def load(who, path, o):
    """From file to first result, and the most memory that it took above what the process had before."""
    feed = make_feed(path)
    found = in_c(o, feed, "load", "ort" if who == "ort" else "cameo", o["plan"] if who == "plan" else path,
                 o["threads"], target(o))
    if found:
        return found
    library = cameo_ctypes.Library(o["library"])
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # forget the peak so far
    before = memory_line("VmRSS")
    start = time.perf_counter()
    if who == "ort":
        side = peer(path, o["threads"], feed)
    else:
        side = cameo_ctypes.Context(library, o["plan"] if who == "plan" else path, o["threads"], o.get("isa"))
    opened = time.perf_counter() - start
    side.set_inputs(feed)
    side.run()
    first = time.perf_counter() - start
    side.run()
    return {"open_s": opened, "first_s": first, "peak_bytes": memory_line("VmHWM") - before}


def main():
    if sys.argv[1] == "work":
        operations, weights, whole = flops.work(sys.argv[2], make_feed(sys.argv[2]))
        print(json.dumps({"gflop": operations * 1e-9, "gflop_whole": whole, "weight_bytes": weights}))
    elif sys.argv[1] == "time":
        print(json.dumps(time_both(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        print(json.dumps(load(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))))


if __name__ == "__main__":
    main()
