"""The op that only the planner's TTIR has: the windows of an image, which TT-Buda's sparse matmul gathers."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from opscope.compiler.ops.shapes import Shape, shape_of

PATCHES = "buda.patches"
_ATTRIBUTES = {"kernel": 2, "stride": 2, "padding": 4, "dilation": 2}
"""Attribute -> how many integers it has; padding is top, left, bottom, right, as TTIR has it."""


@irdl_op_definition
class PatchesOp(IRDLOperation):
    """An image 1 x H x W x C -> kernel taps x windows x C: what each tap of the kernel reads in each window."""

    name = PATCHES
    image = operand_def(TensorType)
    result = result_def(TensorType)
    kernel = prop_def(Attribute)
    stride = prop_def(Attribute)
    padding = prop_def(Attribute)
    dilation = prop_def(Attribute)
    traits = traits_def(Pure())

    @classmethod
    def make(cls, image: SSAValue, source: Operation, **attrs: tuple[int, ...]) -> PatchesOp:
        """Returns the op, with the location of `source` and not yet in a block."""
        kind = image.type
        assert isinstance(kind, TensorType)
        dims = shape_of(image)
        op = cls.create(
            operands=[image],
            result_types=[TensorType(kind.element_type, [prod(attrs["kernel"]), windows(dims, attrs), dims[3]])],
            properties={name: DenseArrayBase.from_list(i32, list(values)) for name, values in attrs.items()},
            attributes=dict(source.attributes),
            location=source.location,
        )
        op.verify()
        return op

    def read(self) -> dict[str, tuple[int, ...]]:
        """Returns the attributes as integers."""
        values: dict[str, tuple[int, ...]] = {}
        for name, count in _ATTRIBUTES.items():
            attr = self.properties[name]
            if not isinstance(attr, DenseArrayBase) or len(attr) != count:
                raise VerifyException(f"{self.name}: {name}: expected {count} integers, got {attr}")
            values[name] = tuple(int(v) for v in attr.get_values())
        return values

    def verify_(self) -> None:
        """Checks the shapes. Raises VerifyException."""
        dims, attrs = shape_of(self.image), self.read()
        if len(dims) != 4 or dims[0] != 1:
            raise VerifyException(f"{self.name}: expected one image, 1 x H x W x C, got {list(dims)}")
        expected = (prod(attrs["kernel"]), windows(dims, attrs), dims[3])
        if shape_of(self.result) != expected:
            raise VerifyException(
                f"{self.name}: expected result shape {list(expected)}, got {list(shape_of(self.result))}"
            )


def windows(image: Shape, attrs: dict[str, tuple[int, ...]]) -> int:
    """Returns how many windows an image has."""
    padding = attrs["padding"]
    counts = (
        (image[1 + axis] + padding[axis] + padding[axis + 2] - (size - 1) * attrs["dilation"][axis] - 1)
        // attrs["stride"][axis]
        + 1
        for axis, size in enumerate(attrs["kernel"])
    )
    return prod(counts)
