"""The C API through ctypes: include/cameo.h, struct by struct.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t,
                    c_uint64, c_void_p, sizeof)

MAX_RANK = 32

OK, NO_PLAN = 0, 4
NOTHING, TENSOR, SEQUENCE, OPTIONAL, MAP = range(5)


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


LogFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ProgressFn = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_int64, c_int64)


class Hooks(Structure):
    _fields_ = [("size", c_size_t), ("alloc", c_void_p), ("release", c_void_p), ("alloc_user", c_void_p),
                ("log", LogFn), ("log_user", c_void_p), ("progress", ProgressFn), ("progress_user", c_void_p)]


class String(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Tensor(Structure):
    _fields_ = [("dtype", c_int), ("rank", c_int), ("dims", c_int64 * MAX_RANK), ("data", c_void_p), ("bytes", c_size_t)]


class Info(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("dtype", c_int), ("rank", c_int), ("dims", c_int64 * MAX_RANK),
                ("type_text", c_char_p)]


class NetworkOptions(Structure):
    _fields_ = [("size", c_size_t), ("hooks", Hooks), ("folder", c_char_p), ("n_extra_outputs", c_int),
                ("extra_outputs", POINTER(c_char_p)), ("n_dims", c_int), ("dim_names", POINTER(c_char_p)),
                ("dim_values", POINTER(c_int64))]


class Shape(Structure):
    _fields_ = [("input", c_char_p), ("rank", c_int), ("dims", POINTER(c_int64))]


class BuildOptions(Structure):
    _fields_ = [("size", c_size_t), ("hooks", Hooks), ("strip_weights", c_bool), ("tune", c_int),
                ("tune_seconds", c_double), ("timing_cache", c_char_p), ("threads", c_int), ("target", c_char_p),
                ("pack", c_int), ("n_shapes", c_int), ("shapes", POINTER(Shape)), ("precision", c_char_p)]


class EngineOptions(Structure):
    _fields_ = [("size", c_size_t), ("hooks", Hooks)]


class ContextOptions(Structure):
    _fields_ = [("size", c_size_t), ("hooks", Hooks), ("threads", c_int), ("seed", c_uint64), ("target", c_char_p),
                ("max_memory", c_size_t)]


def options(kind):
    """A zeroed options struct with its sizes set, as the _INIT macros do."""
    o = kind()
    o.size = sizeof(kind)
    o.hooks.size = sizeof(Hooks)
    return o


_pp = POINTER(c_void_p)
_error = POINTER(Error)
_SIGNATURES = {
    "cameo_version": (c_char_p, []),
    "cameo_status_text": (c_char_p, [c_int]),
    "cameo_free": (None, [c_void_p]),
    "cameo_network_from_file": (c_int, [c_char_p, POINTER(NetworkOptions), _pp, _error]),
    "cameo_network_from_memory": (c_int, [c_void_p, c_size_t, POINTER(NetworkOptions), _pp, _error]),
    "cameo_network_destroy": (None, [c_void_p]),
    "cameo_network_input_count": (c_int, [c_void_p]),
    "cameo_network_output_count": (c_int, [c_void_p]),
    "cameo_network_input": (c_int, [c_void_p, c_int, POINTER(Info), _error]),
    "cameo_network_output": (c_int, [c_void_p, c_int, POINTER(Info), _error]),
    "cameo_network_text": (c_int, [c_void_p, POINTER(c_void_p), _error]),
    "cameo_build_file": (c_int, [c_void_p, POINTER(BuildOptions), c_char_p, _error]),
    "cameo_build_memory": (c_int, [c_void_p, POINTER(BuildOptions), _pp, POINTER(c_size_t), _error]),
    "cameo_refit_file": (c_int, [c_char_p, c_char_p, POINTER(BuildOptions), c_char_p, _error]),
    "cameo_engine_open_file": (c_int, [c_char_p, POINTER(EngineOptions), _pp, _error]),
    "cameo_engine_open_memory": (c_int, [c_void_p, c_size_t, POINTER(EngineOptions), _pp, _error]),
    "cameo_engine_release": (None, [c_void_p]),
    "cameo_engine_input_count": (c_int, [c_void_p]),
    "cameo_engine_output_count": (c_int, [c_void_p]),
    "cameo_engine_input": (c_int, [c_void_p, c_int, POINTER(Info), _error]),
    "cameo_engine_output": (c_int, [c_void_p, c_int, POINTER(Info), _error]),
    "cameo_value_kind": (c_int, [c_void_p]),
    "cameo_value_count": (c_int64, [c_void_p]),
    "cameo_value_item": (c_void_p, [c_void_p, c_int64]),
    "cameo_value_tensor": (c_bool, [c_void_p, POINTER(Tensor)]),
    "cameo_value_from_tensor": (c_int, [POINTER(Tensor), _pp, _error]),
    "cameo_value_from_items": (c_int, [c_int, c_int64, _pp, _pp, _error]),
    "cameo_value_destroy": (None, [c_void_p]),
    "cameo_context_create": (c_int, [c_void_p, POINTER(ContextOptions), _pp, _error]),
    "cameo_context_destroy": (None, [c_void_p]),
    "cameo_context_set_input": (c_int, [c_void_p, c_int, POINTER(Tensor), _error]),
    "cameo_context_set_input_value": (c_int, [c_void_p, c_int, c_void_p, _error]),
    "cameo_context_set_output": (c_int, [c_void_p, c_int, c_void_p, c_size_t, _error]),
    "cameo_context_set_device_input": (c_int, [c_void_p, c_int, POINTER(Tensor), _error]),
    "cameo_context_set_device_output": (c_int, [c_void_p, c_int, c_void_p, c_size_t, _error]),
    "cameo_context_set_stream": (c_int, [c_void_p, c_void_p, _error]),
    "cameo_context_bind": (c_int, [c_void_p, _error]),
    "cameo_context_output_shape": (c_int, [c_void_p, c_int, POINTER(Tensor), _error]),
    "cameo_context_memory": (c_size_t, [c_void_p]),
    "cameo_context_run": (c_int, [c_void_p, c_double, _error]),
    "cameo_context_cancel": (None, [c_void_p]),
    "cameo_context_output_value": (c_void_p, [c_void_p, c_int]),
}


def _candidates():
    """Where the library may be: named by the user, in this package, in a checkout's build folder, the system's."""
    if os.environ.get("CAMEO_LIBRARY"):
        return [os.environ["CAMEO_LIBRARY"]]
    here = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.join(os.path.dirname(os.path.dirname(here)), "build", "libcameo.so")
    found = [p for p in (os.path.join(here, "libcameo.so"), checkout) if os.path.exists(p)]
    return found + ["libcameo.so.0"]


def _load():
    reasons = []
    for path in _candidates():
        try:
            lib = ctypes.CDLL(path)
        except OSError as e:
            reasons.append(str(e))
            continue
        for name, (result, arguments) in _SIGNATURES.items():
            f = getattr(lib, name)
            f.restype, f.argtypes = result, arguments
        return lib
    raise ImportError("libcameo.so was not found: install Cameo or set CAMEO_LIBRARY (%s)" % "; ".join(reasons))


lib = _load()


class CameoError(RuntimeError):
    """A call failed. `status` is the name of the C API's status; the text says what, where, found, wanted."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.code = status
        self.status = lib.cameo_status_text(status).decode()


def call(name: str, *arguments) -> None:
    """A function whose last parameter is the error: raises what it says."""
    error = Error()
    status = getattr(lib, name)(*arguments, byref(error))
    if status != OK:
        raise CameoError(status, error.message.decode("utf-8", "replace"))


def strings(texts):
    """A C array of the texts, and how many; keep the array while C uses it."""
    encoded = [t.encode() for t in texts]
    return (c_char_p * max(1, len(encoded)))(*encoded), len(encoded)
