"""Pass `ttnn-compute-config`: sets math fidelity and accumulator width of every kernel that computes floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttnn_layout import FIDELITIES
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.passes.ttir_to_ttnn import board
from opscope.compiler.target.formats import number_format
from opscope.compiler.target.numerics import PROFILES, ttnn_numerics

LEFT_HIGH, RIGHT_HIGH = 7, 5
"""Bits of mantissa, the leading one among them, that a phase reads of each operand (tt-isa-documentation, MVMUL)."""
NO_KERNEL = frozenset({"layout", "host"})
"""Families whose ops compute nothing on a core."""


@dataclass(frozen=True)
class TtnnComputeConfig(ModulePass):
    """Sets fidelity and the width of Dst: 32 bits if an operand has them, and in the matrix unit, if the board can do
    that. From level 1 on a product whose operands have few bits takes no phase that adds nothing (`Bfp8` on the left:
    HiFi2)."""

    name = "ttnn-compute-config"
    board: str = "n150"
    math_fidelity: str = "HiFi4"
    math_approx_mode: bool = False
    """Whether functions are computed by the vector unit's approximations, where it has one (tt-mlir's option)."""
    numerics: str = "hifi4"
    """One of `PROFILES`; with `ttnn`, an empty `math_fidelity` is that of each op."""
    fewest_phases: bool = False
    """Whether products whose operands have few bits use only the phases that they need: the same result, faster."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Annotates kernels. Raises CompilerInputError for an unknown fidelity or way to compute."""
        fidelity = self.math_fidelity.lower()
        if self.numerics not in PROFILES:
            raise CompilerInputError(f"numerics: expected one of {', '.join(PROFILES)}, got {self.numerics!r}")
        as_ttnn = self.numerics == "ttnn"
        if fidelity not in FIDELITIES and (fidelity or not as_ttnn):
            raise CompilerInputError(
                f"math fidelity: expected one of {', '.join(FIDELITIES.values())}, got {self.math_fidelity!r}"
            )
        wide_dst = board(self.board).has_fp32_dst
        for inner in op.walk():
            if not isinstance(inner, RowOp) or not inner.name.startswith("ttnn.") or inner.ROW.group in NO_KERNEL:
                continue
            encodings = [layout.layout_of(v) for v in [*inner.operands, *inner.results]]
            formats = [number_format(x.data_type) for x in encodings if x is not None]
            if any(f.is_float for f in formats):
                # With 16 bits Dst has either 5 or 8 bits of exponent: a kernel between the two needs all 32.
                mixed = len({f.register_exponent_bits for f in formats if f.is_float}) > 1
                # tt-metal demands a wide Dst for FP8 with 4 exponent bits (Blackhole).
                wide = inner.ROW.matrix or mixed or any(f.name in ("Float32", "Fp8_e4m3") for f in formats)
                own, blocked, approximate = fidelity, False, self.math_approx_mode
                if as_ttnn:
                    count = len(inner.operands)
                    names = [f.name for f in formats]
                    usual = ttnn_numerics(inner.ROW.kernel_name, names[:count] or names, names[-1])
                    own, blocked = fidelity or usual.fidelity.lower(), usual.k_block > 0
                    wide, approximate = usual.dst_format == "Float32", approximate or usual.math_approx
                enough = _sufficient_fidelity(inner, own) if self.fewest_phases else own
                inner.properties["compute_config"] = _config(enough, wide and wide_dst, approximate, blocked)


@cache
def _config(fidelity: str, wide_dst: bool, approximate: bool, blocked: bool) -> layout.ComputeConfigAttr:
    """The attribute of a kernel's configuration: one object for each, so that it is made and verified once."""
    words = (fidelity, *("true" if on else "false" for on in (wide_dst, approximate, blocked)))
    return layout.ComputeConfigAttr(*map(StringAttr, words))


def _sufficient_fidelity(op: RowOp, highest: str) -> str:
    """Returns the fidelity of fewest phases, at most `highest`, that reads all bits of a product's operands.

    Phases are Lh.Rh, Lh.Rl, Ll.Rh, Ll.Rl: if an operand has no low bits, its later phases add nothing.
    """
    if op.ROW.group not in ("matmul", "conv"):
        return highest
    left, right = (layout.layout_of(v) for v in op.operands[:2])
    if left is None or right is None or "dot_product_attention" in op.ROW.ttir:
        return highest  # attention multiplies exponentials too, which use all bits
    left_fits, right_fits = mantissa_bits(left) <= LEFT_HIGH, mantissa_bits(right) <= RIGHT_HIGH
    needed = "lofi" if left_fits and right_fits else "hifi2" if left_fits else "hifi3" if right_fits else "hifi4"
    order = list(FIDELITIES)
    return order[min(order.index(highest), order.index(needed))]


def mantissa_bits(encoding: layout.TTNNLayoutAttr) -> int:
    """Returns the bits of a format's mantissa, including the leading one."""
    own_format = number_format(encoding.data_type)
    if own_format.kind == "block":
        return int("".join(filter(str.isdigit, own_format.name))) - 1
    return own_format.bits - own_format.exponent_bits if own_format.is_float else own_format.bits
