"""The options of a command that decide a program: those of a run, with its names, its help and its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from opscope.harness.record.result_options import OPTIONS, PROGRAM_OPTIONS, flag


def program_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; each arrives by its name, as the words that were given, None if it was not."""
    for name in reversed(PROGRAM_OPTIONS):
        if name == "arch":
            continue  # with its own default and words
        row = OPTIONS[name]
        command = click.option(flag(name), name, multiple=row.repeated, metavar=row.metavar, help=row.help)(command)
    return command


def read_options(words: Mapping[str, str | tuple[str, ...] | None]) -> dict[str, Any]:
    """The values of those that were given. Raises InputError for what is none."""
    from opscope.harness.settings.settings import BY_NAME

    given = {name: ",".join(word) if isinstance(word, tuple) else word for name, word in words.items() if word}
    return {name: BY_NAME[name].read(flag(name), word) for name, word in given.items()}


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Settings by name, as words of a command line."""
    from opscope.harness.settings.settings import BY_NAME

    words: list[str] = []
    for name, value in options.items():
        if not BY_NAME[name].metavar:
            words += [BY_NAME[name].flag] if value else []
        elif value is not None:
            words += [BY_NAME[name].flag, str(value)]
    return words
