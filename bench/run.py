"""run.py -- Cameo beside ONNX Runtime, in turns, on standard networks or a folder of them.

Usage: run.py [--threads 1,2] [--names resnet50,bert] [--models FOLDER] [--quick] [--json FILE] [--isa LEVEL]

Each network is timed in a process of its own that holds both sides and runs them alternately; the ratio is
theirs / ours (above 1: Cameo is faster) with a 95 % interval. Memory and load times come from fresh processes.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import math
import os
import subprocess
import sys

import stats

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
BEHIND = 0.97
DISTURBED = 50  # times a second that another program was given our core
COLUMNS = (("network", 30), ("GFLOP", 8), ("cameo ms", 9), ("ORT ms", 9), ("ratio", 6), ("95 % interval ", 15),
           ("limit", 6), ("error", 8), ("MB", 6), ("plan", 6), ("ORT", 6), ("load s", 7), ("plan s", 7), ("ORT s", 7))


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", default="1,2", help="thread counts, e.g. 1,2")
    p.add_argument("--names", default="", help="only networks whose name begins so, e.g. resnet50,bert")
    p.add_argument("--models", help="a folder of networks (model.onnx beside test_data_set_0), or of .onnx files")
    p.add_argument("--quick", action="store_true", help="1 s for each network; no memory or load times")
    p.add_argument("--seconds", type=float, default=None, help="for each network (default 3; quick 1)")
    p.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    p.add_argument("--isa", help="hold Cameo to an ISA level: generic, avx2, avx512; ONNX Runtime cannot be held")
    p.add_argument("--build", default=os.path.join(TOP, "build"), help="the build folder")
    p.add_argument("--folder", help="where the standard networks are kept (default BUILD/bench/models)")
    o = p.parse_args()
    o.threads = [int(t) for t in o.threads.split(",")]
    o.seconds = o.seconds or (1 if o.quick else 3)
    o.folder = o.folder or os.path.join(o.build, "bench", "models")
    o.library = os.path.join(o.build, "libcameo.so")
    return o


def wanted(name, names):
    return not names or any(name.startswith(n) for n in names.split(","))


def standard(o):
    """Paths of the standard networks by name, made when missing or older than the scripts that make them."""
    import models
    scripts = [os.path.join(HERE, "models.py")] + [os.path.join(HERE, "zoo", f) for f in os.listdir(
        os.path.join(HERE, "zoo")) if f.endswith(".py")]
    newest = max(os.path.getmtime(f) for f in scripts)
    paths = {n: os.path.join(o.folder, n + ".onnx") for n in models.MODELS if wanted(n, o.names)}
    stale = [n for n, f in paths.items() if not os.path.exists(f) or os.path.getmtime(f) < newest]
    if stale:
        print("making", ", ".join(stale), file=sys.stderr)
        subprocess.run([sys.executable, os.path.join(HERE, "models.py"), o.folder, *stale], check=True,
                       stdout=subprocess.DEVNULL)
    return paths


def of_folder(top, names):
    found = {}
    for folder, _, files in sorted(os.walk(top)):
        for f in sorted(files):
            if f.endswith(".onnx"):
                name = os.path.relpath(folder if f == "model.onnx" else os.path.join(folder, f[:-5]), top)
                if wanted(os.path.basename(name), names) or wanted(name, names):
                    found[name] = os.path.join(folder, f)
    return found


def child(*args, timeout=600):
    """What side.py answers, or {"failed": sentence}."""
    try:
        r = subprocess.run([sys.executable, os.path.join(HERE, "side.py"), *args], capture_output=True, text=True,
                           timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"took over {timeout} s"}
    if r.returncode == 0:
        return json.loads(r.stdout.strip().splitlines()[-1])
    lines = r.stderr.strip().splitlines()
    return {"failed": (lines[-1] if lines else f"ended with {r.returncode}")[:300]}


def kept(path):
    """What was written to a JSON file before, else nothing."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def keep(path, everything):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(everything, f)


def work(o, path):
    """Operations and weights of a model: counted once, then remembered."""
    store, key = os.path.join(o.build, "bench", "work.json"), f"{os.path.abspath(path)} {os.path.getmtime(path)}"
    known = kept(store)
    if key not in known:
        known[key] = child("work", path)
        if "failed" in known[key]:
            return {"gflop": 0, "gflop_whole": False, "weight_bytes": 0}
        keep(store, known)
    return known[key]


def limits(o, threads):
    """The machine's limit, the best that was found in this build folder: a busy neighbour can only lower it."""
    program = os.path.join(o.build, "bench", "limits")
    if not os.path.exists(program):
        return None
    r = subprocess.run([program, str(threads), *([o.isa] if o.isa else [])], capture_output=True, text=True)
    if r.returncode != 0:
        return None
    found, key, store = json.loads(r.stdout), f"{threads} {o.isa or ''}", program + ".json"
    known = kept(store)
    best = known.get(key, found)
    known[key] = {k: max(found[k], best[k]) for k in ("gflops", "read_gb_s")}
    keep(store, known)
    return known[key]


def l3_bytes():
    try:
        return os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        return 0


def least_ms(row, limit):
    """The time that the machine's limit allows: all operations at the FMA peak, or all weights once from DRAM where
    they do not fit into the last cache."""
    compute = row["gflop"] / limit["gflops"] * 1e3
    fits = row["weight_bytes"] < max(l3_bytes(), 32 << 20)
    return max(compute, 0 if fits else row["weight_bytes"] / limit["read_gb_s"] * 1e-6)


def measure(o, name, path, threads, limit):
    side = {"library": o.library, "program": os.path.join(o.build, "bench", "side"), "threads": threads, "isa": o.isa,
            "seconds": o.seconds}
    row = child("time", path, json.dumps(side))
    row.update(network=name, threads=threads)
    if "failed" in row:
        return row
    row.update(work(o, path))
    if limit:
        row["of_limit"] = least_ms(row, limit) / row["ours_ms"]
    if o.quick:
        return row
    plan = os.path.join(o.build, "bench", "plans", name.replace("/", "_") + ".plan")
    os.makedirs(os.path.dirname(plan), exist_ok=True)
    built = subprocess.run([os.path.join(o.build, "cameo"), "build", path, "--output", plan, "--quiet",
                            "--threads", str(threads)],
                           capture_output=True, text=True)
    if built.returncode != 0:
        row["plan"] = {"failed": built.stderr.strip()}
    side["plan"] = plan
    for who in ("cameo", "plan", "ort"):
        row[who] = row.get(who) or child("load", who, path, json.dumps(side))
    if os.path.exists(plan):
        os.unlink(plan)
    return row


def number(v, digits=3):
    """That many significant digits, never in exponent form; "-" for None."""
    if v is None:
        return "-"
    whole = math.floor(math.log10(abs(v))) + 1 if v else 1
    return f"{v:.{min(6, max(0, digits - whole))}f}"


def cells(row):
    load = [row.get(w, {}) for w in ("cameo", "plan", "ort")]
    mb = [d.get("peak_bytes") and d["peak_bytes"] / 1e6 for d in load]
    error = row["error"]
    return (row["network"], number(row["gflop"]) + ("" if row["gflop_whole"] else "+"), number(row["ours_ms"], 4),
            number(row["theirs_ms"], 4), f"{row['ratio']:.3f}",
            f"[{row['low']:.3f},{row['high']:.3f}]" + ("~" if row["switches_per_s"] > DISTURBED else " "),
            f"{row['of_limit']:.0%}" if "of_limit" in row and row["gflop"] else "-",
            "-" if error is None else f"{error:.0e}", *(number(m) for m in mb),
            *(number(d.get("first_s")) for d in load))


def print_row(texts, quick):
    texts = texts[:8] if quick else texts
    print("  ".join(f"{t:<{w}}" if i == 0 else f"{t:>{w}}" for i, (t, (_, w)) in enumerate(zip(texts, COLUMNS))),
          flush=True)


def table(o, paths, threads):
    limit = limits(o, threads)
    print(f"\n{threads} thread{'s' if threads > 1 else ''}", end="")
    print(f"; the machine's limit: {limit['gflops']:.0f} GFLOP/s, {limit['read_gb_s']:.1f} GB/s from DRAM"
          if limit else "")
    print_row([n for n, _ in COLUMNS], o.quick)
    rows = []
    for name, path in paths.items():
        row = measure(o, name, path, threads, limit)
        rows.append(row)
        if "failed" in row:
            print(f"{name:<30}  {row['failed']}", flush=True)
        else:
            print_row(cells(row), o.quick)
    good = [r for r in rows if "ratio" in r]
    print(f"geometric mean of {len(good)} ratios with {threads} threads: "
          f"{stats.geometric_mean([r['ratio'] for r in good]):.3f}")
    behind = [f"{r['network']} {r['ratio']:.3f}" for r in good if r["ratio"] < BEHIND]
    print(f"below {BEHIND}: {', '.join(behind) or 'none'}")
    wrong = [f"{r['network']} {r['error'] and format(r['error'], '.0e')}" for r in good
             if r["error"] is None or not r["error"] < 1e-3]
    if any(r["switches_per_s"] > DISTURBED for r in good):
        print(f"~: other programs took our cores over {DISTURBED} times a second; measure again on a quiet machine")
    if wrong:
        print(f"outputs differ by over 1e-3 of their scale, or could not be compared: {', '.join(wrong)}")
    return rows, limit


def main():
    o = options()
    if not os.path.exists(o.library):
        sys.exit(f"{o.library} is not there: make bench builds it")
    paths = of_folder(o.models, o.names) if o.models else standard(o)
    if not paths:
        sys.exit("no network has such a name")
    import onnxruntime
    print(f"Cameo beside ONNX Runtime {onnxruntime.__version__} (all optimisations, CPU)"
          + (f"; Cameo held to {o.isa}, ONNX Runtime cannot be" if o.isa else ""))
    everything = []
    for threads in o.threads:
        rows, limit = table(o, paths, threads)
        everything.append({"threads": threads, "limit": limit, "networks": rows})
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"onnxruntime": onnxruntime.__version__, "isa": o.isa, "runs": everything}, f, indent=1)
    failed = [r for e in everything for r in e["networks"] if "failed" in r]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
