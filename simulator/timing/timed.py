"""Mode `timed`: the time of a program by events, for those who want to see who waits for whom."""

from __future__ import annotations

import math
from dataclasses import replace

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import Program
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.profile import EpochCost, OpCost, Profile
from opscope.simulator.timing.closed_form import ClosedForm
from opscope.simulator.timing.events.recording import Recording, Roofs
from opscope.simulator.timing.events.run_epoch import simulate
from opscope.simulator.timing.events.unplaced import simulate_op
from opscope.simulator.timing.events.wiring import wire
from opscope.simulator.timing.flops import flops_of
from opscope.simulator.timing.protocol import Loaded, TripCounts

MAX_EVENTS = 20_000_000


class Timed(ClosedForm):
    """The model of time by events. Work of threads is the closed form's; waits are simulated.

    An operation costs what the simulation of one run of it takes, and a run as much as its operations, however often
    control flow calls them. `recording` is what the last program that was timed left behind.
    """

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self.max_events = max_events
        self.recording = Recording(max_events)

    def operation_costs(self, executable: Loaded, program: Program) -> list[OpCost]:
        """Returns the cost of each operation of a program; that of control flow excludes the programs it calls."""
        costs = super().operation_costs(executable, program)
        if executable.placed and program is executable.program:
            return costs  # their work; `cost` runs the epochs
        profile, recording = executable.device.profile, self.recording
        recording.clock_ghz = executable.device.system.clock_ghz
        by_events, begin = [], 0.0
        for number, (op, cost) in enumerate(zip(program.operations, costs, strict=True)):
            if cost.cores and not recording.partial:
                system = executable.system_of(op, program)
                cycles = simulate_op(cost, number, begin, system, profile, recording)
                recording.ops[-1].flops = flops_of(op, program)
                begin += cycles
                cost = replace(cost, cycles=math.ceil(cycles))
            by_events.append(cost)
        return by_events

    def cost(self, executable: Loaded, trip_counts: TripCounts | None = None) -> Profile:
        """Returns the cost of a run in which each called program ran as often as `trip_counts` says; without them,
        once. Of a planned program, each epoch is filled with inputs and timed once it is.
        """
        plan, program = executable.plan, executable.program
        if plan.ops:
            self.recording = Recording(self.max_events, planned=True)
        profile = super().cost(executable, trip_counts)
        recording = self.recording
        recording.clock_ghz = profile.clock_ghz
        recording.roofs = _roofs(executable.device.system, executable.cores)
        if not plan.ops:
            return replace(profile, partial=recording.partial)
        costs = executable.costs(program)
        cycles = {number: float(cost.cycles) for number, cost in enumerate(costs)}
        epochs: list[EpochCost] = []
        for epoch, closed in zip(plan.epochs, profile.epochs, strict=True):
            if not closed.slowest or recording.left <= 0:
                recording.partial |= recording.left <= 0
                continue
            number = next(op.operation for op in plan.ops if op.name == closed.slowest)
            system = executable.system_of(program.operations[number], program)
            wired, before = wire(epoch, plan, program), len(recording.ops)
            times = simulate(wired, program, cycles, system, recording)
            steps = {op.name: (*op.steps, op.operation) for op in wired.ops}
            for op in recording.ops[before:]:
                op.moves(*(costs[step] for step in steps[op.name]))
            if times is None:
                continue
            stalls = max(0, round(times.interval) - closed.slowest_cycles)
            # Loads and stores of switches are transfers of the simulation.
            epochs.append(replace(closed, stall_cycles=stalls, dram_cycles=0, switch_cycles=0, stall_unit=times.way))
        return replace(profile, epochs=tuple(epochs), partial=recording.partial)


def _roofs(system: SystemDesc, cores: int) -> Roofs:
    return Roofs(
        cores * 2 * TILE**3 / system.cycles_per_tile_matmul,
        system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz,
        float(cores * system.noc_bytes_per_clock),
    )
