"""Constants of a module as numpy arrays, bit for bit, and MLIR types as element names, shapes and dtypes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from opscope.base.number_formats import ELEMENT_TYPES
from opscope.base.quantised.types import storage_of
from opscope.harness.record.element_types import MOST_DIMS
from opscope.harness.record.records import TensorDesc

DTYPES: dict[str, Any] = {name: row.numpy for name, row in ELEMENT_TYPES.items()} | {"index": np.dtype(np.int64)}
"""numpy type of each MLIR element type that has one."""


DYNAMIC = "has a dynamic shape"
"""How the reason ends for which no array can be a value of a type with open dimensions."""


class ResourceError(ValueError):
    """A constant whose values are not in its file as its type says; `expected` and `got` in words."""

    def __init__(self, name: str, expected: str, got: str) -> None:
        super().__init__(f"{name}: expected {expected}, got {got}")
        self.name, self.expected, self.got = name, expected, got


def tensor_desc(type_: ir.Type) -> TensorDesc:
    """Shape and element type of a tensor type; other types (token, tuple) as shape () and their text.

    The element type of a quantised tensor is that of its integers.
    """
    if isinstance(type_, ir.RankedTensorType):
        shape = tuple(-1 if type_.is_dynamic_dim(i) else n for i, n in enumerate(_extents(type_)))
        return TensorDesc(shape=shape, data_type=storage_of(str(type_.element_type)))
    return TensorDesc(shape=(), data_type=str(type_))


def _extents(type_: Any) -> list[int]:
    """The extents of a tensor type; a dynamic one as MLIR's sentinel."""
    return [type_.get_dim_size(i) for i in range(type_.rank)]


def not_a_static_tensor(type_: ir.Type) -> str:
    """Why no array can be a value of `type_`; empty if one can."""
    if not isinstance(type_, ir.RankedTensorType):
        return f"{type_} is no tensor"
    if not type_.has_static_shape:
        dims = [str(dim) for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]
        return f"{type_} {DYNAMIC} in dim{'s' * (len(dims) > 1)} {', '.join(dims)}"
    return "" if storage_of(str(type_.element_type)) in DTYPES else f"{type_} has no numpy type"


def literal_of(op: ir.Operation) -> str:
    """The text between `dense<` and `>` of a constant whose attribute jaxlib cannot hand out (complex numbers)."""
    clone = op.clone()  # printing an op inside its function numbers the whole function
    text = str(clone.get_asm(print_generic_op_form=True, use_local_scope=True))
    match = re.search(r"value = dense<(.*)> : tensor<", text, re.DOTALL)
    return match[1] if match else ""


def constant_array(op: ir.Operation) -> np.ndarray | None:
    """The value of a constant op, read-only, a splat as a zero-stride view; None if numpy has no such type. Raises
    ResourceError."""
    type_: Any = op.results[0].type
    if not_a_static_tensor(type_):
        return None
    try:
        attr = op.attributes["value"]
    except TypeError:
        return _parsed(literal_of(op), type_)
    if isinstance(attr, ir.DenseElementsAttr):
        return dense_array(attr)
    return _resource_array(op) if str(attr).startswith("dense_resource<") else None


def dense_array(attr: Any) -> np.ndarray | None:
    """The array that a dense attribute holds (see `constant_array`)."""
    if isinstance(attr, ir.DenseElementsAttr):
        type_: Any = attr.type
        dtype = DTYPES.get(str(type_.element_type))
        if dtype is None or type_.rank > MOST_DIMS:
            return None
        if attr.is_splat:
            value = attr.get_splat_value().value  # pyright: ignore[reportAttributeAccessIssue]
            if value != value:  # a NaN's sign and payload are only in its text
                return _parsed(_literal(attr), type_)
            return np.broadcast_to(np.array(value).astype(dtype), _extents(type_))
        try:
            return _read_only(np.asarray(attr))
        except TypeError:  # the bindings have no buffer for bf16, f8, i4, ...
            return _parsed(_literal(attr), type_)
    return None


def _literal(attr: ir.Attribute) -> str:
    """The text between `dense<` and `>` of a dense attribute."""
    return re.sub(r"^dense<|> : tensor<.*$", "", str(attr), flags=re.DOTALL)


def _resource_array(op: ir.Operation) -> np.ndarray:
    """The value of a constant kept as a resource of its file. The bindings give no bytes, only the printed module
    does: after 4 bytes of alignment, in hex. Raises ResourceError if it is missing or of another size."""
    module = ir.Module.create(ir.Location.unknown(op.context))
    op.clone(ir.InsertionPoint(module.body))
    match = re.search(r':\s*"0x([0-9A-Fa-f]*)"', str(module.operation.get_asm(print_generic_op_form=True)))
    type_, name = op.results[0].type, str(op.attributes["value"]).partition(" : ")[0]
    data = None if match is None else np.frombuffer(bytes.fromhex(match[1]), np.uint8)[4:]
    array = None if data is None else _from_bytes(data, type_)
    if array is None:
        got = "no values in the file" if data is None else f"{data.size} bytes"
        raise ResourceError(name, f"the values of {type_}", got)
    return array


def is_splat(array: np.ndarray) -> bool:
    """Whether all elements of `array` have the same bits (and there is one)."""
    if array.size < 2 or not any(array.strides):
        return array.size > 0
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw[1] == raw[0]).all() and (raw == raw[0]).all())  # the first two differ in nearly all others


def _read_only(array: np.ndarray) -> np.ndarray:
    """`array` that nobody can write to."""
    array.flags.writeable = False
    return array


def _from_bytes(data: np.ndarray, type_: Any) -> np.ndarray | None:
    """The array stored as `data`: little-endian, at least one byte per element."""
    name = str(type_.element_type)
    dtype, shape = np.dtype(DTYPES[name]), _extents(type_)
    if name in ("i2", "i4"):
        if data.size != int(np.prod(shape)):
            return None
        half = 1 << (int(name[1:]) - 1)
        values = ((data.astype(np.int8) & (2 * half - 1)) ^ half) - half
        return _read_only(values.astype(dtype).reshape(shape))
    if data.size != dtype.itemsize * int(np.prod(shape)):
        return None
    return _read_only(data.view(dtype).reshape(shape))


def _parsed(literal: str, type_: Any) -> np.ndarray | None:
    """The array that the text of a dense literal spells: one element, nested lists, or raw bytes in hex."""
    dtype, shape = np.dtype(DTYPES[str(type_.element_type)]), _extents(type_)
    raw = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', literal)
    if raw:
        return _from_bytes(np.frombuffer(bytes.fromhex(raw[1]), np.uint8), type_)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        pairs = re.findall(r"\(([^,]*),([^)]*)\)", literal)
        flat = np.array([[_number(x, part) for x in pair] for pair in pairs], part).reshape(-1, 2)
        values = np.ascontiguousarray(flat).view(dtype).reshape(-1)
    else:
        values = np.array([_number(x, dtype) for x in re.findall(r"[^\[\],\s]+", literal)], dtype)
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), shape)
    return _read_only(values.reshape(shape))


def _number(text: str, dtype: np.dtype) -> Any:
    """One element of a literal; a float spelled 0x... is its bits."""
    text = text.strip()
    if text.startswith("0x") and dtype.kind not in "iub":
        return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)[()]
    if text in ("true", "false"):
        return text == "true"
    # MLIR writes every float with a point.
    return np.array(float(text)).astype(dtype)[()] if "." in text else np.array(int(text)).astype(dtype)


def parameter_text(attr: ir.Attribute | None) -> str:
    """An attribute as MLIR text for a record; a long tensor literal shortened to its type."""
    if attr is None:
        return "dense<...>"
    if isinstance(attr, ir.DenseElementsAttr) and not attr.is_splat and len(attr) > 32:
        return f"dense<...> : {attr.type}"
    return str(attr)
