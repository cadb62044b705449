"""Random bits.

On the device, state and 64-bit results are 32-bit words. The host splits and joins them, or a bitcast that the module
has anyway.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
)
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers

WORD = IntegerType(32, Signedness.UNSIGNED)
FLOAT_BITS: dict[Any, int] = {f32: 32, bf16: 16, f16: 16}


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
    """Emits random bits; the default algorithm is Philox, as in XLA on the CPU. Those of a float are its bits."""
    state, bits = e.op.results
    wide = is_wide(bits)
    kind: Any = bits.type
    width = FLOAT_BITS.get(kind.element_type, 0)
    if not isinstance(kind.element_type, IntegerType) and not width:
        raise e.refuse(f"expected bits of integers, or of floats of 16 or 32 bits, got {kind.element_type}")
    unsigned = TensorType(IntegerType(width, Signedness.UNSIGNED), kind.get_shape()) if width else kind
    algorithm = e.spec("rng_algorithm").value
    words = split(e, e.operands[0])
    new, made = e.emit_all(
        "rng_bit_generator",
        [words],
        [words.type, TensorType(WORD, [*shape_of(bits), 2]) if wide else unsigned],
        rng_algorithm="PHILOX" if algorithm == "DEFAULT" else algorithm,
        wide=wide,
    )
    if width:
        made = e.emit("bitcast_convert", [made], kind)
    return [e.emit("join_words", [new], state.type), e.emit("join_words", [made], bits.type) if wide else made]
