"""Reads and checks the YAML file that describes a compiler by the commands of its stages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.variables import variables_now
from opscope.base.visible_text import cut
from opscope.base.yaml_text import YamlError, read_yaml
from opscope.harness.record.commits.checkout import web_url
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.stages import Stage

SUFFIXES = (".yaml", ".yml")

FORMS = ("bytecode", "text", "portable")
"""Forms in which the op's module is written for the first stage."""

PLACES = ("host", "silicon", "simulator")

PLACEHOLDERS: dict[str, str] = {
    "module": "the op's StableHLO module",
    "input": "what the stage before wrote; in the first stage the module",
    "output": "the file that the stage must write",
    "work_dir": "an empty folder of this op",
    "here": "the folder of the YAML file",
    "python": "the interpreter that opscope runs in",
    "arch": "`--arch`",
    "data_format": "`--data-format`, or nothing",
    "math_fidelity": "`--math-fidelity`, or nothing",
    "inputs_npz": "all inputs, `arr_0` to `arr_n`",
    "outputs_npz": "the file for all results, `arr_0` to `arr_n`",
    "input_npy": "one input as .npy; its word is repeated for each input",
    "input_bin": "one input as its raw elements; its word is repeated for each input",
    "input_shape": "shape and type of that input, `2x3xbf16`",
    "output_npy": "the file for one result as .npy; its word is repeated for each result",
    "output_bin": "the file for one result as its raw elements; its word is repeated for each result",
    "output_shape": "shape and type of that result",
}
"""Placeholders of a command, written in braces, and their values; `{env:NAME}` is an environment variable."""

OF_AN_INPUT = frozenset({"input_npy", "input_bin", "input_shape"})
OF_A_RESULT = frozenset({"output_npy", "output_bin", "output_shape"})
RUN_ONLY = OF_AN_INPUT | OF_A_RESULT | {"inputs_npz", "outputs_npz"}
TAKES, GIVES = ("inputs_npz", "input_npy", "input_bin"), ("outputs_npz", "output_npy", "output_bin")

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
KEYS: dict[str, tuple[str, str]] = {
    "stages": (
        "a list; `run`, if there is one, is the last. Without, an op that passes all is `passed`, and "
        "[right](verdicts.md#right)",
        "",
    ),
    "module": ("form of the op's module: `bytecode`, `text`, `portable` (StableHLO's portable artifact)", "`bytecode`"),
    "requires": (
        "tools that must be on PATH, or paths (with `{here}`, `{python}`, `{env:NAME}`); `[]` for none",
        "the first word of each command",
    ),
    "install": ("the command that installs them, for `opscope doctor`", ""),
    "version": ("a command whose output counts for cached verdicts", ""),
    "revision": (
        "a command, run in the YAML file's folder, whose first line is the [compiler's "
        "commit](#the-compilers-commit); 10 s",
        "that of the tested folder",
    ),
    "repository": ("page or remote of the compiler's repository, for links to its commits", ""),
    "fingerprint": (
        "patterns of the files and folders that the tools are made of: without them no verdict is kept, "
        "unless all tools are programs of installed distributions",
        "",
    ),
    "environment": ("variables for every command", ""),
    "card": ("`card_type` of the records; `{arch}` is `--arch`", "`host`"),
    "ran_on": ("`host`, `silicon` or `simulator`", "`host`"),
    "numbers": (
        "`float_format`, `math_fidelity`, `matrix_format`: what the compiler computes in, which decides the tolerances",
        "exact",
    ),
    "structure": (
        "op -> regular expression, each match of which in what the last stage before `run` wrote is one such "
        "op (`gemm: '^gemm '`), where that is neither MLIR nor HLO: what `opscope gate --old --new` counts",
        "",
    ),
}
"""Key of the file -> its meaning, its default."""
STAGE_KEYS: dict[str, tuple[str, str]] = {
    "name": ("small letters, digits, `-`: a column of the stage table, a value of `--until`", ""),
    "command": ("a list of words; no shell is used", ""),
    "writes": ("name of the file `{output}`", "`<name>.out`"),
    "stdout": ("`true`: the file contains what the tool prints", "`false`"),
}
"""Key of a stage -> its meaning, its default."""
_NUMBERS = ("float_format", "math_fidelity", "matrix_format")


@dataclass(frozen=True)
class CommandStage:
    """One stage: the command, and the name of the file that it writes."""

    stage: Stage
    command: tuple[str, ...]
    writes: str
    stdout: bool
    """Whether what the tool prints is its output."""


@dataclass(frozen=True)
class CommandFile:
    """A checked description of a compiler."""

    path: Path
    stages: tuple[CommandStage, ...]
    form: str = "bytecode"
    requires: tuple[str, ...] = ()
    """Tools without which the backend is not usable here; none if the file says `[]`."""
    tools: tuple[str, ...] = ()
    """The first word of each command."""
    words: tuple[str, ...] = ()
    """The words of all commands, with those placeholders filled in that are the same for every op."""
    install: str = ""
    version: tuple[str, ...] = ()
    revision: tuple[str, ...] = ()
    """The command whose first line is the compiler's commit."""
    repository: str = ""
    """Page of the compiler's repository."""
    fingerprint: tuple[str, ...] = ()
    """Patterns of files, besides the tools themselves, that affect the compiler's output."""
    environment: dict[str, str] = field(default_factory=dict)
    card: str = "host"
    ran_on: str = "host"
    numbers: dict[str, str] = field(default_factory=dict)
    structure: dict[str, str] = field(default_factory=dict)
    """Op -> regular expression, each match of which in what the last stage before `run` wrote is one such op."""

    @property
    def name(self) -> str:
        """The backend's name, which is the file's."""
        return self.path.stem


def read(path: Path) -> CommandFile:
    """Reads the description in a file. Raises InputError with the place and the word that is wrong."""
    try:
        description = read_yaml(path)
    except OSError as error:
        raise InputError(str(path), "a YAML file with stage commands", error.strerror or str(error)) from error
    except YamlError as error:
        raise InputError(str(path), "YAML", cut(str(error), 160), "opscope backend new mine.yaml") from error
    where = str(path)
    table = _table(description, where, KEYS)
    rows = table.get("stages")
    if not isinstance(rows, list) or not rows:
        got = "none" if rows is None else cut(repr(rows), 60)
        raise InputError(where, "a list `stages`", got, "opscope backend new mine.yaml")
    stages = tuple(_stage(row, f"{where}: stage {number}", number == 1) for number, row in enumerate(rows, 1))
    _check_order(stages, where)
    repository = str(table.get("repository") or "")
    if repository and not web_url(repository):
        raise InputError(
            f"{where}: repository", "the page of a repository", repr(repository), "https://host/owner/name"
        )
    tools = tuple(dict.fromkeys(_settled((stage.command[0] for stage in stages), path)))
    return CommandFile(
        path=path,
        stages=stages,
        form=_word(table, "module", where, FORMS, "bytecode"),
        requires=tools
        if table.get("requires") is None
        else _settled(map(_program, _words(table, "requires", where)), path),
        tools=tools,
        words=_settled((word for stage in stages for word in stage.command), path),
        install=str(table.get("install") or ""),
        version=_settled(_command(table, "version", where), path),
        revision=_settled(_command(table, "revision", where), path),
        repository=repository,
        fingerprint=_words(table, "fingerprint", where),
        environment={str(key): str(value) for key, value in _table(table.get("environment"), where).items()},
        card=str(table.get("card") or "host"),
        ran_on=_word(table, "ran_on", where, PLACES, "host"),
        numbers={k: str(v) for k, v in _table(table.get("numbers"), f"{where}: numbers", frozenset(_NUMBERS)).items()},
        structure=_patterns(_table(table.get("structure"), f"{where}: structure"), where),
    )


def _patterns(table: dict[str, Any], where: str) -> dict[str, str]:
    """Names and regular expressions. Raises InputError for what is none."""
    for name, pattern in table.items():
        try:
            re.compile(str(pattern))
        except re.error as error:
            got = f"{cut(repr(pattern), 60)}: {error}"
            raise InputError(f"{where}: structure: {name}", "a regular expression", got, r"'^\s*gemm\('") from error
    return {str(name): str(pattern) for name, pattern in table.items()}


def placeholders(word: str) -> list[str]:
    """The names between braces in a word of a command; `{{` and `}}` are braces themselves."""
    return [match[1] for match in _BRACES.finditer(word) if match[1] is not None]


def filled(word: str, values: dict[str, str]) -> str:
    """The word with every placeholder replaced."""
    return _BRACES.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], word)


def _stage(row: Any, where: str, first: bool) -> CommandStage:
    table = _table(row, where, STAGE_KEYS)
    try:
        stage = Stage(str(table.get("name")))
    except ValueError:
        raise InputError(where, "a `name` of small letters, digits and -", repr(table.get("name"))) from None
    where = f"{where} ({stage})"
    if stage in (Stage.SPLIT, Stage.COMPARE):
        raise InputError(where, "a name that the harness does not use itself", f"'{stage}'")
    command = _command(table, "command", where)
    if not command:
        raise InputError(where, "a `command` as a list of words", repr(table.get("command")))
    stage_command = CommandStage(
        stage, command, str(table.get("writes") or f"{stage}.out"), bool(table.get("stdout", False))
    )
    if Path(stage_command.writes).name != stage_command.writes:
        raise InputError(where, "a file's name after `writes`", repr(stage_command.writes))
    used = [name for word in command for name in placeholders(word)]
    for name in used:
        allowed = PLACEHOLDERS if stage is Stage.RUN else PLACEHOLDERS.keys() - RUN_ONLY
        if name not in allowed and not re.fullmatch(r"env:\w+", name):
            only = " (only `run` has values)" if name in RUN_ONLY else ""
            raise InputError(where, f"a placeholder{only}", f"{{{name}}}", closest(name, allowed))
    _check_used(stage_command, set(used), where, first)
    return stage_command


def _check_used(stage: CommandStage, used: set[str], where: str, first: bool) -> None:
    """Raises InputError if a command reads no file, or if nothing reads what it writes."""
    if not used & {"module", "input"}:
        raise InputError(where, "a word with {input}", "none", "{module}" if first else "{input}")
    if stage.stage is not Stage.RUN:
        if "output" not in used and not stage.stdout:
            raise InputError(where, "a word with {output}", "none", "-o {output}, or stdout: true")
        return
    for kind, words in (("the inputs", TAKES), ("the results", GIVES)):
        if not used & set(words):
            raise InputError(where, f"a placeholder for {kind}", "none", " or ".join(f"{{{word}}}" for word in words))
    for word in stage.command:
        names = set(placeholders(word))
        if names & OF_AN_INPUT and names & OF_A_RESULT:
            raise InputError(where, "inputs and results in words of their own", repr(word))


def _check_order(stages: tuple[CommandStage, ...], where: str) -> None:
    names = [stage.stage for stage in stages]
    if len(set(names)) != len(names):
        raise InputError(where, "stages of different names", ", ".join(names))
    if Stage.RUN in names[:-1]:
        raise InputError(where, "`run` as the last stage", ", ".join(names))


def _settled(words: Iterable[str], path: Path) -> tuple[str, ...]:
    """The words with those placeholders filled in that are the same for every op; the others stay as they are."""
    values = {"here": str(path.parent.resolve()), "python": sys.executable}
    values |= {f"env:{name}": value for name, value in variables_now().items()}
    return tuple(_BRACES.sub(lambda match: values.get(match[1] or "", match[0]), word) for word in words)


def _table(value: Any, where: str, allowed: Collection[str] | None = None) -> dict[str, Any]:
    if value is None and allowed is not KEYS:
        return {}
    if not isinstance(value, dict):
        raise InputError(where, "a table of keys and values", cut(repr(value), 60))
    for key in value:
        if allowed is not None and key not in allowed:
            raise InputError(where, "a known key", repr(key), closest(str(key), allowed))
    return value


def _words(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key) or ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, (str, int, float)) for word in value):
        raise InputError(f"{where}: {key}", "a list of words", cut(repr(value), 60), f"[{value}]" if value else "")
    return tuple(str(word) for word in value)


def _command(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    words = _words(table, key, where)
    return (_program(words[0]), *words[1:]) if words else ()


def _program(word: str) -> str:
    """A program by its path from the folder of the YAML file, as commands run in folders of their own."""
    return f"{{here}}/{os.path.normpath(word)}" if "/" in word and not word.startswith(("/", "{")) else word


def _word(table: dict[str, Any], key: str, where: str, allowed: tuple[str, ...], default: str) -> str:
    value = str(table.get(key) or default)
    if value not in allowed:
        raise InputError(f"{where}: {key}", f"one of {', '.join(allowed)}", repr(value), closest(value, allowed))
    return value
