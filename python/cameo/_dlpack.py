"""Tensors of other libraries on a GPU, by the DLPack protocol: their memory is used where it lies.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any

from . import _library as c

CUDA = 2  # DLDeviceType

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6  # DLDataTypeCode
_NUMBERS = {(_FLOAT, 32): 1, (_UINT, 8): 2, (_INT, 8): 3, (_UINT, 16): 4, (_INT, 16): 5, (_INT, 32): 6, (_INT, 64): 7,
            (_BOOL, 8): 9, (_FLOAT, 16): 10, (_FLOAT, 64): 11, (_UINT, 32): 12, (_UINT, 64): 13, (_COMPLEX, 64): 14,
            (_COMPLEX, 128): 15, (_BFLOAT, 16): 16}


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [ctypes.py_object, c_char_p]


def is_on_gpu(value: Any) -> bool:
    return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) == CUDA


class Lent:
    """A dense tensor on a GPU, lent until this is dropped; `tensor` describes it."""

    def __init__(self, value: Any):
        # -1: the caller sees to it that what wrote the tensor is done, or shares its stream with the context.
        self._capsule = value.__dlpack__(stream=-1)
        d = _Tensor.from_address(_pointer_of(self._capsule, b"dltensor"))
        if (d.code, d.bits) not in _NUMBERS or d.lanes != 1:
            raise TypeError("DLPack type %d of %d bits has no element type of ONNX" % (d.code, d.bits))
        if d.ndim > c.MAX_RANK:
            raise ValueError("found rank %d, at most %d is possible" % (d.ndim, c.MAX_RANK))
        self.tensor = c.Tensor(dtype=_NUMBERS[d.code, d.bits], rank=d.ndim, data=(d.data or 0) + d.byte_offset)
        elements = 1
        for i in reversed(range(d.ndim)):
            if d.strides and d.shape[i] > 1 and d.strides[i] != elements:
                raise ValueError("the tensor on the GPU is not contiguous")
            self.tensor.dims[i] = d.shape[i]
            elements *= d.shape[i]
        self.tensor.bytes = elements * d.bits // 8
