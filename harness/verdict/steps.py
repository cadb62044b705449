"""What each step of the requested target costs: the parameters of the error model (docs/verdicts.md).

A number is stored, perhaps cut where the matrix unit reads it, computed with, added up and packed. Each step rounds by
its format's unit roundoff. `steps_of` says which steps a result goes through and what they cost; `scores.py` multiplies
the cost by the size of what was rounded.

Sources: tenstorrent/tt-isa-documentation, WormholeB0 (SrcASrcB.md, MVMUL.md, ELWMUL.md, GAPOOL.md: which bits a phase
reads; Packers/FormatConversion.md: how results are rounded; SFPSTORE.md: that a store into 16 bits cuts);
FloatBitPatterns.md for the formats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from opscope.base.number_formats import FORMATS
from opscope.base.op_families import DATA_MOVEMENT, MODULUS, op_family
from opscope.harness.prepare.operand_sizes import sums_terms
from opscope.harness.verdict import tolerance as table
from opscope.harness.verdict.target import Target

FRACTION_BITS = {
    row.rounds_as: row.fraction_bits
    for row in sorted(FORMATS.values(), key=lambda row: -row.mantissa_bits)
    if row.mantissa_bits
}
"""Fraction bits behind the leading one; of a block format behind that of the block's largest value. Of 8-bit floats
the fewest."""
TRUNCATED_BLOCKS = frozenset(row.rounds_as for row in FORMATS.values() if row.kind == "block" and row.bits < 8)
"""Block formats that are cut from Bfp8 instead of rounded."""
BLOCKS = frozenset(row.rounds_as for row in FORMATS.values() if row.kind == "block")
DST_FORMATS = frozenset({"Float16_b", "Float16"})
"""Formats that Dst has itself: what the vector unit stores there is packed as it is."""

NARROW = re.compile(r"f[468]E\dM(\d)\w*")
"""An element type of 8 bits or fewer, with its fraction bits."""

SRC_B, SRC_A = {"high": 6, "full": 10}, {"high": 4, "full": 9}
"""Fraction bits that the first phase reads of an operand, and that all phases together read."""
KEPT = {
    "HiFi4": (SRC_B["full"], SRC_A["full"]),
    "HiFi3": (SRC_B["full"], SRC_A["full"]),
    "HiFi2": (SRC_B["high"], SRC_A["full"]),
    "HiFi2_B": (SRC_B["full"], SRC_A["high"]),
    "LoFi": (SRC_B["high"], SRC_A["high"]),
}
"""Fidelity -> fraction bits of both operands that the product is made of."""
HIFI3_LEAVES = 2.0 ** -(SRC_B["high"] + SRC_A["high"])
"""HiFi3 leaves out the product of both operands' low bits."""
ALIGNED = 2.0**-11
"""Standard deviation of what a product loses that is rounded to 10 bits below the largest of eight, over a sum's size,
with a margin of some 1.4 (a group's largest of normal products is 2.5 of them; a rounding is 0.29 of its unit)."""
DST_DEPTH = 16
"""Products that are added before a 16-bit Dst rounds."""
RANDOM = 0.5
"""Standard deviation of a rounding or a truncation over the most it can be, bias included: of mantissas spread as 1/m
it is 0.42 (rounding: sqrt(E[1/m^2] / 3); truncation the same of twice the half unit)."""
FLOAT32 = 2.0**-24
FAST = 0.3
"""Mean error, in units in the last place, of what fast modes of a host get a unit wrong. One unit too large everywhere
is 0.72."""
NEAREST = 0.05
"""The same of a kernel that states half a unit: ttnn's multiply is a unit off in 0.6 % of its results (as recorded)."""
SCATTERED = 4
"""Half units that a scatter in float32 or wider loses at each update, golden and result in orders of their own."""
FLOAT64_FUNCTION = table.TABLE["Float32"].relative_l2 * 2.0**-29
"""Bound of a host's function of f64: as many units in the last place as one of float32 may be off, 84 of them."""


@dataclass(frozen=True)
class Steps:
    """What the steps between an op's operands and one of its results cost. All figures are relative."""

    error_model: str
    """How errors add up: `bound` (each element by itself: no error is larger), `sum` (as the root of many
    independent ones), `part` (through values that are not seen: relative to what lies around)."""
    stored: float = 0.0
    """Most that an operand loses on its way into storage; of a block format relative to its block's largest value."""
    cut: tuple[float, float] = (0.0, 0.0)
    """Most that the matrix unit cuts off either operand."""
    left_out: float = 0.0
    """Most that a product loses because a phase is left out."""
    function: float = 0.0
    """Bound of the function's own error, the golden's included."""
    added: float = 0.0
    """Standard deviation of all roundings while terms are added up, relative to their root sum of squares."""
    joined: float = 0.0
    """Most that an element loses each time a scatter adds an update to it: it lies in memory in between."""
    packed: float = 0.0
    """Most that packing changes the result; of a block format relative to its block's largest value."""
    declared: float = 0.0
    """Most that rounding to the declared type changes the golden, and the result once more."""
    block: bool = False
    """Whether `stored` and `packed` are relative to the largest of 16 values."""
    short: float = 0.0
    """Half a unit more that a result loses where it is cut instead of rounded: by the vector unit's store into 16 bits,
    by the packer to FP8. It is also how much too short such results are on the mean."""
    reads: int | None = None
    """Fraction bits that the matrix unit reads of each term of a sum, where it reads fewer than there are; None of
    products, whose operands share no fixed order."""
    between: float = 0.0
    """Most that a value is off which an elementwise op hands from one of its steps to the next, operands included."""
    packer: bool = False
    """Whether the device's packer rounds the result, which takes ties away from zero; a host takes them to even."""
    reduced: float = 0.0
    """Most by which the operand of a periodic function is off once multiples of pi are taken from it; absolute."""
    cancelled: float = 0.0
    """Most by which a formula is off whose terms are larger than its result; absolute."""
    last_place: float = 0.0
    """Unit roundoff of a host's float32 or float64, of what is wrong where it is off on the mean: ops that IEEE 754
    rounds and fast modes get a unit wrong, composites of single elements."""
    leans: float = 0.0
    """Most by which such results may be off on the mean, in units in the last place."""
    resolution: float = 0.0
    """Of a part of a model, most by which values may differ, relative, that one of its steps stores or reads alike."""
    stored_as: str = field(default="", compare=False)
    """The format that operands are stored in, a key of `FRACTION_BITS`."""

    @property
    def cuts(self) -> float:
        """Most that a product loses because its operands are cut."""
        return sum(self.cut) + self.left_out

    def kept(self, lost: float) -> int:
        """How many fraction bits are left of an operand that is cut by so much at most."""
        return round(-math.log2(lost + 2.0 ** -FRACTION_BITS[self.stored_as]))

    @property
    def rounded(self) -> float:
        """Most that rounding to the coarser of the two formats changes a result, once."""
        return max(self.packed, self.declared)

    @property
    def lifted(self) -> float:
        """Most by which packing may lengthen a result: what is cut to a block format was rounded to another before."""
        return unit("Bfp8") if self.stored_as in TRUNCATED_BLOCKS else self.packed

    @property
    def result(self) -> float:
        """Most by which a result and its golden differ because of how both are packed and rounded.

        A golden that was rounded to the same numbers is at most one unit from what is cut to them, as it is from what
        is rounded.
        """
        cut = self.short if self.declared < self.packed and not self.block else 0.0
        return self.rounded + self.declared + cut

    @property
    def in_float16(self) -> float:
        """Bound of an elementwise function's own error where its steps are rounded to float16 (XLA's in 8 bits)."""
        return self.function + GOLDEN_HALVES * unit("Float16")

    @property
    def shared(self) -> bool:
        """Whether elements of the result share errors: those of operands that several of them are made from."""
        return self.cuts > 0 or self.stored > 0

    @property
    def counts_ties(self) -> bool:
        """Whether a packer rounds results to 16 bits, once, so that it can be counted which of them were real ties. A
        scatter's are packed at every update."""
        if not self.packer or not self.rounded or self.block or self.joined:
            return False
        return not self.stored or (self.stored_as in DST_FORMATS and not self.declared and not self.short)

    @property
    def by_operands(self) -> bool:
        """Whether the scale has a part that only an evaluation of the op on other operands tells."""
        return self.error_model != "sum" or self.joined > 0 or (self.block and self.stored > 0)

    @property
    def operand(self) -> float:
        """Standard deviation of a product's relative error from cutting and storing its operands."""
        storing = 0.0 if self.block else self.stored
        return RANDOM * math.hypot(*self.cut, self.left_out, storing, storing)


def unit(name: str) -> float:
    """Unit roundoff of a format: half the distance of its numbers, relative; of a cut format the whole."""
    return 2.0 ** -(FRACTION_BITS[name] + (0 if name in TRUNCATED_BLOCKS else 1))


def steps_of(
    target: Target,
    kind: str,
    element_type: str,
    inner: int = 1,
    *,
    op_name: str = "",
    body: str | None = None,
    ulp: float | None = None,
    operand_types: Sequence[str] = (),
) -> Steps | None:
    """The steps of one result, by the arguments of `tolerance.tolerance`; None if it is held to exact values.

    `operand_types` are those of all operands (MLIR), where they are known: of bits that an operand does not have the
    matrix unit cuts none, whatever the type of the result.
    """
    row = table.tolerance(target, kind, element_type, inner, op_name=op_name, body=body, ulp=ulp)
    if row.exact:
        return None
    kept = _Kept.of(target, kind, table.part_type(element_type))
    if kind in DATA_MOVEMENT or (kind in table.REDUCING_KINDS and table.chooses(kind, body)):
        return Steps("bound", **kept.common)
    if sums_terms(op_name, body):
        return _of_sum(kept, inner, operand_types)
    if kind in ("reduce", "pool") and body == "stablehlo.multiply":
        terms = 4 * kept.floor
        return Steps("sum", added=terms * math.sqrt(inner), function=terms + kept.dst, **kept.common)
    if kind == "eltwise" or op_name == "stablehlo.batch_norm_inference":
        return _of_elements(kept, element_type, op_name, ulp)
    tf32 = table.in_tf32(target, kind, kept.stored_as)
    read = unit("Tf32") if tf32 else unit("Float16_b") if target.narrow_dst else 0.0
    resolution = 2 * max(unit(kept.stored_as), unit(kept.own), read) + cut_of(target, "matmul", kept.part)
    return Steps("part", function=row.relative_l2, resolution=resolution, **kept.common)


@dataclass(frozen=True)
class _Kept:
    """What a result of a kind of op is computed in and stored as, and what that costs whatever the op is."""

    target: Target
    kind: str
    part: str
    own: str
    """The format of its declared type."""
    stored_as: str

    @classmethod
    def of(cls, target: Target, kind: str, part: str) -> Self:
        own, stored_as = table.formats_of(target, kind, part)
        return cls(target, kind, part, own, table.ROW_OF_FORMAT.get(stored_as, stored_as))

    @property
    def exact(self) -> bool:
        """Whether no unit of a card computes it."""
        return self.target.math_fidelity == "exact"

    @property
    def floor(self) -> float:
        """What a rounding inside the op costs."""
        return unit(self.own) if self.own == self.stored_as == "Float64" else FLOAT32

    @property
    def declared(self) -> float:
        """Unit roundoff of its declared type: of narrow floats, which share a format, of their own digits."""
        digits = NARROW.fullmatch(self.part)
        return unit(self.own) if digits is None else 2.0 ** -(int(digits[1]) + 1)

    @property
    def dst(self) -> float:
        """Values that are packed in blocks leave a Dst of 16 bits, already rounded once."""
        return unit("Float16_b") if self.stored_as in BLOCKS else 0.0

    @property
    def common(self) -> dict[str, Any]:
        """The fields of Steps that follow."""
        own, stored_as = self.own, self.stored_as
        lossless = stored_as == own or self.part in table.LOSSLESS.get(stored_as, ())
        packed = self.declared if stored_as == own and self.target.float_format is None else unit(stored_as)
        return {
            "stored": 0.0 if lossless else unit(stored_as),
            "packed": packed if stored_as != "Float32" or own == "Float64" else 0.0,
            "declared": self.declared if FRACTION_BITS[own] < FRACTION_BITS["Float32"] else 0.0,
            "block": stored_as in BLOCKS,
            "stored_as": stored_as,
            "packer": not self.exact,
            # The packer cuts FP8's mantissa.
            "short": packed if stored_as == "Float8" and not self.exact else 0.0,
        }


def _of_sum(kept: _Kept, inner: int, operand_types: Sequence[str]) -> Steps:
    """The steps of a sum of `inner` terms: what its terms lose before they are added up, and the additions."""
    target, kind, stored_as, floor = kept.target, kept.kind, kept.stored_as, kept.floor
    cut, left_out, added = (0.0, 0.0), 0.0, 2 * floor * math.sqrt(inner)
    bits = min(FRACTION_BITS[stored_as], _operand_bits(operand_types))
    in_registers = stored_as not in ("Float32", "Float64") or (
        stored_as == "Float32"
        and target.matrix_format is not None
        and not table.on_vector_unit(target, kind, stored_as)
    )
    if not kept.exact and in_registers:
        cut = _cut(bits, target.math_fidelity, one=kind not in table.PRODUCTS)
        left_out = HIFI3_LEAVES if target.math_fidelity == "HiFi3" else 0.0
        if target.exact_order:
            added = max(added, ALIGNED)
        if target.narrow_dst:
            added = max(added, RANDOM * unit("Float16_b") * math.sqrt(4 * math.ceil(inner / DST_DEPTH)))
    elif table.in_tf32(target, kind, stored_as):
        lost = 2.0 ** -FRACTION_BITS["Tf32"] if bits > FRACTION_BITS["Tf32"] else 0.0
        cut = lost, lost
    elif target.sums_in_own_type:
        added = max(added, RANDOM * unit(kept.own) * math.sqrt(inner + 1))  # each product and each sum is rounded
    joined = 0.0
    if kind == "scatter":  # over how many updates it sums, only its indices say
        narrow = FRACTION_BITS[stored_as] < FRACTION_BITS["Float32"]
        joined = kept.dst or unit(stored_as) if narrow else SCATTERED * floor
    return Steps(
        "sum",
        cut=cut,
        left_out=left_out,
        reads=KEPT.get(target.math_fidelity, KEPT["HiFi4"])[1] if cut[0] and kind not in table.PRODUCTS else None,
        added=added,
        joined=joined,
        function=2 * floor + kept.dst,
        **kept.common,
    )


def _of_elements(kept: _Kept, element_type: str, op_name: str, ulp: float | None) -> Steps:
    """The steps of a function of single elements: its own error, and what its operands lose on their way to it."""
    target, own, stored_as, floor = kept.target, kept.own, kept.stored_as, kept.floor
    cut, left_out, between, more = (0.0, 0.0), 0.0, floor, kept.common
    if op_name in table.MULTIPLYING and stored_as not in ("Float32", "Float64", "Float16_b") and not kept.exact:
        cut = _cut(FRACTION_BITS[stored_as], target.math_fidelity, one=False)
        left_out = HIFI3_LEAVES if target.math_fidelity == "HiFi3" else 0.0
    if kept.exact and op_name in IEEE_ROUNDED and kept.part == element_type:
        function = table.ULP_MARGIN * min(unit(own), FLOAT32)
        if stored_as == own and own in ("Float32", "Float64"):
            more |= {"last_place": floor, "leans": FAST}
    else:
        # Of a composite the steps are known, and what rounding them costs is evaluated (`meaning.py`).
        alone = ulp is None and op_family(op_name) == kept.kind
        rounds = alone and stored_as != "Float32" and (not kept.exact or target.sums_in_own_type)
        function = _function(own, stored_as, op_name, ulp, rounds, kept.exact) + kept.dst
        if rounds:
            between = function
        elif alone and op_name.startswith("chlo."):  # a formula, of which each step rounds, the golden's too
            between = table.FORMULA_MARGIN * floor
        real = kept.part == element_type
        if op_name in IEEE_ROUNDED and real and ulp is not None and 0 < ulp <= 0.5 and own == stored_as == "Float32":
            more |= {"last_place": floor, "leans": NEAREST}
    if op_name in GOLDEN_IN_STEPS.get(kept.part, ()):
        function += GOLDEN_HALVES * unit(own)
    if target.cuts_result is not None and target.cuts_result(op_name) and (more["block"] or stored_as in DST_FORMATS):
        more["short"] = kept.dst or unit(stored_as)
        function += kept.dst
    return Steps(
        "bound",
        cut=cut,
        left_out=left_out,
        function=function,
        between=between,
        # A host's library takes multiples of pi / 2 away in the op's type, near 0 too: IREE's sine of 0.0045 in float32
        # is 1e-7 off.
        reduced=2 * floor if kept.exact and op_name in PERIODIC else 0.0,
        cancelled=table.FORMULA_MARGIN * floor * FORMULA_TERMS.get(op_name, 0.0),
        **more,
    )


def cut_of(target: Target, kind: str, element_type: str) -> float:
    """Most that terms of a product or a sum lose because a card's matrix unit cuts operands of a type (MLIR), relative;
    0 of a host, and of float32 that the unit does not compute on."""
    own = table.own_format(element_type)
    if target.math_fidelity == "exact" or table.on_vector_unit(target, kind, own):
        return 0.0
    if own == "Float32" and target.matrix_format is None:
        return 0.0
    left_out = HIFI3_LEAVES if target.math_fidelity == "HiFi3" else 0.0
    return sum(_cut(FRACTION_BITS[own], target.math_fidelity, one=kind not in table.PRODUCTS)) + left_out


def _operand_bits(types: Sequence[str]) -> int:
    """Fraction bits of the floats among some element types, of the finest; as many as there may be if none is known."""
    own = [table.own_format(part) for part in map(table.part_type, types) if part.startswith(("f", "bf"))]
    return max((FRACTION_BITS[name] for name in own), default=FRACTION_BITS["Float64"])


def _cut(bits: int, fidelity: str, one: bool) -> tuple[float, float]:
    """Most that either operand of so many fraction bits loses to those that no phase reads; `one`: a sum, whose other
    operand is 1."""
    left, right = KEPT.get(fidelity, KEPT["HiFi4"])
    if one:
        # Sums read one operand: SrcB's along rows, SrcA's along columns.
        left, right = min(left, right), 99
    return max(0.0, 2.0**-left - 2.0**-bits), max(0.0, 2.0**-right - 2.0**-bits)


def _function(own: str, stored_as: str, op_name: str, ulp: float | None, rounds: bool, exact: bool) -> float:
    """Bound of an elementwise function's relative error before packing, with that of XLA's golden; `rounds`: no single
    kernel computes it, and its steps are rounded to the format one by one; `exact`: a host computes it."""
    if own == stored_as == "Float64":
        return FLOAT64_FUNCTION if exact else table.TABLE["Float64"].relative_l2
    if ulp is None:
        steps = SEVERAL_STEPS * unit(stored_as) if rounds else 0.0
        return table.TABLE["Float32"].relative_l2 + steps
    margin = table.FORMULA_MARGIN if op_name.startswith("chlo.") else table.ULP_MARGIN
    return margin * max(ulp, 0.5) * 2 * FLOAT32


IEEE_ROUNDED = {MODULUS} | {
    f"stablehlo.{name}"
    for name in (
        "abs",
        "add",
        "ceil",
        "clamp",
        "divide",
        "floor",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "remainder",
        "round_nearest_afz",
        "round_nearest_even",
        "sign",
        "sqrt",
        "subtract",
    )
}
"""Elementwise ops whose result IEEE 754 says to the last bit: a host has no other, however it computes. Its functions
(exp, tanh) are each library's own approximation, and its sums have an order of their own. A modulus is three."""
FORMULA_TERMS = {"chlo.digamma": 2.0, "chlo.lgamma": 4.0}
"""The largest terms of XLA's formulas, cut to a power of two, where they cancel out: between -5.3 and 5.3 near lgamma's
zeros, at 1 and 2, and 2.1 near digamma's, at 1.46. An H200, whose logarithm is honest, is up to 1.4e-6 off there."""
PERIODIC = frozenset(("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", "chlo.tan"))
GOLDEN_IN_STEPS = {
    "bf16": frozenset(f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh")),
    "f16": frozenset(
        (
            "stablehlo.exponential_minus_one",
            "stablehlo.logistic",
            *(f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh")),
        )
    ),
}
"""Element type -> functions that XLA rounds to that type after each of several steps, in its golden or on a host."""
GOLDEN_HALVES = 3
"""Half units by which such a golden may be farther off than by rounding it once (docs/measurements.yaml: 1.0 in bf16,
2.6 in f16)."""
SEVERAL_STEPS = 8
"""Roundings of an elementwise op that is lowered to several kernels."""
