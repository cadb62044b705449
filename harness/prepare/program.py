"""A model as the splitter sees it: its ops in program order, the values between them, and one module per unique op.

Plain dataclasses without MLIR. Values have numbers that are unique in the whole `SplitModule`, so a nested body
names an outer value by its own number. Called functions are walked at every call site: a call leaves no node, its
callee's argument numbers *are* the operand numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from opscope.harness.record.records import TensorDesc, Use

NodeKind = Literal["constant", "op", "unsplittable"]


@dataclass(frozen=True, slots=True)
class Node:
    """One op at one place of the program, or a constant."""

    kind: NodeKind
    name: str
    """`stablehlo.add`; a custom call's target is part of it: `stablehlo.custom_call:Foo`."""
    path: str
    """Position: `main/12`, in a loop `main/40.body/3`, in a called function `main/7@relu/0`."""
    operands: tuple[int, ...]
    """Value numbers as the module has them, constants included."""
    results: tuple[int, ...]
    """Value numbers of all results, in order."""
    op_id: str = ""
    """kind `op` or `unsplittable`: the canonical id; `SplitModule.ops` has the module."""
    inputs: tuple[int, ...] = ()
    """kind `op`: one value number per argument of the single-op module (embedded constants left out, captured
    values included)."""
    outputs: tuple[int, ...] = ()
    """kind `op`: one value number per result of the single-op module (`results` without tokens)."""
    value: np.ndarray | None = None
    """kind `constant`: always an array of the full shape (a splat is a zero-stride broadcast view), read-only;
    element types as in opscope.harness.prepare.mlir.values (bf16, i4, ... as ml_dtypes). None only where numpy has no
    such type."""
    location: str = ""
    """`name (file:line)`."""
    framework_op: str = ""
    bodies: tuple[Program, ...] = ()
    """Regions that were split too: `while` has cond and body, `if` true and false, `case` its branches. Their
    arguments are the node's operands at the first iteration (`if`, `case`: none)."""


@dataclass(frozen=True, slots=True)
class Program:
    """A straight line of nodes: the entry function with all calls expanded, or one body of while/if/case."""

    name: str
    """`main`, `cond`, `body`, `true`, `false`, `branch0`, ..."""
    arguments: tuple[int, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
    captures: tuple[int, ...] = ()
    """Outer values that the body (or a body inside it) uses, in order of first use; none for the entry."""

    def walk(self) -> Iterator[Node]:
        """All nodes in program order, each followed by those of its bodies."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.walk()


@dataclass(frozen=True, slots=True)
class SingleOp:
    """One unique op of a module, as a StableHLO module of its own, with every place where it stands."""

    op_id: str
    op_name: str
    bytecode: bytes
    """Module with one public function `@main`, locations of the first use kept; b"" if unsplittable."""
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    op_params: dict[str, str]
    """Attributes as MLIR text, long tensor literals shortened."""
    uses: tuple[Use, ...]
    unsplittable: str = ""
    """Why no module could be made of the op."""


@dataclass(frozen=True, slots=True)
class SplitModule:
    """What `opscope.harness.prepare.split.split_module` returns."""

    program: Program
    values: tuple[TensorDesc, ...]
    """Type of each value, indexed by value number; a token or tuple has shape () and its type's text."""
    ops: dict[str, SingleOp]
    """Unique ops by id, in order of first use."""
    module_ops: int
    """All ops: nested in while/if/case counted, callees counted once per call site; ops inside a region that
    belongs to its op (reduce, sort, composite decomposition, ...) are part of that op and not counted."""
    structural: int
    """Ops that only hold the program together: constant, return, call."""
    dead: int = 0
    """Dead ops that were left out (dead_ops.py)."""

    @property
    def uses(self) -> int:
        """Uses of ops that have a module."""
        return sum(len(op.uses) for op in self.ops.values() if not op.unsplittable)

    @property
    def unsplittable_uses(self) -> int:
        """Uses of ops without a module."""
        return sum(len(op.uses) for op in self.ops.values() if op.unsplittable)


def last_uses(program: Program) -> dict[int, list[int]]:
    """Position in the program -> values that no later node (nor the program's results) uses."""
    last: dict[int, int] = {}
    for position, node in enumerate(program.nodes):
        used = [*node.operands, *node.inputs, *node.results, *(v for b in node.bodies for v in b.captures)]
        for value in used:
            last[value] = position
    for value in program.results:
        last.pop(value, None)
    freed: dict[int, list[int]] = {}
    for value, position in last.items():
        freed.setdefault(position, []).append(value)
    return freed
