"""Runs the sweeps of a night one after another, each in its own pytest, and continues interrupted ones."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from opscope.base.children.parent_death import bound
from opscope.base.children.process import Process
from opscope.base.results_folder import make_folder
from opscope.base.visible_text import cut
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import RUN_FILE, read_run
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.journal_counter import Counter
from opscope.reports.nightly.night_folder import LOGS, folder_of
from opscope.reports.nightly.sweeps import Sweep, first_command, next_command
from opscope.reports.records.night_record import NIGHT_FILE, NightRecord, join

FINISHED = ("complete", "out_of_budget")
"""Outcomes of a run that is not continued."""
REFUSED = "refused"
"""Used instead of an outcome if pytest ran no op."""

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended."""
TICK = 0.2
"""Seconds between two updates of a sweep's progress."""
GRACE = 60.0
"""Seconds that pytest gets to finish its records when the night is interrupted."""
STILL_RUNNING = "which is running"
"""Part of `--resume`'s message about a run whose processes have not quite ended."""
PATIENCE = 30.0
"""Seconds to wait for them."""


@dataclass(frozen=True)
class SweepResult:
    """How one sweep ended."""

    sweep: Sweep
    run_dir: Path
    outcome: str
    seconds: float
    line: str = ""
    """The last line of pytest's output if no op ran."""

    @property
    def has_run(self) -> bool:
        """Whether there is a run folder to publish."""
        return (self.run_dir / RUN_FILE).is_file()


Watch = Callable[[Sweep, int, int], None]
"""Called with a sweep, the number of ops that have a record, and the number of all its ops."""


def run(
    all_sweeps: Sequence[Sweep],
    config: Config,
    night: NightRecord,
    root: Path,
    watch: Watch,
    ended: Callable[[SweepResult], None],
) -> list[SweepResult]:
    """Runs the sweeps of a night that have not ended yet, and returns how each ended.

    The rest of the budget is divided again before each sweep, so that later sweeps get what earlier ones leave.
    """
    results: list[SweepResult] = []
    for sweep, share in shares(all_sweeps, config.budget):
        result = _run(sweep, config, night, root, share, watch)
        results.append(result)
        ended(result)
    return results


def shares(all_sweeps: Sequence[Sweep], budget: float | None) -> Iterator[tuple[Sweep, float | None]]:
    """Each sweep with its seconds of a budget: what those before it leave is divided among the rest."""
    started = time.monotonic()
    for position, sweep in enumerate(all_sweeps):
        left = None if budget is None else budget - (time.monotonic() - started)
        yield sweep, None if left is None else left / (len(all_sweeps) - position)


def _run(
    sweep: Sweep, config: Config, night: NightRecord, root: Path, budget: float | None, watch: Watch
) -> SweepResult:
    run_dir = sweep.run_dir(root, night.night_id)
    if outcome_of(run_dir) in FINISHED:
        join(run_dir, night, sweep.shard)
        return SweepResult(sweep, run_dir, outcome_of(run_dir), 0.0)
    log = folder_of(root, night) / LOGS / f"{run_dir.name}.txt"
    make_folder(log.parent)
    started = time.monotonic()
    while True:
        if (run_dir / RUN_FILE).is_file():
            command = next_command(config, run_dir, budget)
        else:
            shutil.rmtree(run_dir, ignore_errors=True)  # what a start left that was killed while it prepared
            command = first_command(sweep, config, run_dir, budget)
        child(command, root, log, partial(_look, sweep, Counter(run_dir), night, watch))
        line = last_line(log)
        if STILL_RUNNING not in line or time.monotonic() - started > PATIENCE:
            break
        time.sleep(1.0)
    outcome = outcome_of(run_dir)
    if outcome:
        join(run_dir, night, sweep.shard)
    stored_outcome = outcome if outcome and (outcome != "running") else REFUSED
    return SweepResult(
        sweep, run_dir, stored_outcome, time.monotonic() - started, "" if stored_outcome in FINISHED else line
    )


def _look(sweep: Sweep, counter: Counter, night: NightRecord, watch: Watch) -> None:
    """Reports the progress of a sweep, and adds its run to the night as soon as the run folder exists."""
    run_dir = counter.run_dir
    if (run_dir / RUN_FILE).is_file() and not (run_dir / NIGHT_FILE).is_file():
        join(run_dir, night, sweep.shard)
    watch(sweep, *counter.look())


def outcome_of(run_dir: Path) -> str:
    """The outcome of the run in a folder; empty if there is none."""
    try:
        return read_run(run_dir).outcome
    except InputError:
        return ""


def child(
    command: list[str],
    root: Path,
    log: Path,
    tick: Callable[[], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Runs a command with its output in the log; interrupts it and its children if the night is interrupted."""
    with log.open("ab") as output:
        process = Process(bound(command), output.fileno(), environment=environment, folder=root)
    try:
        while (code := process.wait(TICK)) is None:
            tick()
        return code
    except BaseException:
        process.interrupt(GRACE)  # pytest closes its books
        raise


def last_line(log: Path) -> str:
    """The last line of a log that is not empty; an error message is preferred."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    shown = [
        " ".join(line.strip(" =!").split()).removeprefix("_pytest.outcomes.").removeprefix("Exit: ")
        for line in lines
        if line.strip(" =!")
    ]
    return cut(next((line for line in reversed(shown) if ": expected " in line), shown[-1] if shown else ""), 300)


@contextmanager
def ended_by_signal(said: str) -> Iterator[None]:
    """Treats SIGTERM, with which systemd and CI end a job, like Ctrl-C: says so, and exits with 130."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        click.echo(said, err=True)
        raise SystemExit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
