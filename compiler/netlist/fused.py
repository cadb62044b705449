"""Fused ops: several steps on the same cores, what they hand on kept in Dst or in a small buffer.

A graph knows single ops: a fused one becomes one node per step, the last of which has the op's cores. What stays in Dst
is held in Dst's format (tt-budabackend: src/net2hlks/README.md has the limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.errors import CompilerInputError
from compiler.graph import OpSpec, Tm
from compiler.graph_builder import GraphBuilder, Operand
from compiler.graph_to_program import KERNELS
from compiler.netlist.model import FusedOp, Netlist, Op, SubOp

MOST_INPUTS = 8
DEST, OUTPUT = "dest", "output"
NOT_FROM_DEST = frozenset({"matmul", "reduce", "maximum"})
"""Steps that cannot read Dst."""
ENDS_SCHEDULE = frozenset({"matmul", "reduce"})
"""Only behind these may a new schedule begin."""


def check_fused(netlist: Netlist) -> None:
    """Raises CompilerInputError for a fused op that no core can do, or an op that names none."""
    for fused in netlist.fused_ops.values():
        _check(fused)
    for op in netlist.ops.values():
        if op.type != "fused_op":
            continue
        fused = fused_of(netlist, op)
        if len(op.inputs) != fused.inputs:
            raise CompilerInputError(f"{op.name}.inputs: expected {fused.inputs} of a fused op, got {len(op.inputs)}")


def fused_of(netlist: Netlist, op: Op) -> FusedOp:
    """What a fused op does. Raises CompilerInputError."""
    number = op.attributes.get("fused_op_id")
    if not isinstance(number, int) or number not in netlist.fused_ops:
        known = ", ".join(map(str, netlist.fused_ops)) or "none in the file"
        raise CompilerInputError(
            f"{op.name}.attributes.fused_op_id: expected one of fused_ops ({known}), got {number!r}"
        )
    return netlist.fused_ops[number]


def _check(fused: FusedOp) -> None:
    where = f"fused_ops.{fused.id}"
    if fused.inputs > MOST_INPUTS:
        raise CompilerInputError(f"{where}.inputs: expected at most {MOST_INPUTS}, got {fused.inputs}")
    steps = [step for schedule in fused.schedules for step in schedule]
    if not steps or steps[-1].output != OUTPUT or any(step.output == OUTPUT for step in steps[:-1]):
        raise CompilerInputError(f"{where}: expected the last step, and it alone, to make the output, got another")
    known = {f"input{i}" for i in range(fused.inputs)}
    for number, schedule in enumerate(fused.schedules):
        if number and fused.schedules[number - 1][-1].type not in ENDS_SCHEDULE:
            raise CompilerInputError(
                f"{where}.schedules[{number}]: expected to follow a matmul or a reduce, "
                f"got one behind {fused.schedules[number - 1][-1].type}"
            )
        in_dest = False
        for step in schedule:
            for name in step.inputs:
                _check_input(where, step, name, known, in_dest)
            known |= {step.output} if step.output not in (DEST, OUTPUT) else set()
            in_dest = step.output == DEST
        if in_dest:
            raise CompilerInputError(
                f"{where}: expected Dst to be read within its schedule, got {schedule[-1].name} last"
            )


def _check_input(where: str, step: SubOp, name: str, known: set[str], in_dest: bool) -> None:
    if name == DEST:
        if not in_dest or step.type in NOT_FROM_DEST:
            raise CompilerInputError(
                f"{where}.{step.name}: expected Dst to hold the step before and a step that reads Dst, got {step.type}"
            )
    elif name not in known:
        raise CompilerInputError(f"{where}.{step.name}: expected {', '.join(sorted(known))} or dest, got {name!r}")


def add_fused(builder: GraphBuilder, netlist: Netlist, op: Op, operands: list[Operand], spec: OpSpec) -> Iterator[str]:
    """Adds an op's steps to a graph, the last under the op's own name; gives their names."""
    fused = fused_of(netlist, op)
    held: dict[str, Operand] = {f"input{i}": operand for i, operand in enumerate(operands)}
    for schedule in fused.schedules:
        for step in schedule:
            last = step.output == OUTPUT
            name = op.name if last else f"{op.name}.{step.name}"
            data_format = op.out_df if last else op.acc_df if step.output == DEST else op.intermed_df
            inputs = [
                Operand(held[key].producer, (*held[key].tms, *(Tm.parse(tm) for tm in step.tms.get(i, ()))))
                for i, key in enumerate(step.inputs)
            ]
            held[step.output] = builder.op(name, step_spec(step, spec), inputs, data_format)
            yield name


def step_spec(step: SubOp, spec: OpSpec) -> OpSpec:
    """What a step computes. Raises CompilerInputError for a type that no kernel does."""
    if step.type not in KERNELS and step.type not in ENDS_SCHEDULE:
        raise CompilerInputError(
            f"{step.name}: expected {', '.join(sorted((*KERNELS, *ENDS_SCHEDULE)))}, got {step.type!r}"
        )
    attributes = step.attributes
    return replace(
        spec,
        type=step.type,
        relu=bool(attributes.get("relu_en")),
        approximate=bool(attributes.get("approximate_mode")),
        reduce_dim=str(attributes.get("dim", "")),
        reduce_type=str(attributes.get("type", "sum")),
    )


__all__ = ["add_fused", "check_fused", "fused_of"]
