"""Every setting of a run: one table, and where each value comes from.

Order: command line, then environment (`OPSCOPE_<NAME>`), then the preset (`[tool.opscope.presets.<NAME>]`), then
`[tool.opscope]` in the pyproject.toml at or above the folder that the command was given in, then the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from opscope.harness.record import option_types
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.record.option_types import (
    Count,
    DumpedOps,
    Duration,
    File,
    Flag,
    ProcessMemory,
    Ref,
    Scheduler,
    Seconds,
    Server,
    Share,
    Size,
    SizeOrNone,
    Text,
)
from opscope.harness.record.result_options import OPTIONS, ResultOptions, flag


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    help: str
    """The line of `pytest --help`."""
    default: Any = None
    type: Any = Text
    """What its value is: a type of harness/record/option_types.py."""
    metavar: str = ""
    """Empty: the command-line option takes no value."""
    optional: bool = False
    """Whether the command-line option may stand without its value."""
    repeated: bool = False
    """Whether the command-line option may be given several times; the values are joined by commas."""
    option: bool = True
    """Whether it is an option of the command line."""
    more: str = ""
    """What `opscope config --explain` and docs/commands.md say beyond that line."""

    @property
    def flag(self) -> str:
        """The command-line option."""
        return flag(self.name)

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "OPSCOPE_" + self.name.upper()

    @property
    def dest(self) -> str:
        """The attribute of pytest's `config.option`."""
        return "opscope_" + self.name

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.type)

    def read(self, where: str, value: object) -> Any:
        """The value in its own type. Raises InputError; `where` is the place that it stands in."""
        return option_types.read(self._adapter, where, value)


def _of_options() -> list[Setting]:
    """The options that decide a result as settings."""
    types = get_type_hints(ResultOptions, include_extras=True)
    return [
        Setting(name, row.help, row.default, types[name], row.metavar, repeated=row.repeated, more=row.more)
        for name, row in OPTIONS.items()
    ]


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "preset",
        "A table of pyproject.toml with a usual line's options.",
        metavar="NAME",
        more="[tool.opscope.presets.NAME] holds settings by name, and `model` and `ops`. What the command line or the "
        "environment says goes before it, it goes before [tool.opscope].",
    ),
    Setting(
        "backend",
        "Compiler that takes the ops: a name, or a file.",
        DEFAULT_BACKEND,
        metavar="NAME",
        repeated=True,
        more=(
            "A name may have a release (xla@0.10.1, tt@0.1.2); pjrt:NAME or pjrt:FILE.so is a PJRT "
            "plugin; a file is a .py file, or a .yaml file with the commands of its stages. Given several"
            " times (or as a,b), each op runs on each backend."
        ),
    ),
    *_of_options(),
    Setting("op_timeout", "Time limit of one op, in seconds.", 120.0, Seconds, "SECONDS"),
    Setting(
        "op_memory",
        "Memory limit of one op's process, such as 8GiB.",
        type=ProcessMemory,
        metavar="SIZE",
        more="Default: three quarters of the machine's memory.",
    ),
    Setting(
        "prepare_timeout",
        "Time limit of preparing one model, in seconds.",
        900.0,
        Seconds,
        "SECONDS",
        more="It is for export, split and goldens together.",
    ),
    Setting(
        "prepare_memory",
        "Memory limit of preparing one model, such as 8GiB.",
        type=ProcessMemory,
        metavar="SIZE",
        more="Default: three quarters of the machine's memory.",
    ),
    Setting(
        "golden_memory",
        "Largest tensor that gets a golden, such as 2GiB.",
        2 << 30,
        Size,
        "SIZE",
        more="An op with a larger result has no golden.",
    ),
    Setting(
        "budget",
        "Start nothing after this time, such as 30m.",
        type=Duration,
        metavar="TIME",
        more=(
            "No op is started and no model prepared; --resume does the rest. Of the ops whose goldens are"
            " there, those that failed last and are used most run first."
        ),
    ),
    Setting(
        "budget_history",
        "Results that order the ops of --budget.",
        type=File,
        metavar="FILE",
        more=(
            "A file with the last result of each op, as `opscope gate` writes it; it counts along with the runs here."
        ),
    ),
    Setting("limitations", "Your expected failures (YAML), beside our own.", metavar="FILE"),
    Setting(
        "reruns",
        "How often a failed op runs again.",
        2,
        Count,
        "N",
        more="It tells deterministic, flaky and infrastructure failures apart.",
    ),
    Setting(
        "shard",
        "Run one share of the ops, such as 2/4.",
        type=Share,
        metavar="I/N",
        more="All shares cost the same, and `opscope merge` joins their runs.",
    ),
    Setting(
        "shard_costs",
        "Times of ops for --shard.",
        metavar="PATH",
        more="The same for all shares: a run folder, or a file from `opscope costs`.",
    ),
    Setting(
        "cluster",
        "Run on the workers of this Dask scheduler.",
        type=Scheduler,
        metavar="ADDRESS",
        more="They make goldens and run ops, one model or op at a time per resource `device`.",
    ),
    Setting(
        "repro_size",
        "Largest size of all repro folders, such as 64MiB.",
        256 << 20,
        SizeOrNone,
        "SIZE",
        more="Of the values in them; 0: no repro folders.",
    ),
    Setting("op_by_op_on_fail", "Run whole models first, op by op only what failed.", False, Flag),
    Setting(
        "ignore_conftest",
        "Load no conftest file of the project.",
        False,
        Flag,
        more="By default, their options and hooks work beside a run.",
    ),
    Setting(
        "check_kept",
        "Run a sample of the cached verdicts again first.",
        False,
        Flag,
        more="It is 1 % of the ops that have one, and at least 3; a night does it.",
    ),
    Setting(
        "explain_kept",
        "Say what cached verdicts rest on.",
        False,
        Flag,
        more="For each backend, with what has changed of it.",
    ),
    Setting(
        "no_cache",
        "Run every op, also where a verdict is kept.",
        False,
        Flag,
        more="Kept are verdicts of earlier runs that still hold.",
    ),
    Setting("keep_ir", "Keep the IR after each stage in the run folder.", False, Flag),
    Setting(
        "dump_tensors",
        "Keep tensors of ops: none, failing or all.",
        "none",
        DumpedOps,
        "WHICH",
        more="Inputs, results and goldens, in the run folder.",
    ),
    Setting(
        "artifact_url",
        "Artifact server that will serve this run's folder.",
        type=Server,
        metavar="URL",
        more=(
            "As `opscope artifacts serve` starts it; the database remembers it, and `opscope repro ID "
            "--from DATABASE` fetches from it."
        ),
    ),
    Setting(
        "revision",
        "Commit that is tested.",
        type=Ref,
        metavar="COMMIT",
        more=(
            "Records, nights and `opscope diff` name it; default: what the CI system says, else the "
            "commit of the git checkout in which the run is started."
        ),
    ),
    Setting("branch", "Branch that is tested.", type=Ref, metavar="NAME", more="Default: as for --revision."),
    Setting(
        "publish",
        "Database to publish the run to.",
        metavar="URL",
        optional=True,
        more="Default: .opscope/opscope.sqlite.",
    ),
    Setting(
        "publish_timeout",
        "Time limit of report and publishing, in seconds.",
        900.0,
        Seconds,
        "SECONDS",
        more="For writing the report, and for publishing the run, each.",
    ),
    Setting("no_report", "Write neither report.html nor the database.", False, Flag),
    Setting(
        "cache_dir",
        "Folder of exports, goldens and cached verdicts.",
        metavar="DIR",
        option=False,
        more="Default: the user's cache folder.",
    ),
    Setting(
        "dashboard_home",
        "Folder of the dashboard server.",
        metavar="DIR",
        option=False,
        more="Default: in the user's state folder.",
    ),
    Setting(
        "alerts_to",
        "Mail addresses for alerts, joined by commas.",
        metavar="ADDRESSES",
        option=False,
        more="For the alerts and reports of `opscope dashboard up`.",
    ),
    Setting("mail_server", "Mail server for them, such as smtp://mail.test.", metavar="URL", option=False),
    Setting(
        "max_cache",
        "Largest size of all caches together.",
        20 << 30,
        Size,
        "SIZE",
        option=False,
        more="Above it, what has been unused the longest is removed.",
    ),
)
"""The settings of a run. What it runs (--model, --op, --ops, --run-dir) is not a setting."""

BY_NAME = {setting.name: setting for setting in SETTINGS}

PRESETS = "presets"
"""The table of `[tool.opscope]` that holds presets by name."""
OF_A_PRESET = ("model", "ops")
"""What a preset may hold beside settings: the options of the same name."""


@dataclass(frozen=True)
class Resolved:
    """The value of every setting, and for each the place it comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The value of one setting."""
        return self.values[name]

    def is_set(self, name: str) -> bool:
        """Whether anybody set it."""
        return self.sources[name] != "default"

    @property
    def options(self) -> ResultOptions:
        """Those that decide a result."""
        return ResultOptions.of(self.values)

    def masked(self) -> dict[str, Any]:
        """All values, without the passwords of URLs: what may be stored or shown."""
        from opscope.harness.record.masking import masked

        return masked(self.values)


def from_pyproject(rootdir: Path) -> dict[str, Any]:
    """`[tool.opscope]` of `rootdir`/pyproject.toml, without its presets; empty where there is none.

    Raises InputError on unknown names.
    """
    path, table = _table(rootdir)
    return _known(f"{path} [tool.opscope]", {key: value for key, value in table.items() if key != PRESETS}, BY_NAME)


def preset(name: str, rootdir: Path) -> dict[str, Any]:
    """A preset of `rootdir`/pyproject.toml: settings by name, `model` and `ops`. Raises InputError."""
    path, table = _table(rootdir)
    there = table.get(PRESETS, {})
    if not isinstance(there.get(name), dict):
        hint = closest(name, there) if there else f"a table [tool.opscope.{PRESETS}.{name}] with settings by name"
        raise InputError("--preset", f"a preset of {path}", repr(name), hint)
    known = [*OF_A_PRESET, *(each for each in BY_NAME if each != "preset")]
    return _known(f"{path} [tool.opscope.{PRESETS}.{name}]", there[name], known)


def words_of_preset(name: str, rootdir: Path) -> dict[str, list[str]]:
    """What a preset says of the models and ops that run. Raises InputError."""
    values = preset(name, rootdir)
    given = {key: values[key] for key in OF_A_PRESET if key in values}
    return {
        key: [str(each) for each in (value if isinstance(value, list) else [value])] for key, value in given.items()
    }


def _table(rootdir: Path) -> tuple[Path, dict[str, Any]]:
    """The pyproject.toml of a folder, and its table `[tool.opscope]`. Raises InputError."""
    path = rootdir / "pyproject.toml"
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("opscope", {})
    except FileNotFoundError:
        return path, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(str(path), "a TOML file", str(error)) from None


def _known(where: str, table: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """A table with its names as ours are written. Raises InputError for one that nobody knows."""
    for key in table:
        if key.replace("-", "_") not in known:
            raise InputError(where, "the name of a setting", repr(key), closest(key.replace("-", "_"), known))
    return {key.replace("-", "_"): value for key, value in table.items()}


def project_folder(start: Path) -> Path:
    """The nearest folder at or above `start` that has a pyproject.toml; `start` where there is none."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / "pyproject.toml").is_file()), start)


def resolve(command_line: Mapping[str, Any], rootdir: Path, environment: Mapping[str, str] | None = None) -> Resolved:
    """The value of every setting; `command_line` holds None for what was not given. Raises InputError."""
    environment = os.environ if environment is None else environment
    project, place = from_pyproject(rootdir), str(rootdir / "pyproject.toml")
    tables = [("[tool.opscope]", place, project)]
    name = preset_asked(command_line, project, environment)
    if name is not None:
        chosen = f"[tool.opscope.{PRESETS}.{name}]"
        tables.insert(0, (chosen, f"{place} {chosen}", preset(name, rootdir)))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        if command_line.get(setting.name) is not None:
            where, value, source = setting.flag, command_line[setting.name], "command line"
        elif environment.get(setting.variable):
            where, value, source = setting.variable, environment[setting.variable], "environment"
        elif (found := next((each for each in tables if setting.name in each[2]), None)) is not None:
            table, source, given = found
            where, value = f"{table} {setting.name}", given[setting.name]
        else:
            values[setting.name], sources[setting.name] = setting.default, "default"
            continue
        value = ",".join(map(str, value)) if setting.repeated and isinstance(value, list | tuple) else value
        values[setting.name], sources[setting.name] = setting.read(where, value), source
    return Resolved(values, sources)


def preset_asked(
    command_line: Mapping[str, Any], project: Mapping[str, Any], environment: Mapping[str, str]
) -> str | None:
    """The name of the preset that a run has; None if it has none."""
    row = BY_NAME["preset"]
    return command_line.get(row.name) or environment.get(row.variable) or project.get(row.name)
