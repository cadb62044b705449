"""The first revision of a compiler that is bad by a measure: halving over the states of a chain of repositories.

What is read at each state is a replay of an op's repro folder, or a run of a model. States are checked out in worktrees
of their own; the user's checkouts stay as they are. In a repository of opscope the whole of opscope is that of the
revision; in another one, the backend is: its file (`backend`, a path in the repository), and whatever can be imported
from the top of it. A state that cannot be built or started, or that has no value, is skipped.

    .opscope/bisect/KEY.json    what was read at a state: it is built once, also if the search is ended and begun again

What the machine may have ended is tried once more, and is not kept.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.digest import digest_of_sources, file_digest, json_digest
from opscope.base.places import HOME
from opscope.base.results_folder import make_folder, results_folder
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.record import artifacts, lowered_ir, program_graph
from opscope.harness.record.errors import InputError
from opscope.harness.record.machine_faults import fault_of_machine, pressure
from opscope.harness.record.records import OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import WENT_THROUGH, Status
from opscope.harness.record.store import has_run, load_run, write_whole
from opscope.harness.settings.program_options import words_of
from opscope.harness.triage import bundle
from opscope.harness.triage.reading import Measure, Reading, Value, ended_by_machine
from opscope.harness.triage.revisions import Chain, Checkouts, Repository, State, is_ancestor, revision, top_of

KEPT = "bisect"
"""The folder of what was read, in the results folder."""


@dataclass(frozen=True)
class Bisected:
    """What was found."""

    candidates: tuple[str, ...]
    """The first bad commit; several where those between could not be tried, oldest first."""
    text: str
    """The commits, a line each."""
    steps: tuple[str, ...]
    """Each state that was tried, and what was read there."""
    note: str = ""
    """What else has to be said of it."""


@dataclass(frozen=True)
class Built:
    """How a compiler is built and found at each revision."""

    build: str = ""
    """A shell command that runs at the top of the first repository."""
    backend: str = ""
    """Like `system_desc`, a file in that repository, or one that `build` makes there."""
    system_desc: str = ""
    python: str = ""
    """What runs opscope; default: this interpreter."""


AS_IT_IS = Built()


@dataclass(frozen=True)
class AsRecorded:
    """An op is bad where it fails as its repro folder says."""

    failure: bundle.Failure
    any_failure: bool = False
    """Whether every failure counts as the recorded one."""
    ends = ("a revision at which the op does not fail so", "a revision at which the op fails as recorded")
    missing = "a different failure"

    def value(self, reading: Reading) -> Value | None:
        """How the op ended; None if it failed in another way."""
        (test,) = reading.tests
        known = test.status in WENT_THROUGH or self.failure.same(test) or (self.any_failure and not reading.by_machine)
        return str(test.status) if known else None

    def is_bad(self, value: Value, good: Value, bad: Value) -> bool:
        """Whether the op failed."""
        return value not in WENT_THROUGH


Judge = AsRecorded | Measure
"""Which readings are bad."""


@dataclass(frozen=True)
class Op:
    """A repro folder, replayed."""

    folder: Path

    @property
    def key(self) -> Any:
        """The op, its values' origin and the options of its run."""
        return file_digest(self.folder / bundle.FILE)

    def read(self, python: str, tree: Path, files: Sequence[str], environment: Mapping[str, str]) -> Reading:
        """The record of a replay by the opscope of the tree, where it is a checkout of opscope."""
        before = (tree / "harness/triage/replay.py").is_file() and not (tree / "opscope").is_dir()
        program = "harness.triage.replay" if before else "opscope.harness.triage.replay"  # rooms were import names
        command = [python, "-P", "-m", program, str(self.folder), "--json", *files]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        try:
            return _of_tests([OpTest.model_validate_json(done.stdout)])
        except ValueError:  # an exit code alone may be that of an interpreter that did not get so far
            return _refused(done.returncode, done.stderr, self.folder)


@dataclass(frozen=True)
class Model:
    """A model, run with the options of a run."""

    name: str
    options: Mapping[str, Any]

    @property
    def key(self) -> Any:
        """The model, its file and the options."""
        return [self.name, file_digest(Path(self.name)) if Path(self.name).is_file() else "", dict(self.options)]

    def read(self, python: str, tree: Path, files: Sequence[str], environment: Mapping[str, str]) -> Reading:
        """The records of a run and what its IR holds; no verdict of an earlier run is taken for it."""
        with TemporaryFolder("bisect-run") as scratch:
            run_dir, log = Path(scratch) / "run", Path(scratch) / "log"
            command = [python, "-P", "-m", "pytest", *_QUIET, *words_of({**self.options, **_ONCE})]
            command += ["--model", self.name, "--run-dir", str(run_dir), *files]
            with log.open("wb") as output:
                done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
            if not has_run(run_dir):
                return _refused(done.returncode, log.read_text(errors="replace"), Path(scratch))
            tests = load_run(run_dir).tests
            return _of_tests(tests).model_copy(update={"programs": tuple(sorted(_programs(run_dir, tests)))})


def _programs(run_dir: Path, tests: Iterable[OpTest]) -> Iterator[str]:
    """The digests of the programs whose IR a run has kept."""
    for test in tests:
        folder = run_dir / artifacts.ARTIFACT_DIR / test.op_id / artifacts.ir_folder(test.backend)
        if (last := lowered_ir.last_ir(folder)) is not None:
            text = lowered_ir.plain(last.read_text(encoding="utf-8", errors="replace"))
            yield program_graph.read(text).digest


def _of_tests(tests: Iterable[OpTest]) -> Reading:
    """What was read of these records."""
    lacking = pressure()
    ended = any(
        # A crash is the revision's, however busy the machine is.
        test.status is Status.NOT_RUN or fault_of_machine(test, lacking if test.status is Status.TIMEOUT else "")
        for test in tests
    )
    return Reading(tests=tuple(sorted(tests, key=lambda test: test.op_id)), by_machine=ended)


def _refused(code: int, text: str, folder: Path, why: str = "") -> Reading:
    """A revision that could not be tried, by how a process that wrote to `folder` ended; `why` precedes its words."""
    lines = [line.strip() for line in text[-_LAST_WORDS:].splitlines() if line.strip()]
    said = [line for line in lines if ": expected " in line] or lines or [f"exit code {code}"]
    why = shorten(": ".join(filter(None, (why, said[-1]))), 160)
    return Reading(why=why, by_machine=ended_by_machine(code, "\n".join(lines), folder))


_MOST_LOST = 2
"""States in a row, each tried twice, after which the search ends: the others would fare no better."""
_LAST_WORDS = 8192
"""Characters at the end of a log, in which a process says why it ended."""
_QUIET = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--noconftest", "-q", "--op-by-op", "--no-report")
_ONCE = {"no_cache": True, "keep_ir": True, "reruns": 0, "repro_size": 0}


def bisect(
    subject: Op | Model,
    judge: Judge,
    repo: Path,
    good: str,
    bad: str,
    built: Built = AS_IT_IS,
    pins: Sequence[Repository] = (),
    report: Callable[[str], None] = lambda text: None,
) -> Bisected:
    """The first state between the revisions `good` and `bad` of `repo` that is bad.

    `pins`: the repositories below it, each pinned by the one before. Raises InputError.
    """
    top = top_of("--repo", repo)
    first, last = (
        revision(top, name, (flag, f"a revision of {top}", repr(name)))
        for flag, name in (("--good", good), ("--bad", bad))
    )
    if first == last or not is_ancestor(top, first, last):
        raise InputError("--good", "an ancestor of --bad", f"{good} and {bad}", "git log")
    chain = Chain((Repository("", top), *pins))
    with TemporaryFolder("bisect") as scratch:
        trials = _Trials(chain, Checkouts(chain, Path(scratch)), subject, judge, built, report)
        try:
            return _Search(trials, chain.between(first, last)).run()
        finally:
            trials.checkouts.remove()


@dataclass
class _Trials:
    """Reads states, each once, and says what was read."""

    chain: Chain
    checkouts: Checkouts
    subject: Op | Model
    judge: Judge
    built: Built
    report: Callable[[str], None]
    steps: list[str] = field(default_factory=list)
    lost: int = 0
    """States in a row that the machine has ended."""

    def _value(self, reading: Reading) -> Value | None:
        return self.judge.value(reading) if reading.tests else None

    def _is_lost(self, reading: Reading) -> bool:
        """Whether the machine, and no more than that, is known to have ended it: a failure as recorded is one."""
        return reading.by_machine and self._value(reading) is None

    def value(self, state: State) -> Value | None:
        """The judge's value at a state; None where there is none."""
        kept = make_folder(results_folder() / KEPT) / f"{self._key(state)}.json"
        try:
            reading, again = Reading.model_validate_json(kept.read_bytes()), " (read before)"
        except (OSError, ValueError):
            reading, again = self._read(state), ""
            if self._is_lost(reading):
                reading, again = self._read(state), " (read twice)"
            if not self._is_lost(reading):
                write_whole(kept, reading.model_dump_json(), "another current folder")
        value, lost = self._value(reading), self._is_lost(reading)
        said = reading.why or f"{reading.verdict}, {self.judge.missing}"
        said += " (the machine may be at fault)" if lost else ""
        self.steps.append(f"{self.chain.name(state)} {f'skipped: {said}' if value is None else value}{again}")
        self.report(self.steps[-1])
        self.lost = self.lost + 1 if lost else 0
        if self.lost == _MOST_LOST:
            hint = "the same command once it is mended; what was read is kept"
            raise InputError("opscope bisect", "a machine on which revisions can be built and run", said, hint)
        return value

    def _key(self, state: State) -> str:
        names = [(each.name, each.path, str(each.top)) for each in self.chain.repositories]
        code = digest_of_sources(verdict_fingerprint.sources("harness", "compiler", "simulator"), root=HOME)
        return json_digest([names, state.commits, astuple(self.built), self.subject.key, code], digits=20)

    def _read(self, state: State) -> Reading:
        """Checks a state out, builds it and reads it."""
        self.checkouts.check_out(state)
        tree = self.checkouts.tree
        if self.built.build:
            code, text = self.checkouts.build(self.built.build)
            if code:
                return _refused(code, text, tree, "cannot be built")
        files: list[str] = []
        for option, name in (("--backend", self.built.backend), ("--system-desc", self.built.system_desc)):
            file = self.checkouts.file(name)
            if name and not file:
                return Reading(why=f"has no {name.rpartition(':')[2]}")
            files += [option, file] if file else []
        return self.subject.read(self.built.python or sys.executable, tree, files, self.checkouts.environment)


@dataclass
class _Search:
    """Halves the states between a good one and a bad one."""

    trials: _Trials
    states: list[State]

    def run(self) -> Bisected:
        """The first bad state of them, once both ends are what they have to be. Raises InputError."""
        judge, chain = self.trials.judge, self.trials.chain
        good, bad = self._ends()
        found, here = self._narrowed(self.states, good, bad)
        while len(found) == 1 and (branch := chain.merged(found[0])):
            value = self.trials.value(branch[-1])
            if value is None or not judge.is_bad(value, good, bad):
                break
            found, here = self._narrowed(branch, good, value)
        commits = tuple(state.commits[state.level] for state in found)
        note = "" if _is_all(here, (good, bad)) else f"one of several steps: {here[0]} -> {here[1]} of {good} -> {bad}"
        return Bisected(commits, "\n".join(map(chain.text, found)), tuple(self.trials.steps), note)

    def _ends(self) -> tuple[Value, Value]:
        """The values of the good end and of the bad one, which is tried first."""
        judge, (for_good, for_bad) = self.trials.judge, self.trials.judge.ends
        bad = self.trials.value(self.states[-1])
        if bad is None:
            raise InputError("--bad", for_bad, self.trials.steps[-1], "another revision")
        good = self.trials.value(self.states[0])
        if good is None or judge.is_bad(good, good, bad):
            raise InputError("--good", for_good, self.trials.steps[-1], "another revision")
        if not judge.is_bad(bad, good, bad):
            raise InputError("--bad", for_bad, self.trials.steps[0], "another revision")
        return good, bad

    def _narrowed(self, states: list[State], good: Value, bad: Value) -> tuple[list[State], tuple[Value, Value]]:
        """The states one of which is the first bad one, after a good first one; and the values before and after."""
        low, high, ends = 0, len(states) - 1, (good, bad)
        skipped: set[int] = set()
        while between := [number for number in range(low + 1, high) if number not in skipped]:
            # Beside what could not be tried, further and further away, on one side and the other.
            near = len(skipped & set(range(low, high)))
            wanted = (low + high) // 2 + (-1) ** near * (near * (near + 1) // 2)
            middle = min(between, key=lambda number: abs(number - wanted))
            value = self.trials.value(states[middle])
            if value is None:
                skipped.add(middle)
            elif self.trials.judge.is_bad(value, good, bad):
                high, ends = middle, (ends[0], value)
            else:
                low, ends = middle, (value, ends[1])
        return states[low + 1 : high + 1], ends


def _is_all(step: tuple[Value, Value], change: tuple[Value, Value]) -> bool:
    """Whether one step is the whole change: of a text the same, of a number nine tenths."""
    numbers = [value for value in (*step, *change) if not isinstance(value, str)]
    if len(numbers) < 4:
        return step == change
    before, after, good, bad = numbers
    return abs(after - before) >= 0.9 * abs(bad - good)
