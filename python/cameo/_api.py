"""Networks, engines, contexts.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int64, c_size_t, c_void_p
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library as c
from ._dlpack import Lent, is_on_gpu
from ._values import Borrowed, numpy_dtype, python_of

Path = Union[str, "os.PathLike[str]"]
Log = Callable[[str, str], None]
Progress = Callable[[str, int, int], Optional[bool]]
_LEVELS = ("error", "warning", "info", "debug")


class Port(NamedTuple):
    """An input or an output: what it is called and what it may be."""

    name: str
    type: str  #: "f32[batch,3,224,224]"
    dtype: Optional[np.dtype]  #: None when it is not a tensor, or of a type without a numpy form
    shape: Optional[tuple]  #: -1 where the size is free; None when the rank is
    kind: int
    number: int  #: the element type's number in ONNX


def _port(function: str, handle: c_void_p, index: int) -> Port:
    info = c.Info()
    c.call(function, handle, index, byref(info))
    try:
        dtype = numpy_dtype(info.dtype) if info.kind == c.TENSOR else None
    except TypeError:
        dtype = None
    shape = tuple(info.dims[i] for i in range(info.rank)) if info.kind == c.TENSOR and info.rank >= 0 else None
    return Port(info.name.decode(), (info.type_text or b"").decode(), dtype, shape, info.kind, info.dtype)


def _hooks(options: Any, log: Optional[Log], progress: Optional[Progress]) -> list:
    """Sets the callbacks; returns what must stay alive while C may call them."""
    keep = []
    if log:
        options.hooks.log = c.LogFn(lambda _, level, text: log(_LEVELS[level], text.decode("utf-8", "replace")))
        keep.append(options.hooks.log)
    if progress:
        options.hooks.progress = c.ProgressFn(
            lambda _, what, done, total: progress(what.decode("utf-8", "replace"), done, total) is not False)
        keep.append(options.hooks.progress)
    return keep


def _choice(what: str, text: str, names: Sequence[str]) -> int:
    if text not in names:
        raise ValueError("%s: found %r, wanted one of %s" % (what, text, ", ".join(names)))
    return names.index(text)


class _Owner:
    """Something of the library's that is closed once, by hand, by `with` or with the object."""

    _release = ""
    _handle: Optional[c_void_p] = None

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            getattr(c.lib, self._release)(handle)

    def _live(self) -> c_void_p:
        if not self._handle:
            raise ValueError("%s is closed" % type(self).__name__)
        return self._handle

    def __enter__(self):
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Network(_Owner):
    """A network in memory, from an ONNX file or from its bytes."""

    _release = "cameo_network_destroy"

    def __init__(self, model: Union[Path, bytes], *, dims: Optional[Mapping[str, int]] = None,
                 extra_outputs: Iterable[str] = (), folder: Optional[Path] = None, log: Optional[Log] = None):
        """`dims` fixes symbolic sizes, `extra_outputs` hands out inner values, `folder` has a model's external data
        when it comes as bytes."""
        self._bytes = model if isinstance(model, bytes) else None
        options = c.options(c.NetworkOptions)
        self._keep = _hooks(options, log, None)
        options.extra_outputs, options.n_extra_outputs = c.strings(extra_outputs)
        names = list((dims or {}).keys())
        options.dim_names, options.n_dims = c.strings(names)
        options.dim_values = (c_int64 * max(1, len(names)))(*[(dims or {})[n] for n in names])
        if folder is not None:
            options.folder = os.fsencode(folder)
        handle = c_void_p()
        if self._bytes is not None:
            c.call("cameo_network_from_memory", self._bytes, len(self._bytes), byref(options), byref(handle))
        else:
            c.call("cameo_network_from_file", os.fsencode(model), byref(options), byref(handle))
        self._handle = handle

    @property
    def inputs(self) -> List[Port]:
        h = self._live()
        return [_port("cameo_network_input", h, i) for i in range(c.lib.cameo_network_input_count(h))]

    @property
    def outputs(self) -> List[Port]:
        h = self._live()
        return [_port("cameo_network_output", h, i) for i in range(c.lib.cameo_network_output_count(h))]

    def __str__(self) -> str:
        text = c_void_p()
        c.call("cameo_network_text", self._live(), byref(text))
        try:
            return ctypes.string_at(text).decode("utf-8", "replace")
        finally:
            c.lib.cameo_free(text)

    def build(self, path: Optional[Path] = None, *, tune: str = "off", tune_seconds: float = 0,
              timing_cache: Optional[Path] = None, threads: int = 0, target: Optional[str] = None, pack: str = "off",
              shapes: Optional[Mapping[str, Sequence[int]]] = None, precision: Optional[str] = None,
              strip_weights: bool = False,
              log: Optional[Log] = None, progress: Optional[Progress] = None) -> Optional["Engine"]:
        """Makes a plan, in the file `path` or in memory, and opens it.

        `tune` "quick" or "full" measures kernels on this machine, for `tune_seconds` at most and with as many
        `threads` as contexts will have; `shapes` says for which sizes where the model leaves them open. `pack` "on" or
        "all" stores weights as the chosen kernels want them. `precision` is "fp32", "tf32", "fp16" or "bf16". A plan with `strip_weights` cannot run until `refit` puts
        weights in: None is returned in place of an engine. `progress(what, done, total)` may return False to cancel."""
        options = c.options(c.BuildOptions)
        keep = _hooks(options, log, progress)
        options.tune = _choice("tune", tune, ("off", "quick", "full"))
        options.pack = _choice("pack", pack, ("off", "on", "all"))
        options.tune_seconds, options.threads, options.strip_weights = tune_seconds, threads, strip_weights
        options.timing_cache = os.fsencode(timing_cache) if timing_cache is not None else None
        options.target = target.encode() if target else None
        options.precision = precision.encode() if precision else None
        listed = [(name.encode(), (c_int64 * max(1, len(dims)))(*dims), len(dims))
                  for name, dims in (shapes or {}).items()]
        keep.append(listed)
        options.shapes = (c.Shape * max(1, len(listed)))(
            *[c.Shape(name, rank, ctypes.cast(dims, ctypes.POINTER(c_int64))) for name, dims, rank in listed])
        options.n_shapes = len(listed)
        if path is not None:
            c.call("cameo_build_file", self._live(), byref(options), os.fsencode(path))
            return Engine(path) if not strip_weights else None
        data, n = c_void_p(), c_size_t()
        c.call("cameo_build_memory", self._live(), byref(options), byref(data), byref(n))
        del keep
        return Engine._from_memory(data, n.value)


class Engine(_Owner):
    """A plan opened for use: immutable, shared by threads."""

    _release = "cameo_engine_release"
    _plan: Optional[c_void_p] = None

    def __init__(self, plan: Path, *, log: Optional[Log] = None):
        options = c.options(c.EngineOptions)
        self._keep = _hooks(options, log, None)
        handle = c_void_p()
        c.call("cameo_engine_open_file", os.fsencode(plan), byref(options), byref(handle))
        self._handle = handle

    @classmethod
    def _from_memory(cls, data: c_void_p, n: int) -> "Engine":
        self = cls.__new__(cls)
        self._keep = []
        handle = c_void_p()
        try:
            c.call("cameo_engine_open_memory", data, n, None, byref(handle))
        except c.CameoError:
            c.lib.cameo_free(data)
            raise
        self._handle, self._plan = handle, data
        return self

    def close(self) -> None:
        super().close()
        plan, self._plan = self._plan, None
        if plan:
            c.lib.cameo_free(plan)

    @property
    def inputs(self) -> List[Port]:
        h = self._live()
        return [_port("cameo_engine_input", h, i) for i in range(c.lib.cameo_engine_input_count(h))]

    @property
    def outputs(self) -> List[Port]:
        h = self._live()
        return [_port("cameo_engine_output", h, i) for i in range(c.lib.cameo_engine_output_count(h))]

    def context(self, *, threads: int = 0, target: Optional[str] = None, seed: int = 0, max_memory: int = 0,
                log: Optional[Log] = None) -> "Context":
        """One running instance; use each from one thread at a time, several at once. `threads` 0: one per core."""
        return Context(self, threads=threads, target=target, seed=seed, max_memory=max_memory, log=log)


class Context(_Owner):
    """One running instance of an engine: its shapes, its memory, its threads."""

    _release = "cameo_context_destroy"

    def __init__(self, engine: Engine, *, threads: int = 0, target: Optional[str] = None, seed: int = 0,
                 max_memory: int = 0, log: Optional[Log] = None):
        options = c.options(c.ContextOptions)
        self._keep = _hooks(options, log, None)
        options.threads, options.seed, options.max_memory = threads, seed, max_memory
        options.target = target.encode() if target else None
        handle = c_void_p()
        c.call("cameo_context_create", engine._live(), byref(options), byref(handle))
        self._handle, self.engine = handle, engine
        self._inputs, self._outputs = engine.inputs, engine.outputs
        self._index = {p.name: i for i, p in enumerate(self._inputs)}

    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]], *, outputs: Optional[Iterable[str]] = None,
            into: Optional[Mapping[str, Any]] = None, copy: bool = True, timeout: float = 0) -> Dict[str, Any]:
        """Runs once. Inputs by name or in order: arrays, what np.array takes, tensors of other libraries (DLPack;
        those on the context's GPU are read there), lists for sequences, dicts for maps, None for an absent optional.

        Outputs by name; with copy=False they are views that the next run overwrites. `into` gives outputs memory of
        the caller's, writable arrays or tensors on the GPU, which are what is returned for them. `timeout` in seconds
        raises a CameoError, status "cancelled"."""
        self._live()
        named = dict(inputs) if isinstance(inputs, Mapping) else self._in_order(inputs)
        missing = [p.name for p in self._inputs if p.name not in named]
        unknown = [n for n in named if n not in self._index]
        if missing or unknown:
            raise ValueError("inputs: %s" % "; ".join(
                (["missing %s" % ", ".join(missing)] if missing else []) +
                (["unknown %s (there are %s)" % (", ".join(unknown), ", ".join(self._index))] if unknown else [])))
        into = dict(into or {})
        borrowed, lent = Borrowed(), []
        try:
            for name, value in named.items():
                self._set(borrowed, lent, self._index[name], value)
            for name, value in into.items():
                self._set_output(lent, name, value)
            c.call("cameo_context_run", self._handle, float(timeout))
            wanted = set(outputs) if outputs is not None else None
            return {p.name: into[p.name] if p.name in into else self._output(i, copy)
                    for i, p in enumerate(self._outputs) if wanted is None or p.name in wanted}
        finally:
            for name in into:
                self._take_output_back(name)
            borrowed.close()

    def _output(self, index: int, copy: bool) -> Any:
        return python_of(c_void_p(c.lib.cameo_context_output_value(self._handle, index)), copy)

    def _output_index(self, name: str) -> int:
        for i, p in enumerate(self._outputs):
            if p.name == name:
                return i
        raise ValueError("into: unknown %s (there are %s)" % (name, ", ".join(p.name for p in self._outputs)))

    def _set_output(self, lent: list, name: str, value: Any) -> None:
        index = self._output_index(name)
        if is_on_gpu(value):
            lent.append(Lent(value))
            t = lent[-1].tensor
            c.call("cameo_context_set_device_output", self._handle, index, t.data, t.bytes)
            return
        if not isinstance(value, np.ndarray) or not value.flags.c_contiguous or not value.flags.writeable:
            raise ValueError("into: %s must be a contiguous, writable array or a tensor on the GPU" % name)
        c.call("cameo_context_set_output", self._handle, index, value.ctypes.data, value.nbytes)

    def _take_output_back(self, name: str) -> None:
        for i, p in enumerate(self._outputs):
            if p.name == name:
                c.lib.cameo_context_set_output(self._handle, i, None, 0, None)
                c.lib.cameo_context_set_device_output(self._handle, i, None, 0, None)

    def set_stream(self, stream: Optional[int]) -> None:
        """The CUDA stream (a pointer as a number, torch's `stream.cuda_stream`) that work goes to; None: its own."""
        c.call("cameo_context_set_stream", self._live(), stream)

    def _in_order(self, inputs: Sequence[Any]) -> Dict[str, Any]:
        if len(inputs) != len(self._inputs):
            raise ValueError("found %d inputs, wanted %d: %s" %
                             (len(inputs), len(self._inputs), ", ".join(p.name for p in self._inputs)))
        return {p.name: v for p, v in zip(self._inputs, inputs)}

    def _set(self, borrowed: Borrowed, lent: list, index: int, value: Any) -> None:
        port = self._inputs[index]
        if is_on_gpu(value):
            lent.append(Lent(value))
            c.call("cameo_context_set_device_input", self._handle, index, byref(lent[-1].tensor))
        elif port.kind == c.TENSOR:
            c.call("cameo_context_set_input", self._handle, index, byref(borrowed.tensor(value, port.number)))
        else:
            c.call("cameo_context_set_input_value", self._handle, index, borrowed.value(value, port.number))

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Inputs in order or by name; the one output itself, or a tuple of several."""
        found = self.run(named if named else inputs)
        values = tuple(found.values())
        return values[0] if len(values) == 1 else values

    def cancel(self) -> None:
        """From another thread: the run in progress raises a CameoError soon."""
        c.lib.cameo_context_cancel(self._live())

    @property
    def memory(self) -> int:
        """Bytes of the arena, once a run has bound shapes; weights are not counted."""
        return c.lib.cameo_context_memory(self._live())


def load(path: Path, **context: Any) -> Context:
    """A context for a plan or a model, whichever the file is: `cameo.load("model.onnx")(x)`."""
    with open(path, "rb") as f:
        is_plan = f.read(8) == b"CAMEOPLN"
    if is_plan:
        return Engine(path).context(**context)
    with Network(path) as network:
        return network.build().context(**context)


def refit(plan: Path, model: Path, output: Optional[Path] = None) -> None:
    """Puts the weights of an ONNX model into a plan of the same network; over the plan itself without `output`."""
    options = c.options(c.BuildOptions)
    c.call("cameo_refit_file", os.fsencode(plan), os.fsencode(model), byref(options),
           os.fsencode(output if output is not None else plan))
