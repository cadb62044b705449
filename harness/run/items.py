"""The tests of an op-by-op run: one collector per model, one test per unique op."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from opscope.base.op_families import op_family
from opscope.base.visible_text import one_line, visible
from opscope.harness.engine.engine import Done
from opscope.harness.limitations.limitations import Verdict, judged
from opscope.harness.page.failure_text import AGAIN
from opscope.harness.page.summary import with_short_paths
from opscope.harness.record.causes import cause_of_test, short
from opscope.harness.record.optest import title
from opscope.harness.record.records import ImportCheck, ModelFailure, OpRow, OpTest
from opscope.harness.record.stages import FAILED, VARYING, ModelStatus, Status
from opscope.harness.run import junit_properties, plan


class OpFailed(Exception):
    """An op failed and no limitation names the failure, or it passed although a limitation says that it fails."""

    def __init__(self, test: OpTest, why: str = "") -> None:
        super().__init__(test.error_message or test.expected or test.status.value)
        self.test, self.why = test, why


class ModelFailed(Exception):
    """A model was not exported."""


class Heading(pytest.Item):
    """A test with a heading in pytest's output, whose failures are short: internal errors alone keep a trace."""

    def __init__(self, heading: str, **kwargs: Any) -> None:
        # As text, which pytest parses like the ids that --lf kept, so that the two compare equal.
        super().__init__(nodeid=f"{kwargs['parent'].name}::{kwargs['name']}", **kwargs)
        self._heading = heading

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure in a few lines: of an op where, why, how far off, how to run it again."""
        if isinstance(excinfo.value, OpFailed):
            return _failure_text(excinfo.value, self.config.invocation_params.dir)
        if isinstance(excinfo.value, ModelFailed | pytest.xfail.Exception):
            return visible(str(excinfo.value))
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """The heading of the test."""
        return self.path, None, one_line(self._heading)

    def end(self, test: OpTest, verdict: Verdict) -> None:
        """Turns a record into the outcome of the test."""
        if verdict.outcome == "xfail":
            pytest.xfail(one_line(verdict.reason))
        if verdict.outcome == "fail" or test.expected:  # the latter only with --runxfail, which makes xfail() a no-op
            raise OpFailed(test, verdict.reason)
        if test.status is Status.GOLDEN_IN_DOUBT:
            pytest.skip(one_line(f"golden in doubt: {test.error_message}"))
        if test.status in (Status.SKIPPED, Status.NOT_RUN):
            pytest.skip(one_line(test.error_message or test.status.value))


class ModelOps(pytest.Collector):
    """The ops whose first use is in one model."""

    def __init__(self, *, rows: Sequence[OpRow], tags: Sequence[str], **kwargs: Any) -> None:
        super().__init__(nodeid=kwargs["name"], **kwargs)
        self._rows, self._tags = rows, tags

    def collect(self) -> Iterable[pytest.Item]:
        """One test per op, in the model's order."""
        for row in self._rows:
            for tag in self._tags:
                yield OpItem.from_parent(self, name=plan.name(row, tag), row=row, tag=tag)


class OpItem(Heading):
    """One unique op on its way up the ladder of one backend; `tag` is its name where the run has several."""

    done: Done | None = None
    """What the engine has made of it, from then on."""

    def __init__(self, *, row: OpRow, tag: str = "", **kwargs: Any) -> None:
        # Not the end of the id, where pytest would show dots as colons: the ids that -v lists could not be used again.
        place = f" on {tag}" if tag else ""
        super().__init__(f"{row.uses[0].model}: {row.op_name} [{row.op_id}]{place}", **kwargs)
        self.row, self.tag = row, tag
        # -k matches these besides the name: every model that uses the op, and the op's family.
        self.extra_keyword_matches.update(use.model for use in row.uses)
        self.extra_keyword_matches.add(op_family(row.op_name))

    def runtest(self) -> None:
        """Turns the record of the op into the outcome of the test."""
        assert self.done is not None
        test, verdict = self.done.test, self.done.verdict
        ours = junit_properties.of_test(test)
        names = {name for name, _ in ours}
        self.user_properties[:] = [*(own for own in self.user_properties if own[0] not in names), *ours]
        self.end(test, verdict)


class WholeModel(pytest.Collector):
    """A model that ran as one program before any op (`--op-by-op-on-fail`)."""

    def __init__(self, *, tests: Sequence[OpTest], **kwargs: Any) -> None:
        super().__init__(nodeid=kwargs["name"], **kwargs)
        self._tests = tests

    def collect(self) -> Iterable[pytest.Item]:
        """One test per backend."""
        for test in self._tests:
            yield WholeItem.from_parent(self, name=f"whole[{test.backend}]", test=test)


class WholeItem(Heading):
    """The test of a model as one program, which ran before the tests were collected."""

    def __init__(self, *, test: OpTest, **kwargs: Any) -> None:
        super().__init__(f"{test.model_name}: as one program on {test.backend}", **kwargs)
        self._test = test

    def runtest(self) -> None:
        """Turns the record into the outcome of a test."""
        self.end(*judged(self._test))


class FailedModel(pytest.Collector):
    """A model whose ops cannot be run; its one test fails or is skipped."""

    def __init__(self, *, failure: ModelFailure, **kwargs: Any) -> None:
        super().__init__(nodeid=kwargs["name"], **kwargs)
        self._failure = failure

    def collect(self) -> Iterable[pytest.Item]:
        """The one test."""
        yield ModelItem.from_parent(self, name="export", failure=self._failure)


class ImportedModel(pytest.Collector):
    """A model whose import differs from its own framework, or is expected to."""

    def __init__(self, *, check: ImportCheck, **kwargs: Any) -> None:
        super().__init__(nodeid=kwargs["name"], **kwargs)
        self._check = check

    def collect(self) -> Iterable[pytest.Item]:
        """The one test."""
        yield ImportItem.from_parent(self, name="import", check=self._check)


class ImportItem(Heading):
    """The test of a model's import, which was checked against its framework before the tests were collected."""

    def __init__(self, *, check: ImportCheck, **kwargs: Any) -> None:
        super().__init__(f"{check.model}: import", **kwargs)
        self._check = check

    def runtest(self) -> None:
        """Fails with how the import differs; a difference that a limitation names is an expected failure."""
        check = self._check
        if not check.fails_run:
            pytest.xfail(one_line(check.expected))
        raise ModelFailed(check.text)


class ModelItem(Heading):
    """Fails with the model's error, or is skipped if its framework is not installed or the budget was spent."""

    def __init__(self, *, failure: ModelFailure, **kwargs: Any) -> None:
        super().__init__(f"{failure.model}: export", **kwargs)
        self._failure = failure

    def runtest(self) -> None:
        """Fails with the error of the model, or skips the test where a framework or the time is missing."""
        failure = self._failure
        if failure.status in (ModelStatus.FRAMEWORK_MISSING, ModelStatus.NOT_RUN):
            pytest.skip(visible(failure.error))
        traceback = f"\ntraceback {failure.artifact} in the run folder" if failure.artifact else ""
        raise ModelFailed(f"{failure.status.value}: {failure.error}{traceback}")


def _failure_text(failed: OpFailed, folder: Path) -> str:
    """The lines of a failure, with short paths but for the last one, which runs in any folder."""
    *text, again = map(one_line, failure_lines(failed.test, failed.why))
    return "\n".join([with_short_paths("\n".join(text), folder), again])


def failure_lines(test: OpTest, why: str = "") -> list[str]:
    """The lines that are printed for an op that failed."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    # The verdict comes first, because pytest repeats the first line in its short summary.
    verdict = f"{test.status.value}{stage}: {test.error_message or test.crash_kind or ''}".rstrip(": ")
    lines = [verdict if test.status in FAILED else test.expected, title(test)]
    if why and why != test.expected:
        lines.append(why)
    for location in test.locations[:1]:
        lines.append(f"from {location}" + (f" and {test.uses - 1} more uses" if test.uses > 1 else ""))
    if test.holds:
        lines.append(f"holds {', '.join(held.op_name for held in test.holds)}")
    bad = [(n, r) for n, r in enumerate(test.results) if not r.passed]
    for n, r in bad[:1]:
        numbers = (("z", r.z_max), ("pcc", r.pcc), ("relative L2", r.relative_l2), ("largest difference", r.max_abs))
        figures = ", ".join(f"{name} {value:.6g}" for name, value in numbers if value is not None)
        lines.append(
            f"result {n}: {r.reason or 'outside its tolerance'} ({figures or 'no numbers'}; row {r.tolerance})"
        )
    if test.error_signature:
        lines.append(f"signature {test.error_signature}")
    if cause := cause_of_test(test):
        lines.append(f"cause {short(cause)}")
    if test.flaky:
        lines.append(f"{test.stability}: its runs ended as {'; '.join(test.outcomes)}")
    elif test.stability == VARYING:
        lines.append(f"{VARYING}: wrong in all {len(test.outcomes)} runs, and not alike: {'; '.join(test.outcomes)}")
    elif test.outcomes:
        lines.append(f"{test.stability}: the same in all {len(test.outcomes)} runs")
    if test.canary:
        lines.append(f"canary {test.canary}")
    if test.artifact:
        lines.append(f"diagnostic {test.artifact} in the run folder")
    lines.append(f"{AGAIN}{test.repro}")
    return lines
