"""The suite of `opscope backend check`: what any backend has to hold to, whatever it compiles.

Twelve small ops and one that no compiler knows are climbed with two sets of values, twice in one lane and once in
another; a lane is killed, another one is stopped; options and the fingerprint are asked for. What a backend may do or
leave, such as refusing an op, is a note and no failure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opscope.base.statuses import RIGHT
from opscope.base.visible_text import counted
from opscope.harness.backends import registry
from opscope.harness.backends.commands import description, tracing
from opscope.harness.cache.claims import Claims
from opscope.harness.engine.model_jobs import Means, prepare
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import FAILED, Status

OK, NOTE, FAILS = "ok", "note", "fails"
"""How a check ends; a note is something to know, and no fault."""
SECONDS = 30.0
"""Time of an op."""
MOST_LATE = 2
"""Ops that may take longer, before the others are left out."""
STOPPED_FOR = 2.0
"""Time of an op whose process was stopped."""
AT_WORK = 0.5
"""Time after which a file that a process has for a moment is gone; each one that asks for TMPDIR tries it with such."""
NAMED = 5
"""So many files are named."""
UNKNOWN_BOARD = "no-such-board"
UNKNOWN_OP = "stablehlo.custom_call:opscope_no_such_target"
"""The op that no compiler knows: its target does not exist."""

MODULE = """module @check {
  func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x4xf32>, %i: tensor<8xi32>, %p: tensor<8xi1>,
                  %h: tensor<4x4xbf16>, %s: tensor<f32>, %n: tensor<0x4xf32>)
      -> (tensor<8x16xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<8x16xbf16>, tensor<8xi32>,
          tensor<8xi32>, tensor<4x4xbf16>, tensor<f32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>,
          tensor<0x4xf32>, tensor<8x16xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %x, %x : tensor<8x16xf32>
    %1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %4 = stablehlo.convert %x : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %5 = stablehlo.multiply %i, %i : tensor<8xi32>
    %6 = stablehlo.select %p, %i, %5 : tensor<8xi1>, tensor<8xi32>
    %7 = stablehlo.exponential %h : tensor<4x4xbf16>
    %8 = stablehlo.negate %s : tensor<f32>
    %9 = stablehlo.iota dim = 0 : tensor<8xi32>
    %10:2 = "stablehlo.sort"(%i, %6) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
        %less = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
    }) {dimension = 0 : i64, is_stable = true} : (tensor<8xi32>, tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>)
    %11 = stablehlo.abs %n : tensor<0x4xf32>
    %12 = stablehlo.custom_call @opscope_no_such_target(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10#0, %10#1, %11, %12
      : tensor<8x16xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<8x16xbf16>, tensor<8xi32>,
        tensor<8xi32>, tensor<4x4xbf16>, tensor<f32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>,
        tensor<0x4xf32>, tensor<8x16xf32>
  }
}
"""
"""Each op is a kind of its own: elementwise, a product, a sum, moved values, another type, whole numbers, truth values,
bf16, a scalar, no operand, several results, no elements, and one that nobody knows."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    result: str
    """`ok`, `note` or `fails`."""
    text: str


@dataclass(frozen=True)
class _Values:
    """The ops with one set of values, and where their files are."""

    rows: Sequence[OpRow]
    folders: Mapping[str, str]


def checks(backend: str, options: ResultOptions, folder: Path) -> Iterator[Check]:
    """The checks of a backend, as they are done; files are below `folder`. Raises InputError if there is no such
    backend, or if it cannot be loaded and opened here."""
    backend = registry.absolute(backend)
    registry.check_name(backend)
    context = RunContext("check", str(folder / "run"), backend, options)
    with _apart(folder), Claims() as claims:
        trial = _Trial(context, folder, [_prepared(folder, seed, claims) for seed in (0, 1)])
        with contextlib.suppress(_TooLateError):
            for check in (
                trial.begins,
                trial.ops_are_right,
                trial.repeats,
                trial.refuses,
                trial.leaves_nothing,  # before a process is killed, which cannot clear up
                trial.reads_what_it_declares,
                trial.survives,
                trial.knows_its_options,
            ):
                yield from check()


def _prepared(folder: Path, seed: int, claims: Claims) -> _Values:
    """The ops, with values and goldens of a seed."""
    module = folder / "check.mlir"
    module.write_text(MODULE, encoding="utf-8")
    request = Preparation((str(module),), cache_dir=str(folder / "cache"), seed=seed)
    header, rows = prepare(request, means=Means(claims))
    return _Values(rows, dict(zip(header.models, header.export_dirs, strict=True)))


class _TooLateError(Exception):
    """So many ops took too long that the suite ends."""


class _Trial:
    """One backend that is tried."""

    def __init__(self, context: RunContext, folder: Path, values: Sequence[_Values]) -> None:
        self._context, self._folder = context, folder
        self._values, self._others = values
        self._first: list[OpTest] = []
        self._twice: list[OpTest] = []

    def _lane(self, values: _Values, *, seconds: float | None = None) -> Lane:
        return Lane(LaneConfig(self._context, values.folders, seconds or SECONDS, log=self._folder / "log.txt"))

    def begins(self) -> Iterator[Check]:
        """Its life up to the first op, in two lanes."""
        with self._lane(self._values) as lane, self._lane(self._values) as second:
            ready, again = lane.ready(), second.ready()
        yield Check("life", OK, f"loads, opens and closes; stages {', '.join(ready.stages)}")
        if ready.fingerprint != again.fingerprint:
            line = f"differs between two lanes, so that no verdict is ever kept: {ready.fingerprint[:60]}, then "
            yield Check("fingerprint", FAILS, line + again.fingerprint[:60])
        else:
            yield Check("fingerprint", OK, f"the same in two lanes: {ready.fingerprint[:100]}")
        if ready.versions:
            versions = ", ".join(f"{part} {version[:40]}" for part, version in ready.versions.items())
            yield Check("versions", OK, versions)
        else:
            yield Check("versions", NOTE, "names none: nobody can tell from a record which build it was")

    def ops_are_right(self) -> Iterator[Check]:
        """The ops with the first values, and with others."""
        with self._lane(self._values) as lane:
            for row in self._values.rows:
                self._first.append(lane.run(row))
                late = [test.op_name for test in self._first if test.status is Status.TIMEOUT]
                if len(late) == MOST_LATE:
                    text = f"no end within {SECONDS:g} s: {', '.join(late)}; other ops and checks are not tried"
                    yield Check("ops in time", FAILS, text)
                    raise _TooLateError
            self._twice = [lane.run(row) for row in self._values.rows]
        with self._lane(self._others) as lane:
            others = [lane.run(row) for row in self._others.rows]
        known = [test for test in self._first if test.op_name != UNKNOWN_OP]
        right = [test for test in known if test.status in RIGHT]
        failed = any(test.status in FAILED for test in known)
        result = OK if right else FAILS if failed else NOTE
        yield Check("ops", result, f"{len(right)} of {len(known)} right{'' if right else '; see below'}")
        yield from _not_right([test for test in known if test.status not in RIGHT])
        wrong = [a.op_name for a, b in zip(self._first, others, strict=True) if a.status != b.status]
        if wrong:
            yield Check("other values", FAILS, f"another verdict with other values: {', '.join(wrong)}")
        elif any(test.status == Status.SUCCESS for test in known):
            yield Check("other values", OK, "right with two sets of values")

    def repeats(self) -> Iterator[Check]:
        """The ops once more in the same lane, and in another in the opposite order."""
        with self._lane(self._values) as lane:
            backwards = [lane.run(row) for row in reversed(self._values.rows)][::-1]
        for when, tests in (("in the same process", self._twice), ("in the opposite order", backwards)):
            pairs = zip(self._first, tests, strict=True)
            moved = [a.op_name for a, b in pairs if (a.status, a.error_signature) != (b.status, b.error_signature)]
            text = f"ends otherwise: {', '.join(moved)}" if moved else "all end as before"
            yield Check(f"once more {when}", FAILS if moved else OK, text)

    def refuses(self) -> Iterator[Check]:
        """The op that nobody knows."""
        for test in self._first:
            if test.op_name == UNKNOWN_OP:
                refused = test.status in (Status.COMPILE_FAILED, Status.RUN_FAILED, Status.SKIPPED)
                said = f"{test.failed_stage or test.status}: {test.error_message}"
                if refused:
                    yield Check("an op that it cannot know", OK, said)
                elif test.status in FAILED and test.status is not Status.NO_GOLDEN:
                    yield Check("an op that it cannot know", FAILS, f"{test.status} in place of a refusal, {said}")
                else:
                    yield Check("an op that it cannot know", NOTE, "is taken without a word")

    def reads_what_it_declares(self) -> Iterator[Check]:
        """What the tools of a YAML file read, where the machine can trace them."""
        path = registry.command_file(self._context.backend)
        right = next((test.op_id for test in self._first if test.status in RIGHT), None)
        if path is None or right is None or not tracing.is_possible():
            return
        log = self._folder / "traced.txt"
        config = LaneConfig(self._context, self._values.folders, SECONDS, environment={tracing.LOG: str(log)})
        with Lane(config) as lane:
            lane.run(next(row for row in self._values.rows if row.op_id == right))
        try:
            read = tracing.undeclared(description.read(path), log)
        except OSError:
            return  # the system does not allow it
        if read:
            more = f" and {len(read) - NAMED} more" if len(read) > NAMED else ""
            text = f"nothing declares {', '.join(read[:NAMED])}{more}, which its tools read; add them to `fingerprint`"
            yield Check("reads", NOTE, text)
        else:
            yield Check("reads", OK, "its tools read what the file declares, and the system's own files")

    def survives(self) -> Iterator[Check]:
        """Its process is killed, then stopped; the op after each is in a new one."""
        for name, number, seconds in (("killed", signal.SIGKILL, SECONDS), ("stopped", signal.SIGSTOP, STOPPED_FOR)):
            at = next((k for k, test in enumerate(self._first) if test.status in RIGHT), 0)
            row, before = self._values.rows[at], self._first[at]
            with self._lane(self._values, seconds=seconds) as lane:
                lane.ready()
                os.kill(lane.pid, number)
                test = lane.run(row)
                if number == signal.SIGSTOP and test.status is not Status.TIMEOUT:
                    yield Check(name, FAILS, f"expected timeout of a stopped process, got {test.status}")
                    continue
            with self._lane(self._values) as lane:
                test = lane.run(row)
            same = test.status == before.status
            text = f"{row.op_name} ends as before in a new process" if same else f"{test.status}: {test.error_message}"
            yield Check(f"after its process was {name}", OK if same else FAILS, text)

    def leaves_nothing(self) -> Iterator[Check]:
        """What the ops have left behind, in their process and in folders."""
        left = Counter(line.partition(":")[0] for test in self._first for line in test.left_behind)
        for what, ops in left.items():
            yield Check("left behind", NOTE, f"{what} by {counted(ops, 'op')}, each of which cost a new process")
        spoiled = [test.op_name for test in self._first if test.overwritten_inputs]
        if spoiled:
            yield Check("inputs", NOTE, f"overwritten by {', '.join(spoiled)}")
        if files := _left_files():
            yield Check("files", FAILS, f"left in TMPDIR or the working folder: {', '.join(files[:5])}")
        elif not left and not spoiled:
            yield Check("leaves nothing behind", OK, "process, inputs, TMPDIR and working folder are as they were")

    def knows_its_options(self) -> Iterator[Check]:
        """A board that does not exist."""
        options = self._context.options.changed(arch=UNKNOWN_BOARD)
        context = replace(self._context, options=options)
        try:
            with Lane(LaneConfig(context, self._values.folders, log=self._folder / "log.txt")) as lane:
                lane.ready()
        except InputError as error:
            said = f"{error.where}: expected {error.expected}, got {error.got}"
            own = "without an error" in error.expected
            yield Check("a board that does not exist", FAILS if own else OK, said)
        else:
            yield Check("a board that does not exist", NOTE, "--arch is not looked at")


def _not_right(tests: Sequence[OpTest]) -> Iterator[Check]:
    """What became of ops that are not right, those that ended alike in one line. A refusal is a note; wrong numbers and
    crashes are failures."""
    alike: dict[str, list[OpTest]] = {}
    for test in tests:
        stage = f" at {test.failed_stage}" if test.failed_stage else ""
        alike.setdefault(f"{test.status}{stage}: {test.error_message or ''}", []).append(test)
    for text, group in alike.items():
        wrong = group[0].status in FAILED - {Status.COMPILE_FAILED, Status.RUN_FAILED, Status.NO_GOLDEN}
        yield Check(", ".join(test.op_name for test in group), FAILS if wrong else NOTE, text)


@contextlib.contextmanager
def _apart(folder: Path) -> Iterator[None]:
    """Has this process and its children work in folders of their own, so that what a backend leaves there is seen."""
    places = {name: folder / name for name in ("tmp", "work")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    before, usual = Path.cwd(), os.environ.get("TMPDIR")
    os.environ["TMPDIR"], tempfile.tempdir = str(places["tmp"]), None
    os.chdir(places["work"])
    try:
        yield
    finally:
        os.chdir(before)
        tempfile.tempdir = None
        if usual is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = usual


def _left_files() -> list[str]:
    """What is in TMPDIR and in the working folder and stays there, without what opscope itself keeps there."""
    names = _files_here()
    if names:
        time.sleep(AT_WORK)
    return sorted(names & _files_here())


def _files_here() -> set[str]:
    names = {path.name for folder in (Path(tempfile.gettempdir()), Path.cwd()) for path in folder.iterdir()}
    return {name for name in names if not name.startswith(("opscope", ".opscope"))}
