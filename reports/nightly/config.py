"""The configuration of a night: ci/nightly.yaml, read and checked before anything runs.

A secret is never in the file: where one is needed the file names the environment variable that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from opscope.base.night_grid.due import Hour
from opscope.base.yaml_text import YamlError, read_yaml
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.masking import SECRET_KEY
from opscope.harness.settings.settings import BY_NAME, Setting
from opscope.reports.nightly.fields import mapping, one_of, text, texts, whole_number
from opscope.reports.nightly.notices import Notices, read_notices

PROBLEMS = {
    "no_data": ("fail", "no op was attempted on a combination of backend, board and format, or none at all"),
    "regression": (
        "fail",
        "an op is `NEW`, `REASON-CHANGED` or `PCC-DROP`, neither known nor flaky, and no "
        "[note](results.md#what-is-known-of-a-cause-opscope-note) acknowledges its cause",
    ),
    "failure": ("pass", "an op fails, new or not, and no limitation names the failure"),
    "import": (
        "fail",
        "the import of a model differs from its own framework, and no limitation names it: its goldens are in doubt",
    ),
    "partial": ("pass", "a model, a shard or the end of a run is missing"),
    "spooled": ("pass", "the database could not be reached, and the runs wait in `.opscope/spool`"),
    "refused": (
        "fail",
        "the database will not take the night later either: it has a newer schema, or another night of that name",
    ),
}
"""Problem of a night -> whether it fails the night by default, and when it applies (a backend that fails every op with
one text has no data)."""
POLICY = {problem: default for problem, (default, _) in PROBLEMS.items()}
"""What fails a night by default."""

OURS = frozenset({"backend", "arch", "data_format", "budget", "shard", "publish", "no_report", "op_by_op_on_fail"})
"""Settings of a run that the night sets itself."""


@dataclass(frozen=True)
class Config:
    """One configuration."""

    path: Path
    content: Mapping[str, Any]
    """The file as it was read; it is stored with the night."""
    models: tuple[str, ...]
    """Names, globs, `all`, files."""
    backends: tuple[str, ...] = (str(BY_NAME["backend"].default),)
    archs: tuple[str, ...] = ("n150",)
    data_formats: tuple[str, ...] = ()
    """Empty: the default of each backend."""
    name: str = "nightly"
    zone: str = "UTC"
    by: str | int | None = None
    """The hour in `zone` by which a night has to be there; None: a day and a half after the newest one."""
    budget: float | None = None
    """Seconds during which one machine may start ops."""
    shards: int = 1
    workers: int = 1
    """Number of pytest processes per sweep."""
    database: str | None = None
    """A URL without a password; None: `database_env`, or the SQLite file of the folder."""
    database_env: str | None = None
    owners: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other settings of every run."""
    policy: Mapping[str, str] = field(default_factory=lambda: dict(POLICY))
    notices: Notices | None = None

    def database_url(self, root: Path, given: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
        """The database to publish to. Raises InputError if its variable is not set or holds no URL."""
        from opscope.reports.database.database import usable_url
        from opscope.reports.database.files import default_url

        url, where = given, "--database"
        if url is None and self.database_env is not None:
            url, where = environment.get(self.database_env), f"{self.path}: database"
            if not url:
                raise InputError(where, f"a URL in ${self.database_env}", "none", f"export {self.database_env}=URL")
        url = url or self.database or default_url(root)
        usable_url(url, where)
        return url


def read_config(path: Path) -> Config:
    """Reads and checks a configuration. Raises InputError with the key that is wrong."""
    try:
        content = read_yaml(path)
    except (OSError, YamlError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        hint = "models: [resnet50]" if path.exists() else "opscope nightly --init"
        raise InputError(str(path), "the configuration of a night (YAML)", reason, hint) from error
    if not isinstance(content, dict):
        raise InputError(str(path), "a mapping", type(content).__name__, "models: [resnet50]")
    for key in content:
        if key not in KEYS:
            raise InputError(str(path), "a key of a night", f"`{key}`", closest(str(key), KEYS))
    if not content.get("models"):
        raise InputError(f"{path}: models", "at least one model", "none", "models: [resnet50]")
    values: dict[str, Any] = {}
    for key, value in content.items():
        values |= KEYS[key](f"{path}: {key}", value)
    return Config(path=path, content=content, **values)


def with_backends(config: Config, names: str) -> Config:
    """The configuration with other backends, separated by commas: each has sweeps of its own. Raises InputError."""
    from opscope.harness.backends import registry

    backends = _backends("--backend", [*registry.split_names(names)])
    return replace(config, backends=backends, content={**config.content, "backends": [*backends]})


def with_commit(config: Config, revision: str | None, branch: str | None) -> Config:
    """The configuration whose runs are of another commit or branch than they would find out. Raises InputError."""
    given = {"revision": revision, "branch": branch}
    options = {name: BY_NAME[name].read(BY_NAME[name].flag, word) for name, word in given.items() if word is not None}
    return replace(config, options={**config.options, **options})


def _named(name: str, read: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    return lambda where, value: {name: read(where, value)}


def _zone(where: str, value: Any) -> str:
    zone = text(where, value)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(where, "a time zone", f"`{zone}`", "Europe/Berlin") from None
    return zone


def _by(where: str, value: Any) -> str | int:
    if Hour.read(value) is None:
        raise InputError(where, "an hour, perhaps of some days", repr(value), '"07:00" or "Mon-Fri 07:00"')
    return value


def _budget(where: str, value: Any) -> float | None:
    return None if value is None else BY_NAME["budget"].read(where, value)


def _backends(where: str, value: Any) -> tuple[str, ...]:
    from opscope.harness.backends import registry

    backends = texts(where, value)
    for backend in backends:
        try:
            registry.check_name(backend)
        except InputError as error:
            raise InputError(where, error.expected, error.got, error.hint) from None
    return backends


def _database(where: str, value: Any) -> dict[str, Any]:
    from opscope.reports.database.database import parse_url

    if isinstance(value, dict):
        return {"database_env": text(f"{where}.env", mapping(where, value, ("env",)).get("env"))}
    url = text(where, value)
    parsed = parse_url(url, where)
    if parsed.password or any(SECRET_KEY.search(key) for key in parsed.query):
        raise InputError(where, "no password in the file", "a URL with one", "database: {env: OPSCOPE_DATABASE}")
    return {"database": url}


def _options(where: str, value: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, option_value in mapping(where, value).items():
        name = str(key).replace("-", "_")
        setting: Setting | None = BY_NAME.get(name)
        if setting is None or not setting.option or name in OURS:
            names = [row.name for row in BY_NAME.values() if row.option and row.name not in OURS]
            raise InputError(where, "a setting of a run", f"`{key}`", closest(name, names))
        options[name] = setting.read(f"{where}.{key}", option_value)
    return options


def _policy(where: str, value: Any) -> dict[str, str]:
    choices = mapping(where, value, tuple(POLICY))
    return POLICY | {key: one_of(f"{where}.{key}", choice, ("fail", "pass")) for key, choice in choices.items()}


KEYS: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "name": _named("name", text),
    "zone": _named("zone", _zone),
    "by": _named("by", _by),
    "models": _named("models", texts),
    "backends": _named("backends", _backends),
    "architectures": _named("archs", texts),
    "data_formats": _named("data_formats", texts),
    "budget": _named("budget", _budget),
    "shards": _named("shards", whole_number),
    "workers": _named("workers", whole_number),
    "database": _database,
    "owners": _named("owners", lambda where, value: Path(text(where, value))),
    "options": _named("options", _options),
    "policy": _named("policy", _policy),
    "notify": _named("notices", read_notices),
}
"""Key of the file -> the function that reads it into fields of `Config`."""
