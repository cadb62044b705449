"""Random numbers of a distribution. StableHLO leaves the algorithm to each implementation: here it is Philox.

Every op of a module starts from its own state, so that no two give the same numbers, and a module always gives the same
numbers. Floats have 23 random bits.
"""

from __future__ import annotations

import hashlib
from typing import Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerType, TensorType, f32
from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.random import WORD

GENERATOR = "ttir.rng_bit_generator"
ALGORITHM = "PHILOX"


@lowers("stablehlo.rng")
def rng(e: Emit) -> SSAValue:
    """Draws uniform floats or integers (at most 32 bits) in [a, b), or normal floats with mean a and deviation b."""
    low, high, _ = e.operands
    kind: Any = e.result_type
    element = kind.element_type
    normal = e.spec("rng_distribution").value == "NORMAL"
    if isinstance(element, IntegerType):
        if element.width.data not in (8, 16, 32):
            raise e.refuse(f"expected integers of 8, 16 or 32 bits, got {element}")
        return _integers(e, low, high)
    wide = TensorType(f32, e.result_shape)
    unit = unit_floats(e, wide, centred=normal)
    low, high = (_spread(e, e.typecast(value, f32)) for value in (low, high))
    if normal:
        # The inverse of the distribution function: sqrt(2) erfinv(2u - 1).
        both = e.emit("subtract", [_times(e, unit, 2.0), e.full(_ones(e), f32, 1.0)], wide)
        deviation = _times(e, e.emit("erfinv", [both], wide), 2**0.5)
        result = e.emit("add", [e.emit("multiply", [deviation, high], wide), low], wide)
    else:
        width = e.emit("subtract", [high, low], high.type)
        result = e.emit("add", [e.emit("multiply", [unit, width], wide), low], wide)
    return e.typecast(result, element)


def _bits(e: Emit, seed_words: str = "") -> SSAValue:
    """Returns random words of the result's shape."""
    earlier = sum(op.name == GENERATOR for op in e.block.ops)
    words = TensorType(WORD, [2, 2])
    seed = hashlib.sha256(f"opscope.rng {seed_words or earlier}".encode()).digest()[:16]
    state = e.emit("constant", [], words, value=DenseIntOrFPElementsAttr(words, BytesAttr(seed)))
    _, bits = e.emit_all(
        "rng_bit_generator", [state], [words, TensorType(WORD, e.result_shape)], rng_algorithm=ALGORITHM, wide=False
    )
    return bits


def unit_floats(e: Emit, wide: TensorType, seed_words: str = "", *, centred: bool = False) -> SSAValue:
    """Returns floats in [0, 1), or the middles of 2^23 intervals in (0, 1) if `centred`.

    Each op of a module has a state of its own, or the one that `seed_words` name.
    """
    bits = _bits(e, seed_words)
    few = e.emit("logical_right_shift", [bits, e.full(_ones(e), WORD, 9)], bits.type)
    number = e.typecast(few, f32)
    if centred:
        number = e.emit("add", [number, e.full(_ones(e), f32, 0.5)], wide)
    return _times(e, number, 2.0**-23)


def _integers(e: Emit, low: SSAValue, high: SSAValue) -> SSAValue:
    """Returns low + bits mod (high - low), in words; as in XLA the width need not divide 2^32."""
    kind: Any = e.result_type
    words = TensorType(WORD, e.result_shape)
    low, high = (_spread(e, e.typecast(value, WORD)) for value in (low, high))
    width = e.emit("subtract", [high, low], high.type)
    rest = e.emit("remainder", [_bits(e), width], words)
    return e.typecast(e.emit("add", [rest, low], words), kind.element_type)


def _times(e: Emit, value: SSAValue, factor: float) -> SSAValue:
    return e.emit("multiply", [value, e.full(_ones(e), f32, factor)], value.type)


def _spread(e: Emit, scalar: SSAValue) -> SSAValue:
    """Broadcasts a scalar to the result's rank."""
    return e.reshape(scalar, _ones(e))


def _ones(e: Emit) -> list[int]:
    return [1] * len(e.result_shape)
