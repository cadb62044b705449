"""Leaves the dead ops of a model out of its split: those that no result of the model needs and that have no effect.

A compiler drops them before it compiles anything else, so that whether it could compute them decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opscope.harness.prepare.mlir.single_op import TOKEN
from opscope.harness.prepare.program import Node, Program, SplitModule

DIALECTS = ("stablehlo.", "chlo.", "mhlo.")
"""Dialects whose ops have no effect but these. What another one's ops do is not known."""
EFFECTS = frozenset(f"stablehlo.{name}" for name in ("infeed", "outfeed", "send", "recv", "rng"))
"""Ops that XLA keeps without a reader (`HloInstruction::HasSideEffect`), custom calls apart, which say it of
themselves."""


def without_dead_ops(split: SplitModule) -> SplitModule:
    """The split without its dead ops, which `dead` counts; a program that returns nothing keeps all of its ops.

    A loop hands all its values on to its next step, so that each of them counts as read inside it.
    """
    if not split.program.results:
        return split
    program = _live(split, split.program)
    living = {node.path for node in program.walk()}
    dead = sum(bool(node.op_id) and node.path not in living for node in split.program.walk())
    if not dead:
        return split
    ops = {}
    for op_id, op in split.ops.items():
        if uses := tuple(use for use in op.uses if use.path in living):
            ops[op_id] = replace(op, uses=uses)
    return replace(split, program=program, ops=ops, dead=dead)


def _live(split: SplitModule, program: Program) -> Program:
    """A program with its constants and those ops that its results need or that have effects."""
    read = set(program.results)
    nodes: list[Node] = []
    for node in reversed(program.nodes):
        if node.op_id:
            if read.isdisjoint(node.results) and not _has_effects(split, node):
                continue
            read.update(node.operands, node.inputs, *(body.captures for body in node.bodies))
            if node.bodies:
                node = replace(node, bodies=tuple(_live(split, body) for body in node.bodies))
        nodes.append(node)
    return replace(program, nodes=tuple(reversed(nodes)))


def _has_effects(split: SplitModule, node: Node) -> bool:
    """Whether an op, or one in its bodies, does anything beside computing its results."""
    return (
        not node.name.startswith(DIALECTS)
        or node.name in EFFECTS
        or split.ops[node.op_id].op_params.get("has_side_effect") == "true"
        or _has_token(split, (*node.operands, *node.results))
        or any(inner.op_id and _has_effects(split, inner) for body in node.bodies for inner in body.nodes)
    )


def _has_token(split: SplitModule, values: Sequence[int]) -> bool:
    """Whether one of these values orders effects."""
    return any(split.values[value].data_type == TOKEN for value in values)
