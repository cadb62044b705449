"""The one table of tolerances, keyed by what the requested target computes in.

Start values are two to four times the error that a NumPy model of the hardware's operand masks gives at an inner size
of 2304 (tenstorrent/tt-isa-documentation, WormholeB0, MVMUL and UNPACR). A change needs a measurement in
docs/measurements.md and a new VERSION, which is part of every cached result's key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backends.base import Target
from harness.kinds import DATA_MOVEMENT
from harness.records import TensorDesc

VERSION = 1
REFERENCE_INNER = 2304
"""Inner size K that the start values hold for; above it they grow with sqrt(K / 2304)."""
DEFAULT_PCC = 0.99


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from its golden."""

    name: str
    """What the record names."""
    relative_l2: float
    """Largest ||got - golden|| / ||golden||; also the largest |got| where the whole golden is zero."""
    pcc: float = DEFAULT_PCC
    exact: bool = False
    block: bool = False
    """The format shares an exponent among 16 datums: small errors are relative to the block's largest value."""
    saturates_at: float | None = None
    """Finite magnitude that stands for infinity where the format has none."""

    @property
    def median(self) -> float:
        """Largest median of the elements' relative errors: what one outlier cannot hide."""
        return min((4 if self.block else 10) * self.relative_l2, 0.5)


_LARGE = 2.0**127
_ROWS = (
    Tolerance("exact", 0.0, 1.0, exact=True),
    Tolerance("Float64", 1e-10, 0.99999),
    Tolerance("Float32", 1e-5, 0.99999),
    Tolerance("Float16_b", 6e-3, 0.999),
    Tolerance("Float16", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Bfp8", 3e-2, block=True, saturates_at=_LARGE),
    Tolerance("Bfp4", 0.35, 0.96, block=True, saturates_at=_LARGE),
    Tolerance("Bfp2", 0.7, 0.7, block=True, saturates_at=_LARGE),
    Tolerance("Float8", 0.1, 0.99),
    Tolerance("Float32 matrix HiFi4", 4e-3, 0.9999),
    Tolerance("Float32 matrix HiFi3", 4e-3, 0.9999),
    Tolerance("Float32 matrix HiFi2", 2e-2),
    Tolerance("Float32 matrix LoFi", 9e-2),
    Tolerance("Float16_b matrix HiFi4", 6e-3, 0.999),
    Tolerance("Float16_b matrix HiFi3", 6e-3, 0.999),
    Tolerance("Float16_b matrix HiFi2", 1.5e-2),
    Tolerance("Float16_b matrix LoFi", 8e-2),
    Tolerance("Float16 matrix HiFi4", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Float16 matrix HiFi3", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Float16 matrix HiFi2", 1.5e-2, saturates_at=65504.0),
    Tolerance("Float16 matrix LoFi", 8e-2, saturates_at=65504.0),
)
TABLE: Mapping[str, Tolerance] = {row.name: row for row in _ROWS}

MATRIX_KINDS = frozenset({"matmul", "conv", "reduce", "pool", "norm", "linalg", "control", "custom", "other"})
"""Kinds that may use the matrix unit (sums do; region ops and unknown ones may hold anything)."""
SUMMING_KINDS = frozenset({"matmul", "conv", "reduce", "pool"})

_FORMAT_OF = {"f64": "Float64", "f32": "Float32", "bf16": "Float16_b", "f16": "Float16"}
_ROW_OF_FORMAT = {"Tf32": "Float32 matrix HiFi4", "Bfp8_b": "Bfp8", "Bfp4_b": "Bfp4", "Bfp2_b": "Bfp2"}
_LOSSLESS = {"Float32": {"f32", "bf16", "f16"}, "Float16_b": {"bf16"}, "Float16": {"f16"}, "Float64": set(_FORMAT_OF)}


def tolerance(target: Target, kind: str, element_type: str, inner: int = 1) -> Tolerance:
    """The row for one result: of `element_type` (MLIR), of an op of `kind`, summed over `inner` products.

    Integers, booleans and moved data are exact; moved floats only where the target's storage format holds them.
    """
    part = element_type.removeprefix("complex<").removesuffix(">")
    if not part.startswith(("f", "bf")):
        return TABLE["exact"]
    own = _FORMAT_OF.get(part, "Float8")
    stored = target.float_format or own
    if kind in DATA_MOVEMENT and (stored == own or part in _LOSSLESS.get(stored, ())):
        return TABLE["exact"]
    row = _row(target, kind, stored)
    if own != "Float8" and row.relative_l2 < TABLE[own].relative_l2:
        # The result is rounded to the declared type whatever the device computes in.
        row = TABLE[own]
    if kind in SUMMING_KINDS and inner > REFERENCE_INNER:
        factor = math.sqrt(inner / REFERENCE_INNER)
        row = replace(row, name=f"{row.name} K={inner}", relative_l2=row.relative_l2 * factor,
                      pcc=1 - (1 - row.pcc) * factor**2)  # fmt: skip
    return row


def _row(target: Target, kind: str, stored: str) -> Tolerance:
    stored = _ROW_OF_FORMAT.get(stored, stored)
    if target.math_fidelity == "exact" or kind not in MATRIX_KINDS:
        return TABLE[stored]
    matrix = f"{stored} matrix {target.math_fidelity}"
    if stored == "Float32" and target.matrix_format is None:
        return TABLE[stored]
    return TABLE.get(matrix, TABLE[stored])


def inner_size(
    kind: str, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], params: Mapping[str, str]
) -> int:
    """How many values are summed into one element of the result; 1 where nothing is or it cannot be told."""
    if kind not in SUMMING_KINDS or not inputs or not outputs:
        return 1
    sizes = [math.prod(desc.shape) for desc in inputs]
    result = max(1, math.prod(outputs[0].shape))
    if kind in ("reduce",):
        return max(1, sizes[0] // result)
    if kind == "pool":
        return max(1, math.prod(_integers(params.get("window_dimensions", ""))))
    if kind == "conv":
        return max(1, sizes[1] // max(_output_features(outputs[0], inputs[1]), 1))
    # |lhs| |rhs| / |result| = K^2 B for a product of B batches.
    return max(1, math.isqrt(sizes[0] * sizes[1] // result)) if len(sizes) > 1 else 1


def _integers(text: str) -> list[int]:
    """The integers of an attribute as printed, `array<i64: 1, 3, 3, 1>`."""
    inside = text.partition(":")[2] or text
    return [int(word) for word in inside.replace(">", " ").replace(",", " ").split() if word.isdigit()]


def _output_features(result: TensorDesc, kernel: TensorDesc) -> int:
    """A convolution's output features: the largest extent that result and kernel share (layouts are free)."""
    return max((size for size in kernel.shape if size in result.shape), default=1)
