"""Runs a failed op again to find out whether it fails every time, sometimes, or only because of the machine.

If all runs end alike, the failure is `deterministic`, or `varying` where their wrong results differ. Otherwise, if the
machine caused each failing run (a signal from outside, no memory, a full disk, a time limit while no processor was
free), it is `infrastructure`. Otherwise it is `flaky`. The record remains the original failure, whatever the later runs
give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from opscope.harness.record.errors import InputError
from opscope.harness.record.machine_faults import fault_of_machine, pressure
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import CODE, DETERMINISTIC, FAILED, VARYING, Status

FLAKY, INFRASTRUCTURE = "flaky", "infrastructure"

AGAIN = FAILED - {Status.NO_GOLDEN}
"""Statuses that another run might change."""

KNOWN_AFTER = 3
"""Once a compiler has refused this many ops every time with the same fingerprint, later ones are not run again."""


def outcome(test: OpTest) -> str:
    """Describes how a run ended in one line: status, stage, kind of crash, fingerprint."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    crash = f" ({test.crash_kind})" if test.crash_kind else ""
    return f"{test.status}{crash}{stage}{f' {test.error_signature}' if test.error_signature else ''}"


def _results(test: OpTest) -> str:
    """The digests of the results of a run."""
    return ", ".join(f"result {n} {check.digest}" for n, check in enumerate(test.results) if check.digest)


def _canary(runs: list[OpTest]) -> str:
    """What the canaries of the runs say: the worst, as a card or a node may fail now and then."""
    told = [test.canary for test in runs if test.canary]
    return next((text for text in told if not text.startswith(CODE)), told[0] if told else "")


class Reruns:
    """The reruns of one process. It remembers which refusals of the compiler turned out to be deterministic."""

    def __init__(self, count: int) -> None:
        """`count` is how often a failed op is run again; 0 means never."""
        self.count = count
        self._proved: Counter[str] = Counter()

    def settled(self, test: OpTest) -> bool:
        """Whether a record needs no rerun: it did not fail, has a label already, or reruns are off."""
        return not self.count or test.status not in AGAIN or bool(test.stability)

    def label(self, test: OpTest, run: Callable[[], OpTest], go_on: Callable[[], bool] = lambda: True) -> OpTest:
        """Returns `test` with its label. `run` runs the op again in a fresh lane, as long as `go_on()` is true.

        Without any rerun, there is no label.
        """
        if self.settled(test):
            return test
        refusal = f"{test.failed_stage} {test.error_signature}" if test.status is Status.COMPILE_FAILED else ""
        if self._proved[refusal] >= KNOWN_AFTER:
            return test.model_copy(update={"stability": DETERMINISTIC, "outcomes": (outcome(test),)})
        runs, machine = [test], [fault_of_machine(test, pressure())]
        with suppress(InputError):  # lanes no longer start, which the next op reports if there is one
            for _ in range(self.count):
                if not go_on():
                    break
                if (again := run()).status is Status.NOT_RUN:  # killed from outside, which says nothing
                    break
                runs.append(again)
                if runs[-1].status in FAILED:
                    machine.append(fault_of_machine(runs[-1], pressure()))
        if len(runs) == 1:
            return test
        ends, results = tuple(outcome(each) for each in runs), [_results(each) for each in runs]
        if len(set(ends)) == 1 and len(set(results)) > 1:
            label = VARYING
        elif len(set(ends)) == 1:
            label = DETERMINISTIC
            if refusal:
                self._proved[refusal] += 1
        else:
            label = INFRASTRUCTURE if all(machine) else FLAKY
        if len({result for result in results if result}) > 1:
            ends = tuple(f"{end}: {result}" if result else end for end, result in zip(ends, results, strict=True))
        more = {} if label == DETERMINISTIC else {"canary": _canary(runs)}
        return test.model_copy(
            update={"stability": label, "flaky": label not in (DETERMINISTIC, VARYING), "outcomes": ends, **more}
        )
