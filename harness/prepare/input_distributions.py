"""Distributions of random inputs that stay inside an op's domain, such as positive numbers for a logarithm."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opscope.base.op_families import op_family
from opscope.harness.formulas import attributes
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.prepare.domains import domain
from opscope.harness.prepare.program import Node, SplitModule
from opscope.harness.prepare.subgraph import KEEPS_SPLAT
from opscope.harness.record.records import TensorDesc
from opscope.models import input_classes

POSITIVE = "uniform:0.1:4"
INSIDE_ONE = "uniform:-0.9:0.9"
AWAY_FROM_ZERO = "magnitude:0.5:2"

FLOAT_DISTRIBUTIONS: dict[str, dict[int, str]] = {
    "log": {0: POSITIVE},
    "sqrt": {0: POSITIVE},
    "rsqrt": {0: POSITIVE},
    "log_plus_one": {0: "uniform:-0.5:4"},
    "divide": {1: AWAY_FROM_ZERO},
    "remainder": {1: AWAY_FROM_ZERO},
    "power": {0: POSITIVE},
    "clamp": {0: "uniform:-1:-0.5", 2: "uniform:0.5:1"},
    "batch_norm_inference": {4: "uniform:0.5:1.5"},
    "batch_norm_grad": {3: "uniform:0.5:1.5"},
    "acos": {0: INSIDE_ONE},
    "asin": {0: INSIDE_ONE},
    "atanh": {0: INSIDE_ONE},
    "erf_inv": {0: INSIDE_ONE},
    "acosh": {0: "uniform:1.1:4"},
    "lgamma": {0: POSITIVE},
    "digamma": {0: POSITIVE},
    "polygamma": {0: "int:1:4"},
    "zeta": {0: "uniform:1.5:4", 1: POSITIVE},
}
"""Op (without its dialect) -> operand index -> distribution, for floating operands; others are `normal:1`."""

INTEGER_DISTRIBUTIONS: dict[str, dict[int, str]] = {
    "divide": {1: "int:1:8"},
    "remainder": {1: "int:1:8"},
    "power": {0: "int:1:4", 1: "int:0:4"},
    "clamp": {0: "int:-6:-3", 2: "int:3:6"},
}


def _numbers(params: Mapping[str, str], name: str, inside: str | None = None) -> list[int]:
    """The integers of an attribute's text (`array<i64: 1, 2>`), or of the field `inside = [..]` within it."""
    text = params.get(name, "")
    if inside is not None:
        match = re.search(rf"\b{inside}\s*=\s*\[([^\]]*)\]", text)
        text = match.group(1) if match else ""
    return [int(n) for n in re.findall(r"(?<![\w.])-?\d+", text)]


def _room(size: int, window: int) -> str:
    """Distribution of a start index at which a window of `window` still fits into `size`."""
    return f"int:0:{max(1, size - window + 1)}"


def _gather(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Start indices that fit in every dimension they index."""
    if index != 1:
        return None
    windows = _numbers(params, "slice_sizes")
    mapped = _numbers(params, "dimension_numbers", "start_index_map")
    rooms = [s - w for d, (s, w) in enumerate(zip(inputs[0].shape, windows, strict=False)) if d in mapped]
    return f"int:0:{max(1, min(rooms, default=0) + 1)}"


def _scatter(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Scatter indices inside the dimensions that they index."""
    if index != len(inputs) // 2:
        return None
    mapped = _numbers(params, "scatter_dimension_numbers", "scatter_dims_to_operand_dims")
    return f"int:0:{max(1, min((inputs[0].shape[d] for d in mapped), default=1))}"


def _dynamic_slice(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Start indices at which the slice fits."""
    sizes = _numbers(params, "slice_sizes")
    if index == 0 or index - 1 >= len(sizes):
        return None
    return _room(inputs[0].shape[index - 1], sizes[index - 1])


def _dynamic_update_slice(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Start indices at which the update fits."""
    return _room(inputs[0].shape[index - 2], inputs[1].shape[index - 2]) if index >= 2 else None


def _shift(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Shift counts below the width."""
    return f"int:0:{int(re.sub(r'[^0-9]', '', inputs[0].data_type))}" if index == 1 else None


def _index_select(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Indices inside the selected dimension."""
    dim = (_numbers(params, "dim") or [0])[0]
    return f"int:0:{max(1, inputs[0].shape[dim])}" if index == 1 else None


def _rng(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """The ends of an interval in their order; a mean and a deviation above zero."""
    if index > 1:
        return None
    if "NORMAL" in params.get("rng_distribution", ""):
        return POSITIVE if index else None
    table = FLOAT_DISTRIBUTIONS if inputs[index].data_type.startswith(("f", "bf")) else INTEGER_DISTRIBUTIONS
    return table["clamp"][2 * index]


def _loop(index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str | None:
    """Loop counters start at zero, as loops count up; other values are free."""
    return "zeros" if inputs[index].shape == () and "i" in inputs[index].data_type[:2] else None


Rule = Callable[[int, Sequence[TensorDesc], Mapping[str, str]], "str | None"]
RULES: dict[str, Rule] = {
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "shift_left": _shift,
    "shift_right_arithmetic": _shift,
    "shift_right_logical": _shift,
    "torch_index_select": _index_select,
    "rng": _rng,
    "while": _loop,
    "case": _loop,
}
"""Ops whose domain depends on shapes or attributes."""


def default_distribution(data_type: str) -> str:
    """The distribution of an operand whose op takes any value."""
    if data_type == "i1":
        return "bool:0.5"
    if data_type.startswith("ui"):
        return "int:0:4" if data_type == "ui2" else "int:0:8"
    if data_type.startswith("i"):
        return {"i2": "int:-2:2"}.get(data_type, "int:-8:8")
    return "uniform:1:4" if data_type == "f8E8M0FNU" else "normal:1"


def distribution_of(op_name: str, index: int, inputs: Sequence[TensorDesc], params: Mapping[str, str]) -> str:
    """The distribution of operand `index` of an op.

    `inputs` are its operands, constants included, and `params` its attributes as MLIR text.
    """
    word = op_name.partition(".")[2]
    data_type = inputs[index].data_type
    rule = RULES.get(word)
    distribution = rule(index, inputs, params) if rule else None
    if distribution is None:
        floating = data_type.startswith(("f", "bf", "tf", "complex"))
        table = FLOAT_DISTRIBUTIONS if floating else INTEGER_DISTRIBUTIONS
        distribution = table.get(word, {}).get(index) if data_type != "i1" else None
    return distribution or default_distribution(data_type)


OF_POSITIVE = frozenset({"stablehlo.sqrt", "stablehlo.rsqrt", "stablehlo.log"})
"""Ops that negative numbers make NaN."""
STAYS_POSITIVE = KEEPS_SPLAT | {"stablehlo.slice", "stablehlo.concatenate", "stablehlo.add", "stablehlo.multiply"}
"""Ops that make positive numbers of such ones."""


def argument_distributions(split: SplitModule) -> list[str]:
    """A distribution for each argument of a program without its own: the one that suits the first op that uses it.

    Floats that such an op takes any of are positive where a root or logarithm reads what moves, sums and products make
    of them, as of a variance: a program of NaN shows nothing.
    """
    users: dict[int, list[tuple[Node, int]]] = {}
    for node in split.program.walk():
        for index, value in enumerate(node.inputs):
            users.setdefault(value, []).append((node, index))

    def law(argument: int) -> str:
        usual = default_distribution(split.values[argument].data_type)
        if argument not in users:
            return usual
        first = domain_distribution(split, *users[argument][0])
        return POSITIVE if first == usual and _is_under_a_root(split, users, argument) else first

    return [law(argument) for argument in split.program.arguments]


def _is_under_a_root(split: SplitModule, users: Mapping[int, list[tuple[Node, int]]], argument: int) -> bool:
    """Whether a root or logarithm reads an argument, or what moves, sums and products with other values make of it."""
    rest, seen = [argument], {argument}
    while rest:
        value = rest.pop()
        if not split.values[value].data_type.startswith(("f", "bf")):
            continue
        for node, _ in users.get(value, ()):
            if node.name in OF_POSITIVE:
                return True
            if node.name in STAYS_POSITIVE and node.operands.count(value) == 1:  # a square is so by itself
                rest += set(node.results) - seen
                seen.update(node.results)
    return False


def domain_distribution(split: SplitModule, node: Node, index: int) -> str:
    """The distribution for input `index` of `node`, within the domain of its op.

    An input of the single-op module is an operand of the op, though not always the one of that number: constants are
    embedded. What a region captures is no operand and takes any value.
    """
    value = node.inputs[index]
    if value not in node.operands:
        return default_distribution(split.values[value].data_type)
    if node.name == "stablehlo.select" and value == node.operands[0] and (forced := _never_nan(split, node)):
        return forced
    operands = [split.values[operand] for operand in node.operands]
    return distribution_of(node.name, node.operands.index(value), operands, split.ops[node.op_id].op_params)


ROWS = frozenset({"matmul", "conv", "reduce", "pool", "norm"})
"""Families whose elements are made of whole rows."""
COMPOSITE = "stablehlo.composite"
ORDERED = ("stablehlo.sort", "chlo.top_k")


def class_distributions(split: SplitModule, node: Node) -> dict[str, list[str]]:
    """The distributions of an op's inputs, for each class of inputs that suits it (opscope/models/input_classes.py).

    All floats that its op takes any value of are of the class, others have their usual distribution. Empty for an op
    without such floats: it has the usual inputs alone.
    """
    usual = [domain_distribution(split, node, index) for index in range(len(node.inputs))]
    family = "eltwise" if _of_single_elements(split, node) else op_family(node.name)
    floats = [index for index, value in enumerate(node.inputs) if _is_float_operand(split, node, value)]
    if family in ROWS or node.name in ORDERED or (node.name == COMPOSITE and family != "eltwise"):
        table = input_classes.ROWS
        floats = [
            index for index in floats if usual[index] == default_distribution(_desc(split, node, index).data_type)
        ]
    elif family == "eltwise" and node.name != "stablehlo.clamp":
        table = input_classes.ONE_OPERAND if len(node.inputs) == 1 else input_classes.SEVERAL_OPERANDS
    else:
        return {}

    def drawn(law: str, index: int) -> str:
        if index not in floats:
            return usual[index]
        low, high = domain(node.name, node.operands.index(node.inputs[index]))
        return law.format(low=low, high=high, width=(_desc(split, node, index).shape or (1,))[-1])

    every = {name: [drawn(law, index) for index in range(len(usual))] for name, law in table.items()}
    return every if floats else {}


def _of_single_elements(split: SplitModule, node: Node) -> bool:
    """Whether a node is a composite by whose name each element of its result is made of one of each operand."""
    known = attributes.of_composite(split.ops[node.op_id].op_params) if node.name == COMPOSITE else None
    return known is not None and FORMULAS[known[0]].elementwise


def _desc(split: SplitModule, node: Node, index: int) -> TensorDesc:
    return split.values[node.inputs[index]]


def _is_float_operand(split: SplitModule, node: Node, value: int) -> bool:
    data_type = split.values[value].data_type
    return value in node.operands and data_type.startswith(("f", "bf")) and data_type != "f8E8M0FNU"


def _never_nan(split: SplitModule, node: Node) -> str:
    """The distribution of the predicate of a selection one side of which is NaN throughout; empty if none is.

    Such a side stands for what is out of range (a lookup that fills), which no index in its domain chooses.
    """
    maker_of_value = {value: maker for maker in split.program.walk() for value in maker.results}
    for side, distribution in zip(node.operands[1:], ("bool:0", "bool:1"), strict=True):
        maker = maker_of_value.get(side)
        while maker is not None and maker.name in KEEPS_SPLAT:  # the splitter embeds what a splat is spread to
            maker = maker_of_value.get(maker.operands[0])
        array = None if maker is None else maker.value
        if (
            array is not None
            and not any(array.strides)
            and bool(np.isnan(array.reshape(-1)[:1].astype(np.float32)).all())
        ):
            return distribution
    return ""
