"""node_counts.py -- the optimiser leaves no more nodes than ONNX Runtime's extended optimisation does.

Usage: node_counts.py CAMEO [-v]

For each network of ../shared/models/fusion: the layers that `cameo inspect MODEL --optimised --json` lists, those of
nested networks too. Counted is every layer, reshapes as well (they cost nothing to run, but ONNX Runtime's figures
count them); not counted are constants, which are no layers. Each must be at most NODE_COUNTS.json's ort_extended, and
the sum below its sum. Prints the offenders; -v also says which operators they have left.
SPDX-License-Identifier: Apache-2.0
"""

import collections
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FUSION = os.path.join(HERE, "../../../shared/models/fusion")


def layers(cameo, path):
    r = subprocess.run([cameo, "inspect", path, "--optimised", "--json"], capture_output=True, text=True)
    if r.returncode:
        return None, r.stderr.strip()
    return [layer["operator"] for layer in json.loads(r.stdout)["layers"]], ""


def main():
    cameo, verbose = sys.argv[1], "-v" in sys.argv[2:]
    if not os.path.isdir(FUSION):
        print("no ../shared/models/fusion here: nothing to count")
        return 0
    with open(os.path.join(FUSION, "NODE_COUNTS.json")) as f:
        wanted = json.load(f)
    ours = theirs = offenders = 0
    for name, row in sorted(wanted.items()):
        if row["ort_extended"] is None:  # ONNX Runtime does not run it
            continue
        ops, why = layers(cameo, os.path.join(FUSION, name, "model.onnx"))
        if ops is None and "No such file" in why:  # weights kept apart that are not there
            print(f"skip {name}: {why}")
            continue
        if ops is None:
            print(f"{name}: {why}")
            offenders += 1
            continue
        ours += len(ops)
        theirs += row["ort_extended"]
        if len(ops) <= row["ort_extended"]:
            continue
        offenders += 1
        print(f"{name}: {len(ops)} nodes, {row['ort_extended']} by ONNX Runtime")
        if verbose:
            print("  ours  ", dict(collections.Counter(ops)))
            print("  theirs", row["ops_extended"])
    print(f"{len(wanted)} networks, {offenders} with more nodes; {ours} nodes in all, {theirs} by ONNX Runtime")
    return 1 if offenders or ours >= theirs else 0


if __name__ == "__main__":
    sys.exit(main())
