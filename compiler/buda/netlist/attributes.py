"""Attributes of a netlist's ops: which decide values, which decide time, and which no kernel here has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.compiler.errors import CompilerInputError

VALUES = frozenset({
    "approximate_mode", "vector", "dim", "type", "fused_op_id", "relu_en", "relu_threshold", "relu_mode", "bias",
    "slope", "exp", "identity", "elements", "t_stream", "windows", "rows", "slices", "sfpu_op", "stacked",
})  # fmt: skip
"""Attributes that the graph of a netlist is made from."""
TIME_ONLY = frozenset({
    "m_k", "u_kt", "min_buffer_input", "single_tile", "kernel_broadcast", "kernel_broadcast_per_t", "l1_acc",
    "sfpu_execution_thread", "num_index_tiles", "num_sparse_tiles", "num_columns", "sparse_tile_ptr_bits",
    "sparse_ublock_idx_bits", "indices_len", "fracture_factor", "starting_row", "act_t", "num_nz_strips",
})  # fmt: skip
"""Attributes that decide blocks, buffers and threads; u_kt is kept with the op's block."""
OFF: Mapping[str, tuple[Any, ...]] = {
    "accumulate": (False,), "z": (1,), "requant": (False,), "dequant": (False,), "srnd_fpu_en": (False,),
    "stoch_rnd_mode": ("none",), "sfpu_op": ("invalid", "gelu"),
}  # fmt: skip
"""Attribute -> its values that change nothing, or that a kernel has; another value is refused."""

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


def check_attributes(where: str, kind: str, attributes: Mapping[str, Any]) -> None:
    """Raises CompilerInputError for an attribute that would change the result and that no kernel here has."""
    for name, value in attributes.items():
        if kind == "reduce" and name == "z":
            continue  # how many matrices a maximum along z takes, which are all that it has
        if name in OFF:
            if value not in OFF[name]:
                expected = " or ".join(str(known) for known in OFF[name])
                raise CompilerInputError(f"{where}.attributes.{name}: expected {expected}, got {value!r}")
        elif name not in VALUES and name not in TIME_ONLY:
            raise CompilerInputError(
                f"{where}.attributes: expected an attribute that a kernel of the simulator has, got {name}: {value!r}"
            )
    if attributes.get("relu_en") and (
        str(attributes.get("relu_mode", "min")) != "min" or float(attributes.get("relu_threshold", 0)) != 0
    ):
        got = f"mode {attributes.get('relu_mode', 'min')} and threshold {attributes.get('relu_threshold', 0)}"
        raise CompilerInputError(f"{where}.attributes: expected a relu with mode min and threshold 0, got {got}")
