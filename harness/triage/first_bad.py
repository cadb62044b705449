"""Finds the first value that a backend gets wrong of a module of several ops, or the first op that it cannot compile.

The program is cut after an op: the ops before it are a module of their own, which runs on the module's inputs and
returns all that is read after the cut, a few values. Its goldens are those of the ops by themselves. Which cut is the
first that fails as the module does, is searched by halves: at most ceil(log2 n) + 2 modules of n ops are compiled for
it, with the one that shows the failure once more and the one that shows whether the program is right when what the op
reads is also returned. In an op with a body (a loop, a branch) the search goes on, on the values of its first step.

What is around that op is then left out: it runs alone, and in windows of more and more ops before it, on right values.
Ops of the smallest window that still fails are left out until the failure needs each.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.base.op_families import PREFIX, WINDOW
from opscope.base.stored import checked
from opscope.base.visible_text import counted
from opscope.harness.cache.export_folder import OPS, VALUES
from opscope.harness.formulas.nearest import last_place
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.model_pieces import Rows
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.prepare.program import Node
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.subgraph import Line, Piece, uncounted
from opscope.harness.record.element_types import load
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import AMPLIFIED, WHOLE_MODEL, OpRow, OpTest, Use
from opscope.harness.record.stages import WENT_THROUGH, Stage, Status
from opscope.harness.triage import bundle, levels
from opscope.harness.triage.lab import Lab

WINDOWS = (1, 2, 4, 8, 16, 32)
"""Ops of the windows that are tried before the first op that is wrong, until one fails."""
NEIGHBOURS = 4
"""How many cuts are tried beside one that ends in another way, such as in another failure."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class FirstBad:
    """The first op of a module after which values are wrong, and the smallest piece around it that shows it."""

    op: Node
    candidates: tuple[Node, ...]
    """All ops that it may be, in the program's order: several where cuts between them end in other ways."""
    number: int
    """Its place among the ops of the straight line that it is in, from 1."""
    ops: int
    """How many ops that line has."""
    inside: str
    """The op in whose body it is, as name and path; empty for an op of the program itself."""
    compiles: int
    """Modules that were compiled to find the op."""
    at_most: int
    """The most that it may take, ceil(log2 n) + 2, for each line that was searched."""
    accumulated: OpTest
    """The program up to it, on the module's inputs."""
    isolated: OpTest
    """The op by itself, on values that are right."""
    returned: OpTest | None
    """The whole module where the values that the op reads are returned as well; None where that was not tried."""
    changed: str
    """How the module's own results are others then; empty for the same bits."""
    row: OpRow
    """The smallest piece that fails in this way; its files are in the lab's place."""
    test: OpTest
    level: int
    """The lowest optimization level at which that piece fails so, up to the failure's own."""
    tried: int
    """All modules that were compiled."""
    complete: bool
    """Whether the budget sufficed."""

    @property
    def right_when_returned(self) -> bool:
        """Whether the module is right where what the op reads is returned as well: the fault is in what fuses them."""
        return self.returned is not None and self.returned.status in WENT_THROUGH

    @property
    def interaction(self) -> bool:
        """Whether the op by itself is right."""
        return self.isolated.status in WENT_THROUGH


def find(lab: Lab, report: Report = lambda text: None, *, returns: bool = True) -> FirstBad:
    """The first wrong value of the module of a lab's repro folder; `returns`: also whether the module is right where
    what the op reads is returned. Raises InputError where its failure does not show any more, and where the budget ends
    before anything is known."""
    return _Search(lab, report, returns).first_bad()


def fails_alone(lab: Lab) -> bool:
    """Whether one of the ops of a lab's module fails by itself as the module does, on the module's values."""
    return _Search(lab, lambda text: None, returns=False).fails_alone()


def as_answer(bad: FirstBad) -> dict[str, Any]:
    """What `opscope locate --json` prints of it."""
    ends = {"accumulated": bad.accumulated, "isolated": bad.isolated, "smallest": bad.test}
    return {
        "op_name": bad.op.name,
        "path": bad.op.path,
        "location": bad.op.location,
        "candidates": [node.path for node in bad.candidates],
        "number": bad.number,
        "ops": bad.ops,
        "inside": bad.inside,
        "compiles": bad.compiles,
        "at_most": bad.at_most,
        "tried": bad.tried,
        "level": bad.level,
        "complete": bad.complete,
        **{name: str(test.status) for name, test in ends.items()},
        **{f"{name}_error": test.error_message or "" for name, test in ends.items()},
        "interaction": bad.interaction,
        "right_when_returned": bad.right_when_returned,
        "changed": bad.changed,
        "holds": [f"{op.op_name} at {op.path}" for op in bad.row.holds] or [f"{bad.op.name} at {bad.op.path}"],
    }


class _NoPieceError(InputError):
    """No piece before the op that was found is wrong."""


class _Search:
    """The search over the cuts of one module."""

    def __init__(self, lab: Lab, report: Report, returns: bool) -> None:
        self._lab, self._report, self._returns = lab, report, returns
        if (devices := lab.repro.row.devices) > 1:
            raise InputError("opscope locate", "a program of one device", f"one of {devices}", "opscope repro")
        row = lab.repro.row.model_copy(update={"uses": (Use(model=bundle.MODEL, path="main"),)})
        for name in (OPS, VALUES):
            (lab.place / name).mkdir()
        self._split = split_module(checked(lab.folder, row.module or "").read_bytes())
        self._inside = uncounted(self._split.program)
        self._rows = Rows(self._split, row, lab.folder, lab.place)
        nodes = [node for node in self._split.program.walk() if node.kind == "op"]
        bodies = (body for node in nodes for body in node.bodies)
        values = {value for node in nodes for value in node.outputs} | {v for body in bodies for v in body.arguments}
        report(f"values of {counted(len(nodes), 'op')}")
        self._walk = self._rows.walked(values, {})
        self._compiles = self._at_most = 0
        self._tests: dict[str, OpTest] = {}
        self._excused = True
        """Whether what only amplified errors excuse counts as wrong."""

    def first_bad(self) -> FirstBad:
        """See `find`."""
        line = Line(self._split.program, self._inside)
        if len(line.places) < 2:
            raise InputError(
                "opscope locate", "a module of several ops", f"one of {len(line.places)}", "opscope reduce"
            )
        whole = self._run(line.piece(set(line.places), f"{PREFIX}:all"), dumps=self._returns)
        if whole is None or not self._off(whole):
            got = "no time to try it" if whole is None else "a pass" if whole.status in WENT_THROUGH else _said(whole)
            raise InputError("opscope locate", "the module to fail as recorded", got, "opscope replay")
        try:
            return self._from(line, whole)
        except _NoPieceError:
            if not self._alike(whole):
                raise
            self._excused = False  # right programs amplify what is allowed, too: of such a place nothing says more
            self._at_most = self._compiles
            return self._from(line, whole)

    def _from(self, line: Line, whole: OpTest) -> FirstBad:
        """What is found of a line of which all fails with the record `whole`. Raises _NoPieceError."""
        inside = ""
        low, high, accumulated = self._searched(line, whole)
        while low == high - 1 and (deeper := self._in_body(line.nodes[line.places[low]])) is not None:
            node = line.nodes[line.places[low]]
            line, whole = deeper
            inside = f"{node.name} at {node.path}"
            low, high, accumulated = self._searched(line, whole)
        op = line.nodes[line.places[high - 1]]
        asked = self._returns and not inside
        returned, changed = self._returned(line, line.places[high - 1]) if asked else (None, "")
        compiles = self._compiles
        isolated = self._isolated(op)
        row, test = self._smallest(line, line.places[high - 1], accumulated, isolated)
        candidates = tuple(line.nodes[place] for place in line.places[low:high])
        if (earlier := self._wrong_alone(line, row, isolated)) is not None:
            place, isolated = earlier
            op, high, test = line.nodes[place], line.places.index(place) + 1, isolated
            candidates, row = (op,), self._rows.op(op, self._uses(op), self._walk)
        level = self._level(row)
        return FirstBad(
            op=op,
            candidates=candidates,
            number=high,
            ops=len(line.places),
            inside=inside,
            compiles=compiles,
            at_most=self._at_most,
            accumulated=accumulated,
            isolated=isolated,
            returned=returned,
            changed=changed,
            row=row,
            test=test,
            level=level,
            tried=self._compiles,
            complete=not self._lab.out_of_budget,
        )

    def _searched(self, line: Line, whole: OpTest) -> tuple[int, int, OpTest]:
        """How many ops of a line are right before, and with which it fails, if all of it does; and that record. There
        are others between the two where no cut there passes, or fails as the whole does."""
        low, high, failing = 0, len(line.places), whole
        self._at_most += math.ceil(math.log2(max(high, 2))) + 2
        while high - low > 1:
            for count in self._cuts(low, high):
                test = self._run(line.piece(set(line.places[:count]), f"{PREFIX}:{count}"))
                if test is not None and (self._off(test) or test.status in WENT_THROUGH):
                    break
            else:
                return low, high, failing
            if self._off(test):
                high, failing = count, test
            else:
                low = count
            self._report(f"{self._compiles} modules tried: right with {low} ops, wrong with {high}")
        return low, high, failing

    def _cuts(self, low: int, high: int) -> Iterator[int]:
        """Where to cut between two: in the middle, then beside it."""
        middle = (low + high) // 2
        return iter(sorted(range(low + 1, high), key=lambda count: abs(count - middle))[:NEIGHBOURS])

    def _in_body(self, node: Node) -> tuple[Line, OpTest] | None:
        """The line of the first body of an op that fails by itself as the module does, with its record."""
        for body in node.bodies:
            line = Line(body, self._inside)
            if len(line.places) > 1:
                test = self._run(line.piece(set(line.places), f"{PREFIX}:body"))
                if test is not None and self._off(test):
                    return line, test
        return None

    def _returned(self, line: Line, place: int) -> tuple[OpTest | None, str]:
        """The module with what an op reads among its results, and how its own results are others then."""
        whole = line.piece(set(line.places), f"{PREFIX}:all")
        read = (value for maker in sorted(line.before(place)) for value in line.nodes[maker].outputs)
        more = [value for value in read if value not in whole.results and value not in self._walk.absent]
        if self._lab.stage is not Stage.COMPARE or not more:
            return None, ""
        kept = replace(whole, results=(*whole.results, *more))
        test = self._run(kept, dumps=True)
        if test is None:
            return None, ""
        own = self._returned_by(whole)
        return test, _difference(self._results(whole, own), self._results(kept, own))

    def _isolated(self, op: Node) -> OpTest:
        """The record of an op by itself, on values that are right."""
        return self._tried(self._rows.op(op, self._uses(op), self._walk))

    def _wrong_alone(self, line: Line, row: OpRow, isolated: OpTest) -> tuple[int, OpTest] | None:
        """The first op of the smallest piece that is wrong by itself, where the last is not, and its record: what is
        wrong in it was excused as amplified up to the last."""
        if self._alike(isolated):
            return None
        paths = {op.path for op in row.holds}
        for place in line.places:
            node = line.nodes[place]
            if node.path in paths and self._alike(alone := self._isolated(node)):
                return place, alone
        return None

    def fails_alone(self) -> bool:
        """See `fails_alone` of this module."""
        line = Line(self._split.program, self._inside)
        return any(self._alike(self._isolated(line.nodes[place])) for place in line.places)

    def _smallest(self, line: Line, place: int, failing: OpTest, alone: OpTest) -> tuple[OpRow, OpTest]:
        """The smallest piece that ends in an op and fails as the module does: the op, a window, or all before it."""
        op = line.nodes[place]
        if self._alike(alone):
            return self._rows.op(op, self._uses(op), self._walk), alone
        held = set(line.places[: line.places.index(place) + 1])
        for size in WINDOWS[1:]:
            window = line.window(place, size)
            test = self._run(line.piece(window, _window(op)))
            if test is not None and self._alike(test):
                held, failing = window, test
                break
            if len(window) < size:
                break
        if self._alike(failing) or len(held) <= WINDOWS[-1]:
            held, failing = self._left_out(line, place, held, failing)
        if not self._alike(failing):
            got = f"none before {op.name} at {op.path}: errors that are allowed may be amplified as far"
            raise _NoPieceError("opscope locate", "a piece that is wrong as the model is", got, "opscope show")
        piece = line.piece(held, _window(op))
        return self._row(piece), failing

    def _left_out(self, line: Line, place: int, held: set[int], failing: OpTest) -> tuple[set[int], OpTest]:
        """Some ops, the last at `place`, without those that the failure does not need: halves, quarters, ... of the
        rest are left out, the latest first, down to single ops, until it needs each."""
        size, changed = max(1, len(held) // 2), False
        while True:
            rest = sorted(held - {place}, reverse=True)
            for part in (set(rest[first : first + size]) for first in range(0, len(rest), size)):
                test = self._run(line.piece(held - part, _window(line.nodes[place])))
                if test is not None and self._alike(test):
                    held, failing, changed = held - part, test, True
                    self._report(f"{self._compiles} modules tried: {counted(len(held), 'op')} left")
            if size == 1 and not changed:
                return held, failing
            size, changed = max(1, size // 2), False

    def _level(self, row: OpRow) -> int:
        """The lowest optimization level at which a row fails as the module does."""
        own = bundle.context_of(self._lab.folder, self._lab.repro, self._lab.place).options.optimization_level

        def at(level: int) -> OpTest | None:
            if self._lab.out_of_budget:
                return None
            self._compiles += 1
            return self._lab.run(row, level=level)

        found = levels.begins_at(own, self._lab.repro.failure, at)
        return own if found is None else found

    # --- one module

    def _row(self, piece: Piece) -> OpRow:
        """The row of a piece."""
        piece = replace(piece, results=self._returned_by(piece))
        op_id = piece_module.content_id(piece, self._split, self._rows.parameters)
        return self._rows.row(op_id, piece, self._uses(piece.members[-1]), self._walk)

    def _returned_by(self, piece: Piece) -> tuple[int, ...]:
        """The results of a piece; those that nobody has a value for are left out, where others are left."""
        return tuple(value for value in piece.results if value not in self._walk.absent) or tuple(piece.results)

    def _uses(self, node: Node) -> Sequence[Use]:
        return (Use(model=bundle.MODEL, path=node.path, location=node.location, framework_op=node.framework_op),)

    def _run(self, piece: Piece, *, dumps: bool = False) -> OpTest | None:
        """The record of a piece; None if the budget is spent or it is no module."""
        if self._lab.out_of_budget:
            return None
        row = self._row(piece)
        return None if row.module is None else self._tried(row, dumps=dumps)

    def _tried(self, row: OpRow, *, dumps: bool = False) -> OpTest:
        if row.op_id not in self._tests:
            self._compiles += 1
            self._tests[row.op_id] = self._lab.run(row, dumps=dumps)
        return self._tests[row.op_id]

    def _alike(self, test: OpTest) -> bool:
        """Whether a piece fails as the module does; of wrong numbers it is not asked where they are."""
        return self._lab.repro.failure.alike(test)

    def _off(self, test: OpTest) -> bool:
        """Whether a part of the program from its beginning fails as the module does, or would as a model, which no
        amplified error excuses."""
        model = self._excused and self._lab.repro.row.op_name == WHOLE_MODEL and self._lab.stage is Stage.COMPARE
        amplified = any(AMPLIFIED in check.flags for check in test.results)
        return self._alike(test) or (model and test.status is Status.SUCCESS and amplified)

    def _results(self, piece: Piece, first: Sequence[int]) -> list[np.ndarray]:
        """The `first` results of a piece that ran, as they were dumped; the dump is removed."""
        folder = self._lab.dumped(self._row(piece).op_id)
        types = [self._split.values[value] for value in first]
        named = [(folder / f"result-{number}.npy", each) for number, each in enumerate(types)]
        results = [load(path, each.shape, each.data_type) for path, each in named if path.is_file()]
        shutil.rmtree(folder, ignore_errors=True)
        return results


def _window(op: Node) -> str:
    return f"{WINDOW}:{op.name.rpartition('.')[2]}"


def _said(test: OpTest) -> str:
    return f"{test.status} ({test.error_message})" if test.error_message else str(test.status)


def _difference(plain: Sequence[np.ndarray], again: Sequence[np.ndarray]) -> str:
    """By how much the results of two runs differ, in units in the last place of each result's largest value; empty for
    the same bits."""
    most = 0.0
    for one, two in zip(plain, again, strict=False):
        if one.tobytes() == two.tobytes():
            continue
        first, second = (each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (one, two))
        unit = last_place(np.abs(first).max(initial=0.0), np.real(one).dtype) if is_float(one) else 1.0
        change = np.abs(first - second).max(initial=0.0) / unit
        most = max(most, float(change) if np.isfinite(change) else math.inf)
    return f"changed by up to {most:.3g} ulp of their largest value" if most else ""
