"""The options of a run on pytest's command line. They are read here and taken out of it, so that pytest hears of none:
a project's own option of the same name keeps name and value, and ours is then `--opscope-NAME`.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pytest

from opscope.harness.settings import foreign_options
from opscope.harness.settings.settings import SETTINGS, from_pyproject, preset_asked, project_folder, words_of_preset

OWN_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--model": {
        "action": "append",
        "metavar": "MODEL",
        "help": "Model to run: a name, a glob, `all`, or a file.",
        "more": (
            "A name, a glob, `all`, the path or glob of model files, or NAME=FILE to name a file's model;"
            " may be given several times."
        ),
    },
    "--op-by-op": {
        "action": "store_true",
        "help": "Run each unique op of the models by itself.",
        "more": "As with --workflow split. Without --model, list the models.",
    },
    "--ops": {
        "action": "append",
        "metavar": "GLOB",
        "help": "Run only ops of this name or family.",
        "more": "Such as `stablehlo.dot*`, `dot*`, `matmul`; the others count as skipped.",
    },
    "--op": {
        "action": "append",
        "metavar": "ID",
        "help": "Run this op of an earlier run again.",
        "more": (
            "Of the newest, or of --run-dir, as a run of its own, without exporting the model; the "
            "earlier run stays as it is."
        ),
    },
    "--run-dir": {
        "metavar": "DIR",
        "help": "Run folder; default: a new one in .opscope/runs.",
        "more": "With --op, the earlier run: its folder, its id, its address on an artifact server, or a repro folder.",
    },
    "--resume": {
        "metavar": "RUN_DIR",
        "help": "Continue a run that did not end, with its options.",
        "more": "One that was killed, interrupted or out of budget.",
    },
}
"""Options that are no settings: what a run is of."""

DAILY = (
    "--model",
    "--op-by-op",
    "--backend",
    "--ops",
    "--op",
    "--workflow",
    "--preset",
    "--budget",
    "--no-cache",
    "--resume",
)
"""The options of every day, which `pytest --help` shows first."""

COLUMN = 20
"""Characters of an option and its metavar that argparse shows its help beside."""

TAKEN = pytest.StashKey[list[str]]()
"""The options of ours on the command line that another plugin, or the project, has declared."""


def rows() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each option, the attribute of `config.option` that has its value, and what `add_argument` gets.

    Those of every day come first."""
    every = {flag: (dest, attributes) for flag, dest, attributes in _rows()}
    for flag in dict.fromkeys((*DAILY, *every)):
        dest, attributes = every[flag]
        yield flag, dest, {name: value for name, value in attributes.items() if name != "more"}


def long_help(flag: str) -> str:
    """All that is to be said of an option."""
    attributes = next(attributes for each, _, attributes in _rows() if each == flag)
    return f"{attributes['help']} {attributes.get('more', '')}".strip()


def _rows() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for flag, own in OWN_OPTIONS.items():
        default = False if own.get("action") == "store_true" else None
        yield flag, f"opscope_{flag[2:].replace('-', '_')}", {"default": default, **own}
    for setting in SETTINGS:
        if not setting.option:
            continue
        if setting.repeated:
            kind: dict[str, Any] = {"action": "append", "metavar": setting.metavar}
        elif not setting.metavar:
            kind = {"action": "store_true"}
        else:
            kind = {"metavar": setting.metavar, **({"nargs": "?", "const": ""} if setting.optional else {})}
        yield setting.flag, setting.dest, {"default": None, "help": setting.help, "more": setting.more, **kind}


def on_one_line(flag: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What `add_argument` gets to show an option beside its help, not to read it: a metavar too long for the column
    gives way to its last word, to a letter of that, or to none.
    """
    optional = 2 * ("nargs" in attributes)  # brackets
    last = re.findall("[A-Z]+", attributes.get("metavar", ""))[-1:]
    for metavar in (*([attributes["metavar"]] if last else ()), *last, *(word[0] for word in last)):
        if len(flag) + len("=") + len(metavar) + optional <= COLUMN:
            return {**attributes, "metavar": metavar}
    return {"action": "store_true", "help": attributes["help"]}


def long_name(flag: str) -> str:
    """The name of an option that no other plugin has: `--opscope-seed`."""
    return f"--opscope-{flag[2:]}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise pytest.UsageError(message)


def _read(args: Sequence[str], taken: Collection[str] = ()) -> tuple[argparse.Namespace, list[str]]:
    """The values of our options on a command line, and the words that are not ours. Raises UsageError."""
    end = args.index("--") if "--" in args else len(args)
    parser = _Parser(add_help=False, allow_abbrev=False)
    for flag, dest, attributes in rows():
        parser.add_argument(*(() if flag in taken else (flag,)), long_name(flag), dest=dest, **attributes)
    values, others = parser.parse_known_args(args[:end])
    return values, [*others, *args[end:]]


def _set(config: pytest.Config, values: argparse.Namespace) -> None:
    values.opscope_op_by_op |= bool(values.opscope_op_by_op_on_fail or values.opscope_workflow)
    for name, value in vars(values).items():
        for options in (config.known_args_namespace, config.option):
            setattr(options, name, value)


def take_preset(config: pytest.Config) -> None:
    """Sets the models and ops of a run's preset, where the command line names none and no earlier run.

    Raises InputError for a preset that is none.
    """
    option, place = config.option, project_folder(config.invocation_params.dir)
    name = preset_asked({"preset": option.opscope_preset}, from_pyproject(place), os.environ)
    if name is None:
        return
    given = words_of_preset(name, place)
    earlier = option.opscope_op or option.opscope_resume or (option.opscope_run_dir and not option.opscope_preset)
    if not (earlier or option.opscope_model):
        option.opscope_model = given.get("model")
    if option.opscope_model and not option.opscope_ops:
        option.opscope_ops = given.get("ops")


def look(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Reads our options before the conftest files are found, which are those of the words that are not ours."""
    values, others = _read(args)
    _set(config, values)
    namespace = parser.parse_known_args(others, namespace=copy.copy(config.option))
    config.known_args_namespace.file_or_dir = namespace.file_or_dir


def take(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Reads our options now that everybody has declared theirs, and takes them out of `args`. With `--help`, pytest
    lists them. Raises UsageError."""
    if config.known_args_namespace.help:
        group = parser.getgroup("opscope", "op-by-op runs of ML compilers (opscope)")
        args[:] = _read(args)[1]
        for flag, dest, attributes in rows():
            name = long_name(flag) if _is_taken(parser, flag) else flag
            group.addoption(name, dest=dest, **on_one_line(name, attributes))
        return
    given = {word.partition("=")[0] for word in args}
    taken = [flag for flag, _, _ in rows() if flag in given and _is_taken(parser, flag)]
    values, args[:] = _read(args, taken)
    _set(config, values)
    config.stash[TAKEN] = [flag for flag in taken if flag[2:] not in foreign_options.OWNERS]
    for flag in config.stash[TAKEN]:
        line = f"{flag} is an option of this project, or of another plugin, and has its value; opscope's is"
        sys.stderr.write(f"opscope: {line} {long_name(flag)}\n")


def _is_taken(parser: pytest.Parser, flag: str) -> bool:
    """Whether somebody has declared an option."""
    try:
        return flag not in parser.parse_known_and_unknown_args([flag])[1]
    except (pytest.UsageError, SystemExit):  # it wants a value
        return True
