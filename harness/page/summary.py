"""The page that ends a run, and that `opscope show` prints again from the run folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.statuses import NOT_RUN, TERMINAL
from opscope.base.visible_text import one_line, visible
from opscope.harness.record import ledger
from opscope.harness.record.agreement import Disagreement, disagreements
from opscope.harness.record.isolation import Artefact
from opscope.harness.record.isolation import lines as isolation_lines
from opscope.harness.record.optest import title
from opscope.harness.record.records import (
    ImportCheck,
    Ledger,
    ManifestHeader,
    ModelFailure,
    OpRow,
    OpTest,
    RunRecord,
)
from opscope.harness.record.selection import count_deselected
from opscope.harness.record.spared_work import savings
from opscope.harness.record.stages import FAILED, ImportStatus, Status, in_order
from opscope.harness.record.store import artifact_dir
from opscope.harness.triage import after_run

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SLOWEST = 5
FAILING = 30
"""How many failures are listed; the report has the rest."""

EXPLAINED = 3
"""How many wrong results are explained at the end of a run; `opscope show ID` explains any of them."""

STAGE_WIDTH = 13
"""Columns of a terminal for one stage of the ladder table: five-digit counts below a broken word."""

NO_CLIMB = frozenset({Status.SKIPPED, Status.NOT_RUN})
"""Statuses of ops that never started to climb."""


@dataclass(frozen=True)
class Run:
    """A run as read from its folder."""

    record: RunRecord
    header: ManifestHeader
    rows: Sequence[OpRow]
    tests: Sequence[OpTest]
    ledgers: Mapping[str, Ledger]
    """Backend -> its ledger."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the run was written: `report`, `run`, `database`."""
    again: frozenset[str] = frozenset()
    """Ids of the ops that were run again, whose results are shown first."""
    notes: Sequence[str] = ()
    """Lines about expected failures that need attention."""
    whole: Sequence[OpTest] = ()
    """Records of models that ran as one program, for each backend."""
    isolation: Sequence[Artefact] = ()
    """Ops whose verdict changes when they run alone."""
    folder: Path | None = None
    """The user's folder: paths inside it are shown relative to it."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of the first backend, which is the only one of most runs."""
        return next(iter(self.ledgers.values()))

    @property
    def ledger_line(self) -> str:
        """All ledgers in one line."""
        return ledger.line(self.ledgers)

    @property
    def adds_up(self) -> bool:
        """Whether every ledger adds up."""
        return all(books.adds_up for books in self.ledgers.values())


def seconds(test: OpTest) -> float:
    """Time of all stages of one op."""
    return sum(stage.seconds for stage in test.stages)


def ladder(tests: Sequence[OpTest]) -> dict[str, dict[str, tuple[int, int]]]:
    """Per op family and furthest stage passed (or `not run`): unique ops and uses."""
    cells: dict[str, Counter[str]] = {}
    uses: dict[str, Counter[str]] = {}
    for test in tests:
        column = NOT_RUN if test.status in NO_CLIMB else test.stage_reached.value
        kind = test.op_kind or "other"
        cells.setdefault(kind, Counter())[column] += 1
        uses.setdefault(kind, Counter())[column] += test.uses
    return {kind: {c: (n, uses[kind][c]) for c, n in cells[kind].items()} for kind in sorted(cells)}


def as_json(run: Run) -> dict[str, Any]:
    """The run as `--json` prints it."""
    return {
        "run": run.record.model_dump(mode="json"),
        "ledger": _books(run.ledger),
        "ledgers": {backend: _books(books) for backend, books in run.ledgers.items()},
        "disagreements": [
            {
                "op_id": split.first.op_id,
                "op_name": split.first.op_name,
                "alone": split.alone,
                "status": {name: test.status.value for name, test in split.tests.items()},
            }
            for split in disagreements(run.tests)
        ],
        "models": {
            **run.header.by_outcome(),
            "asked": sum(run.header.by_outcome().values()),
            "failed": [failure.model_dump(mode="json") for failure in run.header.failed],
            "imports": [check.model_dump(mode="json") for check in run.header.imports],
        },
        "isolation": [asdict(artefact) for artefact in run.isolation],
        "whole_models": [test.model_dump(mode="json") for test in run.whole],
        "savings": asdict(savings(run.rows, run.tests)),
        "op_tests": [test.model_dump(mode="json") for test in run.tests],
    }


def _books(books: Ledger) -> dict[str, Any]:
    return {**books.model_dump(mode="json"), "adds_up": books.adds_up}


def show(run: Run, console: Console) -> None:
    """Prints the whole page."""
    from rich.table import Table
    from rich.text import Text

    def line(text: str, style: str = "", indent: int = 0) -> None:
        """One line that the terminal wraps, so that a command in it can be copied whole."""
        console.print(Text(" " * indent + visible(text), style=style), soft_wrap=True)

    def hanging(rows: Iterable[tuple[str, str]]) -> None:
        """Prints texts that wrap at words, each after a figure."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        for figure, text in rows:
            grid.add_row(Text(f"  {one_line(figure)}"), Text(one_line(text)))
        console.print(grid)

    record = run.record
    for backend in run.ledgers:
        heading = f"{', '.join(record.models)} on {backend} ({record.arch})"
        line(f"Furthest stage that each op passed: {heading}, unique ops (uses)", "bold")
        # May be wider than a narrow terminal: it is better that the terminal wraps numbers than to leave them out.
        table = _ladder_table([t for t in run.tests if t.backend == backend or len(run.ledgers) == 1])
        width, console.width = console.width, max(console.width, STAGE_WIDTH * len(table.columns))
        console.print(table)
        console.width = width
    splits = disagreements(run.tests)
    if len(run.ledgers) > 1:
        line(f"Ops on which the backends disagree ({len(splits)})", "bold magenta" if splits else "bold green")
        for split in splits[:FAILING]:
            line(title(split.first), indent=2)
            hanging(_votes(split))
        if len(splits) > FAILING:
            line(f"and {len(splits) - FAILING} more; see opscope show --json", indent=2)
    several = len(run.ledgers) > 1
    again = [t for t in run.tests if t.op_id in run.again]
    if again:
        line(f"\nRun again ({len(again)})", "bold")
        for test in again:
            line(title(test), indent=2)
            hanging([("", f"{result_text(test)}; attempt {test.attempt}")])
            kept = artifact_dir(Path(run.places.get("run", "")), test.op_id)
            if kept.is_dir():
                line(f"IR and diagnostics in {with_short_paths(str(kept), run.folder)}", "dim", indent=4)
    if run.whole:
        line(f"\nModels run as one program ({len(run.whole)})", "bold")
        hanging((_time(seconds(t)), f"{t.model_name} on {t.backend}: {whole_text(t)}") for t in run.whole)
    if run.isolation:
        line(f"\nOps whose verdict changes when they run alone ({len(run.isolation)})", "bold magenta")
        hanging(isolation_lines(run.isolation[:FAILING]))
    failing = sorted((t for t in run.tests if t.fails_run), key=lambda t: -t.uses)
    expected = [t for t in run.tests if t.status in FAILED and t.expected]
    repros = after_run.folders(Path(run.places["run"]), failing[:FAILING]) if "run" in run.places else {}
    if failing:
        line(f"\nFailing ops ({len(failing)})", TERMINAL["bad"])
        for test in failing[:FAILING]:
            line(f"{title(test)} on {test.backend}" if several else title(test), indent=2)
            hanging([("", failure_text(test))])
            if test.hypothesis:
                line(test.hypothesis, "cyan", indent=4)
            line(with_short_paths(test.repro, run.folder), "dim", indent=4)
            if (test.op_id, test.backend) in repros:
                line(with_short_paths(f"{repros[test.op_id, test.backend]}/run.sh", run.folder), "dim", indent=4)
        if len(failing) > FAILING:
            line(f"and {len(failing) - FAILING} more; see the report", indent=2)
        if "run" in run.places:
            _explanations(Path(run.places["run"]), [test for test in failing if test.question or test.results], console)
    if expected:
        line(f"\nExpected failures ({len(expected)})", TERMINAL["known"])
        rows = []
        for reason, count in Counter(t.expected for t in expected).most_common():
            names = sorted({t.op_name for t in expected if t.expected == reason})
            rows.append((f"{count} x", f"{', '.join(names)}: {reason}"))
        hanging(rows)
    if run.header.failed:
        line(f"\nModels that ran no op ({len(run.header.failed)})", TERMINAL["bad"])
        hanging((f.model, f"{f.status.value}: {f.error}{_place(f)}") for f in run.header.failed)
    for heading, style, checks in import_sections(run.header.imports):
        line(f"\n{heading} ({len(checks)})", style)
        hanging((check.model, check.expected or check.text) for check in checks)
    lost = [row for row in run.rows if row.unsplittable]
    wrote = sorted((t for t in run.tests if t.overwritten_inputs), key=lambda t: -t.uses)
    if wrote:
        line(f"\nOps whose inputs the backend overwrote ({len(wrote)})", TERMINAL["known"])
        hanging(_overwritten(wrote))
    left = [test for test in run.tests if test.left_behind]
    if left:
        line(
            f"\nOps that left their process changed, so that the next got a fresh one ({len(left)})", TERMINAL["known"]
        )
        hanging(_left_behind(left))
    if lost:
        line(f"\nOps that could not be split from the model ({len(lost)})", TERMINAL["known"])
        hanging([(f"{len(row.uses)} x", f"{row.op_name} [{row.op_id}]: {row.unsplittable}") for row in lost])
    slowest = sorted((t for t in run.tests if t.stages), key=seconds, reverse=True)[:SLOWEST]
    if slowest and not again:
        line("\nSlowest ops", "bold")
        longest = [max(test.stages, key=lambda s: s.seconds) for test in slowest]
        hanging(
            (_time(seconds(test)), f"{title(test)}, mostly {stage.stage} ({_time(stage.seconds)})")
            for test, stage in zip(slowest, longest, strict=True)
        )
    line("")
    if record.outcome == "interrupted":
        line("the run was interrupted: ops that did not run count as not_run", TERMINAL["known"])
    if record.outcome == "out_of_budget":
        line("the budget is spent: ops that did not run count as not_run", TERMINAL["known"])
    if record.outcome == "partial":
        line("shares are missing or unfinished: their ops count as not_run", TERMINAL["known"])
    if (deselected := count_deselected(run.tests)) and not again:
        kept = "diff, unblock, readiness and dashboards keep to the last run of all ops, if there is one"
        line(f"{deselected} of {len(run.tests)} ops were deselected: {kept}", TERMINAL["known"])
    for saving in savings(run.rows, run.tests).lines:
        line(saving, "cyan")
    for part in run.ledger_line.split("; "):
        line(part, TERMINAL["good"] if run.adds_up else TERMINAL["bad"])
    for note in run.notes:
        line(with_short_paths(note, run.folder), TERMINAL["known"])
    if run.ledger.stability:
        labels = ", ".join(f"{count} {label}" for label, count in run.ledger.stability.items())
        line(f"failures after reruns: {labels}", TERMINAL["known"])
    outcomes = run.header.by_outcome()
    asked = sum(outcomes.values())
    if asked > 1 or run.header.failed:
        parts = " + ".join(f"{n} {word}" for word, n in outcomes.items())
        line(f"{asked} models asked for = {parts}", TERMINAL["good"])
    if said := imports_line(run.header.imports):
        line(said, TERMINAL["bad" if any(check.fails_run for check in run.header.imports) else "good"])
    for name, place in run.places.items():
        line(f"{name:<9} {with_short_paths(place, run.folder)}")


def _explanations(run_dir: Path, tests: Sequence[OpTest], console: Console) -> None:
    """Prints why numbers are wrong, of the first few ops."""
    from rich.text import Text

    from opscope.harness.record import explanation, explanation_text

    for test in tests[:EXPLAINED]:
        if (known := explanation.shown(run_dir, test)) is not None:
            console.print(Text(f"\nWhy {title(test)} is wrong", "bold"), soft_wrap=True)
            for pieces in explanation_text.lines(known):
                console.print(Text.assemble("  ", *((visible(text), style) for text, style in pieces)), soft_wrap=True)
    if len(tests) > EXPLAINED:
        console.print(Text(f"\nopscope show ID explains the other {len(tests) - EXPLAINED} wrong results", "dim"))


def import_sections(imports: Sequence[ImportCheck]) -> Iterator[tuple[str, str, list[ImportCheck]]]:
    """Headings, styles and checks of the imports that need attention."""
    differs, unchecked = ImportStatus.DIFFERS, ImportStatus.NOT_CHECKED
    for heading, style, wanted in (
        ("Imports that differ from the model's own framework", "bad", lambda check: check.fails_run),
        ("Imports that are expected to differ", "known", lambda c: c.status is differs and not c.fails_run),
        ("Imports that were not checked", "known", lambda check: check.status is unchecked),
    ):
        if checks := [check for check in imports if wanted(check)]:
            yield heading, TERMINAL[style], checks


def imports_line(imports: Sequence[ImportCheck]) -> str:
    """All imports in one line; empty if there are none."""
    words = {ImportStatus.AGREES: "agree with their framework", ImportStatus.DIFFERS: "differ",
             ImportStatus.NOT_CHECKED: "not checked"}  # fmt: skip
    counts = Counter(check.status for check in imports)
    parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    return f"{len(imports)} imports = {' + '.join(parts)}" if parts else ""


def _place(failure: ModelFailure) -> str:
    """The path of a model's traceback."""
    return f" ({failure.artifact})" if failure.artifact else ""


def failure_text(test: OpTest) -> str:
    """How, where and why an op failed, and its place in the model; of limited length."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    reason = " ".join((test.error_message or test.crash_kind or "").split())[:200]
    expectation = test.expected if test.status not in FAILED else ""
    flaky = f"{test.stability}: " if test.flaky else ""
    text = expectation or f"{flaky}{test.status.value}{stage}: {reason}".removesuffix(": ")
    uses = f" and {test.uses - 1} more" if test.uses > 1 else ""
    return f"{text}; from {test.locations[0]}{uses}" if test.locations else text


def result_text(test: OpTest) -> str:
    """How an op ended, with its figures."""
    if test.status is not Status.SUCCESS or test.expected:
        return failure_text(test)
    figures = [f"PCC {test.pcc:.7f}"] if test.pcc is not None else []
    figures += [f"z {test.z_max:.3g}"] if test.z_max is not None else []
    figures += [f"{check.tolerance}" for check in test.results[:1]]
    figures += [f"{test.cycles:,} cycles"] if test.cycles else []
    return f"success ({', '.join(figures)})" if figures else "success"


def whole_text(test: OpTest) -> str:
    """How a model that ran as one program ended, and where its error jumps."""
    text = result_text(test)
    if test.intermediates is not None:
        text += f"; {test.intermediates} values inside the model compared"
    jump = test.jump
    if jump is None:
        return text + (", and in none does the error jump" if test.intermediates else "")
    sure = "" if jump.confirmed else " (not certain: some of its inputs are unknown)"
    before, after = (_figures(*pair) for pair in ((jump.pcc_before, jump.error_before), (jump.pcc, jump.error)))
    place = f", {jump.location}" if jump.location else ""
    where = f"{jump.op_name} [{jump.op_id}] {jump.path}{place}"
    return f"{text}; the error first jumps at {where}: {before} before, {after} after{sure}"


def _figures(pcc: float | None, error: float | None) -> str:
    text = "NaN or infinities" if error is None else f"relative L2 {error:.2g}"
    return text + (f" (PCC {pcc:.6f})" if pcc is not None else "")


def with_short_paths(text: str, folder: Path | None) -> str:
    """`text` with paths inside `folder`, and their SQLite URLs, made relative to it."""
    if folder is None or folder == folder.parent:
        return text
    return re.sub(rf"(?:(?<![\w/.-])|(?<=sqlite:///)){re.escape(str(folder))}/(?=[\w.])", "", text)


def _votes(split: Disagreement) -> Iterator[tuple[str, str]]:
    """The outcome of an op on each backend. A backend that differs from all others comes first."""
    for name, test in sorted(split.tests.items(), key=lambda vote: vote[0] != split.alone):
        text = failure_text(test) if test.status in FAILED else test.status.value
        yield name, f"only on this backend: {text}" if name == split.alone else text


def _overwritten(tests: Sequence[OpTest]) -> Iterator[tuple[str, str]]:
    """Kinds of ops that overwrite their inputs, each with the number of such ops and the input."""
    kinds: dict[tuple[str, str, tuple[int, ...]], int] = Counter(
        (test.backend, test.op_name, test.overwritten_inputs) for test in tests
    )
    for (backend, name, positions), count in kinds.items():
        inputs = f"input{'s' if len(positions) > 1 else ''} {', '.join(map(str, positions))}"
        yield f"{count} x", f"{name} on {backend}: {inputs}"


def _left_behind(tests: Sequence[OpTest]) -> Iterator[tuple[str, str]]:
    """What ops left changed, most frequent first, each with the number of such ops and one of them."""
    kinds: dict[tuple[str, str], list[OpTest]] = {}
    for test in tests:
        for text in test.left_behind:
            kinds.setdefault((test.backend, text), []).append(test)
    for (backend, text), by in sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:SLOWEST]:
        yield f"{len(by)} x", f"{text}; by {by[0].op_name} [{by[0].op_id}] on {backend}"


def _ladder_table(tests: Sequence[OpTest]) -> Table:
    """Kinds of ops against the furthest stage each op passed."""
    from rich import box
    from rich.table import Table

    cells = ladder(tests)
    reached = {column for row in cells.values() for column in row}
    climbs = [[time.stage for time in test.stages] for test in tests]
    columns = [*in_order(reached - {NOT_RUN}, climbs), *([NOT_RUN] if NOT_RUN in reached else [])]
    table = Table(box=box.SIMPLE_HEAD, show_footer=len(cells) > 1, pad_edge=False)  # fmt: skip

    def total(column: str) -> str:
        return _cell(*(sum(row.get(column, (0, 0))[i] for row in cells.values()) for i in (0, 1)))

    table.add_column("op family", footer="all")
    for column in columns:
        # Broken here, because rich would break within words.
        table.add_column(column.replace("-to-", "\nto "), justify="right", footer=total(column), no_wrap=True)
    everything = (len(tests), sum(t.uses for t in tests))
    table.add_column("ops", justify="right", footer=_cell(*everything))
    for kind, row in cells.items():
        whole = (sum(n for n, _ in row.values()), sum(u for _, u in row.values()))
        table.add_row(one_line(kind), *(_cell(*row.get(c, (0, 0))) for c in columns), _cell(*whole))
    return table


def _time(duration: float) -> str:
    """A duration in seconds or milliseconds, whichever is easier to read."""
    return f"{duration:.2f} s" if duration >= 1 else f"{duration * 1000:.1f} ms"


def _cell(unique: int, uses: int) -> str:
    """One cell of the ladder."""
    return f"{unique} ({uses})" if unique else ""
