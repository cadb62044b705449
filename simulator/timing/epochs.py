"""Cycles of a plan: those of a placed op by its block, of an epoch as a pipeline of its ops, of switches by DRAM.

An epoch's ops work at the same time, each on another input, so that the next result comes after as many cycles as the
slowest op takes, and those in which it waits for the others; or after those of the busiest channel of DRAM. What a
later epoch reads goes through DRAM too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opscope.compiler.target.plan import EpochPlan, PlacedOp, Plan
from opscope.compiler.target.program import MatmulParams, Operation, Program
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.profile import EpochCost, OpCost
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.constants import Constants
from opscope.simulator.timing.kernel_cycles import path_of
from opscope.simulator.timing.placed_work import op_work
from opscope.simulator.timing.thread_cycles import thread_cycles
from opscope.simulator.timing.tile_cycles import block_cycles, width
from opscope.simulator.timing.traffic import READERS, Traffic, resident_queues

DST_SAVES = frozenset({"add", "subtract", "multiply"})
IN_DST = (1, 0.5, 0.2)
"""Share of its cycles that such a step of a fused op takes with neither, one or both of its ends in Dst
(tt-budabackend, perf_lib/op_model/op_model.cpp)."""


def placed_costs(program: Program, placed: Mapping[int, PlacedOp], system: SystemDesc) -> list[OpCost]:
    """Returns the cycles of each operation of a planned program; `moved` says what it moves. One that no core computes,
    such as a manipulation that the network does on the way, costs nothing of its own.
    """
    readers = Counter(tensor for op in program.operations for tensor in op.inputs)
    costs = []
    for number, op in enumerate(program.operations):
        where = placed.get(number)
        cycles = op_cycles(op, program, where, CONSTANTS[system.arch]) if where else 0.0
        if where and op.kernel in DST_SAVES and where.steps:
            cycles *= IN_DST[ends_in_dst(number, op, program, where, readers)]
        cores = where.grid[0] * where.grid[1] if where else 0
        costs.append(OpCost(op.kernel, op.location, round(cycles), round(cycles), cores=cores))
    return costs


def ends_in_dst(number: int, op: Operation, program: Program, where: PlacedOp, readers: Counter[int]) -> int:
    """Returns how many ends of a step are in Dst: there a result stays that the next step alone reads."""
    order = (*where.steps, where.operation)
    place = order.index(number)

    def stays(first: int, second: int) -> bool:
        (made,) = program.operations[first].outputs
        return made in program.operations[second].inputs and readers[made] == 1

    before = place > 0 and stays(order[place - 1], number)
    after = place + 1 < len(order) and stays(number, order[place + 1])
    return before + after


def op_cycles(op: Operation, program: Program, where: PlacedOp, constants: Constants) -> float:
    """Returns the cycles of one core of a placed op, or of a step of one, for its block of one input."""
    kernel, work, key = op_work(op, program, where)
    return block_cycles(constants, kernel, work, key, approximate=op.numerics.math_approx, l1_acc=where.l1_acc)


SystemOf = Callable[[Operation, Program], SystemDesc]


def epoch_costs(plan: Plan, program: Program, costs: Sequence[OpCost], system_of: SystemOf) -> tuple[EpochCost, ...]:
    """Returns the cost of each epoch of a plan, in its order, from the costs of the entry's operations.

    `system_of` says on what each operation is timed; DRAM is as slow as the slowest of these.
    """
    if not plan.ops:
        return ()
    prologue = resident_queues(plan)
    return tuple(_epoch(epoch, plan, program, costs, system_of, prologue) for epoch in plan.epochs)


def _epoch(
    epoch: EpochPlan, plan: Plan, program: Program, costs: Sequence[OpCost], system_of: SystemOf, prologue: set[str]
) -> EpochCost:
    ops = [op for op in plan.ops if (op.epoch, op.chip) == (epoch.number, epoch.chip)]
    cycles = {op.name: sum(costs[number].cycles for number in (*op.steps, op.operation)) for op in ops}
    systems = [system_of(program.operations[op.operation], program) for op in ops]
    if not systems:
        return EpochCost(epoch.number, epoch.chip, "", 0, 0, 0, 0)
    system = min(systems, key=lambda each: each.dram_gb_per_s)
    constants = CONSTANTS[system.arch]
    stalls = {op.name: stall_cycles(op, program, constants) for op in ops}
    slowest = max(ops, key=lambda op: cycles[op.name] + stalls[op.name])
    name = slowest.name
    of_number = {number: float(cost.cycles) for number, cost in enumerate(costs)}
    traffic = Traffic(epoch, ops, plan, program)
    rate = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz
    channel = round(traffic.busiest_channel(prologue) * READERS * system.buda.dram_channels / rate)
    return EpochCost(
        epoch.number,
        epoch.chip,
        name,
        cycles[name],
        stalls[name],
        channel,
        round(traffic.switch_bytes() / rate),
        slowest_unit=thread_cycles(program, slowest, of_number, constants).limiter,
        busy_core_cycles=sum(cycles[op.name] * op.grid[0] * op.grid[1] for op in ops),
    )


def stall_cycles(op: PlacedOp, program: Program, constants: Constants) -> int:
    """Returns the cycles in which an op waits for operands, once per macro block.

    Its buffers hold two micro blocks of an operand, so that most of the data arrives while it computes; the first
    micro block of each operand does not, since until then the macro block before took the room.
    """
    first = program.operations[(*op.steps, op.operation)[0]]
    descs = [program.tensors[t] for t in first.inputs]
    b = op.block
    if isinstance(first.params, MatmulParams):
        tiles = [b.ublock_rt * op.u_kt, op.u_kt * b.ublock_ct, *[b.ublock_rt * b.ublock_ct] * (len(descs) - 2)]
    else:
        tiles = [b.ublock_rt * b.ublock_ct] * len(descs)
    moved = (path_of(constants, 1, width(desc.data_format)).moved for desc in descs)
    return round(b.t * sum(count * each for count, each in zip(tiles, moved, strict=True)))
