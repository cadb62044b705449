"""The gate for a change: runs the ops that it invalidates, riskiest first, and compares with a complete night."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from opscope.base.labels import COMPLETE, PARTIAL, Label
from opscope.base.results_folder import NAME, make_folder
from opscope.base.visible_text import counted
from opscope.harness.record.errors import InputError
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import RUN_FILE, write_whole
from opscope.reports.compare.diff import Diff, compare
from opscope.reports.compare.first_sentence import each_once
from opscope.reports.compare.night_views import night_view
from opscope.reports.compare.outcomes import RunView, from_folder
from opscope.reports.compare.owned import own_diff
from opscope.reports.database.newest import ahead_line
from opscope.reports.database.owners import Rule
from opscope.reports.database.reading import NIGHTLY, read_database
from opscope.reports.database.schema_nights import LEDGER
from opscope.reports.nightly import markdown
from opscope.reports.nightly.baseline import first_baseline, kept_and_run, series_like, write_history
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.findings import SeriesResult
from opscope.reports.nightly.journal_counter import Counter
from opscope.reports.nightly.running import FINISHED, Watch, child, last_line, outcome_of, shares
from opscope.reports.nightly.sweeps import Sweep, first_command, labels, sweeps
from opscope.reports.nightly.verdict import Problem, Verdict, acknowledged, compiled_otherwise, import_lines, worse_than

GATES = Path(NAME) / "gates"


@dataclass(frozen=True)
class SweepComparison:
    """One sweep of a gate, compared with a series of the night."""

    sweep: Sweep
    run_dir: Path
    night: RunView | None
    """None: the night had no such sweep."""
    diff: Diff | None
    ended: bool
    """Whether the sweep finished, or used up its budget."""
    line: str
    """Counts of kept, run and unreached ops, or pytest's last line if none ran."""


@dataclass(frozen=True)
class Gate:
    """The result of a gate."""

    verdict: Verdict
    title: str
    summary: str
    """Markdown."""
    path: Path
    """File that holds the summary."""


@dataclass(frozen=True)
class _Place:
    """Where a sweep of a gate runs, and how long."""

    config: Config
    root: Path
    folder: Path
    seconds: float | None
    """None: there is no budget."""


def run(
    config: Config,
    url: str,
    baselines: Sequence[str],
    root: Path,
    rules: Sequence[Rule],
    watch: Watch,
    say: Callable[[str], None],
) -> Gate:
    """Runs what the change invalidates, compares, and writes the table.

    A verdict that still holds costs nothing; the others run by risk until the budget is spent. Raises InputError
    if none of `baselines` has a complete night, or the database cannot be read.
    """
    all_sweeps = sweeps(replace(config, shards=1))
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = root / GATES / stamp
    make_folder(folder)
    comparisons: list[SweepComparison] = []
    with read_database(url, "--database", NIGHTLY) as connection:
        night_id, ahead = first_baseline(connection, baselines), ahead_line(connection)
        views: dict[Sweep, RunView] = {}
        for sweep in all_sweeps:
            backend = labels([sweep.backend])[0]
            series = series_like(connection, night_id, backend, sweep.arch, sweep.data_format)
            if series is not None:
                views[sweep] = night_view(connection, night_id, series)
                write_history(connection, views[sweep], folder / f"{sweep.cell}.history.json")
    say(f"against {night_id}")
    for sweep, share in shares(all_sweeps, config.budget):
        comparisons.append(_run_sweep(sweep, views.get(sweep), _Place(config, root, folder, share), rules, watch))
        say(f"{sweep.label}: {comparisons[-1].line}")
    return _gate_of(comparisons, night_id, folder, root, ahead)


def _run_sweep(
    sweep: Sweep, night: RunView | None, place: _Place, rules: Sequence[Rule], watch: Watch
) -> SweepComparison:
    """Runs one sweep and compares it."""
    root, folder, budget = place.root, place.folder, place.seconds
    run_dir = runs_root(root) / f"{folder.name}-gate-{sweep.cell}"
    command = first_command(sweep, place.config, run_dir, budget)
    history = folder / f"{sweep.cell}.history.json"
    if budget is not None and history.is_file():
        command += ["--budget-history", str(history)]
    log = folder / f"{sweep.cell}.txt"
    counter = Counter(run_dir)
    child(command, root, log, lambda: watch(sweep, *counter.look()))
    ended = outcome_of(run_dir) in FINISHED
    if not (run_dir / RUN_FILE).is_file():
        return SweepComparison(sweep, run_dir, night, None, ended, last_line(log))
    spent = kept_and_run(run_dir)
    kept = f"{counted(spent['kept'], 'verdict')} still hold{'s' * (spent['kept'] == 1)}"
    line = f"{kept}, {counted(spent['ran'], 'op')} ran, {spent['not reached']} not reached"
    if not ended:
        line += f"; it did not finish: {last_line(log)}"
    view = from_folder(run_dir)
    if night is None:
        return SweepComparison(sweep, run_dir, None, None, ended, f"{line}; the night has no such sweep")
    if night.series != view.series:
        raise InputError("opscope gate", f"the options of the night ({night.series})", view.series, "the same file")
    return SweepComparison(sweep, run_dir, night, compared_with(night, view, rules), ended, line)


def compared_with(night: RunView, view: RunView, rules: Sequence[Rule]) -> Diff:
    """A sweep compared with the night, without the models and ops that it did not run."""
    diff = own_diff(compare(night, view), rules)
    rows = tuple(row for row in diff.rows if row.label != "NEVER-RUN")
    other_counts = {label: count for label, count in diff.counts.items() if label != "NEVER-RUN"}
    return replace(diff, rows=rows, counts=other_counts, changes=())


def _new_imports(comparison: SweepComparison) -> Mapping[str, str]:
    """Model -> how its import differs from its framework, where the night says no such thing of it."""
    if comparison.diff is None or comparison.night is None:
        return {}
    before = comparison.night.imports
    return {model: text for model, text in comparison.diff.b.imports.items() if model not in before}


def _gate_of(comparisons: Sequence[SweepComparison], night_id: str, folder: Path, root: Path, ahead: str = "") -> Gate:
    """The verdict and the table. `ahead`: names nights that are dated later than now."""
    results, notes, problems = [], [ahead] if ahead else [], []
    for comparison in comparisons:
        series = comparison.night.series if comparison.night is not None else comparison.sweep.label
        view = comparison.diff.b if comparison.diff is not None else None
        models: dict[str, int] = dict.fromkeys(LEDGER, 0)
        if view is not None:
            models |= {"asked": len(view.models), "ran": len(view.models)}
        previous = night_id if comparison.night is not None else ""
        complete = comparison.ended and view is not None
        results.append(
            SeriesResult(series, COMPLETE if complete else PARTIAL, "", previous, view, comparison.diff, models)
        )
        notes.append(f"{comparison.sweep.label}: {comparison.line}")
        if comparison.diff is None or not comparison.ended or not results[-1].attempted:
            problems.append(Problem("no_data", f"{comparison.sweep.label}: {comparison.line}", True))
    diffs = [(diff.b.series, diff) for comparison in comparisons if (diff := comparison.diff) is not None]
    news, _ = each_once((series, row.op_id) for series, diff in diffs for row in diff.rows if row.news)
    if news:
        problems.append(Problem("regression", worse_than(diffs, night_id), True))
    quiet = acknowledged(diffs)
    problems += [*quiet, *compiled_otherwise(diffs)]
    imports = {model: text for comparison in comparisons for model, text in _new_imports(comparison).items()}
    problems += [Problem("import", line, True) for line in import_lines(imports)]
    fixed, _ = each_once(
        (series, row.op_id) for series, diff in diffs for row in diff.rows if row.change == Label.FIXED
    )
    parts = [f"{news} worse" if news else "nothing worse", *([f"{fixed} fixed"] if fixed else [])]
    if quiet:
        parts.append(f"{len(quiet)} acknowledged {'cause' if len(quiet) == 1 else 'causes'}")
    if imports:
        parts.append(f"{len(imports)} imports differ" if len(imports) > 1 else "1 import differs")
    if any(problem.kind == "no_data" for problem in problems) and not news:
        parts[0] = "no data"
    title = f"gate against {night_id}: {', '.join(parts)}"
    verdict = Verdict(tuple(problems), bool(news or fixed or problems))
    summary = markdown.text(markdown.Page(title, results, verdict, None, notes, ranked=False))
    path = write_whole(folder / "summary.md", summary, "a writable folder")
    return Gate(verdict, title, summary, path)
