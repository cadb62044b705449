"""Interprets a plan's programs: the order in which they execute graphs, and queue pointers. It always terminates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from opscope.compiler.target.host_program import HostProgram, Instruction, Operand

MOST_STEPS = 1_000_000
"""Instructions after which a program counts as an endless loop."""
OPERATIONS = ("set", "add", "mul", "inc", "incwrap")
"""Operations of `varinst`."""
CODES = frozenset(
    {
        "param",
        "var",
        "staticvar",
        "varinst",
        "loop",
        "endloop",
        "execute",
        "allocate_queue",
        "deallocate_queue",
        "endprogram",
    }
)
"""Every instruction."""


class HostProgramError(ValueError):
    """A program that the interpreter cannot execute; `<where>: expected X, got Y; try Z`."""


@dataclass(frozen=True)
class Execution:
    """One execution of a graph."""

    graph: str
    queue_settings: Mapping[str, Mapping[str, int]]
    """Queue -> its settings, with variables replaced by their values; flags are 0 or 1."""


@dataclass(frozen=True)
class Allocation:
    """Queues that become empty: `allocate_queue`, or `deallocate_queue` if they are `freed`."""

    queues: tuple[str, ...]
    freed: bool


def executions(
    program: HostProgram, parameters: Mapping[str, int] | None = None, statics: MutableMapping[str, int] | None = None
) -> Iterator[Execution]:
    """Yields the executions of graphs in the order in which they happen: `steps` without the allocations."""
    return (step for step in steps(program, parameters, statics) if isinstance(step, Execution))


def steps(
    program: HostProgram, parameters: Mapping[str, int] | None = None, statics: MutableMapping[str, int] | None = None
) -> Iterator[Execution | Allocation]:
    """Yields what a program does, in order; parameters that are not given are 1.

    `statics` keeps the values of `staticvar` from one call of the program to the next. Raises HostProgramError for an
    unknown variable or operation, or a loop that is not closed, does not run or never ends.
    """
    where, ends = f"programs.{program.name}", _loops(program)
    values: dict[str, int] = {}
    kept = {} if statics is None else statics
    counters: dict[int, int] = {}
    at = taken = 0
    while at < len(program.instructions):
        taken += 1
        if taken > MOST_STEPS:
            raise HostProgramError(
                f"{where}: expected an end within {MOST_STEPS} instructions, got none; try a smaller loop count"
            )
        line = program.instructions[at]
        here = f"{where}[{at}]"
        match line.code:
            case "param":
                values.update({word: (parameters or {}).get(word.lstrip("$"), 1) for word in line.names})
            case "var":
                values.update(_declared(here, line, values))
            case "staticvar":
                for name, start in _declared(here, line, values).items():
                    values[name] = kept.setdefault(name, start)
            case "varinst":
                _calculate(here, line, values)
                if line.names[0] in kept:
                    kept[line.names[0]] = values[line.names[0]]
            case "loop":
                count = _value(here, _one(here, line), values)
                if count < 1:
                    raise HostProgramError(f"{here}: expected a loop of 1 or more rounds, got {count} (for ever)")
                counters[at] = count
            case "endloop":
                start = ends[at]
                counters[start] -= 1
                if counters[start] > 0:
                    at = start
            case "execute":
                yield _execution(here, line, values)
            case "allocate_queue" | "deallocate_queue":
                yield Allocation(line.names, freed=line.code == "deallocate_queue")
            case "endprogram":
                return
            case unknown:
                raise _unknown(here, unknown)
        at += 1


def check_program(program: HostProgram) -> None:
    """Checks what can be known before a run: codes and loops. Raises HostProgramError."""
    _loops(program)
    for at, line in enumerate(program.instructions):
        if line.code not in CODES:
            raise _unknown(f"programs.{program.name}[{at}]", line.code)


def _unknown(where: str, code: str) -> HostProgramError:
    return HostProgramError(f"{where}: expected {', '.join(sorted(CODES))}, got {code!r}")


def _loops(program: HostProgram) -> dict[int, int]:
    """Returns end of each loop -> its start."""
    open_, ends = [], {}
    for at, line in enumerate(program.instructions):
        if line.code == "loop":
            open_.append(at)
        elif line.code == "endloop":
            if not open_:
                raise HostProgramError(f"programs.{program.name}[{at}]: expected a loop before endloop, got none")
            ends[at] = open_.pop()
    if open_:
        raise HostProgramError(f"programs.{program.name}[{open_[-1]}]: expected an endloop, got none (loops for ever)")
    return ends


def _one(where: str, line: Instruction) -> Operand:
    if len(line.operands) != 1:
        raise HostProgramError(f"{where}: expected one number of rounds, got {len(line.operands)}")
    return line.operands[0]


def _declared(where: str, line: Instruction, values: Mapping[str, int]) -> dict[str, int]:
    if len(line.names) != len(line.operands):
        raise HostProgramError(f"{where}: expected a start value for each of {len(line.names)} variables")
    return {name: _value(where, start, values) for name, start in zip(line.names, line.operands, strict=True)}


def _value(where: str, operand: Operand, values: Mapping[str, int]) -> int:
    if not operand.variable:
        return operand.number
    if operand.variable not in values:
        names = ", ".join(list(values)[:4]) or "var: {$c_zero: 0}"
        raise HostProgramError(f"{where}: expected a variable that is declared, got {operand.variable!r}; try {names}")
    return values[operand.variable]


def _calculate(where: str, line: Instruction, values: dict[str, int]) -> None:
    if len(line.names) != 2 or line.names[1] not in OPERATIONS or not line.operands:
        got = [*line.names, *(operand.variable or operand.number for operand in line.operands)]
        raise HostProgramError(f"{where}: expected [variable, {'|'.join(OPERATIONS)}, ...], got {got!r}")
    out, operation = line.names
    numbers = [_value(where, operand, values) for operand in line.operands]
    if operation != "set":
        numbers.insert(0, _value(where, Operand(out), values))
    match operation, numbers:
        case "set", [value]:
            result = value
        case "add", [_, a, b]:
            result = a + b
        case "mul", [_, a, b]:
            result = a * b
        case "inc", [own, step]:
            result = own + step
        case "incwrap", [own, step, wrap] if wrap > 0:
            result = (own + step) % wrap
        case _:
            got = [operand.variable or operand.number for operand in line.operands]
            raise HostProgramError(f"{where}: expected operands of {operation}, got {got!r}")
    if not -(1 << 63) <= result < 1 << 63:
        raise HostProgramError(f"{where}: expected a number of 64 bits, got {out} of {result.bit_length()} bits")
    values[out] = result


def _execution(where: str, line: Instruction, values: Mapping[str, int]) -> Execution:
    if any(len(settings.names) != len(settings.values) for settings in line.settings):
        raise HostProgramError(f"{where}: expected a value for each setting of a queue, got fewer or more")
    return Execution(
        line.graph,
        {
            settings.queue: {
                name: _value(where, value, values) for name, value in zip(settings.names, settings.values, strict=True)
            }
            for settings in line.settings
        },
    )
