"""Attributes of a netlist's ops: which decide values, which decide time, and which no kernel here has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.compiler.errors import CompilerInputError

VALUES = frozenset(
    {
        "approximate_mode",
        "vector",
        "dim",
        "type",
        "fused_op_id",
        "relu_en",
        "relu_threshold",
        "relu_mode",
        "bias",
        "slope",
        "exp",
        "identity",
        "elements",
        "t_stream",
        "windows",
        "rows",
        "slices",
        "sfpu_op",
        "stacked",
        "zero_point",
        "granularity",
        "k",
        "sort",
        "kreduce",
        "num_indices",
    }
)
"""Attributes that the graph of a netlist is made from."""
TIME_ONLY = frozenset(
    {
        "m_k",
        "u_kt",
        "min_buffer_input",
        "single_tile",
        "kernel_broadcast",
        "kernel_broadcast_per_t",
        "l1_acc",
        "sfpu_execution_thread",
        "num_index_tiles",
        "num_sparse_tiles",
        "num_columns",
        "sparse_tile_ptr_bits",
        "sparse_ublock_idx_bits",
        "indices_len",
        "fracture_factor",
        "starting_row",
        "act_t",
        "num_nz_strips",
    }
)
"""Attributes that decide blocks, buffers and threads; u_kt is kept with the op's block."""
OFF: Mapping[str, tuple[Any, ...]] = {
    "accumulate": (False,),
    "z": (1,),
    "requant": (False,),
    "dequant": (False,),
    "srnd_fpu_en": (False,),
    "stoch_rnd_mode": ("none",),
    "sfpu_op": ("invalid", "gelu"),
    "kreduce": (False, True),
    "sort": ("max", "argmax"),
    "granularity": ("t", "ublock"),
}
"""Attribute -> its values that change nothing, or that a kernel has; another value is refused."""

CHOICES: Mapping[str, tuple[str, ...]] = {"vector": ("r", "c", "rc"), "type": ("sum", "max", "mean")}
"""Attribute -> the words that it may have; `type` is that of a reduction."""

OF_OPS: Mapping[str, tuple[Any, ...]] = {"bias": (False,), "sfpu_op": ("invalid",), "identity": (False,)}
"""Attributes that a step of a fused op has not -> their values that change nothing."""

KINDS = {"datacopy": "nop", "tilizer": "nop"}
"""An op of the back end that computes what another one does -> that one."""
SCALARS = {"lrelu": "slope", "power": "exp"}
"""Op that takes a number -> the attribute that has it."""


def kind_of(kind: str) -> str:
    """Returns the type under which the graph has an op of a netlist."""
    return KINDS.get(kind, kind)


def scalar_of(where: str, kind: str, attributes: Mapping[str, Any]) -> float | None:
    """Returns the number that an op takes as an attribute; None if it takes none. Raises CompilerInputError."""
    if kind not in SCALARS:
        return None
    value = attributes.get(SCALARS[kind])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CompilerInputError(f"{where}.attributes.{SCALARS[kind]}: expected a number, got {value!r}")
    return float(value)


def check_attributes(where: str, kind: str, attributes: Mapping[str, Any], step: bool = False) -> None:
    """Raises CompilerInputError for an attribute that would change the result and that no kernel here has.

    `step`: of a step of a fused op, whose products have no bias, for one.
    """
    for name, value in attributes.items():
        if kind == "reduce" and name == "z":
            continue  # how many matrices a maximum along z makes one
        if kind == "matmul" and not step and _of_a_product(name, value, attributes):
            continue
        if step and name in OF_OPS and value not in OF_OPS[name]:
            expected = " or ".join(str(known) for known in OF_OPS[name])
            raise CompilerInputError(f"{where}.attributes.{name}: expected {expected} inside a fused op, got {value!r}")
        if kind == "splice" and name.startswith("input") and name.removeprefix("input").isdecimal():
            continue
        if name in CHOICES and value not in CHOICES[name]:
            raise CompilerInputError(f"{where}.attributes.{name}: expected {' or '.join(CHOICES[name])}, got {value!r}")
        if name in OFF:
            if value not in OFF[name]:
                expected = " or ".join(str(known) for known in OFF[name])
                raise CompilerInputError(f"{where}.attributes.{name}: expected {expected}, got {value!r}")
        elif name not in VALUES and name not in TIME_ONLY:
            raise CompilerInputError(
                f"{where}.attributes: expected an attribute that a kernel of the simulator has, got {name}: {value!r}"
            )


def _of_a_product(name: str, value: Any, attributes: Mapping[str, Any]) -> bool:
    """Whether an attribute is one that products alone have: a sum over `z` matrices, a change of scale."""
    if name == "z":
        return bool(attributes.get("accumulate"))
    return name in ("accumulate", "requant", "dequant") and isinstance(value, bool)


def relu_of(where: str, attributes: Mapping[str, Any]) -> tuple[str, float]:
    """Returns mode and threshold of the packer's relu. Raises CompilerInputError for one that makes no sense."""
    if not attributes.get("relu_en"):
        return "min", 0.0
    mode, threshold = str(attributes.get("relu_mode", "min")), attributes.get("relu_threshold", 0)
    if mode not in ("min", "max"):
        raise CompilerInputError(f"{where}.attributes.relu_mode: expected min or max, got {mode!r}")
    try:
        return mode, float(threshold)
    except (TypeError, ValueError) as error:
        raise CompilerInputError(f"{where}.attributes.relu_threshold: expected a number, got {threshold!r}") from error


def number_of(where: str, attributes: Mapping[str, Any], name: str, least: int = 0, default: int = 0) -> int:
    """Returns a whole number. Raises CompilerInputError if it is none, or below `least`."""
    value = attributes.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CompilerInputError(f"{where}.attributes.{name}: expected a whole number from {least}, got {value!r}")
    return value


def zero_point_of(where: str, attributes: Mapping[str, Any]) -> float:
    """Returns the zero point of a quantization; 0 if it has none. Raises CompilerInputError if it is no number."""
    value = attributes.get("zero_point", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CompilerInputError(f"{where}.attributes.zero_point: expected a number, got {value!r}")
    return float(value)
