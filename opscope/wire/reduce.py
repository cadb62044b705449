"""`opscope reduce --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Form(Answer):
    """An op: shapes and element types of its operands and results, and its attributes as MLIR text."""

    name: str
    operands: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    results: tuple[tuple[int, ...], ...]
    result_types: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    """Names and values."""
    arguments: tuple[int, ...]
    """Per operand: its argument of `@main`, or -1 for a constant inside the module."""
    region_ops: int
    """Ops in its regions, without their ends."""


class Reduced(Answer):
    """The smallest op that fails in the same way."""

    folder: str
    """Its repro folder."""
    module: str
    """StableHLO."""
    before: Form
    after: Form
    steps: tuple[str, ...]
    """What made it smaller, in order."""
    tried: int
    """Variants that were run."""
    complete: bool
    """Whether nothing smaller fails so; else the budget ended it."""
    difference: str
    """With --against: how the two backends lower it differently; else empty."""


PRINTS = Reduced
