"""cameo_ctypes.py -- the part of Cameo's C API that the benches need, over ctypes and numpy.

Only include/cameo.h is relied on. Failures raise CameoError with the library's sentence.
SPDX-License-Identifier: Apache-2.0
"""

import ctypes as c

import ml_dtypes
import numpy as np

MAX_RANK = 32
STRING = 8
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
          10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64, 15: np.complex128,
          16: ml_dtypes.bfloat16}
CODES = {np.dtype(v): k for k, v in DTYPES.items()}


class CameoError(Exception):
    pass


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1024)]


class Hooks(c.Structure):
    _fields_ = [("size", c.c_size_t)] + [(n, c.c_void_p) for n in (
        "alloc", "release", "alloc_user", "log", "log_user", "progress", "progress_user")]


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("hooks", Hooks), ("threads", c.c_int), ("seed", c.c_uint64),
                ("target", c.c_char_p)]


class String(c.Structure):
    _fields_ = [("data", c.c_char_p), ("size", c.c_size_t)]


class Tensor(c.Structure):
    _fields_ = [("dtype", c.c_int), ("rank", c.c_int), ("dims", c.c_int64 * MAX_RANK), ("data", c.c_void_p),
                ("bytes", c.c_size_t)]


class Info(c.Structure):
    _fields_ = [("name", c.c_char_p), ("kind", c.c_int), ("dtype", c.c_int), ("rank", c.c_int),
                ("dims", c.c_int64 * MAX_RANK), ("type_text", c.c_char_p)]


def tensor_of(array):
    """A Tensor over the array's memory, and what must be kept alive with it."""
    t = Tensor(rank=array.ndim)
    t.dims[:array.ndim] = array.shape
    if array.dtype.kind in "OSU":
        texts = [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel()]
        strings = (String * max(len(texts), 1))(*[String(x, len(x)) for x in texts])
        t.dtype, t.data, t.bytes = STRING, c.addressof(strings), c.sizeof(strings)
        return t, (texts, strings)
    array = np.asarray(array, order="C")
    t.dtype, t.data, t.bytes = CODES[array.dtype], array.ctypes.data, array.nbytes
    return t, array


def array_of(t):
    """A copy of a tensor as a numpy array."""
    shape = tuple(t.dims[:t.rank])
    n = int(np.prod(shape, dtype=np.int64))
    if t.dtype == STRING:
        s = c.cast(t.data, c.POINTER(String))
        return np.array([c.string_at(s[i].data, s[i].size).decode() for i in range(n)], object).reshape(shape)
    dtype = np.dtype(DTYPES[t.dtype])
    if n == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(c.string_at(t.data, n * dtype.itemsize), dtype).reshape(shape)


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        self.lib.cameo_version.restype = c.c_char_p
        self.lib.cameo_context_memory.restype = c.c_size_t
        self.lib.cameo_context_memory.argtypes = [c.c_void_p]
        self.lib.cameo_context_run.argtypes = [c.c_void_p, c.c_double, c.c_void_p]
        for name in ("cameo_network_destroy", "cameo_engine_release", "cameo_context_destroy"):
            getattr(self.lib, name).argtypes = [c.c_void_p]
            getattr(self.lib, name).restype = None
        for name in ("cameo_engine_input_count", "cameo_engine_output_count"):
            getattr(self.lib, name).argtypes = [c.c_void_p]

    def version(self):
        return self.lib.cameo_version().decode()

    def call(self, name, *args):
        e = Error()
        if getattr(self.lib, name)(*args, c.byref(e)) != 0:
            raise CameoError(e.message.decode(errors="replace"))

    def build(self, model, plan):
        """A plan file from a model file."""
        network = c.c_void_p()
        self.call("cameo_network_from_file", model.encode(), None, c.byref(network))
        try:
            self.call("cameo_build_file", network, None, plan.encode())
        finally:
            self.lib.cameo_network_destroy(network)


class Context:
    """One running instance of a plan, or of a model as it was lowered."""

    def __init__(self, library, path, threads=1, isa=None):
        self.library, self.keep = library, []
        self.network, self.engine, self.context = c.c_void_p(), c.c_void_p(), c.c_void_p()
        if path.endswith(".plan"):
            library.call("cameo_engine_open_file", path.encode(), None, c.byref(self.engine))
        else:
            library.call("cameo_network_from_file", path.encode(), None, c.byref(self.network))
            library.call("cameo_engine_from_network", self.network, None, c.byref(self.engine))
        o = ContextOptions(size=c.sizeof(ContextOptions), threads=threads)
        o.hooks.size = c.sizeof(Hooks)
        o.target = f"cpu:{isa}".encode() if isa else None
        library.call("cameo_context_create", self.engine, c.byref(o), c.byref(self.context))
        self.error = Error()
        self.run_fn = library.lib.cameo_context_run
        self.run_args = (self.context, 0.0, c.addressof(self.error))

    def close(self):
        self.library.lib.cameo_context_destroy(self.context)
        self.library.lib.cameo_engine_release(self.engine)
        self.library.lib.cameo_network_destroy(self.network)

    def input_names(self):
        info, names = Info(), []
        for i in range(self.library.lib.cameo_engine_input_count(self.engine)):
            self.library.call("cameo_engine_input", self.engine, i, c.byref(info))
            names.append(info.name.decode())
        return names

    def set_inputs(self, feed):
        """Arrays by name. What the optimiser no longer needs is still an input."""
        for i, name in enumerate(self.input_names()):
            t, kept = tensor_of(feed[name])
            self.keep.append(kept)
            self.library.call("cameo_context_set_input", self.context, i, c.byref(t))

    def run(self):
        if self.run_fn(*self.run_args) != 0:
            raise CameoError(self.error.message.decode(errors="replace"))

    def outputs(self):
        """Copies of the outputs, None where one is not a tensor."""
        info, out = Info(), {}
        for i in range(self.library.lib.cameo_engine_output_count(self.engine)):
            self.library.call("cameo_engine_output", self.engine, i, c.byref(info))
            name, t = info.name.decode(), Tensor()
            if info.kind != 1:
                out[name] = None
                continue
            self.library.call("cameo_context_output", self.context, i, c.byref(t))
            out[name] = array_of(t)
        return out

    def memory_bytes(self):
        return self.library.lib.cameo_context_memory(self.context)
