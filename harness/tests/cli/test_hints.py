"""Every hint of an error, and every text of help, names commands that there are and nothing that a wheel lacks."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from opscope.base.tests.statements import parsed
from opscope.harness.cli.main import root
from opscope.harness.run import command_line

HOME = Path(__file__).resolve().parents[3]
ROOMS = ("compiler", "dashboards", "harness", "models", "opscope/base", "opscope/pybuda", "reports", "simulator")
GENERATORS = frozenset({"harness/cli/command_reference.py"})
"""Programs of `make`, which a wheel has but nobody calls there."""
OF_A_CHECKOUT = re.compile(r"\bdocs/|\bmake [a-z-]+|\bpython -m (opscope\.)?ci\b|(?<![\w.])\.?ci/(?!owners|nightly)")
_MAY_HINT = re.compile(r"""; (["']\s*f?["'])?try |hint|Error\(|["'`]opscope [a-z]""", re.IGNORECASE)
"""What a statement with a hint has in it."""
_WITH_HINTS = frozenset({ast.Constant, ast.JoinedStr, ast.Call, ast.Assign})
"""Kinds of nodes that `texts_of` looks at: one in five."""
_LINE = re.compile(r"`opscope [a-z][^`]*`")
"""A command line within a text."""
_SHOWN = frozenset({".yaml", ".yml", ".j2", ".html", ".sql", ".sh", ".service", ".txt"})
"""Files with texts of pages, questions, workflows and services."""
_IN_FILES = re.compile(r"(?:`|<code>|- |: |exec |bin/)(opscope [a-z][^`<\n]*)")
"""A command line in one of them."""
_COMMAND = re.compile(r"\bopscope ((?:[a-z][a-z-]*\b ?)+)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_PROSE = re.compile(r"[;,)`\n\\]|: |\. |  | (?:#|\||and|for|in|lists|of|or|says|to|where|which|writes) ")
"""What ends a command line within a text."""


class Hint(NamedTuple):
    """A text that says what to try, with its place."""

    place: str
    text: str


@cache
def hints() -> tuple[Hint, ...]:
    """The hints of the source: what follows `; try` in a text, what an error takes as its hint, and command lines, also
    those of pages, workflows and other files that are shown."""
    return (*_hints(), *_of_files())


def _of_files() -> Iterator[Hint]:
    for room in ROOMS:
        for path in sorted((HOME / room).rglob("*")):
            if path.suffix in _SHOWN and not {"tests", "__pycache__", "node_modules"} & {*path.parts}:
                name = path.relative_to(HOME).as_posix()
                yield from (Hint(name, line) for line in _IN_FILES.findall(path.read_text(encoding="utf-8")))


def _hints() -> Iterator[Hint]:
    for room in ROOMS:
        for path in sorted((HOME / room).rglob("*.py")):
            name = path.relative_to(HOME).as_posix()
            if "/tests/" in name or name in GENERATORS:
                continue
            for line, tree in parsed(path.read_text(), _MAY_HINT):
                for node in ast.walk(tree):
                    for text in texts_of(node) if type(node) in _WITH_HINTS else ():
                        yield Hint(f"{name}:{line + getattr(node, 'lineno', 0)}", text)


def texts_of(node: ast.AST) -> Iterator[str]:
    """The hints that a node of the syntax tree has."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        _, tries, hint = (text := spelled(node)).partition("; try ")
        if tries:
            yield hint
        yield from _LINE.findall(text)
        line = _COMMAND.match(text)
        if line is not None and called(line[1])[1] is not None:  # else the name of a thread, a mark in a file
            yield text
    if isinstance(node, ast.Call):
        named = [word.value for word in node.keywords if word.arg == "hint"]
        is_error = isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
        for value in [*(node.args[3:4] if is_error else ()), *named]:
            yield from filter(None, map(spelled, ast.walk(value)))
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and "hint" in t.id.lower() for t in node.targets):
        yield from filter(None, map(spelled, ast.walk(node.value)))


def spelled(node: ast.AST) -> str:
    """A literal text, with `...` where a value is put in; empty for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "..." for part in node.values)
    return ""


def called(words: str) -> tuple[str, click.Command | None]:
    """The command that words after `opscope` call, and its name; None if there is no such verb."""
    command: click.Command | None = root
    path = "opscope"
    for word in words.split():
        if not isinstance(command, click.Group):
            break
        command, path = command.get_command(click.Context(command), word), f"{path} {word}"
    return path, command


def test_hints_name_commands_and_options_that_there_are(pytestconfig: pytest.Config) -> None:
    of_pytest = {name for group in pytestconfig._parser._groups for option in group.options for name in option.names()}
    of_pytest |= {flag for flag, _, _ in command_line.rows()}
    wrong = []
    seen = 0
    for hint in hints():
        for match in _COMMAND.finditer(hint.text.replace("of opscope", "")):
            path, command = called(match[1])
            seen += 1
            if command is None:
                wrong.append(f"{hint.place}: no command `{path}` ({hint.text})")
                continue
            if path == "opscope opt":  # passes are its flags
                continue
            rest = re.split(r"[;,)]| or ", hint.text[match.end() :])[0]
            known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
            wrong += [f"{hint.place}: `{path}` has no {name}" for name in _OPTION.findall(rest) if name not in known]
        for line in re.findall(r"\bpytest ([^;,)]*)", hint.text):
            wrong += [f"{hint.place}: pytest has no {name}" for name in _OPTION.findall(line) if name not in of_pytest]
    assert not wrong, "\n".join(wrong)
    assert seen > 200


def test_command_lines_are_taken_by_their_commands() -> None:
    """Each is parsed as a shell gives it: an option that there is none of, a word that is no choice, are refused."""
    taken, wrong = 0, []
    for hint in hints():
        for match in _COMMAND.finditer(hint.text):
            line = _PROSE.split(hint.text[match.start() :])[0].replace("DATE", "2026-11-20")
            path, command = called(match[1])
            if command is None or isinstance(command, click.Group) or line.count('"') % 2 or line.count("'") % 2:
                continue
            try:
                command.make_context(path, shlex.split(line)[len(path.split()) :])
                taken += 1
            except (click.MissingParameter, click.BadOptionUsage):
                pass  # a text that names the command, or its option, alone
            except (click.NoSuchOption, click.BadParameter) as error:
                wrong.append(f"{hint.place}: {line}: {error.format_message()}")
            except click.UsageError:
                pass  # prose follows
    assert not wrong, "\n".join(wrong)
    assert taken > 200


def test_command_lines_of_files_that_are_shown_are_among_them() -> None:
    places = {hint.place for hint in hints()}
    assert "dashboards/inside/templates/night.html" in places
    assert "reports/nightly/templates/opscope-nightly.yml" in places
    assert "harness/triage/templates/run.sh" in places


def test_no_hint_sends_to_a_help() -> None:
    assert not [f"{hint.place}: {hint.text}" for hint in hints() if "--help" in hint.text]


def test_hints_and_help_name_no_file_of_the_checkout() -> None:
    texts = [*hints(), *(Hint(path, command.help or "") for path, command in commands(root, "opscope"))]
    texts += [Hint(path, option.help or "") for path, option in options()]
    wrong = [f"{text.place}: {text.text}" for text in texts if OF_A_CHECKOUT.search(text.text)]
    assert not wrong, "\n".join(wrong)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command with its path, and the commands in it."""
    yield path, command
    for name in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        yield from commands(inner, f"{path} {name}")


def options() -> Iterator[tuple[str, click.Option]]:
    """The options of every command, with where they are."""
    for path, command in commands(root, "opscope"):
        yield from ((f"{path} {p.opts[0]}", p) for p in command.params if isinstance(p, click.Option))


UNITS = {"SECONDS": "in seconds", "TIME": "such as", "AGE": "such as", "SIZE": "such as"}
"""Metavar of an option -> what its help says of the unit."""


def test_help_names_the_unit_of_a_quantity() -> None:
    known = [(name, option.metavar, option.help or "") for name, option in options()]
    known += [(flag, row.get("metavar"), row["help"]) for flag, _, row in command_line.rows()]
    # nightly's --started is a moment
    quantities = [(name, UNITS[m], text) for name, m, text in known if m in UNITS and "ISO 8601" not in text]
    assert len(quantities) > 15
    assert not [name for name, unit, text in quantities if unit not in text]
