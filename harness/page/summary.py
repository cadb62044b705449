"""The page that ends a run, and that `opscope show` prints again from the run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.op_families import COMPUTING
from opscope.base.statuses import PASSED, TERMINAL
from opscope.base.terminal import print_prose, wrapped
from opscope.base.visible_text import cut, one_line, visible
from opscope.harness.page import failing_ops, ladder_table
from opscope.harness.page.failing_ops import FAILING, place_text, verdict_text, with_short_paths
from opscope.harness.record import ledger, one_failure
from opscope.harness.record.agreement import Disagreement, disagreements
from opscope.harness.record.isolation import Artefact
from opscope.harness.record.isolation import lines as isolation_lines
from opscope.harness.record.ledger import MANY
from opscope.harness.record.optest import board_of, title
from opscope.harness.record.origin import ANSWERS
from opscope.harness.record.records import ImportCheck, Ledger, ManifestHeader, ModelFailure, OpRow, OpTest, RunRecord
from opscope.harness.record.selection import count_deselected, kills
from opscope.harness.record.spared_work import savings
from opscope.harness.record.stages import FAILED, VARYING, ImportStatus, Status
from opscope.harness.record.store import artifact_dir
from opscope.harness.triage import after_run

if TYPE_CHECKING:
    from rich.console import Console

    from opscope.wire.show import StoredRun

SLOWEST = 5
EXPLAINED = 3
"""How many wrong results are explained at the end of a run; `opscope show ID` explains any of them."""


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
    notes: Sequence[str] = ()
    """Lines about expected failures that need attention."""
    whole: Sequence[OpTest] = ()
    """Records of models that ran as one program, for each backend."""
    isolation: Sequence[Artefact] = ()
    """Ops whose verdict changes when they run alone."""
    listed_above: frozenset[str] = frozenset()
    """Ids of failing ops that pytest has listed in full, above this page."""
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


def answer(run: Run) -> StoredRun:
    """The run as `--json` prints it."""
    from opscope.wire.show import Books, Disagreement, Models, StoredRun

    outcomes = run.header.by_outcome()
    return StoredRun(
        run=run.record,
        ledger=Books(**dict(run.ledger)),
        ledgers={backend: Books(**dict(books)) for backend, books in run.ledgers.items()},
        disagreements=tuple(
            Disagreement(
                op_id=split.first.op_id,
                op_name=split.first.op_name,
                alone=split.alone,
                status={name: test.status for name, test in split.tests.items()},
            )
            for split in disagreements(run.tests)
        ),
        models=Models(**outcomes, asked=sum(outcomes.values()), failed=run.header.failed, imports=run.header.imports),
        isolation=tuple(run.isolation),
        whole_models=tuple(run.whole),
        savings=savings(run.rows, run.tests),
        op_tests=tuple(run.tests),
    )


def show(run: Run, console: Console) -> None:
    """Prints the whole page."""
    from rich.cells import cell_len
    from rich.text import Text

    def line(text: str, style: str = "", indent: int = 0) -> None:
        """One line that the terminal wraps, so that a command in it can be copied whole."""
        console.print(Text(" " * indent + visible(text), style=style), soft_wrap=True)

    def prose(text: str, style: str) -> None:
        """A sentence that wraps at words."""
        print_prose(console, one_line(text), style)

    def hanging(rows: Iterable[tuple[str, str]]) -> None:
        """Prints texts that wrap at words, each after a figure."""
        texts = [(one_line(figure), one_line(text)) for figure, text in rows]
        width = max((cell_len(figure) for figure, _ in texts), default=0)
        for figure, text in texts:
            first, *others = wrapped(text, max(1, console.width - width - 4))
            console.print(Text(f"  {' ' * (width - cell_len(figure))}{figure}  {first}"), soft_wrap=True)
            for other in others:
                console.print(Text(f"{' ' * (width + 4)}{other}"), soft_wrap=True)

    def section(heading: str, style: str, count: int, rows: Iterable[tuple[str, str]]) -> None:
        """A list below its heading; of a run of many models one line with the first of it, since the report has all."""
        if many:
            (figure, text), *_ = rows
            line(cut(one_line(f"{heading} ({count}), such as {figure.strip()} {text}"), console.width), style)
        else:
            line(f"\n{heading} ({count})", style)
            hanging(rows)

    record = run.record
    many = len(record.models) > MANY
    for backend in run.ledgers:
        failure = one_failure.failure_of_all(t for t in run.tests if t.backend == backend)
        if failure is not None:
            prose(one_failure.sentence(backend, failure), TERMINAL["bad"])
    for backend in run.ledgers:
        tests = [t for t in run.tests if t.backend == backend or len(run.ledgers) == 1]
        board = f" ({record.arch})" if board_of({test.card_type for test in tests}, record.arch) else ""
        models = (
            f"{', '.join(record.models[:2])} and {len(record.models) - 2} more" if many else ", ".join(record.models)
        )
        heading = f"{models} on {backend}{board}"
        print_prose(console, one_line(f"Furthest stage that each op passed: {heading}, unique ops (uses)"), "bold")
        ladder_table.show(tests, console)
    splits = disagreements(run.tests)
    if len(run.ledgers) > 1:
        line(f"Ops on which the backends disagree ({len(splits)})", "bold magenta" if splits else "bold green")
        for split in splits[:FAILING]:
            line(title(split.first), indent=2)
            hanging(_votes(split))
        if len(splits) > FAILING:
            line(f"and {len(splits) - FAILING} more; see opscope show --json", indent=2)
    several = len(run.ledgers) > 1
    answers = record.origin.options.get(ANSWERS) or {"run": "", "ops": ()}
    again = [t for t in run.tests if t.op_id in answers["ops"]]
    if answers["run"]:
        prose(f"ops of run {answers['run']}, run again: what that run says stays as it is", "dim")
    if again:
        line(f"\nRun again ({len(again)})", "bold")
        for test in again:
            line(title(test), indent=2)
            hanging([("", result_text(test))])
            kept = artifact_dir(Path(run.places.get("run", "")), test.op_id)
            if kept.is_dir():
                line(f"IR and diagnostics in {with_short_paths(str(kept), run.folder)}", "dim", indent=4)
    if run.whole:
        rows = [(_time(seconds(t)), f"{t.model_name} on {t.backend}: {whole_text(t)}") for t in run.whole]
        section("Models run as one program", "bold", len(rows), rows)
    if run.isolation:
        rows = isolation_lines(run.isolation[:FAILING])
        section("Ops whose verdict changes when they run alone", "bold magenta", len(run.isolation), rows)
    failing = sorted((t for t in run.tests if t.fails_run), key=lambda t: -t.uses)
    expected = [t for t in run.tests if t.status in FAILED and t.expected]
    repros = after_run.folders(Path(run.places["run"]), failing[:FAILING]) if "run" in run.places else {}
    if failing:
        failing_ops.show(
            failing, console, run.folder, several=several, folders=repros, listed_above=run.listed_above, brief=many
        )
        if "run" in run.places and not many:
            _explanations(Path(run.places["run"]), [test for test in failing if test.question or test.results], console)
    if expected:
        rows = []
        for reason, count in Counter(t.expected for t in expected).most_common():
            names = sorted({t.op_name for t in expected if t.expected == reason})
            rows.append((f"{count} x", f"{', '.join(names)}: {reason}"))
        section("Expected failures", TERMINAL["known"], len(expected), rows)
    if doubts := [t for t in run.tests if t.status is Status.GOLDEN_IN_DOUBT]:
        rows = [(f"{t.backend}" if several else f"{t.uses} x", f"{title(t)}: {t.error_message}") for t in doubts]
        section("Goldens in doubt: neither right nor wrong", TERMINAL["known"], len(doubts), rows)
    if run.header.failed:
        rows = [(f.model, f"{f.status.value}: {f.error}{_place(f)}") for f in run.header.failed]
        section("Models that were not prepared", TERMINAL["bad"], len(rows), rows)
    for heading, style, checks in import_sections(run.header.imports):
        section(heading, style, len(checks), [(check.model, check.expected or check.text) for check in checks])
    lost = [row for row in run.rows if row.unsplittable]
    wrote = sorted((t for t in run.tests if t.overwritten_inputs), key=lambda t: -t.uses)
    if wrote:
        section("Ops whose inputs the backend overwrote", TERMINAL["known"], len(wrote), _overwritten(wrote))
    if varying := [test for test in run.tests if test.right and test.stability == VARYING]:
        rows = [(test.backend, f"{title(test)}: {'; '.join(test.outcomes)}") for test in varying[:SLOWEST]]
        section("Right ops whose results differ from run to run", TERMINAL["known"], len(varying), rows)
    left = [test for test in run.tests if test.left_behind]
    if left:
        heading = "Ops that left their process changed, so that the next got a fresh one"
        section(heading, TERMINAL["known"], len(left), _left_behind(left))
    if lost:
        rows = [(f"{len(row.uses)} x", f"{row.op_name} [{row.op_id}]: {row.unsplittable}") for row in lost]
        section("Ops that could not be split from the model", TERMINAL["known"], len(lost), rows)
    timed = (t for t in run.tests if t.stages and not t.cached_from)  # what is kept has the times of an earlier run
    slowest = sorted(timed, key=seconds, reverse=True)[:SLOWEST]
    if slowest and not again and not many:
        line("\nSlowest ops", "bold")
        several = len({test.backend for test in run.tests}) > 1
        longest = [max(test.stages, key=lambda s: s.seconds) for test in slowest]
        hanging(
            (
                _time(seconds(test)),
                f"{title(test)}{f' on {test.backend}' * several}, mostly {stage.stage} ({_time(stage.seconds)})",
            )
            for test, stage in zip(slowest, longest, strict=True)
        )
    line("")
    if record.outcome == "interrupted":
        prose("the run was interrupted: ops that did not run count as not_run", TERMINAL["known"])
    if reasons := kills(run.tests, run.header.failed):
        more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        prose(f"{reasons[0]}{more}: no answer of any op; --resume runs again what did not run", TERMINAL["known"])
    if record.outcome == "out_of_budget":
        prose("the budget is spent: ops that did not run count as not_run", TERMINAL["known"])
    if record.outcome == "partial":
        prose("shares are missing or unfinished: their ops count as not_run", TERMINAL["known"])
    if (deselected := count_deselected(run.tests)) and not again:
        kept = "diff, unblock, readiness and dashboards keep to the last run of all ops, if there is one"
        prose(f"{deselected} of {len(run.tests)} ops were deselected: {kept}", TERMINAL["known"])
    for saving in savings(run.rows, run.tests).lines:
        prose(saving, "cyan")
    if seen := domain_line(run.tests):
        prose(seen, "dim")
    for part in run.ledger_line.split("; "):
        prose(part, TERMINAL["good"] if run.adds_up else TERMINAL["bad"])
    for note in run.notes:
        line(with_short_paths(note, run.folder), TERMINAL["known"])
    if run.ledger.stability:
        labels = ", ".join(f"{count} {label}" for label, count in run.ledger.stability.items())
        prose(f"failures after reruns: {labels}", TERMINAL["known"])
    outcomes = run.header.by_outcome()
    asked = sum(outcomes.values())
    if asked > 1 or run.header.failed:
        parts = " + ".join(f"{n} {word}" for word, n in outcomes.items())
        prose(f"{asked} model{'s' * (asked != 1)} asked for = {parts}", TERMINAL["good"])
    if said := imports_line(run.header.imports):
        prose(said, TERMINAL["bad" if any(check.fails_run for check in run.header.imports) else "good"])
    for name, place in run.places.items():
        line(f"{name:<9} {with_short_paths(place, run.folder)}")


def domain_line(tests: Sequence[OpTest]) -> str:
    """Which share of their domains ops saw that compute: half of them, and the one that saw least; empty if it is known
    of none."""
    computing = (t for t in tests if t.domain_share is not None and t.op_kind in COMPUTING)
    known = sorted(computing, key=lambda t: t.domain_share or 0.0)
    if not known:
        return ""
    half, least = (100 * (test.domain_share or 0.0) for test in (known[(len(known) - 1) // 2], known[0]))
    some = f"half of {len(known):,} computing ops saw at most {half:.2g} % of their domain"
    return f"{some}, {title(known[0])} {least:.2g} %"


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
    differs, unchecked = (ImportStatus.DIFFERS, ImportStatus.CRASHED), ImportStatus.NOT_CHECKED
    for heading, style, wanted in (
        ("Imports that differ from the model's own framework", "bad", lambda check: check.fails_run),
        ("Imports that are expected to differ", "known", lambda c: c.status in differs and not c.fails_run),
        ("Imports that were not checked", "known", lambda check: check.status is unchecked),
    ):
        if checks := [check for check in imports if wanted(check)]:
            yield heading, TERMINAL[style], checks


def imports_line(imports: Sequence[ImportCheck]) -> str:
    """All imports in one line; empty if there are none."""
    words = {
        ImportStatus.AGREES: ("agrees with its framework", "agree with their frameworks"),
        ImportStatus.DIFFERS: ("differs", "differ"),
        ImportStatus.CRASHED: ("crashed its framework", "crashed their frameworks"),
        ImportStatus.NOT_CHECKED: ("not checked", "not checked"),
    }
    counts = Counter(check.status for check in imports)
    parts = [f"{counts[status]} {word[counts[status] != 1]}" for status, word in words.items() if counts[status]]
    return f"{len(imports)} import{'s' * (len(imports) != 1)} = {' + '.join(parts)}" if parts else ""


def _place(failure: ModelFailure) -> str:
    """The path of a model's traceback."""
    return f" ({failure.artifact})" if failure.artifact else ""


def failure_text(test: OpTest) -> str:
    """How, where and why an op failed, and its place in the model; of limited length."""
    return "; ".join(filter(None, (verdict_text(test), place_text(test))))


def result_text(test: OpTest) -> str:
    """How an op ended, with its figures."""
    if not test.right or test.expected:
        return failure_text(test)
    if test.status == PASSED:
        return f"{PASSED} {test.stage_reached}, without numbers to compare"
    figures = [f"PCC {test.pcc:.7f}"] if test.pcc is not None else []
    figures += [f"z {test.z_max:.3g}"] if test.z_max is not None else []
    figures += [f"{check.tolerance}" for check in test.results[:1]]
    figures += [f"{100 * test.domain_share:.2g} % of its domain"] if test.domain_share is not None else []
    error = f" +-{test.cycles_error:g} %" if test.cycles_error is not None else ""
    figures += [f"{test.cycles:,} cycles{error}"] if test.cycles else []
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


def _votes(split: Disagreement) -> Iterator[tuple[str, str]]:
    """The outcome of an op on each backend. A backend that differs from all others comes first."""
    for name, test in sorted(split.tests.items(), key=lambda vote: vote[0] != split.alone):
        text = failure_text(test) if test.status in FAILED else test.status
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


def _time(duration: float) -> str:
    """A duration in seconds or milliseconds, whichever is easier to read."""
    return f"{duration:.2f} s" if duration >= 1 else f"{duration * 1000:.1f} ms"
