"""Element types that a function's tensors had before tt-mlir gave them types of the device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.func import FuncOp

from opscope.compiler.tt_mlir.attributes import written
from opscope.compiler.tt_mlir.tensors import element_of

_LOCAL = re.compile(r"local_shape = tensor<(?:\d+x)*(\w+)")
_SHAPE = re.compile(r"local_shape = tensor<((?:\d+x)*)")
WIDTH = re.compile(r"(?:[su]i|i|bf|f)(\d+)")


@dataclass(frozen=True)
class Originals:
    """Types of the module that tt-mlir was given; empty where its text does not say."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    narrowed: tuple[str, ...]
    """Inputs that have fewer bits than before: `f64 -> f32 at argument 0`."""

    @property
    def all(self) -> frozenset[str]:
        """Every type that is known."""
        return frozenset({*self.inputs, *self.outputs} - {""})


def originals(func: FuncOp) -> Originals:
    """The types that a function's arguments and results had."""
    kinds: Any = func.function_type
    inputs = _of(func.properties.get("arg_attrs"), len(kinds.inputs.data))
    outputs = _of(func.properties.get("res_attrs"), len(kinds.outputs.data))
    types = declared(kinds.inputs)
    narrowed = tuple(
        f"{before} -> {after} at argument {number}"
        for number, (before, after, kind) in enumerate(zip(inputs, types, kinds.inputs.data, strict=True))
        if _bits(before) > _bits(after) and _rank(func, number) == len(kind.get_shape())
    )
    return Originals(inputs, outputs, narrowed)


def declared(kinds: Any) -> tuple[str, ...]:
    """The element types of a function's arguments or results."""
    return tuple(map(element_of, kinds.data))


def _of(attributes: Any, count: int) -> tuple[str, ...]:
    if attributes is None:
        return ("",) * count
    texts = [one.data.get("ttcore.local_shape") for one in attributes.data]
    matches = [None if text is None else _LOCAL.search(written(text)) for text in texts]
    return tuple(match[1] if match else "" for match in matches)


def _rank(func: FuncOp, number: int) -> int:
    """The rank of an argument before; one more now says that its numbers are held as pairs of words."""
    attributes: Any = func.properties["arg_attrs"]
    match = _SHAPE.search(written(attributes.data[number].data["ttcore.local_shape"]))
    return match[1].count("x") if match else -1


def _bits(kind: str) -> int:
    match = WIDTH.fullmatch(kind)
    return int(match[1]) if match else 0
