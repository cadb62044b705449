"""A function for XLA's CPU that ends its flushing of denormals, so that a module computes as IEEE 754 says.

XLA makes denormals zero by two bits of the processor's floating-point environment, which it sets before each module
and sets back after it, and has no option against that. A custom call that hands on the module's arguments runs on the
thread that computes what depends on them, and may set those bits anew. Modules that are computed on several threads
(`NPROC` above 1) are IEEE's on one of them.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar

TARGET = "opscope_ieee_denormals"
"""Name of the custom call, which returns its operands (as aliases of its results)."""
TYPED, TYPED_IN_STABLEHLO = 1, 4
"""The version of XLA's interface that the function has: where it is registered, and where it is called."""
_METADATA = 1
_DEFAULT_ENVIRONMENT = ctypes.c_void_p(-1)
"""FE_DFL_ENV of the C library: no flushing, to nearest."""


class _Extension(ctypes.Structure):
    _fields_: ClassVar = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("next", ctypes.c_void_p)]


class _Version(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class _Metadata(ctypes.Structure):
    _fields_: ClassVar = [("size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _Asked(ctypes.Structure):
    _fields_: ClassVar = [("extension", _Extension), ("metadata", ctypes.POINTER(_Metadata))]


class _Api(ctypes.Structure):
    _fields_: ClassVar = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("version", _Version)]


class _Frame(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Asked)),
        ("api", ctypes.POINTER(_Api)),
    ]


def aliases(count: int) -> list[str]:
    """Attributes of the call in StableHLO, one for each of its operands: each result lies where its operand does."""
    return [
        f"#stablehlo.output_operand_alias<output_tuple_indices = {[number] if count > 1 else []}, "
        f"operand_index = {number}, operand_tuple_indices = []>"
        for number in range(count)
    ]


def register(xla_client: Any) -> None:
    """Makes the function known to jaxlib's CPU client, before that is made."""
    xla_client.register_custom_call_target(TARGET, _capsule(), platform="cpu", api_version=TYPED)


def _called(frame: Any) -> None:
    """Answers XLA's question for the interface's version, or sets the environment; an error would be no null."""
    asked, api = frame.contents.extension, frame.contents.api
    if asked and asked.contents.extension.kind == _METADATA:
        version = asked.contents.metadata.contents.version
        version.major, version.minor = api.contents.version.major, api.contents.version.minor
        return
    _library().fesetenv(_DEFAULT_ENVIRONMENT)


@functools.cache
def _library() -> Any:
    return ctypes.CDLL("libm.so.6")


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))(_called)


@functools.cache
def _capsule() -> Any:
    """The function, as `xla_client.register_custom_call_target` takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.cast(_FUNCTION, ctypes.c_void_p).value, b"xla._CUSTOM_CALL_TARGET", None)
