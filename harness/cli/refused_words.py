"""What click refuses in a command line, in the words of every other error: expected X, got Y; try Z."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import click

from opscope.harness.record.errors import InputError

_QUOTED = re.compile(r"'(?P<value>(?:[^'\\]|\\.)*)'")
_MORE = re.compile(r"\((?P<words>.*)\)$")


def refused_words(error: click.UsageError, called: str) -> InputError:
    """The error of a line that click does not take: an unknown option, a value of another kind, none at all.

    `called` is the command of the line, such as `opscope dashboard user`.
    """
    help_of = f"{called} --help"
    if isinstance(error, click.NoSuchOption):
        return InputError(called, "an option of this command", error.option_name, _first(error.possibilities, help_of))
    if isinstance(error, click.NoSuchCommand):
        group = error.ctx.command if error.ctx is not None else None
        known = list(group.commands) if isinstance(group, click.Group) else []
        return InputError(
            called, "a command", repr(error.command_name), closest_command(called, error.command_name, known)
        )
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return InputError(called, _name(error.param), "nothing", help_of)
    if isinstance(error, click.BadParameter) and error.param is not None:
        return InputError(_name(error.param), _kind(error), _value(error), help_of)
    if isinstance(error, click.BadOptionUsage):
        expected, got = ("no value", "one") if "does not take" in error.message else ("a value", "none")
        return InputError(error.option_name, expected, got, help_of)
    if more := _MORE.search(error.message):
        return InputError(called, "no further argument", repr(more["words"]), help_of)
    return InputError(called, "words that the command takes", error.message, help_of)


def closest_command(called: str, word: str, known: Iterable[str]) -> str:
    """The command of a group that is spelled most like `word`, else the list of all."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f"{called} {near[0]}" if near else f"{called} --help"


def _first(names: Sequence[str] | None, otherwise: str) -> str:
    return names[0] if names else otherwise


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
    names = {"integer": "a whole number", "float": "a number", "boolean": "true or false"}
    return names.get(getattr(kind, "name", ""), "what its help says")
