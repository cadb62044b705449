"""What mutmut's operators make of a file, read by libcst: only who asks for it waits until that is imported."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

OPERATORS: tuple[tuple[type[cst.CSTNode], Callable[[Any], Iterable[cst.CSTNode]]], ...] = (
    (cst.ComparisonTarget, mutators.operator_swap_op),
    (cst.Is, mutators.operator_keywords),
    (cst.IsNot, mutators.operator_keywords),
    (cst.In, mutators.operator_keywords),
    (cst.NotIn, mutators.operator_keywords),
    (cst.BooleanOperation, mutators.operator_swap_op),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.BaseNumber, mutators.operator_number),
)
"""Kind of node -> what it becomes: `<` is `<=`, `==` is `!=`, `in` is `not in`, `and` is `or`, `not x` is x, 3 is 4."""

CLOCK = m.Call(func=m.Attribute(m.Name("time"), m.OneOf(*map(m.Name, ("monotonic", "perf_counter", "time")))))
"""A reading of a clock."""
BOUNDARIES = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


@functools.lru_cache(maxsize=4)
def changes(source: str) -> list[tuple[Any, cst.CSTNode, tuple[int, cst.CSTNode], cst.Module]]:
    """Every change of a file: place, node, its number at this place and new node, tree."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    found: list[tuple[Any, cst.CSTNode, tuple[int, cst.CSTNode], cst.Module]] = []

    alike: set[cst.CSTNode] = set()
    times = {name.value for name in _read_from_clocks(wrapper.module)}

    class Finder(cst.CSTVisitor):
        def visit_Annotation(self, node: cst.Annotation) -> bool:  # noqa: N802  libcst calls it so
            return False  # no annotation is evaluated

        def on_visit(self, node: cst.CSTNode) -> bool:
            alike.update(_alike(node, times))
            if node in alike:
                return super().on_visit(node)
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    news = [new for new in operator(node) if not isinstance(node, cst.UnaryOperation) or _is_not(node)]
                    place = positions[node].start  # type: ignore[union-attr]
                    found.extend(
                        (place, node, (10 * len(found) + i, new), wrapper.module) for i, new in enumerate(news)
                    )
            return super().on_visit(node)

    wrapper.module.visit(Finder())
    return found


def _alike(node: cst.CSTNode, times: Set[str]) -> Iterator[cst.CSTNode]:
    """What has no mutant that a test could notice, of the children of a node.

    These are the numbers n of `x.reshape(-n)`, for NumPy takes any negative size for the one that is left; how many
    results an `lru_cache` holds; and `<` beside `<=` where a time is compared that was read from a clock: no test sees
    one hit its limit to the nanosecond.
    """
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "reshape":
        for argument in node.args:
            if isinstance(argument.value, cst.UnaryOperation) and isinstance(argument.value.operator, cst.Minus):
                yield argument.value.expression
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "maxsize":
        yield node.value
    if isinstance(node, cst.Comparison):
        names = {name.value for name in m.findall(node, m.Name()) if isinstance(name, cst.Name)}
        if names & times or m.findall(node, CLOCK):
            yield from (target for target in node.comparisons if isinstance(target.operator, BOUNDARIES))


def _read_from_clocks(module: cst.Module) -> Iterator[cst.Name]:
    """Names that are assigned a reading of a clock, or a sum with one in it."""
    for node in m.findall(module, m.Assign(value=CLOCK | m.BinaryOperation())):
        if isinstance(node, cst.Assign) and m.findall(node.value, CLOCK):
            yield from (each.target for each in node.targets if isinstance(each.target, cst.Name))


def _is_not(node: cst.UnaryOperation) -> bool:
    return isinstance(node.operator, cst.Not)
