"""docs/commands.md: the help of every command and pytest option, written by `make commands`.

Everything above MARK is written by hand: the examples. Below it stands what `--help` prints.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from opscope.harness.cli.main import EVERY_DAY, root
from opscope.harness.cli.verbs import DAILY, GROUPS
from opscope.harness.run import command_line

MARK = "<!-- `make commands` writes everything below this line from --help. -->"
WIDTH = 100
"""Columns of the help texts."""


def page(current: str) -> str:
    """The page with today's help texts; what stands above MARK in `current` stays. Raises ValueError without MARK."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        raise ValueError(f"docs/commands.md: expected the line {MARK!r}, got none; try git checkout docs/commands.md")
    return f"{head}{MARK}\n\n## pytest options\n\n{_block(pytest_options())}\n{''.join(_sections())}"


def _sections() -> Iterator[str]:
    context = click.Context(root, info_name="opscope", terminal_width=WIDTH, max_content_width=WIDTH)
    for heading, names in {EVERY_DAY: DAILY, **GROUPS}.items():
        yield f"\n## {heading.capitalize()}\n"
        for name in names:
            command = root.get_command(context, name)
            if command is not None:
                yield from _command(command, name, context)


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """The help of a command and of its subcommands, without the line of `--help` itself."""
    command = copy.copy(command)
    command.add_help_option = False
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
    yield f"\n### `{context.command_path}`\n\n{_block(command.get_help(context))}\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None:
                yield from _command(child, each, context)


def pytest_options() -> str:
    """The options that the plugin adds to pytest, each with its help."""
    options = []
    for flag, _, row in command_line.rows():
        value = row.get("metavar", "")
        words = f"{flag} {f'[{value}]' if row.get('nargs') == '?' else value}".rstrip()
        options.append((words, command_line.long_help(flag)))
    formatter = click.HelpFormatter(width=WIDTH)
    formatter.write_dl(options, col_max=34)
    return formatter.getvalue()


def _block(text: str) -> str:
    return "```text\n" + "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n```"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(page(place.read_text(encoding="utf-8")), encoding="utf-8")
