"""The Python package against models made here: numpy in and out, every kind of value, failures, two threads.

Usage: python_package.py CAMEO. The library is the one beside the command.
SPDX-License-Identifier: Apache-2.0
"""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

here = os.path.dirname(os.path.abspath(__file__))
top = os.path.dirname(os.path.dirname(here))
build = os.path.dirname(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/cameo"))
os.environ["CAMEO_LIBRARY"] = os.path.join(build, "libcameo.so")
sys.path.insert(0, os.path.join(top, "python"))

import cameo  # noqa: E402


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)])
    m.ir_version = 9
    return m.SerializeToString()


def product():
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", TensorProto.FLOAT, ["n", 3])],
                 [info("y", TensorProto.FLOAT, ["n", 4])], [onnx.numpy_helper.from_array(w, "w")]), w


class Package(unittest.TestCase):
    def test_a_product_from_bytes_and_from_a_plan(self):
        data, w = product()
        x = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            plan = os.path.join(folder, "m.plan")
            with open(path, "wb") as f:
                f.write(data)
            with cameo.Network(data) as network:
                self.assertEqual([p.name for p in network.inputs], ["x"])
                self.assertEqual(network.inputs[0].type, "f32[n,3]")
                self.assertEqual(network.inputs[0].shape, (-1, 3))
                self.assertIn("MatMul", str(network))
                network.build(plan).close()
            for source in (path, plan):
                context = cameo.load(source, threads=1)
                np.testing.assert_allclose(context(x), x @ w, rtol=1e-5)
                np.testing.assert_allclose(context(x=x[:2]), x[:2] @ w, rtol=1e-5)
                self.assertGreaterEqual(context.memory, 0)

    def test_views_are_overwritten_and_copies_are_not(self):
        data, w = product()
        with cameo.Network(data).build().context(threads=1) as context:
            one = np.ones((1, 3), np.float32)
            view = context.run([one], copy=False)["y"]
            kept = context.run([one])["y"]
            self.assertFalse(view.flags.writeable)
            context.run([2 * one])
            np.testing.assert_array_equal(kept, one @ w)

    def test_outputs_go_into_the_callers_arrays(self):
        data, w = product()
        context = cameo.Network(data).build().context(threads=1)
        x, mine = np.ones((2, 3), np.float32), np.zeros((2, 4), np.float32)
        self.assertIs(context.run([x], into={"y": mine})["y"], mine)
        np.testing.assert_array_equal(mine, x @ w)
        mine[:] = 0
        np.testing.assert_array_equal(context(x), x @ w)
        np.testing.assert_array_equal(mine, 0)
        with self.assertRaisesRegex(ValueError, "unknown z"):
            context.run([x], into={"z": mine})
        with self.assertRaisesRegex(cameo.CameoError, "its memory only"):
            context.run([x], into={"y": mine[:1]})

    def test_inputs_need_not_be_dense_or_arrays(self):
        data, w = product()
        context = cameo.Network(data).build().context()
        x = np.arange(12, dtype=np.float32).reshape(3, 4).T
        np.testing.assert_allclose(context(x), x @ w)
        np.testing.assert_allclose(context([[1, 2, 3]]), np.float32([[1, 2, 3]]) @ w)

    def test_dims_can_be_fixed_and_inner_values_handed_out(self):
        data = model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["y"])],
                     [info("x", TensorProto.FLOAT, ["n"])], [info("y", TensorProto.FLOAT, ["n"])])
        network = cameo.Network(data, dims={"n": 3}, extra_outputs=["r"])
        self.assertEqual(network.inputs[0].shape, (3,))
        found = network.build().context().run({"x": np.float32([-1, 2, 3])})
        np.testing.assert_array_equal(found["r"], [0, 2, 3])
        np.testing.assert_array_equal(found["y"], [-0.0, -2, -3])

    def test_every_numpy_type_passes_through(self):
        for number, name in ((1, "float32"), (2, "uint8"), (3, "int8"), (4, "uint16"), (5, "int16"), (6, "int32"),
                             (7, "int64"), (9, "bool"), (10, "float16"), (11, "float64"), (12, "uint32"),
                             (13, "uint64"), (14, "complex64"), (15, "complex128")):
            data = model([helper.make_node("Identity", ["x"], ["y"])], [info("x", number, [2, 2])],
                         [info("y", number, [2, 2])])
            x = np.array([[0, 1], [1, 1]]).astype(name)
            y = cameo.Network(data).build().context()(x)
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y, x)

    def test_bfloat16_goes_as_bits_or_as_ml_dtypes(self):
        data = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
                     [info("x", TensorProto.FLOAT, [2])], [info("y", TensorProto.BFLOAT16, [2])])
        y = cameo.Network(data).build().context()(np.float32([1, -2]))
        np.testing.assert_array_equal(y.view(np.uint16), [0x3F80, 0xC000])
        back = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
                     [info("x", TensorProto.BFLOAT16, [2])], [info("y", TensorProto.FLOAT, [2])])
        context = cameo.Network(back).build().context()
        np.testing.assert_array_equal(context(y), [1, -2])
        np.testing.assert_array_equal(context(y.view(np.uint16)), [1, -2])

    def test_strings(self):
        data = model([helper.make_node("Identity", ["x"], ["y"])], [info("x", TensorProto.STRING, [3])],
                     [info("y", TensorProto.STRING, [3])])
        y = cameo.Network(data).build().context()(np.array(["a", "", "zwölf"], dtype=object))
        self.assertEqual(y.tolist(), ["a", "", "zwölf"])

    def test_sequences_and_empty_tensors(self):
        sequence = helper.make_tensor_sequence_value_info
        data = model([helper.make_node("SequenceInsert", ["s", "x"], ["y"])],
                     [sequence("s", TensorProto.FLOAT, None), info("x", TensorProto.FLOAT, ["n"])],
                     [sequence("y", TensorProto.FLOAT, None)])
        context = cameo.Network(data).build().context()
        y = context([np.float32([1]), np.zeros(0, np.float32)], np.float32([2, 3]))
        self.assertEqual([v.tolist() for v in y], [[1], [], [2, 3]])
        self.assertEqual(len(context([], np.float32([1]))), 1)

    def test_failures_say_what(self):
        data, _ = product()
        with self.assertRaises(cameo.CameoError) as e:
            cameo.Network(b"rubbish")
        self.assertTrue(str(e.exception))
        context = cameo.Network(data).build().context()
        with self.assertRaisesRegex(cameo.CameoError, "wanted f32"):
            context(np.zeros((1, 3)))
        with self.assertRaisesRegex(cameo.CameoError, "found 4, wanted 3"):
            context(np.zeros((1, 4), np.float32))
        with self.assertRaisesRegex(ValueError, "unknown z"):
            context.run({"z": 1, "x": 2})
        with self.assertRaisesRegex(ValueError, "found 0 inputs, wanted 1: x"):
            context()
        with self.assertRaisesRegex(cameo.CameoError, "no-such-file"):
            cameo.Engine("no-such-file")
        context.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            context.run([np.zeros((1, 3), np.float32)])

    def test_progress_is_told_and_cancels(self):
        data, _ = product()
        seen = []
        cameo.Network(data).build(progress=lambda what, done, total: seen.append(what))
        self.assertTrue(seen)
        with self.assertRaises(cameo.CameoError):
            cameo.Network(data).build(progress=lambda *_: False)

    def test_plans_are_tuned_stripped_and_refitted(self):
        data, w = product()
        x = np.ones((4, 3), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.plan")
            cache = os.path.join(folder, "timings")
            with open(path, "wb") as f:
                f.write(data)
            with cameo.Network(path) as network:
                engine = network.build(tune="quick", tune_seconds=0.2, threads=1, shapes={"x": (4, 3)},
                                       timing_cache=cache, pack="on")
                np.testing.assert_allclose(engine.context(threads=1)(x), x @ w)
                self.assertTrue(os.path.exists(cache))
            with cameo.Network(path) as network:
                low = network.build(precision="bf16").context(threads=1)(x)
                self.assertEqual(low.dtype, np.float32)
                np.testing.assert_allclose(low, x @ w, rtol=1e-2)
            with cameo.Network(path) as network:
                self.assertIsNone(network.build(plan, strip_weights=True))
            with self.assertRaisesRegex(cameo.CameoError, "refit"):
                cameo.Engine(plan)
            cameo.refit(plan, path)
            np.testing.assert_allclose(cameo.load(plan)(x), x @ w)
            with self.assertRaisesRegex(ValueError, "wanted one of off, quick, full"):
                cameo.Network(path).build(tune="much")

    def test_contexts_of_one_engine_run_at_once(self):
        data, w = product()
        engine = cameo.Network(data).build()
        wrong = []

        def work(seed):
            context = engine.context(threads=1)
            for i in range(200):
                x = np.full((1 + i % 7, 3), seed + i, np.float32)
                if not np.allclose(context(x), x @ w):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        del engine
        gc.collect()

    def test_it_installs(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.check_call(["cp", "-r", os.path.join(top, "python"), os.path.join(folder, "python")])
            os.symlink(build, os.path.join(folder, "build"))
            target = os.path.join(folder, "site")
            subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
                                   "--disable-pip-version-check", "--root-user-action=ignore", "--target", target,
                                   os.path.join(folder, "python")])
            env = {k: v for k, v in os.environ.items() if k != "CAMEO_LIBRARY"}
            env["PYTHONPATH"] = target
            out = subprocess.check_output([sys.executable, "-c", "import cameo; print(cameo.__version__, cameo.__file__)"],
                                          env=env, cwd=folder, text=True)
            self.assertIn(target, out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
