"""The page that ends a run, and that `opscope show` prints again from the run folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.document import in_terminal
from opscope.base.document.nodes import Drawn, Listed, Node, Words
from opscope.base.op_families import COMPUTING
from opscope.base.page import Page
from opscope.base.statuses import PASSED
from opscope.base.visible_text import counted
from opscope.harness.page import failing_ops, ladder_table, what_next
from opscope.harness.page.failing_ops import CAUSES, FAILING, place_text, verdict_text, with_short_paths
from opscope.harness.record import explanation, explanation_text, ledger, one_failure
from opscope.harness.record.agreement import Disagreement, disagreements
from opscope.harness.record.bodies import otherwise_right
from opscope.harness.record.flags import in_words
from opscope.harness.record.isolation import Artefact
from opscope.harness.record.isolation import lines as isolation_lines
from opscope.harness.record.ledger import MANY
from opscope.harness.record.optest import board_of, title
from opscope.harness.record.origin import ANSWERS
from opscope.harness.record.records import ImportCheck, Ledger, ManifestHeader, ModelFailure, OpRow, OpTest, RunRecord
from opscope.harness.record.selection import count_deselected, kills
from opscope.harness.record.spared_work import savings
from opscope.harness.record.stages import BATCH_DEPENDENT, FAILED, VARYING, ImportStatus, Status
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
    def is_of_many(self) -> bool:
        """Whether it has so many models that each list is one line."""
        return len(self.record.models) > MANY

    @property
    def has_several(self) -> bool:
        """Whether it is one of several backends."""
        return len(self.ledgers) > 1

    @property
    def answers(self) -> Mapping[str, Any]:
        """The run whose ops it runs again (`run`, empty if none), and their ids (`ops`)."""
        return self.record.origin.options.get(ANSWERS) or {"run": "", "ops": ()}

    @property
    def again(self) -> Sequence[OpTest]:
        """The records of those ops."""
        ops = self.answers["ops"]
        return [test for test in self.tests if test.op_id in ops]

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
    """Prints the whole page; of a run of many models each list is one line, since the report has all."""
    page = Page(console)

    def render(nodes: Iterable[Node]) -> None:
        in_terminal.show(nodes, page, CAUSES if run.is_of_many else sys.maxsize, sys.maxsize, brief=run.is_of_many)

    render(_one_failure(run))
    _ladders(run, page)
    for part in (_disagreements, _run_again, _about_models, _failing, _about_ops, _slowest):
        render(part(run))
    page.line()
    for part in (_how_it_ended, _ledgers):
        render(part(run))
    render(Words(with_short_paths(note, run.folder), "known", whole=True) for note in run.notes)
    render(_totals(run))
    places = {**run.places, **what_next.lines(run)}.items()
    render(Words(f"{name:<9} {with_short_paths(place, run.folder)}", whole=True) for name, place in places)


def show_failing(run: Run, console: Console) -> None:
    """Prints the failing ops of a page alone, with what runs each again."""
    nodes = list(_failing(run)) or [Words("no op fails", "good")]
    in_terminal.show(nodes, Page(console), sys.maxsize, sys.maxsize)


def _ladders(run: Run, page: Page) -> None:
    """How far the ops came on each backend."""
    first, more = run.record.models[:2], len(run.record.models) - 2
    models = f"{', '.join(first)} and {more} more" if run.is_of_many else ", ".join(run.record.models)
    for backend in run.ledgers if run.tests else ():
        tests = [t for t in run.tests if t.backend == backend or not run.has_several]
        board = board_of({t.card_type for t in tests}, run.record.arch)
        heading = f"{models} on {backend}{f' ({board})' if board else ''}"
        page.prose(f"Furthest stage that each op passed: {heading}, unique ops (uses)", "bold")
        ladder_table.show(tests, page.console)


def _disagreements(run: Run) -> Iterator[Node]:
    """Ops with the outcome of each backend."""
    if not run.has_several:
        return
    splits = disagreements(run.tests)
    yield Words(f"Ops on which the backends disagree ({len(splits)})", "apart" if splits else "good", whole=True)
    for split in splits[:FAILING]:
        yield Words(title(split.first), whole=True, level=1)
        yield Listed("", list(_votes(split)))
    if len(splits) > FAILING:
        yield Words(f"and {len(splits) - FAILING} more; see opscope show --json", level=1)


def _run_again(run: Run) -> Iterator[Node]:
    """What became of the ops that an earlier run has too."""
    if run.answers["run"]:
        yield Words(f"ops of run {run.answers['run']}, run again: what that run says stays as it is", "note")
    if run.again:
        yield Words("")
        yield Words(f"Run again ({len(run.again)})", "strong")
    for test in run.again:
        yield Words(title(test), whole=True, level=1)
        yield Listed("", [("", result_text(test))])
        kept = artifact_dir(Path(run.places.get("run", "")), test.op_id)
        if kept.is_dir():
            place = with_short_paths(str(kept), run.folder)
            yield Words(f"IR and diagnostics in {place}", "note", whole=True, level=2)


def _failing(run: Run) -> Iterator[Node]:
    """Failing ops by their causes, and why the first wrong results are wrong."""
    failing = [test for test in run.tests if test.fails_run]
    if not failing:
        return
    if run.is_of_many:
        yield failing_ops.failures(failing, several=run.has_several, most=sys.maxsize)
        return
    kept = Path(run.places.get("run", ""))
    folders = after_run.folders(kept, failing) if "run" in run.places else {}
    scripts = {op: with_short_paths(f"{folder}/run.sh", run.folder) for op, folder in folders.items()}
    yield failing_ops.failures(failing, scripts, run.listed_above, several=run.has_several)
    if "run" in run.places:
        yield from _explanations(kept, sorted((t for t in failing if t.question or t.results), key=lambda t: -t.uses))


def _slowest(run: Run) -> Iterator[Node]:
    """The ops that took longest, and in which stage."""
    timed = (t for t in run.tests if t.stages and not t.cached_from)  # kept ones have the times of an earlier run
    slowest = sorted(timed, key=seconds, reverse=True)[:SLOWEST]
    if not slowest or run.again or run.is_of_many:
        return
    several = len({test.backend for test in run.tests}) > 1
    rows = []
    for test in slowest:
        longest = max(test.stages, key=lambda stage: stage.seconds)
        of = f"{title(test)}{f' on {test.backend}' * several}"
        rows.append((_time(seconds(test)), f"{of}, mostly {longest.stage} ({_time(longest.seconds)})"))
    yield Listed("Slowest ops", rows)


def _one_failure(run: Run) -> Iterator[Words]:
    """A sentence for each backend whose ops all failed for one reason."""
    for backend in run.ledgers:
        failure = one_failure.failure_of_all(t for t in run.tests if t.backend == backend)
        if failure is not None:
            yield Words(one_failure.sentence(backend, failure), "bad")


def _about_models(run: Run) -> Iterator[Listed]:
    """Lists above the failing ops: whole models, and ops that differ from their model."""
    if run.whole:
        rows = [(_time(seconds(t)), f"{t.model_name} on {t.backend}: {whole_text(t)}") for t in run.whole]
        yield Listed("Models run as one program", rows, count=len(rows))
    if run.isolation:
        rows = isolation_lines(run.isolation[:FAILING])
        yield Listed("Ops whose verdict changes when they run alone", rows, "apart", len(run.isolation))


def _about_ops(run: Run) -> Iterator[Listed]:
    """Lists below the failing ops: what fails no run, or was never an op."""
    if expected := [t for t in run.tests if t.status in FAILED and t.expected]:
        yield Listed("Expected failures", list(_by_reason(expected)), "known", len(expected))
        if loops := [*otherwise_right(expected, run.rows, run.tests)]:
            rows = [(f"{t.uses} x", f"{title(t)}: {said}") for t, said in loops[:FAILING]]
            yield Listed("Loops and branches that fail for ops in them alone", rows, "known", len(loops))
    if doubts := [t for t in run.tests if t.status is Status.GOLDEN_IN_DOUBT]:
        rows = [(t.backend if run.has_several else f"{t.uses} x", f"{title(t)}: {t.error_message}") for t in doubts]
        yield Listed("Goldens in doubt: neither right nor wrong", rows, "known", len(doubts))
    if run.header.failed:
        rows = [(f.model, f"{f.status.value}: {f.error}{_place(f)}") for f in run.header.failed]
        yield Listed("Models that were not prepared", rows, "bad", len(rows))
    for heading, tone, checks in import_sections(run.header.imports):
        yield Listed(heading, [(check.model, check.expected or check.text) for check in checks], tone, len(checks))
    if wrote := sorted((t for t in run.tests if t.overwritten_inputs), key=lambda t: -t.uses):
        yield Listed("Ops whose inputs the backend overwrote", list(_overwritten(wrote)), "known", len(wrote))
    if varying := [test for test in run.tests if test.right and test.stability == VARYING]:
        rows = [
            (test.backend, f"{title(test)}: {'; '.join((*test.outcomes, test.canary))}") for test in varying[:SLOWEST]
        ]
        yield Listed("Right ops whose results differ from run to run", rows, "known", len(varying))
    if batched := [test for test in run.tests if test.stability == BATCH_DEPENDENT]:
        rows = [(test.backend, f"{title(test)}: {'; '.join(test.outcomes[1:])}") for test in batched[:SLOWEST]]
        yield Listed("Right ops whose results depend on the batch", rows, "known", len(batched))
    if left := [test for test in run.tests if test.left_behind]:
        heading = "Ops that left their process changed, so that the next got a fresh one"
        yield Listed(heading, list(_left_behind(left)), "known", len(left))
    if lost := [row for row in run.rows if row.unsplittable]:
        rows = [(f"{len(row.uses)} x", f"{row.op_name} [{row.op_id}]: {row.unsplittable}") for row in lost]
        yield Listed("Ops that could not be split from the model", rows, "known", len(lost))


def _how_it_ended(run: Run) -> Iterator[Words]:
    """Sentences about ops that did not run, about work that was spared, and about what the inputs reached."""
    outcome = run.record.outcome
    if outcome == "interrupted":
        yield Words("the run was interrupted: ops that did not run count as not_run; --resume runs them", "known")
    if reasons := _kills(run):
        more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        yield Words(f"{reasons[0]}{more}: no answer of any op; --resume runs again what did not run", "known")
    if outcome == "out_of_budget":
        yield Words("the budget is spent: ops that did not run count as not_run", "known")
    if outcome == "partial":
        yield Words("shares are missing or unfinished: their ops count as not_run", "known")
    if (deselected := count_deselected(run.tests)) and not run.again:
        kept = "diff, unblock, readiness and dashboards keep to the last run of all ops, if there is one"
        yield Words(f"{deselected} of {len(run.tests)} ops were deselected: {kept}", "known")
    if dead := sum(run.ledger.dead.values()):
        what = "1 op is dead: no result needs it" if dead == 1 else f"{dead} ops are dead: no result needs them"
        yield Words(f"{what}; --dead-ops runs such ops", "known")
    for saving in savings(run.rows, run.tests).lines:
        yield Words(saving, "hint")
    if seen := domain_line(run.tests):
        yield Words(seen, "note")


def _ledgers(run: Run) -> Iterator[Words]:
    """A line for each ledger."""
    for part in run.ledger_line.split("; "):
        yield Words(part, "good" if run.adds_up else "bad")


def _totals(run: Run) -> Iterator[Words]:
    """How reruns of failures, models and imports ended."""
    if run.ledger.stability:
        labels = ", ".join(f"{count} {label}" for label, count in run.ledger.stability.items())
        yield Words(f"failures after reruns: {labels}", "known")
    outcomes = run.header.by_outcome()
    asked = sum(outcomes.values())
    if asked > 1 or run.header.failed:
        parts = " + ".join(f"{n} {word}" for word, n in outcomes.items())
        yield Words(f"{asked} model{'s' * (asked != 1)} asked for = {parts}", "good")
    if said := imports_line(run.header.imports):
        yield Words(said, "bad" if any(check.fails_run for check in run.header.imports) else "good")


def _kills(run: Run) -> list[str]:
    """How ops, whole models and preparations were killed."""
    return kills([*run.tests, *run.whole], run.header.failed)


def _by_reason(expected: Sequence[OpTest]) -> Iterator[tuple[str, str]]:
    """The reasons of expected failures, the most frequent first, each with its number and its kinds of ops."""
    for reason, count in Counter(t.expected for t in expected).most_common():
        names = sorted({t.op_name for t in expected if t.expected == reason})
        yield f"{count} x", f"{', '.join(names)}: {reason}"


def domain_line(tests: Sequence[OpTest]) -> str:
    """Which share of their domains ops saw that compute: half of them, and the one that saw least; empty if it is known
    of none."""
    computing = (t for t in tests if t.domain_share is not None and t.op_kind in COMPUTING)
    known = sorted(computing, key=lambda t: t.domain_share or 0.0)
    if not known:
        return ""
    half, least = (100 * (test.domain_share or 0.0) for test in (known[(len(known) - 1) // 2], known[0]))
    if len(known) == 1:
        return f"1 computing op saw {least:.2g} % of its domain, {title(known[0])}"
    some = f"half of {len(known):,} computing ops saw at most {half:.2g} % of their domain"
    return f"{some}, {title(known[0])} {least:.2g} %"


def _explanations(run_dir: Path, tests: Sequence[OpTest]) -> Iterator[Node]:
    """Why numbers are wrong, of the first few ops."""
    for test in tests[:EXPLAINED]:
        if (known := explanation.shown(run_dir, test)) is not None:
            yield Drawn(f"Why {title(test)} is wrong", list(explanation_text.lines(known)))
    if len(tests) > EXPLAINED:
        yield Words("")
        yield Words(f"opscope show ID explains the other {len(tests) - EXPLAINED} wrong results", "note")


def import_sections(imports: Sequence[ImportCheck]) -> Iterator[tuple[str, str, list[ImportCheck]]]:
    """Headings, tones and checks of the imports that need attention."""
    differs, unchecked = (ImportStatus.DIFFERS, ImportStatus.CRASHED), ImportStatus.NOT_CHECKED
    for heading, tone, wanted in (
        ("Imports that differ from the model's own framework", "bad", lambda check: check.fails_run),
        ("Imports that are expected to differ", "known", lambda c: c.status in differs and not c.fails_run),
        ("Imports that were not checked", "known", lambda check: check.status is unchecked),
    ):
        if checks := [check for check in imports if wanted(check)]:
            yield heading, tone, checks


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
    figures += [in_words(flag) for flag in dict.fromkeys(flag for check in test.results for flag in check.flags)]
    figures += [f"{100 * test.domain_share:.2g} % of its domain"] if test.domain_share is not None else []
    error = f" +-{test.cycles_error:g} %" if test.cycles_error is not None else ""
    figures += [f"{test.cycles:,} cycles{error}"] if test.cycles else []
    return f"success ({', '.join(figures)})" if figures else "success"


def whole_text(test: OpTest) -> str:
    """How a model that ran as one program ended, and where its error jumps."""
    text = result_text(test)
    if test.intermediates is not None:
        text += f"; {counted(test.intermediates, 'value')} inside the model compared"
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
