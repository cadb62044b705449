"""The names of open dimensions, from the arguments of a module through the ops of which that is certain.

A name is that of a size (`batch`), as `jax.export` writes it. A dimension that an op computes (the sum of two, a part
of one) has none, nor has what a loop hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from opscope.base.op_families import op_family
from opscope.harness.prepare.mlir import open_shapes
from opscope.harness.prepare.mlir.values import DYNAMIC
from opscope.harness.record.records import TensorDesc
from opscope.models.frontends.open_shapes import OPEN

Names = tuple[str, ...]
"""A name for each dimension of a value; empty where there is none."""

ALIKE = frozenset({"stablehlo.select", "stablehlo.reverse", "stablehlo.batch_norm_inference"})
"""Ops whose result has the dimensions of each operand of its rank, besides elementwise ones."""
EACH = frozenset({"stablehlo.optimization_barrier", "stablehlo.sort"})
"""Ops whose results have the dimensions of the operands, one each."""
SHAPED = {"stablehlo.dynamic_iota": 0, "stablehlo.dynamic_reshape": 1, "stablehlo.dynamic_broadcast_in_dim": 1}
"""Ops whose result has the sizes that an operand lists, and the number of that operand."""
RESHAPES = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.convert"})


class DimNames:
    """The names of the dimensions of values, which have the numbers that the splitter gives them."""

    def __init__(self, function: Any, arguments: Sequence[int], descs: Sequence[TensorDesc]) -> None:
        """The names of a function's arguments; `descs` are those of all values, and may grow."""
        self.descs = descs
        self.dims: dict[int, Names] = {}
        self.sizes: dict[int, Names] = {}
        """Value that lists sizes -> the names of these."""
        for number, dims in zip(arguments, open_shapes.arguments(function).values(), strict=True):
            names = tuple(dim if isinstance(dim, str) and dim != OPEN else "" for dim in dims)
            self._keep(number, names)

    def _keep(self, number: int, names: Sequence[str]) -> None:
        """Keeps names of those dimensions that are open."""
        shape = self.descs[number].shape
        if len(names) == len(shape):
            kept = tuple(name if extent < 0 else "" for name, extent in zip(names, shape, strict=True))
            if any(kept):
                self.dims[number] = kept

    def of(self, number: int) -> Names:
        """The names of a value's dimensions."""
        return self.dims.get(number, ("",) * len(self.descs[number].shape))

    def follow(self, op: Any, name: str, operands: Sequence[int], results: Sequence[int]) -> None:
        """Names the dimensions of an op's results, or the sizes that they are."""
        if name == "stablehlo.get_dimension_size":
            self.sizes[results[0]] = (self.of(operands[0])[op.attributes["dimension"].value],)
        elif name in RESHAPES and operands[0] in self.sizes and self._count(results[0]) == self._count(operands[0]):
            self.sizes[results[0]] = self.sizes[operands[0]]
        elif name == "stablehlo.concatenate" and any(number in self.sizes for number in operands):
            self.sizes[results[0]] = tuple(part for number in operands for part in self._sizes(number))
        elif name in ALIKE or (op_family(name) == "eltwise" and not name.startswith("chlo.broadcast_")):
            self._keep(results[0], self.alike(operands, len(self.descs[results[0]].shape)))
        elif name in EACH:
            for operand, result in zip(operands, results, strict=True):
                self._keep(result, self.of(operand))
        elif name in SHAPED:
            self._keep(results[0], self._sizes(operands[SHAPED[name]]))
        elif name in _MOVED and any(number in self.dims for number in operands):
            for result in results:
                self._keep(result, _MOVED[name](self, op, operands, len(self.descs[result].shape)))

    def _count(self, number: int) -> int:
        shape = self.descs[number].shape
        return 1 if not shape else shape[0] if len(shape) == 1 else -1

    def _sizes(self, number: int) -> Names:
        return self.sizes.get(number, ("",) * max(self._count(number), 0))

    def alike(self, operands: Sequence[int], rank: int) -> Names:
        """For each dimension the first name that an operand of that rank has."""
        names = [self.of(number) for number in operands if len(self.descs[number].shape) == rank]
        return tuple(next(filter(None, each), "") for each in zip(*names, strict=True))


def _concatenated(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    joined = op.attributes["dimension"].value
    return tuple("" if dim == joined else name for dim, name in enumerate(names.alike(operands, rank)))


def _transposed(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    return tuple(names.of(operands[0])[dim] for dim in op.attributes["permutation"])


def _reduced(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    gone = set(op.attributes["dimensions"])
    return tuple(name for dim, name in enumerate(names.of(operands[0])) if dim not in gone)


def _product(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left, right = (names.of(number) for number in operands[:2])
    batches = zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True)
    bound = {*numbers.lhs_batching_dimensions, *numbers.lhs_contracting_dimensions}
    other = {*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions}
    return (
        *(left[a] or right[b] for a, b in batches),
        *(name for dim, name in enumerate(left) if dim not in bound),
        *(name for dim, name in enumerate(right) if dim not in other),
    )


def _convolved(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    result = [""] * rank
    if op.attributes["batch_group_count"].value == 1:
        result[numbers.output_batch_dimension] = names.of(operands[0])[numbers.input_batch_dimension]
    return tuple(result)


def _gathered(names: DimNames, op: Any, operands: Sequence[int], rank: int) -> Names:
    """Slices lie in a result in the order of their indices."""
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    rows = iter(name for dim, name in enumerate(names.of(operands[1])) if dim != numbers.index_vector_dim)
    return tuple("" if dim in numbers.offset_dims else next(rows, "") for dim in range(rank))


_MOVED: dict[str, Callable[[DimNames, Any, Sequence[int], int], Names]] = {
    "stablehlo.concatenate": _concatenated,
    "stablehlo.transpose": _transposed,
    "stablehlo.reduce": _reduced,
    "stablehlo.dot_general": _product,
    "stablehlo.convolution": _convolved,
    "stablehlo.dynamic_conv": _convolved,
    "stablehlo.gather": _gathered,
    "stablehlo.dynamic_gather": _gathered,
}


def with_names(reason: str, uses: Sequence[Names]) -> str:
    """The reason that a type has a dynamic shape, with the names of its dimensions: those of all uses of the op."""
    head, mark, dims = reason.partition(f" {DYNAMIC} in dim")
    if not mark or not any(map(any, uses)):
        return reason
    plural, _, listed = dims.partition(" ")
    words = []
    for dim in map(int, listed.split(", ")):
        known = " or ".join(dict.fromkeys(names[dim] for names in uses if names[dim]))
        words.append(f"{dim} ({known})" if known else str(dim))
    return f"{head}{mark}{plural} {', '.join(words)}"
