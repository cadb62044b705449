"""Nights whose runs were made to measure, delivered as `opscope nightly` delivers those that it ran."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import write_whole
from opscope.reports.database.owners import Rule
from opscope.reports.nightly.config import KEYS, Config
from opscope.reports.nightly.night import NightResult, deliver
from opscope.reports.nightly.night_folder import RECORD, folder_of
from opscope.reports.records.night_record import NightRecord
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op


def config_of(root: Path, **content: Any) -> Config:
    """The configuration of such nights; its database is one that is there already."""
    path = root / "results.sqlite"
    if not path.exists():
        fresh(path)
    values: dict[str, Any] = {}
    for key, value in ({"models": ["a", "b"], "database": f"sqlite:///{path}"} | content).items():
        values |= KEYS[key](f"night: {key}", value)
    return Config(path=root / "nightly.yaml", content=content, **values)


def night_of(config: Config, number: int, root: Path, **more: Any) -> NightRecord:
    """The night of that number; its folder is there."""
    night = record(number, models=config.models, shards=config.shards if config.shards > 1 else 0, **more)
    write_whole(folder_of(root, night) / RECORD, night.model_dump_json(), "a folder")
    return night


def delivered(
    config: Config, root: Path, number: int, ops: Mapping[str, Op], rules: tuple[Rule, ...] = (), **more: Any
) -> NightResult:
    """A night of one run, delivered."""
    night = night_of(config, number, root)
    run = shard_run(runs_root(root), night, number, ops, **({"models": config.models} | more))
    return deliver(config, night, [run], str(config.database), root, rules, environment={}, reports=False)
