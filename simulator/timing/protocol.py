"""What a model of time is to the device: it turns a loaded program and what of it ran into costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from opscope.compiler.target.plan import PlacedOp, Plan
from opscope.compiler.target.program import Operation, Program
from opscope.compiler.target.system_desc import Profile as CoreProfile
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.memory import MemoryPlan
from opscope.simulator.profile import OpCost, Profile

TripCounts = Mapping[str, int]
"""Program that control flow calls -> how often it ran."""


class Card(Protocol):
    """What a model of time asks of the device."""

    @property
    def system(self) -> SystemDesc:
        """The board."""
        ...

    @property
    def profile(self) -> CoreProfile:
        """Its grid and memory."""
        ...


class Loaded(Protocol):
    """What a model of time asks of a loaded program: `device.Executable`."""

    @property
    def device(self) -> Card:
        """The device that holds it."""
        ...

    @property
    def program(self) -> Program:
        """The entry."""
        ...

    @property
    def programs(self) -> Mapping[str, Program]:
        """Every program, by name."""
        ...

    @property
    def plan(self) -> Plan:
        """Its plan, which may be empty."""
        ...

    @property
    def placed(self) -> Mapping[int, PlacedOp]:
        """Operation of the entry -> its place in the plan."""
        ...

    @property
    def cores(self) -> int:
        """Cores of a chip that it may use."""
        ...

    @property
    def memory(self) -> MemoryPlan:
        """The memory that its tensors take."""
        ...

    @property
    def system_of(self) -> Callable[[Operation, Program], SystemDesc]:
        """Operation and its program -> the system description by which it is timed."""
        ...

    def costs(self, program: Program) -> list[OpCost]:
        """Returns what `Timing.operation_costs` said of a program."""
        ...


class Timing(Protocol):
    """A model of time."""

    def operation_costs(self, executable: Loaded, program: Program) -> list[OpCost]:
        """Returns the cost of each operation of a program; that of control flow excludes the programs it calls."""
        ...

    def cost(self, executable: Loaded, trip_counts: TripCounts | None = None) -> Profile:
        """Returns the cost of a run in which each called program ran as often as `trip_counts` says.

        Without trip counts every called program is taken to run once, which is true of a program without control flow.
        """
        ...
