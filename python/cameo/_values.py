"""numpy arrays, lists, dicts and None on one side; the C API's tensors and values on the other.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from typing import Any, List

import numpy as np

from . import _library as c

STRING = 8
_NUMPY = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
          10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
# What numpy has no type for; ml_dtypes has, where it is installed. Those under a byte are packed in C.
_ML_DTYPES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
              24: "float8_e8m0fnu"}
_RAW = {16: "uint16", 17: "uint8", 18: "uint8", 19: "uint8", 20: "uint8", 24: "uint8"}

try:
    import ml_dtypes

    _ml_types = {number: np.dtype(getattr(ml_dtypes, name))
                 for number, name in _ML_DTYPES.items() if hasattr(ml_dtypes, name)}
except ImportError:
    _ml_types = {}

_to_numpy = {**{k: np.dtype(v) for k, v in _NUMPY.items()}, **{k: np.dtype(v) for k, v in _RAW.items()}, **_ml_types}
_from_numpy = {**{np.dtype(v): k for k, v in _NUMPY.items()}, **{v: k for k, v in _ml_types.items()}}


def numpy_dtype(number: int) -> np.dtype:
    """The numpy type of an element type. bfloat16 and float8 come as ml_dtypes' where that is installed, else as
    unsigned integers that hold the bits."""
    if number == STRING:
        return np.dtype(object)
    if number not in _to_numpy:
        raise TypeError("element type %d has no numpy form" % number)
    return _to_numpy[number]


def as_array(value: Any, wanted: int) -> np.ndarray:
    """A dense array of the element type that an input wants; shared with `value` where that is one already.

    Python numbers and lists take the wanted type; arrays keep theirs, so that a wrong one is told by name. Tensors
    of other libraries come through DLPack without a copy."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    if isinstance(value, np.ndarray):
        raw = _RAW.get(wanted)
        if raw and value.dtype == np.dtype(raw):  # bits, for a type that numpy lacks
            return np.ascontiguousarray(value)
        return np.ascontiguousarray(value).reshape(value.shape)
    if wanted == STRING:
        return np.array(value, dtype=object)
    return np.array(value, dtype=numpy_dtype(wanted) if wanted in _to_numpy else None)


class Borrowed:
    """C structs for one value, and all that they point to. Keep it until the run is over."""

    def __init__(self) -> None:
        self._keep: List[Any] = []
        self._values: List[c_void_p] = []

    def tensor(self, value: Any, wanted: int = 0) -> c.Tensor:
        array = as_array(value, wanted)
        if array.ndim > c.MAX_RANK:
            raise ValueError("found rank %d, at most %d is possible" % (array.ndim, c.MAX_RANK))
        t = c.Tensor(rank=array.ndim)
        for i, n in enumerate(array.shape):
            t.dims[i] = n
        if array.dtype.kind in "OUS":
            array = self._strings(array)
            t.dtype = STRING
        elif _RAW.get(wanted) and array.dtype == np.dtype(_RAW[wanted]):
            t.dtype = wanted
        elif array.dtype in _from_numpy:
            t.dtype = _from_numpy[array.dtype]
        else:
            raise TypeError("numpy type %s has no element type of ONNX" % array.dtype)
        t.data = array.ctypes.data
        t.bytes = array.nbytes
        self._keep += [array, t]
        return t

    def _strings(self, array: np.ndarray) -> np.ndarray:
        table = np.zeros((max(1, array.size), 2), dtype=np.uint64)
        for i, text in enumerate(array.reshape(-1)):
            data = text if isinstance(text, bytes) else str(text).encode()
            self._keep.append(data)
            table[i] = (ctypes.cast(ctypes.c_char_p(data), c_void_p).value or 0, len(data))
        return table[: array.size]

    def value(self, v: Any, dtype: int = 0) -> c_void_p:
        """A sequence of a list, a map of a dict, an empty optional of None, a tensor of all else."""
        out = c_void_p()
        if isinstance(v, dict):
            items = [self.value(np.array(list(v.keys()))), self.value(np.array(list(v.values())))]
            self._items(c.MAP, items, out)
        elif v is None:
            self._items(c.OPTIONAL, [], out)
        elif isinstance(v, (list, tuple)):
            self._items(c.SEQUENCE, [self.value(i, dtype) for i in v], out)
        else:
            c.call("cameo_value_from_tensor", byref(self.tensor(v, dtype)), byref(out))
        self._values.append(out)
        return out

    def _items(self, kind: int, items: List[c_void_p], out: c_void_p) -> None:
        array = (c_void_p * max(1, len(items)))(*[i.value for i in items])
        self._keep.append(array)
        c.call("cameo_value_from_items", kind, len(items), array, byref(out))

    def close(self) -> None:
        while self._values:
            c.lib.cameo_value_destroy(self._values.pop())
        self._keep.clear()


def array_of(t: c.Tensor, copy: bool) -> np.ndarray:
    """A tensor of the library's as an array: a copy, or a view that is valid until the next run."""
    shape = tuple(t.dims[i] for i in range(t.rank))
    n = int(np.prod(shape, dtype=np.int64))
    if t.dtype == STRING:
        table = ctypes.cast(t.data, ctypes.POINTER(c.String)) if n else None
        out = np.empty(n, dtype=object)
        for i in range(n):
            out[i] = ctypes.string_at(table[i].data, table[i].size).decode("utf-8", "replace") if table[i].size else ""
        return out.reshape(shape)
    dtype = numpy_dtype(t.dtype)
    if n == 0:
        return np.empty(shape, dtype=dtype)
    raw = np.frombuffer((ctypes.c_char * (n * dtype.itemsize)).from_address(t.data), dtype=dtype).reshape(shape)
    raw.flags.writeable = False
    return raw.copy() if copy else raw


def python_of(value: c_void_p, copy: bool) -> Any:
    """A value of the library's as arrays, lists, dicts and None."""
    kind = c.lib.cameo_value_kind(value)
    t = c.Tensor()
    if c.lib.cameo_value_tensor(value, byref(t)):
        return array_of(t, copy)
    items = [python_of(c_void_p(c.lib.cameo_value_item(value, i)), copy)
             for i in range(c.lib.cameo_value_count(value))]
    if kind == c.OPTIONAL:
        return items[0] if items else None
    if kind == c.MAP:
        return dict(zip(items[0].tolist(), items[1].tolist()))
    return items
