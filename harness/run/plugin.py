"""The pytest plugin: sees whether an op-by-op run is asked for. Where none is, it adds nothing to pytest.

A run has its options read (`command_line.py`) and its hooks registered (`hooks.py`). The project's own tests are
ignored then, its conftest files work beside the ops (`conftests.py`), and `session.py` takes over collection.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest

ASKING = ("--op-by-op", "--op-by-op-on-fail")
"""Options that ask for a run, as `--workflow` does with the name of one."""

OF_A_RUN = ("--model", "--op", "--ops", "--run-dir", "--resume", "--workflow")
"""Options that mean nothing without a run, and are refused by us where nobody else has them."""


@pytest.hookimpl(wrapper=True, trylast=True)  # inside of pytest's own, which shows what a failing import wrote
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, Any, Any]:
    """Has the conftest files of the folder work beside an op-by-op run, and nothing else of theirs."""
    options = early_config.known_args_namespace
    if not _asked(args):
        result = yield
        given = [flag for flag, _ in _flags(args) if flag in OF_A_RUN]
        if options.help or (given and _nobodys(parser, args, given)):
            from opscope.harness.run import command_line, hooks

            command_line.take(early_config, parser, args)
            hooks.register(early_config)
        return result
    from opscope.harness.run import command_line, hooks

    hooks.leave_out(early_config)
    command_line.look(early_config, parser, args)
    hooks.register(early_config)
    if options.help or options.version:
        yield
    else:
        with hooks.beside_conftests(early_config):
            yield
    command_line.take(early_config, parser, args)
    return None


def _flags(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The long options of a command line, each with its value, or the word that follows."""
    for word, following in zip(args, [*args[1:], ""], strict=True):
        if word == "--":
            return
        if word.startswith("--"):
            flag, has_value, value = word.partition("=")
            yield flag, value if has_value else following


def _asked(args: Sequence[str]) -> bool:
    """Whether a command line asks for a run."""
    for flag, value in _flags(args):
        if flag in ASKING:
            return True
        if flag == "--workflow":
            from opscope.harness.record.workflows import WORKFLOWS

            if value.partition(":")[0] in WORKFLOWS:  # `windows:4`
                return True
    return False


def _nobodys(parser: pytest.Parser, args: Sequence[str], flags: Sequence[str]) -> bool:
    """Whether no plugin and no conftest file has declared one of these options."""
    unknown = {word.partition("=")[0] for word in parser.parse_known_and_unknown_args(args)[1]}
    return not unknown.isdisjoint(flags)
