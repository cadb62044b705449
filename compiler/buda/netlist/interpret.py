"""Interprets the host's programs: the order in which they execute graphs, and queue pointers. It always terminates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opscope.compiler.buda.netlist.model import Program
from opscope.compiler.errors import CompilerInputError

MOST_STEPS = 1_000_000
"""Instructions after which a program counts as an endless loop."""
OPERATIONS = ("set", "add", "mul", "inc", "incwrap")


@dataclass(frozen=True)
class Execution:
    """One execution of a graph."""

    graph: str
    queue_settings: dict[str, dict[str, Any]]
    """Queue -> its settings, with variables replaced by their values."""


def executions(program: Program, parameters: dict[str, int] | None = None) -> Iterator[Execution]:
    """Yields the graphs in the order in which they run; parameters that are not given are 1.

    Raises CompilerInputError for an unknown variable, or a loop that is not closed, does not run or never ends.
    """
    where, ends = f"programs.{program.name}", _loops(program)
    values: dict[str, int] = {}
    arguments = parameters or {}
    counters: dict[int, int] = {}
    at = steps = 0
    while at < len(program.instructions):
        steps += 1
        if steps > MOST_STEPS:
            raise CompilerInputError(
                f"{where}: expected an end within {MOST_STEPS} instructions, got none; try a smaller loop count"
            )
        name, argument = program.instructions[at]
        here = f"{where}[{at}]"
        match name:
            case "param":
                values.update({str(word): arguments.get(str(word).lstrip("$"), 1) for word in argument or ()})
            case "var" | "staticvar":
                values.update(_declared(here, argument))
            case "varinst":
                _calculate(here, argument, values)
            case "loop":
                count = _value(here, argument, values)
                if count < 1:
                    raise CompilerInputError(f"{here}: expected a loop of 1 or more rounds, got {count} (for ever)")
                counters[at] = counters.get(at, count)
            case "endloop":
                start = ends[at]
                counters[start] -= 1
                if counters[start] > 0:
                    at = start
                else:
                    del counters[start]
            case "execute":
                yield _execution(here, argument, values)
            case "endprogram":
                return
        at += 1


def _loops(program: Program) -> dict[int, int]:
    """Returns end of each loop -> its start."""
    open_, ends = [], {}
    for at, (name, _) in enumerate(program.instructions):
        if name == "loop":
            open_.append(at)
        elif name == "endloop":
            if not open_:
                raise CompilerInputError(f"programs.{program.name}[{at}]: expected a loop before endloop, got none")
            ends[at] = open_.pop()
    if open_:
        raise CompilerInputError(
            f"programs.{program.name}[{open_[-1]}]: expected an endloop, got none (loops for ever)"
        )
    return ends


def _declared(where: str, argument: Any) -> dict[str, int]:
    if isinstance(argument, list):
        return {str(name): 0 for name in argument}
    if not isinstance(argument, dict) or not all(isinstance(v, int) for v in argument.values()):
        raise CompilerInputError(f"{where}: expected names and whole numbers, got {argument!r}")
    return {str(name): value for name, value in argument.items()}


def _value(where: str, word: Any, values: dict[str, int]) -> int:
    if isinstance(word, int) and not isinstance(word, bool):
        return word
    if str(word) not in values:
        raise CompilerInputError(f"{where}: expected a variable that is declared, got {word!r}; try {_names(values)}")
    return values[str(word)]


def _names(values: dict[str, int]) -> str:
    return ", ".join(list(values)[:4]) or "var: {$c_zero: 0}"


def _calculate(where: str, argument: Any, values: dict[str, int]) -> None:
    if not isinstance(argument, list) or len(argument) < 3 or argument[1] not in OPERATIONS:
        raise CompilerInputError(f"{where}: expected [variable, {'|'.join(OPERATIONS)}, ...], got {argument!r}")
    out, operation, *rest = argument
    numbers = [_value(where, word, values) for word in rest]
    if operation != "set":
        numbers.insert(0, _value(where, out, values))
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
            raise CompilerInputError(f"{where}: expected operands of {operation}, got {rest!r}")
    values[str(out)] = result


def _execution(where: str, argument: Any, values: dict[str, int]) -> Execution:
    if not isinstance(argument, dict) or not isinstance(argument.get("graph_name"), str):
        raise CompilerInputError(f"{where}: expected a graph_name, got {argument!r}")
    settings = {}
    for queue, row in (argument.get("queue_settings") or {}).items():
        if not isinstance(row, dict):
            raise CompilerInputError(f"{where}: expected the settings of queue {queue}, got {row!r}")
        settings[str(queue)] = {
            key: _value(where, value, values) if isinstance(value, str) and value.startswith("$") else value
            for key, value in row.items()
        }
    return Execution(argument["graph_name"], settings)
