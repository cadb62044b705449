"""The sweeps of a night: one run for each backend, board, data format and shard, and the command line of each."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.harness.backends import registry
from opscope.harness.record.result_options import Decides, ResultOptions
from opscope.harness.record.run_folders import file_name, runs_root
from opscope.harness.settings.program_options import words_of
from opscope.reports.nightly.config import Config


@dataclass(frozen=True)
class Sweep:
    """One run of a night."""

    backend: str
    arch: str
    data_format: str
    """Empty: the default of the backend."""
    shard: int
    """From 1; 0 if the night has no shards."""
    shards: int
    names_board: bool = True
    """Whether its name has the board: a configuration that names no boards may be of a compiler that has none."""
    part: str = ""
    """Which of several runs of the same it is; no part of its cell."""

    @property
    def cell(self) -> str:
        """The name that all of its shards share."""
        return file_name("-".join(filter(None, (*labels([self.backend]), self.board, self.data_format))))

    @property
    def board(self) -> str:
        """Its board; empty where the configuration names none, or the backend has none."""
        ignored = all(registry.declares(backend, "ignores_board") for backend in self.backend.split(","))
        return "" if ignored or not self.names_board else self.arch

    @property
    def label(self) -> str:
        """Its name on screen and in the summary."""
        part = f" shard {self.shard}/{self.shards}" if self.shard else ""
        words = (",".join(labels([self.backend])), self.board, self.data_format, self.part)
        return " ".join(filter(None, words)) + part

    def run_dir(self, root: Path, night_id: str) -> Path:
        """Its run folder, beside all other runs, so that the next run with a budget finds it."""
        return runs_root(root) / f"{night_id}-{self.cell}{f'-{self.shard}of{self.shards}' if self.shard else ''}"


def sweeps(config: Config, shard: int | None = None) -> list[Sweep]:
    """The sweeps of a night in the order in which they run; with `shard` only those of that shard."""
    numbers = [0] if config.shards == 1 else list(range(1, config.shards + 1))
    if shard is not None and config.shards > 1:
        numbers = [shard]
    cells = itertools.product(config.backends, config.archs, config.data_formats or ("",))
    named = "architectures" in config.content
    return [Sweep(*cell, number, config.shards, named) for cell in cells for number in numbers]


def first_command(sweep: Sweep, config: Config, run_dir: Path, budget: float | None) -> list[str]:
    """The command line that starts a sweep."""
    command = [*_pytest(config), *(word for model in config.models for word in ("--model", model))]
    command += ["--backend", sweep.backend, "--arch", sweep.arch, "--run-dir", str(run_dir)]
    if sweep.data_format:
        command += ["--data-format", sweep.data_format]
    if sweep.shard:
        command += ["--shard", f"{sweep.shard}/{sweep.shards}"]
    return command + words_of(config.options) + _budget(budget)


def next_command(config: Config, run_dir: Path, budget: float | None) -> list[str]:
    """The command line that continues an interrupted sweep."""
    return [*_pytest(config), "--resume", str(run_dir), *_budget(budget)]


def _pytest(config: Config) -> list[str]:
    # Plugins that measure or remember tests have nothing to do in a sweep, and nobody is there to mend a conftest file;
    # a night reports and publishes as a whole.
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:benchmark", "-p", "no:cacheprovider", "--noconftest"]
    command += ["-q", "--op-by-op", "--no-report", "--check-kept"]
    return command + (["-n", str(config.workers)] if config.workers > 1 else [])


def _budget(seconds: float | None) -> list[str]:
    return [] if seconds is None else ["--budget", f"{max(seconds, 1.0):.0f}s"]


def expected_models(config: Config) -> tuple[str, ...]:
    """Names of the models of every sweep of the night. Raises InputError for a pattern that matches none."""
    from opscope.harness.prepare.preparation import Preparation, tasks

    request = Preparation(
        models=config.models,
        **ResultOptions.of(config.options).values(Decides.PROGRAM),
    )
    return tuple(task.name for task in tasks(request))


def labels(backends: Sequence[str]) -> tuple[str, ...]:
    """The names of the backends in records; a sweep may have several (`reference,xla`)."""
    from opscope.harness.record.optest import backend_label

    return tuple(dict.fromkeys(backend_label(name) for backend in backends for name in backend.split(",")))
