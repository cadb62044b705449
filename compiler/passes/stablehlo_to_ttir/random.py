"""Random bits.

On the device, state and 64-bit results are 32-bit words. The host splits and joins them, or a bitcast that the module
has anyway.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType, Signedness, TensorType
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers

WORD = IntegerType(32, Signedness.UNSIGNED)


def split(e: Emit, value: SSAValue) -> SSAValue:
    """Splits a 64-bit tensor into words, low ones first, in a new last dim."""
    owner = value.owner
    words = TensorType(WORD, [*shape_of(value), 2])
    if isinstance(owner, Operation):
        if owner.name == "ttir.constant":
            old: Any = owner.properties["value"]
            return e.emit("constant", [], words, value=DenseIntOrFPElementsAttr(words, BytesAttr(old.data.data)))
        if owner.name == "ttir.join_words" and owner.operands[0].type == words:
            return owner.operands[0]
    return e.emit("split_words", [value], words)


def is_wide(value: SSAValue) -> bool:
    """Whether a tensor's integers have 64 bits."""
    element: Any = value.type
    return isinstance(element.element_type, IntegerType) and element.element_type.width.data == 64


@lowers("stablehlo.rng_bit_generator")
def rng_bit_generator(e: Emit) -> list[SSAValue]:
    """Emits random bits; the default algorithm is Philox, as in XLA on the CPU."""
    state, bits = e.op.results
    wide = is_wide(bits)
    kind: Any = bits.type
    if not isinstance(kind.element_type, IntegerType):
        raise e.refuse(f"expected bits of integers, got {kind.element_type}")
    algorithm = e.spec("rng_algorithm").value
    words = split(e, e.operands[0])
    new, made = e.emit_all(
        "rng_bit_generator",
        [words],
        [words.type, TensorType(WORD, [*shape_of(bits), 2]) if wide else bits.type],
        rng_algorithm="PHILOX" if algorithm == "DEFAULT" else algorithm,
        wide=wide,
    )
    return [e.emit("join_words", [new], state.type), e.emit("join_words", [made], bits.type) if wide else made]
