"""Canonical text of attributes and types: walked field by field, floats as bits, nothing that MLIR printed.

Printed MLIR changes between versions and spells one value in several ways; these tokens are what
`opscope.harness.prepare.identity` hashes. Only element type names (`f32`, `bf16`) and attributes of dialects without
bindings fall back on their text.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from opscope.base.stablehlo.attribute_fields import DIMENSIONS
from opscope.harness.prepare.mlir.values import dense_array, is_splat

Resolve = Callable[[str], str]
"""Symbol name -> what stands for it (a digest of the function's structure), so that names do not matter."""

_STRUCTS: tuple[tuple[type, tuple[str, ...]], ...] = (
    *((getattr(stablehlo, name), fields) for name, fields in DIMENSIONS.items()),
    (stablehlo.OutputOperandAlias, ("output_tuple_indices", "operand_index", "operand_tuple_indices")),
    (stablehlo.ResultAccuracyAttr, ("atol", "rtol", "ulps", "mode")),
    (
        stablehlo.DotAlgorithm,
        (
            "lhs_precision_type",
            "rhs_precision_type",
            "accumulation_type",
            "lhs_component_count",
            "rhs_component_count",
            "num_primitive_operations",
            "allow_imprecise_accumulation",
        ),
    ),
    (stablehlo.ComparisonDirectionAttr, ("value",)),
    (stablehlo.ComparisonTypeAttr, ("value",)),
    (stablehlo.PrecisionAttr, ("value",)),
    (stablehlo.FftTypeAttr, ("value",)),
    (stablehlo.TransposeAttr, ("value",)),
    (stablehlo.RngDistributionAttr, ("value",)),
    (stablehlo.RngAlgorithmAttr, ("value",)),
)
"""StableHLO's own attributes: binding class and the fields that make its value."""

_ARRAYS = (
    (ir.DenseBoolArrayAttr, "b"),
    (ir.DenseI8ArrayAttr, "i8"),
    (ir.DenseI16ArrayAttr, "i16"),
    (ir.DenseI32ArrayAttr, "i32"),
    (ir.DenseI64ArrayAttr, "i64"),
    (ir.DenseF32ArrayAttr, "f32"),
    (ir.DenseF64ArrayAttr, "f64"),
)


def float_bits(value: float) -> str:
    """A float as the 16 hex digits of its double: every narrower format widens to it exactly."""
    return struct.pack(">d", value).hex()


def array_token(array: np.ndarray) -> str:
    """A constant's value: the bits of its one element where all are equal, else a digest of all."""
    if is_splat(array):
        return f"splat:{array.reshape(-1)[:1].tobytes().hex()}"
    return f"dense:{hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]}"


def type_token(type_: ir.Type) -> str:
    """`f32[2,3]`; with an encoding `f32[2,?]#...`; a function type `(a,b)->(c)`; other types as their text."""
    if isinstance(type_, ir.RankedTensorType):
        dims = (("?" if type_.is_dynamic_dim(i) else str(type_.get_dim_size(i))) for i in range(type_.rank))
        encoding = type_.encoding
        return f"{type_.element_type}[{','.join(dims)}]" + (f"#{encoding}" if encoding is not None else "")
    if isinstance(type_, ir.FunctionType):
        return f"({','.join(map(type_token, type_.inputs))})->({','.join(map(type_token, type_.results))})"
    return str(type_)


def attribute_token(attr: ir.Attribute, resolve: Resolve) -> str:
    """The canonical text of `attr`; symbols in it are what `resolve` makes of them."""
    if isinstance(attr, ir.BoolAttr):
        return f"b{int(attr.value)}"
    if isinstance(attr, ir.IntegerAttr):
        return f"{attr.value}:{attr.type}"
    if isinstance(attr, ir.FloatAttr):
        return f"{float_bits(attr.value)}:{attr.type}"
    if isinstance(attr, ir.StringAttr):
        return repr(attr.value_bytes)
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return f"@{resolve(attr.value)}"
    if isinstance(attr, ir.SymbolRefAttr):
        return "@" + "::".join(resolve(part) for part in attr.value)
    if isinstance(attr, ir.TypeAttr):
        return type_token(attr.value)
    if isinstance(attr, ir.ArrayAttr):
        return f"[{','.join(attribute_token(part, resolve) for part in attr)}]"
    if isinstance(attr, ir.DictAttr):
        pairs = sorted((attr[i].name, attr[i].attr) for i in range(len(attr)))
        return f"{{{','.join(f'{name}={attribute_token(value, resolve)}' for name, value in pairs)}}}"
    if isinstance(attr, ir.UnitAttr):
        return "unit"
    for kind, name in _ARRAYS:
        if isinstance(attr, kind):
            parts = (float_bits(x) if name[0] == "f" else str(int(x)) for x in attr)
            return f"{name}<{','.join(parts)}>"
    if isinstance(attr, ir.DenseElementsAttr):
        array = dense_array(attr)
        if array is not None:
            return f"{array_token(array)}:{type_token(attr.type)}"
    if stablehlo.ChannelHandle.isinstance(attr):
        channel = stablehlo.ChannelHandle(attr)  # its number tells instances apart; that it is positive has meaning
        return f"ChannelHandle<{int(channel.handle > 0)};{channel.channel_type}>"
    for kind, fields in _STRUCTS:
        if kind.isinstance(attr):
            return f"{kind.__name__}<{';'.join(_field(getattr(kind(attr), field)) for field in fields)}>"
    return "text:" + re.sub(r"@([\w.$-]+)", lambda match: f"@{resolve(match[1])}", str(attr))


def _field(value: object) -> str:
    """One field of a StableHLO attribute: an integer, a float, a word or a list of integers."""
    if isinstance(value, float):
        return float_bits(value)
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
