"""Every setting of a run: one table, and where each value comes from.

Order: command line, then environment (`OPSCOPE_<NAME>`), then `[tool.opscope]` in the pyproject.toml at or
above the folder that the command was given in, then the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
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
        Setting(name, row.help, row.default, types[name], row.metavar, repeated=row.repeated)
        for name, row in OPTIONS.items()
    ]


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "backend",
        "Compiler that takes the ops, with what runs its output: a name, also at a release (xla@0.10.1, tt@0.1.2), "
        "pjrt:NAME or pjrt:FILE.so for a PJRT plugin, a .py file, or a .yaml file with the commands of its stages. "
        "Given several times (or as a,b), each op runs on each backend.",
        DEFAULT_BACKEND,
        metavar="NAME",
        repeated=True,
    ),
    *_of_options(),
    Setting("op_timeout", "Time limit of one op, in seconds.", 120.0, Seconds, "SECONDS"),
    Setting(
        "op_memory",
        "Memory limit of one op's process, such as 8GiB; default: three quarters of the machine's memory.",
        type=ProcessMemory,
        metavar="SIZE",
    ),
    Setting(
        "prepare_timeout",
        "Time limit of preparing one model (export, split, goldens), in seconds.",
        900.0,
        Seconds,
        "SECONDS",
    ),
    Setting(
        "prepare_memory",
        "Memory limit of the process that prepares a model, such as 8GiB; default: three "
        "quarters of the machine's memory.",
        type=ProcessMemory,
        metavar="SIZE",
    ),
    Setting(
        "golden_memory",
        "Largest tensor for which a golden is computed, such as 2GiB; an op with a larger result has no golden.",
        2 << 30,
        Size,
        "SIZE",
    ),
    Setting(
        "budget",
        "Start no op and prepare no model after this time, such as 30m; --resume does the rest. Of the "
        "ops whose goldens are there, those that failed last and are used most run first.",
        type=Duration,
        metavar="TIME",
    ),
    Setting(
        "budget_history",
        "File with the last result of each op, as `opscope gate` writes it; orders the ops of "
        "--budget along with the runs here.",
        type=File,
        metavar="FILE",
    ),
    Setting("limitations", "Your expected failures (YAML), in addition to the project's own.", metavar="FILE"),
    Setting(
        "reruns",
        "How often to run a failed op again, to tell deterministic, flaky and infrastructure failures apart.",
        2,
        Count,
        "N",
    ),
    Setting(
        "shard",
        "Run one share of the ops, such as 2/4; all shares cost the same, and `opscope merge` joins their runs.",
        type=Share,
        metavar="I/N",
    ),
    Setting(
        "shard_costs",
        "Times of ops for --shard, the same for all shares: a run folder, or a file from `opscope costs`.",
        metavar="PATH",
    ),
    Setting(
        "cluster",
        "Make goldens and run ops on the workers of this Dask scheduler, one model or op at a time per "
        "resource `device`.",
        type=Scheduler,
        metavar="ADDRESS",
    ),
    Setting(
        "repro_size",
        "Largest total size of the values in a run's repro folders, such as 64MiB; 0: no repro folders.",
        256 << 20,
        SizeOrNone,
        "SIZE",
    ),
    Setting("op_by_op_on_fail", "Run each model as one program first, and op by op only if that failed.", False, Flag),
    Setting(
        "ignore_conftest",
        "Load no conftest file of the project; by default, their options and hooks work beside a run.",
        False,
        Flag,
    ),
    Setting(
        "check_kept",
        "Run a sample of the ops with a kept verdict again first, 1 % and at least 3; a night does.",
        False,
        Flag,
    ),
    Setting(
        "explain_kept", "Say what the kept verdicts of each backend rest on, and what has changed of it.", False, Flag
    ),
    Setting("no_cache", "Run every op, even if the verdict of an earlier run still holds.", False, Flag),
    Setting("keep_ir", "Keep the IR after each stage in the run folder.", False, Flag),
    Setting(
        "dump_tensors",
        "Keep inputs, results and goldens of ops in the run folder: none, failing or all.",
        "none",
        DumpedOps,
        "WHICH",
    ),
    Setting(
        "artifact_url",
        "Artifact server that will serve this run's folder (`opscope artifacts serve`); the "
        "database remembers it, and `opscope repro ID --from DATABASE` fetches from it.",
        type=Server,
        metavar="URL",
    ),
    Setting(
        "revision",
        "Commit that is tested, as records, nights and `opscope diff` name it; default: what the CI system says, else "
        "the commit of the git checkout in which the run is started.",
        type=Ref,
        metavar="COMMIT",
    ),
    Setting("branch", "Branch that is tested; default: as for --revision.", type=Ref, metavar="NAME"),
    Setting(
        "publish", "Database to publish the run to; default: .opscope/opscope.sqlite.", metavar="URL", optional=True
    ),
    Setting(
        "publish_timeout",
        "Time limit of writing the report, and of publishing the run, in seconds.",
        900.0,
        Seconds,
        "SECONDS",
    ),
    Setting("no_report", "Write neither report.html nor the database.", False, Flag),
    Setting(
        "cache_dir",
        "Folder of exports and golden executables; default: the user's cache folder.",
        metavar="DIR",
        option=False,
    ),
    Setting(
        "dashboard_home",
        "Folder of the dashboard server; default: in the user's state folder.",
        metavar="DIR",
        option=False,
    ),
    Setting(
        "alerts_to",
        "Mail addresses for the alerts and reports of `opscope dashboard up`, joined by commas.",
        metavar="ADDRESSES",
        option=False,
    ),
    Setting("mail_server", "Mail server for them, such as smtp://mail.example.org.", metavar="URL", option=False),
    Setting(
        "max_cache",
        "Largest size of all caches together; above it, what has been unused the longest is removed.",
        20 << 30,
        Size,
        "SIZE",
        option=False,
    ),
)
"""The settings of a run. What it runs (--model, --op, --ops, --run-dir) is not a setting."""

BY_NAME = {setting.name: setting for setting in SETTINGS}


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
    """`[tool.opscope]` of `rootdir`/pyproject.toml; empty where there is none. Raises InputError on unknown names."""
    path = rootdir / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("opscope", {})
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(str(path), "a TOML file", str(error)) from None
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in BY_NAME:
            raise InputError(f"{path} [tool.opscope]", "the name of a setting", repr(key), closest(name, BY_NAME))
        values[name] = value
    return values


def project_folder(start: Path) -> Path:
    """The nearest folder at or above `start` that has a pyproject.toml; `start` where there is none."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / "pyproject.toml").is_file()), start)


def resolve(command_line: Mapping[str, Any], rootdir: Path, environment: Mapping[str, str] | None = None) -> Resolved:
    """The value of every setting; `command_line` holds None for what was not given. Raises InputError."""
    environment = os.environ if environment is None else environment
    project = from_pyproject(rootdir)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        if command_line.get(setting.name) is not None:
            where, value, source = setting.flag, command_line[setting.name], "command line"
            value = ",".join(map(str, value)) if setting.repeated and not isinstance(value, str) else value
        elif environment.get(setting.variable):
            where, value, source = setting.variable, environment[setting.variable], "environment"
        elif setting.name in project:
            where, value = f"[tool.opscope] {setting.name}", project[setting.name]
            value = ",".join(map(str, value)) if setting.repeated and isinstance(value, list) else value
            source = str(rootdir / "pyproject.toml")
        else:
            values[setting.name], sources[setting.name] = setting.default, "default"
            continue
        values[setting.name], sources[setting.name] = setting.read(where, value), source
    return Resolved(values, sources)
