"""Shows the progress of a run: one line that lives on a terminal, plain lines elsewhere, nothing with -q.

    model 5/82 · op 731/2273 · stablehlo.convolution 23 s · ETA 6 min

A model that is through leaves one line above it. Where there is no terminal, the line is written once a minute.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from opscope.base.live.status_line import MINUTE, SECOND, Estimate, StatusLine, duration
from opscope.base.terminal import plain
from opscope.base.visible_text import counted, one_line
from opscope.harness.record.stages import FAILED, Status

Event = Mapping[str, Any]
"""A message from the preparation: `event` (`models`, `stage`, `op`, `done`, ...), `model`, `stage`, `done`, `total`."""


PHASES = {
    "export": "exported",
    "split": "split into single ops",
    "golden": "goldens of {ops} evaluated",
    "import": "checked against its own framework",
    "whole": "run as one program",
}
"""The words of a plain line for each phase of the preparation."""
NOW = {
    "export": "exporting",
    "split": "splitting",
    "golden": "golden",
    "import": "checking the import against its framework",
    "whole": "running it as one program",
}
"""The words of the line that lives while a phase of the preparation is under way."""
PREPARED = frozenset({"done", "failed"})
"""Events that end the preparation of a model."""


class Quiet:
    """Shows nothing of a run; what shows something of it has these methods too."""

    replaces_letters = False
    """Whether it replaces pytest's own letter per test."""

    def doing(self, what: str) -> None:
        """Says what is being done besides ops: `writing report.html`."""

    def prepared(self, event: Event) -> None:
        """Shows a step of the preparation."""

    def begin(self, tests: Sequence[str]) -> None:
        """Starts the display of the ops, whose tests have these ids."""

    def started(self, test: str) -> None:
        """Shows that an op is under way."""

    def ended(self, test: str, status: Status, expected: bool) -> None:
        """Shows that an op ended."""

    def close(self) -> None:
        """Ends the display and restores the terminal. May be called twice; the next step opens it again."""


class State:
    """How far a run is, as one line."""

    def __init__(self) -> None:
        self._doing, self._since = "preparing", time.monotonic()
        self._phase = ""
        self._models, self._ready = 0, 0
        self._left: Counter[str] = Counter()
        self._asked = self._ended = 0
        self._running: dict[str, float] = {}
        self._failed = 0
        self._estimate = Estimate()

    def doing(self, what: str) -> None:
        """What is being done besides ops, from now on."""
        if what != self._doing:
            self._doing, self._since = what, time.monotonic()

    def prepared(self, event: Event) -> None:
        """A step of the preparation."""
        kind = event.get("event")
        if kind == "models":
            self._models = int(event["total"])
        elif kind in PREPARED:
            self._ready += 1
        elif kind == "op":
            if NOW["golden"] not in self._phase:  # the first count comes after some ops
                self._phase = f"{event['model']} · {NOW['golden']}"
            self.doing(" · ".join(filter(None, (self._phase, str(event["op"])))))
            self._since -= float(event["seconds"])
        elif kind == "stage":
            stage, total = str(event.get("stage", "")), event.get("total") or 0
            count = f" {event.get('done', 0)}/{total}" if total and total > 1 else ""
            self._phase = f"{event.get('model', '')} · {NOW.get(stage, stage)}{count}"
            self.doing(self._phase)

    def begin(self, tests: Sequence[str]) -> None:
        """The ops begin."""
        self._left = Counter(map(model_of, tests))
        self._models, self._asked, self._ended, self._failed = len(self._left), len(tests), 0, 0
        self._estimate = Estimate()
        self._estimate.count(0)
        self.doing("")

    def started(self, test: str) -> None:
        """An op is under way."""
        self._running[test] = time.monotonic()

    def ended(self, test: str, status: Status, expected: bool) -> bool:
        """An op ended; whether its model is through."""
        self._running.pop(test, None)
        self._ended += 1
        self._failed += (status in FAILED) != expected
        self._estimate.count(self._ended)
        model = model_of(test)
        self._left[model] -= 1
        if self._ended == self._asked:
            self.doing("ending the run")
        return self._left[model] == 0

    def text(self) -> str:
        """The line: models and ops of how many, the op that has been under way longest, when all will be done."""
        now = time.monotonic()
        if self._doing or not self._asked:
            model = f"model {min(self._ready + 1, self._models)}/{self._models}" if self._models > 1 else ""
            parts = [model if not self._asked else "", self._doing, duration(now - self._since)]
        else:
            through = sum(not count for count in self._left.values())
            running = list(self._running.items())
            op, since = min(running, key=lambda pair: pair[1]) if running else ("", 0.0)
            parts = [
                f"model {min(through + 1, self._models)}/{self._models}",
                f"op {self._ended}/{self._asked}",
                f"{_op_name(op)} {duration(now - since)}" if op else "",
                self._estimate.text(self._asked),
                f"{self._failed} failed" if self._failed else "",
            ]
        return one_line(" · ".join(filter(None, parts)))


def model_of(test: str) -> str:
    """The model in the id of a test."""
    return test.partition("::")[0]


def _op_name(test: str) -> str:
    """The name of the op in the id of its test: `mnist_mlp::stablehlo.add[0f3a]`."""
    return test.partition("::")[2].partition("[")[0] or test


class _Shown(Quiet):
    """A display whose line is open from the first step on."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        self._write_line = write_line
        self._state = State()
        self._line: StatusLine | None = None

    def _status_line(self) -> StatusLine:
        raise NotImplementedError

    def _open(self) -> State:
        if self._line is None:
            self._line = self._status_line()
        return self._state

    def doing(self, what: str) -> None:
        """Shows it in the line."""
        self._open().doing(what)

    def prepared(self, event: Event) -> None:
        """Shows the step in the line."""
        self._open().prepared(event)

    def begin(self, tests: Sequence[str]) -> None:
        """Shows the ops in the line from now on."""
        self._open().begin(tests)

    def started(self, test: str) -> None:
        """Shows the op in the line."""
        self._open().started(test)

    def ended(self, test: str, status: Status, expected: bool) -> None:
        """Counts the op."""
        self._open().ended(test, status, expected)

    def close(self) -> None:
        """Ends the line."""
        if self._line is not None:
            self._line.close()
        self._line = None


class Lines(_Shown):
    """A plain line for each phase of a model that took a second, and one a minute; the ops are pytest's letters."""

    def __init__(self, write_line: Callable[[str], None], minute: float = MINUTE) -> None:
        super().__init__(write_line)
        self._minute = minute
        self._since: dict[tuple[str, str], float] = {}
        """Model and phase -> when that began; several models may be under way, and several phases of one."""
        self._written: set[tuple[str, str]] = set()
        """Models and their phases that have a line: a walk takes up what a split has done, and says so again."""

    def _status_line(self) -> StatusLine:
        write_line = self._write_line
        return StatusLine(self._state.text, write_line=lambda text: write_line(f"opscope: {text}"), minute=self._minute)

    def prepared(self, event: Event) -> None:
        """Writes a line when a phase is complete."""
        super().prepared(event)
        if event.get("event") != "stage":
            return
        now, model, stage = time.monotonic(), str(event.get("model", "")), str(event.get("stage"))
        phase = model, stage
        since = self._since.setdefault(phase, now)
        if not event.get("total") or event.get("done") != event.get("total"):
            return
        if phase not in self._written and now - since >= SECOND:
            self._written.add(phase)
            done = PHASES.get(stage, "{total} steps of {stage}").format(**event, ops=counted(event["total"], "op"))
            self._write_line(f"opscope: {model}: {done} in {now - since:.1f} s")


class Live(_Shown):
    """The line on a terminal, and above it a line for each model that is through."""

    replaces_letters = True

    def __init__(self, file: TextIO, write_line: Callable[[str], None], second: float = SECOND) -> None:
        super().__init__(write_line)
        self._file, self._second = file, second
        self._counts: dict[str, Counter[str]] = {}
        self._begun: dict[str, float] = {}

    def _status_line(self) -> StatusLine:
        return StatusLine(self._state.text, terminal=self._file, second=self._second)

    def begin(self, tests: Sequence[str]) -> None:
        """Shows the ops in the line from now on."""
        self._counts.clear()
        self._begun.clear()
        super().begin(tests)

    def started(self, test: str) -> None:
        """Shows the op in the line."""
        self._begun.setdefault(model_of(test), time.monotonic())
        super().started(test)

    def ended(self, test: str, status: Status, expected: bool) -> None:
        """Counts the op under its status, as an expected failure, or as one that passed unexpectedly."""
        word = ("known limitation" if status in FAILED else "unexpected pass") if expected else status.value
        model = model_of(test)
        counts = self._counts.setdefault(model, Counter())
        counts[word] += 1
        if self._open().ended(test, status, expected):
            seconds = time.monotonic() - self._begun.get(model, time.monotonic())
            endings = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
            ops = counted(counts.total(), "op")
            self._write_line(one_line(f"{model}: {ops} in {duration(seconds)}: {endings}"))


def display(*, terminal: bool, verbosity: int, file: TextIO, write_line: Callable[[str], None]) -> Quiet:
    """Chooses the display: none below verbosity 0, live on a terminal unless pytest lists each test (-v)."""
    if verbosity < 0:
        return Quiet()
    if terminal and verbosity == 0 and not plain():
        return Live(file, write_line)
    return Lines(write_line)
