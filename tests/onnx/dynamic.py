"""dynamic.py -- one plan runs at many shapes, as a plan built for each shape alone does.

Usage: dynamic.py CAMEO

Models with symbolic dims are made here; those of ../shared/models that have some join in. For each: the plan
of the model as it is runs at several sizes of its dims, and so does a plan with these sizes fixed; the outputs
are the same bytes, and those of ONNX Runtime closely. `cameo inspect` prints output shapes as expressions.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "../../../shared/models")
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
rng = np.random.default_rng(7)


def weights(*shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def ints(*v):
    return np.array(v, np.int64)


class Case:
    """A model, the sizes to run it at, and output types that `cameo inspect` must print."""

    def __init__(self, name, nodes, inputs, constants, outputs, sizes, types=()):
        self.name, self.sizes, self.types = name, sizes, types
        graph = helper.make_graph(
            nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(n, t, None) for n, t in outputs],
            [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def cases():
    yield Case(
        "convnet",
        [node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c1"], ["r1"]),
         node("MaxPool", ["r1"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
         node("Conv", ["p", "w2"], ["c2"]), node("GlobalAveragePool", ["c2"], ["g"]), node("Flatten", ["g"], ["f"]),
         node("Gemm", ["f", "w3"], ["y"])],
        [("x", F, ["batch", 3, "height", "width"])],
        {"w1": weights(8, 3, 3, 3), "b1": weights(8), "w2": weights(6, 8, 3, 3), "w3": weights(6, 5)},
        [("y", F), ("c1", F), ("p", F)],
        [dict(batch=b, height=h, width=w) for b, h, w in [(1, 16, 16), (3, 17, 23), (2, 40, 9), (5, 12, 31)]],
        {"y": "f32[batch,5]", "c1": "f32[batch,8,floor((height + 1)/2),floor((width + 1)/2)]"})
    yield Case(
        "attention",
        [node("MatMul", ["x", "wq"], ["q"]), node("MatMul", ["x", "wk"], ["k"]), node("MatMul", ["x", "wv"], ["v"]),
         node("Shape", ["x"], ["s"]), node("Gather", ["s", "i0"], ["b"]), node("Gather", ["s", "i1"], ["t"]),
         node("Unsqueeze", ["b", "a0"], ["b1"]), node("Unsqueeze", ["t", "a0"], ["t1"]),
         node("Concat", ["b1", "t1", "heads", "minus"], ["split"], axis=0), node("Concat", ["b1", "t1", "minus"], ["join"], axis=0)]
        + [n for z in "qkv" for n in (node("Reshape", [z, "split"], [z + "s"]), node("Transpose", [z + "s"], [z + "t"], perm=[0, 2, 1, 3]))]
        + [node("Transpose", ["kt"], ["ktt"], perm=[0, 1, 3, 2]), node("MatMul", ["qt", "ktt"], ["qk"]), node("Mul", ["qk", "scale"], ["qks"]),
           node("Softmax", ["qks"], ["p"], axis=-1), node("MatMul", ["p", "vt"], ["o"]), node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
           node("Reshape", ["ot", "join"], ["oj"]), node("Add", ["oj", "x"], ["r"]), node("LayerNormalization", ["r", "g"], ["y"], axis=-1)],
        [("x", F, ["batch", "seq", 16])],
        {"wq": weights(16, 16), "wk": weights(16, 16), "wv": weights(16, 16), "g": weights(16), "scale": np.float32(0.5), "i0": np.int64(0),
         "i1": np.int64(1), "a0": ints(0), "heads": ints(4), "minus": ints(-1)},
        [("y", F), ("p", F)],
        [dict(batch=b, seq=s) for b, s in [(1, 1), (1, 7), (2, 16), (4, 33)]],
        {"y": "f32[batch,seq,16]", "p": "f32[batch,4,seq,seq]"})
    yield Case(
        "pad_and_slice",
        [node("Pad", ["x", "pads"], ["p"]), node("Slice", ["p", "st", "en", "ax", "step"], ["s"]), node("Concat", ["s", "s"], ["y"], axis=0),
         node("Tile", ["x", "reps"], ["t"])],
        [("x", F, ["n", 6])], {"pads": ints(1, 0, 2, 0), "st": ints(1), "en": ints(2 ** 62), "ax": ints(0), "step": ints(2), "reps": ints(3, 1)},
        [("y", F), ("t", F)], [dict(n=n) for n in (1, 2, 5, 8)], {"t": "f32[3*n,6]"})
    yield Case(
        "flatten_and_back",
        [node("Reshape", ["x", "flat"], ["f"]), node("Relu", ["f"], ["r"]), node("Shape", ["x"], ["s"]), node("Reshape", ["r", "s"], ["y"])],
        [("x", F, ["n", "m", 4])], {"flat": ints(-1)}, [("y", F), ("f", F)], [dict(n=n, m=m) for n, m in ((1, 1), (3, 2), (4, 7))],
        {"y": "f32[n,m,4]", "f": "f32[4*m*n]"})
    yield Case(
        "nonzero",
        [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["z"]), node("Shape", ["z"], ["s"]), node("Gather", ["s", "one"], ["c"]),
         node("Transpose", ["z"], ["zt"], perm=[1, 0]), node("GatherND", ["x", "zt"], ["picked"])],
        [("x", F, ["n", 5])], {"one": np.int64(1)}, [("z", I), ("c", I), ("picked", F)], [dict(n=n) for n in (1, 4, 9)])
    yield Case(
        "range",
        [node("Shape", ["x"], ["s"]), node("Slice", ["s", "a0", "a1", "a0"], ["s1"]), node("Squeeze", ["s1", "a0"], ["n"]), node("Range", ["zero", "n", "one"], ["r"]),
           node("Cast", ["r"], ["rf"], to=F), node("Unsqueeze", ["rf", "a1"], ["rc"]), node("Add", ["x", "rc"], ["y"])],
        [("x", F, ["n", 3])], {"a0": ints(0), "a1": ints(1), "zero": np.int64(0), "one": np.int64(1)}, [("y", F), ("r", I)],
        [dict(n=n) for n in (1, 2, 6)], {"y": "f32[n,3]", "r": "i64[n]"})
    yield Case(
        "constant_of_shape",
        [node("Shape", ["x"], ["s"]), node("Mul", ["s", "two"], ["d"]),
         node("ConstantOfShape", ["d"], ["y"], value=helper.make_tensor("v", F, [1], [2.5])), node("Expand", ["one", "d"], ["e"])],
        [("x", F, ["n", "m"])], {"two": ints(2), "one": np.float32([1.5])}, [("y", F), ("e", F)], [dict(n=n, m=m) for n, m in ((1, 1), (2, 5), (4, 3))],
        {"y": "f32[2*n,2*m]", "e": "f32[2*n,2*m]"})
    yield Case(
        "resize",
        [node("Resize", ["x", "", "scales"], ["y"], mode="linear"), node("Conv", ["y", "w"], ["c"], pads=[1, 1, 1, 1])],
        [("x", F, [1, 2, "h", "w"])], {"scales": np.float32([1, 1, 2, 2]), "w": weights(3, 2, 3, 3)}, [("y", F), ("c", F)],
        [dict(h=h, w=w) for h, w in ((3, 4), (8, 5), (11, 11))], {"c": "f32[1,3,2*h,2*w]"})
    body = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), node("Add", ["v", "x"], ["v2"]), node("ReduceSum", ["v2"], ["t"], keepdims=0)], "body",
        [helper.make_tensor_value_info("i", I, []), helper.make_tensor_value_info("c", B, []), helper.make_tensor_value_info("v", F, ["n", 2])],
        [helper.make_tensor_value_info("c2", B, []), helper.make_tensor_value_info("v2", F, ["n", 2]), helper.make_tensor_value_info("t", F, [])])
    yield Case(
        "loop",
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i0"], ["n"]), node("Loop", ["n", "yes", "x"], ["y", "sums"], body=body)],
        [("x", F, ["n", 2])], {"i0": np.int64(0), "yes": np.array(True)}, [("y", F), ("sums", F)], [dict(n=n) for n in (1, 3, 8)],
        {"y": "f32[n,2]"})
    yield Case(
        "expand_and_mask",
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i1"], ["t"]), node("Unsqueeze", ["t", "a0"], ["t1"]), node("Concat", ["t1", "t1"], ["tt"], axis=0),
         node("ConstantOfShape", ["tt"], ["ones"], value=helper.make_tensor("v", F, [1], [1.0])), node("Trilu", ["ones"], ["mask"], upper=0),
         node("Unsqueeze", ["x", "a1"], ["x2"]), node("Mul", ["x2", "mask"], ["y"])],
        [("x", F, ["batch", "seq"])], {"i1": np.int64(1), "a0": ints(0), "a1": ints(1)}, [("y", F), ("mask", F)],
        [dict(batch=b, seq=s) for b, s in ((1, 1), (2, 5), (3, 12))], {"y": "f32[batch,seq,seq]", "mask": "f32[seq,seq]"})
    yield Case(
        "split_and_transpose",
        [node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), node("Transpose", ["b"], ["bt"], perm=[1, 0]), node("MatMul", ["a", "bt"], ["y"])],
        [("x", F, ["n", 8])], {}, [("y", F)], [dict(n=n) for n in (1, 2, 13)], {"y": "f32[n,n]"})
    yield Case(
        "recurrent",
        [node("LSTM", ["x", "W", "R"], ["y", "h"], hidden_size=4), node("Squeeze", ["y", "a1"], ["ys"]), node("ReduceMean", ["ys"], ["m"], keepdims=0)],
        [("x", F, ["seq", "batch", 3])], {"W": weights(1, 16, 3), "R": weights(1, 16, 4), "a1": ints(1)}, [("ys", F), ("h", F), ("m", F)],
        [dict(seq=s, batch=b) for s, b in ((1, 1), (6, 2), (9, 3))], {"ys": "f32[seq,batch,4]", "h": "f32[1,batch,4]"})
    yield Case(
        "topk_by_size",
        [node("Shape", ["x"], ["s"]), node("Slice", ["s", "a1", "a2"], ["m"]), node("Div", ["m", "two"], ["k"]), node("TopK", ["x", "k"], ["y", "i"])],
        [("x", F, ["n", "m"])], {"a1": ints(1), "a2": ints(2), "two": ints(2)}, [("y", F), ("i", I)],
        [dict(n=n, m=m) for n, m in ((1, 2), (3, 7), (2, 20))], {"y": "f32[n,floor(m/2)]"})


def run(cameo, *args):
    r = subprocess.run([cameo, *args], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(f"cameo {args[0]}: {r.stderr.strip()[-400:]}")
    return r.stdout


def outputs(cameo, plan, inputs, tmp):
    out = os.path.join(tmp, "out.npz")
    run(cameo, "run", plan, "--inputs", inputs, "--output", out)
    with np.load(out) as z:
        return {k: z[k] for k in z.files}


def input_data(value, sizes):
    """Data for an input at these sizes, the same for the same sizes."""
    t = value.type.tensor_type
    shape = [d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in t.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(t.elem_type)
    g = np.random.default_rng(len(shape) + sum(shape))
    if dtype.kind in "iu":
        return g.integers(0, 2, shape).astype(dtype)
    return (g.random(shape) < 0.8).astype(dtype) if dtype.kind == "b" else g.standard_normal(shape).astype(dtype)


def agree(a, b, options):
    """To the byte for networks as they are written. The optimiser may fuse more where sizes are numbers, and
    then rounds elsewhere: its answers agree within 1e-5 of the output's scale."""
    if a.keys() != b.keys() or any(a[k].shape != b[k].shape or a[k].dtype != b[k].dtype for k in a):
        return False
    if "--no-optimise" in options:
        return all(a[k].tobytes() == b[k].tobytes() for k in a)
    return all(
        np.allclose(a[k], b[k], rtol=0, atol=1e-5 * np.abs(b[k]).max(initial=0), equal_nan=True)
        if a[k].dtype.kind == "f" else np.array_equal(a[k], b[k]) for k in a)


def closely(model_path, inputs, found):
    """Where ONNX Runtime is there: a sentence when it has other answers."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(model_path, providers=["CPUExecutionProvider"])
    for o, want in zip(session.get_outputs(), session.run(None, inputs)):
        if found[o.name].shape != want.shape or not np.allclose(found[o.name], want, rtol=1e-3, atol=1e-4):
            return f"output {o.name} differs from ONNX Runtime's"
    return None


def check(cameo, path, sizes, types, tmp):
    """All sizes of one model, as it is written and optimised; a list of sentences."""
    return check_with(cameo, path, sizes, {}, tmp, ["--no-optimise"]) + check_with(cameo, path, sizes, types, tmp, [])


def check_with(cameo, path, sizes, types, tmp, options):
    wrong = []
    plan = os.path.join(tmp, "dynamic.plan")
    run(cameo, "build", path, "--quiet", "--tune", "off", "--output", plan, *options)
    proto = onnx.load(path, load_external_data=False)
    constants = {t.name for t in proto.graph.initializer}
    values = [v for v in proto.graph.input if v.name not in constants]
    facts = json.loads(run(cameo, "inspect", plan, "--json"))
    printed = {o["name"]: o["type"] for o in facts["outputs"]}
    for name, wanted in dict(types).items():
        if printed[name] != wanted:
            wrong.append(f"output {name} prints as {printed[name]}, wanted {wanted}")
    for s in sizes:
        data = {v.name: input_data(v, s) for v in values}
        inputs = os.path.join(tmp, "in.npz")
        np.savez(inputs, **data)
        at = ",".join(f"{k}={v}" for k, v in s.items())
        found = outputs(cameo, plan, inputs, tmp)
        fixed = os.path.join(tmp, "fixed.plan")
        run(cameo, "build", path, "--quiet", "--tune", "off", "--output", fixed, *options, *[f"--dim={k}={v}" for k, v in s.items()])
        if not agree(found, outputs(cameo, fixed, inputs, tmp), options):
            wrong.append(f"at {at}: a plan with --dim {options} has other answers")
        shapes = [f"--shape={n}={'x'.join(map(str, d.shape))}" for n, d in data.items() if d.ndim]
        run(cameo, "build", path, "--quiet", "--tune", "off", "--output", fixed, *options, *shapes)
        if not agree(found, outputs(cameo, fixed, inputs, tmp), options):
            wrong.append(f"at {at}: a plan with --shape {options} has other answers")
        sentence = closely(path, data, found)
        if sentence:
            wrong.append(f"at {at}: {sentence}")
    return wrong


def check_shared(cameo, path, tmp):
    """A network with its own test data: the plan as it is, and one for these shapes alone."""
    proto = onnx.load(path, load_external_data=False)
    constants = {t.name for t in proto.graph.initializer}
    values = [v for v in proto.graph.input if v.name not in constants]
    folder = os.path.join(os.path.dirname(path), "test_data_set_0")
    files = [os.path.join(folder, f"input_{i}.pb") for i in range(len(values))]
    shapes = []
    for v, f in zip(values, files):
        with open(f, "rb") as data:
            shape = onnx.TensorProto.FromString(data.read()).dims
        shapes += [f"--shape={v.name}={'x'.join(map(str, shape))}"] if shape else []
    wrong = []
    for options in (["--no-optimise"], []):
        found = []
        for fixed in ([], shapes):
            plan, out = os.path.join(tmp, "shared.plan"), os.path.join(tmp, "shared.npz")
            run(cameo, "build", path, "--quiet", "--tune", "off", "--output", plan, *options, *fixed)
            run(cameo, "run", plan, *files, "--output", out)
            with np.load(out) as z:
                found.append({k: z[k] for k in z.files})
        if not agree(*found, options):
            wrong.append(f"a plan with --shape {options} has other answers")
    return wrong


def shared_models():
    """Networks with symbolic dims in their tensor inputs and test data, the small ones."""
    for room in ("real", "torch", "lightplus"):
        for root, _, files in sorted(os.walk(os.path.join(MODELS, room))):
            path = os.path.join(root, "model.onnx")
            if "model.onnx" not in files or not os.path.exists(os.path.join(root, "test_data_set_0", "input_0.pb")):
                continue
            if sum(os.path.getsize(os.path.join(root, f)) for f in files) > 8_000_000:
                continue
            inputs = onnx.load(path, load_external_data=False).graph.input
            if any(d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim):
                yield os.path.relpath(root, MODELS), path


def main():
    cameo = sys.argv[1]
    failed = n = 0
    with tempfile.TemporaryDirectory() as tmp:
        checks = []
        for case in cases():
            path = os.path.join(tmp, case.name + ".onnx")
            onnx.save(case.model, path)
            checks.append((case.name, check, (cameo, path, case.sizes, case.types, tmp)))
        checks += [(name, check_shared, (cameo, path, tmp)) for name, path in shared_models()]
        for name, function, args in checks:
            n += 1
            try:
                wrong = function(*args)
            except RuntimeError as e:
                wrong = [str(e)]
            failed += bool(wrong)
            for sentence in wrong:
                print(f"FAIL {name}: {sentence}")
    print(f"{n - failed} of {n} models run at every shape as if built for it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
