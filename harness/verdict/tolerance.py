"""The one table of tolerances, keyed by what the requested target computes in.

Start values are two to four times the error that a NumPy model of the hardware's operand masks gives at an inner size
of 2304 (tenstorrent/tt-isa-documentation, WormholeB0, MVMUL and UNPACR). A change needs a measurement in
docs/measurements.yaml and a new VERSION, which is part of every cached result's key.

What the table cannot say by kind alone: a reduction whose body only chooses among values (`maximum`, `and`) computes
nothing and is exact, one that multiplies stays out of the matrix unit, and a Float32 function outside that unit is held
to `ULP_MARGIN` times the error bound that its backend states for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opscope.base.number_formats import ELEMENT_TYPES, FORMATS, SIGNIFICAND_BITS
from opscope.base.op_families import DATA_MOVEMENT, TO_THE_LAST_BIT
from opscope.harness.record.records import TensorDesc
from opscope.harness.verdict.target import Target

VERSION = 27
REFERENCE_INNER = 2304
"""Inner size K that the start values hold for; above it they grow with sqrt(K / 2304)."""
DEFAULT_PCC = 0.99


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from its golden."""

    name: str
    """The name of the row, as records hold it."""
    relative_l2: float
    """Largest ||got - golden|| / ||golden||; also the largest |got| where the whole golden is zero."""
    pcc: float = DEFAULT_PCC
    exact: bool = False
    block: bool = False
    """The format shares an exponent among 16 datums: small errors are relative to the block's largest value."""
    by_element: bool = True
    """Whether each element's error comes from its own operands, so that the result must be right without outliers."""
    truncates: bool = False
    """Whether the matrix unit cuts bits of both operands off, as it does with Float32."""
    signed_zeros: bool = False
    """Whether the sign of a zero counts, as where values are only moved."""
    flushed_golden: bool = False
    """Whether a denormal may stand where the golden, which is XLA's, is zero."""
    saturates_at: float | None = None
    """Finite magnitude that stands for infinity where the format has none."""

    @property
    def single(self) -> float:
        """Largest relative error of single elements, of most of them: what one outlier cannot hide."""
        return min(4 * self.relative_l2, 0.5) if self.block else 10 * self.relative_l2


_LARGE = 2.0**127
_ROWS = (
    Tolerance("exact", 0.0, 1.0, exact=True),
    Tolerance("Float64", 1e-10, 0.99999),
    Tolerance("Float32", 1e-5, 0.99999),
    Tolerance("Float16_b", 6e-3, 0.999),
    Tolerance("Float16", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Bfp8", 3e-2, block=True, saturates_at=_LARGE),
    Tolerance("Bfp4", 0.5, 0.94, block=True, saturates_at=_LARGE),
    Tolerance("Bfp2", 0.7, 0.7, block=True, saturates_at=_LARGE),
    # The packer cuts FP8's mantissa: 0.098 of E5M2, 0.051 of E4M3 on normal values.
    Tolerance("Float8", 0.15, 0.99),
    Tolerance("Float32 matrix HiFi4", 4e-3, 0.9999, truncates=True),
    Tolerance("Float32 matrix HiFi3", 4e-3, 0.9999, truncates=True),
    Tolerance("Float32 matrix HiFi2", 2e-2),
    Tolerance("Float32 matrix LoFi", 9e-2),
    # A host whose products of float32 are made in TF32 (NVIDIA's tensor cores): 7.8e-4 with both operands cut to ten
    # fraction bits at an inner size of 2304, 2.9e-4 with both rounded.
    Tolerance("Float32 matrix TF32", 2e-3, 0.9999),
    Tolerance("Float16_b matrix HiFi4", 6e-3, 0.999),
    Tolerance("Float16_b matrix HiFi3", 6e-3, 0.999),
    Tolerance("Float16_b matrix HiFi2", 1.5e-2),
    Tolerance("Float16_b matrix LoFi", 8e-2),
    # Each 16 products are rounded to bfloat16 when they are added: 0.020 at an inner size of 2304.
    Tolerance("Float16_b matrix HiFi4, 16-bit Dst", 4e-2, 0.999),
    Tolerance("Float16_b matrix HiFi3, 16-bit Dst", 4e-2, 0.999),
    Tolerance("Float16_b matrix HiFi2, 16-bit Dst", 4e-2, 0.999),
    *(Tolerance(f"Float32 matrix HiFi{n}, 16-bit Dst", 4e-2, 0.999, truncates=True) for n in (4, 3, 2)),
    Tolerance("Float16 matrix HiFi4", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Float16 matrix HiFi3", 6e-3, 0.999, saturates_at=65504.0),
    Tolerance("Float16 matrix HiFi2", 1.5e-2, saturates_at=65504.0),
    Tolerance("Float16 matrix LoFi", 8e-2, saturates_at=65504.0),
)
TABLE: Mapping[str, Tolerance] = {row.name: row for row in _ROWS}
_OF_IEEE = replace(TABLE["exact"], flushed_golden=True)
_TO_THE_SIGN = replace(TABLE["exact"], signed_zeros=True)

MATRIX_KINDS = frozenset(
    {"whole_model", "matmul", "conv", "reduce", "pool", "norm", "linalg", "control", "custom", "other"}
)
"""Kinds that may use the matrix unit (sums do; region ops and unknown ones may hold anything)."""
PRODUCTS = frozenset({"whole_model", "matmul", "conv", "control"})
"""Kinds that may hold products, which mixed precision narrows."""
SUMMING_KINDS = frozenset({"matmul", "conv", "reduce", "pool"})

WHOLE_KINDS = MATRIX_KINDS - SUMMING_KINDS
"""Kinds whose elements pass through values of other elements: the largest decide how exact the smallest are."""
REDUCING_KINDS = frozenset({"reduce", "pool", "scatter"})
"""Kinds that combine values by a body of their own."""
CHOOSING = frozenset(
    f"stablehlo.{name}" for name in ("maximum", "minimum", "and", "or", "xor", "not", "compare", "select")
)
"""Ops that hand on one of their operands or its bits: a body of these alone makes no new float."""
SUM_BODY = "stablehlo.add"
MULTIPLYING = frozenset({"stablehlo.multiply", "chlo.square"})
"""Elementwise ops that the matrix unit computes on floats narrower than 32 bits, in the phases of the fidelity."""
OF_BITS = frozenset({"stablehlo.abs", "stablehlo.imag", "stablehlo.negate", "stablehlo.real"})
"""Elementwise ops that change no bit but the sign's; of complex numbers those that hand on a part."""
BY_VECTOR_UNIT = frozenset({"stablehlo.dynamic_update_slice", "stablehlo.select", *OF_BITS})
"""Ops whose values a board's vector unit moves, by choosing between two."""
WHOLE_MARGIN = 5
"""The errors of layers add up: of single ops at most 1.3e-3, of whole models 1.1e-2 (docs/measurements.yaml)."""
ULP_MARGIN = 4
"""Float32 functions: so many times the bound of the kernel's error, since the golden has an error of its own."""
FORMULA_MARGIN = 16
"""The same for chlo ops, which XLA knows as formulas: its erf_inv is 16 units off, its cosh 12."""
_FLOAT32_ULP = 2.0**-23

_FORMAT_OF = {name: ELEMENT_TYPES[name].held_in.name for name in SIGNIFICAND_BITS}
ROW_OF_FORMAT = {row.name: row.rounds_as for row in FORMATS.values() if row.rounds_as != row.name} | {
    "Tf32": "Float32 matrix HiFi4"
}
LOSSLESS = {
    name: {kind for kind, own in _FORMAT_OF.items() if name in (own, "Float64") or FORMATS[name].holds(FORMATS[own])}
    for name in _FORMAT_OF.values()
}
"""Format -> types of which it holds every number."""


def tolerance(
    target: Target,
    kind: str,
    element_type: str,
    inner: int = 1,
    *,
    op_name: str = "",
    body: str | None = None,
    ulp: float | None = None,
) -> Tolerance:
    """The row for one result: of `element_type` (MLIR), of an op of `kind`, summed over `inner` products.

    `op_name` matters where one op of a kind is computed elsewhere than the others. `body` is what a reduction combines
    with (see `opscope.harness.prepare.split.body_text`; None: it is not known), `ulp` the bound of the device
    function's error in float32's units in the last place (None: it states none).
    Integers, booleans and values that are only moved or chosen are exact; floats only where the target's storage
    format holds them.
    """
    if (exact := _exact_row(target, kind, element_type, op_name, body, ulp)) is not None:
        return exact
    own, stored = formats_of(target, kind, part_type(element_type))
    row = _row_of(target, kind, own, stored, op_name, body)
    if kind == "whole_model":
        return replace(
            row,
            name=f"{row.name}, whole model",
            relative_l2=WHOLE_MARGIN * row.relative_l2,
            pcc=1 - (1 - row.pcc) * WHOLE_MARGIN,
            by_element=False,
        )
    if kind in WHOLE_KINDS:
        return replace(row, by_element=False)
    if ulp is not None and own == stored == "Float32" and kind not in SUMMING_KINDS:
        if ulp == 0:
            return TABLE["exact"]
        margin = FORMULA_MARGIN if op_name.startswith("chlo.") else ULP_MARGIN
        return replace(row, name=f"{row.name} {ulp:g} ulp", relative_l2=margin * ulp * _FLOAT32_ULP)
    if kind in SUMMING_KINDS and inner > REFERENCE_INNER:
        factor = math.sqrt(inner / REFERENCE_INNER)
        row = replace(
            row, name=f"{row.name} K={inner}", relative_l2=row.relative_l2 * factor, pcc=1 - (1 - row.pcc) * factor**2
        )
    return row


def _exact_row(
    target: Target, kind: str, element_type: str, op_name: str, body: str | None, ulp: float | None
) -> Tolerance | None:
    """The row of a result that the target has no choice of: the same bits, or the same but for signs of zeros and
    denormals; None of another."""
    part = part_type(element_type)
    if not part.startswith(("f", "bf")):
        return TABLE["exact"]
    own, stored = formats_of(target, kind, part)
    of_ieee = target.math_fidelity == "exact" and stored == own and element_type in ("f32", "f64")
    if op_name in TO_THE_LAST_BIT and of_ieee:
        return _OF_IEEE if own == "Float32" else TABLE["exact"]
    computes = not (kind in DATA_MOVEMENT or (kind in REDUCING_KINDS and chooses(kind, body)))
    moved = not computes and (stored == own or part in LOSSLESS.get(stored, ()))
    of_bits = op_name in OF_BITS and part == element_type and stored == own
    if moved or (of_bits and (ulp == 0 or target.math_fidelity == "exact")):
        return _TO_THE_SIGN if _keeps_zeros(target, kind, own, op_name) else TABLE["exact"]
    return TABLE["exact"] if op_name == "chlo.next_after" and stored == own else None


def _row_of(target: Target, kind: str, own: str, stored: str, op_name: str, body: str | None) -> Tolerance:
    """The table's row of what computes a result, and of what it is rounded to."""
    if in_tf32(target, kind, stored):
        row = TABLE["Float32 matrix TF32"]
    elif _sums(kind, body) and not on_vector_unit(target, kind, stored):
        row = _matrix_row(target, stored, "16-bit Dst" if target.narrow_dst else "")
    elif op_name in MULTIPLYING and stored != "Float32":
        row = _matrix_row(target, stored)
    else:
        row = TABLE[ROW_OF_FORMAT.get(stored, stored)]
    # The result is rounded to the declared type whatever the device computes in.
    return TABLE[own] if own != "Float8" and row.relative_l2 < TABLE[own].relative_l2 else row


def _keeps_zeros(target: Target, kind: str, own: str, op_name: str) -> bool:
    """Whether an op that computes nothing keeps the sign of zeros: on a host, and on a board whose moves do.

    Of equal numbers `top_k` takes any. What a board's vector unit moves it packs: into 16 bits that makes -0 a 0.
    """
    if kind not in (*DATA_MOVEMENT, "eltwise") or op_name == "chlo.top_k":
        return False
    if target.math_fidelity == "exact":
        return True
    return target.signed_zeros and (own == "Float32" or op_name not in BY_VECTOR_UNIT)


def in_tf32(target: Target, kind: str, stored: str) -> bool:
    """Whether a host makes an op's products in TF32. What it only adds up stays in float32, unlike on a board."""
    return target.tf32_products and stored == "Float32" and kind in PRODUCTS


def on_vector_unit(target: Target, kind: str, stored: str) -> bool:
    """Whether a board adds up in float32 on the vector unit: whole dims of float32, where its Dst has 32 bits."""
    return kind == "reduce" and stored == "Float32" and target.matrix_format is not None and not target.narrow_dst


def own_format(part: str) -> str:
    """The format of a floating element type."""
    return _FORMAT_OF.get(part, "Float8")


def part_type(element_type: str) -> str:
    """The element type of a number's parts: of a complex one that of the real."""
    return element_type.removeprefix("complex<").removesuffix(">")


def formats_of(target: Target, kind: str, part: str) -> tuple[str, str]:
    """The format of a floating element type, and the one in which the requested target holds it for an op of `kind`."""
    own = own_format(part)
    stored = target.float_format or own
    if own == "Float64" and target.beside_card:
        stored = own
    if target.product_format is not None and kind in PRODUCTS:
        stored = max(stored, target.product_format, key=lambda name: TABLE[ROW_OF_FORMAT.get(name, name)].relative_l2)
    return own, stored


def chooses(kind: str, body: str | None) -> bool:
    """Whether a reduction's body only chooses among values; an empty one does (a scatter that overwrites)."""
    if body is None:
        return False
    names = [name for name in re.split(r"[,;] ?", body) if name]
    return all(name in CHOOSING for name in names) if names else kind == "scatter"


def _sums(kind: str, body: str | None) -> bool:
    """Whether the matrix unit may add up the result: of the reductions only sums are products with ones."""
    return kind in MATRIX_KINDS and not (kind in REDUCING_KINDS and body is not None and SUM_BODY not in body)


def _matrix_row(target: Target, stored: str, accumulator: str = "") -> Tolerance:
    """The row of `stored` in the matrix unit at the target's fidelity; where there is none, the format's own."""
    stored = ROW_OF_FORMAT.get(stored, stored)
    if stored == "Float32" and target.matrix_format is None:
        return TABLE[stored]
    matrix = f"{stored} matrix {target.math_fidelity}"
    return TABLE.get(f"{matrix}, {accumulator}") or TABLE.get(matrix) or TABLE[stored]


def inner_size(
    kind: str, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], params: Mapping[str, str]
) -> int:
    """How many values are summed into one element of the result; 1 if nothing is summed or the number is unknown."""
    if kind not in SUMMING_KINDS or not inputs or not outputs:
        return 1
    sizes = [math.prod(desc.shape) for desc in inputs]
    if kind == "reduce":
        return max(1, sizes[0] // max(1, math.prod(outputs[0].shape)))
    if kind == "pool":
        return max(1, math.prod(_integers(params.get("window_dimensions", ""))))
    if len(inputs) < 2:  # the other factor is a constant of the op
        return 1
    if kind == "conv":
        return max(1, sizes[1] // max(_output_features(inputs[1], params.get("dimension_numbers", "")), 1))
    shape = inputs[0].shape
    if "dot_dimension_numbers" not in params:  # `dot` sums over the last
        return max(1, *shape[-1:])
    match = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]", params["dot_dimension_numbers"])
    return max(1, math.prod(shape[dim] for dim in _integers(match[1] if match else "")))


def _integers(text: str) -> list[int]:
    """The integers of an attribute as printed, `array<i64: 1, 3, 3, 1>`."""
    inside = text.partition(":")[2] or text
    return [int(word) for word in inside.replace(">", " ").replace(",", " ").split() if word.isdigit()]


def _output_features(kernel: TensorDesc, numbers: str) -> int:
    """A convolution's output features, from its dimension numbers, `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
    match = re.search(r"x\[([^\]]*)\]->", numbers)
    letters = match[1].split(", ") if match else []
    return kernel.shape[letters.index("o")] if "o" in letters else kernel.shape[-1]
