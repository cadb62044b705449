"""Which team owns which failure: the first rule in ci/owners.yaml that matches decides.

    owners:
      - {team: lowering, stage: ttir-to-ttnn}
      - {team: conv, op: "stablehlo.convolution", model: "resnet*"}
      - {team: everyone-else}

A rule matches if all of its patterns match; `*` stands for any text. `op` is an op's name, `stage` the stage at which
it fails, `cluster` the cause, and `model` one of the models that use the op.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.yaml_text import YamlError, read_yaml
from opscope.harness.record.errors import InputError, closest
from opscope.reports.database.schema import OWNERS

OWNERS_FILE = Path("ci") / "owners.yaml"
"""The file with the rules, relative to the working directory of the command."""
PATTERNS = ("op", "stage", "cluster", "model")


@dataclass(frozen=True)
class Rule:
    """One rule; the pattern `*` matches everything."""

    team: str
    op: str = "*"
    stage: str = "*"
    cluster: str = "*"
    model: str = "*"

    def fits(self, ops: Iterable[str], stage: str, cluster: str, models: Iterable[str]) -> bool:
        """Whether the rule matches a failure of one or several ops."""
        return (
            _any_fits(self.op, ops)
            and fnmatch.fnmatchcase(stage, _plain(self.stage))
            and fnmatch.fnmatchcase(cluster, _plain(self.cluster))
            and _any_fits(self.model, models)
        )


def _any_fits(pattern: str, names: Iterable[str]) -> bool:
    return pattern == "*" or any(fnmatch.fnmatchcase(name, _plain(pattern)) for name in names)


def _plain(pattern: str) -> str:
    """Converts a pattern for fnmatch, with `*` as its only special character, so that it matches as in SQL."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def owner(rules: Sequence[Rule], ops: Iterable[str], stage: str, cluster: str, models: Iterable[str]) -> str:
    """The team of the first rule that matches; empty if none does."""
    ops, models = list(ops), list(models)
    return next((rule.team for rule in rules if rule.fits(ops, stage, cluster, models)), "")


# --- the file


def read_owners(path: Path) -> list[Rule]:
    """Reads the rules in a file. Raises InputError if it contains none."""
    try:
        content = read_yaml(path)
    except (OSError, YamlError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(str(path), "rules of owners (YAML)", reason, "owners: [{team: ..., op: ...}]") from error
    rows = content.get("owners") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise InputError(str(path), "a list `owners`", type(content).__name__, "owners: [{team: ..., op: ...}]")
    return [_rule(row, f"{path}: rule {number}") for number, row in enumerate(rows, 1)]


def _rule(row: Any, where: str) -> Rule:
    if not isinstance(row, dict) or not isinstance(row.get("team"), str) or not row["team"]:
        raise InputError(where, "a mapping with `team`", repr(row), "{team: conv, op: 'stablehlo.convolution'}")
    for name, value in row.items():
        if name not in ("team", *PATTERNS):
            raise InputError(where, "team, op, stage, cluster or model", f"`{name}`", closest(str(name), PATTERNS))
        if not isinstance(value, str):
            raise InputError(where, f"a text as `{name}`", repr(value), f'{name}: "{value}"')
    return Rule(**row)


# --- the database


def store_owners(connection: sa.Connection, rules: Sequence[Rule]) -> None:
    """Replaces the rules in the database."""
    connection.execute(sa.delete(OWNERS))
    rows = [
        {"position": place, "team": rule.team, "op": _listed(rule.op), "model": _listed(rule.model)}
        | {"stage": _like(rule.stage), "cluster": _like(rule.cluster)}
        for place, rule in enumerate(rules, 1)
    ]
    if rows:
        connection.execute(sa.insert(OWNERS), rows)


def _like(pattern: str) -> str:
    """Converts a pattern for SQL's LIKE, with `!` as the escape character."""
    for character in "!%_":
        pattern = pattern.replace(character, f"!{character}")
    return pattern.replace("*", "%")


def _listed(pattern: str) -> str:
    """Converts a pattern to a LIKE pattern that finds one name in a list written `, one, two,`."""
    return "%" if pattern == "*" else f"%, {_like(pattern)},%"


def _unlike(pattern: str) -> str:
    listed = pattern.removeprefix("%, ").removesuffix(",%") if pattern != "%" else pattern
    parts = listed.replace("!!", "\0").replace("!%", "\1").replace("!_", "_").replace("%", "*")
    return parts.replace("\0", "!").replace("\1", "%")


def rules_here(
    connection: sa.Connection | None, path: Path | None = None, root: Path | None = None, team: str | None = None
) -> list[Rule]:
    """Reads the rules that a command uses: from `path`, else ci/owners.yaml in this folder, else the database.

    Raises InputError if no rule names `team`, because an empty page would read as good news.
    """
    rules = _rules_here(connection, path, root)
    teams = {rule.team for rule in rules}
    if team is not None and team not in teams:
        hint = closest(team, teams) if teams else f"{OWNERS_FILE}, --owners FILE or opscope db owners FILE"
        raise InputError("--owner", "a team that a rule names", f"`{team}`", hint)
    return rules


def _rules_here(connection: sa.Connection | None, path: Path | None, root: Path | None) -> list[Rule]:
    if path is not None:
        return read_owners(path)
    path_here = (root or Path.cwd()) / OWNERS_FILE
    if path_here.is_file():
        return read_owners(path_here)
    return [] if connection is None else stored_rules(connection)


def stored_rules(connection: sa.Connection) -> list[Rule]:
    """The rules in the database."""
    rows = connection.execute(_RULES).mappings()
    return [Rule(row["team"], *(_unlike(row[name]) for name in PATTERNS)) for row in rows]


_RULES = sa.select(OWNERS).order_by(OWNERS.c.position)
