"""determinism.py -- same model, same options: the same plan, to the byte.

Usage: determinism.py CAMEO [MODEL]...

Builds every model twice, in processes of their own, with and without reduced precision, and compares the plans.
Without models: networks of bench/models.py, static and symbolic, and those under ../shared/models when there.
SPDX-License-Identifier: Apache-2.0
"""

import glob
import os
import subprocess
import sys
import tempfile

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench"))
OPTIONS = ([], ["--no-optimise"], ["--precision", "fp16"])


def build(cameo, model, options, path):
    r = subprocess.run([cameo, "build", model, "--quiet", "--tune", "off", "--output", path, *options], capture_output=True, text=True,
                       timeout=600, env={**os.environ, "MALLOC_PERTURB_": str(os.getpid() % 255 + 1)})
    if r.returncode:
        return None, r.stderr.strip()
    with open(path, "rb") as f:
        return f.read(), None


def check(cameo, model, folder):
    """None when every pair of plans is equal, else a sentence."""
    for options in OPTIONS:
        plans = [build(cameo, model, options, os.path.join(folder, f"{i}.plan")) for i in range(2)]
        if plans[0] != plans[1]:
            return f"differs with {' '.join(options) or 'no options'}"
    return None


def generated(folder):
    import models
    for name in models.MODELS:
        for dynamic in (False, True):
            path = os.path.join(folder, f"{name}{'_dynamic' if dynamic else ''}.onnx")
            onnx.save(models.make(name, "tiny", dynamic), path)
            yield path


def main():
    cameo, given = sys.argv[1], sys.argv[2:]
    shared = os.path.join(HERE, "..", "..", "..", "shared", "models")
    failed = n = 0
    with tempfile.TemporaryDirectory() as folder:
        found = given or [*generated(folder), *sorted(glob.glob(os.path.join(shared, "**", "*.onnx"), recursive=True))]
        for model in found:
            why = check(cameo, model, folder)
            n += 1
            if why:
                failed += 1
                print(f"FAIL {model}: {why}")
    print(f"{n - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
