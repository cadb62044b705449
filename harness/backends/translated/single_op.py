"""What a single-op module says, for those who say it otherwise: as nodes of ONNX, as calls of PyTorch."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.harness.backends.base import Declined
from opscope.harness.prepare.mlir import variant
from opscope.harness.prepare.mlir.attribute_text import integers
from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.values import constant_array

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CONV = re.compile(r"\[([\w, ]+)\]x\[([\w, ]+)\]->\[([\w, ]+)\]")


@dataclass(frozen=True)
class SingleOp:
    """The op of a module that takes and gives static tensors, and what is written beside it."""

    form: variant.Form
    kinds: Sequence[str]
    """What its regions return."""
    constants: Mapping[int, np.ndarray]
    """Operand -> its value, of those that the module itself holds."""

    def text(self, name: str) -> str:
        """The text of an attribute; empty if it is left out."""
        return dict(self.form.attributes).get(name, "")

    def numbers(self, name: str, usual: int, count: int) -> tuple[int, ...]:
        """The whole numbers of an attribute; `count` times the usual one where it is left out."""
        return integers(self.text(name)) or (usual,) * count

    def listed(self, attribute: str, name: str) -> tuple[int, ...]:
        """The numbers of a part of an attribute: `lhs_batching_dimensions = [0, 1]`, `index_vector_dim = 1`."""
        match = re.search(rf"\b{name} = (\[[\d, ]*\]|\d+)", self.text(attribute))
        return tuple(int(number) for number in re.findall(r"\d+", match[1])) if match is not None else ()

    def direction(self) -> str:
        """`EQ`, `NE`, `LT`, `LE`, `GT` or `GE` of a comparison; `TOTALORDER` if floats are compared otherwise."""
        if "TOTALORDER" in self.text("compare_type"):
            return "TOTALORDER"
        return re.findall(r"\b(EQ|NE|LT|LE|GT|GE)\b", self.text("comparison_direction"))[0]

    def product(self) -> tuple[str, ...]:
        """The letters of a `dot_general`: of either operand, of the dimensions that both share and the result keeps,
        and of those that are summed over. The result has those that it keeps, then the others of either operand."""
        one, two = self.form.operands
        left, right = list(_LETTERS[: len(one)]), list(_LETTERS[len(one) : len(one) + len(two)])
        shared = []
        for name in ("batching", "contracting"):
            names = (f"{side}_{name}_dimensions" for side in ("lhs", "rhs"))
            ours, theirs = (self.listed("dot_dimension_numbers", each) for each in names)
            for mine, other in zip(ours, theirs, strict=True):
                right[other] = left[mine]
            shared.append("".join(left[mine] for mine in ours))
        return "".join(left), "".join(right), *shared

    def convolved(self) -> tuple[list[str], list[str], list[str]]:
        """The names of a convolution's dimensions, of image, kernel and result: `b`, `f`, `i`, `o`, `0`, `1`."""
        match = _CONV.search(self.text("dimension_numbers"))
        assert match is not None
        image, kernel, result = ([part.strip() for part in text.split(",")] for text in match.groups())
        return image, kernel, result


def read(module: bytes, whose: str, elements: Container[str]) -> SingleOp:
    """The op of a module. Raises Declined for another module, or for a type that is none of `elements`."""
    try:
        form = variant.read(module)
        kinds = variant.region_kinds(module)
    except variant.InvalidVariantError as error:
        raise Declined(f"no {whose}: {error}") from error
    if foreign := next((kind for kind in (*form.types, *form.result_types) if kind not in elements), ""):
        raise Declined(f"no {whose} takes tensors of {foreign} from Python")
    source = load(module)
    operands: list[Any] = [*variant.main_op(source).operands]
    constants = {
        number: value
        for number, operand in enumerate(operands)
        if form.arguments[number] < 0 and (value := constant_array(operand.owner)) is not None
    }
    if any(form.arguments[number] < 0 and number not in constants for number in range(len(operands))):
        raise Declined("a constant of it cannot be read")
    return SingleOp(form, kinds, constants)
