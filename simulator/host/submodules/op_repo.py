"""TT-Buda's repository of operators: what a generator of graphs, or of tests of single ops, chooses from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

TensorShape: TypeAlias = tuple[int, ...]
OperandNumInt: TypeAlias = int
OperandNumTuple: TypeAlias = tuple[int, int]


@dataclass
class OperandNumRange:
    """How many operands an operator takes."""

    operands_min: int
    operands_max: int


@dataclass
class OperatorParamNumber:
    """A parameter that is a number, and its least and largest value; None for no bound."""

    name: str
    type: type
    min_value: int | None
    max_value: int | None


OperatorParam: TypeAlias = OperatorParamNumber


@dataclass
class OperatorDefinition:
    """An operator by its short name, with the name that a program calls it by."""

    name: str
    full_name: str
    input_num_range: Any
    """An OperandNumRange, made of one number or of two."""
    instantiate: bool = False
    """Whether it is a layer, which is made first and called then."""
    constructor_params: list[OperatorParam] = field(default_factory=list)
    forward_code: Callable[[], str] | None = None
    forward_params: list[OperatorParam] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    calc_input_shapes: Callable[[ShapeCalculationContext, Random], list[TensorShape]] | None = None
    """From the shape of the result to those of the operands."""

    def __post_init__(self) -> None:
        given = self.input_num_range
        if not isinstance(given, int | tuple):
            raise ValueError(f"{self.name}: expected a number of operands, or the least and the most, got {given!r}")
        self.input_num_range = OperandNumRange(*(given if isinstance(given, tuple) else (given, given)))

    @property
    def is_operator(self) -> bool:
        """Whether it is called as it is."""
        return not self.instantiate

    @property
    def is_layer(self) -> bool:
        """Whether it is made first."""
        return self.instantiate


class ShapeCalculationContext:
    """What `calc_input_shapes` is given; a generator says each."""

    operator: OperatorDefinition
    input_num: int
    constructor_kwargs: dict[str, object]
    forward_kwargs: dict[str, object]
    output_shape: TensorShape
    rng_shape: Random


class OperatorRepository:
    """Operators, found by name."""

    def __init__(self, operators: Sequence[OperatorDefinition]) -> None:
        self.operators = list(operators)

    def get_by_name(self, name: str) -> OperatorDefinition:
        """Returns the operator of that name. Raises KeyError if there is none."""
        return {op.name: op for op in reversed(self.operators)}[name]


CALLED = {"cumsum": "CumSum", "maximum": "Max", "minimum": "Min", "nop": "Identity", "tilizer": "Tilize"}
"""Operator -> its name in `pybuda.op`, where that is not the same in capitals."""
OF_ONE = (
    "exp reciprocal buffer sqrt relu leaky_relu nop gelu log sigmoid clip sine cosine abs tanh cumsum argmax "
    "logical_not dropout pow tilizer"
)
OF_TWO = (
    "add divide subtract multiply maximum minimum heaviside binary_stack power greater greater_equal less less_equal "
    "equal not_equal logical_and matmul"
)
OF_MORE: dict[str, OperandNumInt | OperandNumTuple] = {
    "where": 3,
    "interleave": (1, 10),
    "concatenate": (1, 10),
    "stack": (2, 4),
}
PARAMETERS = {
    "leaky_relu": [OperatorParamNumber("alpha", float, 0, 100)],
    "clip": [OperatorParamNumber("min", float, 0, 100), OperatorParamNumber("max", float, 0, 100)],
    "pow": [OperatorParamNumber("exponent", float, 0, 100)],
    "interleave": [OperatorParamNumber("axis", int, -3, -3), OperatorParamNumber("stride", int, 1, 1)],
    "concatenate": [OperatorParamNumber("axis", int, -10, 10)],
    "stack": [OperatorParamNumber("axis", int, 1, 10)],
}
LAYERS = {
    "linear": ("Linear", {"in_features": (10, 50), "out_features": (10, 50)}),
    "conv2d": (
        "Conv2d",
        {"in_channels": (10, 50), "out_channels": (10, 50), "kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)},
    ),
}
"""PyTorch's layers, with the least and largest value of each parameter."""


def _called(name: str) -> str:
    return CALLED.get(name) or "".join(part.capitalize() for part in name.split("_"))


pybuda_operator_repository = OperatorRepository(
    [
        OperatorDefinition(name, f"pybuda.op.{_called(name)}", count, forward_params=PARAMETERS.get(name, []))
        for name, count in (dict.fromkeys(OF_ONE.split(), 1) | dict.fromkeys(OF_TWO.split(), 2) | OF_MORE).items()
    ]
)
pytorch_operator_repository = OperatorRepository(
    [
        *(
            OperatorDefinition(
                name,
                f"torch.nn.{layer}",
                1,
                instantiate=True,
                constructor_params=[OperatorParamNumber(key, int, *ends) for key, ends in parameters.items()],
            )
            for name, (layer, parameters) in LAYERS.items()
        ),
        *(OperatorDefinition(name, f"torch.{name}", 1) for name in ("relu", "sqrt", "tanh")),
        *(OperatorDefinition(name, f"torch.{name}", 2) for name in ("add", "matmul")),
        OperatorDefinition("eltwise", "torch.add", 2),
    ]
)
