"""Reads fused ops of a netlist and checks them against a core's limits (tt-budabackend: src/net2hlks/README.md)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from opscope.compiler.buda.composed_ops import SCALED
from opscope.compiler.buda.fuse_ops import BROADCASTS_INTO, MOST_INTERMEDIATES
from opscope.compiler.buda.fused import DEST, OUTPUT, Fused, Step
from opscope.compiler.buda.fused_steps import NOT_FROM_DEST
from opscope.compiler.buda.graph import OpSpec, Tm
from opscope.compiler.buda.graph_to_program import KERNELS
from opscope.compiler.buda.netlist.attributes import check_attributes, kind_of, relu_of, scalar_of, zero_point_of
from opscope.compiler.buda.netlist.model import FusedOp, Netlist, Op, SubOp
from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.errors import CompilerInputError

MOST_OPERANDS = 16
"""Buffers of a core that operands may have: `in0` to `in7` and `param0` to `param7` (tt-budabackend:
hlks/inc/hlk_api.h; netlist_fused_op_with_16_inputs.yaml is its own test of them all). TT-Buda itself fuses ops of 8."""
ONE = (1, 1)
ENDS_SCHEDULE = frozenset({"matmul", "reduce"})
"""Steps whose result has other blocks than their operands."""


def check_fused(netlist: Netlist) -> None:
    """Raises CompilerInputError for a fused op that no core can do, or an op that refers to none."""
    for fused in netlist.fused_ops.values():
        _check(fused, dest_first=netlist.arch == "grayskull")
    for op in netlist.ops.values():
        if op.type != "fused_op":
            continue
        fused = fused_of(netlist, op)
        if len(op.inputs) != fused.inputs:
            raise CompilerInputError(f"{op.name}.inputs: expected {fused.inputs} of a fused op, got {len(op.inputs)}")
        _check_kept(fused, op)
        steps = [step for schedule in fused.schedules for step in schedule]
        if any(step.type in ENDS_SCHEDULE or _repeats_tiles(step) for step in steps):
            continue
        for step in steps:
            for key, own, block in (("mblock", step.mblock, op.mblock), ("ublock", step.ublock, op.ublock)):
                if own is not None and own != block:
                    where = f"fused_ops.{fused.id}.{step.name}.{key}"
                    raise CompilerInputError(f"{where}: expected {list(block)} as {op.name} has, got {list(own)}")


def _check_kept(fused: FusedOp, op: Op) -> None:
    """Raises CompilerInputError for a buffer that a later schedule reads and that cannot hold what was made.

    Buffers hold two micro blocks, and a schedule is done micro block by micro block. One that ends in a product or a
    reduction goes on to the next once the whole macro block went through it, of which the other buffers hold the end
    (tt-budabackend: src/net2hlks/README.md, general constraint 8; its own netlists hand on what other schedules make).
    """
    made: dict[str, tuple[int, SubOp]] = {}
    for number, schedule in enumerate(fused.schedules):
        for step in schedule:
            for name in step.inputs:
                by, maker = made.get(name, (number, step))
                last = fused.schedules[by][-1]
                block = maker.mblock or op.mblock
                if by != number and last.type in ENDS_SCHEDULE and maker is not last and tuple(block) != (1, 1):
                    raise CompilerInputError(
                        f"fused_ops.{fused.id}.{step.name}: expected {name} before {last.name} ends its schedule, or "
                        f"of one micro block, got mblock {list(block)}"
                    )
            made[step.output] = number, step


def _repeats_tiles(step: SubOp) -> bool:
    return any(tm.startswith("broadcast") for tms in step.tms.values() for tm in tms)


def fused_of(netlist: Netlist, op: Op) -> FusedOp:
    """Returns the fused op that an op refers to. Raises CompilerInputError."""
    number = op.attributes.get("fused_op_id")
    if not isinstance(number, int) or number not in netlist.fused_ops:
        known = ", ".join(map(str, netlist.fused_ops)) or "none in the file"
        raise CompilerInputError(
            f"{op.name}.attributes.fused_op_id: expected one of fused_ops ({known}), got {number!r}"
        )
    return netlist.fused_ops[number]


def _check(fused: FusedOp, dest_first: bool) -> None:
    where = f"fused_ops.{fused.id}"
    for key, count, most in (
        ("inputs", fused.inputs, MOST_OPERANDS),
        ("intermediates", fused.intermediates, MOST_INTERMEDIATES),
    ):
        if count > most:
            raise CompilerInputError(f"{where}.{key}: expected at most {most}, got {count}")
    steps = [step for schedule in fused.schedules for step in schedule]
    if not steps or steps[-1].output != OUTPUT or any(step.output == OUTPUT for step in steps[:-1]):
        raise CompilerInputError(f"{where}: expected the last step, and it alone, to make the output, got another")
    live = {f"input{i}" for i in range(fused.inputs)}
    made: dict[str, SubOp] = {}
    buffers = {f"intermed{i}" for i in range(fused.intermediates)}
    for schedule in fused.schedules:
        in_dest = False
        for step in schedule:
            _check_step(f"{where}.{step.name}", step, live, in_dest, dest_first)
            _check_blocks(f"{where}.{step.name}", step, made)
            made[step.output] = step
            if step.output not in (DEST, OUTPUT, *buffers):
                names = ", ".join(sorted(buffers)) or "no intermediate"
                raise CompilerInputError(
                    f"{where}.{step.name}.output: expected dest, output or {names}, got {step.output!r}"
                )
            live = (live - set(step.pop)) | ({step.output} & buffers)
            in_dest = step.output == DEST
        if in_dest:
            raise CompilerInputError(
                f"{where}: expected Dst to be read within its schedule, got {schedule[-1].name} last"
            )


def _check_step(where: str, step: SubOp, live: set[str], in_dest: bool, dest_first: bool) -> None:
    """Checks the inputs of one step, given the buffers that are filled before it and whether Dst is."""
    if kind_of(step.type) not in KERNELS and step.type not in (*ENDS_SCHEDULE, *SCALED):
        raise CompilerInputError(
            f"{where}.type: expected {', '.join(sorted((*KERNELS, *ENDS_SCHEDULE, *SCALED)))}, got {step.type!r}"
        )
    for name in (name for name in step.inputs if name != DEST):
        if name not in live:
            raise CompilerInputError(f"{where}: expected {', '.join(sorted(live))} or dest, got {name!r}")
    from_dest = [i for i, name in enumerate(step.inputs) if name == DEST]
    if from_dest and (not in_dest or step.type in NOT_FROM_DEST):
        raise CompilerInputError(
            f"{where}: expected Dst to hold the step before and a step that reads Dst, got {step.type}"
        )
    if in_dest and len(from_dest) != 1:
        raise CompilerInputError(f"{where}: expected to read Dst once, behind a step that leaves its result there")
    if from_dest and dest_first and from_dest[0] != 0:
        raise CompilerInputError(f"{where}: expected Dst as the first input on grayskull, got input {from_dest[0]}")
    for i, tms in step.tms.items():
        repeated = [tm for tm in tms if tm.startswith("tile_broadcast")]
        if repeated and (i != 1 or step.type not in BROADCASTS_INTO):
            raise CompilerInputError(
                f"{where}: expected {repeated[0]} on input 1 of add, subtract or multiply, got input {i} of {step.type}"
            )
        if other := [tm for tm in tms if not tm.startswith(("broadcast", "tile_broadcast"))]:
            raise CompilerInputError(f"{where}: expected broadcasts inside a fused op, got {other[0]}")


def _check_blocks(where: str, step: SubOp, made: dict[str, SubOp]) -> None:
    """Checks what a core can do with the blocks of a step; `made` has the step that filled each buffer."""
    if step.type == "matmul":
        left, right = step.inputs[:2]
        if right.startswith("intermed") or step.output == OUTPUT:
            shown = f"input 1 from {right} and the result in {step.output}"
            raise CompilerInputError(f"{where}: expected a matmul by an input into an intermediate, got {shown}")
        before = made.get(left)
        if before is not None and before.mblock and before.ublock:
            m_k, u_kt = before.mblock[1], before.ublock[1]
            repeated = prod(Tm.parse(tm).factor for tm in step.tms.get(0, ()) if tm.startswith("broadcast(c"))
            got = step.attributes.get("m_k"), step.attributes.get("u_kt")
            tiles = prod(value if isinstance(value, int) else 0 for value in got)
            if got != (m_k, u_kt) and (repeated == 1 or tiles != m_k * u_kt * repeated):
                times = f" repeated {repeated} times" if repeated > 1 else ""
                raise CompilerInputError(
                    f"{where}.attributes: expected m_k {m_k} and u_kt {u_kt * repeated}, the blocks of {left}{times}, "
                    f"got {got}"
                )
    down = [i for i, tms in step.tms.items() if any(tm.startswith("broadcast(r") for tm in tms)]
    for i in down:
        name, before = step.inputs[i], made.get(step.inputs[i])
        mblock, ublock = (before.mblock or ONE, before.ublock or ONE) if before is not None else (ONE, ONE)
        over = step.mblock is not None and step.mblock[0] > 1 and mblock[1] > 1
        if name.startswith("input") or (mblock[0], ublock[0]) != ONE or over or step.type == "matmul":
            raise CompilerInputError(
                f"{where}.input_{i}_tms: expected one row of tiles to be repeated from an intermediate, of one column "
                f"of blocks if into several rows of them, got {name} with mblock {list(mblock)} and ublock "
                f"{list(ublock)} into mblock {list(step.mblock or ())}"
            )


def steps_of(netlist: Netlist, op: Op, spec: OpSpec) -> Fused:
    """Returns a fused op's steps, each with the settings of `spec` that all share. Raises CompilerInputError."""
    fused = fused_of(netlist, op)
    names: dict[str, int] = {}
    schedules = tuple(tuple(_step(_renamed(step, names), spec) for step in schedule) for schedule in fused.schedules)
    return Fused(fused.inputs, fused.intermediates, schedules)


def _renamed(step: SubOp, names: dict[str, int]) -> SubOp:
    """Returns a step under a name of its own: schedules may have steps of one name."""
    names[step.name] = count = names.get(step.name, 0) + 1
    return step if count == 1 else replace(step, name=f"{step.name}.{count}")


def _step(step: SubOp, spec: OpSpec) -> Step:
    elements = step.attributes.get("elements")
    if elements is not None and not (
        isinstance(elements, list) and len(elements) == 3 and all(isinstance(n, int) and n > 0 for n in elements)
    ):
        raise CompilerInputError(f"{step.name}.attributes.elements: expected three whole numbers, got {elements!r}")
    tms = tuple(tuple(Tm.parse(tm) for tm in step.tms.get(i, ())) for i in range(len(step.inputs)))
    return Step(
        step.name,
        step_spec(step, spec),
        step.inputs,
        step.output,
        tms if any(tms) else (),
        step.pop,
        (elements[0], elements[1], elements[2]) if elements else None,
    )


def step_spec(step: SubOp, spec: OpSpec) -> OpSpec:
    """Returns the specification of a step."""
    attributes = step.attributes
    check_attributes(step.name, step.type, attributes, step=True)
    mode, threshold = relu_of(step.name, attributes)
    return replace(
        spec,
        type=kind_of(step.type),
        scalar=scalar_of(step.name, step.type, attributes),
        relu=bool(attributes.get("relu_en")),
        approximate=bool(attributes.get("approximate_mode")),
        reduce_dim=str(attributes.get("dim", "")),
        reduce_type=str(attributes.get("type", "sum")),
        vector=str(attributes.get("vector", "")),
        options=OpOptions(relu_mode=mode, relu_threshold=threshold, zero_point=zero_point_of(step.name, attributes)),
    )


__all__ = ["check_fused", "fused_of", "steps_of"]
