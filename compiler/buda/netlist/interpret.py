"""Turns a netlist's programs into those of a binary, which `compiler.target.interpret` interprets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opscope.compiler.buda.netlist.model import Program
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import interpret
from opscope.compiler.target.host_program import HostProgram, Instruction, Operand, QueueSettings
from opscope.compiler.target.interpret import OPERATIONS, Execution, HostProgramError


def executions(program: Program, parameters: dict[str, int] | None = None) -> Iterator[Execution]:
    """Yields the graphs in the order in which they run; parameters that are not given are 1.

    Raises CompilerInputError for an instruction that is not understood, an unknown variable, or a loop that is not
    closed, does not run or never ends.
    """
    try:
        yield from interpret.executions(host_program(program), parameters)
    except HostProgramError as error:
        raise CompilerInputError(str(error)) from error


def host_program(program: Program) -> HostProgram:
    """Returns a program as a binary holds it. Raises CompilerInputError for an argument that is not understood."""
    return HostProgram(
        program.name,
        tuple(
            _instruction(f"programs.{program.name}[{at}]", code, argument)
            for at, (code, argument) in enumerate(program.instructions)
        ),
    )


def _instruction(where: str, code: str, argument: Any) -> Instruction:
    match code:
        case "param" | "allocate_queue" | "deallocate_queue":
            return Instruction(code, _names(where, argument))
        case "var" | "staticvar":
            values = _declared(where, argument)
            return Instruction(code, tuple(values), tuple(Operand("", value) for value in values.values()))
        case "varinst":
            if not isinstance(argument, list) or len(argument) < 3 or argument[1] not in OPERATIONS:
                raise CompilerInputError(f"{where}: expected [variable, {'|'.join(OPERATIONS)}, ...], got {argument!r}")
            operands = tuple(_operand(where, word) for word in argument[2:])
            return Instruction(code, (str(argument[0]), argument[1]), operands)
        case "loop":
            return Instruction(code, operands=(_operand(where, argument),))
        case "execute":
            return _execute(where, argument)
    return Instruction(code)


def _names(where: str, argument: Any) -> tuple[str, ...]:
    if argument is None:
        return ()
    if not isinstance(argument, list) or not all(isinstance(name, str) for name in argument):
        raise CompilerInputError(f"{where}: expected a list of names, got {argument!r}")
    return tuple(argument)


def _declared(where: str, argument: Any) -> dict[str, int]:
    if isinstance(argument, list):
        return {str(name): 0 for name in argument}
    if not isinstance(argument, dict) or not all(isinstance(v, int) and _fits(v) for v in argument.values()):
        raise CompilerInputError(f"{where}: expected names and whole numbers, got {argument!r}")
    return {str(name): int(value) for name, value in argument.items()}


def _fits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63


def _operand(where: str, word: Any) -> Operand:
    if isinstance(word, int) and not isinstance(word, bool) and _fits(word):
        return Operand("", word)
    if isinstance(word, str) and word:
        return Operand(word)
    raise CompilerInputError(f"{where}: expected a variable or a whole number of 64 bits, got {word!r}")


def _execute(where: str, argument: Any) -> Instruction:
    if not isinstance(argument, dict) or not isinstance(argument.get("graph_name"), str):
        raise CompilerInputError(f"{where}: expected a graph_name, got {argument!r}")
    settings, asked = [], argument.get("queue_settings") or {}
    if not isinstance(asked, dict):
        raise CompilerInputError(f"{where}.queue_settings: expected settings by the name of a queue, got {asked!r}")
    for queue, row in asked.items():
        if not isinstance(row, dict):
            raise CompilerInputError(f"{where}: expected the settings of queue {queue}, got {row!r}")
        values = tuple(_setting(f"{where}.{queue}.{name}", value) for name, value in row.items())
        settings.append(QueueSettings(str(queue), tuple(map(str, row)), values))
    return Instruction("execute", graph=argument["graph_name"], settings=tuple(settings))


def _setting(where: str, value: Any) -> Operand:
    """Returns the value of a setting: a flag, a number, or a variable."""
    if isinstance(value, bool):
        return Operand("", int(value))
    if isinstance(value, str) and not value.startswith("$"):
        raise CompilerInputError(f"{where}: expected true, false, a number or a variable, got {value!r}")
    return _operand(where, value)
