"""check.py -- runs networks in the ONNX test layout through `cameo run` and compares their outputs.

Usage: check.py CAMEO FOLDER [--plan]

FOLDER holds networks (model.onnx beside test_data_set_N). TOLERANCE.json in it, when there, gives limits per
network and set: "allclose" with rtol and atol, or "cosine" with a least cosine. Without it: rtol 1e-3, atol
1e-4 of the output's largest magnitude. Outputs may be stored whole (output_I.pb) or thinned out
(output_I.sampled.pb with sampled.json). With --plan each network is also built to a plan, and the plan's
outputs must equal the model's to the byte.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper


def load_tensor(path):
    with open(path, "rb") as f:
        return numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))


def run(cameo, target, set_folder, n_inputs, out):
    inputs = [os.path.join(set_folder, f"input_{i}.pb") for i in range(n_inputs)]
    subprocess.run([cameo, "run", target, *inputs, "--output", out], check=True, capture_output=True,
                   text=True, timeout=1200)
    with np.load(out, allow_pickle=False) as z:
        return {name: z[name] for name in z.files}


def compare(found, wanted, limits):
    """None when close, else a sentence."""
    if found.shape != wanted.shape:
        return f"shape {found.shape}, wanted {wanted.shape}"
    if wanted.dtype.kind in "OSU":
        same = [str(x) for x in found.ravel()] == [
            x.decode() if isinstance(x, bytes) else str(x) for x in wanted.ravel()]
        return None if same else "strings differ"
    if found.dtype != wanted.dtype and found.dtype.kind != "V":
        return f"type {found.dtype}, wanted {wanted.dtype}"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if limits.get("check") == "cosine":
        norm = np.linalg.norm(a) * np.linalg.norm(b)
        cosine = 1.0 if norm == 0 else float(np.dot(a.ravel(), b.ravel()) / norm)
        least = limits.get("min_cosine", limits.get("cosine", 0.99))
        return None if cosine >= least else f"cosine {cosine:.5f}, wanted at least {least}"
    rtol = limits.get("rtol", 1e-3)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0))
    atol = limits.get("atol", 1e-4 * scale)
    if wanted.dtype == np.float16:  # stored results were rounded at every node: a few units of the scale
        atol = max(atol, 2.0**-10 * scale)
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"worst difference {np.nanmax(np.abs(a - b)):.3g} of {np.nanmax(np.abs(b)):.3g}"


def check_output(set_folder, i, found, limits):
    whole = os.path.join(set_folder, f"output_{i}.pb")
    thinned = os.path.join(set_folder, f"output_{i}.sampled.pb")
    if os.path.exists(whole):
        return compare(found, load_tensor(whole), limits)
    if not os.path.exists(thinned):
        return None
    with open(os.path.join(set_folder, "sampled.json")) as f:
        about = json.load(f)
    about = next(a for a in about if a["i"] == i)
    if list(found.shape) != list(about["shape"]):
        return f"shape {list(found.shape)}, wanted {about['shape']}"
    wanted = load_tensor(thinned)
    return compare(found.ravel()[:: about["step"]][: wanted.size], wanted.ravel(), limits)


def missing_data(proto, folder):
    """External data files that the model names and the folder lacks."""
    files = {e.value for t in proto.graph.initializer for e in t.external_data if e.key == "location"}
    return sorted(f for f in files if not os.path.exists(os.path.join(folder, f)))


def check_network(cameo, folder, limits, plan, tmp):
    model = os.path.join(folder, "model.onnx")
    proto = onnx.load(model, load_external_data=False)
    if missing_data(proto, folder):
        return f"skip: external data {missing_data(proto, folder)} is not there"
    constants = {t.name for t in proto.graph.initializer}
    n_inputs = sum(1 for v in proto.graph.input if v.name not in constants)
    names = [v.name for v in proto.graph.output]
    draws = {"Multinomial", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"}
    if draws & {n.op_type for n in proto.graph.node} or any(v.type.WhichOneof("value") != "tensor_type" for v in proto.graph.output):
        r = subprocess.run([cameo, "test-onnx", folder], capture_output=True, text=True)
        return None if r.returncode == 0 else r.stdout.strip().splitlines()[0]
    for k in range(1000):
        set_folder = os.path.join(folder, f"test_data_set_{k}")
        if not os.path.isdir(set_folder):
            break
        found = run(cameo, model, set_folder, n_inputs, os.path.join(tmp, "a.npz"))
        for i, name in enumerate(names):
            why = check_output(set_folder, i, found[name], limits.get(str(k), {}))
            if why:
                return f"set {k}, output '{name}': {why}"
        if plan:
            path = os.path.join(tmp, "m.plan")
            subprocess.run([cameo, "build", model, "--output", path, "--quiet", "--tune", "off"], check=True,
                           capture_output=True, text=True)
            again = run(cameo, path, set_folder, n_inputs, os.path.join(tmp, "b.npz"))
            for name in names:
                if found[name].tobytes() != again[name].tobytes():
                    return f"set {k}, output '{name}': the plan's bytes differ"
    return None


def main():
    cameo, top = sys.argv[1], sys.argv[2]
    plan = "--plan" in sys.argv[3:]
    limits = {}
    if os.path.exists(os.path.join(top, "TOLERANCE.json")):
        with open(os.path.join(top, "TOLERANCE.json")) as f:
            limits = json.load(f)
    passed = failed = skipped = 0
    for folder, _, files in sorted(os.walk(top)):
        if "model.onnx" not in files:
            continue
        name = os.path.relpath(folder, top)
        with tempfile.TemporaryDirectory() as tmp:
            try:
                why = check_network(cameo, folder, limits.get(name, {}).get("sets", {}), plan, tmp)
            except subprocess.CalledProcessError as e:
                why = (e.stderr or e.stdout or str(e)).strip()
            except Exception as e:
                why = f"{type(e).__name__}: {e}"
        if why and why.startswith("skip: "):
            skipped += 1
            print(f"skip {name}: {why[6:]}")
        elif why:
            failed += 1
            print(f"FAIL {name}: {why}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
