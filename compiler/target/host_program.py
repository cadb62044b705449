"""The programs of a netlist, as a binary holds them: what the host tells its chips to execute, in which order.

Instructions and settings have the names of TT-Buda's netlists (tt-budabackend: netlist/README.md, "Programs").
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operand:
    """A variable, or a number if the name is empty."""

    variable: str = ""
    number: int = 0


@dataclass(frozen=True)
class QueueSettings:
    """How one execution reads or writes a queue: names of settings, and the value of each; flags are 0 or 1."""

    queue: str
    names: tuple[str, ...]
    values: tuple[Operand, ...]


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    | code | names | operands |
    |---|---|---|
    | param | variables that the caller gives | |
    | var, staticvar | variables | their start values |
    | varinst | the variable that is set, the operation | those of the operation |
    | loop | | the number of rounds |
    | execute | | |
    | allocate_queue, deallocate_queue | queues | |
    | endloop, endprogram | | |
    """

    code: str
    names: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    graph: str = ""
    """Of `execute`: the graph of an epoch (`EpochPlan.graph`)."""
    settings: tuple[QueueSettings, ...] = ()
    """Of `execute`."""


@dataclass(frozen=True)
class HostProgram:
    """Instructions of the host's interpreter (`interpret.py`), in order."""

    name: str
    instructions: tuple[Instruction, ...]
