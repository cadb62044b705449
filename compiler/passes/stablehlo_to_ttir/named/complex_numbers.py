"""Complex tensors as real ones with a last dim of two: real part, imaginary part."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import Attribute, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import maker

PLACE = {"stablehlo.real": 0, "stablehlo.imag": 1}


def as_real(kind: Attribute) -> Attribute:
    """Returns the type of the real tensor that stands for a complex one; other types as they are."""
    if isinstance(kind, TensorType) and isinstance(kind.element_type, ComplexType):
        return TensorType(kind.element_type.element_type, [*kind.get_shape(), 2])
    return kind


@named("stablehlo.complex")
def make_complex(e: Emit) -> SSAValue:
    """Both parts are joined along a new first dim, which then becomes the last."""
    parts = [e.reshape(part, [1, *shape_of(part)]) for part in e.operands]
    shape = shape_of(e.operands[0])
    joined = e.emit("concat", parts, e.like(parts[0], (2, *shape)), dim=0)
    return e.permute(joined, [*range(1, len(shape) + 1), 0])


@named("stablehlo.real", "stablehlo.imag")
def part(e: Emit) -> SSAValue | None:
    """The last dim comes to the front and is cut; a part of a pair is what it was made of."""
    source = e.op.operands[0]
    place = PLACE[e.op.name]
    kind: Any = source.type
    if not isinstance(kind.element_type, ComplexType):
        return None
    pair = maker(source, "stablehlo.complex")
    if pair is not None:
        return e.values[pair.operands[place]]
    (value,) = e.operands
    shape = shape_of(value)[:-1]
    turned = e.shared(value, "permute", permutation=[len(shape), *range(len(shape))], shape=(2, *shape))
    cut = e.emit(
        "slice_static",
        [turned],
        e.like(value, (1, *shape)),
        begins=[place, *[0] * len(shape)],
        ends=[place + 1, *shape],
        step=[1] * (len(shape) + 1),
    )
    return e.reshape(cut, shape)
