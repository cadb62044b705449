"""The closed form: the time of every operation by a formula, of a plan's epochs as pipelines of its placed ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opscope.compiler.target.program import ControlParams, Operation, Program
from opscope.simulator.memory import peaks_of_plan
from opscope.simulator.profile import OpCost, Profile
from opscope.simulator.timing.epochs import epoch_costs, placed_costs
from opscope.simulator.timing.events.wiring import received_bytes
from opscope.simulator.timing.operation import operation_cost
from opscope.simulator.timing.protocol import Loaded, TripCounts
from opscope.simulator.timing.traffic import Moved, moved_of


class ClosedForm:
    """The model of time of a device that does not ask for another one."""

    def operation_costs(self, executable: Loaded, program: Program) -> list[OpCost]:
        """Returns the cost of each operation of a program; that of control flow excludes the programs it calls."""
        if executable.placed and program is executable.program:
            return _with_moved(executable, placed_costs(program, executable.placed, executable.device.system))
        profile, system_of = executable.device.profile, executable.system_of
        return [
            operation_cost(op, program, system_of(op, program), profile, executable.programs)
            for op in program.operations
        ]

    def cost(self, executable: Loaded, trip_counts: TripCounts | None = None) -> Profile:
        """Returns the cost of a run in which each called program ran as often as `trip_counts` says; without them,
        once, and each operation of control flow read one predicate.
        """
        costs: list[OpCost] = []
        once: list[OpCost] = []
        predicates = 0
        if trip_counts is None:
            self._visit(executable, executable.program, costs)
        else:
            costs += self._own(executable, executable.program)
            kept = _kept(executable)
            read = _predicates(executable)
            for name, count in trip_counts.items():
                if cost := read.get(name):
                    predicates += count
                    costs += [cost] * count
                (once if name in kept else costs).extend(self._own(executable, executable.programs[name]) * count)
        memory, entry, plan = executable.memory, executable.program, executable.plan
        l1_peak, dram_peak = peaks_of_plan(plan) if plan.ops else (memory.l1_peak, memory.dram_peak)
        epochs = epoch_costs(plan, entry, executable.costs(entry), executable.system_of)
        return Profile(
            tuple(costs),
            executable.device.system.clock_ghz,
            l1_peak,
            dram_peak,
            predicates,
            tuple(once),
            epochs,
        )

    def _visit(self, executable: Loaded, program: Program, into: list[OpCost]) -> None:
        for op, cost in zip(program.operations, executable.costs(program), strict=True):
            into.append(cost)
            if isinstance(op.params, ControlParams) and op.kernel != "load_cached":
                for name in op.params.programs:
                    self._visit(executable, executable.programs[name], into)

    @staticmethod
    def _own(executable: Loaded, program: Program) -> list[OpCost]:
        """Returns the costs of a program's operations, without those of control flow."""
        costs = zip(program.operations, executable.costs(program), strict=True)
        return [cost for op, cost in costs if not isinstance(op.params, ControlParams)]


def _with_moved(executable: Loaded, costs: list[OpCost]) -> list[OpCost]:
    """Adds what each operation of a planned program moves."""
    plan, program = executable.plan, executable.program
    moved, received = moved_of(plan, program), received_bytes(plan, program)
    none = Moved()
    return [
        replace(
            cost,
            dram_read_bytes=of.read + of.loaded,
            dram_written_bytes=of.written,
            loaded_bytes=of.loaded,
            noc_bytes=received[number],
        )
        for number, cost in enumerate(costs)
        for of in (moved.get(number, none),)
    ]


def _controls(executable: Loaded) -> Iterator[tuple[str, Operation, OpCost, ControlParams]]:
    for program in executable.programs.values():
        for op, cost in zip(program.operations, executable.costs(program), strict=True):
            if isinstance(op.params, ControlParams):
                yield program.name, op, cost, op.params


def _predicates(executable: Loaded) -> dict[str, OpCost]:
    """Returns the programs at whose call the host reads a predicate or a branch's number: a `while`'s condition."""
    costs = {}
    for _, op, cost, params in _controls(executable):
        if op.kernel not in ("load_cached", "for"):
            costs |= dict.fromkeys(params.programs[:1] if op.kernel == "while" else params.programs, cost)
    return costs


def _kept(executable: Loaded) -> set[str]:
    """Returns the programs that run once for the same parameters, and those that they call."""
    calls = [(caller, op.kernel == "load_cached", params.programs) for caller, op, _, params in _controls(executable)]
    programs = {name for _, kept, names in calls if kept for name in names}
    while more := {name for caller, _, names in calls if caller in programs for name in names} - programs:
        programs |= more
    return programs
