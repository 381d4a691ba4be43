"""seeds.py -- small good files for the fuzzers to start from.

Usage: seeds.py CAMEO FOLDER

Makes FOLDER/{onnx,plan,text,npy}: models of every operator that ../shared/onnx/node has (else of the onnx package),
their plans, their texts, and arrays of every type.
SPDX-License-Identifier: Apache-2.0
"""

import glob
import io
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = [os.path.join(HERE, "../../../shared/onnx/node"), os.path.join(HERE, "../../../shared/onnx/simple")]
CASES = os.path.join(HERE, "../onnx/common/node_cases.py")
LARGEST = 8000  # bytes
MODELS = 200


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def models(folder, cameo):
    sources = [s for s in SOURCES if os.path.isdir(s)]
    if not sources:
        sources = [os.path.join(folder, "cases")]
        subprocess.run([sys.executable, "-W", "ignore", CASES, sources[0]], check=True)
    paths = sorted(p for s in sources for p in glob.glob(os.path.join(s, "*", "model.onnx"))
                   if os.path.getsize(p) < LARGEST)
    for p in paths[:: max(1, len(paths) // MODELS)]:
        name = os.path.basename(os.path.dirname(p))
        with open(p, "rb") as f:
            write(os.path.join(folder, "onnx"), name, f.read())
        plan = os.path.join(folder, "plan", name)
        subprocess.run([cameo, "build", p, "--quiet", "--tune", "off", "--pack", "on", "--output", plan], capture_output=True)
        if os.path.exists(plan) and os.path.getsize(plan) > 50000:
            os.remove(plan)
        text = subprocess.run([cameo, "inspect", "--text", p], capture_output=True)
        if text.returncode == 0:
            write(os.path.join(folder, "text"), name, text.stdout)


def arrays(folder):
    rng = np.random.default_rng(1)
    kinds = ["<f4", ">f8", "<f2", "|b1", "|u1", "<i8", "<c8", "<U3", "|S4"]
    made = {}
    for i, kind in enumerate(kinds):
        a = np.asarray(rng.integers(0, 2, (2, i % 3, 3)[: i % 4])).astype(kind)
        made[f"a{i}"] = a
        f = io.BytesIO()
        np.save(f, np.asfortranarray(a) if i % 2 else a)
        write(folder, f"{i}.npy", f.getvalue())
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        f = io.BytesIO()
        save(f, **made)
        write(folder, name + ".npz", f.getvalue())


def main():
    cameo, folder = sys.argv[1:]
    for kind in ("onnx", "plan", "text", "npy"):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
    models(folder, cameo)
    arrays(os.path.join(folder, "npy"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
