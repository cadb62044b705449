"""The steps of a formula as StableHLO text: a composite whose decomposition they are, or a single op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from opscope.harness.formulas.elementwise import COMPARED
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.table import COMPOSITES, OWN

_COMPARED = {function: direction for direction, function in COMPARED.items()}
_OPS: dict[Any, str] = {function: name for name, function in reversed(ELEMENTWISE.items())} | {
    np.logical_and: "stablehlo.and",
    np.bitwise_and: "stablehlo.and",
    np.bitwise_or: "stablehlo.or",
    np.bitwise_xor: "stablehlo.xor",
}
_BOOLEAN = ("stablehlo.and", "stablehlo.or", "stablehlo.xor")


def composite_name(formula: str) -> str:
    """The name by which a composite of a formula goes: that of tt-xla or another framework, or one of this project."""
    return next((name for name, known in COMPOSITES.items() if known == formula), f"{OWN}{formula}")


def composite(formula: str, steps: Callable[..., Any], given: dict[str, Any], shape: Sequence[Any], count: int) -> str:
    """A module with a composite of one formula on `count` operands of a shape, `(256, 256, "bf16")`. Its attributes are
    `given`, its decomposition are the formula's steps. Raises NotImplementedError for steps that StableHLO has not."""
    tensor, attributes = _tensor(shape), ", ".join(f"{key} = {_attribute(value)}" for key, value in given.items())
    text = _Text(shape)
    result = steps(*(_Value(text, f"%x{n}", tensor) for n in range(count)), **given)
    result = result if isinstance(result, _Value) else text.constant(result)
    names = ", ".join(f"%x{n}" for n in range(count))
    arguments = ", ".join(f"%x{n}: {tensor}" for n in range(count))
    types = ", ".join([tensor] * count)
    more = f", composite_attributes = {{{attributes}}}" if attributes else ""
    return (
        f"module {{\n  func.func private @body({arguments}) -> {tensor} {{\n"
        + "".join(f"    {line}\n" for line in text.lines)
        + f"    return {result.name} : {tensor}\n  }}\n  func.func @main({arguments}) -> {tensor} {{\n"
        f'    %y = stablehlo.composite "{composite_name(formula)}" {names} '
        f"{{decomposition = @body{more}}} : ({types}) -> {tensor}\n    return %y : {tensor}\n  }}\n}}\n"
    )


def single_op(op_name: str, shape: Sequence[Any], count: int) -> str:
    """A module with one elementwise op on `count` operands of a shape, `(256, 256, "bf16")`."""
    tensor = _tensor(shape)
    arguments = ", ".join(f"%x{n}: {tensor}" for n in range(count))
    names = ", ".join(f"%x{n}" for n in range(count))
    signature = ", ".join([tensor] * count)
    return (
        f"module {{\n  func.func @main({arguments}) -> {tensor} {{\n"
        f'    %y = "{op_name}"({names}) : ({signature}) -> {tensor}\n    return %y : {tensor}\n  }}\n}}\n'
    )


def _tensor(shape: Sequence[Any]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}>"


def _attribute(value: Any) -> str:
    return f"{value!r} : f32" if isinstance(value, float) else f"{value} : i64"


class _Text:
    """The lines of a function that is being written."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape, self.lines = shape, list[str]()

    def constant(self, value: Any) -> _Value:
        """A number in every place."""
        return self.line(f"stablehlo.constant dense<{float(value):.17e}>", _tensor(self.shape), "")

    def line(self, words: str, kind: str, signature: str | None = None) -> _Value:
        """One op; `signature` is its type where that is not its result's."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {words} : {signature or kind}")
        return _Value(self, name, kind)


class _Value(NDArrayOperatorsMixin):
    """A tensor of that function. Each NumPy function of it is a line."""

    def __init__(self, text: _Text, name: str, kind: str) -> None:
        self.text, self.name, self.kind = text, name, kind

    def take_step(self, function: Callable[..., Any], *operands: Any) -> _Value:
        """One step."""
        values = [each if isinstance(each, _Value) else self.text.constant(each) for each in operands]
        names, kinds = ", ".join(each.name for each in values), ", ".join(each.kind for each in values)
        truth = _tensor((*self.text.shape[:-1], "i1"))
        if function is np.square:
            return self.take_step(np.multiply, *operands, *operands)
        if function in _COMPARED:
            return self.text.line(f"stablehlo.compare {_COMPARED[function]}, {names}", truth, f"({kinds}) -> {truth}")
        if function is np.where:
            return self.text.line(f"stablehlo.select {names}", values[1].kind, f"{truth}, {values[1].kind}")
        op_name = _OPS.get(function)
        if op_name is None:
            raise NotImplementedError(f"StableHLO has no {getattr(function, '__name__', function)}")
        kind = truth if op_name in _BOOLEAN else values[0].kind
        signature = f"({kinds}) -> {kind}"
        return self.text.line(f'"{op_name}"({names})', kind, signature)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotImplementedError(f"StableHLO has no {ufunc.__name__}.{method}")
        return self.take_step(ufunc, *operands)

    def __array_function__(self, function: Callable[..., Any], _: Any, operands: Any, options: Any) -> Any:
        if function is not np.where or options or len(operands) != 3:
            raise NotImplementedError(f"StableHLO has no {function.__name__}")
        return self.take_step(np.where, *operands)
