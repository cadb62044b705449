"""Every setting of a run: one table, and where each value comes from.

Order: command line, then environment (`OPSCOPE_<NAME>`), then `[tool.opscope]` in the pyproject.toml at or
above the folder that the command was given in, then the default.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.record.stages import Stage
from opscope.harness.record.workflows import SPLIT, WORKFLOWS

DTYPES = {"float32": "float32", "f32": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16"}
"""The float types of a model, and their short names."""
INPUTS = ("captured", "random")
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
UNSUPPORTED_TYPES = ("fail", "fallback")
OPTIMIZATION_LEVELS = (0, 1, 2)


def _text(where: str, value: object) -> str:
    return str(value)


def _flag(where: str, value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise InputError(where, "true or false", repr(value))
    return words[str(value).lower()]


def _integer(where: str, value: object) -> int:
    try:
        return int(str(value), 0)
    except ValueError:
        raise InputError(where, "an integer", repr(value)) from None


def _count(where: str, value: object) -> int:
    number = _integer(where, value)
    if number < 0:
        raise InputError(where, "a number from 0 on", str(number), "0")
    return number


def _seconds(where: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise InputError(where, "a number of seconds above 0", repr(value), "60")
    return number


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _bytes(where: str, value: object) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(value), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise InputError(where, "a size of memory above 0", repr(value), "8GiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _bytes_or_none(where: str, value: object) -> int:
    return 0 if str(value).strip() == "0" else _bytes(where, value)


_SPANS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _span(where: str, value: object) -> float:
    text = str(value).strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    seconds = sum(float(number) * _SPANS[unit] for number, unit in parts)
    if "".join(map("".join, parts)) != text or not seconds:
        raise InputError(where, "a time above 0", repr(value), "30m, 90s or 1h30m")
    return seconds


def _level(where: str, value: object) -> int:
    number = _integer(where, value)
    if number not in OPTIMIZATION_LEVELS:
        raise InputError(where, "0, 1 or 2", str(number))
    return number


def _one_of(*words: str) -> Callable[[str, object], str]:
    def read(where: str, value: object) -> str:
        if str(value) not in words:
            raise InputError(where, f"one of {', '.join(words)}", repr(value), closest(str(value), words))
        return str(value)

    return read


def _stage(where: str, value: object) -> str:
    from opscope.harness.record.depths import STAGES

    try:
        return str(STAGES.get(str(value)) or Stage(str(value)))
    except ValueError:
        raise InputError(where, "the name of a stage", repr(value), closest(str(value), list(Stage))) from None


def _file(where: str, value: object) -> str:
    # Whole: the record's command line must find the file from any folder.
    return str(Path(str(value)).absolute())


def _inputs(where: str, value: object) -> str:
    return _file(where, value) if str(value).endswith(".npz") else _one_of(*INPUTS)(where, value)


def _dtype(where: str, value: object) -> str:
    return DTYPES[_one_of(*DTYPES)(where, value)]


def _scheduler(where: str, value: object) -> str:
    if re.fullmatch(r"(tcp|tls|ws|wss)://\S+:\d+/?", str(value)) is None:
        raise InputError(where, "the address of a Dask scheduler", repr(value), "tcp://127.0.0.1:8786")
    return str(value)


MOST_SHARES = 10_000
"""More is a slip of the pen."""


def _share(where: str, value: object) -> str:
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", str(value))
    if match is None or not 1 <= int(match[2]) <= MOST_SHARES:
        raise InputError(where, f"I/N, this share of 1 to {MOST_SHARES}", repr(value), "1/4")
    index, of = int(match[1]), int(match[2])
    if not 1 <= index <= of:
        raise InputError(where, f"a share from 1/{of} to {of}/{of}", repr(value), f"{min(max(index, 1), of)}/{of}")
    return f"{index}/{of}"


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    help: str
    default: Any = None
    read: Callable[[str, object], Any] = _text
    """Takes where the value stands and the value; returns it in its own type or raises InputError."""
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
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "OPSCOPE_" + self.name.upper()

    @property
    def dest(self) -> str:
        """The attribute of pytest's `config.option`."""
        return "opscope_" + self.name


SETTINGS: tuple[Setting, ...] = (
    Setting("backend", "The compiler, and what runs its output: a name, or a file (.py, or .yaml with its stage "
            "commands); given several times, or as a,b: each op on each of them.", DEFAULT_BACKEND, metavar="NAME",
            repeated=True),
    Setting("arch", "A board (n150, e150, p150) or an arch (then its default board).", "n150", metavar="BOARD"),
    Setting("data_format", "Number format the device computes floats in; default: the module's own types.",
            metavar="FORMAT"),
    Setting("math_fidelity", "Passes of the matrix unit: LoFi, HiFi2, HiFi3 or HiFi4; default: the backend's.",
            read=_one_of(*FIDELITIES), metavar="FIDELITY"),
    Setting("workflow", "What is taken through the stages: split (each op by itself: --op-by-op), full (the model as "
            "one program, every value compared), compile-split, split-compile-split.", SPLIT, _one_of(*WORKFLOWS),
            "WORD"),
    Setting("unsupported_types", "Ops of types that the device has not (f64, i64): fail, or fallback to the host; "
            "default: fail of ops by themselves, fallback in whole models.", read=_one_of(*UNSUPPORTED_TYPES),
            metavar="WORD"),
    Setting("optimization_level", "What the compiler does beyond single ops: 0 nothing, 1 fuses, 2 also keeps tensors "
            "in L1.", 0, _level, "N"),
    Setting("amp_level", "Mixed precision (backend reference): 0 none, 1 has products in Bfp8_b, 2 in Bfp8 and the "
            "rest in Float16.", 0, _level, "N"),
    Setting("inputs", "Values the ops are run on: captured (from the model), random, or those of an .npz file for the "
            "model's inputs, by name.", "captured", _inputs, "KIND|FILE"),
    Setting("weights", "A .safetensors file whose tensors replace the seeded weights of the model, by name.",
            read=_file, metavar="FILE"),
    Setting("seed", "Seed of weights and inputs.", 0, _integer, "N"),
    Setting("training", "The model's training step (forward, backward, Adam), not its forward pass.", False, _flag),
    Setting("dtype", "Float type of the model: float32 or bfloat16.", "float32", _dtype, "TYPE"),
    Setting("op_timeout", "Seconds that one op may take.", 120.0, _seconds, "SECONDS"),
    Setting("op_memory", "Memory that one op's process may take, e.g. 8GiB; default: three quarters of the machine's.",
            read=_bytes, metavar="SIZE"),
    Setting("golden_memory", "Largest tensor whose golden is computed; an op with a larger result has no golden.",
            2 << 30, _bytes, "SIZE"),
    Setting("budget", "Start no op after this time, e.g. 30m; what failed last and is used most comes first.",
            read=_span, metavar="TIME"),
    Setting("budget_history", "What orders a budget besides the runs here: a file of how ops ended last, as `opscope "
            "gate` writes it.", read=_file, metavar="FILE"),
    Setting("limitations", "Your expected failures (YAML), beside the project's own.", metavar="FILE"),
    Setting("reruns", "How often a failed op is run again, to tell deterministic, flaky and infrastructure apart.",
            2, _count, "N"),
    Setting("shard", "Run this share of the ops, e.g. 2/4: equal in cost; `opscope merge` joins the run folders.",
            read=_share, metavar="I/N"),
    Setting("shard_costs", "What ops cost, equal for all shares: a run folder, or a file by `opscope costs`.",
            metavar="PATH"),
    Setting("cluster", "Run the ops on the workers of this Dask scheduler, one lane per resource `device`.",
            read=_scheduler, metavar="ADDRESS"),
    Setting("repro_size", "Size of the values in a run's repro folders; 0: no folders.", 256 << 20, _bytes_or_none,
            "SIZE"),
    Setting("op_by_op_on_fail", "Run each model as one program first, and op by op only where that failed.", False,
            _flag),
    Setting("no_cache", "Run every op, also where an earlier run's verdict still holds.", False, _flag),
    Setting("keep_ir", "Keep the IR after each stage in the run folder.", False, _flag),
    Setting("until", "Stop each op after this stage, or depth of backend buda; such an op counts as stopped.",
            read=_stage, metavar="STAGE"),
    Setting("publish", "Database that gets the run; default: .opscope/opscope.sqlite.", read=_text, metavar="URL",
            optional=True),
    Setting("no_report", "Write neither report.html nor the database.", False, _flag),
    Setting("cache_dir", "Folder of exports and golden executables; default: the user's cache folder.", metavar="DIR",
            option=False),
    Setting("dashboard_home", "Folder of the dashboard server; default: one of the user's state folder.", metavar="DIR",
            option=False),
    Setting("max_cache", "Size that all caches together may take before the longest unused goes.", 20 << 30, _bytes,
            "SIZE", option=False),
)  # fmt: skip
"""What a run can be told; what it is asked to do (--model, --op, --ops, --run-dir) is not a setting."""

BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True)
class Resolved:
    """The value of every setting, and for each the place it comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The value of one setting."""
        return self.values[name]

    def given(self, name: str) -> bool:
        """Whether anybody set it."""
        return self.sources[name] != "default"

    def masked(self) -> dict[str, Any]:
        """All values, without the passwords of URLs: what may be stored or shown."""
        from opscope.harness.record.origin import masked

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
    found = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in BY_NAME:
            raise InputError(f"{path} [tool.opscope]", "the name of a setting", repr(key), closest(name, BY_NAME))
        found[name] = value
    return found


def project_folder(here: Path) -> Path:
    """The nearest folder at or above `here` that has a pyproject.toml; `here` where there is none."""
    here = here.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file()), here)


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
