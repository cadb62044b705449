"""What click refuses in a command line, in the words of every other error: expected X, got Y; try Z."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import click

from opscope.harness.record.errors import InputError, closest

_QUOTED = re.compile(r"'(?P<value>(?:[^'\\]|\\.)*)'")
_MORE = re.compile(r"\((?P<words>.*)\)$")


def refused_words(error: click.UsageError, called: str, command: click.Command) -> InputError:
    """The error of a line that click does not take: an unknown option, a value of another kind, none at all.

    `called` is the command of the line, such as `opscope dashboard user`, and `command` what click has of it.
    """
    rightly = usage(called, command)
    if isinstance(error, click.NoSuchOption):
        options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        hint = error.possibilities[0] if error.possibilities else closest(error.option_name, options) or rightly
        return InputError(called, "an option of this command", error.option_name, hint)
    if isinstance(error, click.NoSuchCommand):
        known = list(command.commands) if isinstance(command, click.Group) else []
        return InputError(
            called, "a command", repr(error.command_name), closest_command(called, error.command_name, known)
        )
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return InputError(called, _name(error.param), "nothing", rightly)
    if isinstance(error, click.BadParameter) and error.param is not None:
        value = _value(error)
        return InputError(_name(error.param), _kind(error), value, _example(error.param, value) or rightly)
    if isinstance(error, click.BadOptionUsage):
        if "does not take" in error.message:
            return InputError(error.option_name, "no value", "one", f"{error.option_name} alone")
        metavars = {name: _metavar(each) for each in command.params for name in each.opts}
        return InputError(
            error.option_name, "a value", "none", f"{error.option_name} {metavars.get(error.option_name, 'VALUE')}"
        )
    if more := _MORE.search(error.message):
        return InputError(called, "no further argument", repr(more["words"]), rightly)
    return InputError(called, "words that the command takes", error.message, rightly)


def usage(called: str, command: click.Command) -> str:
    """How a command is called: its name, the options that it needs and its arguments."""
    if isinstance(command, click.Group):
        return f"{called} {' | '.join(command.commands)}" if command.commands else "opscope help"
    needed = [f"{_name(each)} {_metavar(each)}" for each in command.params if _is_needed(each)]
    given = [_metavar(each) for each in command.params if isinstance(each, click.Argument)]
    return " ".join([called, *needed, *given])


def closest_command(called: str, word: str, known: Iterable[str]) -> str:
    """The command of a group that is spelled most like `word`, else where all are listed."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    if near:
        return f"{called} {near[0]}"
    return "opscope help" if called.partition(" help")[0] == "opscope" else f"{called} {' | '.join(known)}"


def _is_needed(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.required


def _metavar(parameter: click.Parameter) -> str:
    """The word that stands for a value."""
    if isinstance(parameter.type, click.Choice) and parameter.metavar is None:
        return f"[{'|'.join(map(str, parameter.type.choices))}]"
    return parameter.metavar or str(parameter.name if isinstance(parameter, click.Argument) else "VALUE").upper()


def _example(parameter: click.Parameter, value: str) -> str:
    """A value that a parameter takes; empty where none is known."""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return closest(value.strip("'"), map(str, kind.choices))
    if isinstance(kind, click.DateTime):
        return "2026-12-31"
    if isinstance(kind, click.Path):
        return "the path of one that is there" if kind.exists else ""
    default = parameter.default
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{_name(parameter)} {default:g}"
    if isinstance(kind, click.IntRange | click.FloatRange) and kind.min is not None:
        return f"{_name(parameter)} {kind.min + kind.min_open:g}"
    return f"{_name(parameter)} 1" if getattr(kind, "name", "") in ("integer", "float") else ""


def _name(parameter: click.Parameter) -> str:
    """The longest spelling of an option, the metavar of an argument."""
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or str(parameter.name).upper()).strip("[].")
    return max(parameter.opts, key=len)


def _value(error: click.BadParameter) -> str:
    """The value that was refused, where click's message has it: it quotes no number."""
    if quoted := _QUOTED.search(error.message):
        return quoted[0]
    first, _, rest = error.message.partition(" ")
    return first if rest.startswith("is ") else error.message


def _kind(error: click.BadParameter) -> str:
    """What a parameter takes, in words."""
    kind = error.param.type if error.param is not None else None
    if isinstance(kind, click.Choice):
        return "one of " + ", ".join(str(choice) for choice in kind.choices)
    if isinstance(kind, click.IntRange | click.FloatRange):
        number = "a whole number" if isinstance(kind, click.IntRange) else "a number"
        least = "" if kind.min is None else f" above {kind.min:g}" if kind.min_open else f" from {kind.min}"
        return f"{number}{least}" + ("" if kind.max is None else f" up to {kind.max}")
    if isinstance(kind, click.DateTime):
        return "a date such as 2026-12-31"
    if isinstance(kind, click.Path) and kind.file_okay != kind.dir_okay:
        return "a file" if kind.file_okay else "a folder"
    if "not readable" in error.message:
        return "one that this user can read"
    names = {"integer": "a whole number", "float": "a number", "boolean": "true or false"}
    return names.get(getattr(kind, "name", ""), "what its help says")
