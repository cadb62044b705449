"""docs/commands.md holds today's help of every command, and its examples use commands and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from opscope.harness.cli import command_reference
from opscope.harness.cli.main import root

PAGE = Path(__file__).resolve().parents[3] / "docs" / "commands.md"
README = PAGE.parents[1] / "README.md"


def test_the_page_is_what_help_prints() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == command_reference.page(text), "try make commands"


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/commands\.md: expected the line .* got none; try git checkout"):
        command_reference.page("# Commands\n")


def examples(page: Path) -> list[list[str]]:
    """The words of every command line in the examples of a page."""
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)).splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda page: page.stem)
def test_every_command_and_option_of_the_examples_exists(page: Path) -> None:
    of_pytest = set(re.findall(r"^--[a-z-]+", command_reference.pytest_options(), re.MULTILINE)) | {"-n"}
    context = click.Context(root, info_name="opscope")
    used: set[str] = set()
    for program, *words in examples(page):
        options = {word for word in words if word.startswith("-")}
        if program == "pytest":
            assert options <= of_pytest, words
        elif program == "opscope":
            command = root.get_command(context, words[0])
            while isinstance(command, click.Group):
                words = words[1:]
                command = command.get_command(context, words[0])
            assert command is not None, words
            assert options <= {name for each in command.params for name in each.opts}, words
            used.add(program)
    assert "opscope" in used
